"""Who the hooks are while a run is played: those of the agent of now, or stand-ins that say what is on record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookline.agent import Agent
from hookline.blueprint import SOURCE as DEFAULT
from hookline.blueprint import Definition, Plans
from hookline.blueprint.guards import HasRoom, room_for_calls
from hookline.hooks import Entry, Plan, Point, Registration, Tier
from hookline.journal import HookRan
from hookline.lifecycle import HookPoint
from hookline.rehearse.occasions import Occasion, Place
from hookline.rehearse.playing import Playing
from hookline.rehearse.props import PlayedPolicy, played_tools, recorded_tools
from hookline.rehearse.stage import Parting, Rehearsed, Stage
from hookline.rehearse.stand_ins import (
    as_far_as_seen,
    joined,
    limited,
    stand_ins,
    standing_in,
    unseen,
)
from hookline.state import ResultStatus, StopReason

_AROUND = (HookPoint.AROUND_INFERENCE.value, HookPoint.AROUND_TOOL_USE.value)


def recorded_definition(stage: Stage, playing: Playing, like: Definition) -> Definition:
    """An agent of which only the record is left: no hooks of its own, its decisions about errors, any tool."""
    if playing.run is None:
        playing.compare(in_full=False)
    return msgspec.structs.replace(
        like,
        agent_id=playing.recording.parts[0].started.agent_id,
        registrations=(),
        plans=Plans(()),
        toolbox=recorded_tools(playing, like.toolbox, stage.use),
        error_policy=PlayedPolicy(decided=playing.decisions),
        expire_after=None,
        max_objections=_most_objections(playing, like.max_objections),
    )


def _most_objections(playing: Playing, usual: int) -> int:
    """How many objections ended the run, if they did."""
    ending = playing.recording.status
    if ending is not None and ending.stop_reason is StopReason.OBJECTION_LIMIT:
        return ending.counters.objections
    return max(usual, 1 + (ending.counters.objections if ending is not None else 0))


class AgentCast:
    """The hooks of an agent, called for real, wherever what they are to be shown is on record."""

    def __init__(self, agent: Agent, children: Mapping[str, Agent]) -> None:
        self._agent = agent
        self._children = children
        self._unknown: set[str] = set()
        self.unasked: dict[str, None] = {}
        """Hooks that answered from the record at least once."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The child runs whose agents were not given."""
        return tuple(sorted(self._unknown))

    def definition(self, stage: Stage, playing: Playing, name: str | None) -> Definition:
        """The agent with tools that are not used; a child's agent, if it was given."""
        definition = self._agent.definition
        if name is not None:
            agent_id = playing.recording.parts[0].started.agent_id
            child = self._children.get(name) or self._children.get(agent_id)
            if child is None:
                self._unknown.add(playing.run_id)
                return recorded_definition(stage, playing, definition)
            definition = child.definition
        toolbox = played_tools(definition.toolbox, stage.use)
        return msgspec.structs.replace(definition, toolbox=toolbox)

    def plans(self, run: Rehearsed) -> Plans:
        """All points but those around an action, which is not done."""
        asked: set[str] = set()
        if run.run_id in self._unknown:
            asked = {
                point for part in run.playing.recording.parts for point in part.occasions.places()
            }
        return trimmed(run.plans, asked)

    def plan(self, run: Rehearsed, plan: Plan, ctx: Any) -> Plan:
        """The plan of the agent, in which those answer from the record who cannot be shown what they were shown."""
        place, occasion = run.playing.occasion(ctx)
        if is_in_doubt(ctx):
            return joined(plan, ())
        if run.run_id in self._unknown:
            return self._mixed(run, plan, place, occasion)
        hidden = _hidden(run, place, occasion)
        if hidden:
            return self._as_far_as_seen(run, plan, occasion, hidden)
        return limited(run.playing.recording, plan, occasion)

    def _as_far_as_seen(self, run: Rehearsed, plan: Plan, occasion: Occasion, hidden: int) -> Plan:
        seen = as_far_as_seen(run.playing.recording, plan, occasion, hidden)
        self.unasked.update(dict.fromkeys(seen.unasked))
        if seen.missing:
            gone = f"there is no hook '{seen.missing}' at {plan.point.value}, which had its say over this"
            run.stage.differ(Parting(run.playing, len(run.playing.now), gone))
        return seen.plan

    def _mixed(self, run: Rehearsed, plan: Plan, place: Place, occasion: Occasion) -> Plan:
        """A child whose agent is not known: its own hooks answer from the record, those from above are asked."""
        if _hidden(run, place, occasion):
            return standing_in(plan.point, _stand_ins(run, plan.point, occasion))
        own = [ran for ran in occasion if is_own(ran, plan)]
        stand = [Entry(made) for made in _stand_ins(run, plan.point, own)]
        plan = limited(run.playing.recording, plan, occasion)
        return joined(plan, (*(each for each in plan.judges if not is_placeholder(each)), *stand))


def is_in_doubt(ctx: Any) -> bool:
    """Whether it is about a result that is none: only observers were shown that nobody knows what a call did."""
    execution = getattr(ctx, "execution", None)
    return execution is not None and execution.status is ResultStatus.IN_DOUBT


def _hidden(run: Rehearsed, place: Place, occasion: Occasion) -> int:
    playing = run.playing
    return unseen(place[0], occasion, is_kept=playing.recording.keeps(playing.part, place))


def _stand_ins(run: Rehearsed, point: Point[Any], occasion: Any) -> list[Registration]:
    return stand_ins(run.playing.recording, point, occasion)


def is_own(ran: HookRan, above: Plan) -> bool:
    """Whether a recorded hook of a child is the child's own, and not one of those from above."""
    for entry in above.judges:
        if entry.name == ran.hook:
            return entry.registration.source == DEFAULT  # every agent has these, each its own
    return True


# --- plans ----------------------------------------------------------------------------------------------


def trimmed(plans: Plans, asked: set[str]) -> Plans:
    """The plans without hooks around an action, and with something to ask at these points besides."""
    kept = Plans(())
    for point in HookPoint:
        plan = plans.of(point.value)
        if point.value in _AROUND:
            plan = None
        elif plan is None and point.value in asked:
            plan = placeholder(point)
        elif plan is not None and plan.brief is not None and point.value == "before_step":
            plan = joined(plan, plan.judges)
        setattr(kept, point.value, plan)
    if plans.has_room is not None:
        kept.has_room = _room_as_then(kept.before_step)
    return kept


def _room_as_then(before_step: Plan | None) -> HasRoom:
    """Whether limits leave room for calls: not where they did not then, whatever the time is and others have used."""
    own = room_for_calls(before_step, own_only=True)
    return lambda run: (own is None or own(run)) and not run.playing.was_spent


def placeholder(point: Point[Any]) -> Plan:
    """A plan that makes the loop ask; who answers is for the cast to say."""
    tiers = (Tier.HOOK, Tier.POLICY)
    return Plan(
        point, [Registration(point=point, hook=_let_be, name="", tier=tier) for tier in tiers]
    )


def is_placeholder(entry: Entry) -> bool:
    """Whether this is not a hook."""
    return entry.registration.hook is _let_be


def _let_be(ctx: Any) -> None:
    """Nobody's opinion."""
