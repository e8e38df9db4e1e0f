"""`AgentBuilder`: describe an agent in any order, then build it. Everything that can be checked is checked here.

The methods that take hooks (`on_before_tool_use` and so on) are in `registration.py`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from inspect import signature
from types import EllipsisType
from typing import Any, Self, TypedDict, Unpack

import msgspec

from hookline._aio import is_async_callable, is_generator_callable
from hookline.agent.agent import Agent
from hookline.agent.capability import call_capability, complete
from hookline.agent.redaction import chain_redactors
from hookline.agent.registration import HookMethods
from hookline.definition import Approver, Clock, Definition
from hookline.definition.definition import CancelSource, OnInDoubt, Plans
from hookline.definition.guards import default_guards
from hookline.drivers import FALLBACK_ON, Driver, driver_for
from hookline.errors import BuildError, NoModelError, NotJSONError, RegistrationError
from hookline.flow import ErrorClass, ErrorPolicy, RunLimits
from hookline.hooks import CompositeMatcher, EventTypeMatcher, NotMatcher, Registration, Tier
from hookline.inspection.hook_code import effects_of, mentions
from hookline.journal import JournalStore, Listener
from hookline.journal.durable import Redact, RedactContent
from hookline.lifecycle import point_named
from hookline.state import EMPTY, FrozenDict, checked_text
from hookline.tools import Toolbox, as_tool


class LimitOptions(TypedDict, total=False):
    """The limits of a run and all its children."""

    steps: int | None
    tokens: int | None
    seconds: float | None
    """Active time: time a run spends paused, or waiting for whoever drives it step by step, does not count."""
    cost: float | None
    tool_calls: int | None
    objections: int
    """How often stop hooks may object to the end of the run."""


class AgentBuilder(HookMethods):
    """Describes an agent. Each method changes the builder and returns it; `build()` gives a frozen agent."""

    __slots__ = (
        "_capabilities",
        "_draft",
        "_installed",
        "_limits",
        "_on_build",
        "_registrations",
        "_source",
        "_tool_sources",
        "_tools",
        "_without",
    )

    def __init__(self) -> None:
        self._draft = _NOTHING_YET
        """All that a definition takes as it is given; the rest is made of the other parts when it is built."""
        self._tools: list[Any] = []
        self._tool_sources: list[str] = []
        self._registrations: list[Registration] = []
        self._capabilities: list[str] = []
        self._installed: list[Any] = []
        self._source = ""
        """The capability that is being installed."""
        self._limits = _DEFAULT_LIMITS
        self._without: set[str] = set()
        self._on_build: list[Callable[[Agent], Agent | None]] = []

    def _set(self, **parts: Any) -> AgentBuilder:
        self._draft = msgspec.structs.replace(self._draft, **parts)
        return self

    # --- the parts ----------------------------------------------------------------------------------

    def with_id(self, agent_id: str) -> AgentBuilder:
        """A name for the agent; a random one is made otherwise."""
        return self._set(agent_id=text_of(agent_id, "the agent's id"))

    def with_version(self, version: str, *, accepts: Iterable[str] = ()) -> AgentBuilder:
        """The version of the agent, as you count it: "1.4" or a commit. It is on record with each run.

        `accepts` are other versions whose runs this one continues. A worker leaves the runs of all others to other
        workers. In your own process, `resume` continues a run of any version: the record and a warning name both.
        """
        if isinstance(accepts, str):
            raise BuildError(
                f"accepts={accepts!r} is one text.", remedy=f"Give a list: [{accepts!r}]."
            )
        known = tuple(text_of(each, "a version that is accepted") for each in accepts)
        return self._set(version=text_of(version, "the agent's version"), accepts=known)

    def with_driver(self, driver: Driver) -> AgentBuilder:
        """The driver: the object that asks the model, once for each step."""
        check_driver(driver)
        return self._set(driver=driver)

    def with_model(
        self,
        model: str | Driver | Sequence[str | Driver],
        *,
        options: Mapping[str, Any] = EMPTY,
        tool_choice: str = "auto",
        fallback_on: Collection[ErrorClass | str] = FALLBACK_ON,
        **settings: Any,
    ) -> AgentBuilder:
        """The model: "anthropic:NAME", "script:FILE.json", a driver, or a list of these that is tried in order.

        `options` go with every request (temperature, say); `settings` are the provider's (base_url, timeout, ...).
        With a list, the next model is asked when one fails with a class of `fallback_on`.
        """
        return self.with_driver(
            driver_for(
                model,
                options=options,
                tool_choice=tool_choice,
                fallback_on=fallback_on,
                settings=settings,
            )
        )

    def with_tools(self, *tools: Any) -> AgentBuilder:
        """Tools: made with @tool, or plain functions with annotations."""
        self._tools.extend(tools)
        self._tool_sources.extend([self._source] * len(tools))
        return self

    def with_provider_tools(self, *names: str) -> AgentBuilder:
        """Tools that the provider may run itself, by name: "web_search", say. Without this they are refused.

        The model's options switch them on, in the provider's own form. No hook can keep such a tool from running:
        it has run when the answer comes.
        """
        if self._source:
            raise BuildError(
                f"capability '{self._source}' cannot allow tools that the provider runs.",
                remedy="Allow them yourself, with with_provider_tools(...).",
            )
        return self._set(provider_tools=tuple(text_of(name, "a provider's tool") for name in names))

    def with_system_prompt(self, text: str) -> AgentBuilder:
        """The text that goes to the model before the conversation."""
        return self._set(system_prompt=text_of(text, "the system prompt"))

    def with_limits(self, **limits: Unpack[LimitOptions]) -> AgentBuilder:
        """What a run, with its children, may spend. None takes a limit away; what is not named stays as it is."""
        changes: dict[str, Any] = dict(limits)
        known = LimitOptions.__annotations__
        if unknown := changes.keys() - known:
            raise BuildError(
                f"there is no limit {min(unknown)!r}.", remedy=f"Limits: {', '.join(known)}."
            )
        if "objections" in changes:
            self._set(max_objections=check_objections(changes.pop("objections")))
        if self._source:
            self._refuse_wider(changes)
        self._limits = RunLimits(**{**msgspec.structs.asdict(self._limits), **changes})
        return self

    def _refuse_wider(self, changes: dict[str, Any]) -> None:
        """What the user allows a run to spend, a capability cannot raise."""
        for name, value in changes.items():
            limit = getattr(self._limits, name)
            if limit is not None and (value is None or value > limit):
                raise BuildError(
                    f"capability '{self._source}' can only lower limits: {name} is {limit:g}, not {value!r}.",
                    remedy="Set a higher limit yourself, with with_limits(...) before the capability.",
                )

    def with_error_policy(self, policy: ErrorPolicy) -> AgentBuilder:
        """What happens when something fails."""
        if not isinstance(policy, ErrorPolicy):
            raise BuildError(
                f"{policy!r} is not an ErrorPolicy.",
                remedy="For example: ErrorPolicy.retry_tool_errors().",
            )
        return self._set(error_policy=policy)

    def with_approver(self, approver: Approver) -> AgentBuilder:
        """Who answers when a hook asks: a function of the pending approval, sync or async, or "deny"."""
        check_approver(approver)
        before = self._draft.approver
        if self._source and before is not None and approver not in (before, "deny"):
            raise BuildError(
                f"capability '{self._source}' cannot replace the approver of this agent.",
                remedy='Set the approver yourself, after the capability; a capability can only set "deny" here.',
            )
        return self._set(approver=approver)

    def with_approval_expiry(self, seconds: float | None) -> AgentBuilder:
        """How long a question can be answered; after that it is a no. None, the default: for ever."""
        check_expiry(seconds)
        before = self._draft.expire_after
        if self._source and before is not None and (seconds is None or seconds > before):
            raise BuildError(
                f"capability '{self._source}' can only make approvals expire sooner: "
                f"after {before:g} s, not {seconds!r}.",
                remedy="Set a longer time yourself, with with_approval_expiry(...) before the capability.",
            )
        return self._set(expire_after=seconds)

    def with_journal(
        self, journal: JournalStore, *, on_in_doubt: OnInDoubt = "tell"
    ) -> AgentBuilder:
        """Keep every run in a journal that outlives the process: `SQLiteJournal(path)`.

        `on_in_doubt` says what becomes of a call that had started when a process died and must run once: "tell"
        (the model reads that the outcome is unknown), "ask" (a person), or a function that finds out.
        """
        check_journal(journal, on_in_doubt)
        return self._set(journal=journal, on_in_doubt=on_in_doubt)

    def with_cancel_source(self, source: CancelSource) -> AgentBuilder:
        """Somebody outside who may cancel the runs of this agent: it hears when one begins and when it has ended."""
        check_cancel_source(source)
        return self._set(cancel_sources=(*self._draft.cancel_sources, source))

    def with_redaction(
        self, redact: Redact, *, content: RedactContent | None = None
    ) -> AgentBuilder:
        """Pass every record of a run and its children through a function before it is written, or shown to anyone.

        It is given JSON values and gives them without secrets; `Redaction(...)` is the ready-made one.
        Arguments of calls and progress messages go through `content`, if it is given: it also gets the text that came
        directly before, and takes out at least what `redact` does. A call runs with its own arguments; the state and
        the journal have the redacted ones.
        """
        check_redact(redact)
        if content is None:
            content = lambda value, _before="": redact(value)  # noqa: E731 - a function without a name
        check_redact(content)
        return self._set(
            redact=chain_redactors(redact, self._draft.redact),
            redact_content=chain_redactors(content, self._draft.redact_content),
        )

    def with_clock(self, clock: Clock) -> AgentBuilder:
        """Another clock: for tests."""
        return self._set(clock=clock)

    def on_event(self, listener: Listener) -> AgentBuilder:
        """Hear every record as it happens, of this agent's runs and their children. Nothing it does reaches a run."""
        check_listener(listener)
        return self._set(listeners=(*self._draft.listeners, listener))

    # --- hooks --------------------------------------------------------------------------------------

    def with_capability(self, capability: Any) -> AgentBuilder:
        """Tools and hooks that belong together, under one name, once."""
        name = name_of_capability(capability)
        if name in self._capabilities:
            raise BuildError(
                f"capability '{name}' is installed already.", remedy=instead_of_a_second(capability)
            )
        before = self._parts()
        self._capabilities.append(name)
        self._installed.append(capability)
        # A capability that is nothing but its user's words counts as the user, unless another one installs it.
        is_users = bool(getattr(capability, "speaks_for_user", False)) and not self._source
        self._source = "" if is_users else name
        try:
            for each in call_capability(capability, "hooks"):
                self.with_hooks(each)
            self.with_tools(*call_capability(capability, "tools"))
            configure = getattr(capability, "configure", None)
            if callable(configure):
                configure(self)
        except BaseException:
            for part, value in before.items():  # all of it or nothing: the builder is as it was
                setattr(self, part, value)
            raise
        self._source = before["_source"]
        return self

    def _parts(self) -> dict[str, Any]:
        """The builder's parts as they are now, the lists and sets among them copied."""
        parts = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: copy(part) if isinstance(part, list | set) else part
            for name, part in parts.items()
        }

    def without_default(self, name: str) -> AgentBuilder:
        """Leave out one of the default guards: `tool-calls`, `limits`. Not for capabilities."""
        check_left_out(name, self._limits, self._source)
        self._without.add(name)
        return self

    def _add(self, registration: Registration) -> Self:
        check_points(registration)
        check_asks(registration)
        if self._source:
            refuse_replacement(registration, self._source)
            registration = msgspec.structs.replace(registration, source=self._source)
        self._registrations.append(registration)
        return self

    # --- building -----------------------------------------------------------------------------------

    def on_build(self, callback: Callable[[Agent], Agent | None]) -> AgentBuilder:
        """Call a function with each agent that is built. It may give another agent in its place.

        Only for whoever builds the agent: a capability could replace guards by it.
        """
        if self._source:
            raise BuildError(
                f"capability '{self._source}' cannot replace the agent that is built.",
                remedy="Call on_build(...) yourself, on the builder.",
            )
        if not callable(callback):
            raise BuildError(f"on_build takes a function of the agent, not {callback!r}.")
        self._on_build.append(callback)
        return self

    def build(self, *, model: EllipsisType | None = ...) -> Agent:
        """The agent, frozen. The builder can build more.

        Without a model or a driver of its own it asks the model that HOOKLINE_MODEL names in the environment.
        `model=None` says that none is wanted: for explain, lint, replay and back-test. Such an agent cannot run.
        """
        if model not in (None, ...):
            raise BuildError(
                f"build takes model=None or no model, not {model!r}.",
                remedy="Name the model first: .with_model(...).build().",
            )
        own = tuple(self._registrations)
        registrations = (*guards_beside(own, self._limits, self._without), *own)
        driver, source = self._draft.driver, ""
        if driver is None and model is not None:
            driver, source = model_from_environment()
            if driver is None:
                raise NoModelError(
                    "this agent has no model.",
                    remedy='Name one: .with_model("provider:NAME"), or set HOOKLINE_MODEL. An agent that is never run, '
                    "for explain, lint, replay or back-test, is built with .build(model=None).",
                )
        definition = msgspec.structs.replace(
            self._draft,
            agent_id=self._draft.agent_id or f"agent-{os.urandom(6).hex()}",
            driver=driver,
            driver_source=source,
            toolbox=Toolbox(self._tools),
            registrations=registrations,
            plans=Plans(registrations),
            capabilities=tuple(self._capabilities),
            tool_capabilities=self._find_tool_capabilities(),
        )
        installed = zip(self._capabilities, self._installed, strict=True)
        agent = Agent(complete(definition, installed))
        for callback in self._on_build:
            agent = _call_on_build(agent, callback)
        return agent

    def _find_tool_capabilities(self) -> dict[str, str]:
        """Which capability each tool came with."""
        if not self._capabilities:
            return EMPTY
        pairs = zip(self._tools, self._tool_sources, strict=True)
        return FrozenDict({as_tool(each).name: source for each, source in pairs if source})


