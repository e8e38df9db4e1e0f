"""Hooks that fail: crashes, time-outs and cancellation, and what they count as."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from parcels import Parcel

from hookline.errors import HookError, HooklineError
from hookline.hooks import (
    Entry,
    HookAnswer,
    HookNames,
    HookOutcome,
    Kind,
    Point,
    Result,
    run_hooks,
)
from hookline.lifecycle import HookStack

NOTES = frozenset({"note"})
GATE = Point("gate", Parcel, changes=NOTES, blocks="the parcel stays", failure_blocks=True)
DOOR = Point("door", Parcel, changes=NOTES, blocks="the door stays shut")
LAST = Point("last", Parcel, changes=NOTES, verdicts=frozenset(), unskippable=True)


class Broken(Exception):
    """What a hook of the tests raises."""


class Wordless(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def crash(ctx: Parcel) -> None:
    """Fails at once."""
    raise Broken("down")


async def crash_later(ctx: Parcel) -> None:
    """Fails when it is awaited."""
    await asyncio.sleep(0)
    raise Broken("down")


def half_a_crash(ctx: Parcel) -> Any:
    """A plain function that gives a coroutine, which fails."""
    return crash_later(ctx)


CRASHES = [crash, crash_later, half_a_crash]


class Failures:
    """A hook log that keeps the failures."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, HookError]] = []

    def monotonic(self) -> float:
        return 0.0

    def report_context(self, ctx: Any) -> None:
        self.last = ctx

    def report_passed(self, names: HookNames, readings: Sequence[float]) -> None:
        pass

    def report_appended(self, entry: Entry, started: float, ctx: Any) -> float:
        return 0.0

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer) -> float:
        if answer.error is not None:
            self.kept.append((entry.name, answer.error))
        return 0.0


async def decide(*hooks: Any, point: Point[Any] = GATE, trail: Any = None) -> Result[Parcel]:
    """What hooks decide about a parcel; a pair brings options."""
    stack = HookStack()
    for hook in hooks:
        function, options = hook if isinstance(hook, tuple) else (hook, {})
        stack = stack.with_hook(function, point, **options)
    return await run_hooks(stack.plan(point), Parcel(point=point), trail or Failures())


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", CRASHES)
@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_a_crash_is_a_block_where_the_point_says_so(hook: Any, tier: str) -> None:
    """The chain ends, and the reason says what happened in which hook."""
    asked: list[Any] = []
    result = await decide(
        (hook, {"name": "guard", "tier": tier}), (asked.append, {"tier": "policy"})
    )
    assert (result.kind, result.decided_by, asked) == (Kind.BLOCK, "guard", [])
    assert result.reason == "hook 'guard' failed, so this is not let through: Broken: down"


@pytest.mark.parametrize("hook", CRASHES)
@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_a_crash_is_an_error_where_the_point_says_so(hook: Any, tier: str) -> None:
    """It names hook and point, and the exception itself is its cause."""
    with pytest.raises(HookError) as caught:
        await decide((hook, {"name": "guard", "tier": tier}), point=DOOR)
    assert (caught.value.hook, caught.value.point) == ("guard", "door")
    assert caught.value.problem == "Broken: down"
    assert isinstance(caught.value.__cause__, Broken)


@pytest.mark.parametrize("hook", [*CRASHES, lambda ctx: False])
@pytest.mark.parametrize("point", [GATE, DOOR, LAST])
async def test_a_hook_that_fails_open_is_recorded_and_skipped(hook: Any, point: Point[Any]) -> None:
    """Crash or nonsense: the others run, and the failure is on record."""
    trail = Failures()
    result = await decide(
        (hook, {"name": "loose", "on_failure": "open"}),
        lambda ctx: ctx.noted("next"),
        point=point,
        trail=trail,
    )
    assert (result.kind, result.context.note) == (Kind.PROCEED, "next")
    assert [name for name, _ in trail.kept] == ["loose"]


