"""What an answer means at its point, and whether the hook changed only what it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookline.errors import HookError
from hookline.hooks.crash import hook_failure
from hookline.hooks.log import Answered
from hookline.hooks.outcome import HookOutcome, Kind, Result
from hookline.hooks.plan import Entry
from hookline.hooks.point import Context

Settle = Callable[[Entry, Any, Any], Any]
"""(hook, context before, context after) -> the context to go on with. Called when a hook changed the context."""


def understand(entry: Entry, ctx: Context, answer: Any, settle: Settle | None) -> Answered:
    """What an answer means at its point. An answer that means nothing is a failure of the hook."""
    if isinstance(answer, HookError):
        return Answered(ctx, ctx, error=answer)
    try:
        return _meaning(entry, ctx, answer, settle)
    except Exception as error:
        return Answered(ctx, ctx, error=hook_failure(entry, ctx, error))


def _meaning(entry: Entry, ctx: Context, answer: Any, settle: Settle | None) -> Answered:
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
        return Answered(ctx, changed_by(entry, ctx, answer, settle))
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
    after = ctx if answer.context is None else changed_by(entry, ctx, answer.context, settle)
    return Answered(ctx, after, kind, reason, answer.stop_reason, answer.answer)


_DONE = {
    Kind.ALLOW: "allowed",
    Kind.ASK: "asked about",
    Kind.BLOCK: "blocked",
    Kind.STOP: "stopped",
    Kind.FAILED: "failed",
}


def changed_by(entry: Entry, ctx: Context, changed: Any, settle: Settle | None) -> Any:
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
