"""The semantics of a hook call, on one screen.

Hooks run one after the other in plan order, then policies, then observers. A hook that answers None
goes on. `block` and `stop` end the chain; `ask` does not, so that everyone else still judges. Where what
was judged stands after a stop, policies are asked all the same, and a block of theirs counts besides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from hookline.errors import UsageError
from hookline.hooks.crash import CRASHES, cut_off, hook_failure
from hookline.hooks.meaning import Settle, understand
from hookline.hooks.outcome import Result, Verdict
from hookline.hooks.plan import Crew, Entry, Plan
from hookline.hooks.point import C, Context
from hookline.hooks.rest import Rest
from hookline.hooks.tally import Tally
from hookline.hooks.trail import NO_TRAIL, Answered, Trail

Decided = Callable[[Any], object]
"""Told the result once everyone has judged, and before observers look on: it stands, also when they are cut off."""


async def run_hooks(
    plan: Plan,
    ctx: C,
    trail: Trail = NO_TRAIL,
    settle: Settle | None = None,
    *,
    policies_only: bool = False,
    started: float | None = None,
    decided: Decided | None = None,
) -> Result[C]:
    """Ask every hook of a point. Raises HookError when one failed closed at a point where that is an error."""
    if policies_only or not plan.is_flat:
        tiers = (plan.policies,) if policies_only else (plan.hooks, plan.policies)
        return await _run_any(plan, tiers, ctx, trail, settle, decided)
    tally: Tally | None = None
    point, crew, monotonic = plan.point, plan.crew, trail.monotonic
    readings = [monotonic() if started is None else started]
    first = 0
    for entry in plan.judges:
        hook = entry.call
        try:
            answer = hook(ctx)
            if answer is not None and (entry.is_async or hasattr(answer, "__await__")):
                answer = await answer
        except CRASHES as error:
            first += _tell(trail, crew, first, readings)
            readings = readings[-1:]
            trail.left(ctx)  # it may be a cancellation: that is raised here
            tally = tally or Tally()
            answer = tally.crash(entry, ctx, error, trail, readings[0])
        if answer is None:
            readings.append(monotonic())
            continue
        first += _tell(trail, crew, first, readings) + 1
        now = readings[-1]
        if type(answer) is point.appends and point.append is not None and not entry.is_policy:
            # The one answer that hooks give at every step: it is not weighed, only written down.
            try:
                ctx = point.append(ctx, answer, entry.name)
                readings = [trail.appended(entry, now, ctx)]
                continue
            except UsageError as error:
                answer = hook_failure(entry, ctx, error)
        tally = tally or Tally()
        ctx, now = _weigh(entry, ctx, answer, tally, trail, settle, now)
        readings = [now]
        if tally.ended:
            break
    if len(readings) > 1:
        trail.passed(crew if not first else crew.part(first, len(readings) - 1), readings)
    if tally is None and not plan.observers:
        return Result(ctx)
    if tally is not None and tally.leaves_it_to_policies(point):
        ctx = await _in_tiers((plan.policies,), ctx, tally, trail, settle)
    return await _conclude(plan, ctx, tally or Tally(), trail, decided)


def _tell(trail: Trail, crew: Crew, first: int, readings: list[float]) -> int:
    """Report the hooks that let things be so far; gives how many they are."""
    count = len(readings) - 1
    if count:
        trail.passed(crew.part(first, count), readings)
    return count


async def _run_any(
    plan: Plan,
    tiers: tuple[tuple[Entry, ...], ...],
    ctx: C,
    trail: Trail,
    settle: Settle | None,
    decided: Decided | None,
) -> Result[C]:
    """The same for a plan with everything it may contain."""
    tally = Tally()
    ctx = await _in_tiers(tiers, ctx, tally, trail, settle)
    return await _conclude(plan, ctx, tally, trail, decided)


async def _in_tiers(
    tiers: tuple[tuple[Entry, ...], ...],
    ctx: C,
    tally: Tally,
    trail: Trail,
    settle: Settle | None,
) -> C:
    try:
        # Middleware wraps the rest of its own tier only: what policies have judged nobody changes afterwards.
        for entries in tiers:
            if tally.leaves_it_to_policies(ctx.point):
                tally.ended = False
            if not tally.ended:
                ctx = await _judge(entries, ctx, tally, trail, settle)
    except BaseException:
        trail.left(ctx if tally.left is None else tally.left)
        raise
    return ctx


async def _conclude(
    plan: Plan, ctx: C, tally: Tally, trail: Trail, decided: Decided | None
) -> Result[C]:
    """Everyone was asked: the observers look on, and what was decided is the result."""
    result = tally.result(ctx)
    if tally.failure is not None or tally.cancelled is not None:
        trail.left(ctx)
    elif decided is not None:
        decided(result)
    if plan.observers:
        await observe(plan, ctx, tally.verdict(result), trail)
    tally.raise_what_is_left()
    return result


async def observe(plan: Plan, ctx: Context, verdict: Verdict, trail: Trail = NO_TRAIL) -> None:
    """Show what was decided to the observers. Nothing they do reaches the run."""
    shown = msgspec.structs.replace(ctx, verdict=verdict) if hasattr(ctx, "verdict") else ctx
    cancelled: BaseException | None = None
    for entry in plan.observers:
        started = trail.monotonic()
        try:
            if entry.matches is not None and not entry.matches(shown):
                continue
            answer = entry.call(shown)
            if entry.is_async or inspect.isawaitable(answer):
                await answer
        except CRASHES as error:
            cut = cut_off(entry, shown, error)
            failure = cut or hook_failure(entry, shown, error)
            trail.judged(entry, started, Answered(shown, shown, error=failure))
            if cut is not None and not plan.point.unskippable:
                raise
            cancelled = cancelled or (error if cut is not None else None)
        else:
            trail.passed(entry.crew, (started, trail.monotonic()))
    if cancelled is not None:
        raise cancelled


async def _judge(
    entries: tuple[Entry, ...], ctx: Any, tally: Tally, trail: Trail, settle: Settle | None
) -> Any:
    """The chain with everything it may contain: matchers, middleware, hooks in shadow."""
    started = trail.monotonic()
    for position, entry in enumerate(entries):
        rest = None
        try:
            if entry.matches is not None and not entry.matches(ctx):
                continue
            if entry.is_middleware:
                rest = Rest(entry, entries[position + 1 :], ctx, tally, trail, settle, _judge)
                answer = entry.call(ctx, rest.shadow if entry.shadow else rest)
            else:
                answer = entry.call(ctx)
            if entry.is_async or (answer is not None and hasattr(answer, "__await__")):
                answer = await answer
            if rest is not None:
                rest.check_awaited()
        except CRASHES as error:
            if tally.left is None:  # what the innermost chain had got to
                tally.left = ctx if rest is None else rest.context
            answer = tally.crash(entry, ctx, error, trail, started)
            tally.left = None
        if rest is not None:
            if rest.lost:
                return rest.context
            answer, ctx = rest.own_part(answer), rest.context
            if answer is ctx:  # it handed back what came of the rest, as it is
                answer = None
        if answer is None and entry.shadow:
            started = trail.judged(entry, started, Answered(ctx, ctx))
        elif answer is None:
            now = trail.monotonic()
            if rest is None or not rest.is_told:
                trail.passed(entry.crew, (started, now))
            started = now
        else:
            ctx, started = _weigh(entry, ctx, answer, tally, trail, settle, started, rest)
        if tally.ended or (rest is not None and rest.ran):
            break
    return ctx


def _weigh(
    entry: Entry,
    ctx: Any,
    answer: Any,
    tally: Tally,
    trail: Trail,
    settle: Settle | None,
    started: float,
    rest: Rest | None = None,
) -> tuple[Any, float]:
    """Understand an answer, report it, and count it; in shadow it is only reported."""
    said = understand(entry, ctx, answer, settle)
    started = trail.judged(entry, started, said)
    if entry.shadow:
        return ctx, started
    tally.count(entry, said, is_cut_short=rest is not None and rest.cut_short)
    return said.after, started
