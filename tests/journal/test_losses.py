"""The end of a journal that is lost: it is reported, the journal can only be read, and the loss can be accepted."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from damage import (
    COMMITS,
    content_of,
    copy_journal,
    harm,
    harm_commits,
    is_last_commit_harmed,
    is_silent,
)
from open_files import open_files

from hookline.errors import JournalError
from hookline.journal import InboxCancel, Record, RunQueued, SQLiteJournal
from hookline.journal.connection import APPLICATION, MIGRATIONS, newest
from hookline.journal.history import ANY_STEPS, add_event
from hookline.journal.last_commits import read_commits
from hookline.journal.write_ahead_log import PAGE_SIZE
from hookline.sessions import Sessions
from hookline.state import RunStatus

Story = Callable[..., list[Record]]
DAMAGES = int(os.environ.get("HOOKLINE_DAMAGES", "300"))
"""How often a log is damaged; a database 8/3 as often. That takes ten seconds. For a longer search: 3000."""
KILLS = int(os.environ.get("HOOKLINE_KILLS", "40"))
"""How often a process is killed where that must not look like damage. HOOKLINE_KILLS=300 takes a minute."""
LONG = pytest.mark.timeout(1200)
FIRST_TABLES = [
    *str(MIGRATIONS[0]).split(";"),
    f"PRAGMA application_id = {APPLICATION}",
    "PRAGMA user_version = 1",
]
"""What makes the tables of version 1."""
FRAME = PAGE_SIZE + 24

# Writes runs, says so, and waits to be killed.
WRITER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from conftest import make_records
from hookline.journal import InboxCancel, SQLiteJournal

journal = SQLiteJournal(sys.argv[1])
for name in ("a", "b", "c"):
    claim = journal.claim_sync(name)
    records = make_records(name, steps=3, ending=None)
    for start in range(0, len(records), 4):
        claim.write(records[start : start + 4]).result()
if len(sys.argv) > 3:
    journal.post_sync(InboxCancel(run_id="c", by="anna"))
print("written", flush=True)
time.sleep(60)
"""


@pytest.fixture
def killed(path: Path, program: Callable[..., Any]) -> Path:
    """A journal that a killed process left: all that it has is in the log."""
    writer = program(WRITER, path, Path(__file__).parent)
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


def keep(journal: SQLiteJournal, records: list[Record]) -> None:
    """Write those records of a run that are not there yet."""
    claim = journal.claim_sync(records[0].run_id)
    known = {info.run_id: info.records for info in journal.runs_sync()}
    claim.write(records[known.get(claim.run_id, 0) :]).result()
    claim.give_back().result()


def test_a_healthy_journal_of_a_killed_process_opens(killed: Path, story: Story) -> None:
    """Nothing is lost, and nothing is reported."""
    with SQLiteJournal(killed) as journal:
        report = journal.check_sync()
        assert report.ok
        assert report.notes == ()
        assert journal.read_sync("c") == story("c", steps=3, ending=None)
        journal.claim_sync("c").give_back().result()


def test_a_flip_in_any_frame_is_reported(killed: Path, tmp_path: Path) -> None:
    """The last one included. The journal can be read, nothing is written, and the log stays as it is."""
    frames = (beside(killed, "-wal").stat().st_size - 32) // FRAME
    assert frames > 20
    for number in range(frames):
        path = copy_journal(killed, tmp_path / str(number))
        flip(beside(path, "-wal"), 32 + number * FRAME + 200)
        log = beside(path, "-wal").read_bytes()
        for _ in range(2):
            with SQLiteJournal(path) as journal:
                assert not journal.check_sync().ok
                with pytest.raises(JournalError, match=r"is lost: .*backup.*accept_loss=True"):
                    journal.claim_sync("c")
                with pytest.raises(JournalError, match="is lost"):
                    journal.backup_sync(tmp_path / "copy.db")
        assert beside(path, "-wal").read_bytes() == log
        shutil.rmtree(path.parent)


