"""Back-test: what would other hooks have said to the runs that were recorded?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from hookline.agent.agent import Agent
from hookline.agent.builder import AgentBuilder
from hookline.agent.run import Run
from hookline.agent.run_index import Place, Round, is_limit_stop
from hookline.definition import Definition, for_child
from hookline.definition.definition import Plans
from hookline.definition.guards import default_guards, limit_reached_in_step, limits_on_calls
from hookline.errors import HookError, HooklineError, UsageError, in_words
from hookline.flow import RunLimits
from hookline.hooks import (
    Entry,
    HookAnswer,
    HookNames,
    Kind,
    Plan,
    Registration,
    Result,
    Tier,
    run_hooks,
)
from hookline.journal import HookRan, JournalStore, Record
from hookline.lifecycle import AgentContext, HookPoint, HookStack
from hookline.lifecycle.recorded_changes import describe_changes
from hookline.playback.recorded_agent import (
    PlayedAgents,
    is_limit_on_record,
    is_recorded,
    make_recorded_hooks,
)
from hookline.playback.recorded_run import RecordedRun
from hookline.playback.report import (
    BacktestReport,
    Change,
    HookCounts,
    HookKey,
    HookReport,
    UnfollowedRun,
    UnjudgedHooks,
    latency,
)
from hookline.playback.run_selection import recordings_of, select_runs
from hookline.playback.source import Keeps, Playback, PlaybackSource, is_in_doubt
from hookline.state import (
    EMPTY,
    ContinuationEvaluation,
    ContinuationOutcome,
    Decision,
    FrozenDict,
    InferenceRequest,
    RunStatus,
    StopReason,
    ToolCall,
    Usage,
)

_NOBODY = "back-test"


async def backtest(
    journal: JournalStore | Iterable[Record] | Iterable[Iterable[Record]],
    hooks: Agent | HookStack,
    *,
    children: Mapping[str, Agent] = EMPTY,
    runs: Sequence[str] | None = None,
    session: str | None = None,
    status: RunStatus | None = None,
    since: datetime | timedelta | None = None,
    limit: int | None = None,
    run_hooks: bool = False,
) -> BacktestReport:
    """Ask hooks about everything that was decided in recorded runs, and say where they would decide otherwise.

    An agent's hooks take the place of those on record; those of a HookStack are added to them. Every decision is
    judged as it was: nothing that changes changes what comes after it. No model is asked, no tool runs, nothing is
    written. Hooks in Python do run; those that are commands, addresses or models say what is on record, and are started
    with `run_hooks=True` only. `runs`, `session`, `status`, `since` and `limit` say which runs, newest first.
    """
    registrations, definition = _under_test(hooks)
    agents = PlayedAgents.of(definition, children, runs_hooks=run_hooks)
    test = Backtest(registrations, agents, is_added=isinstance(hooks, HookStack))
    recordings = recordings_of(journal)
    wanted = await select_runs(
        journal, runs=runs, session=session, status=status, since=since, limit=limit
    )
    for run_id in wanted:
        await test.run(Playback(recordings, partial(BacktestSource, test)), run_id)
    return test.report()


def _under_test(hooks: object) -> tuple[tuple[Registration, ...], Definition]:
    if isinstance(hooks, Agent):
        return hooks.definition.registrations, hooks.definition
    if isinstance(hooks, HookStack):
        return hooks.registrations, AgentBuilder().build(model=None).definition
    raise UsageError(
        f"backtest takes an agent, or a HookStack, not {hooks!r}.",
        remedy='For example: HookStack().with_hook(rule, "before_tool_use").',
    )


class Backtest:
    """A back-test in progress: the hooks under test, and what was found in all runs so far."""

    def __init__(
        self, registrations: tuple[Registration, ...], agents: PlayedAgents, *, is_added: bool
    ) -> None:
        self.registrations = registrations
        self.agents = agents
        self.is_added = is_added
        """They are added to those on record, instead of taking their place."""
        self.known: dict[HookKey, Registration] = names_of(registrations)
        """The hooks that decide something, those of the children that were given included."""
        self.kept: set[HookKey] = set()
        """Hooks on record that stay, because their agent was not given."""
        self.judged: list[ComparedDecision] = []
        """The decisions of the run that is played."""
        self.counts = HookCounts()
        self._recorded = HookCounts()
        self._tiers: dict[HookKey, str] = {}
        self._changes: list[Change] = []
        self._unjudged: list[UnjudgedHooks] = []
        self._unfollowed: list[UnfollowedRun] = []
        self._runs = self._children = self._decisions = self._calls = 0

    async def run(self, playback: Playback, run_id: str) -> None:
        """One run and its children. What is wrong with it is in the report, and the others continue."""
        self._runs += 1
        try:
            await playback.play(run_id)
        except Exception as error:
            words = in_words(error) if isinstance(error, HooklineError) else repr(error)
            self._unfollowed.append(UnfollowedRun(run_id, words))
        if playback.divergence is not None:
            at, then = playback.divergence.at, playback.divergence.source.comparison.then
            where = (
                f"{then[at].what} in step {(then[at].step or 0) + 1}"
                if at < len(then)
                else "its end"
            )
            why = f"the record could not be followed after {where}"
            self._unfollowed.append(UnfollowedRun(playback.divergence.source.run_id, why))
        self._take_in(playback)

    def _take_in(self, playback: Playback) -> None:
        self._children += max(len(playback.sources) - 1, 0)
        for source in playback.sources.values():
            for ran in source.recording.hooks:
                self._recorded.count((ran.point, ran.hook), ran.duration, ran.verdict)
                self._tiers[ran.point, ran.hook] = ran.tier
        changed: dict[tuple[str, Place], str] = {}
        for judged in self.judged:
            where = (judged.run_id, judged.place)
            self._decisions += 1
            self._calls += judged.place[0] == "before_tool_use" and not judged.is_anew
            if judged.from_record:
                point, step, call_id = judged.place
                self._unjudged.append(
                    UnjudgedHooks(
                        run=judged.run_id,
                        step=step,
                        point=point,
                        call_id=call_id,
                        hooks=judged.from_record,
                    )
                )
            # What would not have come this far, or is judged once more as it is, is reported already.
            is_reported = judged.is_anew or changed.get(where) in ("block", "stop")
            if not (where in changed and is_reported) and not is_same(judged.old, judged.new):
                self._changes.append(_change(judged, is_first=not changed))
                changed[where] = judged.new.verdict.word
        self.judged.clear()

    def report(self) -> BacktestReport:
        """What was found."""
        return BacktestReport(
            runs=self._runs,
            children=self._children,
            decisions=self._decisions,
            calls=self._calls,
            changes=tuple(self._changes),
            hooks=tuple(self._hooks()),
            unjudged=tuple(self._unjudged),
            unfollowed=tuple(self._unfollowed),
            not_asked=tuple(self.agents.not_asked),
            around=tuple(each.name for each in self.registrations if each.point.around),
        )

    def _hooks(self) -> Iterator[HookReport]:
        """First those under test, then those that are only on record."""
        now, defaults = self.known, names_of(default_guards(RunLimits(tool_calls=0)))
        for key, registration in now.items():
            # The guards that every agent has are shown only where they make a difference.
            if key not in defaults or self._is_named(key):
                status = "kept" if key in self._recorded else "added"
                yield self._hook(key, status, registration.tier.value, shadow=registration.shadow)
        for key in [key for key in self._recorded if key not in now]:
            stays = self.is_added or key in self.kept
            if not (stays and key in defaults):
                yield self._hook(key, "kept" if stays else "removed", self._tiers[key])

    def _is_named(self, key: HookKey) -> bool:
        return any((change.point, change.hook) == key for change in self._changes)

    def _hook(self, key: HookKey, status: str, tier: str, *, shadow: bool = False) -> HookReport:
        now, then = self.counts[key], self._recorded[key]
        point, hook = key
        return HookReport(
            hook=hook,
            point=point,
            tier=tier,
            status=status,
            shadow=shadow,
            calls=now.calls,
            verdicts=dict(now.verdicts),
            latency=latency(now.seconds),
            usage=now.usage,
            recorded_calls=then.calls,
            recorded_verdicts=dict(then.verdicts),
            recorded_latency=latency(then.seconds),
        )


def _change(judged: ComparedDecision, *, is_first: bool) -> Change:
    point, step, _ = judged.place
    old, new = judged.old.verdict, judged.new.verdict
    if old.word == new.word and judged.old.says.word != judged.new.says.word:
        old, new = judged.old.says, judged.new.says
    hook, why = new.hook, new.why
    if not hook:  # the hook that makes the difference has nothing to say any more
        hook, why = old.hook, f"no longer says: {old.why}" if old.why else "no longer says so"
    return Change(
        run=judged.run_id,
        step=step,
        point=point,
        call=judged.call,
        old=old.word,
        new=new.word,
        hook=hook,
        why=why,
        old_hook=old.hook,
        old_why=old.why,
        is_first=is_first,
    )


# --- asking the hooks under test --------------------------------------------------------------------


class ComparedDecision(msgspec.Struct, frozen=True):
    """One decision: what was decided then, and what is decided now."""

    place: Place
    run_id: str
    call: ToolCall | None
    old: HookRuling
    new: HookRuling
    is_anew: bool = False
    """It was judged before the run paused, and policies judge it once more."""
    from_record: tuple[str, ...] = ()
    """Hooks that could not be asked, because what they would be shown is not on record."""


class Candidate(msgspec.Struct, frozen=True):
    """The hooks that are asked about one run."""

    plans: Plans
    registrations: tuple[Registration, ...] = ()
    """All of them; a child inherits those whose scope is the tree."""
    keeps: Keeps = "none"
    """Which hooks on record stay, and say what they said."""


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
    return (own is not None and own(run) != "") or any(
        is_limit_stop(ran) and is_limit_on_record(ran) for ran in round_
    )


def _is_spent(ran: HookRan) -> bool:
    """Whether a limit on tokens or cost stopped the run."""
    reasons = (StopReason.TOKEN_LIMIT, StopReason.COST_LIMIT)
    return ran.verdict == "stop" and ran.stop_reason in reasons


class BacktestSource(PlaybackSource):
    """The record. Everybody says what is on record, and beside them the hooks under test are asked."""

    has_agent = False
    candidate: Candidate
    _metadata: CandidateMetadata

    def __init__(self, test: Backtest, playback: Playback, recording: RecordedRun) -> None:
        super().__init__(test.agents, playback, recording)
        self._test = test
        self._asks: dict[Place, bool] = {}
        """Whether the hooks under test ask about a call."""

    def definition(self, name: str | None) -> Definition:
        """An agent of which only the record is left."""
        agents = self.agents
        known = agents.own if name is None else agents.child(self.recording, name)
        return self.make_recorded_definition(known or agents.own)

    def find_asked_points(self, run: Run) -> frozenset[str]:
        """Where somebody was asked, or is to be asked now."""
        if not hasattr(self, "candidate"):
            self.candidate = self._candidate(run)
            self._metadata = CandidateMetadata(run.state.metadata)
        plans = self.candidate.plans
        return self.recording.points | {
            point.value for point in HookPoint if plans.of(point.value) is not None
        }

    def _candidate(self, run: Run) -> Candidate:
        """Who is asked about a run: the hooks under test, or what a child has of them."""
        test, parent = self._test, run.parent
        if test.is_added:
            return Candidate(Plans(test.registrations), test.registrations, "all")
        if parent is None:
            is_child = run.state.parent_run_id is not None
            if not is_child:
                return Candidate(Plans(test.registrations), test.registrations)
            mine = tuple(each for each in test.registrations if each.scope == "tree")
            return Candidate(Plans((), mine), mine, "own")
        above = self._above(parent)
        name = above.recording.child_names.get(run.run_id)
        own = None if name is None else test.agents.child(self.recording, name)
        inherited = for_child(above.candidate.registrations)
        if own is None:
            return Candidate(Plans((), inherited), inherited, "own")
        test.known = {**names_of(own.registrations), **test.known}
        return Candidate(Plans(own.registrations, inherited), (*inherited, *own.registrations))

    def _above(self, parent: Run) -> BacktestSource:
        above = self.playback.source(parent.run_id)
        assert isinstance(above, BacktestSource)
        return above

    # --- asking -----------------------------------------------------------------------------------

    def hooks(self, run: Run, plan: Plan, ctx: AgentContext) -> Plan:
        """Those who were asked then, and before them the hooks under test, which change nothing."""
        place, round_ = self.round_of(run, ctx)
        then = make_recorded_hooks(self.recording, plan.point, round_)
        if is_in_doubt(ctx):
            return Plan(plan.point, then)
        is_done = False

        async def ask(ctx: AgentContext) -> None:
            nonlocal is_done
            is_done = True
            await self._judge(run, ctx, place, round_, policies_only=False)

        async def ask_policies(ctx: AgentContext) -> None:
            if not is_done:  # policies alone are asked
                await self._judge(run, ctx, place, round_, policies_only=True)

        beside = [
            Registration(point=plan.point, hook=hook, name=_NOBODY, tier=tier)
            for tier, hook in ((Tier.HOOK, ask), (Tier.POLICY, ask_policies))
        ]
        return Plan(plan.point, (*beside, *then))

    async def _judge(
        self, run: Run, ctx: AgentContext, place: Place, round_: Round, *, policies_only: bool
    ) -> None:
        """Ask the hooks under test about one decision of the recorded run."""
        test, recording, plans = self._test, self.recording, self.candidate.plans
        if not self._spend_as_then(run, round_):
            return
        plan = plans.of(place[0])
        if place[0] == "before_tool_use" and _are_limits_asked(plans, run, round_):
            plan = limits_on_calls(plans.before_step)
        is_needed = plan is not None or (round_ and not test.is_added)
        if not is_needed:
            return
        self._metadata.follow(ctx.state.metadata)
        then = Plan(ctx.point, make_recorded_hooks(recording, ctx.point, round_))
        log = RoundLog()
        old = await ask_beside(run, then, ctx, log, policies_only=policies_only)
        self._metadata.recorded = log.context.state.metadata
        if self._is_no_longer_asked(place) or not recording.has_decision(place, round_):
            return
        seen = self.who_answers(run, plan or Plan(ctx.point), place, round_, self.candidate.keeps)
        if seen.missing:
            gone = f"hook '{seen.missing}' is not there any more, and its input is not on record"
            new = HookRuling(verdict=HookDecision(UNKNOWN, seen.missing, gone))
        else:
            new = await self._ask_now(run, seen.plan, ctx, policies_only=policies_only)
        if place[0] == "before_tool_use":
            self._asks[place] = new.verdict.word == "ask"
        test.judged.append(
            ComparedDecision(
                place=place,
                run_id=run.run_id,
                call=getattr(ctx, "tool_call", None),
                old=old,
                new=new,
                is_anew=policies_only,
                from_record=seen.from_record,
            )
        )

    def _spend_as_then(self, run: Run, round_: Round) -> bool:
        """Where a limit on tokens or cost stopped the run: count what hooks had charged by then.

        Their charges are on record in the next sum only. Says whether that sum is on record: without it nobody knows
        what a limit would say.
        """
        stop = next((ran for ran in round_ if _is_spent(ran)), None)
        if stop is None:
            return True
        then = self.recording.usage_after(stop)
        if then is None:
            return False
        missing = then - (run.state.counters.usage + run.uncounted.usage)
        if not missing.problem():
            run.charge(missing)
        return True

    def _is_no_longer_asked(self, place: Place) -> bool:
        """Whether a permission is asked for that nobody of now would ask for."""
        point, step, call_id = place
        return point == "permission_request" and not self._asks.get(
            ("before_tool_use", step, call_id), True
        )

    def is_own(self, run: Run, ran: HookRan, plan: Plan) -> bool:
        """Whether a recorded hook of a child is the child's own: not one of now, nor one its parent had then."""
        own, parent = super().is_own(run, ran, plan), run.parent
        if own and ran.tier == Tier.POLICY and parent is not None:
            # Only policies hold in children too, unless somebody said otherwise.
            own = (ran.point, ran.hook) not in self._above(parent).recording.hook_names
        if own:
            self._test.kept.add((ran.point, ran.hook))
        return own

    async def _ask_now(
        self, run: Run, plan: Plan, ctx: AgentContext, *, policies_only: bool
    ) -> HookRuling:
        """Ask the hooks of now about what was, with the metadata that they themselves have written."""
        log = RoundLog(self._test.counts)
        state = msgspec.structs.replace(ctx.state, metadata=self._metadata.shown)
        shown = msgspec.structs.replace(ctx, state=state, live=RunSeenByCandidate(run, log))
        quiet = plan.with_entries(map(without_count, plan.judges))
        ruling = await ask_beside(run, quiet, shown, log, policies_only=policies_only)
        self._metadata.shown = log.context.state.metadata
        return ruling


