"""Many sessions in one journal."""

from __future__ import annotations

from typing import Any

import pytest
from house import House

from hookline import Sessions
from hookline.errors import UnknownSessionError, UsageError
from hookline.sessions import SessionInfo, SessionStatus
from hookline.testing import say


async def test_sessions_are_listed_the_one_used_last_first(house: House) -> None:
    """With what a list needs to show; runs and sessions are listed apart."""
    for name in ("a", "b", "c"):
        house.sessions.create(id=name, title=name.upper())
        house.clock.advance(10)
    await house.sessions.get("a").run(house.agent(say("hi")), "hello")
    house.sessions.get("b").suspend()
    assert [(info.id, info.runs, info.status.value) for info in house.sessions.list()] == [
        ("b", 0, "suspended"),
        ("a", 1, "open"),
        ("c", 0, "open"),
    ]
    assert house.sessions.list()[1] == SessionInfo(
        id="a",
        title="A",
        status=SessionStatus.OPEN,
        version=3,
        runs=1,
        created_at=1_000_000.0,
        updated_at=1_000_030.0,
    )
    assert [info.id for info in house.sessions.list(limit=1)] == ["b"]
    assert [info.run_id for info in house.journal.runs()] == ["a-1"]


def test_what_a_list_says_is_what_the_session_says(house: House) -> None:
    """Whatever was done with it."""
    session = house.sessions.create(id="s")
    for change in (
        lambda: session.rename("x"),
        session.suspend,
        session.resume,
        session.clear,
        lambda: session.run_sync(house.agent(say("a")), "go"),
        lambda: session.rewind(to=0),
    ):
        change()
        (info,) = house.sessions.list()
        assert (info.title, info.status, info.version, info.runs) == (
            session.title,
            session.status,
            session.version,
            len(session.runs),
        )


def test_a_session_that_is_not_there_is_told(house: House) -> None:
    """With the way to those that are."""
    with pytest.raises(UnknownSessionError, match=r"no session 'x' .* sessions\.list\(\)"):
        house.sessions.get("x")


@pytest.mark.parametrize("id", ["", "a/b", "a b", "é\n", 5, "\ud800"])
def test_an_id_is_a_plain_word(house: House, id: Any) -> None:
    """It is part of run ids, and people type it."""
    with pytest.raises(UsageError, match="cannot be the id of a session"):
        house.sessions.create(id=id)
    with pytest.raises(UsageError, match="cannot be the id of a session"):
        house.sessions.get(id)


def test_ids_are_made_where_none_are_given(house: House) -> None:
    """Each another one."""
    assert len({house.sessions.create().id for _ in range(20)}) == 20


@pytest.mark.parametrize("journal", [None, "path.db", House, object()])
def test_sessions_need_a_journal(journal: Any) -> None:
    """Anything else is refused at once."""
    with pytest.raises(UsageError, match=r"Use SQLiteJournal\(path\)"):
        Sessions(journal)


def test_a_session_says_what_it_is(house: House) -> None:
    """In a debugger, too."""
    session = house.sessions.create(id="s", title="Trip")
    assert repr(session) == "<Session s: 'Trip', open, version 1>"
