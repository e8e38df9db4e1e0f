"""`openat2`, the system call that opens below a directory or not at all. Python lacks it, so it is called by number.

With RESOLVE_BENEATH the kernel itself sees to it that no part of the path leads out, whatever others do to the
tree meanwhile. Looking first and opening then, as with `realpath`, can be raced.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import sys
from collections.abc import Callable
from typing import Literal, TypeAlias

from hookline.errors import UsageError

Way: TypeAlias = Literal["auto", "openat2", "steps"]
NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x01, 0x02, 0x04, 0x08
_TRIES = 128
"""How often the call is repeated while the tree changes."""

_NUMBER = 437
"""Since Linux 5.1 a new call has one number, but on these two, which fall back to steps."""
_OTHER_NUMBERS = ("alpha", "mips")


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def number() -> int | None:
    """The number of the call on this machine; None when it is not known to have one."""
    is_known = sys.platform.startswith("linux") and not platform.machine().startswith(
        _OTHER_NUMBERS
    )
    return _NUMBER if is_known else None


@functools.cache
def _system_call() -> Callable[..., int] | None:
    if number() is None:
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_long
    call.argtypes = (
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    )
    return call


def openat2(dir_fd: int, path: bytes, flags: int, resolve: int) -> int:
    """Open a path below a directory. Raises OSError: EXDEV where it leads out, ELOOP at a link that is not followed."""
    call = _system_call()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _How(flags | os.O_CLOEXEC, 0, resolve)
    for _ in range(_TRIES):
        found = call(number_here(), dir_fd, path, ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return found
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


number_here = functools.cache(number)


@functools.cache
def is_available() -> bool:
    """Whether the call is there and does what it is for: it opens a directory, and refuses the one above it."""
    if not hasattr(os, "O_PATH"):
        return False
    try:
        start = os.open("/", os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        os.close(openat2(start, b".", os.O_PATH, BENEATH | NO_MAGICLINKS | NO_SYMLINKS))
        leak = openat2(start, b"..", os.O_PATH, BENEATH | NO_MAGICLINKS | NO_SYMLINKS)
    except OSError as error:
        return error.errno == errno.EXDEV
    else:
        os.close(leak)
        return False
    finally:
        os.close(start)


def check_way(way: Way) -> Way:
    """How paths are opened here, if it can be done as asked."""
    if way not in ("auto", "openat2", "steps"):
        raise UsageError(f"way={way!r} is not known.", remedy="Use 'auto', 'openat2' or 'steps'.")
    if way == "openat2" and not is_available():
        raise UsageError("this system has no openat2.", remedy="Use way='auto' or 'steps'.")
    return way if way != "auto" else "openat2" if is_available() else "steps"
