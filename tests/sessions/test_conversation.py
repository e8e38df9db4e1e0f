"""Where a conversation stands: forked and rewound at any of its steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_setup import SessionSetup

from hookline import AgentState
from hookline.errors import SessionError, UsageError
from hookline.sessions import Session
from hookline.state import check_transcript
from hookline.testing import call, say


async def talked(
    setup: SessionSetup, *lengths: int, id: str = "s"
) -> tuple[Session, list[AgentState]]:
    """A session with runs of so many steps each, and the state after each step, the first with none."""
    session = await setup.sessions.create(id=id)
    states = [session.state]
    for number, steps in enumerate(lengths):
        turns = [call("look", at=f"{number}.{step}") for step in range(steps - 1)]
        seen: list[AgentState] = []
        builder = setup.builder(*turns, say(f"answer {number}"))
        agent = builder.on_after_step(lambda ctx, *, seen=seen: seen.append(ctx.state)).build()
        result = await session.run(agent, f"prompt {number}")
        states += [*seen[:-1], result.state]
    return session, states


def said(state: AgentState) -> list[str]:
    """The conversation."""
    return [message.text for message in state.messages]


# --- fork ---------------------------------------------------------------------------------------------


async def test_a_fork_goes_its_own_way(setup: SessionSetup) -> None:
    """It has the conversation up to the step, its own id and title, and leaves the other as it is."""
    session, _ = await talked(setup, 2, 1)
    fork = await session.fork(at=2, title="Another way")
    assert (fork.title, fork.forked_from, fork.version) == ("Another way", "s", 1)
    result = await fork.run(setup.agent(say("forked")), "and now?")
    assert said(result.state)[-3:] == ["answer 0", "and now?", "forked"]
    assert said((await session.refresh()).state)[-1] == "answer 1"
    assert ((await session.fork()).title, (await session.fork(id="f")).id) == (session.title, "f")
    assert setup.seen == ["start s startup", f"start {fork.id} fork"]


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=3), data=st.data())
def test_any_step_can_be_forked_at_and_rewound_to(lengths: list[int], data: Any) -> None:
    """Both stand where the conversation stood after that step, and both continue from there."""

    async def check() -> None:
        setup = SessionSetup()
        session, states = await talked(setup, *lengths)
        step = data.draw(st.integers(0, sum(lengths)))
        expected = said(states[step])
        fork = await session.fork(at=step)
        assert (said(fork.state), len(fork.state.steps)) == (expected, step)
        await session.rewind(to=step)
        assert (said(session.state), len(session.state.steps)) == (expected, step)
        for each in (fork, session):
            result = await each.run(setup.agent(call("look"), say("new")), "go on")
            assert said(result.state) == [*expected, "go on", "", "seen ", "new"]
            check_transcript(result.state.messages)
        again = data.draw(st.integers(0, step + 2))
        await session.rewind(to=again)
        assert len(session.state.steps) == again
        assert said(session.state)[: len(said(states[min(again, step)]))] == said(
            states[min(again, step)]
        )

    asyncio.run(check())


async def test_the_end_of_a_run_includes_what_hooks_did_on_its_way_out(setup: SessionSetup) -> None:
    """A step in its middle does not."""
    session = await setup.sessions.create()
    builder = setup.builder(call("look"), say("done"))
    agent = builder.on_execution_end(lambda ctx: ctx.with_metadata("ended", True)).build()
    await session.run(agent, "go")
    assert (await session.fork(at=1)).state.metadata == {}
    assert (await session.fork(at=2)).state.metadata == {"ended": True}
    assert (await session.fork()).state.metadata == {"ended": True}


async def test_a_step_that_is_not_there_is_refused(setup: SessionSetup) -> None:
    """The error says which there are, and a number has to be one."""
    session, _ = await talked(setup, 2)
    for step in (3, -1):
        with pytest.raises(SessionError, match=rf"no step {step} in .* has 2 steps\. .* 0 to 2"):
            await session.fork(at=step)
        with pytest.raises(SessionError, match=f"no step {step}"):
            await session.rewind(to=step)
    for step in (True, "1", 1.0):
        with pytest.raises(UsageError, match="a step is a number"):
            await session.rewind(to=step)  # type: ignore[arg-type]
    assert session.version == 4


async def test_a_fork_begins_where_it_was_forked(setup: SessionSetup) -> None:
    """What came before belongs to the other session, and the error says where to go."""
    session, _ = await talked(setup, 3)
    fork = await session.fork(at=2, id="f")
    await fork.run(setup.agent(say("new")), "go on")
    await fork.rewind(to=2)
    assert len(fork.state.steps) == 2
    with pytest.raises(SessionError) as refused:
        await fork.rewind(to=1)
    assert "step 1 is before session 'f' was forked, after step 2 of 's'" in str(refused.value)
    assert "sessions.get('s').fork(at=1)" in str(refused.value)


async def test_a_run_that_is_not_over_counts_up_to_its_last_settled_step(
    setup: SessionSetup,
) -> None:
    """It can be forked, and left behind by rewinding."""
    session, _ = await talked(setup, 1)
    await session.run(setup.agent(call("look", at="x"), call("pay", amount=5)), "pay")
    assert said((await session.fork()).state) == ["prompt 0", "answer 0", "pay", "", "seen x"]
    await session.rewind(to=1)
    assert (session.pending, said(session.state)) == ((), ["prompt 0", "answer 0"])
    await session.run(setup.agent(say("fine")), "never mind")
    assert said(session.state) == ["prompt 0", "answer 0", "never mind", "fine"]
    assert setup.paid == []


async def test_a_session_can_be_rewound_again_and_again(setup: SessionSetup) -> None:
    """Runs that were left behind stay behind."""
    session, states = await talked(setup, 2, 2)
    await session.rewind(to=1)
    await session.run(setup.agent(say("b")), "two")
    await session.rewind(to=2)
    await session.run(setup.agent(say("c")), "three")
    assert said(session.state) == [*said(states[1]), "two", "b", "three", "c"]
    await session.rewind(to=0)
    assert said(session.state) == []
    await session.run(setup.agent(say("d")), "four")
    assert said(session.state) == ["four", "d"]
    assert setup.seen == ["start s startup"]


async def test_a_run_that_was_deleted_is_missed_and_not_skipped(setup: SessionSetup) -> None:
    """Nothing continues from something else in its place, unless the session is rewound or cleared."""
    session, states = await talked(setup, 1, 1)
    await setup.journal.delete("s-2")
    for _ in range(2):
        with pytest.raises(
            SessionError,
            match=r"run 's-2', the current run .* is not in the journal any more.*rewind",
        ):
            await session.run(setup.agent(say("a")), "go")
        with pytest.raises(SessionError, match=r"run 's-2', the current run"):
            await session.rewind(to=2)
        await session.refresh()
    await session.rewind(to=1)
    assert said(session.state) == said(states[1])
    assert (await session.run(setup.agent(say("a")), "go")).text == "a"
    await setup.journal.delete("s-3")
    await session.clear()
    assert (await session.run(setup.agent(say("b")), "go")).text == "b"
