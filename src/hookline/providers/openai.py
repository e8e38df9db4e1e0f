"""OpenAI, and everything that speaks its chat-completions protocol: Ollama, vLLM, llama.cpp, LM Studio."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import httpx2
import msgspec
import openai

from hookline.errors import MalformedResponseError, ModelError, UnsupportedError
from hookline.providers.base import Piece
from hookline.providers.failures import find_key, origin, paying, said, sentence
from hookline.providers.http import CONNECT_TIMEOUT, HTTPProvider
from hookline.providers.openai_answer import Answer, Chunk
from hookline.providers.openai_failures import FarEnd, failure
from hookline.providers.openai_request import request_body
from hookline.state import InferenceRequest

_FAILED = (openai.APIError, httpx2.RequestError)
"""What the client raises when a request fails; the second while it reads what is wrong with a stream."""

_NOT_A_COMPLETION = (ValueError, RecursionError)
"""What the client raises over text that is no JSON, no UTF-8, or nested beyond reason."""


class OpenAIProvider(HTTPProvider[openai.AsyncOpenAI]):
    """The chat-completions protocol, over the official client.

    The key is found in OPENAI_API_KEY and the address in OPENAI_BASE_URL, unless they are given. A server at another
    address may need no key; `api_key=""` keeps the one in the environment from being sent there. `timeout` is how
    many seconds may pass without a sign of life from a server that was reached. A `cassette` (see hookline.testing)
    records what is asked, or answers it.
    """

    _name = "openai"
    _home = "https://api.openai.com/v1"
    _address_variable = "OPENAI_BASE_URL"

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider."""
        body = _encoded(request, streamed=streamed)
        far_end = FarEnd(self._url, request.model, self._is_home, self._secrets)
        answer = Answer(request.model, "" if self._is_home else self._url)
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

    # The client's models of the protocol are left aside: they are stricter about requests and laxer about answers
    # than servers and we are. Its transport, its errors and its reading of streams are what we use.

    async def _whole(self, client: openai.AsyncOpenAI, body: bytes, far_end: FarEnd) -> Chunk:
        problem: ModelError
        try:
            response = await client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=body,
                options=self._options,
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
                options=self._options,
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
            return self._transport_failure(error)
        return failure(error.body, far_end)

    def _malformed(self, problem: object) -> MalformedResponseError:
        return MalformedResponseError(
            sentence(
                f"openai: what {origin(self._url)} answered is not a chat completion: "
                f"{said(str(problem), self._secrets)}"
            ),
            remedy="Try again."
            if self._is_home
            else "Check that base_url is where the protocol is spoken (it usually ends in /v1).",
        )

    @property
    def _is_home(self) -> bool:
        return (urlsplit(self._url).hostname or "").endswith("api.openai.com")

    def _find_key(self, given: str | None) -> str:
        key = find_key("openai", given, "OPENAI_API_KEY")
        if not key and not self._has_header("authorization"):
            self._require_key("OPENAI_API_KEY")
        return key

    @property
    def _options(self) -> openai.RequestOptions:
        # A redirection would take the conversation, and perhaps a key, to a host that nobody named.
        options: openai.RequestOptions = {"follow_redirects": False}
        if not self._key and not self._has_header("authorization"):
            options["headers"] = {"Authorization": openai.omit}
        return options

    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> openai.AsyncOpenAI:
        headers = dict(self._headers)
        if self._url.startswith("http:"):
            # llama.cpp closes a connection after a stream without saying so, and the next request would be lost.
            # Without TLS, which is to say nearby, a new connection costs nothing.
            headers["Connection"] = "close"
        return openai.AsyncOpenAI(
            http_client=None
            if transport is None
            else openai.DefaultAsyncHttpxClient(transport=transport),
            api_key=self._key or "none",  # never sent: the header is left out of each request
            base_url=self._url,
            timeout=openai.Timeout(self._timeout, connect=CONNECT_TIMEOUT),
            max_retries=0,
            default_headers=headers,
        )

    async def _close_client(self, client: openai.AsyncOpenAI) -> None:
        await client.close()


def _encoded(request: InferenceRequest, *, streamed: bool) -> bytes:
    body = request_body(request, streamed=streamed)
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnsupportedError(
            f"openai: the request cannot be written as JSON: {error}.",
            remedy="Give options that are JSON values.",
        ) from None