def test_a_message_that_is_lost_is_reported(path: Path, program: Callable[..., Any]) -> None:
    """It was the last commit."""
    writer = program(WRITER, path, Path(__file__).parent, "posts")
    assert writer.line() == "written"
    writer.process.send_signal(signal.SIGKILL)
    writer.process.wait()
    flip(beside(path, "-wal"), beside(path, "-wal").stat().st_size - 200)
    with SQLiteJournal(path) as journal:
        assert not journal.check_sync().ok
        with pytest.raises(JournalError, match="is lost"):
            journal.claim_sync("c")


@LONG
def test_no_damage_of_the_log_is_silent(killed: Path, tmp_path: Path) -> None:
    """Flips, truncations and garbage in the log of a killed process, whatever `-commits` is.

    Without that file, a loss that reaches the last commit is only noted.
    """
    before = content_of(copy_journal(killed, tmp_path / "before"))
    whole = beside(killed, "-wal").read_bytes()
    chance = random.Random(17)
    for number in range(DAMAGES):
        for commits in ("whole", COMMITS[1 + number % 3]):
            path = copy_journal(killed, tmp_path / "damaged")
            what = harm(beside(path, "-wal"), chance)
            harm_commits(path, commits, chance)
            harmed = beside(path, "-wal").read_bytes()
            may_note = commits != "whole" and is_last_commit_harmed(whole, harmed)
            assert not is_silent(path, before, may_note=may_note), (what, commits)
            shutil.rmtree(path.parent)


