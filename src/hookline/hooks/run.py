"""The semantics of a hook call, on one screen.

Hooks run one after the other in plan order, then policies, then observers. A hook that answers None
goes on. `block` and `stop` end the chain; `ask` does not, so that everyone else still judges. Where what
was judged stands after a stop, policies are asked all the same, and a block of theirs counts besides.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from hookline._aio import Once, is_being_cancelled
from hookline.errors import HookError, HooklineError, UsageError, in_words
from hookline.hooks.outcome import HookOutcome, Kind, Result, Verdict
from hookline.hooks.plan import Crew, Entry, Plan
from hookline.hooks.point import C, Context, Failure, Point

CRASHES = (Exception, asyncio.CancelledError, SystemExit)
"""What counts as a crash of the hook that raised it: `sys.exit()` in a hook must not end the program."""


class Trail(Protocol):
    """Where the engine reports which hooks ran, in the order they ran."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """The clock, in seconds. It is read once for every hook."""
        ...

    def passed(self, crew: Crew, readings: Sequence[float]) -> None:
        """These hooks ran and let things be. The readings are the clock's before the first and after each."""
        ...

    def left(self, ctx: Any) -> None:
        """A hook failed, or was cancelled: this is the context that those before it leave behind."""
        ...

    def appended(self, entry: Entry, started: float, ctx: Any) -> float:
        """A hook ran and appended a value to its context, which is all it did. Gives the time the next one starts."""
        ...

    def judged(self, entry: Entry, started: float, answer: Answered) -> float:
        """A hook ran and said or changed something, or failed. Gives the time the next one starts."""
        ...


class Answered(msgspec.Struct, frozen=True):
    """One hook's answer, understood."""

    before: Context
    after: Context
    kind: Kind = Kind.PROCEED
    reason: str = ""
    stop_reason: str | None = None
    answer: Any = None
    error: HookError | None = None


class NoTrail:
    """Reports to nobody: for a stack that is used alone."""

    monotonic = staticmethod(time.perf_counter)

    def passed(self, crew: Crew, readings: Sequence[float]) -> None:
        """Not kept."""

    def left(self, ctx: Any) -> None:
        """Not kept."""

    def appended(self, entry: Entry, started: float, ctx: Any) -> float:  # noqa: ARG002 - the protocol's signature
        """Not kept."""
        return started

    def judged(self, entry: Entry, started: float, answer: Answered) -> float:  # noqa: ARG002 - as above
        """Not kept."""
        return started


Settle = Callable[[Entry, Any, Any], Any]
"""(hook, context before, context after) -> the context to go on with. Called when a hook changed the context."""
Decided = Callable[[Any], object]
"""Told the result once everyone has judged, and before observers look on: it stands, also when they are cut off."""


