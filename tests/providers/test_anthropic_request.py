import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wires.anthropic_rules import objection
from wires.server import Request

from hookline.errors import ModelNotFoundError, UnsupportedError
from hookline.providers.anthropic import request_body
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Message,
    Reasoning,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

HI = UserMessage("Hi.")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
LIST = ToolSpec("list", "", {})
MARK = {"type": "ephemeral"}


def body(*messages: Message, cache: bool = False, **changes: Any) -> dict[str, Any]:
    """What would be posted for this conversation."""
    asked = InferenceRequest(messages=messages or (HI,), model="claude", **changes)
    return request_body(asked, cache=cache)


def content(*messages: Message) -> list[dict[str, Any]]:
    """The blocks of the last turn."""
    blocks: list[dict[str, Any]] = body(*messages)["messages"][-1]["content"]
    return blocks


def thinking(text: str, call_id: str = "", **changes: str) -> Reasoning:
    """A part of the model's thinking."""
    fields = {"signature": f"sig-{text}", "provider": "anthropic", "kind": "thinking", **changes}
    return Reasoning(text, call_id=call_id, **fields)


# --- the request ----------------------------------------------------------------------------------


def test_a_plain_question() -> None:
    """The model, the conversation and room for an answer is all that a question needs."""
    assert body() == {
        "model": "claude",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}],
        "max_tokens": 16_384,
    }


def test_options_are_passed_through() -> None:
    """Settings are sent unchanged, unknown ones too; None leaves one out."""
    made = body(
        options={"stop_sequences": ["x"], "future": {"a": 1}, "max_tokens": 9, "top_k": None}
    )
    assert (made["stop_sequences"], made["future"], made["max_tokens"]) == (["x"], {"a": 1}, 9)
    assert "top_k" not in made


@pytest.mark.parametrize("name", ["model", "messages", "stream"])
def test_what_is_no_option(name: str) -> None:
    """What the request itself says cannot be set beside it."""
    with pytest.raises(UnsupportedError, match=name):
        body(options={name: 1})


def test_a_model_must_be_named() -> None:
    """A question to nobody is refused before it is sent."""
    with pytest.raises(ModelNotFoundError):
        request_body(InferenceRequest(messages=(HI,)), cache=True)


def test_thinking_leaves_room_for_the_answer() -> None:
    """What thinking may take is added to the room that an answer gets."""
    made = body(options={"thinking": {"type": "enabled", "budget_tokens": 20_000}})
    assert made["max_tokens"] == 36_384


def test_tools() -> None:
    """Tools have a schema of an object, and a description when there is one."""
    options = {"tools": [{"type": "web_search", "name": "search"}]}
    made = body(tools=(ADD, LIST), options=options, provider_tools=("search",))
    assert made["tools"] == [
        {"name": "add", "description": "Adds.", "input_schema": ADD.parameters},
        {"name": "list", "input_schema": {"type": "object"}},
        {"type": "web_search", "name": "search"},
    ]
    assert "tool_choice" not in made


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("add", {"type": "tool", "name": "add"}),
    ],
)
def test_tool_choice(choice: str, expected: dict[str, str] | None) -> None:
    """A choice of tools in the API's terms; without tools there is no choice."""
    assert body(tools=(ADD,), tool_choice=choice).get("tool_choice") == expected
    assert "tool_choice" not in body(tool_choice=choice)


def test_calls_can_be_kept_from_being_parallel() -> None:
    """A setting of the choice holds whatever the choice is."""
    one = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    assert body(tools=(ADD,), options=one)["tool_choice"] == one["tool_choice"]
    chosen = body(tools=(ADD,), options=one, tool_choice="required")["tool_choice"]
    assert chosen == {"type": "any", "disable_parallel_tool_use": True}


def test_structured_output() -> None:
    """A schema goes in as the API can hold an answer to, beside other settings of the output."""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
    }
    made = body(output_schema=schema, options={"output_config": {"effort": "low"}})
    assert made["output_config"]["effort"] == "low"
    form = made["output_config"]["format"]
    assert form["type"] == "json_schema"
    assert form["schema"]["additionalProperties"] is False
    assert form["schema"]["properties"]["n"] == {"type": "integer", "description": "{minimum: 1}"}
    assert schema["properties"] == {"n": {"type": "integer", "minimum": 1}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["string", "null"]},
        {"type": "array", "items": 5},
        {"type": "object"},
        {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}},
    ],
)
def test_a_schema_that_cannot_be_asked_for(schema: dict[str, Any]) -> None:
    """A schema that the API cannot take is reported as unsupported, with a remedy."""
    with pytest.raises(UnsupportedError, match="schema"):
        body(output_schema=schema)


