"""The database of a journal: how it is reached, what every session is set to, and errors of PostgreSQL in words.

The password is in nothing that is shown. What libpq reads by itself works too: `PGPASSFILE`, service files and the
other `PG...` variables.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from hookline.errors import AccessDeniedError, JournalError, UsageError
from hookline.extras import install_command

try:
    import psycopg
    from psycopg import conninfo, pq, sql
except ImportError:
    raise UsageError(
        "a journal in PostgreSQL needs the package 'psycopg'.",
        remedy=f"Run: {install_command('postgres')}",
    ) from None

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_VARIABLE = "HOOKLINE_DATABASE_URL"
_LOST_SECONDS = 9
"""After so long without a sign of the other side a connection is lost, and its locks are free: three of silence,
then three questions."""
_OF_CLIENT: dict[str, str] = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": str(_LOST_SECONDS * 1000),
    "client_encoding": "UTF8",
}
"""Settings of libpq. What the URL says about them counts instead."""
_OF_SERVER: dict[str, str] = {
    # The server's own default for a lost peer is two hours, and the locks of a dead machine would stay for so long.
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": str(_LOST_SECONDS * 1000),
    "synchronous_commit": "on",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
_SETTINGS = f"SELECT {', '.join(['set_config(%s, %s, false)'] * (len(_OF_SERVER) + 1))}"
_NOTIFY_SECONDS = 5.0
_CLEAR_URL = re.compile(r"[a-z]+://([^@/?]*@)?[^@]*")
"""Its one @, if there is one, ends the user and the password."""
_SHOWN = ("user", "host", "hostaddr", "port", "dbname", "service")
"""The parts of a connection string that messages show."""


class Database:
    """Where a journal is. `str()` of it is for messages."""

    def __init__(self, url: str | None, schema: str) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
            raise UsageError(
                f"{schema!r} cannot be the schema of a journal.",
                remedy="Give a name of small letters, digits and _, at most 63 characters.",
            )
        self.schema = schema
        self._given = _read_url(os.environ.get(_VARIABLE) if url is None else url)
        self.clock_offset = 0.0
        """What must be added to the clock of this machine to have that of the database."""

    def __str__(self) -> str:
        given = self._given
        host = given.get("host") or given.get("hostaddr") or ""
        user = f"{given['user']}@" if given.get("user") else ""
        port = f":{given['port']}" if given.get("port") else ""
        name = given.get("dbname") or given.get("service") or ""
        return f"postgresql://{user}{host}{port}/{name} (schema {self.schema})"

    __repr__ = __str__

    def now(self) -> float:
        """The time by the clock of the database, in seconds since 1970."""
        return time.time() + self.clock_offset

    def connect(self) -> Connection:
        """A connection that is set as the journal needs it. Refuses a pooler that shares server processes."""
        with self.convert_errors("reached"):
            return self.connect_for_engine()

    def connect_for_engine(self) -> Connection:
        """The same, with the errors of PostgreSQL: an engine knows by these that it has to try again."""
        connection = self._connect()
        try:
            self._check_pooler(connection)
            self._set(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> Connection:
        name = f"hookline {socket.gethostname()} {os.getpid()}"
        settings: dict[str, Any] = {**_OF_CLIENT, **self._given, "application_name": name}
        return psycopg.connect(autocommit=True, **settings)

    def _set(self, connection: Connection) -> None:
        before = time.time()
        (now,) = ask_one(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
        self.clock_offset = now - (before + time.time()) / 2
        settings = {**_OF_SERVER, "search_path": self.schema}
        connection.execute(_SETTINGS, [word for pair in settings.items() for word in pair])

    def _check_pooler(self, connection: Connection) -> None:
        """Refuse a pooler that gives one server process to many clients in turn: they would share its locks.

        A notification reaches a client that asks for nothing only if the server process that listens is its own.
        Rejected: comparing the server process of several queries, which may be the same one by chance.
        """
        if ask_one(connection, "SELECT pg_backend_pid()") == (connection.info.backend_pid,):
            return  # as the server itself said when the connection began
        channel = f"hookline_{os.urandom(8).hex()}"
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        with self._connect() as other:
            other.execute("SELECT pg_notify(%s, %s)", (channel, ""))
            if not list(connection.notifies(timeout=_NOTIFY_SECONDS, stop_after=1)):
                raise JournalError(
                    f"the journal in {self} cannot be used: a pooler in transaction or statement mode is between, "
                    "which gives the lock on a run to two clients.",
                    remedy="Connect to the server itself, or set the pooler to session mode (pool_mode = session).",
                )
        connection.execute("UNLISTEN *")

    # --- errors ----------------------------------------------------------------------------------------

    @contextmanager
    def convert_errors(self, action: str) -> Iterator[None]:
        """Raise errors of PostgreSQL as JournalError. `action` is `read`, `written` or `reached`."""
        try:
            yield
        except psycopg.Error as error:
            raise self.journal_error(error, action) from None  # the cause may quote what was sent

    def journal_error(self, error: psycopg.Error, action: str) -> JournalError:
        """An error of PostgreSQL as one of ours."""
        words, remedy = _words(error)
        kind = AccessDeniedError if error.sqlstate == _NOT_PERMITTED else JournalError
        return kind(
            f"the journal in {self} cannot be {action}: {words} ({self._without_password(error)}).",
            remedy=remedy,
        )

    def _without_password(self, error: psycopg.Error) -> str:
        primary = error.diag.message_primary or str(error)
        text = " ".join(primary.split()) or type(error).__name__
        for secret in _secrets_in(self._given):
            text = text.replace(secret, "***")
        return text


def ask_one(connection: Connection, query: str | sql.Composed, *values: object) -> tuple[Any, ...]:
    """The one row that a query gives."""
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row


def is_lost(connection: Connection) -> bool:
    """Whether a connection cannot be used any more."""
    return connection.closed or connection.broken


def _read_url(url: str | None) -> dict[str, Any]:
    if url is None:
        raise UsageError(
            "no database is named.",
            remedy=f'Give a URL, "postgresql://USER@HOST/NAME", or set {_VARIABLE}.',
        )
    found: dict[str, Any] = {}
    is_readable = False
    with suppress(
        psycopg.Error
    ):  # raised in here, ours would carry the words of libpq as its context
        found = dict(conninfo.conninfo_to_dict(url))
        is_readable = True
    # libpq ends a password at its first / or @, and takes the rest for a host, a port or a database.
    is_clear = _CLEAR_URL.fullmatch(url) or not url.startswith(("postgresql://", "postgres://"))
    if not (is_readable and is_clear) or not re.fullmatch(r"[0-9,]*", str(found.get("port") or "")):
        raise _url_error()
    if any(_is_connection_string(str(found.get(part) or "")) for part in _SHOWN):
        raise _url_error()
    return found


def _is_connection_string(part: str) -> bool:
    """Whether a part of a connection string is itself one. libpq takes that for a name, and its password with it.

    By its marks: the parser of libpq refuses one with a mistake. A directory of sockets may have any name.
    """
    return "://" in part or ("=" in part and not part.startswith("/"))


def _url_error() -> UsageError:
    """Without the words of libpq, and without any part of the URL: each may be a part of the password."""
    return UsageError(
        "the URL of the database cannot be read.",
        remedy="It has the form postgresql://USER@HOST:PORT/NAME, with :PASSWORD after USER. Special characters, such "
        "as /, @, #, ? and %, are written with %: %2F, %40, %23, %3F and %25.",
    )


def has_password(url: str) -> bool:
    """Whether the password, or another secret, stands in a URL."""
    return any(_secrets_in(_read_url(url)))


def _secrets_in(found: dict[str, Any]) -> list[str]:
    """The values that libpq itself would hide on a screen."""
    hidden = [each.keyword.decode() for each in pq.Conninfo.parse(b"") if each.dispchar == b"*"]
    return [str(found[name]) for name in hidden if found.get(name)]


_NOT_PERMITTED = "42501"
_WORDS = {
    "28": (
        "the server refuses the role or its password",
        "See the role, its password and pg_hba.conf.",
    ),
    "3D": ("there is no such database", "Create it: createdb NAME."),
    "3F": ("its tables are not there", "Make them: hookline database migrate."),
    "42P01": ("its tables are not there", "Make them: hookline database migrate."),
    _NOT_PERMITTED: (
        "the role may not do this",
        "Grant it what docs/postgres.md lists for its task, and docs/scaling.md for queues and workers.",
    ),
    "53": ("the server is out of connections, memory or space", "See the server's log."),
    "55P03": ("another session holds a lock for too long", "See pg_stat_activity, and try again."),
    "25006": (
        "the server only reads",
        "Connect to the primary server: target_session_attrs=read-write.",
    ),
}
_OTHER = ("PostgreSQL refused", "See the server's log.")
_UNREACHABLE = (
    "there is no connection to the server",
    "Check that it runs and can be reached, and that the pool of a pooler is not too small (default_pool_size). If a "
    "run was interrupted, resume it: what was committed is there.",
)


_REFUSALS = {
    r"password authentication failed|no password supplied|no pg_hba.conf entry": "28",
    r"role \".*\" (does not exist|is not permitted to log in)": "28",
    r"database \".*\" does not exist": "3D",
    r"permission denied for database": _NOT_PERMITTED,
    r"too many (clients|connections)|remaining connection slots": "53",
}


def _state_of(words: str) -> str:
    """The state that a server gave when it refused a connection, which psycopg leaves out. By its English words."""
    return next((state for each, state in _REFUSALS.items() if re.search(each, words)), "")


def _words(error: psycopg.Error) -> tuple[str, str]:
    state = error.sqlstate or _state_of(str(error))
    if not state and isinstance(error, psycopg.OperationalError):
        return _UNREACHABLE
    if state.startswith(("08", "57P")):
        return _UNREACHABLE
    return _WORDS.get(state) or _WORDS.get(state[:2]) or _OTHER


# --- text ----------------------------------------------------------------------------------------------

# PostgreSQL has no NUL in text. It is written as two characters, and so is the first of these.
_MARK = "\x1a"


def to_column(value: object) -> object:
    """A value as PostgreSQL keeps it."""
    if isinstance(value, str):
        return str(value).replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")
    return value


def from_column(value: object) -> object:
    """A value that `to_column` gave."""
    if isinstance(value, str) and _MARK in value:
        return value.replace(f"{_MARK}0", "\0").replace(f"{_MARK}1", _MARK)
    return value
