"""In a store, the result or error of a call is written once; whoever reads gets every record whole."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    HookOutcome,
    RunStatus,
    SQLiteJournal,
    ToolContext,
    backtest,
    tool,
)
from hookline.journal import (
    CallSettled,
    ErrorRaised,
    HookRan,
    MemoryJournal,
    Record,
    StepFinished,
    StepPaused,
    StepStarted,
    StoredForm,
)
from hookline.journal.stores import LocalStore
from hookline.playback import replay
from hookline.state import (
    AssistantMessage,
    Attachment,
    CallStage,
    ErrorInfo,
    PendingCall,
    PendingStep,
    ResultStatus,
    Step,
    ToolCall,
    ToolMessage,
    ToolResult,
    tool_message,
)
from hookline.testing import ScriptedDriver, call, calls, say

LONG = "0123456789" * 500


def lines_of(records: list[Record]) -> list[bytes]:
    """Their stored form, from which they can be made again."""
    form, back = StoredForm(), StoredForm()
    lines = [form.encode(record) for record in records]
    assert [back.decode(line) for line in lines] == records
    return lines


def step_with(result: ToolResult, *messages: Any, step: int = 0) -> StepFinished:
    """A step with one call, of which this came."""
    called = ToolCall("c", "read")
    said = AssistantMessage("", (called,))
    made = Step(step, calls=(called,), results=(result,))
    return StepFinished("r", 9, 9.0, made, (said, *messages))


@pytest.mark.parametrize("limit", [None, 10, 4999])
def test_a_result_is_written_once(limit: int | None) -> None:
    """Also where the model reads only the beginning of it."""
    result = ToolResult(LONG, call_id="c", name="read", duration=0.5)
    records = [CallSettled("r", 1, 1.0, 0, result), step_with(result, tool_message(result, limit))]
    first, second = lines_of(records)
    assert LONG.encode() in first
    assert len(second) < 500


def test_files_are_written_once() -> None:
    """They are in the result and in the message."""
    picture = Attachment.from_bytes(b"\x89PNG" + bytes(5000), "image/png")
    result = ToolResult("see", call_id="c", name="read", attachments=(picture,))
    records = [CallSettled("r", 1, 1.0, 0, result), step_with(result, tool_message(result))]
    assert [picture.data.encode() in line for line in lines_of(records)] == [True, False]


def test_what_somebody_rewrote_is_written() -> None:
    """A message that is not the result's, and a result that is not the recorded one."""
    result = ToolResult("plain", call_id="c", name="read")
    other = ToolMessage("c", "read", "rewritten")
    settled = CallSettled("r", 1, 1.0, 0, result)
    assert b"rewritten" in lines_of([settled, step_with(result, other)])[1]
    changed = ToolResult("changed", call_id="c", name="read")
    assert b"changed" in lines_of([settled, step_with(changed, tool_message(changed))])[1]


def test_a_result_that_looks_like_a_reference_is_written_as_it_is() -> None:
    """Nothing but the id of a call may be all there is."""
    result = ToolResult("plain", call_id="c", name="read")
    bare = ToolResult(call_id="c")
    lines_of([CallSettled("r", 1, 1.0, 0, result), step_with(bare, ToolMessage("c", "", ""))])


def test_a_result_of_an_earlier_step_does_not_count() -> None:
    """A model may use the id of a call again."""
    result = ToolResult(LONG, call_id="c", name="read")
    records: list[Record] = [
        CallSettled("r", 1, 1.0, 0, result),
        StepStarted("r", 2, 2.0, 1),
        step_with(result, tool_message(result), step=1),
    ]
    assert LONG.encode() in lines_of(records)[2]


def test_what_a_hook_made_of_a_result_is_written_with_the_hook() -> None:
    """The result after it is the same."""
    result = ToolResult(LONG, call_id="c", name="read", metadata={"by": "hook"})
    given = {"result": LONG, "call_id": "c", "name": "read", "metadata": {"by": "hook"}}
    ran = HookRan("r", 0, 0.5, "after_tool_use", "h", call_id="c", changes={"execution": given})
    lines = lines_of([ran, CallSettled("r", 1, 1.0, 0, result)])
    assert [LONG.encode() in line for line in lines] == [True, False]
    other = CallSettled("r", 1, 1.0, 0, ToolResult("other", call_id="c", name="read"))
    assert b"other" in lines_of([ran, other])[1]


