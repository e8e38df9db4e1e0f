"""Encodings of a known secret: escaped for JSON, HTML or an address, in hex, in base64."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator, Sequence

_ENCODING = re.compile(r"[\\%&]")
"""Without one of these, no letter of a text is escaped."""

_FOLD = re.compile(r"\r?\n|\\{1,4}n")
_MAY_FOLD = r"(?:\r?\n|\\{1,4}n)?"
"""In base64 and in hex a line may end anywhere; in a JSON text that is an escape."""
_LONG = 12
"""Letters of a secret that is looked for over several lines as it is, too: a shorter one may be there by chance."""

_CUT = re.compile(
    r"(?:\.\.\. ?|\n)?\[(?:\.\.\. )?[0-9,]+ (?:more )?(?:characters|bytes)[^\[\]\n]{0,200}\]?\n?"
)
"""The note of a tool that leaves something out: a secret may have been cut in two there."""
_LEAST = 4
"""Letters of one end of a secret that are taken out next to such a note; in hex and base64 twice as many."""


def spellings(secret: str) -> tuple[re.Pattern[str], ...]:
    """Patterns for a secret as it is, escaped for JSON, HTML or an address (any letter of it), in hex and in base64."""
    escaped, hexed, packed = _sources(secret)
    return (
        re.compile(escaped, re.IGNORECASE),
        re.compile(hexed, re.IGNORECASE),
        re.compile(packed),
    )


class SecretPatterns:
    """A secret to search for. Cheap tests come first: most texts do not contain it."""

    def __init__(self, secret: str) -> None:
        self._escaped, self._hexed, self._packed = spellings(secret)
        self._plain = re.compile(re.escape(secret), re.IGNORECASE)
        self._folded = re.compile(_MAY_FOLD.join(map(re.escape, secret)), re.IGNORECASE)
        self._lowered = secret.lower()
        content = secret.encode(errors="surrogateescape")
        self._hex = content.hex()
        self._pieces = tuple(
            max(re.split("[+/]", _letters(content, shift)), key=len) for shift in range(3)
        )
        self._forms = (
            (self._lowered, _LEAST, False),
            (self._hex, 2 * _LEAST, False),
            *((_letters(content, shift), 2 * _LEAST, True) for shift in range(3)),
        )

    def spans(self, text: str, lowered: str) -> Iterator[tuple[int, int]]:
        """Where it is in a text, of which the caller has the lower case."""
        if _ENCODING.search(text):
            yield from _find_spans(self._escaped, text)
        elif self._lowered in lowered or not text.isascii():
            yield from _find_spans(self._plain, text)
        folds = "\n" in text or "\\n" in text
        folded = _FOLD.sub("", text) if folds else text
        lowered = folded.lower() if folds else lowered
        if folds and len(self._lowered) >= _LONG and self._lowered in lowered:
            yield from _find_spans(self._folded, text)
        if self._hex in lowered:
            yield from _find_spans(self._hexed, text)
        if any(piece in folded for piece in self._pieces):
            yield from _find_spans(self._packed, text)

    def ends(self, text: str, cuts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The rest of a secret before and after the note that something was left out."""
        for start, end in cuts:
            for whole, least, is_exact in self._forms:
                before, after = (
                    text[max(0, start - len(whole)) : start],
                    text[end : end + len(whole)],
                )
                if length := _overlap(before if is_exact else before.lower(), whole, least):
                    yield start - length, start
                if length := _overlap(whole, after if is_exact else after.lower(), least):
                    yield end, end + length


def cuts_in(text: str) -> list[tuple[int, int]]:
    """Where something was left out, and the note says so."""
    if "[" not in text or not ("characters" in text or " bytes" in text):
        return []
    return [found.span() for found in _CUT.finditer(text)]


def _overlap(before: str, after: str, least: int) -> int:
    """How many letters at the end of one text are the beginning of the other, if they are not few."""
    if after[:least] not in before:
        return 0
    for length in range(min(len(before), len(after)), least - 1, -1):
        if before.endswith(after[:length]):
            return length
    return 0


def _find_spans(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    for found in pattern.finditer(text):
        yield found.span()


def _sources(secret: str) -> tuple[str, str, str]:
    content = secret.encode(errors="surrogateescape")
    packed = "|".join(_base64_pattern(content, shift) for shift in range(3))
    return "".join(map(_letter_pattern, secret)), _MAY_FOLD.join(content.hex()), packed


def _letter_pattern(letter: str) -> str:
    # Repeats are bounded: otherwise a text of backslashes would be read again for each of them.
    code = ord(letter)
    plain = re.escape(letter) if letter.isalnum() else rf"\\{{0,8}}{re.escape(letter)}"
    ways = [
        plain,
        rf"\\{{1,8}}u{code:04x}",
        rf"\\{{1,8}}x{code:02x}",
        rf"&\#0{{0,5}}{code};",
        rf"&\#x0{{0,5}}{code:x};",
    ]
    if letter in _SHORT:
        ways.append(rf"\\{{1,8}}{_SHORT[letter]}")
    ways.append(
        "".join(f"%(?:25){{0,4}}{byte:02x}" for byte in letter.encode(errors="surrogateescape"))
    )
    if not letter.isascii():  # as the bytes of it are shown
        content = letter.encode(errors="surrogateescape")
        ways.append("".join(rf"\\{{1,8}}x{byte:02x}" for byte in content))
    if letter == " ":
        ways.append(r"\+")
    if (entity := html.escape(letter)) != letter:
        ways.append(re.escape(entity))
    return f"(?:{'|'.join(ways)})"


_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
"""What JSON has a letter for."""


def _base64_pattern(content: bytes, shift: int) -> str:
    either = {"+": "[+-]", "/": r"\\{0,8}[/_]"}
    return _MAY_FOLD.join(either.get(letter, letter) for letter in _letters(content, shift))


def _letters(content: bytes, shift: int) -> str:
    """Its base64 when `shift` bytes of a group come before: only the letters that depend on nothing else."""
    letters = base64.b64encode(b"\0" * shift + content).decode().rstrip("=")
    first = -(-8 * shift // 6)
    last = len(letters) - (1 if 8 * (shift + len(content)) % 6 else 0)
    return letters[first:last]
