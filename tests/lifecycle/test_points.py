from __future__ import annotations

import re
from typing import Any

import pytest

from hookline import (
    AfterStepHookContext,
    AfterToolHookContext,
    CompactHookContext,
    ContinuationEvaluation,
    ExecutionHookContext,
    FailureHookContext,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
)
from hookline.errors import RegistrationError
from hookline.hooks import Context, Point
from hookline.lifecycle import point_named, points

SETTLED = {"state", "evaluations"}

# point: (context, what a hook may change, whether it can block, whether a failing hook counts as a block)
TABLE: dict[str, tuple[type, set[str], bool, bool]] = {
    "session_start": (SessionHookContext, SETTLED, False, False),
    "execution_start": (ExecutionHookContext, SETTLED, True, False),
    "prompt_submit": (PromptHookContext, SETTLED | {"prompt", "attachments"}, True, True),
    "around_step": (StepHookContext, {"state"}, False, False),
    "before_step": (StepHookContext, SETTLED, True, False),
    "before_inference": (InferenceHookContext, SETTLED | {"request", "response"}, True, False),
    "around_inference": (InferenceHookContext, {"request"}, False, False),
    "after_inference": (InferenceHookContext, SETTLED | {"response"}, True, False),
    "before_tool_use": (ToolHookContext, SETTLED | {"tool_call", "execution"}, True, True),
    "permission_request": (ToolHookContext, SETTLED, True, True),
    "around_tool_use": (ToolHookContext, {"tool_call"}, False, False),
    "after_tool_use": (AfterToolHookContext, SETTLED | {"execution"}, True, True),
    "after_step": (AfterStepHookContext, SETTLED, False, False),
    "should_continue": (StopHookContext, SETTLED, False, False),
    "stop": (StopHookContext, SETTLED, True, False),
    "output": (OutputHookContext, SETTLED | {"output"}, True, True),
    "execution_end": (ExecutionHookContext, SETTLED, False, False),
    "error": (
        FailureHookContext,
        SETTLED | {"decision", "execution", "response"},
        False,
        False,
    ),
    "agent_failed": (FailureHookContext, SETTLED, False, False),
    "subagent_start": (SubagentHookContext, {"prompt", "evaluations"}, True, True),
    "subagent_stop": (SubagentHookContext, {"result", "evaluations"}, True, False),
    "before_compact": (CompactHookContext, SETTLED | {"instructions"}, True, True),
    "session_end": (SessionHookContext, SETTLED, False, False),
}


