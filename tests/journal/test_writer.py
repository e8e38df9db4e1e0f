"""The one thread that writes: what waits goes into one transaction, and one run's trouble is not another's."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

from hookline.errors import JournalError
from hookline.journal import PromptSubmitted, Record, SQLiteJournal

Story = Callable[..., list[Record]]


@contextmanager
def held_up(journal: SQLiteJournal) -> Iterator[None]:
    """Keep the thread busy, so that what is written meanwhile waits in its queue."""
    go_on = threading.Event()
    assert journal._writer is not None
    busy = threading.Thread(target=journal._writer.do, args=(lambda _: go_on.wait(20),))
    busy.start()
    try:
        yield
    finally:
        go_on.set()
        busy.join()


def test_what_waits_is_committed_at_once(
    sqlite: SQLiteJournal, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of one run and of others, in the order they came."""
    claims = [sqlite.claim(name) for name in ("a", "b", "c")]
    transactions: list[int] = []
    writer = sqlite._writer
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
        assert sqlite.read(claim.run_id) == story(claim.run_id, steps=2)
    assert sqlite.check().ok


def test_one_runs_trouble_is_not_anothers(sqlite: SQLiteJournal, story: Story) -> None:
    """In one transaction with a batch that cannot be written, the others are written all the same."""
    claims = {name: sqlite.claim(name) for name in ("a", "bad", "b")}
    for claim in claims.values():
        claim.write(story(claim.run_id)[:3]).result()
    claims["bad"].tail = claims["bad"].tail._replace(head=b"not the head")
    written: dict[str, list[Future[None]]] = {name: [] for name in claims}
    with held_up(sqlite):
        for record in range(3, 10):
            for name, claim in claims.items():
                written[name].append(claim.write(story(name)[record : record + 1]))
    for name in ("a", "b"):
        assert [future.result() for future in written[name]] == [None] * 7
        assert sqlite.read(name) == story(name)
    first, *rest = written["bad"]
    with pytest.raises(JournalError, match="written or deleted by someone else"):
        first.result()
    for future in rest:
        with pytest.raises(JournalError, match="not written any more, because a write has failed"):
            future.result()
    assert sqlite.read("bad") == story("bad")[:3]
    assert sqlite.check().ok


def test_a_batch_is_there_as_a_whole_or_not_at_all(sqlite: SQLiteJournal) -> None:
    """Whoever reads meanwhile sees none of its records, or all."""
    claim = sqlite.claim("r")
    done = threading.Event()
    seen: set[int] = set()

    def look() -> None:
        while not done.is_set():
            seen.update(info.records for info in sqlite.runs())

    reader = threading.Thread(target=look)
    reader.start()
    for start in range(0, 210, 7):
        claim.write([PromptSubmitted("r", n, 0.0, "x") for n in range(start, start + 7)]).result()
    done.set()
    reader.join()
    assert {count % 7 for count in seen} <= {0}


def test_reading_does_not_wait_for_writing(path: Path, sqlite: SQLiteJournal, story: Story) -> None:
    """Nor for another process that is in the middle of it."""
    claim = sqlite.claim("r")
    claim.write(story()).result()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM batches")
    assert sqlite.read("r") == story()
    assert len(sqlite.runs()) == 1
    other.execute("ROLLBACK")
    other.close()


def test_giving_back_waits_for_what_was_queued(sqlite: SQLiteJournal, story: Story) -> None:
    """The next one to claim the run finds all of it."""
    claim = sqlite.claim("r")
    for record in story(steps=10):
        claim.write([record])
    claim.give_back()
    again = sqlite.claim("r")
    assert again.tail.records == len(story(steps=10))


def test_a_callback_that_crashes_does_not_stop_the_thread(
    sqlite: SQLiteJournal, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """Futures call back from the thread that writes."""

    def crash(future: Future[None]) -> None:
        raise RuntimeError("in a callback")

    claim = sqlite.claim("r")
    with held_up(sqlite):
        claim.write(story()[:4]).add_done_callback(crash)
    claim.write(story()[4:]).result()
    assert sqlite.read("r") == story()
    assert "in a callback" in caplog.text
