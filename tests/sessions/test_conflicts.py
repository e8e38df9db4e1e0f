"""Two writers on one session: the second gets an error, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_results import message_texts
from session_setup import SessionSetup

from hookline.errors import JournalError, SessionConflictError, SessionError, UsageError
from hookline.sessions import Session
from hookline.state import PendingApproval
from hookline.testing import call, say


async def test_the_second_of_two_writers_gets_a_conflict(setup: SessionSetup) -> None:
    """It says what has happened since, and what to do; afterwards both have had their say."""
    await setup.sessions.create(id="s")
    one, two = await setup.sessions.get("s"), await setup.sessions.get("s")
    await one.run(setup.agent(say("a")), "from one")
    agent = setup.agent(say("b"))
    with pytest.raises(SessionConflictError) as conflict:
        await two.run(agent, "from two")
    assert str(conflict.value) == (
        "session 's' has changed since it was read here: version 1 was read, and it is at version 4 "
        "(run 's-1' was added, run 's-1' ended or paused, it was renamed). Nothing was done. "
        "Read it again with session.refresh(), and repeat what is still needed."
    )
    assert len(await setup.journal.runs()) == 1
    await (await two.refresh()).run(agent, "from two")
    assert message_texts(await setup.sessions.get("s")) == ["from one", "a", "from two", "b"]


async def test_a_session_that_is_running_is_not_touched(setup: SessionSetup) -> None:
    """Neither run nor changed, by this process or another; it can be looked at and forked."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "hello")
    other = await setup.sessions.get("s")
    refused: list[str] = []

    async def approve(question: PendingApproval) -> bool:
        for attempt in (other.suspend, other.clear, other.delete, lambda: other.rewind(to=0)):
            with pytest.raises(SessionConflictError) as conflict:
                await attempt()
            refused.append(str(conflict.value))
        with pytest.raises(SessionConflictError):
            await session.run(setup.agent(say("never")), "me too")
        assert message_texts(await other.fork()) == ["hello", "a"]
        assert message_texts(await other.refresh())[:2] == ["hello", "a"]
        return True

    agent = setup.builder(call("pay", amount=5), say("done")).with_approver(approve).build()
    await session.run(agent, "pay")
    assert setup.paid == [5]
    assert refused[0].startswith("session 's' is in use by another process or task now (run ")
    assert "session.refresh()" in refused[0]
    assert message_texts(session)[-1] == "done"


async def test_of_two_runs_at_once_one_works(setup: SessionSetup) -> None:
    """The other gets a conflict, and its prompt can be given again."""
    session = await setup.sessions.create(id="s")
    first, second = await asyncio.gather(
        session.run(setup.agent(say("a")), "one"),
        session.run(setup.agent(say("b")), "two"),
        return_exceptions=True,
    )
    assert first.text == "a"  # type: ignore[union-attr]
    assert isinstance(second, SessionConflictError)
    await session.run(setup.agent(say("b")), "two")
    assert message_texts(session) == ["one", "a", "two", "b"]


async def test_an_answer_given_elsewhere_is_a_conflict_too(setup: SessionSetup) -> None:
    """Whoever still sees the question cannot answer it a second time."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(call("pay", amount=5)), "pay")
    other = await setup.sessions.get("s")
    answers = {question.id: True for question in session.pending}
    await other.resume_run(setup.agent(say("paid")), answers)
    with pytest.raises(SessionConflictError, match="run 's-1' was resumed"):
        await session.resume_run(setup.agent(say("paid")), answers)
    with pytest.raises(SessionError, match="has no run that waits"):
        await (await session.refresh()).resume_run(setup.agent(), answers)
    assert setup.paid == [5]


def test_two_sessions_cannot_have_one_id(setup: SessionSetup) -> None:
    """The error for the second says how to continue the first."""
    setup.sessions.create_sync(id="s")
    with pytest.raises(UsageError, match=r"a session 's' already\. .*sessions\.get"):
        setup.sessions.create_sync(id="s")


CHANGES: dict[str, Callable[[Session], object]] = {
    "rename": lambda session: session.rename_sync("x"),
    "suspend": lambda session: session.suspend_sync(),
    "resume": lambda session: session.resume_sync(),
    "clear": lambda session: session.clear_sync(),
    "rewind": lambda session: session.rewind_sync(to=0),
    "fork": lambda session: session.fork_sync(),
}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(sorted(CHANGES))), max_size=12))
def test_a_change_needs_the_latest_version(
    changes: list[tuple[int, str]],
) -> None:
    """Whatever three writers do in whichever order: what they see is what is in the journal, or is refused."""
    setup = SessionSetup()
    setup.sessions.create_sync(id="s")
    writers = [setup.sessions.get_sync("s") for _ in range(3)]
    for who, change in changes:
        writer, before = writers[who], setup.sessions.get_sync("s")
        try:
            CHANGES[change](writer)
        except SessionConflictError:
            assert writer.version != before.version
            assert setup.sessions.get_sync("s").version == before.version
            writer.refresh_sync()
        except SessionError:
            assert setup.sessions.get_sync("s").version == before.version
        else:
            now = setup.sessions.get_sync("s")
            assert change == "fork" or writer.version == now.version
            assert change == "fork" or (writer.title, writer.status) == (now.title, now.status)
    assert not setup.journal.claimed


async def test_a_full_disk_is_reported_and_nothing_begins(setup: SessionSetup) -> None:
    """No run starts that the session could not note; when there is room again it continues."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "one")
    setup.journal.is_full = True
    with pytest.raises(JournalError, match="the disk is full"):
        await session.run(setup.agent(say("b")), "two")
    with pytest.raises(JournalError, match="the disk is full"):
        await session.suspend()
    setup.journal.is_full = False
    assert (session.version, session.status.value) == (4, "open")
    assert (await session.run(setup.agent(say("b")), "two")).run_id == "s-2"
    assert message_texts(session) == ["one", "a", "two", "b"]


async def test_a_disk_that_is_full_in_the_end_does_not_cost_the_result(setup: SessionSetup) -> None:
    """The run says that its journal could not be written, and can be continued."""
    session = await setup.sessions.create(id="s")
    builder = setup.builder(call("look"), say("a"))

    def fill(ctx: object) -> None:
        setup.journal.is_full = True

    result = await session.run(builder.on_execution_end(fill).build(), "one")
    assert isinstance(result.error, JournalError)
    setup.journal.is_full = False
    again = await setup.sessions.get("s")
    with pytest.raises(SessionError, match=r"was left unfinished\. .*resume_run"):
        await again.run(setup.agent(), "two")
    assert (await again.resume_run(setup.agent(say("a")))).text == "a"
