"""The `on_…` methods of a builder: one kind of method, once for each point."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, Unpack, overload

from hookline.errors import BuildError
from hookline.hooks import Context, HookOptions, Options, Point, Registration, register

C = TypeVar("C", bound=Context)
C_contra = TypeVar("C_contra", bound=Context, contravariant=True)
F = TypeVar("F")
R = TypeVar("R")
B = TypeVar("B", bound="Registering")


class Middleware(Protocol[C_contra]):
    """An object whose `handle(ctx, next)` wraps the rest of its tier."""

    def handle(self, ctx: C_contra, next: Any, /) -> object:
        """Answer, or hand on: `return await next(ctx)`."""
        ...


HookFn: TypeAlias = Callable[[C], object] | Middleware[C]
"""A hook at a point: a function of its context, sync or async, or middleware."""
AroundFn: TypeAlias = Callable[[C, Callable[..., Awaitable[R]]], Awaitable[R]]
"""A hook around an action: `async (ctx, call_next) -> result`."""


class Registering(Protocol):
    """A builder, as far as its `on_…` methods know it."""

    def _add(self: B, registration: Registration) -> B:
        """Take a hook that is checked, and give the builder back."""
        ...


class Registrar(Generic[F]):
    """One `on_…` method, before it is one of a builder."""

    __slots__ = ("_point",)

    def __init__(self, point: Point[Any]) -> None:
        self._point = point

    @overload
    def __get__(self, builder: None, owner: type) -> Registrar[F]: ...
    @overload
    def __get__(self, builder: B, owner: type) -> BoundRegistrar[F, B]: ...
    def __get__(self, builder: B | None, owner: type) -> Registrar[F] | BoundRegistrar[F, B]:
        return self if builder is None else BoundRegistrar(self._point, builder)

    @property
    def __signature__(self) -> inspect.Signature:
        """What `help()` and editors show: a descriptor's own signature would say nothing."""
        return inspect.signature(BoundRegistrar.__call__)

    def __call__(self, *_args: object, **_options: object) -> object:
        """Says whose method this is."""
        raise BuildError(
            "this is a method of a builder.",
            remedy="Call it on one: AgentBuilder().on_…(hook).",
        )


class BoundRegistrar(Generic[F, B]):
    """One `on_…` method: registers a hook at its point and returns the builder. All have the same options."""

    __slots__ = ("_builder", "_point")

    def __init__(self, point: Point[Any], builder: B) -> None:
        self._point = point
        self._builder = builder

    @property
    def __signature__(self) -> inspect.Signature:
        """What `help()` and editors show."""
        method = inspect.signature(type(self).__call__)
        return method.replace(parameters=list(method.parameters.values())[1:])

    def __call__(
        self,
        callback: F,
        **options: Unpack[HookOptions],
    ) -> B:
        """Register a hook at this point."""
        return self._builder._add(register(self._point, callback, Options(**options)))
