"""The record of one run in a store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from concurrent.futures import Future

from hookline.errors import HooklineError, UnknownRunError, UsageError
from hookline.journal.durable import InMemory, Listener
from hookline.journal.record import Record
from hookline.journal.store import Claim, JournalStore
from hookline.state import Decision


class Stored(InMemory):
    """Records are kept in memory and written in batches: `flush` queues them, `commit` waits for them."""

    __slots__ = ("_claim", "_is_due", "_store", "_unwritten", "_written")

    def __init__(
        self,
        store: JournalStore,
        claim: Claim,
        records: list[Record],
        listeners: tuple[Listener, ...] = (),
        answers: Mapping[str, Decision] | None = None,
    ) -> None:
        super().__init__(listeners, answers)
        self.records = records
        self.append = self._append_and_keep
        self._store = store
        self._claim: Claim | None = claim
        self._unwritten: list[Record] = []
        self._is_due = False
        self._written: Future[None] | None = None

    def _append_and_keep(self, record: Record) -> None:
        self._unwritten.append(record)
        self.records.append(record)
        if self._listeners:
            self.tell(record)

    def take_answers(self, answers: Mapping[str, Decision]) -> None:
        """Use the answers that were given to `resume`."""
        self._answers = answers

    def flush(self) -> None:
        """Write what is not written yet, or queue it. The next commit reports whether that worked."""
        if self._unwritten and self._claim is not None:
            batch, self._unwritten = self._unwritten, []
            self._written = self._claim.write(batch)

    def flush_soon(self) -> None:
        """Flush when the run next waits: records until then go into the same batch."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._is_due = False
        self.flush()

    async def commit(self) -> None:
        """Wait until everything that was appended is written. Raises JournalError when it cannot be."""
        self.flush()
        written = self._written
        if written is None:
            return
        if written.done():
            written.result()
        else:  # shielded: a run that is cancelled does not cancel what is written
            await asyncio.shield(asyncio.wrap_future(written))

    def for_child(self, run_id: str, listeners: tuple[Listener, ...]) -> Stored:
        """The record of a child run, in the same store. It may have begun in a process that died."""
        claim = self._store.claim(run_id)
        try:
            known = self._store.read(run_id)
        except UnknownRunError:
            known = []
        return Stored(self._store, claim, known, (*self._listeners, *listeners), self._answers)

    def close(self) -> None:
        """Let others have the run."""
        claim, self._claim = self._claim, None
        if claim is not None:
            if self._unwritten:
                claim.write(self._unwritten)
            claim.give_back()

    def __del__(self) -> None:
        with contextlib.suppress(HooklineError):  # the journal may be closed already
            self.close()  # a run that was prepared and never started, or abandoned


def begin(store: JournalStore, run_id: str, listeners: tuple[Listener, ...]) -> Stored:
    """The record of a new run."""
    claim = store.claim(run_id)
    try:
        store.read(run_id)
    except UnknownRunError:
        return Stored(store, claim, [], listeners)
    except BaseException:
        claim.give_back()
        raise
    claim.give_back()
    raise UsageError(
        f"run '{run_id}' is in the journal already.",
        remedy="Continue it: agent.resume(run_id). Or give the new run another run_id=.",
    )


def reopen(store: JournalStore, run_id: str, listeners: tuple[Listener, ...]) -> Stored:
    """The record of a run that paused, or whose process died."""
    claim = store.claim(run_id)
    try:
        return Stored(store, claim, store.read(run_id), listeners)
    except BaseException:
        claim.give_back()
        raise