@pytest.mark.parametrize("name", ["thinking", "tools", "tool_choice", "output_config"])
def test_an_option_of_the_wrong_kind(name: str) -> None:
    """A setting of the wrong type is reported before anything is sent."""
    schema = {"type": "string"}
    with pytest.raises(UnsupportedError, match=name):
        body(tools=(ADD,), tool_choice="add", output_schema=schema, options={name: "high"})


# --- the conversation -----------------------------------------------------------------------------


def test_results_and_what_follows_are_one_turn() -> None:
    """All results of a step come first in one message of the user, and what is said next comes after them."""
    made = body(
        HI,
        AssistantMessage("Well.", (ToolCall("a", "add", {"a": 1}), ToolCall("b", "list"))),
        ToolMessage("a", "add", "2"),
        ToolMessage("b", "list", "", is_error=True),
        UserMessage("Hurry.", by="nagger"),
    )["messages"]
    assert [message["role"] for message in made] == ["user", "assistant", "user"]
    assert made[1]["content"] == [
        {"type": "text", "text": "Well."},
        {"type": "tool_use", "id": "a", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "b", "name": "list", "input": {}},
    ]
    first, second, third = made[2]["content"]
    assert first == {"type": "tool_result", "tool_use_id": "a", "content": "2"}
    assert second["is_error"] is True
    assert second["content"]
    assert third == {"type": "text", "text": "Hurry."}


def test_thinking_goes_back_where_it_was() -> None:
    """Thinking comes back unchanged: before the text, or before the call that it led to."""
    message = AssistantMessage(
        "So.",
        (ToolCall("a", "add"), ToolCall("b", "list")),
        (
            thinking("first"),
            thinking("", signature="sealed", kind="redacted_thinking"),
            thinking("second", call_id="b"),
            thinking("lost", call_id="gone"),
        ),
    )
    results = (ToolMessage("a", "add", "1"), ToolMessage("b", "list", "2"))
    made = body(HI, message, *results)["messages"][1]["content"]
    assert made == [
        {"type": "thinking", "thinking": "first", "signature": "sig-first"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "thinking", "thinking": "lost", "signature": "sig-lost"},
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "a", "name": "add", "input": {}},
        {"type": "thinking", "thinking": "second", "signature": "sig-second"},
        {"type": "tool_use", "id": "b", "name": "list", "input": {}},
    ]


def test_thinking_of_others_stays_behind() -> None:
    """Another provider's thinking, or thinking without its seal, would be refused."""
    reasoning = (thinking("theirs", provider="google"), thinking("bare", signature=""))
    assert content(HI, AssistantMessage("So.", (), reasoning)) == [{"type": "text", "text": "So."}]


def test_thinking_alone_is_not_an_answer() -> None:
    """An answer that ran out of tokens while thinking is left out: the API refuses it."""
    made = body(HI, AssistantMessage(reasoning=(thinking("hm"),)), UserMessage("Go on."))
    assert len(made["messages"]) == 1
    assert [block["text"] for block in made["messages"][0]["content"]] == ["Hi.", "Go on."]


def test_broken_arguments_are_shown_to_the_model() -> None:
    """A call whose arguments were no JSON goes back as an object that shows them."""
    call = ToolCall.from_json("a", "add", '{"a": ')
    blocks = body(HI, AssistantMessage("", (call,)), ToolMessage("a", "add", "No."))["messages"]
    assert blocks[1]["content"][0]["input"] == {"INVALID_JSON": '{"a": '}


def test_ids_of_others_fit() -> None:
    """A conversation that began elsewhere can be continued: its ids are put into letters the API takes."""
    call = ToolCall("call:1/ä", "add")
    made = body(HI, AssistantMessage("", (call,)), ToolMessage("call:1/ä", "add", "1"))["messages"]
    assert made[1]["content"][0]["id"] == made[2]["content"][0]["tool_use_id"] == "call_1__"


# --- attachments ----------------------------------------------------------------------------------


def test_attachments_come_before_the_text() -> None:
    """Images and documents are sent as such, by content or by address."""
    pdf = Attachment.from_bytes(b"%PDF", "application/pdf", "a.pdf")
    data = base64.b64encode(b"x").decode()
    blocks = content(
        UserMessage(
            "See.",
            attachments=(
                Attachment.from_bytes(b"x", "image/png"),
                Attachment("image/anything", url="https://example.org/a"),
                pdf,
                Attachment("application/pdf", url="https://example.org/b.pdf"),
                Attachment.from_bytes("naïve".encode(), "text/csv", "t.csv"),
            ),
        )
    )
    png = {"type": "base64", "media_type": "image/png", "data": data}
    assert blocks[0] == {"type": "image", "source": png}
    assert blocks[1]["source"] == {"type": "url", "url": "https://example.org/a"}
    assert blocks[2]["source"] == {
        "type": "base64",
        "media_type": "application/pdf",
        "data": pdf.data,
    }
    assert blocks[2]["title"] == "a.pdf"
    assert blocks[3]["source"] == {"type": "url", "url": "https://example.org/b.pdf"}
    assert blocks[4]["source"] == {"type": "text", "media_type": "text/plain", "data": "naïve"}
    assert blocks[5] == {"type": "text", "text": "See."}


