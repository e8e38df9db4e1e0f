"""A real pseudo-terminal with a program in it, for tests of what people see and press."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import resource
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_SOURCE = Path(__file__).parents[2] / "src"
_PROGRAM = "import sys; from hookline.cli import main; sys.exit(main())"
_ERASED = re.compile(r"[^\n]*\r\x1b\[K|\x1b7.*?\x1b8", re.DOTALL)
"""A spinner: in its own line, which is erased, and below the text. It shows only on a machine that is slow."""
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _remove_mark() -> None:
    """Take the mark of the command off, which an earlier test has run in this process: what we start marks itself."""
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
        resource.setrlimit(resource.RLIMIT_RTTIME, (hard, hard))


def _has_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a process that runs has yet to take a signal, by what the system says about it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    facts = dict(line.split(":", 1) for line in lines)
    is_over = facts["State"].split()[0] in "ZX"
    return not is_over and bool(int(facts["ShdPnd"], 16) >> (number - 1) & 1)


class Terminal:
    """`hookline ARGUMENTS`, or another program with them, in a terminal of so many columns."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 120,
        program: str = "",
    ) -> None:
        self.seen = ""
        self._read_to = 0
        pid, self._fd = pty.fork()
        if pid == 0:  # the child
            os.chdir(cwd)
            _remove_mark()
            signal.signal(
                signal.SIGINT, signal.SIG_DFL
            )  # tests in the background of a shell ignore it
            environ = {**os.environ, "PYTHONPATH": str(_SOURCE), "TERM": "xterm-256color", **env}
            start = [program] if program else [sys.executable, "-P", "-c", _PROGRAM]
            os.execvpe(start[0], [*start, *arguments], environ)
        self.pid = pid
        self.resize(columns)

    def resize(self, columns: int, rows: int = 40) -> None:
        """Give the window another size."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: str, seconds: float = 30.0) -> str:
        """Read until the text is there; gives all that came since the last time."""
        until = time.monotonic() + seconds
        while text not in self.seen[self._read_to :]:
            if not self._more(until - time.monotonic()):
                self._kill()
                raise AssertionError(f"{text!r} never came. There was:\n{self.seen}")
        end = self.seen.index(text, self._read_to) + len(text)
        text, self._read_to = self.seen[self._read_to : end], end
        return text

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C, and wait until the program has got the signal: the system keeps one of a kind for it."""
        echoes = self.seen.count("^C")
        self.press("\x03")
        while self.seen.count("^C") == echoes and self._more(5):
            pass
        while _has_pending(self.pid, signal.SIGINT):
            time.sleep(0.01)

    def press_until(self, keys: str, text: str, every: float = 0.3) -> None:
        """Press keys until the text is there: what comes before a line editor listens is lost."""
        self._until(text, lambda: self.press(keys), every)

    def signal_until(self, number: signal.Signals, text: str) -> None:
        """Send a signal until the text is there: a line editor that is about to wait for keys misses one.

        Again before the watchdog of the command ends it, four seconds after the first.
        """
        self._until(text, lambda: os.kill(self.pid, number), 2.5)

    def _until(self, text: str, act: Callable[[], None], every: float) -> None:
        until = time.monotonic() + 30
        while text not in self.seen[self._read_to :] and time.monotonic() < until:
            act()
            patience = time.monotonic() + every
            while text not in self.seen[self._read_to :] and self._more(
                patience - time.monotonic()
            ):
                pass
        self.wait_for(text)

    def interrupt(self) -> int:
        """Press Ctrl-C at a question, and give the exit code. One that comes just before the read is lost: again."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with contextlib.suppress(OSError):  # it has ended
                self.press("\x03")
            patience = time.monotonic() + 2.5
            while self._more(patience - time.monotonic()):
                pass
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
        return self.end()

    def end(self, seconds: float = 30.0) -> int:
        """Read to the end; gives the exit code."""
        until = time.monotonic() + seconds
        while self._more(until - time.monotonic()):
            pass
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self._fd)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        self._kill()
        raise AssertionError(f"it did not end. There was:\n{self.seen}")

    def _kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    @property
    def text(self) -> str:
        """All that was shown and not erased, without colours."""
        return _CODES.sub("", _ERASED.sub("", self.seen)).replace("\r\n", "\n")

    def _more(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # the other end is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)
