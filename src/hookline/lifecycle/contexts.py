"""What a hook receives at each kind of point: its context. All of it is immutable; `with_…` derives a changed context.

Each class names the fields that hooks may change, by point, as `changes=` in `points.py` has them. Beside these fields,
hooks may change `state` and append `evaluations`. Around an action they may change only what is named, and around a
child run not the `state`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

import msgspec

from hookline._aio import Once
from hookline.errors import UsageError
from hookline.flow import ErrorAction, ErrorClass, ErrorDecision, Ledger
from hookline.hooks import Context, Plan, Result
from hookline.hooks.point_type import C
from hookline.state import (
    AgentState,
    Attachment,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    InferenceRequest,
    InferenceResponse,
    Message,
    RunStatus,
    Step,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    checked_text,
)

A = TypeVar("A", bound="AgentContext")


class Spent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a run and its children have used so far: what its limits are compared with."""

    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    tool_calls: int = 0
    seconds: float = 0.0
    """Active time: time the run spent paused does not count."""


class _Toolbox(Protocol):
    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...
    @property
    def get(self) -> Callable[[str], Any]: ...


class _Definition(Protocol):
    @property
    def system_prompt(self) -> str: ...
    @property
    def driver(self) -> Any: ...
    @property
    def toolbox(self) -> _Toolbox: ...


class _Plans(Protocol):
    @property
    def before_tool_use(self) -> Plan | None: ...


class _Source(Protocol):
    @property
    def is_replay(self) -> bool: ...


class RunServices(Protocol):
    """What a hook may have its run do: ask a model, start a child run, start an effect once, ask before_compact hooks.

    `agent.services.HookServices` implements it.
    """

    async def ask_model(
        self, request: InferenceRequest, name: str, driver: Any
    ) -> InferenceResponse: ...
    async def spawn(self, ctx: A, agent: Any, prompt: str, name: str) -> tuple[A, Any]: ...
    async def start_once(self, ctx: AgentContext, name: str) -> bool: ...
    async def before_compact(
        self, ctx: AgentContext, messages: Sequence[Message], instructions: str
    ) -> Result[CompactHookContext]: ...


class LiveRun(Protocol):
    """The run behind a context: what contexts, guards and command hooks use of `agent.run.Run`.

    `Run` is in a higher layer, which this one cannot import.
    """

    @property
    def run_id(self) -> str: ...
    @property
    def depth(self) -> int: ...
    @property
    def parent(self) -> LiveRun | None: ...
    @property
    def definition(self) -> _Definition: ...
    @property
    def plans(self) -> _Plans: ...
    @property
    def source(self) -> _Source: ...
    @property
    def state(self) -> AgentState: ...
    @property
    def step_index(self) -> int | None: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def now(self) -> float: ...
    @property
    def at(self) -> float: ...
    @property
    def monotonic(self) -> Callable[[], float]: ...
    @property
    def services(self) -> RunServices: ...
    def charge(self, usage: Usage) -> None: ...
    def call_without_secrets(self, call: ToolCall) -> ToolCall: ...


