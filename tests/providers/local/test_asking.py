from __future__ import annotations

from typing import Any

import pytest
from gbnf import GrammarReader

from hookline.errors import MalformedResponseError, UnsupportedError
from hookline.providers.local.asking import Asking
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

NOTHING = {"type": "object", "properties": {}}
TOOLS = tuple(ToolSpec(name, "Does it.", NOTHING) for name in ("look", "go"))


def asking(*messages: Message, **fields: Any) -> Asking:
    """A question with two tools, unless told otherwise."""
    said = messages or (UserMessage("Go."),)
    return Asking(InferenceRequest(messages=list(said), **{"tools": TOOLS, **fields}))


def sayable(one: Asking) -> set[str]:
    """The tools that the model may name; answering is one."""
    reader = GrammarReader(one.completion.grammar)
    names = {"look", "go", "final_answer"}
    return {name for name in names if f'\\"{name}\\"' in one.completion.grammar and reader}


def called(*names: str, **args: Any) -> list[Message]:
    """A conversation in which these tools were called, one after the other."""
    messages: list[Message] = [UserMessage("Go.")]
    for number, name in enumerate(names):
        messages.append(AssistantMessage("", (ToolCall(str(number), name, args),)))
        messages.append(ToolMessage(str(number), name, "nothing"))
    return messages


@pytest.mark.parametrize(
    ("choice", "allowed"),
    [
        ("auto", {"look", "go", "final_answer"}),
        ("none", {"final_answer"}),
        ("required", {"look", "go"}),
        ("go", {"go"}),
    ],
)
def test_the_grammar_keeps_the_choice_of_tools(choice: str, allowed: set[str]) -> None:
    """What is not allowed cannot be said."""
    assert sayable(asking(tool_choice=choice)) == allowed


@pytest.mark.parametrize(
    ("messages", "allowed"),
    [
        (called("look"), {"look", "go", "final_answer"}),
        (called("look", "go"), {"look", "go", "final_answer"}),
        (called("look", "look"), {"go", "final_answer"}),
        (called("go", "look", "look"), {"go", "final_answer"}),
        (called("look", "look", "go"), {"look", "go", "final_answer"}),
        ([*called("look", "look"), UserMessage("Again.")], {"look", "go", "final_answer"}),
        ([*called("look"), *called("look", x=1)[1:]], {"look", "go", "final_answer"}),
    ],
)
def test_a_tool_is_not_called_a_third_time_in_vain(
    messages: list[Message], allowed: set[str]
) -> None:
    """After the same call twice in a row it is left out, until something else was done or asked."""
    assert sayable(asking(*messages)) == allowed


PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
FILE_TOOLS = (
    ToolSpec("read", "Read a file.", {**PATH, "required": ["path"]}),
    ToolSpec("list", "List files.", PATH),
)


@pytest.mark.parametrize(
    ("messages", "choice", "allowed"),
    [
        ([UserMessage("What is in a.txt?")], "auto", {"read", "path"}),
        ([UserMessage("List the files here.")], "auto", {"list"}),
        ([UserMessage("Hello!")], "auto", {"read", "list", "path", "final_answer"}),
        ([UserMessage("What is in a.txt?")], "required", {"read", "list", "path"}),
        ([UserMessage("What is in a.txt?")], "none", {"final_answer"}),
        (
            [UserMessage("What is in a.txt?"), *called("read")[1:]],
            "auto",
            {"read", "list", "path", "final_answer"},
        ),
    ],
)
def test_a_small_model_begins_with_a_likely_tool(
    messages: list[Message], choice: str, allowed: set[str]
) -> None:
    """With what it needs and no more; once it has begun, and where somebody else chooses, it may do all it could."""
    request = InferenceRequest(messages=messages, tools=FILE_TOOLS, tool_choice=choice)
    grammar = Asking(request, is_small=True).completion.grammar
    words = ("read", "list", "path", "final_answer")
    assert {word for word in words if f'\\"{word}\\"' in grammar} == allowed


def test_a_small_model_with_tools_is_brief_unless_told_otherwise() -> None:
    """It has said what it has to say, or goes round in circles; without tools it may go on."""
    long = asking().completion.max_tokens

    def most(**fields: Any) -> int:
        request = InferenceRequest(messages=[UserMessage("Go.")], **fields)
        return Asking(request, is_small=True).completion.max_tokens

    assert most(tools=TOOLS) < long
    assert most(tools=TOOLS, options={"max_tokens": 2 * long}) == 2 * long
    assert most() == long


def test_a_required_tool_is_never_left_out() -> None:
    """However often it was called: somebody demands it."""
    assert sayable(asking(*called("look", "look"), tool_choice="look")) == {"look"}


def test_options_reach_the_engine() -> None:
    """And a word of the user's to stop at is added to ours."""
    options = {
        "max_tokens": 7,
        "temperature": 0.5,
        "seed": 3,
        "top_k": 2,
        "top_p": 0.9,
        "stop": ["!"],
    }
    made = asking(options=options).completion
    assert (made.max_tokens, made.temperature, made.seed) == (7, 0.5, 3)
    assert (made.top_k, made.top_p) == (2, 0.9)
    assert made.stop == ("<|im_end|>", "!")
    assert asking().completion.temperature == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"reasoning_effort": "low"}, "no option 'reasoning_effort'.*There are: max_tokens"),
        (
            {"temperature": "warm"},
            "temperature='warm' is not of the right kind. It is int or float",
        ),
        ({"max_tokens": True}, "max_tokens=True"),
        ({"stop": "word"}, "stop='word'"),
    ],
)
def test_an_option_it_does_not_have_is_refused(options: dict[str, Any], problem: str) -> None:
    """With those it has."""
    with pytest.raises(UnsupportedError, match=problem):
        asking(options=options)


def test_attachments_are_refused() -> None:
    """They would be lost otherwise."""
    picture = Attachment.from_bytes(b"x", "image/png")
    with pytest.raises(UnsupportedError, match="images and documents"):
        asking(UserMessage("Look.", attachments=(picture,)))


def test_an_answer_of_a_given_form_has_a_grammar_of_its_own() -> None:
    """Without tools there is nothing around it."""
    made = asking(tools=(), output_schema={"type": "boolean"}).completion
    assert GrammarReader(made.grammar).write(lambda low, high: high) == "false"
    assert asking(tools=()).completion.grammar == ""


def test_an_answer_may_stop_where_the_user_says() -> None:
    """In the middle of what would have been said."""
    said = '{"tool": "final_answer", "answer": "So far'
    assert "".join(piece.text for piece in heard(asking(options={"stop": ["!"]}), said)) == "So far"
    with pytest.raises(MalformedResponseError):
        heard(asking(), said)


def heard(one: Asking, said: str) -> list[Any]:
    """All pieces of an answer."""
    return [*one.feed(said), *one.end(is_cut=False)]
