"""The index of a git repository: at which paths it has repositories of their own.

It is read as git reads it, entry after entry: one that was made by hand may say more than git would ever write.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from hookline.containment.shell.git_config import Unreadable

_FIXED = 62
"""Bytes before the name: times, place, mode, owner, size, a hash of twenty bytes, flags."""
_MODE = 24
_FILES = frozenset({0o100644, 0o100755, 0o120000})
_REPOSITORY = 0o160000
_LONG_NAME = 0x0FFF
_EXTENDED = 0x4000


def repositories_in(index: bytes) -> Iterator[str]:
    """The paths of the repositories that an index names. Raises Unreadable for what git would not have written."""
    if len(index) < 12 or index[:4] != b"DIRC":
        raise Unreadable("its index is none")
    version, count = struct.unpack_from(">II", index, 4)
    if version not in (2, 3, 4):
        raise Unreadable("its index is of another version")
    try:
        yield from _walk(index, version, count)
    except (IndexError, struct.error, ValueError):
        raise Unreadable("its index is broken") from None


def _walk(index: bytes, version: int, count: int) -> Iterator[str]:
    at, name = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", index, at + _MODE)
        (flags,) = struct.unpack_from(">H", index, at + _FIXED - 2)
        start = at + _FIXED + (2 if flags & _EXTENDED and version > 2 else 0)
        if version == 4:
            name, at = _compressed(index, start, name)
        else:
            length = flags & _LONG_NAME
            end = index.index(b"\0", start)
            if length != _LONG_NAME and end != start + length:
                raise ValueError("a name of another length")
            name = index[start:end]
            at += (end - at + 8) & ~7
        if mode == _REPOSITORY:
            yield os.fsdecode(name)
        elif mode not in _FILES:
            raise Unreadable("its index has an entry of an odd kind")


def _compressed(index: bytes, at: int, before: bytes) -> tuple[bytes, int]:
    """A name that is told by how much of the one before it is left out, and where the next entry begins."""
    byte = index[at]
    left_out = byte & 127
    while byte & 128:
        at += 1
        byte = index[at]
        left_out = ((left_out + 1) << 7) + (byte & 127)
    if left_out > len(before):
        raise ValueError("more is left out than there was")
    end = index.index(b"\0", at + 1)
    return before[: len(before) - left_out] + index[at + 1 : end], end + 1
