"""What a stack makes of its hooks' answers: what passes, what is said against it, and which word wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parcels import GATE, Parcel, decide, policy, says, stacked

from hookline.hooks import (
    HookOutcome,
    HookStack,
    Kind,
    Point,
    Result,
    register,
)


def judged(hooks: Sequence[Kind], policies: Sequence[Kind]) -> HookStack:
    """A stack of hooks and policies that say these words."""
    stack = HookStack()
    for tier, kinds in (("hook", hooks), ("policy", policies)):
        for index, kind in enumerate(kinds):
            name = f"{tier}-{index}"
            stack = stack.with_hook(says(HookOutcome(kind, name)), GATE, name=name, tier=tier)
    return stack


words = st.sampled_from([Kind.PROCEED, Kind.ASK, Kind.ALLOW, Kind.BLOCK, Kind.STOP])


# --- answers that let things pass -----------------------------------------------------------------


async def test_without_hooks_everything_passes_as_it_is() -> None:
    """The context is the very same, and nobody decided."""
    parcel = Parcel(point=GATE)
    assert await HookStack().process(parcel) == Result(parcel)


@pytest.mark.parametrize("answer", [None, HookOutcome.proceed()])
async def test_no_answer_and_proceed_change_nothing(answer: Any) -> None:
    """The context that comes out is the one that went in."""
    parcel = Parcel(point=GATE)
    result = await stacked(GATE, says(answer), policy(says(answer))).process(parcel)
    assert result.context is parcel
    assert (result.kind, result.reason, result.decided_by) == (Kind.PROCEED, "", "")


@pytest.mark.parametrize("wrap", [lambda ctx: ctx, HookOutcome.proceed])
async def test_changes_fold_in_order(wrap: Callable[[Parcel], Any]) -> None:
    """Each hook sees what those before it made of the context, as a context or within proceed."""
    result = await decide(
        lambda ctx: wrap(ctx.weighing(5)),
        lambda ctx: wrap(ctx.noted(f"weighs {ctx.weight}")),
        lambda ctx: wrap(ctx),
    )
    assert (result.context.weight, result.context.note) == (5, "weighs 5")
    assert result.decided_by == ""


async def test_a_plain_value_means_what_the_point_says() -> None:
    """Here text is a note."""
    assert (await decide(says("fragile"))).context.note == "fragile"


async def test_replacing_by_nothing_is_a_replacement() -> None:
    """A changed context whose new value is None differs from no answer."""
    point = Point("gate", Parcel, changes=frozenset({"note"}))
    result = await decide(lambda ctx: msgspec.structs.replace(ctx, note=None), point=point)
    assert result.context.note is None


async def test_sync_async_and_half_async_hooks_are_one_chain() -> None:
    """A coroutine function, a function that gives a coroutine, and a plain one, in order."""

    async def later(ctx: Parcel) -> Parcel:
        return ctx.noted("b")

    result = await decide(
        lambda ctx: ctx.noted("a"), later, lambda ctx: later(ctx), lambda ctx: ctx.noted("c")
    )
    assert result.context.note == "abbc"


async def test_a_hook_runs_only_for_what_its_matcher_matches() -> None:
    """The matcher sees the context as the hook would."""
    heavy: dict[str, Any] = {"matcher": lambda ctx: ctx.weight > 3}
    assert (await decide((says(HookOutcome.block("heavy")), heavy))).kind is Kind.PROCEED
    result = await decide(lambda ctx: ctx.weighing(5), (says(HookOutcome.block("heavy")), heavy))
    assert result.is_blocked


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "flags"),
    [
        (HookOutcome.block("no"), (True, False, False)),
        (HookOutcome.stop("no"), (False, True, False)),
        (HookOutcome.ask("no"), (False, False, True)),
    ],
)
@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_a_word_against_names_who_said_it_and_why(
    outcome: HookOutcome, flags: tuple[bool, ...], tier: str
) -> None:
    """Hooks and policies alike."""
    result = await decide(says(None), (says(outcome), {"name": "guard", "tier": tier}))
    assert (result.is_blocked, result.is_stopped, result.is_asking) == flags
    assert (result.reason, result.decided_by) == ("no", "guard")


async def test_a_stop_hands_its_kind_on() -> None:
    """What it means is the caller's business."""
    result = await decide(says(HookOutcome.stop("enough", stop_reason="limit")))
    assert result.stop_reason == "limit"


