"""A registration: a hook, where it runs, and how. Everything that can be checked is checked here."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypedDict

import msgspec

from hookline._aio import is_generator_callable
from hookline.errors import RegistrationError
from hookline.hooks.match import (
    MANY,
    NEXT,
    CompositeMatcher,
    Matcher,
    as_matcher,
    positional,
    second_parameter,
)
from hookline.hooks.point_type import Point

HookLike: TypeAlias = Any
"""A hook, in one of three shapes:

- a function of the context, sync or async. It returns None to continue, a `HookOutcome`, a changed
  context, or a plain value the point understands. An object with `handle(ctx)` is like a function;
- a function `(ctx, next)`, or an object with `handle(ctx, next)`: middleware over the rest of its tier.
  `await next(ctx)` gives what the rest decided;
- at an `around_*` point, either of these: `await call_next(ctx)` gives the result of the action.

The second parameter is named `next` or `call_next`, at every point.

An object may say where it runs, with `points()` or `event()`, and when, with `matcher()` or `matches(ctx)`.
"""


class Tier(enum.StrEnum):
    """What a hook may do. At each point the tiers run in this order."""

    HOOK = "hook"
    POLICY = "policy"
    OBSERVER = "observer"


class Shape(enum.Enum):
    """How a hook is called."""

    PLAIN = "plain"
    MIDDLEWARE = "middleware"
    AROUND = "around"


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A hook at a point, with all its options."""

    point: Point[Any]
    hook: HookLike
    name: str
    named: bool = False
    """The name was given by the user rather than taken from the function."""
    priority: int = 0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    matcher: Matcher | None = None
    tier: Tier = Tier.HOOK
    scope: str = "self"
    timeout: float | None = None
    on_failure: str = "closed"
    shadow: bool = False
    shape: Shape = Shape.PLAIN
    source: str = ""
    """The capability or default it came from; empty for the user's own."""
    external: str = ""
    """Of a hook that is a command, an address or a model: a digest of its definition and script. Empty for Python."""
    each_process: bool = False
    """What it sets up ends with its process: the process that continues a run asks it again."""


class HookOptions(TypedDict, total=False):
    """The options every registration method takes."""

    priority: int
    """Among the hooks of a tier, the highest goes first."""
    matcher: Any
    """When it runs: a tool's name, a Matcher, or a function of the context."""
    name: str | None
    before: str | Iterable[str]
    after: str | Iterable[str]
    """Names of hooks that it runs before or after, whatever their priority."""
    tier: str
    """`hook`, `policy` or `observer`."""
    scope: str | None
    """`self`; `tree`: child runs too; or `children`: child runs only."""
    timeout: float | None
    on_failure: str | None
    """`closed` or `open`: whether its failure lets things through."""
    shadow: bool
    """It is asked and recorded, and its answer is not enforced."""


NO_OPTIONS = HookOptions()


def register(
    point: Point[Any], hook: HookLike, options: HookOptions = NO_OPTIONS, *, source: str = ""
) -> Registration:
    """A checked registration. Every mistake it can see is an error that names hook, point and remedy."""
    given = options.get("name")
    name = name_of(hook) if given is None else given
    where = f"hook '{name}' at {point.value}"
    if not (isinstance(name, str) and name):
        raise RegistrationError(f"{where}: name= takes a name as text, not {name!r}.")
    name = _plain_name(name, point)
    refuse_unknown(options, where)
    shape = _shape(point, hook, where)
    _refuse_other_point(point, hook, where)
    tier = _tier(point, options, where)
    scope = options.get("scope") or ("tree" if tier is Tier.POLICY else "self")
    on_failure = options.get("on_failure") or ("open" if tier is Tier.OBSERVER else "closed")
    return Registration(
        point=point,
        hook=hook,
        name=name,
        named=given is not None,
        priority=_number(options.get("priority", 0), "priority", where),
        before=_names(options.get("before", ()), "before", where),
        after=_names(options.get("after", ()), "after", where),
        matcher=_matcher(hook, options.get("matcher"), where),
        tier=tier,
        scope=_one_of(scope, ("self", "tree", "children"), "scope", where),
        timeout=_timeout(options.get("timeout"), where),
        on_failure=_one_of(on_failure, ("closed", "open"), "on_failure", where),
        shadow=_is_shadow(options, shape, tier, where),
        shape=shape,
        source=source,
    )


