"""A journal in a file: shared by threads and processes, opened, closed and forgotten."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hookline
from hookline.errors import JournalError, UsageError
from hookline.journal import MemoryJournal, Record, SQLiteJournal

Story = Callable[..., list[Record]]

# Processes are given the path, and write a run as this does.
WRITE = """
import sys
from hookline.journal import PromptSubmitted, SQLiteJournal

def records(run_id, count, start=0):
    return [PromptSubmitted(run_id, n, float(n), "x" * 50) for n in range(start, start + count)]

journal = SQLiteJournal(sys.argv[1])
"""


def keep(journal: SQLiteJournal, records: list[Record]) -> None:
    """Write a run as a whole, and give it back."""
    claim = journal.claim_sync(records[0].run_id)
    claim.write(records).result()
    claim.give_back().result()


def test_it_is_exported() -> None:
    """From `hookline` and from its package."""
    assert hookline.SQLiteJournal is SQLiteJournal


def test_importing_hookline_does_not_import_sqlite() -> None:
    """Neither does building an agent: it is loaded when a journal is opened."""
    program = (
        "import sys, hookline; hookline.AgentBuilder; import hookline.journal;"
        "assert 'sqlite3' not in sys.modules; hookline.SQLiteJournal;"
        "assert 'sqlite3' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_written_is_there_when_it_is_opened_again(path: Path, story: Story) -> None:
    """By the same process or another."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    with SQLiteJournal(path) as journal:
        assert journal.read_sync("r") == story()
        assert journal.check_sync().ok


def test_the_path_can_be_anything_a_path_can_be(tmp_path: Path, story: Story) -> None:
    """A string or a path, relative or through a link, with characters that mean something in a URI."""
    for name in ("plain", "with space", "50%25 #1?mode=ro", "ü.db"):
        with SQLiteJournal(str(tmp_path / name)) as journal:
            keep(journal, story())
        assert (tmp_path / name).exists()
    (tmp_path / "link").symlink_to("plain")
    with SQLiteJournal(os.path.relpath(tmp_path / "link")) as journal:
        assert journal.read_sync("r") == story()
        journal.claim_sync("r").give_back().result()
    assert (tmp_path / "plain-lease").exists()


def test_it_says_what_it_is(sqlite: SQLiteJournal, path: Path) -> None:
    """In a report and in a debugger."""
    assert str(sqlite) == str(path)
    assert repr(sqlite) == f"SQLiteJournal('{path}')"


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_it_needs_a_file(path: str) -> None:
    """There is a store in memory for those who want none."""
    with pytest.raises(UsageError, match=r"needs a file.*MemoryJournal"):
        SQLiteJournal(path).open_sync()


def test_synchronous_is_one_of_two(path: Path, story: Story) -> None:
    """Anything less would not be a journal."""
    with pytest.raises(UsageError, match=r"'OFF'.*NORMAL.*FULL"):
        SQLiteJournal(path, synchronous="OFF").open_sync()  # type: ignore[arg-type]
    with SQLiteJournal(path, synchronous="FULL") as journal:
        keep(journal, story())
        assert journal.read_sync("r") == story()


def test_anyone_can_look_into_the_file(sqlite: SQLiteJournal, path: Path, story: Story) -> None:
    """The records are JSON in a table."""
    keep(sqlite, story(steps=2))
    connection = sqlite3.connect(path)
    query = "SELECT json_extract(value, '$.type') FROM batches, json_each(batches.records)"
    types = [kind for (kind,) in connection.execute(query)]
    connection.close()
    assert types == [record.type for record in story(steps=2)]


def test_a_new_journal_is_for_its_owner_alone(path: Path, story: Story) -> None:
    """And so are the files beside it; a mode that somebody else has set is left as it is."""
    before = os.umask(0)
    try:
        with SQLiteJournal(path) as journal:
            keep(journal, story())
            modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {
        f"journal.db{end}": 0o600 for end in ("", "-wal", "-shm", "-lease", "-commits")
    }
    path.chmod(0o640)
    with SQLiteJournal(path) as journal:
        keep(journal, story("more"))
    assert path.stat().st_mode & 0o777 == 0o640


# --- many at once ----------------------------------------------------------------------------------


def test_threads_share_a_journal(sqlite: SQLiteJournal, story: Story) -> None:
    """Each writes its run and reads the others', and nothing is lost or mixed."""

    def work(name: str) -> None:
        claim = sqlite.claim_sync(name)
        for record in story(name, steps=5):
            claim.write([record]).result()
            sqlite.runs_sync()
        claim.give_back().result()

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        assert sqlite.read_sync(f"t{n}") == story(f"t{n}", steps=5)
    assert sqlite.check_sync().ok


