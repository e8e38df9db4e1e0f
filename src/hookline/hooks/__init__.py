"""The hook engine. It knows nothing about agents and can be used alone."""

from hookline.hooks.crash import CRASHES, cut_off, hook_failure
from hookline.hooks.hook import HookLike, Options, Registration, Shape, Tier, name_of, register
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
from hookline.hooks.order import in_order, unique_names
from hookline.hooks.outcome import HookOutcome, Kind, Result, Verdict
from hookline.hooks.plan import Brief, Crew, Entry, Plan
from hookline.hooks.point import Context, Failure, Point, spelled
from hookline.hooks.run import observe, run_hooks
from hookline.hooks.stack import HookStack
from hookline.hooks.trail import Answered, Trail

__all__ = [
    "CRASHES",
    "Answered",
    "Brief",
    "CallableMatcher",
    "CompositeMatcher",
    "Context",
    "Crew",
    "Entry",
    "EventTypeMatcher",
    "Failure",
    "HookLike",
    "HookOutcome",
    "HookStack",
    "Kind",
    "Matcher",
    "MetadataMatcher",
    "NotMatcher",
    "Options",
    "Plan",
    "Point",
    "Registration",
    "Result",
    "Shape",
    "StepTypeMatcher",
    "Tier",
    "ToolArgsMatcher",
    "ToolNameMatcher",
    "Trail",
    "Verdict",
    "as_matcher",
    "cut_off",
    "describe",
    "hook_failure",
    "in_order",
    "name_of",
    "observe",
    "register",
    "run_hooks",
    "spelled",
    "unique_names",
]
