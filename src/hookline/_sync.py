"""Async methods for code that is not async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from hookline._aio import is_in_event_loop
from hookline.errors import UsageError

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S")


def run_to_end(start: Callable[[], Coroutine[Any, Any, T]], instead: str = "agent.run(...)") -> T:
    """Wait for something in code that is not async. `instead` is what async code writes after `await`."""
    if is_in_event_loop():
        raise UsageError(
            "this function waits for its result, so in async code it would block the event loop.",
            remedy=f"Write `await {instead}`.",
        )

    async def main() -> T:
        return await start()

    return asyncio.run(main())


def sync_form(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """The form of an async method for code that is not async: `read_sync = sync_form(read)`.

    It calls the method of that name, so a class that implements the method has its sync form too.
    """
    name = method.__name__

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, Coroutine[Any, Any, T]] = getattr(self, name)
        return run_to_end(lambda: bound(*args, **kwargs), f"{name}(...)")

    call.__name__ = f"{name}_sync"
    call.__qualname__ = f"{method.__qualname__}_sync"
    call.__doc__ = f"`{name}` for code that is not async."
    return call
