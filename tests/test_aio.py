"""Small pieces of asyncio: who is async, threads that can be abandoned, awaitables that know their fate."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hookline._aio import (
    Once,
    call_in_thread,
    call_with_next,
    is_async_callable,
    is_being_cancelled,
    wait_within,
)


async def later(*args: Any) -> Any:
    """An async function."""
    return args


def now(*args: Any) -> Any:
    """A sync one."""
    return args


class Later:
    async def __call__(self) -> None: ...

    async def method(self) -> None: ...


class Now:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    "function", [later, functools.partial(later, 1), Later(), Later().method, Later.method]
)
def test_what_gives_a_coroutine_is_async(function: Any) -> None:
    """Functions, methods, partials and objects with an async call."""
    assert is_async_callable(function)


@pytest.mark.parametrize(
    "function", [now, functools.partial(now), Now(), Later, lambda: later(), print, None, 5]
)
def test_what_does_not_is_not(function: Any) -> None:
    """Also a class of async objects, and a plain function that only hands a coroutine on."""
    assert not is_async_callable(function)


async def test_a_thread_gives_back_what_the_function_gives() -> None:
    """With all its arguments, from another thread."""

    def work(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs, threading.get_ident()

    args, kwargs, ident = await call_in_thread(work, 1, 2, three=3)
    assert (args, kwargs) == ((1, 2), {"three": 3})
    assert ident != threading.get_ident()


async def test_a_thread_gives_back_what_the_function_raises() -> None:
    """The very exception, with its traceback."""
    error = ValueError("no")

    def work() -> None:
        raise error

    with pytest.raises(ValueError, match="no") as caught:
        await call_in_thread(work)
    assert caught.value is error
    assert "work" in [entry.name for entry in caught.traceback]


async def test_a_thread_can_raise_what_a_future_cannot_carry() -> None:
    """StopIteration becomes an error one can await."""

    def work() -> None:
        next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await call_in_thread(work)


async def test_a_thread_sees_the_context_it_was_called_in() -> None:
    """And what it sets there stays there."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("here")

    def work() -> str:
        seen = variable.get()
        variable.set("there")
        return seen

    assert await call_in_thread(work) == "here"
    assert variable.get() == "here"


async def test_the_loop_is_free_while_a_thread_works() -> None:
    """Several work at once."""
    barrier = threading.Barrier(3, timeout=60)
    assert sorted(await asyncio.gather(*(call_in_thread(barrier.wait) for _ in range(3)))) == [
        0,
        1,
        2,
    ]


async def abandon(work: Callable[[], object], has_begun: Callable[[], bool]) -> None:
    """Wait for what a thread does, and give up when it has begun."""
    waiting = asyncio.create_task(call_in_thread(work))
    while not has_begun():  # noqa: ASYNC110 - another thread does it
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_nobody_has_to_wait_for_a_thread() -> None:
    """After a cancelled wait it is abandoned: it does not keep the program alive, and its result is ignored."""
    release, seen = threading.Event(), []

    def work() -> str:
        seen.append(threading.current_thread())
        release.wait(10)
        return "too late"

    await abandon(work, lambda: bool(seen))
    (thread,) = seen
    assert thread.daemon
    assert thread.name == "hookline:work"
    release.set()
    await asyncio.to_thread(thread.join, 10)
    await asyncio.sleep(0)


def test_a_thread_may_outlive_its_loop() -> None:
    """It ends without a message when nobody waits for it."""
    release, seen = threading.Event(), []

    def work() -> None:
        seen.append(threading.current_thread())
        release.wait(10)

    asyncio.run(abandon(work, lambda: bool(seen)))
    release.set()
    seen[0].join(10)
    assert not seen[0].is_alive()


async def test_once_knows_whether_it_was_awaited() -> None:
    """Nothing starts before, and no warning is left when it never does."""
    started: list[int] = []

    async def start() -> str:
        started.append(1)
        return "done"

    once = Once(start)
    assert (once.awaited, started) == (False, [])
    assert await once == "done"
    assert (once.awaited, started) == (True, [1])


async def test_once_can_be_awaited_by_others() -> None:
    """It is an awaitable like any other."""
    assert await asyncio.wait_for(Once(lambda: later(1)), 10) == (1,)
    assert await asyncio.gather(Once(lambda: later(1)), Once(lambda: later(2))) == [(1,), (2,)]


async def test_being_cancelled_is_distinguished_from_a_cancellation_nobody_asked_for() -> None:
    """A CancelledError alone says nothing: what counts is whether someone cancelled this task."""
    answers: list[bool] = []

    async def spurious() -> None:
        try:
            raise asyncio.CancelledError
        except asyncio.CancelledError:
            answers.append(is_being_cancelled())

    async def cancelled() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            answers.append(is_being_cancelled())
            raise

    await spurious()
    task = asyncio.create_task(cancelled())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert answers == [False, True]


def test_outside_of_any_task_nothing_is_being_cancelled() -> None:
    """There is a loop in which to ask, and no task."""

    async def main() -> bool:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()
        loop.call_soon(lambda: answer.set_result(is_being_cancelled()))
        return await answer

    assert asyncio.run(main()) is False


async def test_what_is_waited_for_in_time_has_happened() -> None:
    """And its failure is not lost."""

    async def fail() -> None:
        raise ValueError("no")

    assert await wait_within(5, asyncio.sleep(0))
    assert not await wait_within(0.01, asyncio.Event().wait())
    with pytest.raises(ValueError, match="no"):
        await wait_within(5, fail())


async def test_a_time_limit_holds_in_a_task_that_was_cancelled() -> None:
    """Whoever sees to an end there continues to the next thing when the time is up."""
    seen: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(await wait_within(0.01, asyncio.Event().wait()))
            seen.append(await wait_within(5, asyncio.sleep(0)))

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert seen == [False, True]


async def test_a_sync_function_can_wait_for_an_async_one() -> None:
    """`next` runs in the task of the caller, as often as it is called; its errors can be handled."""
    task = asyncio.current_task()

    async def proceed(value: int) -> int:
        await asyncio.sleep(0)
        assert asyncio.current_task() is task
        return 1 // value

    def work(value: int, next: Any) -> Any:
        with pytest.raises(ZeroDivisionError):
            next(0)
        return next(value), threading.get_ident()

    assert await call_with_next(work, 1, proceed) != (1, threading.get_ident())


async def test_a_sync_function_that_nobody_waits_for_gets_no_answer() -> None:
    """After the caller was cancelled, `next` raises in the thread, and does nothing."""
    cancelled, ended = threading.Event(), threading.Event()
    seen: list[Any] = []
    asked = asyncio.Event()

    async def proceed(value: Any) -> Any:
        seen.append(value)
        asked.set()

    def work(value: Any, next: Any) -> None:
        next("in time")
        cancelled.wait(10)
        try:
            next("too late")
        except BaseException as error:
            seen.append(type(error).__name__)
        ended.set()

    running = asyncio.create_task(call_with_next(work, None, proceed))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    cancelled.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert seen == ["in time", "CancelledError"]
