from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.errors import MalformedResponseError, UnsupportedError
from hookline.providers import CallPiece, TextPiece
from hookline.providers.local.reply import ReplyFormat, schema_grammar
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
FORM = ReplyFormat([ADD, NOW])
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def read(text: str, cuts: list[int], *, form: ReplyFormat = FORM, **options: Any) -> list[Any]:
    """The pieces of a reply that comes in parts."""
    reader = form.reader(**options)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    found = [
        piece for start, end in itertools.pairwise(places) for piece in reader.feed(text[start:end])
    ]
    return [*found, *reader.end(is_cut=False)]


CUTS = st.lists(st.integers(0, 500), max_size=8)


@settings(deadline=None)
@given(
    st.from_regex(r"[a-zA-Z_][\w.-]{0,20}", fullmatch=True),
    st.dictionaries(WORDS, VALUES, max_size=4),
    CUTS,
)
def test_a_call_is_read_as_it_was_written(name: str, args: dict[str, Any], cuts: list[int]) -> None:
    """Whatever its arguments, and wherever the pieces end: one tool, and arguments that are JSON."""
    pieces = read(FORM.write_call(name, args), cuts)
    assert all(isinstance(piece, CallPiece) and piece.index == 0 for piece in pieces)
    assert [piece.name for piece in pieces if piece.name] == [name]
    assert pieces[0].name == name
    assert json.loads("".join(piece.arguments for piece in pieces)) == args


@settings(deadline=None)
@given(WORDS, CUTS)
def test_an_answer_is_read_as_it_was_written(text: str, cuts: list[int]) -> None:
    """Escapes and letters of every script are whole, wherever the pieces end."""
    for said in (
        FORM.write_answer(text),
        json.dumps({"tool": "final_answer", "answer": text}),
    ):
        pieces = read(said, cuts)
        assert all(isinstance(piece, TextPiece) for piece in pieces)
        joined = "".join(piece.text for piece in pieces)
        assert joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le") == text


@settings(deadline=None)
@given(VALUES, CUTS)
def test_a_structured_answer_is_handed_on_as_json(value: Any, cuts: list[int]) -> None:
    """All of it, and nothing of the object around it."""
    said = f'{{"tool": "final_answer", "answer": {json.dumps(value)}}}'
    pieces = read(said, cuts, is_structured=True)
    assert json.loads("".join(piece.text for piece in pieces)) == value


def test_an_answer_streams_letter_by_letter() -> None:
    """As soon as it is certain that it is one."""
    reader = FORM.reader()
    for letter in '{"tool": "final_answer", "answer": "':
        assert reader.feed(letter) == []
    assert [reader.feed(letter) for letter in "Hi"] == [[TextPiece("H")], [TextPiece("i")]]
    assert reader.feed("\\") == []
    assert reader.feed("n!") == [TextPiece("\n!")]
    assert reader.feed('"}') == []
    assert reader.end(is_cut=False) == []


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
        "",
    ],
)
def test_an_invalid_turn_is_refused(said: str) -> None:
    """With what was said instead."""
    with pytest.raises(MalformedResponseError) as caught:
        read(said, [])
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
    reader = FORM.reader()
    assert [*reader.feed(said), *reader.end(is_cut=True)] == pieces


def test_a_cut_structured_answer_keeps_its_last_letter() -> None:
    """Which may have been the end of the turn, and was not."""
    reader = FORM.reader(is_structured=True)
    pieces = [
        *reader.feed('{"tool": "final_answer", "answer": {"a": 1'),
        *reader.end(is_cut=True),
    ]
    assert pieces == [TextPiece('{"a": '), TextPiece("1")]


def grammar_words(grammar: str, *words: str) -> set[str]:
    """Which of these words a grammar has as JSON strings."""
    return {word for word in words if f'"{word}"' in grammar.replace("\\", "")}


def test_only_what_is_offered_can_be_written() -> None:
    """Without answering, a tool must be called; without tools, there is only the answer."""
    words = ("add", "now", "final_answer", "boolean")
    assert grammar_words(FORM.grammar([ADD, NOW], may_answer=False), *words) == {"add", "now"}
    must_answer = FORM.grammar([], answer={"type": "boolean"})
    assert grammar_words(must_answer, *words) == {"final_answer", "boolean"}


def test_definitions_of_two_tools_do_not_mix() -> None:
    """Each tool's references lead to its own definitions."""

    def tool(name: str, kind: str) -> ToolSpec:
        parameters = {"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": kind}}}
        return ToolSpec(name, "", parameters)

    grammar = FORM.grammar([tool("one", "integer"), tool("two", "boolean")])
    assert grammar_words(grammar, "0_X", "1_X", "integer", "boolean") == {
        "0_X",
        "1_X",
        "integer",
        "boolean",
    }


def test_a_schema_that_is_not_json_is_refused() -> None:
    """With what to do."""
    with pytest.raises(UnsupportedError, match="cannot be made into a grammar") as caught:
        schema_grammar({"enum": [{1, 2}]})
    assert caught.value.remedy


def test_a_tool_may_have_the_name_of_the_answer() -> None:
    """Then the answer has another name, and both can be distinguished."""
    assert FORM.answering == "final_answer"
    form = ReplyFormat([ToolSpec(name, "", {}) for name in ("final_answer", "final_answer_")])
    assert form.answering == "final_answer__"
    assert read(form.write_call("final_answer", {"x": 1}), [], form=form)[0].name == "final_answer"


def test_a_parameter_may_have_the_name_of_the_key() -> None:
    """Then the tool's name has another key: an object has no key twice."""
    pick = ToolSpec("pick", "", {"type": "object", "properties": {"tool": {"type": "string"}}})
    form = ReplyFormat([pick])
    written = form.write_call("pick", {"tool": "hammer"})
    assert json.loads(written) == {"tool_": "pick", "tool": "hammer"}
    (piece,) = read(written, [], form=form)
    assert (piece.name, json.loads(piece.arguments)) == ("pick", {"tool": "hammer"})
    assert '"tool_"' in form.grammar([pick]).replace("\\", "")


@pytest.mark.parametrize(
    "written",
    ['{"tool":"add","a":3}', ' { "tool" : "add" , "a": 3 }', '{\n"tool":\n"add",\n"a":3}'],
)
def test_space_does_not_matter(written: str) -> None:
    """A build of llama.cpp may leave the model free in that."""
    pieces = read(written, list(range(0, 40, 3)))
    assert pieces[0].name == "add"
    assert json.loads("".join(piece.arguments for piece in pieces)) == {"a": 3}
