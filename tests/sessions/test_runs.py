"""Runs in a session: the hooks at its start and end, and processes that die."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_results import message_texts
from session_setup import SessionSetup

from hookline import Decision, RunStatus
from hookline.errors import HookError, SessionError, UsageError
from hookline.journal import Record, SessionStatusChanged, hooks_in
from hookline.journal.session import stream_of
from hookline.lifecycle import SessionHookContext
from hookline.sessions import Session, SessionStatus
from hookline.state import InferenceRequest, UserMessage, check_transcript
from hookline.testing import ScriptedDriver, call, calls, say

# --- session_start and session_end --------------------------------------------------------------------


async def test_a_session_starts_once(setup: SessionSetup) -> None:
    """With its first run, and not with later ones, a resumed one, or in another process."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(call("pay", amount=5)), "pay")
    await session.resume_run(setup.agent(say("done")), {session.pending[0].id: True})
    await (await setup.sessions.get("s")).run(setup.agent(say("more")), "more")
    assert setup.seen == ["start s startup"]


async def test_closing_ends_it_and_the_next_run_opens_it_again(setup: SessionSetup) -> None:
    """Each start has its end; closing twice ends it once."""
    session = await setup.sessions.create(id="s")
    agent = setup.agent(say("a"), say("b"))
    await session.run(agent, "one")
    await session.close(agent)
    await session.close(agent)
    assert (session.status, setup.seen) == (SessionStatus.CLOSED, ["start s startup", "end s"])
    await (await setup.sessions.get("s")).run(agent, "two")
    assert ((await session.refresh()).status, message_texts(session)) == (
        SessionStatus.OPEN,
        ["one", "a", "two", "b"],
    )
    await session.close(agent)
    assert setup.seen == ["start s startup", "end s", "start s resume", "end s"]


async def test_a_session_that_never_started_ends_without_hooks(setup: SessionSetup) -> None:
    """There is no start for it to be the end of."""
    session = await setup.sessions.create(id="s")
    await session.close(setup.agent())
    assert (session.status, setup.seen) == (SessionStatus.CLOSED, [])
    await session.run(setup.agent(say("a")), "one")
    assert setup.seen == ["start s startup"]


async def test_suspending_and_rewinding_ask_no_hooks(setup: SessionSetup) -> None:
    """They are done to a session from outside, by people who may have no agent."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "one")
    await session.suspend()
    await session.resume()
    await session.rewind(to=0)
    await session.run(setup.agent(say("b")), "two")
    assert setup.seen == ["start s startup"]


async def test_what_hooks_do_at_the_end_is_there_when_it_is_opened_again(
    setup: SessionSetup,
) -> None:
    """Their verdicts are in the session's records, listeners get them, and their changes are in its state."""
    session = await setup.sessions.create(id="s")
    heard: list[Record] = []
    builder = setup.builder(say("a"), say("b")).on_event(heard.append)
    builder.on_session_end(
        lambda ctx: ctx.with_metadata("summary", f"{len(ctx.state.messages)} messages"), name="sum"
    )
    agent = builder.build()
    await session.run(agent, "one")
    heard.clear()
    await session.close(agent)
    assert session.state.metadata == {"summary": "2 messages"}
    records = await setup.journal.read(stream_of("s"))
    assert [ran.hook for ran in hooks_in(records)][-1] == "sum"
    assert [record.type for record in heard] == ["hooks", "hook"]
    assert isinstance(records[-1], SessionStatusChanged)
    result = await session.run(agent, "two")
    assert result.state.metadata == {"summary": "2 messages"}
    assert session.state.metadata == {"summary": "2 messages"}


async def test_a_hook_that_fails_at_the_end_is_reported_and_the_session_is_closed(
    setup: SessionSetup,
) -> None:
    """The others are called all the same, and so are the error hooks."""
    session = await setup.sessions.create(id="s")
    builder = setup.builder(say("a")).on_session_end(lambda ctx: 1 / 0, name="saver", priority=9)
    agent = builder.on_error(lambda ctx: setup.seen.append(ctx.error_message)).build()
    await session.run(agent, "one")
    with pytest.raises(HookError, match="hook 'saver' at session_end"):
        await session.close(agent)
    assert session.status is SessionStatus.CLOSED
    assert setup.seen[:2] == ["start s startup", "end s"]
    assert "ZeroDivisionError" in setup.seen[2]


async def test_a_hook_at_the_end_can_ask_a_model(setup: SessionSetup) -> None:
    """A session that is closed between its runs has a run for its hooks, and with it a model."""
    session = await setup.sessions.create(id="s")

    async def summarise(ctx: SessionHookContext) -> SessionHookContext:
        request = InferenceRequest(messages=(UserMessage("Sum up."),))
        answer = await ctx.run.ask_model(request, name="sum")
        return ctx.with_metadata("summary", answer.text)

    agent = setup.builder(say("a"), say("nothing much")).on_session_end(summarise).build()
    await session.run(agent, "one")
    await session.close(agent)
    assert session.state.metadata == {"summary": "nothing much"}


async def test_what_hooks_said_before_a_close_was_cancelled_is_kept(setup: SessionSetup) -> None:
    """The session is not closed, and can be."""
    session = await setup.sessions.create(id="s", title="t")
    waiting = asyncio.Event()

    async def wait(ctx: Any) -> None:
        waiting.set()
        await asyncio.Event().wait()

    builder = setup.builder(say("a"))
    builder.on_session_end(lambda ctx: ctx.with_metadata("noted", True), name="note", priority=9)
    await session.run(builder.on_session_end(wait, priority=-9).build(), "one")
    closing = asyncio.create_task(session.close(builder.build()))
    await waiting.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not setup.journal.claimed
    again = await setup.sessions.get("s")
    assert (again.status, again.state.metadata) == (SessionStatus.OPEN, {"noted": True})
    await again.close(setup.agent())
    assert again.status is SessionStatus.CLOSED


