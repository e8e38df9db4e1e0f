"""Runs of sessions that are kept in the journal go through the session."""

from __future__ import annotations

import pytest
from house import House

from hookline.agent.runs import InSession
from hookline.errors import SessionError, UsageError
from hookline.testing import call, say


@pytest.fixture
def house() -> House:
    """A house where nothing has happened yet."""
    return House()


async def test_a_session_says_whether_a_run_starts_it(house: House) -> None:
    """Whatever the state knows of sessions."""
    agent = house.agent(say("a"), say("b"), say("c"))
    first = await agent.run("one", session=InSession("s", "fork"))
    await agent.run("two", session=InSession("s"), state=first.state)
    await agent.run("three", session=InSession("s", "clear"), state=first.state)
    assert house.seen == ["start s fork", "start s clear"]


async def test_runs_beside_a_session_are_refused_under_its_name(house: House) -> None:
    """An agent's `session=` is for those who keep the state themselves."""
    session = house.sessions.create(id="s")
    agent = house.agent(say("a"))
    with pytest.raises(UsageError, match=r"Sessions\(journal\)\.get\('s'\)\.run\(agent, prompt\)"):
        await agent.run("go", session="s")
    with pytest.raises(UsageError, match="ids that begin with 'session/'"):
        await agent.run("go", run_id="session/s")
    assert (await agent.run("go", session="other")).state.session_id == "other"
    assert session.refresh().version == 1
    assert not house.journal.claimed


async def test_a_run_of_a_suspended_session_is_not_resumed_beside_it(house: House) -> None:
    """Not by its id, and not by its state."""
    session = house.sessions.create(id="s")
    paused = await session.run(house.agent(call("pay", amount=5)), "pay")
    answers = {paused.pending[0].id: True}
    session.suspend()
    agent = house.agent(say("done"))
    for run in ("s-1", paused, paused.state):
        with pytest.raises(SessionError, match="is suspended"):
            await agent.resume(run, answers)
    assert (house.paid, house.journal.claimed) == ([], set())


async def test_a_run_of_a_session_goes_on_in_the_session(house: House) -> None:
    """Beside it nobody would be kept off the session, and one that was left behind could still act."""
    session = house.sessions.create(id="s")
    paused = await session.run(house.agent(call("pay", amount=5)), "pay")
    answers = {paused.pending[0].id: True}
    agent = house.agent(say("done"))
    with pytest.raises(UsageError, match=r"get\('s'\)\.resume_run\(agent, decisions\)"):
        await agent.resume("s-1", answers)
    assert (house.paid, house.journal.claimed) == ([], set())
    assert (await session.resume_run(agent, answers)).text == "done"
    assert (await agent.resume("s-1")).text == "done"  # what is over can be looked at anywhere
