"""Runs commands: contained where that works, on the host where somebody chose that or was warned. Never silently."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, Unpack

from hookline._aio import is_in_event_loop
from hookline.containment.links import is_below, is_inside_any, real_path, ways_and_target
from hookline.containment.mount_table import all_paths
from hookline.containment.sandbox.bubblewrap import (
    BubblewrapCommand,
    InstalledBubblewrap,
    find_bubblewrap,
)
from hookline.containment.sandbox.command import (
    NOTHING,
    PLACES,
    CommandResult,
    Excerpt,
    Job,
    OnOutput,
    Place,
    SandboxGrant,
    can_be_bytes,
    shell_argv,
)
from hookline.containment.sandbox.environment import check_variables, environment, trusted_path
from hookline.containment.sandbox.home import homes
from hookline.containment.sandbox.limits import Enforcement, SandboxLimits, check_timeout
from hookline.containment.sandbox.mounts import FileView
from hookline.containment.sandbox.paths import (
    SandboxPaths,
    check_name,
    emptied_directories,
    find_existing,
    held_names,
    hides_nothing,
    is_in_hidden_entry,
    own_names,
    printable,
    work_directory,
)
from hookline.containment.sandbox.running_command import HostCommand, RunningCommand
from hookline.containment.sandbox.selftest import UntestedSandboxError, run_selftest
from hookline.containment.sandbox.work_tree import describe_shared, trees_to_recover, work_tree
from hookline.errors import SandboxError, UsageError
from hookline.own_directories import whole_path

Requirement: TypeAlias = Literal["required", "auto"]
"""Where there is no sandbox: an error, or the host."""

_log = logging.getLogger("hookline.containment")
_EXCERPT = 256 * 1024


@dataclass(frozen=True)
class SandboxStatus:
    """Where commands run that name no place of their own, here and now."""

    sandbox: Requirement
    place: Place
    """`host` also where another place was asked for, and there is no sandbox."""
    driver: Literal["bubblewrap", "host"]
    contained: bool
    """Whether commands are contained."""
    reason: str
    """Why it is so, in a sentence."""
    remedy: str = ""
    """What would help, where they are not contained though they might be."""


class CommandOptions(TypedDict, total=False):
    """The options of `run`, for `run_sync`."""

    cwd: str | Path | None
    env: Mapping[str, str] | None
    timeout: float | None
    grant: SandboxGrant
    on_output: OnOutput | None
    place: Place | None


class Sandbox:
    """Runs commands that can write in `root` and nowhere else, and have no network.

        sandbox = Sandbox("project", "required")
        result = await sandbox.run("make test", timeout=60)
        print(result.exit_code, result.text)

    `place` is where commands run: `workspace`, as above; `read-only`, where nothing they write outlives them; or
    `host`, where nothing contains them. `sandbox` says what happens where there is no sandbox: with `required` that is
    an error; with `auto` commands run on the host, which `status` and `describe()` report and the log warns about.
    `sandbox="host"` means `place="host"`.
    """

    def __init__(
        self,
        root: str | Path,
        sandbox: Requirement | Literal["host"] = "auto",
        *,
        place: Place | None = None,
        paths: SandboxPaths | None = None,
        limits: SandboxLimits | None = None,
        env: Mapping[str, str] | None = None,
        pass_env: Sequence[str] = (),
    ) -> None:
        self.sandbox, self.place = _check_options(sandbox, place)
        if isinstance(pass_env, str):
            raise UsageError(
                f"pass_env={pass_env!r} is one name.", remedy=f"Write pass_env=({pass_env!r},)."
            )
        _check_kind("paths", paths, SandboxPaths)
        _check_kind("limits", limits, SandboxLimits)
        self.root = work_directory(root)
        self.paths = paths or SandboxPaths()
        if self.paths.tmp is not None:
            self.paths = replace(self.paths, tmp=work_directory(self.paths.tmp))
        self.limits = limits or SandboxLimits()
        self._view = FileView.of(self.root, self.paths)
        _check_tmp(self.paths.tmp, self._view.roots)
        for each in self.writable if self.place == "workspace" else ():
            check_name(each, self.paths)
            own_names(each)
        self._env = check_variables(env or {})
        self._pass_env = tuple(pass_env)
        self._status: SandboxStatus | None = None
        self.has_started = False
        """Whether it has started a command that can write in the work directory."""
        self._recover()
        if self.sandbox == "required":
            self.status  # noqa: B018 - an error now, not when the first command is to run

    def _recover(self) -> None:
        """Move aside what commands of a process left that died while they ran."""
        for tree in trees_to_recover([*map(str, self.writable)]):
            if moved := tree.recover():
                _log.warning(
                    "a process died while its command ran in '%s'; files that other programs would run or follow "
                    "were moved aside: %s",
                    tree.root,
                    ", ".join(map(printable, moved)),
                )

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def status(self) -> SandboxStatus:
        """Whether commands are contained, and why. The first look at it tests the sandbox."""
        if self._status is None:
            self._status = self._find_out()
            if self.place != "host" and not self._status.contained:
                _log.warning("%s", self.describe(), extra={"is_protection": True})
        return self._status

    def _find_out(self) -> SandboxStatus:
        if self.place == "host":
            return SandboxStatus(self.sandbox, "host", "host", False, "the place is host")
        try:
            program = self._program()
        except UntestedSandboxError:
            raise  # the host is for machines without a sandbox, not for a bad moment
        except SandboxError as error:
            if self.sandbox == "required":
                raise SandboxError(
                    f"a sandbox is required, and there is none: {error.message}",
                    remedy=f"{error.remedy} Or accept that commands run on the host: place='host'.",
                ) from None
            reason = error.message.rstrip(".")
            return SandboxStatus(self.sandbox, "host", "host", False, reason, error.remedy)
        reason = f"bubblewrap {program.version} passed its test"
        return SandboxStatus(self.sandbox, self.place, "bubblewrap", True, reason)

    def _program(self) -> InstalledBubblewrap:
        """What contains commands here, or the error that says why there is none. It must not be of their project."""
        path, around = find_bubblewrap(), [*map(_project_of, self.writable)]
        if path and any(is_inside_any(way(path), around) for way in (os.path.abspath, real_path)):
            raise SandboxError(  # before it is started even once
                f"'{path}' is in a directory that commands can write in, or in its repository.",
                remedy="Install bubblewrap for the system.",
            )
        return run_selftest()

    def can_contain(self) -> bool:
        """Whether there is a sandbox here, for commands that are to run in one whatever `place` is."""
        if self.place != "host":
            return self.status.contained
        try:
            self._program()
        except SandboxError:
            return False
        return True

    def place_of(self, place: Place | None = None) -> Place:
        """Where a command runs that names a place, or none. A place that is named and cannot be had is an error."""
        if place is None:
            return self.status.place
        _check_place(place)
        if place != "host" and not self.can_contain():
            raise SandboxError(
                f"place={place!r} needs a sandbox, and there is none here.",
                remedy="Leave place out, or see docs/sandbox.md for what a sandbox needs.",
            )
        return place

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
            only = f"only '{self.root}' {writes}"
            if status.place == "read-only":
                only = "everything that commands write is deleted when they end"
            missing = ", ".join(f"'{path}'" for path in hides_nothing(self.paths))
            note = f"; nothing exists now at {missing}, which would be hidden" if missing else ""
            note += "".join(f"; {each}" for each in self.describe_shared())
            held = Enforcement.of(self.limits).describe()
            said = f"contained by {status.driver}: {status.reason}; {only}, no network"
            return f"{said}; {held}{note}"
        said = f"NOT CONTAINED, commands run on the host: {status.reason}"
        return f"{said}. {status.remedy}".rstrip(". ") if status.remedy else said

    def describe_shared(self) -> list[str]:
        """What the last command could not write, because it has a second name outside, and what helps."""
        trees = (work_tree(str(root)) for root in self.writable)
        return [describe_shared(tree.shared) for tree in trees if tree.shared]

    @property
    def writable(self) -> tuple[Path, ...]:
        """The directories that commands can write in where they can write at all, the work directory first."""
        return self._view.roots

    def can_reach(self, path: str | Path) -> bool:
        """Whether a contained command could change a file here, or put another beside it.

        Not in a directory that is read-only as a whole, whether or not it exists: `.hookline` at the top, and what
        `protect` and `keep` name. Nor in a hidden entry of a home that is the work directory.
        """
        given = whole_path(os.path.expanduser(path))
        # Each link on the way, too: a command could put another one in its place. And by whatever mount it is seen.
        ways = map(Path, all_paths(*ways_and_target(given)))
        return any(self._can_reach(way) for way in ways if way not in self.writable)

    def _can_reach(self, path: Path) -> bool:
        if self.paths.tmp is not None and is_inside_any(path, [Path(self.paths.tmp).resolve()]):
            return True
        for root in self.writable:
            if is_inside_any(path, [root]) and not is_in_hidden_entry(path, root):
                try:
                    held = [root / name for name in held_names(root, self.paths)]
                except SandboxError:  # no command can be started here
                    return True
                around = [place for place in held if place != path or place.is_dir()]
                return not is_inside_any(path, around)
        return False

    def keep(self, *paths: str | Path) -> None:
        """From the next command on, leave these as they are: what your own program writes, say. Missing ones cannot be
        made."""
        kept = dict.fromkeys((*self.paths.keep, *paths))
        self.paths = replace(self.paths, keep=tuple(kept))
        self._view = replace(self._view, paths=self.paths)

    @property
    def is_used(self) -> bool:
        """Whether a contained command runs now that can write in these directories."""
        return any(work_tree(str(root)).is_used for root in self.writable)

    def look_ahead(self) -> None:
        """Begin to look at what commands can write, in a thread: the first command then waits no longer than others.

        `Bash` calls it when a run starts, so that the look takes place while the model is asked.
        """
        if self.status.contained:
            for root in self.writable:
                work_tree(str(root)).look_ahead()

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
        place: Place | None = None,
    ) -> CommandResult:
        """Run a command to its end and give what it printed. Text is for a shell; a list is run as it is."""
        check_timeout(timeout)
        kept = Excerpt(_EXCERPT)

        def hear(data: bytes) -> None:
            kept.add(data)
            if on_output is not None:
                on_output(data)

        running = await self.start(
            command, cwd=cwd, env=env, grant=grant, on_output=hear, place=place
        )
        try:
            async with asyncio.timeout(timeout):
                await running.wait()
        except TimeoutError:
            running.kill("timeout")
            await running.wait()
        finally:
            if running.is_running:  # cancelled
                running.kill()
                await running.wait()
        return CommandResult(
            exit_code=running.exit_code or 0,
            output=kept.join(),
            left_out=kept.left_out,
            duration=running.duration,
            ended=running.ended,
            contained=running.contained,
            place=running.place,
            set_aside=running.set_aside,
        )

    def run_sync(
        self, command: str | Sequence[str], **options: Unpack[CommandOptions]
    ) -> CommandResult:
        """The same, for code that is not async."""
        if is_in_event_loop():
            raise UsageError(
                "run_sync() cannot be used where an event loop runs.",
                remedy="Use `await sandbox.run(...)` there.",
            )
        return asyncio.run(self.run(command, **options))

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        grant: SandboxGrant = NOTHING,
        on_output: OnOutput,
        pass_fds: tuple[int, ...] = (),
        place: Place | None = None,
    ) -> RunningCommand:
        """Start a command and give it as it runs. It ends with the loop, and with this process, if not before.

        `place` is for this command alone; without a sandbox for it, that is an error. `host` is for what a person has
        agreed to: such a command finds no program that a contained one may have put into its path.
        """
        if not isinstance(grant, SandboxGrant):
            raise UsageError(
                f"grant={grant!r} is not a SandboxGrant.",
                remedy="For example: SandboxGrant(network=True).",
            )
        where = self.place_of(place)
        _check_grant(where, grant)
        variables = self.environment(grant=grant, place=place)
        job = Job(
            argv=shell_argv(command),
            cwd=self._directory(cwd, where),
            env={**variables, **check_variables(env or {})},
            own_env=variables,
            limits=self.limits,
            place=where,
            grant=grant,
            on_output=on_output,
            pass_fds=pass_fds,
        )
        self.has_started = self.has_started or where == "workspace"
        if where != "host":
            return await BubblewrapCommand.begin(self._view, job)
        return await HostCommand(job, [work_tree(str(root)) for root in self.writable]).start()

    def environment(
        self, *, grant: SandboxGrant = NOTHING, place: Place | None = None
    ) -> dict[str, str]:
        """The variables a command gets."""
        contained = self.place_of(place) != "host"
        made = environment(self._pass_env, self._env, network=grant.network or not contained)
        if contained:
            made = {**made, "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache"}
        if place == "host" or self._is_showing_keys(grant):
            # In there, a directory of the machine's /tmp is one that commands can make, with what they like in it.
            places = (*self.writable, *(emptied_directories() if contained else ()))
            needed = self._view.find_needed(made) if contained else []
            shown = tuple(find_existing(self._view.find_shown(grant, needed))) if contained else ()
            return {**made, "PATH": trusted_path(made["PATH"], places, shown)}
        return made

    def _is_showing_keys(self, grant: SandboxGrant) -> bool:
        """Whether it shows secrets of the user's, not only files of the work directory."""
        paths = (Path(real_path(os.path.expanduser(each))) for each in grant.reveal)
        return any(not is_inside_any(path, self.writable) for path in paths)

    def _directory(self, cwd: str | Path | None, place: Place) -> Path:
        path = self.root if cwd is None else (self.root / os.path.expanduser(cwd))
        if "\0" in str(path) or not can_be_bytes(str(path)):
            raise SandboxError(f"{str(cwd)!r} is not a path.", remedy="Name a directory.")
        # What a contained command sees as /tmp is not ours to look at.
        private = (
            place != "host"
            and is_inside_any(path, emptied_directories())
            and not is_inside_any(path, self.writable)
        )
        if not private and not path.is_dir():
            raise SandboxError(
                f"there is no directory '{path}' to run in.", remedy="Make it, or name another."
            )
        return path

    def __repr__(self) -> str:
        return f"<Sandbox {self.root}, {self.place}, {self.sandbox}>"


