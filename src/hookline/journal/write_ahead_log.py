"""Reads SQLite's write-ahead log without SQLite, to find damage that SQLite takes for the end of the log.

The log is a header and frames; a frame is a page, and the last frame of a transaction has a commit mark. Each frame
has the salt of the header and a checksum over everything before it. SQLite reads up to the first frame that does not
fit and ignores the rest: that is how a killed transaction disappears, and it makes one flipped bit look the same.
The difference is what follows. Behind a killed transaction there is no commit with the salt of the header. Behind
damage there are the commits that the damage hides.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import os
import struct
import sys
from functools import lru_cache
from operator import mul
from typing import NamedTuple

_MAGIC = 0x377F0682
"""With 1 added, the checksums are over big-endian words."""
_HEADER = 32
_FRAME_HEADER = 24
PAGE_SIZE = 2048
"""Of new files. A commit changes two or three pages, however little it adds, and SQLite writes whole pages: with its
own 4,096 bytes, a step of a model that waits takes a tenth more. With 1,024 most batches would need several pages."""
_WORD = 0xFFFFFFFF
_APART = 96
"""Bits between two sums in one integer. A sum of products of words is shorter than that."""

_Sum = tuple[int, int]


def log_file(database: str) -> str:
    """Where SQLite keeps the log of a database."""
    return f"{database}-wal"


def log_size(database: str) -> int:
    """Bytes of the log, 0 if there is none."""
    try:
        return os.path.getsize(log_file(database))
    except OSError:
        return 0


class LogReport(NamedTuple):
    """What is in a log."""

    frames: int = 0
    """Frames that SQLite would read."""
    is_header_valid: bool = True
    hidden_commits: int = 0
    """Commits in a row behind the first frame that SQLite would not read."""
    has_rest: bool = False
    """Whether that frame was written since the log began, by its salt: an unfinished transaction, or damage."""

    @property
    def is_damaged(self) -> bool:
        """Whether commits are hidden that were surely valid.

        One alone may also be the rest of a transaction whose process was killed after its last write and before it
        could tell the other processes; the next transaction was then written over its beginning.
        """
        return self.hidden_commits > 1

    @property
    def may_be_damaged(self) -> bool:
        """Whether something does not fit, which can have another reason."""
        return self.hidden_commits > 0 or not self.is_header_valid


def read_log(database: str, page_size: int = PAGE_SIZE) -> LogReport:
    """Examine the log of a database. Nobody writes to it meanwhile."""
    try:
        with open(log_file(database), "rb") as file:
            return examine_log(file.read(), page_size)
    except FileNotFoundError:
        return LogReport()


def examine_log(log: bytes, page_size: int = PAGE_SIZE) -> LogReport:
    """What SQLite would read of this log, and what lies behind that.

    The page size counts where the header of the log cannot be read.
    """
    if not log:
        return LogReport()
    if len(log) < _HEADER:
        return LogReport(is_header_valid=False)
    header = _Header(log, page_size)
    frames = (len(log) - _HEADER) // header.frame_size
    valid, end, wrong = _valid_frames(header, log, frames)
    # A frame follows the one before it. Where that one is damaged, either its content or its own checksum is right.
    starts = {end, wrong, _stored_sum(log, header.offset(valid))} if valid < frames else {end}
    commits = most = 0
    salt = header.salt if header.is_valid else log[_HEADER + 8 : _HEADER + 16]
    for number in range(valid + header.is_valid, frames):
        start = header.offset(number)
        follows = log[start + 8 : start + 16] == salt and any(
            header.sum_of(log, start, each) == _stored_sum(log, start) for each in starts
        )
        commits = commits + _is_commit(log, start) if follows else 0
        most = max(most, commits)
        starts = {_stored_sum(log, start)}
    rest = log[header.offset(valid) + 8 : header.offset(valid) + 16]
    # One half is enough: the other one may be what is damaged.
    has_rest = not header.is_valid or rest[:4] == salt[:4] or rest[4:] == salt[4:]
    return LogReport(valid, header.is_valid, most, bool(rest) and has_rest)


def _valid_frames(header: _Header, log: bytes, frames: int) -> tuple[int, _Sum, _Sum]:
    """How many frames SQLite reads, their checksum, and the checksum with the next frame's content."""
    last, computed = header.checksum, header.checksum
    for number in range(frames if header.is_valid else 0):
        start = header.offset(number)
        computed = header.sum_of(log, start, last)
        page = log[start : start + 4]
        has_salt = log[start + 8 : start + 16] == header.salt
        if computed != _stored_sum(log, start) or not has_salt or page == bytes(4):
            return number, last, computed
        last = computed
    return frames if header.is_valid else 0, last, computed


class _Header:
    """The header of a log."""

    def __init__(self, log: bytes, otherwise: int) -> None:
        magic, _, page_size, _ = struct.unpack_from(">4I", log)
        self._order = ">" if magic & 1 else "<"
        self.salt = log[16:24]
        self.checksum: _Sum = struct.unpack_from(">2I", log, 24)
        is_log = magic & ~1 == _MAGIC and self._sum(log[:24], (0, 0)) == self.checksum
        self.is_valid = is_log and 512 <= page_size <= 65536 and page_size & (page_size - 1) == 0
        self._page_size = page_size if self.is_valid else otherwise
        if not self.is_valid:  # what this machine would have written
            self._order = "<" if sys.byteorder == "little" else ">"
        self.frame_size = _FRAME_HEADER + self._page_size

    def offset(self, number: int) -> int:
        """Where a frame begins, counted from zero."""
        return _HEADER + number * self.frame_size

    def sum_of(self, log: bytes, start: int, before: _Sum) -> _Sum:
        """The checksum of a frame that follows one with the checksum `before`."""
        page = start + _FRAME_HEADER
        return self._sum(log[start : start + 8] + log[page : page + self._page_size], before)

    def _sum(self, content: bytes, before: _Sum) -> _Sum:
        # SQLite adds two words at a time: first += word + second; second += next word + first. That is linear, so the
        # weight of each word is known, and the sums need no loop in Python: a log of 4 MB takes 0.1 s, not 0.4 s.
        count = len(content) // 4
        weights, on_first, on_second = _weights(count)
        words = struct.unpack(f"{self._order}{count}I", content)
        total = sum(map(mul, words, weights)) + before[0] * on_first + before[1] * on_second
        return total & _WORD, (total >> _APART) & _WORD


@lru_cache(maxsize=8)
def _weights(count: int) -> tuple[list[int], int, int]:
    """How often each of `count` words is in the two sums, and how often the two sums before them are."""
    weights: list[int] = []
    first = (
        1,
        0,
    )  # what 1 more in the first sum adds to both in the end, and the same for the second
    second = (0, 1)
    for _ in range(count // 2):
        weights.append(_pair(second))
        first_with_second = _add(first, second)
        weights.append(_pair(first_with_second))
        first, second = first_with_second, _add(first_with_second, second)
    return weights[::-1], _pair(first), _pair(second)


def _add(one: _Sum, other: _Sum) -> _Sum:
    return (one[0] + other[0]) & _WORD, (one[1] + other[1]) & _WORD


def _pair(sums: _Sum) -> int:
    return sums[0] | sums[1] << _APART


def _stored_sum(log: bytes, start: int) -> _Sum:
    first, second = struct.unpack_from(">2I", log, start + 16)
    return first, second


def _is_commit(log: bytes, start: int) -> bool:
    return log[start + 4 : start + 8] != bytes(4)