def test_an_error_is_written_once() -> None:
    """In the first record of the step that has it. One that is in no record is written."""
    failed = ErrorInfo("ValueError", LONG, "tool")
    result = ToolResult(error=failed, status=ResultStatus.ERROR, call_id="c", name="read")
    settled = CallSettled("r", 2, 1.0, 0, result)

    def step(*errors: ErrorInfo) -> StepFinished:
        made = Step(0, results=(result,), errors=errors)
        return StepFinished("r", 9, 9.0, made, (tool_message(result),))

    def places(*records: Record) -> list[bool]:
        return [LONG.encode() in line for line in lines_of(list(records))]

    raised = ErrorRaised("r", 1, 1.0, failed, step=0, call_id="c")
    withheld = ErrorRaised("r", 1, 1.0, ErrorInfo("ValueError", "", "tool"), step=0, call_id="c")
    assert places(raised, settled, step(failed)) == [True, False, False]
    assert places(raised, raised, settled, step(failed, failed)) == [True, True, False, False]
    assert places(withheld, settled, step(failed)) == [False, True, False]
    assert places(raised, StepStarted("r", 2, 2.0, 1), settled) == [True, False, True]
    other = ErrorInfo("KeyError", "other", "tool")
    assert places(raised, settled, step(failed, other)) == [True, False, True]


def test_stored_errors_are_found_by_the_names_that_journals_have() -> None:
    """A field that is renamed would be ignored where it is read."""
    form, head = StoredForm(), '"run_id":"r","at":1.0'
    form.decode(f'{{"type":"error",{head},"seq":4,"error":{{"type":"E","message":"m"}}}}')
    settled = form.decode(
        f'{{"type":"tool_result",{head},"seq":5,"result":{{"status":"error","call_id":"c"}},"error_of":4}}'
    )
    step = form.decode(f'{{"type":"step",{head},"seq":6,"step":{{"index":0}},"errors_of":[4]}}')
    pending = '{"index":0,"text":"","model_calls":[],"calls":[]}'
    paused = form.decode(
        f'{{"type":"step_paused",{head},"seq":7,"pending":{pending},"errors_of":[4]}}'
    )
    error = ErrorInfo("E", "m")
    assert isinstance(settled, CallSettled)
    assert isinstance(step, StepFinished)
    assert isinstance(paused, StepPaused)
    assert paused.pending is not None
    assert (settled.result.error, step.step.errors) == (error, (error,))
    assert (paused.pending.errors, paused.errors_of, step.errors_of) == ((error,), (), ())


def test_stored_children_are_found_by_the_names_that_journals_have() -> None:
    """And by the positions of the calls, of which the first has none here."""
    form, head = StoredForm(), '"type":"step_paused","run_id":"r","at":1.0'
    calls = '{"call":{"id":"a","name":"t"},"stage":"settled"},{"call":{"id":"b","name":"t"},"stage":"suspended"%s}'
    pending = f'"pending":{{"index":0,"text":"","model_calls":[],"calls":[{calls}]}}'
    first = pending % ',"children":{"b/1":{"state":"{\\"messages\\":[1]}"}}'
    form.decode(f'{{{head},"seq":4,{first}}}')
    changes = '{"1":{"b/1":{"state":{"messages":{"1":[2]}}},"b/2":[{"state":"{}"}]}}'
    paused = form.decode(f'{{{head},"seq":5,{pending % ""},"child_changes":{changes}}}')
    assert isinstance(paused, StepPaused)
    assert paused.pending is not None
    assert [each.children for each in paused.pending.calls] == [
        None,
        {"b/1": {"state": '{"messages":[1,2]}'}, "b/2": {"state": "{}"}},
    ]
    assert paused.child_changes is None


