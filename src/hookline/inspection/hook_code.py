"""What a hook's code plainly says it writes, reads and decides. Code that is not plain says nothing."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import msgspec

from hookline.hooks.hook import target_of


class Write(msgspec.Struct, frozen=True):
    """A field that a hook's code writes, such as `call.args.path`."""

    field: str
    is_sure: bool = False
    """It is written whenever the hook runs, rather than under some condition."""
    adds: bool = False
    """The code reads the field as well, so that nothing of what was there need be lost."""


class HookEffects(msgspec.Struct, frozen=True):
    """What a hook's code plainly says it does."""

    writes: tuple[Write, ...] = ()
    reads: frozenset[str] = frozenset()
    """The arguments it looks at: `call.args.path`, or `call.args` when it is not plain which."""
    verdicts: frozenset[str] = frozenset()
    chooses_tools: bool = False
    """It looks at names, so it may act for some tools only."""
    looks_where_it_is: bool = False
    """It looks at the point or at types, so it may act at some points only."""
    returns: tuple[tuple[str, type], ...] = ()
    """Plain values that it returns, as written, with their type: `ctx.x > 3` is a bool."""


def effects_of(hook: Any) -> HookEffects:
    """What a hook does, as far as its code can be found and is plain."""
    node = syntax_of(hook)
    if node is None:
        return HookEffects()
    body: list[Any] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    tree = ast.Module(body, [])
    words = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    reader = _Writes(tree)
    return HookEffects(
        writes=tuple(reader.writes),
        reads=frozenset(_arguments_read(tree)),
        verdicts=frozenset(_verdicts_given(tree)),
        chooses_tools="name" in words,
        looks_where_it_is=bool(words & _ABOUT_THE_POINT or names & _LOOKS),
        returns=tuple(_values_returned(body)),
    )


def mentions(hook: Any, name: str) -> bool:
    """Whether a hook's code may use this name. It is quick: most hooks need not be read to know what they do not do."""
    function = _function_of(target_of(hook))
    return function is not None and name in function.__code__.co_names


_ABOUT_THE_POINT = frozenset({"point", "is_before_tool", "is_start"})
_LOOKS = frozenset({"isinstance", "getattr", "hasattr", "type"})
_VERDICTS = frozenset({"block", "stop", "ask", "allow"})


def _verdicts_given(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=verdict)) if verdict in _VERDICTS:
                if _last_name(owner) == "HookOutcome":
                    yield verdict


_PLAIN_VALUES: tuple[tuple[tuple[type[ast.AST], ...], type], ...] = (
    ((ast.Compare,), bool),
    ((ast.JoinedStr,), str),
    ((ast.List, ast.ListComp), list),
    ((ast.Dict, ast.DictComp), dict),
    ((ast.Tuple,), tuple),
)


def _values_returned(body: Iterable[ast.AST]) -> Iterator[tuple[str, type]]:
    """What `return` gives where that is a plain value. Functions inside the hook return to the hook, not for it."""
    for node in body:
        if isinstance(node, ast.Return) and node.value is not None:
            kind = _type_of(node.value)
            if kind is not None:
                yield ast.unparse(node.value), kind
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _values_returned(ast.iter_child_nodes(node))


