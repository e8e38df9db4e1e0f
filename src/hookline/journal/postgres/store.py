"""The store itself: a journal in a schema of a PostgreSQL database."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import psycopg

from hookline._sync import sync_form
from hookline.errors import JournalError, UsageError
from hookline.journal.chain import StoredRun
from hookline.journal.connection import IdleConnections
from hookline.journal.history import ANY_STEPS, MAY_CONTINUE, digest
from hookline.journal.inbox import InboxMessage, encode_message, is_new
from hookline.journal.operations import OpenedJournal, check_references
from hookline.journal.postgres.database import (
    Connection,
    Database,
    from_column,
    to_column,
)
from hookline.journal.postgres.schema import connect, migrate
from hookline.journal.postgres.statements import add_event, create_run
from hookline.journal.postgres.writer import PostgresWriter, lost_error
from hookline.journal.stores import OpenedStore
from hookline.journal.tables import Tables, continued_error, run_exists_error
from hookline.journal.writer import Release


class PostgresJournal(OpenedStore):
    """A journal in a PostgreSQL database, which any number of machines may share.

    Without a URL, that in `HOOKLINE_DATABASE_URL` counts. The tables are in a schema of their own, one for each tenant:
    `migrate` makes them and brings them up to date.
    """

    def __init__(self, url: str | None = None, *, schema: str = "hookline") -> None:
        if url is not None and not isinstance(url, str):
            raise UsageError(
                "the URL of a database must be a text.",
                remedy='For example: PostgresJournal("postgresql://ann@db.example/agents").',
            )
        self._database = Database(url, schema)
        super().__init__()

    @property
    def database(self) -> Database:
        """Where it is."""
        return self._database

    def __str__(self) -> str:
        return str(self._database)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._database)!r})"

    @property
    def clock_offset(self) -> float:  # type: ignore[override]
        """Between the clock of this machine and that of the database, as of the last connection."""
        return self._database.clock_offset

    def _connect(self) -> JournalInPostgres:
        return JournalInPostgres(self._database)

    async def migrate(self) -> tuple[int, int]:
        """Make the tables, or bring them up to date. Returns their version before and now.

        The role needs the right to create a schema in the database, or tables in the schema.
        """
        return await self._in_thread(self._migrate, is_long=True)

    migrate_sync = sync_form(migrate)

    async def accept_loss(self) -> int:
        """Note that records may be missing, after a backup was restored or a standby took over. Returns how many runs.

        Calls that must run once are in doubt in all runs that have not ended here, in those that have failed, and in
        their children.
        """
        return await self._ask(
            lambda journal: cast("JournalInPostgres", journal).accept_loss(), is_long=True
        )

    accept_loss_sync = sync_form(accept_loss)

    def _migrate(self) -> tuple[int, int]:
        with self._database.connect() as connection:
            return migrate(connection, self._database)


class JournalInPostgres(OpenedJournal):
    """The journal in a database, connected when it is first asked."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._readers = PostgresReaders(database)
        claims = weakref.ref(self._claims)

        def lose() -> None:
            for claim in list(claims() or ()):
                claim.fail(lost_error(claim.run_id))

        self._writer = PostgresWriter(database, lose)
        self._close = weakref.finalize(self, _close, self._readers, self._writer)
        with self._snapshot():  # an error is raised now, and not by a claim
            pass

    def __str__(self) -> str:
        return str(self._database)

    def now(self) -> float:
        """The time by the clock of the database."""
        return self._database.now()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Say what to use instead."""
        raise JournalError(
            f"'{os.fspath(path)}' was not made: a journal in PostgreSQL is backed up with the tools of PostgreSQL.",
            remedy=f"pg_dump --schema={self._database.schema} --format=custom --file=FILE; pg_restore puts it back.",
        )

    def accept_loss(self) -> int:
        """Write which runs may have lost their end: all that may continue."""

        def mark(connection: Connection) -> int:
            runs = PostgresTables(connection, self._database).rows(MAY_CONTINUE)
            add_event(connection, "lost", "", 0, self.now())
            for run_id, *_ in runs:
                add_event(connection, "lost", run_id, ANY_STEPS, self.now())
            return len(runs)

        return self._get_writer().run_exclusively(mark)

    def find_first_queued(self, session_id: str | None) -> dict[str, str]:
        """The first queued run of this session, or of each. The number in the list decides, never a time."""
        one = "" if session_id is None else " AND session_id = %s"
        query = (
            "SELECT DISTINCT ON (session_id) session_id, run_id FROM runs WHERE status = 'queued' AND kind = 'run'"
            f" AND session_id <> run_id{one} ORDER BY session_id, id"
        )
        with self._snapshot() as tables:
            values = () if session_id is None else (session_id,)
            return dict(cast("PostgresTables", tables).rows(query, *values))

    def find_paused_with_messages(self) -> set[str]:
        """The runs that wait and have something in their inbox."""
        query = "SELECT run_id FROM runs WHERE status = 'paused' AND run_id IN (SELECT run_id FROM inbox)"
        with self._snapshot() as tables:
            return {run_id for (run_id,) in cast("PostgresTables", tables).rows(query)}

    @contextmanager
    def _snapshot(self) -> Iterator[Tables]:
        self._check_open()
        with self._readers.snapshot() as connection:
            yield PostgresTables(connection, self._database)

    def _lease(self, run_id: str) -> Release:
        return self._get_writer().lease(run_id).release

    def _get_writer(self) -> PostgresWriter:
        self._check_open()
        return self._writer

    def _add_runs(self, runs: list[StoredRun]) -> None:
        def add(connection: Connection) -> None:
            check_references(PostgresTables(connection, self._database), runs)
            for run in runs:
                if not create_run(connection, run):
                    raise run_exists_error(run.info.run_id)

        self._get_writer().run_exclusively(add)

    def _remove(self, run_ids: list[str]) -> None:
        self._get_writer().run_exclusively(lambda connection: self._delete(connection, run_ids))

    def _delete(self, connection: Connection, run_ids: list[str]) -> None:
        given = [to_column(run_id) for run_id in run_ids]
        query = (
            "SELECT continues, run_id FROM runs WHERE continues = ANY(%s) AND NOT run_id = ANY(%s)"
            " ORDER BY started_at, id"
        )
        later = PostgresTables(connection, self._database).rows(query, given, given)
        if later:
            earlier = later[0][0]
            raise continued_error(earlier, [name for each, name in later if each == earlier])
        for run_id in run_ids:
            query = "DELETE FROM runs WHERE run_id = %s RETURNING id, records"
            found = connection.execute(query, (to_column(run_id),)).fetchone()
            if found is not None:
                number, records = found
                query = "DELETE FROM batches WHERE id BETWEEN %s AND %s"
                connection.execute(query, (number << 32, ((number + 1) << 32) - 1))
                connection.execute("DELETE FROM inbox WHERE run_id = %s", (to_column(run_id),))
                add_event(connection, "deleted", run_id, records, self.now())

    def _add_message(self, message: InboxMessage) -> bool:
        return self._get_writer().run_exclusively(
            lambda connection: add_message(connection, self._database, message)
        )


def add_message(connection: Connection, database: Database, message: InboxMessage) -> bool:
    """Add a message for a run, in a transaction that has the list alone. False when there is no such run."""
    tables = PostgresTables(connection, database)
    if not tables.rows("SELECT 1 FROM runs WHERE run_id = %s", message.run_id):
        return False
    if is_new(message, tables.messages((message.run_id,))):
        text = encode_message(message)
        query = "INSERT INTO inbox (run_id, message) VALUES (%s, %s)"
        connection.execute(query, (to_column(message.run_id), text))
        add_event(connection, "posted", message.run_id, digest(text), database.now())
    return True


def _close(readers: PostgresReaders, writer: PostgresWriter) -> None:
    readers.close()
    writer.close()


class PostgresTables(Tables):
    """Reads with a connection, as long as its transaction is open."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._session = connection
        self._database = database
        self._path = str(database)

    def rows(self, query: str, *values: object) -> list[Any]:
        """What a query gives. Its marks are those of PostgreSQL."""
        with self._database.convert_errors("read"):
            found = self._session.execute(query, [to_column(value) for value in values]).fetchall()
        return [tuple(from_column(value) for value in row) for row in found]

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self.rows(_with_marks(query), *values)

    _role_column = "role"

    def _bytes(self, column: str) -> str:
        return column

    def _one_of(self, values: tuple[str, ...]) -> tuple[str, object]:
        return "= ANY(?)", [to_column(value) for value in values]

    def file_damage(self, table: str = "", *, with_indexes: bool = True) -> list[str]:  # noqa: ARG002 - for SQLite
        """Nothing: PostgreSQL has a tool for this, pg_amcheck."""
        return []


@cache
def _with_marks(query: str) -> str:
    return query.replace("?", "%s")


class PostgresReaders:
    """A pool of connections for reading. Each is used by one thread at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._idle = IdleConnections[Connection]()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection that sees the tables as they are now, whatever is written meanwhile."""
        with self._database.convert_errors("read"):
            connection = self._take()
            try:
                yield connection
                connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
        self._idle.keep(connection)

    def _take(self) -> Connection:
        """A connection in a new transaction. One that was idle may be lost: then another one is used."""
        while True:
            known = self._idle.take()
            connection = known or connect(self._database)
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return connection
            except psycopg.Error:
                connection.close()
                if known is None:
                    raise

    def close(self) -> None:
        """Close all that are idle; those in use close when they are done."""
        self._idle.close()
