"""Whether a command line only reads, judged where it would run."""

from __future__ import annotations

import os
from typing import Any

from hookline.errors import HooklineError
from hookline.state import AgentState, ToolCall


def is_quiet(command: str, call: ToolCall, tool: object, state: AgentState) -> bool:
    """Whether the command of a call certainly changes nothing, by the shell policy: for tools without a sandbox.

    A tool that knows where its commands run has `whereabouts(call, state)`, which returns the work directory and the
    directory in it, or None if earlier commands may have changed what this one does. For other tools it is the
    directory of this process, and the one that the call names.
    """
    place = _place(call, tool, state)
    if place is None:
        return False
    try:
        from hookline.containment import ShellPolicy

        root, cwd = place
        owner = getattr(getattr(tool, "function", None), "__self__", None)
        policy = getattr(owner, "policy", None)
        policy = policy if isinstance(policy, ShellPolicy) else ShellPolicy()
        return policy.judge(command, root=root, cwd=cwd).only_reads
    except (ImportError, HooklineError):
        return False  # without its parser nothing is known of the command


def _place(call: ToolCall, tool: object, state: AgentState) -> tuple[str, str] | None:
    owner = getattr(getattr(tool, "function", None), "__self__", None)
    whereabouts: Any = getattr(owner, "whereabouts", None)
    if callable(whereabouts):
        found = whereabouts(call, state)
        return None if found is None else (str(found[0]), str(found[1]))
    named = call.args.get("cwd", "")
    if not isinstance(named, str) or "\0" in named:
        return None
    return "", os.path.expanduser(named)
