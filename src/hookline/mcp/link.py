"""One connection to a server, from the greeting to its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl

from hookline import __version__
from hookline.errors import ToolSourceError
from hookline.mcp.process import ServerProcess
from hookline.mcp.questions import CURRENT, ServerQuestions
from hookline.mcp.server import Endpoint, McpServer

_log = logging.getLogger("hookline.mcp")
_CONNECT = 30.0
_FAREWELL = 15.0
"""Seconds to end the connection: more than a process has to exit, and a limit for an address that is silent."""
_ANSWER = 10.0
"""Seconds a server has to say yes to a subscription."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
"""Seconds before a lost subscription is asked for again: at first, and after many times."""
_FORGOTTEN = (400, 404)
"""How servers answer a session they do not know: 404, says the protocol, and some say 400."""
_CUT = ("Connection closed", "SSE stream")
"""How the messages of the SDK begin that say that a connection was cut."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO}


class Link:
    """A client of the SDK in its own task: the task that enters it must also leave it."""

    def __init__(
        self, server: McpServer, questions: ServerQuestions, on_change: Callable[[], None]
    ) -> None:
        self.server = server
        self.lost = asyncio.Event()
        """Set when it has ended, whoever ended it."""
        self._on_change = on_change
        self._leave = asyncio.Event()
        self._status = 0
        self._process: ServerProcess | None = None
        self._http: httpx2.AsyncClient | None = None
        self.client = Client(
            self._transport(),
            elicitation_callback=questions.answer,
            list_roots_callback=self._roots if server.roots else None,
            logging_callback=self._log_message,
            message_handler=self._on_notification,
            client_info=types.Implementation(name="hookline", version=__version__),
            cache=None,  # what is asked for again is asked for because it may have changed
        )

    def _transport(self) -> Any:
        target = self.server.target
        if not isinstance(target, Endpoint):
            self._process = ServerProcess(target, self._log_line)
            return self._process
        self._http = httpx2.AsyncClient(
            headers=dict(target.headers),
            # Only connecting has a limit here: how long an answer may take is the tool's own.
            timeout=httpx2.Timeout(None, connect=_CONNECT),
            event_hooks={"response": [self._answered]},
        )
        return streamable_http_client(target.url, http_client=self._http)

    # --- its life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and greet. If that fails, nothing is left behind."""
        greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(greeted), name=f"mcp:{self.server.name}")
        try:
            async with asyncio.timeout(self.server.connect_timeout):
                await asyncio.wait({greeted, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            self._task.cancel()
            await self.end()
            raise await self._explained(
                f"it did not answer within {self.server.connect_timeout:g} s",
                "Give it more time with connect_timeout=, or see whether it starts from a terminal.",
            ) from None
        except asyncio.CancelledError:
            self._task.cancel()
            await self.end()
            raise
        if not greeted.done():
            raise await self._cannot_connect()

    async def end(self) -> None:
        """End the connection, and all of its tasks."""
        self._leave.set()
        _, lasting = await asyncio.wait([self._task], timeout=_FAREWELL)
        if lasting:
            self._task.cancel()
            await asyncio.wait(lasting)
        if not self._task.cancelled() and self._task.exception() is not None:
            ending = self.server.hide(repr(self._task.exception()))
            _log.debug("%s: ended with %s", self.server.name, ending)

    async def _live(self, greeted: asyncio.Future[None]) -> None:
        CURRENT.set(None)  # it serves many calls, not only the one in which it was started
        try:
            async with contextlib.AsyncExitStack() as stack:
                if self._http is not None:
                    assert isinstance(self.server.target, Endpoint)
                    stack.enter_context(quiet_about(self.server, self.server.target))
                    await stack.enter_async_context(self._http)
                await stack.enter_async_context(self.client)
                await self._until_over(greeted)
        finally:
            self.lost.set()

    async def _until_over(self, greeted: asyncio.Future[None]) -> None:
        waiting = [asyncio.create_task(self._leave.wait())]
        if self._process is not None:
            waiting.append(asyncio.create_task(self._process.ended.wait()))
        subscribed = asyncio.Event()
        subscription = asyncio.create_task(self._subscribe(subscribed))
        try:
            # Subscribed before the greeting is done, so that no change of the tools is missed.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ANSWER):
                    await subscribed.wait()
            greeted.set_result(None)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.lost.set()
            for task in (*waiting, subscription):
                task.cancel()
            await asyncio.gather(*waiting, subscription, return_exceptions=True)

    @property
    def is_over(self) -> bool:
        """Whether the server is gone."""
        return self.lost.is_set() or (self._process is not None and self._process.ended.is_set())

    def is_cut_by(self, error: MCPError) -> bool:
        """Whether an error means the end of the connection. Servers use the same code for errors of their own.

        Over HTTP the error may be the first sign of the end.
        """
        said = error.code == types.CONNECTION_CLOSED and error.message.startswith(_CUT)
        if self._process is None and said:
            self.lost.set()
        return self.is_over

    async def how_it_ended(self) -> str:
        """Why the server is gone, in words."""
        if self._process is None:
            return "the connection was cut"
        return await self._process.how_it_ended()

    # --- what went wrong ----------------------------------------------------------------------------

    async def _cannot_connect(self) -> ToolSourceError:
        error = self._reason()
        if isinstance(error, ToolSourceError):
            return ToolSourceError(f"{self._who()}: {error.message}", remedy=error.remedy)
        target = self.server.target
        if not isinstance(target, Endpoint):
            is_gone = isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED
            why = await self.how_it_ended() if is_gone else f"it greeted us with an error ({error})"
            return await self._explained(why, "See whether it starts from a terminal.")
        if self._status in (401, 403):
            return await self._explained(
                f"it answered HTTP {self._status}: it does not know us, or not this key",
                "Give its key in headers={'Authorization': 'Bearer ...'}.",
            )
        said = f"HTTP {self._status}" if self._status >= 400 else str(error) or type(error).__name__
        return await self._explained(
            f"{target.shown} cannot be reached as an MCP server ({said})",
            "See that it runs, and that the address is that of its MCP endpoint.",
        )

    def _reason(self) -> BaseException:
        """The error that the task ended with; the first one of a group."""
        if self._task.cancelled():
            return ToolSourceError("the greeting was interrupted.")
        error = self._task.exception() or ToolSourceError("it went away.")
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return error

    async def _explained(self, problem: str, remedy: str) -> ToolSourceError:
        last = "" if self._process is None else " / ".join(self._process.last_said)
        said = f" It said last: {self.server.hide(last)}" if last else ""
        return ToolSourceError(f"{self._who()}: {self.server.hide(problem)}.{said}", remedy=remedy)

    def _who(self) -> str:
        return f"MCP server '{self.server.name}'"

    # --- what it sends by itself -------------------------------------------------------------------

    def _log_line(self, line: str) -> None:
        _log.info("%s: %s", self.server.name, self.server.hide(line))

    async def _log_message(self, params: types.LoggingMessageNotificationParams) -> None:
        level = _LEVELS.get(params.level, logging.WARNING)
        _log.log(level, "%s: %s", self.server.name, self.server.hide(str(params.data)))

    async def _on_notification(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    async def _answered(self, response: httpx2.Response) -> None:
        """Note the status of every HTTP answer. It runs in the context of the request."""
        self._status = response.status_code
        attempt = CURRENT.get()
        has_session = "mcp-session-id" in response.request.headers
        if attempt is not None and has_session and response.status_code in _FORGOTTEN:
            attempt.is_refused = True

    async def _roots(self, context: object) -> types.ListRootsResult:  # noqa: ARG002 - the SDK passes it
        roots = [Path(root) for root in self.server.roots]
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(root.as_uri()), name=root.name) for root in roots]
        )

    async def _subscribe(self, subscribed: asyncio.Event) -> None:
        """Learn of changed tools. Servers of the newer protocol report them only to clients that subscribe."""
        tools = self.client.server_capabilities.tools
        is_modern = self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not (is_modern and tools is not None and tools.list_changed):
            subscribed.set()
            return
        wait = _FIRST_WAIT
        while True:
            try:
                async with self.client.listen(tools_list_changed=True) as events:
                    wait = _FIRST_WAIT
                    self._on_change()  # there may have been changes before
                    subscribed.set()
                    async for _ in events:
                        self._on_change()
            except (MCPError, SubscriptionLost) as error:
                why = self.server.hide(str(error))
                _log.debug("%s: no news of its tools: %s", self.server.name, why)
            subscribed.set()
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


# --- logs without keys -------------------------------------------------------------------------


_TALKERS = ("httpx2", "mcp.client.streamable_http")
_FORMATTER = logging.Formatter()


class _Hiding(logging.Filter):
    """Lets everything pass, with keys hidden."""

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
    """Keep the keys of a server out of what the libraries below log about it."""
    hiding = _Hiding(server, target)
    loggers = [logging.getLogger(name) for name in _TALKERS]
    for logger in loggers:
        logger.addFilter(hiding)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hiding)
