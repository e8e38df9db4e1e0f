"""Chromium without a window, driven over its own pipe: what a page shows, runs and asks for."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)
"""Chromium, if it is installed: scripts/system_tools.py does that."""
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--remote-debugging-pipe", "--hide-scrollbars"),
)
_START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(pipe), fcntl.F_DUPFD, 10) for pipe in sys.argv[1:3]]
for place, pipe in enumerate(pipes, start=3):
    os.dup2(pipe, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3, and writes answers to 4."""


class Chromium:
    """One page at a time. Everything that it asks for and logs is kept."""

    def __init__(self) -> None:
        assert PROGRAM is not None
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        ours_out, theirs_in = os.pipe()[::-1]
        theirs_out, ours_in = os.pipe()[::-1]
        profile = f"--user-data-dir={self._profile.name}"
        pipes = (str(theirs_in), str(theirs_out))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *pipes, PROGRAM, *_FLAGS, profile, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._number, self._buffer, self._session = 0, b"", ""
        self.requests: list[str] = []
        """The addresses that the page asked for, itself included."""
        self.logged: list[str] = []
        """What Chromium says about the page: violations of its policy, errors."""
        self._loaded = 0
        self._open_tab()

    def _open_tab(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        for answer in self._messages():
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
        raise AssertionError("Chromium has ended")

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" in self._buffer:
                one, _, self._buffer = self._buffer.partition(b"\0")
                message = json.loads(one)
                self._note(message.get("method", ""), message.get("params", {}))
                yield message
            more = os.read(self._in.fileno(), 1 << 20)
            if not more:
                return
            self._buffer += more

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded":
            self.logged.append(params["entry"]["text"])
        elif method == "Page.loadEventFired":
            self._loaded += 1
        elif method == "Page.javascriptDialogOpening":
            self.logged.append(f"dialog: {params['message']}")

    def open(self, path: Path, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
        """Open a file, and wait until it is loaded."""
        self.requests, self.logged, self._loaded = [], [], 0
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Page.navigate", url=path.as_uri())
        messages = self._messages()
        while not self._loaded:
            next(messages)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page. The page's own policy does not hold for it."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """What the page looks like."""
        made = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))

    def close(self) -> None:
        """End it, and wait until all of its processes are gone: their profile is removed."""
        self._session = ""
        self.send("Browser.close")
        for _ in self._messages():
            pass
        self._process.wait()
        self._out.close()
        self._in.close()
        self._profile.cleanup()
