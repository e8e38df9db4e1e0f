"""What one call of `write` puts into the tables of a SQLite journal, and the claim that hands it over."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future
from typing import NamedTuple

from hookline.errors import JournalError
from hookline.journal.chain import linked
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
    """Hands what it is given to the writer of the file."""

    def __init__(
        self, info: RunInfo, tail: Tail, lease: Lease, writer: Writer, journal: object
    ) -> None:
        super().__init__(info, lease)
        self.tail = tail
        """Changed by whoever uses the connection that writes, and by no other."""
        self._writer = writer
        self._journal = journal  # a journal that is forgotten closes, and this one is in use

    def _put(
        self, bodies: list[bytes], before: RunInfo, after: RunInfo, *, soon: bool
    ) -> Future[None]:
        batch = _Batch(self, bodies, before, after)
        if soon:
            return self._writer.write_soon(batch, id(self))
        return self._writer.write(batch)

    def give_back(self) -> None:
        """Let others have the run. What was queued is written first."""
        self._writer.write_gathered()
        super().give_back()

    def _may_wait(self) -> bool:
        # A run that was forgotten gives itself back when garbage is collected, also in the middle of a commit.
        return not self._writer.is_used_here()

    def overtaken(self) -> JournalError:
        """Someone else has written to the run, lease or no lease."""
        return JournalError(
            f"run '{self.run_id}' has been written or deleted by someone else meanwhile.",
            remedy="Read it again before going on, and see who removed the file that ends in -lease.",
        )


class _Batch:
    __slots__ = ("_after", "_before", "_bodies", "_claim", "_records", "_was", "size")

    def __init__(
        self, claim: SQLiteClaim, bodies: list[bytes], before: RunInfo, after: RunInfo
    ) -> None:
        self._claim = claim
        self._bodies = bodies
        self._before = before
        self._after = after
        self._was: Tail | None = None
        self._records = packed(bodies)
        self.size = len(self._records)

    def write(self, cursor: sqlite3.Cursor) -> None:
        """The records, each linked to the one before it, and where the run ends now."""
        claim = self._claim
        if (refusal := claim.refusal()) is not None:
            raise refusal
        self._was = number, count, head = claim.tail
        if count != self._before.records:
            raise _out_of_turn(claim.run_id, count, self._before.records)
        links = linked(head, self._bodies)
        head = links[-1]
        number = self._enter(cursor, number, head)
        new_batch(cursor, first_id(number) + count, links, self._records)
        claim.tail = Tail(number, count + len(links), head)

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

    def fail(self, error: JournalError) -> JournalError:
        """It cannot be written, and then nothing after it can."""
        if not self._claim.tail.run and self._after.parent_run_id is None:
            error = before_it_began(error)
        self._claim.break_off(error)
        return error


def _out_of_turn(run_id: str, count: int, expected: int) -> JournalError:
    """A journal has no holes, whatever goes wrong in here."""
    return JournalError(
        f"run '{run_id}' has {count} records, and was about to be written from its record {expected}.",
        remedy="This is a fault in Hookline. Resume the run: nothing that was written is lost.",
    )


def new_run(cursor: sqlite3.Cursor, info: RunInfo, head: bytes) -> int:
    """Enter a run into the list. Gives its number in the file."""
    numbers = (info.records, info.steps, info.started_at, info.updated_at)
    row = (info.run_id, *_description(info), *numbers, info.kind, head)
    return int(cursor.execute(_NEW_RUN, row).lastrowid or 0)


def new_batch(cursor: sqlite3.Cursor, id: int, links: list[bytes], records: bytes) -> None:
    """Add records, packed, with the link of each."""
    cursor.execute(_NEW_BATCH, (id, b"".join(links), records))


def packed(bodies: list[bytes]) -> bytes:
    """Records as they lie in a batch: a JSON array."""
    return b"[%s]" % b",".join(bodies)


def _description(info: RunInfo) -> tuple[str | None, ...]:
    """What is known of a run besides its numbers: it changes rarely, and some of it is indexed."""
    return (info.session_id, info.agent_id, info.parent_run_id, info.status, info.prompt)
