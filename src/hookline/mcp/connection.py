"""A server: one connection to it, and what its tools see, which connects it when needed and again when it went away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl, ValidationError

from hookline import __version__
from hookline.errors import ToolError, ToolSourceError
from hookline.mcp.pins import fingerprint
from hookline.mcp.process import ServerProcess
from hookline.mcp.questions import CURRENT, ServerQuestions
from hookline.mcp.server import Endpoint, McpServer
from hookline.tools import ToolContext

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
        """Set when it has ended, for any reason."""
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
            event_hooks={"response": [self._note_status]},
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
            raise await self._explain_error(
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
                await self._wait_until_over(greeted)
        finally:
            self.lost.set()

    async def _wait_until_over(self, greeted: asyncio.Future[None]) -> None:
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
            return ToolSourceError(f"{self.server.who}: {error.message}", remedy=error.remedy)
        target = self.server.target
        if not isinstance(target, Endpoint):
            has_lost_arguments = (
                isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED
            )
            why = (
                await self.how_it_ended()
                if has_lost_arguments
                else f"it answered the first message with an error ({error})"
            )
            return await self._explain_error(why, "See whether it starts from a terminal.")
        if self._status in (401, 403):
            return await self._explain_error(
                f"it answered HTTP {self._status}: the key is missing or wrong",
                "Give its key in headers={'Authorization': 'Bearer ...'}.",
            )
        said = f"HTTP {self._status}" if self._status >= 400 else str(error) or type(error).__name__
        return await self._explain_error(
            f"{target.shown_address} cannot be reached as an MCP server ({said})",
            "See that it runs, and that the address is that of its MCP endpoint.",
        )

    def _reason(self) -> BaseException:
        """The error that the task ended with; the first one of a group."""
        if self._task.cancelled():
            return ToolSourceError("the start of the connection was interrupted.")
        error = self._task.exception() or ToolSourceError("it went away.")
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return error

    async def _explain_error(self, problem: str, remedy: str) -> ToolSourceError:
        last = "" if self._process is None else " / ".join(self._process.last_said)
        said = f" It said last: {self.server.hide(last)}" if last else ""
        return ToolSourceError(
            f"{self.server.who}: {self.server.hide(problem)}.{said}", remedy=remedy
        )

    # --- what it sends by itself -------------------------------------------------------------------

    def _log_line(self, line: str) -> None:
        _log.info("%s: %s", self.server.name, self.server.hide(line))

    async def _log_message(self, params: types.LoggingMessageNotificationParams) -> None:
        level = _LEVELS.get(params.level, logging.WARNING)
        _log.log(level, "%s: %s", self.server.name, self.server.hide(str(params.data)))

    async def _on_notification(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    async def _note_status(self, response: httpx2.Response) -> None:
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
                _log.debug("%s: changes of its tools are not reported: %s", self.server.name, why)
            subscribed.set()
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


# --- logs without keys -------------------------------------------------------------------------


_TALKERS = ("httpx2", "mcp.client.streamable_http")
_FORMATTER = logging.Formatter()


class _KeyFilter(logging.Filter):
    """Lets everything pass, with keys hidden."""

    def __init__(self, server: McpServer, target: Endpoint) -> None:
        super().__init__()
        self._hide = server.hide
        self._address = str(httpx2.URL(target.url))  # as it is sent: other than it was written
        self._shown = target.shown_address

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._hide_address(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = self._hide_address(_FORMATTER.formatException(record.exc_info))
            record.exc_info = None
        return True

    def _hide_address(self, text: str) -> str:
        return self._hide(text.replace(self._address, self._shown))


@contextlib.contextmanager
def quiet_about(server: McpServer, target: Endpoint) -> Iterator[None]:
    """Keep the keys of a server out of what the libraries below log about it."""
    key_filter = _KeyFilter(server, target)
    loggers = [logging.getLogger(name) for name in _TALKERS]
    for logger in loggers:
        logger.addFilter(key_filter)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(key_filter)


# --- the server as its tools see it -------------------------------------------------------------


T = TypeVar("T")
_MOST_PAGES = 100
"""Pages of a list, at most: a server may never end it."""


async def all_pages(page: Callable[..., Awaitable[Any]], field: str) -> list[Any]:
    """All pages of a list that a server gives in pages."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        result = await page(cursor=cursor)
        found += getattr(result, field)
        cursor = result.next_cursor
        if cursor is None:
            break
    return found


