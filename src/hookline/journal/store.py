"""Where journals are kept: what the runtime needs of a store, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal, Protocol

import msgspec

from hookline.journal.record import Record
from hookline.journal.session_record import SessionStatus
from hookline.state import RunStatus


class RunInfo(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One recorded run, as a list shows it."""

    run_id: str
    session_id: str = ""
    agent_id: str = ""
    parent_run_id: str | None = None
    status: RunStatus = RunStatus.RUNNING
    """`running` also for a run whose process died: nobody was left to write how it ended."""
    prompt: str = ""
    """Its first prompt, or how that begins when it is long."""
    records: int = 0
    steps: int = 0
    started_at: float = 0.0
    updated_at: float = 0.0
    kind: Literal["run", "session"] = "run"
    """`session` for the records of a session, which are kept like those of a run: see journal/session.py."""


class SessionInfo(msgspec.Struct, frozen=True, gc=False):
    """One session, as a list shows it."""

    id: str
    title: str = ""
    status: SessionStatus = SessionStatus.OPEN
    version: int = 0
    runs: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0
    """When a run of it last began or ended, or something else was done with it."""


class Claim(Protocol):
    """A run that this process may write. Nobody else can, until it is given back or this process dies."""

    @property
    def run_id(self) -> str:
        """The run."""
        ...

    def write(self, records: Sequence[Record]) -> Future[None]:
        """Write records, in order, or queue them. The future is done when they are committed, and fails if they cannot.

        Records of one call are written together or not at all. After a failure nothing more is written. A claim may
        also have a `write_soon` for runs in an event loop, which waits until the loop has gone round: what several
        of them write can share a commit then.
        """
        ...

    def give_back(self) -> None:
        """Let others have the run. What was queued is written first."""
        ...


class JournalStore(Protocol):
    """Many runs, each an append-only list of records."""

    def claim(self, run_id: str) -> Claim:
        """Take a run, new or known, for this process. Raises RunInUseError when another live process has it."""
        ...

    def read(self, run_id: str) -> list[Record]:
        """The records of a run as they are on disk, checked; raises JournalError when they are torn or edited."""
        ...

    def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """The recorded runs, newest first. Not the records of sessions."""
        ...

    def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first."""
        ...

    def delete(self, run_id: str) -> list[str]:
        """Drop a run and its children, or a session and its runs, all or none. Nobody may be driving them.

        Gives their ids.
        """
        ...

    def close(self) -> None:
        """Write what is queued, and let go of the file."""
        ...
