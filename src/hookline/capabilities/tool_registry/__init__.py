"""A few tools at first, and more on demand."""

from hookline.capabilities.tool_registry.registry import ToolRegistry

__all__ = ["ToolRegistry"]
