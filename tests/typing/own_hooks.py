"""What a type checker makes of hooks that describe themselves, of stacks and matchers. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from hookline import (
    AgentBuilder,
    AgentState,
    CompositeMatcher,
    HookOutcome,
    HookPoint,
    HookStack,
    StepHookContext,
    ToolCall,
    ToolHookContext,
    ToolNameMatcher,
    ToolResult,
)
from hookline.adapters import ContinuationCriteriaAdapter, StateProcessorAdapter
from hookline.hooks import Context, Matcher, Point, Result
from hookline.lifecycle import AgentContext


class NoDeleting:
    """Says where and when it runs."""

    def points(self) -> list[Point[ToolHookContext]]:
        """Before a tool."""
        return [HookPoint.BEFORE_TOOL_USE]

    def matcher(self) -> Matcher:
        """For one tool."""
        return ToolNameMatcher("bash")

    def handle(self, ctx: ToolHookContext) -> HookOutcome | None:
        """Judge."""
        return HookOutcome.block("no") if "rm" in ctx.tool_call.args["command"] else None


class Everywhere:
    """Runs at all points."""

    def points(self) -> list[str]:
        """All."""
        return []

    async def handle(self, ctx: Context, next: Callable[[Context], Awaitable[Result[Any]]]) -> Any:
        """Hand on."""
        return await next(ctx)


class OnEvent:
    """The older spelling."""

    def event(self) -> str:
        """One point."""
        return "PreToolUse"

    def matches(self, ctx: ToolHookContext) -> bool:
        """When it runs."""
        return ctx.tool_call.name == "bash"

    def handle(self, ctx: ToolHookContext) -> HookOutcome:
        """Judge."""
        return HookOutcome.proceed()


class Quiet:
    """An object that is called like a function."""

    def handle(self, ctx: ToolHookContext) -> None:
        """No objection."""


class Timed:
    """An object that wraps the rest of its tier."""

    async def handle(self, ctx: ToolHookContext, next: Any) -> Result[ToolHookContext]:
        """Hand on."""
        result: Result[ToolHookContext] = await next(ctx)
        return result


class Weekend:
    """A matcher that derives from nothing."""

    def matches(self, ctx: ToolHookContext) -> bool:
        """Whether it is Sunday."""
        return bool(ctx.metadata.get("sunday"))


async def logged(ctx: ToolHookContext, next: Any) -> Any:
    """Middleware as a function."""
    return await next(ctx)


def handed_on(ctx: ToolHookContext, call_next: Any) -> object:
    """The same, with the other name."""
    return call_next(ctx)


class Shell:
    """A capability that gives hooks as they are."""

    name = "shell"

    def hooks(self) -> Iterator[NoDeleting | OnEvent]:
        """Both."""
        yield NoDeleting()
        yield OnEvent()


class CountSteps:
    """A state processor."""

    def process(self, state: AgentState) -> AgentState:
        """Count."""
        return state.with_metadata("steps", state.step_count)


def started(ctx: StepHookContext) -> None:
    """A plain hook."""


class Trace:
    """At points of different contexts."""

    def points(self) -> list[Point[Any]]:
        """Three, each found in another way."""
        named: Point[Any] = HookPoint["BEFORE_STEP"]
        return [named, HookPoint.AFTER_TOOL_USE, HookPoint("Stop")]

    def handle(self, ctx: AgentContext) -> None:
        """It looks."""


def a_builder() -> AgentBuilder:
    """Every spelling of a registration is typed, and gives the builder back."""
    weekend: Matcher = Weekend()
    return (
        AgentBuilder()
        .with_hook(NoDeleting(), priority=100, tier="policy")
        .with_hooks(
            Everywhere(), OnEvent(), Trace(), StateProcessorAdapter(CountSteps(), position="before")
        )
        .with_capability(Shell())
        .on_before_tool_use(Quiet())
        .on_before_tool_use(Timed())
        .on_before_tool_use(logged, matcher=weekend)
        .on_before_tool_use(handed_on, matcher=CompositeMatcher.and_("bash", weekend))
        .on_before_tool_use(lambda ctx: ctx.with_args(command="ls"))
        .add_hook(event=HookPoint.BEFORE_STEP, hook=started, priority=1)
        .add_hook(HookPoint["BEFORE_STEP"], started)
        .add_pre_processor(CountSteps())
        .add_processor(CountSteps(), name="counting")
        .add_continuation_criteria(lambda state: state.step_count < 3)
        .with_hooks(ContinuationCriteriaAdapter(lambda state: True))
    )


class Request(Context, frozen=True, kw_only=True):
    """A context of one's own."""

    path: str
    user: str = ""


REQUEST = Point("request", Request, changes={"user"}, blocks="it is answered with 403")
AROUND = Point("around_request", Request, around=True)


def signed_in(ctx: Request) -> Request:
    """Change a field."""
    return ctx.replace(user="ann")


async def cached(ctx: Request, call_next: Callable[[Request], Awaitable[str]]) -> str:
    """Wrap the action."""
    return "cached" if ctx.path == "/" else await call_next(ctx)


def watched(ctx: Request) -> None:
    """An observer sees what was decided."""
    ctx.verdict.reason.upper()


STACK = (
    HookStack()
    .with_hook(signed_in, REQUEST, priority=100)
    .with_hook(watched, REQUEST, tier="observer")
    .with_hook(cached, AROUND)
    .with_hook(Everywhere())
)


async def answered(path: str) -> tuple[str, str]:
    """The context of a result has the type of the context."""
    gate = await STACK.process(Request(point=REQUEST, path=path))
    page = await STACK.process(Request(point=AROUND, path=path), lambda ctx: f"page {ctx.path}")
    return gate.context.user, str(page.answer)


def answered_sync(path: str) -> bool:
    """For code that is not async."""
    result = STACK.process_sync(Request(point=REQUEST, path=path), lambda ctx: ctx.user)
    return result.is_blocked and not result.failures


def used(call: ToolCall) -> Result[ToolHookContext]:
    """Tool middleware without an agent."""
    ctx = ToolHookContext(point=HookPoint.AROUND_TOOL_USE, tool_call=call)
    return STACK.process_sync(ctx, lambda ctx: ToolResult(ctx.tool_call.name))
