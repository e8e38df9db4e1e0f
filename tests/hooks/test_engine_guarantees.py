"""Failures that everybody hears of, ways out that are taken to the end, and matchers that cannot be what was meant."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from hookline.errors import HookError, RegistrationError
from hookline.hooks import (
    CallableMatcher,
    CompositeMatcher,
    Context,
    Failure,
    HookOutcome,
    HookStack,
    Kind,
    Matcher,
    MetadataMatcher,
    NotMatcher,
    Point,
    Result,
    ToolArgsMatcher,
    ToolNameMatcher,
    Verdict,
)


class Parcel(Context, frozen=True, kw_only=True):
    note: str = ""
    verdict: Verdict | None = None

    def noted(self, text: str) -> Parcel:
        return msgspec.structs.replace(self, note=self.note + text)


NOTES = frozenset({"note"})
GATE = Point("gate", Parcel, changes=NOTES, blocks="the parcel stays", failure=Failure.BLOCK)
DOOR = Point("door", Parcel, changes=NOTES, blocks="the door stays shut")
LAST = Point("last", Parcel, changes=NOTES, verdicts=frozenset(), unskippable=True)


class PassOn:
    """Middleware that only hands on."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        return await next(ctx)


class Swallow:
    """Middleware that hides whatever goes wrong behind it."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        try:
            return await next(ctx)
        except Exception:
            return None


def crash(ctx: Any) -> None:
    """Fails at once."""
    raise ValueError("down")


async def wait(ctx: Any) -> None:
    """Waits to be cancelled."""
    await asyncio.sleep(10)


async def decide(*hooks: Any, point: Point[Any] = GATE) -> Result[Parcel]:
    """Ask these hooks, each alone or with its options."""
    stack = HookStack()
    for each in hooks:
        hook, options = each if isinstance(each, tuple) else (each, {})
        stack = stack.with_hook(hook, point, **options)
    return await stack.process(Parcel(point=point))


# --- observers hear of failures -------------------------------------------------------------------


@pytest.mark.parametrize("point", [DOOR, LAST])
@pytest.mark.parametrize(
    "in_front", [(), (PassOn(),), (Swallow(),), (PassOn(), Swallow())], ids=["", "m", "s", "ms"]
)
async def test_observers_see_that_a_hook_failed_before_the_error_is_raised(
    point: Point[Any], in_front: tuple[Any, ...]
) -> None:
    """At every point where a failure is an error, and whatever middleware stands in front."""
    seen: list[Any] = []
    with pytest.raises(HookError) as caught:
        await decide(
            *in_front,
            lambda ctx: ctx.noted("before"),
            (crash, {"name": "broken"}),
            (lambda ctx: seen.append((ctx.note, ctx.verdict)), {"tier": "observer"}),
            point=point,
        )
    assert caught.value.hook == "broken"
    assert seen == [("before", Verdict(Kind.FAILED, "ValueError: down", "broken"))]
    assert seen[0][1].label == "failed"


async def test_a_failure_that_counts_as_a_block_is_shown_as_one() -> None:
    """There the verdict is what the run goes by."""
    seen: list[Any] = []
    await decide(crash, (lambda ctx: seen.append(ctx.verdict.label), {"tier": "observer"}))
    assert seen == ["block"]


async def test_no_hook_answers_failed() -> None:
    """The word is for verdicts only, with an answer of its own or without."""
    for answer in (None, "yes"):
        with pytest.raises(HookError, match="nothing can be failed here"):
            await decide(lambda ctx, a=answer: HookOutcome(Kind.FAILED, "x", answer=a), point=DOOR)


async def test_after_an_error_no_policy_is_asked() -> None:
    """The first error ends the chain in every tier."""
    ran: list[str] = []
    with pytest.raises(HookError):
        await decide(
            PassOn(), crash, (lambda ctx: ran.append("policy"), {"tier": "policy"}), point=DOOR
        )
    assert ran == []


# --- leaving the program --------------------------------------------------------------------------


def leave(ctx: Any) -> Any:
    """Calls sys.exit."""
    sys.exit(3)


async def leave_later(ctx: Any) -> None:
    """Calls sys.exit when it is awaited."""
    sys.exit(3)


@pytest.mark.parametrize("hook", [leave, leave_later])
@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_leaving_the_program_in_a_hook_is_a_crash_of_that_hook(
    hook: Any, timeout: float | None
) -> None:
    """In a hook it blocks, in an observer it is nothing, and it never ends the program."""
    result = await decide((hook, {"timeout": timeout}))
    assert result.is_blocked
    assert "SystemExit: 3" in result.reason
    result = await decide((hook, {"timeout": timeout, "tier": "observer"}))
    assert result.kind is Kind.PROCEED


async def test_leaving_the_program_in_a_matcher_is_a_crash_of_its_hook() -> None:
    """A matcher is part of its hook."""
    result = await decide((lambda ctx: None, {"matcher": CallableMatcher(leave)}))
    assert result.is_blocked


# --- cancelled on the way out ---------------------------------------------------------------------


@pytest.mark.parametrize("around", [(), (PassOn(),)], ids=["flat", "middleware"])
@pytest.mark.parametrize("options", [{}, {"on_failure": "open"}, {"tier": "policy"}])
async def test_on_the_way_out_a_cancelled_hook_leaves_the_others_to_run(
    around: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """The cancellation is raised again after the last of them."""
    ran: list[str] = []
    task = asyncio.create_task(
        decide(
            *around,
            (wait, {"name": "slow", "priority": 1, **options}),
            lambda ctx: ran.append("hook"),
            (lambda ctx: ran.append("policy"), {"tier": "policy"}),
            (lambda ctx: ran.append("observer"), {"tier": "observer"}),
            point=LAST,
        )
    )
    await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == ["hook", "policy", "observer"]


async def test_on_the_way_out_a_cancelled_observer_leaves_the_others_to_run() -> None:
    """Observers close files too."""
    ran: list[str] = []
    task = asyncio.create_task(
        decide(
            (wait, {"tier": "observer"}),
            (lambda ctx: ran.append("observer"), {"tier": "observer"}),
            point=LAST,
        )
    )
    await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == ["observer"]


async def test_on_the_way_out_middleware_that_takes_too_long_cancels_nothing_but_what_it_waits_for() -> (
    None
):
    """Its time limit is its own failure, and no cancellation of the run."""
    ran: list[str] = []
    with pytest.raises(HookError) as caught:
        await decide(
            (PassOn(), {"name": "short", "timeout": 0.01}),
            (wait, {"name": "slow"}),
            lambda ctx: ran.append("hook"),
            (lambda ctx: ran.append("policy"), {"tier": "policy"}),
            point=LAST,
        )
    assert caught.value.hook in ("short", "slow")
    assert ran == ["hook", "policy"]


async def test_elsewhere_a_cancelled_hook_is_the_last_one() -> None:
    """A run that is being cancelled asks nobody else whether to go on."""
    ran: list[str] = []
    task = asyncio.create_task(decide(wait, lambda ctx: ran.append("hook"), point=DOOR))
    await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == []


# --- matchers -------------------------------------------------------------------------------------


async def answer_later(ctx: Any) -> bool:
    """What a matcher cannot be."""
    return False


def answer_soon(ctx: Any) -> Any:
    """The same, behind a plain function."""
    return answer_later(ctx)


class Own(Matcher):
    """Somebody's own matcher, whose answer would have to be awaited."""

    def matches(self, ctx: Any) -> Any:
        return answer_later(ctx)


