"""Names that stand for the same file on some file system."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from hookline.errors import UsageError

# Characters that HFS+ leaves out when it compares names.
_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
_SHORT = {"git~1": ".git"}
"""What NTFS calls them in eight characters."""


def plain(name: str) -> str:
    """A name as the least particular file system compares it: without case, trailing dots, streams or marks."""
    text = unicodedata.normalize("NFC", name.translate(_IGNORED)).casefold()
    text = text.partition(":")[0].rstrip(" .") or text
    return _SHORT.get(text, text)


def plain_names(names: Iterable[str], option: str) -> frozenset[str]:
    """Names to compare with, checked."""
    given = [names] if isinstance(names, str) else list(names)
    for name in given:
        if not isinstance(name, str) or not name or "/" in name:
            raise UsageError(
                f"{option}= has {name!r} in it, which is not a name.",
                remedy="Give single names, as in ('.git', '.env'): they hold at any depth.",
            )
    return frozenset(map(plain, given))


def first_of(parts: Iterable[str], names: frozenset[str]) -> str:
    """The first part of a path that is one of these names; empty if none is."""
    return next((part for part in parts if plain(part) in names), "") if names else ""


def within(parts: Sequence[str], places: Iterable[Sequence[str]]) -> str:
    """The place that a path leads to or into; empty if it leads to none."""
    given = [plain(part) for part in parts] if places else []
    for place in places:
        if given[: len(place)] == [plain(part) for part in place]:
            return "/".join(place)
    return ""
