from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.testing.cassette_body import is_said, parsed, played, stored
from hookline.testing.cassette_file import Answer, Event
from hookline.testing.secrets import Scrubber

EVENTS = "text/event-stream"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def kept(content: bytes, kind: str = EVENTS) -> Answer:
    """A body as a cassette keeps it, written and read."""
    answer = stored(kind, content, Scrubber(), is_cut=False)
    return msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(answer))), Answer)


@given(VALUES)
def test_json_is_kept_as_json(value: Any) -> None:
    """Whatever it is, and it is the same value when it is played."""
    content = json.dumps(value).encode(errors="surrogatepass")
    (answer,) = played(kept(content, "application/json"))
    assert json.loads(answer) == json.loads(content)


@given(st.binary())
def test_a_body_of_any_bytes_is_played_as_it_came(content: bytes) -> None:
    """As JSON, as text, or in base64: nothing is lost."""
    answer = kept(content, "text/plain")
    if answer.json is msgspec.UNSET:
        assert b"".join(played(answer)) == content


@given(st.lists(st.sampled_from(["data: ", "event: ", ":", "x", "{}", "é", "\n", "\r", "\r\n"])))
def test_a_stream_means_the_same_when_it_is_played(parts: list[str]) -> None:
    """However odd it is: the lines that count are the same, in the same events."""
    content = "".join(parts).encode()
    assert lines_of(b"".join(played(kept(content)))) == lines_of(content)


def lines_of(content: bytes) -> list[str]:
    """The lines of a stream, without what no reader sees in them."""
    text = content.decode().replace("\r\n", "\n").replace("\r", "\n")
    blocks = [[line.replace(": ", ":") for line in part.split("\n")] for part in text.split("\n\n")]
    return ["|".join(filter(None, block)) for block in blocks if any(block)]


@given(st.binary())
def test_a_stream_of_any_bytes_is_played_whole(content: bytes) -> None:
    """Bytes that are no text are kept event by event, too."""
    together = b"".join(played(kept(content + b"\n\nid: last\n\n")))
    assert together.endswith(b"id: last\n\n")


def test_events_are_kept_one_by_one() -> None:
    """With their data as JSON; what is not of the usual form stays text, and what is no text is in base64."""
    content = (
        b'event: start\r\ndata: {"a": 1}\r\n\r\n'
        b'data:[1,"\\u00e9"]\n\n'
        b": a comment\n\n"
        b'data: {"twice": 1, "twice": 2}\n\n'
        b"data: one\ndata: two\n\n"
        b"data: \xff\n\n"
        b"data: [DONE]\n\n"
        b'data: {"cut'
    )
    assert kept(content).events == (
        Event("start", {"a": 1}),
        Event("", [1, "é"]),
        ": a comment\n\n",
        'data: {"twice": 1, "twice": 2}\n\n',
        "data: one\ndata: two\n\n",
        Event(base64="ZGF0YTog/woK"),
        "data: [DONE]\n\n",
        'data: {"cut',
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"NaN",
        b"1e999",
        b'"\\ud800"',
        b'{"a": 1, "a": 2}',
        b"[" * 9000,
        b"[" * 80 + b"]" * 80,
    ],
    ids=["nothing", "half", "NaN", "too large", "surrogate", "twice", "bottomless", "deep"],
)
def test_what_cannot_be_written_again_is_not_kept_as_json(content: bytes) -> None:
    """It stays the text it is."""
    assert parsed(content) is msgspec.UNSET
    assert b"".join(played(kept(content, "application/json"))) == content


def test_the_last_word_of_a_stream_is_known() -> None:
    """Clients hang up after it, and that is no hanging up."""
    assert is_said(kept(b"data: 1\n\ndata: [DONE]\n\n"))
    assert not is_said(kept(b"data: [DONE]\n\ndata: 1\n\n"))
    assert not is_said(kept(b""))


def test_a_function_of_the_user_sees_each_text_once() -> None:
    """In a stream as elsewhere."""
    seen: list[str] = []
    scrubber = Scrubber(lambda text: seen.append(text) or text)  # type: ignore[func-returns-value]
    stored(EVENTS, b'event: e\ndata: {"a": "b"}\n\n: c\n\n', scrubber, is_cut=False)
    assert sorted(seen) == [": c\n\n", "a", "b", "e"]
