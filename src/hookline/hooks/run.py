"""How hooks are called: `_judge` is all of it for one point, and `_weigh` what becomes of one answer.

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
from typing import Any, TypeVar

from hookline.errors import HookError, UsageError
from hookline.hooks.next import Next, RestOfTier
from hookline.hooks.outcome import (
    CRASHES,
    NO_LOG,
    HookAnswer,
    HookLog,
    Result,
    Settle,
    Verdicts,
    cancellation_failure,
    hook_failure,
    understand,
)
from hookline.hooks.plan import Entry, HookNames, Plan
from hookline.hooks.point_type import C, Verdict

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
        if answer is None and entry.is_plain:
            readings.append(monotonic())
            continue
        first, readings = _report(log, names, first, readings, position)
        if rest is not None:
            if rest.is_lost:
                return rest.context  # type: ignore[no-any-return]
            answer, ctx = rest.own_part(answer), rest.context
            skip = end if rest.has_run else skip
        ctx, now = _weigh(entry, ctx, answer, verdicts, readings[0], rest)
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
    entry, is_asked, on_asked = entries[0], True, ON_ASKED.get() or _ignore
    failure: HookError | None = None
    result: T | None = None

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

    next_ = Next(entry, ctx, inside, settle)
    started = log.monotonic()
    try:
        is_asked = entry.matches is None or entry.matches(ctx)
        if is_asked:
            on_asked(entry.name)
            result = await next_.answer()
        if is_asked and not any(result is each for each in next_.results):
            result = check(entry, result, next_.results[-1] if next_.results else ctx)
    except CRASHES as error:
        if (cut := cancellation_failure(entry, ctx, error)) is not None:
            log.report_answer(entry, started, HookAnswer(ctx, ctx, error=cut))
            raise
        if error is next_.raised:
            raise  # the action's own error, which the hook did not handle
        failure = hook_failure(entry, ctx, error)
    finally:
        on_asked("")
    if is_asked:
        change: tuple[Any, Any] = (ctx, ctx)
        if ctx.point.gives_context and failure is None:
            change = (next_.base, result)
        log.report_answer(entry, started, HookAnswer(*change, error=failure))
    if not entry.shadow:
        if failure is not None and entry.registration.on_failure == "closed":
            raise failure
        if failure is None and result is not None:
            return result
    if next_.raised is not None and not next_.results:
        raise next_.raised
    if next_.results:
        return next_.results[-1]
    try:
        return await inside(ctx)
    finally:
        on_asked("")


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


def _weigh(
    entry: Entry, ctx: C, answer: Any, verdicts: Verdicts, started: float, rest: RestOfTier | None
) -> tuple[C, float]:
    """Understand an answer, report it, and count it; in shadow it is only reported."""
    point, log = ctx.point, verdicts.log
    if answer is None and not entry.shadow:
        now = log.monotonic()
        if not entry.has_recorded_answer and (rest is None or not rest.is_recorded):
            log.report_passed(entry.names, (started, now))
        return ctx, now
    append = point.append if type(answer) is point.appends else None
    if append is not None and entry.is_plain and not entry.is_policy:
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
