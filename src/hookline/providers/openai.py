"""OpenAI, and everything that speaks its chat-completions protocol: Ollama, vLLM, llama.cpp, LM Studio."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
import openai

from hookline.errors import ModelError
from hookline.providers.base import Piece
from hookline.providers.failures import charging
from hookline.providers.http import GeneratedClientProvider
from hookline.providers.openai_answer import OpenAIAnswer, OpenAIChunk
from hookline.providers.openai_request import request_body
from hookline.state import InferenceRequest


class OpenAIProvider(GeneratedClientProvider):
    """The chat-completions protocol, over the official client.

    The key is found in OPENAI_API_KEY and the address in OPENAI_BASE_URL, unless they are given. A server at another
    address may need no key; `api_key=""` keeps the one in the environment from being sent there. `timeout` is how
    many seconds may pass without a sign of life from a server that was reached. A `cassette` (see hookline.testing)
    records what is asked, or answers it.
    """

    _name = "openai"
    _home = "https://api.openai.com/v1"
    _address_variable = "OPENAI_BASE_URL"
    _key_variable = "OPENAI_API_KEY"
    _key_variables = ("OPENAI_API_KEY",)
    _models_page = "https://platform.openai.com/docs/models"
    _address_hint = ", which usually ends in /v1"
    _library: ClassVar[Any] = openai
    _client: ClassVar[Any] = openai.AsyncOpenAI
    _path = "/chat/completions"

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider."""
        body = request_body(request, streamed=streamed)
        answer = OpenAIAnswer(request.model, "" if self._is_home else self._url)
        with charging(answer.used):
            if streamed:
                async with aclosing(self._stream(body)) as events:
                    async for event in events:
                        for piece in answer.read(self._chunk(event, request.model)):
                            yield piece
            else:
                chunk = self._chunk(await self._post(body), request.model)
                if not chunk.choices:
                    raise self._malformed("it has no choices")
                for piece in answer.read(chunk):
                    yield piece
            yield answer.end(is_whole=not streamed)

    def _chunk(self, data: Any, model: str) -> OpenAIChunk:
        problem: ModelError
        try:
            if isinstance(data, bytes):
                chunk = msgspec.json.decode(data, type=OpenAIChunk)
            else:
                chunk = msgspec.convert(data, OpenAIChunk)
        except (ValueError, RecursionError) as error:
            problem = self._malformed(error)
        else:
            if not chunk.error:
                return chunk
            problem = self._reported(chunk.error, model)
        raise problem

    @property
    def _is_home(self) -> bool:
        return (urlsplit(self._url).hostname or "").endswith("api.openai.com")

    @property
    def _client_headers(self) -> dict[str, str]:
        # llama.cpp closes a connection after a stream without saying so, and the next request would be lost.
        # Without TLS the server is near, and a new connection costs nothing.
        is_near = self._url.startswith("http:")
        return {**self._headers, "Connection": "close"} if is_near else self._headers
