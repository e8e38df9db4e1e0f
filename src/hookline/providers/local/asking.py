"""One question to the model: what it reads, what it may write, and how that is understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookline.errors import MalformedResponseError, UnsupportedError
from hookline.providers.base import CallPiece, TextPiece
from hookline.providers.local.engine import Completion
from hookline.providers.local.episodes import likely
from hookline.providers.local.grammar import Grammar
from hookline.providers.local.prompt import END, last_question, plain_prompt, tool_prompt
from hookline.providers.local.speech import Hearing, answer_name, is_json, turn_grammar
from hookline.state import (
    AssistantMessage,
    InferenceRequest,
    Message,
    ToolCall,
    ToolSpec,
    UserMessage,
)

_OPTIONS: dict[str, tuple[type, ...]] = {
    "max_tokens": (int,),
    "seed": (int,),
    "stop": (list, tuple),
    "temperature": (int, float),
    "top_k": (int,),
    "top_p": (int, float),
}


_PENALTY = 1.2
_SHORT = 200
"""Tokens in which a small model with tools has said all that it has to say; after that it goes round in circles."""


class Asking:
    """A request as the model reads it (`completion`), and an ear for what it answers."""

    def __init__(self, request: InferenceRequest, *, is_small: bool = False) -> None:
        _refuse_attachments(request.messages)
        self._hearing: Hearing | None = None
        self._is_structured = request.output_schema is not None
        self._may_break_off = bool(request.options.get("stop"))
        self._text = ""
        if request.tools:
            answering = answer_name([tool.name for tool in request.tools])
            self._hearing = Hearing(answering, is_structured=self._is_structured)
            tools = _offered(request)
            may_answer = request.tool_choice in ("auto", "none")
            first = _first(request) if is_small else []
            if first:
                tools, may_answer = first, False
            grammar = turn_grammar(tools, answering if may_answer else "", request.output_schema)
            prompt = tool_prompt(request, answering)
            penalty = 1.0
        else:
            grammar = ""
            # Free text only: JSON repeats itself for good reasons, and so does what was read in a file.
            penalty = _PENALTY if request.output_schema is None else 1.0
            if request.output_schema is not None:
                rules = Grammar()
                grammar = rules.text(rules.schema(request.output_schema))
            prompt = plain_prompt(request)
        options = _options(request.options)
        if is_small and request.tools:
            options.setdefault("max_tokens", _SHORT)
        self.completion = Completion(prompt, grammar, repeat_penalty=penalty, **options)

    def feed(self, text: str) -> Sequence[TextPiece | CallPiece]:
        """What the next piece of text says."""
        if self._hearing is not None:
            return self._hearing.feed(text)
        self._text += text
        return [TextPiece(text)] if text else []

    def end(self, *, is_cut: bool) -> Sequence[TextPiece | CallPiece]:
        """What was held back until the end; refuses an answer that is not what was asked for.

        One that ran out of tokens, or met a word that the user wants to stop at, may end anywhere.
        """
        is_cut = is_cut or self._may_break_off
        if self._hearing is not None:
            return self._hearing.end(is_cut=is_cut)
        if self._is_structured and not is_cut and not is_json(self._text):
            raise MalformedResponseError(
                f"local: the model's answer is not JSON: {self._text[:80]!r}.",
                remedy="Try again, or use another model.",
            )
        return []


def _offered(request: InferenceRequest) -> list[ToolSpec]:
    """The tools the model may call now."""
    choice = request.tool_choice
    if choice == "none":
        return []
    if choice == "required":
        return list(request.tools)
    if choice != "auto":
        return [tool for tool in request.tools if tool.name == choice]
    tired = _repeated(request.messages)
    return [tool for tool in request.tools if tool.name != tired]


def _first(request: InferenceRequest) -> list[ToolSpec]:
    """The tools one of which a small model begins with, where that is plain from what it is asked; else none.

    Left to itself it picks any of ten tools, or makes an answer up, and fills in whatever it may leave out.
    """
    is_begun = next(_last_calls(request.messages), None) is not None
    if request.tool_choice != "auto" or is_begun:
        return []
    names = likely(request.tools, last_question(request.messages))
    return [_with_what_it_needs(tool) for tool in request.tools if tool.name in names]


def _with_what_it_needs(tool: ToolSpec) -> ToolSpec:
    """A tool without the parameters that may be left out."""
    needed = tool.parameters.get("required", ())
    properties = tool.parameters.get("properties", {})
    kept = {name: schema for name, schema in properties.items() if name in needed}
    return msgspec.structs.replace(tool, parameters={**tool.parameters, "properties": kept})


def _repeated(messages: Sequence[Message]) -> str:
    """A tool that was called twice in a row with the same arguments: a third time would bring nothing new."""
    last = next(calls := _last_calls(messages), None)
    again = next(calls, None)
    if last is None or again is None or (last.name, last.args) != (again.name, again.args):
        return ""
    return last.name


def _last_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """The calls since the last question, the latest first."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return
        if isinstance(message, AssistantMessage):
            yield from reversed(message.calls)


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        if name not in _OPTIONS:
            raise UnsupportedError(
                f"local: there is no option '{name}'.", remedy=f"There are: {', '.join(_OPTIONS)}."
            )
        if not isinstance(value, _OPTIONS[name]) or isinstance(value, bool):
            raise UnsupportedError(
                f"local: option {name}={value!r} is not of the right kind.",
                remedy=f"It is {' or '.join(kind.__name__ for kind in _OPTIONS[name])}.",
            )
    return {**given, "stop": (END, *given.get("stop", ()))}


def _refuse_attachments(messages: Sequence[Message]) -> None:
    for message in messages:
        if isinstance(message, UserMessage) and message.attachments:
            raise UnsupportedError(
                "local: images and documents cannot be shown to this model.",
                remedy="Leave them out, or use another model.",
            )
