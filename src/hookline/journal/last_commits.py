"""The file beside a journal that says what was committed last, so that a lost end of the journal is noticed.

For a run it says how many records and steps it has, and the last link of their chain. It is written after the commit
and before anybody learns of the commit: it may be behind the journal, and is ahead of it only if the journal has lost
something. (After a power cut with `synchronous="NORMAL"` it has.) A process that is killed between the two leaves a
commit that nobody knew of.

Every run has one of 255 places, and the list of what was created and deleted has one of its own. Runs that are written
at the same time have numbers close together, so they rarely share one. A place has a checksum: one that cannot be read
says nothing. Nothing waits for the disk.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress

from hookline.journal.lease import copy_mode

_COMMIT = struct.Struct("<QQ32sI")
"""The number of the run, its records, the last link, its steps. A checksum follows."""
_PLACE = 64
"""Bytes of each, so that no write is in two sectors."""
_PLACES = 256
LIST = 0
"""The number that stands for the list; runs have others."""
Commit = tuple[int, int, bytes, int]
"""The number of a run, how many records it has, the last link, and how many steps it has."""


def commits_file(journal: str) -> str:
    """Where the last commits of a journal are."""
    return f"{journal}-commits"


def read_commits(journal: str) -> list[Commit] | None:
    """The commits that must be in the journal; None without the file."""
    try:
        with open(commits_file(journal), "rb") as file:
            content = file.read(_PLACES * _PLACE)
    except OSError:
        return None
    places = (content[start : start + _PLACE] for start in range(0, len(content), _PLACE))
    return [
        _COMMIT.unpack_from(place)
        for place in places
        if place[_COMMIT.size : _COMMIT.size + 4] == _checksum(place[: _COMMIT.size])
    ]


def _checksum(commit: bytes) -> bytes:
    return zlib.crc32(commit).to_bytes(4, "little")


class LastCommits:
    """Writes the file. What cannot be written is left out: the journal itself is what counts."""

    def __init__(self, journal: str) -> None:
        self._descriptor = -1
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(commits_file(journal), flags, 0o600)
            copy_mode(self._descriptor, journal)

    def note(self, number: int, records: int, head: bytes, steps: int = 0) -> None:
        """A run, or the list, was committed up to here."""
        try:  # not `suppress`: it costs as much as the rest of this
            commit = _COMMIT.pack(number, records, head, steps)
            os.pwrite(self._descriptor, commit + _checksum(commit), _offset(number))
        except (OSError, struct.error):  # a number of a damaged file may be any
            pass

    def forget(self, number: int) -> None:
        """A run is about to be deleted; another may get its number."""
        with suppress(OSError):
            os.pwrite(self._descriptor, bytes(_PLACE), _offset(number))

    def clear(self) -> None:
        """The journal begins, or its loss was accepted: what was committed before does not count."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _offset(number: int) -> int:
    place = number if number == LIST else 1 + number % (_PLACES - 1)
    return place * _PLACE
