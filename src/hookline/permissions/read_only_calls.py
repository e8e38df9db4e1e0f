"""Calls of `bash` and `exec` whose command only reads, judged for the directory in which it would run."""

from __future__ import annotations

from typing import Any

from hookline.containment.shell.words import join_words
from hookline.errors import HooklineError
from hookline.state import AgentState, ToolCall


def is_read_only_call(call: ToolCall, tool: object, state: AgentState) -> bool:
    """Whether a call is a command that certainly changes nothing, by the shell policy: for tools without a sandbox.

    One that asks for a place or for the network wants more than to read, whatever its command is.

    A tool that knows where its commands run has `whereabouts(call, state)`, which returns the work directory and the
    directory in it, or None if earlier commands may have changed what this one does. For other tools it is the
    directory of this process, and the one that the call names.
    """
    command, place = _command(call), _place(call, tool, state)
    if command is None or place is None or asks_for_more(call):
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


def asks_for_more(call: ToolCall) -> bool:
    """Whether a call of a shell names where it is to run, or wants the network."""
    return call.args.get("place") is not None or bool(call.args.get("network"))


def _command(call: ToolCall) -> str | None:
    """The command line of a call; None if it is no call of `bash` or `exec`."""
    command: Any = call.args.get("command") if call.name == "bash" else None
    words: Any = call.args.get("argv") if call.name == "exec" else None
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return join_words(words)
    return command if isinstance(command, str) else None


def _place(call: ToolCall, tool: object, state: AgentState) -> tuple[str, str] | None:
    owner = getattr(getattr(tool, "function", None), "__self__", None)
    whereabouts: Any = getattr(owner, "whereabouts", None)
    if callable(whereabouts):
        found = whereabouts(call, state)
        return None if found is None else (str(found[0]), str(found[1]))
    named = call.args.get("cwd", "")
    if not isinstance(named, str) or "\0" in named or named.startswith("~"):
        return None  # some tools expand `~`, and some do not
    return "", named
