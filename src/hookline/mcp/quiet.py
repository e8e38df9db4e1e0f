"""What the libraries below log while they speak to a server, without the keys that were given to it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import httpx2

from hookline.mcp.server import Endpoint, McpServer

_TALKERS = ("httpx2", "mcp.client.streamable_http")
_FORMATTER = logging.Formatter()


class _Hiding(logging.Filter):
    """Lets everything pass, and hides what must not be read."""

    def __init__(self, server: McpServer, target: Endpoint) -> None:
        super().__init__()
        self._hide = server.hide
        self._address = str(httpx2.URL(target.url))  # as it is sent: other than it was written
        self._shown = target.shown

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._hidden(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = self._hidden(_FORMATTER.formatException(record.exc_info))
            record.exc_info = None
        return True

    def _hidden(self, text: str) -> str:
        return self._hide(text.replace(self._address, self._shown))


@contextlib.contextmanager
def quiet_about(server: McpServer, target: Endpoint) -> Iterator[None]:
    """While this lasts, the keys of a server are not in what is logged about it."""
    hiding = _Hiding(server, target)
    loggers = [logging.getLogger(name) for name in _TALKERS]
    for logger in loggers:
        logger.addFilter(hiding)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hiding)
