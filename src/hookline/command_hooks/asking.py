"""The hooks of one point and one dialect: started together, heard one after the other in the order of their files.

Each is a hook of its own in the agent's plan, so that each is in `explain()` and in the journal. The first of them that
is called starts all that match; the others find their answer waiting. What comes of it does not depend on who is
quickest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.command_hooks.applying import Applying
from hookline.command_hooks.background import Background
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.detaching import ask_or_leave
from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.command_hooks.runner import Asked, Runner
from hookline.command_hooks.scoping import mark_of, with_its_time_over
from hookline.command_hooks.stopping import ENDS
from hookline.command_hooks.variables import session_of
from hookline.errors import CommandHookError
from hookline.hooks import HookOutcome, Kind, Matcher
from hookline.lifecycle import HookPoint

NOTES = "hookline.command_hooks"
"""Where in the metadata it is kept what hooks said besides when something was blocked: the others, and to the user."""


class HandlerMatcher(Matcher):
    """Whether a hook is asked, by its own matcher and rule."""

    def __init__(self, runner: Runner, handler: Handler) -> None:
        self._runner = runner
        self._handler = handler

    def matches(self, ctx: Any) -> bool:
        """Whether it is asked about this."""
        return self._runner.matches(self._handler, ctx)

    def __repr__(self) -> str:
        handler = self._handler
        shown = f"{handler.event} {handler.matcher}".rstrip()
        shown = f"{shown} if {handler.rule}" if handler.rule else shown
        return f"{shown} {handler.scope}".rstrip()

    @property
    def scope(self) -> str:
        """Where the hook is asked at all, in words; empty for everywhere."""
        return self._handler.scope

    def matches_anywhere(self, ctx: Any) -> bool:
        """Whether it would be asked about this if its subagent or its skill were at work."""
        return self._runner.matches(self._handler, ctx, anywhere=True)


class _Batch:
    """Hooks that were started together."""

    def __init__(self, occasion: object, place: Place) -> None:
        self.occasion = occasion
        self.place = place
        self.asked: dict[int, Asked] = {}
        self.stops = False
        """One of them wants the run to end, which goes before what any other wants."""


class Group:
    """The hooks of one point that are in one dialect, in the order in which their files name them."""

    def __init__(self, handlers: Sequence[Handler], runner: Runner, background: Background) -> None:
        self.handlers = tuple(handlers)
        self._runner = runner
        self._background = background
        self._batches: dict[str, _Batch] = {}
        dialect = DIALECTS[self.handlers[0].source.dialect]
        self._dialect = dialect.name
        self._in_order = dialect.runs_in_order or any(h.is_sequential for h in self.handlers)

    def hook(self, index: int) -> Any:
        """The hook that stands for one of them in the agent's plan."""

        async def ask(ctx: Any) -> HookOutcome | None:
            return await self._answer(index, ctx)

        return ask

    def forget(self, run_id: str) -> None:
        """A run is over, or waits: what is left of its answers is for nobody."""
        self._batches.pop(run_id, None)

    async def _answer(self, index: int, ctx: Any) -> HookOutcome | None:
        handler = self.handlers[index]
        if handler.is_async:
            self._background.start(handler, ctx, self._runner.placed(ctx, self._dialect))
            return self._for_the_last_time(handler, ctx, None) if handler.once else None
        batch = await self._batch(index, ctx)
        asked = batch.asked.pop(index)
        if not batch.asked:
            self._batches.pop(ctx.state.run_id, None)
        return self._heard(handler, ctx, asked, batch)

    async def _batch(self, index: int, ctx: Any) -> _Batch:
        """The batch that has this hook's answer; a new one if there is none."""
        run_id, occasion = ctx.state.run_id, _occasion(ctx)
        batch = self._batches.get(run_id)
        if batch is not None and batch.occasion == occasion and index in batch.asked:
            return batch
        batch = self._batches[run_id] = _Batch(occasion, self._runner.placed(ctx, self._dialect))
        others = () if self._in_order else range(index + 1, len(self.handlers))
        wanted = [index, *(each for each in others if self._is_asked(self.handlers[each], ctx))]
        tasks = [self._ask(self.handlers[each], ctx, batch.place) for each in wanted]
        try:
            answers = await _all(tasks)
        except BaseException:
            self._batches.pop(run_id, None)
            raise
        batch.asked = dict(zip(wanted, with_all_tools(answers), strict=True))
        batch.stops = any(each.answer.stops and not each.answer.has_failed for each in answers)
        return batch

    async def _ask(self, handler: Handler, ctx: Any, place: Place) -> Asked:
        """What a hook says. One that goes on beside the agent has said nothing yet."""
        asked, rest = await ask_or_leave(self._runner, handler, ctx, place)
        if rest is not None:
            self._background.adopt(handler, ctx, rest)
        return asked

    def _is_asked(self, handler: Handler, ctx: Any) -> bool:
        return not handler.is_async and self._runner.matches(handler, ctx)

    def _heard(self, handler: Handler, ctx: Any, asked: Asked, batch: _Batch) -> HookOutcome | None:
        answer = asked.answer
        if answer.has_failed:
            stop = self._stop_of_others(ctx, batch) if handler.on_failure == "closed" else None
            if stop is None:
                raise CommandHookError(answer.problem)
            return stop
        if batch.stops and ctx.point.value in ENDS:  # whoever objects is not heard
            answer = msgspec.structs.replace(answer, stops=True)
        outcome = Applying(handler, ctx, answer, batch.place).outcome()
        if handler.once and answer.decision != "deny":
            outcome = self._for_the_last_time(handler, ctx, outcome)
        if outcome is not None and outcome.answer is not None:
            self._runner.answered[ctx.state.run_id] = ctx.tool_call.id
        if outcome is None or outcome.kind < Kind.BLOCK:
            return outcome
        if ctx.point == HookPoint.SUBAGENT_STOP:
            sent_back = self._runner.sent_back
            sent_back[ctx.child_run_id] = sent_back.get(ctx.child_run_id, 0) + 1
        words = "\n".join(answer.messages) if answer.reason else ""
        told = [{"hook": handler.name, "said": "message", "reason": words}] if words else []
        return self._with_others(ctx, outcome, batch, told)

    def _for_the_last_time(
        self, handler: Handler, ctx: Any, outcome: HookOutcome | None
    ) -> HookOutcome:
        """What a hook said that has had its one time: that is kept with the run, and with the session."""
        had = self._runner.had_their_time.setdefault(session_of(ctx.state), set())
        had.add(mark_of(handler))
        said = HookOutcome(Kind.PROCEED) if outcome is None else outcome
        left = with_its_time_over(handler, ctx if said.context is None else said.context)
        return HookOutcome(said.kind, said.reason, left, said.stop_reason, said.answer)

    def _with_others(
        self, ctx: Any, outcome: HookOutcome, batch: _Batch, notes: list[dict[str, str]]
    ) -> HookOutcome:
        """Nobody after this one is called. What they said is not lost: a wish to stop the run, words to the model."""
        self._batches.pop(ctx.state.run_id, None)
        left: Any = ctx if outcome.context is None else outcome.context
        for index, asked in sorted(batch.asked.items()):
            handler, said = self.handlers[index], asked.answer
            if not said.is_silent:
                words = said.problem or said.reason or "\n".join(said.messages)
                notes.append(
                    {"hook": handler.name, "said": said.decision or said.status, "reason": words}
                )
                left = Applying(handler, left, said, batch.place).told()
        if notes and "state" in ctx.point.changes:
            left = left.with_metadata(NOTES, {"point": ctx.point.value, "also": notes})
        stop = self._stop_of_others(left, batch) if outcome.kind < Kind.STOP else None
        if stop is not None:
            return stop
        return HookOutcome(outcome.kind, outcome.reason, left, outcome.stop_reason, outcome.answer)

    def _stop_of_others(self, ctx: Any, batch: _Batch) -> HookOutcome | None:
        """The verdict of one that wants the run to end, which goes before what any other wants."""
        for index, asked in sorted(batch.asked.items()):
            said, name = asked.answer, self.handlers[index].name
            if said.stops and not said.has_failed and "stop" in ctx.point.verdicts:
                reason = said.stop_reason or said.reason or "a hook ended the run"
                return HookOutcome.stop(f"{reason} ({name})", ctx)
        return None


