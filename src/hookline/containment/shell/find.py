"""find: which expressions only test and print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, pairwise, takewhile

from hookline.containment.shell.options import Call, only
from hookline.containment.shell.secrets import is_secret, picks_secret

PICKING = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname".split()
)
"""Tests of names, each with a pattern."""
_VALUED = PICKING | frozenset(
    """
    -regextype -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin -newer -newermt -newerct -newerat -anewer
    -cnewer -user -group -uid -gid -perm -links -inum -samefile -maxdepth -mindepth -printf -used -fstype
    """.split()
)
_ALONE = frozenset(
    """
    -empty -nouser -nogroup -readable -writable -executable -depth -d -xdev -mount -prune -quit -print -print0 -ls
    -follow -daystart -noleaf -not -a -and -o -or -true -false -L -H -P -E -x -s -ignore_readdir_race -warn -nowarn
    -O1 -O2 -O3
    """.split()
)
_OTHER_FILES = frozenset("-L -H -follow -o -or , ! -not -print -printf -ls".split())
"""What may print more than the names of the files that pass each test."""
_VALUE = re.compile(r"-[0-9]+[a-zA-Z]?|-[ugoa]*[=+-][rwxXst]+(,[ugoa]*[=+-][rwxXst]+)*")
"""Values that begin like options: `-7`, `-10k`, `-u=rw`. No action is spelled so."""


def _check(call: Call) -> str | None:
    """`-exec`, `-delete`, `-fprint` and whatever else is not a test: none of them is in a table."""
    for word in call.operands:
        text = word.text
        if text.startswith("-") and not (
            text in _VALUED or text in _ALONE or _VALUE.fullmatch(text)
        ):
            return f"the action {text}"
    return None


def roots_of(words: Sequence[str]) -> list[str]:
    """Where a search begins."""
    own = dropwhile(lambda word: word in {"-L", "-H", "-P"}, words)
    return list(takewhile(lambda word: not word.startswith(("-", "(", "!")), own))


def lists_plain_files(words: Sequence[str]) -> bool:
    """Whether what is printed are regular files, which lead nowhere else, and no pattern asks for secrets.

    Tests count for what is printed behind them, so the one accepted form ends with the only print.
    """
    pairs = list(pairwise(words))
    is_plain = ("-type", "f") in pairs and _OTHER_FILES.isdisjoint(words)
    is_plain = is_plain and words[-1] == "-print0" and words.count("-print0") == 1
    is_plain = is_plain and words[-2] not in _VALUED  # in `-name -print0` it is a name
    picked = [value for name, value in pairs if name in PICKING]
    return is_plain and not any(picks_secret(value) or is_secret(value) for value in picked)


FIND = only(plain_words=True, shows=False, check=_check)
