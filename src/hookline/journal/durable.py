"""The small interface the loop is written against. Stores implement it; the loop never knows which one it has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from hookline.journal.record import Record
from hookline.journal.views import with_final_text as retold
from hookline.state import Decision

Listener = Callable[[Record], object]
"""Hears every record as it happens. What it returns is ignored; what it raises never reaches the run."""

_log = logging.getLogger("hookline")


class Durable(Protocol):
    """One run's record. Approvals are waited for under their id."""

    @property
    def records(self) -> Sequence[Record]:
        """What has happened so far."""
        ...

    @property
    def append(self) -> Callable[[Record], None]:
        """Writes a record and tells the listeners."""
        ...

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens."""
        ...

    def tell(self, record: Record) -> None:
        """Tell the listeners without writing: for the deltas between records."""
        ...

    @property
    def commit(self) -> Callable[[], Awaitable[None]] | None:
        """Waits until everything that was appended is safe; None when nothing ever is."""
        ...

    def flush(self) -> None:
        """Begin to write what was appended, without waiting for it."""
        ...

    def flush_soon(self) -> None:
        """The same when the run next waits for something, which is soon: for what more will follow at once."""
        ...

    def close(self) -> None:
        """The run is over, or paused: let others have it."""
        ...

    def hold(self) -> None:
        """Tell the listeners nothing more for now: an answer is on record that a hook may still withhold."""
        ...

    def release(self, text: str) -> None:
        """Tell the listeners what they have missed; where the answer was, they are told this text."""
        ...

    async def wait(self, key: str) -> Decision | None:
        """The outside answer under this key; None when there is none yet, and the run must pause."""
        ...

    def for_child(self, run_id: str, listeners: tuple[Listener, ...]) -> Durable:
        """The record of a child run. Who listens to the parent hears the child too."""
        ...


class InMemory:
    """The record of one run in memory: nothing on disk, nothing to recover. The library's default."""

    __slots__ = ("_answers", "_held", "_listeners", "append", "records")
    append: Callable[[Record], None]
    """Write a record and tell the listeners. Without listeners it is the list's own, which costs nothing."""
    commit: Callable[[], Awaitable[None]] | None = None

    def __init__(
        self, listeners: tuple[Listener, ...] = (), answers: Mapping[str, Decision] | None = None
    ) -> None:
        self.records: list[Record] = []
        self.append = self._append_and_tell if listeners else self.records.append
        self._listeners = listeners
        self._held: list[Record] | None = None
        self._answers = answers or {}

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens."""
        return bool(self._listeners)

    def _append_and_tell(self, record: Record) -> None:
        self.records.append(record)
        self.tell(record)

    def tell(self, record: Record) -> None:
        """Tell the listeners without writing: for the deltas between records."""
        if self._held is not None:
            self._held.append(record)
            return
        for listener in self._listeners:
            try:
                listener(record)
            except (Exception, asyncio.CancelledError, SystemExit):
                # It awaits nothing, so a CancelledError is its own too: of a future it has looked at, say.
                _log.exception(
                    "an event listener failed on a '%s' record; the run goes on", record.type
                )

    def flush(self) -> None:
        """There is nowhere to write to."""

    def flush_soon(self) -> None:
        """As little soon as now."""

    def close(self) -> None:
        """Nobody else could have it."""

    def hold(self) -> None:
        """Keep from the listeners what happens from here on."""
        if self._listeners and self._held is None:
            self._held = []

    def release(self, text: str) -> None:
        """Tell the listeners what they have missed, with this text as the answer."""
        held, self._held = self._held, None
        for record in held or ():
            self.tell(retold(record, text))

    async def wait(self, key: str) -> Decision | None:
        """The answer handed to `resume`, if there is one."""
        return self._answers.get(key)

    def for_child(self, run_id: str, listeners: tuple[Listener, ...]) -> InMemory:  # noqa: ARG002 - the protocol's signature
        """A record of its own, with the parent's listeners and answers."""
        return InMemory((*self._listeners, *listeners), self._answers)
