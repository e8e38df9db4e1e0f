"""A capability: tools and hooks that belong together, installed by name, once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from hookline.errors import BuildError
from hookline.hooks import Registration


@runtime_checkable
class Capability(Protocol):
    """What `with_capability` takes. Only `name` is required; the rest is looked for.

    - `hooks()` gives registrations, made with `hook(point, function, ...)` or the `on` decorators;
    - `tools()` gives tools or plain functions;
    - `configure(builder)` may use everything else a builder can do, and may only narrow limits;
    - `speaks_for_user = True` says that it is nothing but settings of whoever builds the agent, and counts as them.
    """

    @property
    def name(self) -> str:
        """The name under which it is installed, once."""
        ...


def hooks_of(capability: Any) -> Iterable[Registration]:
    """The registrations a capability brings."""
    return _brought(capability, "hooks")


def tools_of(capability: Any) -> Iterable[Any]:
    """The tools a capability brings."""
    return _brought(capability, "tools")


def _brought(capability: Any, part: str) -> Iterable[Any]:
    method = getattr(capability, part, None)
    given = method() if callable(method) else ()
    if isinstance(given, Iterable):
        return given
    name = getattr(capability, "name", None) or type(capability).__name__
    raise BuildError(
        f"{part}() of capability '{name}' gave {given!r}.", remedy="Return a list, or yield them."
    )