class Connection:
    """One server, connected as long as its tools may be called."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.tools: dict[str, types.Tool] = {}
        """What the server offers, as it said last, by the server's own names."""
        self.capabilities = types.ServerCapabilities()
        """What else it can do."""
        self._questions = ServerQuestions(server)
        self._link: Link | None = None
        self._is_stale = True
        self._is_doubted = False
        """A call was cancelled: the server may be hung, which is checked before the next one."""
        self._is_closed = False
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ready(self) -> None:
        """Connect the server, and read its list of tools, if either is needed."""
        await self._connect_once()

    async def close(self) -> None:
        self._is_closed = True
        link, self._link = self._link, None
        if link is not None:
            await link.end()

    def fingerprint(self, tool: str) -> str:
        """What the server says about a tool now, as a hash; empty when it does not offer it."""
        offered = self.tools.get(tool)
        return "" if offered is None else fingerprint(offered)

    async def call(
        self, tool: str, arguments: dict[str, Any], context: ToolContext | None
    ) -> types.CallToolResult:
        """Call a tool of the server."""
        seen = self.fingerprint(tool)
        await self._connect_once()
        if self.fingerprint(tool) != seen:  # the hooks judged another tool than this one
            raise ToolError(
                f"MCP server '{self.server.name}' has changed its tool '{tool}' just now; it was not run.",
                remedy="Call it again if it still does what you need.",
            )

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if context is not None:
                context.progress({"progress": progress, "total": total, "message": message})

        return await self.request(
            lambda client: client.call_tool(tool, arguments, progress_callback=on_progress),
            f"tool '{tool}'",
            context,
        )

    async def request(
        self,
        send: Callable[[Client], Awaitable[T]],
        what: str,
        context: ToolContext | None = None,
    ) -> T:
        """Send a request. One that the server refused because it had forgotten our session is sent again."""
        for is_last in (False, True):
            link = await self._connect_once()
            with self._questions.during_call(context) as attempt:
                try:
                    return await send(link.client)
                except asyncio.CancelledError:
                    self._is_doubted = True
                    raise
                except MCPError as error:
                    if is_last or not attempt.is_refused:
                        # Without its cause, which has the keys that are hidden.
                        raise await self._explain_error(link, error, what) from None
                except (RuntimeError, ValidationError) as error:
                    raise self._protocol_error(what, error) from None
            await link.end()
        raise AssertionError("the last attempt returns or raises")

    # --- being connected ------------------------------------------------------------------------------

    async def _connect_once(self) -> Link:
        """A live link, and a current list of tools."""
        self._check_place()
        async with self._turn:
            if self._is_doubted and not self._questions.are_possible:
                self._is_doubted, self._is_stale = (
                    False,
                    True,
                )  # an answer shows that it is not hung
            link = self._link
            if link is not None and not link.is_over and await self._refresh(link):
                return link
            return await self._reconnect()

    async def _refresh(self, link: Link) -> bool:
        """Bring the list of tools up to date; False if the server is hung and no other call waits for it."""
        limit = self.server.connect_timeout
        if self.server.timeout is not None:
            # A call that finds it hung has time left to start it again.
            limit = min(limit, self.server.timeout / 2)
        try:
            await self._list(link, limit)
        except TimeoutError:
            if self._questions.are_possible:
                raise self._no_list(limit) from None
            return False
        return True

    async def _reconnect(self) -> Link:
        link, self._link = self._link, None
        if link is not None:
            await link.end()
        self._is_stale = True
        link = Link(self.server, self._questions, self._tools_changed)
        await link.start()
        self._link = link
        self.capabilities = link.client.server_capabilities
        try:
            await self._list(link, self.server.connect_timeout)
        except TimeoutError:
            raise self._no_list(self.server.connect_timeout) from None
        return link

    async def _list(self, link: Link, limit: float) -> None:
        if not self._is_stale:
            return
        self._is_stale = False  # before we ask: it may change again while we do
        try:
            async with asyncio.timeout(limit):
                self.tools = await self._list_tools(link)
        except BaseException:
            self._is_stale = True
            raise

    def _no_list(self, limit: float) -> ToolSourceError:
        return ToolSourceError(
            f"{self.server.who} did not list its tools within {limit:g} s.",
            remedy="Give it more time with connect_timeout=, or see why it does not answer.",
        )

    def _check_place(self) -> None:
        if self._is_closed:
            raise ToolSourceError(
                f"{self.server.who} is not connected any more.",
                remedy="Run the agent inside the `async with` block of its McpServers.",
            )
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if loop is not self._loop:
            raise ToolSourceError(
                f"{self.server.who} is connected in another event loop than this run is in.",
                remedy="Use `await agent.run(...)` inside the `async with` block, not run_sync.",
            )

    def _tools_changed(self) -> None:
        self._is_stale = True

    async def _list_tools(self, link: Link) -> dict[str, types.Tool]:
        if link.client.server_capabilities.tools is None:
            return {}
        what = "the list of its tools"
        try:
            tools = await all_pages(link.client.list_tools, "tools")
        except MCPError as error:
            raise await self._explain_error(link, error, what) from None
        except ValidationError as error:
            raise self._protocol_error(what, error) from None
        return {tool.name: tool for tool in tools}

    async def _explain_error(self, link: Link, error: MCPError, what: str) -> ToolError:
        if link.is_cut_by(error):
            return ToolSourceError(
                f"{self.server.who} was lost during {what} ({await link.how_it_ended()}); what it did is not known.",
                remedy="The next call connects to it again.",
            )
        return ToolError(f"{self.server.who}: {self.server.hide(error.message)}")

    def _protocol_error(self, what: str, error: Exception) -> ToolSourceError:
        said = self.server.hide(str(error))
        return ToolSourceError(
            f"{self.server.who} answered {what} with something that is not in the protocol: {said}",
            remedy="The authors of the server have to fix that.",
        )