# --- asking beside a run ------------------------------------------------------------------------------


async def ask_beside(
    run: Run, plan: Plan, ctx: AgentContext, log: RoundLog, *, policies_only: bool
) -> HookRuling:
    """What these hooks say. Nothing of it reaches the run."""

    try:
        result = await run_hooks(plan, ctx, log, run.settle, policies_only=policies_only)
    except HookError as error:
        return HookRuling(verdict=HookDecision(Kind.FAILED.label, error.hook, error.problem))
    log.context = result.context
    return ruling_of(ctx, result, log.changed_by, log.answered_by)


def without_count(entry: Entry) -> Entry:
    """The entry; a recorded hook is not counted among those that are asked."""
    return entry.with_answer(entry.call) if is_recorded(entry) else entry


class RunSeenByCandidate:
    """The run, as hooks that are asked beside it may see it. What they charge is theirs."""

    def __init__(self, run: Run, log: RoundLog) -> None:
        self._run = run
        self.charge: Callable[[Usage], None] = log.charge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


_GONE = object()


class CandidateMetadata:
    """The metadata that hooks under test see: what they wrote, and what changed on record while no hook was asked.

    Hooks around a step change it then, and the hooks that a process asks when it takes a run up.
    """

    def __init__(self, first: dict[str, Any]) -> None:
        self.recorded = first
        """As the hooks on record left it last."""
        self.shown = first
        """As the hooks under test left it last."""

    def follow(self, recorded: dict[str, Any]) -> None:
        """This is on record where hooks are asked next: what has changed since the last time is shown too."""
        if recorded is self.recorded:
            return
        shown = dict(self.shown)
        for key in {*self.recorded, *recorded}:
            value = recorded.get(key, _GONE)
            if value is _GONE:
                shown.pop(key, None)
            elif value != self.recorded.get(key, _GONE):
                shown[key] = value
        self.recorded, self.shown = recorded, FrozenDict(shown)


