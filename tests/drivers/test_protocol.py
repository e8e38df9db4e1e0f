from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline import ToolCall
from hookline.drivers.protocol import AnswerStream, Spoken, SpokenCall, read, write

WORDS = st.text(st.characters(codec="utf-8"))
NAMES = WORDS.filter(bool)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=8,
)
CALLS = st.builds(
    SpokenCall, NAMES, st.dictionaries(WORDS, JSON).map(lambda args: json.dumps(args))
)
SPOKEN = st.builds(Spoken, WORDS, st.lists(CALLS, max_size=3).map(tuple), st.none() | NAMES).filter(
    lambda one: one.calls or one.answer is not None
)
FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *'{}[]":,\\`*\n u0041',
            '"answer"',
            '"calls"',
            '"tool"',
            '"thought"',
            "```json\n",
            "\nAction:",
            "\nAction Input:",
            "\nFinal Answer:",
            "\nObservation:",
            "<think>",
            "</think>",
            "add",
            "\ud83d",
            "\\ud83d",
        ]
    )
    | st.text(st.characters(categories=None), max_size=3)
).map("".join)


def same(one: Spoken, other: Spoken) -> bool:
    """Whether two turns say the same; how arguments are spaced does not matter."""
    args = [json.loads(call.args) for call in one.calls]
    return (
        (one.thought, one.answer, one.problem) == (other.thought, other.answer, other.problem)
        and [call.tool for call in one.calls] == [call.tool for call in other.calls]
        and args == [json.loads(call.args) for call in other.calls]
    )


# --- reading --------------------------------------------------------------------------------------------


@given(SPOKEN)
def test_what_is_written_is_read(spoken: Spoken) -> None:
    """Thought, calls and answer come back as they were."""
    assert same(read(write(spoken)), spoken)


@given(FRAGMENTS)
@settings(max_examples=300)
def test_nothing_a_model_writes_breaks_the_reader(text: str) -> None:
    """Any text is a call, an answer or a problem, and all of it can be written down."""
    spoken = read(text)
    assert spoken.calls or spoken.problem or spoken.answer is not None
    for call in spoken.calls:
        ToolCall.from_json("1", call.tool, call.args)
    for part in (spoken.thought, spoken.answer or "", spoken.problem):
        part.encode()


ADD = SpokenCall("add", '{"a": 1}')


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ('{"calls": [{"tool": "add", "args": {"a": 1}}]}', Spoken(calls=(ADD,))),
        ('{"tool": "add", "args": {"a": 1}}', Spoken(calls=(ADD,))),
        ('{"name": "add", "arguments": {"a": 1}}', Spoken(calls=(ADD,))),
        ('{"action": "add", "action_input": {"a": 1}}', Spoken(calls=(ADD,))),
        ('{"name": "add", "arguments": "{\\"a\\": 1}"}', Spoken(calls=(ADD,))),
        ('{"calls": {"tool": "add", "args": {"a": 1}}}', Spoken(calls=(ADD,))),
        ('```json\n{"tool": "add", "args": {"a": 1}}\n```', Spoken(calls=(ADD,))),
        ('```\n{"answer": "5"}\n```\nDone!', Spoken(answer="5")),
        ('{"tool": "add", "args": {"a": 1}}\nResult: 7', Spoken(calls=(ADD,))),
        ('{"tool": "add", "args": {"a": 1}}\n**Observation:** 7', Spoken(calls=(ADD,))),
        ('{"tool": "add", "args": {"a": 1}}\n{"answer": "7"}', Spoken(calls=(ADD,))),
        ('Here you are: {"answer": "5"}', Spoken(answer="5")),
        ('It is {"name": "x", "tool": "y"}.', Spoken(answer='It is {"name": "x", "tool": "y"}.')),
        ('{"answer": "5"}\n{"answer": "6"}', Spoken(answer="5")),
        ('{"answer": {"n": 5}}', Spoken(answer='{"n": 5}')),
        ('{"answer": "a\nb"}', Spoken(answer="a\nb")),
        ('{"tool": "add"}', Spoken(calls=(SpokenCall("add"),))),
        ('{"tool": "add", "args": [1]}', Spoken(calls=(SpokenCall("add", "[1]"),))),
        ('{"thought": "hm", "calls": [], "answer": "5"}', Spoken("hm", (), "5")),
        ('<think>hm</think>\n{"answer": "5"}', Spoken("hm", (), "5")),
        ("It is 5.", Spoken(answer="It is 5.")),
        ("", Spoken(answer="")),
        ('The config is {"name": "x"}.', Spoken(answer='The config is {"name": "x"}.')),
    ],
)
def test_a_turn_is_understood(text: str, spoken: Spoken) -> None:
    """In our form, in other forms of an object, and in plain words."""
    assert read(text) == spoken


