"""A place to run commands in: contained where that works, on the host where it is said so. Never silently."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from hookline.containment.sandbox.bubblewrap import BubblewrapCommand
from hookline.containment.sandbox.command import (
    NOTHING,
    CommandResult,
    Job,
    OnOutput,
    SandboxGrant,
    can_be_bytes,
    shell_argv,
)
from hookline.containment.sandbox.enforcement import Enforcement
from hookline.containment.sandbox.environment import checked, environment, trusted_path
from hookline.containment.sandbox.host import HostCommand
from hookline.containment.sandbox.limits import SandboxLimits, checked_timeout
from hookline.containment.sandbox.mounts import Tree
from hookline.containment.sandbox.output import Excerpt
from hookline.containment.sandbox.paths import (
    SandboxPaths,
    emptied,
    existing,
    hides_nothing,
    inside_any,
    work_directory,
)
from hookline.containment.sandbox.running import RunningCommand
from hookline.containment.sandbox.selftest import passed
from hookline.errors import SandboxError, UsageError

SandboxMode: TypeAlias = Literal["auto", "required", "host"]

_log = logging.getLogger("hookline.containment")
_EXCERPT = 256 * 1024


@dataclass(frozen=True)
class SandboxStatus:
    """What a sandbox comes to, here and now."""

    mode: SandboxMode
    driver: Literal["bubblewrap", "host"]
    contained: bool
    """Whether commands are contained."""
    reason: str
    """Why it is so, in a sentence."""
    remedy: str = ""
    """What would help, where they are not contained though they might be."""


class Sandbox:
    """Runs commands that can write in `root` and nowhere else, read no secrets, and reach nothing.

        sandbox = Sandbox("project", "required")
        result = await sandbox.run("make test", timeout=60)
        print(result.exit_code, result.text)

    `mode` says what happens where that does not work: with `auto` commands run on the host, which `status` and
    `describe()` say and the log warns about; with `required` it is an error. With `host` nothing is contained.
    """

    def __init__(
        self,
        root: str | Path,
        mode: SandboxMode = "auto",
        *,
        paths: SandboxPaths | None = None,
        limits: SandboxLimits | None = None,
        env: Mapping[str, str] | None = None,
        pass_env: Sequence[str] = (),
    ) -> None:
        if mode not in get_args(SandboxMode):
            raise UsageError(
                f"there is no sandbox mode {mode!r}.", remedy="Use 'auto', 'required' or 'host'."
            )
        if isinstance(pass_env, str):
            raise UsageError(
                f"pass_env={pass_env!r} is one name.", remedy=f"Write pass_env=({pass_env!r},)."
            )
        _check_kind("paths", paths, SandboxPaths)
        _check_kind("limits", limits, SandboxLimits)
        self.mode: SandboxMode = mode
        self.root = work_directory(root)
        self.paths = paths or SandboxPaths()
        self.limits = limits or SandboxLimits()
        self._tree = Tree.of(self.root, self.paths)
        self._env = checked(env or {})
        self._pass_env = tuple(pass_env)
        self._status: SandboxStatus | None = None
        if mode == "required":
            self.status  # noqa: B018 - an error now, not when the first command is to run

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def status(self) -> SandboxStatus:
        """Whether commands are contained, and why. The first look at it tests the sandbox."""
        if self._status is None:
            self._status = self._find_out()
            if self.mode == "auto" and not self._status.contained:
                _log.warning("%s", self.describe())
        return self._status

    def _find_out(self) -> SandboxStatus:
        if self.mode == "host":
            return SandboxStatus("host", "host", False, "the host was asked for")
        try:
            program = passed()
            self._check_place(program.path)
        except SandboxError as error:
            if self.mode == "required":
                raise SandboxError(
                    f"a sandbox is required, and there is none: {error.message}",
                    remedy=f"{error.remedy} Or accept that commands run on the host: mode='host'.",
                ) from None
            return SandboxStatus("auto", "host", False, error.message.rstrip("."), error.remedy)
        return SandboxStatus(
            self.mode, "bubblewrap", True, f"bubblewrap {program.version} passed its test"
        )

    def _check_place(self, program: str) -> None:
        """What contains commands must not be theirs to replace."""
        if inside_any(Path(program).resolve(), self.writable) or inside_any(
            Path(program), self.writable
        ):
            raise SandboxError(
                f"'{program}' is in a directory that commands can write in.",
                remedy="Install bubblewrap for the system.",
            )

    def describe(self) -> str:
        """The status in a sentence or two, for people."""
        status = self.status
        if status.contained:
            owner = self.root.stat().st_uid
            foreign = os.geteuid() == 0 and owner != 0
            writes = (
                f"would be written, and it is user {owner}'s, not root's"
                if foreign
                else "can be written"
            )
            missing = ", ".join(f"'{path}'" for path in hides_nothing(self.paths))
            note = f"; there is nothing to hide at {missing} now" if missing else ""
            held = Enforcement.of(self.limits).describe()
            said = f"contained by {status.driver}: {status.reason}; only '{self.root}' {writes}, no network"
            return f"{said}; {held}{note}"
        said = f"NOT CONTAINED, commands run on the host: {status.reason}"
        return f"{said}. {status.remedy}".rstrip(". ") if status.remedy else said

    @property
    def writable(self) -> tuple[Path, ...]:
        """The directories that commands can write in, the work directory first."""
        return self._tree.roots

    def keep(self, *paths: str | Path) -> None:
        """From the next command on, leave these as they are where they exist: what your own program writes, say."""
        kept = dict.fromkeys((*self.paths.keep, *paths))
        self.paths = replace(self.paths, keep=tuple(kept))
        self._tree = replace(self._tree, paths=self.paths)

    # --- what it does -------------------------------------------------------------------------------

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        grant: SandboxGrant = NOTHING,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """Run a command to its end and give what it printed. Text is for a shell; a list is run as it is."""
        checked_timeout(timeout)
        kept = Excerpt(_EXCERPT)

        def hear(data: bytes) -> None:
            kept.add(data)
            if on_output is not None:
                on_output(data)

        running = await self.start(command, cwd=cwd, env=env, grant=grant, on_output=hear)
        try:
            async with asyncio.timeout(timeout):
                await running.wait()
        except TimeoutError:
            running.kill("timeout")
            await running.wait()
        finally:
            if running.is_running:  # we are told to hurry
                running.kill()
                await running.wait()
        return CommandResult(
            exit_code=running.exit_code or 0,
            output=kept.joined(),
            left_out=kept.left_out,
            duration=running.duration,
            ended=running.ended,
            contained=running.contained,
            set_aside=running.set_aside,
        )

    def run_sync(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        grant: SandboxGrant = NOTHING,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """The same, for code that is not async."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise UsageError(
                "run_sync() cannot be used where an event loop runs.",
                remedy="Use `await sandbox.run(...)` there.",
            )
        return asyncio.run(
            self.run(command, cwd=cwd, env=env, timeout=timeout, grant=grant, on_output=on_output)
        )

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        grant: SandboxGrant = NOTHING,
        on_output: OnOutput,
        pass_fds: tuple[int, ...] = (),
        outside: bool = False,
    ) -> RunningCommand:
        """Start a command and give it as it runs. It ends with the loop, and with this process, if not before.

        `outside` runs it on the host, whatever the mode: for what a person has agreed to. It finds no program that a
        contained command may have put into its path.
        """
        if not isinstance(grant, SandboxGrant):
            raise UsageError(
                f"grant={grant!r} is no SandboxGrant.",
                remedy="Write SandboxGrant(network=True), say.",
            )
        contained = self.status.contained and not outside
        variables = self.environment(grant=grant, outside=outside)
        job = Job(
            argv=shell_argv(command),
            cwd=self._directory(cwd),
            env={**variables, **checked(env or {})},
            limits=self.limits,
            grant=grant,
            on_output=on_output,
            pass_fds=pass_fds,
        )
        if contained:
            return await BubblewrapCommand(self._tree, job).start()
        return await HostCommand(job).start()

    def environment(
        self, *, grant: SandboxGrant = NOTHING, outside: bool = False
    ) -> dict[str, str]:
        """The variables a command gets."""
        contained = self.status.contained and not outside
        made = environment(self._pass_env, self._env, network=grant.network or not contained)
        if contained:
            made = {**made, "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache"}
        if outside or grant.reveal:
            # In there, a directory of the machine's /tmp is one that commands can make, with what they like in it.
            places = (*self.writable, *(emptied() if contained else ()))
            shown = tuple(existing(self.paths.read)) if contained else ()
            return {**made, "PATH": trusted_path(made["PATH"], places, shown)}
        return made

    def _directory(self, cwd: str | Path | None) -> Path:
        path = self.root if cwd is None else (self.root / os.path.expanduser(cwd))
        if "\0" in str(path) or not can_be_bytes(str(path)):
            raise SandboxError(f"{str(cwd)!r} is no path.", remedy="Name a directory.")
        # What a contained command sees as /tmp is not ours to look at.
        private = (
            self.status.contained
            and inside_any(path, emptied())
            and not inside_any(path, self.writable)
        )
        if not private and not path.is_dir():
            raise SandboxError(
                f"there is no directory '{path}' to run in.", remedy="Make it, or name another."
            )
        return path

    def __repr__(self) -> str:
        return f"<Sandbox {self.root}, {self.mode}>"


def _check_kind(option: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise UsageError(
            f"{option}={value!r} is no {kind.__name__}.",
            remedy=f"Write {option}={kind.__name__}(...).",
        )
