"""A hub on loopback that answers as Hugging Face's does: the metadata in headers, the file from another host."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from model_servers import Asked, reply, serve

COMMIT = "a1" * 20
CONTENT = b"GGUF" + bytes(range(256)) * 12_000
"""Three megabytes."""
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = "tiny.Q4_K_M.gguf"


class Hub:
    """What the hub has, and how it fails."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.etag = f'"{SHA256}"'
        self.size = str(len(CONTENT))
        """What it says about the size."""
        self.error: tuple[int, str] | None = None
        self.mirror_of = ""
        """Another hub that everybody is sent to."""
        self.cut_at = 0
        """How many bytes are sent before the connection is cut, once."""
        self.stall_at = 0
        """How many bytes are sent before nothing more comes."""
        self.end = threading.Event()
        self.asked = Asked()
        self.storage = Asked()
        """What was asked of the host with the files."""

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.asked.port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """`/OWNER/REPO/resolve/REVISION/FILE`: metadata, and where the file is."""
        path = handler.path
        if self.mirror_of:
            reply(handler, status=307, Location=self.mirror_of + path)
            return
        found = re.fullmatch(r"/acme/tiny-GGUF/resolve/([^/]+)/(.+)", path)
        if self.error is not None or found is None or found[2] != FILE:
            status, code = self.error or (404, "EntryNotFound" if found else "RepoNotFound")
            message = {"X-Error-Code": code, "X-Error-Message": "no"}
            reply(handler, b"", status, **message)
            return
        reply(
            handler,
            status=302,
            kind="text/plain",
            Location=f"http://127.0.0.1:{self.storage.port}/blob?signature=1",
            X_Repo_Commit=COMMIT,
            X_Linked_Size=self.size,
            X_Linked_Etag=self.etag,
            ETag='"pointer"',
        )

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        """The file, or the rest of it."""
        wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        start = int(wanted[1]) if wanted else 0
        body, total = self.content[start:], len(self.content)
        handler.send_response(206 if wanted else 200)
        handler.send_header("Content-Length", str(len(body)))
        if wanted:
            handler.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        handler.end_headers()
        stop = self.cut_at or self.stall_at
        handler.wfile.write(body[:stop] if stop else body)
        if self.stall_at:
            self.end.wait(120)
        self.cut_at = 0


@contextmanager
def loopback_hub() -> Iterator[Hub]:
    """A hub, and the host with its files."""
    hub = Hub()
    with serve(hub.answer) as hub.asked, serve(hub.send) as hub.storage:
        try:
            yield hub
        finally:
            hub.end.set()
