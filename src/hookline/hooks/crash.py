"""What counts as the crash of a hook, and what it is called."""

from __future__ import annotations

import asyncio

from hookline._aio import is_being_cancelled
from hookline.errors import HookError, HooklineError, in_words
from hookline.hooks.plan import Entry
from hookline.hooks.point import Context

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


def cut_off(entry: Entry, ctx: Context, error: BaseException) -> HookError | None:
    """The failure of a hook whose task was cancelled while it waited; None for any other crash."""
    if not _is_cancellation(error, ctx):
        return None
    failure = HookError(entry.name, ctx.point, "it was cancelled while it waited.")
    failure.__cause__ = error
    return failure
