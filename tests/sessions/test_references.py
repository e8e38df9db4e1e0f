"""A run of a session refers to the run before it, and everything that reads it follows the reference."""

from __future__ import annotations

import asyncio
import io
import itertools
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hookline
from hookline import Agent, AgentBuilder, AgentState, Decision, HookOutcome, SQLiteJournal, tool
from hookline.errors import JournalError, SessionError, UnknownRunError, UsageError
from hookline.journal import (
    EarlierRun,
    JournalStore,
    MemoryJournal,
    PromptSubmitted,
    RunQueued,
    RunStarted,
    SessionRunAdded,
    fold,
    story_of,
)
from hookline.journal.record import start_of
from hookline.journal.session import stream_of
from hookline.journal.sqlite import JournalFile
from hookline.journal.writer import Writer
from hookline.playback import backtest
from hookline.sessions import Sessions
from hookline.state import RunStatus
from hookline.testing import FakeClock, ScriptedDriver, call, say


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def builder(*turns: Any) -> AgentBuilder:
    """An agent that pays when somebody says yes, and notes things in the state."""
    return (
        AgentBuilder()
        .with_driver(ScriptedDriver(turns))
        .with_tools(pay)
        .on_before_tool_use(
            lambda ctx: HookOutcome.ask("sure?"), matcher="pay", name="cashier", tier="policy"
        )
        .on_prompt_submit(lambda ctx: ctx.with_metadata("said", ctx.prompt), name="notes")
        .on_session_end(lambda ctx: ctx.with_metadata("ended", ctx.source), name="end")
    )


def agent(journal: JournalStore, *turns: Any) -> Agent:
    """The same, with this journal."""
    return builder(*turns).with_journal(journal).build()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for a journal."""
    return tmp_path / "runs.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SQLiteJournal]:
    """A journal with a session of three runs."""
    with SQLiteJournal(path) as journal:
        session = Sessions(journal).create_sync(id="s")
        for number in (1, 2, 3):
            session.run_sync(agent(journal, say(f"answer {number}")), f"prompt {number}")
        yield journal


def started(journal: JournalStore, run_id: str) -> RunStarted:
    """How a run began."""
    first = journal.read_sync(run_id)[0]
    assert isinstance(first, RunStarted)
    return first


def edit(path: Path, statement: str) -> None:
    """Change the file behind everybody's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def test_a_run_names_the_run_before_it(journal: SQLiteJournal) -> None:
    """Its id, its number of records and the head of its chain; there is no copy."""
    second = started(journal, "s-2")
    assert second.initial is None
    assert second.continues == journal.refer_sync("s-1")
    assert second.continues is not None
    assert second.continues.records == len(journal.read_sync("s-1"))
    assert [info.continues for info in journal.runs_sync()] == ["s-2", "s-1", None]


def test_a_session_stores_each_text_once(journal: SQLiteJournal, path: Path) -> None:
    """A prompt is in its own run, and in no later one."""
    for number in (1, 2, 3):
        for run in (1, 2, 3):
            told = str(journal.read_sync(f"s-{run}"))
            assert (f"prompt {number}" in told) is (number == run)


