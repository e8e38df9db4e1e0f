"""The interface of a journal store. Another kind of store implements `JournalStore` and `Claim`, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from hookline.journal.inbox import InboxMessage
from hookline.journal.record import EarlierRun, Record
from hookline.journal.run_info import RunInfo, SessionInfo
from hookline.state import RunStatus


class Claim(Protocol):
    """A run that only this process may write, until it is given back or this process dies."""

    @property
    def run_id(self) -> str:
        """The run."""
        ...

    def write(self, records: Sequence[Record]) -> Future[None]:
        """Write records, in order, or queue them. The future is done when they are committed, or fails.

        Records of one call are written together or not at all. After a failure nothing more is written.
        """
        ...

    def give_back(self) -> None:
        """Write what is queued, then let others have the run."""
        ...


class JournalStore(Protocol):
    """Many runs, each an append-only list of records."""

    def claim(self, run_id: str) -> Claim:
        """Take a run, new or known, for this process. Raises RunInUseError when another live process has it."""
        ...

    def read(self, run_id: str) -> list[Record]:
        """The records of a run, checked. Raises JournalError for torn or edited records, UnknownRunError for none."""
        ...

    def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        """The records that a later run continues. Raises JournalError when they are not there, or not the same."""
        ...

    def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        """What a later run names to continue a run: all of it, or its first records. Raises UnknownRunError.

        The head is a digest of the records. It changes when one of them does.
        """
        ...

    def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """The recorded runs, newest first, without the records of sessions."""
        ...

    def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first."""
        ...

    def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        """Delete a run and its children, or a session and its runs, all or none. Returns their ids.

        Raises JournalError when later runs continue one of them, unless these are deleted too.
        """
        ...

    def post(self, message: InboxMessage) -> None:
        """Keep a message for a run, until the run is deleted. `inbox.is_new` says whether it is one.

        Raises UnknownRunError when there is no such run, and UsageError for a second answer that differs.
        """
        ...

    def inbox(self, *run_ids: str) -> list[InboxMessage]:
        """The messages for these runs, in order. Asked twice a second while a run is driven: it must be quick."""
        ...

    def close(self) -> None:
        """Write what is queued, and close the file."""
        ...
