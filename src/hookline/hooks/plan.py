"""What runs at one point: registrations folded into callables, once, when an agent is built."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from hookline._aio import call_in_thread, is_async_callable
from hookline.hooks.hook import Registration, Shape, Tier, target_of
from hookline.hooks.match import predicate
from hookline.hooks.point_type import Point


class HookNames(msgspec.Struct, frozen=True, gc=False):
    """The names of hooks that run one after the other at a point, for the hook log."""

    point: str
    hooks: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()
    """The digests of those that are not Python; empty when all are."""

    def part(self, first: int, end: int) -> HookNames:
        """Some of them."""
        if end - first == len(self.hooks):
            return self
        some = slice(first, end)
        return HookNames(self.point, self.hooks[some], self.tiers[some], self.externals[some])


def _names(point: str, entries: Iterable[Entry]) -> HookNames:
    given = tuple(entries)
    digests = tuple(entry.registration.external for entry in given)
    return HookNames(
        point=point,
        hooks=tuple(entry.name for entry in given),
        tiers=tuple(entry.tier_name for entry in given),
        externals=digests if any(digests) else (),
    )


class Entry:
    """One hook, ready to be called: matcher, timeout and kind of function are settled."""

    __slots__ = (
        "call",
        "has_recorded_answer",
        "is_async",
        "is_middleware",
        "is_policy",
        "is_silent",
        "matches",
        "name",
        "names",
        "point",
        "registration",
        "shadow",
        "tier",
        "tier_name",
    )

    def __init__(self, registration: Registration) -> None:
        self.registration = registration
        self.name = registration.name
        self.point = registration.point.value
        self.tier = registration.tier
        self.tier_name = registration.tier.value
        self.names = _names(self.point, (self,))
        self.shadow = registration.shadow
        self.has_recorded_answer = False
        self.is_policy = registration.tier is Tier.POLICY
        self.is_middleware = registration.shape is Shape.MIDDLEWARE
        self.is_silent = not (self.is_middleware or self.shadow)
        """If it answers None, there is nothing to record but that it was asked."""
        self.matches = None if registration.matcher is None else predicate(registration.matcher)
        target = target_of(registration.hook)
        self.is_async = registration.timeout is not None or is_async_callable(target)
        self.call = (
            target if registration.timeout is None else with_timeout(target, registration.timeout)
        )

    def with_answer(self, answer: Callable[[Any], Any]) -> Entry:
        """This hook with an answer from the record: it is not called again, and not recorded again."""
        entry = copy.copy(self)
        entry.call = answer
        entry.has_recorded_answer = True
        entry.is_async = entry.is_middleware = entry.is_silent = entry.shadow = False
        entry.matches = None
        return entry


class Plan:
    """The hooks of one point, in the order in which they run. A plan without hooks is false."""

    __slots__ = (
        "answer_without_context",
        "guard",
        "hooks",
        "judges",
        "names",
        "observers",
        "point",
        "policies",
    )
    answer_without_context: Callable[[Any], Any] | None

    def __init__(self, point: Point[Any], registrations: Sequence[Registration] = ()) -> None:
        entries = [Entry(registration) for registration in registrations]
        self.point = point
        self._set_entries(entries)
        answer = _context_free_answer(entries[0]) if len(entries) == 1 else None
        if answer is not None:
            self.answer_without_context, self.guard = answer, entries[0].name

    def __bool__(self) -> bool:
        return bool(self.judges or self.observers)

    def map_entries(self, change: Callable[[Entry], Entry]) -> Plan:
        """This plan with each of its hooks changed: some may have an answer from the record."""
        return self.with_entries(map(change, self.entries))

    def only_recorded(self) -> Plan:
        """This plan with only the hooks that have a recorded answer."""
        return self.with_entries(entry for entry in self.judges if entry.has_recorded_answer)

    def of_each_process(self) -> Plan:
        """This plan with only the hooks that each process asks when it continues a run."""
        return self.with_entries(each for each in self.entries if each.registration.each_process)

    def with_entries(self, entries: Iterable[Entry]) -> Plan:
        """This plan with other hooks, in this order in each tier. They are always asked with a context."""
        plan = copy.copy(self)
        plan._set_entries(list(entries))
        return plan

    def _set_entries(self, entries: Sequence[Entry]) -> None:
        self.hooks = tuple(entry for entry in entries if entry.tier is Tier.HOOK)
        self.policies = tuple(entry for entry in entries if entry.tier is Tier.POLICY)
        self.observers = tuple(entry for entry in entries if entry.tier is Tier.OBSERVER)
        self.judges = self.hooks + self.policies
        self.names = _names(self.point.value, self.judges)
        self.answer_without_context = None
        self.guard = ""

    @property
    def can_decide(self) -> bool:
        """Whether a hook here can decide something: not an observer, and not one in shadow."""
        return any(not entry.shadow for entry in self.judges)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All of them, in order."""
        return self.judges + self.observers


class ContextFreeHook:
    """A hook that can often answer without a context, from the run itself, when it is alone at its point.

    `answer_without_context(run)` returns something false when there is no objection. Otherwise it returns the decision,
    or anything true, and the hook is called with a context. A context costs more than to compare a few numbers.
    """

    answer_without_context: Callable[[Any], Any]


def _context_free_answer(entry: Entry) -> Callable[[Any], Any] | None:
    hook = entry.registration.hook
    if not isinstance(hook, ContextFreeHook) or not entry.is_silent or entry.tier is Tier.OBSERVER:
        return None
    registration = entry.registration
    return (
        hook.answer_without_context
        if registration.matcher is None and registration.timeout is None
        else None
    )


def with_timeout(target: Callable[..., Any], seconds: float) -> Callable[..., Awaitable[Any]]:
    """The hook under a time limit: async hooks are cancelled, sync ones run in a thread and are abandoned."""
    is_async = is_async_callable(target)
    too_long = f"it took longer than {seconds:g} s"

    async def run_in_time(*args: Any) -> Any:
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                answer = target(*args) if is_async else await call_in_thread(target, *args)
                if inspect.isawaitable(answer):
                    answer = await answer
        except TimeoutError as error:
            if timer.expired():
                raise TimeoutError(too_long) from error
            raise
        if timer.expired():
            raise TimeoutError(too_long)  # it was cancelled and answered anyway: too late
        return answer

    return run_in_time
