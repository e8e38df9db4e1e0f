"""What a builder is given, checked: whatever cannot be the part it is given as is refused, with the remedy."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable
from inspect import signature
from typing import Any

from hookline._aio import is_async_callable, is_generator_callable
from hookline.definition.guards import default_guards
from hookline.drivers import Driver, driver_for
from hookline.errors import BuildError, NotJSONError, RegistrationError
from hookline.flow import RunLimits
from hookline.hooks import CompositeMatcher, EventTypeMatcher, NotMatcher, Registration, Tier
from hookline.inspection.hook_code import effects_of, mentions
from hookline.lifecycle import point_named
from hookline.state import checked_text

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


def checked_objections(given: object) -> int:
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
