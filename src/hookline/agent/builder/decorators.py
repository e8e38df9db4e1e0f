"""Hooks as decorators: `@on.before_tool_use(matcher="bash")`, then `builder.with_hooks(check)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from hookline.errors import RegistrationError
from hookline.hooks import HookLike, HookOptions, Options, Registration, name_of, register
from hookline.lifecycle import point_named

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__hookline_hooks__"


def hook(
    point: str,
    callback: HookLike,
    **options: Unpack[HookOptions],
) -> Registration:
    """A hook at a point, with its options: what capabilities give from `hooks()`."""
    who = f"hook '{options.get('name') or name_of(callback)}'"
    return register(point_named(point, who), callback, Options(**options))


class _On:
    """One decorator per hook point, each with the options every hook has. It marks the function and returns it."""

    def __getattr__(self, name: str) -> Callable[..., Callable[[F], F]]:
        if name.startswith("_"):
            raise AttributeError(name)
        point = point_named(name)

        def decorator(bare: Any = None, /, **options: Unpack[HookOptions]) -> Any:
            def mark(function: F) -> F:
                marked = [*getattr(function, MARK, ()), (point, Options(**options))]
                setattr(function, MARK, marked)
                return function

            return mark if bare is None else mark(bare)

        return decorator


on = _On()


def registrations_of(thing: Any, source: str = "") -> list[Registration]:
    """The registrations of a decorated function, of the decorated methods of an object, or of a registration itself."""
    if isinstance(thing, Registration):
        return [thing]
    marked = getattr(thing, MARK, None)
    if marked is not None:
        return [register(point, thing, options, source=source) for point, options in marked]
    methods = [
        getattr(thing, name)
        for name in dir(type(thing))
        if hasattr(getattr(type(thing), name, None), MARK)
    ]
    found = [each for method in methods for each in registrations_of(method, source)]
    if not found:
        raise RegistrationError(
            f"{thing!r} has no hooks.",
            remedy="Decorate it with @on.<point>(...), or use hook(point, function) or builder.on_<point>(function).",
        )
    return found