@pytest.mark.parametrize(
    "attachment",
    [
        Attachment.from_bytes(b"x", "image/tiff", "scan.tiff"),
        Attachment.from_bytes(b"x", "application/zip"),
        Attachment("text/plain", url="https://example.org/a.txt"),
    ],
)
def test_an_attachment_that_is_not_taken(attachment: Attachment) -> None:
    """What the API cannot read is refused, with what to do."""
    with pytest.raises(UnsupportedError) as caught:
        body(UserMessage("", attachments=(attachment,)))
    assert attachment.media_type in str(caught.value)
    assert caught.value.remedy


# --- the cache ------------------------------------------------------------------------------------


def test_the_prompt_is_cached_as_it_grows() -> None:
    """Tools, system, the last turn and the one before it are marked; nothing else is."""
    messages = (
        HI,
        AssistantMessage("Hello."),
        UserMessage("Add."),
        AssistantMessage("", (ToolCall("a", "add"), ToolCall("b", "add"))),
        ToolMessage("a", "add", "1"),
        ToolMessage("b", "add", "2"),
    )
    made = body(*messages, cache=True, system="Be brief.", tools=(LIST, ADD))
    assert [tool.get("cache_control") for tool in made["tools"]] == [None, MARK]
    assert [part.get("cache_control") for part in made["system"]] == [MARK]
    marked = [
        [block.get("cache_control") for block in turn["content"]] for turn in made["messages"]
    ]
    assert marked == [[None], [None], [MARK], [None, None], [None, MARK]]


def test_the_next_request_finds_what_the_last_one_wrote() -> None:
    """Where one request ended its cache, the next has a mark too, however many blocks lie between."""
    calls = tuple(ToolCall(str(number), "add") for number in range(30))
    results = tuple(ToolMessage(call.id, "add", "1") for call in calls)
    before = body(HI, cache=True)["messages"]
    after = body(HI, AssistantMessage("", calls), *results, cache=True)["messages"]
    assert after[: len(before)] == before


def test_the_cache_can_be_left_to_others() -> None:
    """Who turns the marks off, or sets the automatic one, has no marks of ours."""
    for made in (
        body(system="Be."),
        body(cache=True, system="Be.", options={"cache_control": MARK}),
    ):
        marks = [part for part in made["system"] if "cache_control" in part]
        assert not marks
        assert "cache_control" not in made["messages"][0]["content"][0]


# --- whatever the conversation --------------------------------------------------------------------

_words = st.sampled_from(["", " ", "Hi.", "naïve \U0001f30d"])
_thoughts = st.lists(
    st.builds(
        Reasoning,
        text=_words,
        signature=_words,
        provider=st.sampled_from(["anthropic", "google"]),
        kind=st.sampled_from(["thinking", "redacted_thinking"]),
        call_id=st.sampled_from(["", "0", "1", "9"]),
    ),
    max_size=3,
).map(tuple)


@st.composite
def _steps(draw: st.DrawFn) -> list[Message]:
    """A step of a run: an answer, perhaps with calls and their results, and perhaps a word after them."""
    count = draw(st.integers(0, 3))
    calls = tuple(ToolCall(str(number), "add", {"a": number}) for number in range(count))
    messages: list[Message] = [AssistantMessage(draw(_words), calls, draw(_thoughts))]
    for call in calls:
        messages.append(ToolMessage(call.id, "add", draw(_words), draw(st.booleans())))
    messages += [UserMessage(draw(_words)) for _ in range(draw(st.integers(0, 2)))]
    return messages


@given(st.lists(_steps(), max_size=4), _words, st.booleans())
def test_every_conversation_is_one_the_api_takes(
    steps: list[list[Message]], system: str, cache: bool
) -> None:
    """Whatever a run makes of its messages, the API has nothing to object to."""
    messages = [HI, *(message for step in steps for message in step), UserMessage("Well?")]
    made = body(*messages, cache=cache, system=system, tools=(ADD,))
    sent = json.dumps(made).encode()
    headers = {"anthropic-version": "2026-10-21"}
    assert not objection(Request("POST", "/v1/messages", headers, sent))
