"""The conversation as Gemini CLI records it: its session in the first line, then a line for each message."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.command_hooks.dialects.base import as_uuid
from hookline.state import AgentState, AssistantMessage, Message, ToolCall, ToolMessage


class GeminiTranscripts:
    """One file for each conversation. A call is on the line of the message that made it, with what came of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._known: dict[Path, tuple[object, ...]] = {}
        """What each file was written from."""
        self._times: dict[Path, list[str]] = {}
        """When each message was first seen."""
        self._lock = threading.Lock()

    def path(self, state: AgentState) -> Path:
        """The file of a conversation."""
        name = state.session_id if state.parent_run_id is None else state.run_id
        return self.directory / "chats" / f"session-{as_uuid(name or state.run_id)}.jsonl"

    def write(self, state: AgentState, place: Place, turn: Sequence[Message] = ()) -> Path:
        """Bring a file up to date, if there is anything new. `turn` is what is said and not settled yet."""
        path = self.path(state)
        with self._lock:
            known = (state.messages, *turn)
            if self._known.get(path) != known or not path.exists():
                self._put(path, place, (*state.messages, *turn))
                self._known[path] = known
        return path

    def forget(self, state: AgentState) -> None:
        """A conversation is over: the file stays."""
        self._known.pop(self.path(state), None)
        self._times.pop(self.path(state), None)

    def _put(self, path: Path, place: Place, messages: Sequence[Message]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        times = self._times.setdefault(path, [])
        times.extend([now] * (len(messages) - len(times)))
        session = {
            "sessionId": place.session_uuid,
            "projectHash": hashlib.sha256(place.project.encode()).hexdigest(),
            "startTime": times[0] if times else now,
            "lastUpdated": now,
            "kind": "main",
        }
        lines = [session, *_records(messages, place, times)]
        text = "".join(
            json.dumps(each, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
            for each in lines
        )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode(errors="replace"))
        beside.replace(path)


def _records(messages: Sequence[Message], place: Place, times: list[str]) -> list[dict[str, Any]]:
    results = {each.call_id: each for each in messages if isinstance(each, ToolMessage)}
    made = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        name = uuid.uuid5(uuid.UUID(place.session_uuid), str(at))
        record: dict[str, Any] = {"id": str(name), "timestamp": times[at]}
        if isinstance(message, AssistantMessage):
            record |= {"type": "gemini", "content": message.text, "thoughts": []}
            record |= {"tokens": None, "model": place.model}
            calls = [_call(each, results.get(each.id), place, times[at]) for each in message.calls]
            if calls:
                record["toolCalls"] = calls
        else:
            record |= {"type": "user", "content": [{"text": message.text}]}
        made.append(record)
    return made


def _call(call: ToolCall, result: ToolMessage | None, place: Place, when: str) -> dict[str, Any]:
    shown = DIALECTS["gemini"].show(call, place)
    made = {"id": call.id, "name": shown.name, "args": shown.input, "timestamp": when}
    if result is None:
        return {**made, "status": "executing"}
    response = {"id": call.id, "name": shown.name, "response": {"output": result.text}}
    return {
        **made,
        "result": [{"functionResponse": response}],
        "status": "error" if result.is_error else "success",
        "resultDisplay": result.text,
    }
