"""Where what nobody has read is by now: in which files, and in which variables."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from hookline.containment.shell.sources import is_decoder, is_fetch, stored_by
from hookline.containment.shell.unwrap import INTERPRETERS, SHELLS, name_of

_MOVES = frozenset({"mv", "cp", "ln", "install"})
_PRINTS = frozenset("cat head tail tee tac sed awk grep echo printf".split())


class Fetched:
    """What a text has fetched or decoded so far."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.variables: set[str] = set()

    def note(self, argv: Sequence[str]) -> None:
        """Remember what a command stores, and where one moves it."""
        if is_fetch(argv):
            self.files.update(stored_by(argv))
        if name_of(argv) in _MOVES and any(map(self.holds, argv[1:-1])):
            self.files.add(posixpath.normpath(argv[-1]))

    def keep(self, path: str) -> None:
        """Remember a file that was fetched or decoded into."""
        self.files.add(posixpath.normpath(path) if path else "")

    def holds(self, path: str) -> bool:
        """Whether a file is one of them."""
        return bool(path) and posixpath.normpath(path) in self.files

    def assign(self, name: str, argvs: Iterable[Sequence[str]]) -> None:
        """Remember a variable that is what one of some commands prints. Other letters for letters hide nothing."""
        if any(is_fetch(argv) or (is_decoder(argv) and name_of(argv) != "tr") for argv in argvs):
            self.variables.add(name)

    def take(self, argvs: Iterable[Sequence[str]]) -> None:
        """Remember where commands put it that are given it: in variables, and in files."""
        for argv in argvs:
            names = [word for word in argv[1:] if re.fullmatch(r"[A-Za-z_]\w*", word)]
            if name_of(argv) in {"read", "mapfile", "readarray"}:
                self.variables.update(names)
            elif name_of(argv) == "printf" and "-v" in argv:
                self.variables.update(names[:1])
            elif name_of(argv) in {"tee", "sponge"}:
                self.files.update(posixpath.normpath(word) for word in argv[1:])

    def is_named_in(self, text: str) -> bool:
        """Whether a text holds one of the variables."""
        return any(re.search(rf"\$\{{?{re.escape(name)}\b", text) for name in self.variables)

    def is_printed_by(self, argvs: Iterable[Sequence[str]], text: str) -> bool:
        """Whether commands print one of the files or variables."""
        printing = [argv for argv in argvs if name_of(argv) in _PRINTS]
        return any(any(map(self.holds, argv[1:])) for argv in printing) or (
            bool(printing) and self.is_named_in(text)
        )

    def is_run_by(self, argv: Sequence[str]) -> str | None:
        """Which file is run that was fetched or decoded just before, or None."""
        return next(filter(self.holds, file_run_by(argv)), None)


def file_run_by(argv: Sequence[str]) -> list[str]:
    """The file that a command runs, if it runs one."""
    name = name_of(argv)
    runner = name in SHELLS or name in {"source", "."} or INTERPRETERS.fullmatch(name)
    operands = [word for word in argv[1:] if not word.startswith("-")]
    run = operands[:1] if runner else argv[:1] if "/" in argv[0] else []
    return [posixpath.normpath(path) for path in run if path]


def runs_text(argv: Sequence[str]) -> bool:
    """Whether a command runs a text that it is given as a word."""
    name = name_of(argv)
    if name == "eval":
        return True
    runner = name in SHELLS or INTERPRETERS.fullmatch(name)
    return bool(runner) and any(re.match(r"-[A-Za-z]*[ceE]$", word) for word in argv[1:])


def printed_words(argv: Sequence[str]) -> list[str]:
    """What a command prints that prints its words; a format of nothing but its words is left out.

    Of a search it is something that lies where the search begins.
    """
    words = list(argv[1:])
    if name_of(argv) == "find":
        roots = takewhile(lambda word: not word.startswith(("-", "(", "!")), words)
        return [posixpath.join(root, "found") for root in roots]
    if name_of(argv) == "ls":
        return [word for word in words if not word.startswith("-")] if "-d" in words else []
    if (
        name_of(argv) == "printf"
        and len(words) > 1
        and re.fullmatch(r"(?:%[sb]|\\n|\s)+", words[0])
    ):
        return words[1:]
    return words


def runs_its_words(argv: list[str]) -> bool:
    """Whether a command runs what its words say, or the file that the first of them names."""
    name = name_of(argv)
    if name in SHELLS or name in {"eval", "source", ".", "crontab"}:
        return True
    if name in {"make", "awk", "gawk", "gdb"}:
        return "-f" in argv or "-x" in argv
    operands = [word for word in argv[1:] if not word.startswith("-")]
    given = any(re.fullmatch(r"-[A-Za-z]*[ceEr]|--eval", word) for word in argv[1:])
    code = given or not operands or not operands[0] or operands[0].startswith("<(")
    return code and INTERPRETERS.fullmatch(name) is not None


def feeds_a_shell(stage: list[list[str]]) -> bool:
    """`xargs sh -c`: what is piped becomes code."""
    names = {name_of(argv) for argv in stage}
    return bool(names & {"xargs", "parallel"}) and bool(names & SHELLS or "eval" in names)
