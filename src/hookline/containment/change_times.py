"""Whether the time of a last change tells a file from what it was: not if the next change may leave the same time."""

from __future__ import annotations

_TICK = 50_000_000
"""Nanoseconds in which a second change may leave the same time behind: what is that young is read again."""
_WHOLE_SECOND, _LONG_TICK = 1_000_000_000, 2_000_000_000
"""Some file systems keep whole seconds only, FAT every second one of them."""


def is_settled(changed_at: int, now: int) -> bool:
    """Whether what is read now, and changed last at that time, gets another time by its next change."""
    return now - changed_at >= (_TICK if changed_at % _WHOLE_SECOND else _LONG_TICK)
