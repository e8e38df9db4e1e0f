"""What is written to the tables: statements that a connection prepares once, and their values.

A step is one such statement. It goes to libpq without a cursor of psycopg, which would take twice the CPU time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import pq

from hookline.journal.chain import Row, StoredRun, anchor
from hookline.journal.postgres.database import Connection, Database, ask_one, to_column
from hookline.journal.run_info import RunInfo
from hookline.journal.tables import pack
from hookline.journal.writer import Batch

_OK = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.PIPELINE_SYNC)
_MARK = re.compile(r"%\((\w+)\)s")


_NUMBERS = frozenset(("key", "pid", "position", "records", "started_at", "steps", "updated_at"))


class Statement:
    """A query with `%(name)s` where a value belongs. Numbers are sent as text."""

    def __init__(self, name: str, query: str) -> None:
        self.name = name.encode()
        self.text = query
        self._names = tuple(dict.fromkeys(_MARK.findall(query)))
        self._formats = [int(name not in _NUMBERS) for name in self._names]
        places = {name: f"${place}" for place, name in enumerate(self._names, start=1)}
        self._prepared = _MARK.sub(lambda mark: places[mark[1]], query).encode()

    def prepare(self, connection: Connection) -> None:
        """Let the server parse it."""
        check_results([connection.pgconn.prepare(self.name, self._prepared)])

    def bind(self, values: Mapping[str, object]) -> BoundStatement:
        """The statement with its values."""
        return BoundStatement(
            self.name, [_encode(values[name]) for name in self._names], self._formats
        )


class BoundStatement(NamedTuple):
    """A prepared statement, and its values as they are sent."""

    name: bytes
    values: list[Any]
    formats: list[int]


def _encode(value: object) -> bytes | None:
    if type(value) is bytes or value is None:
        return value
    return str(to_column(value)).encode()


def check_results(results: Sequence[pq.abc.PGresult]) -> None:
    """Raise the error of the first that failed."""
    for result in results:
        if result.status not in _OK:
            error = psycopg.errors.error_from_result(result)
            # The server always gives a code. Without one, libpq says that it has no connection.
            raise error if error.sqlstate else psycopg.OperationalError(str(error))


_NEXT_BATCH = """
WITH run AS (
    UPDATE runs SET records = %(records)s, steps = %(steps)s, updated_at = %(updated_at)s, head = %(head)s{changes}
    WHERE run_id = %(run_id)s AND head = %(head_before)s AND pg_backend_pid() = %(pid)s{conditions}
    RETURNING id
)
INSERT INTO batches (id, links, records) SELECT (id << 32) + %(position)s, %(links)s, %(bodies)s FROM run
"""
_DESCRIPTION = """, session_id = %(session_id)s, agent_id = %(agent_id)s, parent_run_id = %(parent_run_id)s,
        status = %(status)s, prompt = %(prompt)s"""
_CONTINUE = Statement("hookline_continue", _NEXT_BATCH.format(changes="", conditions=""))
_DESCRIBE = Statement("hookline_describe", _NEXT_BATCH.format(changes=_DESCRIPTION, conditions=""))
_BEGIN = Statement(  # a queued run that continues another one
    "hookline_begin",
    _NEXT_BATCH.format(
        changes=f"{_DESCRIPTION}, continues = %(continues)s",
        conditions=" AND EXISTS (SELECT 1 FROM runs WHERE run_id = %(continues)s)",
    ),
)
_CREATE = Statement(
    "hookline_create",
    """
WITH run AS (
    INSERT INTO runs (run_id, session_id, agent_id, parent_run_id, status, prompt, records, steps,
        started_at, updated_at, kind, head, continues)
    SELECT %(run_id)s, %(session_id)s, %(agent_id)s, %(parent_run_id)s, %(status)s, %(prompt)s, %(records)s,
        %(steps)s, %(started_at)s, %(updated_at)s, %(kind)s, %(head)s, %(continues)s
    WHERE pg_backend_pid() = %(pid)s
        AND (%(earlier)s::text IS NULL OR EXISTS (SELECT 1 FROM runs WHERE run_id = %(earlier)s))
    ON CONFLICT (run_id) DO NOTHING
    RETURNING id
), last AS (
    SELECT number, link FROM history ORDER BY number DESC LIMIT 1
), event AS (
    INSERT INTO history (number, event, run_id, records, at, link)
    SELECT coalesce((SELECT number FROM last), 0) + 1, 'created', %(run_id)s, 0, %(started_at)s,
        sha256(coalesce((SELECT link FROM last), %(first_link)s) || %(event)s)
    FROM run
)
INSERT INTO batches (id, links, records) SELECT (id << 32) + %(position)s, %(links)s, %(bodies)s FROM run
""",
)
_HAVE_LIST_ALONE = Statement("hookline_alone", "SELECT pg_advisory_xact_lock(%(key)s)")
_ADD_EVENT = """
WITH last AS (SELECT number, link FROM history ORDER BY number DESC LIMIT 1)
INSERT INTO history (number, event, run_id, records, at, link)
SELECT coalesce((SELECT number FROM last), 0) + 1, %(event)s, %(run_id)s, %(value)s, %(at)s,
    sha256(coalesce((SELECT link FROM last), %(first_link)s) || %(body)s)
