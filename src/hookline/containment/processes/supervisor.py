"""Starts programs for another process (the client), and ends them with all that they have started.

This is a program of its own. It knows nothing about what it runs and imports nothing of ours. One process has one
supervisor for all its hooks, MCP servers and commands on the host: none of them costs an interpreter, and the parent
that a program sees lives as long as we do.

Every program has a socket, its channel. The order comes in by it; the process id, the exit code and "done" go out.
When the channel closes, for whatever reason, the program is ended. Whatever a program has started is found by a mark
that all of it inherits, even if it changes its group, session, parent and environment: a limit on the time of
real-time processes that is longer than any process runs, and different for each program. Orphans become our children
(we are a "subreaper"), so none of them stays as a zombie.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes longer to import than all else here
import _socket
import os
import select
import sys
import time

_ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER`."""
_REALTIME = 15
"""`RLIMIT_RTTIME`."""
_KILL, _TERM = 9, 15
_NOT_FOR_US = (1, 2, 3, 15)
"""Signals to a whole terminal or service. They are meant for the client, and we end with it."""
_SET_BY_PYTHON = (13, 25)
"""Signals that Python ignores: broken pipes, and files that grow too large."""
_MOST_FDS = 64
"""Descriptors that can come with an order."""
_PAUSE = 0.002
_LONGEST_END = 2.0
"""Seconds for what is killed to be gone. A process of another user, or one that hangs in the system, may stay."""


class SupervisedProgram:
    """A program that was started."""

    def __init__(self, channel: int, mark: str, leaves: list[bytes], grace: float) -> None:
        self.channel = channel
        self.mark = mark
        self.leaves = leaves
        """Exit codes of a program that did its work: what it left in the background may continue."""
        self.grace = grace
        """Seconds it has to end by itself when the client is gone."""
        self.deadline: float | None = None
        """When that time is over. Nobody is at the other end of the channel then."""
        self.pid = 0
        self.code: int | None = None

    def report(self, text: str) -> None:
        """Write to the client, if it is there."""
        try:  # noqa: SIM105 - `contextlib` takes longer to import
            os.write(self.channel, text.encode() + b"\n")
        except OSError:
            pass

    def note_exit(self, code: int) -> None:
        """It has ended, with this exit code, or by the signal with this number below zero."""
        self.code = code
        self.report(f"exit {code}")


