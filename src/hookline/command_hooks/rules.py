"""`if` rules: whether a call is what a permission rule is about. In doubt the hook runs."""

from __future__ import annotations

import re
import shlex

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
"""What is opened by a word, and by which it is closed."""
_BEFORE_COMMANDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
_JOINING = frozenset({"|", "||", "&&", "|&"})
_MARKS = "();|&\n"
_OPEN_NAME = re.compile(r"\$\{[^}]*$")
_LITERAL = re.compile(r"'[^']*'|\\.", re.DOTALL)
_WORKED_OUT = re.compile(r"[$`]")
_BETWEEN = re.compile(r"(?<=\))\s*(?:\|\|?|,)\s*(?=[A-Za-z_])")


def alternatives(text: str) -> list[str]:
    """The rules of an `if`. There is to be one; who joins several means any of them."""
    return _BETWEEN.split(text)


def applies(rule: str, call: ToolCall, cwd: str) -> bool:
    """Whether a rule is about a call: all of it, one of its commands, or a command that cannot be read."""
    return any(_applies(Rule.parse(each), call, cwd) for each in alternatives(rule))


def _applies(parsed: Rule, call: ToolCall, cwd: str) -> bool:
    try:
        # Each command counts by itself, those inside of substitutions too, and without variables set before it.
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
    """Whether a rule is about what comes after the name of a program: `git push *`, and not `git *`."""
    words = (rule.argument or "").replace(":*", " *").split()
    return len([word for word in words if word.strip("*")]) > 1


def _is_worked_out(command: str) -> bool:
    """Whether a part of a command is what a shell makes of it: a variable, or what another command prints."""
    return _WORKED_OUT.search(_LITERAL.sub("", command)) is not None


def is_readable(command: str) -> bool:
    """Whether a command line is whole: nothing in it is left open, and no operator stands alone."""
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars="();|&\n")
        reader.whitespace = " \t\r"
        reader.whitespace_split = True
        tokens = list(reader)
    except ValueError:
        return False
    marks = "".join(token for token in tokens if token and not token.strip("()"))
    if marks.count("(") != marks.count(")") or _OPEN_NAME.search(command):
        return False
    return _is_closed(tokens) and _joins(tokens)


def _is_closed(tokens: list[str]) -> bool:
    """Whether every word that opens something, where a command begins, has the one that closes it."""
    is_first, count = True, dict.fromkeys(_PAIRS.values(), 0)
    for token in tokens:
        if is_first and token in _PAIRS:
            count[_PAIRS[token]] += 1
        elif is_first and token in count:
            count[token] -= 1
        is_first = (is_first and token in _BEFORE_COMMANDS) or not token.strip(_MARKS)
    return not any(count.values())


def _joins(tokens: list[str]) -> bool:
    """Whether there is a command on either side of what joins two."""
    left = ";"
    for token in [each for each in tokens if each.strip("\n")] or [""]:
        if token in _JOINING and (not left.strip(";|&(") or left in _BEFORE_COMMANDS):
            return False
        left = token
    return left not in _JOINING
