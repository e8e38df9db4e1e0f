"""Stands above a command on the host and ends, with it, all that it has started: a program of its own.

A process that leaves its session, its parent and its environment behind is still found: the system gives it to this
one, which has said that it adopts orphans (it is a "subreaper"). What is left is ended when the command ends, and when
whoever wanted it does, which shows in the end of a pipe. It knows nothing of what it runs, and imports nothing of ours.
"""

from __future__ import annotations

import os
import select
import sys
import time

_ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER`."""
_REALTIME = 15
"""`RLIMIT_RTTIME`: microseconds of processor time for real-time processes."""
_KILL = 9
_SET_BY_PYTHON = (2, 13, 25)
"""Signals that Python treats in a way of its own: interrupts, broken pipes, files that grow too large."""
_REAP = 0.5
"""Seconds between two looks at orphans that have ended by themselves."""
_PAUSE = 0.002


def main() -> None:
    """`PIPE MARK PROGRAM ARGUMENT...`: exits as the command does."""
    pipe, argv = int(sys.argv[1]), sys.argv[3:]
    os.set_inheritable(pipe, False)
    adopt_orphans()
    mark(int(sys.argv[2]))
    leader = start(argv)
    code = wait(leader, pipe)
    end_the_rest(leader)
    sys.exit(code)


def start(argv: list[str]) -> int:
    """Start the command in a session of its own; in a group of its own, where a system cannot do that."""
    signals = list(_SET_BY_PYTHON)
    try:
        return os.posix_spawn(argv[0], argv, os.environ, setsid=True, setsigdef=signals)
    except NotImplementedError:
        return os.posix_spawn(argv[0], argv, os.environ, setpgroup=0, setsigdef=signals)


def adopt_orphans() -> None:
    """Become the parent of every process below that loses its own. Elsewhere than on Linux nothing can."""
    if sys.platform != "linux":
        return
    try:
        import _ctypes  # what `ctypes` does, without importing it, which takes longer than all else here
    except ImportError:  # a Python that was built without it
        return
    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    _ctypes.call_function(_ctypes.dlsym(program, "prctl"), (_ADOPT_ORPHANS, 1, 0, 0, 0))


def mark(number: int) -> None:
    """Mark ourselves, and so all that we start, whatever it does: by a limit that nobody ever comes near.

    By it what is left is found, should the command have killed us.
    """
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(_REALTIME)
        if hard == resource.RLIM_INFINITY:
            resource.setrlimit(_REALTIME, (number, hard))


def wait(leader: int, pipe: int) -> int:
    """Wait for the command, or for the end of the pipe; the exit code is as a shell says it."""
    poll = select.poll()
    poll.register(pipe)
    seconds = _REAP if _tells_when_it_ends(leader, poll) else _PAUSE * 10
    while True:
        is_over = any(fd == pipe for fd, _ in poll.poll(seconds * 1000))
        for pid, status in ended():
            if pid == leader:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        if is_over:
            return 128 + _KILL


def _tells_when_it_ends(leader: int, poll: select.poll) -> bool:
    try:
        poll.register(os.pidfd_open(leader), select.POLLIN)
    except (AttributeError, OSError):  # not Linux, or an old one
        return False
    return True


def ended() -> list[tuple[int, int]]:
    """The children that have ended since, each with its status."""
    found = []
    try:
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    except ChildProcessError:
        pass
    return found


def end_the_rest(leader: int) -> None:
    """Kill all that is left below us. The children of what is killed become ours, and are next."""
    while True:
        try:
            ended_one = os.waitpid(-1, os.WNOHANG)[0]
        except ChildProcessError:
            return
        if not ended_one:
            for pid in (-leader, leader, *children()):
                try:
                    os.kill(pid, _KILL)
                except OSError:
                    continue
            time.sleep(_PAUSE)


def children() -> list[int]:
    """The processes whose parent we are, where the system says so."""
    ours = os.getpid()
    try:
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == ours]
    except OSError:
        return []


def parent(pid: str) -> int:
    """The parent of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


if __name__ == "__main__":
    main()