class RunHandle:
    """What a hook may know of, and do to, the run it is in. It is read-only: a hook may spend, and never refund."""

    __slots__ = ("_live",)

    def __init__(self, live: LiveRun) -> None:
        self._live = live

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._live.run_id

    @property
    def depth(self) -> int:
        """How many runs are above this one: zero when the caller started it."""
        return self._live.depth

    @property
    def is_replay(self) -> bool:
        """Whether this is a replay or a back-test of a recorded run: whatever a hook does outside, it did then."""
        return self._live.source.is_replay

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """All tools of the agent, as models see them."""
        return self._live.definition.toolbox.specs

    @property
    def state(self) -> AgentState:
        """The run's state as it is settled now."""
        return self._live.state

    @property
    def parent(self) -> RunHandle | None:
        """The run that started this one; None when the caller did."""
        parent = self._live.parent
        return None if parent is None else RunHandle(parent)

    @property
    def system_prompt(self) -> str:
        """The system prompt of the run's agent, as it was built."""
        return self._live.definition.system_prompt

    @property
    def model(self) -> str:
        """The model of the run's agent, as its driver names it; empty if it does not."""
        return str(getattr(self._live.definition.driver, "model", "") or "")

    @property
    def spent(self) -> Spent:
        """What the run and its children have used so far, as it is now."""
        live = self._live
        ledger = live.ledger
        return Spent(
            steps=ledger.steps,
            tokens=ledger.tokens,
            cost=ledger.cost,
            tool_calls=ledger.tool_calls,
            seconds=ledger.seconds(live.monotonic()),
        )

    def tool(self, name: str) -> Any:
        """The tool that a call of this name runs here; None if there is none. A child run has tools of its own."""
        return self._live.definition.toolbox.get(name)

    def charge(self, usage: Usage) -> None:
        """Count a model call the hook made itself (a critic, a summariser) against the run's limits."""
        if not isinstance(usage, Usage) or usage.problem():
            raise UsageError(
                f"{usage!r} cannot be charged.",
                remedy="Charge a Usage of whole numbers in which nothing is below zero.",
            )
        self._live.charge(usage)

    async def ask_model(
        self, request: InferenceRequest, *, name: str, driver: Any = None
    ) -> InferenceResponse:
        """Ask a model: the agent's own, or that of another driver. It is recorded, and counts against the run's limits.

        `name` says for which hook. Failures are retried as the error policy says; the last one is raised. A run that
        continues after a crash has the answer from its journal.
        """
        return await self._live.services.ask_model(request, name, driver)

    async def spawn(self, ctx: A, agent: Any, prompt: str, *, name: str) -> tuple[A, Any]:
        """Run another agent as a child of this run, under its limits and policies.

        Returns the hook's context with the evaluations of hooks around the child, and the child's result.
        """
        return await self._live.services.spawn(ctx, agent, prompt, name)

    def start_once(self, ctx: AgentContext, name: str) -> Awaitable[bool]:
        """Whether the hook may do something that must not be done twice: send a message, say.

        True the first time for this name at this point, in this step and about this call; then the start is committed
        before this returns. (Of a new run that has not begun, nothing is committed: nobody continues it if its process
        dies.) False if it was started before, also before a pause and by a process that died: whether it was done is
        not known then. False in a replay and a back-test, and for steps that a journal may have lost.
        """
        return _Start(lambda: self._live.services.start_once(ctx, name))

    async def before_compact(
        self, ctx: AgentContext, messages: Sequence[Message], instructions: str
    ) -> Result[CompactHookContext]:
        """Ask the before_compact hooks whether these messages may be summarised, and by which instructions.

        What they changed is in the result's context: continue with its state and its evaluations.
        """
        return await self._live.services.before_compact(ctx, messages, instructions)

    def __repr__(self) -> str:
        return f"<run {self.run_id}, depth {self.depth}>"


