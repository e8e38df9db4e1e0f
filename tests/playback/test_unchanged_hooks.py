"""Back-test with the hooks of then: nothing would change, whatever limit stopped the run and wherever it was killed."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from recorded_runs import AT, Case, Tape, World, cases

from hookline import Agent, HookOutcome
from hookline.playback import backtest, replay
from hookline.state import StopReason

Limits = dict[str, int]
NEVER_CONTENT = Case(
    (("delegate",),), (("subagent_stop", "object"),), (("busy",),), approver="edit"
)
EDITED = Case((("look",),), (("before_tool_use", "policy ask"),), approver="edit")
REFUSED = Case(
    (("look", "look"),),
    (
        ("before_tool_use", "policy ask"),
        ("permission_request", "crash"),
        ("after_tool_use", "watch"),
    ),
)
"""A kill may come when the first call has its result and the second only the error that it was denied."""
CHANGED_BY_CHILD = Case((("delegate",),), child_hooks=(("before_tool_use", "rewrite"),))
MARKED = Case(
    (("look",), ("look",)), (("around_step", "mark"), ("before_tool_use", "heed")), (("look",),)
)
BROKEN = Case((("look", "pay"), ("fails",)), (("around_tool_use", "break"),))
BROKEN_TWICE = Case(
    (("look",),),
    (("around_step", "break"), ("around_tool_use", "refuse"), ("after_tool_use", "crash")),
)
"""The words of the first failure are withheld, and those of the second are not."""
AROUND = [(point, action) for point in AT if point.startswith("around_") for action in AT[point]]
AROUND += [("around_tool_use", "break")]
LIMITS: list[Limits] = [{}, {"steps": 1}, {"steps": 2}, {"tool_calls": 0}, {"tool_calls": 2}]


def agent(case: Case, limits: Limits, tape: Tape | None = None) -> Agent:
    """The agent of a case, with these limits."""
    builder = World(case).builder().with_limits(**limits)
    return (builder if tape is None else builder.with_journal(tape)).build()


async def check(tape: Tape, case: Case, limits: Limits) -> None:
    """The hooks of then say what they said, with the child's agent and without it."""
    for children in ({}, {"helper": World(case).child()}):
        report = await backtest(tape, agent(case, limits), children=children)
        assert report.ok, str(report)


@settings(max_examples=60, deadline=None)
@example(case=Case((("unknown", "look"), ())), limits={}, part=0.5)
@example(case=Case((("look",), ("unknown", "look too"))), limits={"tool_calls": 2}, part=0.6)
@example(case=NEVER_CONTENT, limits={}, part=0.5)
@example(case=CHANGED_BY_CHILD, limits={"tool_calls": 1}, part=1.0)
@example(case=EDITED, limits={}, part=0.5)
@example(case=REFUSED, limits={}, part=0.5)
@given(case=cases, limits=st.sampled_from(LIMITS), part=st.floats(0, 1))
def test_a_killed_run_is_judged_as_it_was(case: Case, limits: Limits, part: float) -> None:
    """As the kill left it, and after it was resumed."""

    async def main() -> None:
        whole = Tape()
        await agent(case, limits, whole).run("go", run_id="run")
        tape = whole.cut(1 + int(part * (len(whole.batches) - 1)))
        await check(tape, case, limits)
        await agent(case, limits, tape).resume("run")
        await check(tape, case, limits)

    asyncio.run(main())


@settings(max_examples=30, deadline=None)
@example(case=MARKED, around=[], part=1.0)
@example(case=BROKEN, around=[], part=1.0)
@example(case=BROKEN_TWICE, around=[], part=1.0)
@given(
    case=cases,
    around=st.lists(st.sampled_from(AROUND), min_size=1, max_size=2),
    part=st.floats(0, 1),
)
def test_hooks_around_an_action_are_followed(
    case: Case, around: list[tuple[str, str]], part: float
) -> None:
    """They are not called. What they wrote is shown to the others, and where they failed it fails again."""
    # If both fail, the record does not say whether the first failure counted.
    assume(
        ("around_tool_use", "break") not in around or ("subagent_stop", "crash") not in case.hooks
    )
    case = case._replace(hooks=(*around, *case.hooks))

    async def main() -> None:
        whole = Tape()
        await agent(case, {}, whole).run("go", run_id="run")
        tape = whole.cut(1 + int(part * (len(whole.batches) - 1)))
        await check(tape, case, {})
        await agent(case, {}, tape).resume("run")
        await check(tape, case, {})
        replayed = await replay(tape, "run", agent(case, {}))
        assert replayed.identical, str(replayed)

    asyncio.run(main())


async def check_every_kill(case: Case, limits: Limits) -> None:
    """A run is judged as it was after each batch of its records, as the kill left it and after it was resumed."""
    whole = Tape()
    await agent(case, limits, whole).run("go", run_id="run")
    for batches in range(1, len(whole.batches)):
        tape = whole.cut(batches)
        await check(tape, case, limits)
        await agent(case, limits, tape).resume("run")
        await check(tape, case, limits)


@pytest.mark.parametrize(
    "script", [(("unknown", "look"), ()), (("look",), ("unknown", "look too"))]
)
@pytest.mark.parametrize("limits", LIMITS)
async def test_an_invalid_call_is_followed_from_every_kill(
    script: tuple[tuple[str, ...], ...], limits: Limits
) -> None:
    """Its error is on record before its result is, and once, although two processes had it."""
    await check_every_kill(Case(script), limits)


