"""Gemini, through the official `google-genai` client."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

import httpx2
from google import genai
from google.genai import errors, types

from hookline.errors import (
    ConnectionLostError,
    MalformedResponseError,
    ModelError,
    UnsupportedError,
)
from hookline.providers.base import Piece
from hookline.providers.failures import find_key, paying, said
from hookline.providers.google_answer import Answer
from hookline.providers.google_failures import failure_of
from hookline.providers.google_messages import NAME, config_of, contents_of
from hookline.providers.http import CONNECT_TIMEOUT, HTTPProvider
from hookline.state import InferenceRequest

_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_KEY_HEADER = "x-goog-api-key"
_CONNECTIONS = httpx2.Limits(max_keepalive_connections=100, keepalive_expiry=60.0)
"""As many as there are agents; kept for as long as a tool may take between two steps."""

_Opened: TypeAlias = list[httpx2.Response]
_opened: ContextVar[_Opened | None] = ContextVar("hookline_google_opened", default=None)
"""Where the answers that are being opened are noted, so that they can be closed without the client's help."""


class _Line(NamedTuple):
    """The client, and the connections it was given. It has no others."""

    client: genai.Client
    connections: httpx2.AsyncClient
    unused: httpx2.Client


class GoogleProvider(HTTPProvider[_Line]):
    """Models of the Gemini API, over the official client.

    The key is found in GOOGLE_API_KEY or GEMINI_API_KEY and the address in GOOGLE_GEMINI_BASE_URL, unless they are
    given. A server at another address may need no key; `api_key=""` keeps the one in the environment from being
    sent there. `timeout` is how many seconds may pass without a sign of life. A `cassette` (see
    hookline.testing) records what is asked, or answers it.
    """

    _name = NAME
    _home = "https://generativelanguage.googleapis.com"
    _address_variable = "GOOGLE_GEMINI_BASE_URL"

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model. An answer too long for one request is asked for in several."""
        contents, config = contents_of(request), config_of(request)
        answer = Answer(request)
        token: bytes | None = None
        with paying(answer.spent):
            while True:
                asked = {"model": request.model, "contents": contents, "config": config}
                async with aclosing(self._chunks(asked, streamed=streamed)) as chunks:
                    async for chunk in chunks:
                        for piece in answer.read(chunk):
                            yield piece
                if not answer.is_over:
                    raise _unfinished(streamed)
                token = answer.continued(token)
                if token is None:
                    break
                config = config.model_copy(update={"continuation_token": token})
        yield answer.end()

    async def _chunks(
        self, asked: dict[str, Any], *, streamed: bool
    ) -> AsyncGenerator[types.GenerateContentResponse, None]:
        """What the client reads, with its exceptions as ours. Leaving early hangs up at once."""
        models = (await self._clients.get()).client.aio.models
        opened: _Opened = []
        stream: AsyncIterator[types.GenerateContentResponse] | None = None
        failure: ModelError | None = None
        try:
            if streamed:
                stream = await models.generate_content_stream(**asked)
                while (chunk := await _next(stream, opened)) is not None:
                    yield chunk
            else:
                with _noting(opened):
                    chunk = await models.generate_content(**asked)
                yield chunk
        except Exception as error:
            failure = self._failure(error, asked["model"], is_answered=bool(opened))
        finally:
            await _hang_up(opened, stream)
        if failure is not None:
            raise failure

    def _failure(self, error: Exception, model: str, *, is_answered: bool) -> ModelError:
        if isinstance(error, errors.APIError):
            return failure_of(error, model=model, secrets=self._secrets)
        if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | httpx2.StreamError | OSError):
            return self._transport_failure(error)
        what = said(str(error), self._secrets).rstrip(".")
        if is_answered:
            return MalformedResponseError(
                f"google: the answer is not what the API says it sends ({what}).",
                remedy="Try again; if it stays so, check base_url and the version of google-genai.",
            )
        return UnsupportedError(
            f"google: the client does not take this request ({what}).",
            remedy="Correct the model's name, the messages or the options.",
        )

    def _find_key(self, given: str | None) -> str:
        for name in [name for name in self._headers if name.lower() == _KEY_HEADER]:
            own = self._headers.pop(name)
            given = given or own
        set_first = sorted(_KEYS, key=lambda variable: not os.environ.get(variable))
        key = find_key(NAME, given, *set_first)
        if not key and not self._has_header("authorization"):
            self._require_key("GEMINI_API_KEY")
        return key

    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> _Line:
        # The client is given its connections: those it would make follow a redirection with the key to any host,
        # and where aiohttp is installed they retry.
        trusted = httpx2.create_ssl_context()
        hooks: dict[str, list[Callable[..., Any]]] = {
            "request": [self._prepare],
            "response": [_note],
        }
        connections = httpx2.AsyncClient(
            verify=trusted,
            event_hooks=hooks,
            limits=_CONNECTIONS,
            transport=transport,
        )
        unused = httpx2.Client(verify=trusted)
        options = types.HttpOptions(
            base_url=self._url,
            headers=self._headers,
            timeout=max(1, round(self._timeout * 1000)),
            httpx_async_client=connections,
            httpx_client=unused,
            async_client_args={"ssl": trusted},  # for web sockets: it takes long to make another
        )
        # The client insists on a key; where there is none, its header is taken off each request.
        client = genai.Client(vertexai=False, api_key=self._key or "none", http_options=options)
        return _Line(client, connections, unused)

    async def _close_client(self, client: _Line) -> None:
        client.unused.close()
        await client.connections.aclose()

    async def _prepare(self, request: httpx2.Request) -> None:
        # The client has one time for reaching a host and for waiting for its model.
        waits = request.extensions.get("timeout", {})
        request.extensions["timeout"] = {**waits, "connect": min(CONNECT_TIMEOUT, self._timeout)}
        if not self._key:
            del request.headers[_KEY_HEADER]


async def _note(response: httpx2.Response) -> None:
    opened = _opened.get()
    if opened is not None:
        opened.append(response)


@contextmanager
def _noting(opened: _Opened) -> Iterator[None]:
    before = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(before)


async def _next(
    stream: AsyncIterator[types.GenerateContentResponse], opened: _Opened
) -> types.GenerateContentResponse | None:
    with _noting(opened):
        return await anext(stream, None)


async def _hang_up(
    opened: _Opened, stream: AsyncIterator[types.GenerateContentResponse] | None
) -> None:
    """Close the connection of an answer that may not be over.

    The client would leave that to the garbage collector: its generators do not close the ones they read from. They
    come to their ends by finding the connection closed.
    """
    for response in opened:
        await response.aclose()
    if opened and stream is not None:
        with suppress(Exception):
            while await anext(stream, None) is not None:
                pass


def _unfinished(streamed: bool) -> ModelError:
    if streamed:
        return ConnectionLostError(
            "google: the stream ended before the answer was over.", remedy="Try again."
        )
    return MalformedResponseError("google: the answer holds no answer.", remedy="Try again.")
