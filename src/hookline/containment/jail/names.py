"""Names that stand for the same file on some file system."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from hookline.errors import UsageError

# Characters that HFS+ leaves out when it compares names.
_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
_SHORT = {"git~1": ".git"}
"""What NTFS calls them in eight characters."""
_WILD = re.compile(r"[*?\[]")
GIT_PARTS = frozenset({"config", "config.worktree", "commondir", "hooks", "objects", "refs"})
"""What makes a directory with a `HEAD` a repository of git, or names programs in one."""


def plain(name: str) -> str:
    """A name as the least particular file system compares it: without case, trailing dots, streams or marks."""
    text = unicodedata.normalize("NFC", name.translate(_IGNORED)).casefold()
    text = text.partition(":")[0].rstrip(" .") or text
    return _SHORT.get(text, text)


def is_head(name: str) -> bool:
    """Whether git would read a file of this name as the `HEAD` of a repository. Other programs have no such file."""
    return plain(name) == "head"


def plain_names(names: Iterable[str], option: str) -> frozenset[str]:
    """Names to compare with, checked."""
    given = [names] if isinstance(names, str) else list(names)
    for name in given:
        if not isinstance(name, str) or not name or "/" in name:
            raise UsageError(
                f"{option}= has {name!r} in it, which is not a name.",
                remedy="Give single names, as in ('.git', '*.pem'): they hold at any depth.",
            )
    return frozenset(map(plain, given))


def first_of(parts: Iterable[str], names: frozenset[str]) -> str:
    """The first part of a path that is one of these names, or fits one with `*`, `?` or `[...]`; empty if none does."""
    if not names:
        return ""
    fits = _pattern(names)
    return next((part for part in parts if (name := plain(part)) in names or fits(name)), "")


@lru_cache(maxsize=64)
def _pattern(names: frozenset[str]) -> Callable[[str], object]:
    wild = [fnmatch.translate(name) for name in sorted(names) if _WILD.search(name)]
    return re.compile("|".join(wild)).match if wild else lambda _: None


def within(parts: Sequence[str], places: Iterable[Sequence[str]]) -> str:
    """The place that a path leads to or into; empty if it leads to none."""
    given = [plain(part) for part in parts] if places else []
    for place in places:
        if given[: len(place)] == [plain(part) for part in place]:
            return "/".join(place)
    return ""