def _project_of(root: Path) -> Path:
    """The outermost repository that holds a directory and no home; the directory itself if there is none.

    Who brings the directory brings that. A rule about owners was tried: a clone of root's is root's.
    """
    above = (each for each in root.parents if not any(is_below(home, each) for home in homes()))
    return min((each for each in above if (each / ".git").exists()), default=root)


def _check_options(sandbox: object, place: object) -> tuple[Requirement, Place]:
    """The two options, once each: `sandbox="host"` is another spelling of `place="host"`."""
    if sandbox not in ("auto", "required", "host"):
        raise UsageError(
            f"sandbox={sandbox!r} means nothing.", remedy="Use 'required', 'auto' or 'host'."
        )
    if place is not None:
        _check_place(place)
    if sandbox == "host" and place not in (None, "host"):
        raise UsageError(
            f"sandbox='host' means place='host', and place={place!r} is given.",
            remedy="Leave out sandbox='host'.",
        )
    if sandbox == "required" and place == "host":
        raise UsageError(
            "sandbox='required' and place='host' contradict each other: the host is not a sandbox.",
            remedy="Use another place, or sandbox='auto'.",
        )
    where: Place = "host" if sandbox == "host" else place or "workspace"  # type: ignore[assignment]  # checked
    return ("required" if sandbox == "required" else "auto"), where


