"""Whether a hook will run, as far as its matcher shows it before a run: for a tool, or for a call with arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from hookline.hooks import (
    CompositeMatcher,
    EventTypeMatcher,
    Matcher,
    NotMatcher,
    Point,
    Registration,
    StepTypeMatcher,
    Tier,
    ToolArgsMatcher,
    ToolNameMatcher,
)
from hookline.lifecycle import FailureHookContext, HookPoint, ToolHookContext
from hookline.state import ToolCall
from hookline.tools import AnyTool, Toolbox


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
    return {case: predict(matcher, _knowledge(point, case, toolbox)) for case in cases}


_CHILDLESS = ("hookline.capabilities.", "hookline.mcp.")
_BUT = "hookline.capabilities.subagents."


def may_have_children(toolbox: Toolbox) -> bool:
    """Whether a tool may start child runs, whose tools nobody here knows: an async one that takes the context.

    Of our own only subagents do: the others use it to report progress.
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
    sees_children = registration.scope != "self" and may_have_children(toolbox)
    return (*known, _ANY_CALL) if sees_unknown or sees_children else known


def _knowledge(point: Point[Any], case: Case, toolbox: Toolbox) -> Callable[[Matcher], bool | None]:
    """What is known of the simple matchers in a case."""

    def leaf(matcher: Matcher) -> bool | None:
        if type(matcher) is EventTypeMatcher:
            return any(point.is_named(name) for name in matcher.points)
        if type(matcher) is StepTypeMatcher:
            return None if _has_step(point) else False
        if type(matcher) is ToolNameMatcher or type(matcher) is ToolArgsMatcher:
            return _match_call(matcher, case, toolbox) if case.is_call else False
        return None

    return leaf


def _has_step(point: Point[Any]) -> bool:
    return "step" in point.context.__struct_fields__ and point != HookPoint.BEFORE_STEP


def _match_call(
    matcher: ToolNameMatcher | ToolArgsMatcher, case: Case, toolbox: Toolbox
) -> bool | None:
    if case.tool is None:
        return None
    if isinstance(matcher, ToolNameMatcher):
        return matcher.predicate()(case.tool)
    tool = toolbox.get(case.tool)
    known = tool is None or matcher.args.keys() <= tool.spec.parameters["properties"].keys()
    return None if known else False


# --- what a matcher will say ----------------------------------------------------------------------


def predict(matcher: Matcher, leaf: Callable[[Matcher], bool | None]) -> bool | None:
    """What a matcher will say, given what is known of its parts; None is "that depends"."""
    if type(matcher) is NotMatcher:
        inner = predict(matcher.part, leaf)
        return None if inner is None else not inner
    if type(matcher) is CompositeMatcher:
        decisive = not matcher.needs_all
        answers = [predict(part, leaf) for part in matcher.parts]
        if decisive in answers or _is_contradiction(list(_flat(matcher))):
            return decisive
        return None if None in answers else not decisive
    return leaf(matcher)


def _flat(matcher: CompositeMatcher) -> Iterator[Matcher]:
    """The parts of `a & b & c`, which is written as `(a & b) & c`."""
    for part in matcher.parts:
        if type(part) is CompositeMatcher and part.needs_all == matcher.needs_all:
            yield from _flat(part)
        else:
            yield part


def _is_contradiction(parts: list[Matcher]) -> bool:
    return any(NotMatcher(part) in parts for part in parts)


def predict_call(
    matcher: Matcher, point: Point[Any], tool: AnyTool, call: ToolCall | None
) -> tuple[bool | None, str]:
    """What a matcher will say about a call, whose arguments may be open; None, and why, when that depends."""
    obstacles: list[str] = []

    def leaf(part: Matcher) -> bool | None:
        said, obstacle = _ask_matcher(part, point, tool, call)
        obstacles.append(obstacle)
        return said

    said = predict(matcher, leaf)
    return said, " and ".join(dict.fromkeys(filter(None, obstacles)))


class _UseWatcher:
    """Notes when something is looked at that only a run can know."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "open"):
            object.__getattribute__(self, "noted").add(name)
        return super().__getattribute__(name)


class _WatchedCall(_UseWatcher, ToolCall, frozen=True, kw_only=True):
    """A call of which only the tool is known."""

    open: frozenset[str] = frozenset({"args"})
    noted: set[str] = msgspec.field(default_factory=set)


_OF_A_RUN = frozenset(ToolHookContext.__struct_fields__) - {"point", "tool_call"}


class _WatchedContext(_UseWatcher, ToolHookContext, frozen=True, kw_only=True):
    """A context with no run behind it."""

    open: frozenset[str] = _OF_A_RUN
    noted: set[str] = msgspec.field(default_factory=set)


def _ask_matcher(
    matcher: Matcher, point: Point[Any], tool: AnyTool, call: ToolCall | None
) -> tuple[bool | None, str]:
    """What a matcher that has no parts says about a call; None, and why, when that cannot be known."""
    noted: set[str] = set()
    seen = _WatchedCall("", tool.name, noted=noted) if call is None else call
    ctx = _WatchedContext(point=point, tool_call=seen, noted=noted)
    noted.clear()  # making a call looks at its arguments too
    said, failure = None, ""
    try:
        said = matcher.matches(ctx)
    except Exception as error:  # it is the user's code
        failure = f"its matcher raises {type(error).__name__}"
    if noted:
        return None, f"depends on the {'arguments' if noted == {'args'} else 'run'}"
    return said, failure
