"""A request, as the chat-completions protocol writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hookline.errors import UnsupportedError
from hookline.providers.options import check_request
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

_OURS = frozenset({"messages", "model", "n", "stream"})
"""Not options: they follow from the request."""

_PDF = "application/pdf"
"""The one kind of file that the protocol carries."""

_REASONING_FIELDS = frozenset({"reasoning", "reasoning_content"})


def request_body(request: InferenceRequest, *, streamed: bool) -> dict[str, Any]:
    """The body of the request. An option that is None is left out, also one that would be sent otherwise."""
    check_request("openai", request, _OURS)
    body: dict[str, Any] = {"model": request.model, "messages": list(_messages(request))}
    if streamed:
        asked = request.options.get("stream_options") or {}
        body |= {"stream": True, "stream_options": {"include_usage": True, **asked}}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if (choice := _tool_choice(request)) is not None:
        body["tool_choice"] = choice
    if request.output_schema is not None:
        body["response_format"] = _response_format(request.output_schema)
    body |= {name: value for name, value in request.options.items() if name not in body}
    left_out = {name for name, value in request.options.items() if value is None}
    return {name: value for name, value in body.items() if name not in left_out}


def _messages(request: InferenceRequest) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    question = _last_question(request.messages)
    for position, message in enumerate(request.messages):
        if isinstance(message, AssistantMessage):
            yield _assistant(message, with_reasoning=position > question)
        elif isinstance(message, ToolMessage):
            yield {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        else:
            yield {"role": "user", "content": _content(message)}


def _last_question(messages: Sequence[Message]) -> int:
    """Where a person last spoke; what a hook says in between does not begin a new turn."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, UserMessage) and not message.by:
            return position
    return -1


def _content(message: UserMessage) -> str | list[dict[str, Any]]:
    if not message.attachments:
        return message.text
    parts = [_attachment(attachment) for attachment in message.attachments]
    return [{"type": "text", "text": message.text}, *parts] if message.text else parts


def _attachment(attachment: Attachment) -> dict[str, Any]:
    address = attachment.url or f"data:{attachment.media_type};base64,{attachment.data}"
    if attachment.is_image:
        return {"type": "image_url", "image_url": {"url": address}}
    if attachment.url:
        raise UnsupportedError(
            f"openai: a document cannot be given by its address ({attachment.url}).",
            remedy="Read it first, and give it as Attachment.from_bytes(content, media_type).",
        )
    if attachment.is_text:
        title = f"{attachment.name}:\n\n" if attachment.name else ""
        return {"type": "text", "text": f"{title}{attachment.text()}"}
    if attachment.media_type != _PDF:
        raise UnsupportedError(
            f"openai: a document of type {attachment.media_type} is not taken.",
            remedy="Convert it to PDF or to text.",
        )
    name = attachment.name or "document.pdf"
    return {"type": "file", "file": {"filename": name, "file_data": address}}


def _assistant(message: AssistantMessage, *, with_reasoning: bool) -> dict[str, Any]:
    """An answer of the model. Its thinking goes back only while the tools it called are being worked off.

    The servers that think in the open want it then, and some refuse it at any other time.
    """
    written: dict[str, Any] = {"role": "assistant", "content": message.text}
    if not message.calls:
        return written
    if not message.text:
        written["content"] = None
    written["tool_calls"] = [_call(call) for call in message.calls]
    if with_reasoning:
        for part in message.reasoning:
            if part.provider == "openai" and part.kind in _REASONING_FIELDS:
                written[part.kind] = written.get(part.kind, "") + part.text
    return written


def _call(call: ToolCall) -> dict[str, Any]:
    # Servers take the arguments apart again for the model's template: JSON even where the model's were not.
    args = {"not_json": call.malformed} if call.malformed else call.args
    arguments = msgspec.json.encode(args).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _tool_choice(request: InferenceRequest) -> Any:
    choice = request.tool_choice
    if choice == "auto" or (choice == "none" and not request.tools):
        return None
    if choice in ("none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title", "")))[:64] or "answer"
    described = {"name": name, "schema": schema, "strict": _is_closed(schema)}
    return {"type": "json_schema", "json_schema": described}


def _is_closed(schema: Any) -> bool:
    """Whether each object in a schema has exactly the fields it names: only then may it be asked for strictly."""
    if isinstance(schema, list):
        return all(_is_closed(part) for part in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        fields = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(fields):
            return False
    return all(_is_closed(part) for part in schema.values())