class RoundLog:
    """Where the engine reports what the hooks of one round said: the hook log."""

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

    def report_passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """These changed nothing."""
        for position, hook in enumerate(names.hooks):
            took = readings[position + 1] - readings[position]
            self._count((names.point, hook), took, "proceed")

    def report_context(self, ctx: AgentContext) -> None:
        """One failed: this is what the others left behind."""
        self.context = ctx

    def report_appended(self, entry: Entry, started: float, ctx: AgentContext) -> float:  # noqa: ARG002 - the signature of the hook log
        """A hook said whether to continue."""
        return self._count_answer(entry, started, "proceed")

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer[Any]) -> float:
        """One said or changed something, or failed."""
        if answer.after is not answer.before and not entry.shadow:
            self.changed_by = entry.name
        if answer.answer is not None and not self.answered_by:
            self.answered_by = entry.name
        verdict = "failed" if answer.error is not None else answer.kind.label
        return self._count_answer(entry, started, verdict)

    def _count_answer(self, entry: Entry, started: float, verdict: str) -> float:
        now = time.perf_counter()
        if not is_recorded(entry):
            self._count((entry.point, entry.name), now - started, verdict)
        return now

    def _count(self, key: tuple[str, str], took: float, verdict: str) -> None:
        charged, self._charged = self._charged, []
        if self._counts is not None:
            self._counts.count(key, took, verdict, charged)


