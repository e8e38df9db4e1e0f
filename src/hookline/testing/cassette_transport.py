"""The transports under a cassette: one that listens to the network, and one that has no network."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import NoReturn

import httpx2

from hookline.errors import CassetteError
from hookline.testing.cassette_file import (
    ExchangeRecorder,
    LostConnection,
    RecordedAnswer,
    body_pieces,
)

_CONNECTIONS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
_PATIENCE = 3.0
"""Seconds that a client has to hang up where it did in the recording."""
_KEPT = ("content-type", "location", "retry-after", "retry-after-ms")
"""The headers of an answer that are kept. Nobody knows what is in the others."""


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Hands requests on to the network and notes what comes back. The client sees what it will see on replay."""

    def __init__(
        self, begin: Callable[[httpx2.Request], ExchangeRecorder], closed: Callable[[], None]
    ) -> None:
        self._begin = begin
        self._closed = closed
        # A whole client, because it knows about proxies.
        self._network = httpx2.AsyncClient(verify=_make_ssl_context(), limits=_CONNECTIONS)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and note it."""
        await request.aread()
        take = self._begin(request)
        try:
            answer = await self._network.send(request, stream=True)
        except httpx2.RequestError as error:
            take.end(_to_lost_connection(error))
            raise
        except BaseException:
            take.end(left=True)
            raise
        headers = _select_headers(answer.headers)
        take.add_head(answer.status_code, headers)
        return httpx2.Response(answer.status_code, headers=headers, stream=_Heard(answer, take))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._network.aclose()
        self._closed()


class _Heard(httpx2.AsyncByteStream):
    """A body that is noted as it is read, unpacked if it was packed."""

    def __init__(self, answer: httpx2.Response, take: ExchangeRecorder) -> None:
        self._answer = answer
        self._take = take

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.aiter_bytes():
                self._take.add_chunk(chunk)
                yield chunk
        except httpx2.RequestError as error:
            self._take.end(_to_lost_connection(error))
            raise
        self._take.end()

    async def aclose(self) -> None:
        self._take.end(left=True)
        await self._answer.aclose()


class ReplayTransport(httpx2.AsyncBaseTransport):
    """Answers from a recording. It has nothing that could reach a network."""

    def __init__(self, play: Callable[[httpx2.Request], RecordedAnswer]) -> None:
        self._play = play

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The recorded answer to a request; what was lost then is lost again."""
        await request.aread()
        try:
            answer = self._play(request)
        except CassetteError as error:
            # Clients wrap what they do not know. This they pass on, and providers find the reason beneath it.
            raise httpx2.ConnectError(error.message, request=request) from error
        if not answer.status and answer.lost:
            raise _loss(answer.lost, request)
        if not answer.status:
            await _silence(request)
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_RecordedBody(answer, request)
        )


class _RecordedBody(httpx2.AsyncByteStream):
    """A recorded body. Others get their turn between its pieces, as they would while a network is waited for."""

    def __init__(self, answer: RecordedAnswer, request: httpx2.Request) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in body_pieces(self._answer):
            await asyncio.sleep(0)
            yield piece
        if self._answer.lost is not None:
            raise _loss(self._answer.lost, self._request)
        if self._answer.left:
            await _silence(self._request)


@cache
def _make_ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()  # it takes long, and a test may make many clients


def _select_headers(headers: httpx2.Headers) -> dict[str, str]:
    kept = {name: headers[name] for name in _KEPT if name in headers}
    if not kept.get("retry-after", "0").strip().isdigit() and "date" in headers:
        kept["date"] = headers["date"]  # the clock that a date in retry-after belongs to
    return kept


def _to_lost_connection(error: httpx2.RequestError) -> LostConnection:
    return LostConnection(type(error).__name__, str(error))


def _loss(lost: LostConnection, request: httpx2.Request) -> httpx2.RequestError:
    kind = getattr(httpx2, lost.kind, None)
    if not isinstance(kind, type) or not issubclass(kind, httpx2.RequestError):
        kind = httpx2.ReadError
    return kind(lost.message, request=request)


async def _silence(request: httpx2.Request) -> NoReturn:
    """Say nothing more until the client hangs up, as it did when this was recorded."""
    await asyncio.sleep(_PATIENCE)
    raise httpx2.ReadError("nothing more was recorded", request=request) from CassetteError(
        "the cassette has only the beginning of this answer: the recording stopped there, and this run did not.",
        remedy="Delete the file to record it again.",
    )
