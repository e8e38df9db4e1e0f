"""One run in progress: its state as it changes, its record as it grows, and what it shares with its children."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from hookline.agent.cancel import CancelToken
from hookline.agent.deltas import Delta, RunDeltas
from hookline.agent.hook_changes import settled, settled_call
from hookline.agent.in_progress import CallInProgress, StepInProgress
from hookline.agent.originals import ORIGINALS, original
from hookline.agent.redacted_output import both, both_content, context_without, result_without
from hookline.agent.result import RunResult
from hookline.agent.source import AnswerSource
from hookline.definition import Definition, Plans
from hookline.flow import Ledger, classify
from hookline.hooks import (
    Entry,
    Kind,
    Plan,
    Registration,
    Result,
    Verdict,
    observe,
    run_hooks,
)
from hookline.journal import (
    Durable,
    ErrorRaised,
    Evaluated,
    Redact,
    RedactContent,
)
from hookline.lifecycle import AgentContext
from hookline.state import (
    NO_USAGE,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    Counters,
    Decision,
    ErrorInfo,
    InferenceResponse,
    StopReason,
    ToolCall,
    Usage,
    UserMessage,
    thaw,
)

Drive: TypeAlias = Callable[["Run", str | UserMessage | None], Awaitable[RunResult]]
"""The loop: drives a run to its end. A run carries it so that children go through the same one."""
C = TypeVar("C", bound=AgentContext)
_STOP_REASONS: frozenset[str] = frozenset(StopReason)
_STOP = Kind.STOP


class SessionPart(msgspec.Struct, frozen=True):
    """What a run has to do with its session."""

    starts: bool = False
    """session_start is asked, because this run is the first; `source` says why."""
    ends: bool = False
    """session_end is asked, because the session is over with this run."""
    source: str = ""


class Uncounted(msgspec.Struct):
    """What a run has used since that was last put into its state."""

    usage: Usage = NO_USAGE
    calls: int = 0
    child_steps: int = 0

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


class Run(RunDeltas):
    """The mutable middle of a run. Everything hooks and callers see of it is immutable."""

    __slots__ = (
        "__weakref__",
        "_hook_lock",
        "_services",
        "commit",
        "current",
        "definition",
        "depth",
        "drive",
        "error",
        "holds_answer",
        "inherited",
        "ledger",
        "lingers",
        "make_services",
        "metadata_before",
        "next_step",
        "noted",
        "on_step",
        "parent",
        "plans",
        "redact",
        "redact_content",
        "resumed",
        "session",
        "sleep",
        "source",
        "step",
        "stopping",
        "token",
        "uncounted",
    )

    depth: int
    token: CancelToken
    ledger: Ledger

    def __init__(
        self,
        definition: Definition,
        state: AgentState,
        durable: Durable,
        *,
        drive: Drive,
        parent: Run | None = None,
        inherited: tuple[Registration, ...] = (),
        source: AnswerSource[Run] | None = None,
        session: SessionPart | None = None,
    ) -> None:
        self.source = source = source or AnswerSource()
        clock = source.clock(definition)
        self.redact: Redact | None = both(
            definition.redact, None if parent is None else parent.redact
        )
        """What takes secrets out of whatever hooks say, if anything does."""
        self.redact_content: RedactContent | None = both_content(
            definition.redact_content, None if parent is None else parent.redact_content
        )
        """What takes secrets out of arguments and progress messages, if anything does."""
        if definition.redact is not None:
            durable.redact_with(definition.redact)
        self.definition = definition
        self.drive = drive
        self.state = state
        self.run_id = state.run_id
        self.durable = durable
        self.append = source.append(durable)
        self.commit = durable.commit
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.inherited = inherited
        self.plans = Plans(definition.registrations, inherited) if inherited else definition.plans
        self.token = CancelToken(parent.token if parent is not None else None)
        self.now = clock.monotonic()
        self.at = clock.now()
        self.wall = self.at - self.now
        self.ledger = Ledger(state, self.now, parent.ledger if parent is not None else None)
        pending = state.pending_step
        earlier = 0 if pending is None else pending.records
        self.next_seq = itertools.count(len(durable.records) or earlier).__next__
        self.ledger.seconds_before += source.active_seconds
        self.evaluations: tuple[ContinuationEvaluation, ...] = ()
        self.stopping = False
        self.error: BaseException | None = None
        self.resumed = pending is not None or len(durable.records) > 0
        self.session = session or SessionPart()
        self.on_step: Any = None
        self.pace: Callable[[], Awaitable[None]] | None = None if parent is None else parent.pace
        self.lingers = False
        """The last step is made, and shown to whoever drives step by step: leaving now is not cancelling."""
        self.make_services: Callable[[Run], Any] | None = None
        self._services: Any = None
        self._hook_lock: asyncio.Lock | None = None
        self.uncounted = Uncounted()
        self.noted: Counters | None = None
        self.plans = plans = source.plans(self, self.plans)
        self.holds_answer = _may_withhold(plans.output)
        self.holds_deltas = (
            self.holds_answer
            or self.redact_content is not None
            or _may_withhold(plans.after_inference)
            or _may_withhold(plans.around_inference)
        )
        self._held: list[Delta] = []
        self.step_index: int | None = None
        self.next_step = state.step_count
        self.metadata_before = state.metadata
        self.step = StepInProgress(state.messages, state.messages, self.now)
        self.call_id = ""
        self.current: CallInProgress | None = None

    @property
    def services(self) -> Any:
        """What its hooks may have done: there once it is driven, and made for the first that asks for it.

        It knows its run. A run that needs none is gone with the last who knows it, without the garbage collector.
        """
        if self._services is None and self.make_services is not None:
            self._services = self.make_services(self)
        return self._services

    @property
    def hook_lock(self) -> asyncio.Lock:
        """Held by whoever asks hooks while calls are running: hooks never run at the same time as each other."""
        if self._hook_lock is None:
            self._hook_lock = asyncio.Lock()
        return self._hook_lock

    @property
    def response(self) -> InferenceResponse | None:
        """The model's settled answer in the current step."""
        return self.step.response

    @property
    def has_begun(self) -> bool:
        """It has come to a step: before that there is nothing to go on with, so nothing is written yet."""
        return self.step_index is not None

    # --- arguments that hold secrets ----------------------------------------------------------------

    def shown(self, call: ToolCall) -> ToolCall:
        """What is kept and told of a call: without the secrets in its arguments, which stay in memory."""
        redact = self.redact_content
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

    def shown_decision(self, decision: Decision) -> Decision:
        """The same for an answer that changes arguments."""
        if self.redact_content is None or not decision.args:
            return decision
        args = self.redact_content(decision.args)
        if args == decision.args:
            return decision
        return msgspec.structs.replace(decision, args=thaw(args))

    def with_shown_calls(self, response: InferenceResponse) -> InferenceResponse:
        """An answer of the model as it is kept."""
        if self.redact_content is None or not response.calls:
            return response
        calls = tuple(map(self.shown, response.calls))
        if all(new is old for new, old in zip(calls, response.calls, strict=True)):
            return response
        return msgspec.structs.replace(response, calls=calls)

    def call_of(self, made: ToolCall, call: ToolCall) -> CallInProgress:
        """A call on its way. It runs with the arguments it was made with, where this process knows them."""
        current = CallInProgress(made, call)
        if call.redacted and (exact := original(call)) is not call:
            current.original = exact
        return current

    def take_call(self, current: CallInProgress, exact: ToolCall) -> None:
        """This is the call that runs now; what is kept of it follows."""
        current.call = shown = self.shown(exact)
        current.original = None if shown is exact else exact

    # --- asking hooks -------------------------------------------------------------------------------

    async def ask(
        self,
        plan: Plan,
        ctx: C,
        *,
        about: str = "",
        current: CallInProgress | None = None,
        policies_only: bool = False,
    ) -> Result[C]:
        """Ask the hooks of a point, and take over what they changed. `about` is the call or the child it is about."""
        before = self.call_id, self.current
        self.call_id, self.current = about or self.call_id, current
        try:
            plan = self.source.hooks(self, plan, ctx)
            asked = run_hooks(plan, ctx, self, self.settle, policies_only=policies_only)
            return self.take(await asked)
        finally:
            self.call_id, self.current = before

    async def ask_about_result(
        self, plan: Plan, ctx: C, about: str, decided: Callable[[Result[C]], object]
    ) -> Result[C]:
        """Ask the hooks after a tool. What they changed is for the caller to take over, also if they are cut off."""
        before, self.call_id = self.call_id, about
        try:
            plan = self.source.hooks(self, plan, ctx)
            return await run_hooks(plan, ctx, self, self.settle, decided=decided)
        finally:
            self.call_id = before

    async def repeat(self, plan: Plan, ctx: AgentContext, about: str) -> None:
        """Have those hooks of a point say again what they said about this, who are on record. Nobody else is asked."""
        before, self.call_id = self.call_id, about
        try:
            plan = self.source.hooks(self, plan, ctx).of_recalled()
            self.take(await run_hooks(plan, ctx, self, self.settle))
        finally:
            self.call_id = before

    async def show(self, plan: Plan, ctx: AgentContext, verdict: Verdict, about: str = "") -> None:
        """Show something to the observers of a point, and to nobody else."""
        before, self.call_id = self.call_id, about or self.call_id
        try:
            await observe(self.source.hooks(self, plan, ctx), ctx, verdict, self)
        finally:
            self.call_id = before

    def take(self, result: Result[C]) -> Result[C]:
        """Take over what hooks changed and decided."""
        if self.redact is not None:
            result = result_without(result, self.redact)
        settled = result.context
        self.state = settled.state
        self.evaluations = settled.evaluations
        if result.kind is _STOP:
            self.stop(result)
        return result

    def stop(self, result: Result[Any]) -> None:
        """A hook ends the run now: a Forbid evaluation, and nothing that has not started yet starts."""
        self.stopping = True
        given = result.stop_reason
        reason = StopReason(given) if given in _STOP_REASONS else StopReason.HOOK
        self.evaluate(
            ContinuationEvaluation(
                source=result.decided_by,
                decision=ContinuationDecision.FORBID_CONTINUATION,
                reason=result.reason,
                stop_reason=reason,
            ),
            result.context.point.value,
        )

    def become(self, state: AgentState) -> None:
        """This is the settled state now. Nothing but hooks (`take`, `left`) and this changes it."""
        self.state = state

    def replace_evaluations(self, evaluations: tuple[ContinuationEvaluation, ...]) -> None:
        """This is what was said about going on since the step began."""
        self.evaluations = evaluations

    def lose(self, error: BaseException) -> None:
        """The run has failed of this."""
        self.error = error

    def evaluate(self, evaluation: ContinuationEvaluation, point: str) -> None:
        """Add an evaluation of the loop's own."""
        self.evaluations = (*self.evaluations, evaluation)
        self.append(
            Evaluated(*self.head(), point=point, evaluation=evaluation, step=self.step_index)
        )

    def settle(self, entry: Entry, before: Any, after: Any) -> Any:
        """Check what a hook changed, before anyone else sees it. What does not hold up is the hook's failure."""
        after = settled(entry, before, after)
        if getattr(after, "tool_call", None) is not getattr(before, "tool_call", None):
            after = settled_call(entry, before, after, self.current, self.definition.toolbox)
        return after if self.redact is None else context_without(before, after, self.redact)

    # --- for drivers, hooks and tools ---------------------------------------------------------------

    def record_fallback(self, error: Exception, reason: str) -> None:
        """A driver asks another model in the place of one that failed: that is on record, and its text is void."""
        info = ErrorInfo.from_exception(error, classify(error))
        self.step.add_error(info)
        self.drop_deltas()
        self.clock()
        self.append(
            ErrorRaised(
                *self.head(),
                error=info,
                action="fallback",
                step=self.step_index,
                reason=reason,
            )
        )

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
