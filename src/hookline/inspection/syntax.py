"""Finding a hook's code: from the object that was registered to the syntax of its function."""

from __future__ import annotations

import ast
import functools
import linecache
from types import CodeType, FunctionType, MethodType
from typing import Any

from hookline.hooks.hook import target_of

Syntax = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
"""What a hook's function is in the syntax tree of its file."""


def syntax_of(hook: Any) -> Syntax | None:
    """The syntax of a hook's function; None when its source cannot be had."""
    function = _function_of(target_of(hook))
    if function is None:
        return None
    code = function.__code__
    tree = _parsed("".join(linecache.getlines(code.co_filename, function.__globals__)))
    if tree is None:
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, Syntax) and _is_of(node, code)]
    # Of lambdas on one line that hold each other, the innermost that fits.
    innermost = [node for node in found if all(node in ast.walk(outer) for outer in found)]
    return innermost[0] if innermost else None


def _function_of(target: Any) -> FunctionType | None:
    while isinstance(target, functools.partial):
        target = target.func
    if not isinstance(target, FunctionType | MethodType):
        target = type(target).__call__
    function = target.__func__ if isinstance(target, MethodType) else target
    return function if isinstance(function, FunctionType) else None


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _is_of(node: Syntax, code: CodeType) -> bool:
    if not isinstance(node, ast.Lambda):
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    if code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    return all(_is_inside(place, node.body) for place in code.co_positions())


def _is_inside(place: tuple[int | None, ...], node: ast.expr) -> bool:
    """Whether an instruction comes from this expression. One without a width comes from the call itself."""
    line, _, column, end = place
    if line is None or column is None or column == end:
        return True
    last = (node.end_lineno or line, node.end_col_offset or column)
    return (node.lineno, node.col_offset) <= (line, column) <= last
