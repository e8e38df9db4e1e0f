"""`next`: how a hook continues inwards, to what it wraps: the rest of its tier, or an action."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from hookline._aio import Once
from hookline.errors import HookError, UsageError
from hookline.hooks.outcome import HookAnswer, HookOutcome, Result, Settle, Verdicts, check_change
from hookline.hooks.plan import Entry
from hookline.hooks.point_type import C, Context

T = TypeVar("T")
_AS_GIVEN: Any = object()


class RepeatError(UsageError):
    """What an action raises that is called again and cannot be done again. The hook that called it again has failed."""


class Next(Generic[C, T]):
    """What a hook calls to continue inwards, and what it got. It must await each call.

    An action may be left out, done once, or repeated.
    """

    def __init__(
        self,
        entry: Entry,
        ctx: C,
        inside: Callable[[C], Awaitable[T]],
        settle: Settle | None = None,
    ) -> None:
        self.entry = entry
        self.given = self.handed = ctx
        self.results: list[T] = []
        self.raised: BaseException | None = None
        self._inside = inside
        self._settle = settle
        self._calls: list[Once[T]] = []

    def __call__(self, ctx: C = _AS_GIVEN) -> Once[T]:
        call = Once(lambda: self._enter(self.given if ctx is _AS_GIVEN else ctx))
        self._calls.append(call)
        return call

    async def _enter(self, ctx: C) -> T:
        ctx = self.base if ctx is self.given else ctx
        self.handed = check_change(self.entry, self.base, ctx, self._settle)
        try:
            result = await self._inside(self.handed)
        except BaseException as error:
            if isinstance(error, RepeatError) and len(self._calls) > 1:
                raise self.error(error.message, error.remedy) from None
            self.raised = error
            raise
        self.results.append(result)
        return result

    @property
    def base(self) -> C:
        """What the hook changes: its context or, once the action has given another, that one."""
        if self.results and self.given.point.gives_context:
            return self.results[-1]  # type: ignore[return-value] # it is a context there
        return self.given

    async def answer(self) -> Any:
        """Call the hook. A call of `next` that was not awaited did nothing, so it is an error."""
        cause: Exception | None = None
        try:
            answer = self.entry.call(self.given, self)
            if inspect.isawaitable(answer):
                answer = await answer
        except (AttributeError, TypeError) as error:  # `next(ctx).is_blocked`, say
            cause = error
        if not all(call.awaited for call in self._calls):
            name = "call_next" if self.given.point.around else "next"
            raise self.error(
                f"it called {name}(ctx) and never awaited it.",
                f"Write `await {name}(ctx)`.",
            ) from cause
        if cause is not None:
            raise cause
        return answer

    def error(self, problem: str, remedy: str) -> HookError:
        """What the hook did wrong."""
        return HookError(self.entry.name, self.given.point, problem, remedy=remedy)


class RestOfTier(Next[Any, Result[Any]]):
    """The rest of a tier, inside middleware. It runs once, and to its end."""

    def __init__(
        self,
        entry: Entry,
        ctx: Context,
        judge: Callable[[Any], Awaitable[Any]],
        verdicts: Verdicts,
    ) -> None:
        super().__init__(
            entry, ctx, self._skip_in_shadow if entry.shadow else self._run, verdicts.settle
        )
        self.context: Any = ctx
        """What the rest left behind; what it was handed, while it runs."""
        self._judge = judge
        self._verdicts = verdicts
        self._started = verdicts.log.monotonic()
        self.is_recorded = False
        """It passed on a changed context, and that is recorded."""
        self.has_run = False

    async def _skip_in_shadow(self, ctx: Context) -> Result[Any]:
        """For middleware in shadow: the rest runs later, as it would without this hook."""
        return Result(ctx)

    async def _run(self, ctx: Context) -> Result[Any]:
        if self.has_run:
            raise self.error("it called next twice.", "Call next once.")
        verdicts = self._verdicts
        self.context, self.has_run = ctx, True
        if ctx is not self.given:  # recorded now: the hooks inside see what it passed on
            verdicts.log.report_answer(self.entry, self._started, HookAnswer(self.given, ctx))
            self.is_recorded = True
        self.context = await self._judge(ctx)
        if verdicts.failure is not None and self.is_lost:
            raise verdicts.failure
        return verdicts.result(self.context)

    async def answer(self) -> Any:
        """Call the hook. If it began the rest, it must have waited for its end."""
        answer = await super().answer()
        if self.is_cut_short:
            raise self.error("it did not wait for next to finish.", "Write `await next(ctx)`.")
        return answer

    @property
    def is_cut_short(self) -> bool:
        """The rest began and did not end: its verdict is unknown."""
        return self.has_run and not self.results

    @property
    def is_lost(self) -> bool:
        """A later hook failed where that is an error: middleware can neither hide it nor answer for it."""
        return self._verdicts.failure is not None and not self.given.point.unskippable

    def own_part(self, answer: Any) -> Any:
        """The middleware's own part of its answer, without what the rest decided and changed."""
        if not self.has_run or not self.results:
            return None if answer is self.context else answer
        if isinstance(answer, Result) and answer.kind <= self.results[0].kind:
            answer = answer.context
        if isinstance(answer, HookOutcome) and answer.context is not None:
            return msgspec.structs.replace(answer, context=self._rebase(answer.context))
        own = self._rebase(answer)
        return None if own is self.context else own  # it returned what the rest decided

    def _rebase(self, changed: Any) -> Any:
        """A context derived from the one before `next`, as if it were derived from the one after."""
        if changed is self.context or type(changed) is not type(self.context):
            return changed
        mine = {}
        for name in changed.__struct_fields__:
            value = getattr(changed, name)
            if value is not getattr(self.given, name) and value is not getattr(self.handed, name):
                mine[name] = value
        return msgspec.structs.replace(self.context, **mine)
