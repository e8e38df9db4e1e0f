"""Which commands a line of bash would run, as far as that can be known before it runs.

Two readers look at the text: the strict one of `scan.py`, and tree-sitter's grammar. Only where both see the same
words in the same commands is anything claimed.
"""

from __future__ import annotations

import re

from hookline.containment.shell.grammar import Spans, command_spans, ensure_grammar
from hookline.containment.shell.scan import FoundCommand, Unreadable, scan
from hookline.containment.shell.words import Command, Reading

_HALVES = re.compile(r"[\ud800-\udfff]")
MAX_LENGTH = 8_000
"""In characters. The time the grammar takes for a broken text grows with the square of its length."""


def read_command(text: str) -> Reading:
    """Read a line (or several) of bash.

    Never raises on any text. Without the extra `shell` it raises a `UsageError` that says how to install it.
    """
    if len(text) > MAX_LENGTH:
        return _unknown(text[:200], f"it is longer than {MAX_LENGTH} characters")
    ensure_grammar()
    if _HALVES.search(text):
        return _unknown(_HALVES.sub("?", text), "it holds half a character")
    try:
        found, joined = scan(text)
    except Unreadable as why:
        return _unknown(text, str(why))
    agreed = command_spans(joined)
    if agreed is None or agreed != {_spans(text, one) for one in found if one.spans}:
        return _unknown(text, "it can be read in more than one way")
    return Reading(tuple(one.command for one in found))


def _unknown(text: str, problem: str) -> Reading:
    return Reading((Command(None, text),), problem)


def _spans(text: str, found: FoundCommand) -> Spans:
    spans = found.spans
    if text[spans[0][0]] == "[":  # the grammar has one node for a whole test
        return ((spans[0][0], spans[-1][1]),)
    return spans
