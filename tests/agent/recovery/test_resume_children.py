"""Children of a run that died, or paused: they are sent back to work so often and no more, and none is forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lives import Case, Tape, World, children_of, cut, driven, story_of

from hookline import AgentBuilder, HookOutcome, RunResult, RunStatus, ToolContext, tool
from hookline.journal import ChildFinished, HookRan
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, say

# --- sent back to work -----------------------------------------------------------------------------------


def never_content(world: World) -> Any:
    """An agent whose hook objects to whatever a child comes back with."""

    def object_always(ctx: Any) -> Any:
        world.hooked.append(ctx.result.text)
        return HookOutcome.block("go on")

    return world.builder().with_limits(objections=3).on_subagent_stop(object_always).build()


async def test_a_child_is_sent_back_as_often_over_all_processes() -> None:
    """After any record: the same objections, to the same results, and those on record are not made again."""
    case = Case((("delegate",),))
    whole = World(case, Tape())
    expected = await driven(whole, never_content(whole).run("go", run_id="run"))
    assert len(whole.hooked) == 4  # three objections, which is the limit, and the last result
    for at in whole.tape.cuts():
        again = World(case, cut(whole.tape, at))
        known = sum(_objects(record) for record in again.tape.written)
        result = await driven(again, never_content(again).resume("run"))
        assert story_of(result) == story_of(expected)
        assert children_of(again.tape) == children_of(whole.tape)
        assert known + len(again.hooked) <= 4
        assert again.hooked == whole.hooked[4 - len(again.hooked) :]


async def test_objections_to_two_children_at_once_are_told_apart() -> None:
    """What a hook said of one child is not taken for what it said of the other."""
    case = Case((("delegate", "delegate"),), (("subagent_stop", "object"),))
    whole = World(case, Tape())
    expected = await driven(whole, whole.agent().run("go", run_id="run"))
    for at in whole.tape.cuts():
        again = World(case, cut(whole.tape, at))
        result = await driven(again, again.agent().resume("run"))
        assert story_of(result) == story_of(expected)
        assert children_of(again.tape) == children_of(whole.tape)


def _objects(record: Any) -> bool:
    return isinstance(record, HookRan) and record.point == "subagent_stop"


def waiting_child(replies: list[Any]) -> Any:
    """An agent that asks a person before it uses its tool."""

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    builder = AgentBuilder().with_id("child").with_driver(ScriptedDriver(replies)).with_tools(look)
    return builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), tier="policy").build()


@pytest.mark.parametrize("journalled", [False, True])
async def test_objections_count_over_a_pause(*, journalled: bool) -> None:
    """A child that was sent back twice and then waits for a person can be sent back once more."""
    replies = [say("a"), say("b"), call("look"), say("c"), say("d"), say("e"), say("f")]
    inner = waiting_child(replies)

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(inner, "task")).text

    builder = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("done")]))
    builder.with_tools(delegate).with_limits(objections=3)
    builder.on_subagent_stop(lambda ctx: HookOutcome.block("go on"))
    agent = (builder.with_journal(Tape()) if journalled else builder).build()
    paused = await agent.run("go", run_id="run")
    assert paused.status is RunStatus.PAUSED
    answers = {pending.id: True for pending in paused.pending}
    result = await agent.resume(paused, answers)
    assert result.steps[0].results[0].result == "d"


# --- none is forgotten -----------------------------------------------------------------------------------


def two_children(hook: Any = None) -> Any:
    """An agent with a tool that starts two children at once; one of them waits for a person."""
    waits = waiting_child([call("look"), say("never")])
    done = AgentBuilder().with_id("quick").with_driver(ScriptedDriver([say("quick")])).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on, twice."""
        both = await asyncio.gather(
            context.spawn(waits, "wait", name="slow"),
            context.spawn(done, "hurry"),
            return_exceptions=True,
        )
        return str(both)

    builder = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("done")]))
    builder.with_tools(delegate)
    return builder if hook is None else builder.on_subagent_stop(hook)


def ends_of(result: RunResult) -> dict[str, RunStatus]:
    """How the children of a run ended, by name."""
    found = [record for record in result.records if isinstance(record, ChildFinished)]
    return {record.name: record.status for record in found}


