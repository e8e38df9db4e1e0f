"""Playing a recorded run: the one loop, with a source whose models, tools, people, children and time are the record.

What the hooks say is for `ReplaySource` and `BacktestSource`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import msgspec

from hookline.agent.children.host import ChildWaits, use_in_context
from hookline.agent.in_progress import CallInProgress
from hookline.agent.loop.drive import drive
from hookline.agent.loop.start import ask_again
from hookline.agent.records.exceptions import recorded_exception
from hookline.agent.records.index import RecordedCall, RunPart
from hookline.agent.result import RunResult
from hookline.agent.run import Run, RunSetup, SessionPart
from hookline.agent.source import NOBODY, AnswerSource, UseTool
from hookline.definition import CancelSource, Clock, Definition, Plans
from hookline.definition.guards import Reached, limit_reached_in_step
from hookline.errors import HookError, ModelError, ToolError, UnknownRunError, UsageError
from hookline.flow import ErrorClass, ErrorDecision
from hookline.hooks import Plan, Point, Registration, Tier
from hookline.journal import ChildStarted, Record, RunFinished, RunStarted, StepFinished
from hookline.lifecycle import AgentContext, HookPoint
from hookline.playback.progress import PlaybackLog, Progress, RecordedClock
from hookline.playback.recorded_hooks import plan_of, recorded_hooks, with_judges
from hookline.playback.recorded_tools import recorded_tools
from hookline.playback.recording import Recording
from hookline.playback.runs import Read
from hookline.state import (
    AgentState,
    Decision,
    Ending,
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

_UNKNOWN = "it did not run when this was recorded, so what it would have given is not known"
_LOST = "it is asked what came of a call, and that is missing from the record"
_NOT_THE_SAME = "it is no longer the same run"
_AROUND = (HookPoint.AROUND_INFERENCE.value, HookPoint.AROUND_TOOL_USE.value)


class Parting(msgspec.Struct, frozen=True):
    """Where it stopped being the same run."""

    progress: Progress
    at: int
    """The number of the fact."""
    instead: str = ""
    """What came now, where that is no fact: the model was asked and has no answer on record."""


class Playback:
    """One recorded run with its children, being played."""

    def __init__(self, read: Read, source: Callable[[Playback, Progress], PlaybackSource]) -> None:
        self._read = read
        self._source = source
        self.clock = RecordedClock()
        self.played: dict[str, Progress] = {}
        self.parting: Parting | None = None
        self.missing: list[str] = []
        """Child runs that are not in the journal."""
        self.root: Run | None = None
        self.is_whole = True
        """The record says how everything continued."""

    def progress(self, run_id: str) -> Progress:
        """A run that is part of this."""
        if run_id not in self.played:
            records = tuple(self._read(run_id))
            above = self.played.get(_run_above(records))
            recording = Recording(records, above.recording if above is not None else None)
            self.played[run_id] = Progress(recording, self.clock)
        return self.played[run_id]

    def source(self, progress: Progress) -> PlaybackSource:
        """What a run takes its answers from."""
        return self._source(self, progress)

    def log_of(self, run_id: str) -> PlaybackLog:
        """Where a run that is played is recorded."""
        return PlaybackLog(partial(self._hear, self.progress(run_id)), self.log_of)

    def _hear(self, progress: Progress, record: Record) -> None:
        progress.hear(record)
        if isinstance(record, RunFinished):
            self.compare(progress)

    async def play(self, run_id: str) -> RunResult:
        """Play a run from its beginning to where its record ends, pauses included."""
        progress = self.progress(run_id)
        recording = progress.recording
        self.clock.time = recording.records[0].at
        state, log = recording.first_state(), self.log_of(run_id)
        while True:
            part = progress.next_part()
            assert part is not None
            self.clock.move_to(_started(part).at)
            source = self.source(progress)
            session = _session(state, part, recording)
            setup = RunSetup.of(source.definition(None), drive, session=session)
            self.root = run = Run(setup, state, log, source)
            result = await drive(run, _prompt(part))
            is_last = part is recording.parts[-1]
            if self.parting or is_last or result.status is not RunStatus.PAUSED:
                self.is_whole = self.is_whole and recording.is_finished
                self._compare_ends()
                return result
            state = result.state

    # --- comparing --------------------------------------------------------------------------------

    def compare(self, progress: Progress) -> None:
        """Look for a difference in what has come so far."""
        at = progress.first_difference() if self.is_whole else None
        if at is not None:
            self.differ(Parting(progress, at))

    def _compare_ends(self) -> None:
        """Everything was played: what is on record and has not come, is missing."""
        for progress in self.played.values():
            if self.is_whole and progress.is_cut_short:
                self.differ(Parting(progress, progress.compared))

    def differ(self, parting: Parting) -> None:
        """It is no longer the same run; only the first difference counts."""
        self.parting = self.parting or parting

    # --- ending as it ended -----------------------------------------------------------------------

    def cancel(self, why: str) -> None:
        """Cancel the whole run."""
        assert self.root is not None
        self.root.token.cancel(why)

    def cancelling(self, run: Run) -> Callable[[], object]:
        """What cancels, of a run and those above it, the topmost that was cancelled, for the reason it had."""
        found, why, out_of_time = run, "", False
        above: Run | None = run
        while above is not None:
            recording = self.progress(above.run_id).recording
            if recording.is_cancelled:
                found, why = above, recording.status.reason if recording.status else ""
                out_of_time = recording.is_out_of_time
            above = above.parent
        return partial(found.token.cancel, why, out_of_time=out_of_time)

    async def stop_here(self, run: Run) -> NoReturn:
        """Nothing more is on record: the run was cancelled here, or its process died here."""
        progress = self.progress(run.run_id)
        recording = progress.recording
        if recording.is_cancelled:
            await _leave(self.cancelling(run))
        if recording.is_finished:
            self.differ(Parting(progress, len(progress.now), _LOST))
        self.is_whole = self.is_whole and recording.is_finished
        await _leave(partial(self.cancel, "the record ends here"))

    async def part_ways(self, progress: Progress, instead: str) -> NoReturn:
        """Something is asked for that was not asked for then."""
        if not progress.recording.is_finished:
            assert self.root is not None
            await self.stop_here(self.root)
        self.differ(Parting(progress, len(progress.now), instead))
        await _leave(partial(self.cancel, _NOT_THE_SAME))


async def _leave(cancel: Callable[[], object]) -> NoReturn:
    """Cancel a run from inside one of its actions, as if from outside, and wait for that to arrive."""
    asyncio.get_running_loop().call_soon(cancel)
    while True:
        await asyncio.Event().wait()


class PlaybackSource(AnswerSource[Run]):
    """The answers on record of one run, in the order of its keys. Nothing outside is touched."""

    is_replay = True
    runs_tools = False
    has_agent = True
    """The agent of the run is there; otherwise only what is on record of it."""

    def __init__(self, playback: Playback, progress: Progress) -> None:
        self.playback = playback
        self.progress = progress
        self.recording = progress.recording

    def definition(self, name: str | None) -> Definition:
        """What drives the run. For a child run `name` is its name."""
        raise NotImplementedError

    # --- the record and the time --------------------------------------------------------------------

    def clock(self, definition: Definition) -> Clock:  # noqa: ARG002 - the agent's is not read
        """Shows the time it was."""
        return self.playback.clock

    def cancel_sources(self, definition: Definition) -> Sequence[CancelSource]:  # noqa: ARG002 - as above
        """Nobody from outside."""
        return ()

    async def step_over(self, run: Run, ending: Ending | None) -> Ending | None:
        """Compare what has come. Wherever another process took the run up, what its hooks said then is said again."""
        if run.step_index is not None and run.state.step_count > run.step_index:
            self._compare_step(run, run.step_index)
        if ending is not None:
            return ending
        for plan in self._taken_up(run):
            refused = await ask_again(run, plan)
            if refused is not None:
                return refused
        return None

    def _compare_step(self, run: Run, step: int) -> None:
        """A step is settled: if it is what it was, what was spent is set to what it was."""
        playback, progress, recording = self.playback, self.progress, self.recording
        playback.compare(progress)
        if playback.parting is not None:
            playback.cancel(_NOT_THE_SAME)
            return
        then = recording.steps.get(step)
        if then is not None:
            _spend_as_then(run, then)
        if recording.is_cancelled and progress.compared >= len(progress.then) - 1:
            playback.cancelling(run)()

    def _taken_up(self, run: Run) -> list[Plan]:
        """What the hooks said to each process that took the run up here. Nobody is asked: it is one process now."""
        step = -1 if run.step_index is None else run.step_index
        point = HookPoint.EXECUTION_START
        again = self.progress.part.rounds.again.get(step, ())
        return [plan_of(point, recorded_hooks(self.recording, point, said)) for said in again]

    def _cancel_as_then(self, run: Run, step: int) -> None:
        """Cancel the run, if it was cancelled when this much of the step was done."""
        is_done = self.progress.tries["settled", step] == self.recording.settled_calls(step)
        if is_done and self.recording.is_cancelled_in(step):
            self.playback.cancelling(run)()

    # --- hooks --------------------------------------------------------------------------------------

    def plans(self, run: Run, plans: Plans) -> Plans:
        """All points but those around an action, which is not done; also those where only recorded hooks answer."""
        self.progress.run = run
        asked = self.asked_points(run)
        kept = Plans(())
        for point in HookPoint:
            plan = plans.of(point.value)
            if point.value in _AROUND:
                plan = None
            elif plan is None and point.value in asked:
                plan = _placeholder(point)
            elif plan is not None and plan.brief is not None and point.value == "before_step":
                plan = with_judges(plan, plan.judges)
            setattr(kept, point.value, plan)
        if plans.limit_reached is not None:
            kept.limit_reached = self._limit_reached_then(kept.before_step)
        return kept

    def asked_points(self, run: Run) -> frozenset[str]:
        """The points where hooks are asked of which the run's agent has none."""
        raise NotImplementedError

    def _limit_reached_then(self, before_step: Plan | None) -> Reached:
        """Whether limits leave room for calls: not where they did not then, whatever others have used since."""
        own, spent = limit_reached_in_step(before_step, own_only=True), self.recording.spent_steps

        def reached(run: Run) -> str:
            said = "" if own is None else own(run)
            return said or ("on record" if (run.step_index or 0) in spent else "")

        return reached

    def decide(
        self, run: Run, error_class: ErrorClass, failures: int, errors: int, error: BaseException
    ) -> ErrorDecision:
        """What the error policy says; where the agent is not there, what it said."""
        if self.has_agent:
            return super().decide(run, error_class, failures, errors, error)
        return self.progress.decide(error_class)

    # --- models -------------------------------------------------------------------------------------

    async def infer(self, run: Run, request: InferenceRequest) -> InferenceResponse:  # noqa: ARG002 - it is compared by its record
        """The answer on record, after the failures on record."""
        playback, progress, recording = self.playback, self.progress, self.recording
        step = run.step_index or 0
        then = recording.turn(step)
        is_over = recording.is_finished and not recording.is_cancelled
        if then is None or not then.is_asked:
            if is_over:
                await playback.part_ways(progress, "the model is asked")
            await playback.stop_here(run)
        failures = then.errors if then.failed is None else [*then.errors, then.failed]
        while (number := progress.tries["turn", step]) < len(failures):
            progress.tries["turn", step] += 1
            failed = failures[number]
            assert failed.error is not None
            error = recorded_exception(failed.error)
            if failed.action != "fallback":
                raise error
            run.record_fallback(error, failed.reason)
        response = then.response
        if then.answer is not None and response is not None and not then.answer.supplied:
            playback.clock.move_to(then.answer.at)
            self._cancel_as_then(run, step)
            return response
        if then.is_lost:
            return InferenceResponse()
        if is_over:
            await playback.part_ways(progress, "the model is asked again")
        return await playback.stop_here(run)

    async def consultation(self, run: Run, name: str, digest: str) -> InferenceResponse | None:
        """What the model answered a hook then: to the same, or else the next thing it was asked."""
        key = (run.step_index, name)
        left = self.progress.consultations.get(key)
        if left is None:
            left = list(self.recording.consultations.get(key, ()))
            self.progress.consultations[key] = left
        if left:
            known = next((each for each in left if each.digest == digest), left[0])
            left.remove(known)
            run.charge(known.response.usage)
            return known.response
        if not self.recording.is_finished:
            await self.playback.stop_here(run)
        raise ModelError(f"what a model would tell '{name}' here is not on record.")

    # --- tools --------------------------------------------------------------------------------------

    def use(self, run: Run, current: CallInProgress, use: UseTool[Run]) -> Awaitable[Any]:  # noqa: ARG002 - the tool is not used
        """What came of a call. Its children are played, and its questions are asked again."""
        current.exception = None
        return use_in_context(run, current, partial(self._use, run))

    async def _use(self, run: Run, context: ToolContext) -> Any:
        step, call = run.step_index or 0, context.call
        then = self.recording.call(step, call.id)
        if then.intent is None:
            return ToolResult(None, None, ResultStatus.IN_DOUBT, reason=_UNKNOWN)
        for question in then.questions:
            asked = ToolCall(call.id, question.tool_call.name, question.tool_call.args)
            await context.ask(asked, question.reason, asked_by=question.asked_by)
        for together in then.children:
            await self._start(context, together)
        number = self.progress.tries["use", step, call.id]
        self.progress.tries["use", step, call.id] += 1
        return await self._result(run, step, then, number)

    async def _result(self, run: Run, step: int, then: RecordedCall, number: int) -> Any:
        """The result of a call, or what it failed of at this attempt."""
        result, intent = then.result, then.intent
        if result is None or result.status is ResultStatus.CANCELLED:
            await self._others_settled(step)
            await self.playback.stop_here(run)
        self.playback.clock.move_to(then.at)
        self.progress.tries["settled", step] += 1
        self._cancel_as_then(run, step)
        errors = then.errors
        if intent is not None and intent.effect == "once":
            errors = errors[-1:]
        if number < len(errors) or (errors and errors[-1].action != "retry"):
            recorded = errors[min(number, len(errors) - 1)].error
            assert recorded is not None
            raise recorded_exception(self.recording.in_full(recorded, step, then))
        return result

    async def _others_settled(self, step: int) -> None:
        """Wait for the calls of a step that had their result before it was cancelled."""
        others = self.recording.settled_calls(step)
        while self.progress.tries["settled", step] < others:  # noqa: ASYNC110 - they are on their way already
            await asyncio.sleep(0)

    def was_in_doubt(self, run: Run, call_id: str) -> bool:
        """Whether it had started then: whoever refuses it now cannot say that it did not run, either."""
        call = self.recording.call(run.step_index or 0, call_id)
        if call.intent is None or call.result is None:
            return False
        return call.result.status is ResultStatus.IN_DOUBT

    # --- people -------------------------------------------------------------------------------------

    async def handed_over(self, run: Run, question: str) -> Decision | None:  # noqa: ARG002 - it is on record
        """The answer that was given to `resume`, in this part of the run."""
        return self.progress.part.handed_over.get(question)

    def approve(self, run: Run, approval: PendingApproval) -> Any:
        """What the approver said, in this part of the run."""
        above: Run | None = run
        while above is not None:
            if self.playback.progress(above.run_id).part.approved:
                return self.progress.approve(approval)
            above = above.parent
        return NOBODY

    # --- child runs ---------------------------------------------------------------------------------

    async def for_child(self, run: Run, child_id: str) -> AnswerSource[Run]:
        """The source of a child run that is played too."""
        playback = self.playback
        progress = playback.progress(child_id)
        part = progress.next_part()
        if part is None:
            if not self.recording.has_end_of(child_id):
                await playback.stop_here(run)  # its hooks may have sent it back then, too
            playback.differ(Parting(progress, len(progress.now), "it is sent back to work"))
            await _leave(partial(playback.cancel, _NOT_THE_SAME))
        playback.clock.move_to(_started(part).at)
        return playback.source(progress)

    def child_key(self, run: Run, asked: str) -> str:
        """The key of the child that a hook started then to ask this."""
        key = ("child", run.step_index, asked)
        number = self.progress.tries[key]
        self.progress.tries[key] += 1
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
            return playback.source(playback.progress(child_id)).definition(name)
        except UnknownRunError:
            playback.missing.append(child_id)
            return None

    async def _start(self, context: ToolContext, children: list[ChildStarted]) -> None:
        """Start children that were there at the same time. Whether they waited is theirs to say."""
        known = [(child, self._child(child.child_run_id, child.name)) for child in children]
        if any(definition is None for _, definition in known):
            return  # they are numbered in the order they start in: without one, no other has its id
        started = [
            context.spawn(_Child(definition), self._prompt_of(child), name=child.name)
            for child, definition in known
            if definition is not None
        ]
        for outcome in await asyncio.gather(*started, return_exceptions=True):
            if isinstance(outcome, ChildWaits | HookError | asyncio.CancelledError):
                raise outcome
            if isinstance(outcome, ToolError):  # no such child was kept from starting then
                await self.playback.part_ways(self.progress, str(outcome))

    def _prompt_of(self, child: ChildStarted) -> str:
        prompt = self.playback.progress(child.child_run_id).recording.parts[0].prompt
        return prompt.text if prompt is not None else ""


