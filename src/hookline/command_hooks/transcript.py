"""The conversation as a file of JSON lines, in the form in which scripts for other agents read it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.state import (
    AgentState,
    AssistantMessage,
    Log,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_KEPT = 30 * 24 * 3600.0
"""Seconds that a transcript is kept after the last word."""
_SAFE = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Transcripts:
    """One file for each conversation, at a path that stays the same. What is settled is written once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: dict[Path, tuple[Log[Message], int]] = {}
        """By file: the messages that are in it, and where they end."""
        self._lock = threading.Lock()

    def path(self, state: AgentState) -> Path:
        """The file of a conversation."""
        name = state.session_id if state.parent_run_id is None else state.run_id
        name = name or state.run_id or "conversation"
        if not _SAFE.fullmatch(name):
            name = f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:60]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        return self.directory / f"{name}.jsonl"

    def write(self, state: AgentState, place: Place, turn: Sequence[Message] = ()) -> Path:
        """Bring a file up to date. `turn` is what is said and not settled yet: it is written after the rest."""
        path = self.path(state)
        with self._lock:
            self._bring_up(path, state, place, turn)
        return path

    def _bring_up(
        self, path: Path, state: AgentState, place: Place, turn: Sequence[Message]
    ) -> None:
        before, end = self._written.get(path, (Log[Message](), 0))
        added = state.messages.since(before) if end else None
        if added is None:
            added, end = tuple(state.messages), 0
        if not self._written:
            self._clear_up()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(end)
            file.seek(end)
            file.write(_lines(added, place))
            self._written[path] = (state.messages, file.tell())
            file.write(_lines(turn, place))

    def _clear_up(self) -> None:
        """Make the directory, and take out what nobody has written to for a month."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.directory.glob("*.jsonl"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _KEPT:
                    path.unlink()

    def forget(self, state: AgentState) -> None:
        """A conversation is over: the file stays."""
        self._written.pop(self.path(state), None)


def _lines(messages: Sequence[Message], place: Place) -> bytes:
    """Compact JSON: scripts look for `"role":"assistant"` without a blank."""
    made = (
        json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        for line in _entries(messages, place)
    )
    return "".join(f"{line}\n" for line in made).encode(errors="replace")


def _entries(messages: Sequence[Message], place: Place) -> Iterator[dict[str, Any]]:
    for message in messages:
        kind = "assistant" if isinstance(message, AssistantMessage) else "user"
        yield {
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "cwd": place.cwd,
            "sessionId": place.session_id,
            "version": "hookline",
            "type": kind,
            "message": _message(message, place),
            "uuid": str(uuid.uuid4()),
            "timestamp": datetime.now(UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            **({"isMeta": True} if isinstance(message, UserMessage) and message.by else {}),
        }


def _message(message: Message, place: Place) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        text = [{"type": "text", "text": message.text}] if message.text else []
        calls = [_call(call, place) for call in message.calls]
        return {
            "role": "assistant",
            "type": "message",
            "model": place.model,
            "content": [*text, *calls],
            "stop_reason": "tool_use" if calls else "end_turn",
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


def default_directory() -> Path:
    """Where transcripts are kept unless somebody says otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    with contextlib.suppress(RuntimeError):
        return Path(base).expanduser() / "hookline" / "transcripts"
    return Path("/tmp") / f"hookline-{os.getuid()}" / "transcripts"
