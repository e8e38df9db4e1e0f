"""What a reading is made of: words, redirects, commands.

A word is *exact* when its value is known. A word that is not exact still has a `prefix`: whatever bash makes of
it, one word or many, each of them begins so. `*.py` has the prefix ``, `src/*.py` has `src/`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word of a command, as far as it is known before bash has run."""

    text: str
    """Its value if it is exact, else its pattern without the quotes (`~/x`, `*.py`)."""
    exact: bool = True
    prefix: str = ""
    """What every word that this one becomes begins with. Only of interest when it is not exact."""

    @property
    def start(self) -> str:
        """The known beginning."""
        return self.text if self.exact else self.prefix


class Redirect(msgspec.Struct, frozen=True, gc=False):
    """Where a command's input comes from or its output goes: `operator` without the descriptor."""

    operator: str
    target: Word
    """A file, the number of a descriptor, or the text behind `<<<`."""

    @property
    def can_write(self) -> bool:
        """Whether it may create or change a file."""
        return self.operator not in {">&", "<&", "<", "<<<"} and self.target.text != "/dev/null"

    @property
    def cannot_fail(self) -> bool:
        """Whether it changes nothing about which command runs: bash runs no command whose redirect fails."""
        if self.operator in {">&", "<&"}:
            return self.target.text in {"0", "1", "2"}
        return self.target.text == "/dev/null"


class Command(msgspec.Struct, frozen=True, gc=False):
    """One simple command. `argv` is what bash would run, or None where that is not known before it runs."""

    argv: tuple[str, ...] | None
    text: str
    """The command as it is written."""
    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped: bool = False
    """Whether its input comes from a command before it, or from what is piped to the group that it is in."""


class Reading(msgspec.Struct, frozen=True):
    """What a line of bash says it would run."""

    commands: tuple[Command, ...] = ()
    problem: str = ""
    """Why it cannot be said which commands there are. Empty when it can."""

    @property
    def is_known(self) -> bool:
        """Whether every command has been found, though some word may be open."""
        return not self.problem

    @property
    def is_static(self) -> bool:
        """Whether every word of every command is known, and nothing decides which of them run but `&&` and `||`."""
        return self.is_known and all(command.argv is not None for command in self.commands)


def join_words(words: Sequence[str]) -> str:
    """A text that bash reads as exactly these words. `shlex.join` leaves `A=b` and `time` what they are to a shell."""
    text = shlex.join(words)
    is_special = (
        bool(words) and text.startswith(words[0]) and ("=" in words[0] or words[0] == "time")
    )
    return f"'{words[0]}'{text[len(words[0]) :]}" if is_special else text
