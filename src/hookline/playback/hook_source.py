"""Who answers for the hooks of a run that is played: those of the agent of now, or what is on record of them."""

from __future__ import annotations

import msgspec

from hookline.agent.records.rounds import Round
from hookline.agent.run import Run
from hookline.definition import SOURCE as DEFAULT
from hookline.definition import Definition
from hookline.hooks import Entry, Plan
from hookline.journal import HookRan
from hookline.lifecycle import AgentContext
from hookline.playback.progress import Progress
from hookline.playback.recorded_hooks import (
    as_far_as_seen,
    limited,
    plan_of,
    recorded_hooks,
    unseen,
    with_judges,
    without_external,
)
from hookline.playback.recording import Recording
from hookline.playback.source import (
    Parting,
    Playback,
    PlaybackSource,
    is_in_doubt,
    is_placeholder,
    recorded_definition,
)


class Agents(msgspec.Struct):
    """The agents that are there, and what could not be asked of them, over all runs that are played."""

    own: Definition
    children: dict[str, Definition]
    runs_hooks: bool = False
    """Commands, addresses and models that are hooks are started."""
    unknown: set[str] = msgspec.field(default_factory=set)
    """The child runs whose agents were not given."""
    not_asked: dict[str, None] = msgspec.field(default_factory=dict)
    """Those that were not, and might say something else than on record."""
    unasked: dict[str, None] = msgspec.field(default_factory=dict)
    """Hooks that answered from the record at least once, because what they were shown is not on record."""

    def spared(self, recording: Recording, plan: Plan, round_: Round) -> Plan:
        """A plan in which nothing outside is started, unless that is wanted."""
        if self.runs_hooks:
            return plan
        note = self.not_asked.setdefault
        return without_external(recording, plan, round_, lambda name: note(name, None))

    def child(self, progress: Progress, name: str) -> Definition | None:
        """The agent of a child run, by its name or the agent's id."""
        return self.children.get(name) or self.children.get(progress.recording.started.agent_id)


class ReplaySource(PlaybackSource):
    """The record, with the hooks of an agent, called wherever what they are to be shown is on record."""

    def __init__(self, agents: Agents, playback: Playback, progress: Progress) -> None:
        super().__init__(playback, progress)
        self._agents = agents
        self.has_agent = progress.run_id not in agents.unknown

    def definition(self, name: str | None) -> Definition:
        """The agent of now; a child's agent, if it was given."""
        agents = self._agents
        if name is None:
            return agents.own
        child = agents.child(self.progress, name)
        if child is None:
            agents.unknown.add(self.progress.run_id)
            return recorded_definition(self.progress, agents.own)
        return child

    def asked_points(self, run: Run) -> frozenset[str]:  # noqa: ARG002 - the interface's
        """Where the hooks of a child were asked whose agent is not there."""
        return frozenset() if self.has_agent else self.recording.points

    def hooks(self, run: Run, plan: Plan, ctx: AgentContext) -> Plan:  # noqa: ARG002 - its progress knows the run
        """The plan of the agent, in which those answer from the record who cannot be shown what they were shown."""
        place, round_ = self.progress.round_of(ctx)
        plan = self._agents.spared(self.recording, plan, round_)
        if is_in_doubt(ctx):
            return with_judges(plan, ())
        hidden = unseen(place[0], round_, is_kept=self.recording.keeps(self.progress.part, place))
        if not self.has_agent:
            return self._mixed(plan, round_, hidden)
        if hidden:
            return self._as_far_as_seen(plan, round_, hidden)
        return limited(self.recording, plan, round_)

    def _as_far_as_seen(self, plan: Plan, round_: Round, hidden: int) -> Plan:
        seen = as_far_as_seen(self.recording, plan, round_, hidden)
        self._agents.unasked.update(dict.fromkeys(seen.unasked))
        if seen.missing:
            gone = f"there is no hook '{seen.missing}' at {plan.point.value}, which had its say over this"
            self.playback.differ(Parting(self.progress, len(self.progress.now), gone))
        return seen.plan

    def _mixed(self, plan: Plan, round_: Round, hidden: int) -> Plan:
        """A child whose agent is not known: its own hooks answer from the record, those from above are asked."""
        if hidden:
            return plan_of(plan.point, recorded_hooks(self.recording, plan.point, round_))
        own = [ran for ran in round_ if is_own(ran, plan)]
        recorded = [Entry(made) for made in recorded_hooks(self.recording, plan.point, own)]
        plan = limited(self.recording, plan, round_)
        asked = (each for each in plan.judges if not is_placeholder(each.registration))
        return with_judges(plan, (*asked, *recorded))


def is_own(ran: HookRan, above: Plan) -> bool:
    """Whether a recorded hook of a child is the child's own, and not one of those from above."""
    for entry in above.judges:
        if entry.name == ran.hook:
            return entry.registration.source == DEFAULT  # every agent has these, each its own
    return True
