"""No sandbox: commands run on the host, as the user. Only time, size and the end of the whole tree are enforced."""

from __future__ import annotations

from hookline.containment.processes import start_program
from hookline.containment.sandbox.limits import SandboxLimits
from hookline.containment.sandbox.running_command import RunningCommand
from hookline.errors import SandboxError


class HostCommand(RunningCommand):
    """A command on the host, which the process supervisor ends with all that it starts."""

    async def start(self) -> HostCommand:
        """Start it."""
        job = self._job
        argv = ("/bin/sh", "-c", f'{_limits(job.limits)}exec "$@"', "sh", *job.argv)
        env = {**job.env, **job.grant.env}
        try:
            self._begin(
                lambda standard: start_program(
                    argv, env, str(job.cwd), standard, pass_fds=job.pass_fds
                )
            )
        except (OSError, ValueError) as error:
            raise SandboxError(
                f"'{job.argv[0]}' cannot be started in '{job.cwd}' ({error}).",
                remedy="See whether the directory is there, and the command not too long.",
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
        """There is nothing to give back."""


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
