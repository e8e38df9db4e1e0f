"""The model and the tools inside the hooks around them: what such a hook may hand inwards, and give back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from hookline.agent.checks import check_response, check_result
from hookline.agent.hook_changes import refuse_other_call, settled
from hookline.agent.run import Run
from hookline.errors import HookError
from hookline.hooks import Entry, Plan, run_around
from hookline.lifecycle import HookPoint, InferenceHookContext, ToolHookContext
from hookline.state import InferenceRequest, InferenceResponse, ToolResult

T = TypeVar("T")


async def around_inference(
    run: Run,
    plan: Plan,
    ctx: InferenceHookContext,
    ask: Callable[[InferenceRequest], Awaitable[InferenceResponse]],
) -> InferenceResponse:
    """Ask the model through the hooks around it."""

    async def action(inner: InferenceHookContext) -> InferenceResponse:
        return await ask(inner.request)

    response = await run_around(plan.hooks, ctx, action, run, settled, _response)
    return check_response(response, "a hook around the inference")


async def around_tool(
    run: Run,
    plan: Plan,
    ctx: ToolHookContext,
    use: Callable[[ToolHookContext], Awaitable[ToolResult]],
) -> ToolResult:
    """Use a tool through the hooks around it."""
    run.clock()  # the duration of the call begins here
    return await run_around(plan.hooks, ctx, use, run, _same_call, _result)


def _same_call(entry: Entry, before: ToolHookContext, after: ToolHookContext) -> ToolHookContext:
    refuse_other_call(entry, before, after.tool_call)
    return after


def _response(entry: Entry, given: object) -> InferenceResponse:
    return _checked(entry, HookPoint.AROUND_INFERENCE, given, InferenceResponse)


def _result(entry: Entry, given: object) -> ToolResult:
    result = _checked(entry, HookPoint.AROUND_TOOL_USE, given, ToolResult)
    return check_result(result, f"hook '{entry.name}'")


def _checked(entry: Entry, point: str, given: object, kind: type[T]) -> T:
    if not isinstance(given, kind):
        raise HookError(
            entry.name,
            point,
            f"it returned {given!r} ({type(given).__name__}).",
            remedy=f"Return what `await call_next(ctx)` gives, or a {kind.__name__}.",
        )
    return given
