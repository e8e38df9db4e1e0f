"""Permission rules in hooks: whether an `if` is about a call, and which rule an answer grants. In doubt a hook runs."""

from __future__ import annotations

import re

from hookline.errors import HooklineError
from hookline.permissions import Rule
from hookline.shell_text import ShellVisitor, TooDeep, read_shell_text
from hookline.state import ToolCall

_LITERAL = re.compile(r"'[^']*'|\\.", re.DOTALL)
_WORKED_OUT = re.compile(r"[$`]")
_BETWEEN = re.compile(r"(?<=\))\s*(?:\|\|?|,)\s*(?=[A-Za-z_])")


def check_rule(text: str) -> None:
    """A wrong rule in an `if` is a UsageError."""
    for each in _BETWEEN.split(text):
        Rule.parse(each)


def is_rule_for(text: str, call: ToolCall, cwd: str) -> bool:
    """Whether an `if` is about a call. It should be one rule; of several any will do."""
    return any(_is_rule_for(Rule.parse(each), call, cwd) for each in _BETWEEN.split(text))


def _is_rule_for(parsed: Rule, call: ToolCall, cwd: str) -> bool:
    try:
        # Each command counts by itself, also inside of substitutions, and without variables set before it.
        if parsed.touches(call, cwd):
            return True
    except HooklineError:  # what reads commands is not installed
        return True
    command = call.args.get("command")
    if not isinstance(command, str):
        return False
    if is_readable(command) and not (_is_specific(parsed) and _is_worked_out(command)):
        return False
    return Rule(parsed.tool).touches(call, cwd)


def _is_specific(rule: Rule) -> bool:
    """Whether a rule is about more than the name of a program: `git push *`, and not `git *`."""
    words = (rule.argument or "").replace(":*", " *").split()
    return len([word for word in words if word.strip("*")]) > 1


def _is_worked_out(command: str) -> bool:
    """Whether a part of a command is a variable, or the output of another command."""
    return _WORKED_OUT.search(_LITERAL.sub("", command)) is not None


def is_readable(command: str) -> bool:
    """Whether a command line is complete: nothing is left open, and no operator stands alone."""
    reading = ShellVisitor()
    try:
        read_shell_text(command, reading)
    except TooDeep:
        return False
    return not reading.is_broken
