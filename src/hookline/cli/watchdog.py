"""Ends the command when it does not: a program of its own, beside the command.

Python runs the handler of a signal in the main thread, between two of its instructions. A regular expression without an
end, in a hook in any thread, lets it wait forever. But when a signal arrives, Python writes its number into a pipe, and
needs no thread for that. We read that pipe. It closes when the command has ended, and then we end too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes longer to import than all else here
import os
import select
import sys
import time

FORGET = b"\0"
"""What the command writes between two runs: earlier presses of Ctrl-C do not count."""
_HANG_UP, _INTERRUPT, _QUIT, _KILL, _TERMINATE = 1, 2, 3, 9, 15
_BESIDE = b"exec(marshal.load(open("
"""What the command line of a program beside the command has: see `from_pipe`."""
_AFTER_PRESSES = 0.7
"""Seconds from the third Ctrl-C to the end."""
_PAUSE = 0.2
"""Seconds between two looks at what the command has started, once it is to end."""
_AFTER_TERMINATE = 4.0
"""Seconds to save the run and to end what it has started."""


def main(signals: int, command: int, mark: bytes) -> None:
    """Read the signals that a command gets from this pipe. What it starts has the mark."""
    for each in (_HANG_UP, _INTERRUPT, _QUIT, _TERMINATE):  # meant for the command
        _signal.signal(each, _signal.SIG_IGN)
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    presses = 0
    after_presses = after_terminate = float("inf")
    started: list[int] = []
    while True:
        if after_terminate < float("inf") and os.getppid() == command:
            started = _find_started(command, mark)
        deadline = min(after_presses, after_terminate)
        left = max(0.0, deadline - time.monotonic())
        if not poll.poll(None if deadline == float("inf") else min(left, _PAUSE) * 1000):
            if time.monotonic() < deadline:
                continue
            if os.getppid() == command:  # else it has ended, and its number may be another's
                _kill(command, *started)
            break
        numbers = os.read(signals, 4096)
        if not numbers:  # it has ended
            _kill(*started)
            break
        for number in numbers:
            if number == FORGET[0]:
                presses, after_presses = 0, float("inf")
            elif number == _INTERRUPT:
                presses += 1
                if presses == 3:
                    after_presses = time.monotonic() + _AFTER_PRESSES
            elif number in (_HANG_UP, _TERMINATE):
                after_terminate = min(after_terminate, time.monotonic() + _AFTER_TERMINATE)
    if after_terminate < float("inf"):  # what was started since the last look
        _kill(*_find_started(None, mark))


def _kill(*processes: int) -> None:
    for pid in processes:
        try:  # noqa: SIM105 - contextlib takes long to import
            os.kill(pid, _KILL)
        except OSError:  # it has ended in the meantime
            pass


def _find_started(command: int | None, mark: bytes) -> list[int]:
    """What the command has started itself, and what these have; nothing where the system does not say.

    Those whose parent has ended are found by the mark, and all of them when the command has ended (None). Programs
    beside the command (we, and the supervisor) end when it does, with everything that they have started.
    """
    children: dict[int | None, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    is_beside = _BESIDE in file.read()
                with open(f"/proc/{name}/limits", "rb") as file:
                    is_marked = mark in file.read().split()
            except (OSError, ValueError):
                continue
            if not is_beside and int(name) != command:
                children.setdefault(command if is_marked else parent, []).append(int(name))
    found = children.get(command, [])
    for pid in found:  # it grows meanwhile
        found += children.get(pid, ())
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode())
