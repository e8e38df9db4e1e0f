"""A command and its result."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from hookline.containment.sandbox.limits import SandboxLimits
from hookline.errors import UsageError

Place: TypeAlias = Literal["read-only", "workspace", "host"]
"""Where a command runs. `read-only`: nothing it writes outlives it, and it has no network. `workspace`: it may write
the work directory. `host`: nothing contains it."""
PLACES: tuple[Place, ...] = get_args(Place)
"""The strictest first."""

Ended: TypeAlias = Literal["exited", "stopped", "timeout", "output", "processes", "memory", "disk"]
"""How a command ended: it exited, was stopped, or exceeded a limit."""

_LONGEST = 131_071
"""Bytes in one argument of a program, by the kernel."""

OnOutput: TypeAlias = Callable[[bytes], None]


@dataclass(frozen=True, kw_only=True)
class SandboxGrant:
    """What one command is given beyond what every command gets."""

    network: bool = False
    """The network of the machine, with names looked up as outside."""
    reveal: tuple[str, ...] = ()
    """Secrets of the table that this command may read, as `~/.ssh`."""
    alone: bool = False
    """Whether no other command may run in its directory meanwhile: what this one reads there, as `.git/config`, says
    what it does with what it is given."""

    def __post_init__(self) -> None:
        if isinstance(self.reveal, str):
            raise UsageError(
                f"reveal={self.reveal!r} is one text, and a list is expected.",
                remedy=f"Write reveal=({self.reveal!r},).",
            )


NOTHING = SandboxGrant()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command, ready for a driver."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    own_env: Mapping[str, str]
    """The variables without those of earlier commands: by these it is decided what a command sees."""
    limits: SandboxLimits
    place: Place
    grant: SandboxGrant = NOTHING
    on_output: OnOutput
    pass_fds: tuple[int, ...] = ()


NOT_MOVED = " (it cannot be moved aside: remove it)"
"""What is said after the path of what keeps its name."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """The result of a command."""

    exit_code: int
    """As a shell says it: 128 and the signal's number for a command that was killed."""
    output: bytes
    """What it printed, to both streams, in the order it printed it; the middle of it is left out when it is long."""
    left_out: int
    """How many bytes of output are missing."""
    duration: float
    ended: Ended
    contained: bool
    """Whether it ran in a sandbox."""
    place: Place
    """Where it ran."""
    set_aside: tuple[str, ...] = ()
    """The new paths of files that it made and others would have run or obeyed, as `AGENTS.md.from-command`. One that
    ends with `NOT_MOVED` is still there."""

    @property
    def text(self) -> str:
        """The output as text, whatever bytes were in it."""
        return self.output.decode(errors="replace")


class Excerpt:
    """What a command printed: the first half and the last half of what fits, and how much is left out between them."""

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0
        """How many bytes there were."""

    def add(self, data: bytes) -> None:
        """Take what comes next."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.popleft())

    @property
    def left_out(self) -> int:
        """How many bytes are missing in the middle."""
        return max(0, self.total - len(self._head) - self._half)

    def parts(self) -> tuple[bytes, bytes]:
        """The beginning and the end; the end begins where the beginning ends if nothing is left out."""
        tail = b"".join(self._tail)
        return bytes(self._head), tail[-self._half :] if self._tail_size else b""

    def join(self) -> bytes:
        """Both, with a line between them that says how much is left out."""
        head, tail = self.parts()
        if not self.left_out:
            return head + tail
        return head + f"\n[... {self.left_out:,} bytes left out ...]\n".encode() + tail


def is_looser(place: Place, than: Place) -> bool:
    """Whether a command may do more in one place than in another."""
    return PLACES.index(place) > PLACES.index(than)


def shell_argv(command: str | Sequence[str]) -> tuple[str, ...]:
    """A command as the program and its arguments: text is for a shell, a list is run as it is."""
    if isinstance(command, str):
        argv: tuple[str, ...] = (shell(), "-c", "--", command)  # whatever it begins with
    elif isinstance(command, Iterable):
        argv = tuple(command)
    else:
        raise UsageError(
            f"{command!r} is not a command.", remedy="Give text for a shell, or a list of texts."
        )
    if not argv or not argv[0]:
        raise UsageError("there is no command to run.", remedy="Give text for a shell, or a list.")
    for part in argv:
        if not isinstance(part, str):
            raise UsageError(f"{part!r} in the command is not text.", remedy="Make it a string.")
        if "\0" in part:
            raise UsageError(
                "there is a NUL byte in the command.",
                remedy="No program can take it: leave it out.",
            )
        if not can_be_bytes(part):
            raise UsageError(
                "there is an incomplete character in the command (a surrogate).",
                remedy="No program can take it: leave it out.",
            )
        if len(os.fsencode(part)) > _LONGEST:
            raise UsageError(
                f"the command is too long for a program ({_LONGEST:,} bytes).",
                remedy="Write it to a file, and run that.",
            )
    return argv


def can_be_bytes(text: str) -> bool:
    """Whether a text has a form in bytes. Names of files that are no valid UTF-8 have one."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def shell() -> str:
    """The shell commands are written for: bash where there is one."""
    for known in ("/bin/bash", "/usr/bin/bash"):
        if os.access(known, os.X_OK):
            return known
    return shutil.which("bash") or "/bin/sh"
