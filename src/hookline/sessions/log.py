"""The records of one session: reading them, and adding to them while everybody else is kept off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hookline.definition import Clock
from hookline.errors import (
    RunInUseError,
    SessionConflictError,
    UnknownRunError,
    UnknownSessionError,
    UsageError,
)
from hookline.journal import (
    Claim,
    JournalStore,
    Listener,
    Record,
    SessionCleared,
    SessionCreated,
    SessionRewound,
    SessionRunAdded,
    SessionRunEnded,
    SessionStatusChanged,
    SessionStory,
    SessionTitled,
    Stored,
    fold_session,
    stream_of,
)


class HeldSession:
    """A session that nobody else can change meanwhile."""

    def __init__(
        self, journal: JournalStore, claim: Claim, records: list[Record], clock: Clock
    ) -> None:
        self.journal = journal
        self._claim = claim
        self._records = records
        self._clock = clock
        self._durable: Stored | None = None

    @property
    def story(self) -> SessionStory:
        """The session as it is now."""
        return fold_session(self._records)

    def add(self, kind: type[Record], **fields: Any) -> None:
        """Add a record, and wait until it is written."""
        records = self._make((kind, fields))
        self._claim.write(records).result()
        self._records += records

    async def save(self, *made: tuple[type[Record], dict[str, Any]]) -> None:
        """Add records, together, and wait until they are written."""
        records = self._make(*made)
        await asyncio.wrap_future(self._claim.write(records))
        self._records += records

    def _make(self, *made: tuple[type[Record], dict[str, Any]]) -> list[Record]:
        at, first = self._clock.now(), len(self._records)
        return [
            kind(run_id=self._claim.run_id, seq=first + number, at=at, **fields)
            for number, (kind, fields) in enumerate(made)
        ]

    def durable(self, listeners: tuple[Listener, ...]) -> Stored:
        """The session's records in the place of a run's, for hooks that are called between runs."""
        # Kept, because it gives the claim back when it is garbage.
        self._durable = Stored(self.journal, self._claim, self._records, listeners)
        return self._durable


class SessionLog:
    """The records of a session in a journal."""

    def __init__(self, journal: JournalStore, session_id: str, clock: Clock) -> None:
        self.journal = journal
        self.session_id = session_id
        self._clock = clock

    def read(self) -> SessionStory:
        """The session as it is in the journal now."""
        return fold_session(self._records())

    def _records(self) -> list[Record]:
        try:
            return self.journal.read(stream_of(self.session_id))
        except UnknownRunError:
            raise UnknownSessionError(
                f"there is no session '{self.session_id}' in the journal; it may have been deleted.",
                remedy="sessions.list() shows those there are, sessions.create() makes a new one.",
            ) from None

    def create(self, **fields: Any) -> SessionStory:
        """Create the session. Raises when there is one with that id."""
        with self._claimed() as claim:
            try:
                self._records()
            except UnknownSessionError:
                held = HeldSession(self.journal, claim, [], self._clock)
                held.add(SessionCreated, session_id=self.session_id, **fields)
                return held.story
        raise UsageError(
            f"there is a session '{self.session_id}' already.",
            remedy="Continue it: sessions.get(id). Or give the new one another id=.",
        )

    @contextmanager
    def hold(self, known: SessionStory) -> Iterator[HeldSession]:
        """Keep others off the session. Raises when somebody else has it, or has changed it since it was read here."""
        with self._claimed() as claim:
            records = self._records()
            if len(records) != known.version:
                raise _overtaken(known, records)
            yield HeldSession(self.journal, claim, records, self._clock)

    @contextmanager
    def _claimed(self) -> Iterator[Claim]:
        try:
            claim = self.journal.claim(stream_of(self.session_id))
        except RunInUseError as error:
            raise SessionConflictError(
                f"session '{self.session_id}' is being run or changed by someone else now ({error.message}).",
                remedy="Wait until they are done and look at it again with session.refresh(); "
                "or fork it: session.fork().",
            ) from None
        try:
            yield claim
        finally:
            claim.give_back()


def _overtaken(known: SessionStory, records: list[Record]) -> SessionConflictError:
    since = ", ".join(filter(None, map(_describe, records[known.version :])))
    return SessionConflictError(
        f"session '{known.session_id}' has changed since it was read here: version {known.version} "
        f"was read, and it is at version {len(records)} ({since or 'it is another one'}). Nothing was done.",
        remedy="Look at it again with session.refresh(), and repeat what should still be done.",
    )


def _describe(record: Record) -> str:
    match record:
        case SessionRunAdded():
            return f"run '{record.member}' {'was resumed' if record.resumed else 'was added'}"
        case SessionRunEnded():
            return f"run '{record.member}' ended or paused"
        case SessionRewound():
            return f"it was rewound to step {record.to}"
        case SessionCleared():
            return "it was cleared"
        case SessionTitled():
            return "it was renamed"
        case SessionStatusChanged():
            return f"it is {record.status.value}"
    return ""
