"""Hooks that say where they run: decorated, with `points()` or `event()`, or registered already."""

from __future__ import annotations

from typing import Any

from hookline.errors import RegistrationError
from hookline.hooks import HookOptions, Point, Registration, name_of, register
from hookline.hooks.hook import NO_OPTIONS, described_points, refuse_no_hook
from hookline.lifecycle.points import HookPoint, point_named

MARK = "__hookline_hooks__"
"""The attribute in which `@on.<point>` notes points and options."""

POINTS_TO_ASK: tuple[Point[Any], ...] = tuple(point for point in HookPoint if not point.around)
"""Where a hook runs that says "all points". Around an action it would have to do the action."""


def registrations_of(thing: Any, options: HookOptions = NO_OPTIONS) -> list[Registration]:
    """The registrations of a hook that says where it runs, or of all such hooks that an object has; refuses others."""
    found = read_description(thing, options)
    if not found:
        raise RegistrationError(
            f"{thing!r} has no hooks.",
            remedy="Decorate it with @on.<point>(...), give it points() or event(), "
            "or use hook(point, function) or builder.on_<point>(function).",
        )
    return found


def read_description(
    thing: Any, options: HookOptions, everywhere: tuple[Point[Any], ...] = POINTS_TO_ASK
) -> list[Registration]:
    """The registrations of a hook that says where it runs; none if it does not say.

    Options that are given here replace those of a decorator. `everywhere` are the points of a hook that names none.
    """
    if isinstance(thing, Registration):
        if options:
            raise RegistrationError(
                f"hook '{thing.name}' at {thing.point.value} is registered with its options already.",
                remedy="Give them to hook(point, function, ...).",
            )
        return [thing]
    who = f"hook '{name_of(thing)}'"
    refuse_no_hook(thing, who)
    found = [register(point, thing, own | options) for point, own in getattr(thing, MARK, ())]
    names = described_points(thing)
    if names is not None:
        points = dict.fromkeys(point_named(name, who) for name in names) or everywhere
        found += [register(point, thing, options) for point in points]
    for name in dir(type(thing)):
        if hasattr(getattr(type(thing), name, None), MARK):
            found += read_description(getattr(thing, name), options)
    return found
