"""The bubblewrap driver: namespaces, a read-only view, a system call filter, and an end for all of it at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import shutil
import signal
import socket
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from hookline._aio import call_in_thread, wait_within
from hookline.containment.links import is_inside_any
from hookline.containment.mount_table import all_paths, find_misplaced, mounts_of
from hookline.containment.processes import OwnChild, run_briefly
from hookline.containment.sandbox.cgroups import Group
from hookline.containment.sandbox.command import Job, SandboxGrant
from hookline.containment.sandbox.inventory import (
    StartLock,
    facts_of_process,
    find_locked_above,
    records_directory,
)
from hookline.containment.sandbox.limits import Enforcement
from hookline.containment.sandbox.mount_points import prepare_mount_points
from hookline.containment.sandbox.mounts import (
    FileView,
    MountPlan,
    empty_file,
    open_null_device,
    own_devices,
    refuse_reachable,
)
from hookline.containment.sandbox.paths import outermost
from hookline.containment.sandbox.protection import Protection
from hookline.containment.sandbox.quarantine import open_directory
from hookline.containment.sandbox.running_command import RunningCommand, close, readable
from hookline.containment.sandbox.seccomp import filter_program
from hookline.containment.sandbox.set_id import clear_set_ids, file_clock
from hookline.containment.sandbox.spawner import spawner
from hookline.containment.sandbox.watcher import Watcher
from hookline.containment.sandbox.work_tree import is_overlapping, used_roots
from hookline.errors import SandboxError

_log = logging.getLogger("hookline.containment")
_NEEDED = (
    "--clearenv",
    "--json-status-fd",
    "--block-fd",
    "--args",
    "--seccomp",
    "--die-with-parent",
)
_SYSTEM = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
_SETUP = 10.0
"""Seconds in which a sandbox has to be ready."""
_TRIES = 5
"""How often a sandbox is made, if what is mounted is not what was meant."""
_TURN = 2.0
"""Seconds to wait for a command beside which this one cannot start."""
_STOPS = 1.0
"""Seconds in which a process stops after SIGSTOP."""
_NICE = 10
_NAMED = 10
"""Files that a message names."""
_CHUNK = 65_536
_LAST = 2_000
"""Bytes of what was said last that tell why a sandbox could not be made."""
_NO_PROGRAM = b"bwrap: execvp "
_FIRST = re.compile(rb'"child-pid": ([0-9]+)')
_OWN_ROOT = re.compile(r"(?m)^\d+ \d+ \S+ \S+ / ro,nosuid")
_BEING_MADE = re.compile(r"(?m)^\d+ \d+ \S+ \S+ /(?:newroot|oldroot)[/ ]")
_TOO_MANY = "Exceeded maximum number of arguments"
INSTALL = (
    "Install it: `apt-get install bubblewrap`, `dnf install bubblewrap`, or your system's like."
)


@dataclass(frozen=True)
class InstalledBubblewrap:
    """The bubblewrap that is installed, and what it can do."""

    path: str
    version: str
    options: frozenset[str]
    needs_privileges: bool = False
    """Whether it has the set-user-id bit or capabilities: where ordinary users may not make namespaces."""


def find_bubblewrap() -> str | None:
    """Where the program is. The system's first: a search path may lead through a directory that commands can write."""
    return shutil.which("bwrap", path=_SYSTEM) or shutil.which("bwrap")


@cache
def find_installed() -> InstalledBubblewrap:
    """The program, or an error that says what is missing."""
    path = find_bubblewrap()
    if path is None:
        raise SandboxError("bubblewrap (the program `bwrap`) is not installed.", remedy=INSTALL)
    try:
        version = _output_of(path, "--version").split()[-1]
        options = frozenset(word for word in _output_of(path, "--help").split() if word[:2] == "--")
    except (OSError, IndexError) as error:
        raise SandboxError(f"'{path}' does not run ({error}).", remedy=INSTALL) from None
    missing = [option for option in _NEEDED if option not in options]
    if missing:
        raise SandboxError(
            f"bubblewrap {version} is too old: it has no {', '.join(missing)}.",
            remedy="Version 0.5 or newer is needed.",
        )
    return InstalledBubblewrap(path, version, options, _has_privileges(path))