class _Tally:
    """What the hooks of one point have decided so far."""

    # Class attributes, so that a tally nobody adds to costs next to nothing: most points decide nothing.
    strictest: tuple[Kind, str, str, str | None] = (Kind.PROCEED, "", "", None)
    asked: tuple[tuple[str, str], ...] = ()
    asked_by_policy: tuple[tuple[str, str], ...] = ()
    allowed = False
    ended = False
    withheld: tuple[str, str] | None = None
    answer: Any = None
    failure: HookError | None = None
    cancelled: BaseException | None = None
    left: Any = None
    """The context at the moment something was raised out of the chain."""

    def add(self, entry: Entry, said: Answered) -> None:
        if said.kind >= Kind.BLOCK:
            is_stop, strictest = said.kind is Kind.STOP, self.strictest
            goes_on = is_stop and entry.is_policy and said.before.point.stands
            self.ended = self.ended or not goes_on
            if strictest[0] is Kind.STOP and not is_stop:
                self.withheld = self.withheld or (said.reason, entry.name)
            elif (
                strictest[0] is Kind.BLOCK and is_stop
            ):  # middleware's, over what hooks inside it said
                self.withheld = strictest[1], strictest[2]
            # A second blocker never hides the first one's reason; only something stricter replaces it.
            if said.kind > self.strictest[0]:
                self.strictest = (said.kind, said.reason, entry.name, said.stop_reason)
        elif said.kind is Kind.ASK and entry.is_policy:
            self.asked_by_policy += ((entry.name, said.reason),)
        elif said.kind is Kind.ASK:
            self.asked += ((entry.name, said.reason),)
        elif said.kind is Kind.ALLOW:
            self.allowed = True
        if said.answer is not None and self.answer is None:
            self.answer = said.answer

    def result(self, ctx: C) -> Result[C]:
        kind, reason, who, stop_reason = self.strictest
        asks: tuple[tuple[str, str], ...] = ()
        if kind is Kind.PROCEED:
            asks = self.asked_by_policy + (() if self.allowed else self.asked)
            if asks:
                kind, (who, reason) = Kind.ASK, asks[0]
        return Result(ctx, kind, reason, who, stop_reason, self.answer, self.withheld, asks)

    def leaves_it_to_policies(self, point: Point[Any]) -> bool:
        """A hook ended the chain by a stop, and what was judged stands."""
        is_stopped = self.ended and self.strictest[0] is Kind.STOP
        return is_stopped and self.withheld is None and point.stands

    def crash(
        self, entry: Entry, ctx: Context, error: BaseException, trail: Trail, started: float
    ) -> HookError:
        """A hook's crash. On the way out a cancelled task is no reason to leave the other hooks out."""
        failure = cut_off(entry, ctx, error)
        if failure is None:
            return hook_failure(entry, ctx, error)
        if not ctx.point.unskippable:
            trail.judged(entry, started, Answered(ctx, ctx, error=failure))
            raise error
        self.cancelled = self.cancelled or error
        return failure

    def verdict(self, result: Result[Any]) -> Verdict:
        """What observers are told: a failure that is an error outdoes whatever was decided."""
        failure = self.failure
        if failure is None:
            return result.verdict
        return Verdict(Kind.FAILED, failure.problem, failure.hook)

    def raise_what_is_left(self) -> None:
        """Now that everyone was asked and the observers have looked on: the cancellation, or else the failure."""
        # Middleware with a time limit cancels what it waits for, and takes that back: then it is its own failure.
        if self.cancelled is not None and is_being_cancelled():
            raise self.cancelled
        if self.failure is not None:
            raise self.failure


NO_TRAIL = NoTrail()


async def run_hooks(
    plan: Plan,
    ctx: C,
    trail: Trail = NO_TRAIL,
    settle: Settle | None = None,
    *,
    policies_only: bool = False,
    started: float | None = None,
    decided: Decided | None = None,
) -> Result[C]:
    """Ask every hook of a point. Raises HookError when one failed closed at a point where that is an error."""
    if policies_only or not plan.is_flat:
        tiers = (plan.policies,) if policies_only else (plan.hooks, plan.policies)
        return await _run_any(plan, tiers, ctx, trail, settle, decided)
    tally: _Tally | None = None
    point, crew, monotonic = plan.point, plan.crew, trail.monotonic
    readings = [monotonic() if started is None else started]
    first = 0
    for entry in plan.judges:
        hook = entry.call
        try:
            answer = hook(ctx)
            if answer is not None and (entry.is_async or hasattr(answer, "__await__")):
                answer = await answer
        except CRASHES as error:
            first += _tell(trail, crew, first, readings)
            readings = readings[-1:]
            trail.left(ctx)  # it may be a cancellation: that is raised here
            tally = tally or _Tally()
            answer = tally.crash(entry, ctx, error, trail, readings[0])
        if answer is None:
            readings.append(monotonic())
            continue
        first += _tell(trail, crew, first, readings) + 1
        now = readings[-1]
        if type(answer) is point.appends and point.append is not None and not entry.is_policy:
            # The one answer that hooks give at every step: it is not weighed, only written down.
            try:
                ctx = point.append(ctx, answer, entry.name)
                readings = [trail.appended(entry, now, ctx)]
                continue
            except UsageError as error:
                answer = hook_failure(entry, ctx, error)
        tally = tally or _Tally()
        ctx, now = _weigh(entry, ctx, answer, tally, trail, settle, now)
        readings = [now]
        if tally.ended:
            break
    if len(readings) > 1:
        trail.passed(crew if not first else crew.part(first, len(readings) - 1), readings)
    if tally is None and not plan.observers:
        return Result(ctx)
    if tally is not None and tally.leaves_it_to_policies(point):
        ctx = await _in_tiers((plan.policies,), ctx, tally, trail, settle)
    return await _conclude(plan, ctx, tally or _Tally(), trail, decided)


