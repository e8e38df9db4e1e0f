"""Bytes as text, and back: the encoding of a file, its lines, its fingerprint, and whether it is text at all."""

from __future__ import annotations

import codecs
import hashlib
import io
from typing import IO, Any, NamedTuple

from hookline.errors import ToolError

LARGEST = 32 * 1024 * 1024
"""Bytes of a file that is read, searched or edited: it is held in memory as a whole. Reading larger ones in parts was
dropped: it doubled the code of `read` and `search`, and `sed -n` or `grep` in a shell do it."""
SNIFFED = 8192
"""How many bytes of a file are read to decide whether it is text."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "utf-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "utf-32"),  # before utf-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be", "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))


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

    def encode_text(self, text: str) -> bytes:
        """Another text in the same encoding."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            lost = error.object[error.start : error.start + 1]
            raise ToolError(
                f"the file is in {self.name or self.encoding}, which has no character {lost!r}.",
                remedy="Use other characters, or write the whole file with `write`, which makes it UTF-8.",
            ) from None


def read_whole(file: IO[bytes], name: str) -> bytes:
    """All of a file; an error if it is too large."""
    content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise too_large(name)
    return content


def too_large(name: str) -> ToolError:
    """The error for a file that is not held in memory."""
    return ToolError(
        f"'{name}' is larger than {LARGEST >> 20} MB, which is too large for the file tools.",
        remedy="Use a command that reads a part of it, if you have a shell: sed -n, grep, tail.",
    )


def is_binary(content: bytes) -> bool:
    """Whether a file is no text: there is a zero byte in its head, and no byte order mark before it."""
    marked = any(content.startswith(mark) for mark, _, _ in _MARKS)
    return not marked and b"\0" in content[:SNIFFED]


def decode_text(content: bytes) -> Text | None:
    """The text of a file; None if it is not text."""
    for mark, encoding, name in _MARKS:
        if content.startswith(mark):
            try:
                return Text(content[len(mark) :].decode(encoding), encoding, mark, name)
            except UnicodeDecodeError:
                return None
    if is_binary(content):
        return None
    try:
        return Text(content.decode())
    except UnicodeDecodeError:
        pass
    head = content[:SNIFFED]
    if len(head.translate(None, _CONTROLS)) < len(head):
        return None
    return Text(content.decode("latin-1"), "latin-1", b"", "latin-1 (it is not UTF-8)")


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends. What follows the last line end is only a line if there is something."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def fingerprint(content: bytes) -> str:
    """What a file's content is recognised by."""
    return fingerprint_of(io.BytesIO(content))


def fingerprint_of(file: Any) -> str:
    """The same for an open file of any size."""
    return hashlib.file_digest(file, "sha256").hexdigest()[:24]


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
            return FileKind(words, media_type)
    return FileKind("a binary file")
