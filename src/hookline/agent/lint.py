"""`agent.lint()`: what cannot be right about a set of hooks, found without running it.

Only what is certain is reported. Where a hook's own code says what it writes or decides, it is read
as far as it is plain; a hook whose code cannot be read, or whose effect depends, is given the benefit
of the doubt.
"""

from __future__ import annotations

import ast
import difflib
import functools
import itertools
import linecache
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import msgspec

from hookline.agent.definition import Definition
from hookline.agent.explain import foresee
from hookline.hooks import (
    CompositeMatcher,
    EventTypeMatcher,
    Matcher,
    NotMatcher,
    Plan,
    Point,
    Registration,
    StepTypeMatcher,
    Tier,
    ToolArgsMatcher,
    ToolNameMatcher,
    describe,
)
from hookline.hooks.hook import target_of
from hookline.lifecycle import FailureHookContext, HookPoint
from hookline.tools import Toolbox


class Finding(msgspec.Struct, frozen=True):
    """One thing that cannot be right, or (`shadow`) that should not be forgotten."""

    code: str
    message: str
    hook: str = ""
    point: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message} {self.remedy}".rstrip()


def lint(definition: Definition) -> list[Finding]:
    """What cannot be right about an agent's hooks and tools; an empty list is good news."""
    set_of_hooks = _Hooks(definition)
    checks = (_tools, _matchers, _names, _verdicts, _gates, _writers, _observers, _shadows)
    return [finding for check in checks for finding in check(set_of_hooks)]


class _Hooks:
    """The hooks of an agent in the order they run, and what is known about each."""

    def __init__(self, definition: Definition) -> None:
        self.toolbox = definition.toolbox
        plans = [definition.plans.of(point) for point in HookPoint]
        self.plans = [plan for plan in plans if plan]
        self.all = [entry.registration for plan in self.plans for entry in plan.entries]
        self._deeds = {id(each.hook): _deeds_of(each.hook) for each in self.all}

    def deeds(self, registration: Registration) -> _Deeds:
        """What the hook's code says it does."""
        return self._deeds[id(registration.hook)]

    def enforced(self, plan: Plan) -> list[Registration]:
        """The hooks of tier `hook` at a point that are not in shadow: those that can change things."""
        return [entry.registration for entry in plan.hooks if not entry.shadow]

    def runs(self, registration: Registration) -> dict[_Case, bool | None]:
        """For each case that can arise at its point, whether the hook runs; None when that depends."""
        matcher, point = registration.matcher, registration.point
        cases = _cases(registration, self.toolbox)
        if matcher is None:
            return dict.fromkeys(cases, True)
        return {case: foresee(matcher, _knowledge(point, case, self.toolbox)) for case in cases}


# --- tools and matchers -------------------------------------------------------------------------


def _tools(hooks: _Hooks) -> Iterator[Finding]:
    for tool in hooks.toolbox:
        if not tool.description.strip():
            yield Finding(
                "undescribed-tool",
                f"tool '{tool.name}' ({tool.origin}) has no description, so a model must guess what it does.",
                remedy="Give the function a docstring, or pass description=.",
            )


class _Case(msgspec.Struct, frozen=True):
    """What a hook may be shown: a call to a tool of this name, of any name at all (None), or no call."""

    tool: str | None = None
    is_call: bool = True


_NO_CALL = _Case(is_call=False)
_ANY_CALL = _Case()


def _cases(registration: Registration, toolbox: Toolbox) -> tuple[_Case, ...]:
    point = registration.point
    if "tool_call" not in point.context.__struct_fields__:
        return (_NO_CALL,)
    if issubclass(point.context, FailureHookContext):
        return (_NO_CALL, _ANY_CALL)
    known = tuple(_Case(tool.name) for tool in toolbox) or (_Case(""),)
    # Observers also see calls to tools that do not exist, and a hook for the tree sees its children's tools.
    sees_unknown = registration.tier is Tier.OBSERVER and point == HookPoint.AFTER_TOOL_USE
    sees_children = registration.scope == "tree" and any(tool.wants_context for tool in toolbox)
    return (*known, _ANY_CALL) if sees_unknown or sees_children else known


