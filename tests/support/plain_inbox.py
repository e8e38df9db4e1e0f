"""What the stores of tests have in common: an inbox in memory, and nothing of what no test asks them for."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any, NoReturn

from hookline.errors import UnknownRunError
from hookline.journal import (
    EarlierRun,
    InboxMessage,
    JournalStore,
    Record,
    RunInfo,
    SessionInfo,
    is_new,
)


def done_future() -> Future[None]:
    """For what is done at once."""
    done: Future[None] = Future()
    done.set_result(None)
    return done


class PlainInbox(JournalStore):
    """Keeps messages in a list."""

    messages: tuple[InboxMessage, ...] = ()

    def records(self, run_id: str) -> list[Record]:
        """What `read` gives. A test that is not async, and one that is, may ask for it."""
        raise UnknownRunError(f"there is no run '{run_id}' in the journal.")

    async def read(self, run_id: str) -> list[Record]:
        return self.records(run_id)

    async def post(self, message: InboxMessage) -> None:
        self.records(message.run_id)  # of runs that are there
        if is_new(message, await self.inbox(message.run_id)):
            self.messages = (*self.messages, message)

    async def inbox(self, *run_ids: str) -> list[InboxMessage]:
        return [each for each in self.messages if each.run_id in run_ids]

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def runs(self, **_: Any) -> list[RunInfo]:
        return []

    async def sessions(self, **_: Any) -> list[SessionInfo]:
        return []

    async def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        _nobody_asks(run_id, records)

    async def read_earlier(self, earlier: EarlierRun) -> Any:
        _nobody_asks(earlier)

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        _nobody_asks(run_id, with_later)

    async def prune(self, **limits: Any) -> list[str]:
        _nobody_asks(limits)

    async def check(self) -> Any:
        _nobody_asks()

    async def backup(self, path: str | os.PathLike[str]) -> None:
        _nobody_asks(path)


def _nobody_asks(*given: object) -> NoReturn:
    raise NotImplementedError(given)
