"""The cast of a back-test: everybody says what is on record, and beside them the jury is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookline.blueprint import Definition, Plans
from hookline.hooks import Plan, Registration, Tier
from hookline.lifecycle import HookPoint
from hookline.rehearse.casts import is_in_doubt, recorded_definition, trimmed
from hookline.rehearse.jury import Jury
from hookline.rehearse.playing import Playing
from hookline.rehearse.stage import Rehearsed, Stage
from hookline.rehearse.stand_ins import stand_ins, standing_in

_NOBODY = "back-test"


class RecordCast:
    """Everybody says what is on record, and beside them the jury is asked."""

    def __init__(self, like: Definition, jury: Jury, children: Mapping[str, Definition]) -> None:
        self._like = like
        self._jury = jury
        self._children = children

    def definition(self, stage: Stage, playing: Playing, name: str | None) -> Definition:
        """An agent of which only the record is left."""
        known = self._child(playing, name) if name is not None else self._like
        return recorded_definition(stage, playing, known or self._like)

    def _child(self, playing: Playing, name: str) -> Definition | None:
        agent_id = playing.recording.parts[0].started.agent_id
        return self._children.get(name) or self._children.get(agent_id)

    def plans(self, run: Rehearsed) -> Plans:
        """The points where somebody was asked, or is to be asked now."""
        parts = run.playing.recording.parts
        asked = {point for part in parts for point in part.occasions.places()}
        candidate = self._jury.candidate(run, self._own(run))
        asked |= {point.value for point in HookPoint if candidate.plans.of(point.value) is not None}
        return trimmed(run.plans, asked)

    def _own(self, run: Rehearsed) -> Definition | None:
        """The agent of a child run, if it is known."""
        parent = run.parent
        if not isinstance(parent, Rehearsed):
            return None
        started = parent.playing.recording.uses.values()
        names = [
            child.name
            for use in started
            for together in use.children
            for child in together
            if child.child_run_id == run.run_id
        ]
        return self._child(run.playing, names[0]) if names else None

    def plan(self, run: Rehearsed, plan: Plan, ctx: Any) -> Plan:
        """Those who were asked then, and before them the jury, which changes nothing."""
        place, occasion = run.playing.occasion(ctx)
        recording = run.playing.recording
        then = stand_ins(recording, plan.point, occasion)
        if is_in_doubt(ctx):
            return standing_in(plan.point, then)
        aside = self._jury.aside(run, place, occasion)
        jury = [
            Registration(point=plan.point, hook=ask, name=_NOBODY, tier=tier)
            for tier, ask in zip((Tier.HOOK, Tier.POLICY), aside, strict=True)
        ]
        return standing_in(plan.point, (*jury, *then))
