"""A policy at the top holds three subagents down: in parallel branches, streamed, after a pause and after a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from descent import Descent, results_of

from hookline import (
    AgentState,
    Decision,
    HookOutcome,
    RunResult,
    RunStatus,
    SQLiteJournal,
    StopReason,
)

SUPPORT = Path(__file__).parents[1] / "support"
KEPT = ("delete", "Blocked: nothing is deleted")


def deepest(heard: list[Any]) -> list[Any]:
    """The journals of the two runs three subagents down, from the records."""
    runs: dict[str, list[Any]] = {}
    for record in heard:
        if record.type != "progress":
            runs.setdefault(record.run_id, []).append(record)
    lowest = max(run_id.count("/") for run_id in runs)
    return [records for run_id, records in runs.items() if run_id.count("/") == lowest]


async def by_run(agent: Any) -> RunResult:
    """The plain way."""
    result: RunResult = await agent.run("Clean up.", run_id="r")
    return result


async def by_stream(agent: Any) -> RunResult:
    """Every record as it happens."""
    stream = agent.stream("Clean up.", run_id="r")
    async for _ in stream:
        pass
    result: RunResult = stream.result
    return result


async def by_iterate(agent: Any) -> RunResult:
    """Step by step."""
    steps = agent.iterate("Clean up.", run_id="r")
    async for _ in steps:
        pass
    result: RunResult = steps.result
    return result


@pytest.mark.parametrize("drive", [by_run, by_stream, by_iterate])
async def test_what_the_top_forbids_runs_nowhere(
    drive: Callable[[Any], Awaitable[RunResult]],
) -> None:
    """Both branches try it at their end, at the same time, and both are denied; the rest of their work is done."""
    descent, heard = Descent(), []
    result = await drive(descent.guarded().on_event(heard.append).build())
    assert (result.text, result.status) == ("all is clean", RunStatus.COMPLETED)
    assert [results_of(records)[0] for records in deepest(heard)] == [KEPT, KEPT]
    assert descent.did == ["send anna", "send anna"]
    assert [each.text for each in result.steps[0].results][:2] == ["left done", "right done"]


async def test_the_same_without_the_policy_deletes() -> None:
    """So it is the policy that held, and nothing else."""
    descent = Descent()
    await descent.builder().build().run("Clean up.")
    assert sorted(descent.did) == [*["delete notes.txt"] * 2, *["send anna"] * 2]


async def test_no_hook_of_a_subagent_lifts_it() -> None:
    """One that allows everything, or rewrites the call, comes before the policy and cannot say more."""
    descent = Descent()
    builder = descent.guarded()
    builder.on_before_tool_use(
        lambda ctx: HookOutcome.allow("anything goes"), scope="tree", name="yes"
    )
    await builder.build().run("Clean up.")
    assert descent.did == ["send anna", "send anna"]


def asking(descent: Descent) -> Any:
    """The guarded agent that also asks before something is sent."""
    return descent.guarded().on_before_tool_use(
        lambda ctx: HookOutcome.ask("to anna?"), matcher="send", tier="policy", name="ask-first"
    )


async def test_it_holds_after_a_pause_in_another_process() -> None:
    """The questions of both branches surface on the outermost run; its state is saved, and continues elsewhere."""
    first, heard = Descent(), list[Any]()
    paused = await asking(first).on_event(heard.append).build().run("Clean up.")
    assert (paused.status, first.did) == (RunStatus.PAUSED, [])
    assert [question.tool_call.name for question in paused.pending] == ["send", "send"]
    state = AgentState.from_json(paused.state.to_json())
    second = Descent()
    agent = asking(second).on_event(heard.append).build()
    yes_and_no = dict(zip((each.id for each in state.pending), (True, False), strict=True))
    result = await agent.resume(state, yes_and_no)
    assert (result.status, second.did) == (RunStatus.COMPLETED, ["send anna"])
    results = sorted(results_of_all(heard))
    assert results.count("Blocked: nothing is deleted") == 2
    assert sum(text.startswith("Denied") for text in results) == 1


def results_of_all(heard: list[Any]) -> list[str]:
    """The text of every tool result among the records."""
    return [record.result.text for record in heard if record.type == "tool_result"]


async def test_a_policy_that_came_during_the_pause_holds_too(tmp_path: Path) -> None:
    """It judges whatever has not started, three subagents down."""
    journal = SQLiteJournal(tmp_path / "runs.db")
    first = Descent()
    builder = first.builder().with_journal(journal)
    builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), matcher="send", name="ask")
    paused = (
        await builder.on_before_tool_use(
            lambda ctx: HookOutcome.ask("sure?"), matcher="send", scope="tree", name="ask-all"
        )
        .build()
        .run("Clean up.", run_id="r")
    )
    assert (paused.status, first.did) == (RunStatus.PAUSED, [])
    second = Descent()
    agent = second.guarded().with_journal(journal).build()
    result = await agent.resume("r", {each.id: Decision.allow() for each in paused.pending})
    await journal.close()
    assert result.status is RunStatus.COMPLETED
    assert second.did == ["send anna", "send anna"]


@pytest.mark.timeout(300)
def test_it_holds_after_a_crash_at_any_place(tmp_path: Path) -> None:
    """A process is killed in every step, policy and tool of the tree; another takes the run up, and all is the same."""
    command = [sys.executable, str(SUPPORT / "descent.py"), str(tmp_path), "21"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["exits"] == [-9, 0] * 21, done.stderr
    assert set(report["ends"].values()) == {"completed"}
    assert len(report["results"]) == 21 * 7  # a run, and six below it
    results = [result for results in report["results"].values() for result in results]
    assert results.count(list(KEPT)) == 21 * 2
    assert set(report["did"]) == {"send anna"}


async def test_limits_of_the_top_hold_for_the_tree() -> None:
    """What all of them use together ends them all, and the top says so."""
    descent = Descent()
    result = await descent.guarded().with_limits(steps=3).build().run("Clean up.")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert descent.did == []
    outcome = result.steps[0].results[0]
    assert not outcome.is_success
    assert "subagent 'left' was stopped before it was done: steps: 3 of 3 used" in outcome.text


async def test_cancelling_the_top_cancels_all() -> None:
    """Wherever in the tree they are."""
    heard: list[Any] = []
    descent = Descent()
    agent = descent.guarded().on_event(heard.append).build()

    def cancel(place: str) -> None:
        if place == "policy":
            agent.cancel("r", "enough")

    descent.at = cancel
    result = await agent.run("Clean up.", run_id="r")
    assert result.status is RunStatus.CANCELLED
    assert descent.did == []
    started = {record.run_id for record in heard if record.type == "run_started"}
    ends = {record.run_id: record.status for record in heard if record.type == "result"}
    assert len(started) > 3
    assert ends == dict.fromkeys(started, RunStatus.CANCELLED)


async def test_what_the_tree_uses_is_counted_at_the_top() -> None:
    """Steps, calls and model calls of all seven runs."""
    result = await Descent().guarded().build().run("Clean up.")
    # Each of seven runs makes two steps; a call is counted when it runs.
    assert result.state.counters.steps == 14
    assert result.usage.requests == 14
    assert result.state.counters.tool_calls == 3 + 2 * (1 + 1 + 2)