def test_the_points_in_the_order_of_a_run() -> None:
    """All of them, and no others."""
    assert [point.value for point in HookPoint] == list(TABLE)
    assert len(HookPoint) == len(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_the_rules_of_a_point(name: str) -> None:
    """Which context is shown, what may be changed, whether it can block, and what a failing hook is."""
    context, changes, can_block, fails_as_block = TABLE[name]
    point = HookPoint(name)
    assert point is getattr(HookPoint, name.upper())
    assert point.context is context
    assert point.changes == changes
    assert (point.blocks is not None) is can_block
    assert ("block" in point.verdicts) is can_block or point.around
    assert point.failure_blocks is fails_as_block
    assert point.around is name.startswith("around_")


@pytest.mark.parametrize("name", [name for name in TABLE if not name.startswith("around_")])
def test_what_may_be_changed_is_a_field_of_the_context(name: str) -> None:
    """A rule about a field that does not exist would be no rule."""
    point = HookPoint(name)
    assert point.changes <= set(point.context.__struct_fields__)


@pytest.mark.parametrize("name", [name for name in TABLE if not name.startswith("around_")])
def test_evaluations_can_be_appended_at_every_point(name: str) -> None:
    """By changing the context, and by returning one."""
    point = HookPoint(name)
    assert "evaluations" in point.changes
    kinds = [kind for kind, _ in point.answers]
    assert ContinuationEvaluation in kinds or name.startswith("subagent")


@pytest.mark.parametrize("name", ["execution_end", "agent_failed", "session_end"])
def test_when_the_run_is_over_nothing_can_be_decided(name: str) -> None:
    """The last points only look, and all their hooks run."""
    point = HookPoint(name)
    assert point.verdicts == frozenset()
    assert point.unskippable


def test_asking_is_for_tool_calls() -> None:
    """A person is asked about a call before it runs, and nowhere else."""
    assert [point.value for point in HookPoint if "ask" in point.verdicts] == ["before_tool_use"]


# --- names --------------------------------------------------------------------------------------------

SPELLINGS = {
    "session_start": "SessionStart sessionStart SESSION_START session-start",
    "session_end": "SessionEnd",
    "execution_start": "ExecutionStart on_execution_start",
    "execution_end": "ExecutionEnd",
    "prompt_submit": "UserPromptSubmit user_prompt_submit PromptSubmit",
    "before_step": "BeforeStep StepStart step_start",
    "after_step": "AfterStep StepEnd step_end",
    "before_inference": "BeforeInference PreInference",
    "after_inference": "AfterInference PostInference",
    "before_tool_use": "BeforeToolUse PreToolUse pre_tool_use preToolUse onBeforeToolUse",
    "after_tool_use": "AfterToolUse PostToolUse post_tool_use",
    "permission_request": "PermissionRequest",
    "around_tool_use": "AroundToolUse",
    "should_continue": "ShouldContinue",
    "stop": "Stop on_stop",
    "output": "Output",
    "error": "OnError on_error Error",
    "agent_failed": "AgentFailed on_agent_failed",
    "subagent_start": "SubagentStart",
    "subagent_stop": "SubagentStop",
    "before_compact": "PreCompact pre_compact BeforeCompact",
}


@pytest.mark.parametrize(
    ("name", "spelling"),
    [(name, spelling) for name, text in SPELLINGS.items() for spelling in text.split()],
)
def test_every_spelling_finds_its_point(name: str, spelling: str) -> None:
    """Each document's own names are accepted wherever a point is named in text."""
    assert point_named(spelling) is HookPoint(name)
    assert HookPoint(name).is_named(spelling)


def test_no_spelling_names_two_points() -> None:
    """Otherwise it would depend on the order which one is meant."""
    spellings = [spelling for point in HookPoint for spelling in point.spellings]
    assert len(spellings) == len(set(spellings))


def test_a_point_is_found_by_itself() -> None:
    """So that methods take points and names alike."""
    assert point_named(HookPoint.STOP) is HookPoint.STOP


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("before_tool_usage", "Did you mean 'before_tool_use'?"),
        ("afterstep2", "Did you mean 'after_step'?"),
        ("qqqq", "Points: session_start, execution_start"),
        ("", "Points: session_start"),
        (7, "is not a hook point"),
        (None, "is not a hook point"),
    ],
)
def test_a_name_that_is_no_point_is_refused_with_the_closest(name: Any, words: str) -> None:
    """Or with all of them, when none is close."""
    with pytest.raises(RegistrationError) as caught:
        HookPoint(name)
    assert f"{name!r} is not a hook point" in str(caught.value)
    assert words in str(caught.value)


def test_a_point_is_its_name() -> None:
    """It prints, compares and hashes like text, and says what it is."""
    point = HookPoint.BEFORE_STEP
    assert point == "before_step"
    assert f"{point}" == str(point) == point.value == "before_step"
    assert type(point.value) is str
    assert {"before_step": 1}[point] == 1
    assert repr(point) == "<point before_step>"
    assert isinstance(point, Point)


def test_a_point_says_what_may_be_returned_there() -> None:
    """For the error about a return value that means nothing."""
    assert HookPoint.BEFORE_TOOL_USE.describe_expected() == (
        "None, a HookOutcome, a changed ToolHookContext, ToolCall, ToolResult, AgentState "
        "or ContinuationEvaluation"
    )
    assert "a changed SubagentHookContext" in HookPoint.SUBAGENT_STOP.describe_expected()


def test_the_lifecycle_is_on_the_page_that_defines_it() -> None:
    """The module's first lines show every point that can be reached."""
    text = points.__doc__ or ""
    shown = set(re.findall(r"[a-z]+(?:_[a-z]+)*", text))
    assert {point.value for point in HookPoint} <= shown


@pytest.mark.parametrize("point", list(HookPoint), ids=str)
def test_a_point_has_the_name_of_its_constant(point: Point[Any]) -> None:
    """As a member of an enum has, and it is found by it."""
    assert getattr(HookPoint, point.name) is point
    assert HookPoint[point.name] is point
    assert point.value == point.name.lower()


@pytest.mark.parametrize("name", ["BeforeStep", "before_step", "", "__module__", "mro"])
def test_another_name_is_a_key_error(name: str) -> None:
    """As with an enum; the message names the way to look up other spellings."""
    with pytest.raises(KeyError, match="takes other spellings"):
        HookPoint[name]


def test_tool_events_are_those_about_a_call() -> None:
    """At an error there may be a call, or not."""
    events = [point.value for point in HookPoint if point.is_tool_event]
    assert events == ["before_tool_use", "permission_request", "around_tool_use", "after_tool_use"]
    assert not Point("upload", Context).is_tool_event
