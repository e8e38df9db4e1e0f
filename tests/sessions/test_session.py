"""What can be done with a session: run, look, suspend, resume, clear, rename, delete."""

from __future__ import annotations

from typing import Any

import pytest
from run_results import message_texts
from session_setup import SessionSetup

from hookline import Decision, HookOutcome, RunStatus
from hookline.errors import SessionError, UnknownSessionError, UsageError
from hookline.journal import TextDelta
from hookline.journal.session import stream_of
from hookline.sessions import SessionInfo, Sessions, SessionStatus
from hookline.state import Attachment, check_transcript
from hookline.testing import call, calls, say

# --- running ------------------------------------------------------------------------------------------


async def test_each_run_continues_where_the_last_one_ended(setup: SessionSetup) -> None:
    """Messages, metadata and steps are carried over; every run has an id of its own."""
    session = await setup.sessions.create(id="s")
    agent = setup.builder(call("look", at="door"), say("A door."), say("Bye."))
    built = agent.on_execution_start(
        lambda ctx: ctx.with_metadata("runs", int(ctx.state.metadata.get("runs", 0)) + 1)
    ).build()
    first = await session.run(built, "What is there?")
    second = await session.run(built, "Thanks!")
    assert (first.text, second.text) == ("A door.", "Bye.")
    assert (first.run_id, second.run_id) == ("s-1", "s-2")
    assert session.runs == ("s-1", "s-2")
    assert message_texts(session) == [
        "What is there?",
        "",
        "seen door",
        "A door.",
        "Thanks!",
        "Bye.",
    ]
    assert session.state.metadata == {"runs": 2}
    assert (second.state.step_count, len(second.state.steps)) == (1, 3)
    assert second.state.session_id == first.state.session_id == "s"


async def test_another_process_continues_it(setup: SessionSetup) -> None:
    """A session is what is in the journal."""
    await (await setup.sessions.create(id="s")).run(setup.agent(say("a")), "one")
    session = await setup.sessions.get("s")
    await session.run(setup.agent(say("b")), "two")
    assert message_texts(await setup.sessions.get("s")) == ["one", "a", "two", "b"]


def test_sessions_work_in_code_that_is_not_async(setup: SessionSetup) -> None:
    """`run_sync` and `resume_run_sync`."""
    session = setup.sessions.create_sync()
    agent = setup.agent(call("pay", amount=5), say("done"))
    assert session.run_sync(agent, "go").status is RunStatus.PAUSED
    answers = {pending.id: Decision.allow() for pending in session.pending}
    assert session.resume_run_sync(agent, answers).text == "done"
    assert setup.paid == [5]


async def test_a_run_of_a_session_can_be_streamed(setup: SessionSetup) -> None:
    """Every record as it happens, and the result at the end."""
    session = await setup.sessions.create(id="s")
    stream = session.stream(setup.agent(say("Hello.")), "Hi!")
    with pytest.raises(UsageError, match="has not ended"):
        stream.result  # noqa: B018 - it is what raises
    records = [record async for record in stream]
    assert "".join(r.text for r in records if isinstance(r, TextDelta)) == "Hello."
    assert stream.result.text == "Hello."
    assert (session.title, message_texts(session)) == ("Hi!", ["Hi!", "Hello."])
    assert (session.version, (await setup.sessions.get("s")).version) == (4, 4)


async def test_leaving_a_stream_cancels_the_run_and_frees_the_session(setup: SessionSetup) -> None:
    """The next run continues from what was settled."""
    session = await setup.sessions.create()
    stream = session.stream(setup.agent(call("look"), say("never")), "Hi!")
    async for record in stream:
        if record.type == "step":
            break
    await stream.aclose()
    assert stream.result.status is RunStatus.CANCELLED
    result = await session.run(setup.agent(say("here")), "Still there?")
    assert result.text == "here"
    check_transcript(result.state.messages)


async def test_attachments_and_run_ids_are_handed_on(setup: SessionSetup) -> None:
    """As `agent.run` takes them."""
    session = await setup.sessions.create()
    picture = Attachment.from_bytes(b"...", "image/png")
    result = await session.run(setup.agent(say("a")), "look", attachments=[picture], run_id="mine")
    assert (result.run_id, result.state.messages[0].attachments) == ("mine", (picture,))
    second = await session.run(setup.agent(say("b")), "more", run_id=f"{session.id}-3")
    third = await session.run(setup.agent(say("c")), "and more")
    assert (second.run_id, third.run_id) == (f"{session.id}-3", f"{session.id}-4")


