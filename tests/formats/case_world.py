"""What the recorded runs have in common: a model with a script, tools that leave a trace, and a place to be killed at.

Only public names are used here, because this code must work with every later version of Hookline.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    RunResult,
    RunStatus,
    SQLiteJournal,
    ToolContext,
    tool,
)
from hookline.journal import RequestSent
from hookline.state import Attachment
from hookline.testing import FakeClock, ScriptedDriver

THEN = 1_794_000_000.0
"""When the runs were recorded, in seconds since 1970."""
LATER = THEN + 86_400.0
"""When the tests resume them."""
TICK = 1 / 1024
"""How far the clock moves with each look at it. A power of two, so that sums of ticks are exact."""


class TickingClock(FakeClock):
    """A clock that moves a little whenever somebody looks at it, so that everything takes some time."""

    def now(self) -> float:
        """Seconds since 1970."""
        self.advance(TICK)
        return self.time

    def monotonic(self) -> float:
        """Seconds that only ever go up."""
        return self.now()


class World:
    """What the agents of one case do, and where their process is killed.

    `folder` is their project. What tools did is in a file there, because a killed process must not forget it.
    """

    def __init__(self, folder: Path, *, start: float = THEN, kill_at: str = "") -> None:
        self.folder = folder
        self.kill_at = kill_at
        self.clock = TickingClock(start)
        self.agent: Agent | None = None
        """The agent, for hooks and tools that cancel its runs."""

    def do(self, what: str) -> None:
        """A tool does something to the world."""
        with (self.folder / "did.txt").open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")

    @property
    def did(self) -> list[str]:
        """Everything that tools have done, in any process."""
        path = self.folder / "did.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    async def reach(self, place: str) -> None:
        """Die here, if this is the place."""
        if place == self.kill_at:
            await asyncio.sleep(0.2)  # records that nobody waits for are on the disk by then
            os.kill(os.getpid(), signal.SIGKILL)

    def builder(self, *turns: Any, name: str = "main", tools: bool = True) -> AgentBuilder:
        """An agent whose model makes these turns."""
        builder = AgentBuilder().with_id(name).with_version("1").with_clock(self.clock)
        builder.with_driver(Steps(self, name, turns))
        return builder.with_tools(*tools_of(self)) if tools else builder


class Steps:
    """A model that answers by how far the run is, so that any process can continue with it.

    A turn is what ScriptedDriver takes, a response, or a list with one of these for each attempt.
    """

    model = "scripted"

    def __init__(self, world: World, name: str, turns: tuple[Any, ...]) -> None:
        self.world, self.name, self.turns = world, name, turns

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step."""
        step = turn.state.step_count
        await self.world.reach(f"{self.name} model {step + 1}")
        played = self.turns[step]
        if isinstance(played, list):
            requests = [each for each in turn.durable.records if isinstance(each, RequestSent)]
            asked = sum(each.step == turn.step_index for each in requests)
            played = played[min(asked, len(played)) - 1]
        if hasattr(played, "with_text"):
            return played
        return await ScriptedDriver([played]).infer(request, turn)


def tools_of(world: World) -> list[Any]:
    """The tools that every case has: one of each effect, and those that go wrong."""

    @tool(effect="pure")
    async def look(at: str = "door") -> str:
        """Look."""
        await world.reach("look")
        world.do(f"look {at}")
        return f"seen {at}"

    @tool(effect="idempotent")
    async def note(text: str, context: ToolContext) -> str:
        """Note something."""
        world.do(f"note {text} {context.idempotency_key}")
        await world.reach("note")
        return f"noted {text}"

    @tool
    async def pay(amount: int, to: str = "bank") -> dict[str, Any]:
        """Pay."""
        world.do(f"pay {amount} {to}")
        await world.reach("pay")
        return {"paid": amount, "to": to}

    @tool(effect="pure")
    async def fails(times: int = 99) -> str:
        """Fail so often."""
        world.do("fails")
        if world.did.count("fails") <= times:
            raise ValueError("no such luck")
        return "at last"

    @tool
    async def wait() -> str:
        """Wait until the process is killed; without a kill, not at all."""
        await world.reach("wait")
        world.do("wait")
        return "waited"

    return [look, note, pay, fails, wait]


class Case(NamedTuple):
    """A run to record, and how it continues."""

    name: str
    build: Callable[[World], AgentBuilder]
    prompt: str = "Go."
    attachments: tuple[Attachment, ...] = ()
    answers: tuple[Mapping[str, Decision], ...] = ()
    """Answers that are on record: for each pause, by the name of the tool that is asked about."""
    kill_at: tuple[str, ...] = ()
    """The places where one process after the other is killed; one with an empty place is not killed."""
    later: tuple[Mapping[str, Decision], ...] = ()
    """Answers that the run gets when it is resumed in a test."""
    children: Callable[[World], dict[str, Agent]] = lambda _: {}
    """The agents of child runs, for replay and back-test."""

    def agent(self, world: World, journal: SQLiteJournal | None = None) -> Agent:
        """The agent of this case. A case that needs another `on_in_doubt` sets its journal itself."""
        builder = self.build(world)
        if journal is not None:
            doubt = IN_DOUBT.get(self.name, "tell")
            builder.with_journal(journal, on_in_doubt=doubt)
        world.agent = builder.build()
        return world.agent

    async def begin(self, world: World, journal: SQLiteJournal) -> RunResult:
        """Run it, with the answers that are on record."""
        agent = self.agent(world, journal)
        result = await agent.run(self.prompt, attachments=self.attachments, run_id=self.name)
        return await answered(agent, result, self.answers)

    async def take_up(self, world: World, journal: SQLiteJournal) -> RunResult:
        """Continue with it after a kill, without answers."""
        return await self.agent(world, journal).resume(self.name)

    async def resume(self, world: World, journal: SQLiteJournal) -> RunResult:
        """Continue with it, to the end."""
        agent = self.agent(world, journal)
        if not self.later:
            return await agent.resume(self.name)
        pending = await pending_of(journal, self.name)
        if not pending:  # it was killed, and asks when it is resumed
            return await answered(agent, await agent.resume(self.name), self.later)
        result = await agent.resume(self.name, chosen(pending, self.later[0]))
        return await answered(agent, result, self.later[1:])


IN_DOUBT: dict[str, Any] = {}
"""How calls in doubt are resolved, by case; in all others the model reads that the outcome is unknown."""


async def pending_of(journal: SQLiteJournal, run_id: str) -> tuple[Any, ...]:
    """The questions that a recorded run waits for."""
    last = (await journal.read(run_id))[-1]
    return tuple(getattr(last, "pending", ()))


def chosen(pending: tuple[Any, ...], answers: Mapping[str, Decision]) -> dict[str, Decision]:
    """The answers by the ids of the questions; a question without an answer stays open."""
    return {
        each.id: answers[each.tool_call.name] for each in pending if each.tool_call.name in answers
    }


async def answered(
    agent: Agent, result: RunResult, rounds: tuple[Mapping[str, Decision], ...]
) -> RunResult:
    """Answer one pause after the other."""
    for answers in rounds:
        assert result.status is RunStatus.PAUSED, result
        result = await agent.resume(result.state.run_id, chosen(result.pending, answers))
    return result
