"""Trials of hooks: what each would answer to a call, without a run."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from hookline.command_hooks.batch import outcome_of
from hookline.command_hooks.capability import CommandHooks
from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.handler import Handler, RunFacts
from hookline.hooks import Point
from hookline.lifecycle import HookPoint, ToolHookContext, point_named
from hookline.state import AgentState, ToolCall, ToolResult


class HookTrial(msgspec.Struct, frozen=True):
    """What one hook would answer."""

    hook: str
    event: str
    source: str
    """The file; empty for a hook of the program itself."""
    matched: bool
    verdict: str = ""
    """`proceed`, `allow`, `ask`, `block`, `stop` or `failed`; empty if it was not asked."""
    reason: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    updated_input: dict[str, Any] | None = None
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.matched:
            return f"{self.hook}: not asked"
        return f"{self.hook}: {self.verdict}{f' ({self.reason})' if self.reason else ''}"


async def try_hooks(
    call: ToolCall,
    hooks: CommandHooks,
    *,
    point: str | Point[Any] = HookPoint.BEFORE_TOOL_USE,
    result: ToolResult | None = None,
) -> list[HookTrial]:
    """What each hook at a point of tools would answer to a call; hooks that are not asked are in the list, too.

    A hook of a subagent or a skill answers as it would there. The hooks really run, with all that they do. After the
    tool, `result` is the tool's result.
    """
    at = point_named(point)
    execution = None
    if at == HookPoint.AFTER_TOOL_USE:
        execution = result or ToolResult("", call_id=call.id, name=call.name)
    state = AgentState(run_id="try", session_id="try")
    ctx = ToolHookContext(point=at, state=state, tool_call=call, execution=execution)
    asked = hooks.at(at)
    dialects = {handler.source.dialect for handler in asked}
    facts = {name: hooks.runner.written_facts(ctx, name) for name in dialects}
    trials = (_try(each, hooks, ctx, facts[each.source.dialect]) for each in asked)
    return list(await asyncio.gather(*trials))


async def _try(
    handler: Handler, hooks: CommandHooks, ctx: ToolHookContext, facts: RunFacts
) -> HookTrial:
    about = {"hook": handler.name, "event": handler.event, "source": handler.source.path}
    if not hooks.runner.matches(handler, ctx, anywhere=True):
        return HookTrial(**about, matched=False)  # type: ignore[arg-type]
    reply = await hooks.runner.ask(handler, ctx, facts)
    answer, result = reply.answer, reply.result
    verdict, reason = "proceed", answer.reason
    if answer.has_failed:
        closed = handler.on_failure == "closed" and handler.event in dialect_of(handler).points
        verdict, reason = "block" if closed else "failed", answer.problem
    else:
        outcome = outcome_of(handler, ctx, answer, facts)
        if outcome is not None:
            verdict, reason = outcome.kind.label, outcome.reason or answer.reason
    return HookTrial(
        **about,
        matched=True,
        verdict=verdict,
        reason=reason,
        exit_code=result.code,
        stdout=result.stdout,
        stderr=result.stderr,
        seconds=result.seconds,
        updated_input=answer.updated_input,
        contexts=answer.contexts,
        messages=answer.messages,
    )
