"""Playing a recorded run: the one loop, with a source whose models, tools, people, children and time are the record.

What the hooks say is for `ReplaySource` and `BacktestSource`.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NoReturn, TypeAlias

import msgspec

from hookline.agent.agent import Agent
from hookline.agent.children import ChildPaused
from hookline.agent.in_progress import CallInProgress
from hookline.agent.loop.drive import NOT_MADE, ask_again, drive
from hookline.agent.recovery import answer_nothing
from hookline.agent.result import RunResult
from hookline.agent.run import NOBODY, AnswerSource, Run, RunSetup, SessionPart, UseTool
from hookline.agent.run_index import (
    MADE_AGAIN,
    Place,
    Round,
    RunPart,
    hook_error_of,
    place_of,
    restore_exception,
)
from hookline.agent.services import use_in_context
from hookline.definition import Clock, Definition
from hookline.definition.definition import Plans
from hookline.definition.guards import Reached, limit_reached_in_step
from hookline.errors import HookError, ModelError, ToolError, UnknownRunError, UsageError
from hookline.flow import ErrorAction, ErrorClass, ErrorDecision, ErrorPolicy
from hookline.hooks import Entry, Plan, Point, Registration, Tier, register
from hookline.journal import (
    ChildStarted,
    Durable,
    ErrorRaised,
    HookRan,
    HooksPassed,
    Listener,
    Record,
    RunFinished,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
)
from hookline.journal.fold import first_state, state_before
from hookline.journal.record import parent_of
from hookline.lifecycle import AgentContext, HookPoint, StepHookContext, ToolHookContext
from hookline.lifecycle.contexts import LiveRun
from hookline.lifecycle.recorded_changes import redo_changes
from hookline.playback.comparison import Comparison
from hookline.playback.recorded_agent import (
    PartialPlan,
    PlayedAgents,
    ask_unhidden,
    count_unseen,
    is_own,
    make_recorded_hooks,
    make_recorded_tools,
    with_judges,
    with_recorded_limits,
)
from hookline.playback.recorded_run import RecordedRun
from hookline.playback.run_selection import Recordings, read_tree
from hookline.state import (
    AgentState,
    Decision,
    Ending,
    ErrorInfo,
    InferenceRequest,
    InferenceResponse,
    PendingApproval,
    ResultStatus,
    RunStatus,
    StopReason,
    ToolCall,
    ToolResult,
    UserMessage,
)
from hookline.tools import ToolContext

_UNKNOWN = "it did not run when this was recorded, so its result is not known"
_LOST = "it is asked about the result of a call, which is missing from the record"
_NOT_THE_SAME = "it is no longer the same run"


Keeps: TypeAlias = Literal["none", "own", "all"]


class Divergence(msgspec.Struct, frozen=True):
    """Where it stopped being the same run."""

    source: PlaybackSource
    at: int
    """The number of the fact."""
    instead: str = ""
    """What came now, where that is no fact: the model was asked and has no answer on record."""


class RecordedClock:
    """Shows the time it was, less the time for which the run's process was dead. Nobody waits."""

    def __init__(self) -> None:
        self.time = 0.0
        self._dead: list[tuple[float, float]] = []
        """When no process drove the run: the end and the beginning, in order. A replay is one process: limits on time
        must not count this."""
        self._sums = [0.0]
        """How long that was in all, by how many of these times are over."""

    def leave_out_dead_time(self, records: Iterable[Record]) -> None:
        """Leave out the time between the last record of a process and the one that took the run up."""
        found = [
            (record.at, before.at)
            for before, record in pairwise(records)
            if isinstance(record, RunTakenUp) and record.at > before.at
        ]
        if found:
            self._dead = sorted((*self._dead, *found))
            self._sums = [0.0, *_sums_of(self._dead)]

    def now(self) -> float:
        """Seconds since 1970."""
        return self.time

    def monotonic(self) -> float:
        """The same: it only ever goes up."""
        return self.time

    def move_to(self, at: float) -> None:
        """It is this late now."""
        over = bisect_right(self._dead, (at, math.inf))
        self.time = max(self.time, at - self._sums[over])

    async def sleep(self, seconds: float) -> None:
        """Let time pass without waiting for it."""
        self.time += max(seconds, 0.0)


