"""Where output is kept: the two ends of it in memory, and all of it in a file once it is too long to show."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import weakref
from collections import deque
from pathlib import Path
from typing import IO

from hookline.containment.sandbox import Excerpt
from hookline.errors import BuildError

_FILES = 64
"""How many files of output are kept; the oldest goes first."""
_LONGEST_KEY = 20_000
"""Bytes of a key that is shown in one piece."""


class Scratch:
    """A directory of our own: `tmp` is what commands in the sandbox see as /tmp, `output` has what was too long.

    It lives as long as the capability, unless the user named a directory for the output, which stays.
    """

    def __init__(self, output: str | Path | None = None) -> None:
        base = Path(tempfile.mkdtemp(prefix="hookline-")).resolve()
        self._finalizer = weakref.finalize(self, shutil.rmtree, base, ignore_errors=True)
        self.tmp = base / "tmp"
        self.tmp.mkdir(mode=0o700)
        self.output = base / "output" if output is None else Path(output).expanduser().resolve()
        try:
            self.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BuildError(
                f"Bash: output_dir='{output}' cannot be made ({error.strerror}).",
                remedy="Name a directory that can be written in, or leave it out.",
            ) from None
        self._numbers = itertools.count(1)
        self._files: deque[Path] = deque()

    def check_beside(self, root: Path) -> None:
        """What commands print is kept where they cannot change it, so not in the directory that is theirs."""
        if root == self.output:
            raise BuildError(
                f"Bash: output_dir='{self.output}' is the directory that commands work in.",
                remedy="Name a directory of its own, perhaps one inside it, or leave it out.",
            )

    def new_file(self) -> Path:
        """A name for one more file; the oldest is removed when there are too many."""
        while True:
            path = self.output / f"command-{next(self._numbers)}.txt"
            if not os.path.lexists(path):
                break
        self._files.append(path)
        if len(self._files) > _FILES:
            with contextlib.suppress(OSError):
                self._files.popleft().unlink()
        return path


class Output:
    """What one command prints."""

    def __init__(self, scratch: Scratch, size: int) -> None:
        self.excerpt = Excerpt(size)
        self.path: Path | None = None
        """The file that has all of it, once it is longer than can be shown."""
        self._scratch = scratch
        self._size = size
        self._begun = bytearray()
        self._file: IO[bytes] | None = None
        self._kept = 0
        """How many bytes are in the file: not all, if the disk is full."""
        self.unread = Excerpt(size)
        """What was printed since somebody looked, without what has not ended."""
        self._unfinished = bytearray()
        """A line that has not ended, or a key: a secret in two pieces would be recognised in neither."""

    def add(self, data: bytes) -> None:
        """Take what was printed."""
        self.excerpt.add(data)
        self._unfinished += data
        if b"\n" in data:
            end = _end_of_complete(self._unfinished)
            self.unread.add(bytes(self._unfinished[:end]))
            del self._unfinished[:end]
        if self._file is None and self.path is None:
            self._begun += data
            if len(self._begun) > self._size:
                self._to_file()
        elif self._file is not None:
            self._write(data)

    def _to_file(self) -> None:
        self.path = self._scratch.new_file()
        begun, self._begun = bytes(self._begun), bytearray()
        # Unbuffered, so that what is there can be read while the command runs.
        with contextlib.suppress(OSError):  # the directory is gone or full: the command goes on
            self._file = self.path.open("xb", buffering=0)
            self.path.chmod(0o600)
            self._write(begun)

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            written = self._file.write(data)
        except OSError:
            written = 0
        self._kept += written
        if written < len(data):  # a full disk: what there is of it is kept, and the command goes on
            self._file.close()
            self._file = None

    def take_unread(self, *, is_over: bool) -> tuple[Excerpt, int]:
        """What was printed since the last time, and how many bytes wait for the next time."""
        if is_over:
            self.unread.add(bytes(self._unfinished))
            self._unfinished.clear()
        unread, self.unread = self.unread, Excerpt(self._size)
        return unread, len(self._unfinished)

    @property
    def where(self) -> str:
        """The file, as text; empty if there is none, or nothing in it."""
        return "" if self.path is None or not self._kept else str(self.path)

    @property
    def said(self) -> str:
        """What is in the file, in words."""
        if not self.where:
            return "" if self.path is None else "the rest could not be kept in a file"
        if self._kept < self.excerpt.total:
            return f"only the first {self._kept:,} of {self.excerpt.total:,} bytes could be kept, in {self.where}"
        return f"all {self._kept:,} bytes are in {self.where}"

    def close(self) -> None:
        """The command prints no more."""
        if self._file is not None:
            self._file.close()


def _end_of_complete(data: bytearray) -> int:
    """Where the last line ends that can be shown: before a key that has begun and not ended, if it is not too long."""
    end = data.rfind(b"\n") + 1
    begun = data.rfind(b"-----BEGIN ", max(0, end - _LONGEST_KEY), end)
    is_open = begun >= 0 and data.find(b"-----END ", begun, end) < 0
    return data.rfind(b"\n", 0, begun) + 1 if is_open else end
