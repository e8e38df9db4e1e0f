"""A request as Gemini takes it: the conversation as contents, everything else as configuration."""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from google.genai import types
from pydantic import ValidationError

from hookline.errors import UnsupportedError
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

NAME = "google"
THOUGHT = "thought"
"""The kind of a signature that came on a part of the thinking itself."""
CALL = "call"
"""The kind of a signature that came on a call."""
OWN_ID = "hookline-"
"""How the id of a call begins that was made here, because Gemini gave none."""

_STRICT = re.compile(r"(models/)?gemini-(?![12]\b)")
"""Models that refuse a step of calls without a signature: all Gemini from the third generation on."""
_UNSIGNED = b"skip_thought_signature_validator"
"""What Google documents for calls that another model made, or a hook: there never was a signature on them."""

_OURS = {
    "automatic_continuation": "the provider continues by itself",
    "automatic_function_calling": "the agent runs the tools",
    "candidate_count": "an agent continues from one answer",
    "continuation_token": "the provider continues by itself",
    "http_options": "headers, timeout and base_url belong to the provider",
    "should_return_http_response": "the provider reads the answer",
    "system_instruction": "it is the system prompt of the request",
}


# --- the conversation ---------------------------------------------------------------------------


def contents_of(request: InferenceRequest) -> list[types.Content]:
    """The conversation. All results of one step go into one content, in the order of their calls."""
    contents: list[types.Content] = []
    order: dict[str, int] = {}
    for is_result, group in groupby(request.messages, lambda each: isinstance(each, ToolMessage)):
        if is_result:
            contents.append(types.Content(role="user", parts=_results(group, order)))
            continue
        for message in group:
            if isinstance(message, AssistantMessage):
                order = {call.id: number for number, call in enumerate(message.calls)}
                parts = _answered(message, request.model)
                role = "model"
            elif isinstance(message, UserMessage):
                parts, role = _asked(message), "user"
            if parts:  # the API refuses a content without any
                contents.append(types.Content(role=role, parts=parts))
    return contents


def _asked(message: UserMessage) -> list[types.Part]:
    text = [types.Part(text=message.text)] if message.text or not message.attachments else []
    return [*map(_attached, message.attachments), *text]


def _attached(attachment: Attachment) -> types.Part:
    kind = attachment.media_type
    if attachment.url:
        return types.Part(file_data=types.FileData(file_uri=attachment.url, mime_type=kind))
    return types.Part(inline_data=types.Blob(data=attachment.content(), mime_type=kind))


def _results(messages: Iterable[Message], order: dict[str, int]) -> list[types.Part]:
    """Calls without an id differ by their order alone, so the results must keep it."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    results.sort(key=lambda message: order.get(message.call_id, len(order)))
    return [
        types.Part(
            function_response=types.FunctionResponse(
                id=_their_id(message.call_id),
                name=message.name,
                response={"error" if message.is_error else "output": message.text},
            )
        )
        for message in results
    ]


def _answered(message: AssistantMessage, model: str) -> list[types.Part]:
    """What the model said, with each signature back on the part it came with."""
    signed = [part for part in message.reasoning if part.provider == NAME and part.signature]
    thoughts = [
        types.Part(text=part.text, thought=True, thought_signature=_signature(part))
        for part in signed
        if part.kind == THOUGHT
    ]
    return [*thoughts, *_text_parts(message.text, signed), *_calls(message.calls, signed, model)]


def _calls(
    calls: tuple[ToolCall, ...], signed: list[Reasoning], model: str
) -> Iterator[types.Part]:
    signatures = {part.call_id: _signature(part) for part in signed if part.call_id}
    if calls and signatures.keys().isdisjoint(call.id for call in calls) and _STRICT.match(model):
        signatures[calls[0].id] = _UNSIGNED
    for call in calls:
        function = types.FunctionCall(id=_their_id(call.id), name=call.name, args=call.args)
        yield types.Part(function_call=function, thought_signature=signatures.get(call.id))


def _text_parts(text: str, signed: Iterable[Reasoning]) -> Iterator[types.Part]:
    """The text in its parts, as far as signatures tell them apart. One on text that is gone is dropped."""
    position = 0
    for part in signed:
        start, end = _span(part.kind)
        if not position <= start <= end <= len(text):
            continue
        if position < start:
            yield types.Part(text=text[position:start])
        yield types.Part(text=text[start:end], thought_signature=_signature(part))
        position = end
    if position < len(text):
        yield types.Part(text=text[position:])


def kind_of_text(start: int, end: int) -> str:
    """The kind of a signature that came on a part of the answer's text: where in the text that part is."""
    return f"text:{start}:{end}"


def _span(kind: str) -> tuple[int, int]:
    """Where in the text the part with this signature is; nowhere when the signature was on something else."""
    match = re.fullmatch(r"text:(\d+):(\d+)", kind, re.ASCII)
    return (int(match[1]), int(match[2])) if match else (-1, -1)


def _signature(part: Reasoning) -> bytes:
    return base64.b64decode(part.signature)


def _their_id(call_id: str) -> str | None:
    """The id that Gemini gave; None for one that was made here."""
    return None if call_id.startswith(OWN_ID) else call_id


# --- the configuration --------------------------------------------------------------------------


def config_of(request: InferenceRequest) -> types.GenerateContentConfig:
    """Options, under what the request itself says. Tools of Google's own may come with the options."""
    fields = dict(request.options)
    for option in fields:
        _check_option(option)
    if request.system:
        fields["system_instruction"] = request.system
    if request.tools:
        fields["tools"] = [_tool(request.tools), *(fields.get("tools") or ())]
        if request.tool_choice != "auto":
            fields["tool_config"] = _tool_config(request.tool_choice)
    if request.output_schema is not None:
        fields["response_mime_type"] = "application/json"
        fields["response_json_schema"] = request.output_schema
    fields["automatic_function_calling"] = types.AutomaticFunctionCallingConfig(disable=True)
    fields["automatic_continuation"] = False
    try:
        return types.GenerateContentConfig(**fields)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(step) for step in problem["loc"])
    raise UnsupportedError(
        f"google: the option '{where}' has a wrong value: {problem['msg']}.",
        remedy="Options are fields of GenerateContentConfig: correct it, or leave it out.",
    )


def _check_option(option: str) -> None:
    known = types.GenerateContentConfig.model_fields
    if option in _OURS:
        raise UnsupportedError(
            f"google: '{option}' cannot be set as an option: {_OURS[option]}.",
            remedy="Leave it out.",
        )
    if option not in known:
        close = [name for name in known if name.startswith(option) and name not in _OURS]
        close += difflib.get_close_matches(option, known.keys() - _OURS, n=1)
        raise UnsupportedError(
            f"google: there is no option '{option}'.",
            remedy=f"Did you mean '{close[0]}'?"
            if close
            else "Options are fields of GenerateContentConfig, such as temperature.",
        )


def _tool(specs: Iterable[ToolSpec]) -> types.Tool:
    return types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name=spec.name,
                description=spec.description,
                parameters_json_schema=spec.parameters,
            )
            for spec in specs
        ]
    )


def _tool_config(choice: str) -> types.ToolConfig:
    named = {"mode": types.FunctionCallingConfigMode.ANY, "allowed_function_names": [choice]}
    modes: dict[str, dict[str, Any]] = {
        "none": {"mode": types.FunctionCallingConfigMode.NONE},
        "required": {"mode": types.FunctionCallingConfigMode.ANY},
    }
    rule = types.FunctionCallingConfig(**modes.get(choice, named))
    return types.ToolConfig(function_calling_config=rule)
