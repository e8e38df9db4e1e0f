"""Hooks that run beside the agent: nothing waits for them, and what they say is told at the next step."""

from __future__ import annotations

import asyncio
from typing import Any

from hookline.command_hooks.answers import Answer
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects import Place
from hookline.command_hooks.runner import Asked, Runner
from hookline.command_hooks.stopping import is_used_up, objections_in_a_row, used_up
from hookline.command_hooks.texts import labelled
from hookline.hooks import HookOutcome, Kind
from hookline.lifecycle import HookPoint
from hookline.state import StopReason

_AT_ONCE = 8
_MOST_WAITING = 64
LONGEST_WAIT = 60.0
"""Seconds that the end of a run waits for hooks that may send the agent back to work."""
_PATIENCE = 2.0
"""Seconds that are left to them when the run ends."""


class Background:
    """The hooks that are going on, and what those that ended have said, by run."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._waking: dict[str, set[asyncio.Task[None]]] = {}
        """Those among them that may send the agent back to work: it does not stop without having heard them."""
        self._said: dict[str, list[tuple[Handler, Answer]]] = {}
        self._rooms: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def start(self, handler: Handler, ctx: Any, place: Place) -> None:
        """Start a hook, and do not wait. When too many wait already, it is left out."""
        run_id = ctx.state.run_id
        tasks = self._tasks.setdefault(run_id, set())
        if len(tasks) >= _MOST_WAITING:
            return
        loop = asyncio.get_running_loop()
        room = self._rooms.setdefault(loop, asyncio.Semaphore(_AT_ONCE))
        task = loop.create_task(self._run(handler, ctx, place, run_id, room))
        is_heard = handler.wakes and ctx.point != HookPoint.SESSION_START
        for kept in (tasks, self._waking.setdefault(run_id, set())) if is_heard else (tasks,):
            kept.add(task)
            task.add_done_callback(kept.discard)

    def adopt(self, handler: Handler, ctx: Any, rest: asyncio.Task[Asked]) -> None:
        """A hook was started, and goes on here: what it says from now on is told like that of the others."""
        run_id = ctx.state.run_id
        tasks = self._tasks.setdefault(run_id, set())
        task = asyncio.get_running_loop().create_task(self._hear(handler, run_id, rest))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _hear(self, handler: Handler, run_id: str, rest: asyncio.Task[Asked]) -> None:
        said = _news(handler, await rest)
        if said is not None:
            self._said.setdefault(run_id, []).append((handler, said))

    async def _run(
        self, handler: Handler, ctx: Any, place: Place, run_id: str, room: asyncio.Semaphore
    ) -> None:
        async with room:
            asked = await self._runner.ask(handler, ctx, place)
        said = _news(handler, asked)
        if said is not None:
            self._said.setdefault(run_id, []).append((handler, said))

    def tell(self, ctx: Any) -> HookOutcome | None:
        """Before a step: what they have said since is put into the conversation, and the journal has who failed."""
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

    async def object(self, ctx: Any) -> HookOutcome | None:
        """About to stop: a hook that found something in the meantime sends the agent back to work.

        Those that may do so, and are not done, are waited for, a while: after the end nobody would hear them. Some are
        made to wait for hours, for whatever may wake an agent that has nothing to do; such an agent is done here.
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

    async def end(self, ctx: Any) -> None:
        """The run is over: a moment for those that are nearly done, and then the end of all."""
        run_id = ctx.state.run_id
        tasks = self._tasks.pop(run_id, set())
        self._waking.pop(run_id, None)
        self._said.pop(run_id, None)
        self._rooms = {loop: room for loop, room in self._rooms.items() if not loop.is_closed()}
        if not tasks:
            return
        waiting = set(tasks)
        try:
            await asyncio.wait(waiting, timeout=_PATIENCE)
        finally:
            for task in waiting:
                task.cancel()
            # Not gathered: that could not be told from a cancellation of ours, which is not to be lost.
            await asyncio.wait(waiting)


def _news(handler: Handler, asked: Asked) -> Answer | None:
    """What a hook in the background may say: words, and, if it may wake the agent, that there is work left."""
    answer, ran = asked.answer, asked.ran
    if handler.wakes and ran.code == 2:
        reason = ran.stderr.strip() or ran.stdout.strip() or "no reason was given"
        return Answer(decision="deny", reason=reason)
    if answer.has_failed:
        return answer
    contexts = (*answer.contexts, *answer.messages)
    return Answer(contexts=contexts) if contexts else None