def test_threads_may_write_the_same_run(sqlite: SQLiteJournal, story: Story) -> None:
    """The order between them is theirs to see to; every batch is there, and the chain holds."""
    claim = sqlite.claim_sync("r")
    (record, *_) = story()

    def work() -> None:
        for _ in range(50):
            claim.write([record, record])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claim.give_back().result()
    assert sqlite.read_sync("r") == [record] * 400


def test_processes_share_a_file(path: Path, program: Callable[..., Any]) -> None:
    """Four of them make it, and write at the same time."""
    code = f"""{WRITE}
for number in range(10):
    claim = journal.claim_sync(f"{{sys.argv[2]}}-{{number}}")
    for start in range(0, 30, 3):
        claim.write(records(claim.run_id, 3, start))
    claim.give_back().result()
journal.close_sync()
"""
    writers = [program(code, path, number) for number in range(4)]
    assert [writer.close() for writer in writers] == [0] * 4
    with SQLiteJournal(path) as journal:
        assert len(journal.runs_sync()) == 40
        assert {info.records for info in journal.runs_sync()} == {30}
        assert journal.check_sync().ok


def test_two_journals_on_one_file_in_one_process(path: Path, story: Story) -> None:
    """Closing one of them does not disturb the other."""
    first, second = SQLiteJournal(path), SQLiteJournal(path)
    claim = first.claim_sync("r")
    claim.write(story()[:4]).result()
    assert second.read_sync("r") == story()[:4]
    second.close_sync()
    claim.write(story()[4:]).result()
    claim.give_back().result()
    assert first.check_sync().ok
    first.close_sync()


async def test_a_commit_can_be_awaited(sqlite: SQLiteJournal, story: Story) -> None:
    """In an event loop, without blocking it."""
    claim = await sqlite.claim("r")
    await asyncio.wrap_future(claim.write(story()))
    assert await sqlite.read("r") == story()


async def test_a_cancelled_wait_does_not_stop_the_write(path: Path, story: Story) -> None:
    """What happened has happened, also when the task that waits for its record is cancelled."""
    async with SQLiteJournal(path, synchronous="FULL") as journal:
        claim = await journal.claim("r")
        future = claim.write(story())
        waiting = asyncio.ensure_future(asyncio.wrap_future(future))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not future.cancel()
        claim.give_back().result()
        assert await journal.read("r") == story()


# --- closing, forgetting, forking ------------------------------------------------------------------


def test_closing_writes_what_is_queued_and_gives_back(path: Path, story: Story) -> None:
    """And closing again does nothing."""
    journal = SQLiteJournal(path)
    claim = journal.claim_sync("r")
    written = [claim.write([record]) for record in story(steps=20)]
    journal.close_sync()
    journal.close_sync()
    assert all(future.result() is None for future in written)
    with SQLiteJournal(path) as again:
        assert again.read_sync("r") == story(steps=20)
        again.claim_sync("r").give_back().result()


def test_a_closed_journal_says_that_it_is_closed(path: Path, story: Story) -> None:
    """Whatever the call."""
    journal = SQLiteJournal(path)
    claim = journal.claim_sync("r")
    journal.close_sync()
    for ask in (
        journal.runs_sync,
        journal.check_sync,
        journal.vacuum,
        lambda: journal.claim_sync("r"),
    ):
        with pytest.raises(UsageError, match="this journal is closed"):
            ask()
    with pytest.raises(JournalError, match="not claimed any more"):
        claim.write(story()).result()


def test_a_closed_journal_leaves_no_log(path: Path, story: Story) -> None:
    """The log is put into the file when the last one closes it."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "journal.db",
        "journal.db-commits",
        "journal.db-lease",
    ]


def test_an_open_journal_that_nobody_has_used_keeps_its_log(path: Path, story: Story) -> None:
    """Whoever closes the file meanwhile is not the last one."""
    with SQLiteJournal(path) as idle:
        idle.open_sync()
        with SQLiteJournal(path) as journal:
            keep(journal, story())
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def journal_threads() -> set[threading.Thread]:
    """The threads of journals."""
    return {each for each in threading.enumerate() if each.name.startswith("hookline-journal")}


def test_a_forgotten_journal_closes_itself(path: Path, story: Story) -> None:
    """Its thread ends, and what was queued is written; as long as a claim is in use it stays."""
    before = journal_threads()
    claim = SQLiteJournal(path, synchronous="FULL").claim_sync("r")
    gc.collect()
    claim.write(story())
    (thread,) = journal_threads() - before
    del claim
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()
    with SQLiteJournal(path) as journal:
        assert journal.read_sync("r") == story()


def test_a_process_that_ends_writes_what_is_queued(path: Path, program: Callable[..., Any]) -> None:
    """Also when nobody closed the journal or gave back the run; and it ends without a word."""
    code = f"""{WRITE}
