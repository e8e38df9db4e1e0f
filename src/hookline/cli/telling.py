"""Standard error for as long as somebody takes what is told there. What is told never fails what it is about."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any, TextIO, cast


def never_failing(stream: TextIO) -> TextIO:
    """The stream, silent once its reader has left or the disk it goes to is full."""
    return cast("TextIO", _Told(stream))


class _Told:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Say it, if somebody hears it."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._fall_silent(error)
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Say all of it."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Let it be heard now."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fall_silent(error)

    def _fall_silent(self, error: OSError) -> None:
        """From now on it goes nowhere: what was not heard yet, and what programs say that are started."""
        if isinstance(error, BlockingIOError):  # whoever reads is slow, and still there
            return
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