class _Start(Once[bool]):
    """Whether something may be started. Without `await` it would always be true."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise UsageError(
            "start_once was not awaited.",
            remedy="Write an async hook: `if await ctx.run.start_once(ctx, name): ...`.",
        )


class AgentContext(Context, frozen=True, kw_only=True):
    """What every context of an agent's lifecycle carries."""

    state: AgentState = AgentState()
    evaluations: tuple[ContinuationEvaluation, ...] = ()
    """What hooks have decided about continuing since this step began."""
    live: LiveRun | None = None
    """The run itself. It is the runtime's own: hooks use `run`."""

    @property
    def run(self) -> RunHandle:
        """The run this is about: what it has spent, how deep it is, and a way to charge it."""
        if self.live is None:
            raise UsageError(
                "this context belongs to no run, so there is no ctx.run.",
                remedy="If a hook is also called without an agent, check ctx.has_run first.",
            )
        return RunHandle(self.live)

    @property
    def has_run(self) -> bool:
        """Whether it belongs to a run. A context that you make for a HookStack or a test does not."""
        return self.live is not None

    @property
    def now(self) -> float:
        """The time by the run's clock: seconds since 1970. In a replay it is the time on record. Zero outside a run."""
        return 0.0 if self.live is None else self.live.at

    @property
    def metadata(self) -> dict[str, Any]:
        """The run's metadata: what one hook writes, later hooks read, to the end of the run."""
        return self.state.metadata

    def get(self, key: str, default: Any = None) -> Any:
        """One entry of the metadata."""
        return self.state.metadata.get(key, default)

    def with_state(self, state: AgentState) -> Self:
        """This context with another state."""
        return msgspec.structs.replace(self, state=state)

    def with_metadata(self, key: str, value: object) -> Self:
        """This context with one entry of metadata set; it lives for the whole run."""
        return msgspec.structs.replace(self, state=self.state.with_metadata(key, value))

    def forbid(self, reason: str, stop_reason: StopReason | str | None = None) -> Self:
        """Make no further step; nothing can override it.

        At before_step the step is not made, and at before_inference the model is not called. Later in a step, that step
        finishes first. `stop_reason` is one of ours, or any text.
        """
        return self._evaluate(ContinuationDecision.FORBID_CONTINUATION, reason, stop_reason)

    def request_continue(self, reason: str) -> Self:
        """Ask for another step even if the model is done. Another hook's `forbid` still wins."""
        return self._evaluate(ContinuationDecision.REQUEST_CONTINUATION, reason, None)

    def allow_stop(self, reason: str = "") -> Self:
        """There is no objection to stopping."""
        return self._evaluate(ContinuationDecision.ALLOW_STOP, reason, None)

    def allow_continue(self, reason: str = "") -> Self:
        """There is something left to do."""
        return self._evaluate(ContinuationDecision.ALLOW_CONTINUATION, reason, None)

    def _evaluate(
        self,
        decision: ContinuationDecision,
        reason: str,
        stop_reason: StopReason | str | None,
    ) -> Self:
        # The source is filled in with the hook's name when the hook has returned.
        said = ContinuationEvaluation(
            source="",
            decision=decision,
            reason=checked_text(reason, "a reason"),
            stop_reason=None if stop_reason is None else StopReason(stop_reason),
        )
        return msgspec.structs.replace(self, evaluations=(*self.evaluations, said))


def own_and_parent_states(ctx: AgentContext) -> Iterator[AgentState]:
    """The state of the run, and of the runs above it."""
    yield ctx.state
    above = ctx.run.parent if ctx.has_run else None
    while above is not None:
        yield above.state
        above = above.parent


def expect_context(ctx: Context, kind: type[C]) -> C:
    """The context, which is of this kind because of the event it is shown at."""
    if not isinstance(ctx, kind):
        raise TypeError(f"{ctx.point} has a {type(ctx).__name__}, not a {kind.__name__}.")
    return ctx


class SessionHookContext(AgentContext, frozen=True, kw_only=True):
    """session_start, session_end.

    No field of its own may be changed.
    """

    session_id: str = ""
    source: str = "startup"
    """At the start: `startup`; `resume` when the conversation continues from an earlier state, or the session had been
    closed; `fork` when it continues from another session; `clear` when it was cleared. At the end, why: `clear`,
    `prompt_input_exit` when a person has left the conversation, `other`, or what `session.close(reason=)` says."""


class PromptHookContext(AgentContext, frozen=True, kw_only=True):
    """prompt_submit: the user's text, before it enters the conversation.

    May be changed: `prompt`, `attachments`.
    """

    prompt: str = ""
    attachments: tuple[Attachment, ...] = ()
    """Images and documents that come with it."""

    def with_prompt(self, prompt: str) -> Self:
        """This context with another prompt."""
        return msgspec.structs.replace(self, prompt=checked_text(prompt, "the prompt"))

    def with_attachments(self, attachments: Iterable[Attachment]) -> Self:
        """This context with other attachments."""
        given = tuple(attachments)
        for each in given:
            if not isinstance(each, Attachment):
                raise UsageError(
                    f"{each!r} is not an attachment.", remedy="Use Attachment.from_bytes(...)."
                )
        return msgspec.structs.replace(self, attachments=given)


class ExecutionHookContext(AgentContext, frozen=True, kw_only=True):
    """execution_start, execution_end.

    No field of its own may be changed.
    """

    status: RunStatus = RunStatus.RUNNING
    stop_reason: StopReason | None = None
    outcome: ContinuationOutcome | None = None
    """At the end: what decided that it ended."""
    resumed: bool = False
    """At the start: the run continues after a pause."""

    @property
    def is_start(self) -> bool:
        """Whether this is the start rather than the end."""
        return self.point == "execution_start"


