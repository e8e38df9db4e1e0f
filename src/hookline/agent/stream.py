"""Watching a run while it goes: its records as they happen, or its state after each step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Generic, Self, TypeVar

from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.errors import UsageError

T = TypeVar("T")


class StreamBuffer(Generic[T]):
    """What the run puts in and the caller takes out. The run waits at each step until the caller has caught up."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._more = asyncio.Event()
        self._taken = asyncio.Event()
        self._left = False

    def put(self, item: T) -> None:
        """Hand over an item."""
        self._items.append(item)
        self._more.set()

    async def caught_up(self) -> None:
        """Wait until the caller has taken everything and asks for more."""
        while self._items and not self._left:
            self._taken.clear()
            await self._taken.wait()

    def pace(self, run: Run) -> None:
        """Let the run wait for the caller at each step, and wherever its driver keeps pace."""
        run.pace = self.caught_up
        run.on_step = lambda _: self.caught_up()

    def take_states(self, run: Run) -> None:
        """Take the state after each step, and let the run wait until the caller has dealt with it."""

        async def on_step(state: Any) -> None:
            self.put(state)
            await self.caught_up()

        run.on_step = on_step

    def leave(self) -> None:
        """The caller will not take anything any more."""
        self._left = True
        self._taken.set()

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

    Leaving it early cancels the run: the hooks at its end still run. With `async with agent.stream(...) as events`
    the end of the block leaves it.
    """

    def __init__(self, read: Callable[[list[RunResult]], AsyncGenerator[T, None]]) -> None:
        self._results: list[RunResult] = []
        # The iterator knows nothing of this object: when it is dropped half-way, it must be free to end.
        self._events = read(self._results)

    @property
    def result(self) -> RunResult:
        """The run's result."""
        if not self._results:
            raise UsageError("the run has not ended.", remedy="Read the stream to its end first.")
        return self._results[0]

    def __aiter__(self) -> AsyncIterator[T]:
        return self._events

    async def __anext__(self) -> T:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave the stream; a run that is still going is cancelled."""
        await self._events.aclose()


async def follow(
    start: Callable[[], Awaitable[tuple[Run, Coroutine[Any, Any, RunResult]]]],
    feed: StreamBuffer[T],
    results: list[RunResult],
) -> AsyncGenerator[T, None]:
    """Start a run, drive it, and give what it hands over; its result is put into the list."""
    run, driving = await start()
    task = asyncio.create_task(driving)
    items = feed.take(task)
    try:
        async for item in items:
            yield item
        results.append(await task)
    finally:
        feed.leave()
        if not task.done():
            if not run.is_showing_last_step:
                run.token.cancel("the stream was left")
            await asyncio.wait([task])
        if not results and not task.cancelled() and task.exception() is None:
            results.append(task.result())
