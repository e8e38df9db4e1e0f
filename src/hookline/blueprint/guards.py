"""The guards every agent gets: ordinary hooks, each of which can be replaced.

Limits are checked before a step and before a batch of calls, never after the fact, so an answer given in
the last allowed step is a completed run. They hold for the whole tree of child runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from hookline.flow import STOP_REASONS, Ledger, Limits
from hookline.hooks import Brief, HookOutcome, Options, Plan, Registration, register
from hookline.lifecycle import HookPoint, StepHookContext, StopHookContext, ToolHookContext
from hookline.state import ContinuationDecision, ContinuationEvaluation, ContinuationOutcome

SOURCE = "default"
_MORE_TO_DO = ContinuationEvaluation(
    "tool-calls", ContinuationDecision.ALLOW_CONTINUATION, "tools were called"
)
_DONE = ContinuationEvaluation("tool-calls", ContinuationDecision.ALLOW_STOP, "no tool was called")


_GOES_ON = ContinuationOutcome.from_evaluations((_MORE_TO_DO,))
_STOPS = ContinuationOutcome.from_evaluations((_DONE,))


class ToolCallPresence(Brief):
    """Go on while the model calls tools; when it only answers, there is nothing left to do."""

    def __call__(self, ctx: StopHookContext) -> ContinuationEvaluation:
        """What that means for the step that was made."""
        return _MORE_TO_DO if ctx.step is not None and ctx.step.calls else _DONE

    @staticmethod
    def brief(run: Any) -> ContinuationOutcome:
        """What that adds up to when nobody else has a say."""
        return _GOES_ON if run.response is not None and run.response.calls else _STOPS


_IN_A_STEP = ("tokens", "seconds", "cost")
"""What the model's answer may have used up before its calls are run."""
_BEFORE_STEP = ("steps", *_IN_A_STEP)
_BEFORE_CALLS = ("tool_calls",)
HasRoom = Callable[[Any], bool]
"""(run) -> whether it may go on spending."""


class LimitsGuard(Brief):
    """Stops a run before a step when a limit is used up. `levels` is how far up the run it guards is."""

    def __init__(self, limits: Limits, levels: int = 0) -> None:
        self.limits = limits
        self.levels = levels
        self.keeps = _given(limits, _BEFORE_STEP)
        self.brief = _brief(limits, levels)

    def __call__(self, ctx: StepHookContext) -> HookOutcome | None:
        """Compare what was spent with the limits."""
        ledger = ctx.live.ledger.above(self.levels)
        spent = {"steps": ledger.steps, **_spent_in_a_step(ledger, ctx.live.now)}
        return _used_up(self.limits, spent, self.levels)

    def has_room(self) -> HasRoom | None:
        """Whether it has anything against calls of a step, in brief; None when nothing is limited that a step uses."""
        return _has_room(self.limits, self.levels) if _given(self.limits, _IN_A_STEP) else None

    def seconds_left(self, run: Any) -> float:
        """How much active time the run it guards has left."""
        seconds = self.limits.seconds
        return (
            math.inf
            if seconds is None
            else seconds - run.ledger.above(self.levels).seconds(run.now)
        )

    def for_child(self) -> LimitsGuard:
        """The same guard seen from a child run: it still watches the run it was made for."""
        return LimitsGuard(self.limits, self.levels + 1)


def _spent_in_a_step(ledger: Ledger, now: float) -> dict[str, float]:
    return {"tokens": ledger.tokens, "seconds": ledger.seconds(now), "cost": ledger.cost}


def _brief(limits: Limits, levels: int) -> Callable[[Any], Any]:
    """The guard's brief form. A closure rather than a method: it runs before every step of every run."""
    given = [getattr(limits, name) for name in _BEFORE_STEP]
    steps, tokens, seconds, cost = (math.inf if limit is None else limit for limit in given)

    def brief(run: Any) -> Any:
        ledger = run.ledger.above(levels) if levels else run.ledger
        if (
            ledger.steps < steps
            and ledger.tokens < tokens
            and ledger.seconds_before + run.now - ledger.started < seconds
            and ledger.cost < cost
        ):
            return None
        return NotImplemented

    return brief


