"""Requests to the model and its responses, as Gemini's hooks change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hookline.command_hooks.dialects.gemini import is_shown, tool_name
from hookline.state import AssistantMessage, InferenceRequest, Message, UserMessage


def changed_request(request: InferenceRequest, extra: Mapping[str, Any]) -> InferenceRequest:
    """A request with what a hook before the model changed: model, settings, words, and which tools are offered."""
    wanted = extra.get("llm_request")
    if isinstance(wanted, dict):
        request = _with_wishes(request, wanted)
    tools = extra.get("toolConfig")
    return _with_tools(request, tools) if isinstance(tools, dict) else request


def _with_wishes(request: InferenceRequest, wanted: dict[str, Any]) -> InferenceRequest:
    if isinstance(wanted.get("model"), str) and wanted["model"] != request.model:
        request = request.with_model(wanted["model"])
    config = wanted.get("config")
    if isinstance(config, dict) and config != dict(request.options):
        request = request.with_options(**{str(key): value for key, value in config.items()})
    messages = wanted.get("messages")
    return _with_words(request, messages) if isinstance(messages, list) else request


def _with_words(request: InferenceRequest, wanted: list[Any]) -> InferenceRequest:
    """The request with a hook's words in the place of those it was shown. What it was not shown stays where it is."""
    words = [each for each in wanted if isinstance(each, dict)]
    if request.system and words and words[0].get("role") == "system":
        text = _text_in(words.pop(0).get("content"))
        request = request if text == request.system else request.with_system(text)
    made: list[Message] = []
    for message in request.messages:
        if is_shown(message) and words:
            text = _text_in(words.pop(0).get("content"))
            message = (
                message if text == message.text else msgspec.structs.replace(message, text=text)
            )
        made.append(message)
    made += [_said(each) for each in words]
    return request if made == list(request.messages) else request.with_messages(tuple(made))


def _said(words: dict[str, Any]) -> Message:
    text = _text_in(words.get("content"))
    return AssistantMessage(text) if words.get("role") == "model" else UserMessage(text)


def _with_tools(request: InferenceRequest, tools: dict[str, Any]) -> InferenceRequest:
    names, mode = tools.get("allowedFunctionNames"), str(tools.get("mode", "")).upper()
    if isinstance(names, list) and names:
        allowed = {str(name) for name in names}
        kept = (tool for tool in request.tools if {tool.name, tool_name(tool.name)} & allowed)
        request = request.with_tools(tuple(kept))
    if mode == "NONE":
        return request.with_tools(()).with_tool_choice("none")
    if mode == "ANY" and request.tools:
        return request.with_tool_choice("required")
    return request


def response_text(value: Any) -> str | None:
    """The text of a response in Gemini's form; None if there is none."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("text"), str):
        return str(value["text"])
    candidates = value.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        if isinstance(parts, list):
            return _text_in(parts)
    return None


def _text_in(content: Any) -> str:
    """The text of a message: it is text itself, or has parts."""
    parts: Sequence[Any] = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))