async def test_a_session_with_a_run_that_waits_is_not_closed(setup: SessionSetup) -> None:
    """Its end would come before that of its run."""
    session = await setup.sessions.create(id="s")
    agent = setup.agent(call("pay", amount=5))
    await session.run(agent, "pay")
    with pytest.raises(SessionError, match="waits for an answer"):
        await session.close(agent)
    with pytest.raises(UsageError, match="run with an Agent"):
        await session.close("now")  # type: ignore[arg-type]


async def test_a_session_whose_start_failed_has_not_started(setup: SessionSetup) -> None:
    """The next run asks again; one whose prompt was refused had started."""
    session = await setup.sessions.create(id="s")
    crash = setup.builder(say("never")).on_session_start(lambda ctx: 1 / 0, name="crash")
    result = await session.run(crash.build(), "one")
    assert result.status is RunStatus.FAILED
    await session.run(setup.agent(say("a")), "two")
    await session.run(setup.agent(say("b")), "three")
    assert setup.seen == ["start s startup", "start s startup"]
    assert message_texts(session) == ["two", "a", "three", "b"]


# --- processes that die -------------------------------------------------------------------------------


async def whole_story(setup: SessionSetup) -> list[str]:
    """Two runs, one of which waits for an answer, and the resulting conversation."""
    session = await setup.sessions.create(id="s", title="Both")
    await go_on(setup, session)
    return message_texts(session)


async def go_on(setup: SessionSetup, session: Session) -> None:
    """Do whatever is left to do of the two runs, as a new process finds it."""
    await finish(setup, session)
    for prompt in ("one", "two"):
        if prompt not in message_texts(session):
            await session.run(setup.builder().with_driver(ByPrompt()).build(), prompt)
        await finish(setup, session)


async def finish(setup: SessionSetup, session: Session) -> None:
    """Resume a run that was left behind, and say yes to whatever it asks."""
    agent = setup.builder().with_driver(ByPrompt()).build()
    if session.unfinished and not session.pending:
        await session.resume_run(agent)
    while session.pending:
        yes = {question.id: Decision.allow() for question in session.pending}
        await session.resume_run(agent, yes)


class ByPrompt:
    """A model that looks and pays for the first prompt and answers the second, however often it is asked."""

    async def infer(self, request: Any, turn: Any) -> Any:
        pays = [calls(call("look", at="till"), call("pay", amount=5)), say("paid")]
        script = [say("bye")] if any(m.text == "two" for m in request.messages) else pays
        return await ScriptedDriver([script[turn.state.step_count]]).infer(request, turn)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_whenever_a_process_dies_the_session_continues(where: int) -> None:
    """After any write: no run is lost, nothing that must run once runs twice, and it has the same outcome."""

    async def check() -> None:
        whole = SessionSetup()
        expected = await whole_story(whole)
        ends = whole.journal.ends
        setup = SessionSetup(whole.journal.cut(ends[where % len(ends)]))
        session = await setup.sessions.get("s")
        await go_on(setup, session)
        again = await setup.sessions.get("s")
        check_transcript(again.state.messages)
        if any(
            result.status == "in_doubt" for step in again.state.steps for result in step.results
        ):
            assert setup.paid == []
        else:
            assert message_texts(again) == expected
            assert setup.paid in ([], [5])
        assert not setup.journal.claimed

    asyncio.run(check())


async def test_a_run_that_was_added_and_never_began_does_not_count(setup: SessionSetup) -> None:
    """Its prompt is given again; session_start is asked with the run that begins."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "one")
    added = [
        number
        for number, (name, line) in enumerate(setup.journal.written)
        if name == stream_of("s") and b'"session_run"' in line
    ]
    left = SessionSetup(setup.journal.cut(added[0] + 1))
    again = await left.sessions.get("s")
    assert (again.runs, message_texts(again), (await again.show()).runs[0].status) == (
        ("s-1",),
        [],
        None,
    )
    with pytest.raises(SessionError, match="has no run that waits"):
        await again.resume_run(left.agent())
    result = await again.run(left.agent(say("a")), "one")
    assert (result.run_id, left.seen, message_texts(again)) == (
        "s-2",
        ["start s startup"],
        ["one", "a"],
    )
    assert message_texts(await again.fork(at=0)) == []
    with pytest.raises(SessionError, match="there is no step 2"):
        await again.fork(at=2)


async def test_a_run_that_was_left_unfinished_is_gone_on_with(setup: SessionSetup) -> None:
    """The session takes no other prompt before, and says what to do."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(call("look", at="x"), say("done")), "one")
    step = next(n for n, (_, line) in enumerate(setup.journal.written) if b'"type":"step"' in line)
    left = SessionSetup(setup.journal.cut(step + 1))
    again = await left.sessions.get("s")
    with pytest.raises(SessionError) as refused:
        await again.run(left.agent(say("no")), "two")
    assert "run 's-1' of session 's' was left unfinished. Continue it" in str(refused.value)
    assert "session.rewind(to=1)" in str(refused.value)
    assert (await again.resume_run(left.agent(say("done")))).text == "done"
    assert message_texts(again) == ["one", "", "seen x", "done"]
    assert left.seen == []


async def test_hook_records_of_runs_are_not_the_sessions(setup: SessionSetup) -> None:
    """What happens in a run is in the run's journal alone: the session has a handful of records for each."""
    session = await setup.sessions.create(id="s", title="t")
    await session.run(setup.agent(call("look"), say("a")), "one")
    types = [record.type for record in await setup.journal.read(stream_of("s"))]
    assert types == ["session_created", "session_run", "session_run_ended"]