@pytest.mark.parametrize("script", [(("delegate",),), (("delegate", "delegate"),)])
@pytest.mark.parametrize(
    "actions", [("object",), ("policy object",), ("watch", "object"), ("watch", "policy object")]
)
async def test_a_child_that_is_sent_back_is_followed_from_every_kill(
    script: tuple[tuple[str, ...], ...], actions: tuple[str, ...]
) -> None:
    """Each objection is on record before the child continues, and belongs to the end it was made to."""
    hooks = tuple(("subagent_stop", action) for action in actions)
    await check_every_kill(NEVER_CONTENT._replace(script=script, hooks=hooks), {"objections": 2})


@pytest.mark.parametrize("script", [(("delegate",),), (("delegate", "look"), ("delegate",))])
@pytest.mark.parametrize("actions", [("crash",), ("policy crash",), ("policy object", "crash")])
async def test_a_failure_at_the_end_of_a_child_is_followed_from_every_kill(
    script: tuple[tuple[str, ...], ...], actions: tuple[str, ...]
) -> None:
    """That the hook failed is on record before what its failure counted as, and a kill may come in between."""
    hooks = tuple(("subagent_stop", action) for action in actions)
    await check_every_kill(NEVER_CONTENT._replace(script=script, hooks=hooks), {"objections": 2})


@pytest.mark.parametrize("action", ["break", "refuse"])
async def test_a_failure_around_the_model_is_followed_from_every_kill(action: str) -> None:
    """The next process asks the model again, so the hook fails once more, and that is on record too."""
    hooks = (("around_step", "mark"), ("around_inference", action))
    await check_every_kill(Case((("look",),), hooks), {"steps": 2})


async def test_a_refused_call_is_followed_from_two_kills() -> None:
    """That a call was denied is an error, and on record before its result is. It is written and counted once."""
    whole = Tape()
    await agent(REFUSED, {}, whole).run("go", run_id="run")
    for first in range(1, len(whole.batches) + 1):
        once = whole.cut(first)
        await agent(REFUSED, {}, once).resume("run")
        for second in range(first, len(once.batches) + 1):
            twice = once.cut(second)
            await agent(REFUSED, {}, twice).resume("run")
            errors = [each for each in twice.records("run") if each.type == "error"]
            assert len(errors) == 2, (first, second)
            await check(twice, REFUSED, {})


async def test_a_failure_about_one_call_is_followed_from_a_kill_at_the_next() -> None:
    """What a failure counted as is on record when its call is settled, after the calls beside it were judged."""

    def agent_of(tape: Tape | None = None) -> Agent:
        builder = World(Case((("look", "pay"),))).builder()
        builder.on_before_tool_use(lambda ctx: 1 / 0, name="broken", matcher="look")
        builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), matcher="pay")
        return (builder if tape is None else builder.with_journal(tape)).build()

    whole = Tape()
    await agent_of(whole).run("go", run_id="run")
    for batches in range(1, len(whole.batches) + 1):
        report = await backtest(whole.cut(batches), agent_of())
        assert report.ok, str(report)


CHARGING = [
    (point, action)
    for point in ("before_step", "before_inference", "after_inference", "before_tool_use")
    for action in ("charge", "watch", "crash")
] + [("after_tool_use", "charge"), ("before_tool_use", "policy ask"), ("before_tool_use", "block")]


@settings(max_examples=60, deadline=None)
@example(hooks=[("before_step", "charge")], child_hooks=[], tokens=5, part=1.0)
@given(
    hooks=st.lists(st.sampled_from(CHARGING), max_size=3),
    child_hooks=st.lists(st.sampled_from(CHARGING), max_size=2),
    tokens=st.integers(1, 60),
    part=st.floats(0, 1),
)
def test_a_limit_counts_what_hooks_charged(
    hooks: list[tuple[str, str]], child_hooks: list[tuple[str, str]], tokens: int, part: float
) -> None:
    """A limit that stopped the run or its child stops it still; also where the record was cut off."""
    script = (("look", "look too"), ("delegate",), ("pay", "look"))
    child = (("look", "look too"), ())
    case, limits = Case(script, tuple(hooks), child, tuple(child_hooks)), {"tokens": tokens}

    async def main() -> None:
        whole = Tape()
        await agent(case, limits, whole).run("go", run_id="run")
        await check(whole, case, limits)
        await check(whole.cut(1 + int(part * (len(whole.batches) - 1))), case, limits)

    asyncio.run(main())


async def test_a_wider_limit_is_compared_with_what_hooks_charged() -> None:
    """The stop on record is not taken for granted: 9 tokens leave room in 10, and not in 9."""
    case, tape = Case((("look",),), (("before_step", "charge"),)), Tape()
    await agent(case, {"tokens": 5}, tape).run("go", run_id="run")
    assert (await backtest(tape, agent(case, {"tokens": 9}))).ok
    (change,) = (await backtest(tape, agent(case, {"tokens": 10}))).changes
    assert (change.old, change.new, change.hook) == ("stop", "proceed", "limits")


async def test_a_hook_that_stops_a_call_for_the_time_is_no_limit() -> None:
    """The hooks before it are asked, so what they made of the call is the same."""

    def agent_of(tape: Tape | None = None) -> Agent:
        builder = World(Case((("look",),), (("before_tool_use", "rewrite"),))).builder()
        late = HookOutcome.stop("late", stop_reason=StopReason.TIME_LIMIT)
        builder.on_before_tool_use(lambda ctx: late, name="clock")
        return (builder if tape is None else builder.with_journal(tape)).build()

    tape = Tape()
    await agent_of(tape).run("go", run_id="run")
    report = await backtest(tape, agent_of())
    assert report.ok, str(report)
