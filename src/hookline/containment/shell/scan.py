"""The strict reader: a small part of bash, read exactly, and nothing else read at all.

It knows words, quotes, pipes, lists, groups in round brackets, comments, redirects, and substitutions of commands
that it can read. At everything else it raises `Unreadable`. What it accepts it must read as bash does;
`benchmarks/shell_fuzz.py` holds it to that.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hookline.containment.shell.open_word import OpenWord
from hookline.containment.shell.words import Command, Redirect, Word

RESERVED = frozenset(
    "! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while".split()
)
VARIABLES = frozenset(
    "HOME PWD OLDPWD USER LOGNAME SHELL PATH LANG TERM HOSTNAME UID EUID PPID SHLVL ? $ # !".split()
)
"""Variables whose values are no secret."""
MAX_DEPTH = 8
MAX_COMMANDS = 64

_META = frozenset(" \t\n|&;<>()")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,=+@%^\]-]+")
_IN_DOUBLE = re.compile(r"[^\"$`\\\x00-\x08\x0b-\x1f\x7f]+")
_IN_SINGLE = re.compile(r"'([^'\x00-\x08\x0b-\x1f\x7f]*)'")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_ASSIGNMENT_LIKE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[|\+?=)")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|([?$#!]))")
_ESCAPE = re.compile(r"\\([\x21-\x7e ])")
_RESTING_DOLLAR = re.compile(r"\$(?=[\"' |)/.,:;%])")
_COMMENT = re.compile(r"#[\t\x20-\x7e]*")
_OPERATOR = re.compile(r"&&|\|\||\|&|\||;|&(?!>)|\n")
_REDIRECT = re.compile(r"&>>|&>|<<<|>>|>\||>&|<&|<(?![<>&(])|>(?!\()")
_DESCRIPTOR = re.compile(r"[0-9]{1,4}(?=[<>])")
_DUPLICATE = re.compile(r"(?:[0-9]{1,4}|-)(?=[ \t\n|&;)]|$)")


class Unreadable(Exception):
    """The text is not in the part of bash that is read exactly. Says what was met."""


class Found(NamedTuple):
    """A command, and where its words lie in the text."""

    command: Command
    spans: tuple[tuple[int, int], ...]


def scan(text: str) -> list[Found]:
    """Every simple command of a text, in the order in which they end, or `Unreadable`."""
    scanner = _Scanner(text)
    scanner.read_list(closer="")
    return scanner.found


class _Scanner:
    """A position in a text, and the commands found before it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.found: list[Found] = []

    # --- lists ------------------------------------------------------------------------------------

    def read_list(self, closer: str) -> None:
        """Read commands and the operators between them, up to the end or to the closing bracket."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deeply")
        needed, piped = False, False
        while True:
            self._skip_blanks(newlines=True)
            if self._at_end(closer):
                if needed:
                    raise Unreadable("a command is missing at its end")
                break
            if not needed:
                self._skip_negation()
            self._read_command(piped)
            operator = self._read_operator(closer)
            needed, piped = operator in {"&&", "||", "|", "|&"}, operator in {"|", "|&"}
            if not operator:
                break
        self.depth -= 1

    def _at_end(self, closer: str) -> bool:
        return self.at >= len(self.text) or (bool(closer) and self.text[self.at] == closer)

    def _skip_blanks(self, *, newlines: bool = False) -> None:
        """Skip blanks and comments. Inside a substitution a comment is not read: it may hide the bracket."""
        blanks = " \t\n" if newlines else " \t"
        while self.at < len(self.text):
            if self.text[self.at] in blanks:
                self.at += 1
            elif self.text[self.at] == "#" and self.depth <= 1:
                comment = _COMMENT.match(self.text, self.at)
                self.at = comment.end() if comment else self.at
                if self.at < len(self.text) and self.text[self.at] != "\n":
                    raise Unreadable("a comment holds an unusual character")
            else:
                return

    def _skip_negation(self) -> None:
        if self.text.startswith(("! ", "!\t"), self.at):
            self.at += 2
            self._skip_blanks()

    def _read_operator(self, closer: str) -> str:
        self._skip_blanks()
        if self._at_end(closer):
            return ""
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None:
            raise Unreadable(f"{self.text[self.at]!r} stands where an operator belongs")
        self.at = operator.end()
        if operator[0] == ";" and self.text.startswith((";", "&"), self.at):
            raise Unreadable("';;' belongs to a case statement")
        return operator[0]

    # --- one command ------------------------------------------------------------------------------

    def _read_command(self, piped: bool) -> None:
        if self.text.startswith("(", self.at):
            self._read_group()
            return
        start = end = self.at
        words: list[Word] = []
        spans: list[tuple[int, int]] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        while self.at < len(self.text) and not _OPERATOR.match(self.text, self.at):
            if self.text[self.at] == ")":
                break
            began = self.at
            if redirect := self._read_redirect():
                redirects.append(redirect)
            elif not words and (name := _ASSIGNMENT.match(self.text, self.at)):
                self.at = name.end()
                assignments.append((name[1], self._read_word(empty=True)))
            else:
                words.append(self._read_word(first=not words))
                spans.append((began, self.at))
            end = self.at
            self._skip_blanks()
        if not words:
            raise Unreadable("a command without a name")
        self._keep(self.text[start:end], words, assignments, redirects, piped, spans)

    def _keep(
        self,
        text: str,
        words: list[Word],
        assignments: list[tuple[str, Word]],
        redirects: list[Redirect],
        piped: bool,
        spans: list[tuple[int, int]],
    ) -> None:
        if len(self.found) >= MAX_COMMANDS:
            raise Unreadable("it has too many commands")
        static = not assignments and all(word.exact for word in words)
        static = static and not any(writes_a_file(redirect) for redirect in redirects)
        command = Command(
            tuple(word.text for word in words) if static else None,
            text,
            tuple(words),
            tuple(assignments),
            tuple(redirects),
            piped,
        )
        self.found.append(Found(command, tuple(spans)))

    def _read_group(self) -> None:
        if self.text.startswith("((", self.at):
            raise Unreadable("arithmetic")
        self.at += 1
        count = len(self.found)
        self.read_list(closer=")")
        if len(self.found) == count:
            raise Unreadable("an empty group")
        self._close()

    def _close(self) -> None:
        if not self.text.startswith(")", self.at):
            raise Unreadable("a bracket is not closed")
        self.at += 1

    def _read_redirect(self) -> Redirect | None:
        descriptor = _DESCRIPTOR.match(self.text, self.at)
        at = descriptor.end() if descriptor else self.at
        if self.text[at] not in "<>&":
            return None
        operator = _REDIRECT.match(self.text, at)
        if operator is None or (descriptor and operator[0].startswith("&")):
            raise Unreadable("an unusual redirect")
        self.at = operator.end()
        if operator[0] in {">&", "<&"}:
            return self._read_duplicate(operator[0])
        self._skip_blanks()
        target = self._read_word()
        if not target.exact:
            raise Unreadable("a redirect to a name that is not known")
        return Redirect(operator[0], target)

    def _read_duplicate(self, operator: str) -> Redirect:
        descriptor = _DUPLICATE.match(self.text, self.at)
        if descriptor is None:
            raise Unreadable("an unusual redirect")
        self.at = descriptor.end()
        return Redirect(operator, Word(descriptor[0]))

    # --- one word ---------------------------------------------------------------------------------

    def _read_word(self, *, first: bool = False, empty: bool = False) -> Word:
        start = self.at
        word = OpenWord()
        while self.at < len(self.text) and self.text[self.at] not in _META:
            self._read_part(word, start)
        if self.at == start and not empty:
            raise Unreadable(f"{self.text[start : start + 1]!r} stands where a word belongs")
        if self.text.startswith("(", self.at):
            raise Unreadable("a bracket inside a word")
        if word.brace_at is not None and self.text.startswith((">", "<"), self.at):
            raise Unreadable("a redirect into a variable")
        if first:
            self._check_name(self.text[start : self.at], word)
        return word.close()

    @staticmethod
    def _check_name(raw: str, word: OpenWord) -> None:
        if word.text in RESERVED or raw.startswith(("%", "!")):
            raise Unreadable(f"{word.text!r} is a word of the shell itself")
        if raw.startswith(("-", "+")):  # `bash -c` would take it for an option
            raise Unreadable("it begins with an option")
        if _ASSIGNMENT_LIKE.match(raw):
            raise Unreadable("an assignment to an element")

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
        elif character == "\\":
            self._read_escape(word)
        elif character == "~":
            self._read_tilde(word, start)
        else:
            self._read_special(word, character, start)

    def _read_special(self, word: OpenWord, character: str, start: int) -> None:
        if character in "*?[":
            lone = character == "[" and self.at == start and self._ends_word(self.at + 1)
            if not lone:
                word.open()
        elif character == "{":
            word.open_brace()
        elif character not in "}!#":
            raise Unreadable(f"{character!r} outside quotes")
        elif character == "#" and self.at == start:
            raise Unreadable("a comment in a strange place")
        word.text += character
        self.at += 1

    def _ends_word(self, at: int) -> bool:
        return at >= len(self.text) or self.text[at] in _META

    def _read_single(self, word: OpenWord) -> None:
        quoted = _IN_SINGLE.match(self.text, self.at)
        if quoted is None:
            raise Unreadable("a single quote that is not closed, or holds an unusual character")
        word.text += quoted[1]
        self.at = quoted.end()

    def _read_double(self, word: OpenWord) -> None:
        self.at += 1
        while not self.text.startswith('"', self.at):
            if plain := _IN_DOUBLE.match(self.text, self.at):
                word.text += plain[0]
                self.at = plain.end()
            elif self.text.startswith("$", self.at):
                self._read_dollar(word, quoted=True)
            elif escape := _ESCAPE.match(self.text, self.at):
                word.text += escape[1] if escape[1] in '$`"\\' else escape[0]
                self.at = escape.end()
            else:
                raise Unreadable(
                    "a double quote that is not closed, or holds what is not read here"
                )
        self.at += 1

    def _read_escape(self, word: OpenWord) -> None:
        escape = _ESCAPE.match(self.text, self.at)
        if escape is None:
            raise Unreadable("an escape of an unusual character")
        word.text += escape[1]
        self.at = escape.end()

    def _read_tilde(self, word: OpenWord, start: int) -> None:
        """A tilde is the home directory at the beginning of a word, and an ordinary character after a letter."""
        if self.at == start:
            if not (self._ends_word(self.at + 1) or self.text[self.at + 1] == "/"):
                raise Unreadable("the home directory of somebody")
            word.open("/")
        elif not re.match(r"[A-Za-z0-9_^@}]", self.text[self.at - 1]):
            raise Unreadable("a tilde in a strange place")
        word.text += "~"
        self.at += 1

    def _read_dollar(self, word: OpenWord, *, quoted: bool) -> None:
        if self.text.startswith("$(", self.at):
            self._read_substitution(word, quoted=quoted)
        elif variable := _VARIABLE.match(self.text, self.at):
            name = variable[1] or variable[2] or variable[3]
            if name not in VARIABLES:
                raise Unreadable(f"the variable {name}")
            word.open_variable(name, quoted=quoted)
            self.at = variable.end()
        elif quoted and _RESTING_DOLLAR.match(self.text, self.at):
            word.text += "$"
            self.at += 1
        elif not quoted and self._ends_word(self.at + 1):
            word.text += "$"
            self.at += 1
        else:
            raise Unreadable("an expansion")

    def _read_substitution(self, word: OpenWord, *, quoted: bool) -> None:
        if self.text.startswith("$((", self.at):
            raise Unreadable("arithmetic")
        self.at += 2
        self.read_list(closer=")")
        self._close()
        word.open_output(quoted=quoted)


def writes_a_file(redirect: Redirect) -> bool:
    """Whether a redirect may create or change a file."""
    if redirect.operator in {">&", "<&", "<", "<<<"}:
        return False
    return redirect.target.text != "/dev/null"
