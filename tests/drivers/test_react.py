from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from hookline import AgentBuilder, HookOutcome, RunStatus, ToolCall, tool
from hookline.drivers import ReActDriver
from hookline.drivers.react import turn_schema
from hookline.errors import MalformedResponseError, ModelError, UnsupportedError
from hookline.journal import TextDelta
from hookline.providers import EndPiece, Feature
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Reasoning,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from hookline.testing import Failure, ScriptedProvider, WireTurn

SPEC = ToolSpec("add", "Add\n  two numbers.", {"type": "object", "properties": {"a": {}}})
REQUEST = InferenceRequest((UserMessage("2+3?"),), "Be brief.", (SPEC,))
PLAIN = frozenset(Feature) - {Feature.STRUCTURED_OUTPUT, Feature.TOOLS}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def driver(*texts: str, **options: Any) -> tuple[ReActDriver, ScriptedProvider]:
    """A driver whose model writes these texts, and its provider."""
    features = options.pop("features", frozenset(Feature))
    provider = ScriptedProvider([WireTurn(text) for text in texts], features=features)
    return ReActDriver("m", provider=provider, **options), provider


def said(**turn: Any) -> str:
    """A turn in the protocol."""
    return json.dumps(turn)


CALL = said(thought="Sum.", calls=[{"tool": "add", "args": {"a": 2, "b": 3}}])


# --- the request ----------------------------------------------------------------------------------------


async def test_the_request_describes_the_protocol_and_the_tools(turn: Any) -> None:
    """After the system prompt; no tools go over the wire."""
    made, provider = driver(said(answer="5"))
    await made.infer(REQUEST, turn)
    sent = provider.requests[0]
    assert (sent.tools, sent.tool_choice, sent.model) == ((), "auto", "m")
    assert sent.system.startswith("Be brief.\n\nYou have tools.")
    line = '- add: Add two numbers. args: {"type": "object", "properties": {"a": {}}}'
    assert line in sent.system.splitlines()


async def test_earlier_steps_are_in_the_request_as_text(turn: Any) -> None:
    """Calls as the model should have written them, results together in one message."""
    made, provider = driver(said(answer="5"))
    calls = (ToolCall("1", "add", {"a": 2}), ToolCall("2", "sub", malformed="{broken"))
    picture = Attachment("image/png", "aGk=")
    messages = (
        UserMessage("Look.", "", (picture,)),
        AssistantMessage("", calls, (Reasoning("Sum.", "", "react"), Reasoning("x", "y", "other"))),
        ToolMessage("1", "add", "5"),
        ToolMessage("2", "sub", "no such tool", is_error=True),
        AssistantMessage("It is 5."),
        UserMessage("Sure?"),
    )
    await made.infer(InferenceRequest(messages, tools=(SPEC,)), turn)
    assert list(provider.requests[0].messages) == [
        UserMessage("Look.", "", (picture,)),
        AssistantMessage(
            '{"thought": "Sum.", "calls": [{"tool": "add", "args": {"a": 2}}, '
            '{"tool": "sub", "args": "{broken"}]}'
        ),
        UserMessage("Result of add:\n5\n\nError from sub:\nno such tool"),
        AssistantMessage('{"answer": "It is 5."}'),
        UserMessage("Sure?"),
    ]


@pytest.mark.parametrize("changes", [{"tools": ()}, {"tool_choice": "none"}])
async def test_without_tools_there_is_no_protocol(turn: Any, changes: dict[str, Any]) -> None:
    """The model just answers, and streams what it says."""
    made, provider = driver('It is {"answer": 5}.')
    response = await made.infer(msgspec.structs.replace(REQUEST, **changes), turn)
    assert response.text == "".join(turn.text) == 'It is {"answer": 5}.'
    assert provider.requests[0].system == "Be brief."
    assert provider.requests[0].output_schema is None


async def test_the_model_is_constrained_where_its_provider_can(turn: Any) -> None:
    """To one object with exactly these tools, by default."""
    for options, constrained in (
        ({}, True),
        ({"features": PLAIN}, False),
        ({"constrained": False}, False),
    ):
        made, provider = driver(said(answer="5"), **options)
        await made.infer(REQUEST, turn)
        schema = provider.requests[0].output_schema
        assert (schema == turn_schema((SPEC,), None)) is constrained
        assert (schema is None) is not constrained


