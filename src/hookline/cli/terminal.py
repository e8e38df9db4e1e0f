"""What is known about the terminal: colours, width, and what may be printed on it."""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Mapping
from typing import TextIO

_JOINERS = "\u200c\u200d"
"""They hold emoji and letters of some scripts together, and move nothing."""
_COLOURS = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1"}


class Paint:
    """Colours, where the stream is a terminal that has them and nobody has said NO_COLOR."""

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
    """Whether somebody looks at it."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def width() -> int:
    """How many columns the terminal has now."""
    return max(shutil.get_terminal_size((100, 24)).columns, 20)


def printable(text: str, *, lines: bool = False) -> str:
    """Text of a model or a tool as it can be shown: with no character in it that a terminal obeys."""
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
    """How many columns a text takes: wide characters take two, marks on others none."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fitted(text: str, room: int) -> str:
    """As much of a text as fits into so many columns."""
    if columns(text) <= room:
        return text
    taken, kept = 0, ""
    for char in text:
        taken += _columns(char)
        if taken > room - 1:
            break
        kept += char
    return kept + "…"
