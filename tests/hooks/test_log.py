"""Every hook that ran is reported, and short ways have the same outcome as long ones."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parcels import (
    CHANGES,
    DOOR,
    GATE,
    WATCH,
    Hook,
    Notes,
    Parcel,
    decide,
    observer,
    policy,
    says,
    stacked,
)

from hookline.errors import HookError
from hookline.hooks import (
    Entry,
    HookOutcome,
    Point,
    run_hooks,
)
from hookline.lifecycle import HookStack


class Stamp(str):
    """A value that is only ever appended."""


DESK = Point(
    "desk",
    Parcel,
    changes=CHANGES,
    answers=((Stamp, lambda ctx, stamp: ctx.noted(stamp)),),
    append=(Stamp, lambda ctx, stamp, hook: ctx.noted(f"{stamp}/{hook} ")),
)


# --- the hook log, settling, appending ---------------------------------------------------------------


async def test_every_hook_that_ran_is_reported_in_order() -> None:
    """With what it said and changed; hooks that did not match or were not reached are not."""
    notes = Notes()
    plan = stacked(
        GATE,
        (says(None), {"name": "quiet"}),
        (says("x"), {"name": "unmatched", "matcher": lambda ctx: False}),
        (says("fragile"), {"name": "writer"}),
        (says(HookOutcome.block("no")), {"name": "guard"}),
        (says(None), {"name": "unreached"}),
        observer(says(None), name="eye"),
    ).plan(GATE)
    await run_hooks(plan, Parcel(point=GATE), notes)
    assert notes.entries == [
        ("quiet", "ran"),
        ("writer", "proceed"),
        ("guard", "block"),
        ("eye", "ran"),
    ]
    wrote, blocked = notes.answers
    assert (wrote.before.note, wrote.after.note) == ("", "fragile")  # type: ignore[attr-defined]
    assert (blocked.reason, blocked.before is blocked.after) == ("no", True)


async def test_a_change_is_settled_before_anyone_else_sees_it() -> None:
    """The caller may refine it or refuse it; a refusal is the hook's failure."""
    settled: list[str] = []

    def settle(entry: Entry, before: Parcel, after: Parcel) -> Parcel:
        settled.append(entry.name)
        if after.weight < 0:
            raise ValueError("nothing weighs less than nothing")
        return after.noted(f"settled {after.weight}")

    plan = stacked(
        GATE,
        (lambda ctx: ctx.weighing(2), {"name": "writer"}),
        (says(None), {"name": "quiet"}),
        (lambda ctx: ctx, {"name": "same"}),
        (lambda ctx: HookOutcome.proceed(ctx.weighing(-1)), {"name": "wrong"}),
    ).plan(GATE)
    result = await run_hooks(plan, Parcel(point=GATE), settle=settle)
    assert settled == ["writer", "wrong"]
    assert (result.is_blocked, result.decided_by) == (True, "wrong")
    assert "nothing weighs less than nothing" in result.reason
    assert (result.context.weight, result.context.note) == (2, "settled 2")


async def test_only_policies_can_be_asked_again() -> None:
    """For what the hooks have settled already."""
    plan = stacked(
        GATE, says("hook"), policy(says(HookOutcome.block("no")), name="law"), observer(says(None))
    ).plan(GATE)
    notes = Notes()
    result = await run_hooks(plan, Parcel(point=GATE), notes, policies_only=True)
    assert (result.is_blocked, result.context.note) == (True, "")
    assert notes.entries[0] == ("law", "block")


async def test_a_value_that_is_appended_is_signed_and_reported_as_such() -> None:
    """It decides nothing, and the chain continues."""
    notes = Notes()
    plan = stacked(
        DESK, (says(Stamp("paid")), {"name": "cashier"}), (says(Stamp("sent")), {"name": "clerk"})
    ).plan(DESK)
    result = await run_hooks(plan, Parcel(point=DESK), notes)
    assert result.context.note == "paid/cashier sent/clerk "
    assert notes.entries == [("cashier", "appended"), ("clerk", "appended")]


async def test_neither_a_policy_nor_a_shadow_appends() -> None:
    """The one may only judge, the other only try."""
    with pytest.raises(HookError, match="a policy may only judge"):
        await decide(policy(says(Stamp("paid"))), point=DESK)
    result = await decide((says(Stamp("paid")), {"shadow": True}), point=DESK)
    assert result.context.note == ""


# --- one meaning, however it is computed ----------------------------------------------------------


def crashing(ctx: Parcel) -> None:
    """Fails."""
    raise ValueError("down")


async def later_blocking(ctx: Parcel) -> HookOutcome:
    """Blocks, later."""
    return HookOutcome.block("later", ctx.noted("b"))


ANSWERS: list[Hook] = [
    says(None),
    says(HookOutcome.proceed()),
    says(HookOutcome.ask("sure?")),
    says(HookOutcome.allow("known")),
    says(HookOutcome.block("no")),
    says(HookOutcome.stop("enough", stop_reason="limit")),
    says(False),
    says(Stamp("paid")),
    lambda ctx: ctx.weighing(ctx.weight + 1),
    lambda ctx: HookOutcome.ask("heavy?", ctx.noted("a")),
    lambda ctx: msgspec.structs.replace(ctx, sender="bob"),
    later_blocking,
    crashing,
]


LAST = Point("last", Parcel, changes=CHANGES, verdicts=frozenset(), unskippable=True)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(ANSWERS),
            st.sampled_from(["hook", "policy", "observer"]),
            st.sampled_from(["closed", "open"]),
        ),
        max_size=5,
    ),
    st.sampled_from([GATE, DOOR, WATCH, DESK, LAST]),
)
async def test_the_short_way_and_the_long_way_have_the_same_outcome(
    made: list[tuple[Hook, str, str]], point: Point[Any]
) -> None:
    """Plain hooks are asked in a shorter loop than hooks with matchers; the outcome is the same."""

    async def outcome(matcher: Any) -> tuple[Any, ...]:
        stack = HookStack()
        for hook, tier, on_failure in made:
            fail_mode = None if tier == "policy" else on_failure
            stack = stack.with_hook(
                hook, point, tier=tier, on_failure=fail_mode, matcher=matcher, name=None
            )
        notes = Notes()
        try:
            result: Any = await run_hooks(stack.plan(point), Parcel(point=point), notes)
        except HookError as error:
            result = str(error)
        words = [(name, "proceed" if word == "appended" else word) for name, word in notes.entries]
        return result, words

    assert await outcome(None) == await outcome(lambda ctx: True)


async def test_one_plan_serves_many_at_once() -> None:
    """What is decided about one context leaves no trace in what is decided about another."""

    class Around:
        async def handle(self, ctx: Parcel, next: Any) -> Any:
            await asyncio.sleep(0)
            return await next(ctx.noted("in,"))

    async def heavy(ctx: Parcel) -> HookOutcome | None:
        await asyncio.sleep(0)
        return HookOutcome.block(f"weighs {ctx.weight}") if ctx.weight % 2 else None

    stack = stacked(GATE, Around(), heavy)
    parcels = [Parcel(point=GATE, weight=weight) for weight in range(6)]
    results = await asyncio.gather(*(stack.process(parcel) for parcel in parcels))
    assert [result.reason for result in results] == ["", "weighs 1", "", "weighs 3", "", "weighs 5"]
    assert {result.context.note for result in results} == {"in,"}