LABELS = "Labels such as `Action:` are not read: calls and the answer go into the object."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"answer": ', "That is not valid JSON."),
        ("{'answer': 5}", "That is not valid JSON."),
        ("{" * 100_000, "That is not valid JSON."),
        ('{"a": ' * 200_000 + "1" + "}" * 200_000, "That is not valid JSON."),
        ('{"result": 5}', 'The object has neither "calls" nor "answer".'),
        ('{"name": "x", "value": 3}', 'The object has neither "calls" nor "answer".'),
        ('{"name": "x"}', 'The object has neither "calls" nor "answer".'),
        ('{"calls": []}', 'The object has neither "calls" nor "answer".'),
        ('{"calls": [5]}', "A call must name its tool: 5 does not."),
        ('{"calls": [{"tool": 5}]}', 'A call must name its tool: {"tool": 5} does not.'),
        ('Thought: I add.\nAction: add\nAction Input: {"a": 1}\nObservation: 7', LABELS),
        ('**Action:** `add`\n**Action Input:** {"a": 1}', LABELS),
        ("Thought: easy\nFinal Answer: It\nis 5.", LABELS),
    ],
)
def test_what_is_wrong_with_a_turn_is_said(text: str, problem: str) -> None:
    """In words for the model."""
    assert read(text).problem == problem


QUOTED = '{"tool": "add", "args": {"a": 1}}'


@pytest.mark.parametrize(
    "text",
    [
        f"You would write {QUOTED} but I will not.",
        f"You would write\n{QUOTED}\nbut I will not.",
        f"{QUOTED} is what I would write.",
        f"Thought: I could write\n{QUOTED}\nbut I will not.",
        f"For example:\n```json\n{QUOTED}\n```",
        f"```json\n{QUOTED}\n```\nis an example.",
        f'Such as {{"calls": [{QUOTED}]}}.',
    ],
)
def test_a_quoted_call_is_no_call(text: str) -> None:
    """The model gets an error, and nothing runs."""
    assert read(text).problem.startswith("There is text around a call")
    assert read(text).calls == ()


# --- streaming ------------------------------------------------------------------------------------------


def stream(text: str, size: int = 1) -> tuple[AnswerStream, str, str]:
    """The stream after a text in pieces of this size, with the answer and the thought that were handed on."""
    answer: list[str] = []
    thought: list[str] = []
    heard = AnswerStream(answer.append, thought.append)
    for start in range(0, len(text), size):
        heard.feed(text[start : start + size])
    assert heard.answer in (None, "".join(answer))
    assert heard.thought == "".join(thought)
    return heard, "".join(answer), "".join(thought)


@given(WORDS, WORDS, st.booleans(), st.booleans(), st.integers(1, 20))
def test_the_answer_streams_without_the_protocol(
    thought: str, answer: str, ascii_only: bool, with_calls: bool, size: int
) -> None:
    """However the turn is cut into pieces, and however its letters are written."""
    turn = {"thought": thought, **({"calls": []} if with_calls else {}), "answer": answer}
    text = json.dumps(turn, ensure_ascii=ascii_only, indent=2 if with_calls else None)
    heard, spoken, thinking = stream(text, size)
    assert (heard.answer, spoken, thinking) == (answer, answer, thought)


@given(SPOKEN.filter(lambda one: bool(one.calls)), st.integers(1, 20))
def test_a_turn_that_calls_tools_streams_no_answer(spoken: Spoken, size: int) -> None:
    """Its text is not the answer yet."""
    heard, answer, _ = stream(write(spoken), size)
    assert (heard.answer, answer) == (None, "")


@given(FRAGMENTS, st.integers(1, 5))
@settings(max_examples=300)
def test_nothing_a_model_writes_breaks_the_stream(text: str, size: int) -> None:
    """What is handed on can be written down, and is the answer if the turn has one."""
    _, answer, _ = stream(text, size)
    answer.encode()
    spoken = read(text)
    if answer and spoken.answer is not None and not spoken.calls:
        assert spoken.answer.startswith(answer) or text.count('"answer"') > 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": "It is', "It is"),
        ('```json\n{"answer": "5"}```', "5"),
        ('  {"answer" : "5"}', "5"),
        ('{"answer": "a\\nb \\"c\\" \\u00e9 \\ud83e\\udda6 \\/"}', 'a\nb "c" é 🦦 /'),
        ('{"answer": "\\ud83e"}', "\ufffd"),
        ('{"answer": "C:\\dir"}', "C:dir"),
        ('{"answer": "\\uzzzz"}', "zzzz"),
        ('{"answer": 5}', ""),
        ('```\n\n \n{"answer": "5"}```', "5"),
        ('``` json\n{"answer": "5"}```', ""),
        ('`` `{"answer": "5"}', ""),
        ('{"answers": "5"}', ""),
        ('{"calls": "none", "answer": "5"}', ""),
        ('{"tool": "add", "answer": "5"}', ""),
        ('["answer", "5"]', ""),
        ('Here: {"answer": "5"}', ""),
        ('```python\n{"answer": "5"}', ""),
    ],
)
def test_what_streams_of_a_turn(text: str, answer: str) -> None:
    """As far as it is certain, and no further."""
    assert stream(text)[1] == answer


@pytest.mark.parametrize("text", ["\n" * 300_000, "```json" + " " * 300_000, '{"' + "k" * 300_000])
def test_a_long_beginning_takes_no_longer_than_its_length(text: str) -> None:
    """Nothing of it is gone through again with each letter."""
    begun = time.process_time()
    assert stream(text, 4)[1] == ""
    read(text)
    assert time.process_time() - begun < 5
