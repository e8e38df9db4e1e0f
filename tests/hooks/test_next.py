"""Middleware: an object with `handle(ctx, next)` wraps the rest of its tier."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parcels import Parcel

from hookline.errors import HookError
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

RULES: dict[str, Any] = {
    "changes": frozenset({"weight", "note"}),
    "blocks": "the parcel stays",
    "verdicts": frozenset({"block", "stop", "ask", "allow"}),
}
GATE = Point("gate", Parcel, failure_blocks=True, **RULES)
DOOR = Point("door", Parcel, **RULES)
LAST = Point("last", Parcel, changes=frozenset({"note"}), unskippable=True)

Next = Callable[[Any], Awaitable[Result[Any]]]


class Around:
    """Middleware from a function of the context and next."""

    def __init__(self, handle: Callable[[Any, Any], Any], name: str = "around") -> None:
        self.handle = handle
        self.name = name


class Notes:
    """A hook log that keeps who said what."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []

    def monotonic(self) -> float:
        return 0.0

    def report_context(self, ctx: Any) -> None:
        self.last = ctx

    def report_passed(self, names: HookNames, readings: Sequence[float]) -> None:
        self.entries += [(hook, "ran") for hook in names.hooks]

    def report_appended(self, entry: Entry, started: float, ctx: Any) -> float:
        raise NotImplementedError

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer) -> float:
        self.entries.append((entry.name, "failed" if answer.error else answer.kind.label))
        return 0.0


def says(answer: Any) -> Callable[[Any], Any]:
    """A hook that always gives this answer."""
    return lambda ctx: answer


def stacked(*hooks: Any, point: Point[Any] = GATE) -> HookStack:
    """A stack of hooks at one point; a pair brings options."""
    stack = HookStack()
    for hook in hooks:
        function, options = hook if isinstance(hook, tuple) else (hook, {})
        stack = stack.with_hook(function, point, **options)
    return stack


async def decide(*hooks: Any, point: Point[Any] = GATE) -> Result[Parcel]:
    """What hooks decide about a parcel."""
    return await stacked(*hooks, point=point).process(Parcel(point=point))


# --- calling next ---------------------------------------------------------------------------------


async def test_middleware_runs_around_the_rest() -> None:
    """Before it and after it, nested in the order of the plan."""
    order: list[str] = []

    def layer(name: str) -> Around:
        async def handle(ctx: Parcel, next: Next) -> Any:
            order.append(f"{name} in")
            result = await next(ctx)
            order.append(f"{name} out")
            return result

        return Around(handle, name)

    await decide(
        layer("a"),
        lambda ctx: order.append("hook"),
        layer("b"),
        lambda ctx: order.append("last"),
    )
    assert order == ["a in", "hook", "b in", "last", "b out", "a out"]


async def test_next_gives_what_the_rest_decided() -> None:
    """Verdict, reason, who, and the context they leave behind."""
    seen: list[Result[Parcel]] = []

    async def handle(ctx: Parcel, next: Next) -> None:
        seen.append(await next(ctx))

    result = await decide(
        Around(handle),
        lambda ctx: ctx.noted("seen"),
        (says(HookOutcome.block("no")), {"name": "guard"}),
    )
    assert [(each.is_blocked, each.reason, each.decided_by) for each in seen] == [
        (True, "no", "guard")
    ]
    assert seen[0].context.note == "seen"
    assert result == seen[0]


@pytest.mark.parametrize("answer", ["result", "nothing", "proceed", "context"])
async def test_a_change_made_before_next_is_seen_by_the_rest_and_stays(answer: str) -> None:
    """Whatever it returns afterwards."""

    async def handle(ctx: Parcel, next: Next) -> Any:
        result = await next(ctx.noted("before,"))
        answers = {"result": result, "proceed": HookOutcome.proceed(), "context": result.context}
        return answers.get(answer)

    result = await decide(Around(handle), lambda ctx: ctx.noted(f"saw {ctx.note}"))
    assert result.context.note == "before,saw before,"


async def test_a_change_made_after_next_is_the_last_of_its_tier() -> None:
    """The policies judge it."""
    judged: list[str] = []

    async def handle(ctx: Parcel, next: Next) -> Any:
        result = await next(ctx)
        return result.context.noted("after")

    await decide(
        Around(handle),
        lambda ctx: ctx.noted("hook,"),
        (lambda ctx: judged.append(ctx.note), {"tier": "policy"}),
    )
    assert judged == ["hook,after"]


