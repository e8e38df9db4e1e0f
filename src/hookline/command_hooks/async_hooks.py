"""Async hooks: nothing waits for them, and their words reach the model at the next step.

A file says that a hook is async, or the first line that the hook prints does: `{"async": true}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from hookline.command_hooks.handler import Handler, ProgramAnswer, RunFacts, labelled
from hookline.command_hooks.objections import is_used_up, objections_in_a_row, used_up
from hookline.command_hooks.runner import HookReply, Runner
from hookline.hooks import HookOutcome, Kind
from hookline.lifecycle import AgentContext, HookPoint, StopHookContext
from hookline.state import StopReason

_AT_ONCE = 8
_MOST_WAITING = 64
LONGEST_WAIT = 60.0
"""Seconds that a run waits at its end for hooks that may have it continue."""
_AFTER_RUN = 2.0
"""Seconds that async hooks have after the end of a run."""


class AsyncHooks:
    """The async hooks that run, and the answers of those that ended, by run."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._waking: dict[str, set[asyncio.Task[None]]] = {}
        """Those that may have the run continue: it waits for them at its end."""
        self._said: dict[str, list[tuple[Handler, ProgramAnswer]]] = {}
        self._slots: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def start(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> None:
        """Start a hook, and do not wait. When too many wait already, it is not started."""
        if len(self._tasks.get(ctx.state.run_id, ())) >= _MOST_WAITING:
            return
        wakes = handler.wakes and ctx.point != HookPoint.SESSION_START
        self._collect(handler, ctx, self._ask(handler, ctx, facts), wakes=wakes)

    def adopt(self, handler: Handler, ctx: AgentContext, rest: asyncio.Task[HookReply]) -> None:
        """A hook that was started continues as an async one."""
        self._collect(handler, ctx, rest)

    async def _ask(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> HookReply:
        loop = asyncio.get_running_loop()
        async with self._slots.setdefault(loop, asyncio.Semaphore(_AT_ONCE)):
            return await self._runner.ask(handler, ctx, facts)

    def _collect(
        self,
        handler: Handler,
        ctx: AgentContext,
        reply: Awaitable[HookReply],
        *,
        wakes: bool = False,
    ) -> None:
        """Wait for a reply beside the run, and keep what counts of it."""
        run_id = ctx.state.run_id

        async def collect() -> None:
            said = _news(handler, await reply)
            if said is not None:
                self._said.setdefault(run_id, []).append((handler, said))

        task = asyncio.get_running_loop().create_task(collect())
        for kept in (self._tasks, self._waking) if wakes else (self._tasks,):
            tasks = kept.setdefault(run_id, set())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def add_words(self, ctx: AgentContext) -> HookOutcome | None:
        """Before a step: their words go into the conversation, and the journal has which of them failed."""
        waiting = self._said.get(ctx.state.run_id, [])
        state = ctx.state
        for handler, answer in waiting:
            for text in (*answer.contexts, *((answer.reason,) if answer.decision else ())):
                state = state.with_user_message(labelled(handler.name, text), by=handler.name)
        failed = [
            f"{handler.name}: {answer.problem}" for handler, answer in waiting if answer.problem
        ]
        waiting.clear()
        if state is ctx.state and not failed:
            return None
        return HookOutcome(Kind.PROCEED, "; ".join(failed), ctx.with_state(state))

    async def object_to_end(self, ctx: StopHookContext) -> HookOutcome | None:
        """At the end: a hook that found something has the run continue.

        Those that may do so are waited for, up to a limit: some are made to wait for hours for an event.
        """
        if not ctx.continuation.is_forbidden:
            waking = self._waking.get(ctx.state.run_id)
            if waking:
                await asyncio.wait(set(waking), timeout=LONGEST_WAIT)
        waiting = self._said.get(ctx.state.run_id, [])
        wishes = [(handler, answer) for handler, answer in waiting if answer.decision]
        if not wishes:
            return None
        waiting[:] = [each for each in waiting if not each[1].decision]
        words, times = (
            "\n".join(f"{h.name}: {a.reason}" for h, a in wishes),
            objections_in_a_row(ctx),
        )
        if all(is_used_up(handler, times) for handler, _ in wishes):
            return HookOutcome.stop(used_up(times, words), stop_reason=StopReason.OBJECTION_LIMIT)
        return HookOutcome.block(words)

    async def end(self, ctx: AgentContext) -> None:
        """The run is over: the hooks have a moment, and are ended then."""
        run_id = ctx.state.run_id
        tasks = self._tasks.pop(run_id, set())
        self._waking.pop(run_id, None)
        self._said.pop(run_id, None)
        self._slots = {loop: each for loop, each in self._slots.items() if not loop.is_closed()}
        if not tasks:
            return
        waiting = set(tasks)
        try:
            await asyncio.wait(waiting, timeout=_AFTER_RUN)
        finally:
            for task in waiting:
                task.cancel()
            # Not `gather`: its error could not be told from our own cancellation.
            await asyncio.wait(waiting)


def _news(handler: Handler, reply: HookReply) -> ProgramAnswer | None:
    """The part of an answer that counts: words, and an objection, if the hook may have the run continue."""
    answer, result = reply.answer, reply.result
    if handler.wakes and result.code == 2:
        reason = result.stderr.strip() or result.stdout.strip() or "no reason was given"
        return ProgramAnswer(decision="deny", reason=reason)
    if answer.has_failed:
        return answer
    contexts = (*answer.contexts, *answer.messages)
    return ProgramAnswer(contexts=contexts) if contexts else None
