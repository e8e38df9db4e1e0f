"""The strict reader of words: quotes, escapes, patterns, and expansions of which enough is known."""

from __future__ import annotations

import re

from hookline.containment.shell.open_word import OpenWord
from hookline.containment.shell.scan_sums import NUMBERS, TOKEN, prints_number
from hookline.containment.shell.settable import VARIABLES
from hookline.containment.shell.words import Word

RESERVED = frozenset(
    """
    ! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while
    """.split()
)

_META = frozenset(" \t\n|&;<>()")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,=+@%^\]-]+")
_IN_DOUBLE = re.compile(r"[^\"$`\\\x00-\x08\x0b-\x1f\x7f]+")
_IN_SINGLE = re.compile(r"'([^'\x00-\x08\x0b-\x1f\x7f]*)'")
_ASSIGNMENT_LIKE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[|\+?=)")
_VARIABLE = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|([?#!]|\$(?![{(\[])))"
)
_CUT = re.compile(
    r"\$\{(?:#([A-Za-z_][A-Za-z0-9_]*)|([A-Za-z_][A-Za-z0-9_]*)(?:##?|%%?|:?-)[A-Za-z0-9_./*?:,=@+%-]*)\}"
)
"""The length of a variable, what is left of it without a pattern at one of its ends, or a text where it is not set."""
_ESCAPE = re.compile(r"\\([\x21-\x7e ])")
_RESTING_DOLLAR = re.compile(r"\$(?=[\"' |)/.,:;%])")
_BETWEEN_BACKTICKS = re.compile(r"`[^`\\'\"$#()]*`")
_QUOTES_BETWEEN = re.compile(r"""`(?:[^`\\'"$#()]|'[^`\\'$#()]*'|"[^`\\"$#()]*")*`""")
"""Quotes that are closed again before the second backtick. Inside of other quotes they would end those."""


_ANSI = re.compile(r"\$'((?:[\x20-\x26\x28-\x5b\x5d-\x7e]|\\[tn\\'])*)'")
_ANSI_ESCAPE = re.compile(r"\\(.)")
_ANSI_VALUES = {"t": "\t", "n": "\n", "\\": "\\", "'": "'"}


class Unreadable(Exception):
    """The text is not in the part of bash that is read exactly. Says what was met."""


class WordScanner:
    """A position in a text, and how to read a word from there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.looped: list[str] = []
        """The variables of the loops around the position, and those that are certain to have been set before it."""
        self.filled: list[list[str]] = []
        """The variables that loops around the position read from their input."""
        self.computed: set[str] = set()
        """The variables that arithmetic is done with, and whose values must be numbers."""
        self.in_backticks = False
        self.asks_if_empty = False
        """Whether the word at the position is looked at no further than whether it is empty."""
        self.asked_of: list[str] = []
        """The variables of which that was asked, and nothing else is known."""

    def read_inner(self, closer: str = ")") -> str:
        """Read the commands of a substitution, up to and with what closes it. Gives the one that prints, if known."""
        raise NotImplementedError

    def read_word(self, *, first: bool = False, empty: bool = False) -> Word:
        """The word at the position. `first`: it names a command. `empty`: it may be missing."""
        start = self.at
        word = OpenWord()
        if self.text.startswith("<(", self.at):
            self._read_process(word)
        while not self.ends_word(self.at):
            self._read_part(word, start)
        if self.at == start and not empty:
            raise Unreadable(f"{self.text[start : start + 1]!r} stands where a word belongs")
        if self.text.startswith(("(", "<(", ">("), self.at):
            raise Unreadable("a bracket inside a word")
        if word.brace_at is not None and self.text.startswith((">", "<"), self.at):
            raise Unreadable("a redirect into a variable")
        if first:
            self._check_name(self.text[start : self.at], word)
        return word.close()

    def ends_word(self, at: int) -> bool:
        """Whether a word ends before this position."""
        if at >= len(self.text) or self.text[at] in _META:
            return True
        return self.in_backticks and self.text[at] == "`"

    @staticmethod
    def _check_name(raw: str, word: OpenWord) -> None:
        if word.text in RESERVED or raw.startswith(("%", "!")):
            raise Unreadable(f"{word.text!r} is a word of the shell itself")
        if raw.startswith(("-", "+")):  # `bash -c` would take it for an option
            raise Unreadable("it begins with an option")
        if _ASSIGNMENT_LIKE.match(raw):
            raise Unreadable("an assignment to an element")

    def _read_process(self, word: OpenWord) -> None:
        """`<(..)` is the name of a pipe. Nothing may be joined to it."""
        self.at += 2
        word.text = "/dev/fd/"
        word.open()
        self.read_inner()
        if not self.ends_word(self.at):
            raise Unreadable("a word joined to a process")

    def _read_part(self, word: OpenWord, start: int) -> None:
        character = self.text[self.at]
        if plain := _PLAIN.match(self.text, self.at):
            word.text += plain[0]
            self.at = plain.end()
        elif character == "'":
            self._read_single(word)
        elif character == '"':
            self._read_double(word)
        elif character == "$":
            self._read_dollar(word, quoted=False)
        elif character == "`":
            self._read_backticks(word, quoted=False)
        elif character == "\\":
            self._read_escape(word)
        elif character == "~":
            self._read_tilde(word, start)
        else:
            self._read_special(word, character, start)

    def _read_special(self, word: OpenWord, character: str, start: int) -> None:
        if character in "*?[":
            lone = character == "[" and self.at == start and self.ends_word(self.at + 1)
            if not lone:
                word.open_pattern()
        elif character == "{":
            word.open_brace()
        elif character not in "}!#":
            raise Unreadable(f"{character!r} outside quotes")
        elif character == "#" and self.at == start:
            raise Unreadable("a comment in a strange place")
        word.text += character
        self.at += 1

    def _read_single(self, word: OpenWord) -> None:
        quoted = _IN_SINGLE.match(self.text, self.at)
        if quoted is None:
            raise Unreadable("a single quote that is not closed, or holds an unusual character")
        word.add_quoted(quoted[1])
        self.at = quoted.end()

    def _read_double(self, word: OpenWord) -> None:
        self.at += 1
        while not self.text.startswith('"', self.at):
            if plain := _IN_DOUBLE.match(self.text, self.at):
                word.add_quoted(plain[0])
                self.at = plain.end()
            elif self.text.startswith("$", self.at):
                self._read_dollar(word, quoted=True)
            elif self.text.startswith("`", self.at):
                self._read_backticks(word, quoted=True)
            elif escape := _ESCAPE.match(self.text, self.at):
                word.add_quoted(escape[1] if escape[1] in '$`"\\' else escape[0])
                self.at = escape.end()
            else:
                raise Unreadable("a double quote that is not closed, or holds what is not read")
        self.at += 1

    def _read_escape(self, word: OpenWord) -> None:
        escape = _ESCAPE.match(self.text, self.at)
        if escape is None:
            raise Unreadable("an escape of an unusual character")
        word.add_quoted(escape[1])
        self.at = escape.end()

    def _read_tilde(self, word: OpenWord, start: int) -> None:
        """A tilde is the home directory at the beginning of a word, and an ordinary character after a letter."""
        if self.at == start:
            if not (self.ends_word(self.at + 1) or self.text[self.at + 1] == "/"):
                raise Unreadable("the home directory of somebody")
            word.open("/")
        elif not re.match(r"[A-Za-z0-9_^@}]", self.text[self.at - 1]):
            raise Unreadable("a tilde in a strange place")
        word.text += "~"
        self.at += 1

    def _read_dollar(self, word: OpenWord, *, quoted: bool) -> None:
        ansi = None if quoted else _ANSI.match(self.text, self.at)
        if ansi:
            word.add_quoted(_ANSI_ESCAPE.sub(lambda found: _ANSI_VALUES[found[1]], ansi[1]))
            self.at = ansi.end()
        elif self.text.startswith("$((", self.at):
            self._read_sum()
            word.open_sum()
        elif self.text.startswith("$(", self.at):
            self.at += 2
            word.open_output(self.read_inner(), quoted=quoted)
        elif variable := _VARIABLE.match(self.text, self.at):
            self._read_variable(word, variable[1] or variable[2] or variable[3], quoted=quoted)
            self.at = variable.end()
        elif cut := _CUT.match(self.text, self.at):
            name = cut[1] or cut[2]
            if not (name in self.looped or name in VARIABLES or self._is_filled(name)):
                raise Unreadable(f"the variable {name}")
            word.open_part(quoted=quoted)
            self.at = cut.end()
        elif self._dollar_rests(quoted=quoted):
            word.add_quoted("$")
            self.at += 1
        else:
            raise Unreadable("an expansion")

    def _read_sum(self) -> None:
        """`$((..))` of numbers, of variables that hold numbers, and of commands that print one."""
        self.at += 3
        depth = 0
        while depth or not self.text.startswith("))", self.at):
            began = self.at
            if self.text.startswith("$(", began) and not self.text.startswith("$((", began):
                self.at += 2
                if not prints_number(self.read_inner()):
                    raise Unreadable("arithmetic")
            else:
                depth += self._read_token()
            # Where nothing is put in between, two signs would be one that sets a variable.
            put = self.text[began] == "$" and self.text[began - 1] in "+-"
            if depth < 0 or (put and self.text.startswith(("+", "-"), self.at)):
                raise Unreadable("arithmetic")
        self.at += 2

    def _read_token(self) -> int:
        """One number, sign, bracket or variable. Gives by how much what follows is nested deeper."""
        token = TOKEN.match(self.text, self.at)
        if token is None:
            raise Unreadable("arithmetic")
        if (name := token[1] or token[2]) and name not in NUMBERS:
            if name not in self.looped or self._is_filled(name):
                raise Unreadable(f"arithmetic with {name}")
            self.computed.add(name)
        self.at = token.end()
        return {"(": 1, ")": -1}.get(token[0], 0)

    def _read_backticks(self, word: OpenWord, *, quoted: bool) -> None:
        """Without a backslash between them, they are what `$(..)` is."""
        between = _BETWEEN_BACKTICKS if quoted else _QUOTES_BETWEEN
        inner = between.match(self.text, self.at)
        if inner is None or self.in_backticks:
            raise Unreadable("backticks with quotes or escapes in them")
        self.at += 1
        self.in_backticks = True
        output = self.read_inner("`")
        self.in_backticks = False
        word.open_output(output, quoted=quoted)

    def _dollar_rests(self, *, quoted: bool) -> bool:
        """Whether a dollar sign is only itself."""
        if quoted:
            return _RESTING_DOLLAR.match(self.text, self.at) is not None
        return self.ends_word(self.at + 1)

    def _is_filled(self, name: str) -> bool:
        return any(name in names for names in self.filled)

    def _read_variable(self, word: OpenWord, name: str, *, quoted: bool) -> None:
        if self._is_filled(name):
            word.open_read(quoted=quoted)
        elif name in self.looped:
            word.open_loop(name, quoted=quoted)
        elif name in VARIABLES:
            word.open_variable(name, quoted=quoted)
        elif quoted and self.asks_if_empty:
            self.asked_of.append(name)
            word.open_part(quoted=True)
        else:
            raise Unreadable(f"the variable {name}")