class _Child(msgspec.Struct, frozen=True):
    """An agent, as far as starting it as a child is concerned."""

    definition: Definition


def recorded_definition(progress: Progress, like: Definition) -> Definition:
    """An agent of which only the record is left: no hooks of its own, and any tool."""
    if progress.run is None:
        progress.compare(in_full=False)
    return msgspec.structs.replace(
        like,
        agent_id=progress.recording.started.agent_id,
        registrations=(),
        plans=Plans(()),
        toolbox=recorded_tools(progress, like.toolbox),
        expire_after=None,
        max_objections=_most_objections(progress, like.max_objections),
    )


def _most_objections(progress: Progress, usual: int) -> int:
    """How many objections ended the run, if they did."""
    ending = progress.recording.status
    if ending is not None and ending.stop_reason is StopReason.OBJECTION_LIMIT:
        return ending.counters.objections
    return max(usual, 1 + (ending.counters.objections if ending is not None else 0))


def is_in_doubt(ctx: AgentContext) -> bool:
    """Whether it is about a result that is none: only observers were shown that nobody knows what a call did."""
    execution = getattr(ctx, "execution", None)
    return execution is not None and execution.status is ResultStatus.IN_DOUBT


def _placeholder(point: Point[Any]) -> Plan:
    """A plan that makes the loop ask; who answers is for the source to say."""
    tiers = (Tier.HOOK, Tier.POLICY)
    return Plan(
        point, [Registration(point=point, hook=_pass, name="", tier=tier) for tier in tiers]
    )


