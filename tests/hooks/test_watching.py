"""Observers and shadows see everything and change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from parcels import DOOR, GATE, WATCH, Hook, Notes, Parcel, decide, observer, policy, says, stacked

from hookline import AgentBuilder, tool
from hookline.hooks import (
    Context,
    HookOutcome,
    HookStack,
    Kind,
    Point,
    Result,
    Verdict,
    run_hooks,
)
from hookline.testing import ScriptedDriver, call, say


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
    assert result.context.verdict is None


async def test_an_observer_needs_no_verdict_in_its_context() -> None:
    """A context without such a field is shown as it is."""
    seen: list[Context] = []
    ctx = Context(point=Point("bare", Context))
    await HookStack().with_hook(seen.append, ctx.point, tier="observer").process(ctx)
    assert seen == [ctx]


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
