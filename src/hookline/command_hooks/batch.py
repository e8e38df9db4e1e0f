"""The hooks of one point and one dialect: started together, and their answers applied in the order of their files.

Each is a hook of its own in the agent's plan, so that each is in `explain()` and in the journal. The first of them that
is called starts all that match; the others find their answer. So the result does not depend on which is quickest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from hookline.command_hooks.async_hooks import AsyncHooks
from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.handler import (
    TITLE,
    UNCHANGED,
    Handler,
    ProgramAnswer,
    RunFacts,
    labelled,
)
from hookline.command_hooks.objections import ENDS, is_used_up, used_up
from hookline.command_hooks.runner import HookReply, Runner, once_mark, with_once_mark
from hookline.errors import CommandHookError, HooklineError
from hookline.hooks import Context, HookOutcome, Kind, Matcher
from hookline.lifecycle import (
    AgentContext,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    SubagentHookContext,
    ToolHookContext,
    expect_context,
)
from hookline.state import Decision, Log, StopReason, ToolCall, UserMessage

A = TypeVar("A", bound=AgentContext)

NOTES = "hookline.command_hooks"
"""The metadata key of what other hooks said when one blocked."""


class HandlerMatcher(Matcher):
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

    def hook(self, index: int) -> Callable[[Any], Awaitable[HookOutcome | None]]:
        """The hook that one of them is in the agent's plan."""

        async def ask(ctx: AgentContext) -> HookOutcome | None:
            return await self.answer(index, ctx)

        return ask

    def forget(self, run_id: str) -> None:
        """A run is over, or paused."""
        self._firings.pop(run_id, None)

    async def answer(self, index: int, ctx: AgentContext) -> HookOutcome | None:
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

    async def _fire(self, index: int, ctx: AgentContext) -> _Firing:
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

    async def _ask(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> HookReply:
        reply, rest = await self._runner.ask_or_detach(handler, ctx, facts)
        if rest is not None:
            self._async_hooks.adopt(handler, ctx, rest)
        return reply

    def _is_asked(self, handler: Handler, ctx: AgentContext) -> bool:
        return not handler.is_async and self._runner.matches(handler, ctx)

    def _apply(
        self, handler: Handler, ctx: AgentContext, reply: HookReply, firing: _Firing
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
            call = expect_context(ctx, ToolHookContext).tool_call
            self._runner.run(ctx.state).answered_call = call.id
        if outcome is None or outcome.kind < Kind.BLOCK:
            return outcome
        if isinstance(ctx, SubagentHookContext) and ctx.point == HookPoint.SUBAGENT_STOP:
            sent_back = self._runner.run(ctx.state).sent_back
            sent_back[ctx.child_run_id] = sent_back.get(ctx.child_run_id, 0) + 1
        words = "\n".join(answer.messages) if answer.reason else ""
        notes = [{"hook": handler.name, "said": "message", "reason": words}] if words else []
        return self._with_others(ctx, outcome, firing, notes)

    def _asked_once(
        self, handler: Handler, ctx: AgentContext, outcome: HookOutcome | None
    ) -> HookOutcome:
        """The outcome of a hook that was asked for its one time, which the run and the session remember."""
        self._runner.session(ctx.state).asked_once.add(once_mark(handler))
        said = HookOutcome(Kind.PROCEED) if outcome is None else outcome
        given = ctx if said.context is None else expect_context(said.context, AgentContext)
        left = with_once_mark(handler, given)
        return HookOutcome(said.kind, said.reason, left, said.stop_reason, said.answer)

    def _with_others(
        self, ctx: AgentContext, outcome: HookOutcome, firing: _Firing, notes: list[dict[str, str]]
    ) -> HookOutcome:
        """The outcome with what the later hooks said, which are not called any more."""
        self._firings.pop(ctx.state.run_id, None)
        given = outcome.context
        left = ctx if given is None else expect_context(given, AgentContext)
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

    def _stop_of_others(self, ctx: AgentContext, firing: _Firing) -> HookOutcome | None:
        """The outcome of a later hook that ends the run, which takes precedence; None if there is none."""
        for index, reply in sorted(firing.replies.items()):
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


def outcome_of(
    handler: Handler, ctx: AgentContext, answer: ProgramAnswer, facts: RunFacts
) -> HookOutcome | None:
    """An answer as an outcome of ours; None if nothing was said."""
    return _Effect(handler, ctx, answer, facts).outcome()


def with_words(handler: Handler, ctx: A, answer: ProgramAnswer, facts: RunFacts) -> A:
    """The context with a hook's words to the model in the conversation."""
    return _Effect(handler, ctx, answer, facts)._with_words(ctx)


class _Effect:
    """One answer of one hook, at one point."""

    def __init__(
        self, handler: Handler, ctx: AgentContext, answer: ProgramAnswer, facts: RunFacts
    ) -> None:
        self.handler = handler
        self.ctx = ctx
        self.answer = answer
        self.facts = facts
        self._dialect = dialect_of(handler)

    def outcome(self) -> HookOutcome | None:
        answer, point = self.answer, self.ctx.point
        if answer.is_silent or point.value in _UNDECIDED:
            return self._proceed(self.ctx)
        if answer.stops and "stop" in point.verdicts and point.value not in ENDS:
            reason = answer.stop_reason or answer.reason or "a hook ended the run"
            return HookOutcome.stop(reason, self._with_words(self.ctx))
        special = getattr(self, f"_{point.value}", None)
        return (special or self._plain)(self.ctx)

    # --- points ---------------------------------------------------------------------------------------

    def _before_tool_use(self, ctx: ToolHookContext) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny":
            return HookOutcome.block(self._reason(), self._with_words(ctx))
        ctx = self._with_words(ctx)
        if answer.updated_input is not None:
            changed = self._changed_call(ctx)
            if isinstance(changed, str):
                return HookOutcome.block(
                    f"what the hook made of the call cannot run: {changed}", ctx
                )
            ctx = ctx.with_tool_call(changed)
        elif answer.updated_output is not UNCHANGED:
            ctx = ctx.with_result(answer.updated_output)
        if answer.decision in ("ask", "defer"):
            return HookOutcome.ask(answer.reason or "a hook asks for a person", ctx)
        if answer.decision == "allow":
            return HookOutcome.allow(answer.reason, ctx)
        return self._proceed(ctx)

    def _permission_request(self, ctx: ToolHookContext) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny":
            reason = self._reason()
            return HookOutcome(
                Kind.BLOCK, reason, self._with_words(ctx), None, Decision.deny(reason)
            )
        if answer.decision != "allow":
            return self._proceed(self._with_words(ctx))
        decision = Decision.allow(answer.reason)
        if answer.updated_input is not None:
            changed = self._changed_call(ctx)
            if isinstance(changed, str):
                return HookOutcome.block(f"what the hook made of the call cannot run: {changed}")
            decision = Decision.edit(**changed.args)
        return HookOutcome(Kind.ALLOW, answer.reason, self._with_words(ctx), None, decision)

    def _after_tool_use(self, ctx: ToolHookContext) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny" and self._dialect.withholds_results:
            return HookOutcome.block(self._reason(), self._with_words(ctx))
        if answer.updated_output is not UNCHANGED:
            ctx = ctx.with_result(self._dialect.take_result(ctx.tool_call, answer))
        feedback = (self._reason(),) if answer.decision == "deny" else ()
        return self._proceed(self._with_words(ctx, feedback))

    def _stop(self, ctx: AgentContext) -> HookOutcome | None:
        answer, limit = self.answer, self.handler.loop_limit
        wishes = (self._reason(),) if answer.decision == "deny" else answer.contexts
        if answer.stops:  # the run ends anyway
            return self._proceed(ctx, (answer.stop_reason,))
        if not wishes or (limit is not None and self.facts.objections >= limit):
            return self._proceed(ctx)
        if is_used_up(self.handler, self.facts.objections_in_a_row):
            return self._overridden(wishes)
        return HookOutcome.block("\n".join(wishes), self._cleared())

    def _overridden(self, wishes: tuple[str, ...]) -> HookOutcome | None:
        """It has objected as often as it may: the run ends, with a message."""
        words = used_up(self.facts.objections_in_a_row, " ".join(wishes))
        if self.ctx.point.value == "stop":
            return HookOutcome.stop(words, stop_reason=StopReason.OBJECTION_LIMIT)
        return self._proceed(self.ctx, (words,))

    def _subagent_stop(self, ctx: SubagentHookContext) -> HookOutcome | None:
        answer, result = self.answer, ctx.result
        if answer.decision == "deny" or answer.updated_output is UNCHANGED or result is None:
            return self._stop(ctx)
        replaced = msgspec.structs.replace(result, output=str(answer.updated_output), said=None)
        return self._proceed(ctx.with_result(replaced))

    def _subagent_start(self, ctx: SubagentHookContext) -> HookOutcome | None:
        if self.answer.decision == "deny":
            return HookOutcome.block(self._reason())
        words = [labelled(self.handler.name, text) for text in self.answer.contexts]
        if not words:
            return self._proceed(ctx)
        return self._proceed(ctx.with_prompt("\n\n".join([ctx.prompt, *words])))

    def _after_step(self, ctx: AgentContext) -> HookOutcome | None:
        if self.answer.decision == "deny":
            return HookOutcome.stop(self._reason(), self._with_words(ctx))
        return self._proceed(self._with_words(ctx))

    def _session_start(self, ctx: AgentContext) -> HookOutcome | None:
        ctx = self._titled(self._with_words(ctx))
        if self.answer.prompt:
            ctx = ctx.with_state(ctx.state.with_user_message(self.answer.prompt))
        return self._decided(ctx)

    def _execution_start(self, ctx: AgentContext) -> HookOutcome | None:
        if self._dialect.is_restart(self.handler.event):  # nothing can be refused
            return self._proceed(self._titled(self._with_words(ctx)))
        return self._plain(ctx)

    def _prompt_submit(self, ctx: PromptHookContext) -> HookOutcome | None:
        ctx = self._titled(self._with_words(ctx))
        if self.answer.prompt:
            ctx = ctx.with_prompt(self.answer.prompt)
        return self._decided(ctx)

    def _output(self, ctx: OutputHookContext) -> HookOutcome | None:
        ctx = self._with_words(ctx)
        if self.answer.updated_output is not UNCHANGED:
            ctx = ctx.with_output(self.answer.updated_output)
        return self._decided(ctx)

    def _before_inference(self, ctx: InferenceHookContext) -> HookOutcome | None:
        if self.handler.event in self._dialect.after_compaction:  # it decides nothing there
            return self._proceed(self._with_words_at_once(ctx))
        is_lasting = self._dialect.context_is_lasting
        ctx = self._with_words(ctx) if is_lasting else ctx
        request = self._dialect.change_request(ctx.request, self.answer)
        if self.answer.contexts and not is_lasting:
            request = request.with_messages((*request.messages, *self._words()))
        if request is not ctx.request:
            ctx = ctx.with_request(request)
        text = self._dialect.new_response(self.answer)
        return self._decided(ctx if text is None else ctx.with_response(text))

    def _after_inference(self, ctx: InferenceHookContext) -> HookOutcome | None:
        if self.handler.event in self._dialect.displaying:  # it is about what is shown only
            return self._proceed(ctx)
        ctx = self._with_words(ctx)
        text = self._dialect.new_response(self.answer)
        if text is not None and ctx.response is not None:
            ctx = ctx.with_response(ctx.response.with_text(text))
        return self._decided(ctx)

    def _plain(self, ctx: AgentContext) -> HookOutcome | None:
        return self._decided(self._with_words(ctx))

    # --- parts ----------------------------------------------------------------------------------------

    def _reason(self) -> str:
        """The reason of a refusal; the words to the user if there is no other."""
        return self.answer.reason or "\n".join(self.answer.messages) or _NO_REASON

    def _decided(self, ctx: AgentContext) -> HookOutcome | None:
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

    def _with_words(self, ctx: A, more: tuple[str, ...] = ()) -> A:
        """The context with the hook's words to the model in the conversation."""
        texts = (*more, *self.answer.contexts)
        if not texts or "state" not in ctx.point.changes:
            return ctx
        state = ctx.state
        for text in texts:
            state = state.with_user_message(labelled(self.handler.name, text), by=self.handler.name)
        return ctx.with_state(state)

    def _titled(self, ctx: A) -> A:
        """The context with the hook's title of the session."""
        title = " ".join(self.answer.title.split())[:_LONGEST_TITLE]
        return ctx.with_metadata(TITLE, title) if title else ctx

    def _words(self) -> list[UserMessage]:
        """The hook's words to the model, as messages."""
        name = self.handler.name
        return [UserMessage(labelled(name, text), by=name) for text in self.answer.contexts]

    def _with_words_at_once(self, ctx: InferenceHookContext) -> InferenceHookContext:
        """The context with the hook's words in the conversation, and in the request that is about to go out."""
        ctx = self._with_words(ctx)
        added = ctx.state.messages.since(self.ctx.state.messages) or ()
        if not added:
            return ctx
        return ctx.with_request(ctx.request.with_messages((*ctx.request.messages, *added)))

    def _cleared(self) -> AgentContext | None:
        """The context without the conversation so far, if the hook wants that; else None."""
        if not self.answer.clears_context:
            return None
        return self.ctx.with_state(self.ctx.state.with_messages(Log()))

    def _changed_call(self, ctx: ToolHookContext) -> ToolCall | str:
        """The call with the hook's changes, or what is wrong with it."""
        call = ctx.tool_call
        try:
            changed = self._dialect.take_back(
                call, self._dialect.show(call, self.facts), self.answer
            )
            tool = None if ctx.run is None else ctx.run.tool(call.name)
            if tool is not None:
                tool.validate_call(changed)
        except HooklineError as error:
            return str(error)
        return changed