@pytest.mark.parametrize("word", ["block", "stop", "ask", "allow"])
async def test_what_a_hook_changed_comes_along_with_its_word(word: str) -> None:
    """A block can leave a note behind."""
    result = await decide(lambda ctx: getattr(HookOutcome, word)("why", ctx.noted("seen")))
    assert result.context.note == "seen"


@pytest.mark.parametrize("word", ["block", "stop"])
async def test_block_and_stop_end_the_chain(word: str) -> None:
    """Neither the hooks after it nor the policies are asked any more."""
    asked: list[str] = []
    await decide(
        says(getattr(HookOutcome, word)("no")),
        lambda ctx: asked.append("hook"),
        policy(lambda ctx: asked.append("policy")),
    )
    assert asked == []


@pytest.mark.parametrize("word", ["ask", "allow"])
async def test_ask_and_allow_end_nothing(word: str) -> None:
    """Everyone else still judges, and a block wins: a person is asked only about what nobody forbids."""
    result = await decide(
        says(getattr(HookOutcome, word)("hm")),
        (says(HookOutcome.block("never")), {"name": "second"}),
    )
    assert (result.kind, result.decided_by) == (Kind.BLOCK, "second")
    result = await decide(
        says(getattr(HookOutcome, word)("hm")),
        policy(says(HookOutcome.stop("never")), name="law"),
    )
    assert (result.kind, result.decided_by) == (Kind.STOP, "law")


async def test_a_second_blocker_does_not_hide_the_first_ones_reason() -> None:
    """The first one ended it, and is named."""
    result = await decide(
        (says(HookOutcome.block("first")), {"name": "one"}),
        (says(HookOutcome.block("second")), {"name": "two"}),
    )
    assert (result.reason, result.decided_by) == ("first", "one")


@pytest.mark.parametrize("allow_first", [True, False])
async def test_allow_lifts_an_ask_of_a_hook(allow_first: bool) -> None:
    """Before or after it."""
    hooks = [says(HookOutcome.allow("known")), says(HookOutcome.ask("sure?"))]
    assert (await decide(*(hooks if allow_first else hooks[::-1]))).kind is Kind.PROCEED


@pytest.mark.parametrize(
    ("asks", "allows", "kind"),
    [
        ("a", "a", Kind.ASK),
        ("a", "b", Kind.PROCEED),
        ("a", "", Kind.PROCEED),
        ("", "a", Kind.PROCEED),
    ],
)
async def test_allow_lifts_no_ask_of_the_same_capability(
    asks: str, allows: str, kind: Kind
) -> None:
    """Its hooks are one voice, and the strictest of them counts."""
    said = [(HookOutcome.ask("sure?"), asks), (HookOutcome.allow("known"), allows)]
    for order in (said, said[::-1]):
        stack = HookStack(register(GATE, says(what), source=source) for what, source in order)
        assert (await stack.process(Parcel(point=GATE))).kind is kind


async def test_allow_never_lifts_a_policys_ask() -> None:
    """The policy's question is the one that is put."""
    result = await decide(
        says(HookOutcome.ask("sure?")),
        says(HookOutcome.allow("known")),
        policy(says(HookOutcome.ask("really?")), name="law"),
    )
    assert (result.kind, result.reason, result.decided_by) == (Kind.ASK, "really?", "law")


