"""A damaged log whose pages are in the database already: what is left of it must not cover what is newer."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from damage import copy_journal

from hookline.errors import JournalError
from hookline.journal import CheckReport, Record, SQLiteJournal
from hookline.journal.write_ahead_log import PAGE_SIZE

Story = Callable[..., list[Record]]
FRAME = PAGE_SIZE + 24

# Writes runs, copies the log into the database while a reader may hold some of it back, and waits to be killed.
WRITER = """
import sqlite3, sys, time
sys.path.insert(0, sys.argv[2])
from conftest import make_records
from hookline.journal import SQLiteJournal

def fill(journal, names):
    for name in names:
        claim = journal.claim_sync(name)
        records = make_records(name, steps=4, ending=None)
        for start in range(0, len(records), 4):
            claim.write(records[start : start + 4]).result()
        claim.give_back().result()

with SQLiteJournal(sys.argv[1]) as journal:
    fill(journal, ("old-%d" % n for n in range(6)))
journal = SQLiteJournal(sys.argv[1])
fill(journal, ("some-%d" % n for n in range(6)))
reader = sqlite3.connect(sys.argv[1])
if sys.argv[3] == "partly":
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM runs").fetchone()
fill(journal, ("more-%d" % n for n in range(3)))
other = sqlite3.connect(sys.argv[1])
other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
print("written", flush=True)
time.sleep(60)
"""
RUNS = 15


def left_by(path: Path, program: Callable[..., Any], how: str) -> Path:
    """A journal that a killed process left."""
    writer = program(WRITER, path, Path(__file__).parent, how)
    assert writer.line() == "written"
    writer.process.send_signal(signal.SIGKILL)
    writer.process.wait()
    return path


def beside(path: Path, end: str) -> Path:
    """A file next to a journal."""
    return path.with_name(path.name + end)


def flip(path: Path, place: int) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def is_refused(path: Path) -> bool:
    """Whether nothing more is written to a journal. It is opened and closed, which must do no harm."""
    try:
        with SQLiteJournal(path) as journal:
            journal.claim_sync("new").give_back().result()
    except JournalError as error:
        return "is lost" in str(error)
    return False


def accepted(path: Path) -> tuple[CheckReport, int]:
    """What a journal has when its loss was accepted."""
    with SQLiteJournal(path, accept_loss=True) as journal:
        return journal.check_sync(), len(journal.runs_sync())


def test_nothing_is_lost_that_is_in_the_database(
    path: Path, tmp_path: Path, program: Callable[..., Any]
) -> None:
    """Whichever frame is damaged: it is refused or does no harm, and afterwards every run is there."""
    killed = left_by(path, program, "wholly")
    frames = (beside(killed, "-wal").stat().st_size - 32) // FRAME
    refused = 0
    for number in range(0, frames, 2):
        copy = copy_journal(killed, tmp_path / "copy")
        flip(beside(copy, "-wal"), 32 + number * FRAME + 300)
        refused += is_refused(copy)
        report, runs = accepted(copy)
        assert report.ok, (number, report)
        assert runs - RUNS in (0, 1), number
        shutil.rmtree(copy.parent)
    assert refused > frames // 4


def test_what_was_copied_in_part_is_not_covered_by_older_pages(
    path: Path, tmp_path: Path, program: Callable[..., Any]
) -> None:
    """After the loss was accepted the journal is whole, whichever view had more."""
    killed = left_by(path, program, "partly")
    frames = (beside(killed, "-wal").stat().st_size - 32) // FRAME
    kept = 0
    for number in range(0, frames, 3):
        copy = copy_journal(killed, tmp_path / "copy")
        flip(beside(copy, "-wal"), 32 + number * FRAME + 300)
        assert is_refused(copy), number
        with suppress(JournalError):  # where no view is whole, nothing can be accepted
            report, _ = accepted(copy)
            assert not report.file_damage, (number, report)
            kept += 1
        shutil.rmtree(copy.parent)
    assert kept > frames // 6


def test_the_damaged_log_is_kept(
    path: Path, program: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It has another name then, which the log of the program says."""
    killed = left_by(path, program, "wholly")
    flip(beside(killed, "-wal"), 32 + 20 * FRAME + 300)
    log = beside(killed, "-wal").read_bytes()
    report, _ = accepted(killed)
    assert report.ok
    assert beside(killed, "-wal-damaged").read_bytes() == log
    assert "-wal-damaged'" in caplog.text


def test_a_log_is_not_set_aside_while_another_process_uses_it(
    path: Path, tmp_path: Path, program: Callable[..., Any]
) -> None:
    """That process would write to a file that nobody reads any more."""
    killed = left_by(path, program, "wholly")
    flip(beside(killed, "-wal"), 32 + 20 * FRAME + 300)
    code = (
        "import sqlite3, sys, time\n"
        "other = sqlite3.connect(sys.argv[1])\n"
        "other.execute('BEGIN').execute('SELECT count(*) FROM sqlite_master').fetchone()\n"
        "print('open', flush=True)\n"
        "time.sleep(60)\n"
    )
    user = program(code, killed)
    assert user.line() == "open"
    with pytest.raises(JournalError, match="another process reads the journal"):
        SQLiteJournal(killed, accept_loss=True).open_sync()
    assert beside(killed, "-wal").exists()
    assert not beside(killed, "-wal-damaged").exists()
    user.process.kill()
    user.process.wait()
    assert accepted(killed)[0].ok


def test_a_damaged_index_of_runs_is_noticed_before_a_run_begins_again(
    path: Path, story: Story
) -> None:
    """A run that SQLite does not find would be taken for a new one. The index is made anew when that is accepted."""
    with SQLiteJournal(path) as journal:
        for name in ("parent", "parent/0/call_1_1/1"):
            journal.claim_sync(name).write(story(name, ending=None)).result()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_runs_1'"
        ((page,),) = connection.execute(query)
    content = path.read_bytes()
    start = (page - 1) * PAGE_SIZE
    place = content.index(b"call_1_1", start, start + PAGE_SIZE)
    flip(path, place)
    with SQLiteJournal(path) as journal:
        assert not journal.check_sync().ok
        with pytest.raises(JournalError, match="the database is damaged"):
            journal.claim_sync("parent/0/call_1_1/1")
    report, runs = accepted(path)
    assert (report.ok, runs) == (True, 2)


def test_a_journal_is_not_written_without_its_file_of_last_commits(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If that file cannot be written, the loss of the last commits would not be noticed."""
    with SQLiteJournal(path) as journal:
        journal.claim_sync("r").write(story("r")).result()
    monkeypatch.setattr(
        "hookline.journal.connection._can_write", lambda each: not each.endswith("-commits")
    )
    with SQLiteJournal(path) as journal:
        assert journal.check_sync().ok
        with pytest.raises(JournalError, match="-commits' is read-only"):
            journal.claim_sync("new")
