"""A tool: a typed function with a name, a schema and the rules under which it runs; and the tools of an agent."""

from __future__ import annotations

import enum
import functools
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack, overload
from weakref import WeakValueDictionary

import msgspec

from hookline._aio import call_in_thread
from hookline.errors import ToolDefinitionError, UnknownToolError
from hookline.option_checks import check_count, check_positive
from hookline.state import ToolCall, ToolSpec
from hookline.tools.arguments import (
    ArgumentCheck,
    ValidArguments,
    closest,
    did_you_mean,
    malformed_error,
)
from hookline.tools.context import ToolContext
from hookline.tools.plain_schema import NotPlain, compile_plain
from hookline.tools.schema import CompiledSchema
from hookline.tools.signature import Signature, read_signature

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_MAX_CHARS = 30_000
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FEW = 12


class Effect(enum.StrEnum):
    """How often a tool may run for one call. Retries and recovery after a crash depend on it."""

    PURE = "pure"
    """It changes nothing: run it as often as you like."""
    IDEMPOTENT = "idempotent"
    """Running it again with the same idempotency key changes nothing more."""
    ONCE = "once"
    """Every run has its own effect: it is never run again unless it is known not to have run."""


EffectName: TypeAlias = Effect | Literal["pure", "idempotent", "once"]


class Tool(msgspec.Struct, Generic[P, R], frozen=True, eq=False, weakref=True):
    """What an agent can do. Made by `@tool` or `as_tool`; immutable; a call of it is a call of its function."""

    function: Callable[P, R]
    spec: ToolSpec
    """Name, description and parameters, as a model sees them."""
    arguments: ArgumentCheck
    origin: str
    """Where the function was written."""
    is_async: bool = True
    context_name: str = ""
    """The parameter that takes the ToolContext; empty if none does."""
    effect: Effect = Effect.ONCE
    timeout: float | None = None
    """Seconds one call may take."""
    concurrency: int | None = None
    """How many calls of this tool may run at once; None is no limit."""
    alone: bool = False
    """Whether nothing else may run beside a call of this tool."""
    max_chars: int | None = DEFAULT_MAX_CHARS
    """How much of a result goes into the conversation; None is all of it."""
    root: str = ""
    """The directory that relative paths in its arguments begin at; empty if it is not known."""
    served_by: tuple[str, ...] = ()
    """For a tool of a server: the words of the server's command, or its address."""
    pure_with: Mapping[str, Any] = {}
    """Arguments with which a call changes nothing, whatever the others are; empty if there are none."""
    defaults: Mapping[str, Any] = {}
    """What an argument means that a call leaves out, or gives as None, as far as rules have to know."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def description(self) -> str:
        return self.spec.description

    @property
    def wants_context(self) -> bool:
        """Whether the function takes a ToolContext."""
        return self.context_name != ""

    def is_pure(self, args: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments changes nothing, according to the tool."""
        if self.effect is Effect.PURE:
            return True
        given = self.pure_with
        return bool(given) and all(args.get(name) == value for name, value in given.items())

    def validate(self, args: Mapping[str, Any]) -> ValidArguments:
        """Check and coerce arguments, or raise a `ToolArgumentsError` that a model can act on."""
        return self.arguments.validate(args)

    def validate_call(self, call: ToolCall) -> ValidArguments:
        """The same for a call, whose arguments may not be JSON."""
        if call.malformed:
            raise malformed_error(
                self.name, call.malformed, self.spec.parameters.get("properties", ())
            )
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