def _type_of(value: ast.expr) -> type | None:
    if isinstance(value, ast.Constant):
        return None if value.value is None else type(value.value)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        return bool
    return next((kind for nodes, kind in _PLAIN_VALUES if isinstance(value, nodes)), None)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _arguments_read(tree: ast.AST) -> Iterator[str]:
    """The arguments of the call that the code looks at, also through `args = ctx.tool_call.args`."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    aliases = [node for node in assigned if _last_name(node.value) == "args"]
    names = {_last_name(target) for node in aliases for target in node.targets}
    aside = {id(node.value) for node in aliases} | {id(t) for node in aliases for t in node.targets}
    keys = dict(_literal_keys(tree))
    for node in ast.walk(tree):
        is_args = isinstance(node, ast.Attribute) and node.attr == "args"
        is_alias = isinstance(node, ast.Name) and node.id in names
        if (is_args or is_alias) and id(node) not in aside:
            yield f"call.args.{keys[id(node)]}" if id(node) in keys else "call.args"


def _literal_keys(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """For each `x["key"]` and `x.get("key")`: which x, and the key."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))):
                yield id(owner), key
            case ast.Call(
                func=ast.Attribute(value=owner, attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                yield id(owner), key


_FIELDS = {
    "with_tool_call": "call",
    "with_execution": "execution",
    "with_request": "request",
    "with_response": "response",
    "with_result": "result",
    "with_prompt": "prompt",
    "with_output": "output",
    "with_instructions": "instructions",
}
_WHOLE = frozenset({"result", "prompt", "output", "instructions"})
"""Fields that are one value: writing them is writing all of them."""
_PERHAPS = (
    ast.If, ast.IfExp, ast.BoolOp, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.Lambda,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
_WAYS_OUT = (ast.Return, ast.Raise)


class _Writes(ast.NodeVisitor):
    """Collects what is written, and whether it surely is: returned, before any condition could prevent it."""

    def __init__(self, tree: ast.Module) -> None:
        self.writes: list[Write] = []
        self._texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        self._certain = True
        self._returned = False
        self.visit(tree)

    def generic_visit(self, node: ast.AST) -> None:
        """Walk on, remembering what may not be reached."""
        certain, returned = self._certain, self._returned
        perhaps = isinstance(node, _PERHAPS)
        self._certain = certain and not perhaps
        self._returned = returned or isinstance(node, ast.Return)
        super().generic_visit(node)
        self._returned = returned
        if perhaps:
            self._certain = certain and not any(isinstance(n, _WAYS_OUT) for n in ast.walk(node))

    def visit_Call(self, node: ast.Call) -> None:
        """A `with_…` call writes something."""
        if isinstance(node.func, ast.Attribute):
            sure = self._certain and self._returned
            for field in _fields_written(node, node.func):
                key = field.rpartition("metadata.")[2]
                adds = "metadata." in field and self._texts.count(key) > 1
                self.writes.append(Write(field, sure, adds))
        self.generic_visit(node)


def _fields_written(call: ast.Call, function: ast.Attribute) -> Iterable[str]:
    method, given = function.attr, call.args[0] if call.args else None
    if method == "with_args":
        return _keywords(call, "call.args")
    if method == "with_metadata":
        return _metadata_written(given, function.value)
    field = _FIELDS.get(method)
    if field is None or given is None:
        return ()
    return (field,) if field in _WHOLE else _parts(field, given)


def _metadata_written(key: ast.AST | None, owner: ast.AST) -> Iterable[str]:
    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
        return ()
    whose = "execution." if "execution" in ast.unparse(owner) else ""
    return (f"{whose}metadata.{key.value}",)


def _keywords(call: ast.Call, field: str) -> list[str]:
    return [field if keyword.arg is None else f"{field}.{keyword.arg}" for keyword in call.keywords]


def _parts(field: str, given: ast.AST) -> Iterable[str]:
    """Which parts of a field a new value for it changes; nothing when that is not plain."""
    if not isinstance(given, ast.Call):
        return (field,) if isinstance(given, ast.Constant | ast.JoinedStr) else ()
    called = _last_name(given.func)
    if called == "replace":
        return _keywords(given, field)
    if called == "with_options":
        return _keywords(given, f"{field}.options")
    if called in ("with_args", "with_metadata", "with_result"):
        return ()  # it is a write of its own
    if called.startswith("with_"):
        return (f"{field}.{called.removeprefix('with_')}",)
    return (field,) if called[:1].isupper() else ()


# --- from a registered hook to the syntax of its function ------------------------------------------


Syntax = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
"""What a hook's function is in the syntax tree of its file."""


def syntax_of(hook: Any) -> Syntax | None:
    """The syntax of a hook's function; None when its source cannot be had."""
    function = _function_of(target_of(hook))
    if function is None:
        return None
    code = function.__code__
    tree = _parse("".join(linecache.getlines(code.co_filename, function.__globals__)))
    if tree is None:
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, Syntax) and _is_of(node, code)]
    # Of lambdas on one line that hold each other, the innermost that fits.
    innermost = [node for node in found if all(node in ast.walk(outer) for outer in found)]
    return innermost[0] if innermost else None


def place_of(hook: Any) -> str:
    """The file and line of a hook's function, as `hooks.py:12`; empty if it is not written in Python."""
    function = _function_of(target_of(hook))
    if function is None:
        return ""
    code = function.__code__
    near = os.path.relpath(code.co_filename)
    return f"{code.co_filename if near.startswith(os.pardir) else near}:{code.co_firstlineno}"


def _function_of(target: Any) -> FunctionType | None:
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target)
    if not isinstance(target, FunctionType | MethodType):
        target = type(target).__call__
    function = target.__func__ if isinstance(target, MethodType) else target
    return function if isinstance(function, FunctionType) else None


@functools.lru_cache(maxsize=64)
def _parse(source: str) -> ast.Module | None:
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