def test_the_schema_of_a_turn_has_every_tool() -> None:
    """What tools define moves to the top, where a reference finds it."""
    tree = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}, "$ref": {"type": "string"}},
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}},
    }
    schema = turn_schema(
        (SPEC, ToolSpec("plant", "", tree)), {"$ref": "#/$defs/A", "$defs": {"A": {}}}
    )
    assert list(schema["properties"]) == schema["required"] == ["thought", "calls", "answer"]
    first, second = schema["properties"]["calls"]["items"]["anyOf"]
    assert first["properties"]["tool"] == {"type": "string", "enum": ["add"]}
    assert first["properties"]["args"] == SPEC.parameters
    assert second["properties"]["args"]["properties"] == {
        "root": {"$ref": "#/$defs/1_Node"},
        "$ref": {"type": "string"},
    }
    assert schema["properties"]["answer"]["anyOf"] == [
        {"$ref": "#/$defs/answer_A"},
        {"type": "null"},
    ]
    assert schema["$defs"] == {
        "1_Node": {"properties": {"next": {"$ref": "#/$defs/1_Node"}}},
        "answer_A": {},
    }


# --- what it answers ------------------------------------------------------------------------------------


async def test_a_call_and_an_answer(turn: Any) -> None:
    """The thought is kept as reasoning, the call as a call, the answer as text."""
    made, _ = driver(CALL, said(thought="Done.", calls=[], answer="It is 5."))
    first = await made.infer(REQUEST, turn)
    assert first.calls == (ToolCall("call_1_1", "add", {"a": 2, "b": 3}),)
    assert (first.text, first.reasoning) == ("", (Reasoning("Sum.", "", "react"),))
    assert turn.calls == [("call_1_1", "add", '{"a": 2, "b": 3}')]
    second = await made.infer(REQUEST, turn)
    assert (second.text, second.calls, second.model) == ("It is 5.", (), "scripted:m")
    assert "".join(turn.text) == "It is 5."
    assert "".join(turn.reasoning) == "Sum.Done."


async def test_an_answer_that_is_cut_off_is_what_there_is_of_it(turn: Any) -> None:
    """What was streamed stands."""
    made, provider = driver('{"thought": "Long.", "answer": "It is f')
    response = await made.infer(REQUEST, turn)
    assert response.text == "".join(turn.text) == "It is f"
    assert response.reasoning[0].text == "Long."
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "text", ["It is 5.", 'OK {"answer": "It is 5."}', '{"answer": "It is 5."}']
)
async def test_only_the_answer_is_streamed(text: str) -> None:
    """Whatever form it came in."""
    made, _ = driver(CALL, text)
    stream = AgentBuilder().with_driver(made).with_tools(add).build().stream("2+3?")
    deltas = [record.text async for record in stream if isinstance(record, TextDelta)]
    assert "".join(deltas) == stream.result.text == "It is 5."


async def test_a_turn_that_is_not_understood_is_corrected(turn: Any) -> None:
    """The model reads what it wrote and what is wrong with it; all of it is counted."""
    made, provider = driver('{"answer": ', said(result=5), said(answer="5"))
    response = await made.infer(REQUEST, turn)
    assert response.text == "5"
    assert response.usage == Usage(30, 15, 3, 0.0)
    assert turn.charged == []
    assert [message.text for message in provider.requests[2].messages[1:]] == [
        '{"answer": ',
        "That is not valid JSON. Answer with one JSON object, as described.",
        '{"result": 5}',
        'The object has neither "calls" nor "answer". Answer with one JSON object, as described.',
    ]


async def test_a_model_that_never_keeps_to_the_protocol_is_an_error(turn: Any) -> None:
    """With its class, after so many corrections."""
    made, provider = driver(*["{"] * 3, corrections=1)
    with pytest.raises(MalformedResponseError, match="'scripted:m' does not follow the text"):
        await made.infer(REQUEST, turn)
    assert len(provider.requests) == 2
    assert turn.text == []
    assert turn.charged == [Usage(20, 10, 2, 0.0)]


