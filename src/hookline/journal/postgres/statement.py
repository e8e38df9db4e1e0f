"""Statements that a connection prepares once, and that go to libpq without a cursor of psycopg.

A step is one such statement. A cursor takes twice the CPU time of the client for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import generators, pq

from hookline.journal.postgres.database import Connection, to_column

_MARK = re.compile(r"%\((\w+)\)s")
_OK = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.PIPELINE_SYNC)


class Statement:
    """A query with `%(name)s` where a value belongs."""

    def __init__(self, name: str, query: str) -> None:
        self.name = name.encode()
        self.text = query
        self._names = tuple(dict.fromkeys(_MARK.findall(query)))
        places = {name: f"${place}" for place, name in enumerate(self._names, start=1)}
        self._prepared = _MARK.sub(lambda mark: places[mark[1]], query).encode()

    def prepare(self, connection: Connection) -> None:
        """Let the server parse it."""
        _check([connection.pgconn.prepare(self.name, self._prepared)])

    def bind(self, values: Mapping[str, object]) -> BoundStatement:
        """The statement with its values. Numbers are sent as text."""
        given = [values[name] for name in self._names]
        formats = [int(isinstance(value, bytes | str)) for value in given]
        return BoundStatement(self.name, [_encode(value) for value in given], formats)


class BoundStatement(NamedTuple):
    """A prepared statement, and its values as they are sent."""

    name: bytes
    values: list[Any]
    formats: list[int]


def _encode(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(to_column(value)).encode()


def execute_all(connection: Connection, statements: Sequence[BoundStatement]) -> list[int]:
    """Execute statements in one transaction and one round trip. Returns how many rows each has changed.

    In a pipeline, everything before the synchronisation is one transaction, without BEGIN and COMMIT.
    """
    pgconn = connection.pgconn
    if len(statements) == 1:  # most often, and a pipeline takes a third more of the CPU
        results = [pgconn.exec_prepared(*statements[0])]
        _check(results)
        return _rows(results)
    results = []
    try:
        pgconn.enter_pipeline_mode()
        for statement in statements:
            pgconn.send_query_prepared(*statement)
        pgconn.pipeline_sync()
        connection.wait(generators.send(pgconn))
        for _ in (*statements, "synchronisation"):
            results += connection.wait(generators.fetch_many(pgconn))
        pgconn.exit_pipeline_mode()
    except BaseException:
        connection.close()  # what it would say next is unknown
        _check(results)  # the server may have said why it ends the connection
        raise
    _check(results)
    return _rows(results[:-1])


def _rows(results: Sequence[pq.abc.PGresult]) -> list[int]:
    return [result.command_tuples or 0 for result in results]


def _check(results: Sequence[pq.abc.PGresult]) -> None:
    for result in results:
        if result.status not in _OK:
            error = psycopg.errors.error_from_result(result)
            # The server always gives a code. Without one, libpq says that it has no connection.
            raise error if error.sqlstate else psycopg.OperationalError(str(error))
