"""How the model says what it does: one JSON object, the tool's name first. An answer is said the same way.

{"tool": "add", "a": 3, "b": 4}
{"tool": "final_answer", "answer": "3 plus 4 is 7."}
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hookline.errors import MalformedResponseError
from hookline.providers.base import CallPiece, TextPiece
from hookline.providers.local.grammar import Grammar, following, literal
from hookline.state import ToolSpec

_HEAD = '{"tool": "'
_NAMED = re.compile(r'\{"tool": ("(?:[^"\\]|\\.)*")(.*)', re.DOTALL)
_ANSWER = ', "answer": '
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX_DIGITS = 4


def answer_name(names: Collection[str]) -> str:
    """What answering is called among tools of these names."""
    name = "final_answer"
    while name in names:
        name += "_"
    return name


# --- writing ------------------------------------------------------------------------------------


def said_call(name: str, args: Mapping[str, Any]) -> str:
    """A call as the model says it."""
    return json.dumps({"tool": name}, ensure_ascii=False)[:-1] + _following(args)


def _following(args: Mapping[str, Any]) -> str:
    return f", {json.dumps(args, ensure_ascii=False)[1:]}" if args else "}"


def said_answer(name: str, text: str) -> str:
    """An answer as the model says it."""
    return said_call(name, {"answer": text})


def turn_grammar(
    tools: Sequence[ToolSpec], answering: str, schema: Mapping[str, Any] | None = None
) -> str:
    """What the model may say in one turn: a call of one of these tools or, if it has a name, an answer."""
    grammar = Grammar()
    turns = [_call_rule(grammar, tool) for tool in tools]
    if answering:
        answer = grammar.common("string") if schema is None else grammar.schema(schema)
        head = json.dumps({"tool": answering}, ensure_ascii=False)[:-1] + _ANSWER
        turns.append(grammar.named("answer", f'{literal(head)} {answer} "}}"'))
    return grammar.text(" | ".join(turns))


def _call_rule(grammar: Grammar, tool: ToolSpec) -> str:
    name = grammar.reserved("tool")
    properties = grammar.properties(tool.parameters)
    required = "".join(f' ", " {each}' for each, is_required in properties if is_required)
    optional = following([each for each, is_required in properties if not is_required])
    head = literal(json.dumps({"tool": tool.name}, ensure_ascii=False)[:-1])
    return grammar.named(name, f'{head}{required}{optional} "}}"')


# --- hearing ------------------------------------------------------------------------------------


class Hearing:
    """Understands a turn as it comes. Text and arguments are handed on as far as they are certain."""

    def __init__(self, answering: str, *, is_structured: bool = False) -> None:
        self._answering = answering
        self._is_structured = is_structured
        self._unread = ""
        self._part: _Call | _Text | _JSON | None = None

    def feed(self, text: str) -> list[TextPiece | CallPiece]:
        """Take more of the turn."""
        if self._part is not None:
            return self._part.feed(text)
        self._unread += text
        named = _NAMED.match(self._unread)
        if named is None:
            if not (_HEAD.startswith(self._unread) or self._unread.startswith(_HEAD)):
                raise _misspoken(self._unread)
            return []
        name = json.loads(named[1])
        if name != self._answering:
            self._part = _Call(name)
        else:
            self._part = _JSON() if self._is_structured else _Text()
        return self._part.feed(named[2])

    def end(self, *, is_cut: bool) -> list[TextPiece | CallPiece]:
        """The turn is over; refuses one that stops in the middle, unless it ran out of tokens."""
        if self._part is None or not self._part.is_over:
            if not is_cut:
                raise _misspoken(self._unread)
            return self._part.rest() if self._part else []
        return []


class _Call:
    """The arguments of a call: an object whose first entry was the tool's name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = ""
        self._last = ""
        self.is_over = False

    def feed(self, text: str) -> list[TextPiece | CallPiece]:
        if self._name:
            # Until the comma after the name is behind us, it cannot be told where the arguments begin.
            self._head += text
            if self._head in ("", ","):
                return []
            name, self._name = self._name, ""
            text = "{" + self._head.removeprefix(",").lstrip(" ")
            self._hear(text)
            return [CallPiece(0, "", name, text)]
        self._hear(text)
        return [CallPiece(0, "", "", text)] if text else []

    def _hear(self, text: str) -> None:
        self._last = (text.rstrip() or self._last)[-1:]
        self.is_over = self._last == "}"

    def rest(self) -> list[TextPiece | CallPiece]:
        """What was held back; a call without its arguments is one whose arguments are broken off."""
        return [CallPiece(0, "", self._name, "{")] if self._name else []


class _Text:
    """An answer: a JSON string, of which the text is handed on."""

    def __init__(self) -> None:
        self._head = _ANSWER + '"'
        self._escape = ""
        self.is_over = False

    def feed(self, text: str) -> list[TextPiece | CallPiece]:
        text, self._head = _behind(self._head, text)
        heard = "".join(map(self._letter, text))
        return [TextPiece(heard)] if heard else []

    def _letter(self, letter: str) -> str:
        if self.is_over:
            return ""
        if self._escape:
            return self._escaped(letter)
        if letter == "\\":
            self._escape = letter
        elif letter == '"':
            self.is_over = True
        else:
            return letter
        return ""

    def _escaped(self, letter: str) -> str:
        self._escape += letter
        if self._escape[1] != "u":
            self._escape = ""
            return _ESCAPES.get(letter, letter)
        digits = self._escape[2:]
        if len(digits) < _HEX_DIGITS:
            return ""
        self._escape = ""
        try:
            return chr(int(digits, 16))
        except ValueError:
            raise _misspoken(f"\\u{digits}") from None

    def rest(self) -> list[TextPiece | CallPiece]:
        """Nothing: half an escape is no letter."""
        return []


class _JSON:
    """A structured answer: JSON, handed on as it is, up to the brace that closes the turn."""

    def __init__(self) -> None:
        self._head = _ANSWER
        self._held = ""
        self._whole = ""

    @property
    def is_over(self) -> bool:
        """Whether it is JSON, and the turn is closed behind it."""
        return self._held == "}" and is_json(self._whole)

    def feed(self, text: str) -> list[TextPiece | CallPiece]:
        text, self._head = _behind(self._head, text)
        text = self._held + text
        text, self._held = text[:-1], text[-1:]
        self._whole += text
        return [TextPiece(text)] if text else []

    def rest(self) -> list[TextPiece | CallPiece]:
        """What was held back."""
        return [TextPiece(self._held)] if self._held else []


def is_json(text: str) -> bool:
    """Whether a text is one JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _behind(head: str, text: str) -> tuple[str, str]:
    """What of a text lies behind a head that it must begin with, and what of the head is still to come."""
    size = min(len(head), len(text))
    if head[:size] != text[:size]:
        raise _misspoken(text)
    return text[size:], head[size:]


def _misspoken(text: str) -> MalformedResponseError:
    return MalformedResponseError(
        f"local: the model did not say a call or an answer: {text[:80]!r}.",
        remedy="Try again, or use another model.",
    )
