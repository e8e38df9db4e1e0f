"""The terminal: its colours, its width, and which text may be printed on it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

_JOINERS = "\u200c\u200d"
"""They join emoji and letters of some scripts, and do not move the cursor."""
_CODE = re.compile(r"(\x1b\[[0-9;]*m)")
_LEAST = 10
_WIDEST = 140
_PIPED = 100
_MAX_PIPED = 200
TOGETHER = "\N{NO-BREAK SPACE}"
_COMMAND = re.compile(r"`[^`]+`|(?<=: )hookline [a-z][^;]*")
_COLOURS = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1"}


class Paint:
    """Colours, if the stream is a terminal with colours and NO_COLOR is not set."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        forced = environ.get("FORCE_COLOR", "") not in ("", "0")
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self.is_on = (is_terminal(stream) or forced) and not plain

    def __call__(self, text: str, *colours: str) -> str:
        """The text in these colours."""
        if not self.is_on or not text or not colours:
            return text
        codes = ";".join(_COLOURS[colour] for colour in colours)
        return f"\x1b[{codes}m{text}\x1b[0m"


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def is_smart(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream is a terminal on which a line can be erased."""
    return is_terminal(stream) and environ.get("TERM", "") not in ("", "dumb")


def width() -> int:
    """The columns of the terminal now. All three streams are asked: some may be pipes."""
    for descriptor in (2, 1, 0):
        with contextlib.suppress(OSError, ValueError):
            columns = os.get_terminal_size(descriptor).columns
            if columns:
                return max(columns, _LEAST)
    given = os.environ.get("COLUMNS", "")
    return max(int(given), _LEAST) if given.isdecimal() else 100


def page_width(stream: TextIO) -> int:
    """The columns for a page of text: those of the terminal, up to a readable width."""
    return min(width(), _WIDEST) if is_terminal(stream) else _PIPED


def list_width(stream: TextIO) -> int:
    """The columns for a list with one line per item."""
    return width() if is_terminal(stream) else _MAX_PIPED


def printable(text: str, *, lines: bool = False) -> str:
    """Text of a model or a tool without control characters, which a terminal would obey."""
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(char if char.isprintable() or char in kept else _visible(char) for char in text)


def _visible(char: str) -> str:
    if char in "\n\r\t":
        return " "
    if char in _JOINERS or unicodedata.category(char) in ("Zs", "Co", "Cn"):
        return char
    return repr(char)[1:-1] if ord(char) < 0x10000 else "?"


def columns(text: str) -> int:
    """The columns of a text: two for wide characters, none for combining marks and colours."""
    if "\x1b" in text:
        text = _CODE.sub("", text)
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def end_column(text: str, column: int, room: int) -> int:
    """Where a text ends that begins at this column of a terminal, which wraps it."""
    _, newline, last = text.rpartition("\n")
    column = 0 if newline else column
    for char in last:
        wide = 8 - column % 8 if char == "\t" else _columns(char)
        column = wide if column + wide > room else column + wide
    return column


def fit_text(text: str, room: int) -> str:
    """Cut a text to so many columns."""
    if columns(text) <= room:
        return text
    kept = text[: _cut(text, room - 1, least=0)]
    return kept + "…" + ("\x1b[0m" if "\x1b" in kept else "")


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the cells of rows in columns."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell + " " * (room - columns(cell)) for cell, room in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def print_text(text: str, stream: TextIO | None = None, *, indent: int | None = None) -> None:
    """Print lines for people. On a terminal each is wrapped between words, and continues at `indent`, or a bit behind
    its own beginning. In a pipe they stay as they are."""
    out = stream or sys.stdout
    if is_terminal(out):
        text = "\n".join(_wrapped_lines(text, indent))
    print(text, file=out)


def count(number: int, what: str) -> str:
    """How many of something: `1 step`, `2 steps`."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def print_note(text: str) -> None:
    """Print a line on standard error, beside what a command prints for its reader. The text may be of others."""
    print_text(printable(text), sys.stderr)


def report(text: str) -> None:
    """Print a note that names the command, for those who read the output of several."""
    print_note(f"hookline: {text}")


def _wrapped_lines(text: str, indent: int | None) -> Iterator[str]:
    room = width()
    for line in text.split("\n"):
        own = len(line) - len(line.lstrip()) + 2
        below = " " * min(own if indent is None else indent, room // 2)
        yield from (each.rstrip() for each in wrap_text(line, room, below))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns. On a terminal the last column is wrapped."""
    lines = align_columns(rows)
    last = max((columns(row[-1]) for row in rows), default=0)
    indent = max(map(columns, lines), default=0) - last
    for line in lines:
        print_text(line, indent=indent)


def wrap_text(text: str, room: int, indent: str = "") -> list[str]:
    """Wrap a text between words, to lines of so many columns. All but the first begin with the indent.

    A long word has less of the indent before it. It is broken only where no line has room for it, and so is a command,
    which people copy. TOGETHER is shown as a space at which no line is broken.
    """
    lines, line = [], ""
    text = _COMMAND.sub(lambda found: found[0].replace(" ", TOGETHER), text)
    for word in re.findall(r" *[^ ]+", text):
        if line.strip() and columns(line + word) > room:
            lines.append(line)
            word = word.lstrip()
            line = indent[: max(room - columns(word), 0)] + word
        else:
            line += word
        while columns(line) > room and columns(indent) < room - 2:
            cut = _cut(line, room)
            between = line.rfind(TOGETHER, len(indent) + 1, cut + 1)
            lines.append(line[: between if between > 0 else cut])
            line = indent + (line[between + 1 :] if between > 0 else line[cut:])
    return [each.replace(TOGETHER, " ") for each in [*lines, line]]


def _cut(text: str, room: int, *, least: int = 1) -> int:
    """The number of characters that fit into so many columns. Colour codes are not cut."""
    taken = place = 0
    for piece in _CODE.split(text):
        if piece.startswith("\x1b"):
            place += len(piece)
            continue
        for char in piece:
            taken += _columns(char)
            if taken > room:
                return max(place, least)
            place += 1
    return len(text)
