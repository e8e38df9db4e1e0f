"""No sandbox: commands run on the host, as the user. Only time, size and the end of the whole tree are seen to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hookline.containment.sandbox.command import Job
from hookline.containment.sandbox.limits import SandboxLimits
from hookline.containment.sandbox.running import RunningCommand, close
from hookline.errors import SandboxError

_MARK = "HOOKLINE_COMMAND"
"""Every process of a command carries it, so that one that left its group and its parent is found all the same."""
_POLL = 0.01
_GUARD = """
read -r gone <&0
kill -KILL -- "-$1" 2>/dev/null
for each in /proc/[0-9]*; do
  if tr '\\0' '\\n' <"$each/environ" 2>/dev/null | grep -qx "$2"; then kill -KILL "${each#/proc/}" 2>/dev/null; fi
done
"""
"""Waits for the end of us, and then ends the command: on the host nothing else would."""


class HostCommand(RunningCommand):
    """A command on the host."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._mark = f"{_MARK}={secrets.token_hex(8)}"
        self._pid = 0
        self._guard: subprocess.Popen[bytes] | None = None

    async def start(self) -> HostCommand:
        """Start it."""
        job = self._job
        name, _, value = self._mark.partition("=")
        argv = ("/bin/sh", "-c", f'{_limits(job.limits)}exec "$@"', "sh", *job.argv)
        try:
            env = {**job.env, **job.grant.env, name: value}
            self._pid = await self._begin(argv, env, job.pass_fds, job.cwd)
        except (OSError, ValueError) as error:
            raise SandboxError(
                f"'{job.argv[0]}' cannot be started in '{job.cwd}' ({error}).",
                remedy="See whether the directory is there, and the command not too long.",
            ) from None
        self._watch_over()
        self._supervise()
        return self

    def _watch_over(self) -> None:
        """Start what ends the command when we are killed. Its input is ours, and ends with us."""
        ours, theirs = os.pipe()
        self._held = theirs
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "guard", str(self._pid), self._mark],
                stdin=ours,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        finally:
            close(ours)

    def _kill_all(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        for pid in self._strays():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    async def _until_gone(self) -> None:
        while any(self._strays()):
            self._kill_all()
            await asyncio.sleep(_POLL)

    def _strays(self) -> Iterator[int]:
        """The living processes that carry the mark."""
        mark = self._mark.encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)

    def _clean(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            close(self._held)


def _limits(limits: SandboxLimits) -> str:
    """The limits in the words of a shell; one that this system does not know is left out."""
    wanted = {
        "c": 0,
        "t": limits.cpu_seconds,
        "v": None if limits.memory is None else limits.memory // 1024,
        "f": None if limits.file_size is None else limits.file_size // 512,
    }
    return "".join(
        f"ulimit -{letter} {value} 2>/dev/null; "
        for letter, value in wanted.items()
        if value is not None
    )
