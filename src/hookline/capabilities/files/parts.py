"""A large file, some of its lines at a time: it is never held in memory as a whole."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, NamedTuple

from hookline.capabilities.files.texts import Text, decoded

HEAD = 64 * 1024
"""Bytes by which a large file is judged."""
_AT_ONCE = 1024 * 1024
"""Characters of lines that are handed on together."""
_LONGEST = 8 * 1024 * 1024
"""Characters of a line that are looked at; who writes longer ones does not mean them to be read."""


class Part(NamedTuple):
    """Some lines, with those around them."""

    first: int
    """How many lines there are before all of these."""
    lines: list[str]
    start: int
    stop: int
    """Those between are its own."""


def text_of_head(head: bytes) -> Text | None:
    """The beginning of a large file as text; None if it is none.

    A character may be cut in two at its end, which says nothing about the encoding.
    """
    return next((text for end in range(4) if (text := decoded(head[: len(head) - end]))), None)


def parts_of_lines(file: IO[bytes], around: int) -> Iterator[Part]:
    """All lines of a file of text, a part at a time, each with so many of the lines around it."""
    found = text_of_head(file.read(HEAD))
    if found is None:
        return
    file.seek(len(found.mark))
    first, before = 0, list[str]()
    lines: list[str] = []
    for more in _batches(file, found.encoding):
        if lines:
            yield _part(first, before, lines, more[:around])
            first += len(lines)
            before = (before + lines)[-around:] if around else []
        lines = more
    if lines:
        yield _part(first, before, lines, [])


def _part(first: int, before: list[str], lines: list[str], after: list[str]) -> Part:
    start = len(before)
    return Part(first - start, [*before, *lines, *after], start, start + len(lines))


def _batches(file: IO[bytes], encoding: str) -> Iterator[list[str]]:
    text = io.TextIOWrapper(file, encoding, "replace", newline="\n")
    try:
        lines, room = list[str](), _AT_ONCE
        while line := text.readline(_LONGEST):
            if not line.endswith("\n"):
                skip_rest(text)
            lines.append(line.removesuffix("\n").removesuffix("\r"))
            room -= len(line)
            if room < 0:
                yield lines
                lines, room = [], _AT_ONCE
        yield lines
    finally:
        text.detach()


def skip_rest(text: io.TextIOWrapper) -> int:
    """Read on to the end of a line; gives how long the rest is."""
    length = 0
    while rest := text.readline(HEAD):
        length += len(rest.rstrip("\n"))
        if rest.endswith("\n"):
            break
    return length
