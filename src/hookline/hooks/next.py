"""`next`: how a hook continues inwards, to what it wraps: the rest of its tier, or an action."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from hookline._aio import Once
from hookline.errors import HookError
from hookline.hooks.answers import Settle, changed_by
from hookline.hooks.log import Answered, HookLog
from hookline.hooks.outcome import HookOutcome, Result
from hookline.hooks.plan import Entry, HookNames
from hookline.hooks.point import Context
from hookline.hooks.verdicts import Verdicts

T = TypeVar("T")
Judge = Callable[
    [tuple[Entry, ...], HookNames, Any, Verdicts, HookLog, Settle | None], Awaitable[Any]
]
"""Asks the hooks of a chain one after the other; gives the context they leave behind."""


class Next(Generic[T]):
    """What a hook calls to continue inwards. It must await what that gives."""

    def __init__(self, entry: Entry, ctx: Context) -> None:
        self.entry = entry
        self.context: Any = ctx  # of the kind that the hook was given
        self._calls: list[Once[T]] = []

    def __call__(self, ctx: Context) -> Once[T]:
        call = Once(lambda: self._enter(ctx))
        self._calls.append(call)
        return call

    async def _enter(self, ctx: Context) -> T:
        """Continue inwards with this context."""
        raise NotImplementedError

    @property
    def is_left_unawaited(self) -> bool:
        """It was called, and nobody awaited it: it did nothing, which its author did not mean."""
        return any(not call.awaited for call in self._calls)

    def error(self, problem: str, remedy: str) -> HookError:
        """What the hook did wrong."""
        return HookError(self.entry.name, self.context.point, problem, remedy=remedy)


class RestOfTier(Next[Result[Any]]):
    """The rest of a tier, inside middleware: it runs once."""

    def __init__(
        self,
        entry: Entry,
        ctx: Context,
        judge: Judge,
        inside: tuple[tuple[Entry, ...], HookNames],
        verdicts: Verdicts,
        log: HookLog,
        settle: Settle | None,
    ) -> None:
        super().__init__(entry, ctx)
        self._judge = judge
        self._inside = inside
        self._verdicts = verdicts
        self._log = log
        self._settle = settle
        self._given = self._handed = ctx
        self._started = log.monotonic()
        self.is_told = False
        """It handed on a changed context, and that is on record."""
        self.ran = False
        self.result: Result[Any] | None = None

    def pretend(self, ctx: Context) -> Once[Result[Any]]:
        """For middleware in shadow: the rest runs anyway, later, and not at its word."""

        async def answer() -> Result[Any]:
            return Result(ctx)

        call = Once(answer)
        self._calls.append(call)
        return call

    async def _enter(self, ctx: Context) -> Result[Any]:
        if self.ran:
            raise self.error("it called next twice.", "Call next once.")
        given, verdicts, log = self.context, self._verdicts, self._log
        self._handed = self.context = changed_by(self.entry, given, ctx, self._settle)
        self.ran = True
        if self._handed is not given:  # said now: the hooks inside run on what it handed them
            log.judged(self.entry, self._started, Answered(given, self._handed))
            self.is_told = True
        self.context = await self._judge(*self._inside, self.context, verdicts, log, self._settle)
        if verdicts.failure is not None and self.lost:
            raise verdicts.failure
        self.result = verdicts.result(self.context)
        return self.result

    @property
    def cut_short(self) -> bool:
        """The rest was begun and not heard to its end: nobody knows what it would have said."""
        return self.ran and self.result is None

    @property
    def lost(self) -> bool:
        """A later hook failed where that is an error: middleware neither hides nor owns that."""
        return self._verdicts.failure is not None and not self.context.point.unskippable

    def own_part(self, answer: Any) -> Any:
        """The middleware's own part of its answer: what the rest decided is counted, what it changed stays."""
        if self.result is None:
            return None if answer is self.context else answer
        if isinstance(answer, Result) and answer.kind <= self.result.kind:
            answer = answer.context
        if isinstance(answer, HookOutcome) and answer.context is not None:
            return msgspec.structs.replace(answer, context=self._rebased(answer.context))
        own = self._rebased(answer)
        return None if own is self.context else own  # it handed back what came of the rest

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
        """Refuse what was begun and not waited for."""
        if self.cut_short or self.is_left_unawaited:
            problem = (
                "it did not wait for next to finish."
                if self.cut_short
                else "it called next(ctx) and never awaited it."
            )
            raise self.error(problem, "Write `return await next(ctx)`.")
