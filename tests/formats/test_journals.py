"""Journals that an earlier version wrote open, are whole, and say the same."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from case_world import LATER, World
from field_walk import ADDED_TO_STATES, fields_in, fields_of
from outcomes import FINISHED_CASES, UNFINISHED_CASES, exported, listed, result_of
from recorded import JOURNALS, VERSIONS, content, expected, states, unpack

from hookline import SQLiteJournal
from hookline.journal import (
    AnyRecord,
    EffectStarted,
    MemoryJournal,
    Record,
    RunQueued,
    RunReopened,
    StoredForm,
    decode,
    encode,
    story_of,
)

EVERY = [(version, name) for version in VERSIONS for name in JOURNALS]
NOT_IN_THE_DATA = {
    ("response", "provider_tool_uses"),
    ("response", "withdrawn"),
    ("hook", "is_made"),
    ("hook", "message"),
    ("taken_up", "after_loss"),
    ("InferenceResponse", "provider_tool_uses"),
    ("tool_result", "error_of"),
    ("step", "errors_of"),
    ("step_paused", "errors_of"),
    ("step_paused", "child_changes"),
    *(("run_queued", name) for name in RunQueued.__struct_fields__),
    *(("run_reopened", name) for name in RunReopened.__struct_fields__),
    *(("effect", name) for name in EffectStarted.__struct_fields__),
    *ADDED_TO_STATES,
}
"""Fields that records have since the cases were written, and that no case has."""
IN_STATES_ONLY = {("PendingStep", "records")}


def lines_of(version: str, name: str) -> list[dict[str, Any]]:
    """The records of an export, as plain JSON."""
    lines = [json.loads(line) for line in content(version, f"{name}.jsonl").splitlines()]
    return [line["record"] for line in lines if "record" in line]


def with_new_fields(version: str, name: str) -> list[Any]:
    """The list of runs, in which no run of the first version continues another one."""
    runs = expected(version, f"{name}.runs")
    return [{**run, "continues": run.get("continues")} if "run_id" in run else run for run in runs]


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_a_journal_opens_and_is_whole(version: str, name: str, tmp_path: Path) -> None:
    """The check finds no damage, and the list of runs is the same."""
    with SQLiteJournal(unpack(version, f"{name}.db", tmp_path)) as journal:
        report = journal.check_sync()
        assert report.ok, report
        assert report.records == len(lines_of(version, name))
        assert json.loads(json.dumps(listed(journal))) == with_new_fields(version, name)


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_a_journal_exports_and_imports_the_same_lines(
    version: str, name: str, tmp_path: Path
) -> None:
    """Nothing is lost on the way, the hash chain included."""
    lines = content(version, f"{name}.jsonl")
    with SQLiteJournal(unpack(version, f"{name}.db", tmp_path)) as journal:
        assert exported(journal).encode() == lines
    with SQLiteJournal(tmp_path / "new.db") as journal:
        journal.import_lines(io.BytesIO(lines))
        assert journal.check_sync().ok
        assert exported(journal).encode() == lines


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_every_record_is_read_and_written_as_it_was(
    version: str, name: str, tmp_path: Path
) -> None:
    """Byte for byte: the hash chain of a journal goes over these bytes. An error is not repeated any more."""
    written = [
        line for line in content(version, f"{name}.jsonl").splitlines() if b'"record":' in line
    ]
    for line in written:
        body = line.partition(b'"record":')[2][:-1]
        assert encode(decode(body)) == body
    with SQLiteJournal(unpack(version, f"{name}.db", tmp_path)) as journal:
        found = [
            json.loads(line)
            for run_id in dict.fromkeys(line["run_id"] for line in lines_of(version, name))
            for line in stored(version, journal.read_sync(run_id))
        ]
    pairs = list(zip(found, lines_of(version, name), strict=True))
    assert [new for new, _ in pairs if not refers(new)] == [
        old for new, old in pairs if not refers(new)
    ]


def refers(line: dict[str, Any]) -> bool:
    """Whether it names the record that has its error."""
    return "error_of" in line or "errors_of" in line


def stored(version: str, records: list[Record]) -> list[bytes]:
    """The records of a run as that version stores them."""
    form = StoredForm()
    return [encode(record) if version == "2026-11" else form.encode(record) for record in records]


def test_the_data_has_every_field_of_every_record() -> None:
    """So that a field that is renamed or forgotten is noticed."""
    seen = fields_in(AnyRecord, [line for each in EVERY for line in lines_of(*each)])
    assert fields_of(AnyRecord) - seen - IN_STATES_ONLY - NOT_IN_THE_DATA == set()


def test_the_records_have_every_field_that_the_data_has() -> None:
    """A reader that ignores unknown fields would drop what it no longer knows."""
    known = fields_of(AnyRecord)
    tops: dict[str, set[str]] = {}
    for each in EVERY:
        for line in lines_of(*each):
            tops.setdefault(line["type"], set()).update(line)
    for kind, fields in tops.items():
        assert fields - {"type"} <= {field for owner, field in known if owner == kind}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["finished", "unfinished"])
def test_records_add_up_to_the_saved_state(name: str, version: str, tmp_path: Path) -> None:
    """The state of a run is the same whether it was saved or is read from its journal."""
    saved = states(version)
    compared = 0
    with SQLiteJournal(unpack(version, f"{name}.db", tmp_path)) as journal:
        for info in journal.runs_sync():
            if info.run_id in saved:
                assert (
                    asyncio.run(story_of(journal.read_sync(info.run_id), journal)).state.to_json()
                    == saved[info.run_id]
                )
                compared += 1
    assert compared == len(saved.keys() & ids(version, name))


def ids(version: str, name: str) -> set[str]:
    """The runs of a journal."""
    return {line["run_id"] for line in lines_of(version, name)}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_finished_run_gives_its_result_again(version: str, tmp_path: Path) -> None:
    """`resume` of a run that is over runs nothing."""
    saved = states(version)
    async with SQLiteJournal(unpack(version, "finished.db", tmp_path)) as journal:
        for name, case in FINISHED_CASES.items():
            world = World(tmp_path, start=LATER)
            result = await case.agent(world, journal).resume(name)
            assert result.state.to_json() == saved[name]
            was = expected(version, "finished")[name]["result"]
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


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_journal_with_a_live_log_opens(version: str, tmp_path: Path) -> None:
    """A killed process leaves most of the journal in the write-ahead log."""
    path = unpack(version, "live.db", tmp_path)
    log = unpack(version, "live.db-wal", tmp_path)
    assert log.stat().st_size > path.stat().st_size
    case = UNFINISHED_CASES["killed-beside"]
    was = expected(version, "unfinished")["killed-beside"]
    world = World(tmp_path, start=LATER)
    for line in was["did"]:
        world.do(line)
    async with SQLiteJournal(path) as journal:
        assert (await journal.check()).ok
        assert result_of(await case.resume(world, journal), world) == was["resumed"]


def test_a_store_in_memory_reads_the_same_lines() -> None:
    """The export is one format for all stores."""
    for version, name in EVERY:
        journal = MemoryJournal()
        journal.import_lines(io.BytesIO(content(version, f"{name}.jsonl")))
        file = io.BytesIO()
        journal.export_lines(None, file)
        assert file.getvalue() == content(version, f"{name}.jsonl")