def _check_place(place: object) -> None:
    if place not in PLACES:
        raise UsageError(
            f"place={place!r} means nothing.", remedy=f"Use {', '.join(map(repr, PLACES))}."
        )


def _check_grant(place: Place, grant: SandboxGrant) -> None:
    """What is read-only is so without exception: nobody has to read a grant to know what a command could do."""
    if place == "read-only" and grant.network:
        raise UsageError(
            "a command in the read-only place cannot be given the network.",
            remedy="Run it with place='workspace'.",
        )


def _check_tmp(tmp: str | Path | None, roots: Sequence[Path]) -> None:
    """Refuse a /tmp through which a command could change a home, or what is read-only in a work directory."""
    if tmp is None:
        return
    for held in (*map(Path, homes()), *roots):
        is_in_root = held in roots and is_inside_any(Path(tmp), [held])
        if is_inside_any(held, [Path(tmp)]) or is_in_root:
            raise UsageError(
                f"'{tmp}', the /tmp of commands, overlaps '{held}', and what is in it is not protected.",
                remedy="Set tmp= to an empty directory outside of it, or leave it out. With Bash, set TMPDIR.",
            )


def _check_kind(option: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise UsageError(
            f"{option}={value!r} is not a {kind.__name__}.",
            remedy=f"Write {option}={kind.__name__}(...).",
        )
