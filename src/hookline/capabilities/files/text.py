"""Bytes as text, and back: the encoding of a file, its lines, its fingerprint, and whether it is text at all."""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from hookline.errors import ToolError

LARGEST = 8 * 1024 * 1024
"""Bytes of a file that is read as a whole; of a larger one only the part that is asked for."""
SNIFFED = 8192
"""How much of a file tells whether it is text."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "utf-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "utf-32"),  # before utf-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be", "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
_NO_TEXT = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f\ufffe\uffff]")


class Text(NamedTuple):
    """The text of a file, and what is needed to write it the same way again."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark it begins with."""
    name: str = ""
    """What to call the encoding; empty when it is plain UTF-8, as it should be."""

    @property
    def line_end(self) -> str:
        """How most of its lines end."""
        with_return = self.text.count("\r\n")
        return "\r\n" if with_return * 2 > self.text.count("\n") else "\n"

    def encoded(self, text: str) -> bytes:
        """Another text in the same encoding."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            lost = error.object[error.start : error.start + 1]
            raise ToolError(
                f"the file is in {self.name or self.encoding}, which has no character {lost!r}.",
                remedy="Use other characters, or write the whole file anew with `write`, which makes it UTF-8.",
            ) from None


def is_binary(content: bytes) -> bool:
    """Whether it begins like no text: with a zero byte, and not in an encoding that has them."""
    marked = any(content.startswith(mark) for mark, _, _ in _MARKS)
    return not marked and b"\0" in content[:SNIFFED] and not _unmarked(content[:SNIFFED])


def _unmarked(head: bytes) -> str:
    """The encoding of two bytes in which this is text without a mark that says so; empty if it is none.

    In one, every other byte of most texts is zero. What else there is must be text all the same.
    """
    zeros = head[0::2].count(0), head[1::2].count(0)
    encoding = {True: "utf-16-be", False: "utf-16-le"}[zeros[0] > zeros[1]]
    if len(head) % 2 or min(zeros) or max(zeros) * 4 < len(head):
        return ""
    # A character of four bytes may be cut in two at the end.
    text = head.decode(encoding, "ignore")
    is_text = not _NO_TEXT.search(text) and len(text) * 2 >= len(head) - 2
    return encoding if is_text else ""


def decoded(content: bytes) -> Text | None:
    """The text of a file; None if it is none."""
    for mark, encoding, name in _MARKS:
        if content.startswith(mark):
            try:
                return Text(content[len(mark) :].decode(encoding), encoding, mark, name)
            except UnicodeDecodeError:
                return None
    if is_binary(content):
        return None
    if b"\0" in content[:SNIFFED]:
        return _wide(content, _unmarked(content[:SNIFFED]))
    try:
        return Text(content.decode())
    except UnicodeDecodeError:
        pass
    head = content[:SNIFFED]
    if len(head.translate(None, _CONTROLS)) < len(head):
        return None
    return Text(content.decode("latin-1"), "latin-1", b"", "latin-1 (it is not UTF-8)")


def _wide(content: bytes, encoding: str) -> Text | None:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return Text(text, encoding, b"", "utf-16 without a byte order mark")


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends. What follows the last line end is only a line if there is something."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def fingerprint(content: bytes) -> str:
    """What a file's content is recognised by."""
    return hashlib.sha256(content).hexdigest()[:24]


def fingerprint_of_large(facts: os.stat_result) -> str:
    """The same for a file that is too large to read: its size and when it was changed."""
    return f"{facts.st_size}@{facts.st_mtime_ns}"


# --- binary files ---------------------------------------------------------------------------------

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image", "image/png"),
    (b"\xff\xd8\xff", "a JPEG image", "image/jpeg"),
    (b"GIF8", "a GIF image", "image/gif"),
    (b"BM", "a BMP image", "image/bmp"),
    (b"%PDF-", "a PDF document", "application/pdf"),
    (b"PK\x03\x04", "a zip archive (or an office document)", ""),
    (b"\x1f\x8b", "a gzip archive", ""),
    (b"\x7fELF", "a program", ""),
    (b"SQLite format 3\0", "an SQLite database", ""),
)


