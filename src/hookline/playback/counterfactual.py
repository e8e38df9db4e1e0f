"""What other hooks would have said: a run goes as it went, and beside it they are asked about each decision."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hookline.agent.records.rounds import Place, Round
from hookline.agent.run import Run
from hookline.definition import Definition, Plans, for_child
from hookline.definition.guards import limit_reached_in_step, limits_on_calls
from hookline.errors import HookError
from hookline.hooks import Answered, Entry, HookNames, Plan, Registration, Tier, run_hooks
from hookline.journal import HookRan
from hookline.lifecycle import AgentContext, HookPoint
from hookline.playback.findings import HookCounts, HookKey
from hookline.playback.hook_source import Agents, is_own
from hookline.playback.progress import Progress
from hookline.playback.recorded_hooks import (
    Seen,
    as_far_as_seen,
    is_limit_on_record,
    is_recorded,
    limited,
    plan_of,
    recorded_hooks,
    unseen,
    with_judges,
)
from hookline.playback.rulings import UNKNOWN, Ruling, failed, ruling_of
from hookline.playback.source import Playback, PlaybackSource, is_in_doubt, recorded_definition
from hookline.state import FrozenDict, ToolCall, Usage

_NOBODY = "back-test"


class BacktestSource(PlaybackSource):
    """The record. Everybody says what is on record, and beside them the hooks under test are asked."""

    has_agent = False

    def __init__(
        self, test: Counterfactual, agents: Agents, playback: Playback, progress: Progress
    ) -> None:
        super().__init__(playback, progress)
        self._test = test
        self._agents = agents

    def definition(self, name: str | None) -> Definition:
        """An agent of which only the record is left."""
        agents = self._agents
        known = agents.own if name is None else agents.child(self.progress, name)
        return recorded_definition(self.progress, known or agents.own)

    def asked_points(self, run: Run) -> frozenset[str]:
        """Where somebody was asked, or is to be asked now."""
        plans = self._test.candidate(run, self._own(run)).plans
        return self.recording.points | {
            point.value for point in HookPoint if plans.of(point.value) is not None
        }

    def _own(self, run: Run) -> Definition | None:
        """The agent of a child run, if it is known."""
        if run.parent is None:
            return None
        above = self.playback.progress(run.parent.run_id).recording
        name = above.child_names.get(run.run_id)
        return None if name is None else self._agents.child(self.progress, name)

    def hooks(self, run: Run, plan: Plan, ctx: AgentContext) -> Plan:
        """Those who were asked then, and before them the hooks under test, which change nothing."""
        place, round_ = self.progress.round_of(ctx)
        then = recorded_hooks(self.recording, plan.point, round_)
        if is_in_doubt(ctx):
            return plan_of(plan.point, then)
        asked = self._test.hooks(Asked(run, self.playback, self.progress, place, round_))
        beside = [
            Registration(point=plan.point, hook=ask, name=_NOBODY, tier=tier)
            for tier, ask in zip((Tier.HOOK, Tier.POLICY), asked, strict=True)
        ]
        return plan_of(plan.point, (*beside, *then))


class Asked(msgspec.Struct, frozen=True):
    """One decision of a recorded run: where it was made, and what was said then."""

    run: Run
    playback: Playback
    progress: Progress
    place: Place
    round_: Round

    @property
    def key(self) -> tuple[str, Place]:
        """The run, and the place in it."""
        return self.run.run_id, self.place


class Judged(msgspec.Struct, frozen=True):
    """One decision: what was decided then, and what is decided now."""

    place: Place
    run_id: str
    call: ToolCall | None
    old: Ruling
    new: Ruling
    is_anew: bool = False
    """It was judged before the run paused, and policies judge it once more."""
    unasked: tuple[str, ...] = ()
    """Hooks that could not be asked, because what they would be shown is not on record."""


class Candidate(msgspec.Struct, frozen=True):
    """The hooks that are asked about one run."""

    plans: Plans
    registrations: tuple[Registration, ...] = ()
    """All of them; a child inherits those whose scope is the tree."""
    keeps: str = "none"
    """Which hooks on record stay, and say what they said: none, the run's `own`, or `all`."""


def names_of(registrations: Iterable[Registration]) -> dict[HookKey, Registration]:
    """The hooks that decide something, by point and the name they have there."""
    plans = Plans(tuple(registrations))
    found: dict[HookKey, Registration] = {}
    for point in HookPoint:
        plan = None if point.around else plans.of(point.value)
        for entry in plan.judges if plan is not None else ():
            found[entry.point, entry.name] = entry.registration
    if plans.limit_reached is not None:
        for entry in limits_on_calls(plans.before_step).judges:
            found.setdefault((entry.point, entry.name), entry.registration)
    return found


