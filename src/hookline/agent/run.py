"""One run in progress: its state as it changes, its record as it grows, and the source of what comes from outside.

Hooks, models, tools, people, child runs, decisions about errors and the time all pass `AnswerSource`. The loop never
tests which class implements it:

| implementation | what it gives | used by |
|---|---|---|
| `AnswerSource` | what happens now; the loop records it | `run`, `stream`, `iterate` |
| `ResumeSource` | what is on record of the step that was not settled, then what happens now | `resume` |
| `ReplaySource` | the record, but hooks are asked; the first difference ends it | `replay` |
| `BacktestSource` | the record; other hooks are asked about each decision, to the end | `backtest` |

What is on record is found by key: step, point or kind, call id, name, attempt. The same work has the same key in every
process. `known` is the index of what is on record of the step that continues: the run takes it from there instead of
doing it again. Policies still judge a call that has not started.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, TypeAlias, TypeVar

import msgspec

from hookline.agent.cancel import CancelToken
from hookline.agent.checks import check_changed_call, check_changes
from hookline.agent.in_progress import CallInProgress, StepInProgress
from hookline.agent.inbox import RunInbox
from hookline.agent.redaction import (
    ORIGINALS,
    chain_redactors,
    context_without,
    result_without,
)
from hookline.agent.result import RunResult
from hookline.agent.run_index import RunIndex
from hookline.definition import Clock, Definition
from hookline.definition.definition import Plans
from hookline.drivers.base import awaitable
from hookline.errors import ModelError, RunHandedOverError, where_raised
from hookline.flow import ErrorClass, ErrorDecision, Ledger, classify
from hookline.hooks import (
    Entry,
    HookAnswer,
    HookNames,
    Kind,
    Plan,
    Point,
    Registration,
    Result,
    Tier,
    Verdict,
    run_hooks,
)
from hookline.hooks.run import observe
from hookline.journal import (
    CallDelta,
    ChildStarted,
    Durable,
    EarlierRun,
    ErrorRaised,
    Evaluated,
    HookRan,
    HooksPassed,
    ReasoningDelta,
    Record,
    RunStarted,
    TextDelta,
)
from hookline.journal.durable import Redact, RedactContent
from hookline.journal.record import counted_records, start_of
from hookline.lifecycle import AgentContext
from hookline.lifecycle.contexts import RunServices
from hookline.lifecycle.recorded_changes import describe_changes
from hookline.state import (
    EMPTY,
    NO_USAGE,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    Counters,
    Decision,
    Ending,
    ErrorInfo,
    InferenceRequest,
    InferenceResponse,
    PendingApproval,
    StopReason,
    ToolCall,
    Usage,
    UserMessage,
    thaw,
)

Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta
Drive: TypeAlias = Callable[["Run", str | UserMessage | None], Awaitable[RunResult]]
"""The loop: drives a run to its end. A run carries it so that children go through the same one."""
C = TypeVar("C", bound=AgentContext)
_STOP = Kind.STOP


_WITH_SOURCE = (Kind.ALLOW, Kind.ASK)
"""Answers whose record names the capability of the hook: an allow does not lift an ask of the same capability."""
_NOT_IN_RESULT = ("error", "agent_failed", "execution_end", "session_end")
"""Where a hook may fail without a word of it in the result: the run has another error, or is over."""
_logger = logging.getLogger("hookline.hooks")


class SessionPart(msgspec.Struct, frozen=True):
    """What a run has to do with its session."""

    starts: bool = False
    """session_start is asked, because this run is the first; `source` says why."""
    ends: bool = False
    """session_end is asked, because the session is over with this run."""
    source: str = ""


class UncountedUsage:
    """What a run has used since that was last put into its state. Each step writes it: a struct is slower to write."""

    __slots__ = ("calls", "child_steps", "usage")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """It is all in the state."""
        self.usage = NO_USAGE
        self.calls = self.child_steps = 0

    def add_usage(self, usage: Usage) -> None:
        """A model was asked."""
        self.usage = usage if self.usage is NO_USAGE else self.usage + usage

    def add_call(self) -> None:
        """A call is about to run."""
        self.calls += 1

    def add_child(self, now: Counters, before: Counters) -> None:
        """A child has used this, and had used that when it was last counted."""
        self.add_usage(now.usage - before.usage)
        self.child_steps += now.steps - before.steps
        self.calls += now.tool_calls - before.tool_calls


class Continuation(msgspec.Struct, frozen=True):
    """The recorded run whose conversation a run continues, and what was changed in its state since."""

    earlier: EarlierRun
    changes: tuple[Mapping[str, Any], ...] = ()


class RunSetup(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a run was given. Nothing in it changes while the run is driven."""

    definition: Definition
    drive: Drive
    parent: Run | None
    inherited: tuple[Registration, ...]
    """Hooks of the runs above, which hold here too."""
    session: SessionPart
    continues: Continuation | None
    """In the same journal; None for a run that begins with a state of its own."""
    answers: Mapping[str, Decision]
    """What was given to `resume`, by question; also for the questions of children."""
    redact: Redact | None
    """Takes secrets out of whatever hooks say. A child is held to what its parent is."""
    redact_content: RedactContent | None
    """Takes secrets out of arguments and progress messages."""

    @staticmethod
    def of(
        definition: Definition,
        drive: Drive,
        *,
        parent: Run | None = None,
        inherited: tuple[Registration, ...] = (),
        session: SessionPart | None = None,
        continues: Continuation | None = None,
        answers: Mapping[str, Decision] = EMPTY,
    ) -> RunSetup:
        """The setup of a run of this agent."""
        redact, content = definition.redact, definition.redact_content
        if parent is not None:
            answers = parent.setup.answers
            redact = chain_redactors(redact, parent.setup.redact)
            content = chain_redactors(content, parent.setup.redact_content)
        return RunSetup(
            definition=definition,
            drive=drive,
            parent=parent,
            inherited=inherited,
            session=session or SessionPart(),
            continues=continues,
            answers=answers,
            redact=redact,
            redact_content=content,
        )


