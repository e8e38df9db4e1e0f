"""`if` rules: whether a call is what a permission rule is about. In doubt the hook runs."""

from __future__ import annotations

import re

from hookline.errors import HooklineError
from hookline.permissions import Rule
from hookline.state import ToolCall

_ASSIGNED = re.compile(r"^(?:\s*[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])*\s+)+")
_SEPARATE = re.compile(r"&&|\|\||[;|&\n]")
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`|\(([^()]*)\)")


def applies(rule: str, call: ToolCall, project: str) -> bool:
    """Whether a rule is about a call: all of it, one of its commands, or what cannot be told."""
    parsed = Rule.parse(rule)
    try:
        if parsed.touches(call, project):
            return True
    except HooklineError:
        return True
    command = call.args.get("command")
    if not isinstance(command, str):
        return False
    return any(_is_about(parsed, call, part, project) for part in commands_in(command))


def _is_about(rule: Rule, call: ToolCall, part: str, project: str) -> bool:
    try:
        return rule.touches(call.with_args(command=part), project)
    except HooklineError:
        return True


def commands_in(command: str) -> list[str]:
    """The commands that a line may run, as texts: its parts, and those inside of substitutions."""
    found: list[str] = []
    waiting = [command]
    while waiting and len(found) < 200:
        text = waiting.pop()
        for match in _INNER.finditer(text):
            waiting.append(next(group for group in match.groups() if group is not None))
        for part in _SEPARATE.split(text):
            plain = _ASSIGNED.sub("", part).strip()
            if plain and plain != command:
                found.append(plain)
    return found