def _knowledge(
    point: Point[Any], case: _Case, toolbox: Toolbox
) -> Callable[[Matcher], bool | None]:
    """What is known of the simple matchers in a case."""

    def leaf(matcher: Matcher) -> bool | None:
        if type(matcher) is EventTypeMatcher:
            return any(point.is_named(name) for name in matcher.points)
        if type(matcher) is StepTypeMatcher:
            return None if _has_step(point) else False
        if type(matcher) is ToolNameMatcher or type(matcher) is ToolArgsMatcher:
            return _of_call(matcher, case, toolbox) if case.is_call else False
        return None

    return leaf


def _has_step(point: Point[Any]) -> bool:
    return "step" in point.context.__struct_fields__ and point != HookPoint.BEFORE_STEP


def _of_call(
    matcher: ToolNameMatcher | ToolArgsMatcher, case: _Case, toolbox: Toolbox
) -> bool | None:
    if case.tool is None:
        return None
    if isinstance(matcher, ToolNameMatcher):
        return matcher.predicate()(case.tool)
    tool = toolbox.get(case.tool)
    known = tool is None or matcher.args.keys() <= tool.spec.parameters["properties"].keys()
    return None if known else False


def _matchers(hooks: _Hooks) -> Iterator[Finding]:
    for each in hooks.all:
        if each.matcher is not None and not _possible(hooks.runs(each)):
            yield _dead(each, each.matcher, hooks.toolbox)


def _dead(registration: Registration, matcher: Matcher, toolbox: Toolbox) -> Finding:
    where, words = registration.point.value, describe(matcher)
    about_calls = (ToolNameMatcher, ToolArgsMatcher)
    if isinstance(matcher, EventTypeMatcher):
        why, remedy = (
            f"its matcher is for {words}",
            f"Register it there, or drop the matcher: it is at {where}.",
        )
    elif not any(isinstance(leaf, about_calls) for leaf in _leaves(matcher)):
        why, remedy = f"its matcher ({words}) can never match there", "Change the matcher."
    elif "tool_call" not in registration.point.context.__struct_fields__:
        why = f"its matcher ({words}) is about a tool call, and there is none"
        remedy = (
            "Register it at a point that has one, such as before_tool_use, or drop the matcher."
        )
    else:
        tools = ", ".join(tool.name for tool in toolbox) or "there are none"
        why = f"its matcher ({words}) matches none of the agent's tools ({tools})"
        remedy = _suggestion(matcher, toolbox)
    return _finding("dead-matcher", registration, f"never runs: {why}.", remedy)


def _suggestion(matcher: Matcher, toolbox: Toolbox) -> str:
    names = [tool.name for tool in toolbox]
    pattern = matcher.pattern if isinstance(matcher, ToolNameMatcher) else ""
    close = difflib.get_close_matches(pattern, names, n=1)
    return (
        f"Did you mean '{close[0]}'?"
        if close
        else "Change the matcher, or give the agent the tool."
    )


def _leaves(matcher: Matcher) -> Iterator[Matcher]:
    if isinstance(matcher, CompositeMatcher):
        for part in matcher.parts:
            yield from _leaves(part)
    elif isinstance(matcher, NotMatcher):
        yield from _leaves(matcher.part)
    else:
        yield matcher


# --- order --------------------------------------------------------------------------------------


def _names(hooks: _Hooks) -> Iterator[Finding]:
    """Names in before= and after= that constrain nothing."""
    for plan in hooks.plans:
        here = {entry.name: entry.registration for entry in plan.entries}
        for each in here.values():
            for option, names in (("before", each.before), ("after", each.after)):
                for name in names:
                    why = _idle(each, here.get(name), name, hooks)
                    if why:
                        said = f"has {option}='{name}', which constrains nothing: {why}."
                        yield _finding("idle-order", each, said, "Drop it.")


def _idle(each: Registration, other: Registration | None, name: str, hooks: _Hooks) -> str:
    if other is None:
        points = dict.fromkeys(reg.point.value for reg in hooks.all if reg.name == name)
        return f"that hook is only at {', '.join(points) or 'other points'}"
    if other.tier is not each.tier:
        tiers = f"'{each.name}' is a {each.tier.value} and '{name}' a {other.tier.value}"
        return f"{tiers}, and tiers have their order already"
    return ""


