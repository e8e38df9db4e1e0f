"""What holds for every store of journals, in memory and on disk."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import msgspec
import pytest

from hookline import RunStatus
from hookline.errors import JournalError, RunInUseError, UnknownRunError, UsageError
from hookline.journal import (
    Claim,
    HookRan,
    JournalStore,
    MemoryJournal,
    PromptSubmitted,
    Record,
    RunInfo,
    RunStarted,
    SQLiteJournal,
    StatusChanged,
    TextDelta,
    operations,
)

Store = MemoryJournal | SQLiteJournal
Story = Callable[..., list[Record]]


def keep(journal: Store, records: list[Record]) -> None:
    """Write a run as a whole, and give it back."""
    claim = journal.claim_sync(records[0].run_id)
    claim.write(records).result()
    claim.give_back().result()


def test_both_are_stores(journal: Store) -> None:
    """They have the interface that the runtime is written against."""
    store: JournalStore = journal
    claim: Claim = store.claim_sync("r")
    assert claim.run_id == "r"


def test_what_is_written_can_be_read(journal: Store, story: Story) -> None:
    """Record by record, equal to what was written, in the order it was written."""
    records = story(steps=3)
    claim = journal.claim_sync("r")
    for record in records:
        claim.write([record])
    claim.give_back().result()
    assert journal.read_sync("r") == records


def test_half_of_a_surrogate_pair_is_kept(journal: Store, story: Story) -> None:
    """In every record, and in an export; the list of runs shows a `?` for it."""
    records = story(steps=2, prompt="caf\udce9 half0-dce9")
    records.insert(-2, HookRan("r", 0, 1.0, "stop", "odd", reason="\ud83d", changes={"\ude00": 1}))
    records = [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(records)]
    keep(journal, records)
    assert journal.read_sync("r") == records
    assert journal.runs_sync()[0].prompt == "caf? half0-dce9"
    assert journal.check_sync().ok
    lines = io.BytesIO()
    journal.export_lines("r", lines)
    with MemoryJournal() as other:
        other.import_lines(lines.getvalue().splitlines())
        assert other.read_sync("r") == records


def test_a_batch_is_seen_once_it_is_committed(journal: Store, story: Story) -> None:
    """When the future is done, everyone can read what was written, also while the run is still claimed."""
    records = story()
    claim = journal.claim_sync("r")
    claim.write(records[:4]).result()
    assert journal.read_sync("r") == records[:4]
    claim.write(records[4:]).result()
    assert journal.read_sync("r") == records


def test_writing_nothing_waits_for_what_was_written_before(journal: Store, story: Story) -> None:
    """So that a caller can wait for everything it has queued; a run nothing was written to is not there."""
    claim = journal.claim_sync("r")
    claim.write([]).result()
    assert journal.runs_sync() == []
    claim.write(story())
    claim.write([]).result()
    assert journal.read_sync("r") == story()


def test_a_run_can_be_resumed(journal: Store, story: Story) -> None:
    """What is written later follows what was written before."""
    records = story(steps=2)
    for part in (records[:3], records[3:4], records[4:]):
        keep(journal, part)
    assert journal.read_sync("r") == records
    assert journal.check_sync().ok


def test_runs_do_not_mix(journal: Store, story: Story) -> None:
    """Whoever writes at the same time, each run has its own records."""
    names = [f"run-{number}" for number in range(20)]
    claims = [journal.claim_sync(name) for name in names]
    stories = [story(name, steps=number % 3) for number, name in enumerate(names)]
    written = []
    for position in range(max(map(len, stories))):
        for claim, records in zip(claims, stories, strict=True):
            written.append(claim.write(records[position : position + 1]))
    wait(written)
    assert [journal.read_sync(name) for name in names] == stories
    assert journal.check_sync().ok


def test_a_run_that_is_not_there(journal: Store) -> None:
    """The error names it and says where to look."""
    for ask in (journal.read_sync, journal.delete_sync):
        with pytest.raises(UnknownRunError, match=r"no run 'x' in the journal.*journal\.runs\(\)"):
            ask("x")


# --- the list --------------------------------------------------------------------------------------


def test_the_list_says_what_the_records_say(journal: Store, story: Story) -> None:
    """Who it was, what it was asked, how far it came, how it ended, and when."""
    keep(journal, story("r", steps=2, session="talk", parent="p", prompt="do it", at=50.0))
    (info,) = journal.runs_sync()
    assert info == RunInfo(
        run_id="r",
        session_id="talk",
        agent_id="agent",
        parent_run_id="p",
        status=RunStatus.COMPLETED,
        prompt="do it",
        records=16,
        steps=2,
        started_at=50.0,
        updated_at=65.0,
    )


def test_a_run_without_an_ending_is_running(journal: Store, story: Story) -> None:
    """Also when its process died: nobody was left to say how it ended."""
    keep(journal, story(ending=None))
    assert [info.status for info in journal.runs_sync()] == [RunStatus.RUNNING]


def test_a_paused_run_that_continues_is_running_again(journal: Store, story: Story) -> None:
    """And it is still who it was, and asked what it was first asked."""
    keep(journal, story("r", ending=RunStatus.PAUSED, session="talk"))
    assert [info.status for info in journal.runs_sync()] == [RunStatus.PAUSED]
    again = RunStarted("r", 10, 2000.0, "another", "elsewhere", resumed=True)
    keep(journal, [again, PromptSubmitted("r", 11, 2001.0, "more")])
    (info,) = journal.runs_sync()
    assert (info.status, info.session_id, info.agent_id) == (RunStatus.RUNNING, "talk", "agent")
    assert (info.prompt, info.started_at, info.updated_at) == ("hello", 1000.0, 2001.0)
    keep(journal, [StatusChanged("r", 12, 2002.0, RunStatus.STOPPED)])
    assert [info.status for info in journal.runs_sync()] == [RunStatus.STOPPED]
    assert journal.check_sync().ok


def test_the_list_shows_how_a_long_prompt_begins(journal: Store, story: Story) -> None:
    """The record has all of it."""
    prompt = "word " * 10_000
    keep(journal, story(prompt=prompt))
    (info,) = journal.runs_sync()
    assert prompt.startswith(info.prompt)
    assert 100 < len(info.prompt) < 1000
    assert journal.read_sync("r") == story(prompt=prompt)


def test_the_newest_run_comes_first(journal: Store, story: Story) -> None:
    """By when it started; of two that started at once, the one that was entered later."""
    for name, at in (("b", 20.0), ("c", 30.0), ("a", 10.0), ("also c", 30.0)):
        keep(journal, story(name, at=at))
    assert [info.run_id for info in journal.runs_sync()] == ["also c", "c", "b", "a"]
    assert [info.run_id for info in journal.runs_sync(limit=2)] == ["also c", "c"]
    assert journal.runs_sync(limit=0) == []


def test_the_list_can_be_narrowed(journal: Store, story: Story) -> None:
    """To a session, to a status, to both."""
    keep(journal, story("1", session="a"))
    keep(journal, story("2", session="b", ending=RunStatus.PAUSED))
    keep(journal, story("3", session="b"))
    assert [info.run_id for info in journal.runs_sync(session_id="b")] == ["3", "2"]
    assert [info.run_id for info in journal.runs_sync(status=RunStatus.COMPLETED)] == ["3", "1"]
    both = journal.runs_sync(session_id="b", status=RunStatus.COMPLETED)
    assert [info.run_id for info in both] == ["3"]
    assert journal.runs_sync(session_id="c") == []


# --- claims ----------------------------------------------------------------------------------------


def test_a_run_can_be_claimed_once(journal: Store) -> None:
    """A second claim is refused, in this process too, and others are not concerned."""
    claim = journal.claim_sync("r")
    with pytest.raises(RunInUseError, match=r"run 'r' is already running.*cancel it"):
        journal.claim_sync("r")
    journal.claim_sync("other").give_back().result()
    claim.give_back().result()
    journal.claim_sync("r").give_back().result()


def test_a_claim_can_be_given_back_twice(journal: Store, story: Story) -> None:
    """The second time does nothing, not even to a later holder of the run."""
    claim = journal.claim_sync("r")
    claim.give_back().result()
    mine = journal.claim_sync("r")
    claim.give_back().result()
    with pytest.raises(RunInUseError):
        journal.claim_sync("r")
    mine.write(story()).result()


def test_a_claim_that_was_given_back_is_over(journal: Store, story: Story) -> None:
    """Nothing more can be written with it."""
    claim = journal.claim_sync("r")
    claim.give_back().result()
    for records in (story(), []):
        with pytest.raises(JournalError, match=r"not claimed any more.*journal\.claim"):
            claim.write(records).result()


def test_a_claim_that_was_forgotten_is_free(journal: Store, story: Story) -> None:
    """A task that was dropped does not keep its run forever; what it queued is written."""
    journal.claim_sync("r").write(story()).result()
    gc.collect()
    claim = journal.claim_sync("r")
    assert journal.read_sync("r") == story()
    claim.give_back().result()


@pytest.mark.parametrize("name", ["", None, 7, "\ud800"])
def test_a_run_needs_a_name(journal: Store, name: object) -> None:
    """That can be written down."""
    with pytest.raises(UsageError, match="run"):
        journal.claim_sync(name)  # type: ignore[arg-type]


def test_a_name_can_be_any_text(journal: Store, story: Story) -> None:
    """Spaces, quotes, line breaks and other scripts are fine."""
    for name in ("a b", "it's; DROP TABLE runs", "r/0/call_1/1", "zwei\nZeilen", "日本", "\x00"):
        keep(journal, story(name))
        assert journal.read_sync(name) == story(name)
    assert len(journal.runs_sync()) == 6


# --- what cannot be written ------------------------------------------------------------------------


def test_what_does_not_belong_into_a_run_is_refused(journal: Store, story: Story) -> None:
    """A delta, which could not be read again, and a record of another run. After it the claim is over."""
    for record, words in (
        (TextDelta("r", 0, 0.0, "he"), "a TextDelta cannot be journalled"),
        (story("x")[0], "run 'x' cannot be written to run 'r'"),
    ):
        claim = journal.claim_sync("r")
        with pytest.raises(UsageError, match=words):
            claim.write([*story(), record]).result()
        with pytest.raises(JournalError, match=words):
            claim.write(story()).result()
        assert journal.runs_sync() == []
        claim.give_back().result()
    keep(journal, story())


def test_after_a_record_that_cannot_be_written_nothing_is(journal: Store, story: Story) -> None:
    """A journal has no holes. What was written before stays, and the run can be claimed again."""
    records = story()
    claim = journal.claim_sync("r")
    claim.write(records[:2]).result()
    bad = HookRan("r", 2, 0.0, "before_step", "hook", changes={"x": object()})
    with pytest.raises(JournalError, match=r"run 'r' cannot be written.*object.*JSON only"):
        claim.write([bad]).result()
    with pytest.raises(JournalError, match="not written any more, because a write has failed"):
        claim.write(records[2:]).result()
    claim.give_back().result()
    keep(journal, records[2:])
    assert journal.read_sync("r") == records
    assert journal.check_sync().ok


def test_half_a_character_is_written_as_what_is_left_of_it(journal: Store) -> None:
    """A record matters more than that half."""
    keep(journal, [PromptSubmitted("r", 0, 0.0, "half \ud83d of one")])
    (record,) = journal.read_sync("r")
    assert isinstance(record, PromptSubmitted)
    assert record.text.startswith("half ")
    assert journal.check_sync().ok


def test_a_large_record(journal: Store, story: Story) -> None:
    """Megabytes are fine."""
    records = story(prompt="x" * 3_000_000)
    keep(journal, records)
    assert journal.read_sync("r") == records


# --- damage and reports ----------------------------------------------------------------------------


def test_a_clean_journal_says_so(journal: Store, story: Story) -> None:
    """In one line, with what was looked at."""
    keep(journal, story("a"))
    keep(journal, story("b"))
    report = journal.check_sync()
    assert report.ok
    assert str(report).endswith(": 2 runs, 20 records, no damage")


# --- dropping --------------------------------------------------------------------------------------


@pytest.fixture
def forest(journal: Store, story: Story) -> Store:
    """A journal with an old tree of runs, a paused one, a crashed one, and new runs."""
    for name, parent, at, ending in (
        ("old", None, 10.0, RunStatus.COMPLETED),
        ("old/child", "old", 20.0, RunStatus.FAILED),
        ("old/child/child", "old/child", 30.0, RunStatus.COMPLETED),
        ("paused", None, 40.0, RunStatus.PAUSED),
        ("paused/child", "paused", 50.0, RunStatus.COMPLETED),
        ("waits", None, 60.0, RunStatus.COMPLETED),
        ("waits/child", "waits", 70.0, RunStatus.PAUSED),
        ("crashed", None, 80.0, None),
        ("new", None, 90.0, RunStatus.COMPLETED),
        ("orphan", "unknown", 95.0, RunStatus.COMPLETED),
        ("newest", None, 4e9, RunStatus.COMPLETED),
    ):
        keep(journal, story(name, parent=parent, at=at, ending=ending))
    return journal


def names(journal: Store) -> set[str]:
    """The runs that are there."""
    return {info.run_id for info in journal.runs_sync()}


def test_the_child_of_a_failed_run_is_not_deleted_alone(forest: Store) -> None:
    """A worker can take that run up again."""
    with pytest.raises(JournalError, match=r"run 'old/child' \(failed\) started it"):
        forest.delete_sync("old/child/child")
    assert "old/child/child" in names(forest)


def test_a_run_is_deleted_with_its_children(forest: Store) -> None:
    """All that descend from it, and nothing else; its name can be used again."""
    before = names(forest)
    gone = forest.delete_sync("old")
    assert set(gone) == {"old", "old/child", "old/child/child"}
    assert names(forest) == before - set(gone)
    with pytest.raises(UnknownRunError):
        forest.read_sync("old/child")
    keep(forest, [PromptSubmitted("old", 0, 0.0, "again")])
    assert len(forest.read_sync("old")) == 1
    assert forest.check_sync().ok


def test_a_run_somebody_drives_is_not_deleted(forest: Store) -> None:
    """Nor is its tree: nothing is deleted, and everything else can still be claimed."""
    claim = forest.claim_sync("old/child/child")
    before = names(forest)
    with pytest.raises(RunInUseError):
        forest.delete_sync("old")
    assert names(forest) == before
    forest.claim_sync("old").give_back().result()
    claim.give_back().result()
    forest.delete_sync("old")


def test_pruning_drops_what_is_old_and_over(forest: Store) -> None:
    """Running and paused runs stay, and so does every tree that one of them belongs to."""
    gone = forest.prune_sync(older_than=3600)
    assert set(gone) == {"old", "old/child", "old/child/child", "new", "orphan"}
    assert names(forest) == {
        "paused",
        "paused/child",
        "waits",
        "waits/child",
        "crashed",
        "newest",
    }
    assert forest.prune_sync(older_than=3600) == []
    assert forest.check_sync().ok


def test_pruning_keeps_the_newest(forest: Store) -> None:
    """So many of those that are not children, whatever their age."""
    gone = forest.prune_sync(keep=3)
    assert set(gone) == {"old", "old/child", "old/child/child"}
    assert set(forest.prune_sync(older_than=0, keep=1)) == {"new", "orphan"}
    assert "newest" in names(forest)
    assert set(forest.prune_sync(keep=0)) == {"newest"}


def test_unfinished_runs_are_pruned_when_asked_for(forest: Store) -> None:
    """But never one that somebody is driving."""
    claim = forest.claim_sync("waits/child")
    forest.prune_sync(keep=0, unfinished=True)
    assert names(forest) == {"waits", "waits/child"}
    claim.give_back().result()
    forest.prune_sync(keep=0, unfinished=True)
    assert names(forest) == set()


def test_a_run_that_is_resumed_while_pruning_stays(
    forest: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was over when it was chosen, and is paused when its turn comes."""
    journal = forest._open()
    lease = journal._lease
    meant = {"new"}

    def in_between(run_id: str) -> object:
        if run_id in meant:
            meant.clear()
            claim = journal.claim("new")
            claim.write([StatusChanged("new", 10, 100.0, RunStatus.PAUSED)]).result()
            claim.give_back().result()
        return lease(run_id)

    monkeypatch.setattr(journal, "_lease", in_between)
    assert "new" not in forest.prune_sync(keep=0)
    assert {"new", "paused"} <= names(forest)
    assert "old" not in names(forest)


