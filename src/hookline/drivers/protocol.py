"""The text protocol for models without tool calls: one JSON object a turn, and a reader that forgives much.

    {"thought": "I need the sum.", "calls": [{"tool": "add", "args": {"a": 2, "b": 3}}], "answer": ""}
    {"thought": "That is it.", "calls": [], "answer": "It is 5."}

JSON, because servers can constrain a model to it, and because it says where an argument ends. A model that just answers
is understood too. One that writes the older form (`Thought:`, `Action:`, `Final Answer:`) is asked for the object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from hookline.providers.json_text import LetterStream, StringDecoder, join_halves

_NAMES = ("tool", "name", "action", "function")
"""What models call a tool's name, and below its arguments; ours comes first."""
_ARGUMENTS = ("args", "arguments", "parameters", "input", "action_input")
_AROUND = frozenset({"thought", "calls", "answer", "id", "type"})
"""What else may be in an object that is a call."""
_MOST_BRACES = 50
"""How many places in a text are tried as the beginning of an object."""

_FENCE = re.compile(r"\A```\w*\s*\n?(?P<inside>.*?)(?:\n?```(?P<after>.*))?\Z", re.DOTALL)
_THINKING = re.compile(r"\A\s*<think>(?P<thought>.*?)</think>", re.DOTALL)
_MADE_UP = re.compile(r"\A\s*(?:\Z|```|\{|(?:\*\*)?(?:observation|result)\b)", re.IGNORECASE)
"""What may follow a call: nothing, or what the model makes up of its own future. It does not count."""
_LABEL = re.compile(
    r"^[ \t]*(?:\*\*)?(?:action(?: input)?|final answer)(?:\*\*)?[ \t]*:", re.I | re.M
)
_LABELLED = "Labels such as `Action:` are not read: calls and the answer go into the object."
_QUOTED = "There is text around a call: write the object alone, and put text into its answer."
_DECODER = json.JSONDecoder(strict=False)


class SpokenCall(msgspec.Struct, frozen=True, gc=False):
    """A call as the model wrote it; `args` is JSON text, or what should have been."""

    tool: str
    args: str = "{}"


class Spoken(msgspec.Struct, frozen=True, gc=False):
    """What a model said in one turn. `problem` says what is wrong with it, in words for the model."""

    thought: str = ""
    calls: tuple[SpokenCall, ...] = ()
    answer: str | None = None
    problem: str = ""


def write(spoken: Spoken) -> str:
    """A turn in the protocol, as `read` reads it."""
    turn: dict[str, Any] = {}
    if spoken.thought:
        turn["thought"] = spoken.thought
    if spoken.calls:
        turn["calls"] = [{"tool": call.tool, "args": _value(call.args)} for call in spoken.calls]
    if spoken.answer is not None:
        turn["answer"] = spoken.answer
    return json.dumps(turn, ensure_ascii=False)


def _value(args: str) -> Any:
    """Arguments as an object where they are one; else as the text they are."""
    try:
        value = json.loads(args)
    except (ValueError, RecursionError):
        return args
    return value if isinstance(value, dict) else args


def read(text: str) -> Spoken:
    """What a model said. Never fails: what cannot be understood has a `problem`."""
    thought = ""
    if thinking := _THINKING.match(text):
        thought, text = thinking["thought"].strip(), text[thinking.end() :]
    try:
        spoken = _read(join_halves(text).strip())
    except RecursionError:
        spoken = Spoken(problem="That is nested too deeply.")
    if thought and not spoken.thought:
        return msgspec.structs.replace(spoken, thought=join_halves(thought))
    return spoken


def _read(text: str) -> Spoken:
    """A turn that is an object, or plain words. A call is only what stands alone: never a quotation."""
    fenced = _FENCE.match(text)
    whole, after = (fenced["inside"].strip(), fenced["after"] or "") if fenced else (text, "")
    if not whole.startswith("{"):
        return _from_words(text)
    decoded = _decode_object(whole, 0)
    if decoded is None:
        return Spoken(problem="That is not valid JSON.")
    value, end = decoded
    spoken = _from_object(value)
    if spoken.calls and not all(map(_MADE_UP.match, (whole[end:], after))):
        return Spoken(problem=_QUOTED)
    return spoken


def _from_words(text: str) -> Spoken:
    """Words, perhaps with an object among them: an answer in it is the answer, a call may be a mere example."""
    for value in _objects_in(text):
        if value.get("calls") or _is_call(value):
            return Spoken(problem=_QUOTED)
        if "answer" in value:
            return _from_object(value)
    return Spoken(problem=_LABELLED) if _LABEL.search(text) else Spoken(answer=text)


