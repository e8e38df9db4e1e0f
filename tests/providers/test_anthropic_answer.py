import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wires.anthropic import block_events

from hookline.errors import ContextOverflowError, MalformedResponseError, RefusalError
from hookline.providers import CallPiece, Piece, ReasoningPiece, TextPiece
from hookline.providers.anthropic import AnthropicAnswer

START = {"type": "message_start", "message": {"model": "claude", "content": []}}
STOP = {"type": "message_stop"}


def text(words: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": words}


def thinking(words: str) -> dict[str, Any]:
    """A block of thinking."""
    return {"type": "thinking", "thinking": words, "signature": f"sig-{words}"}


def call(number: int, **args: Any) -> dict[str, Any]:
    """A call."""
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "add", "input": args}


def whole(*blocks: dict[str, Any], reason: str = "end_turn", **fields: Any) -> bytes:
    """An answer that comes in one piece."""
    message = {"model": "claude", "content": blocks, "stop_reason": reason, **fields}
    return json.dumps(message).encode()


def streamed(answer: AnthropicAnswer, *blocks: dict[str, Any]) -> list[Piece]:
    """The pieces of an answer that comes in events."""
    grown = [each for index, block in enumerate(blocks) for each in block_events(index, block)]
    return [piece for each in (START, *grown, STOP) for piece in answer.read_event(each)]


def folded(pieces: list[Piece]) -> tuple[str, dict[int, list[str]], dict[int, list[str]]]:
    """The text, the thinking and the calls in these pieces, whatever the chunks were."""
    said, thoughts, calls = "", {}, {}  # type: ignore[var-annotated]
    for piece in pieces:
        if isinstance(piece, TextPiece):
            said += piece.text
        elif isinstance(piece, ReasoningPiece):
            part = thoughts.setdefault(piece.index, ["", "", "", ""])
            for place, value in enumerate((piece.text, piece.signature, piece.kind, piece.call_id)):
                part[place] += value
        elif isinstance(piece, CallPiece):
            part = calls.setdefault(piece.index, ["", "", ""])
            for place, value in enumerate((piece.id, piece.name, piece.arguments)):
                part[place] += value
    return said, thoughts, calls


def test_thinking_between_is_tied_to_the_call_it_led_to() -> None:
    """Thinking after text or a call is tied to the next call, so that it can go back to its place."""
    blocks = (
        thinking("one"),
        text("Well."),
        thinking("two"),
        call(1),
        {"type": "redacted_thinking", "data": "sealed"},
        call(2),
        thinking("last"),
    )
    for pieces in (AnthropicAnswer().read(whole(*blocks)), streamed(AnthropicAnswer(), *blocks)):
        _, thoughts, calls = folded(pieces)
        assert thoughts == {
            0: ["one", "sig-one", "thinking", ""],
            2: ["two", "sig-two", "thinking", "toolu_1"],
            4: ["", "sealed", "redacted_thinking", "toolu_2"],
            6: ["last", "sig-last", "thinking", ""],
        }
        assert sorted(calls) == [3, 5]


def test_thinking_before_more_text_is_not_tied_to_a_call() -> None:
    """Thinking that was followed by text goes back before the text."""
    blocks = (text("One"), thinking("hm"), text(", two."), call(1))
    said, thoughts, _ = folded(streamed(AnthropicAnswer(), *blocks))
    assert said == "One, two."
    assert thoughts[1][3] == ""


def test_a_delta_for_another_kind_of_block_is_passed_over() -> None:
    """What does not fit the block it is for adds nothing to it."""
    answer = AnthropicAnswer()
    answer.read_event(
        {"type": "content_block_start", "index": 0, "content_block": {**call(1), "input": {}}}
    )
    for delta in ({"type": "text_delta", "text": "x"}, {"type": "thinking_delta", "thinking": "x"}):
        more = {"type": "content_block_delta", "index": 0, "delta": delta}
        assert answer.read_event(more) == []
    assert answer.blocks() == [call(1)]


