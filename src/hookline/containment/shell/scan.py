"""The strict reader: a small part of bash, read exactly, and nothing else read at all.

It knows words, quotes, pipes, lists, groups, comments, redirects, substitutions of commands that it can read, `if`,
`for` over words, `while read`, loops that count, `case`, and plain tests in `[[ ]]`; a text below a line (`<<EOF`), and
a line that goes on in the next. At everything else it raises `Unreadable`.
What it accepts it must read as bash does; `benchmarks/shell_fuzz.py` holds it to that.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hookline.containment.shell.outputs import printing
from hookline.containment.shell.scan_loops import Found, LoopScanner
from hookline.containment.shell.scan_parts import Parts
from hookline.containment.shell.scan_sums import other_than_number
from hookline.containment.shell.scan_tests import (
    asks_if_empty,
    is_one_question,
    is_plain_question,
    questions_of,
    sets_options,
)
from hookline.containment.shell.scan_words import Unreadable
from hookline.containment.shell.settable import may_set
from hookline.containment.shell.words import Word

MAX_DEPTH = 8

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_OPERATOR = re.compile(r"&&|\|\||\|&|\||;|&(?!>)|\n")
_KEYWORD = re.compile(r"(if|for|while|until|case|\[\[)(?=[ \t\n])|for(?=\(\()")
_LONGEST_TEST = 40
_TEST_OPERATOR = re.compile(r"&&(?=[ \t])|\|\|(?=[ \t])|=~(?=[ \t])")


class Scan(NamedTuple):
    """The commands of a text, and whether they stand in nothing but lists, pipes and groups."""

    found: list[Found]
    plain: bool
    text: str
    """The text as the grammar should see it: without lines that go on, and without texts below lines."""


def scan(text: str) -> Scan:
    """Every simple command of a text, in the order in which they end, or `Unreadable`."""
    scanner = _Scanner(text)
    scanner.read_list(())
    if scanner.below:
        raise Unreadable("a text below the line that is missing")
    if scanner.asked_of and any(sets_options(one.command.words) for one in scanner.found):
        raise Unreadable(f"the variable {scanner.asked_of[0]}, which `set -x` would show")
    if odd := other_than_number(scanner.computed, (one.command for one in scanner.found)):
        raise Unreadable(f"arithmetic with {odd}")
    return Scan(scanner.found, scanner.plain, scanner.blanked())


class _Scanner(LoopScanner):
    """A position in a text, and the commands found before it."""

    # --- lists ------------------------------------------------------------------------------------

    def read_list(self, closers: tuple[str, ...], *, piped: bool = False) -> None:
        """Read commands and the operators between them, up to the end or to something that closes the list."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deeply")
        needed = False
        outer = before = len(self.looped)
        while True:
            self._skip_blanks(newlines=True)
            if self._at_end(closers):
                if needed:
                    raise Unreadable("a command is missing at its end")
                break
            certain, own = not needed, len(self.looped)
            if certain:
                self._skip_prefix()
                before = own
            self._read_command(piped)
            operator = self._read_operator(closers)
            needed, piped = operator in {"&&", "||", "|", "|&"}, operator in {"|", "|&"}
            if not certain or piped:  # what it sets may not be set, or in another shell
                del self.looped[own:]
            if operator == "&":
                del self.looped[before:]
            if not operator:
                break
        self.depth -= 1
        if self.depth:  # it may be another shell, or not be run
            del self.looped[outer:]

    def read_inner(self, closer: str = ")") -> str:
        """Read the commands of a substitution, up to and with what closes it. Gives the one that prints, if known."""
        if self.below:
            raise Unreadable("a text below a line with a substitution in it")
        self.asks_if_empty = False
        count, loops, self.loops = len(self.found), self.loops, 0
        self.read_list((closer,))
        self.loops = loops
        self._close(closer)
        return printing([one.command for one in self.found[count:]])

    def _skip_prefix(self) -> None:
        """`!` and `time` before a pipeline change nothing about what runs."""
        if self.text.startswith(("! ", "!\t", "time ", "time\t"), self.at):
            self.at += 2 if self.text[self.at] == "!" else 5
            self._skip_blanks()

    def _read_operator(self, closers: tuple[str, ...]) -> str:
        self._skip_blanks()
        if self._at_end(closers):
            return ""
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None:
            raise Unreadable(f"{self.text[self.at]!r} stands where an operator belongs")
        self.at = operator.end()
        if self.below and operator[0] not in {"|", "\n"}:
            raise Unreadable("a text below a line with other commands in it")
        if operator[0] == "\n" and self.below:
            self.read_texts_below()
        if operator[0] == ";" and self.text.startswith((";", "&"), self.at):
            raise Unreadable("';;' belongs to a case statement")
        return operator[0]

    # --- one command ------------------------------------------------------------------------------

    def _read_command(self, piped: bool) -> None:
        keyword = _KEYWORD.match(self.text, self.at)
        if self.below and (keyword or self.text[self.at] in "({"):
            raise Unreadable("a text below a line with other commands in it")
        if self.text.startswith("(", self.at):
            self._read_group(")")
        elif self.text.startswith(("{ ", "{\t", "{\n"), self.at):
            self._read_group("}")
        elif keyword is None:
            self._read_simple(piped)
        else:
            self.plain = False
            self._read_compound(keyword[1] or "for", piped)

    def _read_compound(self, keyword: str, piped: bool) -> None:
        if keyword == "if":
            self._read_if()
        elif keyword == "for":
            self._read_for(piped)
        elif keyword in {"while", "until"}:
            self._read_while(keyword, piped)
        elif keyword == "case":
            self._read_case()
        else:
            self._read_test(piped)

    def _read_simple(self, piped: bool) -> None:
        start = end = self.at
        parts, asked = Parts(), len(self.asked_of)
        while self.at < len(self.text) and not _OPERATOR.match(self.text, self.at):
            if self.text[self.at] == ")" or (self.in_backticks and self.text[self.at] == "`"):
                break
            self._read_one(parts)
            end = self.at
            self._skip_blanks()
        if not parts.words:
            self._check_variable(parts)
        if len(self.asked_of) > asked and not is_one_question(parts.words):
            raise Unreadable(f"the variable {self.asked_of[-1]}")
        self._keep(parts.command(self.text[start:end], piped=piped, again=self.loops > 0), parts)

    def _check_variable(self, parts: Parts) -> None:
        """A variable that is set for the commands that follow, if it means nothing to the shell or to programs."""
        if parts.redirects or not parts.assignments:
            raise Unreadable("a command without a name")
        for name, _ in parts.assignments:
            if not may_set(name):
                raise Unreadable(f"{name} is set for what follows")
            self.looped.append(name)
        self.plain = False

    def _read_one(self, parts: Parts) -> None:
        """One redirect, assignment or word."""
        began = self.at
        if redirect := self.read_redirect():
            parts.redirects.append(redirect)
        elif not parts.words and (name := _ASSIGNMENT.match(self.text, self.at)):
            self.at = name.end()
            parts.assignments.append((name[1], self.read_word(empty=True)))
        else:
            self.asks_if_empty = asks_if_empty(parts.words)
            parts.words.append(self.read_word(first=not parts.words))
            self.asks_if_empty = False
            parts.spans.append((began, self.at))

    def _read_group(self, closer: str) -> None:
        if self.text.startswith("((", self.at):
            self._read_step()
            return
        self.at += 1
        loops = self.loops
        self.loops = 0 if closer == ")" else loops
        self._read_body((closer,))
        self.loops = loops
        self._close(closer)
        self._read_trailing()

    def _read_if(self) -> None:
        self.at += len("if")
        while True:
            self._read_body(("then",))
            self._close("then")
            self._read_body(("elif", "else", "fi"))
            if not self._stands("elif"):
                break
            self._close("elif")
        if self._stands("else"):
            self._close("else")
            self._read_body(("fi",))
        self._close("fi")
        self._read_trailing()

    def _read_case(self) -> None:
        """The head is kept like a command. Each pattern is known, and what stands behind it may be nothing."""
        start, parts = self.at, Parts()
        self.at += len("case")
        self._skip_blanks()
        parts.words += [Word("case"), self.read_word(), Word("in")]
        self._skip_blanks(newlines=True)
        self._close("in")
        self._keep(self._head(parts, start), Parts())
        self._skip_blanks(newlines=True)
        while not self._stands("esac"):
            self._read_patterns()
            self.read_list((";;", "esac"))
            if self._stands(";;"):
                self.at += 2
                self._skip_blanks(newlines=True)
        self._close("esac")
        self._read_trailing()

    def _read_patterns(self) -> None:
        more = True
        while more:
            self._skip_blanks()
            if self.read_word().hidden:
                raise Unreadable("a pattern that is not known")
            self._skip_blanks()
            more = self.text.startswith("|", self.at)
            self.at += more
        self._close(")")

    def _read_test(self, piped: bool) -> None:
        """`[[ -f x && a == b ]]`. What compares numbers computes, and runs what it is given: numbers alone are read."""
        start, parts = self.at, Parts()
        while not parts.words or parts.words[-1] != Word("]]"):
            self._skip_blanks()
            began = self.at
            self.asks_if_empty = asks_if_empty(parts.words)
            parts.words.append(self._read_test_word())
            self.asks_if_empty = False
            parts.spans.append((began, self.at))
            if len(parts.words) > _LONGEST_TEST:
                raise Unreadable("an unusual test")
        questions = questions_of(parts.words[1:-1])
        if not all(map(is_plain_question, questions)):
            raise Unreadable("an unusual test")
        for question in questions:
            parts.words = [Word("[[", exact=False), *question, Word("]]")]
            self._keep(self._head(parts, start, piped=piped), parts)
            parts.spans = []  # one place in the text, whatever is asked there

    def _read_test_word(self) -> Word:
        operator = _TEST_OPERATOR.match(self.text, self.at)
        if operator is None:
            return self.read_word()
        self.at = operator.end()
        return Word(operator[0])
