"""The list of what was created and deleted: a run that is gone without having been deleted is missed."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hookline.journal import MemoryJournal, Record, SQLiteJournal
from hookline.sessions import Sessions

Story = Callable[..., list[Record]]
GONE = (
    "DELETE FROM batches WHERE id >> 32 IN (SELECT id FROM runs WHERE run_id = '{0}')",
    "DELETE FROM runs WHERE run_id = '{0}'",
)


def keep(journal: MemoryJournal | SQLiteJournal, records: list[Record]) -> None:
    """Write a run as a whole, and give it back."""
    claim = journal.claim_sync(records[0].run_id)
    claim.write(records).result()
    claim.give_back().result()


@pytest.fixture
def made(path: Path, story: Story) -> Path:
    """A journal with a run, its child and a session."""
    with SQLiteJournal(path) as journal:
        keep(journal, story("above"))
        keep(journal, story("child", parent="above"))
        Sessions(journal).create_sync(id="talk")
    path.with_name("journal.db-commits").unlink()  # so that the list alone must tell
    return path


def edit(path: Path, *statements: str) -> None:
    """Change the file behind the journal's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("run_id", ["above", "child", "session/talk"])
def test_what_is_gone_is_missed(made: Path, run_id: str) -> None:
    """A run, a child and a session, also when nothing of it is left."""
    with SQLiteJournal(made) as journal:
        assert journal.check_sync().ok
    edit(made, *(statement.format(run_id) for statement in GONE))
    with SQLiteJournal(made) as journal:
        (damage,) = journal.check_sync().damage
    assert (damage.run_id, damage.harm) == (run_id, "missing")
    assert "was created and not deleted" in str(damage)


def test_what_was_deleted_is_not_missed(made: Path, story: Story) -> None:
    """And a run of the same name can follow it."""
    with SQLiteJournal(made) as journal:
        journal.delete_sync("above")
        assert journal.check_sync().ok
        keep(journal, story("above"))
        assert journal.check_sync().ok
        journal.prune_sync(keep=0, unfinished=True)
        assert journal.check_sync().ok


def test_a_run_that_nobody_created(made: Path) -> None:
    """It is reported as one too many."""
    edit(made, "DELETE FROM history WHERE number = 3")
    with SQLiteJournal(made) as journal:
        assert [damage.harm for damage in journal.check_sync().damage] == ["added"]


@pytest.mark.parametrize(
    ("statement", "harm"),
    [
        ("DELETE FROM history WHERE number = 2", "missing"),
        ("UPDATE history SET run_id = 'else' WHERE number = 2", "edited"),
        ("UPDATE history SET at = 0 WHERE number = 1", "edited"),
        ("UPDATE history SET link = zeroblob(32) WHERE number = 2", "edited"),
    ],
)
def test_an_edited_list_is_found(made: Path, statement: str, harm: str) -> None:
    """Its entries are linked."""
    edit(made, statement)
    with SQLiteJournal(made) as journal:
        assert harm in {damage.harm for damage in journal.check_sync().damage}


def test_a_list_of_any_values_is_damage_and_no_failure(path: Path, story: Story) -> None:
    """Of each column, in the entry of a run and in those of a loss that was accepted."""
    with SQLiteJournal(path) as journal:
        keep(journal, story("r", ending=None))
        keep(journal, story("above"))
    edit(path, *(each.format("above") for each in GONE), "DELETE FROM history WHERE number = 2")
    with SQLiteJournal(path, accept_loss=True) as journal:
        assert journal.check_sync().ok
        assert journal.claim_sync("r").steps_before_loss == 1
    path.with_name("journal.db-commits").unlink()
    content = path.read_bytes()
    for column in ("event", "run_id", "records", "at", "link"):
        for value in ("'x'", "x'00'", "1e308"):
            edit(path, f"UPDATE history SET {column} = {value}")
            with SQLiteJournal(path) as journal:
                assert not journal.check_sync().ok, (column, value)
                journal.claim_sync("r").give_back().result()
            path.write_bytes(content)


def test_an_import_is_listed(path: Path, story: Story) -> None:
    """Like every other run; a store in memory has the same list."""
    memory = MemoryJournal()
    keep(memory, story())
    assert memory.check_sync().ok
    file = io.BytesIO()
    memory.export_lines(None, file)
    with SQLiteJournal(path) as journal:
        journal.import_lines(io.BytesIO(file.getvalue()))
        assert journal.check_sync().ok
    edit(path, *(statement.format("r") for statement in GONE))
    with SQLiteJournal(path) as journal:
        assert not journal.check_sync().ok


def test_an_older_file_gets_a_list(made: Path) -> None:
    """Of what is in it when it is first opened."""
    edit(made, "DROP TABLE history", "DROP TABLE inbox", "DROP INDEX runs_by_earlier")
    edit(made, "ALTER TABLE runs DROP COLUMN continues", "PRAGMA user_version = 1")
    with SQLiteJournal(made) as journal:
        assert journal.check_sync().ok
    edit(made, *(statement.format("child") for statement in GONE))
    with SQLiteJournal(made) as journal:
        assert [damage.run_id for damage in journal.check_sync().damage] == ["child"]