"""
_ADD_BATCH = "INSERT INTO batches (id, links, records) SELECT (id << 32) + %s, %s, %s FROM runs WHERE run_id = %s"
_ROWS_OF_A_BATCH = 50
"""Of an imported run: about as many as a few steps make."""
_FIRST_LINK = anchor("")


PREPARED = (_CONTINUE, _DESCRIBE, _BEGIN, _CREATE, _HAVE_LIST_ALONE)
"""What a connection has to prepare before it writes."""


def bind_batch(batch: Batch, pid: int) -> BoundStatement:
    """What writes a batch, if this server process has the lock. Raises JournalError if it cannot follow its run."""
    tail, links = batch.begin()
    after = batch.after
    values = _values(after, links, batch.records)
    values |= {"pid": pid, "head_before": tail.head, "position": tail.records}
    batch.advance(1, links)
    if batch.is_one_statement:
        return _CONTINUE.bind(values)
    values |= msgspec.structs.asdict(after)
    if not batch.is_first:
        return (_DESCRIBE if batch.earlier is None else _BEGIN).bind(values)
    return _CREATE.bind({**values, **_creation(after), "earlier": batch.earlier})


def bind_list_lock(database: Database) -> BoundStatement:
    """What keeps others from writing the list until the end of the transaction."""
    return _HAVE_LIST_ALONE.bind({"key": _list_key(database)})


def have_list_alone(connection: Connection, database: Database) -> None:
    """Until the end of the transaction nobody else writes the list of what was created and deleted."""
    connection.execute(_HAVE_LIST_ALONE.text, {"key": _list_key(database)})


def _list_key(database: Database) -> int:
    return lock_key("history", database.schema)


def add_event(connection: Connection, event: str, run_id: str, value: int, at: float) -> None:
    """Add an entry to the list of what was created and deleted, in a transaction that has it alone."""
    values = {"event": event, "run_id": run_id, "value": value, "at": at, "first_link": _FIRST_LINK}
    values["body"] = _event_body(event, run_id, value, at)
    connection.execute(_ADD_EVENT, columns(values))


def create_run(connection: Connection, run: StoredRun) -> bool:
    """Add a whole run, in a transaction that has the list alone. False when there is one with its id.

    The run that it continues is there, or is added by the same transaction.
    """
    first, *others = _chunks(run.rows)
    values = {
        **_values(run.info, *first),
        **_creation(run.info),
        "head": run.head,
        "position": 0,
    }
    values |= {**msgspec.structs.asdict(run.info), "earlier": None}
    (values["pid"],) = ask_one(connection, "SELECT pg_backend_pid()")
    if connection.execute(_CREATE.text, columns(values)).rowcount != 1:
        return False
    for number, (links, bodies) in enumerate(others, start=1):
        position = number * _ROWS_OF_A_BATCH
        row = (position, b"".join(links), bodies, to_column(run.info.run_id))
        connection.execute(_ADD_BATCH, row)
    return True


def _chunks(rows: list[Row]) -> Iterator[tuple[list[bytes], bytes]]:
    for start in range(0, max(1, len(rows)), _ROWS_OF_A_BATCH):
        chunk = rows[start : start + _ROWS_OF_A_BATCH]
        yield [row.link for row in chunk], pack([row.body for row in chunk])


def _values(info: RunInfo, links: list[bytes], bodies: bytes) -> dict[str, object]:
    """What all statements need to know."""
    return {
        "run_id": info.run_id,
        "records": info.records,
        "steps": info.steps,
        "updated_at": info.updated_at,
        "head": links[-1],
        "links": b"".join(links),
        "bodies": bodies,
    }


def _creation(info: RunInfo) -> dict[str, object]:
    """The entry in the list of what was created and deleted."""
    event = _event_body("created", info.run_id, 0, info.started_at)
    return {"event": event, "first_link": _FIRST_LINK}


def columns(values: dict[str, object]) -> dict[str, object]:
    """Values as PostgreSQL keeps them."""
    return {name: to_column(value) for name, value in values.items()}


def _event_body(event: str, run_id: str, value: int, at: float) -> bytes:
    return msgspec.json.encode((event, run_id, value, at))


def lock_key(*names: str) -> int:
    """The number of the advisory lock on something."""
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
