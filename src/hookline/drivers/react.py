"""The driver for models that cannot call tools: they reason and act in text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hookline.drivers.base import Turn
from hookline.drivers.model import ModelDriver, ask, check_features, fit_results, full_name
from hookline.drivers.protocol import AnswerStream, Spoken, SpokenCall, read, write
from hookline.errors import MalformedResponseError
from hookline.option_checks import check_count
from hookline.providers import Feature, Provider
from hookline.providers.request import move_definitions
from hookline.state import (
    EMPTY,
    NO_USAGE,
    AssistantMessage,
    Attachment,
    InferenceRequest,
    InferenceResponse,
    Message,
    Reasoning,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Kinds that every provider with images takes."""
_THOUGHT = "react"
"""The provider of this protocol's thoughts: no provider is sent them as its own."""


class ReActDriver(ModelDriver):
    """One turn is a JSON object the model writes: a thought, and calls or an answer.

    The model is constrained to that object where its provider can do so (`constrained=False` says not to). A
    turn that cannot be understood is answered with what is wrong with it, at most `corrections` times; after
    that it is a MalformedResponseError. What is streamed is the answer alone, never the protocol around it.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: Provider | None = None,
        options: Mapping[str, Any] = EMPTY,
        tool_choice: str = "auto",
        constrained: bool = True,
        corrections: int = 2,
    ) -> None:
        check_count("ReActDriver", "corrections", corrections, 0)
        super().__init__(model, provider=provider, options=options, tool_choice=tool_choice)
        self._constrained = constrained
        self._corrections = corrections

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Ask the model, and ask again where it did not keep to the protocol."""
        provider, request = self._address(request)
        check_features(provider, msgspec.structs.replace(request, tools=(), tool_choice="auto"))
        wanted = self._constrained or request.output_schema is not None
        constrained = wanted and Feature.STRUCTURED_OUTPUT in provider.features
        request = fit_results(provider, request, lambda each: _can_be_sent(provider, each))
        asked = as_text(request, constrained=constrained)
        if not request.tools or request.tool_choice == "none":
            return await ask(provider, asked, turn)
        return await self._converse(provider, request, asked, turn)

    async def _converse(
        self, provider: Provider, request: InferenceRequest, asked: InferenceRequest, turn: Turn
    ) -> InferenceResponse:
        usage, problem = NO_USAGE, ""
        try:
            for _ in range(self._corrections + 1):
                reader = _TurnReader(request, turn)
                response = await ask(provider, asked, turn, reader.feed)
                usage = usage + response.usage
                spoken = reader.read_spoken(response.text)
                problem = _problem(request, response, spoken)
                if not problem:
                    whole, usage = msgspec.structs.replace(response, usage=usage), NO_USAGE
                    return reader.response(whole, spoken)
                asked = _add_correction(asked, response, problem)
        finally:
            if usage is not NO_USAGE:
                turn.charge(usage)
        raise MalformedResponseError(
            f"'{full_name(provider, asked.model)}' does not follow the text protocol for tools: {problem}",
            remedy="Use a model that can, or one that calls tools natively.",
        )


def _can_be_sent(provider: Provider, attachment: Attachment) -> bool:
    """Whether a file can go with a message of the user, which is where this protocol writes results."""
    if attachment.media_type == "application/pdf":
        return Feature.DOCUMENTS in provider.features and bool(attachment.data)
    return attachment.media_type in _IMAGES and Feature.IMAGES in provider.features


def _problem(request: InferenceRequest, response: InferenceResponse, spoken: Spoken) -> str:
    """What is wrong with a turn, or missing from it."""
    choice = request.tool_choice
    if spoken.problem and response.finish == "length":
        return "It was cut off, because it became too long."
    if spoken.problem:
        return spoken.problem
    if choice == "required" and not spoken.calls:
        return "You must call a tool."
    if choice not in ("auto", "required") and choice not in {call.tool for call in spoken.calls}:
        return f"You must call the tool {choice}."
    return ""


def _add_correction(
    asked: InferenceRequest, response: InferenceResponse, problem: str
) -> InferenceRequest:
    """The request once more, with the turn that was not understood and what is wrong with it."""
    note = f"{problem} Answer with one JSON object, as described."
    said = AssistantMessage(response.text or "{}")
    return asked.with_messages([*asked.messages, said, UserMessage(note)])


