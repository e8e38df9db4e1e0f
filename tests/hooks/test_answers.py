"""Answers that mean nothing and changes that are not allowed are errors that name the hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from parcels import (
    DOOR,
    WATCH,
    Hook,
    Parcel,
    decide,
    policy,
    says,
)

from hookline.errors import HookError
from hookline.hooks import (
    HookOutcome,
    Kind,
    Verdict,
)


class Letter(Parcel, frozen=True, kw_only=True):
    """Another kind of context."""


# --- answers that mean nothing --------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        False,
        True,
        0,
        "allow",
        b"block",
        [],
        {},
        object(),
        HookOutcome,
        HookOutcome.block,
        Kind.BLOCK,
        Verdict(Kind.BLOCK),
        ValueError("returned, not raised"),
        NotImplemented,
    ],
    ids=lambda answer: repr(answer).partition(" at 0x")[0],
)
@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_an_answer_that_means_nothing_is_an_error(answer: Any, tier: str) -> None:
    """It names the hook, the point, the answer and what may be returned; it is never taken as a yes."""
    with pytest.raises(HookError) as caught:
        await decide((says(answer), {"name": "guard", "tier": tier}), point=DOOR)
    assert (caught.value.hook, caught.value.point) == ("guard", "door")
    assert f"hook 'guard' at door: it returned {answer!r} ({type(answer).__name__})" in str(
        caught.value
    )
    assert caught.value.remedy == "Return None, a HookOutcome, a changed Parcel."


async def test_where_a_failure_is_a_block_a_meaningless_answer_blocks() -> None:
    """With the hook's name as the decider, and the whole story as the reason."""
    result = await decide((says(False), {"name": "guard"}))
    assert (result.is_blocked, result.decided_by) == (True, "guard")
    assert "hook 'guard' failed" in result.reason
    assert "it returned False (bool)" in result.reason


@pytest.mark.parametrize(
    ("answer", "problem", "possible"),
    [
        (HookOutcome.block("no"), "nothing can be blocked here", "proceed"),
        (HookOutcome.stop("no"), "nothing can be stopped here", "proceed"),
        (HookOutcome.ask("no"), "nothing can be asked about here", "proceed"),
        (HookOutcome.allow(), "nothing can be allowed here", "proceed"),
    ],
)
async def test_a_word_the_point_does_not_know_is_an_error(
    answer: Any, problem: str, possible: str
) -> None:
    """A block where nothing can be blocked is no proceed."""
    with pytest.raises(HookError, match=problem) as caught:
        await decide(says(answer), point=WATCH)
    assert caught.value.remedy == f"Possible: {possible}."


async def test_an_error_about_a_word_lists_the_words_there_are() -> None:
    """Of this point."""
    with pytest.raises(HookError) as caught:
        await decide(says(HookOutcome.ask("sure?")), point=DOOR)
    assert caught.value.remedy == "Possible: block, proceed, stop."


@pytest.mark.parametrize("reason", [None, 5, ["no"], b"no", "half of a pair: \ud800"])
async def test_a_reason_that_is_no_text_is_the_hooks_failure(reason: Any) -> None:
    """Someone is going to read it, and it is going to be saved: it must be text that UTF-8 can hold."""
    with pytest.raises(HookError, match="hook 'guard' at door: "):
        await decide((says(HookOutcome.block(reason)), {"name": "guard"}), point=DOOR)
    result = await decide((says(HookOutcome.block(reason)), {"name": "guard"}))
    assert (result.is_blocked, result.decided_by) == (True, "guard")
    result.reason.encode()


async def test_a_crash_whose_words_cannot_be_saved_still_blocks_in_words_that_can() -> None:
    """What the exception says becomes the reason of a block."""

    def crash(ctx: Parcel) -> None:
        raise ValueError("half of a pair: \ud800")

    result = await decide(crash)
    assert result.is_blocked
    result.reason.encode()


# --- changes that are not allowed -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"), [("sender", "bob"), ("point", WATCH), ("decided", Verdict())]
)
@pytest.mark.parametrize(
    "wrap", [lambda ctx: ctx, HookOutcome.proceed, lambda ctx: HookOutcome.block("no", ctx)]
)
async def test_changing_what_a_point_does_not_let_change_is_an_error(
    field: str, value: Any, wrap: Callable[[Any], Any]
) -> None:
    """It names hook, field, point and what can be changed."""
    with pytest.raises(HookError) as caught:
        await decide(
            (lambda ctx: wrap(msgspec.structs.replace(ctx, **{field: value})), {"name": "forger"}),
            point=DOOR,
        )
    assert str(caught.value) == (
        f"hook 'forger' at door: it changed '{field}', which cannot be changed at door. "
        "Changeable: note, weight."
    )


async def test_a_context_of_another_kind_is_an_error() -> None:
    """Also one that derives from the right kind, and anything else inside proceed."""
    for answer in (Letter(point=DOOR), HookOutcome.proceed(Letter(point=DOOR))):
        with pytest.raises(HookError, match="it returned a Letter instead of a Parcel"):
            await decide(says(answer), point=DOOR)
    with pytest.raises(HookError, match="it returned a str instead of a Parcel"):
        await decide(says(HookOutcome.proceed("yes")), point=DOOR)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "hook",
    [
        lambda ctx: ctx.weighing(2),
        lambda ctx: HookOutcome.proceed(ctx.weighing(2)),
        lambda ctx: HookOutcome.block("no", ctx.weighing(2)),
    ],
)
async def test_a_policy_that_changes_something_is_an_error(hook: Hook) -> None:
    """It judges what the others made, and nothing more."""
    with pytest.raises(HookError) as caught:
        await decide(policy(hook, name="law"), point=DOOR)
    assert "hook 'law' at door: a policy may only judge, but it changed 'weight' at door." in str(
        caught.value
    )
    assert "tier='hook'" in caught.value.remedy


async def test_a_policy_that_changes_by_a_plain_value_is_an_error_too() -> None:
    """At a point where a failure blocks, it blocks, and the change is gone."""
    result = await decide(policy(says("fragile")))
    assert (result.is_blocked, result.context.note) == (True, "")


async def test_a_policy_that_allows_is_an_error() -> None:
    """It may only narrow; the ask it meant to lift stands behind a block."""
    result = await decide(
        says(HookOutcome.ask("sure?")), policy(says(HookOutcome.allow()), name="law")
    )
    assert (result.kind, result.decided_by) == (Kind.BLOCK, "law")
    assert "a policy cannot allow" in result.reason


async def test_a_policy_may_hand_the_context_back() -> None:
    """As it was."""
    assert (await decide(policy(lambda ctx: ctx))).kind is Kind.PROCEED


async def test_policies_judge_what_the_hooks_made_of_it() -> None:
    """Whatever the priorities and the order of registration."""
    seen: list[int] = []
    await decide(
        policy(lambda ctx: seen.append(ctx.weight), priority=1000),
        (lambda ctx: ctx.weighing(ctx.weight + 1), {"priority": -1000}),
        lambda ctx: ctx.weighing(10),
    )
    assert seen == [11]
