"""What a hook may return (`HookOutcome`), what that or a crash means at its point, and what all answers add up to.

`None`, a context, or a value that the point knows (`answers=` in `lifecycle/points.py`) is an answer too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from hookline._aio import is_being_cancelled
from hookline.errors import HookAnswerError, HookError, HooklineError, in_words
from hookline.hooks.plan import Entry, HookNames
from hookline.hooks.point_type import C, Context, Kind, Point, Verdict

Shown = TypeVar("Shown", bound=Context, contravariant=True)
_logger = logging.getLogger("hookline.hooks")


class _DecisionQueries:
    """Questions about what was decided."""

    __slots__ = ()
    kind: Kind

    @property
    def is_blocked(self) -> bool:
        """This one thing is prevented."""
        return self.kind is Kind.BLOCK

    @property
    def is_stopped(self) -> bool:
        """The run ends."""
        return self.kind is Kind.STOP

    @property
    def is_asking(self) -> bool:
        """A person must say yes first."""
        return self.kind is Kind.ASK


class HookOutcome(_DecisionQueries, msgspec.Struct, frozen=True):
    """A hook's answer. `context` carries what it changed along the way."""

    kind: Kind
    reason: str = ""
    context: Context | None = None
    stop_reason: str | None = None
    answer: Any = None
    """At points with answers of their own (a permission decision), the answer."""
    message: str = ""
    """Words for the user beside the reason. The model does not read them."""

    @staticmethod
    def proceed(context: Context | None = None) -> HookOutcome:
        """Continue, with this context if one is given."""
        return _PROCEED if context is None else HookOutcome(kind=Kind.PROCEED, context=context)

    @staticmethod
    def block(reason: str, context: Context | None = None) -> HookOutcome:
        """Prevent this one thing; the run continues where the point allows it."""
        return HookOutcome(kind=Kind.BLOCK, reason=reason, context=context)

    @staticmethod
    def stop(
        reason: str, context: Context | None = None, *, stop_reason: str | None = None
    ) -> HookOutcome:
        """End the run now."""
        return HookOutcome(kind=Kind.STOP, reason=reason, context=context, stop_reason=stop_reason)

    @staticmethod
    def ask(reason: str, context: Context | None = None) -> HookOutcome:
        """A person must say yes first."""
        return HookOutcome(kind=Kind.ASK, reason=reason, context=context)

    @staticmethod
    def allow(reason: str = "", context: Context | None = None) -> HookOutcome:
        """No need to ask: lifts an ask of another hook, never a block and never a policy.

        It does not lift an ask of its own capability: of its hooks the strictest counts.
        """
        return HookOutcome(kind=Kind.ALLOW, reason=reason, context=context)


_PROCEED = HookOutcome(Kind.PROCEED)


class Result(_DecisionQueries, msgspec.Struct, Generic[C], frozen=True):
    """What all hooks at a point decided: the strictest verdict, which hook gave it, and the context they left."""

    context: C
    kind: Kind = Kind.PROCEED
    reason: str = ""
    decided_by: str = ""
    stop_reason: str | None = None
    answer: Any = None
    """At points with answers of their own (a permission decision), the answer that was given.

    Of a stack that was given an action: what the action returned, or a hook around it."""
    withheld: tuple[str, str] | None = None
    """After a stop: why the thing that was judged is also blocked, and by which hook."""
    asks: tuple[tuple[str, str], ...] = ()
    """Everybody who asked, the policies first: who, and why. `decided_by` and `reason` are the first of them."""
    failures: tuple[HookError, ...] = ()
    """Of a stack used alone: every hook that failed, also those whose failure changed nothing. A run records them."""

    @property
    def refusal(self) -> tuple[str, str] | None:
        """Why it is blocked, and by which hook; None if it is not. The run may be stopped, too."""
        return (self.reason, self.decided_by) if self.kind is Kind.BLOCK else self.withheld

    @property
    def askers(self) -> tuple[str, ...]:
        """Every hook whose ask stands; `decided_by` is the first of them."""
        return tuple(dict.fromkeys(name for name, _ in self.asks))

    @property
    def verdict(self) -> Verdict:
        """The decision without the context."""
        return Verdict(self.kind, self.reason, self.decided_by)


# --- the hook log: which hooks had no objection, which answered what, which failed -----------------------


