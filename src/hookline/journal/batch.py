"""What one call of `write` puts into the tables of a SQLite journal, and the claim that hands it over."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future
from typing import NamedTuple

from hookline.errors import JournalError
from hookline.journal.chain import link
from hookline.journal.claim import Lease, StoreClaim
from hookline.journal.faults import before_it_began
from hookline.journal.schema import first_id
from hookline.journal.store import RunInfo
from hookline.journal.writer import Writer

_NEW_RUN = """
INSERT INTO runs (run_id, session_id, agent_id, parent_run_id, status, prompt, records, steps,
                  started_at, updated_at, kind, head)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_NEW_BATCH = "INSERT INTO batches (id, links, records) VALUES (?, ?, CAST(? AS TEXT))"
# Whoever else wrote to the run has changed its head, and then this finds no row to change.
_GO_ON = (
    "UPDATE runs SET records = ?, steps = ?, updated_at = ?, head = ? WHERE id = ? AND head = ?"
)
_DESCRIBE = """
UPDATE runs SET session_id = ?, agent_id = ?, parent_run_id = ?, status = ?, prompt = ? WHERE id = ?
"""


class Tail(NamedTuple):
    """Where a run ends: its number in the file (0 before it has one), how many records it has, their last link."""

    run: int
    records: int
    head: bytes


class SQLiteClaim(StoreClaim):
    """Queues what it is given for the thread that writes."""

    def __init__(
        self, info: RunInfo, tail: Tail, lease: Lease, writer: Writer, journal: object
    ) -> None:
        super().__init__(info, lease)
        self.tail = tail
        """Changed by the thread that writes, and by no other."""
        self._writer = writer
        self._journal = journal  # a journal that is forgotten closes, and this one is in use

    def _put(self, bodies: list[bytes], before: RunInfo, after: RunInfo) -> Future[None]:
        batch = _Batch(self, bodies, before, after)
        self._writer.submit(batch)
        return batch.done

    def overtaken(self) -> JournalError:
        """Someone else has written to the run, lease or no lease."""
        return JournalError(
            f"run '{self.run_id}' has been written or deleted by someone else meanwhile.",
            remedy="Read it again before going on, and see who removed the file that ends in -lease.",
        )


class _Batch:
    __slots__ = ("_after", "_before", "_bodies", "_claim", "_was", "done")

    def __init__(
        self, claim: SQLiteClaim, bodies: list[bytes], before: RunInfo, after: RunInfo
    ) -> None:
        self._claim = claim
        self._bodies = bodies
        self._before = before
        self._after = after
        self._was: Tail | None = None
        self.done: Future[None] = Future()
        # From here on it cannot be cancelled: what happened has happened, whoever stops waiting for its record.
        self.done.set_running_or_notify_cancel()

    def refusal(self) -> JournalError | None:
        """Set when an earlier batch of the run could not be written."""
        return self._claim.refusal()

    def write(self, cursor: sqlite3.Cursor) -> None:
        """The records, each linked to the one before it, and where the run ends now."""
        self._was = number, count, head = self._claim.tail
        links = []
        for body in self._bodies:
            head = link(head, body)
            links.append(head)
        number = self._enter(cursor, number, head)
        new_batch(cursor, first_id(number) + count, links, self._bodies)
        self._claim.tail = Tail(number, count + len(links), head)

    def _enter(self, cursor: sqlite3.Cursor, number: int, head: bytes) -> int:
        """Change the run's row, or make it."""
        info = self._after
        if not number:
            try:
                return new_run(cursor, info, head)
            except sqlite3.IntegrityError:
                raise self._claim.overtaken() from None
        changes = (info.records, info.steps, info.updated_at, head, number, self._claim.tail.head)
        if cursor.execute(_GO_ON, changes).rowcount != 1:
            raise self._claim.overtaken()
        if (description := _description(info)) != _description(self._before):
            cursor.execute(_DESCRIBE, (*description, number))
        return number

    def withdraw(self) -> None:
        """The transaction it was a part of is undone."""
        if self._was is not None:
            self._claim.tail = self._was

    def settle(self, error: JournalError | None) -> None:
        """It is committed, or it cannot be, and then nothing after it can."""
        if error is None:
            self.done.set_result(None)
        else:
            if not self._claim.tail.run and self._after.parent_run_id is None:
                error = before_it_began(error)
            self._claim.break_off(error)
            self.done.set_exception(error)


def new_run(cursor: sqlite3.Cursor, info: RunInfo, head: bytes) -> int:
    """Enter a run into the list. Gives its number in the file."""
    numbers = (info.records, info.steps, info.started_at, info.updated_at)
    row = (info.run_id, *_description(info), *numbers, info.kind, head)
    return int(cursor.execute(_NEW_RUN, row).lastrowid or 0)


def new_batch(cursor: sqlite3.Cursor, id: int, links: list[bytes], bodies: list[bytes]) -> None:
    """Add records."""
    row = (id, b"".join(links), b"[%s]" % b",".join(bodies))
    cursor.execute(_NEW_BATCH, row)


def _description(info: RunInfo) -> tuple[str | None, ...]:
    """What is known of a run besides its numbers: it changes rarely, and some of it is indexed."""
    return (info.session_id, info.agent_id, info.parent_run_id, info.status, info.prompt)
