"""The semantics of a hook call: what an answer means, who decides, and what everyone is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import AgentBuilder, tool
from hookline.errors import HookError
from hookline.hooks import (
    Answered,
    Context,
    Crew,
    Entry,
    Failure,
    HookOutcome,
    HookStack,
    Kind,
    Point,
    Result,
    Verdict,
    run_hooks,
)
from hookline.testing import ScriptedDriver, call, say


class Parcel(Context, frozen=True, kw_only=True):
    weight: int = 1
    note: str = ""
    sender: str = "ann"
    verdict: Verdict | None = None

    def weighing(self, weight: int) -> Parcel:
        return msgspec.structs.replace(self, weight=weight)

    def noted(self, text: str) -> Parcel:
        return msgspec.structs.replace(self, note=self.note + text)


class Letter(Parcel, frozen=True, kw_only=True):
    """Another kind of context."""


class Stamp(str):
    """A value that is only ever appended."""


ALL_WORDS = frozenset({"block", "stop", "ask", "allow"})
CHANGES = frozenset({"weight", "note"})

GATE = Point(
    "gate",
    Parcel,
    changes=CHANGES,
    answers=((str, Parcel.noted),),
    blocks="the parcel stays",
    failure=Failure.BLOCK,
    verdicts=ALL_WORDS,
)
DOOR = Point("door", Parcel, changes=CHANGES, blocks="the door stays shut")
WATCH = Point("watch", Parcel, changes=CHANGES, verdicts=frozenset())
DESK = Point(
    "desk",
    Parcel,
    changes=CHANGES,
    answers=((Stamp, lambda ctx, stamp: ctx.noted(stamp)),),
    append=(Stamp, lambda ctx, stamp, hook: ctx.noted(f"{stamp}/{hook} ")),
)

Hook = Callable[[Any], Any]


def stacked(point: Point[Any], *hooks: Hook | tuple[Hook, dict[str, Any]]) -> HookStack:
    """A stack of hooks at one point; a pair brings options."""
    stack = HookStack()
    for hook in hooks:
        function, options = hook if isinstance(hook, tuple) else (hook, {})
        stack = stack.with_hook(function, point, **options)
    return stack


async def decide(
    *hooks: Hook | tuple[Hook, dict[str, Any]], point: Point[Any] = GATE
) -> Result[Parcel]:
    """What hooks decide about a parcel."""
    return await stacked(point, *hooks).process(Parcel(point=point))


def says(answer: Any) -> Hook:
    """A hook that always gives this answer."""
    return lambda ctx: answer


def policy(hook: Hook, **options: Any) -> tuple[Hook, dict[str, Any]]:
    """A hook as a policy."""
    return hook, {"tier": "policy", **options}


def observer(hook: Hook, **options: Any) -> tuple[Hook, dict[str, Any]]:
    """A hook as an observer."""
    return hook, {"tier": "observer", **options}


class Notes:
    """A trail that keeps what it is told."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []
        self.answers: list[Answered] = []
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        return self.now

    def left(self, ctx: Any) -> None:
        self.last = ctx

    def passed(self, crew: Crew, readings: Sequence[float]) -> None:
        assert len(readings) == len(crew.hooks) + 1
        self.entries += [(hook, "ran") for hook in crew.hooks]

    def appended(self, entry: Entry, started: float, ctx: Any) -> float:
        self.entries.append((entry.name, "appended"))
        return self.monotonic()

    def judged(self, entry: Entry, started: float, answer: Answered) -> float:
        word = "failed" if answer.error is not None else answer.kind.label
        self.entries.append((entry.name, word))
        self.answers.append(answer)
        return self.monotonic()


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

words = st.sampled_from([Kind.PROCEED, Kind.ASK, Kind.ALLOW, Kind.BLOCK, Kind.STOP])
mild = st.sampled_from([Kind.PROCEED, Kind.ASK, Kind.ALLOW])


def judged(hooks: Sequence[Kind], policies: Sequence[Kind]) -> HookStack:
    """A stack of hooks and policies that say these words."""
    stack = HookStack()
    for tier, kinds in (("hook", hooks), ("policy", policies)):
        for index, kind in enumerate(kinds):
            name = f"{tier}-{index}"
            stack = stack.with_hook(says(HookOutcome(kind, name)), GATE, name=name, tier=tier)
    return stack


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
    ids=repr,
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
    """With the hook's name as who decided, and the whole story as the reason."""
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
    ("field", "value"), [("sender", "bob"), ("point", WATCH), ("verdict", Verdict())]
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
        f"hook 'forger' at door: it changed '{field}', which cannot be changed here. "
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
    assert "hook 'law' at door: a policy may only judge, and it changed 'weight'." in str(
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
    assert "a policy may only narrow" in result.reason


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


# --- observers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, Verdict(Kind.PROCEED, "", "")),
        (HookOutcome.ask("sure?"), Verdict(Kind.ASK, "sure?", "judge")),
        (HookOutcome.block("no"), Verdict(Kind.BLOCK, "no", "judge")),
        (HookOutcome.stop("enough"), Verdict(Kind.STOP, "enough", "judge")),
    ],
)
async def test_observers_see_what_was_decided_and_by_whom(answer: Any, verdict: Verdict) -> None:
    """All of them, whatever it was, with the context as it was left."""
    seen: list[Parcel] = []
    result = await decide(
        lambda ctx: ctx.noted("changed"),
        (says(answer), {"name": "judge"}),
        observer(seen.append),
        observer(seen.append, name="second"),
    )
    assert [ctx.verdict for ctx in seen] == [verdict, verdict]
    assert [ctx.note for ctx in seen] == ["changed", "changed"]
    assert result.context.verdict is None