class HookLog(Protocol[Shown]):
    """Where the engine reports which hooks ran, in the order they ran."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """The clock, in seconds. It is read once for every hook."""
        ...

    def report_passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """These hooks ran and had no objection. `readings` are the clock before the first and after each."""
        ...

    def report_context(self, ctx: Shown) -> None:
        """A hook failed or was cancelled: `ctx` is what the hooks before it left."""
        ...

    def report_appended(self, entry: Entry, started: float, ctx: Shown) -> float:
        """A hook only appended a value to its context. Returns the time the next one starts."""
        ...

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer[Any]) -> float:
        """A hook answered, changed something, or failed. Returns the time the next one starts."""
        ...


class HookAnswer(msgspec.Struct, Generic[C], frozen=True):
    """One hook's answer, understood."""

    before: C
    after: C
    kind: Kind = Kind.PROCEED
    reason: str = ""
    stop_reason: str | None = None
    answer: Any = None
    error: HookError | None = None
    message: str = ""


class NoLog:
    """Reports to nobody: for a stack that is used alone."""

    monotonic = staticmethod(time.perf_counter)

    def report_passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """Not kept."""

    def report_context(self, ctx: Context) -> None:
        """Not kept."""

    def report_appended(self, entry: Entry, started: float, ctx: Context) -> float:  # noqa: ARG002 - the protocol's signature
        """Not kept."""
        return started

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer[Any]) -> float:  # noqa: ARG002 - as above
        """Not kept."""
        return started


NO_LOG = NoLog()


# --- crashes ------------------------------------------------------------------------------------------

CRASHES = (Exception, asyncio.CancelledError, SystemExit)
"""What counts as a crash of the hook that raised it: `sys.exit()` in a hook must not end the program."""


def hook_failure(entry: Entry, ctx: Context, error: BaseException) -> HookError:
    """A crash as an error that names the hook, with the original as its cause."""
    if _is_cancellation(error, ctx):
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


def _is_cancellation(error: BaseException, ctx: Context) -> bool:
    """Whether the run is being cancelled. A child task of the hook may know it before the hook's own task."""
    return isinstance(error, asyncio.CancelledError) and (
        is_being_cancelled() or is_of_cancelled_run(ctx)
    )


def is_of_cancelled_run(ctx: Context) -> bool:
    """Whether the context belongs to a run that was cancelled."""
    return bool(getattr(getattr(ctx, "live", None), "is_cancelled", False))


def cancellation_failure(entry: Entry, ctx: Context, error: BaseException) -> HookError | None:
    """The failure of a hook whose task was cancelled while it waited; None for any other crash."""
    if not _is_cancellation(error, ctx):
        return None
    failure = HookError(entry.name, ctx.point, "it was cancelled while it waited.")
    failure.__cause__ = error
    return failure


# --- one answer ---------------------------------------------------------------------------------------

Settle = Callable[[Entry, Any, Any], Any]
"""(hook, context before, context after) -> the context to continue with. Called when a hook changed the context."""


def understand(entry: Entry, ctx: C, answer: Any, settle: Settle | None) -> HookAnswer[C]:
    """What an answer means at its point. An answer that means nothing is a failure of the hook."""
    if isinstance(answer, HookError):
        return HookAnswer(ctx, ctx, error=answer)
    try:
        return _interpret(entry, ctx, answer, settle)
    except Exception as error:
        return HookAnswer(ctx, ctx, error=hook_failure(entry, ctx, error))


def _interpret(entry: Entry, ctx: C, answer: Any, settle: Settle | None) -> HookAnswer[C]:
    point = ctx.point
    if isinstance(answer, Result):  # what another stack decided is this hook's answer
        answer = HookOutcome(
            kind=answer.kind,
            reason=answer.reason,
            context=answer.context,
            stop_reason=answer.stop_reason,
            answer=answer.answer,
        )
    if type(answer) is point.appends and point.append is not None:
        answer = point.append(ctx, answer, entry.name)
    elif not isinstance(answer, HookOutcome | Context):
        for kind, meaning in point.answers:
            if isinstance(answer, kind):
                answer = meaning(ctx, answer)
                break
        else:
            problem = (
                f"it returned {answer!r} ({type(answer).__name__}), which has no meaning here."
            )
            remedy = f"Return {point.describe_expected()}."
            if point.lenient:
                said = _report_ignored(entry, point, f"{problem} {remedy}")
                return HookAnswer(ctx, ctx, reason=said)
            raise HookAnswerError(entry.name, point, problem, remedy=remedy)
    if isinstance(answer, Context):
        answer = HookOutcome(Kind.PROCEED, context=answer)
    _check_outcome(entry, point, answer)
    reason = str.__str__(answer.reason)  # a subclass of str cannot be saved
    after, ignored = ctx, ""
    if answer.context is not None:
        given, ignored = _without_effect(entry, ctx, answer.context)
        after = check_change(entry, ctx, given, settle)
    return HookAnswer(
        ctx,
        after,
        answer.kind,
        reason or ignored,
        answer.stop_reason,
        answer.answer,
        message=answer.message,
    )


