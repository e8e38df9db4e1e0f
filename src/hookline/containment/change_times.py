"""Whether the time of a last change tells a file from what it was: not if the next change may leave the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator

_TICK = 50_000_000
"""Nanoseconds in which a second change may leave the same time behind: what is that young is read again."""
_WHOLE_SECOND, _LONG_TICK = 1_000_000_000, 2_000_000_000
"""Some file systems keep whole seconds only, FAT every second one of them."""


def is_settled(changed_at: int, now: int) -> bool:
    """Whether what is read now, and changed last at that time, gets another time by its next change."""
    return now - changed_at >= (_TICK if changed_at % _WHOLE_SECOND else _LONG_TICK)


def find_change_since(path: str, since: int) -> str:
    """A file at a path, or below it, that changed later than that; empty if there is none. Nobody can set that time."""
    return next((each for each in _below(path) if _change_time(each) > since), "")


def _below(path: str) -> Iterator[str]:
    yield path
    for place, directories, files in os.walk(path):
        yield from (os.path.join(place, name) for name in (*directories, *files))


def _change_time(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0
