"""What a stack makes of its hooks' answers: what passes, what is said against it, and which word wins."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parcels import DOOR, GATE, WATCH, Hook, Notes, Parcel, decide, observer, policy, says, stacked

from hookline import AgentBuilder, tool
from hookline.errors import HookError, RegistrationError
from hookline.hooks import (
    BaseMatcher,
    CallableMatcher,
    CompositeMatcher,
    Context,
    HookOutcome,
    Kind,
    MetadataMatcher,
    NotMatcher,
    Point,
    Result,
    ToolArgsMatcher,
    ToolNameMatcher,
    Verdict,
    register,
    run_hooks,
)
from hookline.lifecycle import HookStack
from hookline.testing import ScriptedDriver, call, say


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
async def test_a_refusal_names_the_hook_and_the_reason(
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


async def test_of_several_hooks_that_ask_the_first_is_named() -> None:
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
async def test_the_strictest_answer_wins(hooks: list[Kind], policies: list[Kind]) -> None:
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
    """Any order of asks and allows within a tier has the same outcome."""
    policies = [kind for kind in policies if kind is not Kind.ALLOW]
    shuffled = judged(data.draw(st.permutations(hooks)), data.draw(st.permutations(policies)))
    parcel = Parcel(point=GATE)
    assert (await shuffled.process(parcel)).kind is (
        await judged(hooks, policies).process(parcel)
    ).kind


@given(st.lists(words, max_size=5), st.integers(0, 5), st.sampled_from([Kind.BLOCK, Kind.STOP]))
async def test_an_answer_that_forbids_counts_at_any_place(
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


# --- observers and shadows see everything and change nothing --------------------------------------


def crash(ctx: Parcel) -> None:
    """Fails."""
    raise RuntimeError("down")


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
    assert result.context.decided is None


async def test_every_context_has_the_verdict_for_observers() -> None:
    """One of a user's own, which declares nothing, too."""
    seen: list[Context] = []
    ctx = Context(point=Point("bare", Context))
    await HookStack().with_hook(seen.append, ctx.point, tier="observer").process(ctx)
    assert seen == [ctx.replace(decided=Verdict())]


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
    """Answers, changes, nonsense and crashes: the result is the same without it, and the next observer is called."""
    seen: list[Parcel] = []
    judge = lambda ctx: ctx.noted("judged")  # noqa: E731 - the same hook twice
    watched = await decide(
        judge, observer(hook, on_failure=on_failure), observer(seen.append), point=point
    )
    assert msgspec.structs.replace(watched, failures=()) == await decide(judge, point=point)
    assert [str(each.__cause__) for each in watched.failures] == ["down"] * (hook is crash)
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


# --- failures are reported, and clean-up is completed ------------------------------------------------


LAST = Point("last", Parcel, changes=frozenset({"note"}), verdicts=frozenset(), unskippable=True)


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


def fail_now(ctx: Any) -> None:
    """Fails at once."""
    raise ValueError("down")


async def wait(ctx: Any) -> None:
    """Waits to be cancelled."""
    await asyncio.sleep(10)


# --- observers see failures --------------------------------------------------------------------------


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
            (fail_now, {"name": "broken"}),
            (lambda ctx: seen.append((ctx.note, ctx.verdict)), {"tier": "observer"}),
            point=point,
        )
    assert caught.value.hook == "broken"
    assert seen == [("before", Verdict(Kind.FAILED, "ValueError: down", "broken"))]
    assert seen[0][1].label == "failed"


async def test_a_failure_that_counts_as_a_block_is_shown_as_one() -> None:
    """There the verdict is what the run goes by."""
    seen: list[Any] = []
    await decide(fail_now, (lambda ctx: seen.append(ctx.verdict.label), {"tier": "observer"}))
    assert seen == ["block"]


async def test_no_hook_answers_failed() -> None:
    """The word is for verdicts only, with an answer of its own or without."""
    for answer in (None, "yes"):
        with pytest.raises(HookError, match="nothing can be failed here"):
            await decide(
                lambda ctx, *, a=answer: HookOutcome(Kind.FAILED, "x", answer=a), point=DOOR
            )


async def test_after_an_error_no_policy_is_asked() -> None:
    """The first error ends the chain in every tier."""
    ran: list[str] = []
    with pytest.raises(HookError):
        await decide(
            PassOn(), fail_now, (lambda ctx: ran.append("policy"), {"tier": "policy"}), point=DOOR
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
    """A run that is being cancelled asks nobody else whether to continue."""
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


class Own(BaseMatcher):
    """Somebody's own matcher, whose answer would have to be awaited."""

    def matches(self, ctx: Any) -> Any:
        return answer_later(ctx)


class OwnAsync(BaseMatcher):
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
        lambda: HookStack().with_hook(fail_now, GATE, matcher=OwnAsync()),
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
        HookStack().with_hook(fail_now, GATE, shadow=shadow)
