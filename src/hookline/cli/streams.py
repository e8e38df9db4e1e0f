"""Standard output for what the command itself says. What others print there is told on standard error."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

_STDOUT, _STDERR = 1, 2


def theirs() -> contextlib.AbstractContextManager[Any]:
    """While a user's own code runs: what a hook, a tool or an agent's module prints is not the answer."""
    return contextlib.redirect_stdout(sys.stderr)


@contextlib.contextmanager
def ours() -> Iterator[None]:
    """Standard output under a number of its own, so that programs which a user's code starts do not write into it.

    A terminal is left as it is: editing a line needs it, and whoever looks at it sees both streams anyway.
    """
    before = sys.stdout
    if not (isinstance(before, io.TextIOWrapper) and _is_piped(before)):
        yield
        return
    before.flush()
    own = os.dup(_STDOUT)  # which no program inherits
    os.dup2(_STDERR, _STDOUT)
    stream = open(own, "w", encoding=before.encoding, errors=before.errors)  # noqa: SIM115 - see below
    stream.reconfigure(line_buffering=before.line_buffering, write_through=before.write_through)
    sys.stdout = stream
    try:
        yield
        stream.flush()
    except OSError:
        _to_nowhere(own)
        raise
    finally:
        sys.stdout = before
        os.dup2(own, _STDOUT)
        with contextlib.suppress(OSError):
            stream.close()


def _is_piped(stream: io.TextIOWrapper) -> bool:
    try:
        return stream.fileno() == _STDOUT and not stream.isatty()
    except (OSError, ValueError):  # it is a stream of a test's, or closed
        return False


def _to_nowhere(number: int) -> None:
    """What could not be written is not tried again when it is closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