def with_all_tools(answers: Sequence[Asked]) -> list[Asked]:
    """Answers in which each names all tools that some of them allow: what one allows another does not forbid."""
    configs = [(asked.answer.extra or {}).get("toolConfig") for asked in answers]
    lists = [config.get("allowedFunctionNames") for config in configs if isinstance(config, dict)]
    names = sorted({str(name) for each in lists if isinstance(each, list) for name in each})
    if len(lists) < 2:
        return list(answers)
    merged = []
    for asked, config in zip(answers, configs, strict=True):
        if isinstance(config, dict) and config.get("allowedFunctionNames"):
            extra = {
                **(asked.answer.extra or {}),
                "toolConfig": {**config, "allowedFunctionNames": names},
            }
            answer = msgspec.structs.replace(asked.answer, extra=extra)
            asked = Asked(answer, asked.ran)
        merged.append(asked)
    return merged


def _occasion(ctx: Any) -> tuple[object, ...]:
    """What tells one occasion to ask a group from the next in the same run."""
    call = getattr(ctx, "tool_call", None)
    return (
        ctx.state.step_count,
        getattr(ctx, "step_index", None),
        None if call is None else call.id,
        getattr(ctx, "child_run_id", None),
        ctx.state.counters.objections,
    )


async def _all(asks: Sequence[Any]) -> list[Asked]:
    """All answers. Cancelled, it waits until each of them has cleared up after itself."""
    tasks = [asyncio.ensure_future(each) for each in asks]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
