"""Reads grammars in llama.cpp's notation, and writes texts that they allow."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

Draw: TypeAlias = Callable[[int, int], int]
"""A number from the first to the second, both included."""

_TOKEN = re.compile(
    r"""\s*(?: (?P<literal>"(?:[^"\\]|\\.)*") | (?P<set>\[\^?(?:[^\]\\]|\\.)+\]) | (?P<name>[a-z][a-z0-9-]*)
    | (?P<repeat>\{\d+(?:,\d*)?\}|[*+?]) | (?P<mark>[()|]) )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))")
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}
_TOO_DEEP = 6
_LETTERS = "abcXYZ 0123.,:;{}[]'<|/éß世🦦"


class Literal(NamedTuple):
    text: str


class Set(NamedTuple):
    letters: str


class Name(NamedTuple):
    name: str


class Sequence(NamedTuple):
    parts: tuple[Node, ...]


class Choice(NamedTuple):
    options: tuple[Node, ...]


class Repeat(NamedTuple):
    part: Node
    least: int
    most: int | None


Node: TypeAlias = "Literal | Set | Name | Sequence | Choice | Repeat"


class GrammarReader:
    """A grammar, understood. Refuses what llama.cpp would: unknown rules, and text that means nothing."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, Node] = {}
        for line in text.splitlines():
            name, sign, body = line.partition(" ::= ")
            assert sign, f"not a rule: {line!r}"
            assert re.fullmatch(r"[a-z][a-z0-9-]*", name), name
            assert name not in self.rules, f"{name} is defined twice"
            self.rules[name] = _Parser(body).whole()
        assert "root" in self.rules
        for node in self.rules.values():
            self._check(node)
        self._depth = dict.fromkeys(self.rules, float("inf"))
        for _ in self.rules:  # each round settles at least one rule more
            self._depth = {name: 1 + self._least(node) for name, node in self.rules.items()}

    def _check(self, node: Node) -> None:
        if isinstance(node, Name):
            assert node.name in self.rules, f"there is no rule {node.name}"
        for part in _parts(node):
            self._check(part)

    def _least(self, node: Node) -> float:
        """How deep one has to go at least to get out again."""
        if isinstance(node, Name):
            return self._depth[node.name]
        if isinstance(node, Repeat) and not node.least:
            return 0
        depths = [self._least(part) for part in _parts(node)]
        return min(depths) if isinstance(node, Choice) else max(depths, default=0)

    def write(self, draw: Draw) -> str:
        """A text of the grammar's language, with all choices drawn."""
        return self._written(self.rules["root"], draw, 0)

    def _written(self, node: Node, draw: Draw, depth: int) -> str:
        if isinstance(node, Literal):
            return node.text
        if isinstance(node, Set):
            return node.letters[draw(0, len(node.letters) - 1)]
        if isinstance(node, Name):
            return self._written(self.rules[node.name], draw, depth + 1)
        if isinstance(node, Sequence):
            return "".join(self._written(part, draw, depth) for part in node.parts)
        if isinstance(node, Choice):
            if depth > _TOO_DEEP:
                return self._written(min(node.options, key=self._least), draw, depth)
            return self._written(node.options[draw(0, len(node.options) - 1)], draw, depth)
        most = node.least if depth > _TOO_DEEP else node.least + 3
        times = draw(node.least, most if node.most is None else min(most, node.most))
        return "".join(self._written(node.part, draw, depth) for _ in range(times))


def _parts(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Sequence):
        return node.parts
    if isinstance(node, Choice):
        return node.options
    return (node.part,) if isinstance(node, Repeat) else ()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text.rstrip()):
            found = _TOKEN.match(text, position)
            assert found, f"means nothing: {text[position:]!r}"
            self._tokens.append((found.lastgroup or "", found[found.lastgroup or 0]))
            position = found.end()

    def whole(self) -> Node:
        node = self._choice()
        assert not self._tokens, f"left over: {self._tokens}"
        return node

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._tokens and self._tokens[0][1] == "|":
            self._tokens.pop(0)
            options.append(self._sequence())
        return Choice(tuple(options)) if len(options) > 1 else options[0]

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._tokens and self._tokens[0] not in (("mark", "|"), ("mark", ")")):
            kind, text = self._tokens.pop(0)
            if kind == "repeat":
                parts.append(_repeat(parts.pop(), text))
            elif kind == "mark":
                assert text == "("
                parts.append(self._choice())
                assert self._tokens.pop(0) == ("mark", ")")
            else:
                parts.append(_leaf(kind, text))
        assert parts, "nothing where something should be"
        return Sequence(tuple(parts))


def _leaf(kind: str, text: str) -> Node:
    if kind == "literal":
        return Literal(_unescaped(text[1:-1]))
    return Set(_letters(text[1:-1])) if kind == "set" else Name(text)


def _repeat(part: Node, text: str) -> Repeat:
    if text in "*+?":
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[text]
        return Repeat(part, least, most)
    low, comma, high = text[1:-1].partition(",")
    least = int(low)
    most = int(high) if high else None if comma else least
    assert most is None or least <= most
    return Repeat(part, least, most)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _CONTROL.get(m[2], m[2]), text)


def _letters(inside: str) -> str:
    """The letters of a set; of one that says what it is not, some."""
    is_not = inside.startswith("^")
    found = ""
    units = [m[0] for m in re.finditer(r"\\x[0-9A-Fa-f]{2}|\\.|.", inside.removeprefix("^"))]
    while units:
        first = _unescaped(units.pop(0))
        if len(units) > 1 and units[0] == "-":
            last = _unescaped(units[1])
            units = units[2:]
            found += "".join(map(chr, range(ord(first), ord(last) + 1)))
        else:
            found += first
    return "".join(letter for letter in _LETTERS if letter not in found) if is_not else found
