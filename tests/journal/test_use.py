"""Several users of one journal file: one process examines it, and nobody takes what others write for damage."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from damage import copy_journal
from open_files import open_files
from somebody import as_somebody, is_root

from hookline.containment import FileJail
from hookline.errors import FileKindError, JournalError
from hookline.journal import SQLiteJournal, sqlite
from hookline.journal.use import JournalUse
from hookline.testing.store_setup import story

LOOK = """
import sys
from hookline import SQLiteJournal
with SQLiteJournal(sys.argv[1]) as journal:
    print([info.records for info in journal.runs_sync()])
"""
BUSY = """
import sys
from hookline.testing.store_setup import story
from hookline import SQLiteJournal
with SQLiteJournal(sys.argv[1]) as journal:
    print("ready", flush=True)
    while True:
        for number in range(20):
            claim = journal.claim_sync(f"run-{number}")
            claim.write(story(f"run-{number}")).result()
            claim.give_back().result()
        for number in range(20):
            journal.delete_sync(f"run-{number}")
"""


def look(path: Path) -> str:
    """Open and close the journal in another process."""
    argv = [sys.executable, "-c", LOOK, str(path)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def keep(journal: SQLiteJournal, run_id: str) -> int:
    """Write a run. Gives the number of its records."""
    claim = journal.claim_sync(run_id)
    records = story(run_id)
    claim.write(records).result()
    claim.give_back().result()
    return len(records)


def test_a_second_journal_of_the_process_leaves_the_log_to_the_first(tmp_path: Path) -> None:
    """Its examination would drop the locks of the first, and the next process would delete the log of both."""
    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as first:
        count = keep(first, "one")
        with SQLiteJournal(path) as second:
            second.runs_sync()
            assert look(path) == f"[{count}]"
            keep(first, "two")
        assert look(path) == f"[{count}, {count}]"
        keep(first, "three")
        assert first.check_sync().ok
    assert look(path) == f"[{count}, {count}, {count}]"


def test_a_journal_that_is_only_read_leaves_its_locks_to_a_writer(tmp_path: Path) -> None:
    """The writer of the same process uses them. To look at the database again must not drop them."""
    with SQLiteJournal(tmp_path / "runs.db") as journal:
        keep(journal, "one")
        path = copy_journal(tmp_path / "runs.db", tmp_path / "copy")
    log = path.with_name("runs.db-wal")
    log.write_bytes(bytes(32) + log.read_bytes()[32:])
    with SQLiteJournal(path) as reader:
        assert not reader.check_sync().ok
        with SQLiteJournal(path, accept_loss=True) as writer:
            keep(writer, "two")
            file = log.stat().st_ino
            look(path)
            assert log.stat().st_ino == file


@pytest.mark.parametrize("accept_loss", [False, True])
def test_what_another_process_deletes_is_not_lost(tmp_path: Path, accept_loss: bool) -> None:
    """The journal is opened again and again while runs appear and disappear: nothing is reported, and none accepted."""
    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        keep(journal, "kept")
    argv = [sys.executable, "-c", BUSY, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            assert busy.stdout.readline() == b"ready\n"
            for _ in range(60):
                with SQLiteJournal(path, accept_loss=accept_loss) as journal:
                    journal.claim_sync("probe").give_back().result()
        finally:
            busy.kill()
    with SQLiteJournal(path) as journal:
        assert journal.check_sync().ok
    with sqlite3.connect(path) as connection:
        query = "SELECT count(*) FROM history WHERE event = 'lost'"
        assert connection.execute(query).fetchone() == (0,)


FAILS = """
import resource, sys
from hookline import SQLiteJournal
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
SQLiteJournal(sys.argv[1]).open_sync()
"""


@pytest.mark.parametrize("meanwhile", ["opened", "written", "failed"])
def test_a_backup_is_missing_something_also_after_another_journal_took_the_place(
    tmp_path: Path, meanwhile: str
) -> None:
    """The new journal demands nothing of the old one. What the file knows of that stays, for it may come back."""
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    with SQLiteJournal(path) as journal:
        keep(journal, "one")
        journal.backup_sync(copy)
        keep(journal, "two")
    path.unlink()
    if meanwhile == "failed":
        argv = [sys.executable, "-c", FAILS, str(path)]
        assert subprocess.run(argv, capture_output=True, check=False).returncode == 1
    else:
        for _ in range(2):
            with SQLiteJournal(path) as journal:
                if meanwhile == "written":
                    keep(journal, "another")
                report = journal.check_sync()
                assert report.ok
                assert not report.notes
                meanwhile = "opened"
    path.unlink(missing_ok=True)
    copy.rename(path)
    with SQLiteJournal(path) as journal:
        assert not journal.check_sync().ok
        with pytest.raises(JournalError, match="the end of the journal"):
            journal.claim_sync("one")


def test_a_log_that_somebody_deletes_is_missed(tmp_path: Path) -> None:
    """What is written to it afterwards would be gone."""
    path = tmp_path / "runs.db"
    journal = SQLiteJournal(path)
    keep(journal, "one")
    (tmp_path / "runs.db-wal").unlink()
    numbers = (f"run-{number}" for number in range(100_000))  # it is not looked for at each commit
    with pytest.raises(JournalError, match="or its log, was deleted, moved or replaced"):
        _ = [keep(journal, each) for each in numbers]


@pytest.mark.parametrize("sees_first", [True, False], ids=["usual", "without O_PATH"])
def test_a_file_jail_reads_no_journal_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sees_first: bool
) -> None:
    """To close it would drop the locks, and the next process would delete the log. When it is closed it is a file."""
    path = tmp_path / "runs.db"
    if not sees_first:
        monkeypatch.delattr(os, "O_PATH", raising=False)
    with FileJail(tmp_path) as jail:
        with SQLiteJournal(path) as journal:
            count = keep(journal, "one")
            before = open_files(tmp_path)
            for name in ("runs.db", "runs.db-shm"):
                with pytest.raises(FileKindError, match="a journal that this process has open"):
                    jail.read_bytes(name)
            # It cannot be closed before the journal, so it is not even opened where that can be helped.
            assert (open_files(tmp_path) == before) == (sees_first and hasattr(os, "O_PATH"))
            assert look(path) == f"[{count}]"
            keep(journal, "two")
        assert look(path) == f"[{count}, {count}]"
        assert jail.read_bytes("runs.db").startswith(b"SQLite format 3")


def test_a_journal_that_ends_while_another_is_opened_leaves_the_locks_to_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools had opened the file, and what they had opened is closed with the last journal of the process."""
    path = tmp_path / "runs.db"
    first = SQLiteJournal(path)
    count = keep(first, "one")
    open_writer = sqlite._open_writer

    def end_the_first(*arguments: Any) -> Any:
        writer = open_writer(*arguments)
        first.close_sync()
        return writer

    with FileJail(tmp_path) as jail, pytest.raises(FileKindError):
        jail.read_bytes("runs.db")
    monkeypatch.setattr(sqlite, "_open_writer", end_the_first)
    with SQLiteJournal(path) as second:
        keep(second, "two")
        log = path.with_name("runs.db-wal")
        file = log.stat().st_ino
        assert look(path) == f"[{count}, {count}]"
        assert log.stat().st_ino == file


