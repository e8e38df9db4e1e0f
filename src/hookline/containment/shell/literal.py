"""What a word comes to, as far as that can be guessed: for finding danger, never for proving that there is none.

Quotes and escapes are taken off, variables that the text itself sets are put in, `$IFS` splits, braces are expanded,
`$(echo x)` is x. What cannot be known counts as nothing: `r$()m` is taken for `rm`. What a command fetches or decodes
counts as `UNREAD`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hookline.containment.shell.unread import is_unread

UNREAD = "\x01"
"""Stands for code that nobody has read."""
UNKNOWN = "\x02"
"""Stands for a value that is not known where a path begins with it: `$X/y` is not `/y`."""
MAX_WORDS = 64
MAX_TEXT = 20_000
MAX_DEPTH = 6

_KNOWN = {"HOME": "~", "PWD": ".", "IFS": " ", "SHELL": "bash", "BASH": "bash", "0": "bash"}
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_PARAMETER = re.compile(
    r"!?([A-Za-z_]\w*|[0-9@*#?$!-])(?:\[[^]]*\])?(?:(:?[-=+])(.*)|(:0:1)|.*)", re.DOTALL
)
_SPECIAL = re.compile(r"""[\\'"$`{<>\s]""")
_BRACES = re.compile(r"(?<!\$)\{([^{},\s]*(?:,[^{},\s]*)+)\}")
_PRINTER = re.compile(
    r"\s*(?:builtin\s+|command\s+)?(?:echo|printf|which|command\s+-v|type\s+-P)\s+(.*)", re.DOTALL
)
_ANSI = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|c.|.)", re.DOTALL
)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\033",
    "E": "\033",
    "f": "\f",
    "v": "\v",
}


def literal_words(text: str, variables: Mapping[str, str]) -> list[str]:
    """The words that a piece of bash without operators comes to."""
    if not _SPECIAL.search(text):
        return [text] if text else []
    words: list[str] = []
    for raw in _expand_braces(text):
        words.extend(_LooseReader(raw, variables).words())
        if len(words) > MAX_WORDS:
            break
    return words


def literal(text: str, variables: Mapping[str, str]) -> str:
    """The same for a piece that stays one word, such as what is assigned to a variable."""
    return " ".join(_LooseReader(text, variables).words())


def unescape(text: str) -> str:
    r"""What `$'..'`, `echo -e` and `printf` make of backslashes: `\x72` is `r`."""

    def one(found: re.Match[str]) -> str:
        code = found[1]
        try:
            if code[0] in "xuU" and len(code) > 1:
                return chr(int(code[1:], 16))
            if code[0] in "01234567":
                return chr(int(code, 8) & 0xFF)
        except (ValueError, OverflowError):
            return ""
        return _ESCAPES.get(code, code)

    return _ANSI.sub(one, text)


def _expand_braces(text: str) -> list[str]:
    pending, done = [text], list[str]()
    while pending and len(done) + len(pending) < MAX_WORDS and len(text) * len(pending) < MAX_TEXT:
        piece = pending.pop(0)
        found = _BRACES.search(piece)
        if found is None or "'" in piece or '"' in piece:
            done.append(piece)
            continue
        pending[:0] = [
            piece[: found.start()] + choice + piece[found.end() :] for choice in found[1].split(",")
        ]
    return done + pending


