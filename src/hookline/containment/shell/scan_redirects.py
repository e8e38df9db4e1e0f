"""The strict reader of redirects, with the texts that stand below a line."""

from __future__ import annotations

import re
from typing import NamedTuple

from hookline.containment.shell.scan_words import Unreadable, WordScanner
from hookline.containment.shell.words import Redirect, Word

_REDIRECT = re.compile(r"&>>|&>|<<<|>>|>\||>&|<&|<(?![<>&(])|>(?!\()")
_DESCRIPTOR = re.compile(r"[0-9]{1,4}(?=[<>])")
_DUPLICATE = re.compile(r"(?:[0-9]{1,4}|-)(?=[ \t\n|&;)]|$)")
_BELOW = re.compile(r"<<(-?)[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2(?=[ \t\n|&;]|$)")
_OWN = re.compile(r"(?:[\w./@%+:,=-]|\$\{[A-Za-z_]\w*\})+|\$<>")
"""A file that a variable of the line's own names. If it is several words, bash reads none of them."""
_ODD_IN_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_READ_IN_TEXT = re.compile(r"[$`\\]")
"""What bash looks for in a text whose end is written without quotes."""


class _Below(NamedTuple):
    """A text that is still to come, below the line."""

    at: int
    end: str
    quoted: bool
    indented: bool


class RedirectScanner(WordScanner):
    """A position in a text, and how to read a redirect from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.below: list[_Below] = []
        """The text that is still to come. There is one at most."""
        self.blanks: list[tuple[int, int]] = []
        """Pieces that mean nothing to what else there is: to the grammar they are blanks."""

    def read_redirect(self) -> Redirect | None:
        """The redirect at the position, if there is one."""
        descriptor = _DESCRIPTOR.match(self.text, self.at)
        at = descriptor.end() if descriptor else self.at
        if self.text[at] not in "<>&" or (not descriptor and self.text.startswith("<(", at)):
            return None
        if self.text[at] == "&" and not self.text.startswith("&>", at):  # an operator
            return None
        if below := _BELOW.match(self.text, at):
            return self._read_below(below)
        operator = _REDIRECT.match(self.text, at)
        if operator is None or (descriptor and operator[0].startswith("&")):
            raise Unreadable("an unusual redirect")
        if descriptor and len(descriptor[0]) > 1:
            raise Unreadable("a redirect of an unusual descriptor")
        self.at = operator.end()
        if operator[0] in {">&", "<&"}:
            return self._read_duplicate(operator[0])
        self.skip_line_blanks()
        process = operator[0] == "<" and self.text.startswith("<(", self.at)
        target = self.read_word()
        own = operator[0] == "<" and _OWN.fullmatch(target.text) is not None
        if not (target.exact or process or own):
            raise Unreadable("a redirect to a name that is not known")
        return Redirect(operator[0], target)

    def _at_end(self, closers: tuple[str, ...]) -> bool:
        return self.at >= len(self.text) or any(self._stands(closer) for closer in closers)

    def _stands(self, word: str) -> bool:
        """Whether a bracket, or a word of the shell, stands at the position."""
        if not self.text.startswith(word, self.at):
            return False
        return word in {")", "`", ";;"} or self.ends_word(self.at + len(word))

    def _close(self, closer: str) -> None:
        if not self._stands(closer):
            raise Unreadable(f"{closer!r} is missing")
        self.at += len(closer)

    def skip_line_blanks(self) -> None:
        """Skip the blanks of a line."""
        while self.text.startswith((" ", "\t"), self.at):
            self.at += 1

    def _read_duplicate(self, operator: str) -> Redirect:
        descriptor = _DUPLICATE.match(self.text, self.at)
        if descriptor is None:
            raise Unreadable("an unusual redirect")
        self.at = descriptor.end()
        return Redirect(operator, Word(descriptor[0]))

    def _read_below(self, found: re.Match[str]) -> Redirect:
        """`<<EOF`: what is read are the lines below this one, up to one that says only `EOF`."""
        if self.depth > 1 or self.in_backticks or self.below:
            raise Unreadable("a text below the line, inside something else")
        self.below.append(_Below(self.at, found[3], bool(found[2]), bool(found[1])))
        self.blanks.append((self.at, found.end()))
        self.at = found.end()
        return Redirect("<<", Word(found[3]))

    def read_texts_below(self) -> None:
        """The line has ended: read the texts that belong to it."""
        below = self.below.pop()
        if "\n" in self.text[below.at : self.at - 1]:
            raise Unreadable("a text below a line that goes on")
        self._read_text(below)

    def _read_text(self, below: _Below) -> None:
        start = self.at
        while self.at < len(self.text):
            began = self.at
            found = self.text.find("\n", began)
            stop = len(self.text) if found < 0 else found
            self.at = min(stop + 1, len(self.text))
            line = self.text[began:stop]
            if (line.lstrip("\t") if below.indented else line) == below.end:
                self._check_text(self.text[start:began], below)
                self.blanks.append((start, stop))
                return
        raise Unreadable("a text below the line that does not end")

    @staticmethod
    def _check_text(text: str, below: _Below) -> None:
        if _ODD_IN_TEXT.search(text) or not (below.quoted or not _READ_IN_TEXT.search(text)):
            raise Unreadable("a text below the line that is not known")

    def blanked(self) -> str:
        """The text with blanks in place of what means nothing to the rest of it."""
        text = self.text
        for start, end in self.blanks:
            piece = text[start:end]
            blank = "  " if piece == "\\\n" else re.sub(r"[^\n]", " ", piece)
            text = text[:start] + blank + text[end:]
        return text


def cannot_fail(redirect: Redirect) -> bool:
    """Whether a redirect changes nothing about which command runs: bash runs none whose redirect fails."""
    if redirect.operator in {">&", "<&"}:
        return redirect.target.text in {"0", "1", "2"}
    plain = redirect.target.exact and redirect.operator not in {"<<<", "<<"}
    return plain and redirect.target.text == "/dev/null"


def writes_a_file(redirect: Redirect) -> bool:
    """Whether a redirect may create or change a file."""
    if redirect.operator in {">&", "<&", "<", "<<<", "<<"}:
        return False
    return redirect.target.text != "/dev/null"
