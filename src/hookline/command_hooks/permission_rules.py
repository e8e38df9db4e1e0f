"""Permission rules in hooks: whether an `if` is about a call, and which rule an answer grants. In doubt a hook runs."""

from __future__ import annotations

import re

from hookline.command_hooks.scripts import shell_tokens
from hookline.errors import HooklineError
from hookline.permissions import Rule
from hookline.state import ToolCall

_PAIRS = {
    "if": "fi",
    "case": "esac",
    "for": "done",
    "while": "done",
    "until": "done",
    "select": "done",
    "{": "}",
}
"""Words that open something, and those that close it."""
_BEFORE_COMMANDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
_JOINING = frozenset({"|", "||", "&&", "|&"})
_MARKS = "();|&\n"
_OPEN_NAME = re.compile(r"\$\{[^}]*$")
_LITERAL = re.compile(r"'[^']*'|\\.", re.DOTALL)
_WORKED_OUT = re.compile(r"[$`]")
_BETWEEN = re.compile(r"(?<=\))\s*(?:\|\|?|,)\s*(?=[A-Za-z_])")


def check_rule(text: str) -> None:
    """A wrong rule in an `if` is a UsageError."""
    for each in _BETWEEN.split(text):
        Rule.parse(each)


def applies(text: str, call: ToolCall, cwd: str) -> bool:
    """Whether an `if` is about a call. It should be one rule; of several any will do."""
    return any(_applies(Rule.parse(each), call, cwd) for each in _BETWEEN.split(text))


def _applies(parsed: Rule, call: ToolCall, cwd: str) -> bool:
    try:
        # Each command counts by itself, also inside of substitutions, and without variables set before it.
        if parsed.touches(call, cwd):
            return True
    except HooklineError:  # what reads commands is not installed
        return True
    command = call.args.get("command")
    if not isinstance(command, str):
        return False
    if is_readable(command) and not (_says_more_than_a_name(parsed) and _is_worked_out(command)):
        return False
    return Rule(parsed.tool).touches(call, cwd)


def _says_more_than_a_name(rule: Rule) -> bool:
    """Whether a rule is about more than the name of a program: `git push *`, and not `git *`."""
    words = (rule.argument or "").replace(":*", " *").split()
    return len([word for word in words if word.strip("*")]) > 1


def _is_worked_out(command: str) -> bool:
    """Whether a part of a command is a variable, or the output of another command."""
    return _WORKED_OUT.search(_LITERAL.sub("", command)) is not None


def is_readable(command: str) -> bool:
    """Whether a command line is complete: nothing is left open, and no operator stands alone."""
    tokens = shell_tokens(command)
    if tokens is None:
        return False
    marks = "".join(token for token in tokens if token and not token.strip("()"))
    if marks.count("(") != marks.count(")") or _OPEN_NAME.search(command):
        return False
    return _is_closed(tokens) and _joins(tokens)


def _is_closed(tokens: list[str]) -> bool:
    """Whether every word that opens something, at the start of a command, has the one that closes it."""
    is_first, count = True, dict.fromkeys(_PAIRS.values(), 0)
    for token in tokens:
        if is_first and token in _PAIRS:
            count[_PAIRS[token]] += 1
        elif is_first and token in count:
            count[token] -= 1
        is_first = (is_first and token in _BEFORE_COMMANDS) or not token.strip(_MARKS)
    return not any(count.values())


def _joins(tokens: list[str]) -> bool:
    """Whether there is a command on either side of each operator."""
    left = ";"
    for token in [each for each in tokens if each.strip("\n")] or [""]:
        if token in _JOINING and (not left.strip(";|&(") or left in _BEFORE_COMMANDS):
            return False
        left = token
    return left not in _JOINING
