"""The strict reader: a small part of bash, read exactly, and nothing else read at all.

It knows words, quotes, patterns, pipes, lists, groups, `if`, comments, redirects, and lines that continue in the next.
It knows no variable, brace expansion, loop, substitution, arithmetic or here-document: at these it raises `Unreadable`,
and a person is asked. What it accepts it must read as bash does; `benchmarks/shell_fuzz.py` compares it
with real bash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from hookline.containment.shell.words import Command, Redirect, Word

MAX_DEPTH = 8
MAX_COMMANDS = 64

RESERVED = frozenset(
    "! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while".split()
)
_AFTER = {
    "(": (")",),
    "{": ("}",),
    "if": ("then",),
    "elif": ("then",),
    "then": ("elif", "else", "fi"),
    "else": ("fi",),
}
"""What opens a list of commands, and what may close it: that may open the next."""
_META = frozenset(" \t\n|&;<>()")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,=+@%^\]-]+")
_IN_DOUBLE = re.compile(r"[^\"$`\\\x00-\x08\x0b-\x1f\x7f]+")
_IN_SINGLE = re.compile(r"'([^'\x00-\x08\x0b-\x1f\x7f]*)'")
_ESCAPE = re.compile(r"\\([\x21-\x7e ])")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_ANSI = re.compile(r"\$'((?:[\x20-\x26\x28-\x5b\x5d-\x7e]|\\[tn\\'])*)'")
_ANSI_VALUES = {"t": "\t", "n": "\n", "\\": "\\", "'": "'"}
_RESTING_DOLLAR = re.compile(r"\$(?=[\"' |)/.,:;%])")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_ASSIGNMENT_LIKE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[|\+?=)")
_OPERATOR = re.compile(r"&&|\|\||\|&|\||;|&(?!>)|\n")
_COMMENT = re.compile(r"#[\t\x20-\x7e]*")
_REDIRECT = re.compile(r"&>>|&>|>>|>\||>&|<&|<<<|<(?![<>&(])|>(?!\()")
_NAME_IN_BRACES = re.compile(r"\{\w+\}", re.ASCII)
_DESCRIPTOR = re.compile(r"[0-9]{1,4}(?=[<>])")
_DUPLICATE = re.compile(r"(?:[0-9]{1,4}|-)(?=[ \t\n|&;)]|$)")


class Unreadable(Exception):
    """The text is not in the part of bash that is read exactly. Says what was met."""


class FoundCommand(NamedTuple):
    """A command, and where its words lie in the text."""

    command: Command
    spans: tuple[tuple[int, int], ...]


class Scan(NamedTuple):
    """The commands of a text, and the text as the grammar should see it: with blanks where a line continues."""

    found: list[FoundCommand]
    text: str


def scan(text: str) -> Scan:
    """Every simple command of a text, in the order in which they end, or `Unreadable`."""
    scanner = _Scanner(text)
    scanner.read_list(())
    joined = text
    for at in scanner.continued:
        joined = f"{joined[:at]}  {joined[at + 2 :]}"
    return Scan(scanner.found, joined)


class _OpenWord:
    """Collects a word. What is opened first decides the prefix."""

    def __init__(self) -> None:
        self.text = ""
        self.prefix: str | None = None
        """The text before the first pattern; None: the word has no pattern."""
        self.brace_at: int | None = None
        self.has_marks = False

    def add_quoted(self, text: str) -> None:
        """Add what stands in quotes, and remember whether it looks like a pattern, which it is not."""
        self.text += text
        self.has_marks = self.has_marks or not set("{}[],*?~$\\").isdisjoint(text)

    def open(self, known: str = "") -> None:
        """From here on the value is open; `known` is how what follows begins."""
        if self.prefix is None:
            self.prefix = self.text + known

    def close(self) -> Word:
        """The word as it was read."""
        if self.brace_at is not None and re.search(r",|\.\.", self.text[self.brace_at :]):
            raise Unreadable("a brace expansion")
        if self.prefix is None:
            return Word(self.text)
        if self.has_marks:  # quoted signs can no longer be distinguished from others
            raise Unreadable("a pattern beside quoted signs of patterns")
        return Word(self.text, False, self.prefix)


class _Parts:
    """What has been read of one command."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.spans: list[tuple[int, int]] = []
        self.assignments: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []

    def make_found(self, text: str, *, piped: bool, is_in_branch: bool) -> FoundCommand:
        static = not (is_in_branch or self.assignments) and all(w.exact for w in self.words)
        static = static and all(redirect.cannot_fail for redirect in self.redirects)
        command = Command(
            argv=tuple(word.text for word in self.words) if static else None,
            text=text,
            words=tuple(self.words),
            assignments=tuple(self.assignments),
            redirects=tuple(self.redirects),
            piped=piped,
        )
        return FoundCommand(command, tuple(self.spans))


