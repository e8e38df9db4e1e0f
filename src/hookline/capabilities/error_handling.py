"""What happens when something fails, as a capability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline.errors import BuildError
from hookline.flow import ErrorPolicy

if TYPE_CHECKING:
    from hookline.agent import AgentBuilder


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
        """Set it."""
        builder.with_error_policy(self.policy)