def _writers(hooks: _Hooks) -> Iterator[Finding]:
    """Two hooks that write one field, with nothing but registration to say whose value stays."""
    for plan in hooks.plans:
        if plan.point.around:
            continue
        for first, second in itertools.combinations(hooks.enforced(plan), 2):
            if _is_ordered(first, second, plan):
                continue
            field = _contested(hooks, first, second)
            if field:
                yield _finding(
                    "unordered-writers", second,
                    f"writes {field}, as '{first.name}' does, and only registration says who is last.",
                    f"Say which: after='{first.name}', before='{first.name}', or a priority.",
                )  # fmt: skip


def _is_ordered(first: Registration, second: Registration, plan: Plan) -> bool:
    """Whether somebody said which of the two comes first. One capability's hooks are in the order it gave them."""
    if first.priority != second.priority or (first.source and first.source == second.source):
        return True
    return _is_after(second, first.name, {entry.name: entry.registration for entry in plan.hooks})


def _is_after(later: Registration, earlier: str, here: dict[str, Registration]) -> bool:
    """Whether names put `later` after `earlier`, directly or through others."""
    waits_for = [name for name in later.after if name in here]
    waits_for += [name for name, other in here.items() if later.name in other.before]
    return any(name == earlier or _is_after(here[name], earlier, here) for name in waits_for)


def _contested(hooks: _Hooks, first: Registration, second: Registration) -> str:
    """A field that both certainly write in one and the same case; empty if there is none."""
    pairs = itertools.product(hooks.deeds(first).writes, hooks.deeds(second).writes)
    for one, other in pairs:
        if not _overlap(one.field, other.field) or (one.adds and other.adds):
            continue
        if _meet(hooks, first, one.is_sure, second, other.is_sure):
            return max(one.field, other.field, key=len)
    return ""


def _meet(
    hooks: _Hooks, first: Registration, first_sure: bool, second: Registration, second_sure: bool
) -> bool:
    """Whether two hooks certainly act on one and the same context, each surely or under its own conditions."""
    one, other = hooks.runs(first), hooks.runs(second)
    if first_sure and second_sure:
        return any(one[case] and other.get(case) for case in one)
    # When one acts only under conditions, the other must act whenever the first might.
    if first_sure:
        return _covers(one, other)
    return second_sure and _covers(other, one)


def _covers(always: dict[_Case, bool | None], sometimes: dict[_Case, bool | None]) -> bool:
    possible = _possible(sometimes)
    return bool(possible) and all(always.get(case) for case in possible)


def _possible(runs: dict[_Case, bool | None]) -> list[_Case]:
    """The cases in which a hook may run."""
    return [case for case, said in runs.items() if said is not False]


def _gates(hooks: _Hooks) -> Iterator[Finding]:
    """A gate that judges arguments which a later hook rewrites: what runs is not what it let through."""
    for plan in hooks.plans:
        if plan.point != HookPoint.BEFORE_TOOL_USE:
            continue
        for gate, rewriter in itertools.combinations(hooks.enforced(plan), 2):
            by_name = rewriter.name in gate.before or gate.name in rewriter.after
            field = "" if by_name else _judged_too_early(hooks, gate, rewriter)
            if field:
                yield _finding(
                    "gate-before-rewriter", gate,
                    f"judges {field} before '{rewriter.name}' rewrites it, so what runs is not what it judged.",
                    f"Make it tier='policy', which sees the final call, or order it: after='{rewriter.name}'.",
                )  # fmt: skip


def _judged_too_early(hooks: _Hooks, gate: Registration, rewriter: Registration) -> str:
    judge = hooks.deeds(gate)
    if not judge.verdicts & {"block", "stop", "ask"} or judge.chooses_tools:
        return ""
    for write, read in itertools.product(hooks.deeds(rewriter).writes, sorted(judge.reads)):
        if _overlap(write.field, read) and _meet(hooks, gate, True, rewriter, write.is_sure):
            return max(write.field, read, key=len)
    return ""


