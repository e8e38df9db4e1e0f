"""OpenAI, and everything that speaks its chat-completions protocol: Ollama, vLLM, llama.cpp, LM Studio."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

import httpx2
import msgspec
import openai

from hookline.errors import MalformedResponseError, ModelError, UnsupportedError
from hookline.providers.base import Feature, Piece
from hookline.providers.carriers import Carrier, checked, needs_key, transport_of
from hookline.providers.clients import PerLoop
from hookline.providers.failures import (
    find_key,
    missing_key,
    origin,
    paying,
    said,
    sentence,
    transport_failure,
)
from hookline.providers.openai_answer import Answer, Chunk
from hookline.providers.openai_failures import FarEnd, failure
from hookline.providers.openai_request import request_body
from hookline.providers.proxies import check_way
from hookline.providers.settings import check_address, check_settings
from hookline.state import InferenceRequest

_OPENAI = "https://api.openai.com/v1"
_CONNECT_TIMEOUT = 10.0
_FAILED = (openai.APIError, httpx2.RequestError)
"""What the client raises when a request fails; the second while it reads what is wrong with a stream."""

_NOT_A_COMPLETION = (ValueError, RecursionError)
"""What the client raises over text that is no JSON, no UTF-8, or nested beyond reason."""


class OpenAIProvider:
    """The chat-completions protocol, over the official client.

    The key is found in OPENAI_API_KEY and the address in OPENAI_BASE_URL, unless they are given. A server at another
    address may need no key; `api_key=""` keeps the one in the environment from being sent there. `timeout` is how
    many seconds may pass without a sign of life from a server that was reached. A `cassette` (see hookline.testing)
    records what is asked, or answers it.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        cassette: Carrier | None = None,
    ) -> None:
        check_settings(
            "openai", api_key=api_key, base_url=base_url, timeout=timeout, headers=headers
        )
        self._carrier = checked(cassette)
        self._url = (base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI).strip()
        check_address("openai", self._url)
        self._is_openai = (urlsplit(self._url).hostname or "").endswith("api.openai.com")
        self._timeout = timeout
        self._headers = dict(headers or {})
        if self._url.startswith("http:"):
            # llama.cpp closes a connection after a stream without saying so, and the next request would be lost.
            # Without TLS, which is to say nearby, a new connection costs nothing.
            self._headers["Connection"] = "close"
        self._key = find_key("openai", api_key, "OPENAI_API_KEY")
        has_own = any(name.lower() == "authorization" for name in self._headers)
        if not self._key and self._is_openai and not has_own and needs_key(self._carrier):
            raise missing_key("openai", "OPENAI_API_KEY")
        self._secrets = (self._key, *self._headers.values())
        # A redirection would take the conversation, and perhaps a key, to a host that nobody named.
        self._request_options: openai.RequestOptions = {"follow_redirects": False}
        if not self._key and not has_own:
            self._request_options["headers"] = {"Authorization": openai.omit}
        self._clients = PerLoop(self._make_client, lambda client: client.close())

    def __repr__(self) -> str:
        return f"OpenAIProvider(base_url={origin(self._url)!r})"

    @property
    def name(self) -> str:
        """The part before the colon in `openai:NAME`."""
        return "openai"

    @property
    def features(self) -> frozenset[Feature]:
        """Everything the protocol can say. Whether a model behind it can do it, its server will tell."""
        return frozenset(Feature)

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider."""
        body = _encoded(request, streamed=streamed)
        far_end = FarEnd(self._url, request.model, self._is_openai, self._secrets)
        answer = Answer(request.model, "" if self._is_openai else self._url)
        with paying(answer.spent):
            client = await self._clients.get()
            if not streamed:
                for piece in answer.read(await self._whole(client, body, far_end)):
                    yield piece
                yield answer.end(is_whole=True)
                return
            stream = await self._open(client, body, far_end)
            try:
                while (chunk := await self._next(stream, far_end)) is not None:
                    for piece in answer.read(chunk):
                        yield piece
            finally:
                await stream.close()
            yield answer.end(is_whole=False)

    async def aclose(self) -> None:
        """Close the connections of the loop we are in."""
        await self._clients.aclose()

    def _make_client(self) -> openai.AsyncOpenAI:
        transport = transport_of(self._carrier)
        if transport is None:
            check_way("openai")
        return openai.AsyncOpenAI(
            http_client=None
            if transport is None
            else openai.DefaultAsyncHttpxClient(transport=transport),
            api_key=self._key or "none",  # never sent: the header is left out of each request
            base_url=self._url,
            timeout=openai.Timeout(self._timeout, connect=_CONNECT_TIMEOUT),
            max_retries=0,
            default_headers=self._headers,
        )

    # The client's models of the protocol are left aside: they are stricter about requests and laxer about answers
    # than servers and we are. Its transport, its errors and its reading of streams are what we use.

    async def _whole(self, client: openai.AsyncOpenAI, body: bytes, far_end: FarEnd) -> Chunk:
        problem: ModelError
        try:
            response = await client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=body,
                options=self._request_options,
            )
            chunk = msgspec.json.decode(response.content, type=Chunk)
        except _FAILED as error:
            problem = self._failure(error, far_end)
        except _NOT_A_COMPLETION as error:
            problem = self._malformed(error)
        else:
            if chunk.error:
                raise failure(chunk.error, far_end)
            if not chunk.choices:
                raise self._malformed("it has no choices")
            return chunk
        raise problem

    async def _open(
        self, client: openai.AsyncOpenAI, body: bytes, far_end: FarEnd
    ) -> openai.AsyncStream[object]:
        try:
            stream = await client.post(
                "/chat/completions",
                cast_to=object,
                content=body,
                options=self._request_options,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
        except _FAILED as error:
            problem = self._failure(error, far_end)
        else:
            kind = stream.response.headers.get("content-type", "")
            if not kind.startswith(("text/html", "application/json")):
                return stream
            await stream.close()
            problem = self._malformed(f"a stream was asked for, and {kind} came")
        raise problem

    async def _next(self, stream: openai.AsyncStream[object], far_end: FarEnd) -> Chunk | None:
        """The next chunk of a stream; None when there is no more."""
        problem: ModelError
        try:
            return msgspec.convert(await anext(stream), Chunk)
        except StopAsyncIteration:
            return None
        except _FAILED as error:
            problem = self._failure(error, far_end)
        except _NOT_A_COMPLETION as error:
            problem = self._malformed(error)
        raise problem

    def _failure(self, error: openai.APIError | httpx2.RequestError, far_end: FarEnd) -> ModelError:
        if isinstance(error, openai.APIStatusError):
            return failure(error.body, far_end, error.status_code, error.response.headers)
        if isinstance(error, openai.APIConnectionError | httpx2.RequestError):
            return transport_failure(error, provider="openai", url=self._url, timeout=self._timeout)
        return failure(error.body, far_end)

    def _malformed(self, problem: object) -> MalformedResponseError:
        return MalformedResponseError(
            sentence(
                f"openai: what {origin(self._url)} answered is not a chat completion: "
                f"{said(str(problem), self._secrets)}"
            ),
            remedy="Try again."
            if self._is_openai
            else "Check that base_url is where the protocol is spoken (it usually ends in /v1).",
        )


def _encoded(request: InferenceRequest, *, streamed: bool) -> bytes:
    body = request_body(request, streamed=streamed)
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnsupportedError(
            f"openai: the request cannot be written as JSON: {error}.",
            remedy="Give options that are JSON values.",
        ) from None
