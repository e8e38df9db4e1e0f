"""Limits and error handling as capabilities, for agents that are made from a list of capabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookline.errors import BuildError
from hookline.flow import ErrorPolicy

if TYPE_CHECKING:
    from hookline.agent import AgentBuilder


_SAME: Any = object()


class Limits:
    """Limits on steps, tokens, active seconds, cost and tool calls, for a run and all its children.

    What is not named stays as the builder has it; None removes a limit. `objections` is how often stop hooks may
    object. The same as `builder.with_limits(...)`.
    """

    name = "limits"
    speaks_for_user = True
    """The builder of the agent wrote it, so it may also widen a limit."""

    def __init__(
        self,
        *,
        steps: int | None = _SAME,
        tokens: int | None = _SAME,
        seconds: float | None = _SAME,
        cost: float | None = _SAME,
        tool_calls: int | None = _SAME,
        objections: int = _SAME,
    ) -> None:
        given = {
            "steps": steps,
            "tokens": tokens,
            "seconds": seconds,
            "cost": cost,
            "tool_calls": tool_calls,
            "objections": objections,
        }
        self._given: dict[str, Any] = {
            name: value for name, value in given.items() if value is not _SAME
        }
        for name, value in self._given.items():
            _check(name, value)
        if not self._given:
            raise BuildError(
                "Limits() limits nothing.", remedy="Name a limit: Limits(steps=10), say."
            )

    def configure(self, builder: AgentBuilder) -> None:
        builder.with_limits(**self._given)

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"


def _check(name: str, value: object) -> None:
    if value is None and name != "objections":
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        remedy = "" if name == "objections" else "Use None for no limit."
        raise BuildError(f"limit {name}={value!r} is not a number of at least zero.", remedy=remedy)


class ErrorHandling:
    """An error policy: `ErrorHandling(ErrorPolicy.retry_tool_errors())`. The same as `with_error_policy`."""

    name = "error-handling"

    def __init__(self, policy: ErrorPolicy) -> None:
        if not isinstance(policy, ErrorPolicy):
            raise BuildError(
                f"{policy!r} is not an ErrorPolicy.",
                remedy="Use ErrorPolicy.retry_tool_errors(), say.",
            )
        self.policy = policy

    def configure(self, builder: AgentBuilder) -> None:
        builder.with_error_policy(self.policy)
