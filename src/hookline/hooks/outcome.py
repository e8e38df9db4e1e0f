"""What a hook may answer, and what the answers of all hooks at a point add up to."""

from __future__ import annotations

from typing import Any, Generic

import msgspec

from hookline.errors import HookError
from hookline.hooks.point import C, Context
from hookline.hooks.verdict import Kind, Verdict


class _Decided:
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


class HookOutcome(_Decided, msgspec.Struct, frozen=True):
    """A hook's answer. `context` carries what it changed along the way."""

    kind: Kind
    reason: str = ""
    context: Context | None = None
    stop_reason: str | None = None
    answer: Any = None
    """At points with answers of their own (a permission decision), the answer."""

    @staticmethod
    def proceed(context: Context | None = None) -> HookOutcome:
        """Continue, with this context if one is given."""
        return _PROCEED if context is None else HookOutcome(Kind.PROCEED, "", context)

    @staticmethod
    def block(reason: str, context: Context | None = None) -> HookOutcome:
        """Prevent this one thing; the run continues where the point allows it."""
        return HookOutcome(Kind.BLOCK, reason, context)

    @staticmethod
    def stop(
        reason: str, context: Context | None = None, *, stop_reason: str | None = None
    ) -> HookOutcome:
        """End the run now."""
        return HookOutcome(Kind.STOP, reason, context, stop_reason)

    @staticmethod
    def ask(reason: str, context: Context | None = None) -> HookOutcome:
        """A person must say yes first."""
        return HookOutcome(Kind.ASK, reason, context)

    @staticmethod
    def allow(reason: str = "", context: Context | None = None) -> HookOutcome:
        """No need to ask: lifts an ask of another hook, never a block and never a policy.

        It does not lift an ask of its own capability: of its hooks the strictest counts.
        """
        return HookOutcome(Kind.ALLOW, reason, context)


_PROCEED = HookOutcome(Kind.PROCEED)


class Result(_Decided, msgspec.Struct, Generic[C], frozen=True):
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