def _has_privileges(path: str) -> bool:
    with contextlib.suppress(OSError):
        has_bit = bool(os.stat(path).st_mode & stat.S_ISUID)
        return has_bit or "security.capability" in os.listxattr(path)
    return False


def _output_of(*argv: str) -> str:
    code, output, errors = run_briefly(argv, seconds=10, env=os.environ)
    if code:
        raise OSError(f"exit code {code}: {errors.decode(errors='replace').strip()}")
    return output.decode(errors="replace")


class Arrangement:
    """A sandbox around one command, made ready: what to run, and what has to be given back."""

    def __init__(self, view: FileView, job: Job) -> None:
        self._fds: list[int] = []
        self._held: list[Protection] = []
        self._start: StartLock | None = None
        self.outer_argv: list[str] = []
        """What starts the sandbox in which this one is made, if a command that runs could disturb it."""
        self._roots: dict[str, int] = {}
        """What can be written, by its path inside, held open: a command of a directory above could put a link there."""
        self.knows_others = False
        """Whether it is known which commands run: else each sandbox is made inside of another one."""
        self._rules = -1
        try:
            rules, self._rules = os.pipe()
            self._fds.append(rules)
            self._filter = filter_program()
            for inside, path in view.places(job.place):
                self._roots[inside] = open_directory(path)
            for protection in view.protections(job.grant, job.place):
                self._held.append(protection.hold())
            self.argv = self._arrange(view, job, rules)
        except BaseException:
            self.give_back()
            raise

    @property
    def fds(self) -> tuple[int, ...]:
        """What the program is to inherit."""
        return tuple(self._fds)

    def _arrange(self, view: FileView, job: Job, rules: int) -> list[str]:
        program, grant = find_installed(), job.grant
        sizes = "--size" in program.options
        plan = MountPlan(view, self._held, job, sizes=sizes, file=self._file)
        mounts = list(plan.options())
        options = [
            *_isolation(program, grant),
            *mounts,
            *("--seccomp", str(rules), "--chdir", str(job.cwd), "--clearenv"),
            *(word for item in job.env.items() for word in ("--setenv", *item)),
        ]
        argv = [program.path, "--args", self._arguments(options), "--", *job.argv]
        self._start = StartLock()
        used = used_roots([each.visit for each in self._held])
        outside = [path for _, path in view.places(job.place)]
        self._refuse_unknown(used, outside)
        used = all_paths(*used)
        refuse_reachable(used if job.place == "read-only" else [*used, *outside])
        is_disturbed = bool(used) and any(is_inside_any(each, used) for each in mounts)
        self.knows_others = self._start.is_held
        if self.knows_others and not is_disturbed:  # nobody begins to run before `start_inside`
            tmp = dict(view.places(job.place)).get("/tmp")
            if tmp is not None:
                prepare_mount_points(mounts, "/tmp", tmp)
            return argv
        self.outer_argv = self._surroundings(program, view, job, used)
        return argv

    def _refuse_unknown(self, used: list[str], paths: list[str]) -> None:
        """Refuse to start beside a command whose place is not known: it may lead what is mounted anywhere."""
        why = ""
        if "" in used:
            why = "the directory in which it was started was moved or removed, or it could not be written down"
        elif self._start is not None and not self._start.is_held:  # nobody has records
            # We have locked our own already: one of `write=` may lie in another.
            above = find_locked_above(paths, [*used, *paths])
            why = (
                f"it runs in '{above}', and '{records_directory()}' cannot be written"
                if above
                else ""
            )
        if why:
            raise SandboxError(
                f"a command of another process runs whose place is not known: {why}.",
                remedy="Nothing was run. Wait for the other command, or end it.",
            )

    def _surroundings(
        self, program: InstalledBubblewrap, view: FileView, job: Job, used: list[str]
    ) -> list[str]:
        """A sandbox in which the sandbox is made, where nothing but the work directory can be written.

        bubblewrap makes what it mounts on, if that is missing, and looks for it before: a command that exchanges a
        directory for a link meanwhile has it made, or emptied, at the end of the link. Here that cannot be outside. To
        stop the others meanwhile was rejected: a timer can continue a process that was stopped, and control groups,
        which can freeze it, are not everywhere.
        """
        if program.needs_privileges:  # which it cannot have inside of another one
            raise _NotNestedError(knows_others=self.knows_others)
        roots = [] if job.place == "read-only" else [path for _, path in view.places(job.place)]
        # A command of a directory above could exchange ours, but not the one that it runs in.
        near = [each for each in used if is_overlapping(each, roots)]
        writable = outermost([*roots, *near])
        options = ["--unshare-user", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
        # A view of /proc that can be written is needed to mount another one.
        options += ("--dev-bind", "/proc", "/proc")
        for device in own_devices().values():
            options += ("--dev-bind", device, device)
        for path in writable:
            options += ("--bind", path, path)
        # Journals. Every command has a mount there, so that none can exchange it.
        for path in (f"{each}/.hookline" for each in sorted({*roots, *near})):
            options += ("--ro-bind", path, path) if os.path.isdir(path) else ()
        return [program.path, "--args", self._arguments(options), "--"]

    def _arguments(self, options: list[str]) -> str:
        """The number of a file with these: not on the command line, where everybody could read them."""
        # Each word is ended, not only parted from the next: else an empty one at the end would be none.
        text = "".join(f"{word}\0" for word in options).encode(errors="surrogateescape")
        return str(self._file(text))

    def start_inside(self) -> None:
        """Hand over the filter of system calls, which is all that a sandbox waits for once it is made.

        Without a filter it ends: it does not take our death, or a pipe that we close, for a go.
        """
        os.write(self._rules, self._filter)
        self._close_rules()
        self._end_start()

    def _end_start(self) -> None:
        if self._start is not None:
            self._start.give_back()

    def _close_rules(self) -> None:
        if self._rules >= 0:
            os.close(self._rules)
            self._rules = -1

    def note_first(self, first: int) -> None:
        """Write down which process is the first of the command: it can live a moment longer than ours."""
        for protection in self._held:
            protection.note_first(first)

    def verify(self, first: int, table: str) -> None:
        """Raise if something else than what was meant is mounted in a sandbox, by its first process and its table."""
        for inside, fd in self._roots.items():
            if not os.path.samestat(os.stat(f"/proc/{first}/root{inside}"), os.fstat(fd)):
                raise _ReplacedError(inside)
        kept = (path for each in self._held for path in (*each.pinned, *each.kept))
        expected = list(map(os.path.normpath, kept))
        ours = {os.devnull, empty_file(), *own_devices().values()}
        if (wrong := find_misplaced(table, self._roots, ours, expected)) is not None:
            raise _ReplacedError(wrong)

    def _file(self, content: bytes) -> int:
        fd = os.memfd_create("hookline", os.MFD_CLOEXEC)
        self._fds.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def release(self) -> None:
        """The program has what it was to inherit."""
        close(*self._fds)
        self._fds.clear()

    def give_back(self) -> list[str]:
        """Take away what was made for the command, and say what of the command's own was moved aside."""
        self.release()
        self._close_rules()
        self._end_start()
        close(*self._roots.values())
        self._roots.clear()
        with contextlib.ExitStack() as all_of_them:  # also after one that raises
            for protection in reversed(self._held):
                all_of_them.callback(protection.release)
        return self.moved_files

    @property
    def moved_files(self) -> list[str]:
        """The new paths of what the command made and nobody is to obey, so far."""
        return [path for protection in self._held for path in protection.moved_files]

    def check(self) -> None:
        """Move aside what the command has made so far and nobody is to obey."""
        for protection in self._held:
            protection.check()


class _ReplacedError(SandboxError):
    """Something else than what was meant is mounted at a path. Nothing was run."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"'{path}' was replaced while the sandbox was made. Nothing was run.",
            remedy="Does another command still run in this directory, or in one above it? Stop it, and try again.",
        )


class _NotNestedError(SandboxError):
    """The sandbox has to be made inside of another one, and cannot be. Nothing was run."""

    def __init__(self, *, knows_others: bool) -> None:
        if knows_others:
            why = "a command runs that could disturb the start of this one"
            remedy = "Wait for the other command, or end it."
        else:
            why = f"nobody knows which commands run, because '{records_directory()}' cannot be written"
            remedy = "Let XDG_STATE_HOME name a directory that can be written and locked."
        self.may_pass = knows_others
        super().__init__(
            f"{why}, and no sandbox can be made inside of another one here. Nothing was run.",
            remedy=f"{remedy} A bubblewrap with privileges cannot be nested, and some AppArmor profiles forbid it.",
        )


def _can_be_nested() -> bool:
    """Whether a sandbox can be made inside of another one."""
    path = find_installed().path
    outer = ("--unshare-user", "--ro-bind", "/", "/", "--dev-bind", "/proc", "/proc")
    inner = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc")
    try:
        _output_of(path, *outer, path, *inner, path, "--version")
    except OSError:
        return False
    return True


def _late() -> SandboxError:
    return SandboxError(
        f"the sandbox was not ready within {_SETUP:g} seconds.", remedy="Is the machine overloaded?"
    )


def _not_started(error: Exception) -> SandboxError:
    return SandboxError(
        f"the sandbox could not be started ({error}).",
        remedy="Nothing was run. Is a disk full, or are too many files open?",
    )


async def _arrange(view: FileView, job: Job) -> Arrangement:
    """An arrangement, made in a thread: the look at a large tree would keep the event loop waiting.

    If nobody waits for it any more, it is given back: by the thread, or by us if it was made already. Who comes second
    to the lock does that.
    """
    taken, made = threading.Lock(), list[Arrangement]()

    def make() -> None:
        made.append(Arrangement(view, job))
        if not taken.acquire(blocking=False):
            made[0].give_back()

    making = asyncio.ensure_future(call_in_thread(make))
    try:
        await asyncio.shield(making)
    except asyncio.CancelledError:
        if not taken.acquire(blocking=False):
            made[0].give_back()
        await asyncio.wait([making], timeout=_SETUP)
        if making.done() and not making.cancelled():
            making.exception()  # nobody is interested in it
        raise
    return made[0]


_running: weakref.WeakSet[BubblewrapCommand] = weakref.WeakSet()


def _isolation(program: InstalledBubblewrap, grant: SandboxGrant) -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    yield "--unshare-cgroup-try"
    if not grant.network:
        yield "--unshare-net"
    if "--disable-userns" in program.options:
        yield "--disable-userns"
    yield from ("--new-session", "--die-with-parent", "--cap-drop", "ALL")


def _parent_of(pid: int) -> int | None:
    facts = facts_of_process(pid)
    return int(facts[1]) if facts else None


def _state_of(pid: int) -> str:
    """A letter: T for a process that is stopped, Z for one that has ended, X for one that is gone."""
    facts = facts_of_process(pid)
    return facts[0] if facts else "X"


def end_children(pid: int, held: int) -> None:
    """End what a bubblewrap has started, before we know what that is. Its own end may come too early for that.

    `held` is a file descriptor of the process. Its children keep their numbers as long as it is stopped.
    """
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(held, signal.SIGSTOP)  # so that it starts no more
        until = time.monotonic() + _STOPS
        while _state_of(pid) not in "TtZX" and time.monotonic() < until:
            time.sleep(0.001)
        for child in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if _parent_of(child) == pid:
                inner = os.pidfd_open(child)
                end_children(child, inner)
                os.close(inner)
                os.kill(child, signal.SIGKILL)


def _is_made(table: str) -> bool:
    """Whether everything is mounted: its own root, which is read-only, and no longer what it makes that from."""
    return bool(_OWN_ROOT.search(table)) and not _BEING_MADE.search(table)


class BubblewrapCommand(RunningCommand):
    """A command in a sandbox of its own."""

    contained = True

    def __init__(self, view: FileView, job: Job, arrangement: Arrangement) -> None:
        super().__init__(job)
        self._arrangement = arrangement
        self._status = -1
        self._monitor: int | None = None
        """The process that we have started ourselves, held by a file descriptor."""
        self._first: int | None = None
        """The first process in there, held by a file descriptor: its end is the end of all."""
        self._writable = () if job.place == "read-only" else view.lasting_roots
        """What outlives the command, of what it can write."""
        self._group: Group | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ran = False
        self._last = b""

    @classmethod
    async def begin(cls, view: FileView, job: Job) -> BubblewrapCommand:
        """Start a command, when everything is arranged for it."""
        replaced, until = 0, time.monotonic() + _TURN
        while True:
            try:
                return await cls(view, job, await _arrange(view, job))._start()
            except _ReplacedError:  # others on the machine may mount something at that moment
                replaced += 1
                if replaced == _TRIES:
                    raise
            except _NotNestedError as error:  # of two that start together, one goes first
                if not error.may_pass or time.monotonic() > until:
                    raise
                await asyncio.sleep(random.uniform(0.01, 0.1))
            except OSError as error:
                raise _not_started(error) from None

    async def _start(self) -> BubblewrapCommand:
        """Start it: the sandbox first, which then waits until its limits are set."""
        held = contextlib.ExitStack()
        try:
            pid, made = self._start_program(held)
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                self._monitor = os.pidfd_open(pid)
            first = await self._first_process(pid)
            if first is not None:
                self._first = os.pidfd_open(first)
                self._arrangement.note_first(first)
                self._restrict(first)
                if not await wait_within(_SETUP, readable(made.fileno())):
                    raise _late()
                table = mounts_of(first)
                if _is_made(table):  # else it has ended, and its output says why
                    self._arrangement.verify(first, table)
                    self._arrangement.start_inside()
        except BaseException as error:
            await self._abandon()  # before it continues: it has no limits yet
            if isinstance(error, OSError | ValueError):
                raise _not_started(error) from None
            raise
        finally:
            held.close()
        self._supervise()
        return self

    def _start_program(self, held: contextlib.ExitStack) -> tuple[int, socket.socket]:
        """Start bubblewrap. Gives its number, and a socket whose other end is closed when the sandbox is made."""
        self._enforcement = Enforcement.of(self._job.limits)
        self._clock = file_clock()
        # The spawner's thread gains no privileges any more, and neither does what it starts.
        self._spawner = None if find_installed().needs_privileges else spawner()
        self._reports = None if self._spawner is None else self._spawner.reports
        """How often the kernel had reported a set-group-id bit at the start."""
        with contextlib.ExitStack() as inherited:
            inherited.callback(self._arrangement.release)
            self._status, said = os.pipe()
            inherited.callback(os.close, said)
            made, theirs = socket.socketpair()
            held.enter_context(made)
            inherited.enter_context(theirs)
            nothing = open_null_device()
            inherited.callback(os.close, nothing)
            made.send(b"1")  # what it reads when it is made
            program, *words = self._arrangement.argv
            reports = ["--json-status-fd", str(said), "--block-fd", str(theirs.fileno())]
            argv = [*self._arrangement.outer_argv, program, *reports, *words]
            fds = (said, theirs.fileno(), *self._arrangement.fds, *self._job.pass_fds)
            self._group = self._enforcement.make_group()
            _running.add(self)
            # Nothing of our environment: it could be read inside as that of the first process.
            pid = self._begin(
                lambda standard: self._spawn(
                    lambda: OwnChild(argv, {}, "/", (nothing, *standard[1:]), fds)
                )
            )
            return pid, made

    async def _first_process(self, monitor: int) -> int | None:
        """The number of the first process in there; None if the sandbox could not be made."""
        os.set_blocking(self._status, False)
        said = b""
        while True:
            if not await wait_within(_SETUP, readable(self._status)):
                raise _late()
            more = os.read(self._status, _CHUNK)
            if not more:
                return None
            said += more  # it comes in pieces, of which the first has what we need
            found = _FIRST.search(said)
            if found is not None and self._is_started_by(monitor, int(found[1])):
                return int(found[1])

    def _is_started_by(self, monitor: int, first: int) -> bool:
        parent = _parent_of(first)
        if parent is not None and self._arrangement.outer_argv:
            parent = _parent_of(parent)
        return parent == monitor

    def _restrict(self, first: int) -> None:
        self._enforcement.restrict(first)
        if self._group is not None:
            self._group.add(first)
            if self._group.oom is not None:
                asyncio.get_running_loop().add_reader(self._group.oom, self._end_without_memory)
        watched = self._enforcement.watched
        if self._enforcement.needs_watcher:
            watcher = Watcher(first, watched, self._writable)
            self._watching = asyncio.create_task(self._end_at_limit(watcher))
        if watched.processes is not None:  # a fork bomb would keep us from looking
            nice = os.getpriority(os.PRIO_PROCESS, first)  # only root may lower it
            os.setpriority(os.PRIO_PROCESS, first, max(nice, _NICE))

    def _end_without_memory(self) -> None:
        self._stop_listening()
        self.kill("memory")

    def _stop_listening(self) -> None:
        if self._group is not None and self._group.oom is not None:
            asyncio.get_running_loop().remove_reader(self._group.oom)

    async def _end_at_limit(self, watcher: Watcher) -> None:
        try:
            self.kill(await watcher.wait_exceeded())
        except Exception:  # nobody looks any more, so nothing may run
            _log.exception("The watcher of a command failed, and the command was ended.")
            self.kill()

    def _spawn(self, start: Callable[[], OwnChild]) -> OwnChild:
        group = self._group

        def start_in_group() -> OwnChild:
            if group is None:
                return start()
            with group.join_group():
                process = start()
            # The first process has to be in the group, and is put there when it is known. But after a pause the kernel
            # takes 10 ms to move one, and then moves others at once. Now it does so while the sandbox is being made.
            with contextlib.suppress(OSError):  # it has ended already
                group.add(process.pid)
            return process

        return start_in_group() if self._spawner is None else self._spawner.start(start_in_group)

    async def _abandon(self) -> None:
        if self._first is None and self._process is not None and self._monitor is not None:
            end_children(self._process.pid, self._monitor)
        await super()._abandon()

    def _kill_all(self) -> None:
        # By what holds them: a number may be somebody else's by now.
        for held in self._descriptors():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(held, signal.SIGKILL)
        if self._monitor is None and self._process is not None:  # it could not be held
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def _descriptors(self) -> list[int]:
        return [each for each in (self._first, self._monitor) if each is not None]

    async def _until_gone(self) -> None:
        if self._first is not None:
            await readable(self._first)

    def _settle(self) -> None:
        with contextlib.suppress(OSError):
            self._ran = b'"exit-code"' in os.read(self._status, _CHUNK)
        if self.ended == "exited" and self._group is not None and self._group.ran_out_of_memory:
            self.ended = "memory"
        super()._settle()

    def _take_output(self, data: bytes) -> None:
        self._last = (self._last + data)[-_LAST:]
        super()._take_output(data)

    def _code(self, code: int) -> int:
        not_there = not self._ran and _NO_PROGRAM in self._last
        return 127 if not_there else super()._code(code)

    def _check(self) -> None:
        """Raise if nothing was run, because the sandbox could not be made after all."""
        if not self._ran and self.ended == "exited" and _NO_PROGRAM not in self._last:
            said = self._last.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            if _TOO_MANY in said[-1]:
                raise SandboxError(
                    "there are too many environment files or repositories to be covered one by one, "
                    "in the work directory or in your home.",
                    remedy="Nothing was run. Remove what is not needed, or work in a directory further down.",
                )
            help_for = "See docs/sandbox.md for what it needs."
            if self._arrangement.outer_argv:
                if not _can_be_nested():
                    raise _NotNestedError(knows_others=self._arrangement.knows_others)
                help_for = "Does another command exchange directories here? Stop it, and try again."
            raise SandboxError(
                f"the sandbox for the command could not be made ({said[-1]}).",
                remedy=f"Nothing was run. {help_for}",
            )

    def check(self) -> None:
        """Look at what it has left behind so far."""
        if self.is_running:
            self._arrangement.check()
            self.set_aside = tuple(self._arrangement.moved_files)

    async def _put_away(self) -> None:
        self._clear_set_ids()
        await call_in_thread(self._arrangement.give_back)

    def _clean(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._group is not None:
            self._stop_listening()
            self._group.remove()
        close(self._status, *self._descriptors())
        self._clear_set_ids()
        self.set_aside = tuple(self._arrangement.give_back())

    def _clear_set_ids(self) -> None:
        """Look at all files, if the command may have set a set-group-id bit, or nobody can know."""
        if self not in _running:
            return  # they were looked at
        _running.discard(self)
        reports = None if self._spawner is None else self._spawner.reports
        if reports is not None and reports == self._reports:
            return
        for other in tuple(_running):
            # It could move files out of the way while we look. So it is followed by a look, too, from the same time on.
            other._reports, other._clock = None, min(self._clock, other._clock)
        cleared = clear_set_ids(self._writable, self._clock)
        if cleared:
            names = ", ".join(repr(name) for name in cleared[:_NAMED])
            more = f" and {len(cleared) - _NAMED} more" if len(cleared) > _NAMED else ""
            _log.warning(
                "A command left set-id bits on files; they were cleared: %s%s", names, more
            )
