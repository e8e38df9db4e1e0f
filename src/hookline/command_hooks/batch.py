"""The hooks of one point and one dialect: started together, and their answers applied in the order of their files.

Each is a hook of its own in the agent's plan, so that each is in `explain()` and in the journal. The first of them that
is called starts all that match; the others find their answer. So the result does not depend on which is quickest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from hookline.command_hooks.async_hooks import AsyncHooks, ask_or_detach
from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.exchange import RunFacts
from hookline.command_hooks.handler import Handler
from hookline.command_hooks.hook_memory import once_mark, with_once_mark
from hookline.command_hooks.objections import ENDS
from hookline.command_hooks.outcomes import outcome_of, with_words
from hookline.command_hooks.runner import HookReply, Runner
from hookline.command_hooks.scripts import definition_digest
from hookline.errors import CommandHookError
from hookline.hooks import HookOutcome, Kind, Matcher
from hookline.lifecycle import HookPoint

NOTES = "hookline.command_hooks"
"""The metadata key of what other hooks said when one blocked."""


class HandlerMatcher(Matcher):
    """The matcher and the rule of a hook."""

    def __init__(self, runner: Runner, handler: Handler) -> None:
        self._runner = runner
        self._handler = handler

    def matches(self, ctx: Any) -> bool:
        """Whether the hook is asked about this."""
        return self._runner.matches(self._handler, ctx)

    def __repr__(self) -> str:
        handler = self._handler
        shown = f"{handler.event} {handler.matcher}".rstrip()
        shown = f"{shown} if {handler.rule}" if handler.rule else shown
        return f"{shown} {handler.scope}".rstrip()

    @property
    def scope(self) -> str:
        """The runs in which the hook is asked, in words; empty for all."""
        return self._handler.scope

    def matches_anywhere(self, ctx: Any) -> bool:
        """Whether the hook would be asked about this in the runs of its subagent or its skill."""
        return self._runner.matches(self._handler, ctx, anywhere=True)


class _Firing:
    """Hooks that were started together, and their replies that are not taken yet."""

    def __init__(self, occasion: object, facts: RunFacts) -> None:
        self.occasion = occasion
        self.facts = facts
        self.replies: dict[int, HookReply] = {}
        self.stops = False
        """One of them ends the run, which takes precedence."""


class HandlerBatch:
    """The hooks of one point and one dialect, in the order of their files."""

    def __init__(
        self, handlers: Sequence[Handler], runner: Runner, async_hooks: AsyncHooks
    ) -> None:
        self.handlers = tuple(handlers)
        self._runner = runner
        self._async_hooks = async_hooks
        self._firings: dict[str, _Firing] = {}
        self._dialect = dialect_of(self.handlers[0])
        self._in_order = self._dialect.runs_in_order or any(h.is_sequential for h in self.handlers)

    def hook(self, index: int) -> BatchHook:
        """The hook that one of them is in the agent's plan."""
        return BatchHook(self, index)

    def digest(self, index: int) -> str:
        """The definition digest of one of them."""
        return definition_digest(self.handlers[index], self._runner.project)

    def forget(self, run_id: str) -> None:
        """A run is over, or paused."""
        self._firings.pop(run_id, None)

    async def answer(self, index: int, ctx: Any) -> HookOutcome | None:
        handler = self.handlers[index]
        if handler.is_async:
            self._async_hooks.start(
                handler, ctx, self._runner.written_facts(ctx, self._dialect.name)
            )
            return self._asked_once(handler, ctx, None) if handler.once else None
        firing = await self._fire(index, ctx)
        reply = firing.replies.pop(index)
        if not firing.replies:
            self._firings.pop(ctx.state.run_id, None)
        return self._apply(handler, ctx, reply, firing)

    async def _fire(self, index: int, ctx: Any) -> _Firing:
        """The firing that has this hook's reply; a new one if there is none."""
        run_id, occasion = ctx.state.run_id, _occasion(ctx)
        firing = self._firings.get(run_id)
        if firing is not None and firing.occasion == occasion and index in firing.replies:
            return firing
        firing = self._firings[run_id] = _Firing(
            occasion, self._runner.written_facts(ctx, self._dialect.name)
        )
        others = () if self._in_order else range(index + 1, len(self.handlers))
        wanted = [index, *(each for each in others if self._is_asked(self.handlers[each], ctx))]
        asks = [self._ask(self.handlers[each], ctx, firing.facts) for each in wanted]
        try:
            replies = await _all(asks)
        except BaseException:
            self._firings.pop(run_id, None)
            raise
        answers = self._dialect.combine([each.answer for each in replies])
        made = (HookReply(a, each.result) for a, each in zip(answers, replies, strict=True))
        firing.replies = dict(zip(wanted, made, strict=True))
        firing.stops = any(each.stops and not each.has_failed for each in answers)
        return firing

    async def _ask(self, handler: Handler, ctx: Any, facts: RunFacts) -> HookReply:
        reply, rest = await ask_or_detach(self._runner, handler, ctx, facts)
        if rest is not None:
            self._async_hooks.adopt(handler, ctx, rest)
        return reply

    def _is_asked(self, handler: Handler, ctx: Any) -> bool:
        return not handler.is_async and self._runner.matches(handler, ctx)

    def _apply(
        self, handler: Handler, ctx: Any, reply: HookReply, firing: _Firing
    ) -> HookOutcome | None:
        answer = reply.answer
        if answer.has_failed:
            stop = self._stop_of_others(ctx, firing) if handler.on_failure == "closed" else None
            if stop is None:
                raise CommandHookError(answer.problem)
            return stop
        if firing.stops and ctx.point.value in ENDS:  # no objection counts
            answer = msgspec.structs.replace(answer, stops=True)
        outcome = outcome_of(handler, ctx, answer, firing.facts)
        if handler.once and answer.decision != "deny":
            outcome = self._asked_once(handler, ctx, outcome)
        if outcome is not None and outcome.answer is not None:
            self._runner.run(ctx.state).answered_call = ctx.tool_call.id
        if outcome is None or outcome.kind < Kind.BLOCK:
            return outcome
        if ctx.point == HookPoint.SUBAGENT_STOP:
            sent_back = self._runner.run(ctx.state).sent_back
            sent_back[ctx.child_run_id] = sent_back.get(ctx.child_run_id, 0) + 1
        words = "\n".join(answer.messages) if answer.reason else ""
        notes = [{"hook": handler.name, "said": "message", "reason": words}] if words else []
        return self._with_others(ctx, outcome, firing, notes)

    def _asked_once(self, handler: Handler, ctx: Any, outcome: HookOutcome | None) -> HookOutcome:
        """The outcome of a hook that was asked for its one time, which the run and the session remember."""
        self._runner.session(ctx.state).asked_once.add(once_mark(handler))
        said = HookOutcome(Kind.PROCEED) if outcome is None else outcome
        left = with_once_mark(handler, ctx if said.context is None else said.context)
        return HookOutcome(said.kind, said.reason, left, said.stop_reason, said.answer)

    def _with_others(
        self, ctx: Any, outcome: HookOutcome, firing: _Firing, notes: list[dict[str, str]]
    ) -> HookOutcome:
        """The outcome with what the later hooks said, which are not called any more."""
        self._firings.pop(ctx.state.run_id, None)
        left: Any = ctx if outcome.context is None else outcome.context
        for index, reply in sorted(firing.replies.items()):
            handler, said = self.handlers[index], reply.answer
            if not said.is_silent:
                words = said.problem or said.reason or "\n".join(said.messages)
                notes.append(
                    {"hook": handler.name, "said": said.decision or said.status, "reason": words}
                )
                left = with_words(handler, left, said, firing.facts)
        if notes and "state" in ctx.point.changes:
            left = left.with_metadata(NOTES, {"point": ctx.point.value, "also": notes})
        stop = self._stop_of_others(left, firing) if outcome.kind < Kind.STOP else None
        if stop is not None:
            return stop
        return HookOutcome(outcome.kind, outcome.reason, left, outcome.stop_reason, outcome.answer)

    def _stop_of_others(self, ctx: Any, firing: _Firing) -> HookOutcome | None:
        """The outcome of a later hook that ends the run, which takes precedence; None if there is none."""
        for index, reply in sorted(firing.replies.items()):
            said, name = reply.answer, self.handlers[index].name
            if said.stops and not said.has_failed and "stop" in ctx.point.verdicts:
                reason = said.stop_reason or said.reason or "a hook ended the run"
                return HookOutcome.stop(f"{reason} ({name})", ctx)
        return None


class BatchHook:
    """One hook of a batch, as a hook in the agent's plan."""

    def __init__(self, batch: HandlerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    async def __call__(self, ctx: Any) -> HookOutcome | None:
        """Its outcome at a point."""
        return await self._batch.answer(self._index, ctx)

    @cached_property
    def definition_digest(self) -> str:
        """A hash of its definition and its scripts: while it is the same, a recorded answer is valid."""
        return self._batch.digest(self._index)


def _occasion(ctx: Any) -> tuple[object, ...]:
    """What differs between two firings in the same run."""
    call = getattr(ctx, "tool_call", None)
    return (
        ctx.state.step_count,
        getattr(ctx, "step_index", None),
        None if call is None else call.id,
        getattr(ctx, "child_run_id", None),
        ctx.state.counters.objections,
    )


async def _all(asks: Sequence[Any]) -> list[HookReply]:
    """All replies. Cancelled, it waits until each of them has ended."""
    tasks = [asyncio.ensure_future(each) for each in asks]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
