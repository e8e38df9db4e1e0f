"""`if` rules: whether a call is what a permission rule is about. In doubt the hook runs."""

from __future__ import annotations

import shlex

from hookline.errors import HooklineError
from hookline.permissions import Rule
from hookline.state import ToolCall


def applies(rule: str, call: ToolCall, cwd: str) -> bool:
    """Whether a rule is about a call: all of it, one of its commands, or a command that cannot be read."""
    parsed = Rule.parse(rule)
    try:
        # Each command counts by itself, those inside of substitutions too, and without variables set before it.
        if parsed.touches(call, cwd):
            return True
    except HooklineError:  # what reads commands is not installed
        return True
    command = call.args.get("command")
    if not isinstance(command, str) or is_readable(command):
        return False
    return Rule(parsed.tool).touches(call, cwd)


def is_readable(command: str) -> bool:
    """Whether a command line is whole: no quote and no bracket in it is left open."""
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars="()")
        reader.whitespace_split = True
        tokens = list(reader)
    except ValueError:
        return False
    marks = "".join(token for token in tokens if token and not token.strip("()"))
    return marks.count("(") == marks.count(")")
