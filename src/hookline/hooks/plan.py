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
from hookline.hooks.point import Point


class Crew(msgspec.Struct, frozen=True, gc=False):
    """Hooks that run one after the other at a point, by name: what is told of those that let things be."""

    point: str
    hooks: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()
    """The digests of those that are not Python; empty when all are."""

    def part(self, first: int, count: int) -> Crew:
        """Some of them."""
        if count == len(self.hooks):
            return self
        some = slice(first, first + count)
        return Crew(self.point, self.hooks[some], self.tiers[some], self.externals[some])


def _crew(point: str, entries: Iterable[Entry]) -> Crew:
    given = tuple(entries)
    digests = tuple(entry.registration.external for entry in given)
    return Crew(
        point=point,
        hooks=tuple(entry.name for entry in given),
        tiers=tuple(entry.tier_name for entry in given),
        externals=digests if any(digests) else (),
    )


class Entry:
    """One hook, ready to be called: matcher, timeout and kind of function are settled."""

    __slots__ = (
        "call",
        "crew",
        "is_async",
        "is_middleware",
        "is_policy",
        "is_recalled",
        "matches",
        "name",
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
        self.crew = _crew(self.point, (self,))
        self.shadow = registration.shadow
        self.is_recalled = False
        self.is_policy = registration.tier is Tier.POLICY
        self.is_middleware = registration.shape is Shape.MIDDLEWARE
        self.matches = None if registration.matcher is None else predicate(registration.matcher)
        target = target_of(registration.hook)
        self.is_async = registration.timeout is not None or is_async_callable(target)
        self.call = (
            target if registration.timeout is None else _with_timeout(target, registration.timeout)
        )

    def recalling(self, answer: Callable[[Any], Any]) -> Entry:
        """This hook as it answered before: it is not called again, and nothing more is told of it."""
        entry = copy.copy(self)
        entry.call = answer
        entry.is_recalled = True
        entry.is_async = entry.is_middleware = entry.shadow = False
        entry.matches = None
        entry.crew = Crew(self.point)
        return entry


class Plan:
    """The hooks of one point in the order they run. An empty plan is falsy and costs one look-up."""

    __slots__ = (
        "brief",
        "crew",
        "guard",
        "hooks",
        "is_flat",
        "judges",
        "observers",
        "point",
        "policies",
    )

    def __init__(self, point: Point[Any], registrations: Sequence[Registration] = ()) -> None:
        entries = [Entry(registration) for registration in registrations]
        self.point = point
        self.hooks = tuple(entry for entry in entries if entry.tier is Tier.HOOK)
        self.policies = tuple(entry for entry in entries if entry.tier is Tier.POLICY)
        self.observers = tuple(entry for entry in entries if entry.tier is Tier.OBSERVER)
        self.judges = self.hooks + self.policies
        self.crew = _crew(point.value, self.judges)
        self.is_flat = not any(
            entry.is_middleware or entry.shadow or entry.matches for entry in self.judges
        )
        self.brief = _brief(entries[0]) if self.is_flat and len(entries) == 1 else None
        self.guard = "" if self.brief is None else entries[0].name

    def __bool__(self) -> bool:
        return bool(self.judges or self.observers)

    def recalling(self, recall: Callable[[Entry], Entry]) -> Plan:
        """This plan with some of its hooks as they answered before."""
        plan = copy.copy(self)
        plan.hooks = tuple(map(recall, self.hooks))
        plan.policies = tuple(map(recall, self.policies))
        plan.observers = tuple(map(recall, self.observers))
        plan.judges = plan.hooks + plan.policies
        plan.is_flat = False  # told one by one, so that those who answered before can be left out
        plan.brief = None
        return plan

    def of_recalled(self) -> Plan:
        """This plan with nobody but those who answered before."""
        plan = self._only(lambda entry: entry.is_recalled)
        plan.observers = ()
        return plan

    def of_each_process(self) -> Plan:
        """This plan with nobody but those that every process asks which goes on with a run."""
        plan = self._only(lambda entry: entry.registration.each_process)
        plan.is_flat = False  # told one by one: its crew is not the whole of it
        plan.brief = None
        return plan

    def _only(self, keep: Callable[[Entry], bool]) -> Plan:
        plan = copy.copy(self)
        plan.hooks = tuple(filter(keep, self.hooks))
        plan.policies = tuple(filter(keep, self.policies))
        plan.observers = tuple(filter(keep, self.observers))
        plan.judges = plan.hooks + plan.policies
        return plan

    @property
    def decides(self) -> bool:
        """Whether anyone here can make a difference: not those who only look on, nor those in shadow."""
        return any(not entry.shadow for entry in self.judges)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All of them, in order."""
        return self.judges + self.observers


class Brief:
    """A hook that may be able to answer without a context, from what is alive, when it stands alone at its point.

    `brief(live)` gives None when it lets things be, what it has decided, or NotImplemented when it must be called
    after all. It saves the context, which costs more than a guard that only compares numbers.
    """

    brief: Callable[[Any], Any]

    def __call__(self, ctx: Any) -> Any:
        """What it answers with a context."""
        raise NotImplementedError


def _brief(entry: Entry) -> Callable[[Any], Any] | None:
    hook = entry.registration.hook
    if not isinstance(hook, Brief) or entry.tier is Tier.OBSERVER:
        return None
    return hook.brief if entry.registration.timeout is None else None


def _with_timeout(target: Callable[..., Any], seconds: float) -> Callable[..., Awaitable[Any]]:
    """The hook under a time limit: async hooks are cancelled, sync ones run in a thread and are abandoned."""
    is_async = is_async_callable(target)
    too_long = f"it took longer than {seconds:g} s"

    async def limited(*args: Any) -> Any:
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
            raise TimeoutError(too_long)  # it was cancelled and answered all the same: too late
        return answer

    return limited
