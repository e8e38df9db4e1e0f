"""Programs of ours that run in the background: the process supervisor, and the watchdog of the command."""

from __future__ import annotations

import contextlib
import os
import sys

from hookline.containment.interpreter import PYTHON, from_pipe


def start_background(code: bytes, fd: int, *words: str) -> int:
    """Start compiled code in a new process and return its id. Its first argument is `fd`, which it inherits.

    It does not have our output, whose readers would wait for its end, and keys on our terminal do not reach it.
    """
    text, written = os.pipe()
    try:
        for each in (fd, text):
            os.set_inheritable(each, True)
        argv = [*from_pipe(text), str(fd), *words]
        silent = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
        if sys.platform == "linux":  # in our session: hooks look for the terminal of their parent
            pid = os.posix_spawn(PYTHON, argv, os.environ, file_actions=silent, setpgroup=0)
        else:
            pid = os.posix_spawn(PYTHON, argv, os.environ, file_actions=silent, setsid=True)
    except BaseException:
        os.close(written)
        raise
    finally:
        os.close(text)
    with open(written, "wb") as file, contextlib.suppress(BrokenPipeError):
        file.write(code)
    return pid
