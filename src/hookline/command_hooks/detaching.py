"""Asking a hook that may go on beside the agent: from when it says so nothing waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hookline.command_hooks.announcing import may_detach, seconds_beside
from hookline.command_hooks.answers import Answer
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects import Place
from hookline.command_hooks.process import Ran
from hookline.command_hooks.runner import Asked, Runner


async def ask_or_leave(
    runner: Runner, handler: Handler, ctx: Any, place: Place
) -> tuple[Asked, asyncio.Task[Asked] | None]:
    """What a hook says; or, once it goes on beside the agent, nothing yet, and the task that will know it."""
    if not may_detach(handler):
        return await runner.ask(handler, ctx, place), None
    left = asyncio.Event()
    watch = _watch(asyncio.get_running_loop(), left)
    task = asyncio.ensure_future(runner.ask(handler, ctx, place, watch))
    waiting = asyncio.ensure_future(left.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    except BaseException:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    finally:
        waiting.cancel()
    return (task.result(), None) if task.done() else (Asked(Answer(), Ran(0)), task)


def _watch(loop: asyncio.AbstractEventLoop, left: asyncio.Event) -> Callable[[bytes], float | None]:
    """What the thread that drives the program calls with what it has printed."""

    def watch(printed: bytes) -> float | None:
        seconds = seconds_beside(printed)
        if seconds is not None:
            loop.call_soon_threadsafe(left.set)
        return seconds

    return watch