class _Scanner:
    """A position in a text, and the commands found before it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.branches = 0
        """How many of the lists that are open belong to an `if`."""
        self.found: list[FoundCommand] = []
        self.continued: list[int] = []
        """Where a line continues in the next."""

    # --- lists ------------------------------------------------------------------------------------

    def read_list(self, closers: tuple[str, ...], *, piped: bool = False) -> None:
        """Read commands and the operators between them, up to the end or to what closes the list."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deeply")
        needed, is_fed = False, piped
        while True:
            self._skip_blanks(newlines=True)
            if self._is_at_end(closers):
                if needed:
                    raise Unreadable("a command is missing at its end")
                break
            if not needed:
                self._skip_prefix()
            opener = self._opener()
            if opener:
                self._read_group(opener, piped)
            else:
                self._read_simple(piped)
            operator = self._read_operator(closers)
            needed = operator in {"&&", "||", "|", "|&"}
            piped = is_fed or operator in {"|", "|&"}
            if not operator:
                break
        self.depth -= 1

    def _skip_prefix(self) -> None:
        """`!` and `time` before a pipeline change nothing about what runs."""
        if self.text.startswith(("! ", "!\t", "time ", "time\t"), self.at):
            self.at += 2 if self.text[self.at] == "!" else 5
            self._skip_blanks()

    def _read_operator(self, closers: tuple[str, ...]) -> str:
        self._skip_blanks()
        if self._is_at_end(closers):
            return ""
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None:
            raise Unreadable(f"{self.text[self.at]!r} stands where an operator belongs")
        self.at = operator.end()
        if operator[0] == ";" and self.text.startswith((";", "&"), self.at):
            raise Unreadable("';;' belongs to a case statement")
        return operator[0]

    def _is_at_end(self, closers: tuple[str, ...]) -> bool:
        return self.at >= len(self.text) or self._word_of(closers) is not None

    def _word_of(self, words: Iterable[str]) -> str | None:
        """The word of the shell at the position, if it is one of these."""
        return next((each for each in words if self._is_next(each)), None)

    def _is_next(self, word: str) -> bool:
        is_here = self.text.startswith(word, self.at)
        return is_here and (word in "()" or self._is_end_of_word(self.at + len(word)))

    def _skip_blanks(self, *, newlines: bool = False) -> None:
        """Skip blanks and comments. In a group a comment is not read: it may hide the end."""
        blanks = " \t\n" if newlines else " \t"
        while self.at < len(self.text):
            if self.text[self.at] in blanks:
                self.at += 1
            elif self._is_continued():
                self.continued.append(self.at)
                self.at += 2
            elif self.text[self.at] == "#" and self.depth <= 1:
                comment = _COMMENT.match(self.text, self.at)
                self.at = comment.end() if comment else self.at
                if self.at < len(self.text) and self.text[self.at] != "\n":
                    raise Unreadable("a comment holds an unusual character")
            else:
                return

    def _is_continued(self) -> bool:
        """Whether the line continues in the next. Only after a blank: bash joins what is not apart."""
        before = self.text[self.at - 1 : self.at] if self.at else " "
        return self.text.startswith("\\\n", self.at) and before in " \t\n"

    # --- one command ------------------------------------------------------------------------------

    def _opener(self) -> str | None:
        """What opens a group of commands at the position."""
        if self.text.startswith("((", self.at):
            raise Unreadable("arithmetic, or a group in a group")
        return self._word_of(("(", "{", "if"))

    def _read_group(self, opener: str, piped: bool) -> None:
        """Read a list in brackets, or those of an `if`, which all have the same input."""
        self.branches += opener == "if"
        word: str | None = opener
        while word in _AFTER:
            self.at += len(word)
            count = len(self.found)
            self.read_list(_AFTER[word], piped=piped)
            if len(self.found) == count:
                raise Unreadable("a list without commands")
            closers = _AFTER[word]
            word = self._word_of(closers)
            if word is None:
                raise Unreadable(f"{closers[-1]!r} is missing")
        self.branches -= opener == "if"
        self.at += len(word or "")
        self._skip_blanks()
        if self.at < len(self.text) and self._read_redirect() is not None:
            raise Unreadable("a redirect of a group")

    def _read_simple(self, piped: bool) -> None:
        start = end = self.at
        parts = _Parts()
        while self.at < len(self.text) and not _OPERATOR.match(self.text, self.at):
            if self.text[self.at] == ")":
                break
            self._read_part_of_command(parts)
            end = self.at
            self._skip_blanks()
        if not parts.words:
            raise Unreadable("a command without a name")
        if len(self.found) >= MAX_COMMANDS:
            raise Unreadable("it has too many commands")
        text, is_in_branch = self.text[start:end], bool(self.branches)
        self.found.append(parts.make_found(text, piped=piped, is_in_branch=is_in_branch))

    def _read_part_of_command(self, parts: _Parts) -> None:
        """One redirect, assignment or word."""
        began = self.at
        if redirect := self._read_redirect():
            parts.redirects.append(redirect)
        elif not parts.words and (name := _ASSIGNMENT.match(self.text, self.at)):
            self.at = name.end()
            parts.assignments.append((name[1], self._read_word(is_empty_allowed=True)))
        else:
            parts.words.append(self._read_word(is_first=not parts.words))
            parts.spans.append((began, self.at))

    def _read_redirect(self) -> Redirect | None:
        """The redirect at the position, if there is one."""
        descriptor = _DESCRIPTOR.match(self.text, self.at)
        at = descriptor.end() if descriptor else self.at
        if self.text[at] not in "<>&":
            return None
        if self.text[at] == "&" and not self.text.startswith("&>", at):  # an operator
            return None
        operator = _REDIRECT.match(self.text, at)
        if operator is None or (descriptor and operator[0].startswith("&")):
            raise Unreadable("an unusual redirect, or a here-document")
        if descriptor and len(descriptor[0]) > 1:
            raise Unreadable("a redirect of an unusual descriptor")
        self.at = operator.end()
        if operator[0] in {">&", "<&"}:
            duplicate = _DUPLICATE.match(self.text, self.at)
            if duplicate is None:
                raise Unreadable("an unusual redirect")
            self.at = duplicate.end()
            return Redirect(operator[0], Word(duplicate[0]))
        while self.text.startswith((" ", "\t"), self.at):
            self.at += 1
        target = self._read_word()
        if not target.exact:
            raise Unreadable("a redirect to a name that is not known")
        return Redirect(operator[0], target)

    # --- words ------------------------------------------------------------------------------------

    def _read_word(self, *, is_first: bool = False, is_empty_allowed: bool = False) -> Word:
        """The word at the position. `is_first`: it names a command."""
        start = self.at
        word = _OpenWord()
        while not self._is_end_of_word(self.at):
            self._read_part(word, start)
        if self.at == start and not is_empty_allowed:
            raise Unreadable(f"{self.text[start : start + 1]!r} stands where a word belongs")
        if self.text.startswith(("(", "<(", ">("), self.at):
            raise Unreadable("a bracket inside a word")
        if self.text.startswith("{", start) and self.text.startswith((">", "<"), self.at):
            raise Unreadable("a redirect into a variable")
        if is_first:
            _check_name(self.text[start : self.at], word)
        return word.close()

    def _is_end_of_word(self, at: int) -> bool:
        return at >= len(self.text) or self.text[at] in _META

    def _read_part(self, word: _OpenWord, start: int) -> None:
        character = self.text[self.at]
        if plain := _PLAIN.match(self.text, self.at):
            word.text += plain[0]
            self.at = plain.end()
        elif character == "'":
            quoted = _IN_SINGLE.match(self.text, self.at)
            if quoted is None:
                raise Unreadable("a single quote that is not closed, or holds an unusual character")
            word.add_quoted(quoted[1])
            self.at = quoted.end()
        elif character == '"':
            self._read_double(word)
        elif character == "$":
            self._read_dollar(word, quoted=False)
        elif character == "\\":
            escape = _ESCAPE.match(self.text, self.at)
            if escape is None:
                raise Unreadable("an escape of an unusual character")
            word.add_quoted(escape[1])
            self.at = escape.end()
        elif character == "~":
            self._read_tilde(word, start)
        else:
            self._read_special(word, character, start)

    def _read_special(self, word: _OpenWord, character: str, start: int) -> None:
        if character in "*?[":
            is_test = character == "[" and self.at == start and self._is_end_of_word(self.at + 1)
            if not is_test:
                word.open()
        elif character == "{" and (name := _NAME_IN_BRACES.match(self.text, self.at)):
            character = name[0]  # bash expands no brace without a comma or a range in it
        elif character == "{":
            word.brace_at = len(word.text) if word.brace_at is None else word.brace_at
        elif character not in "}!#":
            raise Unreadable(f"{character!r} outside quotes")
        elif character == "#" and self.at == start:
            raise Unreadable("a comment in a strange place")
        word.text += character
        self.at += len(character)

    def _read_double(self, word: _OpenWord) -> None:
        self.at += 1
        while not self.text.startswith('"', self.at):
            if plain := _IN_DOUBLE.match(self.text, self.at):
                word.add_quoted(plain[0])
                self.at = plain.end()
            elif self.text.startswith("$", self.at):
                self._read_dollar(word, quoted=True)
            elif escape := _ESCAPE.match(self.text, self.at):
                word.add_quoted(escape[1] if escape[1] in '$`"\\' else escape[0])
                self.at = escape.end()
            else:
                raise Unreadable("a double quote that is not closed, or holds what is not read")
        self.at += 1

    def _read_tilde(self, word: _OpenWord, start: int) -> None:
        """A tilde is the home directory at the beginning of a word, and an ordinary character after a letter."""
        if self.at == start:
            if not (self._is_end_of_word(self.at + 1) or self.text[self.at + 1] == "/"):
                raise Unreadable("the home directory of another user")
            word.open("/")
        elif not re.match(r"[A-Za-z0-9_^@}]", self.text[self.at - 1]):
            raise Unreadable("a tilde in a strange place")
        word.text += "~"
        self.at += 1

    def _read_dollar(self, word: _OpenWord, *, quoted: bool) -> None:
        ansi = None if quoted else _ANSI.match(self.text, self.at)
        if ansi:
            word.add_quoted(re.sub(r"\\(.)", lambda found: _ANSI_VALUES[found[1]], ansi[1]))
            self.at = ansi.end()
        elif (
            _RESTING_DOLLAR.match(self.text, self.at)
            if quoted
            else self._is_end_of_word(self.at + 1)
        ):
            word.add_quoted("$")
            self.at += 1
        else:
            variable = _VARIABLE.match(self.text, self.at)
            if variable:
                raise Unreadable(f"the variable {variable[1] or variable[2]}")
            raise Unreadable("an expansion or a substitution")


def _check_name(raw: str, word: _OpenWord) -> None:
    if word.text in RESERVED or raw.startswith(("%", "!")):
        raise Unreadable(f"{word.text!r} is a word of the shell itself")
    if raw.startswith(("-", "+")):  # `bash -c` would take it for an option
        raise Unreadable("it begins with an option")
    if _ASSIGNMENT_LIKE.match(raw):
        raise Unreadable("an assignment to an element")
