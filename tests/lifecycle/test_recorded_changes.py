from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookline import (
    AgentState,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    StepHookContext,
    ToolCall,
    ToolHookContext,
)
from hookline.hooks import Point
from hookline.lifecycle import AgentContext
from hookline.lifecycle.recorded_changes import can_be_redone, describe_changes, redo_changes
from hookline.state import InferenceRequest, Log, ToolSpec, Usage, UserMessage

STATE = AgentState().with_metadata("kept", 1).with_metadata("gone", 2).with_user_message("hi")
STEP = StepHookContext(point=HookPoint.BEFORE_STEP, state=STATE)
TOOL = ToolHookContext(
    point=HookPoint.BEFORE_TOOL_USE, state=STATE, tool_call=ToolCall("1", "add", {"a": 1})
)


@pytest.mark.parametrize("point", list(HookPoint), ids=str)
def test_what_hooks_may_change_can_be_done_again(point: Point[Any]) -> None:
    """At every point. A child's result is an exception: it is on the child's own record."""
    given_again = {"result"} if point == HookPoint.SUBAGENT_STOP else set()
    changes = dict.fromkeys(point.changes - given_again)
    assert can_be_redone(changes), (
        "add the field to lifecycle/recorded_changes.py: resume would lose it"
    )


def test_nothing_changed_is_none() -> None:
    """The same context, and an equal one whose parts are the same objects."""
    assert describe_changes(STEP, STEP) is None
    assert describe_changes(STEP, STEP.with_state(STATE)) is None


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (
            STEP,
            STEP.with_metadata("new", [1]),
            {"state": {"metadata": {"set": {"new": [1]}}}},
        ),
        (
            STEP,
            STEP.with_state(STATE.without_metadata("gone").with_metadata("kept", 3)),
            {"state": {"metadata": {"set": {"kept": 3}, "removed": ["gone"]}}},
        ),
        (
            STEP,
            STEP.with_state(STATE.with_user_message("more", by="hook")),
            {"state": {"messages": {"added": [{"role": "user", "text": "more", "by": "hook"}]}}},
        ),
        (
            STEP,
            STEP.with_state(STATE.with_messages(Log([UserMessage("all new")]))),
            {"state": {"messages": {"replaced": [{"role": "user", "text": "all new"}]}}},
        ),
        (
            STEP,
            STEP.with_state(msgspec.structs.replace(STATE, usage=Usage(1, 2))),
            {"state": {"usage": {"input_tokens": 1, "output_tokens": 2}}},
        ),
        (
            STEP.forbid("first"),
            STEP.forbid("first").allow_stop("second"),
            {"evaluations": [{"source": "", "decision": "allow_stop", "reason": "second"}]},
        ),
        (
            TOOL,
            TOOL.with_args(a=2),
            {"tool_call": {"id": "1", "name": "add", "args": {"a": 2}}},
        ),
        (
            TOOL,
            TOOL.with_result("cached"),
            {"execution": {"result": "cached", "call_id": "1", "name": "add"}},
        ),
        (
            TOOL,
            TOOL.with_args(a=2).with_metadata("why", "too small"),
            {
                "tool_call": {"id": "1", "name": "add", "args": {"a": 2}},
                "state": {"metadata": {"set": {"why": "too small"}}},
            },
        ),
    ],
)
def test_a_change_is_described_by_what_is_new(
    before: AgentContext, after: AgentContext, changes: dict[str, Any]
) -> None:
    """Only what differs, as JSON that can be written."""
    described = msgspec.to_builtins(describe_changes(before, after))
    assert msgspec.json.decode(msgspec.json.encode(described)) == changes


def test_what_grows_is_described_by_what_was_added() -> None:
    """A hook that adds a message to a long conversation does not put the conversation into the journal."""
    long = STEP.with_state(STATE.with_messages(Log(UserMessage(str(n)) for n in range(1000))))
    described = describe_changes(long, long.with_state(long.state.with_user_message("more")))
    assert described is not None
    assert len(described["state"]["messages"]["added"]) == 1


LONG = Log(UserMessage(str(number)) for number in range(100))
REQUEST = InferenceRequest(LONG, "Be brief.", (ToolSpec("f", "F.", {"type": "object"}),))
MORE = UserMessage("more", "hook")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r.with_system("Be kind."), {"system": "Be kind."}),
        (lambda r: r.with_tools(()), {"tools": []}),
        (
            lambda r: r.with_messages(r.messages.append(MORE)),
            {"messages": {"added": [{"role": "user", "text": "more", "by": "hook"}]}},
        ),
        (
            lambda r: r.with_messages([*r.messages, MORE]),
            {"messages": {"added": [{"role": "user", "text": "more", "by": "hook"}]}},
        ),
        (
            lambda r: r.with_messages([MORE]),
            {"messages": [{"role": "user", "text": "more", "by": "hook"}]},
        ),
        (lambda r: r.with_messages(list(r.messages)), {}),
        (lambda r: r.with_options(temperature=1).with_tool_choice("f"), None),
    ],
)
def test_a_request_is_described_by_what_differs(change: Any, expected: Any) -> None:
    """A word added to a long request is all that is written down, and the change can be made again from it."""
    ctx = InferenceHookContext(point=HookPoint.BEFORE_INFERENCE, request=REQUEST)
    after = ctx.with_request(change(REQUEST))
    described = msgspec.json.decode(msgspec.json.encode(describe_changes(ctx, after)))
    if expected is not None:
        assert described == {"request": expected}
    again = redo_changes(ctx, described).request
    assert (tuple(again.messages), again.with_messages(())) == (
        tuple(after.request.messages),
        after.request.with_messages(()),
    )


def test_a_request_that_was_written_down_whole_can_be_made_again() -> None:
    """As journals have it that were written before."""
    ctx = InferenceHookContext(point=HookPoint.BEFORE_INFERENCE, request=REQUEST)
    then = InferenceRequest([MORE], "Be kind.", model="other")
    whole = {"request": msgspec.json.decode(msgspec.json.encode(then))}
    again = redo_changes(ctx, whole).request
    assert again.with_messages(list(again.messages)) == then


def test_what_is_not_json_is_described_by_its_text() -> None:
    """An answer can be anything; the journal has at least its words, and the hook is asked for the value again."""

    class Answer:
        def __repr__(self) -> str:
            return "Answer(42)"

    ctx = OutputHookContext(point=HookPoint.OUTPUT, output="42")
    described = describe_changes(ctx, ctx.with_output(Answer()))
    assert described == {"typed_output": "Answer(42)"}
    assert not can_be_redone(described)
    assert can_be_redone(describe_changes(ctx, ctx.with_output({"n": 42})))


def test_a_request_that_is_made_again_equals_the_one_it_was() -> None:
    """Its conversation is a log again, so that nobody takes it for another one."""
    before = InferenceHookContext(
        point=HookPoint.BEFORE_INFERENCE, state=STATE, request=InferenceRequest(STATE.messages)
    )
    longer = STATE.messages.append(UserMessage("psst"))
    after = before.with_request(before.request.with_messages(longer))
    assert redo_changes(before, describe_changes(before, after)).request == after.request