def _call_on_build(agent: Agent, callback: Callable[[Agent], Agent | None]) -> Agent:
    """The agent that a function gives in the place of one, or that one."""
    given = callback(agent)
    if given is None or isinstance(given, Agent):
        return given or agent
    raise BuildError(
        f"a function of on_build gave {given!r}, which is not an Agent.",
        remedy="Return an agent, or nothing.",
    )


_DEFAULT_LIMITS = RunLimits()
_NOTHING_YET = Definition(
    agent_id="",
    driver=None,
    toolbox=Toolbox(()),
    registrations=(),
    plans=Plans(()),
    error_policy=ErrorPolicy(),
)


# --- checks of what a builder is given ---------------------------------------------------------------


_MODEL = "HOOKLINE_MODEL"
"""The environment variable that names the model of agents to which none was given."""


def text_of(given: object, what: str) -> str:
    """Text as plain text; refuses what is none, and what could not be saved."""
    if not isinstance(given, str):
        raise BuildError(f"{what} is text, not {given!r}.")
    try:
        return checked_text(given, what)
    except NotJSONError as error:
        raise BuildError(error.message, remedy=error.remedy) from None


def model_from_environment() -> tuple[Driver | None, str]:
    """The driver for the model that the environment names, if it names one, and the name of the variable."""
    model = os.environ.get(_MODEL, "").strip()
    if not model:
        return None, ""
    try:
        return driver_for(model), _MODEL
    except BuildError as error:
        raise BuildError(f"{_MODEL}: {error.message}", remedy=error.remedy) from error


