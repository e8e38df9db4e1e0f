"""The rounds of hooks in a recorded run: who was asked about one thing, one after the other, and what they said."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from hookline.journal import (
    ChildStarted,
    ErrorRaised,
    HookRan,
    HooksPassed,
    Record,
    RunTakenUp,
    StepFinished,
    StepStarted,
    hooks_in,
)
from hookline.lifecycle import HookPoint

Place: TypeAlias = tuple[str, int | None, str]
"""Where hooks are asked: the point, the step, and the call where it is about one."""
Round: TypeAlias = tuple[HookRan, ...]
"""The hooks that were asked one after the other about one thing, with their verdicts; observers are left out."""

_ABOUT_CALLS = frozenset({"before_tool_use", "permission_request", "after_tool_use"})
_OF_THE_RUN = frozenset(
    {
        "session_start",
        "execution_start",
        "prompt_submit",
        "output",
        "execution_end",
        "agent_failed",
        "session_end",
    }
)
"""Points that belong to no step, whichever was made last."""
_STANDS = frozenset(point.value for point in HookPoint if point.stands)
_COUNTED = {ErrorRaised: "error", ChildStarted: "subagent_start"}
"""Where hooks have been asked by the time of such a record, also when there is nothing on record of it."""


class HookRounds:
    """The rounds of one drive of a run, by place and in order."""

    def __init__(self) -> None:
        self._at: dict[Place, list[list[HookRan]]] = defaultdict(list)
        self._open: dict[Place, list[HookRan]] = {}
        self._unsettled: dict[Place, list[HookRan]] = {}
        self._taken_up: dict[Place, list[HookRan]] = {}
        """What was said of a step before its process died: what is said of it afterwards belongs to the same."""
        self._settled = -1
        self._again: list[HookRan] | None = None
        self.again: dict[int, list[list[HookRan]]] = defaultdict(list)
        """What hooks said to a process that took the run up, by the last step that was settled then, or -1."""

    def add(self, record: Record) -> None:
        """Take in the next record."""
        if isinstance(record, HookRan | HooksPassed):
            for ran in hooks_in((record,)):
                self._note(ran)
            return
        counted = _COUNTED.get(type(record))
        if counted is not None and getattr(record, "action", "") != "fallback":
            place = (counted, *_where(record))
            is_known = self._taken_up.pop(place, None) is not None or place in self._open
            if not is_known:
                self._at[place].append([])
        self._open.clear()
        for ran in hooks_in((record,)):  # a default guard that stood alone
            self._note(ran)
        if isinstance(record, RunTakenUp):
            self._taken_up = dict(self._unsettled)
            self._again = []
            self.again[self._settled].append(self._again)
        elif isinstance(record, StepStarted | StepFinished):
            if isinstance(record, StepFinished):
                self._settled = record.step.index
                self._unsettled.clear()
                self._taken_up.clear()
            self._open.clear()

    def _note(self, ran: HookRan) -> None:
        if ran.tier == "observer" or ran.point.startswith("around_"):
            return
        if ran.point == HookPoint.EXECUTION_START and self._again is not None:
            self._again.append(ran)
            return
        place = place_of(ran.point, ran.step, ran.call_id)
        known = self._open.get(place)
        if known is None:
            known = self._continued_round(place, ran)
        if known is None or (known and _is_over(known, ran)):
            known = []
            self._at[place].append(known)
        known.append(ran)
        self._open[place] = self._unsettled[place] = known

    def _continued_round(self, place: Place, ran: HookRan) -> list[HookRan] | None:
        """The round that was open when the process died, if this belongs to it. Policies are asked again in it."""
        known = self._taken_up.get(place)
        if known is None:
            return None
        said_before = [other for other in known if other.hook == ran.hook]
        if said_before and ran.tier != "policy":
            del self._taken_up[place]
            return None
        known[:] = [other for other in known if other not in said_before]
        return known

    def points(self) -> set[str]:
        """The points at which hooks were asked."""
        return {place[0] for place, rounds in self._at.items() if any(rounds)}

    def all_at(self, place: Place) -> list[HookRan]:
        """Everything that was said there."""
        return [ran for round_ in self._at.get(place, []) for ran in round_]

    def at(self, place: Place, number: int) -> Round:
        """What was said there in this round, counted from zero; nothing if that is not on record."""
        rounds = self._at.get(place, [])
        return tuple(rounds[number]) if number < len(rounds) else ()


def place_of(point: str, step: int | None, call_id: str) -> Place:
    """The place hooks are asked at. Only hooks about a call are told apart by the call."""
    is_in_step = point not in _OF_THE_RUN
    return point, step if is_in_step else None, call_id if point in _ABOUT_CALLS else ""


def _where(record: Record) -> tuple[int | None, str]:
    step = getattr(record, "step", None)
    if isinstance(record, ChildStarted):
        step = int(record.child_run_id.removeprefix(f"{record.run_id}/").partition("/")[0])
    return step, ""


def _is_over(round_: list[HookRan], following: HookRan) -> bool:
    """Whether the last verdict ended its chain: the next one belongs to another round."""
    last = round_[-1]
    if last.shadow or last.verdict not in ("block", "stop"):
        return False
    # What stands after a stop is judged by the policies all the same.
    is_judged = last.verdict == "stop" and following.tier == "policy"
    return not (is_judged and following.point in _STANDS)