class _TurnReader:
    """One turn as it is read: streamed as far as it may be, and understood as a whole."""

    def __init__(self, request: InferenceRequest, turn: Turn) -> None:
        self._turn = turn
        self._stream = AnswerStream(turn.emit_text, turn.emit_reasoning)
        # Where a call is asked for, an answer may not be the end of it: it is not passed on before that is known.
        self._may_stream = request.tool_choice == "auto"

    def feed(self, text: str) -> None:
        if self._may_stream:
            self._stream.feed(text)

    def read_spoken(self, text: str) -> Spoken:
        """What was said. An answer that was streamed stands as it was streamed, however the turn ended."""
        spoken, answer = read(text), self._stream.answer
        if not answer:
            return spoken
        return Spoken(self._stream.thought or spoken.thought, spoken.calls, answer)

    def response(self, response: InferenceResponse, spoken: Spoken) -> InferenceResponse:
        """The answer as the loop reads it; what was not streamed of it yet is passed on now."""
        turn, stream = self._turn, self._stream
        if spoken.thought and not stream.thought:
            turn.emit_reasoning(spoken.thought)
        if spoken.answer and stream.answer is None:
            turn.emit_text(spoken.answer)
        calls = list(response.calls)
        for call in spoken.calls:
            call_id = f"call_{len(turn.state.steps) + 1}_{len(calls) + 1}"
            turn.emit_call(call_id, call.tool, call.args)
            calls.append(ToolCall.from_json(call_id, call.tool, call.args))
        thoughts = (Reasoning(text=spoken.thought, provider=_THOUGHT),) if spoken.thought else ()
        return msgspec.structs.replace(
            response,
            text=spoken.answer or "",
            calls=tuple(calls),
            reasoning=(*response.reasoning, *thoughts),
        )


# --- what the model reads ----------------------------------------------------------------------------

_PROTOCOL = """\
You have tools. Always answer with one JSON object of this form, and nothing else:
{"thought": "what to do next, in a few words", "calls": [{"tool": "NAME", "args": {...}}], "answer": ""}
To use tools, write one or more calls; their results come in the next message. Do not make results up.
When you know the answer, leave "calls" empty and write the answer into "answer".

Tools, each with the JSON schema of its "args":"""


def as_text(request: InferenceRequest, *, constrained: bool) -> InferenceRequest:
    """The request for a model that knows nothing of tools."""
    tools = () if request.tool_choice == "none" else request.tools
    system, schema = request.system, request.output_schema
    if tools:
        system = "\n\n".join(part for part in (system, _instructions(tools, request)) if part)
        schema = turn_schema(tools, schema) if constrained else None
    return msgspec.structs.replace(
        request,
        messages=list(_transcript(request.messages, in_protocol=bool(tools))),
        system=system,
        tools=(),
        tool_choice="auto",
        output_schema=schema,
    )


def _instructions(tools: Sequence[ToolSpec], request: InferenceRequest) -> str:
    lines = [_PROTOCOL]
    for tool in tools:
        description = " ".join(tool.description.split())
        schema = json.dumps(tool.parameters, ensure_ascii=False)
        lines.append(f"- {tool.name}: {description} args: {schema}")
    if request.tool_choice == "required":
        lines.append("\nYou must call a tool now.")
    elif request.tool_choice != "auto":
        lines.append(f"\nYou must call the tool {request.tool_choice} now.")
    return "\n".join(lines)


def _transcript(messages: Iterable[Message], *, in_protocol: bool) -> Iterable[Message]:
    """The conversation as text: turns as the model should have written them, and results as messages of the user."""
    results: list[str] = []
    files: list[Attachment] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            what = "Error from" if message.is_error else "Result of"
            results.append(f"{what} {message.name}:\n{message.text}")
            files += message.attachments
            continue
        if results:
            yield UserMessage("\n\n".join(results), attachments=tuple(files))
            results, files = [], []
        if isinstance(message, AssistantMessage) and (in_protocol or message.calls):
            yield AssistantMessage(write(_as_spoken(message)))
        else:
            yield message
    if results:
        yield UserMessage("\n\n".join(results), attachments=tuple(files))


def _as_spoken(message: AssistantMessage) -> Spoken:
    thoughts = (part.text for part in message.reasoning if part.provider == _THOUGHT)
    calls = (
        SpokenCall(call.name, call.malformed or msgspec.json.encode(call.args).decode())
        for call in message.calls
    )
    answer = message.text if message.text or not message.calls else None
    return Spoken("\n".join(thoughts), tuple(calls), answer)


# --- the schema of a turn, for providers that can constrain a model to one ------------------------------


def turn_schema(tools: Sequence[ToolSpec], answer: dict[str, Any] | None) -> dict[str, Any]:
    """The JSON schema of one turn with these tools. Every part is required: some servers want it so."""
    definitions: dict[str, Any] = {}
    calls = [
        _object(
            tool={"type": "string", "enum": [tool.name]},
            args=move_definitions(tool.parameters, f"{position}_", definitions),
        )
        for position, tool in enumerate(tools)
    ]
    spoken: dict[str, Any] = {"type": "string"}
    if answer is not None:
        spoken = {"anyOf": [move_definitions(answer, "answer_", definitions), {"type": "null"}]}
    schema = _object(
        thought={"type": "string"},
        calls={"type": "array", "items": {"anyOf": calls}},
        answer=spoken,
    )
    return {**schema, "$defs": definitions} if definitions else schema


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
