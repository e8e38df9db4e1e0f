"""The grammar: tree-sitter's bash, loaded when it is first needed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hookline.errors import UsageError

if TYPE_CHECKING:
    from tree_sitter import Language, Node

REMEDY = "Install it: pip install 'hookline[shell]'."

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_COMMAND_WORDS = frozenset(
    """
    command_name word number string raw_string concatenation simple_expansion expansion brace_expression ansi_c_string
    """.split()
)
_PLAIN_KINDS = _COMMAND_WORDS | frozenset(
    """
    program list pipeline command string_content redirected_statement file_redirect file_descriptor negated_command
    subshell compound_statement comment variable_assignment variable_name special_variable_name binary_expression
    unary_expression test_operator test_command extglob_pattern parenthesized_expression regex
    """.split()
)
"""The kinds of node that a text which is read exactly may have."""

Spans = tuple[tuple[int, int], ...]
"""Where the words of a command begin and end."""


@functools.cache
def _language() -> Language:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as missing:
        raise UsageError(
            f"Reading shell commands needs tree-sitter with its bash grammar ({missing}).",
            remedy=REMEDY,
        ) from missing
    return tree_sitter.Language(tree_sitter_bash.language())


def ensure_grammar() -> None:
    """Load the grammar, or say how to install it."""
    _language()


def parse(text: str) -> Node:
    """The root of the tree that the grammar makes of a text.

    Its positions are those of the text's characters. Every character beyond ASCII is an `x` to the grammar: in a
    place that it does not expect one, it would bring down the process.
    """
    language = _language()
    from tree_sitter import Parser

    # A parser costs microseconds, and must not be shared between threads.
    return Parser(language).parse(_BEYOND_ASCII.sub("x", text).encode()).root_node


def walk(root: Node) -> Iterator[Node]:
    """Every node at and below a node, parents first, without recursion: a tree may be deep."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def command_spans(text: str) -> set[Spans] | None:
    """Where the words of each command lie, as the grammar sees it. None if it sees anything out of the ordinary."""
    root = parse(text)
    if root.has_error:
        return None
    spans: set[Spans] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        kind = node.type
        if node.is_named and kind not in _PLAIN_KINDS:
            return None
        if kind == "test_command":
            spans.add(((node.start_byte, node.end_byte),))
        children = node.children
        if kind == "command":
            spans.add(_without_time(_spans(children), text))
        pending.extend(children)
    return spans


def _spans(children: list[Node]) -> Spans:
    return tuple((c.start_byte, c.end_byte) for c in children if c.type in _COMMAND_WORDS)


def _without_time(spans: Spans, text: str) -> Spans:
    """The grammar takes `time` for a command; bash does not."""
    timed = len(spans) > 1 and text[slice(*spans[0])] == "time"
    return spans[1:] if timed else spans
