"""One request to the model: the prompt in ChatML, the grammar of the reply, and a reader for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookline.errors import MalformedResponseError, ModelError, UnsupportedError
from hookline.providers.base import CallPiece, TextPiece
from hookline.providers.local.engine import Completion
from hookline.providers.local.examples import (
    Example,
    first_examples,
    likely_tools,
    nearest_examples,
    nearest_tools,
)
from hookline.providers.local.reply import ReplyFormat, ReplyReader, is_json, schema_grammar
from hookline.state import (
    AssistantMessage,
    InferenceRequest,
    Message,
    ToolCall,
    ToolMessage,
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
_JSON_START = re.compile(r'\s*(?:$|[\[{"0-9tfn-])')
_PENALTY = 1.2
_SHORT = 200
"""Tokens that are enough for a small model with tools."""
_FEW_TOOLS = 3
"""Tools that are offered to a small model. With them, and not with four, there are as many examples of an answer."""
_WORD = re.compile(r"\w+")
_TIMES = 3
_LEAST = 16
"""Words at the end of an answer that are the same part again and again: at least three times, and so many in all."""
_REPEATS = "Ask in other words, or use another model."
_STRIDE = 40
"""Characters after which a growing answer is looked at again."""


class LocalRequest:
    """A request as the model reads it (`completion`), and a reader of what it writes."""

    def __init__(self, request: InferenceRequest, *, is_small: bool = False) -> None:
        _refuse_attachments(request.messages)
        schema = request.output_schema
        self._reader: ReplyReader | None = None
        self._is_structured = schema is not None
        self._may_stop_anywhere = bool(request.options.get("stop"))
        self._text = ""
        # JSON repeats itself for good reasons.
        self._messages = request.messages if is_small and schema is None else None
        self._answer, self._seen = "", 0
        if is_small:
            _refuse_repeated_calls(request.messages)
            request = request.with_tools(_few_tools(request))
        options = _check_options(request.options)
        if request.tools:
            form = ReplyFormat(request.tools)
            self._reader = form.reader(is_structured=self._is_structured)
            prompt = tool_prompt(request, form)
            tools = _first_tools(request) if is_small else []
            may_answer = not tools and request.tool_choice in ("auto", "none")
            tools = tools or _allowed_tools(request)
            grammar = form.grammar(tools, may_answer=may_answer, answer=schema)
            if is_small:
                options.setdefault("max_tokens", _SHORT)
        else:
            prompt = plain_prompt(request)
            grammar = "" if schema is None else schema_grammar(schema)
        # Free text only: JSON repeats itself for good reasons, and so does what was read in a file.
        penalty = 1.0 if grammar else _PENALTY
        self.completion = Completion(prompt, grammar, repeat_penalty=penalty, **options)

    def feed(self, text: str) -> Sequence[TextPiece | CallPiece]:
        """The pieces in the next part of the reply. A small model that repeats itself is stopped."""
        pieces = self._read(text)
        self._answer += "".join(each.text for each in pieces if isinstance(each, TextPiece))
        if len(self._answer) - self._seen > _STRIDE:
            self._check_answer()
        return pieces

    def _check_answer(self) -> None:
        self._seen = len(self._answer)
        if self._messages is not None:
            _refuse_repetition(self._answer, self._messages)

    def _read(self, text: str) -> Sequence[TextPiece | CallPiece]:
        if self._reader is not None:
            return self._reader.feed(text)
        self._text += text
        if self._is_structured and not _JSON_START.match(self._text):
            raise self._not_json()
        return [TextPiece(text)] if text else []

    def end(self, *, is_cut: bool) -> Sequence[TextPiece | CallPiece]:
        """What was held back until the end. Refuses a reply that is not what was asked for.

        One that ran out of tokens, or met a word that the user wants to stop at, may end anywhere.
        """
        self._check_answer()
        is_cut = is_cut or self._may_stop_anywhere
        if self._reader is not None:
            return self._reader.end(is_cut=is_cut)
        if self._is_structured and not is_cut and not is_json(self._text):
            raise self._not_json()
        return []

    def _not_json(self) -> MalformedResponseError:
        return MalformedResponseError(
            f"local: the model's answer is not JSON: {self._text[:80]!r}.",
            remedy="Try again, use a simpler schema, or use another model.",
        )


def _check_options(given: Mapping[str, Any]) -> dict[str, Any]:
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
    return {**given, "stop": (_END, *given.get("stop", ()))}


def _refuse_attachments(messages: Sequence[Message]) -> None:
    for message in messages:
        if isinstance(message, UserMessage) and message.attachments:
            raise UnsupportedError(
                "local: images and documents cannot be shown to this model.",
                remedy="Leave them out, or use another model.",
            )


def _refuse_repeated_calls(messages: Sequence[Message]) -> None:
    """Refuse to ask again a model that makes the same call, perhaps with others in between, for the third time."""
    made = [(call.name, call.args) for call in _latest_calls(messages)]
    for name, args in made:
        if made.count((name, args)) >= _TIMES:
            raise ModelError(
                f"local: the model repeats itself and gives no answer: the same call of '{name}' {_TIMES} times.",
                remedy=_REPEATS,
            )


def _refuse_repetition(answer: str, messages: Sequence[Message]) -> None:
    """Refuse an answer that ends in one part again and again, unless that was read somewhere."""
    words = _WORD.findall(answer.lower())[:-1]  # the last one may be half a word
    for length in range(1, len(words) // _TIMES + 1):
        repeated = words[-max(_LEAST, _TIMES * length) :]
        if len(repeated) >= _LEAST and repeated[length:] == repeated[:-length]:
            said = " ".join(repeated)
            if any(said in " ".join(_WORD.findall(each.text.lower())) for each in messages):
                return
            raise ModelError(
                f"local: the model repeats itself and gives no answer: "
                f"'{' '.join(words[-length:])}' again and again.",
                remedy=_REPEATS,
            )


# --- the tools that may be called now ---------------------------------------------------------------


def _few_tools(request: InferenceRequest) -> tuple[ToolSpec, ...]:
    """The tools for a small model: those in use, and those nearest to the question."""
    used = [call.name for call in _latest_calls(request.messages)]
    near = nearest_tools(request.tools, _last_question(request.messages))
    names = list(dict.fromkeys((request.tool_choice, *used, *near)))
    known = [name for name in names if any(tool.name == name for tool in request.tools)]
    return tuple(tool for tool in request.tools if tool.name in known[:_FEW_TOOLS])


def _allowed_tools(request: InferenceRequest) -> list[ToolSpec]:
    choice = request.tool_choice
    if choice == "none":
        return []
    if choice == "required":
        return list(request.tools)
    if choice != "auto":
        return [tool for tool in request.tools if tool.name == choice]
    repeated = _repeated_tool(request.messages)
    return [tool for tool in request.tools if tool.name != repeated]


def _first_tools(request: InferenceRequest) -> list[ToolSpec]:
    """The tools one of which a small model starts with, where the question shows that; else none.

    Without this it picks any of ten tools, or invents an answer, and fills in optional parameters.
    """
    has_started = next(_latest_calls(request.messages), None) is not None
    if request.tool_choice != "auto" or has_started:
        return []
    names = likely_tools(request.tools, _last_question(request.messages))
    return [_without_optional(tool) for tool in request.tools if tool.name in names]


def _without_optional(tool: ToolSpec) -> ToolSpec:
    required = tool.parameters.get("required", ())
    properties = tool.parameters.get("properties", {})
    kept = {name: schema for name, schema in properties.items() if name in required}
    return msgspec.structs.replace(tool, parameters={**tool.parameters, "properties": kept})


def _repeated_tool(messages: Sequence[Message]) -> str:
    """A tool that was called twice in a row with the same arguments: a third call would bring nothing new."""
    last = next(calls := _latest_calls(messages), None)
    before = next(calls, None)
    if last is None or before is None or (last.name, last.args) != (before.name, before.args):
        return ""
    return last.name


def _latest_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """The calls since the last question, the latest first."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return
        if isinstance(message, AssistantMessage):
            yield from reversed(message.calls)


