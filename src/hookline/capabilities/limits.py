"""Limits and error handling as capabilities, for agents that are made from a list of capabilities.

The limits are in `flow/limits.py`, and `LimitsGuard` in `definition/guards.py` enforces them.
"""

from __future__ import annotations

from typing import Unpack

from hookline.agent import AgentBuilder
from hookline.agent.builder import LimitOptions
from hookline.errors import BuildError
from hookline.flow import ErrorPolicy


class Limits:
    """Limits on steps, tokens, active seconds, cost and tool calls, for a run and all its children.

    What is not named stays as the builder has it; None removes a limit. `objections` is how often stop hooks may
    object. The same as `builder.with_limits(...)`.
    """

    name = "limits"
    speaks_for_user = True
    """The builder of the agent wrote it, so it may also widen a limit."""

    def __init__(self, **limits: Unpack[LimitOptions]) -> None:
        if not limits:
            raise BuildError(
                "Limits() limits nothing.", remedy="Name a limit, for example Limits(steps=10)."
            )
        AgentBuilder().with_limits(**limits)  # what is wrong is said here, and not when it is used
        self._given = limits

    def configure(self, builder: AgentBuilder) -> None:
        builder.with_limits(**self._given)

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"


class ErrorHandling:
    """An error policy: `ErrorHandling(ErrorPolicy.retry_tool_errors())`. The same as `with_error_policy`."""

    name = "error-handling"

    def __init__(self, policy: ErrorPolicy) -> None:
        if not isinstance(policy, ErrorPolicy):
            raise BuildError(
                f"{policy!r} is not an ErrorPolicy.",
                remedy="For example: ErrorPolicy.retry_tool_errors().",
            )
        self.policy = policy

    def configure(self, builder: AgentBuilder) -> None:
        builder.with_error_policy(self.policy)
