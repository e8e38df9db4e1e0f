"""Anthropic's models, and whatever else speaks its messages protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

import anthropic

from hookline.providers.anthropic_answer import AnthropicAnswer
from hookline.providers.anthropic_request import NAME, request_body
from hookline.providers.base import EndPiece, Piece
from hookline.providers.failures import charging
from hookline.providers.http import GeneratedClientProvider
from hookline.providers.prices import with_cost
from hookline.providers.transports import TransportSource
from hookline.state import NO_USAGE, InferenceRequest, Usage

_LONGEST_UNSTREAMED = 21_333
"""Tokens beyond which an answer may take ten minutes: a connection that is silent for so long does not hold."""
_MOST_PAUSES = 16
"""How often an answer may be continued. Each time is a request that no limit of the run has seen yet."""


class AnthropicProvider(GeneratedClientProvider):
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
    _key_variable = "ANTHROPIC_API_KEY"
    _key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    _key_headers = ("authorization", "x-api-key")
    _models_page = "https://platform.claude.com/docs/en/about-claude/models"
    _models_path = "/v1/models"
    _address_hint = ", which ends before /v1"
    _library: ClassVar[Any] = anthropic
    _client: ClassVar[Any] = anthropic.AsyncAnthropic
    _path = "/v1/messages"

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        cache: bool = True,
        cassette: TransportSource | None = None,
    ) -> None:
        super().__init__(
            api_key=api_key, base_url=base_url, timeout=timeout, headers=headers, cassette=cassette
        )
        self._cache = cache

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider. An answer that the server pauses is continued where it stopped."""
        body = request_body(request, cache=self._cache)
        streamed = streamed or _takes_long(body)
        answers: list[AnthropicAnswer] = []
        with charging(lambda: self._used(answers)):
            while True:
                answer = AnthropicAnswer(answers[-1].next_index if answers else 0)
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

    async def _pieces(
        self, body: dict[str, Any], answer: AnthropicAnswer, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        if not streamed:
            for piece in answer.read(await self._post(body)):
                yield piece
            return
        async with aclosing(self._stream({**body, "stream": True})) as events:
            async for event in events:
                for piece in answer.read_event(event):
                    yield piece
        if not answer.is_over:
            raise self._transport_failure(EOFError())

    def _usage(self, answers: list[AnthropicAnswer]) -> Usage:
        """What these answers used, at the price of the server that gave them."""
        url = "" if self._is_home else self._url
        costs = (with_cost(each.usage(), NAME, each.model, url=url) for each in answers)
        return sum(costs, NO_USAGE)

    def _used(self, answers: list[AnthropicAnswer]) -> Usage | None:
        """What was used by answers that failed; None when the server has counted nothing."""
        counted = [each for each in answers if each.is_counted]
        return self._usage(counted) if counted else None


def _takes_long(body: dict[str, Any]) -> bool:
    most = body["max_tokens"]
    return isinstance(most, int) and most > _LONGEST_UNSTREAMED
