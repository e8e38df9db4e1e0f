"""Calls hooks. `_judge` calls those of one point, `_apply_answer` applies one answer, `observe` calls the observers.

Hooks run one after the other in plan order, then policies, then observers. A hook that answers None has no objection.
`block` and `stop` end the chain; `ask` does not, so the other hooks still judge. Where a stop undoes nothing, policies
are asked after it, and their block counts, too. Middleware wraps the rest of its own tier, so nothing changes after the
policies have judged. Hooks at `around_*` points wrap an action in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from hookline._aio import Once
from hookline.errors import HookError, UsageError
from hookline.hooks.outcome import (
    CRASHES,
    NO_LOG,
    HookAnswer,
    HookLog,
    HookOutcome,
    Result,
    Settle,
    Verdicts,
    cancellation_failure,
    check_change,
    hook_failure,
    understand,
)
from hookline.hooks.plan import Entry, HookNames, Plan
from hookline.hooks.point_type import C, Context, Verdict

_AS_GIVEN: Any = object()


T = TypeVar("T")
Decided = Callable[[Any], object]
"""Called with the result after all hooks and before the observers: it is valid even if those are cancelled."""
ON_ASKED: ContextVar[Callable[[str], object] | None] = ContextVar("on_asked", default=None)
"""Called with the name of each hook before it works, and with "" when none does: for a display of what happens now.
A record for the stream would come too late: a hook that is not async holds up whoever reads that."""


async def run_hooks(
    plan: Plan,
    ctx: C,
    log: HookLog[C] = NO_LOG,
    settle: Settle | None = None,
    *,
    policies_only: bool = False,
    decided: Decided | None = None,
) -> Result[C]:
    """Ask every hook of a point. Raises HookError when one failed closed at a point where that is an error."""
    verdicts, entries, names = Verdicts(log, settle), plan.judges, plan.names
    if policies_only:
        entries, names = plan.policies, names.part(len(plan.hooks), len(plan.judges))
    on_asked = ON_ASKED.get()
    try:
        ctx = await _judge(entries, names, verdicts, ctx)
    except BaseException:
        log.report_context(ctx if verdicts.left is None else verdicts.left)
        raise
    finally:
        if on_asked is not None:
            on_asked("")
    if not verdicts.is_any and not plan.observers:
        return Result(ctx)
    result = verdicts.result(ctx)
    if verdicts.failure is not None or verdicts.cancelled is not None:
        log.report_context(ctx)
    elif decided is not None:
        decided(result)
    if plan.observers:
        await observe(plan, ctx, verdicts.verdict(result), log)
    verdicts.raise_pending()
    return result


async def _judge(entries: tuple[Entry, ...], names: HookNames, verdicts: Verdicts, ctx: C) -> C:
    """Ask hooks one after the other; returns the context they leave."""
    log = verdicts.log
    monotonic, on_asked = log.monotonic, ON_ASKED.get()
    readings = [monotonic()]  # before the first hook that is not reported yet, and after each since
    first = skip = 0
    for position, entry in enumerate(entries):
        if position < skip:
            continue
        rest: RestOfTier | None = None
        try:
            if entry.matches is not None and not entry.matches(ctx):
                first, readings = _report(log, names, first, readings, position)
                continue
            if on_asked is not None:
                on_asked(entry.name)
            if entry.is_middleware:
                first, readings = _report(log, names, first, readings, position)
                end = _end_of_tier(entries, position)
                inside = entries[position + 1 : end], names.part(position + 1, end)
                rest = RestOfTier(entry, ctx, partial(_judge, *inside, verdicts), verdicts)
                answer = await rest.answer()
            else:
                answer = entry.call(ctx)
                if answer is not None and (entry.is_async or hasattr(answer, "__await__")):
                    answer = await answer
        except CRASHES as error:
            first, readings = _report(log, names, first, readings, position)
            if verdicts.left is None:  # how far the innermost chain got
                verdicts.left = ctx if rest is None else rest.context
            answer = verdicts.crash(entry, ctx, error, readings[0])
            verdicts.left = None
        if answer is None and entry.is_silent:
            readings.append(monotonic())
            continue
        first, readings = _report(log, names, first, readings, position)
        if rest is not None:
            if rest.is_lost:
                return rest.context  # type: ignore[no-any-return]
            answer, ctx = rest.own_part(answer), rest.context
            skip = end if rest.has_run else skip
        ctx, now = _apply_answer(entry, ctx, answer, verdicts, readings[0], rest)
        readings = [now]
        if verdicts.ended:
            end = _end_of_tier(entries, position)
            if end == len(entries) or not verdicts.can_policies_run(ctx.point):
                break
            verdicts.ended, skip = False, end
    _report(log, names, first, readings, len(entries))
    return ctx


async def run_around(
    entries: tuple[Entry, ...],
    ctx: C,
    action: Callable[[C], Awaitable[T]],
    log: HookLog[C],
    settle: Settle | None,
    check: Callable[[Entry, object, T | C], T],
) -> T:
    """Do an action inside the hooks around it. Each may time, cache, replace or repeat what is inside it.

    `check` takes what a hook gives instead of the result of the action, and that result (the hook's context, if the
    action was not done); it raises, or gives the result. A hook in shadow is called too, and the action is done once,
    as it is.
    """
    if not entries:
        return await action(ctx)
    entry, on_asked, started = entries[0], ON_ASKED.get() or _ignore, log.monotonic()

    async def inside(handed: C) -> T:
        if entry.shadow and next_.results:
            return next_.results[0]
        if not entry.shadow and ctx.point.gives_context and handed is not next_.base:
            log.report_answer(entry, started, HookAnswer(next_.base, handed))
        on_asked("")
        given = ctx if entry.shadow else handed
        result = await run_around(entries[1:], given, action, log, settle, check)
        on_asked(entry.name)
        return result

    next_: Next[C, T] = Next(entry, ctx, inside, settle)
    try:
        answered = await _ask_around(next_, log, started, check)
        result, failure = answered  # apart from the await: mypy would take `T | None` for T
        if not entry.shadow:
            if failure is not None and entry.registration.on_failure == "closed":
                raise failure
            if failure is None and result is not None:
                return result
        if next_.raised is not None and not next_.results:
            raise next_.raised
        return next_.results[-1] if next_.results else await inside(ctx)
    finally:
        on_asked("")


async def _ask_around(
    next_: Next[C, T],
    log: HookLog[C],
    started: float,
    check: Callable[[Entry, object, T | C], T],
) -> tuple[T | None, HookError | None]:
    """What one hook around an action gives, checked and reported, or its failure; neither if it does not match."""
    entry, ctx = next_.entry, next_.given
    result: T | None = None
    failure: HookError | None = None
    try:
        if entry.matches is not None and not entry.matches(ctx):
            return None, None
        (ON_ASKED.get() or _ignore)(entry.name)
        result = await next_.answer()
        if not any(result is each for each in next_.results):
            result = check(entry, result, next_.results[-1] if next_.results else ctx)
    except CRASHES as error:
        if (cut := cancellation_failure(entry, ctx, error)) is not None:
            log.report_answer(entry, started, HookAnswer(ctx, ctx, error=cut))
            raise
        if error is next_.raised:
            raise  # the action's own error, which the hook did not handle
        failure = hook_failure(entry, ctx, error)
    change: tuple[Any, Any] = (ctx, ctx)
    if ctx.point.gives_context and failure is None:
        change = (next_.base, result)
    log.report_answer(entry, started, HookAnswer(*change, error=failure))
    return result, failure


def _report(
    log: HookLog[Any], names: HookNames, first: int, readings: list[float], position: int
) -> tuple[int, list[float]]:
    """Report the hooks without an objection up to this one. Returns where the next ones begin, and their clock."""
    count = len(readings) - 1
    if count:
        log.report_passed(names.part(first, first + count), readings)
    return position + 1, readings[-1:]


def _end_of_tier(entries: tuple[Entry, ...], position: int) -> int:
    """Where the tier of a hook ends: hooks come first, then policies."""
    is_policy = entries[position].is_policy
    later = range(position + 1, len(entries))
    return next((each for each in later if entries[each].is_policy is not is_policy), len(entries))


def _apply_answer(
    entry: Entry, ctx: C, answer: Any, verdicts: Verdicts, started: float, rest: RestOfTier | None
) -> tuple[C, float]:
    """Read an answer, report it and count it. The answer of a hook in shadow mode is only reported."""
    point, log = ctx.point, verdicts.log
    if answer is None and not entry.shadow:
        now = log.monotonic()
        if not entry.has_recorded_answer and (rest is None or not rest.is_recorded):
            log.report_passed(entry.names, (started, now))
        return ctx, now
    append = point.append if type(answer) is point.appends else None
    if append is not None and entry.is_silent and not entry.is_policy:
        # The one answer that hooks give at every step: it decides nothing, and is only recorded.
        try:
            ctx = append(ctx, answer, entry.name)
            return ctx, log.report_appended(entry, started, ctx)
        except UsageError as error:
            answer = hook_failure(entry, ctx, error)
    said = (
        HookAnswer(ctx, ctx) if answer is None else understand(entry, ctx, answer, verdicts.settle)
    )
    now = log.report_answer(entry, started, said)
    if entry.shadow:
        return ctx, now
    verdicts.count(entry, said, is_cut_short=rest is not None and rest.is_cut_short)
    return said.after, now


async def observe(plan: Plan, ctx: C, verdict: Verdict, log: HookLog[C] = NO_LOG) -> None:
    """Show what was decided to the observers. Nothing they do reaches the run."""
    shown, on_asked = ctx.replace(decided=verdict), ON_ASKED.get() or _ignore
    cancelled: BaseException | None = None
    for entry in plan.observers:
        started = log.monotonic()
        try:
            if entry.matches is not None and not entry.matches(shown):
                continue
            on_asked(entry.name)
            answer = entry.call(shown)
            if entry.is_async or inspect.isawaitable(answer):
                await answer
        except CRASHES as error:
            cut = cancellation_failure(entry, shown, error)
            failure = cut or hook_failure(entry, shown, error)
            log.report_answer(entry, started, HookAnswer(shown, shown, error=failure))
            if cut is not None and not plan.point.unskippable:
                raise
            cancelled = cancelled or (error if cut is not None else None)
        else:
            if not entry.has_recorded_answer:
                log.report_passed(entry.names, (started, log.monotonic()))
        finally:
            on_asked("")
    if cancelled is not None:
        raise cancelled


def _ignore(name: str) -> None:
    """Nobody reads along."""


# --- `next`: how a hook continues inwards, to what it wraps: the rest of its tier, or an action ---


class RepeatError(UsageError):
    """What an action raises that is called again and cannot be done again. The hook that called it again has failed."""


class Next(Generic[C, T]):
    """What a hook calls to continue inwards, and what it got. It must await each call.

    An action may be left out, done once, or repeated.
    """

    def __init__(
        self,
        entry: Entry,
        ctx: C,
        inside: Callable[[C], Awaitable[T]],
        settle: Settle | None = None,
    ) -> None:
        self.entry = entry
        self.given = self.handed = ctx
        self.results: list[T] = []
        self.raised: BaseException | None = None
        self._inside = inside
        self._settle = settle
        self._calls: list[Once[T]] = []

    def __call__(self, ctx: C = _AS_GIVEN) -> Once[T]:
        call = Once(lambda: self._enter(self.given if ctx is _AS_GIVEN else ctx))
        self._calls.append(call)
        return call

    async def _enter(self, ctx: C) -> T:
        ctx = self.base if ctx is self.given else ctx
        self.handed = check_change(self.entry, self.base, ctx, self._settle)
        try:
            result = await self._inside(self.handed)
        except BaseException as error:
            if isinstance(error, RepeatError) and len(self._calls) > 1:
                raise self.error(error.message, error.remedy) from None
            self.raised = error
            raise
        self.results.append(result)
        return result

    @property
    def base(self) -> C:
        """What the hook changes: its context or, once the action has given another, that one."""
        if self.results and self.given.point.gives_context:
            return self.results[-1]  # type: ignore[return-value] # it is a context there
        return self.given

    async def answer(self) -> Any:
        """Call the hook. A call of `next` that was not awaited did nothing, so it is an error."""
        cause: Exception | None = None
        try:
            answer = self.entry.call(self.given, self)
            if inspect.isawaitable(answer):
                answer = await answer
        except (AttributeError, TypeError) as error:  # `next(ctx).is_blocked`, say
            cause = error
        if not all(call.awaited for call in self._calls):
            name = "call_next" if self.given.point.around else "next"
            raise self.error(
                f"it called {name}(ctx) and never awaited it.",
                f"Write `await {name}(ctx)`.",
            ) from cause
        if cause is not None:
            raise cause
        return answer

    def error(self, problem: str, remedy: str) -> HookError:
        """What the hook did wrong."""
        return HookError(self.entry.name, self.given.point, problem, remedy=remedy)


class RestOfTier(Next[Any, Result[Any]]):
    """The rest of a tier, inside middleware. It runs once, and to its end."""

    def __init__(
        self,
        entry: Entry,
        ctx: Context,
        judge: Callable[[Any], Awaitable[Any]],
        verdicts: Verdicts,
    ) -> None:
        super().__init__(
            entry, ctx, self._skip_in_shadow if entry.shadow else self._run, verdicts.settle
        )
        self.context: Any = ctx
        """What the rest left behind; what it was handed, while it runs."""
        self._judge = judge
        self._verdicts = verdicts
        self._started = verdicts.log.monotonic()
        self.is_recorded = False
        """It passed on a changed context, and that is recorded."""
        self.has_run = False

    async def _skip_in_shadow(self, ctx: Context) -> Result[Any]:
        """For middleware in shadow: the rest runs later, as it would without this hook."""
        return Result(ctx)

    async def _run(self, ctx: Context) -> Result[Any]:
        if self.has_run:
            raise self.error("it called next twice.", "Call next once.")
        verdicts = self._verdicts
        self.context, self.has_run = ctx, True
        if ctx is not self.given:  # recorded now: the hooks inside see what it passed on
            verdicts.log.report_answer(self.entry, self._started, HookAnswer(self.given, ctx))
            self.is_recorded = True
        self.context = await self._judge(ctx)
        if verdicts.failure is not None and self.is_lost:
            raise verdicts.failure
        return verdicts.result(self.context)

    async def answer(self) -> Any:
        """Call the hook. If it began the rest, it must have waited for its end."""
        answer = await super().answer()
        if self.is_cut_short:
            raise self.error("it did not wait for next to finish.", "Write `await next(ctx)`.")
        return answer

    @property
    def is_cut_short(self) -> bool:
        """The rest began and did not end: its verdict is unknown."""
        return self.has_run and not self.results

    @property
    def is_lost(self) -> bool:
        """A later hook failed where that is an error: middleware can neither hide it nor answer for it."""
        return self._verdicts.failure is not None and not self.given.point.unskippable

    def own_part(self, answer: Any) -> Any:
        """The middleware's own part of its answer, without what the rest decided and changed."""
        if not self.has_run or not self.results:
            return None if answer is self.context else answer
        if isinstance(answer, Result) and answer.kind <= self.results[0].kind:
            answer = answer.context
        if isinstance(answer, HookOutcome) and answer.context is not None:
            return msgspec.structs.replace(answer, context=self._rebase(answer.context))
        own = self._rebase(answer)
        return None if own is self.context else own  # it returned what the rest decided

    def _rebase(self, changed: Any) -> Any:
        """A context derived from the one before `next`, as if it were derived from the one after."""
        if changed is self.context or type(changed) is not type(self.context):
            return changed
        mine = {}
        for name in changed.__struct_fields__:
            value = getattr(changed, name)
            if value is not getattr(self.given, name) and value is not getattr(self.handed, name):
                mine[name] = value
        return msgspec.structs.replace(self.context, **mine)
