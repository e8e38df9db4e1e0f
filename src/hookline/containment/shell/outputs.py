"""What commands print of which that is known beforehand, and what may be set in front of a command."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.words import Command, Word

PLACES = frozenset({"git rev-parse --show-toplevel", "pwd"})
"""Commands that print where they are, or where the repository begins."""
_PLAIN_OUTPUT = re.compile(
    r"""
    git[ ]rev-parse[ ](?:--short[ ])?HEAD(?:[~^][0-9]*)* | git[ ]merge-base(?:[ ][\w./@][\w./@~^-]*){2}
    | git[ ]rev-list(?:[ ](?:-[0-9]+|-n[ ][0-9]+|--(?:max-count=[0-9]+|count|reverse|all|no-merges|first-parent)))*
      (?:[ ][\w./@][\w./@~^-]*)*
    | date(?:[ ]-u)?[ ]\+%[YmdHMSFsjy](?:%[YmdHMSFsjy]|[_-])* | seq(?:[ ]-w)?(?:[ ][0-9]+){1,3}
    | id[ ]-u | nproc | wc[ ]-[clmw]
    """,
    re.VERBOSE,
)
_WHERE_IS = re.compile(r"(?:which|command -v) (\w[\w.+-]*)")
_ASSIGNABLE = re.compile(
    r"LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|CI|TERM|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS"
    r"|DEBUG|VERBOSE|NODE_ENV|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED"
)
_LOCALE = re.compile(r"LANG|LC_[A-Z]+")
_CHARACTERS = re.compile(r"|C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF-8|utf8)")
"""In others, a backslash may be the second half of a character."""
_PAGERS = frozenset({"PAGER", "GIT_PAGER", "MANPAGER", "GH_PAGER", "AWS_PAGER", "SYSTEMD_PAGER"})


def printing(commands: Sequence[Command]) -> str:
    """The command that alone prints what a substitution comes to: the last of one pipeline. Empty if unknown."""
    if not commands or not all(one.piped for one in commands[1:]):
        return ""
    last = commands[-1]
    words = [word.text for word in last.words if word.exact and word.text.isprintable()]
    known = len(words) == len(last.words) and not any(" " in word for word in words)
    inner = any(word.hidden for one in commands for word in one.words)
    read = all(one.operator == "<" or one.target.text == "/dev/null" for one in last.redirects)
    return " ".join(words) if known and read and not inner and not last.assignments else ""


def is_plain_output(command: str) -> bool:
    """Whether a command prints words that are no options and name nothing secret: numbers, a date, hashes."""
    return _PLAIN_OUTPUT.fullmatch(command) is not None


def may_print_several(command: str) -> bool:
    """Whether one of those commands may print more words than one."""
    return command.startswith(("seq ", "git rev-list"))


def program_sought(command: str) -> str:
    """The name of the one program of which a command prints where it lies; empty if it prints something else."""
    found = _WHERE_IS.fullmatch(command)
    return found[1] if found else ""


def is_known_output(command: str) -> bool:
    """Whether enough is known of what a command prints to look at a command that is given it."""
    return command in PLACES or is_plain_output(command) or bool(program_sought(command))


def may_assign(name: str, value: Word) -> bool:
    """Whether a variable may be set for one command: it says how things are shown, and names no file."""
    if name in _PAGERS:
        return value.exact and value.text in {"", "cat"}
    if _LOCALE.fullmatch(name):
        return value.exact and _CHARACTERS.fullmatch(value.text) is not None
    plain = value.exact and ("/" not in value.text or (name == "TZ" and _is_zone(value)))
    return plain and _ASSIGNABLE.fullmatch(name) is not None


def _is_zone(value: Word) -> bool:
    """Whether a time zone is named as cities are. A path leads to any file."""
    return re.fullmatch(r"[A-Z][A-Za-z_]+(/[A-Z][A-Za-z_-]+){1,2}", value.text) is not None