def is_placeholder(registration: Registration) -> bool:
    """Whether this is not a hook."""
    return registration.hook is _pass


def _pass(ctx: AgentContext) -> None:
    """Nobody's opinion."""


def _run_above(records: Sequence[Record]) -> str:
    """The run that a run is a child of, if it is one."""
    started = records[0] if records else None
    return (started.parent_run_id or "") if isinstance(started, RunStarted) else ""


def _started(part: RunPart) -> RunStarted:
    assert part.started is not None  # a recording begins with the start of its run
    return part.started


def _prompt(part: RunPart) -> UserMessage | None:
    prompt = part.prompt
    if prompt is not None:
        return UserMessage(prompt.text, "", prompt.attachments)
    # One that was refused is not on record; that it was refused is.
    was_refused = HookPoint.PROMPT_SUBMIT.value in part.rounds.points()
    return UserMessage("") if was_refused else None


def _session(state: AgentState, part: RunPart, recording: Recording) -> SessionPart:
    """Whether a session began and ends with this run, as far as the record says."""
    started = _started(part)
    asked = HookPoint.SESSION_START.value in part.rounds.points()
    is_first = part is recording.parts[0] and not started.resumed
    return SessionPart(
        starts=is_first and (asked or started.initial is None),
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
        run.ledger.carry(counters, now)
        run.uncounted.add_child(counters, now)
    run.ledger.started = run.now - (counters.active_seconds - run.ledger.seconds_before)