def check_driver(driver: Any) -> None:
    """A driver is an object with an `infer` that gives a response."""
    if isinstance(driver, type) or not callable(getattr(driver, "infer", None)):
        raise BuildError(
            f"{driver!r} is not a driver.",
            remedy="A driver has `async def infer(self, request, turn)`.",
        )
    if is_generator_callable(driver.infer):
        raise BuildError(
            f"the method infer of {driver!r} is a generator function, so it returns no response.",
            remedy="Return the response; send pieces of it with turn.emit_text(piece).",
        )


def check_objections(given: object) -> int:
    """How often stop hooks may object; refuses what is no number."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise BuildError(f"limit objections={given!r} is not a number of at least zero.")
    return given


def check_approver(approver: object) -> None:
    """Whoever answers questions is a function, or nobody."""
    if approver != "deny" and not callable(approver):
        raise BuildError(
            f"{approver!r} is not an approver.",
            remedy='Use a function (PendingApproval) -> Decision, or "deny".',
        )


def check_expiry(seconds: object) -> None:
    """A time after which a question is a no: some seconds, or none."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and 0 < seconds < math.inf):  # type: ignore[operator]
        raise BuildError(
            f"an approval cannot expire after {seconds!r} seconds.",
            remedy="Give a number above zero, or None.",
        )


