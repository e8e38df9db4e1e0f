"""The tables of a journal in PostgreSQL, their version, and the migrations from one version to the next.

Nothing is migrated when a journal is opened: whoever writes runs needs no right to create tables. A schema of another
version is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from hookline.errors import JournalError
from hookline.journal.postgres.database import ask_one

if TYPE_CHECKING:
    from hookline.journal.postgres.database import Connection, Database

# As in SQLite: a batch is one row, its id consists of the run and the position of its first record. Text is compared
# by its bytes. `updated_at` has no index, so that a step changes no index but that of the batches.
_FIRST = """
CREATE TABLE runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id text COLLATE "C" NOT NULL UNIQUE,
    session_id text COLLATE "C" NOT NULL,
    agent_id text NOT NULL,
    parent_run_id text COLLATE "C",
    status text NOT NULL,
    prompt text NOT NULL,
    records bigint NOT NULL,
    steps bigint NOT NULL,
    started_at float8 NOT NULL,
    updated_at float8 NOT NULL,
    kind text NOT NULL,
    head bytea NOT NULL,
    continues text COLLATE "C"
) WITH (fillfactor = 70);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_session ON runs (session_id, started_at);
CREATE INDEX runs_by_status ON runs (status, started_at);
CREATE INDEX sessions ON runs (started_at) WHERE kind = 'session';
CREATE INDEX runs_by_earlier ON runs (continues) WHERE continues IS NOT NULL;
CREATE TABLE batches (
    id bigint PRIMARY KEY,
    links bytea NOT NULL,
    records bytea NOT NULL
);
CREATE TABLE history (
    number bigint PRIMARY KEY,
    event text NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    at float8 NOT NULL,
    link bytea NOT NULL
);
CREATE INDEX losses ON history (run_id) WHERE event = 'lost';
CREATE TABLE inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id text COLLATE "C" NOT NULL,
    message bytea NOT NULL
);
CREATE INDEX inbox_by_run ON inbox (run_id);
"""
# The role of whoever posts a message comes from the server: the trigger replaces what a client says. A worker is alive
# as long as somebody holds the lock with its name, whatever the table says.
_SECOND = """
ALTER TABLE inbox ADD COLUMN role text NOT NULL DEFAULT '';
CREATE FUNCTION set_role_of_message() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.role := session_user; RETURN NEW; END';
CREATE TRIGGER set_role BEFORE INSERT OR UPDATE ON inbox FOR EACH ROW EXECUTE FUNCTION set_role_of_message();
CREATE TABLE workers (
    name text COLLATE "C" PRIMARY KEY,
    description bytea NOT NULL
);
CREATE TABLE queues (
    name text COLLATE "C" PRIMARY KEY,
    max_length bigint NOT NULL
);
CREATE TABLE schedules (
    name text COLLATE "C" PRIMARY KEY,
    cron text NOT NULL,
    timezone text NOT NULL,
    agent text NOT NULL,
    prompt text NOT NULL,
    queue text NOT NULL,
    next_at float8 NOT NULL
);
"""
MIGRATIONS = (_FIRST, _SECOND)
"""What makes version 1 of nothing, version 2 of 1, and so on. One that was released never changes."""
_LOCK = 0x486B6C6E  # "Hkln"
# With its schema: one that the role may not use is not searched, and its tables would seem not to be there.
_READ = "SELECT version FROM {}"


def migrate(connection: Connection, database: Database) -> tuple[int, int]:
    """Bring the tables up to date. Returns their version before and now. Of several processes, one does it."""
    with database.convert_errors("migrated"), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        name = sql.Identifier(database.schema)
        if not ask_one(connection, "SELECT to_regnamespace(%s) IS NOT NULL", database.schema)[0]:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        before = _version(connection, database)
        if before > len(MIGRATIONS):
            raise _newer_error(database, before)
        if not before:
            connection.execute("CREATE TABLE schema_version (version integer NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES (0)")
        for migration in MIGRATIONS[before:]:
            connection.execute(migration.encode())
        connection.execute("UPDATE schema_version SET version = %s", (len(MIGRATIONS),))
    return before, len(MIGRATIONS)


def connect(database: Database) -> Connection:
    """A connection to tables of the version that this Hookline knows. Others are refused."""
    connection = database.connect()
    try:
        _check_version(connection, database)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: Connection, database: Database) -> None:
    with database.convert_errors("opened"):
        version = _version(connection, database)
    if version > len(MIGRATIONS):
        raise _newer_error(database, version)
    if version < len(MIGRATIONS):
        words = f"are of version {version}, and this Hookline needs {len(MIGRATIONS)}"
        raise JournalError(
            f"the journal in {database} cannot be opened: its tables {words if version else 'are not there'}.",
            remedy="Run hookline database migrate, as a role that may create tables.",
        )


def _version(connection: Connection, database: Database) -> int:
    query = sql.SQL(_READ).format(sql.Identifier(database.schema, "schema_version"))
    try:
        with connection.transaction():
            return int(ask_one(connection, query)[0])
    except psycopg.errors.UndefinedTable:
        return 0


def _newer_error(database: Database, version: int) -> JournalError:
    return JournalError(
        f"the journal in {database} was migrated to version {version} by a newer Hookline; this one knows "
        f"{len(MIGRATIONS)}.",
        remedy="Upgrade hookline here.",
    )
