"""Text inside JSON that arrives in pieces: strings before their end, and letters in two halves."""

from __future__ import annotations

import re
from collections.abc import Callable

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "u": ""}
_COMPLETE = re.compile(r'(?>(?:[^"\\]|\\u.{4}|\\[^u])*)', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


class StringDecoder:
    """Decodes a JSON string from behind its opening quote. An unknown escape stands for itself."""

    def __init__(self) -> None:
        self._unread = ""
        self.is_over = False
        self.rest = ""
        """What came after the closing quote."""

    def feed(self, text: str) -> str:
        """The text in the next piece. Half an escape waits for its other half."""
        self._unread += text
        end = _COMPLETE.match(self._unread).end()  # type: ignore[union-attr]  # it matches the empty text
        found, self._unread = self._unread[:end], self._unread[end:]
        if self._unread.startswith('"'):
            self.is_over, self.rest, self._unread = True, self._unread[1:], ""
        return _ESCAPE.sub(_unescape, found)


def _unescape(escape: re.Match[str]) -> str:
    code, letter = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(letter, letter)


class LetterStream:
    """Passes text on in whole letters.

    JSON writes a letter beyond the first 65,536 as two halves, and a server may send them in two chunks.
    """

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._parts: list[str] = []
        self._half = ""

    def add(self, text: str) -> None:
        """Take more text; half a letter at its end waits for its other half."""
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        self._pass_on(text)

    def finish(self) -> str:
        """All of the text; nothing waits any more."""
        half, self._half = self._half, ""
        self._pass_on(half)
        return "".join(self._parts)

    def _pass_on(self, text: str) -> None:
        if text:
            text = join_halves(text)
            self._parts.append(text)
            self._emit(text)


def join_halves(text: str) -> str:
    """Text that UTF-8 can hold: the halves of a letter are joined, and a half that is alone is replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
