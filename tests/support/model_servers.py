"""Servers on loopback that answer as Ollama and LM Studio do, and remember what they were asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


class Asked(list[tuple[str, str, dict[str, str]]]):
    """Each request: method, path, headers in lower case."""

    port = 0

    @property
    def lines(self) -> list[str]:
        """Method and path of each."""
        return [f"{method} {path}" for method, path, _ in self]


@contextmanager
def serve(answer: Answer) -> Iterator[Asked]:
    """A server that answers so."""
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked.append((self.command, self.path, headers))
            self.close_connection = True
            answer(self)

        do_GET = do_HEAD = do_POST = _do

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:  # a client that leaves is no news
            pass

    server = Server(("127.0.0.1", 0), Handler)
    asked.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()


def reply(
    handler: BaseHTTPRequestHandler,
    body: bytes | str = b"",
    status: int = 200,
    kind: str = "application/json",
    **headers: str,
) -> None:
    """Send a whole answer."""
    data = body.encode() if isinstance(body, str) else body
    handler.send_response(status)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **given}.items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(data)


def ollama(*models: str, says: str = "Hello from Ollama.") -> Answer:
    """Its list of models, and one answer to everything."""
    listed = [
        {"id": name, "object": "model", "created": 1763370000, "owned_by": "library"}
        for name in models
    ]

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/v1/models":
            reply(handler, json.dumps({"object": "list", "data": listed}))
            return
        length = int(handler.headers["Content-Length"])
        asked = json.loads(handler.rfile.read(length))
        common = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1763370000,
            "model": asked["model"],
            "system_fingerprint": "fp_ollama",
        }
        delta = {"role": "assistant", "content": says}
        events = [
            {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {
                **common,
                "choices": [],
                "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
            },
        ]
        text = "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"
        reply(handler, text, kind="text/event-stream")

    return answer