def _sums_of(times: Iterable[tuple[float, float]]) -> Iterator[float]:
    """How much time the first so many cover together. Those of a run and of its children overlap."""
    apart: list[tuple[float, float]] = []
    covered = 0.0
    for end, start in times:
        first = start
        while apart and apart[-1][0] > start:
            last, earlier = apart.pop()
            covered -= last - earlier
            first = min(first, earlier)
        apart.append((end, first))
        covered += end - first
        yield covered


class PlayedRecords(Durable):
    """The records of a run that is played, in memory. Like a store it has those of a child that is done."""

    __slots__ = ("_children",)

    def __init__(self, listeners: tuple[Listener, ...] = ()) -> None:
        super().__init__(listeners)
        self._children: dict[str, Durable] = {}

    async def _make_child(self, run_id: str, listeners: tuple[Listener, ...]) -> Durable:
        played = self._children.get(run_id)
        last = played.records[-1] if played is not None and played.records else None
        if played is None or not isinstance(last, RunFinished) or last.status is RunStatus.PAUSED:
            played = PlayedRecords((*self._listeners, *listeners))
            self._children[run_id] = played
        return played


class Playback:
    """One recorded run with its children, being played."""

    def __init__(
        self,
        recordings: Recordings,
        make: Callable[[Playback, RecordedRun], PlaybackSource],
    ) -> None:
        self._recordings = recordings
        self._make = make
        self._records: dict[str, list[Record]] = {}
        self.clock = RecordedClock()
        self.sources: dict[str, PlaybackSource] = {}
        """What each run takes its answers from."""
        self.divergence: Divergence | None = None
        self.missing: list[str] = []
        """Child runs that are not in the journal."""
        self.root: Run | None = None
        self.is_whole = True
        """The record says how everything continued."""

    async def load(self, run_id: str) -> None:
        """Read the run and its children."""
        if run_id not in self._records:
            self._records = await read_tree(self._recordings, run_id)

    def source(self, run_id: str) -> PlaybackSource:
        """What a run that is part of this takes its answers from."""
        if run_id not in self.sources:
            if run_id not in self._records:
                raise UnknownRunError(f"there is no run '{run_id}' in the journal.")
            records = tuple(self._records[run_id])
            above = self.sources.get(parent_of(records) or "")
            recording = RecordedRun(records, above.recording if above is not None else None)
            self.clock.leave_out_dead_time(recording.records)
            self.sources[run_id] = self._make(self, recording)
        return self.sources[run_id]

    async def play(self, run_id: str) -> RunResult:
        """Play a run from its beginning to where its record ends, pauses included."""
        await self.load(run_id)
        source = self.source(run_id)
        recording = source.recording
        self.clock.time = recording.records[0].at
        before = await state_before(recording.started, self._recordings)
        state, log = first_state(recording.started, before), PlayedRecords()
        while True:
            part = source.next_part()
            assert part is not None
            self.clock.move_to(_start_of(part).at)
            session = _session(state, part, recording)
            setup = RunSetup.of(source.definition(None), drive, session=session)
            self.root = run = Run(setup, state, log, source)
            result = await drive(run, _prompt(part))
            is_last = part is recording.parts[-1]
            if self.divergence or is_last or result.status is not RunStatus.PAUSED:
                self.is_whole = self.is_whole and recording.is_finished
                self._compare_ends()
                return result
            state = result.state

    # --- comparing --------------------------------------------------------------------------------

    def compare(self, source: PlaybackSource) -> None:
        """Look for a difference in what has come so far."""
        at = source.comparison.first_difference() if self.is_whole else None
        if at is not None:
            self.differ(source, at)

    def _compare_ends(self) -> None:
        """Everything was played: what is on record and has not come, is missing."""
        for source in self.sources.values():
            if self.is_whole and source.comparison.is_cut_short:
                self.differ(source, source.comparison.same)

    def differ(self, source: PlaybackSource, at: int | None = None, instead: str = "") -> None:
        """It is no longer the same run; only the first difference counts."""
        at = len(source.comparison.now) if at is None else at
        self.divergence = self.divergence or Divergence(source, at, instead)

    # --- ending as it ended -----------------------------------------------------------------------

    def cancel(self, why: str) -> None:
        """Cancel the whole run."""
        assert self.root is not None
        self.root.token.cancel(why)

    def canceller(self, run: Run) -> Callable[[], object]:
        """What cancels, of a run and those above it, the topmost that was cancelled, for the reason it had."""
        found, why, out_of_time = run, "", False
        for above in run.self_and_parents():
            recording = self.source(above.run_id).recording
            if recording.is_cancelled:
                found, why = above, recording.status.reason if recording.status else ""
                out_of_time = recording.is_out_of_time
        return partial(found.token.cancel, why, out_of_time=out_of_time)

    async def stop_here(self, run: Run) -> NoReturn:
        """Nothing more is on record: the run was cancelled here, or its process died here."""
        source = self.source(run.run_id)
        recording = source.recording
        if recording.is_cancelled:
            await _leave(self.canceller(run))
        if recording.is_finished:
            self.differ(source, instead=_LOST)
        self.is_whole = self.is_whole and recording.is_finished
        await _leave(partial(self.cancel, "the record ends here"))

    async def stop_at_difference(self, source: PlaybackSource, instead: str) -> NoReturn:
        """Something is asked for that was not asked for then."""
        if not source.recording.is_finished:
            assert self.root is not None
            await self.stop_here(self.root)
        self.differ(source, instead=instead)
        await _leave(partial(self.cancel, _NOT_THE_SAME))


