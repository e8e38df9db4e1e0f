"""What the messages API refuses, as far as a conversation can get it wrong. A scripted far end is as strict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wires.server import Request

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_GONE = ("temperature", "top_p", "top_k")
_MARKS = 4


def objection(request: Request) -> str:
    """The first thing that is wrong with a request; empty when it is fine."""
    return next(_objections(request), "")


def _objections(request: Request) -> Iterator[str]:
    if (request.method, request.path) != ("POST", "/v1/messages"):
        yield f"{request.method} {request.path}: not found"
    if not request.headers.get("anthropic-version"):
        yield "anthropic-version: header is required"
    body = request.json()
    for name in _GONE:
        if name in body and request.headers.get("anthropic-version", "") >= "2026-10-21":
            yield f"{name}: Extra inputs are not permitted"
    for name in ("model", "max_tokens", "messages"):
        if not body.get(name):
            yield f"{name}: Field required"
    if len(list(_marked(body))) > _MARKS:
        yield f"A maximum of {_MARKS} blocks with cache_control may be provided."
    if body.get("tool_choice") and not body.get("tools"):
        yield "tool_choice: tools are required"
    messages = body.get("messages") or [{"role": "user", "content": []}]
    if messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    for position, message in enumerate(messages):
        yield from _about_blocks(position, message)
        yield from _about_calls(position, messages)


def _about_blocks(position: int, message: dict[str, Any]) -> Iterator[str]:
    where = f"messages.{position}"
    if not message["content"]:
        yield f"{where}: content must not be empty"
    for block in message["content"]:
        kind = block["type"]
        if kind == "text" and not block["text"].strip():
            yield f"{where}: text content blocks must contain non-whitespace text"
        if kind == "tool_result" and block.get("is_error") and not block["content"]:
            yield f"{where}.tool_result: content cannot be empty if `is_error` is true"
        if kind in ("thinking", "redacted_thinking") and "cache_control" in block:
            yield f"{where}.{kind}: cache_control: Extra inputs are not permitted"
        if kind == "tool_use" and not isinstance(block["input"], dict):
            yield f"{where}.tool_use.input: Input should be a valid dictionary"
    if message["role"] == "assistant" and message["content"][-1]["type"].endswith("thinking"):
        yield f"{where}: The final block in an assistant message cannot be `thinking`."


def _about_calls(position: int, messages: list[dict[str, Any]]) -> Iterator[str]:
    """Each call has its result at the very beginning of the next message, and each result its call."""
    called = [block["id"] for block in _blocks(messages[position], "tool_use")]
    if any(not _ID.fullmatch(call_id) for call_id in called):
        yield f"messages.{position}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if called:
        after = messages[position + 1]["content"] if position + 1 < len(messages) else []
        answered = [block.get("tool_use_id") for block in after[: len(called)]]
        if sorted(called) != sorted(map(str, answered)):
            yield f"messages.{position}: `tool_use` ids were found without `tool_result` blocks"
    answers = [block["tool_use_id"] for block in _blocks(messages[position], "tool_result")]
    before = _blocks(messages[position - 1], "tool_use") if position else []
    if set(answers) - {block["id"] for block in before}:
        yield f"messages.{position}: unexpected `tool_use_id` found in `tool_result` blocks"


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in message["content"] if block["type"] == kind]


def _marked(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = [block for message in body.get("messages", ()) for block in message["content"]]
    for block in [*body.get("tools", ()), *body.get("system", ()), *content]:
        if "cache_control" in block:
            yield block
