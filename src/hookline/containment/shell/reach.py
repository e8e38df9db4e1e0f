"""What an open word may become, and which programs go through whole directories."""

from __future__ import annotations

import re

from hookline.containment.shell.call import Use
from hookline.containment.shell.settable import VARIABLES
from hookline.containment.shell.words import Word

RECURSIVE = ("-r", "-R", "--recursive", "--dereference-recursive", "--no-index")
GREPS = frozenset({"grep", "egrep", "fgrep"})
_SET = frozenset(
    "HOME PWD PATH SHELL UID EUID PPID SHLVL RANDOM SECONDS HOSTNAME BASH_VERSION OSTYPE".split()
) | set("?$#")
MAY_BE_UNSET = re.compile(
    rf"\$(?:{'|'.join(re.escape(name) for name in sorted(VARIABLES - _SET, key=len, reverse=True))})"
)
"""A variable of the environment that is nothing on many machines."""


def spelled(word: Word) -> list[str]:
    """The text of a word, and what is left of it if the variables in it are not set."""
    left = "" if word.exact else MAY_BE_UNSET.sub("", word.text)
    return [word.text, left] if left and left != word.text else [word.text]


def is_variable(word: Word) -> bool:
    """Whether a word may become any other, an option too."""
    return not word.exact and "$" in word.text and word.start[:1] in {"", "-"}


def recurses(name: str, use: Use) -> bool:
    """Whether a program goes through directories. Some of grep's spellings are of its own."""
    if use.call.has(*RECURSIVE) or (name in GREPS and any(map(_may_recurse, use.call.options))):
        return True
    if name == "git" and use.verb == "diff":  # of what lies outside, it compares whole directories
        return any(word.start.startswith(("/", "~", "..")) for word in use.call.operands)
    return name == "diff" or any(map(is_variable, use.call.operands))


def _may_recurse(option: tuple[str, Word | None]) -> bool:
    name, value = option
    into = name in {"-d", "--directories"} and value is not None
    return into and value is not None and (not value.exact or value.text.startswith("rec"))
