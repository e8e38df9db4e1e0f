"""Starts programs for another process, and ends them, with all that they have started, when it says so or is gone.

A program of its own, which knows nothing of what it runs and imports nothing of ours. There is one for all hooks of a
process, so that each hook costs no interpreter, and so that what a hook sees as its parent lives as long as we do.

For every program there is a line, a socket: the order comes in by it, the number and the exit code go out, and what is
to be done with the rest. Its end, by whatever end of the other side, is the end of the program. What a program has
started is found by a mark that is inherited by all of it, whatever it does with its group, its session, its parents and
its environment: a limit on the time of real-time processes, of more years than there are, which differs for each.
Orphans become ours (we are a "subreaper"), so none is left as a zombie either.

Processes that the other side has started itself, servers say, can be named: they get a while to leave after it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as `signal`, which takes longer to import than all else here
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
_LEFT_ALONE = (1, 2, 3, 15)
"""Signals to a whole terminal or service: it is the other side that they are meant for, and we end with it."""
_SET_BY_PYTHON = (13, 25)
"""Broken pipes, and files that grow too large."""
_PROGRAM = b"p"
"""What the first byte by the door says that comes: an order for a program. Anything else is a process to watch."""
_PAUSE = 0.002
_ENOUGH = 2.0
"""Seconds for what is killed to be gone: one that belongs to somebody else, or hangs in the system, may never be."""


class Program:
    """One that was started."""

    def __init__(self, line: int, mark: str, leaves: bytes) -> None:
        self.line = line
        self.mark = mark
        self.leaves = leaves.split(b",")
        """Exit codes of one that did its work: what it left in the background is meant to be there."""
        self.pid = 0
        self.code: int | None = None

    def say(self, text: str) -> None:
        """Tell the other side, if it is there."""
        try:  # noqa: SIM105 - not for an import that costs more than it says
            os.write(self.line, text.encode() + b"\n")
        except OSError:
            pass


class ProcessSupervisor:
    """All that were started, and what they wait for."""

    def __init__(self, door: int) -> None:
        self._door = door
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, door)
        self._programs: dict[int, Program] = {}
        self._watched: dict[int, int] = {}
        """Processes that the other side has started itself, by their lines."""
        self._poll = select.poll()
        self._poll.register(door, select.POLLIN)
        self._reset = [*_SET_BY_PYTHON, *_ignore_signals()]
        self._bell = _told_of_ends()
        self._poll.register(self._bell, select.POLLIN)

    def run(self) -> None:
        """Until the other side is gone."""
        is_open = True
        while is_open or self._programs:
            happened = {fd for fd, _ in self._poll.poll()}
            if self._bell in happened:
                os.read(self._bell, 4096)
            for fd in happened & self._programs.keys():
                self._hear(self._programs[fd])
            for fd in happened & self._watched.keys():
                self._hear_of_watched(fd)
            if self._door in happened and not self._admit():
                is_open = False
                self._poll.unregister(self._door)
            self._see_ends()
        for pid in filter((1).__lt__, self._watched.values()):  # 0 would mean everybody's
            _end_watched(pid)

    # --- starting -----------------------------------------------------------------------------------

    def _admit(self) -> bool:
        """Take the next order; False if there is no one to give any."""
        try:
            data, passed, _, _ = self._socket.recvmsg(1, _socket.CMSG_SPACE(16))
        except OSError:
            return False
        if not data:
            return False
        fds = [fd for _, _, raw in passed for fd in _numbers(raw)]
        for fd in fds:
            os.set_inheritable(fd, False)
        if data != _PROGRAM and fds:
            self._watched[fds[0]] = int.from_bytes(_read(fds[0], 8) or b"", "big")
            self._poll.register(fds[0], select.POLLIN)
        elif len(fds) == 4:
            self._take(fds[0], fds[1:])
        elif fds:  # there was no room for all of them
            os.close(fds[0])
        for fd in fds[1:]:
            os.close(fd)
        return True

    def _take(self, line: int, standard: list[int]) -> None:
        words = _order(line)
        if words is None:
            os.close(line)
            return
        mark, leaves, cwd, count = words[0].decode(), words[1], words[2], int(words[3])
        program = Program(line, mark, leaves)
        pairs = (each.partition(b"=") for each in words[4 + count :])
        env = {name: value for name, _, value in pairs}
        try:
            program.pid = self._started(program, words[4 : 4 + count], env, cwd, standard)
        except OSError as error:
            program.say(f"error {error.errno or 0}")
            os.close(line)
            return
        program.say(f"pid {program.pid}")
        self._programs[line] = program
        self._poll.register(line, select.POLLIN)

    def _started(
        self,
        program: Program,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        standard: list[int],
    ) -> int:
        os.chdir(cwd)
        _mark_children(int(program.mark))
        try:
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(standard)]
            return _spawned(argv, env, actions, self._reset)
        finally:
            _mark_children(None)
            os.chdir("/")

    # --- ending -------------------------------------------------------------------------------------

    def _hear(self, program: Program) -> None:
        """What the other side wants: `t`erminate it, `k`ill all of it, or `l`eave what is left of it."""
        try:
            said = os.read(program.line, 1)
        except OSError:
            said = b""
        if said == b"t":
            _signal_to(-program.pid, _TERM)
            return
        is_meant = str(program.code).encode() in program.leaves
        if said == b"k" or not (said == b"l" or is_meant):
            self._end(program)
        self._forget(program)

    def _hear_of_watched(self, line: int) -> None:
        """Forget a process of which the other side says that it has seen to its end; not one that it left behind."""
        self._poll.unregister(line)
        pid = self._watched.pop(line)
        if not os.read(line, 1):
            self._watched[-pid] = pid  # the number of the line may be another's soon
        os.close(line)

    def _end(self, program: Program) -> None:
        """Kill all of it. What it starts meanwhile is found the next time."""
        until = time.monotonic() + _ENOUGH
        while time.monotonic() < until:
            _signal_to(-program.pid, _KILL)
            left = [pid for pid in _belonging(program) if _signal_to(pid, _KILL)]
            self._see_ends()
            if not left and program.code is not None:
                break
            time.sleep(_PAUSE)

    def _forget(self, program: Program) -> None:
        self._poll.unregister(program.line)
        del self._programs[program.line]
        if program.code is not None:
            os.waitpid(program.pid, 0)  # not before: until then its number is nobody else's
        program.say("done")
        os.close(program.line)

    def _see_ends(self) -> None:
        """Note which programs have ended, and reap everybody else's orphans."""
        leaders = {each.pid: each for each in self._programs.values()}
        for program in leaders.values():
            if program.code is None:
                how = os.WEXITED | os.WNOWAIT | os.WNOHANG
                ended = os.waitid(os.P_PID, program.pid, how)
                if ended is not None:
                    self._note(program, ended)
        try:
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                if ended.si_pid in leaders:
                    break  # its turn to be reaped comes
                os.waitpid(ended.si_pid, os.WNOHANG)
        except ChildProcessError:
            pass

    def _note(self, program: Program, ended: os.waitid_result) -> None:
        by_itself = ended.si_code == os.CLD_EXITED
        program.code = ended.si_status if by_itself else -ended.si_status
        program.say(f"exit {program.code}")