def _tell(trail: Trail, crew: Crew, first: int, readings: list[float]) -> int:
    """Report the hooks that let things be so far; gives how many they are."""
    count = len(readings) - 1
    if count:
        trail.passed(crew.part(first, count), readings)
    return count


async def _run_any(
    plan: Plan,
    tiers: tuple[tuple[Entry, ...], ...],
    ctx: C,
    trail: Trail,
    settle: Settle | None,
    decided: Decided | None,
) -> Result[C]:
    """The same for a plan with everything it may contain."""
    tally = _Tally()
    ctx = await _in_tiers(tiers, ctx, tally, trail, settle)
    return await _conclude(plan, ctx, tally, trail, decided)


async def _in_tiers(
    tiers: tuple[tuple[Entry, ...], ...],
    ctx: C,
    tally: _Tally,
    trail: Trail,
    settle: Settle | None,
) -> C:
    try:
        # Middleware wraps the rest of its own tier only: what policies have judged nobody changes afterwards.
        for entries in tiers:
            if tally.leaves_it_to_policies(ctx.point):
                tally.ended = False
            if not tally.ended:
                ctx = await _judge(entries, ctx, tally, trail, settle)
    except BaseException:
        trail.left(ctx if tally.left is None else tally.left)
        raise
    return ctx


async def _conclude(
    plan: Plan, ctx: C, tally: _Tally, trail: Trail, decided: Decided | None
) -> Result[C]:
    """Everyone was asked: the observers look on, and what was decided is the result."""
    result = tally.result(ctx)
    if tally.failure is not None or tally.cancelled is not None:
        trail.left(ctx)
    elif decided is not None:
        decided(result)
    if plan.observers:
        await observe(plan, ctx, tally.verdict(result), trail)
    tally.raise_what_is_left()
    return result


async def observe(plan: Plan, ctx: Context, verdict: Verdict, trail: Trail = NO_TRAIL) -> None:
    """Show what was decided to the observers. Nothing they do reaches the run."""
    shown = msgspec.structs.replace(ctx, verdict=verdict) if hasattr(ctx, "verdict") else ctx
    cancelled: BaseException | None = None
    for entry in plan.observers:
        started = trail.monotonic()
        try:
            if entry.matches is not None and not entry.matches(shown):
                continue
            answer = entry.call(shown)
            if entry.is_async or inspect.isawaitable(answer):
                await answer
        except CRASHES as error:
            cut = cut_off(entry, shown, error)
            failure = cut or hook_failure(entry, shown, error)
            trail.judged(entry, started, Answered(shown, shown, error=failure))
            if cut is not None and not plan.point.unskippable:
                raise
            cancelled = cancelled or (error if cut is not None else None)
        else:
            trail.passed(entry.crew, (started, trail.monotonic()))
    if cancelled is not None:
        raise cancelled


