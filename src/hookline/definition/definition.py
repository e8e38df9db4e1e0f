"""What an agent is made of, once it is built: frozen, and shared by all its runs."""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from hookline.definition.guards import limit_reached_in_step
from hookline.drivers import Driver
from hookline.flow import ErrorPolicy
from hookline.hooks import Plan, Point, Registration, sort_hooks, unique_names
from hookline.journal import JournalStore, Listener
from hookline.journal.durable import Redact, RedactContent, StoredRecords
from hookline.lifecycle import HookPoint
from hookline.state import EMPTY, Decision, PendingApproval, ToolCall
from hookline.tools import Toolbox

Approver: TypeAlias = (
    Callable[[PendingApproval], Decision | bool | Awaitable[Decision | bool]] | Literal["deny"]
)
"""Answers for a person: a function of the pending approval, sync or async; "deny" says no at once."""


class CancelSource(Protocol):
    """An object outside of a run that may cancel it."""

    def watch(self, cancel: Callable[[str], bool]) -> Callable[[], None]:
        """A run begins: `cancel(reason)` ends it, from any thread. What is given back is called when it has ended."""
        ...


class Clock(Protocol):
    """The clock of a run: wall time, monotonic time, and a way to wait. Tests replace it."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()
    now = staticmethod(time.time)
    monotonic = staticmethod(time.perf_counter)
    sleep = staticmethod(asyncio.sleep)


SYSTEM_CLOCK: Clock = SystemClock()


class Doubt(enum.Enum):
    """What a check of a call in doubt may answer, if it does not give the result."""

    NOT_DONE = "it did nothing: run it"
    UNKNOWN = "the outcome is unknown: the model reads that"


class InDoubt(msgspec.Struct, frozen=True):
    """A call in doubt, as a check gets it."""

    call: ToolCall
    idempotency_key: str
    """The key that the tool got, and may have sent to the system it changed."""


OnInDoubt: TypeAlias = Literal["tell", "ask"] | Callable[[InDoubt], Any | Awaitable[Any]]
"""What to do about a call in doubt: tell the model, ask a person, or a function that finds out."""


_NAMES = tuple(point.value for point in HookPoint)


class Plans:
    """One attribute per hook point: its plan, or None, so that a point without hooks costs one look-up."""

    __slots__ = (*_NAMES, "limit_reached")

    session_start: Plan | None
    execution_start: Plan | None
    prompt_submit: Plan | None
    around_step: Plan | None
    before_step: Plan | None
    before_inference: Plan | None
    around_inference: Plan | None
    after_inference: Plan | None
    before_tool_use: Plan | None
    permission_request: Plan | None
    around_tool_use: Plan | None
    after_tool_use: Plan | None
    after_step: Plan | None
    should_continue: Plan | None
    stop: Plan | None
    output: Plan | None
    execution_end: Plan | None
    error: Plan | None
    agent_failed: Plan | None
    subagent_start: Plan | None
    subagent_stop: Plan | None
    before_compact: Plan | None
    session_end: Plan | None

    def __init__(
        self, own: tuple[Registration, ...], inherited: tuple[Registration, ...] = ()
    ) -> None:
        by_point: dict[Point[Any], list[Registration]] = {}
        for registration in own:
            if registration.scope == "children":
                continue  # it holds in child runs only
            by_point.setdefault(registration.point, []).append(registration)
        names = {registration.name for registration in own}
        above: dict[Point[Any], list[Registration]] = {}
        for registration in inherited:
            above.setdefault(registration.point, []).append(registration)
        for name in _NAMES:
            setattr(self, name, None)
        for point in {**by_point, **above}:
            plan = _plan(point, by_point.get(point), above.get(point), names)
            setattr(self, point.value, plan)
        self.limit_reached = limit_reached_in_step(self.before_step)
        """Which limit is used up before the calls of a step, if one is; None when none is set."""

    def of(self, point: str) -> Plan | None:
        """The plan of a point, by name."""
        plan: Plan | None = getattr(self, point)
        return plan


def _plan(
    point: Point[Any],
    own: list[Registration] | None,
    above: list[Registration] | None,
    names: set[str],
) -> Plan:
    if (
        above is None
        and own is not None
        and all(registration.source == "default" for registration in own)
    ):
        return _default_plan(point, tuple(map(_Same, own)))
    ordered = sort_hooks(unique_names(own), names) if own else ()
    # Hooks from above keep the order they have there, and come first in their tier.
    return Plan(point, (*(above or ()), *ordered))


class _Same:
    """A registration compared by identity, so that plans of default guards are made once."""

    __slots__ = ("registration",)

    def __init__(self, registration: Registration) -> None:
        self.registration = registration

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.registration is self.registration

    def __hash__(self) -> int:
        return id(self.registration)


@lru_cache(maxsize=256)
def _default_plan(point: Any, guards: Sequence[_Same]) -> Plan:
    return Plan(point, sort_hooks([guard.registration for guard in guards]))


class Note(msgspec.Struct, frozen=True):
    """What a capability says about itself in an agent: a line of `explain()`, and of `lint()` if it is a problem."""

    text: str
    is_problem: bool = False
    remedy: str = ""
    capability: str = ""
    """Whose it is; filled in when the agent is built."""
    hook: str = ""
    """The hook it is about, if it says why that hook never runs: `lint()` does not report it again."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run needs to know about its agent."""

    agent_id: str
    driver: Driver | None
    toolbox: Toolbox
    registrations: tuple[Registration, ...]
    plans: Plans
    error_policy: ErrorPolicy
    driver_source: str = ""
    """Where the driver comes from, if the builder was not given one."""
    version: str = ""
    """The version that the records of its runs name."""
    accepts: tuple[str, ...] = ()
    """Other versions whose runs it continues."""
    system_prompt: str = ""
    provider_tools: tuple[str, ...] = ()
    """Tools that the provider may run itself, by name."""
    approver: Approver | None = None
    expire_after: float | None = None
    """How many seconds a question can be answered."""
    listeners: tuple[Listener, ...] = ()
    journal: JournalStore | None = None
    on_claim: Callable[[StoredRecords], Awaitable[None]] | None = None
    """Asked with the records of a run that is resumed, when it is claimed, before anything is written and any hook is
    asked. If it raises, the claim is given back. Workers decide here whether they drive the run."""
    redact: Redact | None = None
    """What every record goes through before it is written or reported."""
    redact_content: RedactContent | None = None
    """What arguments of calls and progress messages go through before that."""
    on_in_doubt: OnInDoubt = "tell"
    clock: Clock = SYSTEM_CLOCK
    max_objections: int = 8
    cancel_sources: tuple[CancelSource, ...] = ()
    capabilities: tuple[str, ...] = ()
    tool_capabilities: dict[str, str] = EMPTY
    """The capability that each tool came with, by the name of the tool."""
    protected_files: tuple[str, ...] = ()
    """Files that guard the agent. No agent in the same tree of runs may change them."""
    guarded_since: int = 0
    """When the agent was built (`time.time_ns`). An agent may have made the changes since then."""
    protectors: tuple[Callable[[Definition], None], ...] = ()
    """Functions that keep the tools of this agent from the protected files and the journal of a given agent."""
    notes: tuple[Note, ...] = ()
