"""An MCP server of the older protocol over HTTP, in the process of the test: it has sessions, and can forget them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SessionServer:
    """Counts what it is asked. `with SessionServer() as server:` it listens at `server.url`."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.greeted = 0
        self.calls: list[str] = []
        self.unknown_status = 404
        self.lists = threading.Event()
        """While it is cleared, requests for the tools are not answered."""
        self.lists.set()
        self.is_asked_to_list = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/mcp"

    def __enter__(self) -> SessionServer:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of a session that is known."""
        if message["method"] == "tools/list":
            self.is_asked_to_list.set()
            self.lists.wait(10)
            schema = {"type": "object", "properties": {"text": {"type": "string"}}}
            return {"tools": [{"name": "echo", "description": "Again.", "inputSchema": schema}]}
        self.calls.append(message["params"]["arguments"]["text"])
        return {"content": [{"type": "text", "text": self.calls[-1]}]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._send(405, None)

            def do_DELETE(self) -> None:
                server.sessions.discard(self.headers["mcp-session-id"])
                self._send(200, None)

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                session = self.headers.get("mcp-session-id")
                if message["method"] == "initialize":
                    server.greeted += 1
                    session = f"session-{server.greeted}"
                    server.sessions.add(session)
                    text = {
                        "protocolVersion": message["params"]["protocolVersion"],
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "sessions", "version": "1"},
                    }
                    self._send(200, {"id": message["id"], "result": text}, session)
                elif session not in server.sessions:
                    error = {"code": -32000, "message": "no such session"}
                    self._send(server.unknown_status, {"id": message.get("id"), "error": error})
                elif "id" in message:
                    self._send(200, {"id": message["id"], "result": server.answer(message)})
                else:
                    self._send(202, None)

            def _send(self, status: int, body: dict[str, Any] | None, session: str = "") -> None:
                content = b"" if body is None else json.dumps({"jsonrpc": "2.0", **body}).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                if session:
                    self.send_header("mcp-session-id", session)
                self.end_headers()
                self.wfile.write(content)

        return Handler
