"""Watching a run of a session while it goes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from hookline.agent import RunResult
from hookline.errors import UsageError
from hookline.journal import Record


class SessionStream:
    """An async iterator over the records of a run. `result` is there once it has been read to its end.

    Leaving it early cancels the run: its hooks on the way out still run, and the session is free again.
    """

    def __init__(self, read: Callable[[list[RunResult]], AsyncGenerator[Record, None]]) -> None:
        self._results: list[RunResult] = []
        self._records = read(self._results)

    @property
    def result(self) -> RunResult:
        """The run's result."""
        if not self._results:
            raise UsageError("the run has not ended.", remedy="Read the stream to its end first.")
        return self._results[0]

    def __aiter__(self) -> AsyncIterator[Record]:
        return self._records

    async def __anext__(self) -> Record:
        return await anext(self._records)

    async def aclose(self) -> None:
        """Leave the stream; a run that is still going is cancelled."""
        await self._records.aclose()
