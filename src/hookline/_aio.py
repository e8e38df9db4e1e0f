"""Small pieces of asyncio: time limits, threads that can be abandoned, awaitables that know if they are awaited."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def wait_within(seconds: float, waiting: Awaitable[object]) -> bool:
    """Wait for something for so long and no longer, and say whether it happened.

    Also in a task that was cancelled and has to see to its end: there `asyncio.timeout` gives up in early versions of
    Python 3.11, and `asyncio.wait_for` loses a cancellation that comes just as it happens.
    """
    task = asyncio.ensure_future(waiting)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    finally:
        if task.cancel():
            await asyncio.wait([task])
    if done:
        task.result()
    return bool(done)


def is_in_event_loop() -> bool:
    """Whether this thread runs an event loop: code there awaits, and must not block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_async_callable(function: object) -> bool:
    """Whether calling `function` gives a coroutine."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & inspect.CO_COROUTINE:
        return True  # the quick way, for plain async functions
    if isinstance(function, type):
        return False  # calling a class makes an object, whatever that object's own call gives
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is asked, not whether it exists
    )


def is_generator_callable(function: object) -> bool:
    """Whether calling `function` runs nothing yet and gives a generator, async or not."""
    if isinstance(function, type):
        return False
    return any(
        inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each)
        for each in (function, getattr(function, "__call__", None))  # noqa: B004 - as above
    )


async def call_in_thread(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Run a sync function in a daemon thread of its own.

    A pool would be cheaper by a few microseconds, but a function that never returns would keep a
    place in it for ever, and keep the interpreter from exiting.
    """
    future, work = _job(functools.partial(function, *args, **kwargs))
    name = f"hookline:{getattr(function, '__name__', 'call')}"
    threading.Thread(target=work, name=name, daemon=True).start()
    return await future


async def call_with_next(
    function: Callable[..., Any], given: T, proceed: Callable[[T], Awaitable[T]]
) -> Any:
    """Run a sync `function(given, next)` in a thread, where `next(value)` waits until `proceed(value)` is done here.

    `proceed` runs in the caller's task, so that cancelling the caller cancels it; the thread is abandoned then.
    """
    loop, here = asyncio.get_running_loop(), threading.get_ident()
    asked: asyncio.Queue[tuple[T, concurrent.futures.Future[T]] | None] = asyncio.Queue()
    is_over = False

    def put(value: T, answer: concurrent.futures.Future[T]) -> None:
        if is_over:
            answer.cancel()
        else:
            asked.put_nowait((value, answer))

    def proceed_in_loop(value: T) -> Any:
        if threading.get_ident() == here:
            return proceed(value)  # by a coroutine that the function made: it awaits this
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        loop.call_soon_threadsafe(put, value, answer)
        return answer.result()

    running = asyncio.ensure_future(call_in_thread(function, given, proceed_in_loop))
    running.add_done_callback(lambda _: asked.put_nowait(None))
    try:
        while (question := await asked.get()) is not None:
            value, answer = question
            try:
                answer.set_result(await proceed(value))
            except BaseException as error:
                answer.set_exception(error)
                if not isinstance(error, Exception):
                    raise  # the function may not continue, nor may we
        return await running
    finally:
        is_over = True
        running.cancel()


class WorkerThread:
    """A daemon thread that runs sync functions one after the other, until it is closed."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.close = functools.partial(self._jobs.put, None)
        self.is_stuck = False
        """Nobody waits any more for what it is doing."""
        # The thread does not hold this object, so that it can end with its owner.
        threading.Thread(target=_run_jobs, args=(self._jobs,), name=name, daemon=True).start()

    async def call(self, function: Callable[..., T], /, *args: Any) -> T:
        """Run a function in the thread, with the context variables of the caller."""
        future, work = _job(functools.partial(function, *args))
        self._jobs.put(work)
        try:
            return await future
        except asyncio.CancelledError:
            self.is_stuck = True
            raise


def _run_jobs(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := jobs.get()) is not None:
        work()
        del work  # while the thread waits, it keeps nothing alive


def _job(function: Callable[[], T]) -> tuple[asyncio.Future[T], Callable[[], None]]:
    """What another thread does to run a function, and the future that gets its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(method: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            method(value)

    def work() -> None:
        try:
            value = context.run(function)
        except BaseException as error:
            # A future cannot carry StopIteration, and SystemExit in a thread ends nothing but the thread.
            homeless = isinstance(error, StopIteration | SystemExit)
            carried = RuntimeError(f"{type(error).__name__}: {error}") if homeless else error
            deliver = (future.set_exception, carried)
        else:
            deliver = (future.set_result, value)  # type: ignore[assignment]
        # The loop is closed: nobody waits for this any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, *deliver)

    return future, work


class Once(Generic[T]):
    """An awaitable that may be awaited once, and knows whether it was."""

    __slots__ = ("_start", "awaited")

    def __init__(self, start: Callable[[], Awaitable[T]]) -> None:
        self._start = start
        self.awaited = False

    def __await__(self) -> Generator[Any, None, T]:
        self.awaited = True
        return self._start().__await__()


def is_being_cancelled() -> bool:
    """Whether someone cancelled the task we are in, rather than the code we call raising CancelledError itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
