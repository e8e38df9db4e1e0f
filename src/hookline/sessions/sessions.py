"""The sessions of a journal."""

from __future__ import annotations

from hookline.definition import SYSTEM_CLOCK, Clock
from hookline.errors import UsageError
from hookline.journal import JournalStore, SessionInfo, SessionStatus
from hookline.sessions.naming import checked_id, checked_title, new_id
from hookline.sessions.session import Session
from hookline.sessions.stream import Stream


class Sessions:
    """All sessions that are kept in a journal, beside its runs: `Sessions(SQLiteJournal(path))`."""

    def __init__(self, journal: JournalStore, *, clock: Clock = SYSTEM_CLOCK) -> None:
        for method in ("claim", "read", "sessions", "delete"):
            if isinstance(journal, type) or not callable(getattr(journal, method, None)):
                raise UsageError(
                    f"sessions cannot be kept in {journal!r}.",
                    remedy="Use SQLiteJournal(path), or a store with claim, read, sessions and delete.",
                )
        self._journal = journal
        self._clock = clock

    def create(self, *, title: str = "", id: str | None = None) -> Session:
        """A new session. Without a title it is called after its first prompt."""
        stream = self._stream(new_id() if id is None else checked_id(id))
        return Session(self._journal, stream.create(title=checked_title(title)), self._clock)

    def get(self, id: str) -> Session:
        """A session by its id, as it is now."""
        return Session(self._journal, self._stream(checked_id(id)).read(), self._clock)

    def list(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions there are, the one that was used last first."""
        listed = self._journal.sessions(limit=limit)
        return [info for info in listed if info.status is not SessionStatus.DELETED]

    def _stream(self, session_id: str) -> Stream:
        return Stream(self._journal, session_id, self._clock)
