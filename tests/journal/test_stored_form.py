"""In a store, the result or error of a call is written once; whoever reads gets every record whole."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, Decision, HookOutcome, SQLiteJournal, tool
from hookline.journal import (
    CallSettled,
    ErrorRaised,
    HookRan,
    Record,
    StepFinished,
    StepPaused,
    StepStarted,
    StoredForm,
)
from hookline.playback import replay
from hookline.state import (
    AssistantMessage,
    Attachment,
    ErrorInfo,
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
