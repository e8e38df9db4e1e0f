"""The readings of a text: as it is, and without the encodings around it.

A token behind `\\n` in JSON, behind `%3D` in an address or behind a colour follows a letter, and so looks like the
middle of a word. Patterns that know all this were rejected: each knew other encodings. Here a text is decoded, level by
level, and the same patterns search each reading.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

Span: TypeAlias = tuple[int, int, str]
"""Where a secret begins and ends, and of what kind it is."""

_MOST_LEVELS = 4
"""JSON within JSON within JSON within an address."""
MARGIN = 1_000
"""Letters around a change that are searched again, up to the ends of their lines. What is longer is on one line."""
_FAR = re.compile(
    r"PRIVATE[ +]KEY|kind\W.{0,120}?Secret|:[ \t]{0,8}[|>][+-]?[ \t]{0,8}\r?\n", re.DOTALL
)
"""What is recognised over many lines: private keys, the values of a Secret, and texts of YAML."""
_INVISIBLE = "\u00ad\u200b-\u200d\u2060\ufeff"
"""Letters that nobody sees: soft hyphens, spaces without width, marks of a byte order."""
_MAY_HIDE = re.compile(rf"[\\%&\x1b\x9b{_INVISIBLE}]|\^\[")
_COLOUR = re.compile(
    rf"[{_INVISIBLE}]{{1,64}}"
    r"|\x1b(?:\[[0-?]{0,64}[ -/]{0,4}[@-~]|[ -/]{1,2}[0-~]|O[@-~]|P[^\x1b]{0,256}\x1b\\)"
    r"|\^\[\[[0-?]{0,64}[ -/]{0,4}[@-~]"
    r"|\x9b[0-?]{0,64}[ -/]{0,4}[@-~]"
)
"""Codes for a terminal, also as `cat -v` shows them, and letters that nobody sees."""
# Each alternative begins with a letter: only then a search skips all other letters at once.
_ENCODED = re.compile(
    r"\\(?:[uU](?:0{4})?(?P<u>[0-9A-Fa-f]{4})|x(?P<x>[0-9A-Fa-f]{2})|(?P<octal>[0-3][0-7]{2})"
    r"|(?P<letter>[\"'`\\/abefnrtv0])|(?P<continued>\r?\n))"
    r"|%(?P<percent>[0-9A-Fa-f]{2})"
    r"|&(?:(?P<entity>quot|apos|amp|lt|gt|nbsp)|\#(?P<number>\d{1,5})|\#[xX](?P<hex>[0-9A-Fa-f]{1,4}));"
    rf"|{_COLOUR.pattern}"
)
"""What stands for one letter, or for none: escapes of JSON and of programs, the end of a line that a shell continues,
letters in addresses and in HTML, and codes for a terminal."""
_LETTERS = dict(zip("nrtbfvae0", "\n\r\t\b\f\v\a\x1b\0", strict=True))
_ENTITIES = {"quot": '"', "apos": "'", "amp": "&", "lt": "<", "gt": ">", "nbsp": " "}
_ESCAPE = "\x1b"
_QUOTE = re.compile(r"\\*[\"'`]")
_FARTHEST_QUOTE = 32


Find: TypeAlias = Callable[[str, bool], Iterable[Span]]
"""Finds secrets in a reading; it also gets whether all but the colours is as it was written."""


def find_in_readings(text: str, find: Find, *, is_local: bool = True) -> Iterator[Span]:
    """What is found in any reading of a text, as places in the text itself.

    A colour separates words in one reading, and is nothing in another: programs colour a part of a word, too. A decoded
    reading is searched where it differs from the reading before it, unless `find` needs more of a text than `MARGIN`.
    """
    yield from find(text, True)
    if not _MAY_HIDE.search(text):
        return
    for colour in (_ESCAPE, ""):
        current, decoded = text, list[_DecodedText]()
        for encoded in (_COLOUR, *[_ENCODED] * _MOST_LEVELS):
            if not encoded.search(current):
                continue
            decoded.append(_DecodedText(current, encoded, colour))
            current = decoded[-1].text
            is_near = is_local and not _FAR.search(current)
            near = decoded[-1].near_changes() if is_near else [(0, len(current))]
            for span in _find_within(near, current, find, encoded is _COLOUR):
                for level in reversed(decoded):
                    span = level.restore(span)
                yield span
        if not any(level.has_colours for level in decoded):
            return


def _find_within(
    parts: Iterable[tuple[int, int]], text: str, find: Find, is_as_written: bool
) -> Iterable[Span]:
    """What is found in parts of a text. Where it reaches the edge of one, it may be longer: then in all of it."""
    spans: list[Span] = []
    for first, last in parts:
        for start, end, kind in find(text[first:last], is_as_written):
            if (first and not start) or (first + end == last < len(text)):
                return find(text, is_as_written)
            spans.append((first + start, first + end, kind))
    return spans


class _DecodedText:
    """A text without one level of encoding, and where its letters are in the text that was encoded."""

    def __init__(self, encoded: str, pattern: re.Pattern[str], colour: str) -> None:
        pieces: list[str] = []
        self._encoded = encoded
        self._places, self._sources = [0], [0]
        self._ends: dict[int, int] = {}
        self.has_colours = False
        position = size = 0
        for found in pattern.finditer(encoded):
            letter = _letter(found, colour)
            self.has_colours = self.has_colours or found.lastgroup is None
            pieces += [encoded[position : found.start()], letter]
            size += found.start() - position
            position = found.end()
            if letter:
                self._ends[size] = position
                size += 1
            self._places.append(size)
            self._sources.append(position)
        self.text = "".join((*pieces, encoded[position:]))

    def near_changes(self) -> Iterator[tuple[int, int]]:
        """The lines around all that was decoded."""
        first = last = 0
        for place in self._places[1:]:
            if place + MARGIN <= last:
                continue
            if place - MARGIN > last:
                if last:
                    yield first, last
                first = self.text.rfind("\n", last, place - MARGIN) + 1 or last
            end = self.text.find("\n", place + MARGIN)
            last = len(self.text) if end < 0 else end
        yield first, last

    def restore(self, span: Span) -> Span:
        start, end, kind = span
        name = kind.lstrip("\\\"'`")
        quote = self._quote_before(kind[: len(kind) - len(name)], start)
        return self._start(start), self._end(end), f"{quote}{name}"

    def _start(self, place: int) -> int:
        at = bisect_right(self._places, place) - 1
        return self._sources[at] + place - self._places[at]

    def _end(self, place: int) -> int:
        return self._ends.get(place - 1) or self._start(place - 1) + 1

    def _quote_before(self, quote: str, place: int) -> str:
        """How a quote before a place is written in the encoded text; empty if not as a quote."""
        if not quote:
            return ""
        at = self.text.rfind(quote, max(0, place - _FARTHEST_QUOTE), place)
        written = self._encoded[self._start(at) : self._end(at + len(quote))] if at >= 0 else ""
        return written if _QUOTE.fullmatch(written) else ""


def _letter(found: re.Match[str], colour: str) -> str:
    """The letter that an encoding stands for; empty for none."""
    kind = found.lastgroup
    if kind is None:
        return colour
    written = found[kind]
    match kind:
        case "continued":
            return ""
        case "letter":
            return _LETTERS.get(written, written)
        case "entity":
            return _ENTITIES[written]
        case "octal":
            return chr(int(written, 8))
        case "number":
            return chr(int(written))
        case _:
            return chr(int(written, 16))
