"""The hook engine. It knows nothing about agents."""

from hookline.hooks.hook import HookLike, HookOptions, Registration, Shape, Tier, name_of, register
from hookline.hooks.match import (
    BaseMatcher,
    CallableMatcher,
    CompositeMatcher,
    EventTypeMatcher,
    Matcher,
    MetadataMatcher,
    NotMatcher,
    StepTypeMatcher,
    ToolArgsMatcher,
    ToolNameMatcher,
    as_matcher,
    describe,
)
from hookline.hooks.order import sort_hooks, unique_names
from hookline.hooks.outcome import HookAnswer, HookLog, HookOutcome, Result
from hookline.hooks.plan import ContextFreeHook, Entry, HookNames, Plan
from hookline.hooks.point_type import Context, Kind, Point, Verdict, normalize_name
from hookline.hooks.run import Next, run_hooks

__all__ = [
    "BaseMatcher",
    "CallableMatcher",
    "CompositeMatcher",
    "Context",
    "ContextFreeHook",
    "Entry",
    "EventTypeMatcher",
    "HookAnswer",
    "HookLike",
    "HookLog",
    "HookNames",
    "HookOptions",
    "HookOutcome",
    "Kind",
    "Matcher",
    "MetadataMatcher",
    "Next",
    "NotMatcher",
    "Plan",
    "Point",
    "Registration",
    "Result",
    "Shape",
    "StepTypeMatcher",
    "Tier",
    "ToolArgsMatcher",
    "ToolNameMatcher",
    "Verdict",
    "as_matcher",
    "describe",
    "name_of",
    "normalize_name",
    "register",
    "run_hooks",
    "sort_hooks",
    "unique_names",
]