class FileKind(NamedTuple):
    """What a file is that is not text."""

    words: str
    media_type: str = ""

    @property
    def is_image(self) -> bool:
        """Whether models can see it."""
        return self.media_type in ("image/png", "image/jpeg", "image/gif", "image/webp")


def kind_of(content: bytes) -> FileKind:
    """What a binary file is, by how it begins."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return FileKind("a WebP image", "image/webp")
    for magic, words, media_type in _MAGIC:
        if content.startswith(magic):
            size = _size_of_image(content, media_type)
            return FileKind(
                f"{words} of {size[0]} x {size[1]} pixels" if size else words, media_type
            )
    return FileKind("a binary file")


def _size_of_image(content: bytes, media_type: str) -> tuple[int, int] | None:
    if media_type == "image/png" and len(content) >= 24:
        return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
    if media_type == "image/gif" and len(content) >= 10:
        return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")
    return _size_of_jpeg(content) if media_type == "image/jpeg" else None


def _size_of_jpeg(content: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        marker, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(content[at + 7 : at + 9]), int.from_bytes(
                content[at + 5 : at + 7]
            )
        at += 2 + length
    return None


# --- large files, some lines at a time ---------------------------------------------------------


HEAD = 64 * 1024
"""Bytes by which a large file is judged."""
_AT_ONCE = 1024 * 1024
"""Characters of lines that are handed on together."""
_LONGEST_LINE = 8 * 1024 * 1024
"""Characters of a line that are searched."""


class LineBlock(NamedTuple):
    """Some lines, with those around them."""

    first: int
    """How many lines there are before all of these."""
    lines: list[str]
    start: int
    stop: int
    """Those between are its own."""


def text_of_head(head: bytes) -> Text | None:
    """The beginning of a large file as text; None if it is not text. A character may be cut in two at its end."""
    return next((text for end in range(4) if (text := decoded(head[: len(head) - end]))), None)


def line_blocks(file: IO[bytes], around: int) -> Iterator[LineBlock]:
    """All lines of a text file in blocks, each with `around` lines before and after it."""
    found = text_of_head(file.read(HEAD))
    if found is None:
        return
    first, before = 0, list[str]()
    lines: list[str] = []
    for more in _batches(file, found):
        if lines:
            yield _block(first, before, lines, more[:around])
            first += len(lines)
            before = (before + lines)[-around:] if around else []
        lines = more
    if lines:
        yield _block(first, before, lines, [])


def _block(first: int, before: list[str], lines: list[str], after: list[str]) -> LineBlock:
    start = len(before)
    return LineBlock(first - start, [*before, *lines, *after], start, start + len(lines))


def _batches(file: IO[bytes], found: Text) -> Iterator[list[str]]:
    lines, room = list[str](), _AT_ONCE
    for line, _ in large_lines(file, found, _LONGEST_LINE):
        lines.append(line)
        room -= len(line) + 1
        if room < 0:
            yield lines
            lines, room = [], _AT_ONCE
    yield lines


def large_lines(file: IO[bytes], found: Text, longest: int) -> Iterator[tuple[str, int]]:
    """The lines of a large file, and how many characters are missing from each: none is read beyond `longest`."""
    file.seek(len(found.mark))
    text = io.TextIOWrapper(file, found.encoding, "replace", newline="\n")
    try:
        while line := text.readline(longest):
            missing = 0
            rest = line
            while rest and not rest.endswith("\n"):
                rest = text.readline(HEAD)
                missing += len(rest.rstrip("\n"))
            yield line if missing else line.removesuffix("\n").removesuffix("\r"), missing
    finally:
        text.detach()
