"""A command that runs: its output as it comes, its end, and the end of everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from hookline._aio import call_in_thread, wait_within
from hookline.containment.processes import AsyncProcess, Standard, StartedProcess, start_program
from hookline.containment.sandbox.command import Ended, Job
from hookline.containment.sandbox.limits import SandboxLimits
from hookline.containment.sandbox.work_tree import WorkTree
from hookline.errors import SandboxError

_MOMENT = 2.0
"""Seconds for what is about to happen anyway: the end of the output after the last process that could write it."""


class RunningCommand:
    """One command and all that it starts. When it ends, everything that it started ends."""

    contained = False
    """Whether it runs in a sandbox."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.place = job.place
        self._process: AsyncProcess | None = None
        self._printed = 0
        self._began = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self.ended: Ended = "exited"
        self.exit_code: int | None = None
        """None while it runs."""
        self.duration = 0.0
        self.set_aside: tuple[str, ...] = ()
        """The new paths of files that it made and that others would have run or obeyed under the old ones."""

    # --- for everybody --------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.exit_code is None

    async def wait(self) -> int:
        """Wait until it has ended, with all that it started, and say its exit code."""
        if self._task is not None:
            await asyncio.shield(self._task)
        self._check()
        return 0 if self.exit_code is None else self.exit_code

    def kill(self, why: Ended = "stopped") -> None:
        """End it, and all that it started, now."""
        if self.is_running and not self._has_exited:
            if self.ended == "exited":
                self.ended = why
            self._kill_all()

    def check(self) -> None:
        """Move aside what it has made so far and others would run or obey. `set_aside` has the new paths."""

    # --- for drivers ----------------------------------------------------------------------------------

    def _begin(self, start: Callable[[Standard], StartedProcess]) -> int:
        """Start a process whose output comes here, and give its number."""
        self._began = time.monotonic()
        self._process = AsyncProcess(start, on_output=self._take_output)
        return self._process.pid

    @property
    def _has_exited(self) -> bool:
        return self._process is not None and self._process.exited.done()

    async def _abandon(self) -> None:
        """It is not to run after all: end what there is of it, and wait until it is gone."""
        if self._process is None:
            self._clean()
            return
        self.kill()
        self._supervise()
        await self.wait()

    def _supervise(self) -> None:
        """See the command to its end, whether or not anybody waits for it."""
        self._task = asyncio.create_task(self._to_the_end())

    async def _to_the_end(self) -> None:
        process = self._process
        assert process is not None
        try:
            await asyncio.wait([process.exited])
        finally:  # also when the loop is about to close
            self._kill_all()
            try:
                await wait_within(_MOMENT, self._until_gone())
                await asyncio.wait([process.silent], timeout=_MOMENT)
                # A loop that closes before it has heard of the end of a process never does.
                await asyncio.wait([process.exited], timeout=_MOMENT)
                await self._put_away()
            finally:
                self._settle()

    def _settle(self) -> None:
        assert self._process is not None
        self._process.close()
        code = self._process.returncode
        self.duration = time.monotonic() - self._began
        self.exit_code = self._code(-9 if code is None else code)
        self._clean()

    def _code(self, code: int) -> int:
        """The exit code as a shell says it."""
        return code if code >= 0 else 128 - code

    def _take_output(self, data: bytes) -> None:
        limit = self._job.limits.output
        if limit is not None and self._printed + len(data) > limit:
            data = data[: max(0, limit - self._printed)]
            self.kill("output")
        self._printed += len(data)
        if data:
            self._job.on_output(data)

    def _check(self) -> None:
        """Raise if it was never run."""

    def _kill_all(self) -> None:
        """Kill what is left of the command. May be called at any time, and again."""
        raise NotImplementedError

    async def _until_gone(self) -> None:
        """Wait until nothing is left of it."""
        raise NotImplementedError

    async def _put_away(self) -> None:
        """Do what takes a while of the cleaning, where there is time for it."""

    def _clean(self) -> None:
        """Give back what was taken for it, as far as that was not done."""
        raise NotImplementedError


class HostCommand(RunningCommand):
    """A command on the host, as the user. Only time, size and the end of the whole tree are enforced."""

    def __init__(self, job: Job, trees: Sequence[WorkTree] = ()) -> None:
        super().__init__(job)
        self._trees = trees
        self._held: list[WorkTree] = []
        """Where no contained command may start as long as this one runs."""

    async def start(self) -> HostCommand:
        """Start it, unless a contained command runs in the same directory."""
        job = self._job
        try:
            for tree in self._trees:
                await call_in_thread(partial(tree.enter_on_host, alone=job.grant.alone))
                self._held += [tree] if job.grant.alone else []
        except BaseException:
            self._clean()
            raise
        argv = ("/bin/sh", "-c", f'{_limits(job.limits)}exec "$@"', "sh", *job.argv)
        try:
            self._begin(
                lambda standard: start_program(
                    argv, job.env, str(job.cwd), standard, pass_fds=job.pass_fds
                )
            )
        except (OSError, ValueError) as error:
            self._clean()
            raise SandboxError(
                f"'{job.argv[0]}' cannot be started in '{job.cwd}' ({error}).",
                remedy="Check that the directory exists and that the command is not too long.",
            ) from None
        self._supervise()
        return self

    def _kill_all(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def _until_gone(self) -> None:
        if self._process is not None:
            await self._process.end()

    def _clean(self) -> None:
        while self._held:
            self._held.pop().leave_host()


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


async def readable(fd: int) -> None:
    """Wait until a file descriptor has something to say."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


def close(*fds: int) -> None:
    """Close file descriptors, also those that are closed already."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
