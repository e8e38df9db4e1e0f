"""What the hooks of one point have decided so far."""

from __future__ import annotations

from typing import Any

from hookline._aio import is_being_cancelled
from hookline.errors import HookError
from hookline.hooks.answers import Settle
from hookline.hooks.crash import cut_off, hook_failure, is_of_cancelled_run
from hookline.hooks.log import Answered, HookLog
from hookline.hooks.outcome import Kind, Result, Verdict
from hookline.hooks.plan import Entry
from hookline.hooks.point import C, Context, Point


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

    def add(self, entry: Entry, said: Answered[Any]) -> None:
        """Add a hook's answer."""
        if said.kind >= Kind.BLOCK:
            is_stop, strictest = said.kind is Kind.STOP, self.strictest
            continues = is_stop and entry.is_policy and said.before.point.stands
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

    def count(self, entry: Entry, said: Answered[Any], *, is_cut_short: bool) -> None:
        """Add an answer; a failure counts as the point and the hook's fail mode say."""
        self.is_any = True
        point = said.before.point
        if said.error is None:
            self.add(entry, said)
        elif entry.registration.on_failure == "open" and not is_cut_short:
            return
        elif point.failure_blocks or self._is_stopped(point):
            reason = f"hook '{entry.name}' failed, so this is not let through: {said.error.problem}"
            self.add(entry, Answered(said.before, said.after, Kind.BLOCK, reason))
        else:
            self.failure = self.failure or said.error
            self.ended = self.ended or not point.unskippable

    def _is_stopped(self, point: Point[Any]) -> bool:
        """A failure must not keep a stopped run from ending: it only blocks."""
        return point.stands and self.strictest[0] is Kind.STOP

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

    def leaves_it_to_policies(self, point: Point[Any]) -> bool:
        """A hook ended the chain with a stop that undoes nothing."""
        is_stopped = self.ended and self.strictest[0] is Kind.STOP
        return is_stopped and self.withheld is None and point.stands

    def crash(self, entry: Entry, ctx: Context, error: BaseException, started: float) -> HookError:
        """A hook's crash. At unskippable points the other hooks run even if the task is cancelled."""
        failure = cut_off(entry, ctx, error)
        if failure is None:
            return hook_failure(entry, ctx, error)
        if not ctx.point.unskippable:
            self.log.judged(entry, started, Answered(ctx, ctx, error=failure))
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

    def raise_what_is_left(self) -> None:
        """After all hooks and observers: raise the cancellation, or else the failure."""
        # Middleware with a time limit cancels what it waits for, and uncancels it: that is its own failure.
        if self.cancelled is not None and (self.is_run_cancelled or is_being_cancelled()):
            raise self.cancelled
        if self.failure is not None:
            raise self.failure
