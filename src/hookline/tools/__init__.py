"""What an agent can do: typed functions, their schemas, and the check their arguments pass."""

from hookline.tools.arguments import ValidArguments
from hookline.tools.context import ToolContext
from hookline.tools.tool import AnyTool, Effect, Tool, Toolbox, as_tool, tool

__all__ = [
    "AnyTool",
    "Effect",
    "Tool",
    "ToolContext",
    "Toolbox",
    "ValidArguments",
    "as_tool",
    "tool",
]
