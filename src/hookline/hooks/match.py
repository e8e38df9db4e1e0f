"""Matchers: objects that say for which contexts a hook runs. Those here are values that compose with `&`, `|`, `~`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any, Protocol, TypeGuard, runtime_checkable

from hookline._aio import is_async_callable, is_generator_callable
from hookline.errors import RegistrationError, UsageError
from hookline.hooks.point_type import Context, Point
from hookline.wildcards import matches

_ANY = object()
_STEP_TYPES = ("tool_use", "final_response", "incomplete")


@runtime_checkable
class Matcher(Protocol):
    """Says whether a hook runs for a context: any object with `matches(ctx)`."""

    def matches(self, ctx: Any, /) -> bool:
        """Whether the hook runs for this context."""
        ...


class BaseMatcher:
    """A matcher that composes with `&`, `|` and `~`."""

    def matches(self, ctx: Context) -> bool:
        """Whether the hook runs for this context."""
        raise NotImplementedError

    def __and__(self, other: Matcher) -> CompositeMatcher:
        return CompositeMatcher.all_of(self, other)

    def __rand__(self, other: Matcher) -> CompositeMatcher:
        return CompositeMatcher.all_of(other, self)

    def __or__(self, other: Matcher) -> CompositeMatcher:
        return CompositeMatcher.any_of(self, other)

    def __ror__(self, other: Matcher) -> CompositeMatcher:
        return CompositeMatcher.any_of(other, self)

    def __invert__(self) -> NotMatcher:
        return NotMatcher(self)


@dataclass(frozen=True)
class ToolNameMatcher(BaseMatcher):
    """Matches a tool by name: exact, a glob (`read_*`, `*`), or a regular expression between slashes.

    It never matches a point that has no tool.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not (isinstance(self.pattern, str) and self.pattern):
            raise RegistrationError(
                f"a tool-name matcher takes a pattern as text, not {self.pattern!r}.",
                remedy="Use 'bash', 'read_*' or '/^(read|write)_/'.",
            )
        self.predicate()

    def predicate(self) -> Callable[[str], bool]:
        """The test for a name, made once when a plan is built."""
        pattern = self.pattern
        if len(pattern) > 1 and pattern.startswith("/"):
            body, slash, flags = pattern[1:].rpartition("/")
            if not slash or flags not in ("", "i"):
                raise RegistrationError(
                    f"matcher {pattern!r} begins like a regular expression and does not end like one.",
                    remedy="Write '/expression/', or '/expression/i' to ignore case.",
                )
            try:
                expression = re.compile(body, re.IGNORECASE if flags else 0)
            except re.error as error:
                raise RegistrationError(
                    f"matcher {pattern!r} is not a regular expression: {error}."
                ) from None
            return lambda name: expression.search(name) is not None
        if "*" in pattern or "?" in pattern:
            return lambda name: matches(name, pattern)
        return pattern.__eq__

    def matches(self, ctx: Context) -> bool:
        call = getattr(ctx, "tool_call", None)
        return call is not None and self.predicate()(call.name)


@dataclass(frozen=True)
class ToolArgsMatcher(BaseMatcher):
    """Matches a tool call by its arguments: each given name must be present with that value.

    A value that is callable is asked instead of compared: `ToolArgsMatcher({"path": is_secret})`.
    """

    args: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not (
            isinstance(self.args, Mapping) and all(isinstance(name, str) for name in self.args)
        ):
            raise RegistrationError(
                f"an arguments matcher takes names with their values, not {self.args!r}.",
                remedy="Use ToolArgsMatcher({'path': '/etc/passwd'}).",
            )
        for wanted in self.args.values():
            _refuse_always_true(wanted)

    def matches(self, ctx: Context) -> bool:
        call = getattr(ctx, "tool_call", None)
        if call is None:
            return False
        return all(
            name in call.args and _is_wanted(call.args[name], wanted)
            for name, wanted in self.args.items()
        )


@dataclass(frozen=True, init=False)
class EventTypeMatcher(BaseMatcher):
    """Matches contexts of one or more hook points."""

    points: tuple[str, ...]

    def __init__(self, *points: str) -> None:
        if not points or not all(isinstance(point, str) for point in points):
            raise RegistrationError(f"an event matcher takes hook points, not {points!r}.")
        object.__setattr__(self, "points", points)

    def matches(self, ctx: Context) -> bool:
        return ctx.point in self.points or any(ctx.point.is_named(point) for point in self.points)


