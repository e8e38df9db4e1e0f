"""Journals as JSON Lines: nothing is lost on the way out and in, and damage is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.errors import JournalError, UnknownRunError
from hookline.journal import (
    HookRan,
    MemoryJournal,
    PromptSubmitted,
    Record,
    RunStarted,
    SQLiteJournal,
    decode,
    encode,
)
from hookline.journal.chain import anchor, link

Store = MemoryJournal | SQLiteJournal
Story = Callable[..., list[Record]]


def keep(journal: Store, records: list[Record]) -> None:
    """Write a run as a whole, and give it back."""
    claim = journal.claim_sync(records[0].run_id)
    claim.write(records).result()
    claim.give_back().result()


def exported(journal: Store, run_id: str | None = None) -> bytes:
    """What a journal exports."""
    lines = io.BytesIO()
    journal.export_lines(run_id, lines)
    return lines.getvalue()


@pytest.fixture
def family(journal: Store, story: Story) -> Store:
    """A journal with a run that has a child, and another run."""
    keep(journal, story("a", at=1.0))
    keep(journal, story("b", at=2.0))
    keep(journal, story("a/child", parent="a", at=3.0))
    return journal


@pytest.fixture
def lines(story: Story) -> list[bytes]:
    """The lines of two runs of ten records."""
    journal = MemoryJournal()
    keep(journal, story("a", at=1.0))
    keep(journal, story("b", at=2.0))
    return exported(journal).splitlines(keepends=True)


def load(lines: list[bytes], journal: Store | None = None) -> list[str]:
    """Import lines, into a new journal if none is given."""
    return (journal or MemoryJournal()).import_lines(io.BytesIO(b"".join(lines)))


def test_nothing_is_lost_on_the_way(family: Store, tmp_path: Path) -> None:
    """Into a store of either kind, and out again to the byte."""
    lines = exported(family)
    with SQLiteJournal(tmp_path / "other.db") as sqlite:
        for other in (MemoryJournal(), sqlite):
            assert other.import_lines(io.BytesIO(lines)) == ["a", "b", "a/child"]
            assert other.runs_sync() == family.runs_sync()
            assert other.read_sync("a") == family.read_sync("a")
            assert other.check_sync().ok
            assert exported(other) == lines


def test_an_imported_run_can_continue(family: Store, story: Story) -> None:
    """It is like one that was written here."""
    other = MemoryJournal()
    other.import_lines(io.BytesIO(exported(family)))
    keep(other, [PromptSubmitted("b", 10, 9.0, "more")])
    assert len(other.read_sync("b")) == 11
    assert other.check_sync().ok


def test_a_run_goes_with_its_children(family: Store) -> None:
    """One run, and all that descend from it, parents first."""
    other = MemoryJournal()
    assert other.import_lines(io.BytesIO(exported(family, "a"))) == ["a", "a/child"]
    with pytest.raises(UnknownRunError):
        exported(family, "nobody")


def test_a_run_with_the_id_of_a_child_is_a_child(story: Story) -> None:
    """Without a run above it, it could become the result of a call that it knows nothing of."""
    journal = MemoryJournal()
    keep(journal, story("a/child", at=1.0))
    with pytest.raises(JournalError, match=r"'a/child' cannot be the id of a run.*Nothing was"):
        load([exported(journal)])


def test_each_line_is_json_and_has_the_record(family: Store) -> None:
    """For other programs to read."""
    first, run, record, *_ = exported(family).splitlines()
    assert json.loads(first) == {"format": "hookline.journal", "version": 1, "runs": 3}
    assert json.loads(run).keys() == {"run", "records", "head"}
    assert decode(json.dumps(json.loads(record)["record"])) == family.read_sync("a")[0]


def test_an_empty_journal_is_one_line(journal: Store) -> None:
    """And can be imported."""
    assert len(exported(journal).splitlines()) == 1
    assert load([exported(journal)]) == []


def test_line_endings_do_not_matter(lines: list[bytes]) -> None:
    """A file that went through another system, or got a blank line at its end, is as good."""
    assert load([line.replace(b"\n", b"\r\n") for line in lines] + [b"\r\n"]) == ["a", "b"]


@pytest.mark.parametrize("where", [0, 1, 2, 5, 12, 13])
def test_a_line_that_is_no_json_is_named(lines: list[bytes], where: int) -> None:
    """By its number."""
    lines[where] = lines[where][:20] + b"\n"
    with pytest.raises(JournalError, match=rf"^line {where + 1}: this is not .*Nothing was"):
        load(lines)


def test_an_edited_record_is_named(lines: list[bytes]) -> None:
    """The first line that does not fit."""
    lines[3] = lines[3].replace(b"hello", b"hullo")
    with pytest.raises(JournalError, match=r"run 'a': record 1 was edited"):
        load(lines)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda lines: lines.pop(5), "line 12: this is not record 9 of run 'a'"),
        (lambda lines: lines.insert(5, lines[4]), "record 3 is out of order"),
        (lambda lines: lines.insert(5, lines.pop(4)), "record 2 is out of order"),
        (lambda lines: lines.insert(2, lines[14]), "record 0 is out of order"),
    ],
    ids=["missing", "twice", "moved", "from another run"],
)
def test_lines_that_do_not_follow_each_other(
    lines: list[bytes], edit: Callable[[list[bytes]], object], words: str
) -> None:
    """The first line that does not fit."""
    edit(lines)
    with pytest.raises(JournalError, match=words):
        load(lines)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 12, 13, 20])
def test_a_file_that_ends_too_early(lines: list[bytes], count: int) -> None:
    """Between runs or within one."""
    with pytest.raises(JournalError, match=r"the file ends where .* is expected"):
        load(lines[:count])


def test_a_file_that_continues(lines: list[bytes]) -> None:
    """More than the first line announces."""
    with pytest.raises(JournalError, match=r"^line 24: there is more than the 2 runs"):
        load([*lines, lines[1]])


def test_a_run_that_does_not_end_as_announced(lines: list[bytes]) -> None:
    """Its line says how its chain ends."""
    run = json.loads(lines[1])
    lines[1] = json.dumps({**run, "records": 9}).encode() + b"\n"
    with pytest.raises(JournalError, match="its last record is not the one"):
        load(lines)
    lines[1] = json.dumps({**run, "records": 0}).encode() + b"\n"
    with pytest.raises(JournalError, match="Nothing was imported"):
        load(lines)


def test_a_run_that_is_there_already(journal: Store, lines: list[bytes], story: Story) -> None:
    """It is not written over, and nothing else is imported either."""
    keep(journal, story("b"))
    with pytest.raises(JournalError, match=r"run 'b' is in this journal already.*Delete"):
        load(lines, journal)
    assert [info.run_id for info in journal.runs_sync()] == ["b"]


def test_a_run_that_is_in_the_file_twice(lines: list[bytes]) -> None:
    """Nothing is imported."""
    lines[0] = lines[0].replace(b'"runs":2', b'"runs":3')
    with pytest.raises(
        JournalError, match="run 'a' is in this journal already, or twice in the file"
    ):
        load(lines + lines[1:12])


def test_damage_in_the_last_run_leaves_out_all(journal: Store, lines: list[bytes]) -> None:
    """All or nothing."""
    lines[-1] = lines[-1].replace(b"done", b"DONE")
    with pytest.raises(JournalError, match="run 'b': record 9 was edited"):
        load(lines, journal)
    assert journal.runs_sync() == []
    load([*lines[:-1], lines[-1].replace(b"DONE", b"done")], journal)
    assert len(journal.runs_sync()) == 2


def test_a_newer_or_another_format(lines: list[bytes]) -> None:
    """Each is named for what it is."""
    newer = lines[0].replace(b'"version":1', b'"version":2')
    with pytest.raises(JournalError, match=r"^this export has version 2.*Upgrade"):
        load([newer, *lines[1:]])
    other = lines[0].replace(b"hookline.journal", b"hookline.state")
    with pytest.raises(JournalError, match=r"^this is a 'hookline\.state' file"):
        load([other, *lines[1:]])


def test_a_record_of_another_run() -> None:
    """A chain can be made of anything; the records have to be the run's own."""
    body = encode(PromptSubmitted("a", 0, 0.0, "hello"))
    head = link(anchor("b"), body).hex()
    lines = [
        json.dumps({"format": "hookline.journal", "version": 1, "runs": 1}),
        json.dumps({"run": "b", "records": 1, "head": head}),
        f'{{"link":"{head}","record":{body.decode()}}}',
    ]
    with pytest.raises(JournalError, match="a record of run 'a' cannot be written to run 'b'"):
        load([line.encode() + b"\n" for line in lines])