async def _judge(
    entries: tuple[Entry, ...], ctx: Any, tally: _Tally, trail: Trail, settle: Settle | None
) -> Any:
    """The chain with everything it may contain: matchers, middleware, hooks in shadow."""
    started = trail.monotonic()
    for position, entry in enumerate(entries):
        rest = None
        try:
            if entry.matches is not None and not entry.matches(ctx):
                continue
            if entry.is_middleware:
                rest = _Rest(entry, entries[position + 1 :], ctx, tally, trail, settle)
                answer = entry.call(ctx, rest.shadow if entry.shadow else rest)
            else:
                answer = entry.call(ctx)
            if entry.is_async or (answer is not None and hasattr(answer, "__await__")):
                answer = await answer
            if rest is not None:
                rest.check_awaited()
        except CRASHES as error:
            if tally.left is None:  # what the innermost chain had got to
                tally.left = ctx if rest is None else rest.context
            answer = tally.crash(entry, ctx, error, trail, started)
            tally.left = None
        if rest is not None:
            if rest.lost:
                return rest.context
            answer, ctx = rest.own_part(answer), rest.context
            if answer is ctx:  # it handed back what came of the rest, as it is
                answer = None
        if answer is None and entry.shadow:
            started = trail.judged(entry, started, Answered(ctx, ctx))
        elif answer is None:
            now = trail.monotonic()
            if rest is None or not rest.is_told:
                trail.passed(entry.crew, (started, now))
            started = now
        else:
            ctx, started = _weigh(entry, ctx, answer, tally, trail, settle, started, rest)
        if tally.ended or (rest is not None and rest.ran):
            break
    return ctx


def _weigh(
    entry: Entry,
    ctx: Any,
    answer: Any,
    tally: _Tally,
    trail: Trail,
    settle: Settle | None,
    started: float,
    rest: _Rest | None = None,
) -> tuple[Any, float]:
    """Understand an answer, report it, and count it; in shadow it is only reported."""
    said = _understand(entry, ctx, answer, settle)
    started = trail.judged(entry, started, said)
    if entry.shadow:
        return ctx, started
    _count(entry, said, tally, rest)
    return said.after, started


class _Rest:
    """`next` for middleware: runs the rest of the chain, once."""

    __slots__ = (
        "_calls",
        "_chain",
        "_entry",
        "_given",
        "_handed",
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
        tally: _Tally,
        trail: Trail,
        settle: Settle | None,
    ) -> None:
        self._entry = entry
        self._chain = (rest, tally, trail, settle)
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
        self._handed = self.context = _changed(entry, given, ctx, settle)
        self.ran = True
        if self._handed is not given:  # said now: the hooks inside run on what it handed them
            trail.judged(entry, self._started, Answered(given, self._handed))
            self.is_told = True
        self.context = await _judge(rest, self.context, tally, trail, settle)
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


def _count(entry: Entry, said: Answered, tally: _Tally, rest: _Rest | None) -> None:
    """Add an answer to the tally; a failure counts as the point and the hook's fail mode say."""
    if said.error is None:
        tally.add(entry, said)
    elif entry.registration.on_failure == "open" and not (rest is not None and rest.cut_short):
        return
    elif said.before.point.failure is Failure.BLOCK or _is_stopped(tally, said.before.point):
        reason = f"hook '{entry.name}' failed, so this is not let through: {said.error.problem}"
        tally.add(entry, Answered(said.before, said.after, Kind.BLOCK, reason))
    else:
        tally.failure = tally.failure or said.error
        tally.ended = tally.ended or not said.before.point.unskippable


def _is_stopped(tally: _Tally, point: Point[Any]) -> bool:
    """A failure is no error that could keep the run from ending: what stands is blocked, and that is all."""
    return point.stands and tally.strictest[0] is Kind.STOP


def _understand(entry: Entry, ctx: Any, answer: Any, settle: Settle | None) -> Answered:
    """What an answer means at its point. An answer that means nothing is a failure of the hook."""
    if isinstance(answer, HookError):
        return Answered(ctx, ctx, error=answer)
    try:
        return _meaning(entry, ctx, answer, settle)
    except Exception as error:
        return Answered(ctx, ctx, error=hook_failure(entry, ctx, error))