class ProcessSupervisor:
    """All programs that were started, and the sockets that we listen to."""

    def __init__(self, orders: int) -> None:
        self._orders = orders
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, orders)
        self._programs: dict[int, SupervisedProgram] = {}
        """By the numbers of their channels."""
        self._poll = select.poll()
        self._poll.register(orders, select.POLLIN)
        self._reset = [*_SET_BY_PYTHON, *_ignore_signals()]
        self._wakeup = _wakeup_pipe()
        self._poll.register(self._wakeup, select.POLLIN)

    def run(self) -> None:
        """Run until the client is gone and all programs have ended."""
        is_open = True
        while is_open or self._programs:
            ready = {fd for fd, _ in self._poll.poll(self._milliseconds())}
            if self._wakeup in ready:
                os.read(self._wakeup, 4096)
            self._see_exits()  # first: whether a program did its work decides what a closed channel means
            for fd in ready & self._programs.keys():
                self._obey(self._programs[fd])
            if self._orders in ready and not self._accept():
                is_open = False
                self._poll.unregister(self._orders)
            self._end_overdue()

    # --- starting -----------------------------------------------------------------------------------

    def _accept(self) -> bool:
        """Take the next order; False if the client is gone."""
        try:
            data, passed, _, _ = self._socket.recvmsg(1, _socket.CMSG_SPACE(4 * _MOST_FDS))
        except OSError:
            return False
        if not data:
            return False
        fds = [fd for _, _, raw in passed for fd in _numbers(raw)]
        for fd in fds:
            os.set_inheritable(fd, False)
        if len(fds) >= 4:
            self._take_order(fds[0], fds[1:])
        elif fds:  # we have no room for all of them
            os.close(fds[0])
        for fd in fds[1:]:
            os.close(fd)
        return True

    def _take_order(self, channel: int, fds: list[int]) -> None:
        words = _read_order(channel)
        if words is None:
            os.close(channel)
            return
        mark, leaves, grace, session, numbers, cwd, count = words[:7]
        program = SupervisedProgram(channel, mark.decode(), leaves.split(b","), float(grace))
        end = 7 + int(count)
        pairs = (each.partition(b"=") for each in words[end:])
        env = {name: value for name, _, value in pairs}
        targets = [0, 1, 2, *(int(each) for each in numbers.split(b",") if each)]
        try:
            if len(targets) != len(fds):
                raise OSError(24, "too many descriptors")
            os.chdir(cwd)
            set_mark(0, int(program.mark))
            program.pid = self._spawn(words[7:end], env, fds, targets, session == b"1")
        except OSError as error:
            program.report(f"error {error.errno or 0}")
            os.close(channel)
            return
        finally:
            set_mark(0, None)
            os.chdir("/")
        program.report(f"pid {program.pid}")
        self._programs[channel] = program
        self._poll.register(channel, select.POLLIN)

    def _spawn(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        fds: list[int],
        targets: list[int],
        is_session: bool,
    ) -> int:
        if len(targets) == 3:  # what comes to us has higher numbers
            return _search_and_spawn(argv, env, fds, targets, self._reset, is_session)
        import fcntl

        above = max(targets) + 1  # a target may be the number of another one's source
        moved: list[int] = []
        try:
            for fd in fds:
                moved.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above))
            return _search_and_spawn(argv, env, moved, targets, self._reset, is_session)
        finally:
            for fd in moved:
                os.close(fd)

    # --- ending -------------------------------------------------------------------------------------

    def _obey(self, program: SupervisedProgram) -> None:
        """Do what the client wants: `t`erminate the program, `k`ill all of it, or `l`eave the rest of it."""
        try:
            wish = os.read(program.channel, 1)
        except OSError:
            wish = b""
        if wish == b"t":
            _send_signal(-program.pid, _TERM)
            return
        did_its_work = str(program.code).encode() in program.leaves
        if not wish and program.grace and program.code is None:
            self._poll.unregister(program.channel)
            program.deadline = time.monotonic() + program.grace
            return
        if wish == b"k" or not (wish == b"l" or did_its_work):
            self._end(program)
        self._forget(program)

    def _milliseconds(self) -> float | None:
        deadlines = [each.deadline for each in self._programs.values() if each.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) * 1000 if deadlines else None

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for program in tuple(self._programs.values()):
            is_over = program.deadline is not None and program.deadline <= now
            if is_over or (program.deadline is not None and program.code is not None):
                self._end(program)
                self._forget(program)

    def _end(self, program: SupervisedProgram) -> None:
        """Kill all of it. What it starts meanwhile is found in the next round."""
        until = time.monotonic() + _LONGEST_END
        while time.monotonic() < until:
            _send_signal(-program.pid, _KILL)
            left = [pid for pid in _find_descendants(program) if _send_signal(pid, _KILL)]
            self._see_exits()
            if not left and program.code is not None:
                break
            time.sleep(_PAUSE)

    def _forget(self, program: SupervisedProgram) -> None:
        if program.deadline is None:
            self._poll.unregister(program.channel)
        del self._programs[program.channel]
        if program.code is not None and hasattr(os, "waitid"):
            os.waitpid(program.pid, 0)  # not before: until then nobody else gets its number
        program.report("done")
        os.close(program.channel)

    def _see_exits(self) -> None:
        """Note which programs have ended, and reap orphans."""
        leaders = {each.pid: each for each in self._programs.values()}
        if not hasattr(os, "waitid"):  # macOS, before Python 3.13
            for pid, status in _reap():
                if pid in leaders:
                    leaders[pid].note_exit(os.waitstatus_to_exitcode(status))
            return
        for program in leaders.values():
            if program.code is None:
                how = os.WEXITED | os.WNOWAIT | os.WNOHANG
                ended = os.waitid(os.P_PID, program.pid, how)
                if ended is not None:
                    by_itself = ended.si_code == os.CLD_EXITED
                    program.note_exit(ended.si_status if by_itself else -ended.si_status)
        try:
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                if ended.si_pid in leaders:
                    break  # `_forget` reaps it
                os.waitpid(ended.si_pid, os.WNOHANG)
        except ChildProcessError:
            pass


def _reap() -> list[tuple[int, int]]:
    """The children that have ended, with their statuses."""
    found = []
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    except ChildProcessError:
        pass
    return found


def _ignore_signals() -> list[int]:
    """Ignore the signals that are not for us; gives those that programs get back."""
    ours = [each for each in _NOT_FOR_US if _signal.getsignal(each) != _signal.SIG_IGN]
    for each in ours:
        _signal.signal(each, _signal.SIG_IGN)
    return ours


