"""A program without a supervisor, where there can be none: it is our own child, and ends when we have it end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence


class Child:
    """A program that is our own child."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, standard: tuple[int, int, int]
    ) -> None:
        stdin, stdout, stderr = standard
        self._process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
        self.pid = self._process.pid

    def fileno(self) -> int | None:
        return None

    def poll(self) -> int | None:
        return self._process.poll()

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def end(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def leave(self) -> None:
        self._process.wait()

    def _signal(self, number: int) -> None:
        # Its number means this group as long as somebody is in it: nobody else is given it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