async def _leave(cancel: Callable[[], object]) -> NoReturn:
    """Cancel a run from inside one of its actions, as if from outside, and wait for that to arrive."""
    asyncio.get_running_loop().call_soon(cancel)
    while True:
        await asyncio.Event().wait()


class PlaybackSource(AnswerSource):
    """The answers on record of one run, in the order of its keys. Nothing outside is touched."""

    is_replay = True
    has_agent = True
    """The agent of the run is there; otherwise only what is on record of it."""

    def __init__(self, agents: PlayedAgents, playback: Playback, recording: RecordedRun) -> None:
        super().__init__()
        self.agents = agents
        self.playback = playback
        self.recording = recording
        self.comparison = Comparison(recording)
        self.run: Run | None = None
        self.tries: Counter[Any] = Counter()
        """How often something was asked for that may be asked for more than once."""
        self._hook_times: list[float] = []
        """When the hooks that are being asked were done then, by record."""
        self._drives = 0
        self._decisions: dict[tuple[int | None, str, str], list[ErrorRaised]] = defaultdict(list)
        """What is left of what the error policy decided, by step, call id and class of the error."""
        for failed in recording.errors:
            if failed.error is not None:
                key = (failed.step, failed.call_id, failed.error.error_class)
                self._decisions[key].append(failed)
        self._consultations = {key: list(each) for key, each in recording.consultations.items()}
        """What is left of what models answered hooks."""

    def definition(self, name: str | None) -> Definition:
        """What drives the run. For a child run `name` is its name."""
        raise NotImplementedError

    def make_recorded_definition(self, like: Definition) -> Definition:
        """An agent of which only the record is left: no hooks of its own, and any tool."""
        if self.run is None:  # what the model was asked is made of the agent's tools and prompt
            self.comparison = Comparison(self.recording, in_full=False)
        return msgspec.structs.replace(
            like,
            agent_id=self.recording.started.agent_id,
            listeners=(),
            registrations=(),
            plans=Plans(()),
            toolbox=make_recorded_tools(self.recording, lambda: self.step, like.toolbox),
            expire_after=None,
            max_objections=_most_objections(self.recording, like.max_objections),
            error_policy=_make_recorded_policy(self.recording, like.error_policy),
        )

    # --- how far it has been played -----------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.recording.run_id

    @property
    def step(self) -> int:
        """The step that is being made."""
        return (self.run.step_index if self.run is not None else None) or 0

    @property
    def part(self) -> RunPart:
        """The part that is being played."""
        return self.recording.parts[self._drives - 1]

    def next_part(self) -> RunPart | None:
        """Continue with the next part; None when there is no other on record."""
        if self._drives == len(self.recording.parts):
            return None
        self._drives += 1
        return self.part

    def number(self, *key: Any) -> int:
        """How often this was asked for before, counted from zero."""
        number = self.tries[key]
        self.tries[key] += 1
        return number

    def hear(self, record: Record) -> None:
        """Something has happened while it is played."""
        self.comparison.hear(record)
        if isinstance(record, StepFinished) and record.step.index in self.recording.steps:
            self.playback.clock.move_to(self.recording.steps[record.step.index].at)
        elif isinstance(record, HookRan | HooksPassed):
            self._pass_time()
        elif isinstance(record, RunFinished):
            self.playback.compare(self)

    # --- the record and the time --------------------------------------------------------------------

    def append(self, durable: Durable) -> Callable[[Record], None]:
        """Keeps what happens in memory, and compares it with what is on record."""

        def append(record: Record) -> None:
            durable.append(record)
            self.hear(durable.records[-1])  # as it is kept, without secrets

        return append

    def clock(self, definition: Definition) -> Clock:  # noqa: ARG002 - the agent's is not read
        """Shows the time it was."""
        return self.playback.clock

    async def check_step(self, run: Run, ending: Ending | None) -> Ending | None:
        """Compare what has come. Wherever another process took the run up, what its hooks said then is said again."""
        if run.step_index is not None and run.state.step_count > run.step_index:
            self._compare_step(run, run.step_index)
        if ending is not None:
            return ending
        for plan in self._find_repeated_plans(run):
            refused = await ask_again(run, plan)
            if refused is not None:
                return refused
        return None

    def _compare_step(self, run: Run, step: int) -> None:
        """A step is settled: if it is what it was, what was spent is set to what it was."""
        playback, recording = self.playback, self.recording
        playback.compare(self)
        if playback.divergence is not None:
            playback.cancel(_NOT_THE_SAME)
            return
        then = recording.steps.get(step)
        if then is not None:
            _spend_as_then(run, then)
        if recording.is_cancelled and self.comparison.same >= len(self.comparison.then) - 1:
            playback.canceller(run)()

    def _find_repeated_plans(self, run: Run) -> list[Plan]:
        """What the hooks said to each process that took the run up here. Nobody is asked: it is one process now."""
        step = -1 if run.step_index is None else run.step_index
        point = HookPoint.EXECUTION_START
        again = self.part.rounds.again.get(step, ())
        return [Plan(point, make_recorded_hooks(self.recording, point, said)) for said in again]

    def _cancel_as_then(self, run: Run, step: int) -> None:
        """Cancel the run, if it was cancelled when this much of the step was done."""
        is_done = self.tries["settled", step] == self.recording.count_settled_calls(step)
        if is_done and self.recording.is_cancelled_in(step):
            self.playback.canceller(run)()

    # --- hooks --------------------------------------------------------------------------------------

    def plans(self, run: Run, plans: Plans) -> Plans:
        """All points but those around an action, which is not done; also those where only recorded hooks answer."""
        self.run = run
        asked = self.find_asked_points(run)
        kept = Plans(())
        for point in HookPoint:
            plan = plans.of(point.value)
            if point == HookPoint.AROUND_STEP:
                plan = self._plan_around_step()
            elif point.around:
                plan = None
            elif plan is None and point.value in asked:
                plan = _placeholder(point)
            elif (
                plan is not None
                and plan.answer_without_context is not None
                and point.value == "before_step"
            ):
                plan = with_judges(plan, plan.judges)
            setattr(kept, point.value, plan)
        if plans.limit_reached is not None:
            kept.limit_reached = self._limit_reached_then(kept.before_step)
        return kept

    def _plan_around_step(self) -> Plan | None:
        """A hook that changes what hooks changed around steps, and inside it those that failed or made no step."""
        steps, point = self.part.around_steps, HookPoint.AROUND_STEP
        if not steps:
            return None
        raised: dict[tuple[int, str], HookError] = {}
        for record in self.recording.errors:
            error = hook_error_of(record.error) if record.error is not None else None
            if error is not None and error.point == point:
                raised[record.step or 0, error.hook] = error
        failures: dict[str, dict[tuple[int, bool], HookError]] = defaultdict(dict)
        for step, (before, after) in steps.items():
            for ran in (*before, *after):
                if ran.verdict == "failed" and (step, ran.hook) in raised:
                    failures[ran.hook][step, ran.is_made] = raised[step, ran.hook]
        refused = {
            record.decided_by
            for record in self.recording.records
            if isinstance(record, StatusChanged) and record.reason == NOT_MADE
        }
        inside = [
            register(
                point, partial(self._end_as_then, failures[name], name in refused), {"name": name}
            )
            for name in sorted(refused.union(failures))
        ]
        return Plan(point, [register(point, self._around_step), *inside])

    async def _around_step(self, ctx: StepHookContext, call_next: Any) -> StepHookContext:
        """Change what the hooks around a step changed then, and make the step again if one of them did."""
        step = ctx.step_index
        while True:
            before, after = self.part.around_steps.get(step, ((), ()))
            ctx = _redo(await call_next(_redo(ctx, before)), after)
            made = self.recording.steps.get(step)
            outcome = None if made is None else made.step.outcome
            if (
                outcome is None
                or outcome.reason != MADE_AGAIN
                or step + 1 not in self.recording.begun
            ):
                return ctx
            step += 1

    async def _end_as_then(
        self,
        failures: Mapping[tuple[int, bool], HookError],
        has_refused: bool,
        ctx: StepHookContext,
        call_next: Any,
    ) -> StepHookContext:
        """What one hook did around a step: it failed before it or after it, did not make it, or nothing of this."""
        if (self.step, False) in failures:
            raise failures[self.step, False]
        if has_refused and self.step not in self.recording.begun:
            return ctx
        made: StepHookContext = await call_next(ctx)
        if (self.step, True) in failures:
            raise failures[self.step, True]
        return made

    def round_of(self, run: Run, ctx: AgentContext) -> tuple[Place, Round]:
        """What hooks said when they were asked about this, the next time that is on record."""
        call = getattr(ctx, "tool_call", None)
        place = place_of(ctx.point.value, run.step_index, call.id if call is not None else "")
        round_ = self.part.rounds.at(place, self.tries[self._drives, place])
        if _is_judged_anew(run, ctx) and any(ran.tier != "policy" for ran in round_):
            return place, ()  # no policy was asked then; what is on record was said of it later
        self.tries[self._drives, place] += 1
        # Hooks that passed together have one record, and the run read its clock once, after them.
        self._hook_times = [ran.at for ran in {ran.seq: ran for ran in round_}.values()]
        self._pass_time()
        return place, round_

    def _show_time_before(self, place: Place, at: float) -> None:
        """Show when something was done that was recorded after the hooks at a place: when they began, or `at`."""
        round_ = self.part.rounds.at(place, self.tries[self._drives, place])
        self.playback.clock.move_to(round_[0].at - round_[0].duration if round_ else at)

    def _pass_time(self) -> None:
        """Show the time at which the next hooks of a round were done, if there are any."""
        if self._hook_times:
            self.playback.clock.move_to(self._hook_times.pop(0))

    def who_answers(
        self, run: Run, plan: Plan, place: Place, round_: Round, keeps: Keeps = "none"
    ) -> PartialPlan:
        """Who is asked of the hooks of now, and who says what is on record.

        `keeps` says which hooks on record stay, and say what they said: none, the run's own, or all.
        """
        recording, point = self.recording, plan.point
        plan = self.agents.without_external(recording, plan, round_)
        if keeps == "all":
            then = Plan(point, make_recorded_hooks(recording, point, round_))
            return PartialPlan(with_judges(plan, (*then.judges, *plan.judges)))
        hidden = count_unseen(place[0], round_, is_kept=recording.has_inputs(self.part, place))
        if hidden and keeps == "own":
            then = Plan(point, make_recorded_hooks(recording, point, round_))
            return PartialPlan(then, tuple(entry.name for entry in plan.judges))
        if hidden:
            return ask_unhidden(recording, plan, round_, hidden)
        own = [ran for ran in round_ if keeps == "own" and self.is_own(run, ran, plan)]
        recorded = [Entry(made) for made in make_recorded_hooks(recording, point, own)]
        plan = with_recorded_limits(recording, plan, round_)
        asked = (each for each in plan.judges if each.registration.hook is not answer_nothing)
        return PartialPlan(with_judges(plan, (*asked, *recorded)))

    def is_own(self, run: Run, ran: HookRan, plan: Plan) -> bool:  # noqa: ARG002 - for other sources
        """Whether a recorded hook of a child is the child's own, and not one of those from above."""
        return is_own(ran, plan)

    def find_asked_points(self, run: Run) -> frozenset[str]:
        """The points where hooks are asked of which the run's agent has none."""
        raise NotImplementedError

    def _limit_reached_then(self, before_step: Plan | None) -> Reached:
        """Whether a limit is used up before calls: where one was then it still is, whatever others have used since."""
        own, spent = limit_reached_in_step(before_step, own_only=True), self.recording.spent_steps

        def reached(run: LiveRun) -> str:
            said = "" if own is None else own(run)
            return said or ("on record" if (run.step_index or 0) in spent else "")

        return reached

    def decide(
        self, run: Run, error: BaseException, error_class: ErrorClass, failures: int, call_id: str
    ) -> ErrorDecision:
        """What the error policy says. Without the agent: what it said of the same error, or else of the next one."""
        if self.has_agent:
            return super().decide(run, error, error_class, failures, call_id)
        left = self._decisions[run.step_index, call_id, error_class]
        if not left:
            return ErrorDecision(ErrorAction.STOP)
        info = ErrorInfo.from_exception(error, error_class)
        record = next((each for each in left if each.error == info), left[0])
        left.remove(record)
        decision = ErrorDecision(ErrorAction(record.action), record.delay, record.reason)
        if decision.action is not ErrorAction.RESCUE:
            return decision
        step = run.step_index or 0
        call, turn = self.recording.call(step, call_id), self.recording.turn(step)
        rescued = call.result if call_id else turn and turn.response
        return msgspec.structs.replace(decision, value=rescued)

    # --- models -------------------------------------------------------------------------------------

    async def infer(self, run: Run, request: InferenceRequest) -> InferenceResponse:  # noqa: ARG002 - it is compared by its record
        """The answer on record, after the failures on record."""
        playback, recording = self.playback, self.recording
        step = run.step_index or 0
        then = recording.turn(step)
        is_over = recording.is_finished and not recording.is_cancelled
        if then is None or not then.is_asked:
            if is_over:
                await playback.stop_at_difference(self, "the model is asked")
            await playback.stop_here(run)
        failures = then.errors if then.failed is None else [*then.errors, then.failed]
        while (number := self.tries["turn", step]) < len(failures):
            self.tries["turn", step] += 1
            failed = failures[number]
            assert failed.error is not None
            error = restore_exception(failed.error)
            if failed.action != "fallback":
                raise error
            run.record_fallback(error, failed.reason)
        response = then.response
        if then.answer is not None and response is not None and not then.answer.supplied:
            self._show_time_before(place_of("after_inference", step, ""), then.answer.at)
            self._cancel_as_then(run, step)
            run.step.withdraw(then.answer.withdrawn)
            return response
        if then.is_lost:
            return InferenceResponse()
        if is_over:
            await playback.stop_at_difference(self, "the model is asked again")
        return await playback.stop_here(run)

    async def consultation(self, run: Run, name: str, digest: str) -> InferenceResponse | None:
        """What the model answered a hook then: to the same, or else the next thing it was asked."""
        left = self._consultations.get((run.step_index, name))
        if left:
            known = next((each for each in left if each.digest == digest), left[0])
            left.remove(known)
            run.charge(known.response.usage)
            return known.response
        if not self.recording.is_finished:
            await self.playback.stop_here(run)
        raise ModelError(f"the answer of a model to '{name}' is not on record here.")

    # --- tools --------------------------------------------------------------------------------------

    def use(self, run: Run, current: CallInProgress, use: UseTool) -> Awaitable[Any]:  # noqa: ARG002 - the tool is not used
        """What came of a call. Its children are played, and its questions are asked again."""
        return use_in_context(run, current, partial(self._use, run))

    async def _use(self, run: Run, context: ToolContext) -> Any:
        step, call = run.step_index or 0, context.call
        then = self.recording.call(step, call.id)
        if then.intent is None:
            return ToolResult(status=ResultStatus.IN_DOUBT, reason=_UNKNOWN)
        for question in then.questions:
            asked = ToolCall(call.id, question.tool_call.name, question.tool_call.args)
            await context.ask(asked, question.reason, asked_by=question.asked_by)
        started: set[str] = set()
        for together in then.children:  # a call that is tried again starts the same ones
            await self._start(
                context, [child for child in together if child.child_run_id not in started]
            )
            started.update(child.child_run_id for child in together)
        return await self._result(run, step, call.id)

    async def _result(self, run: Run, step: int, call_id: str) -> Any:
        """The result of a call, or what it failed of at this attempt."""
        then, number = self.recording.call(step, call_id), self.number("use", step, call_id)
        result, intent = then.result, then.intent
        if result is None or result.status is ResultStatus.CANCELLED:
            await self._wait_for_others(step)
            await self.playback.stop_here(run)
        self._show_time_before(place_of("after_tool_use", step, call_id), then.at)
        self.tries["settled", step] += 1
        self._cancel_as_then(run, step)
        errors = then.errors
        if intent is not None and intent.effect == "once":
            errors = errors[-1:]
        if number < len(errors) or (errors and errors[-1].action != "retry"):
            recorded = errors[min(number, len(errors) - 1)].error
            assert recorded is not None
            raise restore_exception(self.recording.in_full(recorded, step, then))
        return result

    async def _wait_for_others(self, step: int) -> None:
        """Wait for the calls of a step that had their result before it was cancelled."""
        others = self.recording.count_settled_calls(step)
        while self.tries["settled", step] < others:  # noqa: ASYNC110 - they are on their way already
            await asyncio.sleep(0)

    def was_in_doubt(self, run: Run, call_id: str) -> bool:
        """Whether it had started then: whoever refuses it now cannot say that it did not run, either."""
        call = self.recording.call(run.step_index or 0, call_id)
        if call.intent is None or call.result is None:
            return False
        return call.result.status is ResultStatus.IN_DOUBT

    # --- people -------------------------------------------------------------------------------------

    def resume_answer(self, run: Run, question: str) -> Decision | None:  # noqa: ARG002 - it is on record
        """The answer that was given to `resume`, in this part of the run."""
        return self.part.resume_answers.get(question)

    def approve(self, run: Run, approval: PendingApproval) -> Any:
        """What the approver said, in this part of the run."""
        if not any(
            self.playback.source(each.run_id).part.approved for each in run.self_and_parents()
        ):
            return NOBODY
        answers = self.part.approved.get(approval.id, [])
        number = self.number("approver", approval.id)
        if number >= len(answers):
            raise UsageError("no answer to this is on record.")
        return answers[number]

    # --- child runs ---------------------------------------------------------------------------------

    async def for_child(self, run: Run, child_id: str) -> AnswerSource:
        """The source of a child run that is played too."""
        playback = self.playback
        source = playback.source(child_id)
        part = source.next_part()
        if part is None:
            if not self.recording.has_end_of(child_id):
                await playback.stop_here(run)  # its hooks may have sent it back then, too
            playback.differ(source, instead="it is sent back to work")
            await _leave(partial(playback.cancel, _NOT_THE_SAME))
        playback.clock.move_to(_start_of(part).at)
        return source

    def child_key(self, run: Run, asked: str) -> str:
        """The key of the child that a hook started then to ask this."""
        number = self.number("child", run.step_index, asked)
        then = self.recording.hook_children.get((run.step_index or 0, asked), ())
        return then[number] if number < len(then) else f"{asked}/{number + 1}"

    def child_definition(
        self,
        run: Run,  # noqa: ARG002 - the interface's
        definition: Definition,  # noqa: ARG002 - its tools would be used for real
        child_id: str,
        name: str,
    ) -> Definition:
        """What drives a child run that a hook started then."""
        found = self._child(child_id, name)
        if found is None:
            raise UsageError(f"the child run '{child_id}' that a hook starts is not on record.")
        return found

    def _child(self, child_id: str, name: str) -> Definition | None:
        """What drives a child run; None when it is not in the journal."""
        playback = self.playback
        try:
            return playback.source(child_id).definition(name)
        except UnknownRunError:
            playback.missing.append(child_id)
            return None

    async def _start(self, context: ToolContext, children: list[ChildStarted]) -> None:
        """Start children that were there at the same time. Whether they waited is theirs to say."""
        known = [(child, self._child(child.child_run_id, child.name)) for child in children]
        if any(definition is None for _, definition in known):
            return  # they are numbered in the order they start in: without one, no other has its id
        started = [
            context.spawn(Agent(definition), self._prompt_of(child), name=child.name)
            for child, definition in known
            if definition is not None
        ]
        for outcome in await asyncio.gather(*started, return_exceptions=True):
            if isinstance(outcome, ChildPaused | HookError | asyncio.CancelledError):
                raise outcome
            if isinstance(outcome, ToolError):  # no such child was kept from starting then
                await self.playback.stop_at_difference(self, str(outcome))

    def _prompt_of(self, child: ChildStarted) -> str:
        prompt = self.playback.source(child.child_run_id).recording.parts[0].prompt
        return prompt.text if prompt is not None else ""