def refuse_unknown(options: HookOptions, where: str) -> None:
    """Refuse options that no hook has."""
    for option in options:
        if option not in HookOptions.__annotations__:
            raise RegistrationError(
                f"{where}: there is no option {option!r}.",
                remedy=f"Options: {', '.join(HookOptions.__annotations__)}.",
            )


def _is_shadow(options: HookOptions, shape: Shape, tier: Tier, where: str) -> bool:
    shadow = options.get("shadow", False)
    if not isinstance(shadow, bool):
        raise RegistrationError(f"{where}: shadow= takes True or False, not {shadow!r}.")
    if shadow and tier is Tier.OBSERVER:
        raise RegistrationError(
            f"{where}: an observer decides nothing, so it cannot run in shadow."
        )
    if shape is Shape.MIDDLEWARE and tier is Tier.OBSERVER:
        raise RegistrationError(
            f"{where}: an observer decides nothing, so it has no `next` to call.",
            remedy="Give it handle(ctx), or register it with tier='hook'.",
        )
    return shadow


def _plain_name(name: str, point: Point[Any]) -> str:
    """A name as plain text that can be saved: verdicts are on record under it."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise RegistrationError(
            f"hook {name!a} at {point.value}: its name is not valid Unicode (position {error.start}).",
            remedy="Give it another with name=.",
        ) from None
    return str.__str__(name)


def name_of(hook: HookLike) -> str:
    """The name a hook has when none is given."""
    name = getattr(hook, "name", None)
    if isinstance(name, str) and name:
        return name
    name = getattr(hook, "__name__", None) or type(hook).__name__
    return str(name)


def target_of(hook: HookLike) -> Callable[..., Any]:
    """What is called: the hook itself, or its `handle` method."""
    handle = getattr(hook, "handle", None)
    return handle if callable(handle) and not inspect.isroutine(hook) else hook  # type: ignore[no-any-return]


def _shape(point: Point[Any], hook: HookLike, where: str) -> Shape:
    """How the hook is to be called; refuses what cannot be a hook."""
    refuse_no_hook(hook, where)
    target = target_of(hook)
    if not callable(target):
        raise RegistrationError(
            f"{where}: {hook!r} is not a hook.",
            remedy="Pass a function of the context, or an object with handle(ctx, next).",
        )
    if is_generator_callable(target):
        raise RegistrationError(
            f"{where}: it is a generator function, and its body would never run.",
            remedy="Use a plain or async function that returns its answer instead of yielding.",
        )
    least, most = positional(target)
    second = second_parameter(target)
    if point.around:
        # Where the name is unknown (`*args`, as a decorator has it), nothing but `next` can be meant.
        is_named = second is None or second in NEXT
        if not (least <= 2 <= most and is_named):
            remedy = "Write `async def around(ctx, call_next): ...`."
            if is_named:
                raise RegistrationError(f"{where}: it must take (ctx, call_next).", remedy=remedy)
            raise RegistrationError(
                f"{where}: it must take (ctx, call_next), and its second parameter is named {second!r}.",
                remedy=f"{remedy} Read ctx.tool_call and ctx.state instead of (call, state).",
            )
        return Shape.AROUND
    if least == 2 and second in NEXT:
        return Shape.MIDDLEWARE
    # A method of an object may take more from its other callers, as `stack.process` and `queue.put` do.
    is_method = inspect.ismethod(hook) or inspect.isbuiltin(hook)
    has_default = least <= 1 and second not in (None, *NEXT) and not is_method
    if has_default or not least <= 1 <= most:
        takes = f"takes {least}" if least < MANY else "needs keywords"
        if has_default:
            takes = f"takes another, {second!r}"
        raise RegistrationError(
            f"{where}: a hook takes one argument, the context, and this one {takes}.",
            remedy=(
                "Read ctx.tool_call and ctx.state instead of (call, state). To block, return "
                "HookOutcome.block(reason): a hook that returns nothing does not block."
                + " Middleware is handle(ctx, next)." * (target is not hook)
                + f" Put a parameter with a default after a star: (ctx, *, {second}=...)."
                * has_default
            ),
        )
    return Shape.PLAIN


def refuse_no_hook(hook: HookLike, where: str) -> None:
    """Refuse a coroutine and a class: both come of a pair of parentheses too many or too few."""
    if inspect.iscoroutine(hook):
        hook.close()  # it was never going to be awaited; closing it keeps Python from warning about that
        raise RegistrationError(
            f"{where}: you passed a coroutine: the function was called already.",
            remedy="Pass the async function itself, without calling it.",
        )
    if isinstance(hook, type):
        raise RegistrationError(
            f"{where}: you passed the class {hook.__name__}.",
            remedy=f"Pass an instance: {hook.__name__}(...).",
        )


def _tier(point: Point[Any], options: HookOptions, where: str) -> Tier:
    given = options.get("tier", "hook")
    tier = Tier(_one_of(given, tuple(tier.value for tier in Tier), "tier", where))
    if point.around and tier is not Tier.HOOK:
        raise RegistrationError(
            f"{where}: only tier 'hook' can wrap an action.",
            remedy="Register a policy at before_tool_use and an observer at after_tool_use.",
        )
    fails_open = options.get("on_failure") == "open"
    if tier is Tier.POLICY and fails_open and not options.get("shadow"):
        raise RegistrationError(
            f"{where}: a policy cannot fail open.",
            remedy="Drop on_failure='open', or roll it out with shadow=True first.",
        )
    return tier


def _matcher(hook: HookLike, given: object, where: str) -> Matcher | None:
    """When the hook runs: what it says itself, and what is given with matcher=. If there are both, both must match."""
    try:
        parts = [as_matcher(each) for each in (*_read_matchers(hook), given) if each is not None]
    except RegistrationError as error:
        raise RegistrationError(f"{where}: {error.message}", remedy=error.remedy) from None
    if len(parts) > 1:
        return CompositeMatcher(tuple(parts), needs_all=True)
    return parts[0] if parts else None


# --- what a hook says about itself --------------------------------------------------------------------


def _methods(hook: HookLike, *names: str) -> list[str]:
    """Which of these methods an object has. A function has none: what it says about itself is in its decorators."""
    if inspect.isroutine(hook):
        return []
    return [name for name in names if callable(getattr(hook, name, None))]


def _read_matchers(hook: HookLike) -> list[Any]:
    said = [hook.matches] if _methods(hook, "matches") else []
    return [*said, hook.matcher()] if _methods(hook, "matcher") else said


def read_points(hook: HookLike) -> tuple[str, ...] | None:
    """The points that an object names with `points()` or `event()`; empty for all of them, None if it has neither."""
    methods = _methods(hook, "points", "event")
    if not methods:
        return None
    given = getattr(hook, methods[0])()
    points = (given,) if isinstance(given, str) else given
    if methods[1:] or not isinstance(points, Iterable):
        problem = "it has both" if methods[1:] else f"{methods[0]}() gave {given!r}"
        raise RegistrationError(
            f"hook '{name_of(hook)}': {problem}.",
            remedy="Give it event(), which returns one hook point, or points(), which returns a list of them; "
            "an empty list means all points except those around an action.",
        )
    return tuple(points)


def _refuse_other_point(point: Point[Any], hook: HookLike, where: str) -> None:
    """A hook that says where it runs is registered there: it is written for the contexts of those points."""
    said = read_points(hook)
    if said and not any(isinstance(each, str) and point.is_named(each) for each in said):
        raise RegistrationError(
            f"{where}: the hook names its own points: {', '.join(map(str, said))}.",
            remedy="Register it with with_hook(...), without a point.",
        )


def _names(given: str | Iterable[str], option: str, where: str) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for name in names:
        if not (isinstance(name, str) and name):
            raise RegistrationError(f"{where}: {option}= takes names of hooks, not {name!r}.")
    return names


def _one_of(given: object, allowed: tuple[str, ...], option: str, where: str) -> str:
    value = given.value if isinstance(given, enum.Enum) else given
    if value not in allowed:
        raise RegistrationError(f"{where}: {option}={given!r} is not one of {', '.join(allowed)}.")
    return str(value)


def _number(given: object, option: str, where: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise RegistrationError(f"{where}: {option}= takes a whole number, not {given!r}.")
    return given


def _timeout(given: object, where: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise RegistrationError(f"{where}: timeout= takes seconds above zero, not {given!r}.")
    return float(given)