@dataclass(frozen=True)
class StepTypeMatcher(BaseMatcher):
    """Matches by what kind of step it is: `tool_use` or `final_response`. Points without a step never match."""

    type: str

    def __post_init__(self) -> None:
        if self.type not in _STEP_TYPES:
            raise RegistrationError(
                f"{self.type!r} is not a type of step.",
                remedy=f"Use one of {', '.join(map(repr, _STEP_TYPES))}.",
            )

    def matches(self, ctx: Context) -> bool:
        step = getattr(ctx, "step", None)
        return step is not None and step.type == self.type


@dataclass(frozen=True)
class MetadataMatcher(BaseMatcher):
    """Matches when the run's metadata has a key, and, if a value is given, that value."""

    key: str
    value: Any = _ANY

    def __post_init__(self) -> None:
        if not (isinstance(self.key, str) and self.key):
            raise RegistrationError(
                f"a metadata matcher takes a key as text, not {self.key!r}.",
                remedy="Use MetadataMatcher('key') or MetadataMatcher('key', value).",
            )
        _refuse_always_true(self.value)

    def matches(self, ctx: Context) -> bool:
        metadata = getattr(ctx, "metadata", {})
        if self.key not in metadata:
            return False
        return self.value is _ANY or _is_wanted(metadata[self.key], self.value)


@dataclass(frozen=True)
class CallableMatcher(BaseMatcher):
    """Matches when a function of the context says so."""

    test: Callable[[Any], bool]

    def __post_init__(self) -> None:
        if not callable(self.test):
            raise RegistrationError(
                f"a callable matcher takes a function of the context, not {self.test!r}."
            )
        _refuse_unfit(self.test)

    def matches(self, ctx: Context) -> bool:
        return _is_true(self.test(ctx))


@dataclass(frozen=True)
class CompositeMatcher(BaseMatcher):
    """Several matchers as one: all of them, or any of them."""

    parts: tuple[Matcher, ...]
    needs_all: bool

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not isinstance(self.needs_all, bool):
            raise RegistrationError(
                f"a composite matcher takes a tuple of matchers and a bool, not {self.parts!r} and {self.needs_all!r}.",
                remedy="Use CompositeMatcher.all_of(...) or CompositeMatcher.any_of(...).",
            )
        if not self.parts:
            raise RegistrationError(
                f"a composite matcher without parts matches {'everything' if self.needs_all else 'nothing'}.",
                remedy="Give it parts. Leave matcher= out for a hook that always runs.",
            )
        for part in self.parts:
            _refuse_no_matcher(part)

    @staticmethod
    def all_of(*parts: Matcher | str | Callable[[Any], bool]) -> CompositeMatcher:
        """Matches when every part matches."""
        return CompositeMatcher(tuple(as_matcher(part) for part in parts), True)

    @staticmethod
    def any_of(*parts: Matcher | str | Callable[[Any], bool]) -> CompositeMatcher:
        """Matches when at least one part matches."""
        return CompositeMatcher(tuple(as_matcher(part) for part in parts), False)

    and_ = all_of
    or_ = any_of

    def matches(self, ctx: Context) -> bool:
        combine = all if self.needs_all else any
        return combine(_is_true(part.matches(ctx)) for part in self.parts)


@dataclass(frozen=True)
class NotMatcher(BaseMatcher):
    """Matches when the other does not."""

    part: Matcher

    def __post_init__(self) -> None:
        _refuse_no_matcher(self.part)

    def matches(self, ctx: Context) -> bool:
        return not _is_true(self.part.matches(ctx))


def as_matcher(given: object) -> Matcher:
    """A matcher from what people write: a tool name, an object with `matches(ctx)`, or a function of the context."""
    if isinstance(given, Point):
        return EventTypeMatcher(given)
    if isinstance(given, str):
        return ToolNameMatcher(given)
    if _is_matcher(given):
        _refuse_unfit(given.matches)
        return given
    if callable(given) and not isinstance(given, type):
        return CallableMatcher(given)
    raise RegistrationError(
        f"{given!r} is not a matcher.",
        remedy="Use a tool name ('bash', 'read_*', '/regex/'), an object with matches(ctx), "
        "or a function of the context.",
    )


def _is_matcher(given: object) -> TypeGuard[Matcher]:
    """Whether it is an object with `matches`. A class has one, too, and is none."""
    return isinstance(given, Matcher) and callable(given.matches) and not isinstance(given, type)


def predicate(matcher: Matcher) -> Callable[[Any], bool]:
    """The fastest test for a matcher, made once when a plan is built."""
    if type(matcher) is ToolNameMatcher:
        fits = matcher.predicate()

        def matches(ctx: Context) -> bool:
            call = getattr(ctx, "tool_call", None)
            return call is not None and fits(call.name)

        return matches
    if type(matcher).__module__ == __name__:
        return matcher.matches
    return lambda ctx: _is_true(matcher.matches(ctx))  # somebody's own, which may give anything