async def test_an_observer_needs_no_verdict_in_its_context() -> None:
    """A context without such a field is shown as it is."""
    seen: list[Context] = []
    ctx = Context(point=Point("bare", Context))
    await HookStack().with_hook(seen.append, ctx.point, tier="observer").process(ctx)
    assert seen == [ctx]


def crash(ctx: Parcel) -> None:
    """Fails."""
    raise RuntimeError("down")


async def changing(ctx: Parcel) -> Parcel:
    """Changes the context, later."""
    return ctx.weighing(99)


@pytest.mark.parametrize(
    "hook",
    [
        says(HookOutcome.block("no")),
        says(HookOutcome.stop("no")),
        says(HookOutcome.ask("no")),
        says(False),
        says("note"),
        changing,
        lambda ctx: changing(ctx),
        crash,
    ],
)
@pytest.mark.parametrize("on_failure", [None, "open", "closed"])
@pytest.mark.parametrize("point", [GATE, DOOR, WATCH])
async def test_nothing_an_observer_does_reaches_the_outcome(
    hook: Hook, on_failure: str | None, point: Point[Any]
) -> None:
    """Words, changes, nonsense and crashes: the result is as without it, and the next observer looks on."""
    seen: list[Parcel] = []
    judge = lambda ctx: ctx.noted("judged")  # noqa: E731 - the same hook twice
    watched = await decide(
        judge, observer(hook, on_failure=on_failure), observer(seen.append), point=point
    )
    assert watched == await decide(judge, point=point)
    assert len(seen) == 1
    assert seen[0].weight == 1


async def test_a_broken_matcher_of_an_observer_is_its_own_crash() -> None:
    """It is noted like one."""
    notes = Notes()
    plan = stacked(DOOR, observer(says(None), name="eye", matcher=lambda ctx: 1 / 0)).plan(DOOR)
    assert (await run_hooks(plan, Parcel(point=DOOR), notes)).kind is Kind.PROCEED
    assert notes.entries == [("eye", "failed")]


async def test_an_observer_too_slow_for_its_timeout_is_left_behind() -> None:
    """The run does not wait any longer, and nothing else happens."""

    async def slow(ctx: Parcel) -> None:
        await asyncio.Event().wait()

    notes = Notes()
    plan = stacked(DOOR, observer(slow, timeout=0.01)).plan(DOOR)
    assert (await run_hooks(plan, Parcel(point=DOOR), notes)).kind is Kind.PROCEED
    assert notes.entries == [("slow", "failed")]


# --- shadow ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hook", "word"),
    [
        (says(HookOutcome.block("no")), "block"),
        (says(HookOutcome.stop("no")), "stop"),
        (says(HookOutcome.ask("no")), "ask"),
        (says(HookOutcome.allow()), "allow"),
        (lambda ctx: ctx.weighing(9), "proceed"),
        (says("note"), "proceed"),
        (says(False), "failed"),
        (crash, "failed"),
        (says(None), "proceed"),
    ],
)
@pytest.mark.parametrize("point", [GATE, DOOR])
async def test_in_shadow_a_verdict_is_recorded_and_not_enforced(
    hook: Hook, word: str, point: Point[Any]
) -> None:
    """What would have happened is noted; everyone after it sees what they would have seen without it."""
    if point is DOOR and word in ("ask", "allow", "proceed"):
        answer = hook(Parcel(point=DOOR))
        word = "proceed" if answer is None or isinstance(answer, Parcel) else "failed"
    notes, seen = Notes(), []
    stack = stacked(
        point,
        (hook, {"shadow": True, "name": "trial"}),
        (lambda ctx: seen.append(ctx), {"name": "real"}),
    )
    parcel = Parcel(point=point)
    result = await run_hooks(stack.plan(point), parcel, notes)
    assert result == Result(parcel)
    assert seen == [parcel]
    assert notes.entries == [("trial", word), ("real", "ran")]


async def test_a_policy_in_shadow_is_noted_beside_the_one_in_force() -> None:
    """How a new policy is rolled out; allow in shadow lifts nothing either."""
    notes = Notes()
    plan = stacked(
        GATE,
        (says(HookOutcome.allow()), {"shadow": True, "name": "lenient"}),
        (says(HookOutcome.ask("sure?")), {"name": "asks"}),
        policy(says(HookOutcome.block("new rule")), shadow=True, name="new"),
        policy(says(None), name="old"),
    ).plan(GATE)
    result = await run_hooks(plan, Parcel(point=GATE), notes)
    assert (result.kind, result.decided_by) == (Kind.ASK, "asks")
    assert notes.entries == [
        ("lenient", "allow"),
        ("asks", "ask"),
        ("new", "block"),
        ("old", "ran"),
    ]


async def test_in_an_agent_too_a_call_runs_as_if_the_shadow_were_not_there() -> None:
    """Changed arguments are on record as what would have happened; the tool gets the real ones."""
    got: list[int] = []

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        got.append(a)
        return a + b

    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("add", a=2, b=3), say("5")]))
        .with_tools(add)
        .on_before_tool_use(lambda ctx: ctx.with_args(a=100), name="trial", shadow=True)
        .build()
    )
    await agent.run("2+3?")
    assert got == [2]


# --- the trail, settling, appending ---------------------------------------------------------------


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
    """It decides nothing, and the chain goes on."""
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
async def test_the_short_way_and_the_long_way_come_to_the_same(
    made: list[tuple[Hook, str, str]], point: Point[Any]
) -> None:
    """Plain hooks are asked in a shorter loop than hooks with matchers; nobody can tell by the outcome."""

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
