"""The end of a run whose hooks are still going on beside it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hookline.command_hooks import async_hooks
from hookline.command_hooks.async_hooks import AsyncHooks


class Lingering:
    """Asks hooks that take a moment to end when they are told to."""

    def __init__(self) -> None:
        self.told, self.may_end = asyncio.Event(), asyncio.Event()

    async def ask(self, *_: Any) -> Any:
        """Wait for ever; and then a while."""
        try:
            await asyncio.Event().wait()
        finally:
            self.told.set()
            await self.may_end.wait()


async def test_a_cancellation_is_not_lost_while_the_last_hooks_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever cancels the task just then finds it cancelled."""
    monkeypatch.setattr(async_hooks, "_AFTER_RUN", 0.01)
    runner: Any = Lingering()
    beside = AsyncHooks(runner)
    ctx, handler = SimpleNamespace(state=SimpleNamespace(run_id="r"), point=""), SimpleNamespace()
    handler.wakes = False
    unused: Any = None
    beside.start(handler, ctx, unused)  # type: ignore[arg-type]
    ending = asyncio.create_task(beside.end(ctx))
    await runner.told.wait()
    ending.cancel()
    runner.may_end.set()
    await asyncio.wait([ending])
    assert ending.cancelled()
