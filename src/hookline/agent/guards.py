"""The guards every agent gets: ordinary hooks, each of which can be replaced.

Limits are checked before a step and before a batch of calls, never after the fact, so an answer given in
the last allowed step is a completed run. They hold for the whole tree of child runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from hookline.flow import STOP_REASONS, Limits
from hookline.hooks import HookOutcome, Options, Registration, register
from hookline.lifecycle import HookPoint, StepHookContext, StopHookContext, ToolHookContext
from hookline.state import ContinuationDecision, ContinuationEvaluation

SOURCE = "default"
_MORE_TO_DO = ContinuationEvaluation(
    "tool-calls", ContinuationDecision.ALLOW_CONTINUATION, "tools were called"
)
_DONE = ContinuationEvaluation("tool-calls", ContinuationDecision.ALLOW_STOP, "no tool was called")


def tool_call_presence(ctx: StopHookContext) -> ContinuationEvaluation:
    """Go on while the model calls tools; when it only answers, there is nothing left to do."""
    return _MORE_TO_DO if ctx.step is not None and ctx.step.calls else _DONE


def limit_guard(what: str, limit: float, levels: int = 0) -> Callable[[Any], HookOutcome | None]:
    """A hook that stops a run which has used up a limit. `levels` is how far up the run it guards is.

    A closure rather than an object: it runs before every step of every run.
    """

    def guard(ctx: StepHookContext | ToolHookContext) -> HookOutcome | None:
        if getattr(ctx.run.ledger, what) < limit:  # type: ignore[union-attr]
            return None
        return _used_up(what, getattr(ctx.run.ledger, what), limit, levels)  # type: ignore[union-attr]

    def guard_seconds(ctx: StepHookContext | ToolHookContext) -> HookOutcome | None:
        run: Any = ctx.run
        ledger = run.ledger.above(levels) if levels else run.ledger
        spent = ledger.seconds_before + run.now - ledger.started
        return None if spent < limit else _used_up(what, spent, limit, levels)

    def guard_above(ctx: StepHookContext | ToolHookContext) -> HookOutcome | None:
        spent = getattr(ctx.run.ledger.above(levels), what)  # type: ignore[union-attr]
        return None if spent < limit else _used_up(what, spent, limit, levels)

    chosen: Any = guard_seconds if what == "seconds" else guard_above if levels else guard
    chosen.what, chosen.limit = what, limit
    # Seen from a child run, the same guard still watches the run it was made for.
    chosen.for_child = lambda: limit_guard(what, limit, levels + 1)
    return chosen  # type: ignore[no-any-return]


def _used_up(what: str, spent: float, limit: float, levels: int) -> HookOutcome:
    where = " by this run and its children" if levels else ""
    reason = f"{what.replace('_', ' ')}: {spent:,.10g} of {limit:,.10g} used{where}"
    return HookOutcome.stop(reason, stop_reason=STOP_REASONS[what])


@lru_cache(maxsize=64)
def default_guards(limits: Limits) -> tuple[Registration, ...]:
    """The registrations of the default guards for these limits."""
    presence = Options(name="tool-calls")
    return (
        *_limit_guards(limits),
        register(HookPoint.SHOULD_CONTINUE, tool_call_presence, presence, source=SOURCE),
    )


def _limit_guards(limits: Limits) -> tuple[Registration, ...]:
    guards: list[Registration] = []
    for what in limits.__struct_fields__:
        limit: Any = getattr(limits, what)
        if limit is not None:
            point = HookPoint.BEFORE_TOOL_USE if what == "tool_calls" else HookPoint.BEFORE_STEP
            tier = "policy" if what == "tool_calls" else "hook"
            options = Options(name=f"limits.{what}", scope="tree", priority=1000, tier=tier)
            guards.append(register(point, limit_guard(what, limit), options, source=SOURCE))
    return tuple(guards)


def for_child(registrations: tuple[Registration, ...]) -> tuple[Registration, ...]:
    """The registrations that hold in a child run: those whose scope is the tree."""
    return tuple(
        _one_level_down(registration)
        for registration in registrations
        if registration.scope == "tree"
    )


def _one_level_down(registration: Registration) -> Registration:
    adapt = getattr(registration.hook, "for_child", None)
    return registration if adapt is None else msgspec.structs.replace(registration, hook=adapt())
