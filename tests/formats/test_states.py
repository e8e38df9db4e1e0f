"""States that an earlier version saved load, are saved the same, and continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from case_world import LATER, World, answered, chosen
from field_walk import ADDED_TO_STATES, fields_in, fields_of
from outcomes import FINISHED_CASES, UNFINISHED_CASES, result_of
from recorded import expected, states

from hookline import AgentBuilder, AgentState, RunStatus
from hookline.state import (
    Counters,
    Decision,
    Ending,
    Message,
    PendingApproval,
    PendingStep,
    Step,
    Usage,
)
from hookline.testing import ScriptedDriver, say

FIRST = "2026-11"
"""The version whose states have every field; a state is the same in both versions of records."""
PARTS: dict[str, Any] = {
    "counters": Counters,
    "ending": Ending,
    "messages": list[Message],
    "pending_step": PendingStep,
    "remembered": dict[str, Decision],
    "steps": list[Step],
    "usage": Usage,
}


@pytest.mark.parametrize("name", states(FIRST))
def test_a_saved_state_is_read_and_written_as_it_was(name: str) -> None:
    """Byte for byte."""
    text = states(FIRST)[name]
    state = AgentState.from_json(text)
    assert state.to_json() == text
    assert state.run_id == name


def test_the_data_has_every_field_of_a_state() -> None:
    """So that a field that is renamed or forgotten is noticed."""
    saved = [json.loads(text)["state"] for text in states(FIRST).values()]
    tops = {key for state in saved for key, value in state.items() if value}
    assert tops >= {field.name for field in msgspec.structs.fields(AgentState)} - FAMILY
    seen = {
        field
        for part, kind in PARTS.items()
        for field in fields_in(kind, [state.get(part) for state in saved])
    }
    known = {field for kind in PARTS.values() for field in fields_of(kind)}
    assert known - seen - ADDED_TO_STATES == set()


FAMILY = {"parent_agent_id", "parent_run_id"}
"""Of children, whose states are kept in their journals and in the paused steps of their parents."""


@pytest.mark.parametrize(
    "name", [name for name, case in UNFINISHED_CASES.items() if name in states(FIRST)]
)
async def test_a_saved_state_that_waits_continues_without_its_journal(
    name: str, tmp_path: Path
) -> None:
    """The state alone is enough: it ends as the run with a journal does."""
    case = UNFINISHED_CASES[name]
    was = expected(FIRST, "unfinished")[name]
    world = World(tmp_path, start=LATER)
    for line in was["did"]:
        world.do(line)
    state = AgentState.from_json(states(FIRST)[name])
    agent = case.agent(world)
    result = await agent.resume(state, chosen(state.pending, case.later[0]))
    now = result_of(await answered(agent, result, case.later[1:]), world)
    assert now == was.get("from_state", was["resumed"])


@pytest.mark.parametrize("name", FINISHED_CASES)
async def test_a_saved_state_takes_another_prompt(name: str, tmp_path: Path) -> None:
    """A conversation of an earlier version continues."""
    state = AgentState.from_json(states(FIRST)[name])
    if state.pending:
        return
    agent = AgentBuilder().with_driver(ScriptedDriver([say("More.")])).build()
    result = await agent.run("More?", state=state)
    assert (result.status, result.text) == (RunStatus.COMPLETED, "More.")
    assert len(result.state.steps) == len(state.steps) + 1


def test_pending_approvals_are_what_a_page_shows() -> None:
    """The questions of a paused state, field by field."""
    state = AgentState.from_json(states(FIRST)["waits"])
    first = state.pending[0]
    assert isinstance(first, PendingApproval)
    assert (first.id, first.asked_by, first.also_asked_by) == (
        "waits/0/call_1_2",
        "money",
        ("friday",),
    )
    assert first.fingerprint == first.tool_call.fingerprint()
