from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from gbnf import GrammarReader
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.errors import MalformedResponseError
from hookline.providers import CallPiece, TextPiece
from hookline.providers.local.speech import (
    Hearing,
    answer_name,
    said_answer,
    said_call,
    turn_grammar,
)
from hookline.state import ToolSpec

ADD = ToolSpec(
    "add",
    "Add.",
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer"},
            "note": {"type": "string"},
        },
        "required": ["a", "b"],
    },
)
NOW = ToolSpec("now", "Tell the time.", {"type": "object", "properties": {}})
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def heard(
    text: str, cuts: list[int], *, answering: str = "final_answer", **options: Any
) -> list[Any]:
    """The pieces of a turn that comes in parts."""
    hearing = Hearing(answering, **options)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    found = [
        piece
        for start, end in itertools.pairwise(places)
        for piece in hearing.feed(text[start:end])
    ]
    return [*found, *hearing.end(is_cut=False)]


CUTS = st.lists(st.integers(0, 500), max_size=8)


@settings(deadline=None)
@given(
    st.from_regex(r"[a-zA-Z_][\w.-]{0,20}", fullmatch=True),
    st.dictionaries(WORDS, VALUES, max_size=4),
    CUTS,
)
def test_a_call_is_heard_as_it_was_said(name: str, args: dict[str, Any], cuts: list[int]) -> None:
    """Whatever its arguments, and wherever the pieces end: one tool, and arguments that are JSON."""
    pieces = heard(said_call(name, args), cuts, answering="-")
    assert all(isinstance(piece, CallPiece) and piece.index == 0 for piece in pieces)
    assert [piece.name for piece in pieces if piece.name] == [name]
    assert pieces[0].name == name
    assert json.loads("".join(piece.arguments for piece in pieces)) == args


@settings(deadline=None)
@given(WORDS, CUTS)
def test_an_answer_is_heard_as_it_was_said(text: str, cuts: list[int]) -> None:
    """Escapes and letters of every script are whole, wherever the pieces end."""
    for said in (
        said_answer("final_answer", text),
        json.dumps({"tool": "final_answer", "answer": text}),
    ):
        pieces = heard(said, cuts)
        assert all(isinstance(piece, TextPiece) for piece in pieces)
        joined = "".join(piece.text for piece in pieces)
        assert joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le") == text


@settings(deadline=None)
@given(VALUES, CUTS)
def test_a_structured_answer_is_handed_on_as_json(value: Any, cuts: list[int]) -> None:
    """All of it, and nothing of the object around it."""
    said = f'{{"tool": "final_answer", "answer": {json.dumps(value)}}}'
    pieces = heard(said, cuts, is_structured=True)
    assert json.loads("".join(piece.text for piece in pieces)) == value


def test_an_answer_streams_letter_by_letter() -> None:
    """As soon as it is certain that it is one."""
    hearing = Hearing("final_answer")
    for letter in '{"tool": "final_answer", "answer": "':
        assert hearing.feed(letter) == []
    assert [hearing.feed(letter) for letter in "Hi"] == [[TextPiece("H")], [TextPiece("i")]]
    assert hearing.feed("\\") == []
    assert hearing.feed("n!") == [TextPiece("\n!")]
    assert hearing.feed('"}') == []
    assert hearing.end(is_cut=False) == []


@pytest.mark.parametrize(
    "said",
    [
        "I will not.",
        '{"tol": "add"}',
        '{"tool": "add", "a": 3',
        '{"tool": "add"',
        '{"tool": "ad',
        '{"tool": "final_answer", "anser": "no"}',
        '{"tool": "final_answer", "answer": "no',
        r'{"tool": "final_answer", "answer": "\u00zz"}',
        "",
    ],
)
def test_a_turn_that_is_none_is_refused(said: str) -> None:
    """With what was said instead."""
    with pytest.raises(MalformedResponseError) as caught:
        heard(said, [])
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("said", "pieces"),
    [
        ('{"tool": "final_answer", "answer": "So far\\u00', [TextPiece("So far")]),
        ('{"tool": "add", "a": 3', [CallPiece(0, "", "add", '{"a": 3')]),
        ('{"tool": "add"', [CallPiece(0, "", "add", "{")]),
        ('{"tool": "ad', []),
        ("", []),
    ],
)
def test_a_turn_that_ran_out_of_tokens_keeps_what_was_said(said: str, pieces: list[Any]) -> None:
    """It is half a turn, and known to be."""
    hearing = Hearing("final_answer")
    assert [*hearing.feed(said), *hearing.end(is_cut=True)] == pieces


def test_a_cut_structured_answer_keeps_its_last_letter() -> None:
    """Which may have been the end of the turn, and was not."""
    hearing = Hearing("final_answer", is_structured=True)
    pieces = [
        *hearing.feed('{"tool": "final_answer", "answer": {"a": 1'),
        *hearing.end(is_cut=True),
    ]
    assert pieces == [TextPiece('{"a": '), TextPiece("1")]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_the_grammar_allows_is_heard(data: st.DataObject) -> None:
    """A call of an offered tool with the arguments it must have, or an answer."""
    reader = GrammarReader(turn_grammar([ADD, NOW], "final_answer"))
    said = reader.write(lambda low, high: data.draw(st.integers(low, high)))
    pieces = heard(said, [])
    if isinstance(pieces[0] if pieces else TextPiece(""), TextPiece):
        assert json.loads(said)["tool"] == "final_answer"
        return
    args = json.loads("".join(piece.arguments for piece in pieces))
    if pieces[0].name == "now":
        assert args == {}
    else:
        assert {"a", "b"} <= set(args) <= {"a", "b", "note"}


def test_only_what_is_offered_can_be_said() -> None:
    """Without answering, a tool must be called; without tools, there is nothing but the answer."""
    must_call = turn_grammar([ADD, NOW], "")
    assert "final_answer" not in must_call
    assert {"add", "now"} <= {word for word in ("add", "now") if f'\\"{word}\\"' in must_call}
    must_answer = turn_grammar([], "final_answer", {"type": "boolean"})
    assert GrammarReader(must_answer).write(lambda low, high: low) == (
        '{"tool": "final_answer", "answer": true}'
    )


def test_a_tool_may_be_called_like_the_answer() -> None:
    """Then the answer is called something else, and both can be told apart."""
    assert answer_name(["add"]) == "final_answer"
    name = answer_name(["final_answer", "final_answer_"])
    assert name == "final_answer__"
    assert heard(said_call("final_answer", {"x": 1}), [], answering=name)[0].name == "final_answer"


def test_a_parameter_may_be_called_tool() -> None:
    """The first entry is the tool's name, and the rest are arguments."""
    (piece,) = heard(said_call("pick", {"tool": "hammer"}), [])
    assert (piece.name, json.loads(piece.arguments)) == ("pick", {"tool": "hammer"})