def test_citations_go_back_with_a_paused_answer() -> None:
    """What an answer cites belongs to its block."""
    answer = AnthropicAnswer()
    streamed(answer, text("So it is."))
    cited = {"type": "citations_delta", "citation": {"type": "page_location", "document_index": 0}}
    answer.read_event({"type": "content_block_delta", "index": 0, "delta": cited})
    assert answer.blocks() == [{**text("So it is."), "citations": [cited["citation"]]}]


def test_a_refusal_says_why() -> None:
    """A refusal is an error, with as much of a reason as was given."""
    for details, why in (
        ({"category": "bio", "explanation": "It is dangerous."}, "bio: It is dangerous."),
        ({"category": None}, "no reason"),
        (None, "no reason"),
    ):
        answer = AnthropicAnswer()
        answer.read(whole(text("I"), reason="refusal", stop_details=details))
        with pytest.raises(RefusalError, match=why):
            answer.check()


def test_an_answer_beyond_the_context_is_an_overflow() -> None:
    """An answer that filled the context is reported as such."""
    answer = AnthropicAnswer()
    answer.read(whole(text("And"), reason="model_context_window_exceeded"))
    with pytest.raises(ContextOverflowError):
        answer.check()


@pytest.mark.parametrize(
    "event",
    [
        None,
        "text",
        {},
        {"type": 5},
        {"type": "message_start"},
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": "many"}},
    ],
)
def test_a_malformed_event_is_reported(event: object) -> None:
    """What departs from the protocol is an error that says where, not a crash."""
    with pytest.raises(MalformedResponseError):
        AnthropicAnswer().read_event(event)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"model": 1}'])
def test_a_malformed_answer_is_reported(content: bytes) -> None:
    """A body that is no answer is malformed."""
    with pytest.raises(MalformedResponseError):
        AnthropicAnswer().read(content)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_blocks = st.lists(
    st.text(min_size=1, max_size=9).map(text)
    | st.text(max_size=9).map(thinking)
    | st.just({"type": "redacted_thinking", "data": "sealed"})
    | st.just({"type": "hologram", "depth": 3})
    | st.dictionaries(st.text(max_size=3), _json, max_size=2).map(lambda args: call(1, **args)),
    max_size=5,
)


@given(_blocks)
def test_streamed_or_not_an_answer_is_the_same(blocks: list[dict[str, Any]]) -> None:
    """Chunks make no difference: neither to what is read, nor to what would be sent back."""
    at_once, in_events = AnthropicAnswer(), AnthropicAnswer()
    read, heard = folded(at_once.read(whole(*blocks))), folded(streamed(in_events, *blocks))
    assert read[:2] == heard[:2]
    assert _decoded(read[2]) == _decoded(heard[2])
    assert at_once.blocks() == in_events.blocks() == blocks


def _decoded(calls: dict[int, list[str]]) -> dict[int, tuple[str, str, Any]]:
    return {
        index: (id, name, json.loads(args or "{}")) for index, (id, name, args) in calls.items()
    }


_fields = st.sampled_from(
    "type index message content_block delta usage text thinking signature data id name input "
    "partial_json citation model content stop_reason output_tokens".split()
)
_kinds = st.sampled_from(
    "message_start content_block_start content_block_delta message_delta message_stop text thinking "
    "redacted_thinking tool_use text_delta thinking_delta signature_delta input_json_delta "
    "citations_delta hologram".split()
)
_mess = st.recursive(
    _kinds | st.none() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_fields, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(_mess | st.dictionaries(_fields, _mess, max_size=6), max_size=6))
def test_no_event_crashes(events: list[Any]) -> None:
    """Whatever comes is an answer, or malformed."""
    answer = AnthropicAnswer()
    answer.read_event({"type": "content_block_start", "index": 0, "content_block": text("")})
    try:
        for event in events:
            answer.read_event(event)
        answer.blocks()
    except MalformedResponseError:
        pass
