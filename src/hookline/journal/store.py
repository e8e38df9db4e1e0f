"""The interface of a journal store: another kind of store implements `JournalStore` and `Claim`.

What may wait is async; `hookline.testing.check_store` finds out whether a store keeps what is promised here. Writing
is not async: a step hands its records over and continues, and waits for the future where they must be safe.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, Self

from hookline._sync import sync_form
from hookline.journal.inbox import InboxMessage
from hookline.journal.record import EarlierRun, Record
from hookline.journal.run_info import RunInfo, SessionInfo
from hookline.state import RunStatus

if TYPE_CHECKING:
    from hookline.journal.chain import CheckReport


class Claim(Protocol):
    """A run that only this process may write, until it is given back or this process dies."""

    @property
    def run_id(self) -> str:
        """The run."""
        ...

    @property
    def steps_before_loss(self) -> int | None:
        """How many steps the run may have made before its end was lost and that was accepted; None if nothing was.

        What a step up to there may have done without a record is in doubt when the run continues.
        """
        ...

    def write(self, records: Sequence[Record]) -> Future[None]:
        """Write records, in order, or queue them. The future is done when they are committed, or fails.

        Records of one call are written together or not at all. After a failure nothing more is written. A claim that
        can be lost to another process has `is_lost`, which is True from then on: the agent leaves the run with a
        RunHandedOverError, without asking the hooks at its end. No records:
        the future is that of the last ones. Whatever is wrong is in the future: this raises nothing itself, also when
        the run was given back or the store closed.
        """
        ...

    def give_back(self) -> Future[None]:
        """Let others have the run when what is queued is written. The future is done when they can, and never fails.

        A claim that nobody has any more gives itself back.
        """
        ...


class JournalStore(ABC):
    """Many runs, each an append-only list of records.

    Every method opens the store if it is not open, and may be called from any event loop, in any thread, while another
    one waits here. A store that was closed stays closed: what is asked of it then raises UsageError. `read_sync` is
    `read` for code that is not async, and so on: a store has them from here.
    """

    clock_offset: float = 0.0
    """Seconds that a run adds to the clock of its machine, so that all who share the store have one time."""

    @abstractmethod
    async def open(self) -> None:
        """Open the store: an error is raised here, or by what is called first. To open it again changes nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Write what is queued, give back what is claimed, and close the store. To close it again changes nothing."""

    @abstractmethod
    async def claim(self, run_id: str) -> Claim:
        """Take a run, new or known, for this process. Raises RunInUseError when somebody has it, in this process too.

        The id is any text that UTF-8 can hold, but not empty: UsageError. A caller that is cancelled while it waits
        has not taken the run.
        """

    @abstractmethod
    async def read(self, run_id: str) -> list[Record]:
        """The records of a run, checked. Raises JournalError for torn or edited records, UnknownRunError for none."""

    @abstractmethod
    async def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        """The records that a later run continues. Raises JournalError when they are not there, or not the same."""

    @abstractmethod
    async def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        """What a later run names to continue a run: all of it, or its first records. Raises UnknownRunError.

        The head is a digest of the records. It changes when one of them does. Raises JournalError when the run has not
        so many records, and for none.
        """

    @abstractmethod
    async def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """The recorded runs, newest first, without the records of sessions; at most `limit`, which is not negative."""

    @abstractmethod
    async def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first; at most `limit`, which is not negative."""

    @abstractmethod
    async def post(self, message: InboxMessage) -> None:
        """Keep a message for a run, until the run is deleted. `inbox.is_new` says whether it is one.

        Raises UnknownRunError when there is no such run, and UsageError for a second answer that differs.
        """

    @abstractmethod
    async def inbox(self, *run_ids: str) -> list[InboxMessage]:
        """The messages for these runs, in order. Asked twice a second while a run is driven: it must be quick."""

    @abstractmethod
    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        """Delete a run and its children, or a session and its runs, all or none. Returns their ids.

        Raises JournalError when later runs continue one of them, unless `with_later` deletes these too, and for a child
        of a run that is not over and is kept: that run would start it again. Raises RunInUseError when one of them is
        claimed.
        """

    @abstractmethod
    async def prune(
        self,
        *,
        older_than: timedelta | float | None = None,
        keep: int | None = None,
        unfinished: bool = False,
    ) -> list[str]:
        """Delete runs last written `older_than` ago (seconds, or a timedelta) that are not among the `keep` newest.

        Children are deleted with their parents, and runs of a session that is kept here with the session. Running and
        paused runs, and what belongs to them, are kept unless `unfinished=True`. Runs that are claimed, and runs that a
        kept run continues, are always kept. Returns the ids of the deleted runs. Raises UsageError without a limit,
        and for a negative one.
        """

    @abstractmethod
    async def check(self) -> CheckReport:
        """Check everything: every chain, every record, every reference, and whether the list of runs agrees."""

    @abstractmethod
    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now to a new file, or raise JournalError that says what to use instead."""

    open_sync = sync_form(open)
    close_sync = sync_form(close)
    claim_sync = sync_form(claim)
    read_sync = sync_form(read)
    read_earlier_sync = sync_form(read_earlier)
    refer_sync = sync_form(refer)
    runs_sync = sync_form(runs)
    sessions_sync = sync_form(sessions)
    post_sync = sync_form(post)
    inbox_sync = sync_form(inbox)
    delete_sync = sync_form(delete)
    prune_sync = sync_form(prune)
    check_sync = sync_form(check)
    backup_sync = sync_form(backup)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        self.open_sync()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()
