"""One request on its way to a server: who makes it, and what became of it on the way."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from hookline.tools import ToolContext


class Attempt:
    """A request that is on its way. The SDK carries the context variable along, into the tasks that work for it."""

    __slots__ = ("asking", "context", "is_refused")

    def __init__(self, context: ToolContext | None = None) -> None:
        self.asking: set[asyncio.Task[Any]] = set()
        """Questions to the person that the server has because of it: they end with it."""
        self.context = context
        """The tool call it is made for, if it is made for one."""
        self.is_refused = False
        """The server knew nothing of our session, and did not so much as look at the request."""


CURRENT: ContextVar[Attempt | None] = ContextVar("hookline_mcp_attempt", default=None)
