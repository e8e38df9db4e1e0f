"""The hook engine. It knows nothing about agents."""

from hookline.hooks.answers import CRASHES, cut_off, hook_failure
from hookline.hooks.hook import (
    HookLike,
    HookOptions,
    Registration,
    Shape,
    Tier,
    name_of,
    register,
)
from hookline.hooks.log import Answered, HookLog
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
from hookline.hooks.next import Next
from hookline.hooks.order import in_order, unique_names
from hookline.hooks.outcome import HookOutcome, Result
from hookline.hooks.plan import Brief, Entry, HookNames, Plan
from hookline.hooks.point import Context, Point, spelled
from hookline.hooks.run import observe, run_around, run_hooks
from hookline.hooks.verdict import Kind, Verdict

__all__ = [
    "CRASHES",
    "Answered",
    "BaseMatcher",
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