@pytest.mark.parametrize("wrap", [lambda ctx: ctx, HookOutcome.proceed])
async def test_what_middleware_did_not_touch_stays_as_the_rest_left_it(
    wrap: Callable[[Any], Any],
) -> None:
    """Returning the context it was given, or one derived from it, does not undo what later hooks changed."""

    async def same(ctx: Parcel, next: Next) -> Any:
        await next(ctx)
        return wrap(ctx)

    async def derived(ctx: Parcel, next: Next) -> Any:
        await next(ctx.weighing(3))
        return wrap(ctx.weighing(7))

    def hook(ctx: Parcel) -> Parcel:
        return ctx.noted("redacted")

    assert (await decide(Around(same), hook)).context.note == "redacted"
    result = await decide(Around(derived), hook)
    assert (result.context.note, result.context.weight) == ("redacted", 7)


async def test_a_sync_handle_may_return_what_next_gives_to_await() -> None:
    """`return next(ctx)` without a word of async, also under a timeout."""

    class Plain:
        def handle(self, ctx: Parcel, next: Next) -> Any:
            return next(ctx.noted("in,"))

    for options in ({}, {"timeout": 30}):
        result = await decide(
            (Plain(), options), lambda ctx: HookOutcome.block("no", ctx.noted("hook"))
        )
        assert (result.is_blocked, result.context.note) == (True, "in,hook")


async def test_middleware_wraps_only_its_own_tier() -> None:
    """What policies have judged nobody changes afterwards."""
    order: list[str] = []

    async def handle(ctx: Parcel, next: Next) -> Any:
        result = await next(ctx)
        order.append("out")
        return result

    await decide(Around(handle), (lambda ctx: order.append("policy"), {"tier": "policy"}))
    assert order == ["out", "policy"]


async def test_a_policy_may_be_middleware_and_still_only_judges() -> None:
    """It wraps the policies after it; a changed context handed to next is refused."""

    async def judge(ctx: Parcel, next: Next) -> Any:
        result = await next(ctx)
        return HookOutcome.block("they asked") if result.is_asking else result

    async def change(ctx: Parcel, next: Next) -> Any:
        return await next(ctx.weighing(9))

    law = {"tier": "policy"}
    asks = (says(HookOutcome.ask("sure?")), {"tier": "policy", "name": "asks"})
    assert (await decide((Around(judge, "law"), law), asks)).decided_by == "law"
    result = await decide((Around(change, "law"), law), asks)
    assert (result.is_blocked, result.context.weight) == (True, 1)
    assert "a policy may only judge" in result.reason


async def test_middleware_that_does_not_match_is_not_there() -> None:
    """The rest runs without it."""
    result = await decide(
        (Around(lambda ctx, next: HookOutcome.block("no")), {"matcher": lambda ctx: False}),
        lambda ctx: ctx.noted("hook"),
    )
    assert (result.kind, result.context.note) == (Kind.PROCEED, "hook")


# --- not calling next -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [says(None), says(HookOutcome.proceed()), lambda ctx: ctx.noted("mine,")]
)
async def test_middleware_that_does_not_call_next_does_not_silence_the_rest(
    answer: Callable[[Any], Any],
) -> None:
    """They run after it, with what it changed, and their block counts."""
    asked: list[str] = []

    def guard(ctx: Parcel) -> HookOutcome:
        asked.append(ctx.note)
        return HookOutcome.block("no")

    result = await decide(Around(lambda ctx, next: answer(ctx)), (guard, {"name": "guard"}))
    assert (result.is_blocked, result.decided_by) == (True, "guard")
    assert asked == [(answer(Parcel(point=GATE)) and result.context.note) or ""]


async def test_middleware_that_asks_without_next_leaves_the_rest_to_judge() -> None:
    """Only block and stop end a chain early."""
    result = await decide(
        Around(lambda ctx, next: HookOutcome.ask("sure?")),
        (says(HookOutcome.block("no")), {"name": "guard"}),
    )
    assert (result.kind, result.decided_by) == (Kind.BLOCK, "guard")


@pytest.mark.parametrize("word", ["block", "stop"])
async def test_middleware_that_blocks_or_stops_ends_the_chain(word: str) -> None:
    """The rest is not asked."""
    asked: list[str] = []
    result = await decide(
        Around(lambda ctx, next: getattr(HookOutcome, word)("no")),
        lambda ctx: asked.append("hook"),
        (lambda ctx: asked.append("policy"), {"tier": "policy"}),
    )
    assert (result.kind, result.decided_by, asked) == (Kind[word.upper()], "around", [])


