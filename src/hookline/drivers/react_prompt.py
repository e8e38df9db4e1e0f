"""What a model without tool calls is told: the protocol, the tools, and the conversation so far as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hookline.drivers.protocol import Spoken, SpokenCall, write
from hookline.state import (
    AssistantMessage,
    InferenceRequest,
    Message,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

THOUGHT = "react"
"""Whose the thoughts of this protocol are: no provider is sent them as its own."""

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
    """The conversation as text: turns as the model should have written them, and results as what it is told."""
    results: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            what = "Error from" if message.is_error else "Result of"
            results.append(f"{what} {message.name}:\n{message.text}")
            continue
        if results:
            yield UserMessage("\n\n".join(results))
            results = []
        if isinstance(message, AssistantMessage) and (in_protocol or message.calls):
            yield AssistantMessage(write(_spoken(message)))
        else:
            yield message
    if results:
        yield UserMessage("\n\n".join(results))


def _spoken(message: AssistantMessage) -> Spoken:
    thoughts = (part.text for part in message.reasoning if part.provider == THOUGHT)
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
            args=_moved(tool.parameters, f"{position}_", definitions),
        )
        for position, tool in enumerate(tools)
    ]
    spoken: dict[str, Any] = {"type": "string"}
    if answer is not None:
        spoken = {"anyOf": [_moved(answer, "answer_", definitions), {"type": "null"}]}
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


def _moved(schema: dict[str, Any], prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema as a part of another: what it defines moves to the top, under names of its own."""
    moved: dict[str, Any] = _renamed(schema, prefix)
    for name, definition in moved.pop("$defs", {}).items():
        definitions[f"{prefix}{name}"] = definition
    return moved


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {
            key: f"#/$defs/{prefix}{item.removeprefix('#/$defs/')}"
            if key == "$ref" and isinstance(item, str) and item.startswith("#/$defs/")
            else _renamed(item, prefix)
            for key, item in value.items()
        }
    return [_renamed(item, prefix) for item in value] if isinstance(value, list) else value