class StepHookContext(AgentContext, frozen=True, kw_only=True):
    """before_step, around_step, after_step.

    No field of its own may be changed; around_step may change the `state`.
    """

    step_index: int = 0
    step: Step | None = None
    """The step that was made; None before it."""

    @property
    def step_number(self) -> int:
        """The step's number, counted from one."""
        return self.step_index + 1


class AfterStepHookContext(StepHookContext, frozen=True, kw_only=True):
    """after_step: the step is there."""

    step: Step = Step(0)


class InferenceHookContext(AgentContext, frozen=True, kw_only=True):
    """before_inference, around_inference, after_inference.

    May be changed: `request` and `response` before, `request` around, `response` after.
    """

    request: InferenceRequest = InferenceRequest()
    response: InferenceResponse | None = None
    step_index: int = 0

    def with_request(self, request: InferenceRequest) -> Self:
        """This context with another request."""
        return msgspec.structs.replace(self, request=request)

    def with_response(self, response: InferenceResponse | str) -> Self:
        """This context with another response. Before the inference: the answer itself, and no model is called."""
        if isinstance(response, str):
            response = InferenceResponse(checked_text(response, "the response"))
        return msgspec.structs.replace(self, response=response)


class ToolHookContext(AgentContext, frozen=True, kw_only=True):
    """before_tool_use, permission_request, around_tool_use, after_tool_use.

    May be changed: `tool_call` and `execution` before, `tool_call` around, `execution` after.
    """

    tool_call: ToolCall = ToolCall("", "")
    """Arguments validated, coerced, with defaults filled in, read-only to any depth."""
    execution: ToolResult | None = None
    """The result; None before the tool has run, unless a hook gave one."""
    response: InferenceResponse | None = None
    """The turn of the model that made the call."""
    reason: str = ""
    """At permission_request: why a person is asked."""
    asked_by: str = ""
    also_asked_by: tuple[str, ...] = ()
    """The other hooks that asked about the same call: an answer is one to all of them."""
    step_index: int = 0

    @property
    def tool_result(self) -> ToolResult | None:
        """A second name for `execution`."""
        return self.execution

    @property
    def tool(self) -> Any:
        """The tool that the call runs; None if there is none, or if the hook is called without an agent."""
        return self.run.tool(self.tool_call.name) if self.has_run else None

    @property
    def is_before_tool(self) -> bool:
        """Whether the tool has not run yet."""
        return self.point != "after_tool_use"

    def with_tool_call(self, call: ToolCall) -> Self:
        """This context with another call; it is validated and judged again."""
        return msgspec.structs.replace(self, tool_call=call)

    def with_args(self, **changes: Any) -> Self:
        """This context with some arguments of the call changed."""
        return msgspec.structs.replace(self, tool_call=self.tool_call.with_args(**changes))

    def with_result(self, value: object) -> Self:
        """This context with this value as the result. Before the call: the tool does not run. None is a value."""
        call = self.tool_call
        execution = self.execution or ToolResult(call_id=call.id, name=call.name)
        return msgspec.structs.replace(self, execution=execution.with_result(value))

    def with_execution(self, execution: ToolResult) -> Self:
        """This context with another execution."""
        return msgspec.structs.replace(self, execution=execution)


class AfterToolHookContext(ToolHookContext, frozen=True, kw_only=True):
    """after_tool_use: the result is there."""

    execution: ToolResult = ToolResult()

    @property
    def tool_result(self) -> ToolResult:
        """A second name for `execution`."""
        return self.execution


class OutputHookContext(AgentContext, frozen=True, kw_only=True):
    """output: the final answer, before the caller gets it.

    May be changed: `output`.
    """

    output: Any = ""

    def with_output(self, output: Any) -> Self:
        """This context with another answer."""
        return msgspec.structs.replace(self, output=output)


class StopHookContext(AgentContext, frozen=True, kw_only=True):
    """should_continue, stop.

    No field of its own may be changed.
    """

    continuation: ContinuationOutcome = ContinuationOutcome()
    """The outcome so far."""
    step: Step = Step(0)
    """The step that was just made; an empty one if a hook ended the run before it was."""


