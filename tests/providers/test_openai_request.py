from typing import Any

import msgspec
import pytest

from hookline.errors import ModelNotFoundError, UnsupportedError
from hookline.providers.openai import request_body
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

ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {}, "b": {}}})
CALL = ToolCall("c1", "add", {"a": 1, "b": 2})


def asking(*messages: Message, **fields: Any) -> InferenceRequest:
    """A request to a model."""
    return InferenceRequest(messages=messages, model="gpt-4o", **fields)


def test_a_conversation_is_written_as_the_protocol_says() -> None:
    """System prompt, question, call, result and answer each become one message."""
    request = asking(
        UserMessage("What is 1 + 2?"),
        AssistantMessage("Let me see.", (CALL,)),
        ToolMessage("c1", "add", "3"),
        AssistantMessage("It is 3."),
        system="Be brief.",
    )
    assert request_body(request, streamed=False) == {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is 1 + 2?"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "add", "arguments": '{"a":1,"b":2}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            {"role": "assistant", "content": "It is 3."},
        ],
    }


def test_a_stream_is_asked_for_its_usage() -> None:
    """A stream without its usage would have no cost."""
    body = request_body(asking(), streamed=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_images_and_documents_are_parts_of_a_message() -> None:
    """An image goes by its content or its address, a document by its content and name."""
    message = UserMessage(
        "Compare.",
        attachments=(
            Attachment.from_bytes(b"png", "image/png"),
            Attachment("image/jpeg", url="https://example.org/a.jpg"),
            Attachment.from_bytes(b"pdf", "application/pdf", "a.pdf"),
            Attachment.from_bytes(b"pdf", "application/pdf"),
        ),
    )
    (written,) = request_body(asking(message), streamed=False)["messages"]
    data = "data:application/pdf;base64,cGRm"
    assert written["content"] == [
        {"type": "text", "text": "Compare."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.jpg"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": data}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": data}},
    ]


@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown", "application/json"])
def test_a_document_of_text_goes_as_text(media_type: str) -> None:
    """The protocol takes no file but a PDF, and a model can read text as it is; its name goes with it."""
    content = "Grüße".encode()
    message = UserMessage(
        "Read.",
        attachments=(
            Attachment.from_bytes(content, media_type, "notes"),
            Attachment.from_bytes(content, media_type),
        ),
    )
    (written,) = request_body(asking(message), streamed=False)["messages"]
    assert written["content"] == [
        {"type": "text", "text": "Read."},
        {"type": "text", "text": "notes:\n\nGrüße"},
        {"type": "text", "text": "Grüße"},
    ]


@pytest.mark.parametrize("media_type", ["application/zip", "audio/wav"])
def test_another_kind_of_document_is_refused(media_type: str) -> None:
    """Its type is named, before anything is sent."""
    message = UserMessage("Read.", attachments=(Attachment.from_bytes(b"PK", media_type),))
    with pytest.raises(UnsupportedError, match=f"type {media_type} is not accepted"):
        request_body(asking(message), streamed=False)


def test_an_attachment_needs_no_text() -> None:
    """An image alone is a message without an empty text beside it."""
    message = UserMessage("", attachments=(Attachment.from_bytes(b"png", "image/png"),))
    (written,) = request_body(asking(message), streamed=False)["messages"]
    assert [part["type"] for part in written["content"]] == ["image_url"]


def test_a_document_by_address_is_refused() -> None:
    """The protocol has no way to say it, and the error says what to do instead."""
    message = UserMessage(
        "Read.", attachments=(Attachment("application/pdf", url="https://a.org/b"),)
    )
    with pytest.raises(UnsupportedError, match=r"Attachment\.from_bytes"):
        request_body(asking(message), streamed=False)


@pytest.mark.parametrize(
    ("choice", "tools", "written"),
    [
        ("auto", (ADD,), None),
        ("none", (ADD,), "none"),
        ("required", (ADD,), "required"),
        ("add", (ADD,), {"type": "function", "function": {"name": "add"}}),
        ("none", (), None),
    ],
)
def test_tools_and_their_choice(choice: str, tools: tuple[ToolSpec, ...], written: object) -> None:
    """A choice that goes without saying is not said: some servers refuse it."""
    body = request_body(asking(tools=tools, tool_choice=choice), streamed=False)
    assert body.get("tool_choice") == written
    function = {"name": ADD.name, "description": ADD.description, "parameters": ADD.parameters}
    expected = [{"type": "function", "function": function}] if tools else None
    assert body.get("tools") == expected


CLOSED: dict[str, Any] = {
    "title": "Weather report!",
    "type": "object",
    "properties": {"days": {"type": "array", "items": {"$ref": "#/$defs/Day"}}},
    "required": ["days"],
    "additionalProperties": False,
    "$defs": {
        "Day": {
            "type": "object",
            "properties": {"sunny": {"type": "boolean"}},
            "required": ["sunny"],
            "additionalProperties": False,
        }
    },
}


def test_a_schema_is_strict_where_it_can_be() -> None:
    """A schema whose objects are all closed is asked for strictly; any other is not, as it would be refused."""
    body = request_body(asking(output_schema=CLOSED), streamed=False)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "Weather_report_", "schema": CLOSED, "strict": True},
    }
    changes: tuple[dict[str, Any], ...] = ({"additionalProperties": True}, {"required": []})
    for change in changes:
        day = {**CLOSED["$defs"]["Day"], **change}
        schema = {**CLOSED, "$defs": {"Day": day}}
        body = request_body(asking(output_schema=schema), streamed=False)
        assert body["response_format"]["json_schema"]["strict"] is False