def _meaning(entry: Entry, ctx: Any, answer: Any, settle: Settle | None) -> Answered:
    point = ctx.point
    if isinstance(answer, Result):  # what another stack decided is this hook's word
        answer = HookOutcome(
            answer.kind, answer.reason, answer.context, answer.stop_reason, answer.answer
        )
    if type(answer) is point.appends and point.append is not None:
        answer = point.append(ctx, answer, entry.name)
    elif not isinstance(answer, HookOutcome | Context):
        for kind, meaning in point.answers:
            if isinstance(answer, kind):
                answer = meaning(ctx, answer)
                break
        else:
            raise HookError(
                entry.name,
                point,
                f"it returned {answer!r} ({type(answer).__name__}), which means nothing here.",
                remedy=f"Return {point.expected()}.",
            )
    if isinstance(answer, Context):
        return Answered(ctx, _changed(entry, ctx, answer, settle))
    kind = answer.kind
    if not isinstance(answer.reason, str):
        raise HookError(
            entry.name, point, f"its reason is {answer.reason!r}.", remedy="Give it as text."
        )
    if answer.stop_reason is not None and not isinstance(answer.stop_reason, str):
        raise HookError(
            entry.name,
            point,
            f"its stop reason is {answer.stop_reason!r}.",
            remedy="Give it as text.",
        )
    answer.reason.encode()  # half a surrogate pair cannot be saved: the hook's failure, here and now
    reason = str.__str__(answer.reason)  # of a class of its own it could not be saved either
    own_answer = answer.answer is not None and kind is not Kind.FAILED
    if kind is not Kind.PROCEED and not own_answer and kind.label not in point.verdicts:
        allowed = ", ".join(sorted({"proceed", *point.verdicts}))
        raise HookError(
            entry.name, point, f"nothing can be {_DONE[kind]} here.", remedy=f"Possible: {allowed}."
        )
    if kind is Kind.ALLOW and entry.is_policy:
        raise HookError(
            entry.name,
            point,
            "a policy may only narrow, and `allow` widens.",
            remedy="Return None.",
        )
    after = ctx if answer.context is None else _changed(entry, ctx, answer.context, settle)
    return Answered(ctx, after, kind, reason, answer.stop_reason, answer.answer)


_DONE = {
    Kind.ALLOW: "allowed",
    Kind.ASK: "asked about",
    Kind.BLOCK: "blocked",
    Kind.STOP: "stopped",
    Kind.FAILED: "failed",
}


def _changed(entry: Entry, ctx: Any, changed: Any, settle: Settle | None) -> Any:
    """The context a hook leaves behind, if it changed only what it may."""
    if changed is ctx:
        return ctx
    point = ctx.point
    if type(changed) is not type(ctx):
        raise HookError(
            entry.name,
            point,
            f"it returned a {type(changed).__name__} instead of a {type(ctx).__name__}.",
            remedy="Derive the context you return from the one you were given.",
        )
    fields = [
        name for name in ctx.__struct_fields__ if getattr(ctx, name) is not getattr(changed, name)
    ]
    for name in fields:
        if name not in point.changes:
            raise HookError(
                entry.name, point, f"it changed '{name}', which cannot be changed here.",
                remedy=f"Changeable: {', '.join(sorted(point.changes)) or 'nothing'}.",
            )  # fmt: skip
    if fields and entry.is_policy:
        raise HookError(
            entry.name, point, f"a policy may only judge, and it changed '{fields[0]}'.",
            remedy="Return HookOutcome.block/stop/ask, or register it with tier='hook'.",
        )  # fmt: skip
    if fields and settle is not None:
        return settle(entry, ctx, changed)
    return changed


def hook_failure(entry: Entry, ctx: Context, error: BaseException) -> HookError:
    """A crash as an error that names the hook, with the original as its cause."""
    if _is_cancellation(error):
        raise error  # the run is being cancelled, and the hook happened to be awaiting
    if isinstance(error, HookError) and error.hook == entry.name:
        return error
    words = (
        error.message
        if isinstance(error, HooklineError)
        else f"{type(error).__name__}: {in_words(error)}"
    )
    failure = HookError(entry.name, ctx.point, words, remedy=getattr(error, "remedy", ""))
    failure.__cause__ = error
    return failure


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) and is_being_cancelled()


def cut_off(entry: Entry, ctx: Context, error: BaseException) -> HookError | None:
    """How a hook failed whose task was cancelled while it waited; None for any other crash."""
    if not _is_cancellation(error):
        return None
    failure = HookError(entry.name, ctx.point, "it was cancelled while it waited.")
    failure.__cause__ = error
    return failure
