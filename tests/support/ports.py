"""Ports for servers that cannot choose one themselves."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port() -> int:
    """A port that nobody uses now.

    Not one of those that the system gives to clients, from 32768 on: before the server listens there, or while it is
    started again, a connection of another test would have it.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
