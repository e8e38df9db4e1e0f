"""A set of hooks, usable alone: `await HookStack().with_hook(hook, point).process(context)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, Unpack

from hookline.errors import RegistrationError, UsageError
from hookline.hooks import (
    Context,
    HookLike,
    HookOptions,
    Plan,
    Point,
    Registration,
    Result,
    register,
    run_hooks,
    sort_hooks,
    unique_names,
)
from hookline.hooks.point_type import C
from hookline.lifecycle.points import point_named


class HookStack:
    """An immutable set of hooks, usable alone: `HookStack().with_hook(hook, "PreToolUse")`.

    It takes points of the lifecycle by any of their names, and points of your own.
    """

    __slots__ = ("_plans", "registrations")

    def __init__(self, registrations: Iterable[Registration] = ()) -> None:
        self.registrations = tuple(registrations)
        self._plans: dict[str, Plan] = {}

    def with_hook(
        self,
        hook: HookLike,
        point: Point[Any] | str,
        **options: Unpack[HookOptions],
    ) -> Self:
        """This stack and one more hook."""
        registration = register(point_named(point), hook, options)
        return type(self)((*self.registrations, registration))

    def plan(self, point: Point[Any] | str) -> Plan:
        """What runs at a point, in order."""
        plan = self._plans.get(point)
        if plan is None:
            plan = self._plans[point] = self._make_plan(point_named(point))
        return plan

    def _make_plan(self, point: Point[Any]) -> Plan:
        here = [registration for registration in self.registrations if registration.point == point]
        known = (registration.name for registration in self.registrations)
        return Plan(point, sort_hooks(unique_names(here), known))

    async def process(self, context: C) -> Result[C]:
        """Ask the hooks at the context's point, and give what they decided."""
        if not isinstance(context, Context):
            raise RegistrationError(
                f"{context!r} is not a context.", remedy="Pass one, such as ToolHookContext(...)."
            )
        if context.point.around:
            raise UsageError(
                f"the hooks at {context.point.value} wrap an action, and a stack alone has none.",
                remedy="Ask it about another point, or let an agent run them.",
            )
        if not isinstance(context, context.point.context):
            raise UsageError(
                f"the hooks at {context.point.value} are shown a {context.point.context.__name__}, "
                f"not a {type(context).__name__}.",
                remedy=f"Pass {context.point.context.__name__}(point=..., ...).",
            )
        return await run_hooks(self.plan(context.point), context)
