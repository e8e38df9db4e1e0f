"""The entries of a directory, read again only when it has changed.

Every command asks what is in the homes, and in what is installed there. The time of a directory's last change, which
nobody can set, says whether an entry came, went or was replaced.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple, TypeAlias

from hookline.containment.change_times import is_settled

Identity: TypeAlias = tuple[int, int, int]
"""Device, number and time of the last change."""

_MOST = 4096
"""Directories that are remembered."""


class Listing(NamedTuple):
    """What was in a directory."""

    identity: Identity
    names: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    """Those of the names that are directories. A link to one is none."""
    links: frozenset[str] = frozenset()


_NOTHING = Listing((0, 0, 0))
_known: dict[str, Listing] = {}


def listing(path: str) -> Listing:
    """What is in a directory, or in one that a link leads to; nothing where that cannot be listed."""
    known = _known.get(path)
    try:
        if known is not None and known.identity == identity_of(os.stat(path)):
            return known
        now = time.time_ns()
        identity = settle(identity_of(os.stat(path)), now)
        with os.scandir(path) as found:
            entries = list(found)
    except OSError:
        return _NOTHING
    listed = Listing(
        identity,
        tuple([entry.name for entry in entries]),
        tuple([entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]),
        frozenset([entry.name for entry in entries if entry.is_symlink()]),
    )
    if len(_known) >= _MOST:
        _known.clear()
    _known[path] = listed
    return listed


def identity_of(facts: os.stat_result) -> Identity:
    """By what a directory is known to be the same, and unchanged."""
    return facts.st_dev, facts.st_ino, facts.st_ctime_ns


def settle(identity: Identity, now: int) -> Identity:
    """The identity of a directory that is read now; one that nothing has if the next change may not show in it."""
    return identity if is_settled(identity[2], now) else _NOTHING.identity