class ToolOptions(TypedDict, total=False):
    """The options of `tool`."""

    name: str | None
    """By default the name of the function."""
    description: str | None
    """By default from the docstring of the function."""
    effect: EffectName
    timeout: float | None
    concurrency: int | None
    alone: bool
    max_chars: int | None
    root: str | os.PathLike[str]
    """The directory that relative paths in the arguments begin at. Rules about paths use it."""
    pure_with: Mapping[str, Any] | None
    """Arguments with which a call changes nothing, whatever the effect of the tool is. Modes in which nothing is
    changed let such calls pass, and fill in an argument that is None."""
    defaults: Mapping[str, Any] | None
    """What an argument means that is None: a rule that forbids this forbids such a call too."""


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a typed function: `@tool`, or `@tool(effect="pure", timeout=5)`.

    Schema and descriptions come from signature, annotations and docstring; the fields of `Tool` say what the options
    are. `name` and `description` override those of the function.
    """
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"tool() got an unexpected keyword argument '{min(unknown)}'")
    if function is None:
        return functools.partial(_make, **options)
    return _make(function, **options)


def as_tool(thing: Callable[..., Any]) -> AnyTool:
    """`thing` itself if it is a tool, else the tool made of this function. The same function gives the same tool."""
    if isinstance(thing, Tool):
        return thing
    made = _made.get(id(thing))
    if made is None:
        made = _made[id(thing)] = _make(thing)
    return made


# Bare functions by id, so that a thousand agents share the one tool that is made of a function. A
# tool keeps its function alive, so an id in here cannot have been given to another object.
_made: WeakValueDictionary[int, AnyTool] = WeakValueDictionary()


def _make(function: Callable[..., Any], **options: Unpack[ToolOptions]) -> AnyTool:
    if isinstance(function, Tool):
        raise ToolDefinitionError(
            f"'{function.name}' is a tool already.",
            remedy=f"Make the second tool from the function: {function.origin}.",
        )
    signature = read_signature(function)
    name, description = options.pop("name", None), options.pop("description", None)
    name = _check_name(signature, name)
    _check_options(f"tool '{name}' ({signature.origin})", options)
    compiled = _compile(signature, name)
    root, pure_with = options.pop("root", ""), options.pop("pure_with", None) or {}
    defaults = options.pop("defaults", None) or {}
    known = compiled.parameters.get("properties", {})
    for option, given in (("pure_with", pure_with), ("defaults", defaults)):
        if argument := next((each for each in given if each not in known), ""):
            raise ToolDefinitionError(
                f"tool '{name}' ({signature.origin}): {option} names '{argument}', and there is no such argument.",
                remedy=f"There are: {', '.join(known) or 'none'}.",
            )
    return Tool(
        function=function,
        spec=ToolSpec(
            name, compiled.description if description is None else description, compiled.parameters
        ),
        arguments=compiled.arguments,
        origin=signature.origin,
        is_async=signature.is_async,
        context_name=signature.context_name,
        root=os.path.abspath(root) if root else "",
        pure_with=pure_with,
        defaults=defaults,
        effect=Effect(options.get("effect", Effect.ONCE)),
        timeout=options.get("timeout"),
        concurrency=options.get("concurrency"),
        alone=options.get("alone", False),
        max_chars=options.get("max_chars", DEFAULT_MAX_CHARS),
    )


def _compile(signature: Signature, name: str) -> CompiledSchema:
    try:
        return compile_plain(signature, name)
    except NotPlain:
        from hookline.tools.pydantic_schema import compile_signature  # slow to import

        return compile_signature(signature, name)


def _check_name(signature: Signature, given: str | None) -> str:
    name = signature.name if given is None else given
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise ToolDefinitionError(
        f"{signature.origin}: models cannot call a tool by the name {name!r}.",
        remedy="Give it one of up to 64 letters, digits, '_' or '-', as in tool(name='search').",
    )


def _check_options(who: str, options: ToolOptions) -> None:
    if options.get("effect", Effect.ONCE) not in list(Effect):
        known = ", ".join(repr(each.value) for each in Effect)
        raise ToolDefinitionError(
            f"{who}: there is no effect {options['effect']!r}.", remedy=f"Use one of {known}."
        )
    checks = {"timeout": check_positive, "concurrency": check_count, "max_chars": check_count}
    for option, check in checks.items():
        if (value := options.get(option)) is not None:
            check(who, option, value, remedy="Use None for no limit.", error=ToolDefinitionError)
    if options.get("alone") and options.get("concurrency") is not None:
        raise ToolDefinitionError(
            f"{who}: alone=True already means one call at a time.", remedy="Leave out concurrency."
        )


class Toolbox:
    """An immutable set of tools with distinct names, in the order they were given."""

    __slots__ = ("_by_name", "get", "specs")

    def __init__(self, tools: Iterable[Callable[..., Any]] = ()) -> None:
        by_name: dict[str, AnyTool] = {}
        for made in map(as_tool, tools):
            other = by_name.setdefault(made.name, made)
            if other is not made:
                raise ToolDefinitionError(
                    f"two tools are called '{made.name}': {other.origin} and {made.origin}.",
                    remedy="Give one of them another name, as in @tool(name='...').",
                )
        self._by_name = by_name
        self.get: Callable[[str], AnyTool | None] = by_name.get
        """The tool of that name, if there is one."""
        self.specs: tuple[ToolSpec, ...] = tuple([made.spec for made in by_name.values()])
        """The tools as a model sees them."""

    def unknown_error(self, name: str) -> UnknownToolError:
        """The error for a call to a tool that is not here; it names what was probably meant."""
        if not self._by_name:
            return UnknownToolError(
                f"there is no tool '{name}': you have no tools.", remedy="Answer without one."
            )
        hint = did_you_mean(closest(name, self._by_name))
        remedy = (
            f"Your tools are: {', '.join(self._by_name)}."
            if len(self) <= _FEW
            else "Use one of your tools."
        )
        return UnknownToolError(f"there is no tool '{name}'.{hint}", remedy=remedy)

    def with_tools(self, *more: Callable[..., Any]) -> Toolbox:
        """This box with more tools."""
        return Toolbox((*self, *more))

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._by_name)})"