@pytest.mark.parametrize(
    "wrong", [{}, {"keep": -1}, {"older_than": -1.0}, {"older_than": "1d"}, {"keep": "3"}]
)
def test_pruning_needs_a_limit(forest: Store, wrong: dict[str, Any]) -> None:
    """Nothing is dropped by mistake."""
    before = names(forest)
    with pytest.raises(UsageError):
        forest.prune_sync(**wrong)
    assert names(forest) == before


def test_a_backup_needs_a_path(forest: Store) -> None:
    """The error shows what one looks like."""
    with pytest.raises(UsageError, match=r"None is not a path.*journal.backup\(\"copy.db\"\)"):
        forest.backup_sync(None)  # type: ignore[arg-type]


def test_records_are_the_same_wherever_they_were_kept(story: Story, sqlite: SQLiteJournal) -> None:
    """To the byte: what one store exports, the other takes, and both list it alike."""
    memory = MemoryJournal()
    for store in (memory, sqlite):
        keep(store, story("a", steps=2))
        keep(store, story("b", parent="a"))
    assert memory.runs_sync() == sqlite.runs_sync()
    assert memory.read_sync("a") == sqlite.read_sync("a")
    assert [msgspec.to_builtins(record) for record in memory.read_sync("b")] == [
        msgspec.to_builtins(record) for record in sqlite.read_sync("b")
    ]


def test_many_runs_are_pruned_in_portions(
    journal: Store, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a tree that is larger than a portion, which is never divided."""
    monkeypatch.setattr(operations, "_RUNS_AT_ONCE", 3)
    parents = {
        "a": None,
        "a1": "a",
        "a2": "a",
        "a3": "a",
        "b": None,
        "b1": "b",
        "c": None,
        "d": None,
    }
    for name, parent in parents.items():
        keep(journal, story(name, parent=parent))
    assert sorted(journal.prune_sync(keep=0)) == sorted(parents)
    assert journal.runs_sync() == []
