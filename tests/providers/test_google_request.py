"""What a conversation with Gemini looks like on the wire: contents, seals, options."""

import base64
from collections.abc import Sequence
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from wires.google import KEY, STREAM, chunk_body, event
from wires.server import Exchange, Server

from hookline.errors import UnsupportedError
from hookline.providers import CallPiece, Piece, ReasoningPiece, TextPiece
from hookline.providers.google import GoogleAnswer, GoogleProvider, config_of, contents_of
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

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})


def asking(*messages: Message, **fields: Any) -> InferenceRequest:
    """A conversation, as a question to Gemini."""
    return InferenceRequest(messages=messages, **{"model": "gemini-2.5-flash", **fields})


def remembered(pieces: Sequence[Piece]) -> AssistantMessage:
    """An answer as it is kept in the conversation."""
    parts: dict[int, Reasoning] = {}
    for piece in pieces:
        if isinstance(piece, ReasoningPiece):
            before = parts.get(piece.index, Reasoning())
            parts[piece.index] = Reasoning(
                before.text + piece.text, piece.signature, "google", piece.kind, piece.call_id
            )
    return AssistantMessage(
        "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)),
        tuple(
            ToolCall.from_json(piece.id, piece.name, piece.arguments)
            for piece in pieces
            if isinstance(piece, CallPiece)
        ),
        tuple(parts.values()),
    )


def read(*chunks: dict[str, Any]) -> AssistantMessage:
    """The message that these chunks become."""
    answer = GoogleAnswer(asking())
    bodies = map(types.GenerateContentResponse.model_validate, chunks)
    return remembered([piece for body in bodies for piece in answer.read(body)])


def sent_parts(message: AssistantMessage, model: str = "gemini-2.5-flash") -> list[types.Part]:
    """The parts that this message is sent back as."""
    [content] = contents_of(asking(message, model=model))
    assert content.role == "model"
    return content.parts or []


# --- the conversation ---------------------------------------------------------------------------


async def test_a_step_of_calls_goes_back_as_it_came() -> None:
    """Seals on the part they came with, no ids that Gemini did not give, results in the order of the calls."""
    calls = [
        {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "c2VhbA=="},
        {"functionCall": {"name": "add", "args": {"a": None, "in_order": [{"x": "é"}]}}},
        {"functionCall": {"id": "theirs", "name": "time", "args": {}}},
    ]
    script = iter(
        [chunk_body(calls, "STOP", responseId="r1"), chunk_body([{"text": "ok"}], "STOP")]
    )

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, STREAM)
        await exchange.send(event(next(script)))
        await exchange.end()

    async with Server(far_end) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        first = asking(UserMessage("go"))
        answer = remembered([piece async for piece in provider.ask(first, streamed=True)])
        results = [
            ToolMessage(call.id, call.name, f"result {number}", is_error=number == 1)
            for number, call in enumerate(answer.calls)
        ]
        second = asking(UserMessage("go"), answer, *reversed(results))
        async for _ in provider.ask(second, streamed=True):
            pass
        await provider.aclose()
        contents = server.requests[1].json()["contents"]
    assert contents[1] == {"role": "model", "parts": calls}
    assert contents[2] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "add", "response": {"output": "result 0"}}},
            {"functionResponse": {"name": "add", "response": {"error": "result 1"}}},
            {
                "functionResponse": {
                    "id": "theirs",
                    "name": "time",
                    "response": {"output": "result 2"},
                }
            },
        ],
    }


def test_ids_made_here_are_the_same_whenever_an_answer_is_read() -> None:
    """A recorded answer read again has the same ids; in one conversation no two calls share one."""
    body = chunk_body([{"functionCall": {"name": "add"}}] * 2, "STOP", responseId="r1")
    first, again = read(body), read(body)
    assert [call.id for call in first.calls] == [call.id for call in again.calls]
    later = GoogleAnswer(asking(first))
    pieces = list(later.read(types.GenerateContentResponse.model_validate(body)))
    ids = {piece.id for piece in pieces if isinstance(piece, CallPiece)}
    assert len(ids | {call.id for call in first.calls}) == 4


def test_an_id_given_twice_is_given_once() -> None:
    """A server that numbers the calls of every answer again does not mix up their results."""
    twice = chunk_body([{"functionCall": {"id": "0", "name": "add"}}] * 2, "STOP")
    ids = [call.id for call in read(twice).calls]
    assert ids[0] == "0"
    assert ids[1] not in ("0", "")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
seals = st.sampled_from(["", "c2VhbA==", "+/8="])


@given(st.lists(st.tuples(st.booleans(), texts, seals), max_size=8))
def test_seals_on_text_and_thoughts_go_back_on_their_parts(
    parts: list[tuple[bool, str, str]],
) -> None:
    """However an answer was cut into parts, each sealed one is sent back whole, and the text is all there."""
    chunks = [
        {
            "text": text,
            **({"thought": True} if thought else {}),
            **({"thoughtSignature": seal} if seal else {}),
        }
        for thought, text, seal in parts
    ]
    message = read(*(chunk_body([chunk]) for chunk in chunks))
    if not message.text and not message.reasoning:
        return
    contents = contents_of(asking(message))
    sent = [part for content in contents for part in content.parts or []]
    spoken = [(text, seal) for thought, text, seal in parts if not thought]
    assert "".join(part.text or "" for part in sent if not part.thought) == message.text
    assert [
        (part.text, part.thought_signature)
        for part in sent
        if part.thought_signature and not part.thought
    ] == [(text, base64.b64decode(seal)) for text, seal in spoken if seal]
    assert [part.thought_signature for part in sent if part.thought] == [
        base64.b64decode(seal) for thought, _, seal in parts if thought and seal
    ]


