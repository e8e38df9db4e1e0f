"""Who writes, and in which order: what is small is written at once, what waits shares a transaction."""

from __future__ import annotations

import asyncio
import gc
import io
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from hookline.errors import JournalError, RunHandedOverError
from hookline.journal import InboxCancel, PromptSubmitted, Record, SQLiteJournal
from hookline.journal import writer as writer_module
from hookline.journal.durable import StoredRecords
from hookline.journal.write_ahead_log import PAGE_SIZE
from hookline.journal.writer import Batch, Writer

Story = Callable[..., list[Record]]


@contextmanager
def held_up(journal: SQLiteJournal) -> Iterator[None]:
    """Use the connection, so that what is written meanwhile waits in the queue."""
    is_busy, go_on = threading.Event(), threading.Event()
    assert journal._open()._writer is not None

    def hold(_: object) -> None:
        is_busy.set()
        go_on.wait(20)

    busy = threading.Thread(target=journal._open()._writer.run_exclusively, args=(hold,))
    busy.start()
    assert is_busy.wait(20)
    try:
        yield
    finally:
        go_on.set()
        busy.join()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what the thread does."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_waits_is_committed_at_once(
    sqlite: SQLiteJournal, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of one run and of others, in the order they came."""
    claims = [sqlite.claim_sync(name) for name in ("a", "b", "c")]
    transactions: list[int] = []
    writer = sqlite._open()._writer
    assert writer is not None
    transact = writer._transact
    monkeypatch.setattr(
        writer,
        "_transact",
        lambda batches: (transactions.append(len(batches)), transact(batches))[1],
    )
    with held_up(sqlite):
        written = [
            claim.write([record]) for claim in claims for record in story(claim.run_id, steps=2)
        ]
        assert not any(future.done() for future in written)
    wait(written)
    assert transactions == [48]
    for claim in claims:
        assert sqlite.read_sync(claim.run_id) == story(claim.run_id, steps=2)
    assert sqlite.check_sync().ok


def test_one_runs_trouble_is_not_anothers(sqlite: SQLiteJournal, story: Story) -> None:
    """In one transaction with a batch that cannot be written, the others are written all the same."""
    claims = {name: sqlite.claim_sync(name) for name in ("a", "bad", "b")}
    for claim in claims.values():
        claim.write(story(claim.run_id)[:3]).result()
    claims["bad"].tail = replace(claims["bad"].tail, head=b"not the head")
    written: dict[str, list[Future[None]]] = {name: [] for name in claims}
    with held_up(sqlite):
        for record in range(3, 10):
            for name, claim in claims.items():
                written[name].append(claim.write(story(name)[record : record + 1]))
    for name in ("a", "b"):
        assert [future.result() for future in written[name]] == [None] * 7
        assert sqlite.read_sync(name) == story(name)
    first, *rest = written["bad"]
    with pytest.raises(JournalError, match="written or deleted by another process"):
        first.result()
    for future in rest:
        with pytest.raises(JournalError, match="not written any more, because a write has failed"):
            future.result()
    assert sqlite.read_sync("bad") == story("bad")[:3]
    assert sqlite.check_sync().ok


def test_a_batch_is_there_as_a_whole_or_not_at_all(sqlite: SQLiteJournal) -> None:
    """Whoever reads meanwhile sees none of its records, or all."""
    claim = sqlite.claim_sync("r")
    done = threading.Event()
    seen: set[int] = set()

    def look() -> None:
        while not done.is_set():
            seen.update(info.records for info in sqlite.runs_sync())

    reader = threading.Thread(target=look)
    reader.start()
    for start in range(0, 210, 7):
        claim.write([PromptSubmitted("r", n, 0.0, "x") for n in range(start, start + 7)]).result()
    done.set()
    reader.join()
    assert {count % 7 for count in seen} <= {0}


def test_reading_does_not_wait_for_writing(path: Path, sqlite: SQLiteJournal, story: Story) -> None:
    """Nor for another process that is in the middle of it."""
    claim = sqlite.claim_sync("r")
    claim.write(story()).result()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM batches")
    assert sqlite.read_sync("r") == story()
    assert len(sqlite.runs_sync()) == 1
    other.execute("ROLLBACK")
    other.close()


def test_giving_back_waits_for_what_was_queued(sqlite: SQLiteJournal, story: Story) -> None:
    """The next one to claim the run finds all of it."""
    claim = sqlite.claim_sync("r")
    for record in story(steps=10):
        claim.write([record])
    claim.give_back().result()
    again = sqlite.claim_sync("r")
    assert again.tail.records == len(story(steps=10))


def test_a_callback_that_crashes_does_not_stop_the_thread(
    sqlite: SQLiteJournal, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """Futures call back from the thread that writes."""

    def crash(future: Future[None]) -> None:
        raise RuntimeError("in a callback")

    claim = sqlite.claim_sync("r")
    with held_up(sqlite):
        claim.write(story()[:4]).add_done_callback(crash)
    claim.write(story()[4:]).result()
    assert sqlite.read_sync("r") == story()
    wait_until(lambda: "in a callback" in caplog.text)


# --- here and now ----------------------------------------------------------------------------------


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For every transaction that is tried, where that is and how many batches it has."""
    tried: list[str] = []
    transact = Writer._transact

    def noted(self: Writer, batches: Sequence[Batch]) -> None:
        is_thread = threading.current_thread().name == "hookline-journal"
        tried.append(f"{'thread' if is_thread else 'here'} {len(batches)}")
        transact(self, batches)

    monkeypatch.setattr(Writer, "_transact", noted)
    # A busy machine is no slow disk.
    monkeypatch.setattr("hookline.journal.writer._SLOW_SECONDS", 60.0)
    return tried


