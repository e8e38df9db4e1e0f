"""A session to look at."""

from __future__ import annotations

from session_setup import SessionSetup

from hookline import RunStatus
from hookline.sessions import SessionStatus
from hookline.testing import call, say


async def test_a_session_shows_its_runs_steps_and_transcript(setup: SessionSetup) -> None:
    """Steps are counted through the conversation; what it has left behind is marked."""
    session = await setup.sessions.create(id="s", title="Shopping")
    await session.run(setup.agent(call("look", at="shelf"), say("Bread, milk.")), "What is there?")
    await session.run(setup.agent(say("Fine.")), "Butter?")
    await session.rewind(to=2)
    await session.run(setup.agent(call("pay", amount=5)), "Buy\nit.")
    view = await session.show()
    assert (view.id, view.title, view.status, view.version) == (
        "s",
        "Shopping",
        SessionStatus.OPEN,
        8,
    )
    assert [run.status for run in view.runs] == [
        RunStatus.COMPLETED,
        RunStatus.COMPLETED,
        RunStatus.PAUSED,
    ]
    assert [run.text for run in view.runs] == ["Bread, milk.", "Fine.", ""]
    assert [run.is_current for run in view.runs] == [True, False, True]
    assert [(shown.number, shown.step.text) for shown in view.steps] == [
        (1, ""),
        (2, "Bread, milk."),
    ]
    assert [message.text for message in view.messages][-1] == "Buy\nit."
    assert view.runs[2].pending == session.pending
    assert view.usage == session.state.usage
    assert str(view) == (
        'session s "Shopping": open, version 8\n'
        "run s-1: completed\n"
        "     > What is there?\n"
        "   1 look(at='shelf') -> seen shelf\n"
        "   2 Bread, milk.\n"
        "run s-2: completed, left behind\n"
        "     > Butter?\n"
        "   - Fine.\n"
        "run s-3: paused\n"
        "     > Buy it.\n"
        "   ? pay(amount=5): sure?"
    )


async def test_a_fork_shows_where_it_came_from(setup: SessionSetup) -> None:
    """Its steps are counted from there."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "one")
    fork = await session.fork(id="f")
    await fork.run(setup.agent(say("b " * 200)), "two")
    view = await fork.show()
    assert (view.forked_from, view.at_step, view.steps[0].number) == ("s", 1, 2)
    lines = str(view).splitlines()
    assert lines[:2] == ['session f "one": open, version 3', "forked from s after step 1"]
    assert (len(lines[-1]), lines[-1][-1]) == (105, "…")


async def test_a_new_session_has_nothing_to_show(setup: SessionSetup) -> None:
    """One line."""
    assert str(await (await setup.sessions.create(id="s")).show()) == "session s: open, version 1"


async def test_a_run_that_is_not_in_the_journal_is_shown_as_such(setup: SessionSetup) -> None:
    """The rest can still be looked at."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "one")
    await session.clear()
    await session.run(setup.agent(say("b")), "two")
    await setup.journal.delete("s-1")
    assert str(await session.show()).splitlines()[1:3] == [
        "run s-1: not in the journal",
        "run s-2: completed",
    ]
