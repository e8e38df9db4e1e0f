"""Notes in the metadata: what a model may read and write there, and what it may not."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from driven import WAYS, drive, lives, on_disk
from hypothesis import given
from hypothesis import strategies as st
from run_results import result_texts

from hookline import AgentBuilder, AgentState
from hookline.capabilities import Metadata
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, calls, say


def noting(*turns: Any, journal: Any = None, **options: Any) -> Any:
    """An agent that makes these turns and then is done."""
    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")]))
    if journal is not None:
        builder.with_journal(journal)
    return builder.with_capability(Metadata(**options)).build()


WRITE_AND_READ = (
    call("write_metadata", key="colour", value="blue"),
    calls(call("read_metadata", key="colour"), call("list_metadata")),
)


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_written_can_be_read_and_is_in_the_state(way: str) -> None:
    """A note is read back in a later step, listed, and kept in its namespace, whichever way the run is driven."""
    result = await drive(noting(*WRITE_AND_READ), way)
    assert result_texts(result) == [
        "wrote colour",
        "blue",
        '[{"key":"colour","chars":6,"writable":true}]',
    ]
    assert result.state.metadata == {"notes": {"colour": "blue"}}
    saved = AgentState.from_json(result.state.to_json())
    assert Metadata().entries(saved) == {"colour": "blue"}


def test_values_are_json_of_any_kind_and_null_removes() -> None:
    """Lists, objects, numbers and truth come back as they were; null takes the entry away."""
    value = {"a": [1, 2.5, True, None, "x"]}
    result = noting(
        call("write_metadata", key="deep", value=value),
        call("write_metadata", key="n", value=5),
        call("read_metadata", key="deep"),
        call("write_metadata", key="n", value=None),
        call("read_metadata", key="n"),
    ).run_sync("go")
    assert result_texts(result)[2:] == [
        '{"a":[1,2.5,true,null,"x"]}',
        "removed n",
        "Error: there is no metadata under 'n'. list_metadata shows what there is.",
    ]
    assert result.state.metadata == {"notes": {"deep": value}}


def test_what_hooks_keep_is_neither_seen_nor_overwritten() -> None:
    """A key of the same name is another entry, and those of hooks cannot be read."""
    state = AgentState().with_metadata("approved", False)
    agent = noting(
        call("write_metadata", key="approved", value=True),
        calls(call("list_metadata"), call("read_metadata", key="approved")),
    )
    result = agent.run_sync("go", state=state)
    assert result.state.metadata == {"approved": False, "notes": {"approved": True}}
    secret = AgentState().with_metadata("token", "s3cret")
    result = noting(call("read_metadata", key="token")).run_sync("go", state=secret)
    assert result_texts(result) == [
        "Error: there is no metadata under 'token'. list_metadata shows what there is."
    ]


def test_patterns_open_keys_of_the_state() -> None:
    """`allow` opens keys to be written, `read` to be read only, and `deny` closes them again."""
    state = AgentState().with_metadata("ticket_7", "old").with_metadata("user", "Ada")
    agent = noting(
        calls(
            call("write_metadata", key="ticket_7", value="new"),
            call("write_metadata", key="ticket_secret", value="x"),
            call("write_metadata", key="user", value="Eve"),
            call("read_metadata", key="user"),
            call("read_metadata", key="ticket_secret"),
        ),
        call("list_metadata", prefix="t"),
        allow=("ticket_*",),
        read=("user",),
        deny=("*secret*",),
    )
    result = agent.run_sync("go", state=state)
    assert result_texts(result) == [
        "wrote ticket_7",
        "Error: 'ticket_secret' cannot be used by the model. Use another key.",
        "Error: 'user' can be read and not written. Write under another key.",
        "Ada",
        "Error: 'ticket_secret' cannot be used by the model. Use another key.",
        '[{"key":"ticket_7","chars":5,"writable":true}]',
    ]
    assert result.state.metadata == {"ticket_7": "new", "user": "Ada"}


def test_even_with_everything_allowed_the_namespace_is_its_own() -> None:
    """The entry that holds the notes cannot be written as a whole."""
    result = noting(call("write_metadata", key="notes", value="x"), allow=("*",)).run_sync("go")
    assert result.state.metadata == {"notes": {"notes": "x"}}


def test_caps_are_kept_also_within_one_step() -> None:
    """Too long, too many and too much are refused, and two calls of a step cannot share the last room."""
    agent = noting(
        call("write_metadata", key="a", value="x" * 50),
        calls(
            call("write_metadata", key="a", value=1), call("write_metadata", key="b", value=2),
            call("write_metadata", key="c", value=3),
        ),
        call("write_metadata", key="b", value="123456789"),
        max_chars=20, max_entries=2, max_total_chars=12,
    )  # fmt: skip
    result = agent.run_sync("go")
    assert result_texts(result) == [
        "Error: the value for 'a' has 52 characters of JSON; 20 are the most. "
        "Write less, or split it over several keys.",
        "wrote a",
        "wrote b",
        "Error: there are 2 entries already, which is the maximum. "
        "Remove one first, by writing null under its key.",
        "Error: with 'b' there would be 14 characters in all; 12 are the most. "
        "Write less, or remove entries by writing null under their keys.",
    ]
    assert result.state.metadata == {"notes": {"a": 1, "b": 2}}
    assert result.state.messages[4].is_error is False
    assert [m.is_error for m in result.state.messages if m.role == "tool"] == [
        True,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("key", ["", "a b", "ключ", "x" * 129, "a\n"])
def test_a_key_is_a_plain_word(key: str) -> None:
    """Keys that nobody could type again are refused."""
    result = noting(call("write_metadata", key=key, value=1)).run_sync("go")
    assert "cannot be a key" in result_texts(result)[0]
    assert result.state.metadata == {}


def test_a_write_that_is_withheld_is_not_kept() -> None:
    """A hook that withholds the result keeps the entry out of the state too."""
    from hookline import HookOutcome

    driver = ScriptedDriver([call("write_metadata", key="a", value=1), say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(Metadata())
    builder.on_after_tool_use(lambda ctx: HookOutcome.block("no"), name="no")
    assert builder.build().run_sync("go").state.metadata == {}


async def test_it_survives_any_death_and_the_disk(tmp_path: Path) -> None:
    """Resumed after any record, the notes are what they would have been."""

    def build(journal: Any) -> Any:
        return noting_by_step(journal)

    whole, resumed = await lives(build)
    for result in resumed:
        assert (result_texts(result), result.state.metadata) == (
            result_texts(whole),
            whole.state.metadata,
        )
    assert (await on_disk(build, tmp_path / "j.db")).state.metadata == {"notes": {"colour": "blue"}}


def noting_by_step(journal: Any) -> Any:
    """An agent whose model goes by how far the conversation is, as a real one would."""

    def turn(state: Any) -> Any:
        return [*WRITE_AND_READ, say("done")][state.step_count]

    builder = AgentBuilder().with_driver(ScriptedDriver([turn] * 3)).with_journal(journal)
    return builder.with_capability(Metadata()).build()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"namespace": "a b"}, "namespace"),
        ({"allow": "ticket"}, "allow='ticket' is not a list"),
        ({"deny": [1]}, "deny="),
        ({"max_chars": 0}, "max_chars=0"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], words: str) -> None:
    """Wrong options are named."""
    with pytest.raises(BuildError, match=words):
        Metadata(**options)


KEYS = ["notes", "approved", "ticket_1", "ticket_2", "user", "x"]
PATTERNS = st.lists(
    st.sampled_from(["ticket_*", "user", "notes", "approved", "*", "x"]), max_size=2
)


@given(
    writes=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([1, "y", None])), max_size=6),
    allow=PATTERNS,
    read=PATTERNS,
    deny=PATTERNS,
)
def test_nothing_is_changed_that_is_not_open(
    writes: list[tuple[str, Any]], allow: list[str], read: list[str], deny: list[str]
) -> None:
    """Whatever a model writes, an entry of the state changes only if `allow` has its key and `deny` has not."""
    kept = {"approved": False, "ticket_1": "old", "user": "Ada"}
    state = AgentState(metadata=kept)
    turns = [calls(*(call("write_metadata", key=key, value=value) for key, value in writes))]
    agent = noting(*(turns if writes else ()), allow=allow, read=read, deny=deny)
    after = agent.run_sync("go", state=state).state.metadata
    for key in {*kept, *after} - {"notes"}:
        if after.get(key) != kept.get(key) or (key in after) != (key in kept):
            assert any(fnmatchcase(key, pattern) for pattern in allow)
            assert not any(fnmatchcase(key, pattern) for pattern in deny)
    notes = after.get("notes", {})
    assert isinstance(notes, dict)
    assert not any(fnmatchcase(key, pattern) for key in notes for pattern in deny)
