"""The hook engine. It knows nothing about agents."""

from hookline.hooks.hook import (
    HookLike,
    HookOptions,
    Registration,
    Shape,
    Tier,
    name_of,
    register,
)
from hookline.hooks.match import (
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
from hookline.hooks.next import Next
from hookline.hooks.order import in_order, unique_names
from hookline.hooks.outcome import (
    CRASHES,
    Answered,
    HookLog,
    HookOutcome,
    Kind,
    Result,
    Verdict,
    cut_off,
    hook_failure,
)
from hookline.hooks.plan import Brief, Entry, HookNames, Plan
from hookline.hooks.point_type import Context, Point, spelled
from hookline.hooks.run import observe, run_around, run_hooks

__all__ = [
    "CRASHES",
    "Answered",
    "Brief",
    "CallableMatcher",
    "CompositeMatcher",
    "Context",
    "Entry",
    "EventTypeMatcher",
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
    "cut_off",
    "describe",
    "hook_failure",
    "in_order",
    "name_of",
    "observe",
    "register",
    "run_around",
    "run_hooks",
    "spelled",
    "unique_names",
]
