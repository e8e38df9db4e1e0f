"""The guards every agent gets, which enforce its limits: ordinary hooks, each of which can be replaced.

Limits are checked before a step and before each call, never after the fact, so an answer given in
the last allowed step is a completed run. They hold for the whole tree of child runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from hookline.flow import STOP_REASONS, RunLimits
from hookline.hooks import ContextFreeHook, HookOptions, HookOutcome, Plan, Registration, register
from hookline.lifecycle import AgentContext, HookPoint, StopHookContext
from hookline.lifecycle.contexts import LiveRun
from hookline.state import ContinuationDecision, ContinuationEvaluation, ContinuationOutcome

SOURCE = "default"
_MORE_TO_DO = ContinuationEvaluation(
    source="tool-calls",
    decision=ContinuationDecision.ALLOW_CONTINUATION,
    reason="tools were called",
)
_DONE = ContinuationEvaluation(
    source="tool-calls",
    decision=ContinuationDecision.ALLOW_STOP,
    reason="the last answer calls no tool",
)


_CONTINUES = ContinuationOutcome.from_evaluations((_MORE_TO_DO,))
_STOPS = ContinuationOutcome.from_evaluations((_DONE,))


class ToolCallPresence(ContextFreeHook):
    """Continue while the model calls tools; when it only answers, the run is done."""

    def __call__(self, ctx: StopHookContext) -> ContinuationEvaluation:
        """What that means for the step that was made."""
        return _MORE_TO_DO if ctx.step.calls else _DONE

    @staticmethod
    def answer_without_context(run: Any) -> ContinuationOutcome:
        """The outcome if no other hook decides."""
        return _CONTINUES if run.step.response is not None and run.step.response.calls else _STOPS


_IN_A_STEP = ("tokens", "seconds", "cost")
"""What the model's answer may have used up before its calls are run."""
_BEFORE_STEP = ("steps", *_IN_A_STEP)
Reached = Callable[[LiveRun], str]
"""(run) -> the limit that is used up, if one is."""


class LimitsGuard(ContextFreeHook):
    """Stops a run when one of these limits is used up. `levels` is how far up the run it guards is."""

    def __init__(
        self, limits: RunLimits, names: tuple[str, ...] = _BEFORE_STEP, levels: int = 0
    ) -> None:
        self.limits = limits
        self.names = names
        self.levels = levels
        self.keeps = {name: limit for name in names if (limit := getattr(limits, name)) is not None}
        get = self.keeps.get
        # What is counted is compared with a whole number: it takes longer with infinity.
        self._steps: int = get("steps", sys.maxsize)
        self._tokens: int = get("tokens", sys.maxsize)
        self._tool_calls: int = get("tool_calls", sys.maxsize)
        self._seconds: float = get("seconds", math.inf)
        self._cost: float = get("cost", math.inf)

    def find_reached(self, run: LiveRun) -> str:
        """The first limit that is used up, by its name; empty if none is. Limits are compared here only."""
        ledger = run.ledger.above(self.levels) if self.levels else run.ledger
        if ledger.steps >= self._steps:
            return "steps"
        if ledger.tokens >= self._tokens:
            return "tokens"
        if run.now - ledger.started >= self._seconds:
            return "seconds"
        if ledger.cost >= self._cost:
            return "cost"
        return "tool_calls" if ledger.tool_calls >= self._tool_calls else ""

    answer_without_context = find_reached

    def __call__(self, ctx: AgentContext) -> HookOutcome | None:
        """Compare what was spent with the limits."""
        run = ctx.live
        if run is None or not (what := self.find_reached(run)):
            return None
        ledger = run.ledger.above(self.levels)
        used = ledger.seconds(run.now) if what == "seconds" else getattr(ledger, what)
        where = " by this run and its children" if self.levels else ""
        reason = f"{what.replace('_', ' ')}: {used:,.10g} of {self.keeps[what]:,.10g} used{where}"
        return HookOutcome.stop(reason, stop_reason=STOP_REASONS[what])

    def in_a_step(self) -> LimitsGuard | None:
        """The same before calls: the step they are in has begun, so how many there may be says nothing here."""
        guard = LimitsGuard(self.limits, _IN_A_STEP, self.levels)
        return guard if guard.keeps else None

    def seconds_left(self, run: LiveRun) -> float:
        """How much active time the run it guards has left."""
        ledger = run.ledger.above(self.levels)
        return self._seconds - ledger.seconds(run.now)

    def for_child(self) -> LimitsGuard:
        """The same guard seen from a child run: it still watches the run it was made for."""
        return LimitsGuard(self.limits, self.names, self.levels + 1)


def limit_reached_in_step(before_step: Plan | None, *, own_only: bool = False) -> Reached | None:
    """What says which limit is used up before the calls of a step; None when nothing is limited that a step uses.

    `own_only` leaves out what the runs above may spend.
    """
    guards = (guard for _, guard in _guards(before_step) if not (own_only and guard.levels))
    checks = [check.find_reached for guard in guards if (check := guard.in_a_step()) is not None]
    if len(checks) < 2:
        return checks[0] if checks else None
    return lambda run: next(filter(None, (reached(run) for reached in checks)), "")


def limits_on_calls(before_step: Plan | None) -> Plan:
    """The same guards as hooks before a call: they are asked when a limit is used up, and say so on record."""
    return Plan(
        HookPoint.BEFORE_TOOL_USE,
        [
            msgspec.structs.replace(
                registration,
                point=HookPoint.BEFORE_TOOL_USE,
                hook=LimitsGuard(guard.limits, _IN_A_STEP, guard.levels),
            )
            for registration, guard in _guards(before_step)
        ],
    )


def _guards(before_step: Plan | None) -> Iterator[tuple[Registration, LimitsGuard]]:
    for entry in () if before_step is None else before_step.judges:
        hook = entry.registration.hook
        if isinstance(hook, LimitsGuard) and not entry.shadow:
            yield entry.registration, hook


@lru_cache(maxsize=64)
def default_guards(limits: RunLimits) -> tuple[Registration, ...]:
    """The registrations of the default guards for these limits."""
    presence = HookOptions(name="tool-calls")
    return (
        *_limit_guards(limits),
        register(HookPoint.SHOULD_CONTINUE, ToolCallPresence(), presence, source=SOURCE),
    )


def _limit_guards(limits: RunLimits) -> tuple[Registration, ...]:
    options = HookOptions(name="limits", scope="tree", priority=1000)
    guards: list[Registration] = []
    if any(getattr(limits, name) is not None for name in _BEFORE_STEP):
        guards.append(register(HookPoint.BEFORE_STEP, LimitsGuard(limits), options, source=SOURCE))
    if limits.tool_calls is not None:
        options["tier"] = "policy"
        guard = LimitsGuard(limits, ("tool_calls",))  # admitted calls of the batch count already
        guards.append(register(HookPoint.BEFORE_TOOL_USE, guard, options, source=SOURCE))
    return tuple(guards)


def for_child(registrations: tuple[Registration, ...]) -> tuple[Registration, ...]:
    """The registrations that hold in a child run: those whose scope is the tree, or the children."""
    return tuple(
        _one_level_down(registration)
        for registration in registrations
        if registration.scope != "self"
    )


def _one_level_down(registration: Registration) -> Registration:
    adapt = getattr(registration.hook, "for_child", None)
    return registration if adapt is None else msgspec.structs.replace(registration, hook=adapt())
