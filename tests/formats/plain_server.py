"""A small MCP server over pipes, in the words of the protocol, so that what it says about its tools never changes."""

from __future__ import annotations

import json
import sys
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "echo", "description": "Say it again.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    {"name": "keep", "title": "Keep it", "description": "Keep it.", "inputSchema": TEXT},
]  # fmt: skip


def answer(message: dict[str, Any]) -> Any:
    """The result of a request."""
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"name": "plain", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if message["method"] == "tools/list":
        return {"tools": TOOLS}
    if message["method"] == "tools/call":
        said = message["params"]["arguments"]["text"]
        return {"content": [{"type": "text", "text": f"again: {said}"}]}
    return {}


for line in sys.stdin:
    given = json.loads(line)
    if "id" in given:
        print(
            json.dumps({"jsonrpc": "2.0", "id": given["id"], "result": answer(given)}), flush=True
        )