def test_what_is_small_is_committed_where_it_is_asked_for(
    sqlite: SQLiteJournal, story: Story, places: list[str]
) -> None:
    """It is done at once, and no thread is started for it."""
    before = set(threading.enumerate())  # some of other tests
    claim = sqlite.claim_sync("r")
    for record in story():
        assert claim.write([record]).done()
    assert places == ["here 1"] * len(story())
    new = set(threading.enumerate()) - before
    assert [each for each in new if each.name.startswith("hookline-journal")] == []
    assert sqlite.read_sync("r") == story()


def test_what_waits_for_the_disk_is_committed_by_the_thread(
    path: Path, story: Story, places: list[str]
) -> None:
    """With FULL, always: nobody's event loop waits for a disk."""
    with SQLiteJournal(path, synchronous="FULL") as journal:
        claim = journal.claim_sync("r")
        for record in story():
            claim.write([record]).result()
        assert places == ["thread 1"] * len(story())


def test_what_is_large_is_committed_by_the_thread(sqlite: SQLiteJournal, places: list[str]) -> None:
    """And what is small after it, as long as that would overtake it."""
    claim = sqlite.claim_sync("r")
    written = [
        claim.write([PromptSubmitted("r", number, 0.0, "x" * size)])
        for number, size in enumerate((10, 300_000, 10))
    ]
    wait(written)
    assert places[:2] == ["here 1", "thread 1"] or places == ["here 1", "thread 2"]
    assert [record.seq for record in sqlite.read_sync("r")] == [0, 1, 2]
    claim.write([PromptSubmitted("r", 3, 0.0, "x")])
    assert places[-1] == "here 1"


def test_a_file_that_others_write_is_left_to_the_thread(
    path: Path, sqlite: SQLiteJournal, story: Story, places: list[str]
) -> None:
    """Whoever writes is not held up, however long the others take."""
    claim = sqlite.claim_sync("r")
    claim.write(story()[:3]).result()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    written = [claim.write(story()[3:5]), claim.write(story()[5:])]
    assert not any(future.done() for future in written)
    other.execute("ROLLBACK")
    other.close()
    wait(written)
    assert places[:2] == ["here 1", "here 1"]  # the second of them fails
    assert places[2].startswith("thread")
    assert sqlite.read_sync("r") == story()


