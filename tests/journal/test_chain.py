"""A record that is torn, missing, moved or edited is found, and so is a cut-off end; the report says which."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline.errors import JournalError
from hookline.journal import PromptSubmitted, Record, RunStarted, SQLiteJournal
from hookline.journal.tables import first_id

Story = Callable[..., list[Record]]
RUN = 1
"""The number that the first run of a file has."""


@pytest.fixture
def damaged(path: Path, story: Story) -> Callable[..., SQLiteJournal]:
    """A journal with two runs of ten records, each record a batch, after something was done to its tables."""
    with SQLiteJournal(path) as journal:
        for name in ("r", "other"):
            claim = journal.claim_sync(name)
            for record in story(name):
                claim.write([record])
            claim.give_back().result()

    def damage(*statements: tuple[str, *tuple[Any, ...]]) -> SQLiteJournal:
        connection = sqlite3.connect(path)
        with connection:
            for statement, *values in statements:
                connection.execute(statement, values)
        connection.close()
        return SQLiteJournal(path)

    return damage


def at(position: int) -> int:
    """The id of a record."""
    return first_id(RUN) + position


def swap(first: int, second: int) -> list[tuple[str, *tuple[Any, ...]]]:
    """Exchange two whole rows."""
    move = "UPDATE batches SET id = ? WHERE id = ?"
    return [(move, -1, at(first)), (move, at(first), at(second)), (move, at(second), -1)]


EDIT = "UPDATE batches SET records = replace(records, 'hello', 'hullo') WHERE id = ?"
DROP = "DELETE FROM batches WHERE id = ?"
CASES: dict[str, tuple[list[tuple[str, *tuple[Any, ...]]], str, int | None, str]] = {
    "an edited record": ([(EDIT, at(1))], "edited", 1, "record 1 was edited"),
    "a torn record": (
        [("UPDATE batches SET records = substr(records, 1, 40) WHERE id = ?", at(6))],
        "edited",
        6,
        "record 6 was edited",
    ),
    "an emptied record": (
        [("UPDATE batches SET records = '' WHERE id = ?", at(6))],
        "edited",
        6,
        "record 6 was edited",
    ),
    "bytes that are no text": (
        [("UPDATE batches SET records = CAST(x'5bff5d' AS TEXT) WHERE id = ?", at(4))],
        "edited",
        4,
        "record 4 was edited",
    ),
    "an edited link": (
        [("UPDATE batches SET links = zeroblob(32) WHERE id = ?", at(2))],
        "edited",
        2,
        "record 2 was edited",
    ),
    "a link of another kind": (
        [("UPDATE batches SET links = 'x' WHERE id = ?", at(2))],
        "edited",
        2,
        "record 2 was edited",
    ),
    "a missing record": ([(DROP, at(3))], "missing", 3, "record 3 is missing"),
    "several missing records": (
        [(DROP, at(3)), (DROP, at(4))],
        "missing",
        3,
        "records 3 to 4 are missing",
    ),
    "the first one missing": ([(DROP, at(0))], "missing", 0, "record 0 is missing"),
    "records in another order": (
        swap(2, 5),
        "re-ordered",
        2,
        "record 2 is out of order: it says it is record 5",
    ),
    "the last one cut off": (
        [(DROP, at(9))],
        "truncated",
        9,
        "its end is cut off: record 9 is missing",
    ),
    "its end cut off": (
        [("DELETE FROM batches WHERE id BETWEEN ? AND ?", at(5), at(99))],
        "truncated",
        5,
        "its end is cut off: records 5 to 9 are missing",
    ),
    "all of it cut off": (
        [("DELETE FROM batches WHERE id BETWEEN ? AND ?", at(0), at(99))],
        "truncated",
        0,
        "records 0 to 9 are missing",
    ),
    "one too many": (
        [("INSERT INTO batches SELECT ?, links, records FROM batches WHERE id = ?", at(10), at(9))],
        "added",
        10,
        "record 10 is beyond its end",
    ),
    "another ending": (
        [("UPDATE runs SET head = zeroblob(32) WHERE run_id = 'r'",)],
        "edited",
        9,
        "its last record is not the one it ended with",
    ),
    "a shorter list": (
        [("UPDATE runs SET records = 8 WHERE run_id = 'r'",)],
        "added",
        8,
        "records 8 to 9 are beyond its end",
    ),
}


@pytest.mark.parametrize(
    ("statements", "harm", "position", "words"), CASES.values(), ids=CASES.keys()
)
def test_damage_is_found_and_named(
    damaged: Callable[..., SQLiteJournal],
    story: Story,
    statements: list[Any],
    harm: str,
    position: int,
    words: str,
) -> None:
    """By `check`, and by reading the run; the other run is not affected."""
    with damaged(*statements) as journal:
        found = journal.check_sync().damage
        assert (found[0].run_id, found[0].position) == ("r", position)
        assert harm in {damage.harm for damage in found}
        assert any(words in str(damage) for damage in found)
        assert {damage.run_id for damage in found} == {"r"}
        report = journal.check_sync()
        assert not report.ok
        assert words in str(report)
        assert str(report).splitlines()[0].endswith("damaged (1 run)")
        with pytest.raises(JournalError, match=r"the journal is damaged: run 'r'.*backup"):
            journal.read_sync("r")
        assert journal.read_sync("other") == story("other")


@pytest.mark.parametrize("case", ["the last one cut off", "another ending", "one too many"])
def test_nothing_is_added_to_a_run_that_does_not_end_where_it_ended(
    damaged: Callable[..., SQLiteJournal], case: str
) -> None:
    """It cannot be claimed, and the refused claim is not kept."""
    with damaged(*CASES[case][0]) as journal:
        for _ in range(2):
            with pytest.raises(JournalError, match="run 'r' does not end with its last record"):
                journal.claim_sync("r")


def test_all_damage_is_found_not_just_the_first(damaged: Callable[..., SQLiteJournal]) -> None:
    """After a break the search continues."""
    other = first_id(2)
    with damaged((EDIT, at(1)), (DROP, at(5)), (DROP, at(9)), (EDIT, other + 1)) as journal:
        found = [
            (damage.run_id, damage.harm, damage.position) for damage in journal.check_sync().damage
        ]
    assert sorted(found) == [
        ("other", "edited", 1),
        ("r", "edited", 1),
        ("r", "missing", 5),
        ("r", "truncated", 9),
    ]


def test_a_record_that_is_there_twice(damaged: Callable[..., SQLiteJournal]) -> None:
    """Batches that overlap were not written by us."""
    merge = "UPDATE batches SET links = links || links, records = '[1,2]' WHERE id = ?"
    with damaged((merge, at(3))) as journal:
        assert any(
            "record 4 is there twice" in str(damage) for damage in journal.check_sync().damage
        )


def test_records_of_no_run(damaged: Callable[..., SQLiteJournal]) -> None:
    """A run that was taken out of the list has left its records behind."""
    with damaged(("DELETE FROM runs WHERE run_id = 'r'",)) as journal:
        assert [damage.harm for damage in journal.check_sync().damage] == ["stray", "missing"]
        assert "records of a run that is not in the list" in str(journal.check_sync())
        assert [info.run_id for info in journal.runs_sync()] == ["other"]


def test_what_belongs_to_a_damaged_run_can_be_deleted(
    damaged: Callable[..., SQLiteJournal],
) -> None:
    """Nobody can drive that run, so it starts nothing again."""
    child = ("UPDATE runs SET parent_run_id = 'r' WHERE run_id = 'other'",)
    running = ("UPDATE runs SET status = 'running' WHERE run_id = 'r'",)
    with (
        damaged(child, running) as journal,
        pytest.raises(JournalError, match=r"run 'r' \(running\) started it"),
    ):
        journal.delete_sync("other")
    with damaged((DROP, at(9))) as journal:
        assert journal.delete_sync("other") == ["other"]


@pytest.mark.parametrize("number", [-(2**31), -1, 2**31 - 1])
def test_records_far_off(damaged: Callable[..., SQLiteJournal], number: int) -> None:
    """Wherever they are."""
    with damaged(("INSERT INTO batches VALUES (?, x'', '')", number * 2**32)) as journal:
        assert [damage.harm for damage in journal.check_sync().damage] == ["stray"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "paused"),
        ("prompt", "something else"),
        ("session_id", "elsewhere"),
        ("parent_run_id", "nobody"),
        ("steps", 7),
        ("started_at", 1.0),
        ("updated_at", 1.0),
    ],
)
def test_a_list_that_says_something_else(
    damaged: Callable[..., SQLiteJournal], column: str, value: object
) -> None:
    """The chain is whole, so the run can be read; check compares the list with the records."""
    with damaged((f"UPDATE runs SET {column} = ? WHERE run_id = 'r'", value)) as journal:
        assert len(journal.read_sync("r")) == 10
        (damage,) = journal.check_sync().damage
        assert (damage.run_id, damage.harm) == ("r", "summary")
        assert f"the list says {column} is {value!r}, its records say" in str(damage)


def test_a_list_that_makes_no_sense(damaged: Callable[..., SQLiteJournal]) -> None:
    """The error says so; the report says which run it is, and that run can be deleted."""
    with damaged(("UPDATE runs SET status = 'asleep' WHERE run_id = 'r'",)) as journal:
        with pytest.raises(JournalError, match="its list of runs holds Invalid enum value"):
            journal.runs_sync()
        (damage,) = journal.check_sync().damage
        assert (damage.run_id, damage.harm) == ("r", "unreadable")
        journal.delete_sync("r")
        assert [info.run_id for info in journal.runs_sync()] == ["other"]
        assert journal.check_sync().ok


def test_a_damaged_run_can_be_deleted(damaged: Callable[..., SQLiteJournal]) -> None:
    """And then the journal is whole again."""
    with damaged((EDIT, at(1)), (DROP, at(4))) as journal:
        journal.delete_sync("r")
        assert journal.check_sync().ok


def test_a_damaged_run_is_not_exported(damaged: Callable[..., SQLiteJournal]) -> None:
    """An export is either whole or an error."""
    with damaged((EDIT, at(1))) as journal:
        with pytest.raises(JournalError, match="record 1 was edited"):
            journal.export_lines(None, io.BytesIO())
        assert journal.export_lines("other", io.BytesIO()) == 1


def test_records_of_a_newer_version(path: Path) -> None:
    """The chain is whole, and they mean nothing here: that is not damage, and the remedy says what it is."""
    with SQLiteJournal(path) as journal:
        claim = journal.claim_sync("r")
        claim.write([RunStarted("r", 0, 0.0, "agent", version=99)]).result()
        claim.give_back().result()
        with pytest.raises(JournalError, match=r"record 0 of run 'r'.*version 99.*Upgrade"):
            journal.read_sync("r")
        assert "version 99" in str(journal.check_sync())


# --- any edit at all -------------------------------------------------------------------------------


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_edit_of_a_batch_is_found(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, story: Story
) -> None:
    """Whichever byte of whichever column is changed, added or removed."""
    path = tmp_path_factory.mktemp("edit") / "journal.db"
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    with SQLiteJournal(path) as journal:
        claim = journal.claim_sync("r")
        for number, size in enumerate(sizes):
            claim.write([PromptSubmitted("r", number, 0.5, "text")] * size)
        claim.give_back().result()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT id, links, CAST(records AS BLOB) FROM batches"
        id, *columns = data.draw(st.sampled_from(connection.execute(query).fetchall()))
        which = data.draw(st.sampled_from([0, 1]))
        old = columns[which]
        where = data.draw(st.integers(0, len(old) - 1))
        new = data.draw(st.binary(max_size=3).filter(lambda new: new != old[where : where + 1]))
        columns[which] = old[:where] + new + old[where + 1 :]
        update = "UPDATE batches SET links = ?, records = CAST(? AS TEXT) WHERE id = ?"
        with connection:
            connection.execute(update, (*columns, id))
    with SQLiteJournal(path) as journal:
        assert not journal.check_sync().ok
        with pytest.raises(JournalError):
            journal.read_sync("r")


def test_damage_is_a_value() -> None:
    """So that a report can be written as JSON."""
    from hookline.journal import CheckReport, Damage

    damage = Damage("r", "missing", "record 1 is missing", 1)
    report = CheckReport("j", 1, 2, (damage,), ("page 3 is never used",))
    assert msgspec.json.decode(msgspec.json.encode(report), type=CheckReport) == report
    assert str(report).splitlines() == [
        "j: 1 run, 2 records, damaged (1 run)",
        "  run 'r': record 1 is missing",
        "  the file itself: page 3 is never used",
    ]