async def test_a_run_that_fails_or_is_refused_does_not_end_the_conversation(
    setup: SessionSetup,
) -> None:
    """The next prompt continues from what there is."""
    session = await setup.sessions.create()
    assert (await session.run(setup.agent(ValueError("no")), "one")).status is RunStatus.FAILED
    refusing = setup.builder(say("never")).on_prompt_submit(lambda ctx: HookOutcome.block("no"))
    assert (await session.run(refusing.build(), "two")).status is RunStatus.STOPPED
    await session.run(setup.agent(say("there")), "three")
    assert message_texts(session) == ["one", "three", "there"]


async def test_an_agent_must_write_to_the_same_journal(setup: SessionSetup) -> None:
    """Otherwise the session would not know its own runs."""
    session = await setup.sessions.create(id="s")
    elsewhere = SessionSetup().agent(say("a"))
    with pytest.raises(UsageError, match=r"does not write to the journal that session 's'"):
        await session.run(elsewhere, "go")
    with pytest.raises(UsageError, match="run with an Agent, not 'go'"):
        await session.run("go", elsewhere)
    assert session.version == 1


async def test_wrong_use_of_a_run_leaves_the_session_as_it_was(setup: SessionSetup) -> None:
    """It is found before anything is written."""
    session = await setup.sessions.create()
    agent = setup.agent(say("a"))
    for prompt in (None, 5):
        with pytest.raises(UsageError):
            await session.run(agent, prompt)
    assert (session.version, session.runs) == (1, ())
    assert (await session.run(agent, "go")).text == "a"


# --- titles -------------------------------------------------------------------------------------------


async def test_a_session_without_a_title_is_called_after_its_first_prompt(
    setup: SessionSetup,
) -> None:
    """As the hooks left it: what they took out of the prompt is not in the title either."""
    session = await setup.sessions.create()
    agent = setup.builder(say("a"), say("b")).on_prompt_submit(
        lambda ctx: ctx.with_prompt(ctx.prompt.replace("hunter2", "***"))
    )
    built = agent.build()
    await session.run(built, "My password is hunter2.\n" + "Long. " * 50)
    assert session.title.startswith("My password is ***. Long. ")
    assert (len(session.title), session.title[-1]) == (80, "…")
    await session.run(built, "Something else")
    assert session.title.startswith("My password")
    assert (await setup.sessions.get(session.id)).title == session.title


async def test_a_title_can_be_given_and_changed(setup: SessionSetup) -> None:
    """One that was given is not replaced by a prompt."""
    session = await setup.sessions.create(title="Trip")
    await session.run(setup.agent(say("a")), "Where to?")
    assert session.title == "Trip"
    await session.rename("Holiday")
    assert (session.title, (await setup.sessions.get(session.id)).title) == ("Holiday", "Holiday")
    with pytest.raises(UsageError, match="a title is text"):
        await session.rename(5)  # type: ignore[arg-type]


# --- runs that wait -----------------------------------------------------------------------------------