def _decode_object(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """The object that begins there, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _objects_in(text: str) -> list[dict[str, Any]]:
    starts = [found.start() for found in re.finditer(r"\{", text)][:_MOST_BRACES]
    return [found[0] for start in starts if (found := _decode_object(text, start)) is not None]


def _from_object(value: dict[str, Any]) -> Spoken:
    thought = value.get("thought")
    listed = value.get("calls")
    if not isinstance(listed, list):
        listed = [listed] if listed else []
    if not listed and _is_call(value):
        listed = [value]
    calls = []
    for each in listed:
        tool = _first(each, _NAMES) if isinstance(each, dict) else None
        if not isinstance(tool, str):
            return Spoken(problem=f"A call must name its tool: {_shorten(each)} does not.")
        calls.append(SpokenCall(join_halves(tool), _args(each)))
    answer = value.get("answer")
    if not calls and answer is None:
        return Spoken(problem='The object has neither "calls" nor "answer".')
    return Spoken(
        join_halves(thought) if isinstance(thought, str) else "",
        tuple(calls),
        _as_text(answer) if answer is not None and (answer != "" or not calls) else None,
    )


def _is_call(value: dict[str, Any]) -> bool:
    """Whether an object is a call by its shape: one name of a tool, arguments, and nothing foreign.

    Only `tool` can do without arguments: a `name` is in many an answer that is JSON.
    """
    names = value.keys() & set(_NAMES)
    arguments = value.keys() & set(_ARGUMENTS)
    foreign = value.keys() - names - arguments - _AROUND
    return len(names) == 1 and not foreign and (bool(arguments) or names == {"tool"})


def _first(value: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((value[name] for name in names if name in value), None)


def _args(call: dict[str, Any]) -> str:
    args = _first(call, _ARGUMENTS)
    return "{}" if args is None else _as_text(args)


def _as_text(value: Any) -> str:
    return join_halves(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _shorten(value: Any) -> str:
    text = _as_text(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


# --- the answer while the turn is still being written -------------------------------------------------

_OPENING = re.compile(r"(?:```(?:json)?\s*)?\{")
_NEXT = re.compile(r'[\s,]*"(?:calls"\s*:\s*\[\s*\]|(thought|answer)"\s*:\s*")')
_LONGEST_HEAD = 80
"""Characters in which an opening or the next key must have come."""


class AnswerStream:
    """Passes on thought and answer of a turn as it comes, without the protocol around them.

    It follows the object only as far as it is what was asked for. A turn that calls tools, or looks any other way,
    is left to the reader of the whole turn, and nothing more is passed on before that.
    """

    def __init__(
        self, emit_answer: Callable[[str], None], emit_thought: Callable[[str], None]
    ) -> None:
        self._emitters = {"answer": emit_answer, "thought": emit_thought}
        self._texts: dict[str, LetterStream] = {}
        self._key = ""
        self._string: StringDecoder | None = None
        self._unread = ""
        self._is_open = False
        self._is_lost = False

    def feed(self, text: str) -> None:
        """Take the next piece of the turn."""
        if self._string is None:
            text = self._unread + text
        while text and not self._is_lost:
            text = self._read_head(text) if self._string is None else self._read_string(text)

    @property
    def answer(self) -> str | None:
        """What was passed on of the answer; None when there was none."""
        text = self._texts.get("answer")
        return None if text is None else text.finish()

    @property
    def thought(self) -> str:
        """What was passed on of the thought."""
        text = self._texts.get("thought")
        return "" if text is None else text.finish()

    def _read_string(self, text: str) -> str:
        """What follows a string, if it ends here."""
        assert self._string is not None
        self._texts[self._key].add(self._string.feed(text))
        if not self._string.is_over:
            return ""
        rest, self._string, self._unread = self._string.rest, None, ""
        return rest

    def _read_head(self, text: str) -> str:
        """What follows an opening or a key, if it is complete."""
        head = (_NEXT if self._is_open else _OPENING).match(text := text.lstrip())
        if head is None:
            bare = text.rstrip()
            is_fence = bare in ("```", "```json") and bare != text
            self._unread = f"{bare}\n" if is_fence else text  # however much space follows it
            self._is_lost = len(self._unread) > _LONGEST_HEAD
            return ""
        if self._is_open and (key := head[1]):
            self._is_lost = key in self._texts
            self._key, self._string = key, StringDecoder()
            self._texts.setdefault(key, LetterStream(self._emitters[key]))
        self._is_open, self._unread = True, ""
        return text[head.end() :]