# --- middleware cannot weaken ---------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["block", "stop", "ask"])
@pytest.mark.parametrize(
    "answer",
    [
        lambda result: None,
        lambda result: HookOutcome.proceed(),
        lambda result: HookOutcome.proceed(result.context),
        lambda result: result.context,
        lambda result: Result(result.context),
        lambda result: msgspec.structs.replace(result, kind=Kind.PROCEED),
    ],
)
async def test_what_a_later_hook_decided_stands(inner: str, answer: Callable[[Any], Any]) -> None:
    """However middleware puts it, its answer after next does not take a block, stop or ask back."""

    async def handle(ctx: Parcel, next: Next) -> Any:
        return answer(await next(ctx))

    result = await decide(
        Around(handle), (says(getattr(HookOutcome, inner)("no")), {"name": "guard"})
    )
    assert (result.kind, result.reason, result.decided_by) == (Kind[inner.upper()], "no", "guard")


async def test_a_second_blocker_around_the_first_does_not_hide_its_reason() -> None:
    """The one that blocked first is named; only something stricter takes its place."""

    def after(outcome: HookOutcome) -> Around:
        async def handle(ctx: Parcel, next: Next) -> HookOutcome:
            await next(ctx)
            return outcome

        return Around(handle)

    guard = (says(HookOutcome.block("first")), {"name": "guard"})
    result = await decide(after(HookOutcome.block("second")), guard)
    assert (result.reason, result.decided_by) == ("first", "guard")
    result = await decide(after(HookOutcome.stop("enough")), guard)
    assert (result.kind, result.reason, result.decided_by) == (Kind.STOP, "enough", "around")


async def test_middleware_can_be_stricter_than_the_rest() -> None:
    """As an outcome, or as a result that says so."""

    async def outcome(ctx: Parcel, next: Next) -> Any:
        await next(ctx)
        return HookOutcome.block("no")

    async def result(ctx: Parcel, next: Next) -> Any:
        return msgspec.structs.replace(await next(ctx), kind=Kind.BLOCK, reason="no")

    for handle in (outcome, result):
        decided = await decide(Around(handle), says(HookOutcome.ask("sure?")))
        assert (decided.kind, decided.reason, decided.decided_by) == (Kind.BLOCK, "no", "around")


word = st.sampled_from(["none", "proceed", "ask", "block", "stop"])
plain = st.tuples(st.just("plain"), word, st.just(False), st.sampled_from(["hook", "policy"]))
onion = st.tuples(st.just("onion"), word, st.booleans(), st.sampled_from(["hook", "policy"]))


@given(st.lists(plain | onion, max_size=6))
async def test_no_mix_of_hooks_and_middleware_loses_a_word(
    made: list[tuple[str, str, bool, str]],
) -> None:
    """The outcome is the strictest word anyone said, and everyone is asked exactly once until someone forbids."""
    said: list[Kind] = []
    asked: list[int] = []

    def answer(word: str) -> HookOutcome | None:
        if word == "none":
            return None
        said.append(Kind[word.upper()])
        return HookOutcome(Kind[word.upper()], "r")

    def make(index: int, shape: str, word: str, calls: bool) -> Any:
        def hook(ctx: Parcel) -> Any:
            asked.append(index)
            return answer(word)

        async def handle(ctx: Parcel, next: Next) -> Any:
            asked.append(index)
            if calls:
                await next(ctx)
            return answer(word)

        return hook if shape == "plain" else Around(handle)

    stack = HookStack()
    for index, (shape, spoken, calls, tier) in enumerate(made):
        stack = stack.with_hook(make(index, shape, spoken, calls), GATE, tier=tier)
    result = await stack.process(Parcel(point=GATE))
    assert result.kind is max(said, default=Kind.PROCEED)
    assert len(set(asked)) == len(asked)
    if result.kind < Kind.BLOCK:
        assert sorted(asked) == list(range(len(made)))


# --- wrong use of next ----------------------------------------------------------------------------


async def test_calling_next_twice_is_an_error_and_the_rest_runs_once() -> None:
    """Two calls, or one awaited twice."""
    asked: list[str] = []

    async def twice(ctx: Parcel, next: Next) -> Any:
        await next(ctx)
        return await next(ctx)

    async def again(ctx: Parcel, next: Next) -> Any:
        rest = next(ctx)
        await rest
        return await rest

    for handle in (twice, again):
        asked.clear()
        result = await decide(Around(handle), lambda ctx: asked.append("hook"))
        assert (result.is_blocked, result.decided_by, asked) == (True, "around", ["hook"])
        assert "it called next twice." in result.reason


