"""The file beside a journal that says what was committed last, so that a lost end of the journal is noticed.

For a run it says how many records and steps it has, and the last link of their chain. It is written after the commit
and before anybody learns of the commit: it may be behind the journal, and is ahead of it only if the journal has lost
something. (After a power cut with `synchronous="NORMAL"` it has.) A process that is killed between the two leaves a
commit that nobody knew of.

Every run has one of 255 places, and the list of what was created and deleted has one of its own. Runs that are written
at the same time have numbers close together, so they rarely share one. Nothing waits for the disk.

When a run is deleted or a loss is accepted, a place demands nothing any more: its commit has no records then. How far
the run had come stays there, because a backup may be restored in which the run has not come so far, and what it did
since must not be done again.

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

from hookline.journal.history import ANY_STEPS
from hookline.journal.lease import copy_mode

_COMMIT = struct.Struct("<QQ32sId")
"""The fields of a commit. A checksum follows."""
_PLACE = _COMMIT.size + 4
"""Bytes of each: 64, so that no write is in two sectors."""
_PLACES = 256
LIST = 0
"""The number that stands for the list; runs have others."""


class Commit(NamedTuple):
    """What a place says."""

    number: int
    """Of the run."""
    records: int
    """How many it has. Without any, the commit need not be in the journal."""
    head: bytes
    """The last link."""
    steps: int
    """How many it has, or may have had before a loss."""
    started_at: float = 0.0
    """When the run began: others may get its number, and its id too. Zero where an older version wrote it.

    Rejected: a hash of the id, which a new run with the id of a deleted one has too.
    """


NO_COMMIT = Commit(0, 0, bytes(32), 0)
"""Nobody has used the place."""
UNKNOWN = Commit(0, 0, bytes(32), 1)
"""The place could not be read: a commit may have used it."""
_UNKNOWN_ACCEPTED = Commit(0, 0, bytes(32), ANY_STEPS)
"""The same, and a loss was accepted since."""


class KnownCommits(NamedTuple):
    """What the file says."""

    places: dict[int, Commit]
    """What each place says that can be read."""
    damaged: tuple[int, ...]
    """The places that cannot be read."""

    @property
    def commits(self) -> list[Commit]:
        """They must be in the journal."""
        return [commit for commit in self.places.values() if commit.records]

    @property
    def unknown(self) -> tuple[int, ...]:
        """The places that could not be read at an earlier time, and have not been used since."""
        return tuple(place for place, commit in self.places.items() if commit == UNKNOWN)

    @property
    def is_whole(self) -> bool:
        """Whether every commit since the journal was opened is noted here, unless a newer one took its place."""
        return not self.damaged

    def last_commit(self, number: int) -> Commit:
        """What the place of a run says: the last commit of that run, or of another one that came after it."""
        return self.places.get(_place(number), UNKNOWN)


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
    return KnownCommits(
        {number: _unpack(place) for number, place in enumerate(places) if _is_valid(place)}, damaged
    )


def _is_valid(place: bytes) -> bool:
    return place[_COMMIT.size :] == _checksum(place[: _COMMIT.size])


def _checksum(commit: bytes) -> bytes:
    return zlib.crc32(commit).to_bytes(4, "little")


def _unpack(place: bytes) -> Commit:
    return Commit(*_COMMIT.unpack_from(place))


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

    def note(
        self, number: int, records: int, head: bytes, steps: int = 0, started_at: float = 0.0
    ) -> None:
        """A run, or the list, was committed up to here."""
        # Without `suppress` and `_pack`: they would make this almost twice as slow, after every commit.
        try:
            commit = _COMMIT.pack(number, records, head, steps, started_at)
            place = commit + zlib.crc32(commit).to_bytes(4, "little")
            os.pwrite(self._descriptor, place, _offset(number))
        except (OSError, struct.error):  # a number of a damaged file may be any
            pass

    def forget(self, number: int) -> None:
        """A run is about to be deleted, and need not be there any more; another may get its number."""
        with suppress(OSError):
            place = os.pread(self._descriptor, _PLACE, _offset(number))
            if _is_valid(place) and _unpack(place).number == number:
                commit = _unpack(place)._replace(records=0)
                os.pwrite(self._descriptor, _pack(commit), _offset(number))

    def forgive(self) -> None:
        """A loss was accepted: no run need be there any more. The list is noted next."""
        with suppress(OSError):
            for place, commit in read_commits(self._journal).places.items():
                if place != LIST:
                    kept = _UNKNOWN_ACCEPTED if commit == UNKNOWN else commit._replace(records=0)
                    os.pwrite(self._descriptor, _pack(kept), place * _PLACE)

    def repair(self) -> None:
        """Write that what was noted at damaged places is not known. Nobody else writes to the journal meanwhile."""
        with suppress(OSError):
            for place in read_commits(self._journal).damaged:
                os.pwrite(self._descriptor, _pack(UNKNOWN), place * _PLACE)

    def is_used(self) -> bool:
        """Whether something was committed to a journal of this name."""
        return any(commit != NO_COMMIT for commit in read_commits(self._journal).places.values())

    def begin(self) -> None:
        """The first journal of this name begins."""
        with suppress(OSError):
            os.pwrite(self._descriptor, _pack(NO_COMMIT) * _PLACES, 0)

    def begin_again(self, number: int, head: bytes) -> None:
        """Another journal has begun, with this list: what was in the last one need not be there, and may come back."""
        self.repair()
        self.forgive()
        self.note(LIST, number, head)

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
