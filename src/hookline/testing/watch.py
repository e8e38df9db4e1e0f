"""Watching one hook from outside: how long it takes, and whether it leaves its context alone."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hookline._aio import is_async_callable
from hookline.hooks import HookLike, Registration, Shape
from hookline.hooks.hook import target_of


class Watch:
    """What was noticed about a hook beside its answers."""

    def __init__(self) -> None:
        self.seconds: list[float | None] = []
        """For each time it was asked: how long it took to say nothing, or None when it said something."""
        self.meddled: list[int] = []
        """The times (counted from zero) it changed its context in place."""

    def wrap(self, registration: Registration) -> HookLike:
        """The hook of a registration in the same shape, watched."""
        call = self._call(target_of(registration.hook))
        return _Middleware(call) if registration.shape is Shape.MIDDLEWARE else call

    def _call(self, target: Callable[..., Any]) -> Callable[..., Any]:
        async def watch(answer: Awaitable[Any], look: _Look) -> Any:
            try:
                said = await answer
            except BaseException:
                look.close(self, said_nothing=False)
                raise
            look.close(self, said_nothing=said is None)
            return said

        async def call_async(ctx: Any, *rest: Any) -> Any:
            look = _Look(ctx)
            return await watch(target(ctx, *rest), look)

        def call(ctx: Any, *rest: Any) -> Any:
            look = _Look(ctx)
            try:
                said = target(ctx, *rest)
            except BaseException:
                look.close(self, said_nothing=False)
                raise
            if inspect.isawaitable(said):
                return watch(said, look)
            look.close(self, said_nothing=said is None)
            return said

        return call_async if is_async_callable(target) else call


class _Look:
    """One call of the hook: its context as it was, and when."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        # Values compare equal to themselves even when they were changed; their text does not.
        self.text = repr(ctx)
        self.started = time.perf_counter()

    def close(self, watch: Watch, *, said_nothing: bool) -> None:
        took = time.perf_counter() - self.started
        if repr(self.ctx) != self.text:
            watch.meddled.append(len(watch.seconds))
        watch.seconds.append(took if said_nothing else None)


class _Middleware:
    """Middleware is told from a plain hook by its `handle` of exactly two arguments."""

    def __init__(self, call: Callable[..., Any]) -> None:
        async def handle_async(ctx: Any, next: Any) -> Any:
            return await call(ctx, next)

        def handle(ctx: Any, next: Any) -> Any:
            return call(ctx, next)

        self.handle = handle_async if is_async_callable(call) else handle
