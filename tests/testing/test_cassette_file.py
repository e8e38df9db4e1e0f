from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import CassetteError
from hookline.testing import Cassette
from hookline.testing.cassette_file import (
    Exchange,
    LostConnection,
    RecordedAnswer,
    RecordedEvent,
    RecordedRequest,
    body_pieces,
    is_complete_stream,
    parse_json,
    read,
    store_body,
    write,
)
from hookline.testing.secrets import Scrubber

EXCHANGES = (
    Exchange(
        RecordedRequest(
            "POST", "/v1/ask", {"messages": [{"role": "user", "content": "Grüß dich! " * 9}]}
        ),
        RecordedAnswer(
            200,
            {"content-type": "text/event-stream"},
            events=(
                RecordedEvent("start", {"id": 1}),
                RecordedEvent(data=None),
                "data: [DONE]\n\n",
            ),
        ),
    ),
    Exchange(RecordedRequest("POST", "/v1/ask", {}), RecordedAnswer(200, {}, json=None)),
    Exchange(
        RecordedRequest("POST", "/v1/ask"), RecordedAnswer(500, {"retry-after": "1"}, text="Oh.\n")
    ),
    Exchange(
        RecordedRequest("GET", "/"),
        RecordedAnswer(200, {}, base64="/w==", lost=LostConnection("ReadError", "cut")),
    ),
    Exchange(RecordedRequest("GET", "/"), RecordedAnswer(left=True)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a directory that is not there yet."""
    return tmp_path / "a" / "b" / "cassette.json"


def test_what_is_written_is_read(path: Path) -> None:
    """In every form that a body has, and the file is the only one there."""
    write(path, EXCHANGES)
    assert read(path) == EXCHANGES
    assert list(path.parent.iterdir()) == [path]


def test_it_is_written_to_be_read_by_people(path: Path) -> None:
    """What fits a line is on one line, and each event of a stream is on its own."""
    write(path, EXCHANGES[:1])
    assert (
        path.read_text(encoding="utf-8")
        == """\
{
  "hookline_cassette": 1,
  "exchanges": [
    {
      "request": {
        "method": "POST",
        "path": "/v1/ask",
        "body": {
          "messages": [
            {
              "role": "user",
              "content": "Grüß dich! Grüß dich! Grüß dich! Grüß dich! Grüß dich! Grüß dich! Grüß dich! \
Grüß dich! Grüß dich! "
            }
          ]
        }
      },
      "answer": {
        "status": 200,
        "headers": {"content-type": "text/event-stream"},
        "events": [
          {"event": "start", "data": {"id": 1}},
          {"data": null},
          "data: [DONE]\\n\\n"
        ]
      }
    }
  ]
}
"""
    )


WRONG: dict[str, tuple[Any, str]] = {
    "newer": ({"hookline_cassette": 2, "exchanges": 7}, r"newer Hookline \(format 2.*Upgrade"),
    "no version": ({"exchanges": []}, "no 'hookline_cassette' with a version.*record it again"),
    "a list": ([], "is not a cassette"),
    "no exchanges": ({"hookline_cassette": 1}, "is not a cassette: Expected `array`"),
    "a wrong status": (
        {
            "hookline_cassette": 1,
            "exchanges": [{"request": {"method": "", "path": ""}, "answer": {"status": "200"}}],
        },
        r"Expected `int`, got `str` - at `\$\[0\]\.answer\.status`",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_cassette_is_refused(name: str, path: Path) -> None:
    """When the cassette is made, with the place that is wrong and what to do."""
    content, problem = WRONG[name]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    with pytest.raises(CassetteError, match=problem):
        Cassette(path)


def test_a_file_that_is_not_json_is_refused(path: Path) -> None:
    """A merge conflict, say."""
    path.parent.mkdir(parents=True)
    path.write_text('<<<<<<< HEAD\n{"hookline_cassette": 1}')
    with pytest.raises(CassetteError, match="it is not JSON"):
        Cassette(path)
    path.write_bytes(b"\xff")
    with pytest.raises(CassetteError, match="it is not JSON"):
        Cassette(path)


def test_a_file_that_cannot_be_written_is_an_error(path: Path) -> None:
    """And what was there stays."""
    path.mkdir(parents=True)
    with pytest.raises(CassetteError, match="cannot be written: Is a directory"):
        write(path, EXCHANGES)
    assert list(path.parent.iterdir()) == [path]


# --- bodies of answers -------------------------------------------------------------------------


EVENTS = "text/event-stream"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


KEY = "geheimwort77ab99cdef42"


def kept(content: bytes, kind: str = EVENTS) -> RecordedAnswer:
    """A body as a cassette keeps it, written and read."""
    answer = store_body(kind, content, Scrubber())
    return msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(answer))), RecordedAnswer)


@given(VALUES)
def test_json_is_kept_as_json(value: Any) -> None:
    """Whatever it is, and it is the same value when it is played."""
    content = json.dumps(value).encode(errors="surrogatepass")
    (answer,) = body_pieces(kept(content, "application/json"))
    assert json.loads(answer) == json.loads(content)


@given(st.binary())
def test_a_body_of_any_bytes_is_played_as_it_came(content: bytes) -> None:
    """As JSON, as text, or in base64: nothing is lost."""
    answer = kept(content, "text/plain")
    if answer.json is msgspec.UNSET:
        assert b"".join(body_pieces(answer)) == content


@given(st.lists(st.sampled_from(["data: ", "event: ", ":", "x", "{}", "é", "\n", "\r", "\r\n"])))
def test_a_stream_means_the_same_when_it_is_played(parts: list[str]) -> None:
    """However odd it is: the lines that count are the same, in the same events."""
    content = "".join(parts).encode()
    assert lines_of(b"".join(body_pieces(kept(content)))) == lines_of(content)


def lines_of(content: bytes) -> list[str]:
    """The lines of a stream, without what no reader sees in them."""
    text = content.decode().replace("\r\n", "\n").replace("\r", "\n")
    blocks = [[line.replace(": ", ":") for line in part.split("\n")] for part in text.split("\n\n")]
    return ["|".join(filter(None, block)) for block in blocks if any(block)]


@given(st.binary())
def test_a_stream_of_any_bytes_is_played_whole(content: bytes) -> None:
    """Bytes that are no text are kept event by event, too."""
    together = b"".join(body_pieces(kept(content + b"\n\nid: last\n\n")))
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
        RecordedEvent("start", {"a": 1}),
        RecordedEvent("", [1, "é"]),
        ": a comment\n\n",
        'data: {"twice": 1, "twice": 2}\n\n',
        "data: one\ndata: two\n\n",
        RecordedEvent(base64="ZGF0YTog/woK"),
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
    assert parse_json(content) is msgspec.UNSET
    assert b"".join(body_pieces(kept(content, "application/json"))) == content


def test_the_last_word_of_a_stream_is_known() -> None:
    """Clients hang up after it, and that is no hanging up."""
    assert is_complete_stream(kept(b"data: 1\n\ndata: [DONE]\n\n"))
    assert not is_complete_stream(kept(b"data: [DONE]\n\ndata: 1\n\n"))
    assert not is_complete_stream(kept(b""))


def test_a_function_of_the_user_sees_each_text_once() -> None:
    """In a stream as elsewhere."""
    seen: list[str] = []
    scrubber = Scrubber(lambda text: seen.append(text) or text)  # type: ignore[func-returns-value]
    store_body(EVENTS, b'event: e\ndata: {"a": "b"}\n\n: c\n\n', scrubber)
    assert sorted(seen) == [": c\n\n", "a", "b", "e"]


# --- keys that are streamed in pieces ------------------------------------------------------------


def call(arguments: str, **which: Any) -> dict[str, Any]:
    """A piece of a call, as OpenAI streams it."""
    piece = {**which, "function": {"arguments": arguments}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}


def said(text: str) -> dict[str, Any]:
    """A piece of an answer, as OpenAI streams it."""
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def block(text: str, *, is_first: bool = False) -> dict[str, Any]:
    """A piece of a block, as Anthropic streams it."""
    kind, holder = ("start", "content_block") if is_first else ("delta", "delta")
    return {"type": f"content_block_{kind}", "index": 0, holder: {"text": text}}


def parts(*texts: str) -> dict[str, Any]:
    """Some parts of an answer, as Google streams them."""
    return {"candidates": [{"content": {"parts": [{"text": text} for text in texts]}}]}


@pytest.mark.parametrize(
    ("events", "clean"),
    [
        (
            [
                call("hello ", index=0),
                call("geheimwort77", index=1),
                call("world", index=0),
                call("ab99cdef42!", index=1),
            ],
            ["hello ", "[scrubbed]", "world", "!"],
        ),
        (
            [call("sk-proj-1234567", index=0), call("8", index=1), call("890abc ", index=0)],
            ["[scrubbed]", "8", " "],
        ),
        (
            [
                call("a geheim", id="a"),
                call("wort77ab99"),
                call("b geheim", id="b"),
                call("cdef42.", id="a"),
                call("wort77ab99cdef42.", id="b"),
            ],
            ["a [scrubbed]", "", "b [scrubbed]", ".", "."],
        ),
        (
            [block("It is geheimw", is_first=True), block("ort77ab99cdef42.")],
            ["It is [scrubbed]", "."],
        ),
        ([parts("It is geh"), parts("eimwort", "77ab99cdef42.")], ["It is [scrubbed]", "", "."]),
        ([said("It is geheimwort7"), said("7ab99")], ["It is [scrubbed]", ""]),
    ],
    ids=["interleaved", "a token", "by id", "start and delta", "parts", "ends in the key"],
)
def test_a_key_in_pieces_is_taken_out(events: list[Any], clean: list[str]) -> None:
    """Whatever is said in between, wherever the field begins, and though the stream ends before the key does."""
    scrubber = Scrubber()
    scrubber.learn([KEY])
    content = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    answer = store_body(EVENTS, content, scrubber)
    assert [text for event in answer.events for text in pieces_of(event)] == clean


def pieces_of(event: RecordedEvent | str) -> list[str]:
    """What an event says."""
    assert isinstance(event, RecordedEvent)
    return list(spoken(event.data))


def spoken(value: Any) -> Iterator[str]:
    """The texts and arguments in a JSON value."""
    inside = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    for name, each in inside:
        if name in ("text", "content", "arguments") and isinstance(each, str):
            yield each
        elif isinstance(each, dict | list):
            yield from spoken(each)
