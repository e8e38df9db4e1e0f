from __future__ import annotations

import json
import subprocess
import sys


def python(program: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_the_sdk_is_imported_when_it_is_needed() -> None:
    """Describing servers costs next to nothing."""
    program = (
        "import json, sys; from hookline.mcp import McpServer, McpServers;"
        "McpServers(McpServer.stdio('x')); print(json.dumps(sorted(sys.modules)))"
    )
    loaded = {name.partition(".")[0] for name in json.loads(python(program))}
    assert loaded & {"mcp", "mcp_types", "pydantic", "httpx2", "jsonschema", "anyio"} == set()


def test_without_the_sdk_there_is_a_remedy() -> None:
    """Who has not installed the extra is told how to, by either side of the room."""
    program = """
import asyncio, sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None
import hookline.mcp
from hookline.errors import BuildError
for attempt in (
    lambda: asyncio.run(hookline.mcp.McpServers().__aenter__()),
    lambda: hookline.mcp.serve_stdio,
):
    try:
        attempt()
    except BuildError as error:
        print(error)
"""
    lines = python(program).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("MCP needs the package 'mcp") for line in lines)
    assert all(line.endswith('Run: pip install "hookline[mcp]".') for line in lines)