def _most_objections(recording: RecordedRun, usual: int) -> int:
    """How many objections ended the run, if they did."""
    ending = recording.status
    if ending is not None and ending.stop_reason is StopReason.OBJECTION_LIMIT:
        return ending.counters.objections
    return max(usual, 1 + (ending.counters.objections if ending is not None else 0))


def is_in_doubt(ctx: AgentContext) -> bool:
    """Whether it is about a result that is none: only observers were shown that nobody knows what a call did."""
    execution = getattr(ctx, "execution", None)
    return execution is not None and execution.status is ResultStatus.IN_DOUBT


def _make_recorded_policy(recording: RecordedRun, like: ErrorPolicy) -> ErrorPolicy:
    """A policy for which blocked calls are errors if they were then. What it decides is on record."""
    actions: dict[ErrorClass, ErrorAction] = dict(like.actions)
    actions.pop(ErrorClass.BLOCKED, None)
    errors = (failed.error for failed in recording.errors)
    if any(info is not None and info.error_class == ErrorClass.BLOCKED for info in errors):
        actions[ErrorClass.BLOCKED] = ErrorAction.IGNORE
    return msgspec.structs.replace(like, actions=actions)


def _redo(ctx: StepHookContext, said: Sequence[HookRan]) -> StepHookContext:
    for ran in said:
        ctx = redo_changes(ctx, ran.changes)
    return ctx