def _ignore_signals() -> list[int]:
    """Ignore what is not meant for us; gives those that a program is to have as they were."""
    ours = [each for each in _LEFT_ALONE if _signal.getsignal(each) != _signal.SIG_IGN]
    for each in ours:
        _signal.signal(each, _signal.SIG_IGN)
    return ours


def _told_of_ends() -> int:
    """A descriptor that can be read when a child has ended."""
    bell, rope = os.pipe()
    os.set_blocking(bell, False)
    os.set_blocking(rope, False)
    _signal.set_wakeup_fd(rope, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
    return bell


def _order(line: int) -> list[bytes] | None:
    """The words of an order: mark, exit codes, directory, number of arguments, those, and the environment."""
    size = _read(line, 8)
    text = None if size is None else _read(line, int.from_bytes(size, "big"))
    return None if text is None else text.split(b"\0")


def _read(line: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = os.read(line, size - len(data))
        if not more:
            return None
        data += more
    return data


def _numbers(raw: bytes) -> list[int]:
    return [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw) - 3, 4)]


def _spawned(
    argv: list[bytes],
    env: dict[bytes, bytes],
    actions: list[tuple[int, int, int]],
    reset: list[int],
) -> int:
    """Start a program without a terminal, in a group of its own; looked for as its environment says.

    A new session takes the terminal away. Where there is none, a new group is enough: Linux gives every session its own
    share of a busy machine, and a new one waits milliseconds for its turn, at every step.
    """
    places = [b""] if b"/" in argv[0] else env.get(b"PATH", os.defpath.encode()).split(b":")
    failure = OSError(2, "not found")
    has_terminal = _has_terminal()
    for place in places:
        path = os.path.join(place, argv[0])
        if place and not os.access(path, os.F_OK):  # a failed start costs as much as one that works
            continue
        try:
            if has_terminal:
                return os.posix_spawn(
                    path, argv, env, file_actions=actions, setsid=True, setsigdef=reset
                )
            return os.posix_spawn(
                path, argv, env, file_actions=actions, setpgroup=0, setsigdef=reset
            )
        except NotImplementedError:  # we have no terminal ourselves then
            return os.posix_spawn(
                path, argv, env, file_actions=actions, setpgroup=0, setsigdef=reset
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
    raise failure


def _has_terminal() -> bool:
    """Whether what we start would have our terminal; it may have come after us."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _mark_children(mark: int | None) -> None:
    """What we start from now on has this mark, where a system has such a thing."""
    if sys.platform != "linux":
        return
    import resource

    _, hard = resource.getrlimit(_REALTIME)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(_REALTIME, (hard if mark is None else mark, hard))


def _belonging(program: Program) -> list[int]:
    """The living processes that a program has started, wherever they went."""
    children = _children(parents_of_the_living())
    its = set(_below(program.pid, children))
    return [
        pid
        for pid in _below(os.getpid(), children)
        if pid in its or is_marked(pid, program.mark.encode())
    ]


def _end_watched(leader: int) -> None:
    """Give a process a while to leave by itself, now that nobody talks to it, and end what is left of it."""
    until = time.monotonic() + _ENOUGH
    its: set[int] = set()
    while time.monotonic() < until:
        parents = parents_of_the_living()
        its = {pid for pid in (*its, *_below(leader, _children(parents))) if pid in parents}
        if not its and not _signal_to(-leader, 0):
            return
        time.sleep(_PAUSE * 10)
    for pid in (-leader, *its):
        _signal_to(pid, _KILL)


def _children(parents: dict[int, int]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    return children


def _below(leader: int, children: dict[int, list[int]]) -> list[int]:
    found: list[int] = []
    waiting = [leader]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def parents_of_the_living() -> dict[int, int]:
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


def _signal_to(pid: int, number: int) -> bool:
    """Whether there was one to be told."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _adopt_orphans() -> None:
    """Become the parent of every process below that loses its own. Elsewhere than on Linux nothing can."""
    if sys.platform != "linux":
        return
    try:
        import _ctypes  # what `ctypes` does, without importing it, which takes longer than all else here
    except ImportError:  # a Python that was built without it
        return
    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    _ctypes.call_function(_ctypes.dlsym(program, "prctl"), (_ADOPT_ORPHANS, 1, 0, 0, 0))


def main(door: int) -> None:
    """Keep what comes in by a socket, and nothing else that was handed down to us."""
    for fd in map(int, os.listdir("/dev/fd")):
        if fd > 2 and fd != door:
            try:  # noqa: SIM105 - as above
                os.close(fd)
            except OSError:  # that of the listing itself
                pass
    os.chdir("/")
    _adopt_orphans()
    ProcessSupervisor(door).run()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
