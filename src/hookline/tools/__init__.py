"""What an agent can do: typed functions, their schemas, and the check their arguments pass."""

from hookline.tools.arguments import Validated
from hookline.tools.context import ToolContext, ToolHost
from hookline.tools.effect import Effect
from hookline.tools.tool import AnyTool, Tool, as_tool, tool
from hookline.tools.toolbox import Toolbox

__all__ = [
    "AnyTool",
    "Effect",
    "Tool",
    "ToolContext",
    "ToolHost",
    "Toolbox",
    "Validated",
    "as_tool",
    "tool",
]
