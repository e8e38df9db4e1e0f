"""The onion around an action: each hook may time, cache, replace or repeat what is inside it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from hookline._aio import Once
from hookline.agent.checks import check_request, check_response, check_result
from hookline.agent.run import Run
from hookline.errors import HookError
from hookline.hooks import CRASHES, Answered, Entry, Next, Plan, cut_off, hook_failure
from hookline.lifecycle import InferenceHookContext, ToolHookContext
from hookline.state import InferenceRequest, InferenceResponse, ToolCall, ToolResult

Inner = Callable[[Any], Awaitable[Any]]


async def around_inference(
    run: Run,
    plan: Plan,
    ctx: InferenceHookContext,
    ask: Callable[[InferenceRequest], Awaitable[InferenceResponse]],
) -> InferenceResponse:
    """Ask the model through the hooks around it."""

    async def core(inner: InferenceHookContext) -> InferenceResponse:
        return await ask(inner.request)

    response = await _onion(run, plan.hooks, ctx, core, InferenceResponse, ("request",))
    return check_response(response, "a hook around the inference")


async def around_tool(
    run: Run,
    plan: Plan,
    ctx: ToolHookContext,
    use: Callable[[ToolHookContext], Awaitable[ToolResult]],
) -> ToolResult:
    """Use a tool through the hooks around it."""
    return await _onion(run, plan.hooks, ctx, use, ToolResult, ("tool_call",))  # type: ignore[no-any-return]


async def _onion(
    run: Run,
    entries: tuple[Entry, ...],
    ctx: Any,
    core: Inner,
    kind: type,
    changeable: tuple[str, ...],
) -> Any:
    if not entries:
        return await core(ctx)
    entry, rest = entries[0], entries[1:]
    if entry.matches is not None and not _applies(run, entry, ctx):
        return await _onion(run, rest, ctx, core, kind, changeable)
    layer = _Layer(
        entry, ctx, changeable, lambda inner: _onion(run, rest, inner, core, kind, changeable)
    )
    return await layer.call(run, kind)


def _applies(run: Run, entry: Entry, ctx: Any) -> bool:
    """Whether the hook's matcher picks this action; a matcher that crashes is a crash of its hook."""
    try:
        return bool(entry.matches(ctx))  # type: ignore[misc]
    except CRASHES as error:
        failure = hook_failure(entry, ctx, error)
    run.judged(entry, run.clock(), Answered(ctx, ctx, error=failure))
    if entry.registration.on_failure == "closed" and not entry.shadow:
        raise failure
    return False


class _Layer(Next[Any]):
    """One hook around an action, and what it did with it."""

    def __init__(self, entry: Entry, ctx: Any, changeable: tuple[str, ...], inside: Inner) -> None:
        super().__init__(entry, ctx)
        self.changeable = changeable
        self.inside = inside
        self.results: list[Any] = []
        self.raised: BaseException | None = None

    def __call__(self, ctx: Any = None) -> Once[Any]:
        return super().__call__(self.context if ctx is None else ctx)

    async def _enter(self, ctx: Any) -> Any:
        self._check(ctx)
        if self.entry.shadow:  # it only shows what it would do: the action is done once, as it is
            if self.results:
                return self.results[0]
            ctx = self.context
        try:
            result = await self.inside(ctx)
        except BaseException as error:
            self.raised = error
            raise
        self.results.append(result)
        return result

    def _check(self, ctx: Any) -> None:
        given = self.context
        if type(ctx) is not type(given):
            raise self.error(
                f"it called call_next with {ctx!r}.", "Pass the context, or one derived from it."
            )
        for name in ctx.__struct_fields__:
            if name not in self.changeable and getattr(ctx, name) is not getattr(given, name):
                raise self.error(
                    f"it changed '{name}', which cannot be changed around an action.",
                    f"Changeable: {', '.join(self.changeable)}.",
                )
        if "request" in self.changeable:
            if ctx.request is not given.request:
                check_request(self.entry, given, ctx.request)
        elif type(ctx.tool_call) is not ToolCall or ctx.tool_call.id != given.tool_call.id:
            raise self.error(
                "it replaced the call by something that is not the same call, changed.",
                "Derive it: ctx.with_args(...), and keep the id.",
            )

    async def call(self, run: Run, kind: type) -> Any:
        """Run the hook; what it fails at counts as its fail mode says."""
        entry, ctx, started = self.entry, self.context, run.clock()
        failure: HookError | None = None
        result: Any = None
        try:
            result = entry.call(ctx, self)
            if inspect.isawaitable(result):
                result = await result
            result = self._checked_answer(result, kind)
        except CRASHES as error:
            cut = cut_off(entry, ctx, error)
            if cut is not None:
                run.judged(entry, started, Answered(ctx, ctx, error=cut))
                raise
            if error is self.raised:
                raise  # the action's own error, which the hook let pass
            failure = hook_failure(entry, ctx, error)
        run.judged(entry, started, Answered(ctx, ctx, error=failure))
        if failure is None and not entry.shadow:
            return result
        if failure is not None and entry.registration.on_failure == "closed" and not entry.shadow:
            raise failure
        if self.raised is not None and not self.results:
            raise self.raised
        return self.results[-1] if self.results else await self.inside(ctx)

    def _checked_answer(self, result: Any, kind: type) -> Any:
        if self.is_left_unawaited:
            raise self.error(
                "it called call_next and never awaited it.", "Write `await call_next(ctx)`."
            )
        if not isinstance(result, kind):
            raise self.error(
                f"it returned {result!r} ({type(result).__name__}).",
                f"Return what `await call_next(ctx)` gives, or a {kind.__name__}.",
            )
        if isinstance(result, ToolResult) and not any(result is one for one in self.results):
            return check_result(result, f"hook '{self.entry.name}'")
        return result