def _are_limits_asked(plans: Plans, run: Run, round_: Round) -> bool:
    """Whether a limit stops a call before hooks are asked about it.

    The time, and what other children had used by then, is not known exactly: about these the record decides.
    """
    if plans.limit_reached is None:
        return False
    own = limit_reached_in_step(plans.before_step, own_only=True)
    return (own is not None and own(run) != "") or any(map(is_limit_on_record, round_))


class Counterfactual:
    """The hooks under test, over many runs."""

    def __init__(
        self, registrations: tuple[Registration, ...], agents: Agents, *, is_added: bool
    ) -> None:
        self.registrations = registrations
        self._agents = agents
        self.is_added = is_added
        """They come to those on record, instead of taking their place."""
        self.counts = HookCounts()
        self.judged: list[Judged] = []
        self.known: dict[HookKey, Registration] = names_of(registrations)
        """The hooks that decide something, those of the children that were given included."""
        self.kept: set[HookKey] = set()
        """Hooks on record that stay, because their agent was not given."""
        self._candidates: dict[str, Candidate] = {}
        self._notes: dict[str, Notes] = {}
        self._asks: dict[tuple[str, Place], bool] = {}

    def forget(self) -> None:
        """The next run has nothing to do with the last."""
        self._candidates.clear()
        self._notes.clear()
        self._asks.clear()

    def candidate(self, run: Run, own: Definition | None) -> Candidate:
        """Who is asked about a run: the hooks under test, or what a child has of them."""
        if run.run_id not in self._candidates:
            self._candidates[run.run_id] = self._made(run, own)
            self._notes[run.run_id] = Notes(run.state.metadata, is_added=self.is_added)
        return self._candidates[run.run_id]

    def _made(self, run: Run, own: Definition | None) -> Candidate:
        if self.is_added:
            return Candidate(Plans(self.registrations), self.registrations, "all")
        parent = run.parent
        if parent is None:
            is_child = run.state.parent_run_id is not None
            if not is_child:
                return Candidate(Plans(self.registrations), self.registrations)
            mine = tuple(each for each in self.registrations if each.scope == "tree")
            return Candidate(Plans((), mine), mine, "own")
        inherited = for_child(self._candidates[parent.run_id].registrations)
        if own is None:
            return Candidate(Plans((), inherited), inherited, "own")
        registrations = (*inherited, *own.registrations)
        self.known = {**names_of(own.registrations), **self.known}
        return Candidate(Plans(own.registrations, inherited), registrations)

    # --- asking -----------------------------------------------------------------------------------

    def hooks(self, asked: Asked) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Two hooks that ask those under test and let things be: one among the hooks, one among the policies.

        The second does so only when the first was not called: then policies alone are asked.
        """
        is_done = False

        async def ask(ctx: AgentContext) -> None:
            nonlocal is_done
            is_done = True
            await self._judge(asked, ctx, policies_only=False)

        async def ask_policies(ctx: AgentContext) -> None:
            if not is_done:
                await self._judge(asked, ctx, policies_only=True)

        return ask, ask_policies

    async def _judge(self, asked: Asked, ctx: AgentContext, *, policies_only: bool) -> None:
        run, place, round_ = asked.run, asked.place, asked.round_
        recording = asked.progress.recording
        candidate = self._candidates[run.run_id]
        plan = candidate.plans.of(place[0])
        if place[0] == "before_tool_use" and _are_limits_asked(candidate.plans, run, round_):
            plan = limits_on_calls(candidate.plans.before_step)
        is_needed = plan is not None or (round_ and not self.is_added)
        if not is_needed or self._is_moot(asked) or not recording.goes_beyond(place, round_):
            return
        then = plan_of(ctx.point, recorded_hooks(recording, ctx.point, round_))
        watch = Watch()
        old = await ask_beside(run, then, ctx, watch, policies_only=policies_only)
        seen = self._now(asked, candidate, plan, then)
        if seen.missing:
            gone = f"hook '{seen.missing}' is not there any more, and what it was shown is not on record"
            new = Ruling(verdict=UNKNOWN, hook=seen.missing, reason=gone)
        else:
            new = await self._ask_now(
                run, seen.plan, ctx, watch.context, policies_only=policies_only
            )
        if place[0] == "before_tool_use":
            self._asks[asked.key] = new.verdict == "ask"
        call = getattr(ctx, "tool_call", None)
        self.judged.append(
            Judged(
                place=place,
                run_id=run.run_id,
                call=call,
                old=old,
                new=new,
                is_anew=policies_only,
                unasked=seen.unasked,
            )
        )

    def _is_moot(self, asked: Asked) -> bool:
        """Whether a permission is asked for that nobody of now would ask for."""
        point, step, call_id = asked.place
        before = (asked.run.run_id, ("before_tool_use", step, call_id))
        return point == "permission_request" and not self._asks.get(before, True)

    def _now(self, asked: Asked, candidate: Candidate, plan: Plan | None, then: Plan) -> Seen:
        """Who is asked now; who cannot be; and who would have to be there, and is not."""
        progress, round_ = asked.progress, asked.round_
        recording = progress.recording
        plan = plan_of(then.point, ()) if plan is None else plan
        plan = self._agents.spared(recording, plan, round_)
        if candidate.keeps == "all":
            return Seen(with_judges(plan, (*then.judges, *plan.judges)))
        is_kept = recording.keeps(progress.part, asked.place)
        hidden = unseen(asked.place[0], round_, is_kept=is_kept)
        if hidden and candidate.keeps == "own":
            return Seen(then, tuple(entry.name for entry in plan.judges))
        if hidden:
            return as_far_as_seen(recording, plan, round_, hidden)
        own: Sequence[HookRan] = ()
        if candidate.keeps == "own":
            own = [ran for ran in round_ if self._is_own(asked, ran, plan)]
            self.kept.update((ran.point, ran.hook) for ran in own)
        recorded = [Entry(made) for made in recorded_hooks(recording, plan.point, own)]
        return Seen(with_judges(plan, (*limited(recording, plan, round_).judges, *recorded)))

    def _is_own(self, asked: Asked, ran: HookRan, plan: Plan) -> bool:
        """Whether a recorded hook of a child is the child's own: not one of now, nor one its parent had then."""
        parent = asked.run.parent
        if not is_own(ran, plan):
            return False
        if ran.tier != Tier.POLICY or parent is None:
            return (
                True  # what is no policy holds in its own run only, unless somebody said otherwise
            )
        above = asked.playback.progress(parent.run_id).recording
        return (ran.point, ran.hook) not in above.hook_names

    async def _ask_now(
        self, run: Run, plan: Plan, ctx: AgentContext, then: Any, *, policies_only: bool
    ) -> Ruling:
        """Ask the hooks of now about what was, with the metadata that they themselves have written."""
        watch = Watch(self.counts)
        notes = self._notes[run.run_id]
        state = msgspec.structs.replace(ctx.state, metadata=notes.shown(ctx.state.metadata))
        shown = msgspec.structs.replace(ctx, state=state, live=Beside(run, watch))
        quiet = plan.with_entries(tuple(map(untold, plan.judges)))
        ruling = await ask_beside(run, quiet, shown, watch, policies_only=policies_only)
        if watch.context is not None and then is not None:
            notes.take(then.state.metadata, watch.context.state.metadata)
        return ruling


