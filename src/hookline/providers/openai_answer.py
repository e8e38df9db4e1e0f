"""What a chat-completions server answers, read into pieces: a stream chunk by chunk, or the whole at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hookline.errors import (
    ConnectionLostError,
    ContentFilterError,
    MalformedResponseError,
    OverloadedError,
    RefusalError,
)
from hookline.providers.base import CallPiece, EndPiece, Piece, ReasoningPiece, TextPiece
from hookline.providers.failures import clean_text, end_sentence
from hookline.providers.prices import with_cost
from hookline.state import Usage

# What we read of the protocol. Everything may be missing or null: servers differ in what they leave out.


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    """A message, or what a chunk adds to it."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None


class _CachedTokens(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Tokens(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None


class OpenAIChunk(msgspec.Struct, gc=False):
    """A chunk of a stream; a whole answer is one chunk too."""

    choices: list[_Choice] | None = None
    usage: _Tokens | None = None
    model: str | None = None
    error: Any = None


class OpenAIAnswer:
    """One answer while it is read. `url` is the server's, where that is not OpenAI's own."""

    def __init__(self, model: str, url: str) -> None:
        self._model = model
        self._url = url
        self._finish = ""
        self._refusal = ""
        self._tokens: _Tokens | None = None
        self._calls = _Calls()

    def read(self, chunk: OpenAIChunk) -> Iterator[Piece]:
        """The pieces in the next chunk."""
        self._model = chunk.model or self._model
        self._tokens = chunk.usage or self._tokens
        for choice in chunk.choices or ():
            if choice.index:
                continue  # one answer was asked for
            if choice.delta is not None:
                yield from self._read_message(choice.delta)
            elif choice.message is not None:
                _number(choice.message.tool_calls or [])
                yield from self._read_message(choice.message)
            self._finish = choice.finish_reason or self._finish

    def _read_message(self, message: _Message) -> Iterator[Piece]:
        if message.reasoning_content:
            yield ReasoningPiece(0, message.reasoning_content, kind="reasoning_content")
        elif message.reasoning:
            yield ReasoningPiece(0, message.reasoning, kind="reasoning")
        if message.content:
            yield TextPiece(message.content)
        for call in message.tool_calls or ():
            yield from self._calls.read(call)
        self._refusal += message.refusal or ""

    def end(self, *, is_whole: bool) -> EndPiece:
        """The last piece; an error where the answer is none, or is not whole: a stream says when it is over."""
        if not self._finish and not is_whole:
            raise ConnectionLostError(
                f"openai: the answer of model '{self._model}' broke off before it was over.",
                remedy="Try again.",
            )
        if self._refusal:
            raise RefusalError(
                end_sentence(
                    f"openai: model '{self._model}' declined to answer: {clean_text(self._refusal)}"
                ),
                remedy="Ask for something else, or ask in another way.",
            )
        if self._finish == "content_filter":
            raise ContentFilterError(
                f"openai: the content filter withheld the answer of model '{self._model}'.",
                remedy="Change what is asked for.",
            )
        if self._finish == "error":  # some gateways say so, of a failure behind them
            raise OverloadedError(
                f"openai: model '{self._model}' failed in the middle of its answer.",
                remedy="Try again.",
            )
        self._calls.check()
        finish = "length" if self._finish == "length" else ""
        return EndPiece(self._usage(), self._model, finish)

    def used(self) -> Usage | None:
        """What it used so far; None while the server has not counted."""
        return None if self._tokens is None else self._usage()

    def _usage(self) -> Usage:
        tokens = self._tokens
        if tokens is None:
            return Usage(requests=1, unpriced_requests=1)
        cached = tokens.prompt_tokens_details or _CachedTokens()
        usage = Usage(
            input_tokens=tokens.prompt_tokens or 0,
            output_tokens=tokens.completion_tokens or 0,
            requests=1,
            cache_read_tokens=cached.cached_tokens or 0,
            cache_write_tokens=cached.cache_write_tokens or 0,
        )
        return with_cost(usage, "openai", self._model, url=self._url)


class _CallInParts(msgspec.Struct):
    """A call of which more may come."""

    index: int
    id: str = ""
    is_named: bool = False
    held: str = ""
    """Arguments that came before the name."""


class _Calls:
    """Assigns each piece to its call, also where the server numbers calls badly or not at all."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[int, _CallInParts] = {}
        self._last = 0

    def read(self, call: _Call) -> Iterator[CallPiece]:
        """What is new of this call. It is kept until it has a name."""
        function = call.function or _Function()
        opened = self._find(call, has_name=bool(function.name))
        opened.id = opened.id or call.id or ""
        opened.held += _json_text(function.arguments)
        if opened.is_named:
            if opened.held:
                yield CallPiece(opened.index, arguments=opened.held)
        elif function.name:
            opened.is_named = True
            yield CallPiece(opened.index, opened.id, function.name, opened.held)
        else:
            return
        opened.held = ""

    def check(self) -> None:
        """Refuse an answer with a call that never got a name."""
        if any(not opened.is_named for opened in self._open.values()):
            raise MalformedResponseError(
                "openai: the answer has a tool call that names no tool.", remedy="Try again."
            )

    def _find(self, call: _Call, *, has_name: bool) -> _CallInParts:
        """The call that a piece belongs to: by its number, or else by its id and name."""
        number = self._last if call.index is None else call.index
        known = self._open.get(number)
        if known is not None:
            differs = call.id != known.id if call.id else call.index is None
            if not (has_name and known.is_named and differs):
                self._last = number
                return known
            if call.index is None:
                number = max(self._open) + 1
        self._last = number
        opened = self._open[number] = _CallInParts(self._count)
        self._count += 1
        return opened


def _number(calls: list[_Call]) -> None:
    """The calls of a whole message are each a call, whatever their ids say."""
    for position, call in enumerate(calls):
        call.index = position


def _json_text(arguments: str | dict[str, Any] | None) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
