"""ripgrep, as a quick way to pass over files that cannot have what is searched for.

It is handed files that the jail has opened, never paths, so it cannot be led out. What it says is only "nothing in this
one"; the lines are found by the same code with and without it, so the answers are the same. For that it is told to look
for more rather than less: besides the pattern, which has to mean the same to it as to Python, any byte that is not
plain ASCII text, because there the two could differ.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from hookline.containment.processes import run_briefly

BATCH = 400
"""How many files are handed over at once: each takes a descriptor."""
_FDS = "/dev/fd"
_SYSTEM = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/run/current-system/sw/bin"
_OTHER_BYTES = r"(?-u:[^\t\n\x20-\x7E])"
_WIDE_BYTES = r"(?-u:[\x00\xFE\xFF]|\xEF\xBB\xBF)"
"""What there is in encodings of two or four bytes; the plain characters of others are the same bytes everywhere. And
the mark at the beginning of a file in UTF-8, which is no part of its first line."""
_QUIET = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--no-ignore",
    "--text",
    "--encoding=none",
)

# The part of the syntax that means the same to Python and to ripgrep on a line of plain ASCII text.
_ATOM = r"(?:[A-Za-z0-9 _\-=<>,:;'\"/!@%&~`#]|\\[.\\+*?()|\[\]{}^$]|\\[dDwWsSbB]|\.|\^|\$)"
_CLASS = r"(?:\[\^?(?:[A-Za-z0-9_ .,:;/*+?(){}|$!@%<>='\"]|\\[\]\[\\^.\-dws]|[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9])+\])"
_OPEN, _REPEAT = r"(?:\((?:\?:)?)", r"(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})\??"
_TOKEN = re.compile(
    rf"(?P<atom>{_ATOM}|{_CLASS})|(?P<open>{_OPEN})|(?P<close>\))|(?P<repeat>{_REPEAT})|(?P<or>\|)"
)
_UNREPEATABLE = (r"\b", r"\B", "^", "$")
_PLAIN = re.compile(r"(?:[A-Za-z0-9 _\-=<>,:;'\"/!@%&~`#()|?*+^]|\\[.+*?()|\[\]{}^$])*")
"""Patterns that speak of plain characters only: what they fit has no others in it."""


def program(root: Path) -> str | None:
    """Where ripgrep is, if it is installed and can be handed open files, and is not one of the files themselves.

    Where the system has it, first: a search path may lead through directories that an agent's commands can write in.
    """
    found = shutil.which("rg", path=_SYSTEM) or shutil.which("rg")
    if found is None or not os.path.isdir(_FDS):
        return None
    real = os.path.realpath(found)
    return None if Path(real).is_relative_to(os.path.realpath(root)) else real


def may_match(rg: str, pattern: str, fds: Sequence[int], timeout: float) -> list[bool]:
    """For each open file whether it may have a line that fits. If ripgrep fails, all of them may."""
    names = [f"{_FDS}/{fd}" for fd in fds]
    command = [rg, *_QUIET, "--files-with-matches", "--null", "-e", pattern, "--", *names]
    try:
        code, output, _ = run_briefly(
            command, seconds=max(0.1, timeout), env={"PATH": os.defpath}, pass_fds=fds
        )
    except OSError:
        return [True] * len(fds)
    if code not in (0, 1):
        return [True] * len(fds)
    found = set(output.decode(errors="replace").split("\0"))
    return [name in found for name in names]


@functools.lru_cache(maxsize=64)
def wider_pattern(pattern: str, literal: bool, ignore_case: bool) -> str | None:
    """A pattern for ripgrep that fits every line that the given one fits in Python; None if that is not certain."""
    if literal:
        own = re.sub(r"[.\\+*?()|\[\]{}^$#&\-~]", r"\\\g<0>", pattern) if pattern.isascii() else ""
    elif _is_common(pattern):
        own = pattern
    else:
        return None
    if not own or not pattern.isprintable():
        return _OTHER_BYTES
    is_plain = (literal or _PLAIN.fullmatch(pattern)) and not ignore_case
    others = _WIDE_BYTES if is_plain else _OTHER_BYTES
    return f"{'(?i)' * ignore_case}(?:{own})|{others}"


def _is_common(pattern: str) -> bool:
    """Whether the pattern is made of nothing but what both read alike."""
    at = depth = 0
    can_repeat = False
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return False
        kind, text = token.lastgroup, token.group()
        if kind == "repeat" and not can_repeat:
            return False
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            return False
        can_repeat = kind == "close" or (kind == "atom" and text not in _UNREPEATABLE)
        at = token.end()
    return depth == 0
