"""Long output: what is shown of it, and what is kept, also where it cannot be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO, cast

import pytest

from hookline.capabilities.bash.output import Output, ProgressMessages, Scratch, shown
from hookline.containment.sandbox import Excerpt
from hookline.redaction import redact

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SIZE = 2_000


class _Full:
    """A file on a disk that has room for a few bytes more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, data: bytes) -> int:
        written = min(len(data), self.room)
        if not written:
            raise OSError(28, "No space left on device")
        self.room -= written
        return written

    def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize("place", range(SIZE // 2 - 45, SIZE // 2 + 5))
def test_a_token_is_not_cut_in_two(place: int) -> None:
    """Of one that stands where output is cut nothing is shown: half of it does not look like one."""
    for text in (
        f"{'x' * place} {TOKEN} {'y' * 9_000}",
        f"{'x' * 9_000} {TOKEN} {'y' * (place - 9)}\nyyy",
    ):
        excerpt = Excerpt(SIZE)
        excerpt.add(text.encode())
        told = redact(shown(excerpt, ""))
        assert not [at for at in range(len(TOKEN) - 5) if TOKEN[at : at + 6] in told]


async def test_a_token_is_not_cut_in_two_while_it_is_told() -> None:
    """The same holds for progress messages, of which the end is told."""
    for place in range(7_955, 8_005):
        heard: list[str] = []
        tells = ProgressMessages(heard.append)
        tells.add(f"{'x' * 12_000} {TOKEN} {'y' * (place - 9)}\nyyy".encode())
        tells.finish()
        told = redact("".join(heard))
        assert "yyy" in told
        assert not [at for at in range(len(TOKEN) - 5) if TOKEN[at : at + 6] in told]


@pytest.mark.parametrize("size", range(400, 640, 20))
def test_a_value_is_not_shown_without_its_name(size: int) -> None:
    """The rest of a line that was cut is left out: it may be the value of a name that is not shown."""
    excerpt = Excerpt(size)
    excerpt.add(
        f'{{"x":"{"a" * 3_000}","db_password":"hunter2 correct horse","y":"{"b" * 100}"}}'.encode()
    )
    excerpt.add(b"\nthe next line\n")
    told = redact(shown(excerpt, ""))
    assert "horse" not in told
    assert told.endswith("\nthe next line\n")


async def test_a_value_is_not_told_without_its_name() -> None:
    """Also if the line that was cut ends much later."""
    heard: list[str] = []
    tells = ProgressMessages(heard.append)
    tells.add(b'{"db_password":"' + b"a" * 20_000)
    tells.add(b"correct-horse")
    tells.add(b'"}\nnext')
    tells.finish()
    assert heard == ["[20,032 characters not shown here]\nnext"]
    tells.add(b"x" * 20_000)
    tells.finish()
    assert heard[1:] == ["[20,000 characters not shown here]\n"]


def test_of_a_long_line_the_beginning_is_shown() -> None:
    """Output without blanks loses a few letters at the cut as well, and all are counted."""
    excerpt = Excerpt(SIZE)
    excerpt.add(b"z" * 10_000)
    told = shown(excerpt, "")
    assert f"[... {10_000 - told.count('z'):,} bytes left out here ...]" in told
    assert told.count("z") > SIZE // 4


def test_what_a_full_disk_does_not_take_is_not_claimed(tmp_path: Path) -> None:
    """The result says how much of the output is in the file, and goes on without the rest."""
    output = Output(Scratch(tmp_path), SIZE)
    output.add(b"a" * 3_000)
    output.close()
    output._file = cast("IO[bytes]", _Full(500))
    for _ in range(3):
        output.add(b"b" * 400)
    assert output.excerpt.total == 4_200
    assert output.said == (
        f"only the first 3,500 of 4,200 bytes could be kept, in {tmp_path / 'command-1.txt'}"
    )


def test_output_that_cannot_be_kept_is_shown_all_the_same(tmp_path: Path) -> None:
    """Somebody has removed the directory: no file is named, and the command is not disturbed."""
    output = Output(Scratch(tmp_path / "out"), SIZE)
    shutil.rmtree(tmp_path / "out")
    for _ in range(2):
        output.add(b"a line\n" * 1_000)
    assert output.where == ""
    assert "bytes left out here; the rest could not be kept in a file" in shown(
        output.excerpt, output.said
    )