def test_the_log_is_cleared_by_the_thread(
    path: Path, sqlite: SQLiteJournal, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not grow forever, and a write does not clear it, because that waits for the disk."""
    monkeypatch.setattr("hookline.journal.writer._LOG_PAGES", 60)
    claim = sqlite.claim_sync("r")
    for number in range(400):
        claim.write([PromptSubmitted("r", number, 0.0, "x" * 1000)]).result()
    assert 15 < places.count("thread 1") < 60
    assert path.with_name("journal.db-wal").stat().st_size < 100 * 4200
    assert len(sqlite.read_sync("r")) == 400


def test_a_log_that_others_have_filled_is_cleared(
    path: Path, sqlite: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many short processes, each of which writes too little to clear it, while another keeps the file open."""
    monkeypatch.setattr("hookline.journal.writer._LOG_PAGES", 60)
    for number in range(100):
        with SQLiteJournal(path) as journal:
            claim = journal.claim_sync("r")
            claim.write([PromptSubmitted("r", number, 0.0, "x" * 1000)]).result()
            claim.give_back().result()
    assert path.with_name("journal.db-wal").stat().st_size < 100 * 4200
    assert len(sqlite.read_sync("r")) == 100


def test_the_log_stays_short_where_no_run_is_driven(
    path: Path, sqlite: SQLiteJournal, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may only import, answer and delete: each of these writes to the log too."""
    monkeypatch.setattr("hookline.journal.writer._LOG_PAGES", 60)
    monkeypatch.setattr("hookline.journal.connection._LARGEST_LOG", 60 * 4200)
    sqlite.claim_sync("r").write(story("r", ending=None)).result()
    lines = io.BytesIO()
    sqlite.export_lines("r", lines)
    with SQLiteJournal(path.with_name("other.db")) as other:
        for number in range(40):
            other.import_lines(lines.getvalue().splitlines(keepends=True))
            other.post_sync(InboxCancel(run_id="r", by=f"anna {number}"))
            other.delete_sync("r")
            log = path.with_name("other.db-wal").stat().st_size
            assert log < 180 * 4200, number
            if log > 120 * PAGE_SIZE:
                other.vacuum()
        assert other.check_sync().ok


def test_a_slow_disk_is_left_to_the_thread_until_it_is_quick(
    sqlite: SQLiteJournal, story: Story, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event loop waits for it once, and not with every commit."""
    monkeypatch.setattr("hookline.journal.writer._SLOW_SECONDS", 0.0)
    claim = sqlite.claim_sync("r")
    for record in story()[:3]:
        claim.write([record]).result()
    assert places == ["here 1", "thread 1", "thread 1"]
    monkeypatch.setattr("hookline.journal.writer._SLOW_SECONDS", 60.0)
    for record in story()[3:5]:
        claim.write([record]).result()
    assert places[3:] == ["thread 1", "here 1"]


def test_nothing_is_overtaken(sqlite: SQLiteJournal) -> None:
    """Large and small ones in any order, from several threads: each run's records are in order."""

    def fill(name: str) -> None:
        claim, chance = sqlite.claim_sync(name), random.Random(name)
        for number in range(150):
            size = chance.choice((10, 10, 10, 70_000))
            written = claim.write([PromptSubmitted(name, number, 0.0, "x" * size)])
            if chance.random() < 0.3:
                written.result()
        claim.give_back().result()

    threads = [threading.Thread(target=fill, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("a", "b", "c"):
        assert [record.seq for record in sqlite.read_sync(name)] == list(range(150))
    assert sqlite.check_sync().ok


@pytest.mark.parametrize(("statement", "end"), [("continue_run", 5), ("describe_run", None)])
def test_an_interruption_in_the_middle_of_a_commit(
    sqlite: SQLiteJournal,
    story: Story,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    end: int | None,
) -> None:
    """It goes where interruptions go; nothing of the batch is there, and nothing can follow it."""
    monkeypatch.setattr(writer_module, "_SLOW_SECONDS", float("inf"))  # or the thread takes over
    claim = sqlite.claim_sync("r")
    claim.write(story()[:3])

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writer_module, statement, interrupted)
        with pytest.raises(KeyboardInterrupt):
            claim.write(story()[3:end])
    with pytest.raises(JournalError, match="interrupted"):
        claim.write(story()[3:end]).result()
    claim.give_back().result()
    assert sqlite.read_sync("r") == story()[:3]
    again = sqlite.claim_sync("r")
    again.write(story()[3:]).result()
    assert sqlite.read_sync("r") == story()


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_a_run_that_is_forgotten_in_the_middle_of_a_commit(
    path: Path, story: Story, synchronous: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage is collected anywhere, also there: what the run has to write is written later, by the thread."""
    with SQLiteJournal(path, synchronous=synchronous) as journal:
        forgotten = [StoredRecords(journal, journal.claim_sync("forgotten"), [])]
        for record in story("forgotten"):
            forgotten[0].append(record)
        add = writer_module.insert_batch

        def collect(*row: Any) -> None:
            forgotten.clear()
            gc.collect()
            add(*row)

        monkeypatch.setattr(writer_module, "insert_batch", collect)
        claim = journal.claim_sync("r")
        claim.write(story()).result(20)
        claim.give_back().result()
        wait_until(lambda: any(info.run_id == "forgotten" for info in journal.runs_sync()))
        assert journal.read_sync("forgotten") == story("forgotten")
        journal.claim_sync("forgotten").give_back().result()


# --- several runs in one event loop ----------------------------------------------------------------


async def test_one_runs_trouble_in_an_event_loop_is_not_anothers(
    sqlite: SQLiteJournal, story: Story
) -> None:
    """The run that cannot be written gets the error, and the others are written all the same."""
    claims = {name: await sqlite.claim(name) for name in ("a", "bad", "b")}
    runs = {name: StoredRecords(sqlite, claim, []) for name, claim in claims.items()}
    for name, run in runs.items():
        for record in story(name)[:3]:
            run.append(record)
        await run.commit()
    claims["bad"].tail = replace(claims["bad"].tail, head=b"not the head")
    for name, run in runs.items():
        for record in story(name)[3:]:
            run.append(record)
    outcomes = await asyncio.gather(
        *(run.commit() for run in runs.values()), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), RunHandedOverError, type(None)]
    for name, run in runs.items():
        await run.close()
        assert await sqlite.read(name) == (story(name)[:3] if name == "bad" else story(name))


async def test_a_run_that_ends_writes_what_was_appended(
    sqlite: SQLiteJournal, story: Story
) -> None:
    """Also when it was to be flushed in the next turn of the loop."""
    runs = {name: StoredRecords(sqlite, await sqlite.claim(name), []) for name in ("a", "b")}
    for name, run in runs.items():
        for record in story(name):
            run.append(record)
        run.flush_soon()
    for name, run in runs.items():
        await run.close()
        assert await sqlite.read(name) == story(name)


def test_without_a_thread_to_be_had_everything_is_written_all_the_same(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is ending, or has too many threads, cannot start another: no record waits for it forever."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with SQLiteJournal(path, synchronous="FULL") as journal:
        claim = journal.claim_sync("r")
        claim.write(story()).result(timeout=60)
        claim.give_back().result()
        assert journal.prune_sync(keep=5) == []
    with SQLiteJournal(path) as journal:
        assert journal.read_sync("r") == story()


def test_readers_do_not_let_the_log_grow(
    path: Path, sqlite: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody reads at any moment, so that the log could never begin again without waiting for them."""
    monkeypatch.setattr("hookline.journal.writer._LOG_PAGES", 60)
    monkeypatch.setattr("hookline.journal.writer._MOST_LOG_PAGES", 120)
    monkeypatch.setattr("hookline.journal.connection._LARGEST_LOG", 60 * 4200)
    claim = sqlite.claim_sync("r")
    claim.write([PromptSubmitted("r", 0, 0.0, "first")]).result()
    is_over = threading.Event()

    def read() -> None:
        pair = [sqlite3.connect(path, isolation_level=None) for _ in range(2)]
        while not is_over.is_set():
            for one, other in (pair, pair[::-1]):
                one.execute("BEGIN")
                one.execute("SELECT count(*) FROM runs").fetchall()
                if other.in_transaction:
                    other.execute("ROLLBACK")
                time.sleep(0.001)
        for each in pair:
            each.close()

    reader = threading.Thread(target=read)
    reader.start()
    largest = 0
    for number in range(1, 800):
        claim.write([PromptSubmitted("r", number, 0.0, "x" * 1000)]).result()
        largest = max(largest, path.with_name("journal.db-wal").stat().st_size)
    is_over.set()
    reader.join()
    assert largest < 400 * 4120
    assert len(sqlite.read_sync("r")) == 800


_CLEARS_LOG = """
import fcntl, sys
with open(sys.argv[1], "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX, 1, 121)  # SQLite's lock for checkpoints
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_process_that_clears_a_long_log_is_waited_for(
    path: Path, sqlite: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs a moment without a writer, so whoever continued to write would let the log grow until it gives up."""
    monkeypatch.setattr("hookline.journal.writer._LOG_PAGES", 60)
    monkeypatch.setattr("hookline.journal.writer._MOST_LOG_PAGES", 120)
    monkeypatch.setattr("hookline.journal.connection._LARGEST_LOG", 60 * 4200)
    claim = sqlite.claim_sync("r")
    claim.write([PromptSubmitted("r", 0, 0.0, "first")]).result()
    command = [sys.executable, "-c", _CLEARS_LOG, f"{path}-shm"]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        waited: list[float] = []

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            other.communicate()  # it is done meanwhile

        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep)
        monkeypatch.setattr("hookline.journal.writer.time", clock)
        largest = 0
        for number in range(1, 400):
            claim.write([PromptSubmitted("r", number, 0.0, "x" * 1000)]).result()
            largest = max(largest, path.with_name("journal.db-wal").stat().st_size)
    assert len(waited) == 1
    assert largest < 300 * 4120