def _overlap(one: str, other: str) -> bool:
    """Whether two fields are the same, or one is part of the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


# --- tiers --------------------------------------------------------------------------------------


def _verdicts(hooks: _Hooks) -> Iterator[Finding]:
    """Answers that mean nothing where they are given."""
    for each in hooks.all:
        deeds = hooks.deeds(each)
        shared = sum(other.hook == each.hook for other in hooks.all) > 1
        if shared or deeds.looks_where_it_is:
            continue  # it may well answer so at another point only
        for verdict in sorted(deeds.verdicts):
            why = _meaningless(verdict, each)
            if why:
                said = f"answers HookOutcome.{verdict}, and {why}."
                yield _finding(
                    "lost-verdict", each, said, "Register it where that means something."
                )


def _meaningless(verdict: str, registration: Registration) -> str:
    point = registration.point
    if registration.tier is Tier.OBSERVER:
        return "an observer's answer is ignored"
    if point.around:
        return "around an action the answer is its result"
    if verdict == "allow" and registration.tier is Tier.POLICY:
        return "a policy may only narrow"
    return "" if verdict in point.verdicts else f"{point.value} knows no {verdict}"


def _observers(hooks: _Hooks) -> Iterator[Finding]:
    for each in hooks.all:
        if each.tier is Tier.OBSERVER and each.on_failure == "closed":
            said = "has on_failure='closed', but what an observer does never reaches the run."
            yield _finding("closed-observer", each, said, "Drop it, or choose another tier.")


def _shadows(hooks: _Hooks) -> Iterator[Finding]:
    for each in hooks.all:
        if each.shadow:
            said = "runs in shadow: what it decides is recorded and not enforced."
            yield _finding("shadow", each, said, "Drop shadow=True when it has proved itself.")


def _finding(code: str, registration: Registration, said: str, remedy: str) -> Finding:
    where = registration.point.value
    message = f"hook '{registration.name}' at {where} {said}"
    return Finding(code, message, registration.name, where, remedy)


# --- reading a hook's code ----------------------------------------------------------------------


class _Write(msgspec.Struct, frozen=True):
    """A field that a hook's code writes, such as `call.args.path`."""

    field: str
    is_sure: bool = False
    """It is written whenever the hook runs, rather than under some condition."""
    adds: bool = False
    """The code reads the field as well, so that nothing of what was there need be lost."""


class _Deeds(msgspec.Struct, frozen=True):
    """What a hook's code plainly says it does."""

    writes: tuple[_Write, ...] = ()
    reads: frozenset[str] = frozenset()
    """The arguments it looks at: `call.args.path`, or `call.args` when it is not plain which."""
    verdicts: frozenset[str] = frozenset()
    chooses_tools: bool = False
    """It looks at names, so it may act for some tools only."""
    looks_where_it_is: bool = False
    """It looks at the point or at types, so it may act at some points only."""


def _deeds_of(hook: Any) -> _Deeds:
    """What a hook does, as far as its code can be found and is plain."""
    node = _node_of(hook)
    if node is None:
        return _Deeds()
    body: list[Any] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    tree = ast.Module(body, [])
    words = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    reader = _Writes(tree)
    return _Deeds(
        writes=tuple(reader.writes),
        reads=frozenset(_arguments_read(tree)),
        verdicts=frozenset(_verdicts_given(tree)),
        chooses_tools="name" in words,
        looks_where_it_is=bool(words & _ABOUT_THE_POINT) or "isinstance" in names,
    )


_ABOUT_THE_POINT = frozenset({"point", "is_before_tool", "is_start"})
_VERDICTS = frozenset({"block", "stop", "ask", "allow"})


def _verdicts_given(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=verdict)) if verdict in _VERDICTS:
                if _last_name(owner) == "HookOutcome":
                    yield verdict


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
        self.writes: list[_Write] = []
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
                self.writes.append(_Write(field, sure, adds))
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


# --- finding a hook's code ----------------------------------------------------------------------

_Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _node_of(hook: Any) -> _Node | None:
    """The syntax of a hook's function; None when its source cannot be had."""
    function = _function_of(target_of(hook))
    if function is None:
        return None
    code = function.__code__
    tree = _parsed("".join(linecache.getlines(code.co_filename, function.__globals__)))
    if tree is None:
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, _Node) and _is_of(node, code)]
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


def _is_of(node: _Node, code: CodeType) -> bool:
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