@pytest.mark.parametrize("point", [GATE, DOOR])
async def test_a_failure_is_recorded_whatever_it_counts_as(point: Point[Any]) -> None:
    """With the exception as its cause."""
    trail = Failures()
    try:
        await decide(crash, point=point, trail=trail)
    except HookError:
        assert point is DOOR
    ((name, error),) = trail.kept
    assert (name, type(error.__cause__)) == ("crash", Broken)


@pytest.mark.parametrize("point", [GATE, DOOR])
async def test_a_broken_matcher_is_a_failure_of_its_hook(point: Point[Any]) -> None:
    """A guard whose matcher fails still counts."""
    broken = (lambda ctx: None, {"name": "guard", "matcher": lambda ctx: ctx.missing})
    if point is GATE:
        assert (await decide(broken)).decided_by == "guard"
    else:
        with pytest.raises(HookError, match="hook 'guard' at door: AttributeError"):
            await decide(broken, point=point)


async def test_an_error_of_ours_keeps_its_remedy() -> None:
    """The hook is named in front of it."""

    def helpful(ctx: Parcel) -> None:
        raise HooklineError("the door is locked.", remedy="Bring the key.")

    with pytest.raises(HookError) as caught:
        await decide(helpful, point=DOOR)
    assert str(caught.value) == "hook 'helpful' at door: the door is locked. Bring the key."


@pytest.mark.parametrize("error", [StopIteration("x"), StopAsyncIteration(), GeneratorExit])
async def test_exceptions_python_uses_for_itself_are_crashes_too(error: Any) -> None:
    """StopIteration out of a hook ends nothing but the hook."""

    def hook(ctx: Parcel) -> None:
        raise error

    if error is GeneratorExit:
        with pytest.raises(GeneratorExit):
            await decide(hook)
    else:
        assert (await decide(hook)).is_blocked
        assert (await decide((hook, {"timeout": 30}))).is_blocked


async def test_an_exception_without_words_is_a_crash_like_any_other() -> None:
    """It does not get out because nobody could say what it was."""

    def hook(ctx: Parcel) -> None:
        raise Wordless

    result = await decide(hook, (hook, {"tier": "observer", "name": "eye"}))
    assert result.is_blocked
    assert "Wordless" in result.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
async def test_ending_the_program_ends_the_program(error: Any) -> None:
    """Interrupting it is nobody's verdict."""

    def hook(ctx: Parcel) -> None:
        raise error

    for options in ({}, {"tier": "observer"}):
        with pytest.raises(error):
            await decide((hook, {"on_failure": "open", **options}))


# --- points on the way out ------------------------------------------------------------------------


async def test_on_the_way_out_every_hook_runs_although_one_fails() -> None:
    """Then the first failure is raised, after the observers have looked on."""
    ran: list[str] = []
    with pytest.raises(HookError) as caught:
        await decide(
            (crash, {"name": "first"}),
            lambda ctx: ran.append("hook"),
            (lambda ctx: False, {"name": "second"}),
            (lambda ctx: ran.append("policy"), {"tier": "policy"}),
            (lambda ctx: ran.append("observer"), {"tier": "observer"}),
            point=LAST,
        )
    assert caught.value.hook == "first"
    assert ran == ["hook", "policy", "observer"]


async def test_on_the_way_out_a_block_is_a_failure_and_ends_nothing() -> None:
    """There is nothing left to block."""
    ran: list[str] = []
    with pytest.raises(HookError, match="nothing can be blocked here"):
        await decide(
            lambda ctx: HookOutcome.block("no"), lambda ctx: ran.append("hook"), point=LAST
        )
    assert ran == ["hook"]


async def test_elsewhere_the_first_error_ends_the_chain() -> None:
    """Nobody continues from what a broken hook left behind."""
    ran: list[str] = []
    with pytest.raises(HookError):
        await decide(crash, lambda ctx: ran.append("hook"), point=DOOR)
    assert ran == []


# --- time-outs ------------------------------------------------------------------------------------


async def test_a_slow_async_hook_is_cancelled_and_has_failed() -> None:
    """Closed: a block; the reason says how long it had."""
    cancelled = asyncio.Event()

    async def slow(ctx: Parcel) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    result = await decide((slow, {"timeout": 0.01}))
    assert cancelled.is_set()
    assert (result.is_blocked, result.decided_by) == (True, "slow")
    assert "TimeoutError: it took longer than 0.01 s" in result.reason


