"""All of them at once: one agent with every capability, however it is driven, resumed after any record, replayed."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from driven import WAYS, Tape, drive, lives, on_disk
from pydantic import BaseModel

from hookline import (
    AgentBuilder,
    RunStatus,
    SQLiteJournal,
    StopReason,
    ToolContext,
    backtest,
    replay,
    tool,
)
from hookline.capabilities import (
    Cancellation,
    Draft,
    Hooks,
    Limits,
    Metadata,
    SelfCritique,
    StructuredOutput,
    Summarization,
    TaskPlanning,
    ToolRegistry,
)
from hookline.state import check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


class House(BaseModel):
    """What is in a house."""

    rooms: int
    empty: bool


@tool(effect="pure")
def look(room: str) -> str:
    """Look into a room."""
    return f"{room}: " + "dust " * 120


def todo(status: str) -> Any:
    """The list of tasks."""
    return call("todo_write", todos=[{"content": "look around", "status": status}])


SCRIPT = [
    calls(todo("in_progress"), call("tools", action="enable", names=["look", "write_metadata"])),
    call("look", room="attic"),
    calls(call("look", room="barn"), call("write_metadata", key="barn", value="dusty")),
    call("look", room="cellar"),
    say("It is empty."),
    call("structured_output", rooms="three", empty=True),
    call("structured_output", rooms=3, empty=False),
    todo("completed"),
    call("structured_output", rooms=3, empty=True),
]


def critic(draft: Draft) -> Any:
    """It wants the house to be empty."""
    return True if '"empty":true' in draft.text else "the house is empty"


def everything(journal: Any = None, looking: Any = look) -> Any:
    """An agent with every capability, whose model goes by how far the conversation is."""
    turns = [lambda state: SCRIPT[state.step_count]] * 20
    writer = ScriptedDriver([lambda state: say(f"{state.step_count} steps of dust", tokens=7)] * 40)
    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(looking)
    builder.with_clock(FakeClock())
    for capability in (
        Hooks("notes", {"execution_end": lambda ctx: ctx.with_metadata("ended", str(ctx.status))}),
        Limits(steps=30, tokens=5_000),
        Cancellation(),
        Metadata(),
        TaskPlanning(insist=2),
        ToolRegistry(),
        StructuredOutput(House, attempts=4),
        Summarization(1_300, keep_tokens=200, model=writer),
        SelfCritique(critic),
    ):
        builder.with_capability(capability)
    return builder.build() if journal is None else builder.with_journal(journal).build()


@pytest.mark.parametrize("way", WAYS)
async def test_everything_together(way: str) -> None:
    """They do not get in each other's way: the run completes with the value, and each has done its part."""
    agent = everything()
    result = await drive(agent, way)
    assert (result.status, result.output) == (RunStatus.COMPLETED, House(rooms=3, empty=True))
    assert len(result.steps) == len(SCRIPT)
    check_transcript(result.state.messages)
    kept = result.state.metadata
    assert kept["notes"] == {"barn": "dusty"}
    assert kept["enabled_tools"] == ["look", "write_metadata"]
    assert kept["summaries"]["count"] >= 1
    assert kept["structured_output"]["failures"] == 2
    assert [verdict.approved for verdict in SelfCritique.verdicts(result.state)] == [False, True]
    assert all(not task.is_open for task in TaskPlanning.tasks(result.state))
    assert kept["ended"] == "completed"


def test_the_agent_says_what_it_is_made_of() -> None:
    """`explain()` names every capability, and each hook with the capability it is from."""
    text = everything().explain()
    names = (
        "notes,limits,cancellation,metadata,task-planning,tool-registry,structured-output,"
        "summarization,self-critique"
    )
    assert names in "".join(text.split())
    for hook in (
        "metadata-persist",
        "task-planning-show",
        "tool-registry-guard",
        "structured-output",
        "summarization",
        "self-critique",
    ):
        assert hook in text
    assert "structured_output" in text
    assert everything().lint() == []


async def test_it_is_the_same_run_after_any_death(tmp_path: Path) -> None:
    """Resumed after any record: the same conversation, the same state, the same value, the same bill."""
    whole, resumed = await lives(everything)
    assert whole.output == House(rooms=3, empty=True)
    for result in resumed:
        assert tuple(result.state.messages) == tuple(whole.state.messages)
        assert result.state.metadata == whole.state.metadata
        assert (result.output, result.usage) == (whole.output, whole.usage)
        assert (result.status, result.stop_reason) == (whole.status, whole.stop_reason)
    again = await on_disk(everything, tmp_path / "j.db")
    assert (again.output, again.state.metadata) == (whole.output, whole.state.metadata)


async def test_it_is_replayed() -> None:
    """The recorded run is driven again without a model, a tool or a summariser, and is identical."""
    tape = Tape()
    await everything(tape).run("go", run_id="run")
    replayed = await replay(tape, "run", everything())
    assert replayed.identical, replayed
    tested = await backtest(tape.written, everything())
    assert not tested.changes, tested


async def test_a_child_has_its_own(tmp_path: Path) -> None:
    """As a child it keeps its own state and its own tools, and its parent's limits hold for it."""

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> Any:
        """Have the house looked at."""
        result = await context.spawn(everything(), "look", name="scout")
        return {"status": result.status.value, "output": result.text}

    def parent(journal: Any) -> Any:
        turn = [call("delegate"), say("seen")]
        driver = ScriptedDriver([lambda state: turn[state.step_count]] * 3)
        builder = AgentBuilder().with_driver(driver).with_tools(delegate).with_journal(journal)
        return builder.with_capability(Metadata()).with_clock(FakeClock()).build()

    whole, resumed = await lives(parent)
    assert whole.steps[0].results[0].result["output"] == '{"rooms":3,"empty":true}'
    assert whole.state.metadata == {}
    for result in resumed[:: max(1, len(resumed) // 40)]:
        assert result.steps[0].results[0].result == whole.steps[0].results[0].result
        assert result.usage == whole.usage

    tape = Tape()
    limited = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("x")]))
    limited.with_tools(delegate).with_journal(tape).with_clock(FakeClock())
    limited.with_capability(Limits(steps=4))
    result = await limited.build().run("go")
    assert "stopped" in result.steps[0].results[0].text
    assert result.stop_reason is StopReason.STEP_LIMIT


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path[:0] = [{support!r}, {here!r}]
import test_together as together
from hookline import SQLiteJournal, tool

@tool(effect="pure")
def look(room: str) -> str:
    "Look into a room."
    if room == "cellar":
        os.kill(os.getpid(), signal.SIGKILL)
    return together.look(room)

journal = SQLiteJournal({path!r})
agent = together.everything(journal, look)
asyncio.run(agent.run("go", run_id="run"))
"""


async def test_a_killed_process_leaves_a_run_that_another_continues(tmp_path: Path) -> None:
    """Killed inside a tool, with its journal on disk: the run ends as if nothing had happened."""
    here = Path(__file__).parent
    path = str(tmp_path / "runs.db")
    script = KILLED.format(support=str(here.parent / "support"), here=str(here), path=path)
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await killed.wait() == -signal.SIGKILL
    journal = SQLiteJournal(path)
    result = await everything(journal).resume("run")
    whole = await everything().run("go")
    assert (result.output, result.state.metadata["notes"]) == (whole.output, {"barn": "dusty"})
    assert tuple(result.state.messages) == tuple(whole.state.messages)
    assert result.usage == whole.usage
    await journal.close()