@pytest.mark.parametrize(
    ("run_id", "kept", "words"),
    [
        (
            "session/s",
            slice(None),
            "run 'session/s' does not begin as",
        ),
        ("", slice(None), "run '' does not begin as"),
        ("b", slice(2, None), "run 'b' does not begin as"),
    ],
)
def test_records_that_are_linked_and_make_no_run_are_refused(
    run_id: str, kept: slice, words: str, story: Story
) -> None:
    """Whoever made the file could compute a chain."""
    head, lines = anchor(run_id), []
    for record in story("b", at=1.0)[kept]:
        body = encode(msgspec.structs.replace(record, run_id=run_id))
        head = link(head, body)
        lines.append(f'{{"link":"{head.hex()}","record":{body.decode()}}}')
    first = {"format": "hookline.journal", "version": 1, "runs": 1}
    run = {"run": run_id, "records": len(lines), "head": head.hex()}
    with pytest.raises(JournalError, match=words):
        load([line.encode() + b"\n" for line in (json.dumps(first), json.dumps(run), *lines)])


TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=15)
@given(
    runs=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
        st.lists(st.tuples(TEXT, st.dictionaries(TEXT, JSON, max_size=3)), min_size=1, max_size=5),
        max_size=4,
    )
)
def test_any_journal_comes_back(
    runs: dict[str, list[tuple[str, dict[str, object]]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever the names and the records hold."""
    memory = MemoryJournal()
    for run_id, hooks in runs.items():
        records: list[Record] = [RunStarted(run_id, 0, 0.0)]
        for seq, (name, changes) in enumerate(hooks, start=1):
            records.append(HookRan(run_id, seq, float(seq), "output", name, changes=changes))
        keep(memory, records)
    lines = exported(memory)
    with SQLiteJournal(tmp_path_factory.mktemp("lines") / "journal.db") as sqlite:
        sqlite.import_lines(io.BytesIO(lines))
        assert exported(sqlite) == lines
        assert sqlite.runs_sync() == memory.runs_sync()
        assert [sqlite.read_sync(run_id) for run_id in runs] == [
            memory.read_sync(run_id) for run_id in runs
        ]
        assert sqlite.check_sync().ok