async def test_calling_next_without_awaiting_it_is_an_error() -> None:
    """It did nothing, which its author did not mean; the remedy says what to write."""

    async def forgetful(ctx: Parcel, next: Next) -> None:
        next(ctx)

    with pytest.raises(HookError) as caught:
        await decide(Around(forgetful), point=DOOR)
    assert str(caught.value) == (
        "hook 'around' at door: it called next(ctx) and never awaited it. Write `await next(ctx)`."
    )


async def test_forgetting_to_await_next_with_an_open_hook_still_asks_the_rest() -> None:
    """The failure is skipped, the rest is not."""

    async def forgetful(ctx: Parcel, next: Next) -> None:
        next(ctx)

    result = await decide(
        (Around(forgetful), {"on_failure": "open"}),
        (says(HookOutcome.block("no")), {"name": "guard"}),
    )
    assert result.decided_by == "guard"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda ctx: msgspec.structs.replace(ctx, sender="bob"), "it changed 'sender'"),
        (lambda ctx: None, "it returned a NoneType instead of a Parcel"),
    ],
)
async def test_handing_next_what_may_not_be_changed_is_an_error(
    change: Callable[[Any], Any], problem: str
) -> None:
    """The rest never sees it."""
    asked: list[Any] = []

    async def handle(ctx: Parcel, next: Next) -> Any:
        return await next(change(ctx))

    result = await decide(Around(handle), asked.append)
    assert (result.is_blocked, result.decided_by, asked) == (True, "around", [])
    assert problem in result.reason


@pytest.mark.parametrize("on_failure", ["closed", "open"])
async def test_cutting_next_short_does_not_let_the_rest_be_skipped(on_failure: str) -> None:
    """Middleware that stops waiting for the rest has failed, and fails closed: some hook has not answered."""
    slow_was_asked = asyncio.Event()

    async def slow(ctx: Parcel) -> HookOutcome:
        slow_was_asked.set()
        await asyncio.Event().wait()
        return HookOutcome.block("never said")

    async def impatient(ctx: Parcel, next: Next) -> None:
        try:
            await asyncio.wait_for(next(ctx), 0.01)
        except TimeoutError:
            return

    options = {"on_failure": on_failure}
    result = await decide((Around(impatient), options), slow)
    assert slow_was_asked.is_set()
    assert (result.is_blocked, result.decided_by) == (True, "around")
    assert "did not wait" in result.reason
    with pytest.raises(HookError, match="hook 'around' at door"):
        await decide((Around(impatient), options), slow, point=DOOR)


@pytest.mark.parametrize("on_failure", ["closed", "open"])
async def test_middleware_that_runs_out_of_time_inside_next_fails_closed(on_failure: str) -> None:
    """The rest was cut short with it."""

    async def handle(ctx: Parcel, next: Next) -> Any:
        return await next(ctx)

    async def slow(ctx: Parcel) -> None:
        await asyncio.Event().wait()

    result = await decide((Around(handle), {"on_failure": on_failure, "timeout": 0.01}), slow)
    assert (result.is_blocked, result.decided_by) == (True, "around")


# --- failures in and around middleware ------------------------------------------------------------


async def crash_before(ctx: Parcel, next: Next) -> Any:
    """Fails before the rest is asked."""
    raise ValueError("broken")


async def crash_after(ctx: Parcel, next: Next) -> Any:
    """Fails after the rest was asked."""
    await next(ctx)
    raise ValueError("broken")


@pytest.mark.parametrize("handle", [crash_before, crash_after])
async def test_a_crash_of_middleware_counts_like_any_crash(handle: Any) -> None:
    """A block, an error, or, open, nothing; then the rest has run once, with its changes kept."""
    note = lambda ctx: ctx.noted("hook")  # noqa: E731 - one hook for three stacks
    result = await decide(Around(handle), note)
    assert (result.is_blocked, result.decided_by) == (True, "around")
    with pytest.raises(HookError, match="hook 'around' at door: ValueError: broken"):
        await decide(Around(handle), note, point=DOOR)
    result = await decide((Around(handle), {"on_failure": "open"}), note)
    assert (result.kind, result.context.note) == (Kind.PROCEED, "hook")


async def swallow(ctx: Parcel, next: Next) -> None:
    """Pretends that nothing happened."""
    try:
        await next(ctx)
    except Exception:
        return


async def pass_on(ctx: Parcel, next: Next) -> Any:
    """Does nothing of its own."""
    return await next(ctx)