# --- what hooks made of one thing, so that it can be compared -------------------------------------


UNKNOWN = "unknown"
_OF_THE_AGENT = ("system", "tools")
"""What is in every request of an agent, whatever hooks do."""


class HookDecision(NamedTuple):
    """What hooks decided, in a word, and whose word it is."""

    word: str = "proceed"
    hook: str = ""
    why: str = ""


class HookRuling(msgspec.Struct, frozen=True, kw_only=True):
    """What all hooks of a round decided."""

    verdict: HookDecision = HookDecision()
    """`proceed`, `ask`, `block`, `stop`, `failed`; a person's answer; `change`; or `unknown`."""
    says: HookDecision = HookDecision()
    """The strongest evaluation; `proceed` if there is none."""
    changes: dict[str, Any] = {}
    """What they made of the thing, by field. Metadata is theirs, and changes nothing by itself."""


def ruling_of(before: Any, result: Result[Any], changed_by: str, answered_by: str) -> HookRuling:
    """What hooks decided, from the context they were given and what came of it."""
    after = result.context
    said = _strongest(after.evaluations[len(before.evaluations) :])
    changes = _changes(before, after)
    verdict = HookDecision(result.kind.label, result.decided_by, result.reason)
    if isinstance(result.answer, Decision):
        verdict = HookDecision(result.answer.answer.value, answered_by, result.answer.reason)
    elif result.kind is Kind.PROCEED and changes:
        verdict = HookDecision("change", changed_by, f"changes {', '.join(changes)}")
    says = (
        HookDecision()
        if said is None
        else HookDecision(said.decision.value, said.source, said.reason)
    )
    return HookRuling(verdict=verdict, says=says, changes=changes)


