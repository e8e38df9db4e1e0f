"""A call that is done is on record as soon as nothing can change its result, so that no crash puts it in doubt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lives import Tape, cut

from hookline import AgentBuilder, tool
from hookline.journal import CallSettled, Record
from hookline.testing import ScriptedDriver, call, calls, say


def settled(records: list[Record]) -> list[str]:
    """The tools that have a result on record."""
    return [record.result.name for record in records if isinstance(record, CallSettled)]


class World:
    """An agent that pays and waits at the same time, and what is on record at some moments."""

    def __init__(self, tape: Tape, *, dies: bool) -> None:
        self.tape = tape
        self.paid = 0
        self.waiting = asyncio.Event()
        self.dies = dies
        self.seen: list[list[str]] = []

    def look(self) -> None:
        """Note what is on record now."""
        self.seen.append(settled(self.tape.written))

    def builder(self, *replies: Any) -> AgentBuilder:
        @tool
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        @tool
        async def wait() -> str:
            """Wait."""
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.look()
            if self.dies:
                self.waiting.set()
                await asyncio.Event().wait()
            return "waited"

        driver = ScriptedDriver(list(replies))
        return AgentBuilder().with_driver(driver).with_tools(pay, wait).with_journal(self.tape)


@pytest.mark.parametrize("names", [("pay", "wait"), ("wait", "pay")])
async def test_a_call_that_is_done_is_not_in_doubt_because_of_a_slow_one_beside_it(
    names: tuple[str, str],
) -> None:
    """Its result is on record while the other is still running: killed then, only that one is in doubt."""
    first = World(Tape(), dies=True)
    turns = (calls(call(names[0]), call(names[1])), say("done"))
    task = asyncio.ensure_future(first.builder(*turns).build().run("go", run_id="run"))
    await first.waiting.wait()
    tape = cut(first.tape, len(first.tape.written))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = World(tape, dies=False)
    result = await again.builder(say("done")).build().resume("run")
    found = {each.name: each.status.value for each in result.steps[0].results}
    assert found == {"pay": "ok", "wait": "in_doubt"}
    assert [each.name for each in result.steps[0].calls] == list(names)
    assert (first.paid, again.paid) == (1, 0)


@pytest.mark.parametrize("point", ["after_step", "should_continue"])
async def test_a_call_is_on_record_before_the_hooks_of_the_end_of_its_step(point: str) -> None:
    """They may take their time."""
    world = World(Tape(), dies=False)
    builder = world.builder(call("pay"), say("done"))
    await builder.add_hook(point, lambda ctx: world.look()).build().run("go", run_id="run")
    assert world.seen[0] == ["pay"]


async def test_a_call_that_hooks_have_seen_is_on_record_before_they_see_the_next() -> None:
    """In call order, and not before they have seen it: they might withhold it."""
    world = World(Tape(), dies=False)
    builder = world.builder(calls(call("pay"), call("wait")), say("done"))
    builder.on_after_tool_use(lambda ctx: world.look())
    await builder.build().run("go", run_id="run")
    assert world.seen == [[], [], ["pay"]]