@pytest.mark.parametrize("word", ["block", "stop"])
@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_allow_never_lifts_a_block_or_a_stop(word: str, tier: str) -> None:
    """Whoever said it."""
    result = await decide(
        says(HookOutcome.allow("known")), (says(getattr(HookOutcome, word)("no")), {"tier": tier})
    )
    assert result.kind is Kind[word.upper()]


async def test_of_several_who_ask_the_first_is_named() -> None:
    """One question is put."""
    result = await decide(
        (says(HookOutcome.ask("one?")), {"name": "one"}),
        (says(HookOutcome.ask("two?")), {"name": "two"}),
    )
    assert (result.reason, result.decided_by) == ("one?", "one")


# --- what holds for every mix of words ------------------------------------------------------------


mild = st.sampled_from([Kind.PROCEED, Kind.ASK, Kind.ALLOW])


@given(
    st.lists(words, max_size=5),
    st.lists(words.filter(lambda kind: kind is not Kind.ALLOW), max_size=4),
)
async def test_the_strictest_word_that_was_heard_wins(
    hooks: list[Kind], policies: list[Kind]
) -> None:
    """The first block or stop decides; without one, an ask of a policy, or one of a hook that nobody lifted."""
    result = await judged(hooks, policies).process(Parcel(point=GATE))
    everyone = [(kind, f"hook-{index}") for index, kind in enumerate(hooks)]
    everyone += [(kind, f"policy-{index}") for index, kind in enumerate(policies)]
    against = [(kind, name) for kind, name in everyone if kind >= Kind.BLOCK]
    asking = [(kind, name) for kind, name in everyone if kind is Kind.ASK]
    by_policy = [(kind, name) for kind, name in asking if name.startswith("policy")]
    lifted = [] if Kind.ALLOW in hooks else asking
    expected = [*against, *by_policy, *lifted, (Kind.PROCEED, "")][0]
    assert (result.kind, result.decided_by) == expected
    assert result.reason == result.decided_by


@given(st.lists(mild, max_size=5), st.lists(mild, max_size=4), st.data())
async def test_without_a_block_the_order_does_not_matter(
    hooks: list[Kind], policies: list[Kind], data: st.DataObject
) -> None:
    """Any order of asks and allows within a tier comes to the same."""
    policies = [kind for kind in policies if kind is not Kind.ALLOW]
    shuffled = judged(data.draw(st.permutations(hooks)), data.draw(st.permutations(policies)))
    parcel = Parcel(point=GATE)
    assert (await shuffled.process(parcel)).kind is (
        await judged(hooks, policies).process(parcel)
    ).kind


@given(st.lists(words, max_size=5), st.integers(0, 5), st.sampled_from([Kind.BLOCK, Kind.STOP]))
async def test_whoever_forbids_is_heard_wherever_they_stand(
    hooks: list[Kind], place: int, kind: Kind
) -> None:
    """Adding a block or a stop to any chain, at any place, never lets anything through."""
    hooks = [*hooks[:place], kind, *hooks[place:]]
    assert (await judged(hooks, []).process(Parcel(point=GATE))).kind >= Kind.BLOCK


# --- a result of another stack --------------------------------------------------------------------


@pytest.mark.parametrize("word", ["block", "stop", "ask"])
@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_a_hook_can_hand_on_what_another_stack_decided(word: str, tier: str) -> None:
    """Its word counts as the hook's own; it is not lost on the way."""
    inner = stacked(GATE, says(getattr(HookOutcome, word)("no")))
    result = await decide((inner.process, {"name": "inner", "tier": tier}))
    assert (result.kind, result.reason, result.decided_by) == (Kind[word.upper()], "no", "inner")


async def test_a_result_that_proceeds_brings_its_changes() -> None:
    """And they are checked like anyone's."""
    inner = stacked(GATE, lambda ctx: ctx.noted("inner"))
    assert (await decide(inner.process)).context.note == "inner"
    assert (await decide(policy(inner.process))).is_blocked
