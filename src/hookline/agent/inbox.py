"""What comes from the inbox of a run while it is driven: answers to its questions, and its cancellation.

There is one watch for all runs that an event loop drives from one journal. It looks twice a second, with one query,
and not at all while no run is driven. Rejected: `PRAGMA data_version` (it changes with every commit of this process,
too, and costs as much as the query).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from hookline.journal import InboxAnswer, InboxCancel, InboxMessage, JournalStore
from hookline.state import PendingApproval

SECONDS = 0.5
"""Between two looks."""
_log = logging.getLogger("hookline")


class RunInbox:
    """The inbox of an outermost run, for itself and its children."""

    __slots__ = ("_answers", "_cancel", "_reported", "_waiting", "run_id", "store")

    def __init__(self, store: JournalStore, run_id: str) -> None:
        self.store = store
        self.run_id = run_id
        self._answers: dict[str, dict[str, InboxAnswer]] = {}
        """By question and fingerprint: the fingerprint of a question may have changed since."""
        self._waiting: dict[str, tuple[PendingApproval, asyncio.Future[InboxAnswer]]] = {}
        self._cancel: Callable[[str], object] | None = None
        self._reported: set[str] = set()

    def watch(self, cancel: Callable[[str], object]) -> Callable[[], None]:
        """The run is driven: `cancel(reason)` ends it. What is given back ends the watch."""
        self._cancel = cancel
        return watch(self.store, self.run_id, self.take)

    def take(self, messages: Iterable[InboxMessage]) -> None:
        """Read messages. To read one again changes nothing."""
        for message in messages:
            if isinstance(message, InboxCancel):
                if self._cancel is not None:
                    self._cancel(message.words)
                continue
            self._answers.setdefault(message.question, {})[message.fingerprint] = message
            approval, future = self._waiting.get(message.question, (None, None))
            if approval is not None and future is not None and not future.done():
                found = self.answer_to(approval)
                if found is not None:
                    future.set_result(found)

    def answer_to(self, approval: PendingApproval) -> InboxAnswer | None:
        """The answer to this question about this very call. One about another call is void, and reported."""
        given = self._answers.get(approval.id)
        if given is None:
            return None
        found = given.get(approval.fingerprint)
        if found is None:
            for each in given.values():
                self.report(each, "its call has changed since")
        return found

    def wait_for(self, approval: PendingApproval) -> asyncio.Future[InboxAnswer]:
        """Done when an answer to this question comes. `forget` ends that."""
        future: asyncio.Future[InboxAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[approval.id] = approval, future
        if (found := self.answer_to(approval)) is not None:
            future.set_result(found)
        return future

    def forget(self, approval: PendingApproval) -> None:
        """Nobody waits for an answer to this question any more."""
        self._waiting.pop(approval.id, None)

    def report(self, message: InboxAnswer, why: str) -> None:
        """Say once that an answer is void."""
        if message.id not in self._reported:
            self._reported.add(message.id)
            _log.warning(
                "the answer of %s to question '%s' (%s) is not valid any more: %s",
                message.by,
                message.question,
                message.decision.answer.value,
                why,
            )


# --- one watch for all runs of a journal ---------------------------------------------------------------


Take = Callable[[list[InboxMessage]], object]


class _Watch:
    """Looks into the inbox of every run that an event loop drives from a journal."""

    def __init__(self, store: JournalStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._runs: dict[object, tuple[str, Take]] = {}
        self._task = loop.create_task(self._look_on(), name="hookline inbox")

    def add(self, run_id: str, take: Take) -> Callable[[], None]:
        key = object()
        self._runs[key] = run_id, take

        def remove() -> None:
            self._runs.pop(key, None)
            if not self._runs:
                self._task.cancel()
                _watches.pop((id(self._store), id(self._loop)), None)

        return remove

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(SECONDS)
            await self._look()

    async def _look(self) -> None:
        runs = list(self._runs.values())
        try:
            messages = await self._store.inbox(*{run_id for run_id, _ in runs})
        except Exception as error:  # what is wrong with the journal, a run finds out when it writes
            _log.debug("the inbox cannot be read: %s", error)
            return
        for run_id, take in runs if messages else ():
            take([each for each in messages if each.run_id == run_id])


_watches: dict[tuple[int, int], _Watch] = {}
"""By journal and event loop. A watch keeps both alive, and is removed with its last run."""


def watch(store: JournalStore, run_id: str, take: Take) -> Callable[[], None]:
    """Pass the messages of a run to `take`, whenever there are any. What is given back ends the watch."""
    loop = asyncio.get_running_loop()
    key = (id(store), id(loop))
    found = _watches.get(key)
    if found is None:
        found = _watches[key] = _Watch(store, loop)
    return found.add(run_id, take)
