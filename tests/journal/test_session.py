"""What the records of a session add up to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import JournalError, StateVersionError
from hookline.journal import (
    HookRan,
    Record,
    RunInfo,
    Segment,
    SessionCleared,
    SessionCreated,
    SessionRewound,
    SessionRunAdded,
    SessionRunEnded,
    SessionStatus,
    SessionStatusChanged,
    SessionTitled,
    SQLiteJournal,
    decode,
    encode,
    fold_session,
    session_info,
    summarise,
)
from hookline.journal.session import stream_of


def records(*made: tuple[type[Record], dict[str, Any]]) -> list[Record]:
    """A session's records, from its creation on."""
    begun = [(SessionCreated, {"session_id": "s", "title": "t"}), *made]
    return [
        kind("session/s", seq, float(seq), **fields) for seq, (kind, fields) in enumerate(begun)
    ]


def added(run_id: str, source: str = "") -> tuple[type[Record], dict[str, Any]]:
    """A run."""
    return SessionRunAdded, {"member": run_id, "source": source}


def test_runs_follow_each_other() -> None:
    """The conversation stands at the end of the last one; a resumed one is the same run."""
    resumed = (SessionRunAdded, {"member": "b", "resumed": True})
    story = fold_session(records(added("a", "startup"), added("b"), resumed))
    assert story.position.segments == (Segment("a"), Segment("b"))
    assert (story.members, story.version) == (("a", "b"), 4)
    assert (story.position.opening, story.created_at) == ("", 0.0)


def test_a_run_that_may_not_have_begun_can_be_taken_back() -> None:
    """Until it is known to have ended, the place before it is known."""
    begun = records(added("a", "startup"), added("b"))
    before = fold_session(begun).position.before
    assert before is not None
    assert before.segments == (Segment("a"),)
    ended = fold_session([*begun, SessionRunEnded("session/s", 3, 3.0, "b")])
    assert (ended.position.before, ended.ended) == (None, ("b",))


def test_rewinding_drops_what_came_later() -> None:
    """Up to a record of a run, or to the beginning."""
    runs = added("a"), added("b"), added("c")
    middle = (SessionRewound, {"to": 3, "member": "b", "record": 17})
    story = fold_session(records(*runs, middle))
    assert story.position.segments == (Segment("a"), Segment("b", 17))
    story = fold_session(records(*runs, middle, added("d"), (SessionRewound, {"to": 0})))
    assert (story.position.segments, len(story.members)) == ((), 4)


@pytest.mark.parametrize(
    ("made", "opening"),
    [
        ([], "startup"),
        ([added("a", "startup")], ""),
        ([(SessionCleared, {})], "startup"),
        ([added("a", "startup"), (SessionCleared, {})], "clear"),
        ([added("a"), (SessionStatusChanged, {"status": SessionStatus.CLOSED})], "resume"),
        ([(SessionStatusChanged, {"status": SessionStatus.CLOSED})], "startup"),
        ([added("a"), (SessionStatusChanged, {"status": SessionStatus.SUSPENDED})], ""),
    ],
)
def test_the_next_run_knows_why_it_starts_the_session(made: list[Any], opening: str) -> None:
    """Or that it does not."""
    assert fold_session(records(*made)).position.opening == opening


def test_a_fork_begins_with_what_it_was_given() -> None:
    """Until it is cleared."""
    given = {"session_id": "f", "forked_from": "s", "at_step": 2, "initial": {"x": 1}}
    created = SessionCreated("session/f", 0, 0.0, **given)
    story = fold_session([created])
    assert (story.forked_from, story.at_step, story.initial) == ("s", 2, {"x": 1})
    assert (story.position.is_forked, story.position.opening) == (True, "fork")
    cleared = fold_session([created, SessionCleared("session/f", 1, 1.0)])
    assert cleared.position.is_forked is False


def test_what_hooks_did_between_runs_holds_until_the_next_one() -> None:
    """Which begins with it; what a hook in shadow would have done does not count."""
    delta = {"state": {"metadata": {"set": {"a": 1}}}}
    did = (HookRan, {"point": "session_end", "hook": "h", "changes": delta})
    shadow = (HookRan, {"point": "session_end", "hook": "h", "changes": delta, "shadow": True})
    story = fold_session(records(added("a"), did, shadow))
    assert story.position.changes == (delta["state"],)
    assert fold_session(records(added("a"), did, added("b"))).position.changes == ()


@pytest.mark.parametrize("broken", [[], records()[1:], records((SessionCleared, {}))[1:]])
def test_a_session_begins_with_its_creation(broken: list[Record]) -> None:
    """Anything else is damage."""
    with pytest.raises(JournalError):
        fold_session(broken)


def test_a_newer_session_is_refused() -> None:
    """With the remedy."""
    line = encode(SessionCreated("session/s", 0, 0.0, "s", version=99))
    with pytest.raises(StateVersionError, match="version 99"):
        decode(line)


changes = st.one_of(
    st.builds(lambda title: (SessionTitled, {"title": title}), st.text(max_size=3)),
    st.sampled_from(SessionStatus).map(lambda status: (SessionStatusChanged, {"status": status})),
    st.just((SessionCleared, {})),
    st.sampled_from("abc").map(added),
    st.sampled_from("abc").map(lambda name: (SessionRunEnded, {"member": name})),
    st.just((SessionRunAdded, {"member": "a", "resumed": True})),
    st.just((SessionRewound, {"to": 1, "member": "a", "record": 3})),
)


@given(st.lists(changes, max_size=12))
def test_a_list_says_what_the_records_add_up_to(made: list[Any]) -> None:
    """An entry that is updated record by record equals one that is computed from all of them."""
    written = records(*made)
    entry = RunInfo(run_id=stream_of("s"))
    for record in written:
        entry = summarise(entry, [record])
    info, story = session_info(entry), fold_session(map(_again, written))
    assert (entry.kind, info.id, info.title) == ("session", story.session_id, story.title)
    assert (info.status, info.runs) == (story.status, len(story.members))
    assert story.version == len(written)


def _again(record: Record) -> Record:
    """A record that was written and read."""
    return decode(encode(record))


def test_a_session_with_the_status_of_a_run_is_damage(path: Path, sqlite: SQLiteJournal) -> None:
    """An edit of the list is reported as damage when sessions are listed."""
    sqlite.claim_sync("session/s").write(records()).result()
    with closing(sqlite3.connect(path)) as edited, edited:
        edited.execute("UPDATE runs SET status = 'failed'")
    edited.close()
    with pytest.raises(JournalError, match=r"damaged: session 's' has the status 'failed'"):
        sqlite.sessions_sync()