class OwnAsync(Matcher):
    """Somebody's own matcher, written as a coroutine function."""

    async def matches(self, ctx: Any) -> bool:  # type: ignore[override]
        return False


@pytest.mark.parametrize(
    "matcher",
    [
        answer_soon,
        Own(),
        ~Own(),
        Own() & Own(),
        CompositeMatcher.any_of(lambda ctx: False, answer_soon),
    ],
    ids=["function", "own", "not", "all", "any"],
)
async def test_a_matcher_that_gives_something_to_await_fails_its_hook(matcher: Any) -> None:
    """A coroutine is always true, so the hook would run for everything and nobody would know."""
    result = await decide((lambda ctx: None, {"matcher": matcher, "name": "picky"}))
    assert result.is_blocked
    assert result.decided_by == "picky"
    assert "coroutine" in result.reason


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolArgsMatcher("pth"),  # type: ignore[arg-type]
        lambda: ToolArgsMatcher({1: "x"}),  # type: ignore[dict-item]
        lambda: ToolArgsMatcher({"path": answer_later}),
        lambda: CompositeMatcher((ToolNameMatcher("a"), "x"), True),  # type: ignore[arg-type]
        lambda: CompositeMatcher(ToolNameMatcher("a"), True),  # type: ignore[arg-type]
        lambda: CompositeMatcher((ToolNameMatcher("a"),), "all"),  # type: ignore[arg-type]
        lambda: CompositeMatcher((OwnAsync(),), True),
        lambda: NotMatcher("x"),  # type: ignore[arg-type]
        lambda: CallableMatcher(lambda: True),  # type: ignore[misc,arg-type]
        lambda: CallableMatcher(lambda ctx, other: True),  # type: ignore[misc,arg-type]
        lambda: MetadataMatcher(5),  # type: ignore[arg-type]
        lambda: MetadataMatcher(""),
        lambda: HookStack().with_hook(crash, GATE, matcher=OwnAsync()),
    ],
)
def test_a_matcher_that_could_never_work_is_refused(make: Any) -> None:
    """At once, and with a remedy."""
    with pytest.raises(RegistrationError) as caught:
        make()
    assert caught.value.remedy


@pytest.mark.parametrize("shadow", ["no", 0, 1, None])
def test_shadow_is_a_yes_or_a_no(shadow: Any) -> None:
    """`shadow="no"` would have been a yes."""
    with pytest.raises(RegistrationError, match="shadow= takes True or False"):
        HookStack().with_hook(crash, GATE, shadow=shadow)