def test_the_file_of_last_commits_has_the_owner_of_the_journal(tmp_path: Path) -> None:
    """Root may be the first who looks at a copy, and the owner must be able to write it afterwards."""
    path = tmp_path / "runs.db"
    path.touch()
    path.chmod(0o640)
    if is_root:
        os.chown(path, 65534, 65534)
    JournalUse(str(path)).end()
    made, owner = path.with_name("runs.db-commits").stat(), path.stat().st_uid
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (owner, 0o640)


def test_who_may_not_write_makes_no_file_of_last_commits() -> None:
    """The owner of the journal could not write that file. Without it nobody writes."""
    with as_somebody() as directory:
        path = directory / "runs.db"
        with SQLiteJournal(path) as journal:
            keep(journal, "one")
        commits = path.with_name("runs.db-commits")
        commits.unlink()
        path.chmod(0o444)
        with SQLiteJournal(path) as journal:
            assert journal.check_sync().ok
        use = JournalUse(str(path))
        assert use.is_alone
        use.end()
        assert not commits.exists()


@pytest.mark.parametrize("why", ["it may not be read", "the file system has no such locks"])
def test_who_cannot_lock_is_not_alone(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may be writing, and a log that begins again meanwhile would look damaged."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    with as_somebody() as directory:
        path = directory / "runs.db"
        with SQLiteJournal(path) as journal:
            keep(journal, "one")
            if why == "it may not be read":
                path.with_name("runs.db-commits").chmod(0)
            else:
                monkeypatch.setattr("fcntl.flock", refuse)
            use = JournalUse(str(path))
            assert not use.is_alone
            use.end()


def test_who_examines_is_alone_and_writers_are_not(tmp_path: Path) -> None:
    """In one process too. Who only reads is not counted."""
    path = str(tmp_path / "runs.db")
    first = JournalUse(path)
    assert first.is_alone
    first.share()
    second, third = JournalUse(path), JournalUse(path)
    assert not second.is_alone
    assert not third.is_alone
    for each in (first, second, third):
        each.end()
    last = JournalUse(path)
    assert last.is_alone
    last.end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_use_the_journal(tmp_path: Path) -> None:
    """It would be taken for a writer when its parent is dead."""
    path = str(tmp_path / "runs.db")
    use = JournalUse(path)
    use.share()
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b".")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    use.end()
    try:
        other = JournalUse(path)
        assert other.is_alone
        other.end()
    finally:
        os.write(go[1], b".")
        os.waitpid(child, 0)
        for end in (*ready, *go):
            os.close(end)


FORKS = """
import os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from hookline import SQLiteJournal, locked_files
from hookline.containment import FileJail
from hookline.errors import FileKindError
from hookline.testing.store_setup import story
def opened():
    links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    return [os.path.realpath(each) for each in links].count(sys.argv[1])
jail = FileJail(os.path.dirname(sys.argv[1]))
journal = SQLiteJournal(sys.argv[1])
journal.claim_sync("r").write(story("r")).result()
try:
    jail.read_bytes("runs.db")
except FileKindError:
    print("refused", flush=True)
assert locked_files.keep_if_locked(os.open(sys.argv[1], os.O_RDONLY))
before = opened()
other = ThreadPoolExecutor(1)
other.submit(locked_files._lock.acquire).result()
child = os.fork()
if child == 0:
    signal.alarm(20)  # it may wait forever
    print(len(jail.read_bytes("runs.db")) > 0, opened() < before, flush=True)
    os._exit(0)
os.waitpid(child, 0)
other.submit(locked_files._lock.release).result()
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the files are found in /proc")
def test_a_forked_child_may_read_the_file_of_a_journal(tmp_path: Path) -> None:
    """It has no locks to lose, and does not wait for a thread of its parent that looked for locked files."""
    argv = [sys.executable, "-W", "ignore", "-c", FORKS, str(tmp_path / "runs.db")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["refused", "True", "True"], "")
