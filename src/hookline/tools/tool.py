"""A tool: a typed function with a name, a schema and the rules under which it runs."""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload
from weakref import WeakValueDictionary

import msgspec

from hookline._aio import call_in_thread
from hookline.errors import ToolDefinitionError
from hookline.state import ToolCall, ToolSpec
from hookline.tools.arguments import ArgumentCheck, Validated
from hookline.tools.context import ToolContext
from hookline.tools.effect import Effect
from hookline.tools.plain import NotPlain, compile_plain
from hookline.tools.problems import malformed
from hookline.tools.schema import Compiled
from hookline.tools.signature import Signature, read_signature

P = ParamSpec("P")
R = TypeVar("R")

EffectName: TypeAlias = Effect | Literal["pure", "idempotent", "once"]

DEFAULT_MAX_CHARS = 30_000
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool(msgspec.Struct, Generic[P, R], frozen=True, eq=False, weakref=True):
    """What an agent can do. Made by `@tool` or `as_tool`; immutable; called, it is the function it was made of."""

    function: Callable[P, R]
    spec: ToolSpec
    """The tool as a model is told about it."""
    arguments: ArgumentCheck
    origin: str
    """Where the function was written."""
    is_async: bool
    context_name: str
    """The parameter that takes the ToolContext; empty if none does."""
    effect: Effect
    timeout: float | None
    """Seconds one call may take."""
    concurrency: int | None
    """How many calls of this tool may run at once; None is no limit."""
    alone: bool
    """Whether nothing else may run beside a call of this tool."""
    max_chars: int | None
    """How much of a result goes into the conversation; None is all of it."""
    root: str = ""
    """The directory that relative paths in its arguments begin at; empty where it did not say."""
    served_by: tuple[str, ...] = ()
    """Of a tool that a server has: the words of the command that the server is, or its address."""
    pure_with: Mapping[str, Any] = {}
    """Arguments with which a call changes nothing, whatever the others are; empty if there are none."""

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.spec.name

    @property
    def description(self) -> str:
        """What the model is told it does."""
        return self.spec.description

    @property
    def wants_context(self) -> bool:
        """Whether the function takes a ToolContext."""
        return self.context_name != ""

    def is_pure(self, args: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments changes nothing, going by what the tool says."""
        if self.effect is Effect.PURE:
            return True
        given = self.pure_with
        return bool(given) and all(args.get(name) == value for name, value in given.items())

    def validate(self, args: Mapping[str, Any]) -> Validated:
        """Check and coerce arguments, or raise a `ToolArgumentsError` that a model can act on."""
        return self.arguments.validate(args)

    def validate_call(self, call: ToolCall) -> Validated:
        """The same for a call, whose arguments may not even have been JSON."""
        if call.malformed:
            raise malformed(self.name, call.malformed, self.spec.parameters.get("properties", ()))
        return self.arguments.validate(call.args)

    def invoke(
        self, values: Mapping[str, Any], context: ToolContext | None = None
    ) -> Awaitable[Any]:
        """Run the function on validated values; a sync function runs in a thread of its own."""
        named = {**values, self.context_name: context} if self.context_name else values
        function: Callable[..., Any] = self.function
        return function(**named) if self.is_async else _in_thread(function, named)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name} ({self.effect.value}), {self.origin}>"


AnyTool: TypeAlias = Tool[..., Any]


async def _in_thread(function: Callable[..., Any], named: Mapping[str, Any]) -> Any:
    value = await call_in_thread(functools.partial(function, **named))
    # A sync decorator around an async function looks sync, and gives a coroutine.
    return await value if inspect.isawaitable(value) else value


# --- making tools -------------------------------------------------------------------------------


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectName = Effect.ONCE,
    timeout: float | None = None,
    concurrency: int | None = None,
    alone: bool = False,
    max_chars: int | None = DEFAULT_MAX_CHARS,
    root: str | os.PathLike[str] = "",
    pure_with: Mapping[str, Any] | None = None,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectName = Effect.ONCE,
    timeout: float | None = None,
    concurrency: int | None = None,
    alone: bool = False,
    max_chars: int | None = DEFAULT_MAX_CHARS,
    root: str | os.PathLike[str] = "",
    pure_with: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectName = Effect.ONCE,
    timeout: float | None = None,
    concurrency: int | None = None,
    alone: bool = False,
    max_chars: int | None = DEFAULT_MAX_CHARS,
    root: str | os.PathLike[str] = "",
    pure_with: Mapping[str, Any] | None = None,
) -> Any:
    """Make a tool of a typed function: `@tool`, or `@tool(effect="pure", timeout=5)`.

    Schema and descriptions come from signature, annotations and docstring; `name` and `description`
    override what the function says of itself. `root` is the directory that relative paths in its arguments begin at:
    rules about paths go by it. `pure_with` are arguments with which a call changes nothing, whatever its effect is
    otherwise: modes in which nothing is changed let such calls pass, and fill in an argument that is None.
    """
    at = os.path.abspath(root) if root else ""
    options = _Options(
        name, description, effect, timeout, concurrency, alone, max_chars, at, pure_with or {}
    )
    if function is None:
        return functools.partial(_make, options=options)
    return _make(function, options=options)


def as_tool(thing: Callable[..., Any]) -> AnyTool:
    """`thing` itself if it is a tool, else the tool made of this function. The same function gives the same tool."""
    if isinstance(thing, Tool):
        return thing
    made = _made.get(id(thing))
    if made is None:
        made = _made[id(thing)] = _make(thing, options=_DEFAULT_OPTIONS)
    return made


class _Options(msgspec.Struct, frozen=True):
    name: str | None = None
    description: str | None = None
    effect: EffectName = Effect.ONCE
    timeout: float | None = None
    concurrency: int | None = None
    alone: bool = False
    max_chars: int | None = DEFAULT_MAX_CHARS
    root: str = ""
    pure_with: Mapping[str, Any] = {}


_DEFAULT_OPTIONS = _Options()

# Bare functions by id, so that a thousand agents share the one tool that is made of a function. A
# tool keeps its function alive, so an id in here cannot have been given to another object.
_made: WeakValueDictionary[int, AnyTool] = WeakValueDictionary()


def _make(function: Callable[..., Any], *, options: _Options) -> AnyTool:
    if isinstance(function, Tool):
        raise ToolDefinitionError(
            f"'{function.name}' is a tool already.",
            remedy=f"Make the other tool of its function: {function.origin}.",
        )
    signature = read_signature(function)
    name = _checked_name(signature, options.name)
    _check_limits(name, signature.origin, options)
    compiled = _compiled(signature, name)
    _check_pure_with(name, signature.origin, options.pure_with, compiled.parameters)
    description = compiled.description if options.description is None else options.description
    return Tool(
        function,
        ToolSpec(name, description, compiled.parameters),
        compiled.arguments,
        signature.origin,
        signature.is_async,
        signature.context_name,
        _checked_effect(name, signature.origin, options.effect),
        options.timeout,
        options.concurrency,
        options.alone,
        options.max_chars,
        options.root,
        pure_with=options.pure_with,
    )


def _compiled(signature: Signature, name: str) -> Compiled:
    try:
        return compile_plain(signature, name)
    except NotPlain:
        from hookline.tools.pydantic_schema import (  # brings pydantic, which is slow to import
            compile_signature,
        )

        return compile_signature(signature, name)


def _checked_name(signature: Signature, given: str | None) -> str:
    name = signature.name if given is None else given
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise ToolDefinitionError(
        f"{signature.origin}: models cannot call a tool by the name {name!r}.",
        remedy="Give it one of up to 64 letters, digits, '_' or '-', as in tool(name='search').",
    )


def _checked_effect(name: str, origin: str, effect: EffectName) -> Effect:
    try:
        return Effect(effect)
    except ValueError:
        known = ", ".join(repr(each.value) for each in Effect)
        raise ToolDefinitionError(
            f"tool '{name}' ({origin}): there is no effect {effect!r}.",
            remedy=f"Use one of {known}.",
        ) from None


def _check_pure_with(
    name: str, origin: str, given: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    known = parameters.get("properties", {})
    for argument in given:
        if argument not in known:
            raise ToolDefinitionError(
                f"tool '{name}' ({origin}): pure_with names '{argument}', and there is no such argument.",
                remedy=f"There are: {', '.join(known) or 'none'}.",
            )


def _check_limits(name: str, origin: str, options: _Options) -> None:
    who = f"tool '{name}' ({origin})"
    timeout = options.timeout
    if timeout is not None and not (_is_number(timeout) and timeout > 0 and math.isfinite(timeout)):
        raise ToolDefinitionError(
            f"{who}: timeout={timeout!r} is not a number of seconds above 0.",
            remedy="Leave it out for no timeout.",
        )
    for option, value in (("concurrency", options.concurrency), ("max_chars", options.max_chars)):
        if value is not None and not (type(value) is int and value >= 1):
            raise ToolDefinitionError(
                f"{who}: {option}={value!r} is not a whole number above 0.",
                remedy="Use None for no limit.",
            )
    if options.alone and options.concurrency is not None:
        raise ToolDefinitionError(
            f"{who}: alone=True already means one call at a time.", remedy="Leave out concurrency."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