def check_journal(journal: object, on_in_doubt: object) -> None:
    """A store of journals, and what to do about a call of which nobody knows what it did."""
    for method in ("open", "claim", "read", "runs", "post", "inbox"):
        if isinstance(journal, type) or not callable(getattr(journal, method, None)):
            raise BuildError(
                f"{journal!r} is not a journal.",
                remedy="Use SQLiteJournal(path), or a store with the methods of JournalStore.",
            )
    if on_in_doubt not in ("tell", "ask") and not callable(on_in_doubt):
        raise BuildError(
            f"on_in_doubt={on_in_doubt!r} says nothing.",
            remedy='Use "tell", "ask", or a function of the call in doubt.',
        )


def check_cancel_source(source: object) -> None:
    """Somebody outside who may cancel runs can watch them."""
    if isinstance(source, type) or not callable(getattr(source, "watch", None)):
        raise BuildError(
            f"{source!r} cannot cancel runs.",
            remedy="Use Cancellation(), or an object with watch(cancel) that gives a function to end the watch.",
        )


def check_redact(redact: object) -> None:
    """Whatever takes secrets out of records is a function."""
    if not callable(redact):
        raise BuildError(
            f"{redact!r} cannot redact anything.", remedy="Use a function of a JSON value."
        )


def check_listener(listener: object) -> None:
    """A listener is a plain function: nobody would await another."""
    if not callable(listener):
        raise BuildError(f"{listener!r} is not a listener.", remedy="Use a function of a record.")
    if is_async_callable(listener):
        raise BuildError(
            f"the listener {listener!r} is async, and nobody would await it.",
            remedy="Use a plain function; for async work read `agent.stream(...)` instead.",
        )