@LONG
def test_no_damage_of_the_database_is_silent(path: Path, tmp_path: Path, story: Story) -> None:
    """The same for the file of a journal that was closed; without the file of last commits every third time."""
    with SQLiteJournal(path) as journal:
        for number in range(12):
            claim = journal.claim_sync(f"run {number}")
            claim.write(story(f"run {number}", steps=3)).result()
            claim.give_back().result()
            journal.post_sync(
                InboxCancel(run_id=f"run {number}", by="anna", reason="too long " * 9)
            )
            Sessions(journal).create_sync(title=f"session {number}")
    before = content_of(path)
    chance = random.Random(17)
    for number in range(DAMAGES * 8 // 3):
        damaged = copy_journal(path, tmp_path / "damaged")
        what = harm(damaged, chance)
        harm_commits(damaged, COMMITS[1 + number // 3 % 3] if number % 3 == 0 else "whole", chance)
        assert not is_silent(damaged, before), what
        shutil.rmtree(damaged.parent)


def test_a_file_whose_ids_are_out_of_order_is_checked_to_the_end(path: Path, story: Story) -> None:
    """Whoever asks such a file for the next run may get the one before, again and again."""
    with SQLiteJournal(path) as journal:
        for number in range(30):
            claim = journal.claim_sync(f"run {number}")
            claim.write(story(f"run {number}", steps=3)).result()
            claim.give_back().result()
        journal.vacuum()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'batches'"
        ((page,),) = connection.execute(query)
    content = bytearray(path.read_bytes())
    start = (page - 1) * PAGE_SIZE
    assert content[start] == 5  # a page that names others
    places = [start + int.from_bytes(content[start + n : start + n + 2]) for n in (12, 14)]
    one, other = (slice(place, place + 4) for place in places)
    content[one], content[other] = content[other], content[one]
    path.write_bytes(content)
    with SQLiteJournal(path) as journal:
        assert not journal.check_sync().ok


def test_a_log_without_its_database_is_refused(killed: Path) -> None:
    """SQLite would delete the log; the database may be missing or empty."""
    log = beside(killed, "-wal").read_bytes()
    killed.unlink()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"missing or empty, but its write-ahead log exists"):
            SQLiteJournal(killed).open_sync()
        killed.touch()
    assert beside(killed, "-wal").read_bytes() == log


def test_a_database_without_its_log_is_refused(killed: Path, tmp_path: Path) -> None:
    """When only the database was copied, the database itself says that it was not closed."""
    with SQLiteJournal(killed) as journal:
        journal.vacuum()  # so that the file has the tables
        path = tmp_path / "copy" / "journal.db"
        path.parent.mkdir()
        shutil.copyfile(killed, path)
    with pytest.raises(JournalError, match=r"was not closed, and its write-ahead log.*is gone"):
        SQLiteJournal(path).open_sync()
    with SQLiteJournal(path, accept_loss=True) as journal:
        assert len(journal.runs_sync()) == 3
    with SQLiteJournal(path) as journal:
        assert journal.check_sync().ok


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["new", "checkpointed"])
def test_a_log_that_is_gone_is_reported(
    killed: Path, tmp_path: Path, is_checkpointed: bool
) -> None:
    """Also of a journal whose log has everything, and whatever else is gone with it. It can be accepted."""
    chance = random.Random(17)
    if is_checkpointed:
        with SQLiteJournal(killed) as journal:
            journal.vacuum()
            for name in ("a", "b", "c"):
                claim = journal.claim_sync(name)
                claim.write(journal.read_sync(name)[:2]).result()
                claim.give_back().result()
            killed = copy_journal(killed, tmp_path / "later")
    with closing(sqlite3.connect(f"file:{killed}?immutable=1", uri=True)) as connection:
        ((left,),) = connection.execute("SELECT count(*) FROM runs")
    assert left == (3 if is_checkpointed else 0)
    for commits in (*COMMITS[:2], *["flipped"] * 20, "missing"):
        path = copy_journal(killed, tmp_path / "damaged")
        beside(path, "-wal").unlink()
        harm_commits(path, commits, chance)
        for _ in range(2):
            with pytest.raises(JournalError, match=r"is lost|was not closed, and.*log.*is gone"):
                SQLiteJournal(path).claim_sync("new")
        with SQLiteJournal(path, accept_loss=True) as journal:
            assert len(journal.runs_sync()) == left
        with SQLiteJournal(path) as journal:
            assert journal.check_sync().ok
            journal.claim_sync("new").give_back().result()
        shutil.rmtree(path.parent)


def test_a_closed_database_needs_no_log(path: Path, tmp_path: Path, story: Story) -> None:
    """It can be copied alone. The check says what it cannot know, each time, until the runs were written again."""
    with SQLiteJournal(path) as journal:
        journal.claim_sync("r").write(story(ending=None)).result()
    copy = tmp_path / "copy.db"
    shutil.copyfile(path, copy)
    for _ in range(3):
        with SQLiteJournal(copy) as journal:
            report = journal.check_sync()
            journal.claim_sync("r").write(story(ending=None)[:1]).result()
        assert report.ok
        assert "copy.db-commits' was missing or damaged" in str(report)
    with SQLiteJournal(copy) as journal:
        for number in range(255):
            journal.claim_sync(f"run {number}").write(story(f"run {number}")[:1]).result()
        assert journal.check_sync().notes == ()


def test_an_older_journal_has_no_file_of_last_commits(path: Path, tmp_path: Path) -> None:
    """The check says so. It keeps write-ahead logging when it is closed; without tables its log is gone."""
    for tables in (0, 1):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            for statement in FIRST_TABLES if tables else ():
                connection.execute(statement)
        if not tables:
            with pytest.raises(JournalError, match=r"was not closed, and its write-ahead log"):
                SQLiteJournal(path).open_sync()
            continue
        for _ in range(2):
            with SQLiteJournal(path) as journal:
                report = journal.check_sync()
                assert report.ok
                assert "journal.db-commits' was missing or damaged" in str(report)
                older = copy_journal(path, tmp_path / "copy")
    with closing(sqlite3.connect(older)) as connection:  # what the migration made is not in the log
        assert connection.execute("PRAGMA user_version").fetchone() == (newest(),)


def test_a_newer_file_of_last_commits_misses_what_it_names(path: Path, story: Story) -> None:
    """An older journal was put in the place of one that a newer Hookline has written to."""
    with SQLiteJournal(path) as journal:
        journal.claim_sync("r").write(story()).result()
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in FIRST_TABLES:
            connection.execute(statement)
    with pytest.raises(JournalError, match="records that a newer Hookline wrote are missing"):
        SQLiteJournal(path).open_sync()


def test_a_lost_log_is_noticed(killed: Path) -> None:
    """The file of last commits names what is not there."""
    with SQLiteJournal(killed) as journal:
        journal.vacuum()
        claim = journal.claim_sync("a")
        left = len(journal.read_sync("a"))
        claim.write(journal.read_sync("a")[:2]).result()
        claim.give_back().result()
        copies = {end: beside(killed, end).read_bytes() for end in ("", "-commits")}
    for end, content in copies.items():
        beside(killed, end).write_bytes(content)
    with SQLiteJournal(killed) as journal:
        assert f"run 'a' had {left + 2} records" in str(journal.check_sync())


@pytest.mark.parametrize("page_size", [512, 4096])
def test_a_log_without_its_header_has_pages_of_the_size_of_its_database(
    path: Path, tmp_path: Path, story: Story, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journals of earlier versions have larger pages."""
    monkeypatch.setattr("hookline.journal.connection.PAGE_SIZE", page_size)
    with SQLiteJournal(path) as journal:
        for name in ("a", "b", "c"):
            journal.claim_sync(name).write(story(name)).result()
        copy = copy_journal(path, tmp_path / "copy")
    log = copy.with_name(f"{copy.name}-wal")
    log.write_bytes(bytes(32) + log.read_bytes()[32:])
    with SQLiteJournal(copy) as journal:
        assert "commits behind the damage cannot be read" in str(journal.check_sync())


def test_a_loss_can_be_accepted(killed: Path) -> None:
    """Then the journal continues with what is left, and says since when; a claim says how far its run may have been."""
    flip(beside(killed, "-wal"), beside(killed, "-wal").stat().st_size - 200)
    with SQLiteJournal(killed, accept_loss=True) as journal:
        report = journal.check_sync()
        assert report.ok
        assert "its end was lost, and that was accepted on" in str(report)
        claim = journal.claim_sync("c")
        assert claim.steps_before_loss == 3
        claim.give_back().result()
        assert journal.claim_sync("new").steps_before_loss is None
    with SQLiteJournal(killed) as journal:
        assert journal.check_sync().ok
        assert journal.claim_sync("c").steps_before_loss == 3


def test_a_loss_that_cannot_be_accepted_leaves_nothing_open(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes, or the disk is full."""
    killed.with_name(f"{killed.name}-wal").unlink()
    monkeypatch.setattr("hookline.journal.writer.BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(killed, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="another process has been writing"):
            SQLiteJournal(killed, accept_loss=True).open_sync()
    assert open_files(killed.parent) == []


def test_the_steps_before_a_loss_are_known_from_the_file_of_last_commits(killed: Path) -> None:
    """So many may have been made, whatever is left of them. Without the file, nobody knows how many."""
    log = beside(killed, "-wal").read_bytes()
    frames = (len(log) - 32) // FRAME
    place = 32 + (frames - 6) * FRAME + 200
    for has_commits in (True, False):
        beside(killed, "-wal").write_bytes(log)
        flip(beside(killed, "-wal"), place)
        path = copy_journal(killed, killed.parent / str(has_commits))
        if not has_commits:
            beside(path, "-commits").unlink()
        with SQLiteJournal(path, accept_loss=True) as journal:
            (info,) = [info for info in journal.runs_sync() if info.run_id == "c"]
            claim = journal.claim_sync("c")
            assert info.steps < 3
            assert claim.steps_before_loss is not None
            assert claim.steps_before_loss == (3 if has_commits else ANY_STEPS)


def test_another_run_with_the_id_of_a_deleted_one_has_lost_nothing(
    killed: Path, story: Story
) -> None:
    """What was lost of the one before it is over."""
    flip(beside(killed, "-wal"), beside(killed, "-wal").stat().st_size - 200)
    with SQLiteJournal(killed, accept_loss=True) as journal:
        journal.delete_sync("c")
        claim = journal.claim_sync("c")
        claim.write(story("c", ending=None)).result()
        claim.give_back().result()
        assert journal.claim_sync("c").steps_before_loss is None


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_deleted_run_hides_a_loss_only_if_its_deletion_is_lost_too(
    path: Path, tmp_path: Path, story: Story, *, is_listed: bool
) -> None:
    """It had used the place of a run that waits. If its deletion is there, so is all that was committed before."""
    backup = tmp_path / "backup.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story("waits", steps=2, ending=None))
        for number in range(255):
            keep(journal, story(f"run {number}"))
        if not is_listed:
            journal.backup_sync(backup)
        journal.delete_sync("run 254")
        if is_listed:
            journal.backup_sync(backup)
            keep(journal, [*story("run 253"), *story("run 253", ending=None)])
    shutil.copyfile(backup, path)
    with SQLiteJournal(path, accept_loss=True) as journal:
        lost = 2 if is_listed else ANY_STEPS
        assert journal.claim_sync("waits").steps_before_loss == lost
        assert journal.check_sync().ok


def test_runs_that_have_ended_and_lost_nothing_are_not_in_doubt(
    path: Path, tmp_path: Path, story: Story
) -> None:
    """A child may be sent back and a run that failed taken up again: no other step of them had begun."""
    backup = tmp_path / "backup.db"
    stories = {
        "lost": story("lost", steps=2, ending=None),
        "waits": story("waits", steps=2, ending=None),
        "queued": [RunQueued("queued", 0, 1000.0, agent_id="agent", prompt="hello")],
        "paused": story("paused", steps=2, ending=RunStatus.PAUSED),
        "child": story("child", steps=2, parent="waits"),
        "failed": story("failed", steps=2, ending=RunStatus.FAILED),
        "taken up": story("taken up", steps=2, ending=RunStatus.FAILED),
        "ended": story("ended", steps=2),
        "child of ended": story("child of ended", steps=2, parent="ended"),
    }
    with SQLiteJournal(path) as journal:
        for records in stories.values():
            keep(journal, records)
        journal.backup_sync(backup)
        keep(journal, story("lost", steps=5, ending=None))
        keep(journal, [*stories["taken up"], *story("taken up", ending=None)])
    shutil.copyfile(backup, path)
    with SQLiteJournal(path, accept_loss=True) as journal:
        known = [journal.claim_sync(run_id).steps_before_loss for run_id in stories]
    assert known == [5, 2, 0, 2, 1, 1, 3, None, None]


def test_an_imported_run_that_nobody_continued_has_lost_nothing(
    path: Path, tmp_path: Path, story: Story
) -> None:
    """Nothing uses its place, whatever is missing from the list."""
    backup, exported = tmp_path / "backup.db", io.BytesIO()
    with SQLiteJournal(tmp_path / "other.db") as other:
        keep(other, story("imported", steps=2, ending=None))
        other.export_lines("imported", exported)
    exported.seek(0)
    with SQLiteJournal(path) as journal:
        journal.import_lines(exported)
        journal.backup_sync(backup)
        keep(journal, story("lost"))
    shutil.copyfile(backup, path)
    with SQLiteJournal(path, accept_loss=True) as journal:
        assert journal.claim_sync("imported").steps_before_loss == 2


def test_the_steps_that_an_older_version_wrote_of_any_run_are_noted(
    path: Path, story: Story
) -> None:
    """The number was larger than a place can hold."""
    with SQLiteJournal(path) as journal:
        keep(journal, story(ending=None))
    with closing(sqlite3.connect(path)) as connection, connection:
        add_event(connection, "lost", "r", 1 << 40)
    with SQLiteJournal(path) as journal:
        assert journal.claim_sync("r").steps_before_loss == ANY_STEPS
        keep(journal, story(steps=2, ending=None))
        assert read_commits(str(path)).last_commit(1).steps == ANY_STEPS


def test_without_a_loss_there_is_nothing_to_accept(killed: Path) -> None:
    """The list does not mention one."""
    with SQLiteJournal(killed, accept_loss=True) as journal:
        assert journal.check_sync().notes == ()
        assert journal.claim_sync("c").steps_before_loss is None


def test_a_damaged_file_of_last_commits_is_no_damage(killed: Path, tmp_path: Path) -> None:
    """It says less, and never something wrong. The check notes it."""
    chance = random.Random(3)
    for number in range(20):
        path = copy_journal(killed, tmp_path / "damaged")
        if number < 3:
            harm_commits(path, COMMITS[1 + number], chance)
        else:
            harm(beside(path, "-commits"), chance)
        for _ in range(2):
            with SQLiteJournal(path) as journal:
                report = journal.check_sync()
                assert report.ok
                assert "-commits' was missing or damaged" in str(report)
        shutil.rmtree(path.parent)


def test_a_damaged_file_of_last_commits_hides_no_damage_of_the_log(
    killed: Path, tmp_path: Path
) -> None:
    """A single commit behind damage is enough then; only the last commit has nothing behind it."""
    size = beside(killed, "-wal").stat().st_size
    heads = beside(killed, "-wal").read_bytes()
    commits = [n for n in range(32, size, FRAME) if any(heads[n + 4 : n + 8])]
    for kind in COMMITS[1:]:
        path = copy_journal(killed, tmp_path / kind)
        flip(beside(path, "-wal"), commits[-2] + 200)
        harm_commits(path, kind, random.Random(3))
        with SQLiteJournal(path) as journal:
            assert not journal.check_sync().ok
            with pytest.raises(JournalError, match="is lost"):
                journal.claim_sync("c")


def test_a_journal_that_was_deleted_begins_anew(path: Path, story: Story) -> None:
    """What was committed to the old one is not missed in the new one."""
    with SQLiteJournal(path) as journal:
        journal.claim_sync("r").write(story()).result()
    path.unlink()
    with SQLiteJournal(path) as journal:
        assert journal.check_sync().ok


def test_deleted_runs_are_not_missed(path: Path, story: Story) -> None:
    """Also when another run gets the number of one."""
    with SQLiteJournal(path) as journal:
        claim = journal.claim_sync("r")
        claim.write(story(steps=4)).result()
        claim.give_back().result()
        journal.delete_sync("r")
        journal.claim_sync("small").write(story("small")[:1]).result()
        assert journal.check_sync().ok
    with SQLiteJournal(path) as journal:
        assert journal.check_sync().ok


# --- kills that must not look like damage --------------------------------------------------------------

BUSY = """
import os, random, sys
import hookline.journal.writer as writer
from hookline.journal import PromptSubmitted, SQLiteJournal

writer._LOG_PAGES, writer._MOST_LOG_PAGES = 40, 60
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        chance = random.Random(int(line))
        journal = SQLiteJournal(sys.argv[1])
        claim = journal.claim_sync(line.strip())
        journal._open()._writer._connection.execute("PRAGMA cache_size = 5")
        os.write(1, b"begin %d\\n" % os.getpid())
        number = 0
        while True:
            size = chance.choice([1, 1, 1, 60])
            batch = [PromptSubmitted(claim.run_id, number + n, 0.0, "x" * chance.randint(0, 6000)) for n in range(size)]
            number += size
            claim.write(batch).result()
    os.waitpid(pid, 0)
    os.write(1, b"dead\\n")
"""


@LONG
@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "alone"])
def test_kills_give_no_false_alarm(
    path: Path, program: Callable[..., Any], is_watched: bool
) -> None:
    """In large transactions, in checkpoints, and with another process that keeps the file open and writes."""
    chance = random.Random()
    watching = SQLiteJournal(path) if is_watched else None
    nursery = program(BUSY, path)
    for number in range(KILLS):
        nursery.say(str(number))
        word, pid = nursery.line().split()
        assert word == "begin"
        time.sleep(chance.uniform(0.0, 0.06))
        os.kill(int(pid), signal.SIGKILL)
        assert nursery.line() == "dead"
        with SQLiteJournal(path) as journal:
            journal.claim_sync(f"after {number}").give_back().result()
            assert journal._open()._end.losses == ()
    if watching is not None:
        watching.close_sync()
    with SQLiteJournal(path) as journal:
        assert journal.check_sync().ok


# Makes a journal, and opens and closes it until it is killed.
OPENING = """
import os, sys
from hookline.journal import PromptSubmitted, SQLiteJournal

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.write(1, b"begin %d\\n" % os.getpid())
        number = 0
        while True:
            with SQLiteJournal(line.strip()) as journal:
                claim = journal.claim_sync(f"{os.getpid()}-{number}")
                claim.write([PromptSubmitted(claim.run_id, 0, 0.0, "x")]).result()
            number += 1
    os.waitpid(pid, 0)
    os.write(1, b"dead\\n")
"""


@LONG
def test_kills_at_opening_and_closing_give_no_false_alarm(
    path: Path, program: Callable[..., Any]
) -> None:
    """Also where a journal of the same name was deleted, and left its file of last commits."""
    chance = random.Random()
    nursery = program(OPENING)
    for number in range(KILLS):
        if number % 3:
            for end in ("", "-wal", "-shm", "-lease", "-journal"):
                beside(path, end).unlink(missing_ok=True)
        nursery.say(str(path))
        _, pid = nursery.line().split()
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(int(pid), signal.SIGKILL)
        assert nursery.line() == "dead"
        with SQLiteJournal(path) as journal:
            report = journal.check_sync()
            assert report.ok
            assert report.notes == ()
            journal.claim_sync("after").give_back().result()


# Writes a log, and dies in its checkpoint: the kernel ends a process that writes beyond the size limit of a file.
CHECKPOINT = """
import os, resource, signal, sys
from hookline.journal import PromptSubmitted, SQLiteJournal

for line in sys.stdin:
    name, pages = line.split()
    pid = os.fork()
    if pid == 0:
        journal = SQLiteJournal(sys.argv[1])
        claim = journal.claim_sync(name)
        for number in range(8):
            claim.write([PromptSubmitted(name, number, 0.0, "x" * 5000)]).result()
        size = os.path.getsize(sys.argv[1])
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(pages) * 4096,) * 2)
        journal._open()._writer._checkpoint()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    os.write(1, b"%d\\n" % os.waitstatus_to_exitcode(status))
"""


def test_kills_in_a_checkpoint_lose_nothing(path: Path, program: Callable[..., Any]) -> None:
    """Before each page that it adds to the file, until it comes to its end."""
    nursery = program(CHECKPOINT, path)
    pages = 0
    while True:
        nursery.say(f"run-{pages} {pages}")
        if (status := nursery.line()) == "0":
            break
        assert int(status) == -signal.SIGXFSZ
        with SQLiteJournal(path) as journal:
            report = journal.check_sync()
            assert report.ok
            assert report.notes == ()
            assert len(journal.read_sync(f"run-{pages}")) == 8
        pages += 1
    assert pages > 8


@LONG
def test_a_log_that_is_being_written_is_not_damaged(
    path: Path, program: Callable[..., Any]
) -> None:
    """Journals that are opened while another process writes see no loss."""
    nursery = program(BUSY, path)
    nursery.say("1")
    _, pid = nursery.line().split()
    for _ in range(KILLS):
        with SQLiteJournal(path) as journal:
            assert journal._open()._end.losses == ()
    os.kill(int(pid), signal.SIGKILL)
    assert nursery.line() == "dead"


def test_a_backup_is_a_journal(path: Path, tmp_path: Path, story: Story) -> None:
    """It is whole, for its owner alone, made while the journal is written, and never replaces anything."""
    copy = tmp_path / "copy.db"
    with SQLiteJournal(path) as journal:
        claim = journal.claim_sync("r")
        claim.write(story()[:4]).result()
        journal.backup_sync(copy)
        claim.write(story()[4:]).result()
        with pytest.raises(JournalError, match=r"copy.db' exists.*never replaces"):
            journal.backup_sync(copy)
        with pytest.raises(JournalError, match="cannot be created"):
            journal.backup_sync(tmp_path / "nowhere" / "copy.db")
        beside(tmp_path / "second.db", "-wal").touch()
        with pytest.raises(JournalError, match=r"second.db-wal' exists"):
            journal.backup_sync(tmp_path / "second.db")
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    with SQLiteJournal(copy) as journal:
        assert journal.read_sync("r") == story()[:4]
        assert journal.check_sync().ok
