"""Other files that people keep: cassettes, and the pins of MCP servers."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from hookline import AgentBuilder, RunResult, tool
from hookline.mcp import McpServer, McpServers
from hookline.testing import Cassette, FakeClock, ScriptedDriver, call, calls, say

HERE = Path(__file__).parent


@tool(effect="pure")
def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


def openai(**settings: Any) -> AgentBuilder:
    """An agent that asks a model over HTTP."""
    builder = AgentBuilder().with_model("openai:gpt-4o", **settings).with_tools(look)
    return builder.with_system_prompt("Be short.").with_clock(FakeClock())


def asked(builder: AgentBuilder) -> RunResult:
    """The run that is on the cassette. What is streamed is recorded event by event."""

    async def main() -> RunResult:
        async with builder.build() as agent:
            stream = agent.stream("What is there?")
            async for _ in stream:
                pass
            return stream.result

    return asyncio.run(main())


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'model': 'gpt-4o', 'choices': [choice]})}\n\n"


CALL = {
    "index": 0, "id": "call_a", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'},
}  # fmt: skip
ANSWERS = [
    (429, "application/json", '{"error": {"message": "slow down"}}'),
    (200, "text/event-stream", chunk({"tool_calls": [CALL]}) + chunk({}, "tool_calls") + "data: [DONE]\n\n"),
    (200, "text/event-stream", chunk({"content": "The "}) + chunk({"content": "sky."}, "stop") + "data: [DONE]\n\n"),
]  # fmt: skip


class FarEnd(BaseHTTPRequestHandler):
    """A model that is busy, calls a tool, and answers."""

    def do_POST(self) -> None:
        """The next answer."""
        self.rfile.read(int(self.headers["content-length"]))
        status, kind, text = ANSWERS.pop(0)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def record_cassette(path: Path) -> RunResult:
    """Record a conversation with a model that is not there."""
    with HTTPServer(("127.0.0.1", 0), FarEnd) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            with Cassette(path):
                return asked(openai(base_url=address, api_key="sk-of-somebody-0123456789"))
        finally:
            server.shutdown()


def play_cassette(path: Path) -> RunResult:
    """Play it."""
    with Cassette(path, mode="replay"):
        return asked(openai())


def with_pins(path: Path) -> RunResult:
    """A run with the tools of a server, as far as they are what was pinned."""

    async def main() -> RunResult:
        server = McpServer.stdio(sys.executable, [str(HERE / "plain_server.py")], name="plain")
        async with McpServers(server, pins=path) as mcp:
            turns = [
                calls(call("mcp__plain__echo", text="a"), call("mcp__plain__keep", text="b")),
                say("Done."),
            ]
            agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(mcp).build()
            return await agent.run("Go.")

    return asyncio.run(main())