def _has_room(limits: Limits, levels: int) -> HasRoom:
    """The brief form before calls. It runs before the calls of every step."""
    given = [getattr(limits, name) for name in _IN_A_STEP]
    tokens, seconds, cost = (math.inf if limit is None else limit for limit in given)

    def has_room(run: Any) -> bool:
        ledger = run.ledger.above(levels) if levels else run.ledger
        return (  # type: ignore[no-any-return]
            ledger.tokens < tokens
            and ledger.seconds_before + run.now - ledger.started < seconds
            and ledger.cost < cost
        )

    return has_room


class SpendingGuard:
    """The limits guard before calls: the step they are in has begun, so how many there may be says nothing here."""

    def __init__(self, limits: Limits, levels: int) -> None:
        self.limits = limits
        self.levels = levels

    def __call__(self, ctx: ToolHookContext) -> HookOutcome | None:
        """Compare what was spent with the limits."""
        spent = _spent_in_a_step(ctx.live.ledger.above(self.levels), ctx.live.now)
        return _used_up(self.limits, spent, self.levels)


def room_for_calls(before_step: Plan | None, *, own_only: bool = False) -> HasRoom | None:
    """Whether the limits that are checked before a step leave room for its calls; None when there are none.

    `own_only` leaves out what the runs above may spend.
    """
    guards = (guard for _, guard in _guards(before_step) if not (own_only and guard.levels))
    rooms = [room for guard in guards if (room := guard.has_room()) is not None]
    if len(rooms) < 2:
        return rooms[0] if rooms else None
    return lambda run: all(has_room(run) for has_room in rooms)


def limits_on_calls(before_step: Plan | None) -> Plan:
    """The same guards as hooks before a call: they are asked when there is no room, and say so on record."""
    return Plan(
        HookPoint.BEFORE_TOOL_USE,
        [
            msgspec.structs.replace(
                registration,
                point=HookPoint.BEFORE_TOOL_USE,
                hook=SpendingGuard(guard.limits, guard.levels),
            )
            for registration, guard in _guards(before_step)
        ],
    )


def _guards(before_step: Plan | None) -> Iterator[tuple[Registration, LimitsGuard]]:
    for entry in () if before_step is None else before_step.judges:
        hook = entry.registration.hook
        if isinstance(hook, LimitsGuard) and not entry.shadow:
            yield entry.registration, hook


class CallsGuard:
    """The same for tool calls, before each of a batch: calls of the batch that are admitted already count."""

    def __init__(self, limits: Limits, levels: int = 0) -> None:
        self.limits = limits
        self.levels = levels
        self.keeps = _given(limits, _BEFORE_CALLS)

    def __call__(self, ctx: ToolHookContext) -> HookOutcome | None:
        """Compare how many calls were made with the limit."""
        made = ctx.live.ledger.above(self.levels).tool_calls
        return _used_up(self.limits, {"tool_calls": made}, self.levels)

    def for_child(self) -> CallsGuard:
        """The same guard seen from a child run."""
        return CallsGuard(self.limits, self.levels + 1)


def _given(limits: Limits, names: tuple[str, ...]) -> dict[str, float]:
    """The limits among these that are set."""
    given = {name: getattr(limits, name) for name in names}
    return {name: limit for name, limit in given.items() if limit is not None}


def _used_up(limits: Limits, spent: dict[str, float], levels: int) -> HookOutcome | None:
    for what, used in spent.items():
        limit = getattr(limits, what)
        if limit is not None and used >= limit:
            where = " by this run and its children" if levels else ""
            reason = f"{what.replace('_', ' ')}: {used:,.10g} of {limit:,.10g} used{where}"
            return HookOutcome.stop(reason, stop_reason=STOP_REASONS[what])
    return None


@lru_cache(maxsize=64)
def default_guards(limits: Limits) -> tuple[Registration, ...]:
    """The registrations of the default guards for these limits."""
    presence = Options(name="tool-calls")
    return (
        *_limit_guards(limits),
        register(HookPoint.SHOULD_CONTINUE, ToolCallPresence(), presence, source=SOURCE),
    )


def _limit_guards(limits: Limits) -> tuple[Registration, ...]:
    options = Options(name="limits", scope="tree", priority=1000)
    guards: list[Registration] = []
    if any(getattr(limits, name) is not None for name in _BEFORE_STEP):
        guards.append(register(HookPoint.BEFORE_STEP, LimitsGuard(limits), options, source=SOURCE))
    if limits.tool_calls is not None:
        policy = msgspec.structs.replace(options, tier="policy")
        guards.append(
            register(HookPoint.BEFORE_TOOL_USE, CallsGuard(limits), policy, source=SOURCE)
        )
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
