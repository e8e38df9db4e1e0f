"""What commands print of which that is known beforehand, and what may be set in front of a command."""

from __future__ import annotations

import re

from hookline.containment.shell.words import Word

_PLAIN_PLACES = frozenset({"git rev-parse --show-toplevel", "pwd", "git rev-parse --show-cdup"})
_PLAIN_OUTPUT = re.compile(
    r"""
    git[ ]rev-parse[ ](?:--short[ ])?HEAD(?:[~^][0-9]*)* | git[ ]merge-base(?:[ ][\w./@][\w./@~^-]*){2}
    | date(?:[ ]-u)?[ ]\+%[YmdHMSFTsjy](?:%[YmdHMSFTsjy]|[:_-])* | whoami | id[ ]-un? | uname(?:[ ]-[smr])? | nproc
    | wc[ ]-[clmw](?:[ ]?<[ ]?[\w./-]+)? | docker[ ]ps[ ](?:-q|-aq|-qa)(?:[ ](?:-f|--filter)[ ][\w=.-]+)*
    """,
    re.VERBOSE,
)
_SUBSTITUTION = re.compile(r"\$\(([^()`;&\n]*)\)|`([^`;&\n]*)`")
_ASSIGNABLE = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|CI|TERM|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS"
    r"|DEBUG|VERBOSE|NODE_ENV|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED"
)
_PAGERS = frozenset({"PAGER", "GIT_PAGER", "MANPAGER", "GH_PAGER", "AWS_PAGER", "SYSTEMD_PAGER"})


def only_output(text: str, last: str) -> str:
    """The command that alone prints what the one substitution of a command comes to: `last`, or nothing."""
    found = [one or other for one, other in _SUBSTITUTION.findall(text)]
    alone = len(found) == 1 and "||" not in found[0]
    return last if alone and found[0].strip().endswith(last) else ""


def is_plain_place(command: str) -> bool:
    """Whether a command prints the name of a directory with nothing secret about it."""
    return command in _PLAIN_PLACES


def is_plain_output(command: str) -> bool:
    """Whether a command prints a word that is no option and names nothing secret: a number, a date, a hash."""
    return _PLAIN_OUTPUT.fullmatch(command) is not None


def may_assign(name: str, value: Word) -> bool:
    """Whether a variable may be set for one command: it says how things are shown, and names no file."""
    if name in _PAGERS:
        return value.exact and value.text in {"", "cat"}
    plain = value.exact and ("/" not in value.text or (name == "TZ" and _is_zone(value)))
    return plain and _ASSIGNABLE.fullmatch(name) is not None


def _is_zone(value: Word) -> bool:
    """Whether a time zone is named as cities are. A path leads to any file."""
    return re.fullmatch(r"[A-Z][A-Za-z_]+(/[A-Z][A-Za-z_-]+){1,2}", value.text) is not None
