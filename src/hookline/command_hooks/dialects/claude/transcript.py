"""The conversation in the form of Claude Code's transcripts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hookline.command_hooks.dialects.claude.tools import TOOLS, response_of
from hookline.command_hooks.exchange import RunFacts
from hookline.command_hooks.tools import ToolNames, file_path
from hookline.command_hooks.transcripts import Line, Transcripts, timestamp
from hookline.state import (
    NO_USAGE,
    AgentState,
    AssistantMessage,
    Message,
    StepType,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

_NAMES = ToolNames(TOOLS, milliseconds=True)


class ClaudeTranscripts(Transcripts):
    """Each line names the one before it."""

    id_key, parent_key = "uuid", "parentUuid"

    def lines(
        self, messages: Sequence[Message], facts: RunFacts, state: AgentState | None
    ) -> Iterator[Line]:
        """A line for each message; a result with what hooks after the tool are sent."""
        usages: Mapping[int, Usage] = {} if state is None else _usages(messages, state)
        responses = {} if state is None else _responses(messages, state, facts)
        for index, message in enumerate(messages):
            entry = _entry(message, facts, usages.get(index, NO_USAGE))
            if isinstance(message, ToolMessage):
                # Scripts tell a tool's words from the user's by this key.
                entry["toolUseResult"] = responses.get(message.call_id, f"Error: {message.text}")
            yield entry


def _usages(messages: Sequence[Message], state: AgentState) -> dict[int, Usage]:
    """The usage of each message of the model, by index: the last belongs to the last step, and so on."""
    places = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    found: dict[int, Usage] = {}
    for step in reversed(state.steps):
        if not places:
            break
        if step.type is not StepType.INCOMPLETE:
            found[places.pop()] = step.usage
    return found


def _responses(messages: Sequence[Message], state: AgentState, facts: RunFacts) -> dict[str, Any]:
    """Results in the form that hooks after a tool are sent, by the ids of the calls."""
    wanted = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    found: dict[str, Any] = {}
    for step in reversed(state.steps):
        if wanted <= found.keys():
            break
        for call, result in zip(step.calls, step.results, strict=False):
            if call.id in wanted and result.is_success:
                path = file_path(call.args.get("path"), facts.cwd)
                found.setdefault(call.id, response_of(call, result, path))
    return found


def _entry(message: Message, facts: RunFacts, usage: Usage) -> dict[str, Any]:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": facts.cwd,
        "sessionId": facts.session_uuid,
        "version": "hookline",
        "type": "assistant" if isinstance(message, AssistantMessage) else "user",
        "message": _message(message, facts, usage),
        **(
            {"requestId": f"req_{uuid.uuid4().hex[:24]}"}
            if isinstance(message, AssistantMessage)
            else {}
        ),
        "uuid": str(uuid.uuid4()),
        "timestamp": timestamp(),
        **({"isMeta": True} if isinstance(message, UserMessage) and message.by else {}),
    }


def _message(message: Message, facts: RunFacts, usage: Usage) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        text = [{"type": "text", "text": message.text}] if message.text else []
        calls = [_call(call, facts) for call in message.calls]
        return {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "role": "assistant",
            "type": "message",
            "model": facts.model,
            "content": [*text, *calls],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {
                # There, cached tokens are counted beside the input; here, they are part of it.
                "input_tokens": usage.input_tokens
                - usage.cache_read_tokens
                - usage.cache_write_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
            },
        }
    if isinstance(message, ToolMessage):
        result = {
            "type": "tool_result",
            "tool_use_id": message.call_id,
            "content": message.text,
            "is_error": message.is_error,
        }
        return {"role": "user", "content": [result]}
    return {"role": "user", "content": message.text}


def _call(call: ToolCall, facts: RunFacts) -> dict[str, Any]:
    shown = _NAMES.show(call, facts.cwd)
    return {"type": "tool_use", "id": call.id, "name": shown.name, "input": shown.input}
