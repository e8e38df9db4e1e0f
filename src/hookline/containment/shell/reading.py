"""Which commands a line of bash would run, as far as that can be known before it runs.

Two readers look at the text: the strict one of `scan.py`, and tree-sitter's grammar. Only where both see the same
words in the same commands is anything claimed.
"""

from __future__ import annotations

from hookline.containment.shell.grammar import Spans, command_spans, ensure_grammar
from hookline.containment.shell.scan import Found, scan
from hookline.containment.shell.scan_words import Unreadable
from hookline.containment.shell.words import Command, Reading

MAX_LENGTH = 8_000
"""In characters. The time the grammar takes for a broken text grows with the square of its length."""


def read_command(text: str) -> Reading:
    """Read a line (or several) of bash.

    Never raises on any text. Without the extra `shell` it raises a `UsageError` that says how to install it.
    """
    if len(text) > MAX_LENGTH:
        return _unknown(text[:200], f"it is longer than {MAX_LENGTH} characters")
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return _unknown("", "it holds characters that are no text")
    ensure_grammar()
    try:
        found = scan(text)
        agreed = command_spans(source)
    except Unreadable as why:
        return _unknown(text, str(why))
    if agreed is None or agreed != {_in_bytes(text, one) for one in found}:
        return _unknown(text, "it can be read in more than one way")
    return Reading(tuple(one.command for one in found))


def _unknown(text: str, problem: str) -> Reading:
    return Reading((Command(None, text),), problem)


def _in_bytes(text: str, found: Found) -> Spans:
    spans = found.spans
    if found.command.words[0].text in {"[", "[["}:  # the grammar has one node for a whole test
        spans = ((spans[0][0], spans[-1][1]),)
    if text.isascii():
        return spans
    return tuple((_offset(text, start), _offset(text, end)) for start, end in spans)


def _offset(text: str, at: int) -> int:
    return len(text[:at].encode())
