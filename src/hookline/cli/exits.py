"""The exit codes of the command. docs/cli.md says what they mean."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from hookline.errors import BuildError, TrustError, UsageError

if TYPE_CHECKING:
    from hookline.state import RunStatus, StopReason


class Exit(enum.IntEnum):
    """An exit code."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    LIMIT = 3
    BLOCKED = 4
    WAITING = 5
    CONFIG = 6
    INTERRUPTED = 130


REFUSED = frozenset({"run_refused", "prompt_refused", "step_refused", "output_withheld"})
"""Stop reasons of a run that a hook refused to begin, to continue or to answer."""


def exit_of(status: RunStatus, stop_reason: StopReason | None) -> Exit:
    """The exit code of a run."""
    reason = stop_reason.value if stop_reason is not None else ""
    if reason == "cancelled" or status.value == "cancelled":
        return Exit.INTERRUPTED
    if status.value in ("failed", "queued", "running"):
        return Exit.FAILED
    if status.value == "paused":
        return Exit.WAITING
    if reason.endswith("_limit") or reason == "truncated":
        return Exit.LIMIT
    if reason in {*REFUSED, "stopped_by_hook"}:
        return Exit.BLOCKED
    is_own = stop_reason is not None and stop_reason not in type(stop_reason).__members__.values()
    return Exit.BLOCKED if is_own and status.value == "stopped" else Exit.DONE


def exit_for(error: BaseException) -> Exit:
    """The exit code for an error that ended the command."""
    if isinstance(error, BuildError | TrustError):
        return Exit.CONFIG
    return Exit.USAGE if isinstance(error, UsageError) else Exit.FAILED
