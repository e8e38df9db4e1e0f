"""Gemini, through the official `google-genai` client."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
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
from hookline.providers.failures import (
    ErrorReport,
    charging,
    clean_text,
    end_sentence,
    failure,
    retry_after,
)
from hookline.providers.google_answer import GoogleAnswer
from hookline.providers.google_request import NAME, config_of, contents_of
from hookline.providers.http import CONNECT_TIMEOUT, HTTPProvider
from hookline.state import InferenceRequest

_KEY_HEADER = "x-goog-api-key"
_CONNECTIONS = httpx2.Limits(max_keepalive_connections=100, keepalive_expiry=60.0)
"""As many as there are agents; kept for as long as a tool may take between two steps."""

_Opened: TypeAlias = list[httpx2.Response]
_opened: ContextVar[_Opened | None] = ContextVar("hookline_google_opened", default=None)
"""Where the answers that are being opened are noted, so that they can be closed without the client's help."""


class _Client(NamedTuple):
    """The client, and the connections it was given. It has no others."""

    client: genai.Client
    connections: httpx2.AsyncClient
    unused: httpx2.Client


class GoogleProvider(HTTPProvider[_Client]):
    """Models of the Gemini API, over the official client.

    The key is found in GOOGLE_API_KEY or GEMINI_API_KEY and the address in GOOGLE_GEMINI_BASE_URL, unless they are
    given. A server at another address may need no key; `api_key=""` keeps the one in the environment from being
    sent there. `timeout` is how many seconds may pass without a sign of life. A `cassette` (see
    hookline.testing) records what is asked, or answers it.
    """

    _name = NAME
    _home = "https://generativelanguage.googleapis.com"
    _address_variable = "GOOGLE_GEMINI_BASE_URL"
    _key_variable = "GEMINI_API_KEY"
    _key_variables = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    _models_page = "https://ai.google.dev/gemini-api/docs/models"
    _models_path = "/v1beta/models"

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model. An answer too long for one request is asked for in several."""
        contents, config = contents_of(request), config_of(request)
        answer = GoogleAnswer(request)
        token: bytes | None = None
        with charging(answer.used):
            while True:
                asked = {"model": request.model, "contents": contents, "config": config}
                async with aclosing(self._chunks(asked, streamed=streamed)) as chunks:
                    async for chunk in chunks:
                        for piece in answer.read(chunk):
                            yield piece
                if not answer.is_over:
                    raise _unfinished(streamed)
                token = answer.next_token(token)
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
            return self._api_failure(error, model)
        if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | httpx2.StreamError | OSError):
            return self._transport_failure(error)
        if is_answered:
            return self._malformed(error)
        problem = clean_text(str(error), self._secrets).rstrip(".")
        return UnsupportedError(
            f"google: the client does not take this request ({problem}).",
            remedy="Correct the model's name, the messages or the options.",
        )

    def _api_failure(self, error: errors.APIError, model: str) -> ModelError:
        details = tuple(_details(error.details))
        message = clean_text(str(error.message or error.status or ""), self._secrets)
        if error.status == "FAILED_PRECONDITION":
            return ModelError(
                end_sentence(f"google: {message}"),
                remedy="Check the account's billing, and where it may be used.",
            )
        is_bad_key = any(each.get("reason") == "API_KEY_INVALID" for each in details)
        report = ErrorReport(
            status=401 if is_bad_key else error.code,
            message=message,
            wait=_wait(error, details),
            remedy=_quota_remedy(details),
        )
        return failure(report, self._server(model))

    def _find_key(self, given: str | None) -> str:
        for name in [name for name in self._headers if name.lower() == _KEY_HEADER]:
            own = self._headers.pop(name)
            given = given or own
        return super()._find_key(given)

    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> _Client:
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
        return _Client(client, connections, unused)

    async def _close_client(self, client: _Client) -> None:
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


def _quota_remedy(details: Iterable[Mapping[str, Any]]) -> str:
    """A quota per day does not come back in seconds, whatever the server says about retrying."""
    quotas = [
        str(violation.get("quotaId", ""))
        for each in details
        for violation in each.get("violations") or ()
        if isinstance(violation, dict)
    ]
    if any("PerDay" in quota for quota in quotas):
        return "The quota of the day is used up: wait for tomorrow, or ask for a larger one."
    return "Wait before the next request, or ask for a larger quota."


def _wait(error: errors.APIError, details: Iterable[Mapping[str, Any]]) -> float | None:
    """How long to wait: RetryInfo says so in the body, as `34.5s`, and a proxy perhaps in a header."""
    for each in details:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(each.get("retryDelay", "")), re.ASCII)
        if match:
            return float(match[1])
    headers = getattr(error.response, "headers", None)
    return retry_after(headers) if headers is not None else None


def _details(body: Any) -> Iterator[Mapping[str, Any]]:
    inner = body.get("error", body) if isinstance(body, dict) else None
    details = inner.get("details") if isinstance(inner, dict) else None
    yield from (each for each in details or () if isinstance(each, dict))


def _unfinished(streamed: bool) -> ModelError:
    if streamed:
        return ConnectionLostError(
            "google: the stream ended before the answer was over.", remedy="Try again."
        )
    return MalformedResponseError("google: the answer holds no answer.", remedy="Try again.")