def _without_effect(entry: Entry, ctx: C, changed: Any) -> tuple[Any, str]:
    """The context without the changes that come too late at its point, and what is reported about them."""
    point = ctx.point
    if entry.is_policy or type(changed) is not type(ctx):
        return changed, ""  # that is an error, whatever it changed
    late = [
        name
        for name in sorted(point.without_effect)
        if getattr(changed, name) is not getattr(ctx, name)
    ]
    if not late:
        return changed, ""
    kept = {name: getattr(ctx, name) for name in late}
    problem = f"it changed '{', '.join(late)}', which is too late here."
    return msgspec.structs.replace(changed, **kept), _report_ignored(entry, point, problem)


def _report_ignored(entry: Entry, point: Point[Any], problem: str) -> str:
    """Log an answer that is ignored; gives what its record says."""
    _logger.warning("hook '%s' at %s: %s It is ignored.", entry.name, point.value, problem)
    return f"ignored: {problem}"


def _check_outcome(entry: Entry, point: Point[Any], outcome: HookOutcome) -> None:
    """Refuse an outcome that cannot be saved, or that means nothing at its point."""
    kind = outcome.kind
    texts = {
        "reason": outcome.reason,
        "stop reason": outcome.stop_reason,
        "message": outcome.message,
    }
    for name, text in texts.items():
        if not isinstance(text, str) and not (text is None and name == "stop reason"):
            raise HookError(
                entry.name, point, f"its {name} is {text!r}.", remedy="Give it as text."
            )
    # Half a surrogate pair cannot be saved: that is the hook's failure.
    (outcome.reason + outcome.message + (outcome.stop_reason or "")).encode()
    has_own_answer = outcome.answer is not None and kind is not Kind.FAILED
    if kind is not Kind.PROCEED and not has_own_answer and kind.label not in point.verdicts:
        allowed = ", ".join(sorted({"proceed", *point.verdicts}))
        raise HookAnswerError(
            entry.name, point, f"nothing can be {_DONE[kind]} here.", remedy=f"Possible: {allowed}."
        )
    if kind is Kind.ALLOW and entry.is_policy:
        problem = "a policy cannot allow: it can only block, stop or ask."
        raise HookError(entry.name, point, problem, remedy="Return None.")


_DONE = {
    Kind.ALLOW: "allowed",
    Kind.ASK: "asked about",
    Kind.BLOCK: "blocked",
    Kind.STOP: "stopped",
    Kind.FAILED: "failed",
}


def check_change(entry: Entry, ctx: C, changed: Any, settle: Settle | None) -> C:
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
                entry.name, point, f"it changed '{name}', which cannot be changed at {point.value}.",
                remedy=f"Changeable: {', '.join(sorted(point.changes)) or 'nothing'}.",
            )  # fmt: skip
    if fields and entry.is_policy:
        raise HookError(
            entry.name, point, f"a policy may only judge, but it changed '{fields[0]}' at {point.value}.",
            remedy="Return HookOutcome.block/stop/ask, or register it with tier='hook'.",
        )  # fmt: skip
    if fields and settle is not None:
        changed = settle(entry, ctx, changed)
    return changed  # type: ignore[no-any-return] # it has the context's type


# --- all answers of a point ---------------------------------------------------------------------------


