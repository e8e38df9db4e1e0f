"""What a matcher will say, foreseen without a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from hookline.hooks import CompositeMatcher, Matcher, NotMatcher, Point
from hookline.lifecycle import ToolHookContext
from hookline.state import ToolCall
from hookline.tools import AnyTool


def foresee(matcher: Matcher, leaf: Callable[[Matcher], bool | None]) -> bool | None:
    """What a matcher will say, given what is known of its parts; None is "that depends"."""
    if type(matcher) is NotMatcher:
        inner = foresee(matcher.part, leaf)
        return None if inner is None else not inner
    if type(matcher) is CompositeMatcher:
        decisive = not matcher.needs_all
        answers = [foresee(part, leaf) for part in matcher.parts]
        if decisive in answers or _contradicts(list(_flat(matcher))):
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


def _contradicts(parts: list[Matcher]) -> bool:
    return any(NotMatcher(part) in parts for part in parts)


def foresee_call(
    matcher: Matcher, point: Point[Any], tool: AnyTool, call: ToolCall | None
) -> tuple[bool | None, str]:
    """What a matcher will say about a call, whose arguments may be open; None, and why, when that depends."""
    obstacles: list[str] = []

    def leaf(part: Matcher) -> bool | None:
        said, obstacle = _asked(part, point, tool, call)
        obstacles.append(obstacle)
        return said

    said = foresee(matcher, leaf)
    return said, " and ".join(dict.fromkeys(filter(None, obstacles)))


class _Watched:
    """Notes when something is looked at that only a run can know."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "open"):
            object.__getattribute__(self, "noted").add(name)
        return super().__getattribute__(name)


class _WatchedCall(_Watched, ToolCall, frozen=True, kw_only=True):
    """A call of which only the tool is known."""

    open: frozenset[str] = frozenset({"args"})
    noted: set[str] = msgspec.field(default_factory=set)


_OF_A_RUN = frozenset(ToolHookContext.__struct_fields__) - {"point", "tool_call"}


class _WatchedContext(_Watched, ToolHookContext, frozen=True, kw_only=True):
    """A context with no run behind it."""

    open: frozenset[str] = _OF_A_RUN
    noted: set[str] = msgspec.field(default_factory=set)


def _asked(
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
