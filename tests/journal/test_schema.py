"""The file says which version its tables have; older ones are brought up to date, newer ones refused."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline.errors import JournalError
from hookline.journal import Record, SQLiteJournal, schema

Story = Callable[..., list[Record]]


def keep(journal: SQLiteJournal, records: list[Record]) -> None:
    """Write a run as a whole, and give it back."""
    claim = journal.claim(records[0].run_id)
    claim.write(records).result()
    claim.give_back()


def ask(path: Path, query: str) -> Any:
    """What a statement answers, in a connection of its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(query).fetchone()
    finally:
        connection.close()


def test_the_file_says_what_it_is(path: Path) -> None:
    """Which program made it, and the version of its tables; `file` can tell."""
    SQLiteJournal(path).close()
    assert ask(path, "PRAGMA application_id") == (schema.APPLICATION,)
    assert ask(path, "PRAGMA user_version") == (schema.newest(),)
    assert ask(path, "PRAGMA journal_mode") == ("wal",)


def test_a_newer_version_is_refused(path: Path, story: Story) -> None:
    """For reading too, and the file is left as it is."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    ask(path, f"PRAGMA user_version = {schema.newest() + 1}")
    content = path.read_bytes()
    with pytest.raises(JournalError, match=r"a newer Hookline.*version 2.*Upgrade hookline"):
        SQLiteJournal(path)
    assert path.read_bytes() == content


def test_an_older_version_is_brought_up_to_date(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in it stays, and it is done once."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    later = "ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT 'none'; CREATE TABLE more (x)"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, later))
    for _ in range(2):
        with SQLiteJournal(path) as journal:
            assert journal.read("r") == story()
            keep(journal, story("new"))
            journal.delete("new")
    assert ask(path, "PRAGMA user_version") == (2,)
    assert ask(path, "SELECT note FROM runs") == ("none",)


def test_a_new_file_has_the_newest_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes every step on the way."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE more (x)"))
    SQLiteJournal(path).close()
    assert ask(path, "PRAGMA user_version") == (2,)
    assert ask(path, "SELECT count(*) FROM more") == (0,)


def test_a_step_that_fails_changes_nothing(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older Hookline can still use the file."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "DROP TABLE runs; nonsense"))
        with pytest.raises(JournalError, match="cannot be opened"):
            SQLiteJournal(path)
    with SQLiteJournal(path) as journal:
        assert journal.read("r") == story()
        assert journal.check().ok


def test_an_older_version_that_cannot_be_written(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be brought up to date, so it cannot be read; the remedy says what to do."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE more (x)"))
    monkeypatch.setattr("hookline.journal.sqlite.is_writable", lambda path: False)
    with pytest.raises(JournalError, match=r"older than this Hookline.*Make it writable once"):
        SQLiteJournal(path)


def test_an_empty_file_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to read in it."""
    path.touch()
    monkeypatch.setattr("hookline.journal.sqlite.is_writable", lambda path: False)
    with pytest.raises(JournalError, match="it is empty, and it is read-only"):
        SQLiteJournal(path)


def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """One makes the tables, the others wait for it."""
    for round in range(5):
        path = tmp_path / f"{round}.db"
        failures: list[BaseException] = []
        barrier = threading.Barrier(6)

        def work(path: Path = path, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                with SQLiteJournal(path) as journal:
                    assert journal.runs() == []
            except BaseException as error:
                failures.append(error)  # noqa: B023 - joined before the next round

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_the_shell_shows_the_list(path: Path, story: Story) -> None:
    """Columns have the names of the fields."""
    with SQLiteJournal(path) as journal:
        keep(journal, story(steps=2))
    columns = "run_id, session_id, agent_id, status, prompt, records, steps"
    row = ask(path, f"SELECT {columns} FROM runs")
    assert row == ("r", "s", "agent", "completed", "hello", 16, 2)
