"""What a reading is made of: words, redirects, commands.

A word is *exact* when its value is known. A word that is not exact still has a `prefix`: whatever bash makes of
it, one word or many, each of them begins so. `*.py` has the prefix ``, `src/*.py` has `src/`. A word that begins
with a known character other than `-` can never turn out to be an option.
"""

from __future__ import annotations

import re

import msgspec

SUM = "$(())"
"""How a number is shown that is computed."""
_BLANKS = re.compile(r"[ \t\n]+")
_HOME = re.compile(r"~(?:/[^$*?{\[]*)?")


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word of a command, as far as it is known before bash has run."""

    text: str
    """Its value if it is exact, else its pattern with the quotes taken off (`~/x`, `*.py`, `$HOME/x`)."""
    exact: bool = True
    prefix: str = ""
    """What every word that this one becomes begins with. Only of interest when it is not exact."""
    hidden: bool = False
    """Nothing useful is known about it: it holds the output of a command."""

    whole: bool = False
    """Whether it stays one word although it is not exact: what is open in it stands in quotes."""
    output: str = ""
    """The one command that prints what its one substitution comes to, if every word of that command is known."""

    @property
    def start(self) -> str:
        """The known beginning. `$HOME` without quotes is taken for a path: nobody's home has a blank in its name."""
        if self.exact:
            return self.text
        return self.prefix or ("/" if _HOME.fullmatch(self.text) else "")

    @property
    def single(self) -> bool:
        """Whether it is certain to become one word."""
        return self.exact or self.whole


def pieces_of(value: str) -> list[str]:
    """What bash takes a value apart into. Other blanks than these three are letters like any other."""
    return [piece for piece in _BLANKS.split(value) if piece]


class Redirect(msgspec.Struct, frozen=True, gc=False):
    """Where a command's input comes from or its output goes: `operator` without the descriptor."""

    operator: str
    target: Word


class Command(msgspec.Struct, frozen=True, gc=False):
    """One simple command. `argv` is what bash would run, or None where that is not known before it runs."""

    argv: tuple[str, ...] | None
    text: str
    """The command as it is written."""
    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped: bool = False
    """Whether its input comes from the command before it."""
    again: bool = False
    """Whether it stands in a loop, so that what it leaves behind is met again."""


class Reading(msgspec.Struct, frozen=True):
    """What a line of bash says it would run."""

    commands: tuple[Command, ...] = ()
    problem: str = ""
    """Why it cannot be said which commands there are. Empty when it can."""

    plain: bool = True
    """Whether there is nothing around its commands but lists, pipes and groups."""

    @property
    def known(self) -> bool:
        """Whether every command has been found, though some word may be open."""
        return not self.problem

    @property
    def static(self) -> bool:
        """Whether every word of every command is known, and nothing decides which of them run but `&&` and `||`."""
        argvs = [command.argv for command in self.commands]
        return self.known and self.plain and None not in argvs