def _last_question(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if isinstance(message, UserMessage) and not message.by:
            return message.text
    return ""


# --- the prompt -------------------------------------------------------------------------------------

_END = "<|im_end|>"
_SIZE = re.compile(r"  ([\d,]+ bytes)$")
"""What stands behind a name in a directory."""
_FEW = 50
_LONGEST_DESCRIPTION = 160


def plain_prompt(request: InferenceRequest) -> str:
    """The conversation for an answer in plain text, or in a form that a grammar ensures."""
    system = request.system
    if request.output_schema is not None:
        schema = json.dumps(request.output_schema, ensure_ascii=False)
        system = f"{system}\nAnswer with JSON of this form: {schema}".strip()
    turns = [("system", system)] if system else []
    return _chat_ml([*turns, *_conversation(request.messages, None)])


def tool_prompt(request: InferenceRequest, form: ReplyFormat) -> str:
    """The conversation of a model that may call tools.

    What differs from one prompt to the next comes as late as possible: the model keeps what it has read before that.
    """
    first = first_examples(request.tools)
    question = _last_question(request.messages)
    nearest = nearest_examples(request.tools, question, without=first)
    return _chat_ml(
        [
            ("system", _system(request, form)),
            *_examples([*first, *nearest], form),
            *_conversation(request.messages, form),
        ]
    )


def _system(request: InferenceRequest, form: ReplyFormat) -> str:
    lines = [
        *([request.system] if request.system else []),
        "You are an agent. Reply with one JSON object that calls one tool.",
        "Tools:",
        *map(_tool_line, request.tools),
        f"{form.answering}(answer): Answer the user.",
    ]
    if request.output_schema is not None:
        schema = json.dumps(request.output_schema, ensure_ascii=False)
        lines.append(f"The answer is JSON of this form: {schema}")
    return "\n".join(lines)


def _tool_line(tool: ToolSpec) -> str:
    required = tool.parameters.get("required", ())
    properties = tool.parameters.get("properties", {})
    names = [name if name in required else f"{name}?" for name in properties]
    description = " ".join(tool.description.split())
    if len(description) > _LONGEST_DESCRIPTION:
        description = f"{description[:_LONGEST_DESCRIPTION]}…"
    return f"{tool.name}({', '.join(names)}): {description}"


def _chat_ml(turns: Iterable[tuple[str, str]]) -> str:
    # Nothing in a text may start or end a turn: what a user or a tool says must not look like the model's words.
    written = [f"<|im_start|>{role}\n{text.replace('<|', '< |')}{_END}\n" for role, text in turns]
    return "".join(written) + "<|im_start|>assistant\n"


def _examples(examples: Iterable[Example], form: ReplyFormat) -> Iterator[tuple[str, str]]:
    for example in examples:
        yield "user", example.ask
        if example.tool:
            yield "assistant", form.write_call(example.tool, example.args)
            yield "user", _result(example.result)
        yield "assistant", form.write_answer(example.answer)


def _conversation(
    messages: Sequence[Message], form: ReplyFormat | None
) -> Iterator[tuple[str, str]]:
    """Who says what. Each call is a turn of its own, followed by its result."""
    form_of_calls = form or ReplyFormat(())
    results = {one.call_id: one for one in messages if isinstance(one, ToolMessage)}
    for message in messages:
        if isinstance(message, UserMessage):
            yield "user", message.text
        elif isinstance(message, AssistantMessage):
            if not message.calls:
                yield "assistant", form.write_answer(message.text) if form else message.text
            text = f"{message.text}\n" if message.text else ""
            for call in message.calls:
                yield "assistant", text + _call(call, form_of_calls)
                text = ""
                if call.id in results:
                    yield "user", _result(results[call.id].text)


def _call(call: ToolCall, form: ReplyFormat) -> str:
    if call.malformed:
        return f"{form.write_call(call.name, {})[:-1]}, {call.malformed.lstrip('{ ')}"
    return form.write_call(call.name, call.args)


def _result(text: str) -> str:
    """A result. A list of plain words is shown without its brackets: a small model copies what it need not rewrite."""
    words = _json_list(text) or text.splitlines()
    if 0 < len(words) <= _FEW and all(isinstance(one, str) and _is_plain(one) for one in words):
        text = ", ".join(_SIZE.sub(r" (\1)", word) for word in words)
    return f"Result: {text}"


def _json_list(text: str) -> list[Any]:
    if not (text.startswith("[") and text.endswith("]")):
        return []
    try:
        found: list[Any] = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found


def _is_plain(word: str) -> bool:
    return bool(word) and word.isprintable() and "," not in _SIZE.sub("", word)
