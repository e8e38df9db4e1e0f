"""Where a run takes what comes from outside: hooks, models, tools, people, child runs, decisions about errors, time.

All of it passes this interface, and the loop never tests which class implements it:

| implementation | what it gives | used by |
|---|---|---|
| `AnswerSource` | what happens now; the loop records it | `run`, `stream`, `iterate` |
| `Resumed` | what is on record of the step that was not settled, then what happens now | `resume` |
| `ReplaySource` | the record, but hooks are asked; the first difference ends it | `replay` |
| `BacktestSource` | the record; other hooks are asked about each decision, to the end | `backtest` |

What is on record is found by key: step, point or kind, call id, name, attempt. The same work has the same key in every
process. `known` is what a run may stand by instead of doing it: policies still judge a call that has not started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import CoroutineType
from typing import Any, Generic, Protocol, TypeVar

from hookline.agent.in_progress import CallInProgress
from hookline.agent.records.index import RunIndex
from hookline.definition import CancelSource, Clock, Definition, Plans
from hookline.drivers.base import Turn, awaitable
from hookline.errors import ModelError
from hookline.flow import ErrorClass, ErrorDecision
from hookline.hooks import Plan
from hookline.journal import ChildStarted, Durable, HookRan, Record
from hookline.lifecycle import AgentContext
from hookline.state import Decision, Ending, InferenceRequest, InferenceResponse, PendingApproval

NOTHING = RunIndex()
NOBODY = object()
"""There is no approver: the run waits."""


class OfSetup(Protocol):
    """What a source needs to know of what a run was given."""

    @property
    def definition(self) -> Definition:
        """What its agent is made of."""
        ...


class OfRun(Turn, Protocol):
    """What a source needs to know of the run that asks it."""

    durable: Durable
    run_id: str
    step_index: int | None
    call_id: str

    @property
    def setup(self) -> OfSetup:
        """What it was given."""
        ...

    @property
    def parent(self) -> Any:
        """The run it is a part of."""
        ...


R = TypeVar("R", bound=OfRun)
UseTool = Callable[[R, CallInProgress], Awaitable[Any]]


class AnswerSource(Generic[R]):
    """The live source. Others override what they take from somewhere else."""

    known: RunIndex = NOTHING
    """What is on record of the step that continues, and stands."""
    is_replay = False
    """Results come from the record, so no call needs its real arguments: redacted ones are enough."""
    is_taken_up = False
    """The run had begun in another process, which did not live to settle it."""
    active_seconds = 0.0
    """Active time that went into what is known."""
    step_over: Callable[[R, Ending | None], Awaitable[Ending | None]] | None = None
    """Called before the first step, and after each with how that ended the run. Gives how the run ends, if it does."""

    _children: Counter[str] | None = None
    _read = 0

    # --- the record and the time --------------------------------------------------------------------

    def append(self, durable: Durable) -> Callable[[Record], None]:
        """What writes a record."""
        return durable.append

    def settle(self, run: R) -> None:
        """A step is settled, or waits, and that is on record."""

    def clock(self, definition: Definition) -> Clock:
        """The clock of a run."""
        return definition.clock

    def cancel_sources(self, definition: Definition) -> Sequence[CancelSource]:
        """Who may cancel the run from outside."""
        return definition.cancel_sources

    # --- hooks --------------------------------------------------------------------------------------

    def plans(self, run: R, plans: Plans) -> Plans:  # noqa: ARG002 - for other sources
        """The hooks of a run, by point."""
        return plans

    def hooks(self, run: R, plan: Plan, ctx: AgentContext) -> Plan:  # noqa: ARG002 - for other sources
        """Who is asked this time, and who answers from the record."""
        return plan

    def answers_about(self, call_id: str) -> Sequence[HookRan]:  # noqa: ARG002 - for other sources
        """What hooks said about a call before it ran, in a process that died."""
        return ()

    def decide(
        self,
        run: R,
        error: BaseException,
        error_class: ErrorClass,
        failures: int,
        call_id: str,  # noqa: ARG002 - for other sources
    ) -> ErrorDecision:
        """What the error policy says. `call_id` names the call that failed, if it was one."""
        errors = run.state.counters.errors
        return run.setup.definition.error_policy.decide(error_class, failures, errors, error)

    # --- models -------------------------------------------------------------------------------------

    def infer(self, run: R, request: InferenceRequest) -> Awaitable[InferenceResponse]:
        """The model's answer."""
        driver = run.setup.definition.driver
        if driver is None:
            raise ModelError(
                "this agent has no model.",
                remedy='Give it one: AgentBuilder().with_model("provider:NAME"), or set HOOKLINE_MODEL.',
            )
        given = driver.infer(request, run)
        return given if type(given) is CoroutineType else awaitable(driver, given)

    async def consultation(self, run: R, name: str, digest: str) -> InferenceResponse | None:  # noqa: ARG002 - for other sources
        """What a model has answered a hook that asks this. None: it is asked now, and the run pays."""
        return None

    # --- tools --------------------------------------------------------------------------------------

    def use(self, run: R, current: CallInProgress, use: UseTool[R]) -> Awaitable[Any]:
        """What a tool gives."""
        return use(run, current)

    def was_in_doubt(self, run: R, call_id: str) -> bool:  # noqa: ARG002 - for other sources
        """Whether a call is on record as one that had started, and nobody knows what it did."""
        return False

    # --- people -------------------------------------------------------------------------------------

    async def handed_over(self, run: R, question: str) -> Decision | None:
        """The answer that was given to `resume`."""
        return await run.durable.wait(question)

    def approve(self, run: R, approval: PendingApproval) -> Any:
        """What the approver of the run says, or of one above it, which may have to be awaited; NOBODY without one."""
        above: Any = run
        while above is not None:
            approver = above.definition.approver
            if approver == "deny":
                return Decision.deny("nobody is there to approve it")
            if approver is not None:
                return approver(approval)
            above = above.parent
        return NOBODY

    # --- child runs ---------------------------------------------------------------------------------

    async def for_child(self, run: R, child_id: str) -> AnswerSource[R]:  # noqa: ARG002 - for other sources
        """The source of a child run that begins now, or continues."""
        return AnswerSource()

    def child_key(self, run: R, asked: str) -> str:
        """The key of a child that a hook starts to ask this: numbered, in a step, over all processes."""
        self._children = started = self._children or Counter()
        records = run.durable.records
        for record in records[self._read :]:  # each once: a run may start many
            if isinstance(record, ChildStarted):
                started[record.child_run_id.rpartition("/")[0]] += 1
        self._read = len(records)
        return f"{asked}/{started[f'{run.run_id}/{run.step_index}/{asked}'] + 1}"

    def child_definition(
        self,
        run: R,  # noqa: ARG002 - for other sources
        definition: Definition,
        child_id: str,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> Definition:
        """What a child run that a hook starts is made of."""
        return definition
