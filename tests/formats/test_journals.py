"""Journals that an earlier version wrote open, are whole, and say the same."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from case_world import LATER, World
from field_walk import ADDED_TO_STATES, fields_in, fields_of
from outcomes import FINISHED_CASES, UNFINISHED_CASES, exported, listed, result_of
from recorded import JOURNALS, content, expected, states, unpack

from hookline import SQLiteJournal
from hookline.journal import AnyRecord, MemoryJournal, decode, encode, fold

VERSIONS = {("run_started", "version"), ("session_created", "version")}
"""Version 1 is not written, because it is the default."""
ADDED_SINCE = {
    ("hook", "source"),
    ("hook", "external"),
    ("hook", "traceback"),
    ("hooks", "externals"),
    ("response", "provider_tool_uses"),
    ("response", "truncated"),
    ("response", "withdrawn"),
    ("taken_up", "after_loss"),
    ("InferenceResponse", "provider_tool_uses"),
    *ADDED_TO_STATES,
}
"""Fields that records have since the data was written."""
IN_STATES_ONLY = {("PendingStep", "records")}


def lines_of(name: str) -> list[dict[str, Any]]:
    """The records of an export, as plain JSON."""
    lines = [json.loads(line) for line in content(f"{name}.jsonl").splitlines()]
    return [line["record"] for line in lines if "record" in line]


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_opens_and_is_whole(name: str, tmp_path: Path) -> None:
    """The check finds no damage, and the list of runs is the same."""
    with SQLiteJournal(unpack(f"{name}.db", tmp_path)) as journal:
        report = journal.check()
        assert report.ok, report
        assert report.records == len(lines_of(name))
        assert json.loads(json.dumps(listed(journal))) == expected(f"{name}.runs")


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_exports_and_imports_the_same_lines(name: str, tmp_path: Path) -> None:
    """Nothing is lost on the way, the hash chain included."""
    lines = content(f"{name}.jsonl")
    with SQLiteJournal(unpack(f"{name}.db", tmp_path)) as journal:
        assert exported(journal).encode() == lines
    with SQLiteJournal(tmp_path / "new.db") as journal:
        journal.import_lines(io.BytesIO(lines))
        assert journal.check().ok
        assert exported(journal).encode() == lines


@pytest.mark.parametrize("name", JOURNALS)
def test_every_record_is_read_and_written_as_it_was(name: str, tmp_path: Path) -> None:
    """Byte for byte: the hash chain of a journal goes over these bytes."""
    written = [line for line in content(f"{name}.jsonl").splitlines() if b'"record":' in line]
    for line in written:
        body = line.partition(b'"record":')[2][:-1]
        assert encode(decode(body)) == body
    with SQLiteJournal(unpack(f"{name}.db", tmp_path)) as journal:
        found = [
            json.loads(encode(record))
            for run_id in dict.fromkeys(line["run_id"] for line in lines_of(name))
            for record in journal.read(run_id)
        ]
        assert found == lines_of(name)


def test_the_data_has_every_field_of_every_record() -> None:
    """So that a field that is renamed or forgotten is noticed."""
    seen = fields_in(AnyRecord, [line for name in JOURNALS for line in lines_of(name)])
    assert fields_of(AnyRecord) - seen - VERSIONS - IN_STATES_ONLY - ADDED_SINCE == set()


def test_the_records_have_every_field_that_the_data_has() -> None:
    """A reader that ignores unknown fields would drop what it no longer knows."""
    known = fields_of(AnyRecord)
    tops: dict[str, set[str]] = {}
    for name in JOURNALS:
        for line in lines_of(name):
            tops.setdefault(line["type"], set()).update(line)
    for kind, fields in tops.items():
        assert fields - {"type"} <= {field for owner, field in known if owner == kind}


@pytest.mark.parametrize("name", ["finished", "unfinished"])
def test_records_add_up_to_the_saved_state(name: str, tmp_path: Path) -> None:
    """The state of a run is the same whether it was saved or is read from its journal."""
    saved = states()
    compared = 0
    with SQLiteJournal(unpack(f"{name}.db", tmp_path)) as journal:
        for info in journal.runs():
            if info.run_id in saved:
                assert fold(journal.read(info.run_id)).state.to_json() == saved[info.run_id]
                compared += 1
    assert compared == len(saved.keys() & (FINISHED_CASES | UNFINISHED_CASES).keys() & ids(name))


def ids(name: str) -> set[str]:
    """The runs of a journal."""
    return {line["run_id"] for line in lines_of(name)}


async def test_a_finished_run_gives_its_result_again(tmp_path: Path) -> None:
    """`resume` of a run that is over runs nothing."""
    saved = states()
    with SQLiteJournal(unpack("finished.db", tmp_path)) as journal:
        for name, case in FINISHED_CASES.items():
            world = World(tmp_path, start=LATER)
            result = await case.agent(world, journal).resume(name)
            assert result.state.to_json() == saved[name]
            was = expected("finished")[name]["result"]
            now = result_of(result, world)
            for key in (
                "status",
                "stop_reason",
                "text",
                "steps",
                "tokens",
                "tool_calls",
            ):
                assert now[key] == was[key], (name, key)
            assert now["did"] == []


async def test_a_journal_with_a_live_log_opens(tmp_path: Path) -> None:
    """A killed process leaves most of the journal in the write-ahead log."""
    path = unpack("live.db", tmp_path)
    log = unpack("live.db-wal", tmp_path)
    assert log.stat().st_size > path.stat().st_size
    case = UNFINISHED_CASES["killed-beside"]
    was = expected("unfinished")["killed-beside"]
    world = World(tmp_path, start=LATER)
    for line in was["did"]:
        world.do(line)
    with SQLiteJournal(path) as journal:
        assert journal.check().ok
        assert result_of(await case.resume(world, journal), world) == was["resumed"]


def test_a_store_in_memory_reads_the_same_lines() -> None:
    """The export is one format for all stores."""
    for name in JOURNALS:
        journal = MemoryJournal()
        journal.import_lines(io.BytesIO(content(f"{name}.jsonl")))
        file = io.BytesIO()
        journal.export_lines(None, file)
        assert file.getvalue() == content(f"{name}.jsonl")
