"""A run that may be written, whichever store it is kept in: the rules that hold for all of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol

from hookline.errors import HooklineError, JournalError, UsageError
from hookline.journal.codec import encode_readable
from hookline.journal.record import Record
from hookline.journal.store import RunInfo
from hookline.journal.summary import check_records, summarise


class Lease(Protocol):
    """Keeps others off a run."""

    def release(self) -> None:
        """Let others have the run."""
        ...


class StoreClaim(ABC):
    """Turns records into bytes and hands them to the store, as long as nothing has gone wrong."""

    def __init__(self, info: RunInfo, lease: Lease) -> None:
        self._info = info
        self._lease = lease
        self._latest = DONE
        self._broken_by: JournalError | None = None
        self._is_held = True
        self._lock = threading.Lock()

    @property
    def run_id(self) -> str:
        """The run."""
        return self._info.run_id

    @abstractmethod
    def _put(
        self, bodies: list[bytes], before: RunInfo, after: RunInfo, *, soon: bool
    ) -> Future[None]:
        """Have the store write these records, which change the run's summary like this."""

    def write(self, records: Sequence[Record]) -> Future[None]:
        """Write records, in order. The future is done when they are committed, and fails if they cannot be."""
        return self._write(records, soon=False)

    def write_soon(self, records: Sequence[Record]) -> Future[None]:
        """The same, perhaps together with what other runs write in this turn of the event loop that is running."""
        return self._write(records, soon=True)

    def _write(self, records: Sequence[Record], *, soon: bool) -> Future[None]:
        with self._lock:
            if not self._is_held:
                raise UsageError(
                    f"run '{self.run_id}' was given back, and cannot be written any more.",
                    remedy="Claim it again: journal.claim(run_id).",
                )
            if self._broken_by is not None:
                return settled(self.refusal())
            check_records(self.run_id, records)
            if records:
                self._latest = self._encoded(records, soon=soon)
            return self._latest

    def _encoded(self, records: Sequence[Record], *, soon: bool) -> Future[None]:
        try:
            bodies = [encode_readable(record) for record in records]
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            problem = JournalError(
                f"a record of run '{self.run_id}' cannot be written: {error}.",
                remedy="Records hold JSON only: see which hook or tool put something else there.",
            )
            self.break_off(problem)
            return settled(problem)
        before, self._info = self._info, summarise(self._info, records)
        return self._put(bodies, before, self._info, soon=soon)

    def refusal(self) -> JournalError | None:
        """Why nothing more is written, once a write has failed: a journal has no holes."""
        error = self._broken_by
        if error is None:
            return None
        words = f"run '{self.run_id}' is not written any more, because a write has failed:"
        return JournalError(f"{words} {error.message}", remedy=error.remedy)

    def break_off(self, error: JournalError) -> None:
        """A write has failed."""
        self._broken_by = self._broken_by or error

    def give_back(self) -> None:
        """Let others have the run. What was queued is written first."""
        with self._lock:
            self._is_held = False
            latest = self._latest
        if self._may_wait():
            with suppress(HooklineError):  # whoever wrote it hears of it
                latest.result()
            self._lease.release()
        else:
            latest.add_done_callback(lambda _: self._lease.release())

    def _may_wait(self) -> bool:
        """Whether what was queued can be waited for here."""
        return True


def settled(error: JournalError | None = None) -> Future[None]:
    """A future that is done, or has failed."""
    future: Future[None] = Future()
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    return future


DONE = settled()
"""What has been written at once: the same for everybody, because making a future costs as much as a statement."""


def check_run_id(run_id: str) -> None:
    """Refuse what cannot name a run."""
    if not isinstance(run_id, str) or not run_id:
        raise UsageError("a run is named by a text that is not empty.", remedy="Give a run_id.")
    try:
        run_id.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the run id {run_id!r} holds half a character.") from None