class Run:
    """One run while it is driven. It changes; the state and the contexts that hooks and callers get of it do not.

    `setup` is what it was given. `step` is the step in progress, with its calls in `step.calls`; `loop/step.py` makes a
    new one for each step. Drivers send pieces of the answer to it (`emit_text`). It is the `HookLog` of its hooks: it
    writes their records (`report_passed`, `report_appended`, `report_answer`).
    """

    __slots__ = (
        "__weakref__",
        "_held",
        "_hook_lock",
        "_services",
        "append",
        "at",
        "commit",
        "durable",
        "error",
        "evaluations",
        "holds_answer",
        "holds_deltas",
        "inbox",
        "is_resumed",
        "is_showing_last_step",
        "ledger",
        "make_services",
        "metadata_before",
        "monotonic",
        "next_step",
        "noted",
        "now",
        "numbers",
        "on_step",
        "pace",
        "plans",
        "run_id",
        "setup",
        "sleep",
        "source",
        "state",
        "step",
        "step_index",
        "stopping",
        "token",
        "uncounted",
        "wall",
    )

    setup: RunSetup
    token: CancelToken
    ledger: Ledger

    def __init__(
        self,
        setup: RunSetup,
        state: AgentState,
        durable: Durable,
        source: AnswerSource | None = None,
    ) -> None:
        self.setup = setup
        self.source = source = source or AnswerSource()
        definition, parent, pending = setup.definition, setup.parent, state.pending_step
        clock = source.clock(definition)
        if definition.redact is not None:
            durable.redact_with(definition.redact)
        # The record and the time.
        self.run_id = state.run_id
        self.durable = durable
        self.append = source.append(durable)
        self.commit = durable.commit
        earlier = 0 if pending is None else pending.records
        self.numbers = itertools.count(len(durable.records) or earlier)
        self.is_resumed = pending is not None or start_of(durable.records) is not None
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep
        self.now = clock.monotonic()
        self.at = clock.now() + (0.0 if durable.store is None else durable.store.clock_offset)
        self.wall = self.at - self.now
        # The state, the evaluations, the error, and what was used.
        self.state = state
        self.evaluations: tuple[ContinuationEvaluation, ...] = ()
        self.stopping = False
        self.error: BaseException | None = None
        self.token = CancelToken(parent.token if parent is not None else None)
        ledger_above = parent.ledger if parent is not None else None
        self.ledger = Ledger(state, self.now, ledger_above, source.active_seconds)
        self.uncounted = UncountedUsage()
        self.noted: Counters | None = None
        # The step that is made, and the call that hooks are asked about.
        self.step = StepInProgress(state.messages, state.messages, self.now)
        self.step_index: int | None = None
        self.next_step = state.step_count
        self.metadata_before = state.metadata
        self._find_hooks()
        self._find_readers()

    def _find_hooks(self) -> None:
        """The hooks of its agent and those that hold in child runs, by point."""
        definition, above = self.setup.definition, self.setup.inherited
        plans = Plans(definition.registrations, above) if above else definition.plans
        self.plans = self.source.plans(self, plans)
        self.make_services: Callable[[Run], RunServices] | None = None
        self._services: RunServices | None = None
        self._hook_lock: asyncio.Lock | None = None

    def _find_readers(self) -> None:
        """Who reads along, who may answer from outside, and what must be held back from them."""
        parent, store, plans = self.setup.parent, self.durable.store, self.plans
        self.inbox: RunInbox | None = None if store is None else RunInbox(store, self.run_id)
        self.pace: Callable[[], Awaitable[None]] | None = None
        if parent is not None:
            self.inbox, self.pace = parent.inbox, parent.pace
        self.on_step: Callable[[AgentState], Awaitable[None]] | None = None
        self.is_showing_last_step = False
        """The last step is made, and shown to whoever drives step by step: leaving now is not cancelling."""
        self.holds_answer = _may_withhold(plans.output)
        self.holds_deltas = (
            self.holds_answer
            or self.setup.redact_content is not None
            or _may_withhold(plans.after_inference)
            or _may_withhold(plans.around_inference)
        )
        self._held: dict[tuple[type[Delta], str], Delta] = {}
        """The last piece of each field of an answer that is held back."""

    # --- what it was given, as hooks may see it -----------------------------------------------------

    @property
    def definition(self) -> Definition:
        """What its agent is made of."""
        return self.setup.definition

    @property
    def parent(self) -> Run | None:
        """The run it is a part of."""
        return self.setup.parent

    def self_and_parents(self) -> Iterator[Run]:
        """This run, the run it is a part of, and so on up."""
        run: Run | None = self
        while run is not None:
            yield run
            run = run.setup.parent

    @property
    def depth(self) -> int:
        """How many runs are above it."""
        return 0 if self.setup.parent is None else self.setup.parent.depth + 1

    @property
    def services(self) -> RunServices:
        """What its hooks may have done: there once it is driven, and made for the first that asks for it.

        It knows its run. A run that needs none is gone with the last who knows it, without the garbage collector.
        """
        if self._services is None:
            assert self.make_services is not None  # whoever asks hooks has set it
            self._services = self.make_services(self)
        return self._services

    @property
    def hook_lock(self) -> asyncio.Lock:
        """Held by whoever asks hooks while calls are running: hooks never run at the same time as each other."""
        if self._hook_lock is None:
            self._hook_lock = asyncio.Lock()
        return self._hook_lock

    @property
    def has_begun(self) -> bool:
        """It has reached a step. Before that there is nothing to continue from, so nothing is written yet."""
        return self.step_index is not None

    @property
    def is_beginning(self) -> bool:
        """It has not begun, and not ended either: if the process dies now, the run begins again."""
        return not (self.has_begun or self.source.is_after_crash or self.state.ending)

    # --- the record and the time ---------------------------------------------------------------------

    def clock(self) -> float:
        """The run's monotonic clock."""
        monotonic = self.monotonic  # held in a slot: calling it there would look for a method first
        self.now = now = monotonic()
        self.at = self.wall + now
        return now

    def record_head(self) -> tuple[str, int, float]:
        """What every record begins with: run, number, time.

        Records of every step name these fields instead: unpacking them costs 0.1 bare steps for each record.
        """
        return self.run_id, next(self.numbers), self.at

    # --- arguments that hold secrets ----------------------------------------------------------------

    def call_without_secrets(self, call: ToolCall) -> ToolCall:
        """What is kept and shown of a call: without the secrets in its arguments, which stay in memory."""
        redact = self.setup.redact_content
        if redact is None or call.redacted:
            return call
        args, malformed = redact(call.args), redact(call.malformed)
        if args == call.args:
            if malformed == call.malformed:
                return call
            return ToolCall(id=call.id, name=call.name, args=call.args, malformed=malformed)
        return ORIGINALS.keep(
            call, ToolCall(id=call.id, name=call.name, args=thaw(args), malformed=malformed)
        )

    def decision_without_secrets(self, decision: Decision) -> Decision:
        """The same for an answer that changes arguments."""
        if self.setup.redact_content is None or not decision.args:
            return decision
        args = self.setup.redact_content(decision.args)
        if args == decision.args:
            return decision
        return msgspec.structs.replace(decision, args=thaw(args))

    def response_without_secrets(self, response: InferenceResponse) -> InferenceResponse:
        """An answer of the model as it is kept."""
        if self.setup.redact_content is None or not response.calls:
            return response
        calls = tuple(map(self.call_without_secrets, response.calls))
        if all(new is old for new, old in zip(calls, response.calls, strict=True)):
            return response
        return msgspec.structs.replace(response, calls=calls)

    # --- asking hooks -------------------------------------------------------------------------------

    def context(self, point: Point[C], **fields: Any) -> C:
        """What hooks are shown at a point now: the settled state, the evaluations, and these fields."""
        return point.context(
            point=point, state=self.state, evaluations=self.evaluations, live=self, **fields
        )

    def check_claim(self) -> None:
        """Raise RunHandedOverError if another process may have claimed the run: that process asks the hooks."""
        if self.durable.is_lost:
            raise RunHandedOverError(
                f"run '{self.run_id}' is left to another process: this one has lost its claim.",
                remedy="Resume the run: what was committed is there.",
            )

    async def ask(
        self,
        plan: Plan,
        ctx: C,
        *,
        about: str = "",
        policies_only: bool = False,
        recorded_only: bool = False,
        decided: Callable[[Result[C]], object] | None = None,
    ) -> Result[C]:
        """Ask the hooks of a point, and take over what they changed. `about` is the call or the child it is about.

        With `recorded_only`, those who are on record say again what they said, and nobody else is asked. With `decided`
        the caller takes it over, also if observers are cut off afterwards.
        """
        before = self.begin_asking(about)
        try:
            plan = self.source.hooks(self, plan, ctx)
            plan = plan.only_recorded() if recorded_only else plan
            result = await run_hooks(
                plan, ctx, self, self.settle, policies_only=policies_only, decided=decided
            )
            return self.take(result) if decided is None else result
        finally:
            self.end_asking(before)

    async def show(self, plan: Plan, ctx: AgentContext, verdict: Verdict, about: str = "") -> None:
        """Show something to the observers of a point, and to nobody else."""
        before = self.begin_asking(about)
        try:
            await observe(self.source.hooks(self, plan, ctx), ctx, verdict, self)
        finally:
            self.end_asking(before)

    @property
    def call_id(self) -> str:
        """The call or the child that hooks are asked about here; empty if it is none."""
        run, call_id = _asked_about.get()
        return call_id if run is self else ""

    def begin_asking(self, about: str) -> _About | None:
        """From here on, hooks of this task are asked about this call or child. Gives what `end_asking` takes."""
        if not about:  # at most points: it stays as it is
            return None
        before = _asked_about.get()
        _asked_about.set((self, about))
        return before

    def end_asking(self, before: _About | None) -> None:
        """It is again as it was."""
        if before is not None:
            _asked_about.set(before)

    def take(self, result: Result[C]) -> Result[C]:
        """Take over what hooks changed and decided."""
        if self.setup.redact is not None:
            result = result_without(result, self.setup.redact)
        settled = result.context
        self.state = settled.state
        self.evaluations = settled.evaluations
        if result.kind is _STOP:
            self.stop(result)
        return result

    def stop(self, result: Result[Any]) -> None:
        """A hook ends the run now."""
        reason = StopReason(result.stop_reason or StopReason.HOOK)
        self.end_because(result.decided_by, result.reason, reason, point=result.context.point.value)

    def end_because(self, source: str, why: str, reason: StopReason, *, point: str) -> None:
        """End the run now: a Forbid evaluation, and nothing that has not started yet starts."""
        self.stopping = True
        forbid = ContinuationDecision.FORBID_CONTINUATION
        self.evaluate(
            ContinuationEvaluation(source=source, decision=forbid, reason=why, stop_reason=reason),
            point,
        )

    @property
    def is_forbidden(self) -> bool:
        """Whether a hook has forbidden to continue since the step began."""
        forbid = ContinuationDecision.FORBID_CONTINUATION
        return any(said.decision is forbid for said in self.evaluations)

    def set_state(self, state: AgentState) -> None:
        """Set the settled state. Only this does, and what hooks return (`take`, `report_context`)."""
        self.state = state

    def replace_evaluations(self, evaluations: tuple[ContinuationEvaluation, ...]) -> None:
        """The evaluations since the step began."""
        self.evaluations = evaluations

    def recover(self) -> None:
        """A hook around the step makes it again: what the run had failed of is over."""
        self.error = None

    def set_error(self, error: BaseException) -> None:
        """Set the exception that the run failed with."""
        self.error = error

    def evaluate(self, evaluation: ContinuationEvaluation, point: str) -> None:
        """Add an evaluation of the loop's own."""
        self.evaluations = (*self.evaluations, evaluation)
        self.append(
            Evaluated(*self.record_head(), point=point, evaluation=evaluation, step=self.step_index)
        )

    def settle(self, entry: Entry, before: Any, after: Any) -> Any:
        """Check what a hook changed, before others see it. A wrong value is a failure of the hook."""
        after = check_changes(entry, before, after)
        if getattr(after, "tool_call", None) is not getattr(before, "tool_call", None):
            after = check_changed_call(entry, before, after, self.setup.definition.toolbox)
        return (
            after
            if self.setup.redact is None
            else context_without(before, after, self.setup.redact)
        )

    # --- what hooks said, for the record --------------------------------------------------------------

    def report_passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """Hooks ran and changed nothing."""
        self.now = now = readings[-1]
        self.at = self.wall + now
        if not names.hooks:
            return  # they gave their verdict in another process
        append = self.append
        append(
            HooksPassed(
                run_id=self.run_id,
                seq=next(self.numbers),
                at=self.at,
                point=names.point,
                hooks=names.hooks,
                readings=tuple(readings),
                step=self.step_index,
                call_id=self.call_id,
                tiers=names.tiers,
                externals=names.externals,
            )
        )

    def report_appended(self, entry: Entry, started: float, ctx: AgentContext) -> float:
        """A hook said whether to continue."""
        now = self.clock()
        self.append(
            HookRan(
                *self.record_head(),
                point=entry.point,
                hook=entry.name,
                duration=now - started,
                step=self.step_index,
                call_id=self.call_id,
                tier=entry.tier_name,
                evaluations=ctx.evaluations[-1:],
                external=entry.registration.external,
            )
        )
        return now

    def report_context(self, ctx: AgentContext) -> None:
        """A hook failed: what those before it changed and said stays."""
        self.state = ctx.state
        self.evaluations = ctx.evaluations

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer[Any]) -> float:
        """A hook ran and said or changed something, or failed."""
        now = self.clock()
        if entry.has_recorded_answer:
            return now
        error, traceback = None, ""
        if answer.error is not None:
            raised = answer.error.__cause__ or answer.error
            error, traceback = ErrorInfo.from_exception(raised, "hook"), where_raised(raised)
            if entry.tier is Tier.OBSERVER or entry.point in _NOT_IN_RESULT:
                who = "observer " if entry.tier is Tier.OBSERVER else ""
                _logger.warning("%s%s", who, answer.error, exc_info=raised)
        before: Any = answer.before
        after: Any = answer.after
        if getattr(after, "tool_call", None) is not getattr(before, "tool_call", None):
            after = msgspec.structs.replace(
                after, tool_call=self.call_without_secrets(after.tool_call)
            )
        self.append(
            HookRan(
                *self.record_head(),
                point=entry.point,
                hook=entry.name,
                duration=now - started,
                step=self.step_index,
                call_id=_call_id(before) or self.call_id,
                tier=entry.tier_name,
                verdict="failed" if error is not None else answer.kind.label,
                reason=answer.reason or (answer.error.problem if answer.error is not None else ""),
                changes=None if after is before else describe_changes(before, after),
                shadow=entry.shadow,
                error=error,
                evaluations=after.evaluations[len(before.evaluations) :],
                stop_reason=answer.stop_reason,
                decision=self.decision_without_secrets(answer.answer)
                if isinstance(answer.answer, Decision)
                else None,
                source=entry.registration.source if answer.kind in _WITH_SOURCE else None,
                external=entry.registration.external,
                traceback=traceback,
                is_made=self.step.unrecorded is not None,
                message=answer.message,
            )
        )
        return now

    # --- what the model says, piece by piece ----------------------------------------------------------

    @property
    def is_streamed(self) -> bool:
        """Whether somebody reads along, piece by piece."""
        return self.durable.is_heard

    def emit_text(self, text: str) -> None:
        """Hand on a piece of the model's text, unless a hook may still withhold it."""
        self._emit(TextDelta(*self._place(), text=text, step=self.step_index or 0))

    def emit_reasoning(self, text: str) -> None:
        """Hand on a piece of the model's thinking, unless a hook may still withhold the response."""
        self._emit(ReasoningDelta(*self._place(), text=text, step=self.step_index or 0))

    def emit_call(self, call_id: str, name: str, arguments: str) -> None:
        """Hand on a piece of a call's arguments, unless a hook may still withhold the response."""
        self._emit(
            CallDelta(
                *self._place(),
                call_id=call_id,
                name=name,
                arguments=arguments,
                step=self.step_index or 0,
            )
        )

    def _emit(self, delta: Delta) -> None:
        if self.holds_deltas:
            call_id = delta.call_id if isinstance(delta, CallDelta) else ""
            self._held[type(delta), call_id] = delta
        else:
            self.durable.tell(delta)

    def _place(self) -> tuple[str, int, float]:
        """The run, number and time of a delta. A delta is no record: its number is how many records there are."""
        self.clock()
        return self.run_id, len(self.durable.records), self.at

    async def keep_pace(self) -> None:
        """Wait until whoever reads the stream has caught up."""
        if self.pace is not None:
            await self.pace()

    def drop_deltas(self) -> None:
        """Drop the deltas that were held back: their answer failed, was withheld, or is not the final one."""
        self._held.clear()

    def release_deltas(self, response: InferenceResponse) -> None:
        """Send the deltas that were held back: one for each field, with the text of the settled response."""
        held, self._held = self._held, {}
        for delta in held.values():
            if (whole := _whole_delta(delta, response)) is not None:
                _, seq, at = self._place()
                self.durable.tell(msgspec.structs.replace(whole, seq=seq, at=at))

    # --- for drivers, hooks and tools ---------------------------------------------------------------

    def record_fallback(self, error: Exception, reason: str) -> None:
        """Record that a driver asks another model after one failed, and drop the text of the first."""
        info = ErrorInfo.from_exception(error, classify(error))
        self.step.add_error(info)
        self.drop_deltas()
        self.clock()
        self.append(
            ErrorRaised(
                *self.record_head(),
                error=info,
                action="fallback",
                step=self.step_index,
                reason=reason,
            )
        )

    def count_child(self, now: Counters, before: Counters) -> None:
        """Count what a child has used in another process, without what it had used when it was last counted."""
        self.ledger.carry(now, before)
        self.uncounted.add_child(now, before)

    def charge(self, usage: Usage) -> None:
        """Count a model call that a hook or a tool made itself, or that a driver made in vain."""
        self.ledger.add_usage(usage)
        self.uncounted.add_usage(usage)

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is to end."""
        return self.token.is_cancelled


def _may_withhold(plan: Plan | None) -> bool:
    """Whether some hook of a point may still take back or change what a model said, so that nothing may leak before."""
    return plan is not None and not all(entry.shadow for entry in plan.judges)


_About: TypeAlias = "tuple[Run | None, str]"
_asked_about: ContextVar[_About] = ContextVar("asked_about", default=(None, ""))
"""Of which run hooks are asked about which call or child. Calls that run at the same time have tasks of their own; a
field of the run would be that of another one."""


def _call_id(ctx: AgentContext) -> str:
    """The call a context is about."""
    call = getattr(ctx, "tool_call", None)
    return call.id if call is not None else ""


def _whole_delta(delta: Delta, response: InferenceResponse) -> Delta | None:
    """What the settled answer says in the place of what was held back; None if it says nothing there."""
    if isinstance(delta, CallDelta):
        call = next((each for each in response.calls if each.id == delta.call_id), None)
        if call is None:
            return None
        arguments = call.malformed or msgspec.json.encode(call.args).decode()
        return msgspec.structs.replace(delta, name=call.name, arguments=arguments)
    said = response.text
    if isinstance(delta, ReasoningDelta):
        said = "".join(part.text for part in response.reasoning)
    return msgspec.structs.replace(delta, text=said) if said else None


def _count_children(records: Sequence[Record]) -> Counter[str]:
    """How many children were started for the same, by the beginning of their ids."""
    found = (each for each in records if isinstance(each, ChildStarted))
    return Counter(each.child_run_id.rpartition("/")[0] for each in found)


# --- where a run takes what comes from outside ---------------------------------------------------------


NOTHING = RunIndex()
NOBODY = object()
"""There is no approver: the run waits."""
UseTool: TypeAlias = Callable[[Run, CallInProgress], Awaitable[Any]]


class AnswerSource:
    """The live source. Others override what they take from somewhere else."""

    is_replay = False
    """Results come from the record, so no call needs its real arguments: redacted ones are enough."""
    is_after_crash = False
    """The run had begun in another process, which died. The loop goes through its unfinished step again."""
    active_seconds = 0.0
    """Active time that went into what is known."""
    check_step: Callable[[Run, Ending | None], Awaitable[Ending | None]] | None = None
    """Called before the first step, and after each with how that ended the run. Gives how the run ends, if it does."""

    _children: Counter[str] | None = None
    _read = 0

    def __init__(self, known: RunIndex = NOTHING) -> None:
        self.known = known
        """What is on record of the step that continues, and stands."""

    # --- the record and the time --------------------------------------------------------------------

    def append(self, durable: Durable) -> Callable[[Record], None]:
        """What writes a record."""
        return durable.append

    def settle(self, run: Run) -> None:
        """A step is settled, or waits, and that is on record."""

    def clock(self, definition: Definition) -> Clock:
        """The clock of a run."""
        return definition.clock

    # --- hooks --------------------------------------------------------------------------------------

    def plans(self, run: Run, plans: Plans) -> Plans:  # noqa: ARG002 - for other sources
        """The hooks of a run, by point."""
        return plans

    def hooks(self, run: Run, plan: Plan, ctx: AgentContext) -> Plan:  # noqa: ARG002 - for other sources
        """Who is asked this time, and who answers from the record."""
        return plan

    def answers_about(self, call_id: str) -> Sequence[HookRan]:  # noqa: ARG002 - for other sources
        """What hooks said about a call before it ran, in a process that died."""
        return ()

    def decide(
        self,
        run: Run,
        error: BaseException,
        error_class: ErrorClass,
        failures: int,
        call_id: str,  # noqa: ARG002 - for other sources
    ) -> ErrorDecision:
        """What the error policy says. `call_id` names the call that failed, if it was one."""
        errors = run.state.counters.errors
        return run.setup.definition.error_policy.decide(error_class, failures, errors, error)

    # --- models -------------------------------------------------------------------------------------

    def infer(self, run: Run, request: InferenceRequest) -> Awaitable[InferenceResponse]:
        """The model's answer."""
        driver = run.setup.definition.driver
        if driver is None:
            raise ModelError(
                "this agent has no model.",
                remedy='Give it one: AgentBuilder().with_model("provider:NAME"), or set HOOKLINE_MODEL.',
            )
        given = driver.infer(request, run)
        return given if type(given) is CoroutineType else awaitable(driver, given)

    async def consultation(self, run: Run, name: str, digest: str) -> InferenceResponse | None:  # noqa: ARG002 - for other sources
        """What a model has answered a hook that asks this. None: it is asked now, and the run pays."""
        return None

    # --- tools --------------------------------------------------------------------------------------

    def use(self, run: Run, current: CallInProgress, use: UseTool) -> Awaitable[Any]:
        """What a tool gives. `use` calls the real tool; a source with a recorded result does not call it."""
        return use(run, current)

    def was_in_doubt(self, run: Run, call_id: str) -> bool:  # noqa: ARG002 - for other sources
        """Whether a call is on record as one that had started, and nobody knows what it did."""
        return False

    # --- people -------------------------------------------------------------------------------------

    def resume_answer(self, run: Run, question: str) -> Decision | None:
        """The answer that was given to `resume`."""
        return run.setup.answers.get(question)

    def approve(self, run: Run, approval: PendingApproval) -> Any:
        """What the approver of the run says, or of one above it, which may have to be awaited; NOBODY without one."""
        for each in run.self_and_parents():
            approver = each.definition.approver
            if approver == "deny":
                return Decision.deny("nobody can approve it")
            if approver is not None:
                return approver(approval)
        return NOBODY

    # --- child runs ---------------------------------------------------------------------------------

    async def for_child(self, run: Run, child_id: str) -> AnswerSource:  # noqa: ARG002 - for other sources
        """The source of a child run that begins now, or continues."""
        return AnswerSource()

    def child_key(self, run: Run, asked: str) -> str:
        """The key of a child that a hook starts to ask this: numbered, in a step, over all processes."""
        records = run.durable.records
        if self._children is None:
            starts = (
                at for at in reversed(range(len(records))) if isinstance(records[at], RunStarted)
            )
            self._read = next(starts, 0)
            self._children = _count_children(counted_records(records[: self._read]))
        started = self._children
        started += _count_children(records[self._read :])  # each once: a run may start many
        self._read = len(records)
        return f"{asked}/{started[f'{run.run_id}/{run.step_index}/{asked}'] + 1}"

    def child_definition(
        self,
        run: Run,  # noqa: ARG002 - for other sources
        definition: Definition,
        child_id: str,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> Definition:
        """What a child run that a hook starts is made of."""
        return definition