def is_same(old: HookRuling, new: HookRuling) -> bool:
    """Whether two rulings have the same effect, whoever gave them and in whatever words."""
    return (
        old.verdict.word == new.verdict.word
        and old.says.word == new.says.word
        and old.changes.keys() == new.changes.keys()
        and all(_is_same(name, old.changes[name], new.changes[name]) for name in old.changes)
    )


def _is_same(name: str, old: Any, new: Any) -> bool:
    if name == "request":
        # An agent of now has its own tools and system prompt: only what its hooks made of them counts.
        ignored = [field for field in _OF_THE_AGENT if field not in new]
        old = {field: value for field, value in old.items() if field not in ignored}
    return bool(old == new)


def _changes(before: Any, after: Any) -> dict[str, Any]:
    described = describe_changes(before, after) or {}
    described.pop("evaluations", None)
    if "typed_output" in described:  # what is on record of it is the same as JSON
        described["output"] = described.pop("typed_output")
    state = described.pop("state", {})
    state.pop("metadata", None)
    if state:
        described["state"] = state
    if described.pop("request", None) and (changed := _request_changes(before, after)):
        described["request"] = changed
    # As JSON: a recorded hook makes a list of messages where the hook itself made a tuple.
    return msgspec.json.decode(msgspec.json.encode(described, enc_hook=list))  # type: ignore[no-any-return]


def _request_changes(before: Any, after: Any) -> dict[str, Any]:
    """What hooks made of a request, apart from showing the model the conversation they have changed."""
    expected: InferenceRequest = before.request.with_messages(after.state.messages)
    return {
        name: getattr(after.request, name)
        for name in InferenceRequest.__struct_fields__
        if getattr(after.request, name) != getattr(expected, name)
    }


def _strongest(said: tuple[ContinuationEvaluation, ...]) -> ContinuationEvaluation | None:
    outcome = ContinuationOutcome.from_evaluations(said)
    for evaluation in said:
        if (evaluation.source, evaluation.reason) == (outcome.resolved_by, outcome.reason):
            return evaluation
    return None