class Verdicts:
    """The strictest verdict, the hooks that asked, and what failed; with the log and the check of one hook call."""

    # Class attributes, because most points decide nothing and this is made at every point.
    strictest: tuple[Kind, str, str, str | None] = (Kind.PROCEED, "", "", None)
    asked: tuple[tuple[Entry, str], ...] = ()
    is_run_cancelled = False
    asked_by_policy: tuple[tuple[str, str], ...] = ()
    allowed: tuple[str, ...] = ()
    """Of which capability the hooks were that allowed it; empty for the user's own."""
    is_any = False
    """A hook answered something that counts, or failed."""
    ended = False
    withheld: tuple[str, str] | None = None
    answer: Any = None
    failure: HookError | None = None
    cancelled: BaseException | None = None
    left: Any = None
    """The context at the moment something was raised out of the chain."""

    def __init__(self, log: HookLog[Any], settle: Settle | None) -> None:
        self.log = log
        self.settle = settle

    def add(self, entry: Entry, said: HookAnswer[Any]) -> None:
        """Add a hook's answer."""
        if said.kind >= Kind.BLOCK:
            is_stop, strictest = said.kind is Kind.STOP, self.strictest
            continues = is_stop and entry.is_policy and said.before.point.judged_after_stop
            self.ended = self.ended or not continues
            if strictest[0] is Kind.STOP and not is_stop:
                self.withheld = self.withheld or (said.reason, entry.name)
            elif strictest[0] is Kind.BLOCK and is_stop:
                # Middleware's, over what hooks inside it said.
                self.withheld = strictest[1], strictest[2]
            # A second blocker never hides the first one's reason; only something stricter replaces it.
            if said.kind > self.strictest[0]:
                self.strictest = (said.kind, said.reason, entry.name, said.stop_reason)
        elif said.kind is Kind.ASK and entry.is_policy:
            self.asked_by_policy += ((entry.name, said.reason),)
        elif said.kind is Kind.ASK:
            self.asked += ((entry, said.reason),)
        elif said.kind is Kind.ALLOW:
            self.allowed += (entry.registration.source,)
        if said.answer is not None and self.answer is None:
            self.answer = said.answer

    def count(self, entry: Entry, said: HookAnswer[Any], *, is_cut_short: bool) -> None:
        """Add an answer; a failure counts as the point and the hook's fail mode say."""
        self.is_any = True
        point = said.before.point
        if said.error is None:
            self.add(entry, said)
        elif entry.registration.on_failure == "open" and not is_cut_short:
            return
        elif point.failure_blocks or self._is_stopped(point):
            reason = f"hook '{entry.name}' failed, so this is not let through: {said.error.problem}"
            self.add(entry, HookAnswer(said.before, said.after, Kind.BLOCK, reason))
        else:
            self.failure = self.failure or said.error
            self.ended = self.ended or not point.unskippable

    def _is_stopped(self, point: Point[Any]) -> bool:
        """A failure must not keep a stopped run from ending: it only blocks."""
        return point.judged_after_stop and self.strictest[0] is Kind.STOP

    def result(self, ctx: C) -> Result[C]:
        """The result of all answers."""
        kind, reason, who, stop_reason = self.strictest
        asks: tuple[tuple[str, str], ...] = ()
        if kind is Kind.PROCEED:
            left = tuple((by.name, why) for by, why in self.asked if not self._is_lifted(by))
            asks = self.asked_by_policy + left
            if asks:
                kind, (who, reason) = Kind.ASK, asks[0]
        return Result(
            context=ctx,
            kind=kind,
            reason=reason,
            decided_by=who,
            stop_reason=stop_reason,
            answer=self.answer,
            withheld=self.withheld,
            asks=asks,
        )

    def _is_lifted(self, asker: Entry) -> bool:
        """Whether another capability has allowed it. Of the hooks of one capability the strictest counts."""
        source = asker.registration.source
        return any(by != source or not by for by in self.allowed)

    def can_policies_run(self, point: Point[Any]) -> bool:
        """A hook ended the chain with a stop that undoes nothing."""
        is_stopped = self.ended and self.strictest[0] is Kind.STOP
        return is_stopped and self.withheld is None and point.judged_after_stop

    def crash(self, entry: Entry, ctx: Context, error: BaseException, started: float) -> HookError:
        """A hook's crash. At unskippable points the other hooks run even if the task is cancelled."""
        failure = cancellation_failure(entry, ctx, error)
        if failure is None:
            return hook_failure(entry, ctx, error)
        if not ctx.point.unskippable:
            self.log.report_answer(entry, started, HookAnswer(ctx, ctx, error=failure))
            raise error
        self.is_any = True
        self.cancelled = self.cancelled or error
        self.is_run_cancelled = self.is_run_cancelled or is_of_cancelled_run(ctx)
        return failure

    def verdict(self, result: Result[Any]) -> Verdict:
        """What observers see: a failure that is an error comes before any decision."""
        failure = self.failure
        if failure is None:
            return result.verdict
        return Verdict(Kind.FAILED, failure.problem, failure.hook)

    def raise_pending(self) -> None:
        """After all hooks and observers: raise the cancellation, or else the failure."""
        # Middleware with a time limit cancels what it waits for, and uncancels it: that is its own failure.
        if self.cancelled is not None and (self.is_run_cancelled or is_being_cancelled()):
            raise self.cancelled
        if self.failure is not None:
            raise self.failure