async def test_a_run_that_waits_is_answered_through_its_session(setup: SessionSetup) -> None:
    """In another process; until then the session takes no prompt, and says what to do."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "hello")
    await session.run(setup.agent(call("look"), call("pay", amount=5)), "pay")
    with pytest.raises(SessionError) as refused:
        await session.run(setup.agent(say("b")), "and now?")
    assert "run 's-2' of session 's' waits for an answer. Answer it" in str(refused.value)
    assert "session.rewind(to=2)" in str(refused.value)
    later = await setup.sessions.get("s")
    (question,) = later.pending
    result = await later.resume_run(setup.agent(say("paid")), {question.id: True})
    assert (result.text, setup.paid, later.pending) == ("paid", [5], ())
    assert (await later.run(setup.agent(say("c")), "next")).text == "c"


async def test_partial_answers_are_kept(setup: SessionSetup) -> None:
    """The run stays paused for the rest."""
    session = await setup.sessions.create()
    both = calls(call("pay", amount=1), call("pay", amount=2))
    await session.run(setup.agent(both), "pay")
    first, second = session.pending
    await session.resume_run(setup.agent(), {first.id: True})
    assert [question.id for question in session.pending] == [second.id]
    await session.resume_run(setup.agent(say("done")), {second.id: Decision.deny("no")})
    assert setup.paid == [1]


async def test_there_must_be_something_to_resume(setup: SessionSetup) -> None:
    """A session whose last run is over is continued by a new one."""
    session = await setup.sessions.create()
    with pytest.raises(SessionError, match=r"has no run that waits .* session\.run"):
        await session.resume_run(setup.agent())


async def test_answers_for_the_session_hold_in_all_its_runs(setup: SessionSetup) -> None:
    """The same call does not ask again, in any process; in a fork, which is another session, it does."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(call("pay", amount=5)), "pay")
    answer = {session.pending[0].id: Decision.allow(remember=True)}
    await session.resume_run(setup.agent(say("done")), answer)
    again = setup.agent(call("pay", amount=5), say("done"))
    assert (
        await (await setup.sessions.get("s")).run(again, "once more")
    ).status is RunStatus.COMPLETED
    assert setup.paid == [5, 5]
    fork = await (await session.refresh()).fork()
    asked = await fork.run(setup.agent(call("pay", amount=5)), "and more")
    assert (asked.status, setup.paid) == (RunStatus.PAUSED, [5, 5])


# --- suspend, resume, clear, delete -------------------------------------------------------------------


async def test_a_suspended_session_runs_nothing(setup: SessionSetup) -> None:
    """Not through the agent either; it can be looked at, forked and resumed."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(call("pay", amount=5)), "pay")
    await session.suspend()
    await session.suspend()
    agent = setup.agent(say("a"))
    for attempt in (
        lambda: session.run(agent, "go"),
        lambda: session.resume_run(agent, {}),
        lambda: session.close(agent),
        lambda: agent.resume("s-1", {}),
    ):
        with pytest.raises(SessionError, match=r"'s' is suspended\. .*session\.resume\(\)"):
            await attempt()
    for change in (session.clear, lambda: session.rewind(to=0)):
        with pytest.raises(SessionError, match="is suspended"):
            await change()
    assert (await setup.sessions.get("s")).status is SessionStatus.SUSPENDED
    assert (len(session.pending), (await session.fork()).status) == (1, SessionStatus.OPEN)
    await session.resume()
    assert session.status is SessionStatus.OPEN
    await session.resume_run(agent, {session.pending[0].id: True})
    assert setup.paid == [5]


async def test_only_a_suspended_session_is_resumed(setup: SessionSetup) -> None:
    """Resuming a run is something else, and the error says so."""
    session = await setup.sessions.create()
    with pytest.raises(SessionError, match=r"is not suspended: it is open\. .*resume_run"):
        await session.resume()


async def test_clearing_begins_the_conversation_again(setup: SessionSetup) -> None:
    """Nothing of it is left but its title, and what the journal remembers; session_start is asked again."""
    session = await setup.sessions.create(id="s", title="Trip")
    await session.run(setup.agent(say("a")), "one")
    await session.run(setup.agent(call("pay", amount=5)), "pay")
    await session.clear()
    assert (message_texts(session), session.pending, session.title) == ([], (), "Trip")
    result = await session.run(setup.agent(say("b")), "two")
    assert (result.run_id, message_texts(session)) == ("s-3", ["two", "b"])
    assert setup.seen == ["start s startup", "start s clear"]
    assert [run.is_current for run in (await session.show()).runs] == [False, False, True]


async def test_clearing_what_never_began_changes_nothing(setup: SessionSetup) -> None:
    """Its first run is its start."""
    session = await setup.sessions.create(id="s")
    await session.clear()
    await session.run(setup.agent(say("a")), "one")
    assert setup.seen == ["start s startup"]


async def test_a_deleted_session_is_gone_with_its_runs(setup: SessionSetup) -> None:
    """Using it afterwards is an error; a fork of it stays whole."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "secret")
    other = await setup.sessions.get("s")
    fork = await session.fork(id="f")
    await session.delete()
    assert [name for name, _ in setup.journal.written] == [stream_of("f")]
    assert [info.id for info in await setup.sessions.list()] == ["f"]
    agent = setup.agent(say("b"))
    with pytest.raises(SessionError, match="session 's' was deleted"):
        await session.run(agent, "go")
    with pytest.raises(SessionError, match="session 's' was deleted"):
        await session.show()
    for attempt in (other.suspend, other.refresh, lambda: setup.sessions.get("s")):
        with pytest.raises(UnknownSessionError, match="there is no session 's'"):
            await attempt()
    assert (await fork.run(agent, "go on")).text == "b"
    assert message_texts(fork) == ["secret", "a", "go on", "b"]


