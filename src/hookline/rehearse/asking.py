"""Asking hooks beside a run: nothing of what they say, change or charge reaches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hookline.errors import HookError
from hookline.hooks import Answered, Crew, Entry, Plan, run_hooks
from hookline.rehearse.rulings import Ruling, failed, ruling_of
from hookline.rehearse.stage import Rehearsed
from hookline.rehearse.stand_ins import SOURCE
from hookline.rehearse.tallies import Tallies
from hookline.state import FrozenDict, Usage


async def ask_beside(
    run: Rehearsed, plan: Plan, ctx: Any, watch: Watch, *, policies_only: bool
) -> Ruling:
    """What these hooks say. Nothing of it reaches the run."""

    def settle(entry: Entry, before: Any, after: Any) -> Any:
        flight = run.flight
        kept = (flight.tool, flight.values) if flight is not None else None
        try:
            return run.settle(entry, before, after)
        finally:
            if flight is not None and kept is not None:
                flight.tool, flight.values = kept

    try:
        result = await run_hooks(plan, ctx, watch, settle, policies_only=policies_only)
    except HookError as error:
        return failed(error)
    watch.context = result.context
    return ruling_of(ctx, result, watch.changed_by, watch.answered_by)


def untold(entry: Entry) -> Entry:
    """A stand-in is not counted among those who are asked."""
    return entry.recalling(entry.call) if entry.registration.source == SOURCE else entry


class Beside:
    """The run, as hooks that are asked beside it may see it. What they charge is theirs."""

    def __init__(self, run: Rehearsed, watch: Watch) -> None:
        self._run = run
        self.charge: Callable[[Usage], None] = watch.charge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


_GONE = object()


class Notes:
    """The metadata that hooks under test see: what they have written, and not what others wrote in their place.

    Those that are added to the hooks on record see what these wrote too.
    """

    def __init__(self, first: Mapping[str, Any], *, is_added: bool) -> None:
        self._is_added = is_added
        self._own: dict[str, Any] = {} if is_added else dict(first)

    def shown(self, recorded: Mapping[str, Any]) -> FrozenDict:
        """What they are shown where this is on record."""
        shown = {**recorded, **self._own} if self._is_added else self._own
        return FrozenDict({key: value for key, value in shown.items() if value is not _GONE})

    def take(self, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """They have left this, where others left that."""
        if not self._is_added:
            self._own = dict(now)
            return
        for key in {*then, *now}:
            if now.get(key, _GONE) != then.get(key, _GONE):
                self._own[key] = now.get(key, _GONE)


class Watch:
    """Where the engine reports what the hooks of one occasion said: the trail."""

    monotonic = staticmethod(time.perf_counter)

    def __init__(self, tallies: Tallies | None = None) -> None:
        self._tallies = tallies
        self._charged: list[Usage] = []
        self.changed_by = ""
        self.answered_by = ""
        self.context: Any = None

    def charge(self, usage: Usage) -> None:
        """A hook has asked a model itself."""
        self._charged.append(usage)

    def passed(self, crew: Crew, readings: Sequence[float]) -> None:
        """These let things be."""
        for position, hook in enumerate(crew.hooks):
            took = readings[position + 1] - readings[position]
            self._count((crew.point, hook), took, "proceed")

    def left(self, ctx: Any) -> None:
        """One failed: this is what the others left behind."""
        self.context = ctx

    def appended(self, entry: Entry, started: float, ctx: Any) -> float:  # noqa: ARG002 - the trail's signature
        """One said whether to go on."""
        return self._told(entry, started, "proceed")

    def judged(self, entry: Entry, started: float, answer: Answered) -> float:
        """One said or changed something, or failed."""
        if answer.after is not answer.before and not entry.shadow:
            self.changed_by = entry.name
        if answer.answer is not None and not self.answered_by:
            self.answered_by = entry.name
        verdict = "failed" if answer.error is not None else answer.kind.label
        return self._told(entry, started, verdict)

    def _told(self, entry: Entry, started: float, verdict: str) -> float:
        now = time.perf_counter()
        if entry.registration.source != SOURCE:
            self._count((entry.point, entry.name), now - started, verdict)
        return now

    def _count(self, key: tuple[str, str], took: float, verdict: str) -> None:
        charged, self._charged = self._charged, []
        if self._tallies is not None:
            self._tallies.count(key, took, verdict, charged)
