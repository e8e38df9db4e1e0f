from __future__ import annotations

from typing import Any

import pytest

import hookline
from hookline import HookOutcome, HookPoint, PromptHookContext, ToolCall, ToolHookContext
from hookline.errors import RegistrationError, UsageError
from hookline.hooks import Context, Point
from hookline.lifecycle import HookStack


def no(ctx: Any) -> HookOutcome:
    """Block."""
    return HookOutcome.block("no")


def test_it_is_the_stack_of_the_facade() -> None:
    """`from hookline import HookStack` knows the lifecycle."""
    assert hookline.HookStack is HookStack


@pytest.mark.parametrize(
    "name", ["before_tool_use", "PreToolUse", "pre_tool_use", "onBeforeToolUse"]
)
async def test_a_point_may_be_named_in_any_spelling(name: str) -> None:
    """The stack that comes of it knows names too."""
    stack = HookStack().with_hook(no, name, name="first").with_hook(no, name, name="second")
    assert type(stack) is HookStack
    assert {entry.point for entry in stack.registrations} == {HookPoint.BEFORE_TOOL_USE}
    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=ToolCall("1", "bash"))
    outcome = await stack.process(ctx)
    assert (outcome.is_blocked, outcome.decided_by) == (True, "first")
    assert [entry.name for entry in stack.plan(name).entries] == ["first", "second"]


def test_a_name_of_no_point_is_refused_with_the_closest() -> None:
    """Like in the builder."""
    with pytest.raises(RegistrationError, match="Did you mean 'before_tool_use'"):
        HookStack().with_hook(no, "befor_tool_use")


async def test_points_of_ones_own_work_too() -> None:
    """A stack is not bound to the lifecycle."""
    upload = Point("upload", Context, blocks="the upload")
    assert (await HookStack().with_hook(no, upload).process(Context(point=upload))).is_blocked


async def test_a_context_that_is_not_of_its_point_is_refused() -> None:
    """Hooks there read what such a context does not have."""
    context = PromptHookContext(point=HookPoint.BEFORE_TOOL_USE, prompt="x")
    with pytest.raises(
        UsageError, match=r"at before_tool_use are shown a ToolHookContext, not a Prompt"
    ):
        await HookStack().process(context)
