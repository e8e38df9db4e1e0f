"""An agent as an MCP server: one tool, `run`, which gives the agent a prompt and returns its answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, cast

import anyio
import mcp_types as types
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hookline import __version__
from hookline.agent import Agent, RunResult
from hookline.errors import HooklineError, UsageError
from hookline.journal import (
    ApprovalAsked,
    CallAdmitted,
    ChildStarted,
    Record,
    StepStarted,
    ToolProgress,
)
from hookline.state import Decision, PendingApproval, RunStatus, StopReason, render

_INPUT = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What the agent is to do."}},
    "required": ["prompt"],
    "additionalProperties": False,
}
_MOST_PAUSED = 1000
_PATIENCE = 24 * 3600.0
"""Seconds a person may take to answer a question that was handed to the client."""


class AgentServer:
    """One agent behind the protocol. `server` is the SDK's, to be run over any of its transports."""

    def __init__(
        self, agent: Agent, *, name: str | None = None, description: str | None = None
    ) -> None:
        definition = agent.definition
        listeners = (*definition.listeners, self._hear)
        self._agent = Agent(msgspec.structs.replace(definition, listeners=listeners))
        self._name = name or definition.agent_id
        self._description = (
            description or f"Give the agent '{self._name}' a task and get its answer."
        )
        self._running: dict[str, asyncio.Queue[str | None]] = {}
        self._paused: dict[str, RunResult] = {}
        self.server: Server[Any] = Server(
            self._name,
            version=__version__,
            description=self._description,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        seal = RequestStateSecurity.ephemeral(ttl=_PATIENCE)
        self.server.middleware.append(RequestStateBoundary(seal, default_audience=self._name))

    async def _list(
        self, _ctx: ServerRequestContext[Any], _params: object
    ) -> types.ListToolsResult:
        tool = types.Tool(
            name="run",
            description=self._description,
            input_schema=_INPUT,
            output_schema=OUTPUT,
        )
        return types.ListToolsResult(tools=[tool])

    async def _call(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name != "run":
            raise MCPError(
                types.INVALID_PARAMS, f"there is no tool '{params.name}': the one tool is 'run'."
            )
        client = _ConnectedClient(ctx)
        try:
            if params.request_state is not None:
                return await self._resume_paused(client, params)
            return await self._settle(client, await self._begin(client, params.arguments or {}))
        except HooklineError as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)

    async def _begin(self, client: _ConnectedClient, arguments: dict[str, Any]) -> RunResult:
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or len(arguments) > 1:
            raise MCPError(types.INVALID_PARAMS, "'run' takes one argument, 'prompt', a text.")
        run_id = os.urandom(16).hex()
        return await self._run_with_progress(client, run_id, self._agent.run(prompt, run_id=run_id))

    async def _resume_paused(
        self, client: _ConnectedClient, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Resume a run with the answers of the client. Without all answers it stays paused."""
        paused = self._paused.pop(params.request_state or "", None)
        if paused is None:
            raise MCPError(types.INVALID_PARAMS, "this run does not wait for an answer.")
        decisions = read_decisions(paused.pending, params.input_responses)
        if len(decisions) < len(paused.pending):
            return tool_result_of(paused)
        return await self._settle(client, await self._resume(client, paused, decisions))

    async def _settle(
        self, client: _ConnectedClient, result: RunResult
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Ask the person at the client what the run asks, until it has a result; open questions are in the result."""
        # A run that may not continue for another reason waits too, and asking again would not change that.
        while result.stop_reason is StopReason.APPROVAL_PENDING and client.can_be_asked:
            if client.is_modern:
                return self._ask_in_result(result)
            decisions = await client.ask(result)
            if len(decisions) < len(result.pending):
                break
            result = await self._resume(client, result, decisions)
        return tool_result_of(result)

    def _ask_in_result(self, result: RunResult) -> types.InputRequiredResult:
        """Clients of the newer protocol are not asked: the result says what is missing, and they call again with it."""
        while len(self._paused) >= _MOST_PAUSED:
            del self._paused[next(iter(self._paused))]
        self._paused[result.run_id] = result
        asked = {
            approval.id: types.ElicitRequest(
                params=types.ElicitRequestFormParams(
                    message=question(approval), requested_schema=FORM
                )
            )
            for approval in result.pending
        }
        return types.InputRequiredResult(input_requests=dict(asked), request_state=result.run_id)

    # --- runs and their clients -----------------------------------------------------------

    def _resume(
        self, client: _ConnectedClient, paused: RunResult, decisions: dict[str, Decision]
    ) -> Coroutine[Any, Any, RunResult]:
        return self._run_with_progress(client, paused.run_id, self._agent.resume(paused, decisions))

    async def _run_with_progress(
        self, client: _ConnectedClient, run_id: str, run: Coroutine[Any, Any, RunResult]
    ) -> RunResult:
        """Run to the end, and report progress to the client. If the client cancels the call, the run is cancelled."""
        news = self._running[run_id] = asyncio.Queue()
        reporter = asyncio.create_task(client.report(news))
        # In a task of its own: a cancelled run must not be interrupted again at every await while it ends.
        running = asyncio.create_task(run)
        try:
            await asyncio.wait([running])
            news.put_nowait(None)
            await reporter
            return running.result()
        finally:
            self._running.pop(run_id, None)
            reporter.cancel()
            if not running.done():
                self._agent.cancel(run_id, "the client cancelled it")
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([running])

    def _hear(self, record: Record) -> None:
        """Report a record of a run or of its children, whose ids begin with the id of the run."""
        news = self._running.get(record.run_id.partition("/")[0])
        said = progress_of(record) if news is not None else ""
        if news is not None and said:
            news.put_nowait(said)


class _ConnectedClient:
    """The client of one call."""

    def __init__(self, ctx: ServerRequestContext[Any]) -> None:
        self._ctx = ctx
        self._reported = 0

    @property
    def is_modern(self) -> bool:
        """Whether it speaks the protocol in which a server does not ask, but returns what is missing."""
        return self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def can_be_asked(self) -> bool:
        """Whether there is a person at the other end who can be asked."""
        asking = types.ClientCapabilities(elicitation=types.ElicitationCapability())
        return self._ctx.session.check_client_capability(asking)

    async def report(self, news: asyncio.Queue[str | None]) -> None:
        """Report progress until there is no more."""
        while (message := await news.get()) is not None:
            self._reported += 1
            await self._ctx.session.report_progress(self._reported, message=message)

    async def ask(self, result: RunResult) -> dict[str, Decision]:
        """Ask the person about each open question, until one of them is not answered."""
        decisions: dict[str, Decision] = {}
        for approval in result.pending:
            try:
                answer = await self._ctx.session.elicit_form(
                    question(approval), FORM, self._ctx.request_id
                )
            except MCPError:  # it said that it can ask, and cannot
                break
            decision = read_decisions([approval], {approval.id: answer})
            if not decision:
                break
            decisions |= decision
        return decisions


# --- over a wire ----------------------------------------------------------------------------------


async def serve_stdio(
    agent: Agent, *, name: str | None = None, description: str | None = None
) -> None:
    """Serve an agent over this process's standard input and output, until the input ends. Prints go to its stderr."""
    server = AgentServer(agent, name=name, description=description).server
    with _separate_streams() as (lines, out):
        async with stdio_server(cast("anyio.AsyncFile[str]", lines), out) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(
    agent: Agent,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    name: str | None = None,
    description: str | None = None,
    on_listening: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve an agent over streamable HTTP, until this is interrupted. `on_listening` gets the address.

    Callers are not checked: everyone who reaches the address can use the agent.
    """
    import socket

    import uvicorn

    app = AgentServer(agent, name=name, description=description).server.streamable_http_app(
        host=host
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:  # the latter for what can be no name of a host
        why = str(getattr(error, "strerror", error)).partition(" (while ")[0]
        raise UsageError(
            f"it is not possible to listen at host '{host}', port {port} ({why}).",
            remedy="Give an address of this machine and a port that is free; port 0 takes one.",
        ) from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        on_listening(f"http://{shown}:{listening.getsockname()[1]}/mcp")
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
        await uvicorn.Server(settings).serve(sockets=[listening])


# --- messages to the client --------------------------------------------------------------------


_LONGEST = 500

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {
            "type": "string",
            "enum": ["allow", "deny"],
            "title": "May it?",
        },
        "reason": {"type": "string", "title": "Why", "description": "The agent reads this."},
    },
    "required": ["answer"],
}
"""The form for a person who is asked about a call."""

OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The agent's answer."},
        "status": {"type": "string", "enum": [status.value for status in RunStatus]},
        "why": {"type": "string", "description": "Why the run ended."},
        "run_id": {"type": "string"},
        "steps": {"type": "integer"},
        "pending": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What a person would have to allow for the run to continue.",
        },
    },
    "required": ["text", "status", "why", "run_id", "steps", "pending"],
}


def progress_of(record: Record) -> str:
    """A record as a progress message; empty if it is of no interest to the client."""
    match record:
        case StepStarted():
            return f"step {record.step + 1}"
        case CallAdmitted():
            return f"calls {record.call.name}"
        case ToolProgress():
            return _cut(f"{record.name}: {render(record.message)}")
        case ApprovalAsked(approval=PendingApproval() as approval):
            return f"asks whether it may call {approval.tool_call.name}"
        case ChildStarted():
            return f"starts {record.name}"
        case _:
            return ""


def question(approval: PendingApproval) -> str:
    """A call that waits for a person, in words."""
    call = approval.tool_call
    return (
        f"May the agent call {call.name} with {_cut(render(call.args))}? "
        f"{approval.asked_by} asks: {approval.reason}"
    )


def read_decisions(
    approvals: Iterable[PendingApproval], answers: Mapping[str, object] | None
) -> dict[str, Decision]:
    """The decisions in the answers to the form; no answer is no decision."""
    decisions: dict[str, Decision] = {}
    for approval in approvals:
        answer = (answers or {}).get(approval.id)
        if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
            continue
        content = answer.content or {}
        reason = str(content.get("reason") or "")
        yes = answer.action == "accept" and content.get("answer") == "allow"
        decisions[approval.id] = Decision.allow(reason) if yes else Decision.deny(reason)
    return decisions


def tool_result_of(result: RunResult) -> types.CallToolResult:
    """The result of a run as the result of the tool. A run that has no answer to give is an error."""
    is_error = result.status not in (RunStatus.COMPLETED, RunStatus.STOPPED)
    pending = [question(approval) for approval in result.pending]
    text = result.text
    if result.status is not RunStatus.COMPLETED:
        text = "\n".join(part for part in (text, f"[{result.explain()}]", *pending) if part)
    structured = {
        "text": result.text,
        "status": result.status.value,
        "why": result.explain(),
        "run_id": result.run_id,
        "steps": len(result.steps),
        "pending": pending,
    }
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=structured, is_error=is_error
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# --- the standard input and output of this process ------------------------------------------------


@contextlib.contextmanager
def _separate_streams() -> Iterator[tuple[AsyncIterator[bytes], anyio.AsyncFile[str]]]:
    """The lines of standard input, and standard output: what tools read and print must not reach the client.

    The SDK separates them too, but not if `sys.stdout` is redirected, and it reads in a thread that must return before
    the process can end: it would wait for one more message.
    """
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            out = open(outgoing, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - restored below
            yield _read_lines(incoming), anyio.wrap_file(out)
    finally:
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)


async def _read_lines(incoming: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    def work() -> None:
        with open(incoming, "rb", closefd=False) as file, contextlib.suppress(RuntimeError):
            for line in itertools.chain(file, (b"",)):  # an error: nobody reads any more
                loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=work, name="hookline:stdin", daemon=True).start()
    while line := await lines.get():
        if line.strip():
            yield line
