"""The grammar: tree-sitter's bash, loaded when it is first needed."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hookline.errors import UsageError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

REMEDY = "Install it: pip install 'hookline[shell]'."

_COMMAND_WORDS = frozenset(
    "command_name word number string raw_string concatenation simple_expansion expansion"
    " brace_expression command_substitution".split()
)
PLAIN_KINDS = frozenset(
    "program list pipeline command command_name word number string string_content raw_string"
    " concatenation redirected_statement file_redirect herestring_redirect file_descriptor"
    " negated_command subshell comment variable_assignment variable_name special_variable_name"
    " simple_expansion expansion brace_expression command_substitution test_command".split()
)
"""The kinds of node that a text which is read exactly may have. Tests in brackets are not looked into."""


@functools.cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as missing:
        raise UsageError(
            f"Reading shell commands needs tree-sitter with its bash grammar ({missing}).",
            remedy=REMEDY,
        ) from missing
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(source: bytes) -> Node:
    """The root of the tree that the grammar makes of a text."""
    return _parser().parse(source).root_node


def walk(root: Node) -> Iterator[Node]:
    """Every node at and below a node, parents first, without recursion: a tree may be deep."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def command_spans(root: Node) -> set[tuple[tuple[int, int], ...]] | None:
    """Where the words of each command lie, as the grammar sees it. None if it sees anything out of the ordinary."""
    if root.has_error:
        return None
    spans = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if node.is_named and node.type not in PLAIN_KINDS:
            return None
        if node.type == "test_command":
            spans.add(((node.start_byte, node.end_byte),))
            continue
        children = node.children
        if node.type == "command":
            spans.add(_word_spans(children))
        pending.extend(children)
    return spans


def _word_spans(children: list[Node]) -> tuple[tuple[int, int], ...]:
    return tuple((c.start_byte, c.end_byte) for c in children if c.type in _COMMAND_WORDS)
