"""The file beside a journal that says what was committed last, so that a lost end of the journal is noticed.

For a run it says how many records and steps it has, and the last link of their chain. It is written after the commit
and before anybody learns of the commit: it may be behind the journal, and is ahead of it only if the journal has lost
something. (After a power cut with `synchronous="NORMAL"` it has.) A process that is killed between the two leaves a
commit that nobody knew of.

Every run has one of 255 places, and the list of what was created and deleted has one of its own. Runs that are written
at the same time have numbers close together, so they rarely share one. Nothing waits for the disk.

Each place has a checksum, also one that names no commit. The file is whole before the journal has a write-ahead log, so
a place that cannot be read is damaged, and all places of a missing or empty file are. Whoever opens the journal for
writing replaces such a place by one that says that the commits before are not known.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from hookline.journal.lease import copy_mode

_COMMIT = struct.Struct("<QQ32sI8x")
"""The number of the run, its records, the last link, its steps. A checksum follows."""
_PLACE = _COMMIT.size + 4
"""Bytes of each: 64, so that no write is in two sectors."""
_PLACES = 256
LIST = 0
"""The number that stands for the list; runs have others."""
Commit = tuple[int, int, bytes, int]
"""The number of a run, how many records it has, the last link, and how many steps it has."""
_NONE: Commit = (0, 0, b"", 0)
"""There is no commit that uses the place."""
_UNKNOWN: Commit = (0, 0, b"", 1)
"""The place could not be read: a commit may have used it."""


class KnownCommits(NamedTuple):
    """What the file says."""

    commits: list[Commit]
    """They must be in the journal."""
    damaged: tuple[int, ...]
    """The places that cannot be read."""
    unknown: tuple[int, ...] = ()
    """The places that could not be read at an earlier time, and have not been used since."""

    @property
    def is_whole(self) -> bool:
        """Whether every commit since the journal was opened is noted here, unless a newer one took its place."""
        return not self.damaged

    def last_commit(self, number: int) -> Commit | None:
        """What the place of a run says: the last commit of that run, or of a later one; None if it says nothing.

        A run that was not written since the file began has a commit without records.
        """
        place = _place(number)
        if place in self.damaged or place in self.unknown:
            return None
        return next((each for each in self.commits if _place(each[0]) == place), _NONE)


def commits_file(journal: str) -> str:
    """Where the last commits of a journal are."""
    return f"{journal}-commits"


def read_commits(journal: str) -> KnownCommits:
    """What the file says; without one, every place is damaged."""
    try:
        with open(commits_file(journal), "rb") as file:
            return _read_places(file.read(_PLACES * _PLACE))
    except OSError:
        return _read_places(b"")


def _read_places(content: bytes) -> KnownCommits:
    places = [content[start : start + _PLACE] for start in range(0, _PLACES * _PLACE, _PLACE)]
    damaged = tuple(number for number, place in enumerate(places) if not _is_valid(place))
    found = {n: _COMMIT.unpack_from(place) for n, place in enumerate(places) if _is_valid(place)}
    commits = [commit for commit in found.values() if commit[1]]
    unknown = tuple(n for n, (_, records, _, steps) in found.items() if steps and not records)
    return KnownCommits(commits, damaged, unknown)


def _is_valid(place: bytes) -> bool:
    return place[_COMMIT.size :] == _checksum(place[: _COMMIT.size])


def _checksum(commit: bytes) -> bytes:
    return zlib.crc32(commit).to_bytes(4, "little")


def _pack(commit: Commit) -> bytes:
    packed = _COMMIT.pack(*commit)
    return packed + _checksum(packed)


class LastCommits:
    """Writes the file. What cannot be written is left out: the journal itself is what counts."""

    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._descriptor = -1
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(commits_file(journal), flags, 0o600)
            copy_mode(self._descriptor, journal)

    def is_whole(self) -> bool:
        """Whether every place can be read."""
        return read_commits(self._journal).is_whole

    def note(self, number: int, records: int, head: bytes, steps: int = 0) -> None:
        """A run, or the list, was committed up to here."""
        # Without `suppress` and `_pack`: they would make this almost twice as slow, after every commit.
        try:
            commit = _COMMIT.pack(number, records, head, steps)
            place = commit + zlib.crc32(commit).to_bytes(4, "little")
            os.pwrite(self._descriptor, place, _offset(number))
        except (OSError, struct.error):  # a number of a damaged file may be any
            pass

    def forget(self, number: int) -> None:
        """A run is about to be deleted; another may get its number."""
        with suppress(OSError):
            os.pwrite(self._descriptor, _pack(_NONE), _offset(number))

    def repair(self) -> None:
        """Write that what was noted at damaged places is not known. Nobody else writes to the journal meanwhile."""
        with suppress(OSError):
            for place in read_commits(self._journal).damaged:
                os.pwrite(self._descriptor, _pack(_UNKNOWN), place * _PLACE)

    def clear(self) -> None:
        """The journal begins, or its loss was accepted: what was committed before does not count."""
        with suppress(OSError):
            os.pwrite(self._descriptor, _pack(_NONE) * _PLACES, 0)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _place(number: int) -> int:
    return number if number == LIST else 1 + number % (_PLACES - 1)


@lru_cache(_PLACES)
def _offset(number: int) -> int:
    return _place(number) * _PLACE
