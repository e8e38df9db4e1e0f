"""The second pass: finding what must never run, wherever in the text it hides.

Every command of the tree is looked at: in substitutions, in loops and functions, behind wrappers, in the text given
to another shell, in what is piped to one. A finding denies. Finding nothing proves nothing: that is what the first
pass is for.
"""

from __future__ import annotations

import re

import msgspec

from hookline.containment.shell.danger_tree import (
    MAX_COMMANDS,
    SEPARATORS,
    UNREAD,
    Found,
    Tree,
)
from hookline.containment.shell.deadly import deadly
from hookline.containment.shell.fetched import Fetched, file_run_by
from hookline.containment.shell.grammar import parse
from hookline.containment.shell.literal import literal_words
from hookline.containment.shell.reading import MAX_LENGTH
from hookline.containment.shell.sources import runs_unread
from hookline.containment.shell.unwrap import INTERPRETERS, inner_argvs, name_of, scripts_in

MAX_DEPTH = 6
MAX_WORK = 60_000
"""How many characters are looked at, those of texts inside texts included."""

_BOMB = re.compile(
    r"([\w:.]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,200}?\1\s{0,9}\|\s{0,9}\1\s{0,9}&"
)
_ESCAPED_NAME = re.compile(r"((?:^|[\n;&|(){}`])[ \t]{0,20})\\(?=[A-Za-z/])")
"""A backslash before the name of a command: at the beginning of a line, the grammar loses the command."""
_BEFORE_COMMAND = re.compile(
    r"((?:^|[\n;&|({])[ \t]{0,20})(?:(?:time|!|coproc(?:[ \t]{1,20}\w{1,40}(?=[ \t]{1,20}\{))?)[ \t]{1,20})+"
)
"""Words that change nothing about what runs. Behind them the grammar does not see every kind of command."""
_CUTS = (re.compile(r"[;\n|&]"), re.compile(r"[;\n|&()`]"), SEPARATORS)
_TAKES_CODE = re.compile(rf"{INTERPRETERS.pattern}|[gmn]?awk")
_ASSIGNING = frozenset("time ! coproc export declare typeset local readonly".split())
_PERL_BOMB = re.compile(
    r"fork\s{1,9}while\s{1,9}(?:fork|1)|while\s{0,9}\(?\s{0,9}(1|True|true)\s{0,9}\)?\s{0,9}:?\s{0,9}(os\.)?fork"
    r"|loop\s{0,9}(?:\{|do)\s{0,9}fork|os\.fork\(\) for |\$0\"?\s{0,9}&\s{0,9}(?:done|\$0)"
)


class Danger(msgspec.Struct, frozen=True):
    """What was found: the commands anywhere in the text, and the first that must never run."""

    commands: tuple[tuple[str, ...], ...] = ()
    problem: str = ""
    command: str = ""
    complete: bool = True
    """Whether all of it was looked at. If not, it must not be allowed."""


class TooMuch(Exception):
    """There is more to look at than a verdict may cost."""


def find_danger(text: str, where: str = "") -> Danger:
    """Look through every command of a text that is run in a directory; if it is too long, of its beginning: it is
    asked about anyway."""
    search = _Search(where)
    try:
        search.script(text[:MAX_LENGTH], depth=0)
    except Found as found:
        return Danger(tuple(search.commands), found.problem, found.command)
    except (TooMuch, RecursionError):
        return Danger(tuple(search.commands), complete=False)
    return Danger(tuple(search.commands))


class _Search:
    """What is known while a text is searched."""

    def __init__(self, where: str) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.variables: dict[str, str] = {}
        self.fetched = Fetched()
        self.functions: dict[str, str] = {}
        self.scripts: dict[str, str] = {}
        """What was written to a file, by its path."""
        self.where = where
        self.budget = MAX_WORK

    def script(self, text: str, depth: int) -> None:
        """Search a piece of bash."""
        if depth > MAX_DEPTH:
            raise Found("it is nested too deeply to be read", text)
        self.spend(len(text) + 100)
        if _BOMB.search(text) or _PERL_BOMB.search(text):
            raise Found("it multiplies without end", text)
        clean = text.replace("\\\n", "").replace("\r", "\n").replace("\0", "")
        clean = _ESCAPED_NAME.sub(r"\1", _BEFORE_COMMAND.sub(r"\1", clean))
        readings = [clean, clean.replace("((", "( (")]  # arithmetic, or a shell in a shell
        for reading in dict.fromkeys(readings):
            root = parse(reading)
            Tree(self, reading, depth).search(root)
            if root.has_error:
                self._pieces(reading, depth)

    def spend(self, characters: int) -> None:
        """Count what is looked at."""
        self.budget -= characters
        if self.budget < 0:
            raise TooMuch

    def _pieces(self, text: str, depth: int) -> None:
        """What the grammar cannot read is looked at piece by piece, as if each were a command."""
        pieces = [piece for cut in _CUTS for piece in cut.split(text)]
        for piece in pieces[:MAX_COMMANDS]:
            if words := literal_words(piece, self.variables):
                self.argv(words, piece, depth)

    def argv(self, argv: list[str], text: str, depth: int) -> None:
        """Search one command, and everything that it would run."""
        while argv and re.match(r"[A-Za-z_]\w*\+?=", argv[0]):
            argv = argv[1:]
        if not argv:
            return
        if len(self.commands) > MAX_COMMANDS:
            raise TooMuch
        if depth > MAX_DEPTH:
            raise Found("it is nested too deeply to be read", text)
        self.commands.append(tuple(argv))
        if problem := deadly(argv, self.where):
            raise Found(problem, text)
        if path := self.fetched.is_run_by(argv):
            raise Found(f"it runs {path}, which {UNREAD}", text)
        self.fetched.note(argv)
        if name_of(argv) in {"cd", "pushd"}:
            self._move(argv[1:])
        if name_of(argv) in _ASSIGNING:
            self._assign(argv[1:])
        if argv[:2] == ["set", "--"]:
            self._set_positions(argv[2:])
        if _TAKES_CODE.fullmatch(name_of(argv)) and any(runs_unread(w) for w in argv[1:]):
            raise Found(f"it runs what {UNREAD}", text)
        for inner in inner_argvs(argv):
            self.argv(inner, text, depth + 1)
        for script in scripts_in(argv):
            self.script(script, depth + 1)
        if body := self.functions.pop(argv[0], None):
            self._call(argv, body, depth)
        for path in filter(self.scripts.__contains__, file_run_by(argv)):
            self.script(self.scripts.pop(path), depth + 1)

    def _move(self, words: list[str]) -> None:
        target = next((word for word in words if not word.startswith("-")), "~")
        absolute = target.startswith(("/", "~")) or not self.where
        self.where = target if absolute else f"{self.where}/{target}"

    def _assign(self, words: list[str]) -> None:
        """What is set behind `time`, or by a builtin that the grammar did not take for one."""
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name.isidentifier():
                self.variables[name] = value[:2000]

    def _call(self, argv: list[str], body: str, depth: int) -> None:
        """Look at a function with the words it is given. While that goes on it is not known: it may call itself."""
        before = dict(self.variables)
        self._set_positions(argv[1:])
        self.script(body, depth + 1)
        self.variables = before
        self.functions[argv[0]] = body

    def _set_positions(self, words: list[str]) -> None:
        joined = " ".join(words)
        numbered = {str(number): word for number, word in enumerate(words[:9], start=1)}
        self.variables |= {"@": joined, "*": joined, **numbered}
