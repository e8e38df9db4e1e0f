"""Which commands a line of bash would run, as far as that can be known before it runs.

Two readers look at the text: the strict one of `scan.py`, and tree-sitter's grammar. Only where both see the same
words in the same commands is anything claimed.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from hookline.containment.shell.scan import FoundCommand, Unreadable, scan
from hookline.containment.shell.words import Command, Reading
from hookline.errors import UsageError
from hookline.extras import install_command
from hookline.shell_text.command_search import MAX_LENGTH

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_HALVES = re.compile(r"[\ud800-\udfff]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_COMMAND_WORDS = frozenset(
    """
    command_name word number string raw_string concatenation simple_expansion expansion brace_expression ansi_c_string
    """.split()
)
_PLAIN_KINDS = _COMMAND_WORDS | frozenset(
    """
    program list pipeline command string_content redirected_statement file_redirect file_descriptor negated_command
    subshell compound_statement if_statement elif_clause else_clause herestring_redirect comment variable_assignment
    variable_name special_variable_name binary_expression unary_expression test_operator test_command extglob_pattern
    parenthesized_expression regex
    """.split()
)
"""The kinds of node that a text which is read exactly may have."""

_Spans = tuple[tuple[int, int], ...]
"""Where the words of a command begin and end."""


def read_command(text: str) -> Reading:
    """Read a line (or several) of bash.

    Never raises on any text. Without the extra `shell` it raises a `UsageError` that says how to install it.
    """
    if len(text) > MAX_LENGTH:
        return _unknown_reading(text[:200], f"it is longer than {MAX_LENGTH} characters")
    language = _language()
    if _HALVES.search(text):
        return _unknown_reading(_HALVES.sub("?", text), "it has an incomplete character")
    try:
        found, joined = scan(text)
    except Unreadable as why:
        return _unknown_reading(text, str(why))
    agreed = _spans_by_grammar(joined, language)
    if agreed is None or agreed != {_spans_by_scan(text, one) for one in found if one.spans}:
        return _unknown_reading(text, "it can be read in more than one way")
    return Reading(tuple(one.command for one in found))


def _unknown_reading(text: str, problem: str) -> Reading:
    return Reading((Command(None, text),), problem)


@functools.cache
def _language() -> Language:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as missing:
        raise UsageError(
            f"Reading shell commands needs tree-sitter with its bash grammar ({missing}).",
            remedy=f"Run: {install_command('shell')}",
        ) from missing
    return tree_sitter.Language(tree_sitter_bash.language())


def _spans_by_scan(text: str, found: FoundCommand) -> _Spans:
    spans = found.spans
    if text[spans[0][0]] == "[":  # the grammar has one node for a whole test
        return ((spans[0][0], spans[-1][1]),)
    return spans


def _spans_by_grammar(text: str, language: Language) -> set[_Spans] | None:
    """Where the words of each command lie. None if the grammar sees anything out of the ordinary."""
    from tree_sitter import Parser

    # A parser costs microseconds, and must not be shared between threads. A character beyond ASCII, where the grammar
    # does not expect one, would bring down the process.
    root = Parser(language).parse(_BEYOND_ASCII.sub("x", text).encode()).root_node
    if root.has_error:
        return None
    spans: set[_Spans] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        kind, children = node.type, node.children
        if node.is_named and kind not in _PLAIN_KINDS:
            return None
        if kind == "test_command":
            spans.add(((node.start_byte, node.end_byte),))
        elif kind == "command":
            spans.add(_spans_of_words(children, text))
        pending.extend(children)
    return spans


def _spans_of_words(children: list[Node], text: str) -> _Spans:
    spans = tuple((c.start_byte, c.end_byte) for c in children if c.type in _COMMAND_WORDS)
    # The grammar takes `time` for a command; bash does not.
    is_timed = len(spans) > 1 and text[slice(*spans[0])] == "time"
    return spans[1:] if is_timed else spans