async def test_a_slow_sync_hook_is_abandoned_and_has_failed() -> None:
    """The loop stays free meanwhile, and what the hook says later counts for nothing."""
    release = threading.Event()

    def slow(ctx: Parcel) -> HookOutcome:
        release.wait(10)
        return HookOutcome.proceed(ctx.noted("late"))

    result = await decide((slow, {"timeout": 0.01}))
    release.set()
    await asyncio.sleep(0)
    assert (result.is_blocked, result.context.note) == (True, "")


async def test_a_time_out_counts_as_the_fail_mode_says() -> None:
    """An error where failures are errors; skipped where the hook fails open."""

    async def slow(ctx: Parcel) -> None:
        await asyncio.Event().wait()

    with pytest.raises(HookError, match="hook 'slow' at door: TimeoutError: it took longer"):
        await decide((slow, {"timeout": 0.01}), point=DOOR)
    result = await decide(
        (slow, {"timeout": 0.01, "on_failure": "open"}), lambda ctx: ctx.noted("next"), point=DOOR
    )
    assert result.context.note == "next"


async def test_a_hook_in_time_answers_as_without_a_limit() -> None:
    """Sync hooks too, although they run in a thread then."""
    result = await decide(
        (lambda ctx: ctx.noted("sync,"), {"timeout": 30}),
        (lambda ctx: HookOutcome.block("no", ctx.noted("block")), {"timeout": 30}),
    )
    assert (result.is_blocked, result.context.note) == (True, "sync,block")


# --- cancellation ---------------------------------------------------------------------------------


async def spurious(ctx: Parcel) -> None:
    """Awaits something that somebody else cancelled."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def spurious_sync(ctx: Parcel) -> None:
    """The same, without awaiting anything."""
    raise asyncio.CancelledError


@pytest.mark.parametrize("hook", [spurious, spurious_sync])
@pytest.mark.parametrize("options", [{}, {"timeout": 30}])
async def test_a_cancellation_nobody_asked_for_is_a_crash(
    hook: Any, options: dict[str, Any]
) -> None:
    """A block, an error, or isolated in an observer: it does not cancel the run."""
    assert (await decide((hook, options))).is_blocked
    with pytest.raises(HookError, match="CancelledError"):
        await decide((hook, options), point=DOOR)
    assert (await decide((hook, {"tier": "observer", **options}))).kind is Kind.PROCEED


async def waiting(ctx: Parcel) -> None:
    """Waits forever."""
    await asyncio.Event().wait()


class Wrapping:
    async def handle(self, ctx: Parcel, next: Any) -> Any:
        return await next(ctx)


@pytest.mark.parametrize("point", [GATE, DOOR, LAST])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"on_failure": "open"},
        {"tier": "policy"},
        {"tier": "observer"},
        {"timeout": 30},
        {"shadow": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_real_cancellation_passes_through(
    point: Point[Any], options: dict[str, Any], wrapped: bool
) -> None:
    """Whatever hook happens to be waiting, at any point, in any tier, inside middleware too."""
    hooks: list[Any] = [Wrapping()] if wrapped else []
    failures = Failures()
    task = asyncio.create_task(decide(*hooks, (waiting, options), point=point, trail=failures))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    name, failure = failures.kept[0]
    assert (name, failure.problem) == ("waiting", "it was cancelled while it waited.")
    wrapping = wrapped and options.get("tier") is None and point is not LAST
    assert [name for name, _ in failures.kept[1:]] == ["Wrapping"] * wrapping


async def test_a_real_cancellation_passes_a_sync_hook_in_its_thread() -> None:
    """The thread is abandoned."""
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(ctx: Parcel) -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait(10)

    task = asyncio.create_task(decide((slow, {"timeout": 30})))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


async def test_a_time_limit_of_the_caller_is_a_real_cancellation() -> None:
    """It ends the hooks and reaches the caller as the time-out it is."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await decide(waiting)
