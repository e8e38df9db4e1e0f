"""Which recorded request is the one that is asked now, and what differs from it if none is."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from hookline.testing.cassette_file import RecordedRequest
from hookline.testing.secrets import SCRUBBED

_OWN_ID = re.compile(r"\bhookline-[0-9a-f]{32}\b")
"""An id that a provider made for a call, because the server gave none: it differs in each run."""
_NOTHING: Any = object()
_SHOWN = 5
"""How many differences are shown: the others mostly follow from them."""
_AROUND = 24
"""How much of a text is shown before and after the place where it begins to differ."""


class RequestDifference(NamedTuple):
    """A place in a request where it is not as it was recorded."""

    where: str
    recorded: Any
    asked: Any

    def __str__(self) -> str:
        recorded, asked = self.recorded, self.asked
        if isinstance(recorded, str) and isinstance(asked, str):
            recorded, asked = _from_the_difference(recorded, asked)
        return f"{self.where}: recorded {_in_short(recorded)}, asked {_in_short(asked)}"


def is_same(recorded: RecordedRequest, asked: RecordedRequest) -> bool:
    """Whether this is the request that was recorded."""
    return next(differences(recorded, asked), None) is None


def differences(recorded: RecordedRequest, asked: RecordedRequest) -> Iterator[RequestDifference]:
    """Everything that is not as it was recorded."""
    yield from _between(recorded.method, asked.method, "method")
    yield from _between(recorded.path, asked.path, "path")
    yield from _between(recorded.body, asked.body, "")


def nearest(
    recorded: Sequence[RecordedRequest], asked: RecordedRequest
) -> tuple[int, list[RequestDifference]]:
    """The position of the recorded request that differs least, and the differences. There must be one."""
    found = [list(differences(each, asked)) for each in recorded]
    position = min(range(len(found)), key=lambda each: len(found[each]))
    return position, found[position]


def explained(
    recorded: Sequence[RecordedRequest], played: Collection[int], asked: RecordedRequest
) -> str:
    """Why there is no answer to a request: what differs from the nearest one, or that all were played."""
    if not recorded:
        return "nothing is recorded."
    same = [position for position, each in enumerate(recorded) if is_same(each, asked)]
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return f"it was recorded {times}, and is asked for once more."
    position, found = nearest(recorded, asked)
    which = f"request {position + 1} of {len(recorded)}"
    state = " (played already)" if position in played else ""
    lines = [f"the nearest, {which}{state}, differs:", *map(str, found[:_SHOWN])]
    if len(found) > _SHOWN:
        lines.append(f"and {len(found) - _SHOWN} more")
    return "\n  ".join(lines) + "\n "  # what to do follows, on a line like those


def _between(recorded: Any, asked: Any, where: str) -> Iterator[RequestDifference]:
    pairs: Iterator[tuple[str, Any, Any]]
    if isinstance(recorded, dict) and isinstance(asked, dict):
        names = dict.fromkeys((*recorded, *asked))
        pairs = (
            (
                f"{where}.{name}".lstrip("."),
                recorded.get(name, _NOTHING),
                asked.get(name, _NOTHING),
            )
            for name in names
        )
    elif isinstance(recorded, list) and isinstance(asked, list):
        both = zip_longest(recorded, asked, fillvalue=_NOTHING)
        pairs = ((f"{where}[{number}]", *pair) for number, pair in enumerate(both))
    else:
        if not _is_equal(recorded, asked):
            yield RequestDifference(where or "body", recorded, asked)
        return
    for place, one, other in pairs:
        yield from _between(one, other, place)


def _is_equal(recorded: Any, asked: Any) -> bool:
    if isinstance(recorded, str) and isinstance(asked, str):
        return _is_same_text(_OWN_ID.sub("hookline-", recorded), _OWN_ID.sub("hookline-", asked))
    return isinstance(recorded, bool) is isinstance(asked, bool) and recorded == asked


def _is_same_text(recorded: str, asked: str) -> bool:
    """Whether they are equal, where anything may stand for what was scrubbed: the secret is another one by now."""
    first, *rest = recorded.split(SCRUBBED)
    if not rest:
        return recorded == asked
    last = rest.pop()
    if not asked.startswith(first) or not asked[len(first) :].endswith(last):
        return False
    position, end = len(first), len(asked) - len(last)
    for part in rest:
        position = asked.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def _from_the_difference(one: str, other: str) -> tuple[str, str]:
    """Two texts from a little before the place where they part."""
    same = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = max(0, same - _AROUND)
    mark = "…" if start else ""
    return mark + one[start:], mark + other[start:]


def _in_short(value: Any) -> str:
    if value is _NOTHING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 3 * _AROUND else f"{text[: 3 * _AROUND]}…"