async def test_a_turn_that_became_too_long_is_called_that(turn: Any) -> None:
    """Rather than broken."""

    class Short(ScriptedProvider):
        async def ask(self, request: Any, *, streamed: bool) -> Any:
            async for piece in super().ask(request, streamed=streamed):
                yield EndPiece(finish="length") if isinstance(piece, EndPiece) else piece

    provider = Short([WireTurn('{"calls": [{"tool": "add", '), WireTurn(said(answer="5"))])
    response = await ReActDriver("m", provider=provider).infer(REQUEST, turn)
    assert (response.text, response.finish) == ("5", "length")
    assert provider.requests[1].messages[-1].text.startswith("It was cut off")


async def test_usage_of_invalid_answers_counts() -> None:
    """Against the limits of the run, and in its usage."""
    made, _ = driver("{", "{", "{")
    result = await AgentBuilder().with_driver(made).with_tools(add).build().run("2+3?")
    assert result.status is RunStatus.FAILED
    assert result.usage == Usage(30, 15, 3, 0.0)


@pytest.mark.parametrize(
    ("choice", "expected", "problem"),
    [
        ("required", "You must call a tool now.", "You must call a tool."),
        ("add", "You must call the tool add now.", "You must call the tool add."),
    ],
)
async def test_a_tool_can_be_required(turn: Any, choice: str, expected: str, problem: str) -> None:
    """An answer will not do, and is not shown."""
    made, provider = driver(said(answer="No."), CALL, tool_choice=choice)
    response = await made.infer(REQUEST, turn)
    assert [call.name for call in response.calls] == ["add"]
    assert expected in provider.requests[0].system
    assert provider.requests[1].messages[-1].text.startswith(problem)
    assert turn.text == []


async def test_a_tool_that_is_not_offered_cannot_be_required(turn: Any) -> None:
    """As with native calls."""
    made, _ = driver(CALL, tool_choice="sub")
    with pytest.raises(ModelError, match="'sub'"):
        await made.infer(REQUEST, turn)


async def test_structured_output_is_the_form_of_the_answer(turn: Any) -> None:
    """It needs a provider that has it; the answer is its JSON."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    request = msgspec.structs.replace(REQUEST, output_schema=schema)
    made, provider = driver(said(calls=[], answer={"n": 5}), constrained=False)
    response = await made.infer(request, turn)
    assert response.text == '{"n": 5}'
    assert provider.requests[0].output_schema == turn_schema((SPEC,), schema)
    made, provider = driver("", features=PLAIN)
    with pytest.raises(UnsupportedError, match="structured output"):
        await made.infer(request, turn)
    assert provider.requests == []


async def test_attachments_need_a_provider_that_takes_them(turn: Any) -> None:
    """As with native calls."""
    made, provider = driver("", features=frozenset())
    message = UserMessage("Look.", "", (Attachment("image/png", "aGk="),))
    with pytest.raises(UnsupportedError, match="images"):
        await made.infer(InferenceRequest((message,)), turn)
    assert provider.requests == []


# --- in an agent ----------------------------------------------------------------------------------------


async def test_hooks_and_results_are_the_loops(turn: Any) -> None:
    """A broken call, an unknown tool, a blocked call: the model reads the outcome of each."""
    made, provider = driver(
        said(calls=[{"tool": "add", "args": "{"}, {"tool": "ad", "args": {}}]),
        CALL,
        said(answer="I give up."),
    )
    builder = AgentBuilder().with_driver(made).with_tools(add)
    builder.on_before_tool_use(lambda ctx: HookOutcome.block("no sums today"))
    result = await builder.build().run("2+3?")
    assert (result.text, result.status) == ("I give up.", RunStatus.COMPLETED)
    statuses = [each.status.value for step in result.steps for each in step.results]
    assert statuses == ["invalid", "invalid", "blocked"]
    request = str(provider.requests[2])
    for part in ("not a JSON object", "there is no tool 'ad'", "no sums today"):
        assert part in request


async def test_cancelling_closes_the_connection() -> None:
    """Also while the text is being written."""
    provider = ScriptedProvider([WireTurn(failure=Failure.SILENCE)])
    agent = AgentBuilder().with_driver(ReActDriver("m", provider=provider)).with_tools(add).build()
    run = asyncio.create_task(agent.run("go"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(provider.requests) == 1
    agent.cancel()
    assert (await run).status is RunStatus.CANCELLED
    assert provider.hung_up
