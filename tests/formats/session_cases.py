"""Sessions: two runs, a title, a fork, a step back, a new beginning, an end; one that waits, one that was cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from case_world import THEN, World, chosen
from run_cases import NOTHING, YES, asking

from hookline import Agent, AgentState, Decision, SQLiteJournal
from hookline.sessions import Sessions
from hookline.testing import call, say


def agent(world: World, journal: SQLiteJournal, *turns: Any) -> Agent:
    """An agent for one run of a session."""
    return (
        asking(world, *turns)
        .on_session_start(lambda ctx: ctx.with_metadata("source", ctx.source), name="start")
        .on_session_end(lambda ctx: ctx.with_metadata("ended", ctx.source), name="end")
        .with_journal(journal)
        .build()
    )


def sessions_of(journal: SQLiteJournal, world: World) -> Sessions:
    """The sessions of a journal."""
    return Sessions(journal, clock=world.clock)


async def record(journal: SQLiteJournal, world: World) -> list[AgentState]:
    """Everything that can be done with sessions. Gives the states they end with."""
    sessions = sessions_of(journal, world)
    summer = await sessions.create(title="Summer", id="summer")
    await summer.run(agent(world, journal, call("look"), say("A room.")), "Rome in June?")
    await summer.run(agent(world, journal, say("July too.")), "And July?")
    await summer.rename("Summer in Rome")
    paused = await summer.run(agent(world, journal, call("pay", amount=3), NOTHING), "Book it.")
    booked = agent(world, journal, call("pay", amount=3), NOTHING)
    await summer.resume_run(booked, chosen(paused.pending, {"pay": Decision.allow(remember=True)}))
    fork = await summer.fork(at=2, title="Cheaper", id="cheaper")
    await fork.run(agent(world, journal, say("Naples.")), "Somewhere cheaper?")
    await summer.rewind(to=3)
    await summer.run(agent(world, journal, say("With a pool.")), "A hotel?")
    await summer.close(agent(world, journal), reason="prompt_input_exit")
    await summer.run(agent(world, journal, say("And a garden.")), "Is that all?")
    await summer.close(agent(world, journal), reason="prompt_input_exit")

    cleared = await sessions.create(id="cleared")
    await cleared.run(agent(world, journal, say("One.")), "First")
    await cleared.clear()
    await cleared.run(agent(world, journal, say("Two.")), "Second")
    await cleared.suspend()
    await cleared.resume()
    await cleared.suspend()

    waiting = await sessions.create(id="waiting", title="Waiting")
    await waiting.run(agent(world, journal, call("pay", amount=4), NOTHING), "Pay.")
    return [summer.state, fork.state, waiting.state]


async def cut_off(journal: SQLiteJournal, folder: Path) -> None:
    """A session whose last run was killed in its tool."""
    world = World(folder, kill_at="note", start=THEN + 1000)
    session = await sessions_of(journal, world).create(id="cut", title="Cut off")
    await session.run(agent(world, journal, say("Hello.")), "Hi.")
    await session.run(killed_agent(world, journal), "Note it.")


def killed_agent(world: World, journal: SQLiteJournal) -> Agent:
    """The agent whose run was cut off."""
    builder = world.builder(call("note", text="s"), NOTHING)
    return builder.with_journal(journal).build()


async def continue_waiting(journal: SQLiteJournal, world: World) -> Any:
    """Answer the session that waits."""
    session = await sessions_of(journal, world).get("waiting")
    again = agent(world, journal, call("pay", amount=4), NOTHING)
    return await session.resume_run(again, chosen(session.pending, {"pay": YES}))


async def continue_cut(journal: SQLiteJournal, world: World) -> Any:
    """Continue with the session that was cut off."""
    session = await sessions_of(journal, world).get("cut")
    return await session.resume_run(killed_agent(world, journal))


async def continue_each(journal: SQLiteJournal, world: World) -> dict[str, list[str]]:
    """Another run in each session in which one can be made, after what has to be done for that."""
    sessions = sessions_of(journal, world)
    await (await sessions.get("cleared")).resume()
    said = {}
    for name in ("summer", "cheaper", "cleared"):
        session = await sessions.get(name)
        result = await session.run(agent(world, journal, *[say("More.")] * 9), "More?")
        said[name] = [message.text for message in result.state.messages]
    return said
