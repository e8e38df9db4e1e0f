"""The ways to drive an agent, and which of them can be compared for a hook and a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hookline.drivers import ScriptedCall, ScriptedDriver, ScriptedTurn, call, say
from hookline.hooks import CallableMatcher
from hookline.lifecycle import HookPoint
from hookline.testing.trial import NAME, Case, Seen, Trial, bare_builder
from hookline.tools import ToolContext

_TOOL_POINTS = (
    HookPoint.BEFORE_TOOL_USE,
    HookPoint.PERMISSION_REQUEST,
    HookPoint.AROUND_TOOL_USE,
    HookPoint.AFTER_TOOL_USE,
)
_SESSION_POINTS = (HookPoint.SESSION_START, HookPoint.SESSION_END)


async def _run(trial: Trial) -> None:
    await trial.agent().run(trial.case.prompt, run_id=NAME)


async def _run_sync(trial: Trial) -> None:
    # In a thread, because `run_sync` brings an event loop of its own.
    await asyncio.to_thread(trial.agent().run_sync, trial.case.prompt, run_id=NAME)


async def _stream(trial: Trial) -> None:
    async for _ in trial.agent().stream(trial.case.prompt, run_id=NAME):
        pass


async def _iterate(trial: Trial) -> None:
    async for _ in trial.agent().iterate(trial.case.prompt, run_id=NAME):
        pass


async def _subagent(trial: Trial) -> None:
    """As the child of another run. A tree-scoped hook stands in the parent and acts in the child only."""
    is_inherited = trial.registration.scope == "tree"
    child = trial.builder().build() if is_inherited else trial.agent()

    async def delegate(context: ToolContext) -> str:
        """Hand the task on."""
        result = await context.spawn(child, trial.case.prompt)
        return str(result.text)

    parent = bare_builder("parent", ScriptedDriver([call("delegate"), say("done")]))
    parent.with_tools(delegate)
    if is_inherited:
        trial.install(parent, only=CallableMatcher(lambda ctx: ctx.run.depth > 0))
    await parent.build().run("Delegate it.", run_id="parent")


MODES: dict[str, Callable[[Trial], Awaitable[None]]] = {
    "run": _run,
    "run again": _run,
    "run_sync": _run_sync,
    "stream": _stream,
    "iterate": _iterate,
    "parallel": _run,
    "subagent": _subagent,
}
"""Every way. The others are compared with the first; `parallel` is driven with another script."""


def inapplicable(case: Case, mode: str, reference: Seen | None) -> str:
    """Why a way of driving cannot be compared for this hook and conversation; empty when it can."""
    if mode == "subagent" and case.point in _SESSION_POINTS:
        return "a child run belongs to its parent's session"
    if mode != "parallel" or reference is None:
        return ""
    if case.point not in _TOOL_POINTS:
        return "how often this point is visited depends on the number of steps"
    if not all(isinstance(turn, ScriptedTurn | ScriptedCall) for turn in case.script):
        return "the script has turns that depend on the step they are played in"
    if len(in_parallel(case.script)) == len(case.script):
        return "no two turns of the script could be one"
    planned = sum(len(_calls_of(turn)) for turn in case.script)
    if not reference.ending.startswith("completed") or len(reference.results) != planned:
        return "the run left the script early, and with fewer steps it would leave it elsewhere"
    return ""


def in_parallel(script: Sequence[Any]) -> list[Any]:
    """The script with calls that follow one another made in one turn."""
    merged: list[Any] = []
    for turn in script:
        before = merged[-1] if merged else None
        if _calls_of(before) and _calls_of(turn) and not getattr(turn, "text", ""):
            merged[-1] = _one_turn(before, turn)
        else:
            merged.append(turn)
    return merged


def _one_turn(before: Any, turn: Any) -> ScriptedTurn:
    tokens = sum(each.tokens for each in (before, turn) if isinstance(each, ScriptedTurn))
    text = getattr(before, "text", "")
    return ScriptedTurn(text, (*_calls_of(before), *_calls_of(turn)), tokens)


def _calls_of(turn: object) -> tuple[ScriptedCall, ...]:
    if isinstance(turn, ScriptedCall):
        return (turn,)
    return turn.calls if isinstance(turn, ScriptedTurn) else ()