def describe(matcher: Matcher) -> str:
    """A matcher in words, for `explain()`."""
    if isinstance(matcher, ToolNameMatcher):
        return f"tool {matcher.pattern}"
    if isinstance(matcher, CompositeMatcher):
        word = " & " if matcher.needs_all else " | "
        return "(" + word.join(describe(part) for part in matcher.parts) + ")"
    if isinstance(matcher, NotMatcher):
        return f"~{describe(matcher.part)}"
    if isinstance(matcher, EventTypeMatcher):
        return "point " + "/".join(str(point) for point in matcher.points)
    if isinstance(matcher, CallableMatcher):
        return f"when {getattr(matcher.test, '__qualname__', repr(matcher.test))}"
    if isinstance(matcher, ToolArgsMatcher):
        return "args " + ", ".join(sorted(matcher.args))
    if isinstance(matcher, MetadataMatcher):
        return f"metadata {matcher.key}"
    if isinstance(matcher, StepTypeMatcher):
        return f"step {matcher.type}"
    has_own_words = type(matcher).__repr__ is not object.__repr__
    return repr(matcher) if has_own_words else f"when {type(matcher).__name__}"


def _is_wanted(value: object, wanted: object) -> bool:
    return _is_true(wanted(value)) if callable(wanted) else value == wanted


def _is_true(answer: object) -> bool:
    """A matcher's answer as a bool. An awaitable or a generator is always true, so it is refused."""
    if answer is True or answer is False:
        return answer
    is_awaitable = inspect.isawaitable(answer)
    if inspect.iscoroutine(answer):
        answer.close()  # it is never awaited, and Python would warn about that
    if is_awaitable or inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        does = "awaits" if is_awaitable else "runs"
        raise UsageError(
            f"its matcher gave a {type(answer).__name__}, which is always true, because nobody {does} it.",
            remedy="Match with a plain function that returns True or False.",
        )
    return bool(answer)


def _refuse_always_true(test: object) -> None:
    """Refuse an async or generator function: its result is always true."""
    if is_async_callable(test):
        raise RegistrationError(
            f"matcher {test!r} is async: nobody awaits it, and a coroutine is always true.",
            remedy="Use a plain function of the context.",
        )
    if is_generator_callable(test):
        raise RegistrationError(
            f"matcher {test!r} is a generator function: nobody runs its body, and a generator is always true.",
            remedy="Use a plain function of the context that returns its answer instead of yielding it.",
        )


def _refuse_unfit(test: Callable[..., Any]) -> None:
    """Refuse a test whose result is always true, and one that cannot be called with the context."""
    _refuse_always_true(test)
    least, most = positional(test)
    if not least <= 1 <= most:
        raise RegistrationError(
            f"matcher {test!r} cannot be called with one argument, the context.",
            remedy="Use a function of the context: `lambda ctx: ...`. "
            "Read ctx.tool_call and ctx.state instead of (call, state).",
        )


def _refuse_no_matcher(part: object) -> None:
    if not _is_matcher(part):
        raise RegistrationError(
            f"{part!r} is not a matcher.",
            remedy="Use an object with matches(ctx). CompositeMatcher.all_of(...) also takes names and functions.",
        )
    _refuse_unfit(part.matches)


# --- how many arguments a function takes ----------------------------------------------------------------

MANY = 99
"""As many positional arguments as anybody gives."""


def positional(function: Callable[..., Any]) -> tuple[int, int]:
    """How many positional arguments a call needs at least and takes at most."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_kwonlyargcount == 0 and not hasattr(function, "__wrapped__"):
        # The quick way, for plain functions: building an agent should not cost a signature per hook.
        count = code.co_argcount - isinstance(function, MethodType)
        most = count if not code.co_flags & inspect.CO_VARARGS else MANY
        return count - len(function.__defaults__ or ()), most
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1, MANY  # a builtin without a signature: its first call will tell
    least = most = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = MANY
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            least += parameter.default is parameter.empty
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            least = MANY  # a required keyword can never be given
    return least, most


NEXT = ("next", "call_next")
"""How the second parameter of middleware is named. It tells `(ctx, next)` from `(call, state)`, which is no hook."""


def second_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the second positional parameter; None if there is none, or if `*args` takes it."""
    code = getattr(function, "__code__", None)
    if code is not None and not hasattr(function, "__wrapped__"):
        at = 1 + isinstance(function, MethodType)
        return code.co_varnames[at] if at < code.co_argcount else None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    named = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return named[1].name if len(named) > 1 else None
