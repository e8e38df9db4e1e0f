"""A request as the messages API takes it: the conversation in content blocks, marked where it is cached."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

from anthropic import transform_schema

from hookline.errors import UnsupportedError
from hookline.providers.options import check_request
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

T = TypeVar("T")
Block: TypeAlias = dict[str, Any]

NAME = "anthropic"
REDACTED = "redacted_thinking"

_OURS = frozenset({"messages", "model", "stream"})
"""Not options: they follow from the request."""
_MAX_TOKENS = 16_384
"""Tokens for an answer when nobody says how many: every model of today has them, and no stream is needed for them."""
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_VALUES = ("const", "default", "enum", "examples")
"""The parts of a schema that are values, not schemas."""
_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_CACHED = {"type": "ephemeral"}


def request_body(request: InferenceRequest, *, cache: bool) -> dict[str, Any]:
    """The body of the request. Options are sent as they are; one that is None is left out."""
    check_request(NAME, request, _OURS)
    options = {name: value for name, value in request.options.items() if value is not None}
    budget = _option(options, "thinking", dict).get("budget_tokens", 0)
    body: dict[str, Any] = {
        # thinking counts as part of the answer: room is left for the rest
        "max_tokens": _MAX_TOKENS + (budget if isinstance(budget, int) else 0),
        **options,
        "model": request.model,
        "messages": _conversation(request.messages),
    }
    if system := _text(request.system):
        body["system"] = system
    if tools := [*map(_tool, request.tools), *_option(options, "tools", list)]:
        body["tools"] = tools
    if request.tools and (choice := _tool_choice(request.tool_choice)):
        body["tool_choice"] = {**_option(options, "tool_choice", dict), **choice}
    if request.output_schema is not None:
        form = {"type": "json_schema", "schema": _schema(request.output_schema)}
        body["output_config"] = {**_option(options, "output_config", dict), "format": form}
    if cache and "cache_control" not in options:
        _mark_for_cache(body)
    return body


def _option(options: dict[str, Any], name: str, kind: type[T]) -> T:
    """An option that we add to; empty when it is not set."""
    value = options.get(name, kind())
    if isinstance(value, kind):
        return value
    raise UnsupportedError(
        f"anthropic: the option '{name}' is {value!r}.",
        remedy=f"Write it as a {kind.__name__}, as the messages API describes it.",
    )


def _mark_for_cache(body: dict[str, Any]) -> None:
    """Mark where the prompt is to be cached up to: tools, system, and twice in the conversation.

    The last message is marked for the next request, and the user's message before it because the last request
    ended there: what lies between may be more blocks than the cache looks back.
    """
    asked = [message for message in body["messages"] if message["role"] == "user"]
    for blocks in (body.get("tools"), body.get("system"), *(m["content"] for m in asked[-2:])):
        if blocks and isinstance(blocks, list):
            blocks[-1] = {**blocks[-1], "cache_control": _CACHED}


def _tool(spec: ToolSpec) -> Block:
    tool: Block = {"name": spec.name, "input_schema": {"type": "object", **spec.parameters}}
    if spec.description:
        tool["description"] = spec.description
    return tool


def _tool_choice(choice: str) -> Block | None:
    """None leaves it to the model, which is also what the API does."""
    named: Block = {"type": "tool", "name": choice}
    return {"auto": None, "none": {"type": "none"}, "required": {"type": "any"}}.get(choice, named)


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema in the part of JSON schema that the API can hold an answer to; the rest becomes descriptions."""
    if not _has_open_object(schema):
        try:
            return transform_schema(schema)
        except (AssertionError, AttributeError, TypeError, ValueError):
            pass  # what the client says about it names none of its parts
    raise UnsupportedError(
        "anthropic: this output schema has a part that answers cannot be held to.",
        remedy="Name the fields of every object, and give every part one type or a choice of schemas.",
    )


def _has_open_object(schema: object) -> bool:
    """Whether an object in a schema may have fields that it does not name. The client would forbid them all."""
    if isinstance(schema, list):
        return any(map(_has_open_object, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object":
        others = schema.get("additionalProperties", "properties" not in schema)
        if others is not False:
            return True
    return any(_has_open_object(part) for name, part in schema.items() if name not in _VALUES)


def _conversation(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages in turns: all results of one step, and what is said after them, are one turn of the user."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[Block]:
    if isinstance(message, AssistantMessage):
        return _answered(message)
    if isinstance(message, ToolMessage):
        return [_result(message)]
    return _asked(message)


def _asked(message: UserMessage) -> list[Block]:
    return [*map(_attached, message.attachments), *_text(message.text)]


def _text(text: str) -> list[Block]:
    """No block for blank text: the API refuses it."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _answered(message: AssistantMessage) -> list[Block]:
    """Thinking comes back as it was, before the text, or before the call it led to."""
    ids = {call.id for call in message.calls}
    ahead: list[Block] = []
    before: dict[str, list[Block]] = {}
    for part in message.reasoning:
        if part.provider == NAME and part.signature:
            place = before.setdefault(part.call_id, []) if part.call_id in ids else ahead
            place.append(_thought(part))
    said = _text(message.text)
    for call in message.calls:
        said += [*before.pop(call.id, ()), _called(call)]
    return [*ahead, *said] if said else []  # thinking alone is refused


def _thought(part: Reasoning) -> Block:
    if part.kind == REDACTED:
        return {"type": REDACTED, "data": part.signature}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _called(call: ToolCall) -> Block:
    # An input must be an object; this is how the API's documentation shows a model the broken JSON it wrote.
    args = {"INVALID_JSON": call.malformed} if call.malformed else call.args
    return {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": args}


def _result(message: ToolMessage) -> Block:
    block: Block = {
        "type": "tool_result",
        "tool_use_id": _id(message.call_id),
        "content": message.text,
    }
    if message.is_error:
        block["is_error"] = True
        block["content"] = message.text or "The call failed."  # an error must not be empty
    return block


def _id(call_id: str) -> str:
    """An id in the letters the API allows: a conversation may have begun with another provider."""
    return _NOT_IN_AN_ID.sub("_", call_id)


def _attached(attachment: Attachment) -> Block:
    return _image(attachment) if attachment.is_image else _document(attachment)


def _image(image: Attachment) -> Block:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    if image.media_type not in _IMAGES:
        raise _not_taken(image, "Convert it to PNG or JPEG.")
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _document(document: Attachment) -> Block:
    block: Block = {"type": "document", "source": _source(document)}
    if document.name:
        block["title"] = document.name
    return block


def _source(document: Attachment) -> Block:
    kind = document.media_type
    if kind == "application/pdf":
        if document.url:
            return {"type": "url", "url": document.url}
        return {"type": "base64", "media_type": kind, "data": document.data}
    if document.url:
        raise _not_taken(document, "Only PDFs can be given by their address: attach its content.")
    if document.is_text:
        return {"type": "text", "media_type": "text/plain", "data": document.text()}
    raise _not_taken(document, "Convert it to PDF or to text.")


def _not_taken(attachment: Attachment, remedy: str) -> UnsupportedError:
    what = f"'{attachment.name}' " if attachment.name else ""
    return UnsupportedError(
        f"anthropic: an attachment {what}of type {attachment.media_type} is not taken.",
        remedy=remedy,
    )
