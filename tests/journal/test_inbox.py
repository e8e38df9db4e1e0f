"""The inbox of runs, in every store."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from plain_store import PlainStore

from hookline import Decision
from hookline.errors import UnknownRunError, UsageError
from hookline.journal import (
    InboxAnswer,
    InboxCancel,
    MemoryJournal,
    Record,
    SQLiteJournal,
    connection,
)

Story = Callable[..., list[Record]]


@pytest.fixture(params=["memory", "file", "plain"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of each kind."""
    if request.param == "plain":
        return PlainStore()
    return MemoryJournal() if request.param == "memory" else SQLiteJournal(tmp_path / "journal.db")


def keep(store: Any, records: list[Record]) -> None:
    """Write a run, and give it back."""
    claim = store.claim_sync(records[0].run_id)
    claim.write(records).result()
    claim.give_back().result()


def answer(decision: Decision | None = None, **fields: Any) -> InboxAnswer:
    """An answer to a question of run r."""
    given = {"run_id": "r", "question": "q", "fingerprint": "f", "by": "ann", **fields}
    return InboxAnswer(decision=decision or Decision.allow(), **given)


def test_messages_are_kept_in_order_for_their_run(store: Any, story: Story) -> None:
    """With who posted them and when, and for the runs that are asked for."""
    for name in ("r", "other", "third"):
        keep(store, story(name))
    first, second = answer(), InboxCancel(run_id="other", by="bob", reason="late")
    store.post_sync(first)
    store.post_sync(second)
    assert store.inbox_sync("r") == [first]
    assert store.inbox_sync("r", "other", "third") == [first, second]
    assert store.inbox_sync("third") == store.inbox_sync() == []
    assert second.words == "cancelled by bob: late"


def test_what_is_no_message_is_refused() -> None:
    """The error says what is one."""
    with pytest.raises(UsageError, match=r"takes an InboxAnswer or an InboxCancel"):
        MemoryJournal().post_sync(object())  # type: ignore[arg-type]


def test_the_same_answer_twice_is_one_message(store: Any, story: Story) -> None:
    """Whoever gets no reply posts again."""
    keep(store, story())
    store.post_sync(first := answer(Decision.deny("no")))
    store.post_sync(answer(Decision.deny("no"), by="bob"))
    assert store.inbox_sync("r") == [first]


def test_another_answer_is_refused_with_the_first(store: Any, story: Story) -> None:
    """One counts. An answer about another call is another matter."""
    keep(store, story())
    store.post_sync(first := answer(Decision.deny("not today")))
    with pytest.raises(UsageError, match=r"'q' was answered already \(deny\) by ann: not today"):
        store.post_sync(answer())
    store.post_sync(other := answer(fingerprint="g"))
    assert store.inbox_sync("r") == [first, other]


def test_a_run_is_cancelled_once(store: Any, story: Story) -> None:
    """The first reason stays."""
    keep(store, story())
    store.post_sync(first := InboxCancel(run_id="r", by="ann"))
    store.post_sync(InboxCancel(run_id="r", by="bob"))
    assert store.inbox_sync("r") == [first]


def test_an_edit_is_refused(store: Any, story: Story) -> None:
    """Arguments may hold secrets, which a journal is kept free of."""
    keep(store, story())
    with pytest.raises(UsageError, match="changes the call"):
        store.post_sync(answer(Decision.edit(amount=1)))
    assert store.inbox_sync("r") == []


def test_there_is_no_inbox_without_a_run(store: Any, story: Story) -> None:
    """And none that outlives it."""
    with pytest.raises(UnknownRunError):
        store.post_sync(answer())
    keep(store, story())
    store.post_sync(answer())
    store.delete_sync("r")
    keep(store, story())
    assert store.inbox_sync("r") == []


def test_a_message_can_be_posted_while_another_process_drives(tmp_path: Path, story: Story) -> None:
    """It needs no claim, and is there when the file is opened again."""
    path = tmp_path / "journal.db"
    with SQLiteJournal(path) as driver:
        claim = driver.claim_sync("r")
        claim.write(story()).result()
        with SQLiteJournal(path) as other:
            other.post_sync(posted := answer())
        assert driver.inbox_sync("r") == [posted]
        claim.give_back().result()
    with SQLiteJournal(path) as journal:
        assert journal.inbox_sync("r") == [posted]
        assert journal.check_sync().ok


def test_of_two_answers_at_once_one_counts(tmp_path: Path, story: Story) -> None:
    """The other one gets an error, however close they are."""
    path = tmp_path / "journal.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    start, refused = threading.Barrier(8), []

    def post(number: int) -> None:
        with SQLiteJournal(path) as mine:
            start.wait()
            try:
                mine.post_sync(answer(Decision.deny(str(number)), by=str(number)))
            except UsageError as error:
                refused.append(error.message)

    threads = [threading.Thread(target=post, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with SQLiteJournal(path) as journal:
        (counted,) = journal.inbox_sync("r")
    assert len(refused) == 7
    assert all(f"by {counted.by}" in words for words in refused)


def test_a_message_that_cannot_be_read_is_a_cancellation(tmp_path: Path, story: Story) -> None:
    """It is no answer, and perhaps it was to end the run. The damage is reported."""
    path = tmp_path / "journal.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story())
        journal.post_sync(answer())
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE inbox SET message = '{}'")
    with SQLiteJournal(path) as journal:
        (message,) = journal.inbox_sync("r", "other")
        assert isinstance(message, InboxCancel)
        assert (message.run_id, message.words) == (
            "r",
            "cancelled by a message that cannot be read: Object missing required field `type`",
        )
        (damage,) = journal.check_sync().damage
        assert damage.run_id == "r"


def test_a_journal_without_an_inbox_gets_one(
    tmp_path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of an older version is migrated."""
    path = tmp_path / "journal.db"
    with monkeypatch.context() as older:
        older.setattr(connection, "MIGRATIONS", connection.MIGRATIONS[:1])
        with SQLiteJournal(path):
            pass
    with SQLiteJournal(path) as journal:
        keep(journal, story())
        journal.post_sync(answer())
        assert len(journal.inbox_sync("r")) == 1
