"""JSON in what a model says, though it was to call a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_FENCED = re.compile(r"```(?:[\w-]*)[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_MOST_TRIED = 50
"""Places in a text where JSON might begin that are looked at."""


def json_in(text: str) -> Iterator[Any]:
    """What could be meant as the output, the likeliest first: the whole text, fenced blocks from the last, the rest."""
    for part in (text, *reversed(_FENCED.findall(text))):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue
    decoder, at = json.JSONDecoder(), 0
    for _ in range(_MOST_TRIED):
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at = opening.start() + 1
        else:
            yield value