def test_a_schema_without_a_title_has_a_name() -> None:
    """The protocol wants one."""
    body = request_body(asking(output_schema={"type": "string"}), streamed=False)
    assert body["response_format"]["json_schema"]["name"] == "answer"


def test_options_are_passed_on() -> None:
    """Known or not, an option is the server's business; None takes one out again."""
    request = asking(tools=(ADD,)).with_options(
        temperature=0, seed=7, top_k=40, stream_options={"include_obfuscation": False}, stop=None
    )
    body = request_body(request, streamed=True)
    assert body["temperature"] == 0
    assert body["seed"] == 7
    assert body["top_k"] == 40
    assert body["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert "stop" not in body
    bare = request_body(request.with_options(stream_options=None), streamed=True)
    assert "stream_options" not in bare


@pytest.mark.parametrize("name", ["messages", "model", "n", "stream"])
def test_what_the_request_says_is_no_option(name: str) -> None:
    """An option that would contradict the request is refused by name."""
    with pytest.raises(UnsupportedError, match=f"Remove '{name}'"):
        request_body(asking().with_options(**{name: 1}), streamed=False)


def test_a_request_without_a_model_is_refused() -> None:
    """Nothing is sent that the server could only guess about."""
    with pytest.raises(ModelNotFoundError, match="openai:NAME"):
        request_body(InferenceRequest(), streamed=False)


def test_broken_arguments_are_sent_back_as_json() -> None:
    """Servers take the arguments apart; a call they could not read would make the whole conversation unusable."""
    broken = ToolCall.from_json("c1", "add", '{"a": 1')
    request = asking(AssistantMessage("", (broken,)), ToolMessage("c1", "add", "Error: no JSON"))
    written = request_body(request, streamed=False)["messages"][0]
    assert written["content"] is None
    arguments = written["tool_calls"][0]["function"]["arguments"]
    assert msgspec.json.decode(arguments) == {"not_json": '{"a": 1'}


def thinking(text: str, provider: str = "openai", kind: str = "reasoning_content") -> Reasoning:
    """A part of a model's thinking."""
    return Reasoning(text, provider=provider, kind=kind)


def reasoning_sent(*messages: Message) -> list[str]:
    """What of the thinking is sent back, message by message."""
    written = request_body(asking(*messages), streamed=False)["messages"]
    return [message.get("reasoning_content", "") for message in written]


def test_thinking_goes_back_while_its_calls_are_worked_off() -> None:
    """Servers want it between a call and the answer; from before the last question it is left out."""
    before = AssistantMessage("", (ToolCall("c0", "add"),), (thinking("old"),))
    now = AssistantMessage("", (CALL,), (thinking("new, "), thinking("newer")))
    earlier: list[Message] = [
        UserMessage("a"),
        before,
        ToolMessage("c0", "add", "0"),
        AssistantMessage("0"),
    ]
    later: list[Message] = [UserMessage("b"), now, ToolMessage("c1", "add", "3")]
    assert reasoning_sent(*earlier, *later) == ["", "", "", "", "", "new, newer", ""]
    hint = UserMessage("Mind the sign.", by="a_hook")
    assert "new, newer" in reasoning_sent(*earlier, *later, hint)


def test_thinking_goes_back_in_the_field_it_came_in() -> None:
    """Servers disagree about the field's name; each gets its own back."""
    message = AssistantMessage("", (CALL,), (thinking("hm", kind="reasoning"),))
    written = request_body(asking(message, ToolMessage("c1", "add", "3")), streamed=False)
    assert written["messages"][0]["reasoning"] == "hm"


def test_thinking_of_others_and_after_an_answer_is_left_out() -> None:
    """Another provider's thinking is not ours to send, and an answer without calls needs none."""
    other = AssistantMessage("", (CALL,), (thinking("theirs", provider="anthropic"),))
    assert reasoning_sent(other, ToolMessage("c1", "add", "3")) == ["", ""]
    assert reasoning_sent(AssistantMessage("Done.", (), (thinking("mine"),))) == [""]
