"""Logs that SQLite wrote, and what is found when they are changed: SQLite itself says what it reads of them."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.journal.write_ahead_log import (
    PAGE_SIZE,
    LogReport,
    examine_log,
    log_size,
    read_log,
)

PAGE, FRAME = PAGE_SIZE, PAGE_SIZE + 24


def make_log(
    directory: Path, *, seed: int = 1, transactions: int = 8, page_size: int = PAGE
) -> Path:
    """A database and its log, as a killed process leaves them."""
    path = directory / "made.db"
    chance = random.Random(seed)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE t (x)")
    for _ in range(transactions):
        connection.execute("INSERT INTO t VALUES (?)", ("x" * chance.randint(1, 9000),))
    copy = directory / "killed.db"
    copy.write_bytes(path.read_bytes())
    directory.joinpath("killed.db-wal").write_bytes(path.with_name("made.db-wal").read_bytes())
    connection.close()
    return copy


def frames_of_sqlite(path: Path) -> int:
    """How many frames SQLite reads of a log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("SELECT * FROM sqlite_master").fetchall()
        row = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return max(0, int(row[1]))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log of eight transactions and the one that made the table."""
    path = make_log(tmp_path_factory.mktemp("log"))
    return path.with_name("killed.db-wal").read_bytes()


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_a_whole_log_is_read_to_its_end(tmp_path: Path, page_size: int) -> None:
    """Whatever the size of a page."""
    path = make_log(tmp_path, page_size=page_size)
    report = read_log(str(path))
    assert report == LogReport(frames=frames_of_sqlite(path))
    assert report.frames > 8


def test_no_log_and_an_empty_log_are_whole(tmp_path: Path) -> None:
    """There is nothing in them."""
    path = tmp_path / "some.db"
    assert log_size(str(path)) == 0
    assert read_log(str(path)) == LogReport()
    path.with_name("some.db-wal").touch()
    assert read_log(str(path)) == LogReport()


@pytest.mark.parametrize("place", [0, 5, 9, 17, 25, 300, 2000])
def test_a_flip_in_every_frame_hides_what_is_behind_it(log: bytes, place: int) -> None:
    """Page number, commit mark, salt, checksum or page: the commits behind it are counted."""
    frames = (len(log) - 32) // FRAME
    commits = [n for n in range(frames) if log[36 + n * FRAME : 40 + n * FRAME] != bytes(4)]
    for number in range(frames):
        changed = bytearray(log)
        changed[32 + number * FRAME + place] ^= 1
        report = examine_log(bytes(changed))
        assert report.frames == number
        assert report.hidden_commits == len([each for each in commits if each > number])


@pytest.mark.parametrize("place", range(32))
def test_a_flip_in_the_header_is_found(log: bytes, place: int) -> None:
    """SQLite would ignore the whole log."""
    changed = bytearray(log)
    changed[place] ^= 1
    report = examine_log(bytes(changed))
    assert not report.is_header_valid
    assert report.is_damaged


@pytest.mark.parametrize("length", [1, 31])
def test_a_header_that_is_cut_off(log: bytes, length: int) -> None:
    """It may be damaged: only something else can say whether commits were behind it."""
    report = examine_log(log[:length])
    assert (report.is_damaged, report.may_be_damaged) == (False, True)


def test_a_killed_transaction_is_no_damage(tmp_path: Path) -> None:
    """Its frames are there without a commit mark, also when a shorter transaction was written over their beginning."""
    path = tmp_path / "made.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA cache_size = 5")  # pages go into the log before the commit
    connection.execute("CREATE TABLE t (x)")
    connection.execute("BEGIN")
    for _ in range(30):
        connection.execute("INSERT INTO t VALUES (?)", ("x" * 3000,))
    during = read_log(str(path))
    connection.execute("ROLLBACK")
    connection.execute("INSERT INTO t VALUES (1)")
    after = read_log(str(path))
    connection.close()
    assert during.frames > 20
    assert not during.may_be_damaged
    assert not after.may_be_damaged


def test_a_log_that_begins_again_is_no_damage(tmp_path: Path) -> None:
    """Behind its new end are the commits of before, with another salt."""
    path = tmp_path / "made.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    for _ in range(20):
        connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.execute("INSERT INTO t VALUES (2)")
    size = log_size(str(path))
    report = read_log(str(path))
    connection.close()
    assert report.frames < (size - 32) // FRAME
    assert not report.may_be_damaged


def test_one_commit_behind_a_break_is_not_enough(log: bytes) -> None:
    """A process that was killed before it could tell the others leaves one in a healthy file; two are damage."""
    frames = (len(log) - 32) // FRAME
    commits = [n for n in range(frames) if log[36 + n * FRAME : 40 + n * FRAME] != bytes(4)]
    for behind, is_damaged in ((1, False), (2, True)):
        changed = bytearray(log)
        changed[32 + commits[-1 - behind] * FRAME + 100] ^= 1
        report = examine_log(bytes(changed))
        assert report.hidden_commits == behind
        assert (report.is_damaged, report.may_be_damaged) == (is_damaged, True)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_reads_what_sqlite_reads(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After any flip, truncation or garbage the valid frames are the ones that SQLite finds."""
    directory = tmp_path_factory.mktemp("changed")
    path = make_log(directory)
    changed = bytearray(path.with_name("killed.db-wal").read_bytes())
    where = data.draw(st.integers(0, len(changed) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "garbage"]))
    if kind == "flip":
        changed[where] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del changed[where:]
    else:
        garbage = data.draw(st.binary(min_size=1, max_size=200))
        changed[where : where + len(garbage)] = garbage
    path.with_name("killed.db-wal").write_bytes(changed)
    frames = _frames_to_last_commit(bytes(changed), examine_log(bytes(changed)).frames)
    assert frames == frames_of_sqlite(path)


def _frames_to_last_commit(log: bytes, frames: int) -> int:
    """SQLite also leaves out valid frames without a commit behind them."""
    while frames and log[32 + (frames - 1) * FRAME + 4 : 32 + (frames - 1) * FRAME + 8] == bytes(4):
        frames -= 1
    return frames


@settings(max_examples=200)
@given(st.binary(max_size=3 * FRAME))
def test_garbage_is_read_without_an_error(content: bytes) -> None:
    """Nothing of it is valid."""
    assert examine_log(content).frames == 0