def _wakeup_pipe() -> int:
    """A descriptor that can be read when a child has ended."""
    readable, written = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(written, False)
    _signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
    return readable


def _read_order(channel: int) -> list[bytes] | None:
    """The words of an order, which are separated by NUL bytes; None if the client is gone."""
    size = _read(channel, 8)
    text = None if size is None else _read(channel, int.from_bytes(size, "big"))
    return None if text is None else text.split(b"\0")


def _read(channel: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = os.read(channel, size - len(data))
        if not more:
            return None
        data += more
    return data


def _numbers(raw: bytes) -> list[int]:
    return [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw) - 3, 4)]


def _search_and_spawn(
    argv: list[bytes],
    env: dict[bytes, bytes],
    fds: list[int],
    targets: list[int],
    reset: list[int],
    is_session: bool,
) -> int:
    """Start a program without a terminal, in a group of its own. It is looked for in the PATH of its environment.

    A new session takes the terminal away. Where there is none, a hook gets a new group only: Linux gives every session
    its own share of a busy machine, and a new session waits milliseconds for its turn, at every step.
    """
    actions = [(os.POSIX_SPAWN_DUP2, *each) for each in zip(fds, targets, strict=True)]
    places = [b""] if b"/" in argv[0] else env.get(b"PATH", os.defpath.encode()).split(b":")
    failure = OSError(2, "not found")
    is_session = is_session or _has_terminal()
    for place in places:
        path = os.path.join(place, argv[0])
        if place and not os.access(path, os.F_OK):  # a failed start costs as much as one that works
            continue
        try:
            if is_session:
                try:
                    return os.posix_spawn(
                        path, argv, env, file_actions=actions, setsid=True, setsigdef=reset
                    )
                except NotImplementedError:  # then we have no terminal either
                    is_session = False
            return os.posix_spawn(
                path, argv, env, file_actions=actions, setpgroup=0, setsigdef=reset
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
    raise failure


def _has_terminal() -> bool:
    """Whether what we start would have our terminal, which may have come after us."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def set_mark(pid: int, mark: int | None) -> None:
    """Mark a process (0 for ourselves) and what it will start, where the system can do that."""
    if sys.platform != "linux":
        return
    import resource

    try:
        _, hard = resource.prlimit(pid, _REALTIME)
        if hard == resource.RLIM_INFINITY:
            resource.prlimit(pid, _REALTIME, (hard if mark is None else mark, hard))
    except OSError:  # it has ended
        pass


def _find_descendants(program: SupervisedProgram) -> list[int]:
    """The living processes that a program has started, in whatever group and session they are."""
    children: dict[int, list[int]] = {}
    for pid, parent in living_parents().items():
        children.setdefault(parent, []).append(pid)
    below = set(_descendants(program.pid, children))
    ours = _descendants(os.getpid(), children)
    return [pid for pid in ours if pid in below or is_marked(pid, program.mark.encode())]


def _descendants(leader: int, children: dict[int, list[int]]) -> list[int]:
    found = list(children.get(leader, ()))
    for pid in found:  # it grows meanwhile
        found += children.get(pid, ())
    return found


def living_parents() -> dict[int, int]:
    """Every process that is no zombie, with its parent; nothing where the system does not say."""
    found: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state not in (b"Z", b"X"):
                found[int(name)] = int(parent)
    return found


def is_marked(pid: int, mark: bytes) -> bool:
    """Whether a process has the mark of a program."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            return mark in file.read().split()
    except OSError:
        return False


def _send_signal(pid: int, number: int) -> bool:
    """Whether there was a process to send it to."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _adopt_orphans() -> None:
    """Become the parent of every process below that loses its own. Only Linux can do that."""
    if sys.platform != "linux":
        return
    try:
        import _ctypes  # importing `ctypes` takes longer than all else here
    except ImportError:  # a Python that was built without it
        return
    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    _ctypes.call_function(_ctypes.dlsym(program, "prctl"), (_ADOPT_ORPHANS, 1, 0, 0, 0))


def main(orders: int) -> None:
    """Serve the socket with this number, and close everything else that we inherited."""
    for fd in map(int, os.listdir("/dev/fd")):
        if fd > 2 and fd != orders:
            try:  # noqa: SIM105 - as above
                os.close(fd)
            except OSError:  # that of the listing itself
                pass
    os.set_inheritable(orders, False)
    os.chdir("/")
    _adopt_orphans()
    supervisor = ProcessSupervisor(orders)
    os.write(orders, b"r")  # ready: whoever does not hear this runs programs without us
    supervisor.run()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
