"""What a type checker makes of the names users build on. Checked by mypy, never run."""

from __future__ import annotations

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    HookOutcome,
    HookPoint,
    RunStatus,
    ToolHookContext,
    tool,
)
from hookline.testing import ScriptedDriver, call, calls, say


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def too_big(ctx: ToolHookContext) -> HookOutcome | None:
    """Answer with an outcome, or with nothing."""
    return HookOutcome.block("too big") if ctx.tool_call.args["a"] > 10 else None


def fill_in(ctx: ToolHookContext) -> ToolHookContext:
    """Answer with a changed context."""
    return ctx.with_args(b=1).with_metadata("filled", True)


async def remember(ctx: ToolHookContext) -> AgentState:
    """Answer with a changed state, asynchronously."""
    return ctx.state.with_metadata("last", ctx.tool_call.name)


def an_agent() -> Agent:
    """Register plain functions, sync and async, by method and by point."""
    script = [calls(call("add", a=1, b=2), call("add", a=3, b=4)), say("10", tokens=5)]
    return (
        AgentBuilder()
        .with_driver(ScriptedDriver(script))
        .with_tools(add)
        .with_limits(steps=5, tokens=1_000, seconds=10, cost=0.5, tool_calls=10)
        .on_before_tool_use(too_big, matcher="add", priority=100, name="size", tier="policy")
        .on_before_tool_use(fill_in, before=("size",))
        .add_hook(HookPoint.AFTER_TOOL_USE, remember, priority=-100)
        .build()
    )


async def drive(agent: Agent) -> tuple[RunStatus, str]:
    """Every way to drive an agent is typed."""
    async for event in agent.stream("go"):
        event.type.upper()
    async for state in agent.iterate("go"):
        state.step_count + 1
    result = await agent.run("go", state=AgentState.from_json(agent.run_sync("go").state.to_json()))
    texts: list[str] = [each.text for step in result.steps for each in step.results]
    return result.status, " ".join([result.explain(), result.text, *texts])


def outcome() -> bool:
    """Flow control can be used on its own."""
    wish = ContinuationEvaluation("me", ContinuationDecision.REQUEST_CONTINUATION, "not done yet")
    return ContinuationOutcome.from_evaluations([wish]).should_continue