async def test_a_child_that_waits_ends_when_a_hook_fails_over_its_sibling() -> None:
    """The call has failed, nobody will take the child up, and its parent's record says so."""

    def crash(ctx: Any) -> Any:
        raise ValueError("no")

    result = await two_children(crash).build().run("go")
    assert result.steps[0].results[0].status is ResultStatus.ERROR
    assert ends_of(result) == {"slow": RunStatus.CANCELLED, "quick": RunStatus.COMPLETED}


async def test_a_child_that_waits_ends_when_a_hook_ends_the_run() -> None:
    """Its call did not come to its end, and the child does not either."""
    stop = two_children(lambda ctx: ctx.forbid("enough"))
    stop.on_after_step(lambda ctx: None)
    paused = await stop.build().run("go")
    assert (paused.status, ends_of(paused)) == (RunStatus.PAUSED, {"quick": RunStatus.COMPLETED})
    agent = two_children(lambda ctx: HookOutcome.stop("enough")).build()
    result = await agent.run("go")
    assert result.status is RunStatus.STOPPED
    assert ends_of(result) == {"slow": RunStatus.CANCELLED, "quick": RunStatus.COMPLETED}


# --- a call that waited for its children, and had its result ---------------------------------------------


async def test_a_call_that_waited_and_has_its_result_on_record_does_not_run_again() -> None:
    """Not even the part of it after the child: that must happen once."""
    used: list[str] = []

    def agent(tape: Tape, *replies: Any) -> Any:
        inner = waiting_child([call("look"), say("fine")])

        @tool
        async def delegate(context: ToolContext) -> str:
            """Hand it on, and pay for it."""
            used.append((await context.spawn(inner, "task")).text)
            return used[-1]

        builder = AgentBuilder().with_driver(ScriptedDriver(list(replies))).with_tools(delegate)
        return builder.with_journal(tape).build()

    tape = Tape()
    first = agent(tape, call("delegate"), say("done"))
    paused = await first.run("go", run_id="run")
    expected = await first.resume("run", {pending.id: True for pending in paused.pending})
    settled = [record.type == "tool_result" and record.run_id == "run" for record in tape.written]
    result = await agent(cut(tape, settled.index(True) + 1), say("done")).resume("run")
    assert used == ["fine"]
    assert story_of(result) == story_of(expected)


# --- a call that must run once ---------------------------------------------------------------------------


def paying(journal: Any, paid: list[str], **options: Any) -> Any:
    """An agent with a tool that has a child look, and then pays, once."""
    replies = [lambda state: say("all done") if state.steps else call("pay")] * 2
    child_replies = [lambda state: say("fine") if state.steps else call("look")] * 2

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    inner = AgentBuilder().with_id("child").with_driver(ScriptedDriver(child_replies))
    inner.with_tools(look)

    @tool
    async def pay(context: ToolContext) -> str:
        """Pay, once."""
        looked = await context.spawn(inner.build(), "look")
        paid.append(looked.text)
        return "paid"

    builder = AgentBuilder().with_driver(ScriptedDriver(replies)).with_tools(pay)
    return builder.with_journal(journal, **options).build()


async def test_a_call_that_must_run_once_is_in_doubt_when_its_children_were_done() -> None:
    """After the last of them it may have done what it must not do twice; in the middle of one it waited for it."""
    whole = Tape()
    expected = await paying(whole, []).run("go", run_id="run")
    types = [(record.run_id, record.type) for record in whole.written]
    begun, done = types.index(("run", "child_started")), types.index(("run", "child_finished"))
    settled = types.index(("run", "tool_result"))
    for at in (at for at in whole.cuts() if begun < at <= settled + 1):
        paid: list[str] = []
        result = await paying(Tape(whole.written[:at]), paid).resume("run")
        (told,) = result.steps[0].results
        if done < at <= settled:
            assert (told.status, paid) == (ResultStatus.IN_DOUBT, [])
        else:
            assert (told.status, paid) == (ResultStatus.OK, ["fine"] * (at <= done))
        assert result.state.counters.steps == expected.state.counters.steps