def name_of_capability(capability: Any) -> str:
    """What a capability is called; refuses what is none."""
    name = str(getattr(capability, "name", None) or type(capability).__name__)
    if isinstance(capability, type):
        raise BuildError(
            f"{name} is a class.", remedy=f"Pass an instance: {capability.__name__}()."
        )
    if not any(
        callable(getattr(capability, part, None))
        for part in ("hooks", "tools", "tools_for", "configure")
    ):
        raise BuildError(
            f"{capability!r} is not a capability.",
            remedy="It needs hooks(), tools() or configure(builder).",
        )
    return name


def instead_of_a_second(capability: Any) -> str:
    """What to do instead of giving an agent two capabilities of one name."""
    kind = type(capability)
    if kind.__module__.startswith("hookline.") and "name" not in signature(kind).parameters:
        return f"An agent has one {kind.__name__}: say in one what both should do."
    return "Give the second one another name."


def check_points(registration: Registration) -> None:
    """An event matcher that names no hook point would silently never match."""
    who = f"the matcher of hook '{registration.name}' at {registration.point.value}"
    waiting = [registration.matcher]
    while waiting:
        matcher = waiting.pop()
        if isinstance(matcher, EventTypeMatcher):
            for point in matcher.points:
                point_named(point, who)
        elif isinstance(matcher, CompositeMatcher):
            waiting.extend(matcher.parts)
        elif isinstance(matcher, NotMatcher):
            waiting.append(matcher.part)


