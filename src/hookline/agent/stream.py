"""Watching a run while it goes: its records as they happen, or its state after each step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.errors import UsageError
from hookline.state import AgentState

T = TypeVar("T")


class Feed(Generic[T]):
    """What the run puts in and the caller takes out. The run waits at each step until the caller has caught up."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._more = asyncio.Event()
        self._taken = asyncio.Event()

    def put(self, item: T) -> None:
        """Hand over an item."""
        self._items.append(item)
        self._more.set()

    async def caught_up(self) -> None:
        """Wait until the caller has taken everything and asks for more."""
        while self._items:
            self._taken.clear()
            await self._taken.wait()

    async def take(self, until: asyncio.Task[RunResult]) -> AsyncIterator[T]:
        """Everything the run hands over, until it ends."""
        until.add_done_callback(lambda _: self._more.set())
        while True:
            while self._items:
                yield self._items[0]
                # Only when the caller comes back for the next one has it dealt with this one.
                self._items.popleft()
                if not self._items:
                    self._taken.set()
            if until.done():
                return
            self._more.clear()
            await self._more.wait()


class RunStream(Generic[T]):
    """An async iterator over a run. `result` is there once it has been read to its end.

    Leaving it early cancels the run: its hooks on the way out still run.
    """

    def __init__(
        self,
        run: Run,
        drive: Callable[[], Coroutine[Any, Any, RunResult]],
        attach: Callable[[Run, Feed[T]], None],
    ) -> None:
        self._run = run
        self._drive = drive
        self._attach = attach
        self._result: RunResult | None = None
        self._events = self._read()

    @property
    def result(self) -> RunResult:
        """The run's result."""
        if self._result is None:
            raise UsageError("the run has not ended.", remedy="Read the stream to its end first.")
        return self._result

    def __aiter__(self) -> AsyncIterator[T]:
        return self._events

    async def __anext__(self) -> T:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Leave the stream; a run that is still going is cancelled."""
        close: Callable[[], Awaitable[None]] = self._events.aclose  # type: ignore[attr-defined]
        await close()

    async def _read(self) -> AsyncIterator[T]:
        feed: Feed[T] = Feed()
        self._attach(self._run, feed)
        task = asyncio.create_task(self._drive())
        try:
            async for item in feed.take(task):
                yield item
            self._result = await task
        finally:
            if not task.done():
                self._run.token.cancel("the stream was left")
                await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                self._result = task.result()


def states(run: Run, feed: Feed[AgentState]) -> None:
    """Feed the state after each step."""

    async def on_step(state: AgentState) -> None:
        feed.put(state)
        await feed.caught_up()

    run.on_step = on_step
