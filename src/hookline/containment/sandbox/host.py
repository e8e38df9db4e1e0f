"""No sandbox: commands run on the host, as the user. Only time, size and the end of the whole tree are seen to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

from hookline.containment.interpreter import alone, compiled, from_pipe
from hookline.containment.processes import is_marked, new_mark
from hookline.containment.sandbox import supervisor
from hookline.containment.sandbox.command import Job
from hookline.containment.sandbox.limits import SandboxLimits
from hookline.containment.sandbox.process import RunningCommand, close
from hookline.errors import SandboxError

_SUPERVISOR = alone(supervisor)
_COMPILED = compiled(supervisor)
_MARK = "HOOKLINE_COMMAND"
"""Every process of a command carries it, so that one is found even if the command has killed its supervisor."""
_POLL = 0.01
_FITS_A_PIPE = 4096 * 8
"""Bytes that can be written before anybody reads: of half a pipe, as a system short of memory makes smaller ones."""
_PATIENCE = 2.0
"""Seconds a supervisor has to end everything, before it is ended itself: the command may have stopped it."""


class HostCommand(RunningCommand):
    """A command on the host, below a supervisor that ends what it starts."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._mark = f"{_MARK}={secrets.token_hex(8)}"
        self._limit = str(new_mark())
        """The same for those that drop their environment."""
        self._pid = 0
        """The supervisor's."""
        self._pipe: int | None = None
        """When it ends, by our will or with us, the supervisor ends the command."""

    async def start(self) -> HostCommand:
        """Start it."""
        job = self._job
        name, _, value = self._mark.partition("=")
        theirs, self._pipe = os.pipe()
        text = _text()
        argv = (
            *(_SUPERVISOR if text is None else from_pipe(text)),
            str(theirs),
            self._limit,
            "/bin/sh",
            "-c",
            f'{_limits(job.limits)}exec "$@"',
            "sh",
            *job.argv,
        )
        try:
            env = {**job.env, **job.grant.env, name: value}
            fds = (theirs, *job.pass_fds, *(() if text is None else (text,)))
            self._pid = self._begin(argv, env, fds, job.cwd)
        except BaseException as error:
            close(self._pipe)
            if not isinstance(error, OSError | ValueError):
                raise
            raise SandboxError(
                f"'{job.argv[0]}' cannot be started in '{job.cwd}' ({error}).",
                remedy="See whether the directory is there, and the command not too long.",
            ) from None
        finally:
            close(theirs, *(() if text is None else (text,)))
        self._supervise()
        return self

    def _kill_all(self) -> None:
        if self._pipe is not None:
            close(self._pipe)
            self._pipe = None
            asyncio.get_running_loop().call_later(_PATIENCE, self._end_supervisor)
        if self._is_over():
            return
        for pid in self._strays():
            if pid != self._pid:
                _signal(pid, signal.SIGKILL)
        if self.is_running and not self._exited.is_set():
            _signal(self._pid, signal.SIGCONT)  # the command may have stopped it

    def _end_supervisor(self) -> None:
        if self.is_running and not self._exited.is_set():
            _signal(self._pid, signal.SIGKILL)

    def _is_over(self) -> bool:
        """Whether the supervisor has exited without a signal: then nothing of the command is left."""
        code = None if self._process is None else self._process.returncode
        return code is not None and code >= 0

    async def _until_gone(self) -> None:
        while not self._is_over() and any(self._strays()):
            self._kill_all()
            await asyncio.sleep(_POLL)

    def _strays(self) -> Iterator[int]:
        """The living processes that carry the mark."""
        mark, limit = self._mark.encode(), self._limit.encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                in_environment = mark in (entry / "environ").read_bytes().split(b"\0")
                if in_environment or is_marked(int(entry.name), limit):
                    yield int(entry.name)

    def _clean(self) -> None:
        if self._pipe is not None:
            close(self._pipe)
            self._pipe = None


def _text() -> int | None:
    """A pipe by which the supervisor comes, without being compiled for every command; None if that cannot be."""
    if _COMPILED is None or len(_COMPILED) > _FITS_A_PIPE:
        return None
    text, written = os.pipe()
    os.write(written, _COMPILED)
    close(written)
    return text


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _limits(limits: SandboxLimits) -> str:
    """The limits in the words of a shell; one that this system does not know is left out."""
    wanted = {
        "c": 0,
        "t": limits.cpu_seconds,
        "v": None if limits.address_space is None else limits.address_space // 1024,
        # Of each process what it can write: address space would count what runtimes reserve and never use.
        "d": None if limits.memory is None else limits.memory // 1024,
        "f": None if limits.file_size is None else limits.file_size // 512,
    }
    return "".join(
        f"ulimit -{letter} {value} 2>/dev/null; "
        for letter, value in wanted.items()
        if value is not None
    )