class _LooseReader:
    """Reads a piece of bash without ever failing."""

    def __init__(self, text: str, variables: Mapping[str, str], depth: int = 0) -> None:
        self.text = text
        self.variables = variables
        self.depth = depth
        self.at = 0
        self.done: list[str] = []
        self.word: str | None = None

    def words(self) -> list[str]:
        while self.at < len(self.text):
            self._step()
        self._end()
        return self.done

    def _add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def _end(self) -> None:
        if self.word is not None:
            self.done.append(self.word)
        self.word = None

    def _step(self) -> None:
        text, at = self.text, self.at
        character = text[at]
        if character.isspace():
            self._end()
            self.at += 1
        elif character == "'":
            end = _find(text, "'", at + 1)
            self._add(text[at + 1 : end])
            self.at = end + 1
        elif character == '"':
            self.at += 1
            self._quoted()
        elif character == "\\":
            self._add(text[at + 1 : at + 2].replace("\n", ""))
            self.at += 2
        elif text.startswith("$'", at):
            self._ansi()
        elif character in "$`" or text.startswith(("<(", ">("), at):
            self._split(self._expansion())
        else:
            self._add(character)
            self.at += 1

    def _quoted(self) -> None:
        self._add("")
        while self.at < len(self.text) and self.text[self.at] != '"':
            character = self.text[self.at]
            if character == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                self._add(following if following in '$`"\\' else "\\" + following)
                self.at += 2
            elif self.text.startswith("$@", self.at):  # stays several words, also in quotes
                self._split(self._expansion())
            elif character in "$`":
                self._add(self._expansion())
            else:
                self._add(character)
                self.at += 1
        self.at += 1

    def _ansi(self) -> None:
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        self._add(unescape(self.text[self.at + 2 : end]))
        self.at = end + 1

    def _split(self, value: str) -> None:
        """An expansion outside quotes is split at blanks, and is no word if it is empty."""
        pieces = value.split()
        if value[:1].isspace():
            self._end()
        for number, piece in enumerate(pieces):
            if number:
                self._end()
            self._add(piece)
        if value[-1:].isspace():
            self._end()

    def _expansion(self) -> str:
        value = self._value_at()
        is_start = not value and not self.word and self.text.startswith(("/", '"/'), self.at)
        return UNKNOWN if is_start else value

    def _value_at(self) -> str:
        text, at = self.text, self.at
        if text.startswith(("$(", "<(", ">("), at):
            end = _closing(text, at + 1)
            self.at = end + 1
            return self._printed(text[at + 2 : end])
        if text.startswith("${", at):
            end = _find(text, "}", at)
            self.at = end + 1
            return self._parameter(text[at + 2 : end])
        if text[at] == "`":
            end = _find(text, "`", at + 1)
            self.at = end + 1
            return self._printed(text[at + 1 : end])
        name = _NAME.match(text, at + 1)
        self.at = name.end() if name else at + 1
        return self._value(name[0]) if name else "$"

    def _value(self, name: str) -> str:
        return self.variables.get(name, _KNOWN.get(name, ""))

    def _parameter(self, body: str) -> str:
        found = _PARAMETER.fullmatch(body)
        if found is None:
            return ""
        value = self._value(found[1])
        if found[4]:
            return "/" if found[1] in {"PATH", "HOME", "PWD"} else value[:1]
        if found[2] and (not value or "+" in found[2]):
            return self._inner(found[3])
        return value

    def _inner(self, text: str) -> str:
        """What a piece inside an expansion comes to. Nothing, if it is nested too deeply."""
        if self.depth >= MAX_DEPTH:
            return ""
        return " ".join(_LooseReader(text, self.variables, self.depth + 1).words())

    def _printed(self, inner: str) -> str:
        if is_unread(inner) or UNREAD in inner:
            return UNREAD
        found = _PRINTER.fullmatch(inner)
        if found is None or len(inner) > 500 or re.search("[|;&<>]", found[1]):
            return ""
        words = self._inner(found[1]).split(" ")
        return unescape(
            " ".join(word for word in words if not re.fullmatch(r"-[neE]+|%[bs]", word))
        )


def _find(text: str, wanted: str, start: int) -> int:
    found = text.find(wanted, start)
    return len(text) if found < 0 else found


def _closing(text: str, start: int) -> int:
    """Where the bracket opened at `start` closes, counting brackets and leaving quotes out."""
    depth, quote = 0, ""
    for at in range(start, len(text)):
        character = text[at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0:
                return at
    return len(text)