MESSAGES = st.lists(st.sampled_from(["a", "b", LONG]), max_size=5)
CHILDREN = st.none() | st.dictionaries(
    st.sampled_from(["k/1", "k/2"]),
    MESSAGES.map(lambda said: {"state": json.dumps({"messages": said}, separators=(",", ":"))}),
    min_size=1,
)


@given(st.lists(st.tuples(CHILDREN, CHILDREN) | st.none() | st.just("another"), max_size=8))
def test_a_pause_is_read_with_the_children_that_it_had(events: list[Any]) -> None:
    """Whatever became of them since the last pause, in another step or process too."""
    records: list[Record] = []
    for seq, event in enumerate(each for each in events if each != "another"):
        if event is None:
            records.append(StepStarted("r", seq, 1.0, seq))
            continue
        made = [
            PendingCall(ToolCall(name, "t"), CallStage.SUSPENDED, children=children)
            for name, children in zip("ab", event, strict=True)
        ]
        records.append(StepPaused("r", seq, 1.0, PendingStep(0, "", (), tuple(made))))
    lines = lines_of(records)
    at = events.index("another") if "another" in events else 0
    form, back = StoredForm(), StoredForm()
    form.see([back.decode(line) for line in lines[:at]])
    assert [form.encode(record) for record in records[at:]] == lines[at:]


def asking_tree(journal: LocalStore, questions: int, depth: int) -> Agent:
    """An agent whose two children ask so often each, themselves or through a child of their own."""

    @tool
    async def look(n: int) -> str:
        """Look."""
        return f"seen {n}. {LONG}"

    agent = by_step(*(call("look", n=n) for n in range(questions)), say("seen")).with_tools(look)
    for level in range(depth, 0, -1):
        agent = delegating(agent.with_id(f"level-{level}").build(), 2 if level == 1 else 1)
    return (
        agent.with_id("top")
        .with_journal(journal)
        .on_before_tool_use(
            lambda _: HookOutcome.ask("sure?"), matcher="look", tier="policy", scope="tree"
        )
        .build()
    )


def by_step(*turns: Any) -> AgentBuilder:
    """An agent whose model answers by the step it is asked in, in whatever process."""
    answer = lambda state: turns[len(state.steps)]  # noqa: E731 - it has no name of its own
    return AgentBuilder().with_driver(ScriptedDriver([answer] * 99)).with_limits(steps=99)


def delegating(inner: Agent, times: int) -> AgentBuilder:
    """An agent that starts another so often at once."""

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(inner, "look")).text

    return by_step(calls(*[call("delegate")] * times), say("done")).with_tools(delegate)


def exported(journal: LocalStore) -> bytes:
    """All runs, as they are stored."""
    file = io.BytesIO()
    journal.export_lines(None, file)
    return file.getvalue()


def grown(journal: LocalStore, questions: int, depth: int) -> bytes:
    """What is stored of a run whose children asked so often, one question answered at a time."""
    run = f"run-{questions}"
    result = asking_tree(journal, questions, depth).run_sync("go", run_id=run)
    while result.pending:
        answers = {result.pending[0].id: True}
        result = asking_tree(journal, questions, depth).resume_sync(run, answers)
    assert result.status is RunStatus.COMPLETED
    assert journal.read_sync(run) == list(result.records)
    return exported(journal)


@pytest.mark.parametrize("depth", [1, 2])
def test_each_pause_of_a_child_adds_the_same(journal: LocalStore, depth: int) -> None:
    """However long its conversation is: nothing is repeated in the next pause. Ten answers here, and forty."""
    few = grown(journal, 5, depth)
    journal.delete_sync("run-5")
    many = grown(journal, 20, depth)
    assert len(many) < 4.2 * len(few)
    # In the run that looked, and in each run above it twice: in the conversation and in the step.
    assert many.count(b"seen 0.") == 2 * (1 + 2 * depth)
    played = asyncio.run(replay(journal, "run-20", asking_tree(journal, 20, depth)))
    assert played.identical, str(played)
    assert asyncio.run(backtest(journal, asking_tree(journal, 20, depth))).exit_code == 0
    assert journal.check_sync().ok
    with MemoryJournal() as other:
        other.import_lines(io.BytesIO(many))
        assert exported(other) == many
        assert other.read_sync("run-20") == journal.read_sync("run-20")