def test_the_state_is_the_same_in_another_process(journal: SQLiteJournal, path: Path) -> None:
    """Folded from the first run on."""
    session = Sessions(journal).get_sync("s")
    with SQLiteJournal(path) as other:
        state = Sessions(other).get_sync("s").state
    assert state == session.state
    texts = [message.text for message in state.messages]
    assert texts == ["prompt 1", "answer 1", "prompt 2", "answer 2", "prompt 3", "answer 3"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.text("ab", max_size=3)),
        st.tuples(st.just("pay"), st.integers(1, 3)),
        st.tuples(st.just("close"), st.text("ab", max_size=3)),
        st.tuples(st.just("rewind"), st.integers(0, 9)),
        st.tuples(st.just("clear"), st.none()),
    ),
    max_size=8,
)


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_the_folded_state_is_the_state_that_the_session_had(
    steps: list[tuple[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Messages, metadata, steps, usage, counters and remembered answers, after whatever was done with it."""
    path = tmp_path_factory.mktemp("session") / "runs.db"
    with SQLiteJournal(path) as journal:
        session = Sessions(journal, clock=FakeClock()).create_sync(id="s")
        for kind, value in steps:
            state = None
            if kind == "say":
                state = session.run_sync(agent(journal, say(value)), f"say {value}").state
            elif kind == "pay":
                turns = (call("pay", amount=value), say("done"))
                result = session.run_sync(agent(journal, *turns), f"pay {value}")
                if result.status is RunStatus.PAUSED:
                    answers = {each.id: Decision.allow(remember=True) for each in result.pending}
                    result = session.resume_run_sync(agent(journal, say("done")), answers)
                state = result.state
            else:
                change(session, journal, kind, value)
            had = session.state if state is None else state
            with SQLiteJournal(path) as other:
                assert Sessions(other).get_sync("s").state.to_json() == had.to_json()
        assert journal.check_sync().ok
        for info in journal.runs_sync():
            with SQLiteJournal(path) as other:
                whole = asyncio.run(story_of(other.read_sync(info.run_id), other))
            assert (
                whole.state == asyncio.run(story_of(journal.read_sync(info.run_id), journal)).state
            )


def change(session: hookline.Session, journal: JournalStore, kind: str, value: Any) -> None:
    """What can be done with a session between two runs."""
    import asyncio

    if kind == "close":
        asyncio.run(session.close(agent(journal), reason=value))
    elif kind == "clear":
        session.clear_sync()
    else:
        try:
            session.rewind_sync(to=value)
        except SessionError as error:
            assert "there is no step" in str(error)  # noqa: PT017 - either is right


def test_a_thousand_runs_are_folded() -> None:
    """One after the other: the depth of the stack does not grow with them. They are exported together."""
    journal = MemoryJournal()
    count = sys.getrecursionlimit() + 50
    earlier: EarlierRun | None = None
    for number in range(count):
        run_id = f"r{number}"
        claim = journal.claim_sync(run_id)
        begun = RunStarted(run_id, 0, number, "a", "s", version=2, continues=earlier)
        claim.write([begun, PromptSubmitted(run_id, 1, number, str(number))])
        claim.give_back().result()
        earlier = journal.refer_sync(run_id)
    file = io.BytesIO()
    journal.export_lines(f"r{count - 1}", file)
    other = MemoryJournal()
    assert len(other.import_lines(io.BytesIO(file.getvalue()))) == count
    assert (
        len(asyncio.run(story_of(other.read_sync(f"r{count - 1}"), other)).state.messages) == count
    )
    assert other.check_sync().ok
    assert len(other.delete_sync("r0", with_later=True)) == count


def test_without_its_journal_a_run_cannot_be_folded(journal: SQLiteJournal) -> None:
    """The error says where the rest is."""
    with pytest.raises(
        JournalError, match=r"'s-2' continues run 's-1'.*story_of\(records, journal\)"
    ):
        fold(journal.read_sync("s-2"))


# --- replay, back-test, export --------------------------------------------------------------------------


async def test_replay_and_back_test_follow_the_reference(journal: SQLiteJournal) -> None:
    """The model is shown the whole conversation; also from records in hand, if the earlier runs are among them."""
    replayed = await hookline.replay(journal, "s-3", agent(journal))
    assert replayed.identical, replayed
    assert len(replayed.result.state.messages) == 6
    assert (await backtest(journal, agent(journal), runs=["s-3"])).exit_code == 0
    every = [await journal.read(f"s-{number}") for number in (1, 2, 3)]
    assert (await hookline.replay(itertools.chain(*every), "s-3", agent(journal))).identical
    with pytest.raises(UnknownRunError, match="begins in run 's-2', which is not among"):
        await hookline.replay(every[2], "s-3", agent(journal))


def test_an_export_has_the_runs_it_refers_to(journal: SQLiteJournal) -> None:
    """One run is exported with those before it, and is whole where it is imported."""
    file = io.BytesIO()
    assert journal.export_lines("s-2", file) == 2
    other = MemoryJournal()
    assert other.import_lines(io.BytesIO(file.getvalue())) == ["s-1", "s-2"]
    assert other.check_sync().ok
    assert len(asyncio.run(story_of(other.read_sync("s-2"), other)).state.messages) == 4


def test_an_import_without_the_earlier_run_is_refused(journal: SQLiteJournal) -> None:
    """Unless that run is in the journal already."""
    file = io.BytesIO()
    journal.export_lines("s-2", file)
    head, *lines = file.getvalue().splitlines(keepends=True)
    second = next(place for place, line in enumerate(lines) if line.startswith(b'{"run":"s-2"'))
    head = head.replace(b'"runs":2', b'"runs":1')
    other = MemoryJournal()
    with pytest.raises(
        JournalError, match="'s-2' cannot be imported: its conversation begins in run 's-1'"
    ):
        other.import_lines(io.BytesIO(head + b"".join(lines[second:])))
    assert other.runs_sync() == []
    other.import_lines(io.BytesIO(head + b"".join(lines[:second])))
    other.import_lines(io.BytesIO(head + b"".join(lines[second:])))
    assert other.check_sync().ok


def test_an_import_whose_earlier_run_is_deleted_meanwhile_is_refused(
    journal: SQLiteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process deletes it after the file was read."""
    file = io.BytesIO()
    journal.export_lines("s-2", file)
    head, *lines = file.getvalue().splitlines(keepends=True)
    second = next(place for place, line in enumerate(lines) if line.startswith(b'{"run":"s-2"'))
    head = head.replace(b'"runs":2', b'"runs":1')
    with SQLiteJournal(tmp_path / "other.db") as other, SQLiteJournal(other.path) as deleting:
        other.import_lines(io.BytesIO(head + b"".join(lines[:second])))
        exclusively = Writer.run_exclusively

        def delete_first(self: Writer, work: Any) -> Any:
            monkeypatch.setattr(Writer, "run_exclusively", exclusively)
            deleting.delete_sync("s-1")
            return exclusively(self, work)

        monkeypatch.setattr(Writer, "run_exclusively", delete_first)
        with pytest.raises(JournalError, match="its conversation begins in run 's-1'"):
            other.import_lines(io.BytesIO(head + b"".join(lines[second:])))
        assert other.check_sync().ok


# --- damage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM runs WHERE run_id = 's-1'", "records are not in the journal"),
        ("UPDATE runs SET run_id = 's-x' WHERE run_id = 's-1'", "records are not in the journal"),
    ],
)
def test_a_missing_earlier_run_is_damage(
    journal: SQLiteJournal, path: Path, statement: str, words: str
) -> None:
    """Whoever needs it gets an error that names it, and the check finds it."""
    journal.close_sync()
    edit(path, statement)
    with SQLiteJournal(path) as other:
        with pytest.raises(
            JournalError,
            match=f"damaged: its conversation begins in run 's-1', of which .* {words}",
        ):
            Sessions(other).get_sync("s").state  # noqa: B018 - it is read
        with pytest.raises(JournalError, match=r"damaged|is lost"):
            Sessions(other).get_sync("s").run_sync(agent(other, say("more")), "more")
        assert any("begins in run 's-1'" in str(each) for each in other.check_sync().damage)


def test_another_head_is_damage(journal: SQLiteJournal, path: Path) -> None:
    """A run that was written anew with other content is not the one that was continued."""
    journal.close_sync()
    edit(path, "DELETE FROM batches WHERE id >> 32 = (SELECT id FROM runs WHERE run_id = 's-1')")
    edit(path, "DELETE FROM runs WHERE run_id = 's-1'")
    with SQLiteJournal(path, accept_loss=True) as other:
        agent(other, say("something else")).run_sync("prompt 1", run_id="s-1")
    with SQLiteJournal(path) as other:
        with pytest.raises(JournalError, match="run 's-1', which is not what it was after"):
            Sessions(other).get_sync("s").state  # noqa: B018 - it is read
        assert "s-2" in [each.run_id for each in other.check_sync().damage]
        for run_id in ("s-2", "s-3", None):
            with pytest.raises(JournalError, match=r"'s-2': .*run 's-1', which is not what it was"):
                other.export_lines(run_id, io.BytesIO())


def test_an_export_does_not_follow_a_damaged_list(journal: SQLiteJournal, path: Path) -> None:
    """The earlier run would be left out."""
    journal.close_sync()
    edit(path, "UPDATE runs SET continues = NULL WHERE run_id = 's-2'")
    with (
        SQLiteJournal(path) as other,
        pytest.raises(JournalError, match="damaged: run 's-2': the list says that it continues"),
    ):
        other.export_lines("s-2", io.BytesIO())


def test_a_circle_is_refused() -> None:
    """Records in hand have no links, so anything may be in them."""
    one = RunStarted("a", 0, 0.0, continues=EarlierRun("b", 1, "x"))
    two = RunStarted("b", 0, 0.0, continues=EarlierRun("a", 1, "y"))

    class Circle:
        async def read_earlier(self, earlier: EarlierRun) -> list[Any]:
            return [two if earlier.run_id == "b" else one]

    with pytest.raises(JournalError, match="does not begin with the start of a run"):
        asyncio.run(story_of([one], Circle()))


# --- deleting -------------------------------------------------------------------------------------------


def test_a_run_that_others_continue_is_not_deleted_alone(journal: SQLiteJournal) -> None:
    """The error names them; with_later deletes them too."""
    with pytest.raises(
        JournalError, match=r"'s-1' cannot be deleted alone: 's-2' continues it.*with_later=True"
    ):
        journal.delete_sync("s-1")
    assert len(journal.runs_sync()) == 3
    assert sorted(journal.delete_sync("s-2", with_later=True)) == ["s-2", "s-3"]
    assert [info.run_id for info in journal.runs_sync()] == ["s-1"]
    assert journal.check_sync().ok


def test_a_session_is_deleted_with_its_runs(journal: SQLiteJournal) -> None:
    """Its runs refer to nothing but each other, so that is no obstacle."""
    Sessions(journal).get_sync("s").delete_sync()
    assert journal.runs_sync() == []


def test_prune_keeps_what_a_kept_run_continues() -> None:
    """However old it is. When the later run goes, both go."""
    journal = MemoryJournal()
    clock = FakeClock()

    def run(run_id: str, state: AgentState | None = None) -> AgentState:
        clock.advance(100)
        made = builder(say("a")).with_clock(clock).with_journal(journal).build()
        return made.run_sync("go", run_id=run_id, state=state).state

    state = run("old")
    run("other")
    run("later", state)
    assert started(journal, "later").continues == journal.refer_sync("old")
    assert journal.prune_sync(keep=1) == ["other"]
    assert sorted(journal.prune_sync(keep=0)) == ["later", "old"]


def test_prune_keeps_what_a_run_continues_that_begins_meanwhile(
    journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins after the runs to delete were chosen. What nobody continues is deleted all the same."""
    state = agent(journal, say("a")).run_sync("go", run_id="old").state
    agent(journal, say("a")).run_sync("go", run_id="other")
    remove = JournalFile._remove

    def begin_and_remove(self: JournalFile, run_ids: list[str]) -> None:
        monkeypatch.setattr(JournalFile, "_remove", remove)
        later = agent(journal, say("b"))
        beginning = threading.Thread(
            target=later.run_sync, args=("go",), kwargs={"run_id": "later", "state": state}
        )
        beginning.start()
        beginning.join()
        remove(self, run_ids)

    monkeypatch.setattr(JournalFile, "_remove", begin_and_remove)
    gone = journal.prune_sync(keep=0, older_than=0)
    assert "other" in gone
    assert sorted(info.run_id for info in journal.runs_sync()) == ["later", "old"]
    assert journal.check_sync().ok


# --- states that a caller hands over ---------------------------------------------------------------------


def test_the_end_of_a_recorded_run_is_referred_to(path: Path) -> None:
    """Also with other metadata; a state of another kind is copied."""
    with SQLiteJournal(path) as journal:
        state = agent(journal, say("a")).run_sync("one", run_id="r").state
        agent(journal, say("b")).run_sync("two", run_id="same", state=state)
        noted = state.with_metadata("note", [1]).without_metadata("said")
        changed = agent(journal, say("b")).run_sync("two", run_id="noted", state=noted)
        other = state.with_user_message("And?")
        agent(journal, say("b")).run_sync("two", run_id="copied", state=other)
        elsewhere = agent(MemoryJournal(), say("a")).run_sync("one", run_id="gone").state
        agent(journal, say("b")).run_sync("two", run_id="foreign", state=elsewhere)
        assert started(journal, "same").continues == journal.refer_sync("r")
        assert started(journal, "noted").continues == journal.refer_sync("r")
        assert started(journal, "copied").initial is not None
        assert started(journal, "foreign").initial is not None
    with SQLiteJournal(path) as other_process:
        assert (
            asyncio.run(story_of(other_process.read_sync("noted"), other_process)).state
            == changed.state
        )
        assert other_process.check_sync().ok


def test_a_run_outside_of_a_session_copies_it(journal: SQLiteJournal) -> None:
    """The session can be deleted, and that run is whole."""
    session = Sessions(journal).get_sync("s")
    agent(journal, say("b")).run_sync("outside", session="mine", run_id="out", state=session.state)
    assert started(journal, "out").initial is not None
    session.delete_sync()
    assert len(asyncio.run(story_of(journal.read_sync("out"), journal)).state.messages) == 8


def test_a_fork_copies_once_and_then_refers(journal: SQLiteJournal) -> None:
    """It outlives the session it came from."""
    fork = Sessions(journal).get_sync("s").fork_sync(at=2, id="f")
    for number in (1, 2):
        fork.run_sync(agent(journal, say("f")), f"fork {number}")
    Sessions(journal).get_sync("s").delete_sync()
    assert started(journal, "f-1").initial is not None
    assert started(journal, "f-2").continues == journal.refer_sync("f-1")
    assert len(Sessions(journal).get_sync("f").state.messages) == 8


def test_a_redactor_does_not_touch_the_reference(path: Path) -> None:
    """A link looks like a key. Without it the conversation would be lost."""

    def redact(value: Any) -> Any:
        text = str(value)
        return {**value, "continues": None} if isinstance(value, dict) and "head" in text else value

    with SQLiteJournal(path) as journal:
        session = Sessions(journal).create_sync(id="s")
        for number in (1, 2):
            made = builder(say("a")).with_redaction(redact).with_journal(journal).build()
            session.run_sync(made, str(number))
        assert started(journal, "s-2").continues == journal.refer_sync("s-1")


def test_a_submitted_run_refers_to_the_run_before_it(journal: SQLiteJournal) -> None:
    """Also when its process died between adding it to the session and beginning it, after the session was closed."""
    session = Sessions(journal).get_sync("s")
    session.close_sync(agent(journal))
    queued = RunQueued("q", 0, 0.0, agent_id="a", prompt="prompt 4", session="s")
    added = SessionRunAdded(stream_of("s"), session.version, 0.0, member="q", source="resume")

    async def begin() -> None:
        for record in (queued, added):
            claim = await journal.claim(record.run_id)
            await asyncio.wrap_future(claim.write([record]))
            await asyncio.wrap_future(claim.give_back())
        with pytest.raises(UsageError, match="belongs to session 's'"):
            await agent(journal, say("answer 4")).resume("q")
        await session.refresh()
        assert session.unfinished is None
        await session.begin_run(agent(journal, say("answer 4")), "q")

    asyncio.run(begin())
    assert session.runs == ("s-1", "s-2", "s-3", "q")
    assert [each.text for each in session.state.messages][-2:] == ["prompt 4", "answer 4"]
    begun = start_of(journal.read_sync("q"))
    assert begun is not None
    assert begun.continues is not None
    assert (begun.continues.run_id, len(begun.changes)) == ("s-3", 1)
    state = asyncio.run(story_of(journal.read_sync("q"), journal)).state
    assert (state.session_id, state.metadata["ended"]) == ("s", "other")
    assert {each.run_id: each.continues for each in journal.runs_sync()}["q"] == "s-3"
    assert journal.check_sync().ok
    with pytest.raises(JournalError, match="'q' continues it"):
        journal.delete_sync("s-3")
