"""Statements on their way to the server and back, without a thread that waits.

Rejected: `psycopg.AsyncConnection`. It belongs to one event loop, and its cursors take twice the CPU time. Here any
thread can wait for what an event loop has sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress

from psycopg import pq
from psycopg.waiting import Wait

from hookline.journal.postgres.database import Connection
from hookline.journal.postgres.statements import BoundStatement, check_results


class CommitExchange:
    """Statements that are executed in one transaction and one round trip. Nothing waits but `wait`.

    One thread at a time uses it, not always the same. The outcome is `error`, or how many rows each statement has
    changed.
    """

    def __init__(self, connection: Connection, statements: Sequence[BoundStatement]) -> None:
        self._connection = connection
        self._steps = _execute(connection, statements)
        self._waits_for: Wait | None = None
        self.rows: list[int] = []
        self.error: Exception | None = None
        self.advance()

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self._waits_for is None

    @property
    def is_sent(self) -> bool:
        """Whether only the answer is missing."""
        return self._waits_for is Wait.R

    def advance(self) -> None:
        """Send and read as much as is possible now."""
        try:
            self._waits_for = next(self._steps)
            return
        except StopIteration as end:
            self.rows = end.value
        except Exception as error:
            self.error = error
        self._waits_for = None

    def wait(self) -> None:
        """Wait for the outcome, in this thread."""
        if self._waits_for is None:
            return
        try:
            self.rows = self._connection.wait(self._steps)
        except Exception as error:
            self.error = error
        finally:
            self._waits_for = None


def _execute(
    connection: Connection, statements: Sequence[BoundStatement]
) -> Generator[Wait, object, list[int]]:
    """Yields what it waits for, and may be continued before that has come. Returns how many rows each has changed.

    In a pipeline, everything before the synchronisation is one transaction, without BEGIN and COMMIT.
    """
    pgconn = connection.pgconn
    is_pipeline = len(statements) > 1  # it takes a third more of the CPU
    results: list[pq.abc.PGresult] = []
    try:
        if is_pipeline:
            pgconn.enter_pipeline_mode()
        for statement in statements:
            pgconn.send_query_prepared(*statement)
        if is_pipeline:
            pgconn.pipeline_sync()
        while pgconn.flush():
            yield Wait.RW
            pgconn.consume_input()  # the server may wait until somebody reads
        has_more = bool(statements)
        while has_more:
            while pgconn.is_busy():
                yield Wait.R
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is not None:
                results.append(result)
                has_more = result.status != pq.ExecStatus.PIPELINE_SYNC
            else:
                has_more = is_pipeline
        if is_pipeline:
            pgconn.exit_pipeline_mode()
    except BaseException:
        connection.close()  # what it would say next is unknown
        check_results(results)  # the server may have said why it ends the connection
        raise
    check_results(results)
    return [result.command_tuples or 0 for result in results[: len(statements)]]


class AnswerReader:
    """Has the selector of an event loop look for answers on a connection. Only the thread of that loop uses it.

    A loop keeps its readers by the number of the socket. It must not have one whose connection was closed by another
    thread, because a new socket gets the same number. So this is a number of its own.
    """

    def __init__(
        self,
        connection: Connection,
        loop: asyncio.AbstractEventLoop,
        read: Callable[[AnswerReader], object],
    ) -> None:
        self.loop = loop
        self._read = read
        self._is_active = False
        self._socket = os.dup(connection.pgconn.socket)

    def start(self) -> None:
        """Call `read(self)` whenever there is something to read. Raises NotImplementedError in a loop that cannot."""
        if not self._is_active:
            self.loop.add_reader(self._socket, self._read, self)
            self._is_active = True

    def stop(self) -> None:
        """Look no more, until it is started again."""
        if self._is_active:
            self.loop.remove_reader(self._socket)
            self._is_active = False

    def close(self) -> None:
        """Stop for ever. In any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.stop)

    def __del__(self) -> None:
        os.close(self._socket)
