"""`read`: numbered lines, a part of the file at a time, with a note about what is not shown; images as attachments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from hookline.capabilities.files.seen_files import RESULT_KEY, Lines
from hookline.capabilities.files.text import (
    FileKind,
    Text,
    decode_text,
    fingerprint,
    kind_of,
    lines_of,
    read_whole,
)
from hookline.containment import FileJail
from hookline.errors import FileJailError, ToolError
from hookline.lifecycle import AfterStepHookContext
from hookline.state import Attachment, ToolResult

LONGEST_LINE = 2_000
MOST_CHARACTERS = 40_000
_LONGEST_ALONE = MOST_CHARACTERS - 100
"""Characters of a line that is read by itself, so that one can be seen whole."""
_LONGEST_WORD = 300
_BETWEEN_WORDS = re.compile(r"[\s\"'`=:,;<>(){}\[\]]")


class ShownFile(NamedTuple):
    """The part of a file that the model reads, and the fingerprint of the file."""

    text: str
    fingerprint: str
    kind: FileKind | None = None
    """What it is, if it is not text."""
    lines: Lines | None = None
    """Which lines are shown whole, if not all of them."""


def show(file: IO[bytes], name: str, offset: int, limit: int) -> ShownFile:
    """The lines from `offset` on, counted from 1; from below zero, counted from the end."""
    content = read_whole(file, name)
    seen = fingerprint(content)
    found = decode_text(content)
    if found is None:
        kind = kind_of(content)
        words = f"[{name} is {kind.words}, {len(content):,} bytes, and has no text to show]"
        return ShownFile(words, seen, kind)
    lines = lines_of(found.text)
    first = offset if offset > 0 else max(1, len(lines) + 1 + offset)
    if not lines:
        return ShownFile(f"({name} is empty)", seen)
    if first > len(lines):
        raise ToolError(
            f"'{name}' has {len(lines):,} lines, so there is no line {first:,}.",
            remedy=f"Use an offset from 1 to {len(lines)}.",
        )
    longest = LONGEST_LINE if limit > 1 else _LONGEST_ALONE
    wanted = lines[first - 1 : first - 1 + limit]
    body, last = _number_lines((cut(line, longest) for line in wanted), first)
    not_whole = [at for at in range(first, last + 1) if len(lines[at - 1]) > longest]
    parts = tuple(_parts_between(not_whole, first, last))
    shown = None if parts == (1, len(lines)) else (len(lines), *parts)
    alone = not_whole if limit > 1 else []
    return ShownFile(body + _notes(found, (first, last), len(lines), alone), seen, lines=shown)


def _parts_between(not_whole: list[int], first: int, last: int) -> Iterator[int]:
    """The first and the last line of each part in which all lines are shown whole."""
    for end in (*not_whole, last + 1):
        if first < end:
            yield from (first, end - 1)
        first = end + 1


def _notes(found: Text, shown: tuple[int, int], count: int, not_whole: list[int]) -> str:
    first, last = shown
    notes = []
    if not_whole:
        more = f" and {len(not_whole) - 1} more" * (len(not_whole) > 1)
        alone = f"offset={not_whole[0]}, limit=1"
        notes.append(f"line {not_whole[0]}{more} not shown whole; read it alone: {alone}")
    if (first, last) != (1, count):
        more = f"; continue with offset={last + 1}" if last < count else ""
        notes.append(f"lines {first}-{last} of {count}{more}")
    if found.name:
        notes.append(f"encoding: {found.name}")
    if found.line_end == "\r\n":
        notes.append("lines end with CRLF")
    return f"\n[{'; '.join(notes)}]" if notes else ""


def _number_lines(lines: Iterator[str], first: int) -> tuple[str, int]:
    """Lines with their numbers, as many as there is room for, and the number of the last one."""
    shown: list[str] = []
    room = MOST_CHARACTERS
    for line in lines:
        text = f"{first + len(shown):>6}\t{line}"
        room -= len(text) + 1
        if room < 0 and shown:
            break
        shown.append(text)
    return "\n".join(shown), first + len(shown) - 1


def cut(line: str, longest: int = LONGEST_LINE) -> str:
    """A line that is not too long to show."""
    if len(line) <= longest:
        return line
    shown = _cut_at_word(line[:longest])
    return f"{shown}... [{len(line) - len(shown):,} more characters in this line]"


def _cut_at_word(text: str) -> str:
    """The beginning of a line without a word that is cut in two: half a token is not known to be a secret."""
    near = text[-_LONGEST_WORD:]
    ends = [found.end() for found in _BETWEEN_WORDS.finditer(near)]
    return text[: len(text) - len(near) + ends[-1]] if ends else text


# --- images ------------------------------------------------------------------------------------


IMAGE_KEY = "image"
"""Where in a result's metadata: the media type, if what was read is an image."""
_LARGEST_IMAGE = 5 * 1024 * 1024
"""Bytes of an image that models take."""


def with_images(jail: FileJail, ctx: AfterStepHookContext) -> AfterStepHookContext | None:
    """The conversation with the images that this step has read."""
    found = [image for each in ctx.step.results if (image := _image(jail, each)) is not None]
    if not found:
        return None
    words = f"What was read: {', '.join(image.name for image in found)}"
    state = ctx.state.with_user_message(words, by="files-images", attachments=tuple(found))
    return ctx.with_state(state)


def _image(jail: FileJail, result: ToolResult) -> Attachment | None:
    media_type, file = result.metadata.get(IMAGE_KEY), result.metadata.get(RESULT_KEY)
    if result.name != "read" or not result.is_success or not media_type or not file:
        return None
    try:
        content = jail.read_bytes(file["path"], limit=_LARGEST_IMAGE)
    except FileJailError:
        return None
    return Attachment.from_bytes(content, media_type, file["path"])
