"""What the model reads: the conversation in ChatML, after a few worked episodes that show how it is done."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hookline.providers.local.episodes import Episode, chosen, shown_first
from hookline.providers.local.speech import said_answer, said_call
from hookline.state import (
    AssistantMessage,
    InferenceRequest,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

END = "<|im_end|>"
"""What the model writes when its turn is over."""
_SIZE = re.compile(r"  ([\d,]+ bytes)$")
"""What stands behind a name in a directory."""
_FEW = 50
_BRIEF = 160
"""Characters of a tool's description that the model is shown."""


def plain_prompt(request: InferenceRequest) -> str:
    """The conversation as it is, for an answer in plain text, or in a form that a grammar ensures."""
    turns = [_turn("system", request.system)] if request.system else []
    if request.output_schema is not None:
        schema = json.dumps(request.output_schema, ensure_ascii=False)
        turns = [
            _turn("system", f"{request.system}\nAnswer with JSON of this form: {schema}".strip())
        ]
    turns += [_turn(role, text) for role, text in _conversation(request.messages, "")]
    return "".join(turns) + _begun("assistant")


def tool_prompt(request: InferenceRequest, answering: str) -> str:
    """The conversation of a model that may call tools.

    What differs from one prompt to the next comes as late as it can: all before it has been read already.
    """
    asked = last_question(request.messages)
    first = shown_first(request.tools)
    turns = [_turn("system", _system(request, answering))]
    turns += _worked(first, answering)
    turns += _worked(chosen(request.tools, asked, without=first), answering)
    turns += [_turn(role, text) for role, text in _conversation(request.messages, answering)]
    return "".join(turns) + _begun("assistant")


def _system(request: InferenceRequest, answering: str) -> str:
    lines = [
        *([request.system] if request.system else []),
        "You are an agent. Reply with one JSON object that calls one tool.",
        "Tools:",
        *map(_tool_line, request.tools),
        f"{answering}(answer): Answer the user.",
    ]
    if request.output_schema is not None:
        schema = json.dumps(request.output_schema, ensure_ascii=False)
        lines.append(f"The answer is JSON of this form: {schema}")
    return "\n".join(lines)


def _tool_line(tool: ToolSpec) -> str:
    schema = tool.parameters
    required = schema.get("required", ())
    names = [name if name in required else f"{name}?" for name in schema.get("properties", {})]
    description = " ".join(tool.description.split())
    if len(description) > _BRIEF:
        description = f"{description[:_BRIEF]}…"
    return f"{tool.name}({', '.join(names)}): {description}"


# --- turns --------------------------------------------------------------------------------------


def _turn(role: str, text: str) -> str:
    return f"{_begun(role)}{_harmless(text)}{END}\n"


def _begun(role: str) -> str:
    return f"<|im_start|>{role}\n"


def _harmless(text: str) -> str:
    """Text in which nothing begins or ends a turn: what a user or a tool says must not pass for the model's words."""
    return text.replace("<|", "< |")


def _worked(episodes: Iterable[Episode], answering: str) -> Iterator[str]:
    for episode in episodes:
        yield _turn("user", episode.ask)
        if episode.tool:
            yield _turn("assistant", said_call(episode.tool, episode.args))
            yield _turn("user", _result(episode.result))
        yield _turn("assistant", said_answer(answering, episode.answer))


def _conversation(messages: Sequence[Message], answering: str) -> Iterator[tuple[str, str]]:
    """Who says what. Each call is a turn of its own, with its result behind it."""
    results = {one.call_id: one for one in messages if isinstance(one, ToolMessage)}
    for message in messages:
        if isinstance(message, UserMessage):
            yield "user", message.text
        elif isinstance(message, AssistantMessage):
            if message.calls:
                yield from _calls(message, results)
            else:
                text = message.text
                yield "assistant", said_answer(answering, text) if answering else text


def _calls(
    message: AssistantMessage, results: Mapping[str, ToolMessage]
) -> Iterator[tuple[str, str]]:
    said = f"{message.text}\n" if message.text else ""
    for call in message.calls:
        yield "assistant", f"{said}{_call(call)}"
        said = ""
        if call.id in results:
            yield "user", _result(results[call.id].text)


def _call(call: ToolCall) -> str:
    if call.malformed:
        return f"{said_call(call.name, {})[:-1]}, {call.malformed.lstrip('{ ')}"
    return said_call(call.name, call.args)


def _result(text: str) -> str:
    return f"Result: {_plainly(text)}"


def _plainly(text: str) -> str:
    """A list of plain words, or lines, without what is around them: a small model copies what it need not rewrite."""
    words = _listed(text) or text.splitlines()
    if 0 < len(words) <= _FEW and all(isinstance(one, str) and _is_plain(one) for one in words):
        return ", ".join(_SIZE.sub(r" (\1)", word) for word in words)
    return text


def _listed(text: str) -> list[Any]:
    """The words of a JSON list."""
    if not (text.startswith("[") and text.endswith("]")):
        return []
    try:
        found: list[Any] = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found


def _is_plain(word: str) -> bool:
    return bool(word) and word.isprintable() and "," not in _SIZE.sub("", word)


def last_question(messages: Sequence[Message]) -> str:
    """What the person asked last."""
    for message in reversed(messages):
        if isinstance(message, UserMessage) and not message.by:
            return message.text
    return ""