@tool
async def read() -> str:
    """Read."""
    return LONG


def builder(*turns: Any) -> AgentBuilder:
    """An agent that reads."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(read)


def count_stored(path: Path, text: str) -> int:
    """How often a text is in the records of a journal file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT records FROM batches").fetchall()
    return sum(records.count(text) for (records,) in rows)


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_run_has_each_result_once_in_the_file(tmp_path: Path, rewrites: bool) -> None:
    """Whether a hook rewrote it or not; and the records read as they were made."""
    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        agent = builder(call("read"), say("done")).with_journal(journal)
        if rewrites:
            agent.on_after_tool_use(lambda ctx: ctx.with_result(LONG + "!"), name="adds")
        result = agent.build().run_sync("go", run_id="r")
        assert journal.read_sync("r") == list(result.records)
        assert journal.check_sync().ok
    assert count_stored(path, LONG) == 1


def test_a_step_that_waited_has_each_result_once(tmp_path: Path) -> None:
    """The process that resumes it did not write the result."""
    path = tmp_path / "runs.db"

    def agent(journal: SQLiteJournal, *turns: Any) -> Any:
        asking = builder(*turns).with_tools(pay).with_journal(journal)
        return asking.on_before_tool_use(
            lambda ctx: HookOutcome.ask("sure?"), matcher="pay", name="cashier", tier="policy"
        ).build()

    both = calls(call("read"), call("pay"))
    with SQLiteJournal(path) as journal:
        paused = agent(journal, both).run_sync("go", run_id="r")
        assert paused.pending
    with SQLiteJournal(path) as journal:
        answers = {each.id: Decision.allow() for each in paused.pending}
        result = agent(journal, say("done")).resume_sync("r", answers)
        assert result.steps[0].results[0].result == LONG
        assert journal.read_sync("r") == list(result.records)
    assert count_stored(path, LONG) == 1


@tool
def fail() -> str:
    """Fail."""
    raise ValueError(LONG)


@tool
async def pay() -> str:
    """Pay."""
    return "paid"


def test_a_run_has_each_error_of_a_tool_once_in_the_file(tmp_path: Path) -> None:
    """Whether hooks may withhold it, whether one rewrites it, and in a step that waits."""

    def ask(agent: AgentBuilder) -> None:
        agent.on_before_tool_use(
            lambda _: HookOutcome.ask("sure?"), matcher="pay", name="cashier", tier="policy"
        )

    ways: dict[str, Callable[[AgentBuilder], object]] = {
        "plain": lambda agent: agent,
        "a policy may withhold it": lambda agent: agent.on_after_tool_use(
            lambda _: None, name="looks", tier="policy"
        ),
        "a hook rewrites it": lambda agent: agent.on_after_tool_use(
            lambda ctx: ctx.with_execution(ctx.execution.with_metadata("a", 1)), name="adds"
        ),
        "it waits": ask,
    }

    def agent(journal: SQLiteJournal, way: str, *turns: Any) -> Any:
        made = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(fail, pay)
        ways[way](made)
        return made.with_journal(journal).build()

    for way in ways:
        path = tmp_path / f"{way}.db"
        with SQLiteJournal(path) as journal:
            result = agent(journal, way, calls(call("fail"), call("pay")), say("done")).run_sync(
                "go", run_id="r"
            )
            if result.pending:
                answers = {each.id: Decision.allow() for each in result.pending}
                result = agent(journal, way, say("done")).resume_sync("r", answers)
            (failed,) = result.steps[0].errors
            assert failed.message == LONG, way
            assert journal.read_sync("r") == list(result.records), way
            assert asyncio.run(replay(journal, "r", agent(journal, way))).identical, way
            assert journal.check_sync().ok
        assert count_stored(path, LONG) == 1, way