def test_a_seal_on_text_that_a_hook_shortened_is_dropped() -> None:
    """A seal without its part would be a lie."""
    message = read(chunk_body([{"text": "the secret is 42", "thoughtSignature": "c2VhbA=="}]))
    shorter = AssistantMessage("withheld", message.calls, message.reasoning)
    assert sent_parts(message)[0].thought_signature == b"seal"
    assert sent_parts(shorter) == [types.Part(text="withheld")]


def test_thinking_of_another_provider_is_not_sent() -> None:
    """A signature is valid only for the model that made it."""
    thinking = Reasoning("hm", "c2VhbA==", "anthropic", "thought")
    assert sent_parts(AssistantMessage("42", (), (thinking,))) == [types.Part(text="42")]


@pytest.mark.parametrize(
    ("model", "is_strict"),
    [
        ("gemini-2.5-flash", False),
        ("gemini-1.5-pro", False),
        ("gemma-3-27b-it", False),
        ("gemini-3-pro-preview", True),
        ("models/gemini-3.8-flash", True),
        ("gemini-flash-latest", True),
        ("gemini-12-ultra", True),
    ],
)
def test_calls_of_another_model_say_that_they_were_never_sealed(
    model: str, is_strict: bool
) -> None:
    """Newer models refuse calls without a seal; for a foreign call Google documents what to send instead."""
    calls = (ToolCall("a", "add", {}), ToolCall("b", "add", {}))
    parts = sent_parts(AssistantMessage("", calls), model)
    instead = b"skip_thought_signature_validator" if is_strict else None
    assert [part.thought_signature for part in parts] == [instead, None]
    seal = Reasoning("", "c2VhbA==", "google", "call", "b")
    sealed = sent_parts(AssistantMessage("", calls, (seal,)), model)
    assert [part.thought_signature for part in sealed] == [None, b"seal"]


def test_attachments_are_sent_as_data_or_by_their_address() -> None:
    """Images and documents go before the text that speaks about them."""
    picture = Attachment.from_bytes(b"\x89PNG", "image/png", "a.png")
    paper = Attachment("application/pdf", url="https://example.org/a.pdf")
    [content] = contents_of(asking(UserMessage("Look.", attachments=(picture, paper))))
    assert content.parts == [
        types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png")),
        types.Part(
            file_data=types.FileData(
                file_uri="https://example.org/a.pdf", mime_type="application/pdf"
            )
        ),
        types.Part(text="Look."),
    ]
    [wordless] = contents_of(asking(UserMessage("", attachments=(paper,))))
    assert len(wordless.parts or []) == 1


def test_a_message_in_which_nothing_was_said_is_left_out() -> None:
    """The API refuses a content without parts."""
    contents = contents_of(asking(UserMessage("hi"), AssistantMessage(), UserMessage("hi?")))
    assert [content.role for content in contents] == ["user", "user"]


# --- the configuration --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("add", {"mode": "ANY", "allowed_function_names": ["add"]}),
    ],
)
def test_a_tool_choice_is_a_mode(choice: str, expected: dict[str, Any]) -> None:
    """None, any of them, or the one that is named."""
    config = config_of(asking(tools=(ADD,), tool_choice=choice))
    assert config.tool_config is not None
    assert config.tool_config.to_json_dict() == {"function_calling_config": expected}


def test_a_choice_that_is_no_choice_is_not_sent() -> None:
    """`auto` is what the API does anyway, and without tools there is nothing to choose."""
    assert config_of(asking(tools=(ADD,))).tool_config is None
    assert config_of(asking(tool_choice="required")).tool_config is None


def test_tools_of_google_may_come_with_the_options() -> None:
    """They are offered beside the agent's own, if the agent allows them."""
    config = config_of(
        asking(
            tools=(ADD,),
            options={"tools": [{"google_search": {}}]},
            provider_tools=("google_search",),
        )
    )
    names = [
        tool.to_json_dict().keys() for tool in config.tools or [] if isinstance(tool, types.Tool)
    ]
    assert names == [{"function_declarations"}, {"google_search"}]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_tokens": 5}, "no option 'max_tokens'. Did you mean 'max_output_tokens'?"),
        ({"stop": ["."]}, "no option 'stop'. Did you mean 'stop_sequences'?"),
        ({"zzz": 1}, "no option 'zzz'. Options are fields of GenerateContentConfig"),
        ({"temperature": "hot"}, "the option 'temperature' has a wrong value"),
        ({"thinking_config": {"nope": 1}}, "the option 'thinking_config.nope' has a wrong value"),
        ({"http_options": {}}, "'http_options' cannot be set as an option"),
        ({"system_instruction": "x"}, "'system_instruction' cannot be set as an option"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], complaint: str) -> None:
    """One line says which option it is, and what to do."""
    with pytest.raises(UnsupportedError) as caught:
        config_of(asking(options=options))
    assert complaint in str(caught.value)