claim = journal.claim_sync("r")
for start in range(0, 200, 2):
    claim.write(records("r", 2, start))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with SQLiteJournal(path) as journal:
        assert len(journal.read_sync("r")) == 200


def test_the_error_in_a_forked_child_says_to_open_it_again(path: Path, story: Story) -> None:
    """What it inherited is of no use to it; a journal of its own is, and the parent's continues."""
    code = f"""{WRITE}
import os
claim = journal.claim_sync("r")
claim.write(records("r", 3)).result()
journal.runs_sync()
child = os.fork()
if child == 0:
    for ask in (journal.runs_sync, lambda: journal.claim_sync("x"), lambda: claim.write(records("r", 1)).result()):
        try:
            ask()
        except Exception as error:
            print(type(error).__name__, error, flush=True)
    mine = SQLiteJournal(sys.argv[1])
    print(len(mine.runs_sync()), len(mine.read_sync("r")), flush=True)
    try:
        mine.claim_sync("r")
    except Exception as error:
        print(type(error).__name__, str(os.getppid()) in str(error), flush=True)
    mine.close_sync()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
claim.write(records("r", 3, 3)).result()
claim.give_back().result()
print(len(journal.read_sync("r")), journal.check_sync().ok)
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(path)],  # newer Pythons warn of forks
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    *refused, alone, in_use, parent = ended.stdout.splitlines()
    assert len(refused) == 3
    assert all("JournalError" in line and "Open it again in the child" in line for line in refused)
    assert (alone, in_use, parent) == ("1 3", "RunInUseError True", "6 True")


# --- upkeep of the file ----------------------------------------------------------------------------


def test_vacuum_gives_space_back(path: Path, story: Story) -> None:
    """What was dropped no longer takes space, nor can it be found in the file."""
    with SQLiteJournal(path) as journal:
        for number in range(50):
            keep(journal, story(f"r{number}", steps=5, prompt=f"secret number {number} " * 50))
    size = path.stat().st_size
    with SQLiteJournal(path) as journal:
        assert len(journal.prune_sync(keep=5)) == 45
        assert journal.vacuum() > 0
        assert journal.check_sync().ok
    assert path.stat().st_size < size
    content = b"".join(each.read_bytes() for each in path.parent.iterdir())
    assert b"secret number 49" in content
    assert b"secret number 7 " not in content


def test_vacuum_while_a_run_continues(sqlite: SQLiteJournal, story: Story) -> None:
    """The run is as before, and continues."""
    claim = sqlite.claim_sync("r")
    claim.write(story()[:5]).result()
    sqlite.vacuum()
    claim.write(story()[5:]).result()
    assert sqlite.read_sync("r") == story()


def test_a_run_that_was_written_behind_its_owners_back(
    path: Path, sqlite: SQLiteJournal, story: Story
) -> None:
    """Someone removed the leases: the first to write wins, the other one gets an error, and no record is torn."""
    records = story(steps=2)
    claim = sqlite.claim_sync("r")
    claim.write(records[:3]).result()
    path.with_name("journal.db-lease").unlink()
    code = f"""{WRITE}
claim = journal.claim_sync("r")
claim.write(records("r", 2, 3)).result()
claim.give_back().result()
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    with pytest.raises(JournalError, match=r"written or deleted by another process.*-lease"):
        claim.write(records[3:]).result()
    assert [record.type for record in sqlite.read_sync("r")[3:]] == ["prompt", "prompt"]
    assert sqlite.check_sync().ok


def test_a_run_that_was_deleted_behind_its_owners_back(
    path: Path, sqlite: SQLiteJournal, story: Story
) -> None:
    """It does not come back in part."""
    claim = sqlite.claim_sync("r")
    claim.write(story()[:3]).result()
    path.with_name("journal.db-lease").unlink()
    code = f"{WRITE}\njournal.delete_sync('r')"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    with pytest.raises(JournalError, match="written or deleted by another process"):
        claim.write(story()[3:]).result()
    assert sqlite.runs_sync() == []
    assert sqlite.check_sync().ok


def test_memory_and_disk_offer_the_same(sqlite: SQLiteJournal) -> None:
    """Whatever a test does with a journal in memory works with one on disk."""
    offered = {name for name in dir(MemoryJournal()) if not name.startswith("_")}
    assert offered <= {name for name in dir(sqlite) if not name.startswith("_")}
