"""The conversation as a file of JSON lines, which hooks read. Each form has a subclass, in its dialect."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from hookline.command_hooks.handler import RunFacts, as_uuid, json_line
from hookline.state import AgentState, Log, Message

_MONTH = 30 * 24 * 3600.0
"""Seconds that a transcript is kept after the last line."""
_LONGEST_NAME = 200

Line: TypeAlias = dict[str, Any]


class Transcripts:
    """One file for each conversation, at a path that stays the same. What is settled is written once."""

    suffix: ClassVar[str] = ".jsonl"
    id_key: ClassVar[str] = ""
    """The key of a line's own id, where lines have one."""
    parent_key: ClassVar[str] = ""
    """The key in which a line names the one before it."""
    is_written_anew: ClassVar[bool] = False
    """The whole file is written each time: what is settled may change."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: dict[Path, tuple[Log[Message], int, str | None]] = {}
        """By file: the messages in it, where they end, and the id of their last line."""
        self._lock = threading.Lock()

    def path(self, state: AgentState) -> Path:
        """The file of a conversation."""
        name = state.session_id if state.parent_run_id is None else state.run_id
        return self.directory / f"{as_uuid(name or state.run_id or 'conversation')}{self.suffix}"

    def write(self, state: AgentState, facts: RunFacts, turn: Sequence[Message] = ()) -> Path:
        """Bring a file up to date. `turn` is what is said and not settled yet: it is written after the rest."""
        path = self.path(state)
        with self._lock:
            self._update(path, state, facts, turn)
        return path

    def _update(
        self, path: Path, state: AgentState, facts: RunFacts, turn: Sequence[Message]
    ) -> None:
        before, end, last = self._written.get(path, (Log[Message](), 0, None))
        added = state.messages.since(before) if end else None
        if added is None or self.is_written_anew:
            added, end, last = tuple(state.messages), 0, None
        if path not in self._written:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._written:
            self._remove_old()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(end)
            file.seek(end)
            head, last = (b"", last) if end else self._encode(self.head(facts), None)
            text, last = self._encode(self.lines(added, facts, state), last)
            file.write(head + text)
            self._written[path] = (state.messages, file.tell(), last)
            file.write(self._encode(self.lines(turn, facts, None), last)[0])

    def head(self, facts: RunFacts) -> Iterable[Line]:  # noqa: ARG002 - for the forms that have one
        """The lines at the beginning of a file."""
        return ()

    def lines(
        self,
        messages: Sequence[Message],
        facts: RunFacts,
        state: AgentState | None,  # noqa: ARG002 - as above
    ) -> Iterable[Line]:
        """The lines of messages. There is no state for what is not settled."""
        for message in messages:
            yield from self.lines_of(message, facts)

    def lines_of(self, message: Message, facts: RunFacts) -> Iterable[Line]:
        """The lines of one message, where they do not depend on others."""
        raise NotImplementedError

    def _encode(self, lines: Iterable[Line], last: str | None) -> tuple[bytes, str | None]:
        """The lines as JSON, each with the id of the one before it, and the id of the last of them."""
        text = b""
        for line in lines:
            if self.id_key in line:
                line[self.parent_key], last = last, line[self.id_key]
            text += json_line(line)
        return text, last

    def _remove_old(self) -> None:
        """Remove what nobody has written to for a month."""
        for path in self.directory.rglob("*.jsonl"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _MONTH:
                    path.unlink()

    def forget(self, state: AgentState) -> None:
        """A conversation is over. The file stays."""
        self._written.pop(self.path(state), None)


def timestamp() -> str:
    """Now, as most agents write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def default_directory(project: Path) -> Path:
    """The usual directory of a project's transcripts. Scripts read the project's name off the path."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    name = re.sub(r"[^A-Za-z0-9]", "-", str(project))[-_LONGEST_NAME:]
    with contextlib.suppress(RuntimeError):
        return Path(base).expanduser() / "hookline" / "transcripts" / name
    return Path("/tmp") / f"hookline-{os.getuid()}" / "transcripts" / name
