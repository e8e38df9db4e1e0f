from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import (
    ConnectionLostError,
    ContentFilterError,
    MalformedResponseError,
    ModelError,
    OverloadedError,
    RefusalError,
)
from hookline.providers import CallPiece, EndPiece, Piece, ReasoningPiece, TextPiece
from hookline.providers.openai import OpenAIAnswer, OpenAIChunk
from hookline.state import Usage

STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def delta(**fields: Any) -> dict[str, Any]:
    """A chunk that adds this to the message."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    """A chunk with these pieces of calls."""
    return delta(tool_calls=list(calls))


def read(*chunks: dict[str, Any], is_whole: bool = False) -> list[Piece]:
    """The pieces of an answer that came in these chunks."""
    answer = OpenAIAnswer("gpt-4o", "")
    pieces = [
        piece for chunk in chunks for piece in answer.read(msgspec.convert(chunk, OpenAIChunk))
    ]
    return [*pieces, answer.end(is_whole=is_whole)]


def calls_of(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls of an answer, put together as a driver does."""
    calls: dict[int, list[str]] = {}
    for piece in read(*chunks, STOP):
        if isinstance(piece, CallPiece):
            call = calls.setdefault(piece.index, [piece.id, piece.name, ""])
            assert call[1], "the first piece of a call names the tool"
            call[2] += piece.arguments
    return [(call_id, name, arguments) for call_id, name, arguments in calls.values()]


def test_text_and_thinking_come_in_order() -> None:
    """Both names of the field for thinking are read, and kept."""
    pieces = read(
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(reasoning="so"),
        delta(content="Hel"),
        delta(content="lo"),
        STOP,
    )
    assert pieces[:-1] == [
        ReasoningPiece(0, "hm", kind="reasoning_content"),
        ReasoningPiece(0, "so", kind="reasoning"),
        TextPiece("Hel"),
        TextPiece("lo"),
    ]


def test_thinking_that_is_sent_twice_is_read_once() -> None:
    """A server that fills both fields, for old clients and new, does not think twice."""
    first, _ = read(delta(reasoning_content="hm", reasoning="hm"), STOP)
    assert first == ReasoningPiece(0, "hm", kind="reasoning_content")


def test_the_end_has_usage_cost_and_model() -> None:
    """Usage comes in a chunk of its own without choices; the model is the one that answered."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    *_, end = read(
        {"choices": [], "usage": None, "prompt_filter_results": []},
        delta(content="x") | {"usage": None},
        STOP,
        {"choices": [], "usage": usage, "model": "gpt-4o-2024-08-06"},
    )
    assert isinstance(end, EndPiece)
    assert end.model == "gpt-4o-2024-08-06"
    assert end.finish == ""
    assert end.usage.cost is not None
    assert end.usage == Usage(100, 20, 1, end.usage.cost, 0, 64)


def test_an_answer_without_usage_has_no_known_cost() -> None:
    """A server that does not count is not one that costs nothing."""
    *_, end = read(delta(content="x"), STOP, {"choices": None, "usage": None})
    assert isinstance(end, EndPiece)
    assert end.usage == Usage(requests=1, unpriced_requests=1)


def test_a_whole_answer_is_one_chunk() -> None:
    """Without a stream, the message comes with its calls in full."""
    message = {
        "role": "assistant",
        "content": "Look:",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    text, one, two, end = read({"choices": [choice]}, is_whole=True)
    assert text == TextPiece("Look:")
    assert [one, two] == [CallPiece(0, "a", "f", "{}"), CallPiece(1, "a", "f", "{}")]
    assert isinstance(end, EndPiece)
    assert end.finish == ""


def test_other_choices_are_not_read() -> None:
    """One answer was asked for; what a server adds to it is not mixed into it."""
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}
    pieces = read(delta(content="yes"), second, STOP)
    assert pieces[:-1] == [TextPiece("yes")]


# --- calls, as servers send them -----------------------------------------------------------------

PART = {"function": {"arguments": '{"a":'}}
REST = {"function": {"arguments": " 1}"}}


def named(id: str | None, name: str, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    """A piece of a call with its name."""
    return {"id": id, "function": {"name": name, "arguments": arguments}, **more}


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                calling(named("x", "f", "", index=0, type="function")),
                calling({"index": 0, **PART}),
                calling({"index": 0, **REST}),
                calling(named("y", "g", "", index=1)),
                calling({"index": 1, "function": {"arguments": "{}"}}),
            ],
            id="as documented",
        ),
        pytest.param(
            [
                calling(named("x", "f", index=0), named("y", "g", "{}", index=1)),
                calling({"index": 0, **PART}),
                calling({"index": 0, **REST}),
            ],
            id="interleaved",
        ),
        pytest.param(
            [
                calling(named("x", "f", "")),
                calling(PART),
                calling(REST),
                calling(named("y", "g", "{}")),
            ],
            id="no index",
        ),
        pytest.param(
            [
                calling(named("x", "f", '{"a":', index=0)),
                calling(named("x", "f", " 1}", index=0)),
                calling(named("y", "g", "{}", index=0)),
            ],
            id="one index for all, name and id repeated",
        ),
        pytest.param(
            [
                calling(named("x", "f", "", index=0)),
                calling({"index": 0, "id": "other", **PART}),
                calling({"index": 0, "id": "another", **REST}),
                calling(named("y", "g", "{}", index=1)),
            ],
            id="a new id with every piece",
        ),
        pytest.param(
            [
                calling({"index": 0, "id": "x", **PART}),
                calling({"index": 0, "function": {"name": "f", "arguments": " 1}"}}),
                calling(named("y", "g", "{}", index=1)),
            ],
            id="arguments before the name",
        ),
    ],
)
def test_calls_are_put_together(chunks: list[dict[str, Any]]) -> None:
    """However a server numbers the pieces of two calls, they come out as two calls."""
    assert calls_of(*chunks) == [("x", "f", '{"a": 1}'), ("y", "g", "{}")]


def test_calls_without_any_mark_are_distinguished_by_their_names() -> None:
    """Without ids and numbers, a name begins a call."""
    chunk = calling(named(None, "f", "{}"), named(None, "f", "{}"))
    assert calls_of(chunk) == [("", "f", "{}"), ("", "f", "{}")]


def test_arguments_may_come_as_an_object() -> None:
    """A server that does not write the arguments as text means the same."""
    call = {"index": 0, "id": "x", "function": {"name": "f", "arguments": {"a": 1}}}
    assert calls_of(calling(call)) == [("x", "f", '{"a":1}')]


def test_a_call_that_names_no_tool_is_malformed() -> None:
    """There is nothing to do with it."""
    with pytest.raises(MalformedResponseError, match="names no tool"):
        read(calling({"index": 0, "id": "x", **PART}), STOP)


# --- how an answer ends --------------------------------------------------------------------------


def ended(reason: str) -> dict[str, Any]:
    """The chunk that ends an answer."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("stop", ""), ("tool_calls", ""), ("length", "length"), ("eos_token", "")],
)
def test_the_end_says_when_it_came_too_early(reason: str, finish: str) -> None:
    """Only running out of tokens is worth a word."""
    *_, end = read(delta(content="x"), ended(reason))
    assert isinstance(end, EndPiece)
    assert end.finish == finish


