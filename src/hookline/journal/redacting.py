"""A record of a run that is told nothing it should not know: what is written, and what listeners hear, is redacted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from hookline.journal.durable import Durable, Listener
from hookline.journal.record import Record
from hookline.state import Decision, Log

Redact = Callable[[Any], Any]
"""Gives a JSON value without secrets: the very same object if there were none."""
RedactContent = Callable[..., Any]
"""The same for what models and tools write: `(value, before="")`, with the text that came directly before."""


class Redacting:
    """A run's record behind a door. The last one: hooks have taken out most before it gets here."""

    __slots__ = ("_inner", "_redact", "append", "commit")

    def __init__(self, inner: Durable, redact: Redact) -> None:
        self._inner = inner
        self._redact = redact
        write = inner.append
        self.append: Callable[[Record], None] = lambda record: write(_without(record, redact))
        self.commit: Callable[[], Awaitable[None]] | None = inner.commit

    @property
    def records(self) -> Sequence[Record]:
        """What has happened so far."""
        return self._inner.records

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens."""
        return self._inner.is_heard

    def tell(self, record: Record) -> None:
        """Tell the listeners without writing."""
        self._inner.tell(_without(record, self._redact))

    def flush(self) -> None:
        """Begin to write what was appended."""
        self._inner.flush()

    def flush_soon(self) -> None:
        """The same, soon."""
        self._inner.flush_soon()

    def close(self) -> None:
        """Let others have the run."""
        self._inner.close()

    def hold(self) -> None:
        """Tell the listeners nothing more for now."""
        self._inner.hold()

    def release(self, text: str) -> None:
        """Tell the listeners what they have missed."""
        self._inner.release(self._redact(text))

    async def wait(self, key: str) -> Decision | None:
        """The outside answer under this key."""
        return await self._inner.wait(key)

    def for_child(self, run_id: str, listeners: tuple[Listener, ...]) -> Redacting:
        """The record of a child run, behind the same door."""
        return Redacting(self._inner.for_child(run_id, listeners), self._redact)


def _without(record: Record, redact: Redact) -> Record:
    plain = msgspec.to_builtins(record, enc_hook=_plain)
    redacted = redact(plain)
    return record if redacted is plain else msgspec.convert(redacted, type(record))


def _plain(value: object) -> object:
    """What is not JSON in what a tool reports while it runs is told as text."""
    if isinstance(value, str):
        return str.__str__(value)
    return list(value) if isinstance(value, Log) else repr(value)
