"""The conversation as a file of JSON lines, in the form in which scripts for other agents read it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.command_hooks.dialects.base import as_uuid
from hookline.command_hooks.dialects.responses import response_of
from hookline.command_hooks.tool_names import Bridge
from hookline.state import (
    NO_USAGE,
    AgentState,
    AssistantMessage,
    Log,
    Message,
    StepType,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

_KEPT = 30 * 24 * 3600.0
"""Seconds that a transcript is kept after the last word."""
_LONGEST_NAME = 200


class _Known(NamedTuple):
    """What a state says of its messages besides their words."""

    usages: Mapping[int, Usage]
    """By the place of the message."""
    responses: Mapping[str, Any]
    """By the call."""


_NOTHING = _Known({}, {})


class Transcripts:
    """One file for each conversation, at a path that stays the same. What is settled is written once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: dict[Path, tuple[Log[Message], int, str | None]] = {}
        """By file: the messages that are in it, where they end, and the id of the last of their lines."""
        self._lock = threading.Lock()

    def path(self, state: AgentState) -> Path:
        """The file of a conversation."""
        name = state.session_id if state.parent_run_id is None else state.run_id
        return self.directory / f"{as_uuid(name or state.run_id or 'conversation')}.jsonl"

    def write(self, state: AgentState, place: Place, turn: Sequence[Message] = ()) -> Path:
        """Bring a file up to date. `turn` is what is said and not settled yet: it is written after the rest."""
        path = self.path(state)
        with self._lock:
            self._bring_up(path, state, place, turn)
        return path

    def _bring_up(
        self, path: Path, state: AgentState, place: Place, turn: Sequence[Message]
    ) -> None:
        before, end, last = self._written.get(path, (Log[Message](), 0, None))
        added = state.messages.since(before) if end else None
        if added is None:
            added, end, last = tuple(state.messages), 0, None
        if not self._written:
            self._clear_up()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(end)
            file.seek(end)
            head, last = (b"", last) if end else self._head(place)
            text, last = self._settled(added, state, place, last)
            file.write(head + text)
            self._written[path] = (state.messages, file.tell(), last)
            file.write(self._passing(turn, place, last))

    def _head(self, place: Place) -> tuple[bytes, str | None]:  # noqa: ARG002 - for the forms that have one
        """What a file begins with, and the id of its last line."""
        return b"", None

    def _settled(
        self, messages: Sequence[Message], state: AgentState, place: Place, last: str | None
    ) -> tuple[bytes, str | None]:
        """The lines of messages, after the one with this id, and the id of the last of them."""
        known = _Known(_usages(messages, state), _responses(messages, state, place))
        return _lines(messages, place, last, known)

    def _passing(self, turn: Sequence[Message], place: Place, last: str | None) -> bytes:
        """The lines of what is said and not settled yet."""
        return _lines(turn, place, last)[0]

    def _clear_up(self) -> None:
        """Make the directory, and take out what nobody has written to for a month."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.directory.rglob("*.jsonl"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _KEPT:
                    path.unlink()

    def forget(self, state: AgentState) -> None:
        """A conversation is over: the file stays."""
        self._written.pop(self.path(state), None)


def _usages(messages: Sequence[Message], state: AgentState) -> dict[int, Usage]:
    """What the model used for its messages, by their place: the last of them belongs to the last step, and so on."""
    places = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    found: dict[int, Usage] = {}
    for step in reversed(state.steps):
        if not places:
            break
        if step.type is not StepType.INCOMPLETE:
            found[places.pop()] = step.usage
    return found


def _responses(messages: Sequence[Message], state: AgentState, place: Place) -> dict[str, Any]:
    """What came of calls, in the form that hooks after a tool are told, by the ids of the calls."""
    wanted = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    found: dict[str, Any] = {}
    for step in reversed(state.steps):
        if wanted <= found.keys():
            break
        for call, result in zip(step.calls, step.results, strict=False):
            if call.id in wanted and result.is_success:
                path = Bridge.path(call, place.cwd)
                found.setdefault(call.id, response_of(call, result, path))
    return found


def _lines(
    messages: Sequence[Message], place: Place, last: str | None, known: _Known = _NOTHING
) -> tuple[bytes, str | None]:
    """Compact JSON: scripts look for `"role":"assistant"` without a blank. Each line names the one before it.

    `last` is the id of the line that these come after; given back is the id of the last of them.
    """
    text = ""
    for at, message in enumerate(messages):
        entry = {"parentUuid": last, **_entry(message, place, known.usages.get(at, NO_USAGE))}
        if isinstance(message, ToolMessage):
            # Scripts tell a tool's words from the user's by this key.
            entry["toolUseResult"] = known.responses.get(message.call_id, f"Error: {message.text}")
        last = entry["uuid"]
        text += json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
    return text.encode(errors="replace"), last


def _entry(message: Message, place: Place, usage: Usage) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {
        "isSidechain": False,
        "userType": "external",
        "cwd": place.cwd,
        "sessionId": place.session_uuid,
        "version": "hookline",
        "type": "assistant" if isinstance(message, AssistantMessage) else "user",
        "message": _message(message, place, usage),
        **(
            {"requestId": f"req_{uuid.uuid4().hex[:24]}"}
            if isinstance(message, AssistantMessage)
            else {}
        ),
        "uuid": str(uuid.uuid4()),
        "timestamp": now.replace("+00:00", "Z"),
        **({"isMeta": True} if isinstance(message, UserMessage) and message.by else {}),
    }


def _message(message: Message, place: Place, usage: Usage) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        text = [{"type": "text", "text": message.text}] if message.text else []
        calls = [_call(call, place) for call in message.calls]
        return {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "role": "assistant",
            "type": "message",
            "model": place.model,
            "content": [*text, *calls],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {
                # Elsewhere what came from a cache is counted beside the input, here it is a part of it.
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


def _call(call: ToolCall, place: Place) -> dict[str, Any]:
    shown = DIALECTS["claude"].show(call, place)
    return {"type": "tool_use", "id": call.id, "name": shown.name, "input": shown.input}


def default_directory(project: Path) -> Path:
    """Where a project's transcripts are kept unless somebody says otherwise. Scripts read its name off the path."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    name = re.sub(r"[^A-Za-z0-9]", "-", str(project))[-_LONGEST_NAME:]
    with contextlib.suppress(RuntimeError):
        return Path(base).expanduser() / "hookline" / "transcripts" / name
    return Path("/tmp") / f"hookline-{os.getuid()}" / "transcripts" / name
