"""A plan: the hooks of one point, ready to be called."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

from hookline.hooks import (
    Context,
    ContextFreeHook,
    Entry,
    HookOptions,
    Plan,
    Point,
    Tier,
    ToolNameMatcher,
    register,
)

GATE = Point("gate", Context)
CTX = Context(point=GATE)


class Middleware:
    async def handle(self, ctx: Context, next: Any) -> Any:
        return await next(ctx)


def hook(ctx: Context) -> Any:
    """Any hook."""
    return ctx


def entry(hook: Any = hook, **options: Any) -> Entry:
    """A hook as a plan calls it."""
    return Entry(register(GATE, hook, options))


def test_an_empty_plan_is_falsy() -> None:
    """A point nobody hooks is recognised by one look."""
    assert not Plan(GATE)
    assert Plan(GATE).entries == ()


@pytest.mark.parametrize("tier", list(Tier))
def test_a_plan_with_any_hook_is_truthy(tier: Tier) -> None:
    """An observer counts too."""
    assert Plan(GATE, [register(GATE, hook, HookOptions(tier=tier))])


def test_a_plan_keeps_the_order_and_separates_the_tiers() -> None:
    """Judges are hooks and policies; observers come after them."""
    given = [("a", "hook"), ("b", "hook"), ("c", "policy"), ("d", "observer"), ("e", "observer")]
    plan = Plan(
        GATE, [register(GATE, hook, HookOptions(name=name, tier=tier)) for name, tier in given]
    )

    def named(entries: tuple[Entry, ...]) -> str:
        return "".join(each.name for each in entries)

    assert (named(plan.hooks), named(plan.policies), named(plan.observers)) == ("ab", "c", "de")
    assert (named(plan.judges), named(plan.entries)) == ("abc", "abcde")
    assert plan.point is GATE


@pytest.mark.parametrize("tier", ["hook", "policy"])
def test_a_hook_is_asked_without_a_context_only_if_it_needs_none(tier: str) -> None:
    """Not one with a matcher or a time limit, one in shadow, or one that is not alone."""

    class Short(ContextFreeHook):
        def answer_without_context(self, live: object) -> None:
            """It lets things be."""

        def __call__(self, ctx: Context) -> None: ...

    def is_asked_without_context(*others: Any, **options: Any) -> bool:
        short = register(GATE, Short(), HookOptions(tier=tier, **options))
        return Plan(GATE, [short, *others]).answer_without_context is not None

    assert is_asked_without_context()
    assert not is_asked_without_context(timeout=1)
    assert not is_asked_without_context(matcher="bash")
    assert not is_asked_without_context(shadow=True)
    assert not is_asked_without_context(register(GATE, hook))


def test_an_entry_has_at_hand_what_the_engine_asks() -> None:
    """Names as plain text, the matcher as a test, the kind of hook as flags."""
    made = entry(Middleware(), name="guard", tier="policy", matcher=ToolNameMatcher("*"))
    assert (made.name, made.tier_name, made.point) == ("guard", "policy", "gate")
    assert type(made.point) is str
    assert (made.is_policy, made.is_middleware, made.is_async) == (True, True, True)
    assert made.matches is not None
    assert made.matches(CTX) is False
    assert not made.shadow
    plain = entry()
    assert (plain.is_policy, plain.is_middleware, plain.is_async) == (False, False, False)
    assert plain.matches is None


async def later(ctx: Context) -> Context:
    """An async hook."""
    return ctx


class Later:
    async def __call__(self, ctx: Context) -> Context:
        return ctx


@pytest.mark.parametrize("hook", [later, functools.partial(later), Later()])
async def test_async_hooks_are_known_in_every_disguise(hook: Any) -> None:
    """What they return is awaited without being asked whether it can be."""
    made = entry(hook)
    assert made.is_async
    assert await made.call(CTX) is CTX


@pytest.mark.parametrize("given", [hook, later, functools.partial(later), lambda ctx: later(ctx)])
async def test_a_hook_within_its_time_gives_its_answer(given: Any) -> None:
    """Sync, async, or a plain function that gives something to be awaited."""
    made = entry(given, timeout=30)
    assert made.is_async
    assert await made.call(CTX) is CTX


async def test_a_sync_hook_with_a_timeout_runs_in_a_thread() -> None:
    """Otherwise nothing could end the waiting; without a timeout it runs where it is."""
    seen: list[int] = []
    await entry(lambda ctx: seen.append(threading.get_ident()), timeout=30).call(CTX)
    entry(lambda ctx: seen.append(threading.get_ident())).call(CTX)
    assert seen[0] != threading.get_ident()
    assert seen[1] == threading.get_ident()


async def test_an_async_hook_that_takes_too_long_is_cancelled() -> None:
    """It can clean up, and the error says how long it had."""
    ended = asyncio.Event()

    async def slow(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError, match=r"it took longer than 0.01 s"):
        await entry(slow, timeout=0.01).call(CTX)
    assert ended.is_set()


async def test_a_sync_hook_that_takes_too_long_is_abandoned() -> None:
    """It continues in its thread, and its answer is ignored."""
    release, done = threading.Event(), threading.Event()

    def slow(ctx: Context) -> str:
        release.wait(10)
        done.set()
        return "too late"

    with pytest.raises(TimeoutError, match=r"it took longer than 0.01 s"):
        await entry(slow, timeout=0.01).call(CTX)
    assert not done.is_set()
    release.set()
    assert await asyncio.to_thread(done.wait, 10)


async def test_a_hook_that_will_not_be_cancelled_has_timed_out_all_the_same() -> None:
    """Its answer came too late to count."""

    async def stubborn(ctx: Context) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "too late"
        raise AssertionError

    with pytest.raises(TimeoutError, match=r"it took longer than 0.01 s"):
        await entry(stubborn, timeout=0.01).call(CTX)


async def test_a_timeout_of_the_hooks_own_stays_its_own() -> None:
    """It is a crash like any other, not ours."""

    async def impatient(ctx: Context) -> None:
        raise TimeoutError("the database")

    with pytest.raises(TimeoutError, match="the database"):
        await entry(impatient, timeout=30).call(CTX)
