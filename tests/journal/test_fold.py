"""What a journal adds up to. That it is the state of any run is shown in tests/agent/test_invariants.py."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, AgentState, Decision, HookOutcome, RunStatus
from hookline.errors import JournalError
from hookline.journal import EffectStarted, PromptSubmitted, RunFinished, RunStarted, fold
from hookline.journal.fold import with_changes
from hookline.state import UserMessage
from hookline.testing import ScriptedDriver, call, say


def add(a: int) -> int:
    """Add one."""
    return a + 1


def test_the_records_of_a_run_add_up_to_its_state() -> None:
    """Hooks before the first step and after the last one included."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("add", a=1), say("2")]))
        .with_tools(add)
        .on_execution_start(lambda ctx: ctx.with_metadata("began", True))
        .on_after_step(lambda ctx: ctx.with_metadata("steps", ctx.step_number))
        .on_execution_end(lambda ctx: ctx.with_metadata("ended", True))
        .build()
    )
    result = agent.run_sync("go")
    story = fold(result.records)
    assert story.state == story.settled == result.state
    assert story.state.metadata == {"began": True, "steps": 2, "ended": True}
    assert story.is_finished


def test_an_unfinished_step_is_in_the_tail_and_not_in_the_settled_state() -> None:
    """Wherever the journal breaks off, the last settled state is the one a run continues from."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("add", a=1), say("2")]))
        .with_tools(add)
        .on_before_tool_use(lambda ctx: ctx.with_metadata("asked", ctx.tool_call.name))
        .build()
    )
    records = agent.run_sync("go").records
    steps = 0
    for end in range(1, len(records)):
        story = fold(records[:end])
        steps += records[end - 1].type == "step"
        assert len(story.settled.steps) == steps
        assert not story.is_finished
        if records[end - 1].type == "call":
            assert ("asked" in story.state.metadata, "asked" in story.settled.metadata) == (
                True,
                False,
            )
            assert story.tail[-1] is records[end - 1]


def test_a_remembered_answer_and_a_pause_are_part_of_the_story() -> None:
    """The waiting step is in the state, and what was answered for the session stays answered."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("add", a=1), call("add", a=1), say("2")]))
        .with_tools(add)
        .on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), tier="policy")
        .build()
    )
    paused = agent.run_sync("go")
    assert fold(paused.records).state == paused.state
    result = agent.resume_sync(paused, {paused.pending[0].id: Decision.allow(remember=True)})
    assert result.status is RunStatus.COMPLETED
    together = fold([*paused.records, *result.records]).state
    assert together == result.state
    assert together.remembered


@pytest.mark.parametrize(
    ("delta", "metadata", "texts"),
    [
        (None, {"a": 1, "b": 2}, ["hi"]),
        ({"metadata": {"set": {"c": [3]}}}, {"a": 1, "b": 2, "c": [3]}, ["hi"]),
        ({"metadata": {"set": {"a": 0}, "removed": ["b"]}}, {"a": 0}, ["hi"]),
        (
            {"messages": {"added": [{"role": "user", "text": "more"}]}},
            {"a": 1, "b": 2},
            ["hi", "more"],
        ),
        ({"messages": {"replaced": [{"role": "user", "text": "new"}]}}, {"a": 1, "b": 2}, ["new"]),
    ],
)
def test_what_a_hook_did_to_a_state_can_be_done_again(
    delta: Any, metadata: dict[str, Any], texts: list[str]
) -> None:
    """From the journal alone."""
    state = AgentState().with_user_message("hi").with_metadata("a", 1).with_metadata("b", 2)
    changed = with_changes(state, delta)
    assert changed.metadata == metadata
    assert tuple(changed.messages) == tuple(UserMessage(text) for text in texts)


@pytest.mark.parametrize("records", [[], [PromptSubmitted("r", 0, 0.0, "hi")]])
def test_a_journal_without_its_beginning_is_refused(records: list[Any]) -> None:
    """It cannot be known what it adds to."""
    with pytest.raises(JournalError, match="begin"):
        fold(records)


def test_a_run_that_was_begun_and_not_ended_is_not_finished() -> None:
    """Only the last record says that."""
    started = RunStarted("r", 0, 0.0, "agent", "s")
    assert not fold([started]).is_finished
    assert fold([started, RunFinished("r", 1, 0.0)]).is_finished


def test_a_child_that_has_not_begun_waits_in_its_first_state() -> None:
    """Its process died after a hook had begun what must not be done twice. It has a parent, and is in no step."""
    records = [
        RunStarted("r/0/c/1", 0, 0.0, "agent", "s", parent_run_id="r"),
        EffectStarted("r/0/c/1", 1, 1.0, "execution_start", status_before=RunStatus.RUNNING),
    ]
    story = fold(records)
    assert (story.state.parent_run_id, story.tail, story.is_finished) == ("r", (), False)
    assert fold([*records, *records]) == story