class SubagentHookContext(AgentContext, frozen=True, kw_only=True):
    """subagent_start, subagent_stop: a child run, seen by its parent.

    May be changed: `prompt` at the start, `result` at the stop.
    """

    name: str = ""
    child_agent_id: str = ""
    child_run_id: str = ""
    prompt: str = ""
    result: Any = None
    """At the stop: the child's RunResult."""
    continuation: ContinuationOutcome | None = None
    """At the stop: why the child stopped."""

    def with_prompt(self, prompt: str) -> Self:
        """This context with another task for the child."""
        return msgspec.structs.replace(self, prompt=checked_text(prompt, "the prompt"))

    def with_result(self, result: Any) -> Self:
        """This context with another result of the child."""
        return msgspec.structs.replace(self, result=result)


class CompactHookContext(AgentContext, frozen=True, kw_only=True):
    """before_compact: history is about to be summarised.

    May be changed: `instructions`.
    """

    messages: Sequence[Message] = ()
    instructions: str = ""

    def with_instructions(self, instructions: str) -> Self:
        """This context with other instructions for the summary."""
        return msgspec.structs.replace(
            self, instructions=checked_text(instructions, "the instructions")
        )


class FailureHookContext(AgentContext, frozen=True, kw_only=True):
    """error, agent_failed.

    May be changed at error: `decision`, `execution`, `response`. The methods `retry`, `ignore` and `rescue` do it.
    """

    exception: BaseException | None = None
    error_class: ErrorClass = ErrorClass.UNKNOWN
    tool_call: ToolCall | None = None
    """The call that failed, if it was one."""
    step_index: int | None = None
    """The step it happened in; None when no step had begun."""
    decision: ErrorDecision = ErrorDecision(ErrorAction.STOP)
    """What is done about it: first what the error policy says, then what the last hook answered."""
    can_rescue: bool = False
    """Whether a result or an answer may take the place of what failed: of a call or of the model, not of a hook."""
    execution: ToolResult | None = None
    """With `rescue`: the result of the call."""
    response: InferenceResponse | None = None
    """With `rescue`: the answer of the model."""

    def retry(self, delay: float | None = None) -> Self:
        """Try again after so many seconds; None: as long as the error policy would wait.

        The limits of the run, and the budgets and `max_delay` of the error policy, hold. A tool that must run once is
        not run again.
        """
        if delay is None:
            delay = self.decision.delay
        if (
            isinstance(delay, bool)
            or not isinstance(delay, int | float)
            or not 0 <= delay < math.inf
        ):
            raise UsageError(f"{delay!r} is not a number of seconds.")
        return self._decide(ErrorAction.RETRY, float(delay))

    def ignore(self) -> Self:
        """Continue: the model reads what went wrong."""
        return self._decide(ErrorAction.IGNORE)

    def rescue(self, value: object) -> Self:
        """Continue with this as the result of the call, or as the answer of the model, as if nothing had failed.

        The hooks after a tool or after the inference judge it like any other.
        """
        if not self.can_rescue:
            raise UsageError(
                f"nothing can be rescued here ({self.error_class} error).",
                remedy="Only failed or invalid calls and failed model requests can be rescued.",
            )
        call = self.tool_call
        if call is not None:
            given = value if isinstance(value, ToolResult) else ToolResult().with_result(value)
            given = msgspec.structs.replace(given, call_id=call.id, name=call.name)
            return self._decide(ErrorAction.RESCUE, execution=given)
        if isinstance(value, str):
            value = InferenceResponse(checked_text(value, "the response"))
        return self._decide(ErrorAction.RESCUE, response=value)

    def _decide(self, action: ErrorAction, delay: float = 0.0, **rescued: object) -> Self:
        return msgspec.structs.replace(self, decision=ErrorDecision(action, delay), **rescued)

    @property
    def step_number(self) -> int:
        """The number of the step it happened in, counted from one; zero when no step had begun."""
        return 0 if self.step_index is None else self.step_index + 1

    @property
    def error_message(self) -> str:
        """The exception in words."""
        return str(self.exception) or self.error_type

    @property
    def error_type(self) -> str:
        """The name of the exception's class."""
        return type(self.exception).__name__