def check_asks(registration: Registration) -> None:
    """Refuse a hook that asks where nobody can be asked, if its code plainly says so: it would fail when it does.

    Code that looks at its point may ask elsewhere. What is less plain is found by `lint()`, or when it runs.
    """
    point = registration.point
    if "ask" in point.verdicts or registration.tier is Tier.OBSERVER:
        return
    if not mentions(registration.hook, "ask"):  # reading the source takes milliseconds
        return
    effects = effects_of(registration.hook)
    if "ask" in effects.verdicts and not effects.looks_where_it_is:
        raise RegistrationError(
            f"hook '{registration.name}' at {point.value}: it answers HookOutcome.ask, but nobody can be asked there.",
            remedy="Register it at before_tool_use. A hook for several points must check ctx.point before it asks.",
        )


# --- the default guards: who may replace or leave out one ---------------------------------------------


_EVERY_LIMIT = RunLimits(steps=0, tokens=0, seconds=0, cost=0, tool_calls=0)
"""So that every default guard there may be is among the guards of these limits."""


def guards_beside(
    own: Iterable[Registration], limits: RunLimits, without: Collection[str]
) -> tuple[Registration, ...]:
    """The default guards that stay, beside an agent's own hooks."""
    guards = default_guards(limits)
    replaced = {(each.point, each.name): each for each in own if each.named}
    if not replaced and not without:
        return guards
    return tuple(
        guard
        for guard in guards
        if guard.name not in without
        and not _is_replaced(guard, replaced.get((guard.point, guard.name)))
    )


def check_left_out(name: str, limits: RunLimits, capability: str) -> None:
    """Refuse to leave out what is no default guard, and to leave one out at a capability's word."""
    known = {registration.name for registration in default_guards(limits)}
    if name not in known:
        raise BuildError(
            f"'{name}' is not a default guard.", remedy=f"Defaults: {', '.join(sorted(known))}."
        )
    if capability:
        raise BuildError(
            f"capability '{capability}' cannot leave out the default guard '{name}'.",
            remedy="Only the builder of the agent can: call without_default on the builder.",
        )


def refuse_replacement(registration: Registration, capability: str) -> None:
    """A capability adds to an agent: it takes nothing away that its user did not take away."""
    for guard in default_guards(_EVERY_LIMIT):
        if registration.named and (guard.point, guard.name) == (
            registration.point,
            registration.name,
        ):
            raise BuildError(
                f"capability '{capability}' cannot replace the default guard '{guard.name}' "
                f"at {guard.point.value}.",
                remedy="Give its hook another name; only the builder of the agent can replace a default.",
            )


def _is_replaced(guard: Registration, by: Registration | None) -> bool:
    """Whether a hook takes the place of a default guard. What takes the place of a policy must be one."""
    if by is None:
        return False
    if guard.tier is Tier.POLICY and (by.tier is not Tier.POLICY or by.shadow):
        what = "is in shadow" if by.shadow else f"has tier '{by.tier.value}'"
        raise BuildError(
            f"hook '{by.name}' at {by.point.value} replaces a policy, and {what}.",
            remedy="Register it with tier='policy' and without shadow, give it another name, "
            f"or say without_default('{guard.name}').",
        )
    return True
