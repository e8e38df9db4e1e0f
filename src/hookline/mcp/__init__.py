"""MCP: servers as tool sources, and an agent as a server.

The SDK is imported when the first server is connected, or the first agent served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookline.mcp.capability import McpServers
from hookline.mcp.server import McpServer

if TYPE_CHECKING:
    from hookline.mcp.serve import AgentServer, serve_http, serve_stdio

__all__ = ["AgentServer", "McpServer", "McpServers", "serve_http", "serve_stdio"]


def __getattr__(name: str) -> Any:
    if name in ("AgentServer", "serve_http", "serve_stdio"):
        from hookline.mcp.capability import from_sdk_side

        return from_sdk_side("serve", name)
    raise AttributeError(f"module 'hookline.mcp' has no attribute {name!r}")