async def test_a_delete_that_was_interrupted_is_finished_by_the_next(setup: SessionSetup) -> None:
    """Meanwhile the session is deleted for everybody."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "one")
    driven = await setup.journal.claim("s-1")
    with pytest.raises(SessionError, match=r"its records could not be removed: run 's-1' is"):
        await session.delete()
    left = await setup.sessions.get("s")
    assert (left.status, await setup.sessions.list()) == (SessionStatus.DELETED, [])
    driven.give_back().result()
    for attempt in (lambda: left.run(setup.agent(), "go"), lambda: setup.agent().resume("s-1")):
        with pytest.raises(SessionError, match="was deleted"):
            await attempt()
    with pytest.raises(SessionError, match="was deleted"):
        await left.fork()
    await left.delete()
    assert setup.journal.written == []


# --- many sessions in one journal ----------------------------------------------------------------------


async def test_sessions_are_listed_the_one_used_last_first(setup: SessionSetup) -> None:
    """With what a list needs to show; runs and sessions are listed apart."""
    for name in ("a", "b", "c"):
        await setup.sessions.create(id=name, title=name.upper())
        setup.clock.advance(10)
    await (await setup.sessions.get("a")).run(setup.agent(say("hi")), "hello")
    await (await setup.sessions.get("b")).suspend()
    assert [(info.id, info.runs, info.status.value) for info in await setup.sessions.list()] == [
        ("b", 0, "suspended"),
        ("a", 1, "open"),
        ("c", 0, "open"),
    ]
    assert (await setup.sessions.list())[1] == SessionInfo(
        id="a",
        title="A",
        status=SessionStatus.OPEN,
        version=3,
        runs=1,
        created_at=1_000_000.0,
        updated_at=1_000_030.0,
    )
    assert [info.id for info in await setup.sessions.list(limit=1)] == ["b"]
    assert [info.run_id for info in await setup.journal.runs()] == ["a-1"]


def test_what_a_list_says_is_what_the_session_says(setup: SessionSetup) -> None:
    """Whatever was done with it."""
    session = setup.sessions.create_sync(id="s")
    for change in (
        lambda: session.rename_sync("x"),
        session.suspend_sync,
        session.resume_sync,
        session.clear_sync,
        lambda: session.run_sync(setup.agent(say("a")), "go"),
        lambda: session.rewind_sync(to=0),
    ):
        change()
        (info,) = setup.sessions.list_sync()
        assert (info.title, info.status, info.version, info.runs) == (
            session.title,
            session.status,
            session.version,
            len(session.runs),
        )


def test_a_session_that_is_not_there_is_reported(setup: SessionSetup) -> None:
    """With the way to those that are."""
    with pytest.raises(UnknownSessionError, match=r"no session 'x' .* sessions\.list\(\)"):
        setup.sessions.get_sync("x")


@pytest.mark.parametrize("id", ["", "a/b", "a b", "é\n", 5, "\ud800"])
def test_an_id_is_a_plain_word(setup: SessionSetup, id: Any) -> None:
    """It is part of run ids, and people type it."""
    with pytest.raises(UsageError, match="cannot be the id of a session"):
        setup.sessions.create_sync(id=id)
    with pytest.raises(UsageError, match="cannot be the id of a session"):
        setup.sessions.get_sync(id)


def test_ids_are_made_where_none_are_given(setup: SessionSetup) -> None:
    """Each another one."""
    assert len({setup.sessions.create_sync().id for _ in range(20)}) == 20


@pytest.mark.parametrize("journal", [None, "path.db", SessionSetup, object()])
def test_sessions_need_a_journal(journal: Any) -> None:
    """Anything else is refused at once."""
    with pytest.raises(UsageError, match=r"Use SQLiteJournal\(path\)"):
        Sessions(journal)


def test_a_session_says_what_it_is(setup: SessionSetup) -> None:
    """In a debugger, too."""
    session = setup.sessions.create_sync(id="s", title="Trip")
    assert repr(session) == "<Session s: 'Trip', open, version 1>"
