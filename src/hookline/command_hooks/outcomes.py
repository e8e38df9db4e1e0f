"""What an answer does at each of our points."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.exchange import TITLE, UNCHANGED, HookAnswer, RunFacts
from hookline.command_hooks.handler import Handler
from hookline.command_hooks.objections import ENDS, is_used_up, used_up
from hookline.command_hooks.texts import labelled
from hookline.errors import HooklineError
from hookline.hooks import HookOutcome, Kind
from hookline.state import Decision, Log, StopReason, ToolCall, UserMessage

_UNDECIDED = ("execution_end", "session_end", "agent_failed", "error")
"""Points where nothing can be decided."""
_LONGEST_TITLE = 200
_NO_REASON = "no reason was given"


def outcome_of(
    handler: Handler, ctx: Any, answer: HookAnswer, facts: RunFacts
) -> HookOutcome | None:
    """An answer as an outcome of ours; None if nothing was said."""
    return _Effect(handler, ctx, answer, facts).outcome()


def with_words(handler: Handler, ctx: Any, answer: HookAnswer, facts: RunFacts) -> Any:
    """The context with a hook's words to the model in the conversation."""
    return _Effect(handler, ctx, answer, facts)._with_words()


class _Effect:
    """One answer of one hook, at one point."""

    def __init__(self, handler: Handler, ctx: Any, answer: HookAnswer, facts: RunFacts) -> None:
        self.handler = handler
        self.ctx = ctx
        self.answer = answer
        self.facts = facts
        self._dialect = dialect_of(handler)

    def outcome(self) -> HookOutcome | None:
        answer, point = self.answer, self.ctx.point
        if answer.is_silent or point.value in _UNDECIDED:
            return self._said(self.ctx)
        if answer.stops and "stop" in point.verdicts and point.value not in ENDS:
            reason = answer.stop_reason or answer.reason or "a hook ended the run"
            return HookOutcome.stop(reason, self._with_words())
        special = getattr(self, f"_{point.value}", None)
        return special() if special is not None else self._plain()

    # --- points ---------------------------------------------------------------------------------------

    def _before_tool_use(self) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny":
            return HookOutcome.block(self._reason(), self._with_words())
        ctx = self._with_words()
        if answer.updated_input is not None:
            changed = self._changed_call()
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
        return self._said(ctx)

    def _permission_request(self) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny":
            reason = self._reason()
            return HookOutcome(Kind.BLOCK, reason, self._with_words(), None, Decision.deny(reason))
        if answer.decision != "allow":
            return self._said(self._with_words())
        decision = Decision.allow(answer.reason, rule=_granted_rule(self.ctx.tool_call, answer))
        if answer.updated_input is not None:
            changed = self._changed_call()
            if isinstance(changed, str):
                return HookOutcome.block(f"what the hook made of the call cannot run: {changed}")
            decision = Decision.edit(**changed.args)
        return HookOutcome(Kind.ALLOW, answer.reason, self._with_words(), None, decision)

    def _after_tool_use(self) -> HookOutcome | None:
        answer, ctx = self.answer, self.ctx
        if answer.decision == "deny" and self._dialect.withholds_results:
            return HookOutcome.block(self._reason(), self._with_words())
        if answer.updated_output is not UNCHANGED:
            ctx = ctx.with_result(self._dialect.take_result(ctx.tool_call, answer))
        ctx = self._dialect.after_tool(ctx, answer, self.facts)
        feedback = (self._reason(),) if answer.decision == "deny" else ()
        return self._said(self._with_words(ctx, feedback))

    def _stop(self) -> HookOutcome | None:
        answer, limit = self.answer, self.handler.loop_limit
        wishes = (self._reason(),) if answer.decision == "deny" else answer.contexts
        if answer.stops:  # it stops as it is: nothing has to be ended for that
            return self._said(self.ctx, (answer.stop_reason,))
        if not wishes or (limit is not None and self.facts.objections >= limit):
            return self._said(self.ctx)
        if is_used_up(self.handler, self.facts.objections_in_a_row):
            return self._overridden(wishes)
        return HookOutcome.block("\n".join(wishes), self._cleared())

    def _overridden(self, wishes: tuple[str, ...]) -> HookOutcome | None:
        """It has objected as often as it may: the run ends, with a message."""
        words = used_up(self.facts.objections_in_a_row, " ".join(wishes))
        if self.ctx.point.value == "stop":
            return HookOutcome.stop(words, stop_reason=StopReason.OBJECTION_LIMIT)
        return self._said(self.ctx, (words,))

    def _subagent_stop(self) -> HookOutcome | None:
        answer, result = self.answer, self.ctx.result
        if answer.decision == "deny" or answer.updated_output is UNCHANGED or result is None:
            return self._stop()
        replaced = msgspec.structs.replace(result, output=str(answer.updated_output), said=None)
        return self._said(self.ctx.with_result(replaced))

    def _subagent_start(self) -> HookOutcome | None:
        if self.answer.decision == "deny":
            return HookOutcome.block(self._reason())
        words = [labelled(self.handler.name, text) for text in self.answer.contexts]
        if not words:
            return self._said(self.ctx)
        return self._said(self.ctx.with_prompt("\n\n".join([self.ctx.prompt, *words])))

    def _after_step(self) -> HookOutcome | None:
        if self.answer.decision == "deny":
            return HookOutcome.stop(self._reason(), self._with_words())
        return self._said(self._with_words())

    def _session_start(self) -> HookOutcome | None:
        ctx = self._titled(self._with_words())
        if self.answer.prompt:
            ctx = ctx.with_state(ctx.state.with_user_message(self.answer.prompt))
        return self._decided(ctx)

    def _execution_start(self) -> HookOutcome | None:
        if self._dialect.is_restart(self.handler.event):  # nothing can be refused
            return self._said(self._titled(self._with_words()))
        return self._plain()

    def _prompt_submit(self) -> HookOutcome | None:
        ctx = self._titled(self._with_words())
        if self.answer.prompt:
            ctx = ctx.with_prompt(self.answer.prompt)
        return self._decided(ctx)

    def _output(self) -> HookOutcome | None:
        ctx = self._with_words()
        if self.answer.updated_output is not UNCHANGED:
            ctx = ctx.with_output(self.answer.updated_output)
        return self._decided(ctx)

    def _before_inference(self) -> HookOutcome | None:
        if self.handler.event in self._dialect.after_compaction:  # it decides nothing there
            return self._said(self._with_words_at_once())
        is_lasting = self._dialect.context_is_lasting
        ctx = self._with_words() if is_lasting else self.ctx
        request = self._dialect.change_request(ctx.request, self.answer)
        if self.answer.contexts and not is_lasting:
            request = request.with_messages((*request.messages, *self._words()))
        if request is not ctx.request:
            ctx = ctx.with_request(request)
        text = self._dialect.new_response(self.answer)
        return self._decided(ctx if text is None else ctx.with_response(text))

    def _after_inference(self) -> HookOutcome | None:
        if self.handler.event in self._dialect.displaying:  # it is about what is shown only
            return self._said(self.ctx)
        ctx = self._with_words()
        text = self._dialect.new_response(self.answer)
        return self._decided(
            ctx if text is None else ctx.with_response(ctx.response.with_text(text))
        )

    def _plain(self) -> HookOutcome | None:
        return self._decided(self._with_words())

    # --- parts ----------------------------------------------------------------------------------------

    def _reason(self) -> str:
        """The reason of a refusal; the words to the user if there is no other."""
        return self.answer.reason or "\n".join(self.answer.messages) or _NO_REASON

    def _decided(self, ctx: Any) -> HookOutcome | None:
        answer, point = self.answer, ctx.point
        is_strict = self._dialect.is_strict
        if answer.decision == "deny" and ("block" in point.verdicts or is_strict):
            return HookOutcome.block(self._reason(), ctx)
        if answer.decision == "deny":  # nothing can be blocked there
            return self._said(ctx, (answer.reason,))
        if answer.decision in ("ask", "defer") and is_strict:
            return HookOutcome.ask(answer.reason, ctx)
        return self._said(ctx)

    def _said(self, ctx: Any, more: tuple[str, ...] = ()) -> HookOutcome | None:
        """The outcome of an answer that decides nothing; words to the user are the reason in the journal."""
        words = "\n".join(dict.fromkeys(filter(None, (*self.answer.messages, *more))))
        if not words and ctx is self.ctx:
            return None
        return HookOutcome(Kind.PROCEED, words, None if ctx is self.ctx else ctx)

    def _with_words(self, ctx: Any = None, more: tuple[str, ...] = ()) -> Any:
        """The context with the hook's words to the model in the conversation."""
        ctx = self.ctx if ctx is None else ctx
        texts = (*more, *self.answer.contexts)
        if not texts or "state" not in ctx.point.changes:
            return ctx
        state = ctx.state
        for text in texts:
            state = state.with_user_message(labelled(self.handler.name, text), by=self.handler.name)
        return ctx.with_state(state)

    def _titled(self, ctx: Any) -> Any:
        """The context with the hook's title of the session."""
        title = " ".join(self.answer.title.split())[:_LONGEST_TITLE]
        return ctx.with_metadata(TITLE, title) if title else ctx

    def _words(self) -> list[UserMessage]:
        """The hook's words to the model, as messages."""
        name = self.handler.name
        return [UserMessage(labelled(name, text), by=name) for text in self.answer.contexts]

    def _with_words_at_once(self) -> Any:
        """The context with the hook's words in the conversation, and in the request that is about to go out."""
        ctx = self._with_words()
        added = ctx.state.messages.since(self.ctx.state.messages) or ()
        if not added:
            return ctx
        return ctx.with_request(ctx.request.with_messages((*ctx.request.messages, *added)))

    def _cleared(self) -> Any:
        """The context without the conversation so far, if the hook wants that; else None."""
        if not self.answer.clears_context:
            return None
        return self.ctx.with_state(self.ctx.state.with_messages(Log()))

    def _changed_call(self) -> Any:
        """The call with the hook's changes, or what is wrong with it."""
        call = self.ctx.tool_call
        try:
            changed = self._dialect.take_back(
                call, self._dialect.show(call, self.facts), self.answer
            )
            tool = None if self.ctx.run is None else self.ctx.run.tool(call.name)
            if tool is not None:
                tool.validate_call(changed)
        except HooklineError as error:
            return str(error)
        return changed


def _granted_rule(call: ToolCall, answer: HookAnswer) -> str:
    if not answer.rules:
        return ""
    from hookline.command_hooks.permission_rules import granted_rule  # takes a while to load

    return granted_rule(call, answer.rules)