# --- asking beside a run ------------------------------------------------------------------------------


async def ask_beside(
    run: Run, plan: Plan, ctx: AgentContext, watch: Watch, *, policies_only: bool
) -> Ruling:
    """What these hooks say. Nothing of it reaches the run."""

    def settle(entry: Entry, before: Any, after: Any) -> Any:
        current = run.current
        kept = (current.tool, current.values) if current is not None else None
        try:
            return run.settle(entry, before, after)
        finally:
            if current is not None and kept is not None:
                current.tool, current.values = kept

    try:
        result = await run_hooks(plan, ctx, watch, settle, policies_only=policies_only)
    except HookError as error:
        return failed(error)
    watch.context = result.context
    return ruling_of(ctx, result, watch.changed_by, watch.answered_by)


def untold(entry: Entry) -> Entry:
    """A recorded hook is not counted among those who are asked."""
    return entry.recalling(entry.call) if is_recorded(entry) else entry


class Beside:
    """The run, as hooks that are asked beside it may see it. What they charge is theirs."""

    def __init__(self, run: Run, watch: Watch) -> None:
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
    """Where the engine reports what the hooks of one round said: the trail."""

    monotonic = staticmethod(time.perf_counter)

    def __init__(self, counts: HookCounts | None = None) -> None:
        self._counts = counts
        self._charged: list[Usage] = []
        self.changed_by = ""
        self.answered_by = ""
        self.context: Any = None

    def charge(self, usage: Usage) -> None:
        """A hook has asked a model itself."""
        self._charged.append(usage)

    def passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """These let things be."""
        for position, hook in enumerate(names.hooks):
            took = readings[position + 1] - readings[position]
            self._count((names.point, hook), took, "proceed")

    def left(self, ctx: AgentContext) -> None:
        """One failed: this is what the others left behind."""
        self.context = ctx

    def appended(self, entry: Entry, started: float, ctx: AgentContext) -> float:  # noqa: ARG002 - the trail's signature
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
        if not is_recorded(entry):
            self._count((entry.point, entry.name), now - started, verdict)
        return now

    def _count(self, key: tuple[str, str], took: float, verdict: str) -> None:
        charged, self._charged = self._charged, []
        if self._counts is not None:
            self._counts.count(key, took, verdict, charged)
