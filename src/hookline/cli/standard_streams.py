"""Standard output carries only what the command itself prints; standard error never fails the command."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

_STDOUT, _STDERR = 1, 2


def open_streams() -> None:
    """Repair the standard streams: they may be closed, or in an encoding without most characters."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.__stderr__ is not None and sys.stderr is sys.__stderr__:
        sys.stderr = SafeStderr(sys.__stderr__)


class SafeStderr:
    """Standard error that turns silent when its reader has left or its disk is full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text, if it can be written."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._silence(error)
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush, if that is possible."""
        try:
            self._stream.flush()
        except OSError as error:
            self._silence(error)

    def _silence(self, error: OSError) -> None:
        if not isinstance(error, BlockingIOError):  # then the reader is only slow
            with contextlib.suppress(OSError, ValueError):
                discard(self._stream.fileno())


def discard(descriptor: int) -> None:
    """Let everything that is written to a descriptor go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def user_code() -> contextlib.AbstractContextManager[Any]:
    """While code of the user runs, send its prints to standard error: they are not the answer."""
    return contextlib.redirect_stdout(sys.stderr)


@contextlib.contextmanager
def private_stdout() -> Iterator[None]:
    """Move standard output to another descriptor, so that programs which user code starts cannot write to it.

    A terminal is not moved: line editing needs it, and both streams are visible there anyway.
    """
    before = sys.stdout
    if not (isinstance(before, io.TextIOWrapper) and _is_piped(before)):
        yield
        return
    before.flush()
    own = os.dup(_STDOUT)  # no program inherits it
    os.dup2(_STDERR, _STDOUT)
    stream = open(own, "w", encoding=before.encoding, errors=before.errors)  # noqa: SIM115 - closed below
    stream.reconfigure(line_buffering=before.line_buffering, write_through=before.write_through)
    sys.stdout = stream
    try:
        yield
        stream.flush()
    except OSError:
        discard(own)  # closing would try to write it again
        raise
    finally:
        sys.stdout = before
        os.dup2(own, _STDOUT)
        with contextlib.suppress(OSError):
            stream.close()


def _is_piped(stream: io.TextIOWrapper) -> bool:
    try:
        return stream.fileno() == _STDOUT and not stream.isatty()
    except (OSError, ValueError):  # a stream of a test, or a closed one
        return False
