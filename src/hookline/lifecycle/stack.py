"""The engine's stack for the points of this lifecycle."""

from __future__ import annotations

from typing import Any

from hookline import hooks
from hookline.hooks import Point
from hookline.lifecycle.points import point_named


class HookStack(hooks.HookStack):
    """A set of hooks, usable alone. It takes points by name: `HookStack().with_hook(hook, "PreToolUse")`."""

    __slots__ = ()

    def point(self, meant: Point[Any] | str) -> Point[Any]:
        """The point that is meant: one of the lifecycle by its name, or any point itself."""
        return point_named(meant)