def _placeholder(point: Point[Any]) -> Plan:
    """A plan that makes the loop ask; who answers is for the source to say."""
    tiers = (Tier.HOOK, Tier.POLICY)
    return Plan(
        point,
        [Registration(point=point, hook=answer_nothing, name="", tier=tier) for tier in tiers],
    )


def _start_of(part: RunPart) -> RunStarted:
    assert part.started is not None  # a recording begins with the start of its run
    return part.started


def _prompt(part: RunPart) -> UserMessage | None:
    prompt = part.prompt
    if prompt is not None:
        return UserMessage(prompt.text, "", prompt.attachments)
    # One that was refused is not on record; that it was refused is.
    was_refused = HookPoint.PROMPT_SUBMIT.value in part.rounds.points()
    return UserMessage("") if was_refused else None


def _session(state: AgentState, part: RunPart, recording: RecordedRun) -> SessionPart:
    """Whether a session began and ends with this run, as far as the record says."""
    started = _start_of(part)
    asked = HookPoint.SESSION_START.value in part.rounds.points()
    is_first = part is recording.parts[0] and not started.resumed
    return SessionPart(
        starts=is_first and (asked or not (started.initial or started.continues)),
        ends=state.session_id == state.run_id,
        source="resume" if state.messages else "startup",
    )


def _spend_as_then(run: Run, then: StepFinished) -> None:
    """What tools, models and hooks used that are not asked now, was used all the same."""
    now, counters = run.state.counters, then.counters
    used = counters.usage - now.usage
    more = (
        *(used.input_tokens, used.output_tokens, used.cost or 0),
        *(counters.steps - now.steps, counters.tool_calls - now.tool_calls),
    )
    if min(more) >= 0 < max(more):
        run.count_child(counters, now)
    run.ledger.set_seconds(counters.active_seconds, run.now)


def _is_judged_anew(run: Run, ctx: AgentContext) -> bool:
    """Whether only policies are asked, about a call that was judged before the run paused."""
    if not isinstance(ctx, ToolHookContext) or ctx.point is not HookPoint.BEFORE_TOOL_USE:
        return False
    current = next(each for each in run.step.calls if each.call.id == ctx.tool_call.id)
    return current.stage is not None and not current.is_changed
