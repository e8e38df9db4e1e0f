"""What an answer does at each of our points."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.command_hooks.answers import UNCHANGED, Answer
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.command_hooks.dialects.base import TITLE
from hookline.command_hooks.dialects.claude import DISPLAY
from hookline.command_hooks.dialects.cursor_events import result_in
from hookline.command_hooks.dialects.responses import result_of
from hookline.command_hooks.granting import rule_for
from hookline.command_hooks.model_requests import changed_request, response_text
from hookline.command_hooks.stopping import ENDS, is_used_up, used_up
from hookline.command_hooks.tail_calls import REQUEST, wanted_after
from hookline.command_hooks.texts import labelled
from hookline.errors import HooklineError
from hookline.hooks import HookOutcome, Kind
from hookline.state import Decision, Log, StopReason, UserMessage

_WITHHOLDING = ("gemini", "codex", "hookline")
"""Dialects in which a refusal after a tool keeps its result from the model; in the others it is feedback."""
_LONGEST_TITLE = 200
_WORDLESS = "no reason was given"


class Applying:
    """One answer of one hook, at one point."""

    def __init__(self, handler: Handler, ctx: Any, answer: Answer, place: Place) -> None:
        self.handler = handler
        self.ctx = ctx
        self.answer = answer
        self.place = place
        self._dialect = DIALECTS[handler.source.dialect]

    def outcome(self) -> HookOutcome | None:
        """The answer as a verdict of ours; None if nothing was said."""
        answer, point = self.answer, self.ctx.point
        if answer.is_silent or point.value in (
            "execution_end",
            "session_end",
            "agent_failed",
            "error",
        ):
            return self._said(self.ctx)
        if answer.stops and "stop" in point.verdicts and point.value not in ENDS:
            reason = answer.stop_reason or answer.reason or "a hook ended the run"
            return HookOutcome.stop(reason, self.told())
        special = getattr(self, f"_{point.value}", None)
        return special() if special is not None else self._plain()

    # --- points ---------------------------------------------------------------------------------------

    def _before_tool_use(self) -> HookOutcome | None:
        answer = self.answer
        if answer.decision == "deny":
            return HookOutcome.block(self._reason(), self.told())
        ctx = self.told()
        if answer.updated_input is not None:
            changed = self._changed_call()
            if isinstance(changed, str):
                return HookOutcome.block(
                    f"what the hook made of the call cannot run: {changed}", ctx
                )
            ctx = ctx.with_tool_call(changed)
        elif answer.updated_output is not UNCHANGED and self.handler.source.dialect == "hookline":
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
            return HookOutcome(Kind.BLOCK, reason, self.told(), None, Decision.deny(reason))
        if answer.decision != "allow":
            return self._said(self.told())
        decision = Decision.allow(answer.reason, rule=rule_for(self.ctx.tool_call, answer.extra))
        if answer.updated_input is not None:
            changed = self._changed_call()
            if isinstance(changed, str):
                return HookOutcome.block(f"what the hook made of the call cannot run: {changed}")
            decision = Decision.edit(**changed.args)
        return HookOutcome(Kind.ALLOW, answer.reason, self.told(), None, decision)

    def _after_tool_use(self) -> HookOutcome | None:
        answer, ctx = self.answer, self.ctx
        if answer.decision == "deny" and self.handler.source.dialect in _WITHHOLDING:
            return HookOutcome.block(self._reason(), self.told())
        if answer.updated_output is not UNCHANGED:
            is_wrapped = self.handler.source.dialect == "cursor"
            made = (
                result_in(ctx.tool_call, answer.updated_output)
                if is_wrapped
                else answer.updated_output
            )
            ctx = ctx.with_result(result_of(ctx.tool_call, made))
        if REQUEST in (answer.extra or {}):
            ctx = wanted_after(ctx, (answer.extra or {})[REQUEST], self.place)
        feedback = (self._reason(),) if answer.decision == "deny" else ()
        return self._said(self.told(ctx, feedback))

    def _stop(self) -> HookOutcome | None:
        answer, limit = self.answer, self.handler.loop_limit
        wishes = (self._reason(),) if answer.decision == "deny" else answer.contexts
        if answer.stops:  # it stops as it is: nothing has to be ended for that
            return self._said(self.ctx, (answer.stop_reason,))
        if not wishes or (limit is not None and self.place.objections >= limit):
            return self._said(self.ctx)
        if is_used_up(self.handler, self.place.in_a_row):
            return self._overridden(wishes)
        return HookOutcome.block("\n".join(wishes), self._cleared())

    def _overridden(self, wishes: tuple[str, ...]) -> HookOutcome | None:
        """It has objected as often as it may: the run ends, and says so."""
        words = used_up(self.place.in_a_row, " ".join(wishes))
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
        told = [labelled(self.handler.name, text) for text in self.answer.contexts]
        if not told:
            return self._said(self.ctx)
        return self._said(self.ctx.with_prompt("\n\n".join([self.ctx.prompt, *told])))

    def _after_step(self) -> HookOutcome | None:
        if self.answer.decision == "deny":
            return HookOutcome.stop(self._reason(), self.told())
        return self._said(self.told())

    def _session_start(self) -> HookOutcome | None:
        ctx = self._titled(self.told())
        if self.answer.prompt:
            ctx = ctx.with_state(ctx.state.with_user_message(self.answer.prompt))
        return self._decided(ctx)

    def _execution_start(self) -> HookOutcome | None:
        if self._dialect.begins_again(
            self.handler.event
        ):  # a session goes on; nothing can be refused
            return self._said(self._titled(self.told()))
        return self._plain()

    def _prompt_submit(self) -> HookOutcome | None:
        ctx = self._titled(self.told())
        if self.answer.prompt:
            ctx = ctx.with_prompt(self.answer.prompt)
        return self._decided(ctx)

    def _output(self) -> HookOutcome | None:
        ctx = self.told()
        if self.answer.updated_output is not UNCHANGED:
            ctx = ctx.with_output(self.answer.updated_output)
        return self._decided(ctx)

    def _before_inference(self) -> HookOutcome | None:
        if self.handler.event == "SessionStart":  # after a summary; it decides nothing there
            return self._said(self._told_at_once())
        # Gemini's hooks speak before every request, and in that one only: or their words would pile up.
        is_passing = self.handler.source.dialect == "gemini"
        ctx, extra = self.ctx if is_passing else self.told(), self.answer.extra or {}
        request = changed_request(ctx.request, extra)
        if is_passing and self.answer.contexts:
            request = request.with_messages((*request.messages, *self._words()))
        if request is not ctx.request:
            ctx = ctx.with_request(request)
        text = response_text(extra.get("llm_response"))
        return self._decided(ctx if text is None else ctx.with_response(text))

    def _after_inference(self) -> HookOutcome | None:
        if self.handler.event == DISPLAY:  # it is about what is shown, and about nothing else
            return self._said(self.ctx)
        ctx = self.told()
        text = response_text((self.answer.extra or {}).get("llm_response"))
        return self._decided(
            ctx if text is None else ctx.with_response(ctx.response.with_text(text))
        )

    def _plain(self) -> HookOutcome | None:
        return self._decided(self.told())

    # --- parts ----------------------------------------------------------------------------------------

    def _reason(self) -> str:
        """Why something is refused. Some say that to the user alone: better these words than none."""
        return self.answer.reason or "\n".join(self.answer.messages) or _WORDLESS

    def _decided(self, ctx: Any) -> HookOutcome | None:
        answer, point = self.answer, ctx.point
        is_ours = self.handler.source.dialect == "hookline"
        if answer.decision == "deny" and ("block" in point.verdicts or is_ours):
            return HookOutcome.block(self._reason(), ctx)
        if answer.decision == "deny":  # where nothing can be blocked it is only said
            return self._said(ctx, (answer.reason,))
        if answer.decision in ("ask", "defer") and is_ours:
            return HookOutcome.ask(answer.reason, ctx)
        return self._said(ctx)

    def _said(self, ctx: Any, more: tuple[str, ...] = ()) -> HookOutcome | None:
        """Nothing was decided; what the user is told is in the journal, as the reason."""
        words = "\n".join(dict.fromkeys(filter(None, (*self.answer.messages, *more))))
        if not words and ctx is self.ctx:
            return None
        return HookOutcome(Kind.PROCEED, words, None if ctx is self.ctx else ctx)

    def told(self, ctx: Any = None, more: tuple[str, ...] = ()) -> Any:
        """The context, with what the hook tells the model in the conversation."""
        ctx = self.ctx if ctx is None else ctx
        texts = (*more, *self.answer.contexts)
        if not texts or "state" not in ctx.point.changes:
            return ctx
        state = ctx.state
        for text in texts:
            state = state.with_user_message(labelled(self.handler.name, text), by=self.handler.name)
        return ctx.with_state(state)

    def _titled(self, ctx: Any) -> Any:
        """The context, with what the hook calls the session: one line, and not too long."""
        title = " ".join(self.answer.title.split())[:_LONGEST_TITLE]
        return ctx.with_metadata(TITLE, title) if title else ctx

    def _words(self) -> list[UserMessage]:
        """What the hook tells the model, as messages."""
        name = self.handler.name
        return [UserMessage(labelled(name, text), by=name) for text in self.answer.contexts]

    def _told_at_once(self) -> Any:
        """The context, with what the hook tells the model also in the request that is about to go out."""
        ctx = self.told()
        added = ctx.state.messages.since(self.ctx.state.messages) or ()
        if not added:
            return ctx
        return ctx.with_request(ctx.request.with_messages((*ctx.request.messages, *added)))

    def _cleared(self) -> Any:
        """The context without what was said before, where a hook wants the agent to begin anew; else None."""
        if not (self.answer.extra or {}).get("clearContext"):
            return None
        return self.ctx.with_state(self.ctx.state.with_messages(Log()))

    def _changed_call(self) -> Any:
        """The call with the hook's changes, or what is wrong with it."""
        call = self.ctx.tool_call
        try:
            changed = self._dialect.back(call, self._dialect.show(call, self.place), self.answer)
            tool = None if self.ctx.run is None else self.ctx.run.tool(call.name)
            if tool is not None:
                tool.validate_call(changed)
        except HooklineError as error:
            return str(error)
        return changed
