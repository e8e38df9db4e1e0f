"""Anthropic's models, and whatever else speaks its messages protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

import anthropic
import httpx2

from hookline.errors import ModelError, UnsupportedError
from hookline.providers.anthropic_answers import Answer
from hookline.providers.anthropic_events import malformed
from hookline.providers.anthropic_failures import FarEnd, failure
from hookline.providers.anthropic_messages import NAME, body_of
from hookline.providers.base import EndPiece, Piece
from hookline.providers.carriers import Carrier
from hookline.providers.failures import find_key, paying, said
from hookline.providers.http import CONNECT_TIMEOUT, HTTPProvider
from hookline.providers.prices import with_cost
from hookline.state import NO_USAGE, InferenceRequest, Usage

_PATH = "/v1/messages"
_LONGEST_UNSTREAMED = 21_333
"""Tokens beyond which an answer may take ten minutes: a connection that is silent for so long does not hold."""
_MOST_PAUSES = 16
"""How often an answer may be taken up again. Each time is a request that no limit of the run has seen yet."""

_CLIENT_ERRORS = (
    anthropic.AnthropicError,
    httpx2.HTTPError,
    httpx2.StreamError,
    OSError,
)
"""What the client raises, and what it lets through of its transport's."""
_NOT_JSON = (TypeError, ValueError, RecursionError)
"""What it raises over what cannot be written as JSON, or read as JSON in UTF-8."""

_Events: TypeAlias = anthropic.AsyncStream[object]


class AnthropicProvider(HTTPProvider[anthropic.AsyncAnthropic]):
    """The messages protocol, over the official client.

    The key is found in ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN and the address in ANTHROPIC_BASE_URL, unless they
    are given. A server at another address may need no key; `api_key=""` keeps the one in the environment from being
    sent there. `timeout` is how many seconds may pass without a sign of life. `cache=False` leaves out the marks
    that have the provider keep the conversation for the next request. A `cassette` (see hookline.testing) records
    what is asked, or answers it.
    """

    _name = NAME
    _home = "https://api.anthropic.com"
    _address_variable = "ANTHROPIC_BASE_URL"

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        cache: bool = True,
        cassette: Carrier | None = None,
    ) -> None:
        super().__init__(
            api_key=api_key, base_url=base_url, timeout=timeout, headers=headers, cassette=cassette
        )
        self._cache = cache

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider. An answer that the far end pauses is taken up again where it stopped."""
        body = body_of(request, cache=self._cache)
        streamed = streamed or _takes_long(body)
        answers: list[Answer] = []
        with paying(lambda: self._spent(answers)):
            while True:
                answer = Answer(answers[-1].next_index if answers else 0)
                answers.append(answer)
                async with aclosing(self._pieces(body, answer, streamed=streamed)) as pieces:
                    async for piece in pieces:
                        yield piece
                answer.check()
                if not answer.is_paused or len(answers) == _MOST_PAUSES:
                    break
                so_far = {"role": "assistant", "content": answer.blocks()}
                body["messages"] = [*body["messages"], so_far]
        yield EndPiece(self._usage(answers), answer.model, answer.finish)

    # The client's own models of the protocol are left aside: they follow one version of the API in requests and check
    # nothing in answers. Its transport, its errors and its reading of streams are what we use.

    async def _pieces(
        self, body: dict[str, Any], answer: Answer, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        if not streamed:
            for piece in answer.read(await self._whole(body)):
                yield piece
            return
        events = await self._open({**body, "stream": True})
        try:
            while (event := await self._next(events, body["model"])) is not None:
                for piece in answer.read_event(event):
                    yield piece
        finally:
            await events.close()
        if not answer.is_over:
            raise self._failure(EOFError(), body["model"])

    async def _whole(self, body: dict[str, Any]) -> bytes:
        try:
            client = await self._clients.get()
            response = await client.post(
                _PATH, cast_to=httpx2.Response, body=body, options=self._options
            )
            return response.content
        except _CLIENT_ERRORS as error:
            problem = self._failure(error, body["model"])
        except _NOT_JSON as error:
            problem = self._unwritable(error)
        raise problem

    async def _open(self, body: dict[str, Any]) -> _Events:
        try:
            client = await self._clients.get()
            events = await client.post(
                _PATH,
                cast_to=object,
                body=body,
                options=self._options,
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
        except _CLIENT_ERRORS as error:
            problem = self._failure(error, body["model"])
        except _NOT_JSON as error:
            problem = self._unwritable(error)
        else:
            kind = events.response.headers.get("content-type", "")
            if "event-stream" in kind:
                return events
            await events.close()
            problem = malformed(f"events were asked for, and '{said(kind)}' came")
        raise problem

    async def _next(self, events: _Events, model: str) -> object | None:
        """The next event of a stream; None when there is no more."""
        try:
            return await anext(events)
        except StopAsyncIteration:
            return None
        except _CLIENT_ERRORS as error:
            problem = self._failure(error, model)
        except _NOT_JSON as error:
            problem = malformed(said(str(error)))
        raise problem

    def _usage(self, answers: list[Answer]) -> Usage:
        """What these answers used, at the price of whoever gave them."""
        url = "" if self._is_home else self._url
        costs = (with_cost(each.usage(), NAME, each.model, url=url) for each in answers)
        return sum(costs, NO_USAGE)

    def _spent(self, answers: list[Answer]) -> Usage | None:
        """What was used by answers that came to nothing; None when the far end has counted nothing."""
        counted = [each for each in answers if each.is_counted]
        return self._usage(counted) if counted else None

    def _failure(self, error: Exception, model: str) -> ModelError:
        if isinstance(error, anthropic.APIStatusError):
            return failure(error, FarEnd(model, self._is_home, self._secrets))
        if any(isinstance(each, httpx2.DecodingError) for each in (error, error.__cause__)):
            return malformed("it cannot be unpacked")
        return self._transport_failure(error)

    def _unwritable(self, error: Exception) -> ModelError:
        return UnsupportedError(
            f"anthropic: the request cannot be written as JSON: {said(str(error), self._secrets)}.",
            remedy="Give only JSON values as options.",
        )

    def _find_key(self, given: str | None) -> str:
        key = find_key(NAME, given, "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
        if not key and not self._has_header("authorization", "x-api-key"):
            self._require_key("ANTHROPIC_API_KEY")
        return key

    @property
    def _options(self) -> anthropic.RequestOptions:
        # A redirection would take the conversation, and perhaps a key, to a host that nobody named.
        options: anthropic.RequestOptions = {"follow_redirects": False}
        if not self._key and not self._has_header("authorization"):
            options["headers"] = {"Authorization": anthropic.omit}
        return options

    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            http_client=None
            if transport is None
            else anthropic.DefaultAsyncHttpxClient(transport=transport),
            api_key=self._key or "none",  # never sent: the header is left out of each request
            base_url=self._url,
            timeout=anthropic.Timeout(self._timeout, connect=min(self._timeout, CONNECT_TIMEOUT)),
            max_retries=0,
            default_headers=self._headers,
        )

    async def _close_client(self, client: anthropic.AsyncAnthropic) -> None:
        await client.close()


def _takes_long(body: dict[str, Any]) -> bool:
    most = body["max_tokens"]
    return isinstance(most, int) and most > _LONGEST_UNSTREAMED
