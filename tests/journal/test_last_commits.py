"""The file of last commits: what is written is read, and what cannot be read says nothing."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.journal.history import ANY_STEPS
from hookline.journal.last_commits import (
    LIST,
    UNKNOWN,
    Commit,
    LastCommits,
    commits_file,
    read_commits,
)

HEAD = bytes(range(32))


@pytest.fixture
def commits(path: Path) -> LastCommits:
    """The file next to a journal."""
    path.touch(0o640)
    commits = LastCommits(str(path))
    commits.begin()
    return commits


def test_what_was_noted_last_is_read(path: Path, commits: LastCommits) -> None:
    """One commit of each run, and one of the list."""
    commits.note(LIST, 3, HEAD)
    commits.note(1, 4, HEAD)
    commits.note(2, 8, HEAD)
    commits.note(1, 9, HEAD[::-1], 2, 1000.5)
    assert read_commits(str(path)).commits == [
        (LIST, 3, HEAD, 0, 0.0),
        (1, 9, HEAD[::-1], 2, 1000.5),
        (2, 8, HEAD, 0, 0.0),
    ]
    commits.close()


def test_what_was_forgotten_need_not_be_there(path: Path, commits: LastCommits) -> None:
    """One run, or all of them. How far it had come is still known, also when another journal begins here."""
    for number in (1, 2, 3):
        commits.note(number, 5, HEAD, 4, 1000.5)
    commits.forget(2)
    known = read_commits(str(path))
    assert [number for number, *_ in known.commits] == [1, 3]
    assert known.last_commit(2) == (2, 0, HEAD, 4, 1000.5)
    commits.forgive()
    known = read_commits(str(path))
    assert (known.commits, known.unknown) == ([], ())
    assert [known.last_commit(number).steps for number in (1, 2, 3, 4)] == [4, 4, 4, 0]
    assert commits.is_used()
    commits.begin_again(1, HEAD)
    known = read_commits(str(path))
    assert (known.commits, known.unknown) == ([(LIST, 1, HEAD, 0, 0.0)], ())
    assert [known.last_commit(number).steps for number in (1, 2, 3, 4)] == [4, 4, 4, 0]
    commits.close()


def test_a_run_that_uses_the_place_of_a_deleted_one_is_still_missed(
    path: Path, commits: LastCommits
) -> None:
    """Runs share places."""
    commits.note(256, 5, HEAD, 4)
    commits.forget(1)
    assert read_commits(str(path)).commits == [(256, 5, HEAD, 4, 0.0)]
    commits.close()


def test_what_an_older_version_wrote_names_no_start(path: Path, commits: LastCommits) -> None:
    """The eight bytes were not used."""
    fields = struct.pack("<QQ32sI8x", 7, 3, HEAD, 2)
    with Path(commits_file(str(path))).open("r+b") as file:
        file.seek(8 * 64)
        file.write(fields + zlib.crc32(fields).to_bytes(4, "little"))
    assert read_commits(str(path)).commits == [Commit(7, 3, HEAD, 2)]
    commits.close()


def test_runs_that_share_a_place_replace_each_other(path: Path, commits: LastCommits) -> None:
    """There are 255 places for runs, and the list keeps its own."""
    commits.note(LIST, 1, HEAD)
    for number in range(1, 600):
        commits.note(number, 1, HEAD)
    found = [number for number, *_ in read_commits(str(path)).commits]
    assert sorted(found) == [LIST, *range(345, 600)]
    commits.close()


def test_a_place_that_cannot_be_read_is_damaged(path: Path, commits: LastCommits) -> None:
    """Any bit counts. All places of a missing or empty file are damaged, and after a repair they are not known."""
    file = Path(commits_file(str(path)))
    commits.note(1, 4, HEAD)
    whole = file.read_bytes()
    for bit in range(0, 8 * len(whole), 97):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        assert read_commits(str(path)).damaged == (bit // 8 // 64,)
        assert not commits.is_whole()
    file.write_bytes(whole[: 3 * 64 + 10])
    commits.repair()
    known = read_commits(str(path))
    assert known.commits == [Commit(1, 4, HEAD, 0)]
    assert known.is_whole
    assert known.unknown == tuple(range(3, 256))
    file.write_bytes(b"")
    assert len(read_commits(str(path)).damaged) == 256
    commits.repair()
    assert set(read_commits(str(path)).places.values()) == {UNKNOWN}
    commits.forget(1)
    commits.note(1, 4, HEAD)
    assert read_commits(str(path)).unknown == (0, 1, *range(3, 256))
    commits.forgive()
    known = read_commits(str(path))
    assert known.unknown == (LIST,)
    assert [known.last_commit(number).steps for number in (1, 2)] == [0, ANY_STEPS]
    file.write_bytes(file.read_bytes()[: 3 * 64])
    commits.begin_again(1, HEAD)
    known = read_commits(str(path))
    assert known.is_whole
    assert (known.commits, known.unknown) == ([(LIST, 1, HEAD, 0, 0.0)], ())
    assert [known.last_commit(number).steps for number in (1, 2)] == [0, ANY_STEPS]
    commits.close()
    file.unlink()
    assert len(read_commits(str(path)).damaged) == 256


def test_a_file_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    """The journal is written without it."""
    commits = LastCommits(str(tmp_path / "nowhere" / "journal.db"))
    commits.note(1, 1, HEAD)
    commits.forget(1)
    commits.forgive()
    commits.begin()
    commits.close()


def test_it_has_the_mode_of_the_journal(path: Path, commits: LastCommits) -> None:
    """Whoever may write the one may write the other."""
    assert Path(commits_file(str(path))).stat().st_mode & 0o777 == 0o640
    commits.close()


@given(st.binary(max_size=1000))
def test_garbage_says_nothing(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """No commit is read that was not written."""
    path = tmp_path_factory.mktemp("garbage") / "journal.db"
    Path(commits_file(str(path))).write_bytes(content)
    assert read_commits(str(path)).commits == []


def test_a_number_of_a_damaged_file_is_left_out(path: Path, commits: LastCommits) -> None:
    """The journal itself is what counts: it was committed."""
    commits.note(1, 4, HEAD, -1)
    commits.note(2, 2**70, HEAD)
    assert read_commits(str(path)).commits == []