@pytest.mark.parametrize("handle", [swallow, pass_on])
@pytest.mark.parametrize("on_failure", ["closed", "open"])
async def test_middleware_neither_hides_nor_owns_the_failure_of_a_later_hook(
    handle: Any, on_failure: str
) -> None:
    """Where a failure is an error, it stays the error of the hook that failed."""

    def crash(ctx: Parcel) -> None:
        raise ValueError("broken")

    with pytest.raises(HookError) as caught:
        await decide(
            (Around(handle, "outer"), {"on_failure": on_failure}),
            Around(pass_on, "inner"),
            (crash, {"name": "guard"}),
            point=DOOR,
        )
    assert caught.value.hook == "guard"
    assert str(caught.value) == "hook 'guard' at door: ValueError: broken"
    assert isinstance(caught.value.__cause__, ValueError)


async def test_on_the_way_out_everyone_runs_whatever_middleware_does() -> None:
    """Also around and after one that fails; the first failure is the one that is reported."""
    ran: list[str] = []

    def crash(ctx: Parcel) -> None:
        ran.append("crash")
        raise ValueError("first")

    async def crashing(ctx: Parcel, next: Next) -> Any:
        await next(ctx)
        raise ValueError("second")

    with pytest.raises(HookError, match="hook 'crash' at last: ValueError: first"):
        await decide(Around(crashing), crash, lambda ctx: ran.append("after"), point=LAST)
    assert ran == ["crash", "after"]


# --- shadow ---------------------------------------------------------------------------------------


async def test_middleware_in_shadow_runs_beside_the_rest() -> None:
    """`Next` returns that nothing was decided. The rest runs once, later, and not because of this call."""
    seen: list[Any] = []

    async def handle(ctx: Parcel, next: Next) -> Any:
        result = await next(ctx.weighing(9))
        seen.append((result.kind, result.context.weight))
        return HookOutcome.block("would have")

    def hook(ctx: Parcel) -> Parcel:
        seen.append(ctx.weight)
        return ctx.noted("hook")

    notes = Notes()
    stack = stacked((Around(handle, "trial"), {"shadow": True}), (hook, {"name": "hook"}))
    result = await run_hooks(stack.plan(GATE), Parcel(point=GATE), notes)
    assert seen == [(Kind.PROCEED, 9), 1]
    assert (result.kind, result.context.weight, result.context.note) == (Kind.PROCEED, 1, "hook")
    assert notes.entries == [("trial", "block"), ("hook", "proceed")]


@pytest.mark.parametrize("handle", [crash_before, crash_after])
async def test_a_crash_in_shadow_is_noted_and_that_is_all(handle: Any) -> None:
    """The rest is asked as if it were not there."""
    notes = Notes()
    stack = stacked(
        (Around(handle, "trial"), {"shadow": True}), (says(None), {"name": "hook"}), point=DOOR
    )
    await run_hooks(stack.plan(DOOR), Parcel(point=DOOR), notes)
    assert notes.entries == [("trial", "failed"), ("hook", "ran")]


async def test_the_log_has_middleware_after_the_hooks_that_it_wraps() -> None:
    """In the order in which answers were given; handing on the result is no verdict of its own."""
    notes = Notes()
    stack = stacked(Around(pass_on, "outer"), (says(HookOutcome.block("no")), {"name": "guard"}))
    await run_hooks(stack.plan(GATE), Parcel(point=GATE), notes)
    assert notes.entries == [("guard", "block"), ("outer", "ran")]


async def test_a_function_of_context_and_next_wraps_the_rest() -> None:
    """Async, or a plain one that only hands on."""

    async def outer(ctx: Parcel, next: Any) -> Any:
        result = await next(ctx.noted("in "))
        return result.context.noted(" out")

    def inner(ctx: Parcel, call_next: Any) -> Any:
        return call_next(ctx.noted("inner"))

    result = await decide(outer, inner)
    assert result.context.note == "in inner out"


@pytest.mark.parametrize("use", [lambda given: given.is_blocked, lambda given: given + 1])
async def test_a_plain_function_that_looks_at_what_next_gives_is_told_to_await_it(use: Any) -> None:
    """The error says what was forgotten, and the crash that came of it is its cause."""

    def looks(ctx: Parcel, next: Any) -> Any:
        return next(ctx) if use(next(ctx)) else None

    with pytest.raises(HookError, match=r"never awaited it. Write `await next\(ctx\)`") as caught:
        await decide(looks, point=DOOR)
    assert isinstance(caught.value.__cause__, AttributeError | TypeError)
