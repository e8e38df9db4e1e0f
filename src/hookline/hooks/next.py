"""`next`: the rest of a chain, as the middleware around it calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hookline._aio import Once
from hookline.errors import HookError
from hookline.hooks.meaning import Settle, changed_by
from hookline.hooks.outcome import HookOutcome, Result
from hookline.hooks.plan import Entry
from hookline.hooks.tally import Tally
from hookline.hooks.trail import Answered, Trail

Judge = Callable[[tuple[Entry, ...], Any, Tally, Trail, Settle | None], Awaitable[Any]]
"""Asks the hooks of a chain one after the other; gives the context they leave behind."""


class Rest:
    """Runs the rest of the chain, once."""

    __slots__ = (
        "_calls",
        "_chain",
        "_entry",
        "_given",
        "_handed",
        "_judge",
        "_started",
        "context",
        "is_told",
        "ran",
        "result",
    )

    def __init__(
        self,
        entry: Entry,
        rest: tuple[Entry, ...],
        ctx: Any,
        tally: Tally,
        trail: Trail,
        settle: Settle | None,
        judge: Judge,
    ) -> None:
        self._entry = entry
        self._chain = (rest, tally, trail, settle)
        self._judge = judge
        self._calls: list[Once[Any]] = []
        self._given = self._handed = self.context = ctx
        self._started = trail.monotonic()
        self.is_told = False
        """It handed on a changed context, and that is on record."""
        self.ran = False
        self.result: Result[Any] | None = None

    def __call__(self, ctx: Any) -> Once[Result[Any]]:
        call = Once(lambda: self._run(ctx))
        self._calls.append(call)
        return call

    def shadow(self, ctx: Any) -> Once[Result[Any]]:
        """For middleware in shadow: the rest runs anyway, later, and not at its word."""

        async def pretend() -> Result[Any]:
            return Result(ctx)

        call = Once(pretend)
        self._calls.append(call)
        return call

    async def _run(self, ctx: Any) -> Result[Any]:
        rest, tally, trail, settle = self._chain
        entry = self._entry
        if self.ran:
            raise HookError(
                entry.name, self.context.point, "it called next twice.", remedy="Call next once."
            )
        given = self.context
        self._handed = self.context = changed_by(entry, given, ctx, settle)
        self.ran = True
        if self._handed is not given:  # said now: the hooks inside run on what it handed them
            trail.judged(entry, self._started, Answered(given, self._handed))
            self.is_told = True
        self.context = await self._judge(rest, self.context, tally, trail, settle)
        if tally.failure is not None and self.lost:
            raise tally.failure
        self.result = tally.result(self.context)
        return self.result

    @property
    def cut_short(self) -> bool:
        """The rest was begun and not heard to its end: nobody knows what it would have said."""
        return self.ran and self.result is None

    @property
    def lost(self) -> bool:
        """A later hook failed where that is an error: middleware neither hides nor owns that."""
        return self._chain[1].failure is not None and not self.context.point.unskippable

    def own_part(self, answer: Any) -> Any:
        """The middleware's own part of its answer: what the rest decided is counted, what it changed stays."""
        if self.result is None:
            return answer
        if isinstance(answer, Result) and answer.kind <= self.result.kind:
            answer = answer.context
        if isinstance(answer, HookOutcome) and answer.context is not None:
            return msgspec.structs.replace(answer, context=self._rebased(answer.context))
        return self._rebased(answer)

    def _rebased(self, changed: Any) -> Any:
        """A context derived from the one before `next`, as if it were derived from the one after."""
        if changed is self.context or type(changed) is not type(self.context):
            return changed
        mine = {}
        for name in changed.__struct_fields__:
            value = getattr(changed, name)
            if value is not getattr(self._given, name) and value is not getattr(self._handed, name):
                mine[name] = value
        return msgspec.structs.replace(self.context, **mine)

    def check_awaited(self) -> None:
        """A `next(ctx)` that nobody awaited did nothing, which its author did not mean."""
        if self.cut_short or any(not call.awaited for call in self._calls):
            raise HookError(
                self._entry.name,
                self.context.point,
                "it did not wait for next to finish."
                if self.cut_short
                else "it called next(ctx) and never awaited it.",
                remedy="Write `return await next(ctx)`.",
            )
