"""What one command leaves for the next: its working directory and its exported variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from hookline._temporary import temporary_file

_MOVES = re.compile(r"\b(cd|pushd|popd|export)\b")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASSING = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
"""Set anew for every command."""
_LONGEST = 256 * 1024
_VARIABLES = 200


class ShellSession(msgspec.Struct, frozen=True):
    """A working directory, and the variables that differ from what every command gets."""

    cwd: str = ""
    """Empty for the work directory."""
    env: Mapping[str, str] = {}


class SessionRecorder:
    """Learns from a shell where it ended and what it exported: it writes both to a file when it exits.

    A line before the command sets this up. What it writes is read as data, and never run.
    """

    def __init__(self) -> None:
        self._file = temporary_file()  # closed by `take`
        self.fd = self._file.fileno()
        self.heard = False
        """Whether the shell has said where it ended."""
        self.note = ""
        """What of its variables could not be kept, for the model to read."""

    def command(self, command: str) -> str:
        """The command, after a line that has the shell say at its end where it is."""
        # Neither a changed search path nor functions of these names may interfere.
        says = 'builtin pwd; builtin printf "\\0"; builtin command -p env -0'
        return f"trap '{{ {says}; }} >&{self.fd} 2>/dev/null' EXIT\n{command}"

    def take(self, base: Mapping[str, str], before: ShellSession) -> ShellSession:
        """What the shell left; what it did not say, or said in a way that makes no sense, is as before."""
        with self._file:
            self._file.seek(0)
            data = self._file.read(_LONGEST + 1) or b""
        where, _, rest = data.decode(errors="surrogateescape").partition("\0")
        cwd = where.removesuffix("\n")
        if not os.path.isabs(cwd) or not cwd.isprintable():
            return before
        self.heard = True
        if not rest or len(data) > _LONGEST:
            why = f"more than {_LONGEST // 1024} KB in all" if rest else "it did not say which"
            self.note = f"\n[the variables that this command left are not kept: {why}; those from before are]"
            return ShellSession(cwd, before.env)
        exported = _parse_exports(rest, base)
        if len(exported) > _VARIABLES:
            left_out = ", ".join(list(exported)[_VARIABLES:][:5])
            self.note = (
                f"\n[only {_VARIABLES} variables are kept; among those that are not: {left_out}]"
            )
        return ShellSession(cwd, dict(list(exported.items())[:_VARIABLES]))


def lost_directory_note(command: str, kept: ShellSession, root: str) -> str:
    """A note for a command that may have changed the directory and did not report where it ended."""
    if not _MOVES.search(command):
        return ""
    return (
        "\n[where this command ended is not known: it was ended, or has an EXIT trap or an `exec` of its own; the next "
        f"one starts in {kept.cwd or root}, with the variables from before]"
    )


def _parse_exports(text: str, base: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for entry in text.split("\0"):
        name, equals, value = entry.partition("=")
        if not equals or not _NAME.fullmatch(name) or name in _PASSING or base.get(name) == value:
            continue
        if value.encode(errors="replace").decode() == value:
            variables[name] = value
    return variables
