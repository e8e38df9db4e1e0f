"""The list of all that was created and deleted in a journal, so that a run or a session that is gone is missed.

Each entry is linked to the one before it, like the records of a run, and is written in the transaction of what it is
about. A message that was posted has an entry with its digest. Another kind of entry says that the end of the journal
was lost and somebody accepted that: one for each run that may continue, with the steps that it may have made. The first
entry of a journal that takes the place of another one of its name says so.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from hookline.journal.chain import Damage, anchor, link

# The column `records` has the records of a run that was deleted, the steps of one whose end was lost, and the digest of
# a message.
TABLE = """
CREATE TABLE history (
    number INTEGER PRIMARY KEY,
    event TEXT NOT NULL,
    run_id TEXT NOT NULL,
    records INTEGER NOT NULL,
    at REAL NOT NULL,
    link BLOB NOT NULL
);
CREATE INDEX losses ON history (run_id) WHERE event = 'lost';
"""
_START = anchor("")
_END = "SELECT number, CAST(link AS BLOB) FROM history ORDER BY number DESC LIMIT 1"
_ADD = "INSERT INTO history (number, event, run_id, records, at, link) VALUES (?, ?, ?, ?, ?, ?)"
_LOST = "SELECT number, CAST(records AS BIGINT) FROM history WHERE event = 'lost' AND run_id = ?"
_CREATED = "SELECT max(number) FROM history WHERE event = 'created' AND run_id = ?"


class HistoryEvent(NamedTuple):
    """One entry."""

    number: int
    event: str
    run_id: str
    value: int
    """What it says of that: a number of records or of steps, or a digest."""
    at: float
    link: bytes


_Database = sqlite3.Connection | sqlite3.Cursor


def add_event(
    cursor: _Database,
    event: Literal["begun", "created", "deleted", "posted", "lost"],
    run_id: str,
    value: int = 0,
    at: float | None = None,
) -> tuple[int, bytes]:
    """Write an entry, in the open transaction. Returns its number and link."""
    number, previous = end_of_history(cursor)
    at = time.time() if at is None else at
    new = _link(previous, event, run_id, value, at)
    cursor.execute(_ADD, (number + 1, event, run_id, value, at, new))
    return number + 1, new


def end_of_history(cursor: _Database) -> tuple[int, bytes]:
    """The number and the link of the last entry."""
    found = cursor.execute(_END).fetchone()
    return (0, _START) if found is None else (int(found[0]), bytes(found[1] or b""))


def list_existing(connection: sqlite3.Connection) -> None:
    """Begin the list of a file that was written without one: with all that is there now."""
    rows = connection.execute("SELECT run_id, started_at FROM runs ORDER BY id").fetchall()
    for run_id, started_at in rows:
        add_event(connection, "created", run_id, at=started_at)


_MAY_CONTINUE = "('queued', 'running', 'paused', 'failed')"
MAY_CONTINUE = f"""
SELECT run_id, id, started_at, steps, status NOT IN ('queued', 'running', 'paused') FROM runs
WHERE kind = 'run' AND (
    status IN {_MAY_CONTINUE}
    OR parent_run_id IN (SELECT run_id FROM runs WHERE kind = 'run' AND status IN {_MAY_CONTINUE})
) ORDER BY id
"""
"""The runs that somebody may drive again, with whether they have ended. A run that has failed can be taken up again,
and a child that has ended can be sent back by its parent."""
ANY_STEPS = (1 << 32) - 1
"""Of a run that may have made any number of steps: more than a run makes."""


def accept_loss(
    connection: sqlite3.Connection, most_steps: Callable[[int, float, int], int | None]
) -> None:
    """Write how many steps the runs that may continue may have made before the end of the journal was lost.

    `most_steps` says it for a run by its number in the file, its start and the steps that are there; None if it has
    lost nothing. The step after these may have begun, so a run that has lost nothing and has ended gets one less.
    """
    connection.execute("BEGIN IMMEDIATE")
    runs = connection.execute(MAY_CONTINUE).fetchall()
    add_event(connection, "lost", "")
    for run_id, number, started_at, steps, has_ended in runs:
        most = most_steps(number, started_at, steps)
        add_event(connection, "lost", run_id, steps - has_ended if most is None else most)
    connection.execute("COMMIT")


def steps_before_loss(rows: Callable[[str, str], list[Any]], run_id: str) -> int | None:
    """How many steps a run may have made before the end of the journal was lost; None if none was."""
    losses = rows(_LOST, run_id)
    if not losses:
        return None
    ((created,),) = rows(_CREATED, run_id)
    # Another run may have had the id, and was deleted.
    after = [steps for number, steps in losses if number > (created or 0)]
    # An older version wrote more than ANY_STEPS.
    return max(
        (ANY_STEPS if steps is None else min(steps, ANY_STEPS) for steps in after), default=None
    )


def digest(message: bytes) -> int:
    """What the list keeps of a message."""
    return int.from_bytes(hashlib.sha256(message).digest()[:8], signed=True)


def examine_history(
    events: Iterable[HistoryEvent], run_ids: Iterable[str], messages: Iterable[tuple[str, bytes]]
) -> Iterator[Damage]:
    """What is wrong with the list, and which of these runs, and of the messages for runs, do not agree with it."""
    previous = _START
    listed: dict[str, list[int]] = {}
    """By run, the digests of the messages for it."""
    for expected, entry in enumerate(events, start=1):
        if entry.number != expected:
            words = f"entry {expected} of the list of what was created and deleted is missing"
            yield Damage("?", "missing", words)
            return
        if entry.link != _link(previous, *entry[1:5]):
            words = f"entry {expected} of the list of what was created and deleted was edited"
            yield Damage("?", "edited", words)
        previous = entry.link
        if entry.event == "created":
            listed[entry.run_id] = []
        elif entry.event == "deleted":
            listed.pop(entry.run_id, None)
        elif entry.event == "posted" and entry.run_id in listed:
            listed[entry.run_id].append(entry.value)
    found = set(run_ids)
    for run_id in listed:
        if run_id not in found:
            yield Damage(run_id, "missing", "it was created and not deleted, and it is not there")
    for run_id in found - listed.keys():
        yield Damage(run_id, "added", "it is there, and the list does not say that it was created")
    yield from _examine_messages(listed, messages)


def _examine_messages(
    listed: Mapping[str, list[int]], messages: Iterable[tuple[str, bytes]]
) -> Iterator[Damage]:
    posted: dict[str, list[int]] = {run_id: [] for run_id in listed}
    for run_id, text in messages:
        posted.setdefault(run_id, []).append(digest(text))
    for run_id, digests in posted.items():
        if digests != listed.get(run_id, []):
            yield Damage(run_id, "edited", "a message in its inbox was edited, lost or added")


def _link(previous: bytes, *values: object) -> bytes:
    return link(previous, msgspec.json.encode(values))
