"""How the model writes a call or an answer: one JSON object, the tool's name first.

{"tool": "add", "a": 3, "b": 4}
{"tool": "final_answer", "answer": "3 plus 4 is 7."}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hookline.errors import BuildError, MalformedResponseError, UnsupportedError
from hookline.extras import install_command
from hookline.providers.base import CallPiece, TextPiece
from hookline.providers.json_text import StringDecoder
from hookline.providers.request import move_definitions
from hookline.state import ToolSpec

_ANSWER = re.compile(r'\s*,\s*"answer"\s*:\s*')
_TEXT_ANSWER = re.compile(_ANSWER.pattern + '"')
_LONGEST_HEAD = 40
"""Characters, without space, in which `"answer":` must have come."""
_NOTATION = {
    "x-guidance": {
        # As the examples in the prompt are written, so that the model has nothing to choose.
        "whitespace_flexible": False,
        "item_separator": ", ",
        "key_separator": ": ",
        # What a grammar cannot say is left to the check that every call and every structured answer passes.
        "lenient": True,
        "coerce_one_of": True,
    }
}

_Pieces = list[TextPiece | CallPiece]


class ReplyFormat:
    """The form of a reply: how it is written, held to a grammar, and read."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        names = {tool.name for tool in tools}
        self.answering = "final_answer"
        """The name for answering; no tool has it."""
        while self.answering in names:
            self.answering += "_"
        parameters = {name for tool in tools for name in tool.parameters.get("properties", {})}
        self.key = "tool"
        """The key of the tool's name; no parameter has it."""
        while self.key in parameters:
            self.key += "_"

    def write_call(self, name: str, args: Mapping[str, Any]) -> str:
        """A call as the model writes it."""
        head = json.dumps({self.key: name}, ensure_ascii=False)[:-1]
        return head + (f", {json.dumps(args, ensure_ascii=False)[1:]}" if args else "}")

    def write_answer(self, text: str) -> str:
        """An answer as the model writes it."""
        return self.write_call(self.answering, {"answer": text})

    def grammar(
        self,
        tools: Sequence[ToolSpec],
        *,
        may_answer: bool = True,
        answer: Mapping[str, Any] | None = None,
    ) -> str:
        """The grammar of one reply: a call of one of these tools or, if it may, an answer of this schema."""
        definitions: dict[str, Any] = {}
        choices = [
            self._object(tool.name, move_definitions(tool.parameters, f"{number}_", definitions))
            for number, tool in enumerate(tools)
        ]
        if may_answer:
            schema = move_definitions(answer or {"type": "string"}, "answer_", definitions)
            parameters = {"properties": {"answer": schema}, "required": ["answer"]}
            choices.append(self._object(self.answering, parameters))
        return schema_grammar({"anyOf": choices, "$defs": definitions})

    def _object(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **parameters,
            "type": "object",
            "properties": {self.key: {"const": name}, **parameters.get("properties", {})},
            "required": [self.key, *parameters.get("required", ())],
            "additionalProperties": False,
        }

    def reader(self, *, is_structured: bool = False) -> ReplyReader:
        """A reader for one reply."""
        return ReplyReader(self, is_structured=is_structured)


def schema_grammar(schema: Mapping[str, Any]) -> str:
    """The grammar of the JSON texts that fit a schema, as llama.cpp makes it.

    A schema that it cannot use leaves the model free; what it writes is then refused when it is read.
    """
    try:
        import xllamacpp  # type: ignore[import-untyped]  # 100 MB of machine code: not before it is needed
    except ModuleNotFoundError:
        raise BuildError(
            "tools and structured output of provider 'local' need the package 'xllamacpp'.",
            remedy=f"Run: {install_command('local')}",
        ) from None
    try:
        grammar: str = xllamacpp.json_schema_to_grammar(json.dumps({**schema, **_NOTATION}))
    except (TypeError, ValueError, RecursionError) as error:
        raise UnsupportedError(
            f"local: a schema cannot be made into a grammar: {error}.",
            remedy="Use a simpler schema, or another model.",
        ) from None
    return grammar


class ReplyReader:
    """Reads a reply as it arrives. Text and arguments are passed on as far as they are certain."""

    def __init__(self, form: ReplyFormat, *, is_structured: bool = False) -> None:
        self._answering = form.answering
        self._head = re.compile(rf'\s*\{{\s*"{form.key}"\s*:\s*("(?>(?:[^"\\]|\\.)*)")', re.DOTALL)
        self._is_structured = is_structured
        self._unread = ""
        self._part: _CallText | _Answer | None = None

    def feed(self, text: str) -> _Pieces:
        """The pieces in the next part of the reply."""
        if self._part is not None:
            return self._part.feed(text)
        self._unread += text
        head = self._head.match(self._unread)
        if head is None:
            if not "{".startswith(self._unread.lstrip()[:1]):
                raise _malformed_error(self._unread)
            return []
        name = _load(head[1])
        if name == self._answering:
            self._part = _Answer(is_structured=self._is_structured)
        else:
            self._part = _CallText(str(name))
        return self._part.feed(self._unread[head.end() :])

    def end(self, *, is_cut: bool) -> _Pieces:
        """What was held back until the end. Refuses a reply that stops in the middle, unless it was cut."""
        if self._part is None or not self._part.is_over:
            if not is_cut:
                raise _malformed_error(self._unread)
            return self._part.flush() if self._part else []
        return []


class _CallText:
    """The arguments of a call: the rest of the object behind the tool's name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._unread = ""
        self._last = ""

    @property
    def is_over(self) -> bool:
        return self._last == "}"

    def feed(self, text: str) -> _Pieces:
        name = self._name
        if name:
            # Where the arguments begin is not known before something follows the comma.
            self._unread += text
            text = self._unread.lstrip().removeprefix(",").lstrip()
            if not text:
                return []
            text, self._name = "{" + text, ""
        self._last = (text.rstrip() or self._last)[-1:]
        return [CallPiece(0, "", name, text)] if text else []

    def flush(self) -> _Pieces:
        return [CallPiece(0, "", self._name, "{")] if self._name else []


class _Answer:
    """An answer: the text of a JSON string or, if it is structured, JSON as it is."""

    def __init__(self, *, is_structured: bool) -> None:
        self._head = _ANSWER if is_structured else _TEXT_ANSWER
        self._unread = ""
        self._has_head = False
        self._string = None if is_structured else StringDecoder()
        self._held = ""
        self._json = ""

    @property
    def is_over(self) -> bool:
        if self._string is not None:
            return self._string.is_over
        return self._held == "}" and is_json(self._json)

    def feed(self, text: str) -> _Pieces:
        if not self._has_head:
            self._unread += text
            head = self._head.match(self._unread)
            if head is None:
                if len(self._unread.strip()) > _LONGEST_HEAD:
                    raise _malformed_error(self._unread)
                return []
            self._has_head = True
            text = self._unread[head.end() :]
        if self._string is not None:
            text = "" if self._string.is_over else self._string.feed(text)
        else:
            # The last brace closes the reply, not the answer.
            text = self._held + text
            text, self._held = text[:-1], text[-1:]
            self._json += text
        return [TextPiece(text)] if text else []

    def flush(self) -> _Pieces:
        return [TextPiece(self._held)] if self._held else []


def is_json(text: str) -> bool:
    """Whether a text is one JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _load(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise _malformed_error(text) from None


def _malformed_error(text: str) -> MalformedResponseError:
    return MalformedResponseError(
        f"local: the model wrote neither a call nor an answer: {text[:80]!r}.",
        remedy="Try again, use a simpler schema, or use another model.",
    )
