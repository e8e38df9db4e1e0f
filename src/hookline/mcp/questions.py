"""Questions of a server to the person: they go to the approver of the run whose call made it ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mcp_types as types

from hookline.mcp.server import McpServer, tool_name
from hookline.state import Answer, Decision, ToolCall, thaw
from hookline.tools import ToolContext
from hookline.tools.json_schema import problems


class Attempt:
    """A request in progress. The SDK passes the context variable on to the tasks that work for it."""

    __slots__ = ("asking", "context", "is_refused")

    def __init__(self, context: ToolContext | None = None) -> None:
        self.asking: set[asyncio.Task[Any]] = set()
        """Questions of the server to the person because of it: they end with it."""
        self.context = context
        """The tool call that it is made for, if any."""
        self.is_refused = False
        """The server did not know our session, and has not looked at the request."""


CURRENT: ContextVar[Attempt | None] = ContextVar("hookline_mcp_attempt", default=None)


_log = logging.getLogger("hookline.mcp")
_DECLINED = types.ElicitResult(action="decline")


class ServerQuestions:
    """The questions of one server, and the calls they may be about."""

    def __init__(self, server: McpServer) -> None:
        self._server = server.name
        self._hide = server.hide
        self._running: list[Attempt] = []

    @property
    def are_possible(self) -> bool:
        """Whether a request is in progress, which the server may ask something about."""
        return bool(self._running)

    @contextmanager
    def during_call(self, context: ToolContext | None) -> Iterator[Attempt]:
        """While this lasts, questions of the server may be about this call."""
        attempt = Attempt(context)
        token = CURRENT.set(attempt)
        self._running.append(attempt)
        try:
            yield attempt
        finally:
            for task in attempt.asking:
                task.cancel()
            self._running.remove(attempt)
            CURRENT.reset(token)

    async def answer(
        self,
        context: object,  # noqa: ARG002 - the SDK passes it, and it does not say whose call it is
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult:
        """Ask the person. Where nobody can be asked, the answer is no."""
        attempt = self._find_call()
        if attempt is None or attempt.context is None:
            asked = self._hide(params.message)
            _log.warning("%s asked %r, but there is nobody to ask", self._server, asked)
            return _DECLINED
        ask = (
            self._ask_to_visit(attempt.context, params)
            if isinstance(params, types.ElicitRequestURLParams)
            else self._ask_to_fill_in(attempt.context, params)
        )
        # A call that is cancelled takes its questions with it, whoever's task they are in.
        asking = asyncio.create_task(ask)
        attempt.asking.add(asking)
        try:
            await asyncio.wait([asking])
            return types.ElicitResult(action="cancel") if asking.cancelled() else asking.result()
        finally:
            attempt.asking.discard(asking)
            asking.cancel()

    def _find_call(self) -> Attempt | None:
        """The call that made the server ask.

        Over HTTP the request says so. Over pipes it is the call in progress, or any of them if they all belong to one
        run: one person answers for all of it.
        """
        attempt = CURRENT.get()
        if attempt is not None:
            return attempt
        running = [each for each in self._running if each.context is not None]
        runs = {each.context.state.run_id for each in running if each.context is not None}
        return running[-1] if len(runs) == 1 else None

    async def _ask_to_visit(
        self, context: ToolContext, params: types.ElicitRequestURLParams
    ) -> types.ElicitResult:
        reason = f"the server asks you to open {params.url}: {params.message}"
        decision = await self._ask(context, "visit", {"url": params.url}, reason)
        accepted = decision.answer is not Answer.DENY
        return types.ElicitResult(action="accept") if accepted else _DECLINED

    async def _ask_to_fill_in(
        self, context: ToolContext, params: types.ElicitRequestFormParams
    ) -> types.ElicitResult:
        schema = params.requested_schema
        fields: dict[str, Any] = schema.get("properties", {})
        form = {name: field.get("default") for name, field in fields.items()}
        reason = f"the server asks: {params.message} ({_describe_form(schema)})"
        decision = await self._ask(context, "fill_in", form, reason)
        if decision.answer is Answer.DENY:
            return _DECLINED
        filled = {**form, **thaw(decision.args or {})}
        content = {name: value for name, value in filled.items() if value is not None}
        wrong = problems(schema, content)
        if wrong:
            _log.warning(
                "the answer to the MCP server %s does not fit its form: %s",
                self._server,
                "; ".join(wrong),
            )
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content=content)

    async def _ask(
        self, context: ToolContext, what: str, args: Mapping[str, Any], reason: str
    ) -> Decision:
        question = ToolCall("", tool_name(self._server, what), dict(args))
        return await context.ask(question, reason, asked_by=f"MCP server '{self._server}'")


def _describe_form(schema: Mapping[str, Any]) -> str:
    """The fields of a form in words, for a person who has to fill it in."""
    required = schema.get("required", ())
    return ", ".join(
        f"{name}: {_kind(field)}{'' if name in required else ', optional'}"
        for name, field in schema.get("properties", {}).items()
    )


def _kind(field: Mapping[str, Any]) -> str:
    choices = field.get("enum") or [each.get("const") for each in field.get("oneOf", ())]
    kind = f"one of {', '.join(map(str, choices))}" if choices else str(field.get("type", "text"))
    title = field.get("description") or field.get("title")
    return f"{kind} ({title})" if title else kind
