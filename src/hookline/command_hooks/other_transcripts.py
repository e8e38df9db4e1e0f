"""The conversation as Codex, Cursor and Copilot keep it: each has lines of JSON in a form of its own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.command_hooks.texts import is_labelled
from hookline.command_hooks.transcript import Transcripts
from hookline.state import (
    AgentState,
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

Line: TypeAlias = dict[str, Any]


class Form(NamedTuple):
    """How an agent writes a conversation down."""

    head: Callable[[Place], Iterator[Line]]
    """What the file begins with."""
    lines: Callable[[Message, Place], Iterator[Line]]


class OtherTranscripts(Transcripts):
    """One file for each conversation, beside the one in Claude's form."""

    def __init__(self, directory: Path, dialect: str) -> None:
        super().__init__(directory)
        self._dialect = dialect

    def path(self, state: AgentState) -> Path:
        """The file of a conversation."""
        path = super().path(state)
        return path.with_name(f"{path.stem}.{self._dialect}.jsonl")

    def _head(self, place: Place) -> tuple[bytes, str | None]:
        return _text(FORMS[self._dialect].head(place), None)

    def _settled(
        self,
        messages: Sequence[Message],
        state: AgentState,  # noqa: ARG002 - what Claude's form says besides is not in these
        place: Place,
        last: str | None,
    ) -> tuple[bytes, str | None]:
        lines = FORMS[self._dialect].lines
        return _text((line for each in messages for line in lines(each, place)), last)

    def _passing(self, turn: Sequence[Message], place: Place, last: str | None) -> bytes:
        lines = FORMS[self._dialect].lines
        return _text((line for each in turn for line in lines(each, place)), last)[0]


def _text(lines: Iterable[Line], last: str | None) -> tuple[bytes, str | None]:
    """Compact JSON. A line with an id names the one before it; given back is the id of the last."""
    text = ""
    for line in lines:
        if "id" in line:
            line["parentId"], last = last, line["id"]
        text += json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
    return text.encode(errors="replace"), last


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- Codex --------------------------------------------------------------------------------------------


def _codex(kind: str, payload: Line) -> Line:
    return {"timestamp": _now(), "type": kind, "payload": payload}


def _codex_head(place: Place) -> Iterator[Line]:
    about = {"id": place.session_uuid, "timestamp": _now(), "cwd": place.cwd}
    yield _codex("session_meta", {**about, "originator": "hookline", "cli_version": "hookline"})


def _codex_lines(message: Message, place: Place) -> Iterator[Line]:
    if isinstance(message, ToolMessage):
        said = {"call_id": message.call_id, "output": message.text}
        yield _codex("response_item", {"type": "function_call_output", **said})
        return
    is_model = isinstance(message, AssistantMessage)
    if message.text:
        content = [{"type": "output_text" if is_model else "input_text", "text": message.text}]
        role = "assistant" if is_model else "user"
        yield _codex("response_item", {"type": "message", "role": role, "content": content})
    if is_model and message.text:
        yield _codex("event_msg", {"type": "agent_message", "message": message.text})
    if isinstance(message, UserMessage) and not message.by:
        yield _codex("event_msg", {"type": "user_message", "message": message.text})
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        yield _codex("response_item", _codex_call(call, place))


def _codex_call(call: ToolCall, place: Place) -> Line:
    shown = DIALECTS["codex"].show(call, place)
    about = {"call_id": call.id, "name": shown.name}
    if shown.name == "apply_patch":
        return {"type": "custom_tool_call", **about, "input": shown.input["command"]}
    given = shown.input
    if shown.name == "Bash":
        about["name"], given = "exec_command", {"cmd": given.get("command", "")}
    return {"type": "function_call", **about, "arguments": json.dumps(given, default=str)}


# --- Cursor -------------------------------------------------------------------------------------------


def _cursor_head(_place: Place) -> Iterator[Line]:
    return iter(())


def _cursor_lines(message: Message, place: Place) -> Iterator[Line]:
    """What people and the model say, and which tools it calls; what these give, and what hooks say, is not kept."""
    if isinstance(message, AssistantMessage):
        calls = [DIALECTS["cursor"].show(call, place) for call in message.calls]
        said = [{"type": "text", "text": message.text}] if message.text else []
        used = [{"type": "tool_use", "name": shown.name, "input": shown.input} for shown in calls]
        yield {"role": "assistant", "message": {"content": [*said, *used]}}
    elif isinstance(message, UserMessage) and not is_labelled(message):
        asked = f"<user_query>\n{message.text}\n</user_query>"
        text = message.text if message.by else asked
        yield {"role": "user", "message": {"content": [{"type": "text", "text": text}]}}


# --- Copilot ------------------------------------------------------------------------------------------


def _copilot(kind: str, data: Line) -> Line:
    return {"type": kind, "data": data, "id": str(uuid.uuid4()), "timestamp": _now()}


def _copilot_head(place: Place) -> Iterator[Line]:
    about = {"sessionId": place.session_id, "version": 1, "producer": "hookline"}
    yield _copilot("session.start", {**about, "startTime": _now(), "context": {"cwd": place.cwd}})


def _copilot_lines(message: Message, place: Place) -> Iterator[Line]:
    if isinstance(message, ToolMessage):
        given = {"toolCallId": message.call_id, "success": not message.is_error}
        yield _copilot("tool.execution_complete", {**given, "result": {"content": message.text}})
    elif isinstance(message, UserMessage):
        yield _copilot("user.message", {"content": message.text, "attachments": []})
    elif isinstance(message, AssistantMessage):
        calls = [(call.id, DIALECTS["copilot"].show(call, place)) for call in message.calls]
        asked = [
            {"toolCallId": each, "name": shown.name, "arguments": shown.input}
            for each, shown in calls
        ]
        yield _copilot("assistant.message", {"content": message.text, "toolRequests": asked})
        for each, shown in calls:
            begun = {"toolCallId": each, "toolName": shown.name, "arguments": shown.input}
            yield _copilot("tool.execution_start", begun)


FORMS = {
    "codex": Form(_codex_head, _codex_lines),
    "cursor": Form(_cursor_head, _cursor_lines),
    "copilot": Form(_copilot_head, _copilot_lines),
}


def beside(transcripts: Transcripts) -> dict[str, OtherTranscripts]:
    """The transcripts of the dialects that have a form of their own, in the same directory."""
    return {name: OtherTranscripts(transcripts.directory, name) for name in FORMS}
