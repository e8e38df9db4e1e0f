"""The semantics of a hook call, on one screen.

Hooks run one after the other in plan order, then policies, then observers. A hook that answers None lets things be.
`block` and `stop` end the chain; `ask` does not, so that everyone else still judges. Where what was judged stands after
a stop, policies are asked all the same, and a block of theirs counts too. Middleware wraps the rest of its own tier:
what policies have judged nobody changes afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from hookline.errors import UsageError
from hookline.hooks.answers import Settle, understand
from hookline.hooks.crash import CRASHES, cut_off, hook_failure
from hookline.hooks.log import NO_LOG, Answered, HookLog
from hookline.hooks.next import RestOfTier
from hookline.hooks.outcome import Result, Verdict
from hookline.hooks.plan import Entry, HookNames, Plan
from hookline.hooks.point import C, Context
from hookline.hooks.verdicts import Verdicts

Decided = Callable[[Any], object]
"""Told the result once everyone has judged, and before observers look on: it stands, also when they are cut off."""


async def run_hooks(
    plan: Plan,
    ctx: C,
    log: HookLog = NO_LOG,
    settle: Settle | None = None,
    *,
    policies_only: bool = False,
    decided: Decided | None = None,
) -> Result[C]:
    """Ask every hook of a point. Raises HookError when one failed closed at a point where that is an error."""
    verdicts, entries, names = Verdicts(), plan.judges, plan.names
    if policies_only:
        entries, names = plan.policies, names.part(len(plan.hooks), len(plan.judges))
    try:
        ctx = await _judge(entries, names, ctx, verdicts, log, settle)
    except BaseException:
        log.left(ctx if verdicts.left is None else verdicts.left)
        raise
    if not verdicts.is_any and not plan.observers:
        return Result(ctx)
    result = verdicts.result(ctx)
    if verdicts.failure is not None or verdicts.cancelled is not None:
        log.left(ctx)
    elif decided is not None:
        decided(result)
    if plan.observers:
        await observe(plan, ctx, verdicts.verdict(result), log)
    verdicts.raise_what_is_left()
    return result


async def _judge(
    entries: tuple[Entry, ...],
    names: HookNames,
    ctx: Any,
    verdicts: Verdicts,
    log: HookLog,
    settle: Settle | None,
) -> Any:
    """Ask hooks one after the other; gives the context they leave behind."""
    monotonic = log.monotonic
    readings = [monotonic()]  # before the first hook that is not reported yet, and after each since
    first = skip = 0
    for position, entry in enumerate(entries):
        if position < skip:
            continue
        rest: RestOfTier | None = None
        try:
            if entry.is_bare:
                answer = entry.call(ctx)
            elif entry.matches is not None and not entry.matches(ctx):
                first, readings = _report(log, names, first, readings, position)
                continue
            elif entry.is_middleware:
                first, readings = _report(log, names, first, readings, position)
                end = _end_of_tier(entries, position)
                inside = (entries[position + 1 : end], names.part(position + 1, end))
                rest = RestOfTier(entry, ctx, _judge, inside, verdicts, log, settle)
                answer = entry.call(ctx, rest.pretend if entry.shadow else rest)
            else:
                answer = entry.call(ctx)
            if answer is not None and (entry.is_async or hasattr(answer, "__await__")):
                answer = await answer
            if rest is not None:
                rest.check_awaited()
        except CRASHES as error:
            first, readings = _report(log, names, first, readings, position)
            if verdicts.left is None:  # what the innermost chain had got to
                verdicts.left = ctx if rest is None else rest.context
            answer = verdicts.crash(entry, ctx, error, log, readings[0])
            verdicts.left = None
        if answer is None and entry.is_plain:
            readings.append(monotonic())
            continue
        first, readings = _report(log, names, first, readings, position)
        if rest is not None:
            if rest.lost:
                return rest.context
            answer, ctx = rest.own_part(answer), rest.context
            skip = end if rest.ran else skip
        ctx, now = _weigh(entry, ctx, answer, verdicts, log, settle, readings[0], rest)
        readings = [now]
        if verdicts.ended:
            end = _end_of_tier(entries, position)
            if end == len(entries) or not verdicts.leaves_it_to_policies(ctx.point):
                break
            verdicts.ended, skip = False, end
    _report(log, names, first, readings, len(entries))
    return ctx


def _report(
    log: HookLog, names: HookNames, first: int, readings: list[float], position: int
) -> tuple[int, list[float]]:
    """Report the hooks that let things be, up to this one. Gives where the next ones begin, and their clock."""
    count = len(readings) - 1
    if count:
        log.passed(names.part(first, first + count), readings)
    return position + 1, readings[-1:]


def _end_of_tier(entries: tuple[Entry, ...], position: int) -> int:
    """Where the tier of a hook ends: hooks come first, then policies."""
    is_policy = entries[position].is_policy
    later = range(position + 1, len(entries))
    return next((each for each in later if entries[each].is_policy is not is_policy), len(entries))


def _weigh(
    entry: Entry,
    ctx: Any,
    answer: Any,
    verdicts: Verdicts,
    log: HookLog,
    settle: Settle | None,
    started: float,
    rest: RestOfTier | None,
) -> tuple[Any, float]:
    """Understand an answer, report it, and count it; in shadow it is only reported."""
    point = ctx.point
    if answer is None and not entry.shadow:
        now = log.monotonic()
        if not entry.is_recalled and (rest is None or not rest.is_told):
            log.passed(entry.names, (started, now))
        return ctx, now
    if type(answer) is point.appends and entry.is_plain and not entry.is_policy:
        # The one answer that hooks give at every step: it is not weighed, only written down.
        try:
            ctx = point.append(ctx, answer, entry.name)
            return ctx, log.appended(entry, started, ctx)
        except UsageError as error:
            answer = hook_failure(entry, ctx, error)
    said = Answered(ctx, ctx) if answer is None else understand(entry, ctx, answer, settle)
    now = log.judged(entry, started, said)
    if entry.shadow:
        return ctx, now
    verdicts.count(entry, said, is_cut_short=rest is not None and rest.cut_short)
    return said.after, now


async def observe(plan: Plan, ctx: Context, verdict: Verdict, log: HookLog = NO_LOG) -> None:
    """Show what was decided to the observers. Nothing they do reaches the run."""
    shown = msgspec.structs.replace(ctx, verdict=verdict) if hasattr(ctx, "verdict") else ctx
    cancelled: BaseException | None = None
    for entry in plan.observers:
        started = log.monotonic()
        try:
            if entry.matches is not None and not entry.matches(shown):
                continue
            answer = entry.call(shown)
            if entry.is_async or inspect.isawaitable(answer):
                await answer
        except CRASHES as error:
            cut = cut_off(entry, shown, error)
            failure = cut or hook_failure(entry, shown, error)
            log.judged(entry, started, Answered(shown, shown, error=failure))
            if cut is not None and not plan.point.unskippable:
                raise
            cancelled = cancelled or (error if cut is not None else None)
        else:
            if not entry.is_recalled:
                log.passed(entry.names, (started, log.monotonic()))
    if cancelled is not None:
        raise cancelled
