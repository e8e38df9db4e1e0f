"""The cases a hook may be shown, and in which of them it runs, as far as its matcher tells beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from hookline.hooks import (
    EventTypeMatcher,
    Matcher,
    Point,
    Registration,
    StepTypeMatcher,
    Tier,
    ToolArgsMatcher,
    ToolNameMatcher,
)
from hookline.inspection.foresee import foresee
from hookline.lifecycle import FailureHookContext, HookPoint
from hookline.tools import Toolbox


class Case(msgspec.Struct, frozen=True):
    """What a hook may be shown: a call to a tool of this name, of any name at all (None), or no call."""

    tool: str | None = None
    is_call: bool = True


_NO_CALL = Case(is_call=False)
_ANY_CALL = Case()

Runs: TypeAlias = dict[Case, bool | None]
"""Whether a hook runs, case by case; None when that depends."""


def runs_of(registration: Registration, toolbox: Toolbox) -> Runs:
    """For each case that can arise at its point, whether the hook runs."""
    matcher, point = registration.matcher, registration.point
    cases = _cases(registration, toolbox)
    if matcher is None:
        return dict.fromkeys(cases, True)
    return {case: foresee(matcher, _knowledge(point, case, toolbox)) for case in cases}


_CHILDLESS = ("hookline.capabilities.", "hookline.mcp.")
_BUT = "hookline.capabilities.subagents."


def may_have_children(toolbox: Toolbox) -> bool:
    """Whether a tool may start child runs, whose tools nobody here knows: an async one that takes the context.

    Of our own only subagents do: the others take it to tell how far they are.
    """
    return any(
        tool.is_async
        and tool.wants_context
        and (tool.origin.startswith(_BUT) or not tool.origin.startswith(_CHILDLESS))
        for tool in toolbox
    )


def possible(runs: Runs) -> list[Case]:
    """The cases in which a hook may run."""
    return [case for case, said in runs.items() if said is not False]


def _cases(registration: Registration, toolbox: Toolbox) -> tuple[Case, ...]:
    point = registration.point
    if "tool_call" not in point.context.__struct_fields__:
        return (_NO_CALL,)
    if issubclass(point.context, FailureHookContext):
        return (_NO_CALL, _ANY_CALL)
    known = tuple(Case(tool.name) for tool in toolbox) or (Case(""),)
    # Observers also see calls to tools that do not exist, and a hook for the tree sees its children's tools.
    sees_unknown = registration.tier is Tier.OBSERVER and point == HookPoint.AFTER_TOOL_USE
    sees_children = registration.scope == "tree" and may_have_children(toolbox)
    return (*known, _ANY_CALL) if sees_unknown or sees_children else known


def _knowledge(point: Point[Any], case: Case, toolbox: Toolbox) -> Callable[[Matcher], bool | None]:
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
    matcher: ToolNameMatcher | ToolArgsMatcher, case: Case, toolbox: Toolbox
) -> bool | None:
    if case.tool is None:
        return None
    if isinstance(matcher, ToolNameMatcher):
        return matcher.predicate()(case.tool)
    tool = toolbox.get(case.tool)
    known = tool is None or matcher.args.keys() <= tool.spec.parameters["properties"].keys()
    return None if known else False
