"""Reading a function: what it is called, what it takes, and why it cannot be a tool."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from hookline._aio import is_async_callable
from hookline.errors import ToolDefinitionError
from hookline.tools.context import ToolContext

NO_DEFAULT: Any = inspect.Parameter.empty


class Parameter(msgspec.Struct, frozen=True):
    """A parameter the model fills in."""

    name: str
    annotation: Any
    default: Any = NO_DEFAULT


class Signature(msgspec.Struct, frozen=True):
    """What a function says about itself."""

    name: str
    origin: str
    """Where it was written, for error messages."""
    doc: str
    parameters: tuple[Parameter, ...]
    context_name: str
    """The parameter that takes the ToolContext; empty if none does."""
    is_async: bool


def read_signature(function: Callable[..., Any]) -> Signature:
    """Read a function, method, partial or callable object, or say why it cannot be a tool."""
    _refuse_what_is_no_function(function)
    origin = origin_of(function)
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise ToolDefinitionError(
            f"{origin} has no signature, like many functions written in C.",
            remedy="Wrap it in a function with annotated parameters.",
        ) from None
    annotated = [
        _read_parameter(function, found[name], origin)
        for name in found
        if name not in _partial_keywords(function)
    ]
    contexts = [parameter.name for parameter in annotated if _is_context(parameter.annotation)]
    if len(contexts) > 1:
        raise ToolDefinitionError(
            f"{origin} asks for a ToolContext twice, as {' and '.join(contexts)}.",
            remedy="Keep one of them.",
        )
    return Signature(
        _name(function),
        origin,
        _doc(function),
        tuple(parameter for parameter in annotated if parameter.name not in contexts),
        contexts[0] if contexts else "",
        is_async_callable(function),
    )


def origin_of(function: object) -> str:
    """Where a function was written: module, name and line."""
    written = _find_written(function)
    name = getattr(written, "__qualname__", repr(written))
    code = getattr(written, "__code__", None)
    line = f" (line {code.co_firstlineno})" if code is not None else ""
    return f"{getattr(written, '__module__', None) or 'builtins'}.{name}{line}"


# --- what cannot be a tool ----------------------------------------------------------------------


def _refuse_what_is_no_function(thing: object) -> None:
    if inspect.iscoroutine(thing):
        thing.close()  # it will never be awaited, and Python would warn about that
        raise ToolDefinitionError(
            f"{thing.__qualname__}(...) was called: a coroutine cannot be a tool.",
            remedy="Pass the async function itself, without calling it.",
        )
    if inspect.isclass(thing):
        raise ToolDefinitionError(
            f"{thing.__module__}.{thing.__qualname__} is a class, and a tool is a function.",
            remedy="Pass a function, a bound method, or an instance with a `__call__` method.",
        )
    if not callable(thing):
        raise ToolDefinitionError(
            f"{thing!r} ({type(thing).__name__}) cannot be a tool: it is not a function.",
            remedy="Pass a function; options are keywords, as in @tool(name='search').",
        )
    call = _find_called(thing)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise ToolDefinitionError(
            f"{origin_of(thing)} is a generator: it yields many values, but a call has one result.",
            remedy="Return a list, and report progress with ToolContext.progress().",
        )


def _refuse_kind(parameter: inspect.Parameter, origin: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ToolDefinitionError(
            f"{origin} takes {str(parameter).split(':')[0]}, which cannot be described to a model.",
            remedy="Name each parameter, or take one list or dict.",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolDefinitionError(
            f"{origin}: parameter '{parameter.name}' is positional-only, but models pass arguments by name.",
            remedy="Remove the `/` from the signature.",
        )


def _refuse_unannotated(parameter: inspect.Parameter, origin: str) -> NoReturn:
    if parameter.name in ("self", "cls"):
        remedy = "Pass the method bound to an object, as in as_tool(shop.search)."
    else:
        remedy = f"Write its type, as in `{parameter.name}: str`."
    raise ToolDefinitionError(
        f"{origin}: parameter '{parameter.name}' has no annotation.", remedy=remedy
    )


# --- parameters ---------------------------------------------------------------------------------


def _read_parameter(function: object, parameter: inspect.Parameter, origin: str) -> Parameter:
    _refuse_kind(parameter, origin)
    if parameter.annotation is NO_DEFAULT:
        _refuse_unannotated(parameter, origin)
    try:
        annotation = _resolve(function, parameter.annotation)
    except Exception as error:
        raise ToolDefinitionError(
            f"{origin}: the annotation {parameter.annotation!r} of parameter '{parameter.name}' "
            f"cannot be resolved ({type(error).__name__}: {error}).",
            remedy="Import or define the type before the tool, and not only under TYPE_CHECKING.",
        ) from error
    return Parameter(parameter.name, annotation, parameter.default)


def _resolve(function: object, annotation: Any) -> Any:
    """The type that an annotation means; text is looked up where the function was written."""
    written = _find_written(function)
    module_names = getattr(written, "__globals__", {})
    try:
        return _evaluate(annotation, module_names, {})
    except NameError:
        return _evaluate(annotation, module_names, _local_names(function, written))


def _evaluate(annotation: Any, module_names: dict[str, Any], local_names: dict[str, Any]) -> Any:
    def carrier() -> None: ...

    carrier.__annotations__ = {"it": annotation}
    return typing.get_type_hints(carrier, module_names, local_names, include_extras=True)["it"]


def _local_names(function: object, written: Any) -> dict[str, Any]:
    """Names of the functions and classes around `written`, as far as they still exist."""
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None:
        encloses = written.__qualname__.startswith(f"{frame.f_code.co_qualname}.")
        if encloses and frame.f_globals is written.__globals__:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    for name, cell in zip(written.__code__.co_freevars, written.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a cell is empty until its name is assigned
            names[name] = cell.cell_contents
    owner = getattr(function, "__self__", function)
    return {**vars(owner if inspect.isclass(owner) else type(owner)), **names}


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(annotation))
    return annotation is ToolContext


# --- what stands behind a callable --------------------------------------------------------------


def _partial_keywords(function: object) -> frozenset[str]:
    """Keywords that a partial has filled in. They are the author's: the model neither sees nor changes them."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def _without_partials(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _find_called(function: Any) -> Any:
    """The function that runs when `function` is called."""
    function = _without_partials(function)
    if not inspect.isroutine(function):
        function = type(function).__call__
    return getattr(function, "__func__", function)


def _find_written(function: Any) -> Any:
    """The function as it was written, before decorators wrapped it."""
    return inspect.unwrap(_find_called(function))


def _name(function: Any) -> str:
    function = _without_partials(function)
    return str(getattr(function, "__name__", type(function).__name__))


def _doc(function: Any) -> str:
    function = _without_partials(function)
    own = _find_called(function).__doc__
    of_object = "" if inspect.isroutine(function) else type(function).__doc__
    return inspect.cleandoc(own or of_object or "")
