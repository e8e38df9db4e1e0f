"""What an answer means at its point, and whether the hook changed only what it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookline.errors import HookError
from hookline.hooks.crash import hook_failure
from hookline.hooks.log import Answered
from hookline.hooks.outcome import HookOutcome, Kind, Result
from hookline.hooks.plan import Entry
from hookline.hooks.point import C, Context, Point

Settle = Callable[[Entry, Any, Any], Any]
"""(hook, context before, context after) -> the context to continue with. Called when a hook changed the context."""


def understand(entry: Entry, ctx: C, answer: Any, settle: Settle | None) -> Answered[C]:
    """What an answer means at its point. An answer that means nothing is a failure of the hook."""
    if isinstance(answer, HookError):
        return Answered(ctx, ctx, error=answer)
    try:
        return _meaning(entry, ctx, answer, settle)
    except Exception as error:
        return Answered(ctx, ctx, error=hook_failure(entry, ctx, error))


def _meaning(entry: Entry, ctx: C, answer: Any, settle: Settle | None) -> Answered[C]:
    point = ctx.point
    if isinstance(answer, Result):  # what another stack decided is this hook's answer
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
            problem = f"it returned {answer!r} ({type(answer).__name__}), which means nothing here."
            raise HookError(entry.name, point, problem, remedy=f"Return {point.expected()}.")
    if isinstance(answer, Context):
        return Answered(ctx, changed_by(entry, ctx, answer, settle))
    _check_outcome(entry, point, answer)
    after = ctx if answer.context is None else changed_by(entry, ctx, answer.context, settle)
    reason = str.__str__(answer.reason)  # a subclass of str cannot be saved
    return Answered(ctx, after, answer.kind, reason, answer.stop_reason, answer.answer)


def _check_outcome(entry: Entry, point: Point[Any], outcome: HookOutcome) -> None:
    """Refuse an outcome that cannot be saved, or that means nothing at its point."""
    kind = outcome.kind
    for name, text in (("reason", outcome.reason), ("stop reason", outcome.stop_reason)):
        if not isinstance(text, str) and not (text is None and name == "stop reason"):
            raise HookError(
                entry.name, point, f"its {name} is {text!r}.", remedy="Give it as text."
            )
    outcome.reason.encode()  # half a surrogate pair cannot be saved: that is the hook's failure
    has_own_answer = outcome.answer is not None and kind is not Kind.FAILED
    if kind is not Kind.PROCEED and not has_own_answer and kind.label not in point.verdicts:
        allowed = ", ".join(sorted({"proceed", *point.verdicts}))
        raise HookError(
            entry.name, point, f"nothing can be {_DONE[kind]} here.", remedy=f"Possible: {allowed}."
        )
    if kind is Kind.ALLOW and entry.is_policy:
        problem = "a policy may only narrow, and `allow` widens."
        raise HookError(entry.name, point, problem, remedy="Return None.")


_DONE = {
    Kind.ALLOW: "allowed",
    Kind.ASK: "asked about",
    Kind.BLOCK: "blocked",
    Kind.STOP: "stopped",
    Kind.FAILED: "failed",
}


def changed_by(entry: Entry, ctx: C, changed: Any, settle: Settle | None) -> C:
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
        changed = settle(entry, ctx, changed)
    return changed  # type: ignore[no-any-return] # it has the context's type