@pytest.mark.parametrize(
    ("chunks", "error", "words"),
    [
        ([delta(content="x")], ConnectionLostError, "ended too early"),
        ([], ConnectionLostError, "ended too early"),
        ([delta(content="x"), ended("content_filter")], ContentFilterError, "filter"),
        ([delta(refusal="I can"), delta(refusal="not."), STOP], RefusalError, "I cannot."),
        ([delta(content="x"), ended("error")], OverloadedError, "failed"),
    ],
)
def test_an_invalid_answer_is_an_error(
    chunks: list[dict[str, Any]], error: type[ModelError], words: str
) -> None:
    """Broken off, filtered, refused or failed: each is its own error, with a remedy."""
    with pytest.raises(error, match=words) as caught:
        read(*chunks)
    assert type(caught.value) is error
    assert caught.value.remedy


def test_a_whole_answer_needs_no_reason_to_end() -> None:
    """Some servers leave it out; that the answer is whole is known without."""
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": None}
    first, end = read({"choices": [choice]}, is_whole=True)
    assert first == TextPiece("x")
    assert isinstance(end, EndPiece)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CALL_LIKE: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(-2, 3),
        "id": st.none() | st.sampled_from(["", "x", "y"]),
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.none() | st.sampled_from(["", "f", "g"]),
                "arguments": st.none() | st.sampled_from(["", "{", "}"]) | st.just({}),
            },
        ),
    },
)
DELTA_LIKE = st.fixed_dictionaries(
    {},
    optional={
        "content": st.none() | st.text() | JSON,
        "refusal": st.none() | st.text(),
        "reasoning": st.none() | st.text(),
        "tool_calls": st.none() | st.lists(CALL_LIKE, max_size=3) | JSON,
    },
)
CHUNK_LIKE = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.sampled_from([None, 0, 1]),
                    "delta": DELTA_LIKE,
                    "message": DELTA_LIKE,
                    "finish_reason": st.sampled_from([None, "", "stop", "length", "error"]),
                },
            ),
            max_size=2,
        )
        | JSON,
        "usage": JSON,
        "model": JSON,
    },
)


@given(st.lists(CHUNK_LIKE | JSON, max_size=4), st.booleans())
def test_whatever_comes_is_read_or_refused(chunks: list[Any], is_whole: bool) -> None:
    """An answer is pieces in which every call begins with its name, or one of our errors: never a crash."""
    try:
        pieces = read(*chunks, is_whole=is_whole)
    except (msgspec.ValidationError, ModelError):
        return
    seen: set[int] = set()
    for piece in pieces:
        if isinstance(piece, CallPiece) and piece.index not in seen:
            seen.add(piece.index)
            assert piece.name
    assert seen == set(range(len(seen)))
    assert isinstance(pieces[-1], EndPiece)
