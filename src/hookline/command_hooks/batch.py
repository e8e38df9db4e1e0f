"""The hooks of one point and one dialect: started together, and their answers applied in the order of their files.

Each is a hook of its own in the agent's plan, so that each is in `explain()` and in the journal. The first of them that
is called starts all that match; the others find their answer. So the result does not depend on which is quickest.

Nothing waits for async hooks, and their words reach the model at the next step. A file says that a hook is async, or
the first line that it prints does: `{"async": true}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.handler import (
    TITLE,
    UNCHANGED,
    Handler,
    ProgramAnswer,
    RunFacts,
    with_label,
)
from hookline.command_hooks.objections import ENDS, cap_message, is_used_up, objections_in_a_row
from hookline.command_hooks.runner import HookReply, Runner, once_mark, with_once_mark
from hookline.errors import CommandHookError, HooklineError
from hookline.hooks import Context, HookOutcome, Kind
from hookline.lifecycle import (
    AgentContext,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
)
from hookline.lifecycle.contexts import expect_context
from hookline.state import Decision, Log, StopReason, ToolCall, UserMessage

A = TypeVar("A", bound=AgentContext)

NOTES = "hookline.command_hooks"
"""The metadata key of what other hooks said when one blocked."""


class HandlerMatcher:
    """The matcher and the rule of a hook."""

    def __init__(self, runner: Runner, handler: Handler) -> None:
        self._runner = runner
        self._handler = handler

    def matches(self, ctx: Context) -> bool:
        """Whether the hook is asked about this."""
        return self._runner.matches(self._handler, expect_context(ctx, AgentContext))

    def __repr__(self) -> str:
        handler = self._handler
        shown = f"{handler.event} {handler.matcher}".rstrip()
        shown = f"{shown} if {handler.rule}" if handler.rule else shown
        return f"{shown} {handler.scope}".rstrip()

    @property
    def scope(self) -> str:
        """The runs in which the hook is asked, in words; empty for all."""
        return self._handler.scope

    def matches_anywhere(self, ctx: AgentContext) -> bool:
        """Whether the hook would be asked about this in the runs of its subagent or its skill."""
        return self._runner.matches(self._handler, ctx, anywhere=True)


class _StartedHooks:
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
        self._running: dict[str, _StartedHooks] = {}
        self._dialect = dialect_of(self.handlers[0])
        self._in_order = self._dialect.runs_in_order or any(h.is_sequential for h in self.handlers)

    def hook(self, index: int) -> Callable[[Any], Awaitable[HookOutcome | None]]:
        """The hook that one of them is in the agent's plan."""

        async def ask(ctx: AgentContext) -> HookOutcome | None:
            return await self.answer(index, ctx)

        return ask

    def forget(self, run_id: str) -> None:
        """A run is over, or paused."""
        self._running.pop(run_id, None)

    async def answer(self, index: int, ctx: AgentContext) -> HookOutcome | None:
        handler = self.handlers[index]
        if handler.is_async:
            self._async_hooks.start(
                handler, ctx, self._runner.prepare_facts(ctx, self._dialect.name)
            )
            return self._remember_asked(handler, ctx, None) if handler.once else None
        group = await self._fire(index, ctx)
        reply = group.replies.pop(index)
        if not group.replies:
            self._running.pop(ctx.state.run_id, None)
        return self._apply(handler, ctx, reply, group)

    async def _fire(self, index: int, ctx: AgentContext) -> _StartedHooks:
        """The group that has this hook's reply; a new one if there is none."""
        run_id, occasion = ctx.state.run_id, _occasion(ctx)
        group = self._running.get(run_id)
        if group is not None and group.occasion == occasion and index in group.replies:
            return group
        group = self._running[run_id] = _StartedHooks(
            occasion, self._runner.prepare_facts(ctx, self._dialect.name)
        )
        wanted = [index]
        for number, other in enumerate(self.handlers):
            is_later = number > index and not self._in_order and not other.is_async
            if is_later and self._runner.matches(other, ctx):
                wanted.append(number)
        asks = [self._ask(self.handlers[each], ctx, group.facts) for each in wanted]
        try:
            replies = await _all(asks)
        except BaseException:
            self._running.pop(run_id, None)
            raise
        answers = self._dialect.combine([each.answer for each in replies])
        made = (HookReply(a, each.result) for a, each in zip(answers, replies, strict=True))
        group.replies = dict(zip(wanted, made, strict=True))
        group.stops = any(each.stops and not each.has_failed for each in answers)
        return group

    async def _ask(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> HookReply:
        reply, rest = await self._runner.ask_or_detach(handler, ctx, facts)
        if rest is not None:
            self._async_hooks.collect(handler, ctx, rest)
        return reply

    def _apply(
        self, handler: Handler, ctx: AgentContext, reply: HookReply, group: _StartedHooks
    ) -> HookOutcome | None:
        answer = reply.answer
        if answer.has_failed:
            stop = self._stop_of_others(ctx, group) if handler.on_failure == "closed" else None
            if stop is None:
                raise CommandHookError(answer.problem)
            return stop
        if group.stops and ctx.point.value in ENDS:  # no objection counts
            answer = msgspec.structs.replace(answer, stops=True)
        outcome = AnswerEffect(handler, ctx, answer, group.facts).outcome()
        if handler.once and answer.decision != "deny":
            outcome = self._remember_asked(handler, ctx, outcome)
        if outcome is not None and outcome.answer is not None:
            call = expect_context(ctx, ToolHookContext).tool_call
            self._runner.run(ctx.state).answered_call = call.id
        if outcome is None or outcome.kind < Kind.BLOCK:
            return outcome
        if isinstance(ctx, SubagentHookContext) and ctx.point == HookPoint.SUBAGENT_STOP:
            sent_back = self._runner.run(ctx.state).sent_back
            sent_back[ctx.child_run_id] = sent_back.get(ctx.child_run_id, 0) + 1
        return self._with_others(ctx, outcome, group)

    def _remember_asked(
        self, handler: Handler, ctx: AgentContext, outcome: HookOutcome | None
    ) -> HookOutcome:
        """The outcome of a hook that was asked for its one time, which the run and the session remember."""
        self._runner.session(ctx.state).asked_once.add(once_mark(handler))
        said = HookOutcome(Kind.PROCEED) if outcome is None else outcome
        given = ctx if said.context is None else expect_context(said.context, AgentContext)
        left = with_once_mark(handler, given)
        return msgspec.structs.replace(said, context=left)

    def _with_others(
        self, ctx: AgentContext, outcome: HookOutcome, group: _StartedHooks
    ) -> HookOutcome:
        """The outcome with what the later hooks said, which are not called any more."""
        notes: list[dict[str, str]] = []
        self._running.pop(ctx.state.run_id, None)
        given = outcome.context
        left = ctx if given is None else expect_context(given, AgentContext)
        messages = list(filter(None, [outcome.message]))
        for index, reply in sorted(group.replies.items()):
            handler, said = self.handlers[index], reply.answer
            messages += [f"{handler.name}: {words}" for words in said.messages]
            if not said.is_silent:
                words = said.problem or said.reason or "\n".join(said.messages)
                notes.append(
                    {"hook": handler.name, "said": said.decision or said.status, "reason": words}
                )
                left = AnswerEffect(handler, left, said, group.facts).with_words(left)
        if notes and "state" in ctx.point.changes:
            left = left.with_metadata(NOTES, {"point": ctx.point.value, "also": notes})
        stop = self._stop_of_others(left, group) if outcome.kind < Kind.STOP else None
        if stop is not None:
            return stop
        return msgspec.structs.replace(outcome, context=left, message="\n".join(messages))

    def _stop_of_others(self, ctx: AgentContext, group: _StartedHooks) -> HookOutcome | None:
        """The outcome of a later hook that ends the run, which takes precedence; None if there is none."""
        for index, reply in sorted(group.replies.items()):
            said, name = reply.answer, self.handlers[index].name
            if said.stops and not said.has_failed and "stop" in ctx.point.verdicts:
                reason = said.stop_reason or said.reason or "a hook ended the run"
                return HookOutcome.stop(f"{reason} ({name})", ctx)
        return None


def _occasion(ctx: AgentContext) -> tuple[object, ...]:
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
    if len(asks) == 1:
        return [await asks[0]]
    tasks = [asyncio.ensure_future(each) for each in asks]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


# --- what an answer does at each of our points ----------------------------------------------------------

_UNDECIDED = ("execution_end", "session_end", "agent_failed", "error")
"""Points where nothing can be decided."""
_LONGEST_TITLE = 200
_NO_REASON = "no reason was given"


class AnswerEffect:
    """One answer of one hook, at one point."""

    def __init__(
        self, handler: Handler, ctx: AgentContext, answer: ProgramAnswer, facts: RunFacts
    ) -> None:
        self.handler = handler
        self.ctx = ctx
        self.answer = answer
        self.facts = facts
        self._dialect = dialect_of(handler)
        self._event = self._dialect.events[handler.event]

    def outcome(self) -> HookOutcome | None:
        """The answer as an outcome of ours; None if nothing was said."""
        answer, point = self.answer, self.ctx.point
        if answer.is_silent or point.value in _UNDECIDED:
            return self._proceed(self.ctx)
        if answer.stops and "stop" in point.verdicts and point.value not in ENDS:
            reason = answer.stop_reason or answer.reason or "a hook ended the run"
            return self._with_message(HookOutcome.stop(reason, self.with_words(self.ctx)))
        special = getattr(self, f"_{point.value}", None)
        return self._with_message((special or self._plain)(self.ctx))

    def _with_message(self, outcome: HookOutcome | None) -> HookOutcome | None:
        """A decision with the words to the user beside it, unless they are its reason."""
        words = "\n".join(self.answer.messages)
        if outcome is None or outcome.kind is Kind.PROCEED or words in ("", outcome.reason):
            return outcome
        return msgspec.structs.replace(outcome, message=words)

    # --- points ---------------------------------------------------------------------------------------

    def _before_tool_use(self, ctx: ToolHookContext) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny":
            return HookOutcome.block(self._reason(), self.with_words(ctx))
        ctx = self.with_words(ctx)
        if answer.updated_input is not None:
            changed = self._changed_call(ctx)
            if isinstance(changed, str):
                return HookOutcome.block(
                    f"the hook changed the call, and the changed call cannot run: {changed}", ctx
                )
            ctx = ctx.with_tool_call(changed)
        elif answer.updated_output is not UNCHANGED:
            ctx = ctx.with_result(answer.updated_output)
        if answer.decision in ("ask", "defer"):
            return HookOutcome.ask(answer.reason or "a hook asks for approval", ctx)
        if answer.decision == "allow":
            return HookOutcome.allow(answer.reason, ctx)
        return self._proceed(ctx)

    def _permission_request(self, ctx: ToolHookContext) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny":
            reason = self._reason()
            return HookOutcome(
                Kind.BLOCK, reason, self.with_words(ctx), None, Decision.deny(reason)
            )
        if answer.decision != "allow":
            return self._proceed(self.with_words(ctx))
        decision = Decision.allow(answer.reason)
        if answer.updated_input is not None:
            changed = self._changed_call(ctx)
            if isinstance(changed, str):
                return HookOutcome.block(
                    f"the hook changed the call, and the changed call cannot run: {changed}"
                )
            decision = Decision.edit(**changed.args)
        return HookOutcome(Kind.ALLOW, answer.reason, self.with_words(ctx), None, decision)

    def _after_tool_use(self, ctx: ToolHookContext) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny" and self._dialect.withholds_results:
            return HookOutcome.block(self._reason(), self.with_words(ctx))
        if answer.updated_output is not UNCHANGED:
            ctx = ctx.with_result(self._dialect.take_result(ctx.tool_call, answer))
        feedback = (self._reason(),) if answer.decision == "deny" else ()
        return self._proceed(self.with_words(ctx, feedback))

    def _stop(self, ctx: AgentContext) -> HookOutcome | None:
        answer, limit, times = self.answer, self.handler.loop_limit, self.facts.objections_in_a_row
        wishes = (self._reason(),) if answer.decision == "deny" else answer.contexts
        if answer.stops:  # the run ends anyway
            return self._proceed(ctx, (answer.stop_reason,))
        if not wishes or (limit is not None and self.facts.objections >= limit):
            return self._proceed(ctx)
        if not is_used_up(self.handler, times):
            kept = ctx.with_state(ctx.state.with_messages(Log())) if answer.clears_context else None
            return HookOutcome.block("\n".join(wishes), kept)
        words = cap_message(times, " ".join(wishes))
        if ctx.point == HookPoint.STOP:
            return HookOutcome.stop(words, stop_reason=StopReason.OBJECTION_LIMIT)
        return self._proceed(ctx, (words,))

    def _subagent_stop(self, ctx: SubagentHookContext) -> HookOutcome | None:
        answer, result = self.answer, ctx.result
        if answer.decision == "deny" or answer.updated_output is UNCHANGED or result is None:
            return self._stop(ctx)
        replaced = msgspec.structs.replace(result, output=str(answer.updated_output), said=None)
        return self._proceed(ctx.with_result(replaced))

    def _subagent_start(self, ctx: SubagentHookContext) -> HookOutcome | None:
        if self.answer.decision == "deny":
            return HookOutcome.block(self._reason())
        words = [with_label(self.handler.name, text) for text in self.answer.contexts]
        if not words:
            return self._proceed(ctx)
        return self._proceed(ctx.with_prompt("\n\n".join([ctx.prompt, *words])))

    def _after_step(self, ctx: AgentContext) -> HookOutcome | None:
        if self.answer.decision == "deny":
            return HookOutcome.stop(self._reason(), self.with_words(ctx))
        return self._proceed(self.with_words(ctx))

    def _execution_start(self, ctx: AgentContext) -> HookOutcome | None:
        if self._dialect.is_restart(self.handler.event):  # nothing can be refused
            return self._proceed(self._with_title(self.with_words(ctx)))
        return self._plain(ctx)

    def _before_inference(self, ctx: InferenceHookContext) -> HookOutcome | None:
        is_after_summary = self._event.after_summary
        is_lasting = is_after_summary or self._dialect.context_is_lasting
        ctx = self.with_words(ctx) if is_lasting else ctx
        request = ctx.request
        if not is_after_summary:
            request = self._dialect.change_request(request, self.answer)
        if self.answer.contexts and (is_after_summary or not is_lasting):
            name = self.handler.name
            words = [UserMessage(with_label(name, text), by=name) for text in self.answer.contexts]
            request = request.with_messages((*request.messages, *words))
        if request is not ctx.request:
            ctx = ctx.with_request(request)
        if is_after_summary:  # it decides nothing there
            return self._proceed(ctx)
        text = self._dialect.new_response(self.answer)
        return self._make_outcome(ctx if text is None else ctx.with_response(text))

    def _after_inference(self, ctx: InferenceHookContext) -> HookOutcome | None:
        if self._event.displays:  # it is about what is shown only
            return self._proceed(ctx)
        ctx = self.with_words(ctx)
        text = self._dialect.new_response(self.answer)
        if text is not None and ctx.response is not None:
            ctx = ctx.with_response(ctx.response.with_text(text))
        return self._make_outcome(ctx)

    def _plain(self, ctx: AgentContext) -> HookOutcome | None:
        answer = self.answer
        ctx = self._with_title(self.with_words(ctx))
        if answer.prompt and isinstance(ctx, PromptHookContext):
            ctx = ctx.with_prompt(answer.prompt)
        elif answer.prompt and ctx.point == HookPoint.SESSION_START:
            ctx = ctx.with_state(ctx.state.with_user_message(answer.prompt))
        if isinstance(ctx, OutputHookContext) and answer.updated_output is not UNCHANGED:
            ctx = ctx.with_output(answer.updated_output)
        return self._make_outcome(ctx)

    # --- parts ----------------------------------------------------------------------------------------

    def _reason(self) -> str:
        """The reason of a refusal; the words to the user if there is no other."""
        return self.answer.reason or "\n".join(self.answer.messages) or _NO_REASON

    def _make_outcome(self, ctx: AgentContext) -> HookOutcome | None:
        answer, point = self.answer, ctx.point
        is_strict = self._dialect.is_strict
        if answer.decision == "deny" and ("block" in point.verdicts or is_strict):
            return HookOutcome.block(self._reason(), ctx)
        if answer.decision == "deny":  # nothing can be blocked there
            return self._proceed(ctx, (answer.reason,))
        if answer.decision in ("ask", "defer") and is_strict:
            return HookOutcome.ask(answer.reason, ctx)
        return self._proceed(ctx)

    def _proceed(self, ctx: AgentContext, more: tuple[str, ...] = ()) -> HookOutcome | None:
        """The outcome of an answer that decides nothing; words to the user are the reason in the journal."""
        words = "\n".join(dict.fromkeys(filter(None, (*self.answer.messages, *more))))
        if not words and ctx is self.ctx:
            return None
        return HookOutcome(Kind.PROCEED, words, None if ctx is self.ctx else ctx)

    def with_words(self, ctx: A, more: tuple[str, ...] = ()) -> A:
        """The context with the hook's words to the model in the conversation."""
        texts = (*more, *self.answer.contexts)
        if not texts or "state" not in ctx.point.changes:
            return ctx
        state = ctx.state
        for text in texts:
            state = state.with_user_message(
                with_label(self.handler.name, text), by=self.handler.name
            )
        return ctx.with_state(state)

    def _with_title(self, ctx: A) -> A:
        """The context with the hook's title of the session."""
        title = " ".join(self.answer.title.split())[:_LONGEST_TITLE]
        is_kept = title and "state" in ctx.point.changes
        return ctx.with_metadata(TITLE, title) if is_kept else ctx

    def _changed_call(self, ctx: ToolHookContext) -> ToolCall | str:
        """The call with the hook's changes, or what is wrong with it."""
        call = ctx.tool_call
        try:
            changed = self._dialect.take_back(
                call, self._dialect.show(call, self.facts), self.answer
            )
            tool = ctx.run.tool(call.name) if ctx.has_run else None
            if tool is not None:
                tool.validate_call(changed)
        except HooklineError as error:
            return str(error)
        return changed


# --- async hooks --------------------------------------------------------------------------------------

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
        self.collect(handler, ctx, self._ask(handler, ctx, facts), wakes=wakes)

    async def _ask(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> HookReply:
        loop = asyncio.get_running_loop()
        async with self._slots.setdefault(loop, asyncio.Semaphore(_AT_ONCE)):
            return await self._runner.ask(handler, ctx, facts)

    def collect(
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
                state = state.with_user_message(with_label(handler.name, text), by=handler.name)
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
        words = "\n".join(f"{handler.name}: {answer.reason}" for handler, answer in wishes)
        times = objections_in_a_row(ctx)
        if all(is_used_up(handler, times) for handler, _ in wishes):
            return HookOutcome.stop(
                cap_message(times, words), stop_reason=StopReason.OBJECTION_LIMIT
            )
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
