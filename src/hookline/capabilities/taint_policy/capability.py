"""Asks before a call whose arguments come from results of tools, and not from the user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from hookline.agent import Note, hook
from hookline.capabilities.notes import is_note_overwrite
from hookline.capabilities.taint_policy.provenance import (
    Provenance,
    TaintedValue,
    TaintNotes,
    TrustedSources,
    digest,
)
from hookline.hooks import HookOutcome, Registration
from hookline.lifecycle import (
    AgentContext,
    CompactHookContext,
    ExecutionHookContext,
    PromptHookContext,
    RunHandle,
    ToolHookContext,
)
from hookline.option_checks import check_choice, check_names
from hookline.permissions import Rule, Rules
from hookline.permissions.read_only_calls import is_read_only_call
from hookline.state import AgentState, ToolCall, UserMessage, thaw

Self = TypeVar("Self", bound=AgentContext)

_NO_ACTS = frozenset({"todo_write", "write_metadata", "structured_output", "spawn_subagent"})
"""Tools that write a run's own notes, give its answer, or start a child, whose calls are judged in their turn."""
_LAST = -100_000
_SHOWN = 60
"""Characters of a value that a person is shown."""
_MOST = 3
"""Findings that a reason names."""


class TaintPolicy:
    """Asks before a call that changes something, if arguments of it come only from results of tools: `TaintPolicy()`.

    The user's words and the system prompt are trusted; results are not, except those of the tools in `trusted`, which
    nobody else can write. `calls` are rules that say which calls are judged; by default all calls of tools that are not
    pure. `on_taint="block"` refuses instead of asking. Attachments are trusted only with `trust_attachments`. Paths in
    rules begin at `root`.
    """

    def __init__(
        self,
        *,
        trusted: Iterable[Rule | str] = (),
        calls: Iterable[Rule | str] | None = None,
        on_taint: Literal["ask", "block"] = "ask",
        trust_attachments: bool = False,
        root: str | os.PathLike[str] = ".",
        name: str = "taint-policy",
    ) -> None:
        check_choice(name, "on_taint", on_taint, ("ask", "block"))
        self.name = name
        listed = check_names(name, "trusted", trusted, '"read_clock"', Rule | str)
        self._trusted = Rules(allow=listed, root=root)
        self._calls: Rules | None = None
        if calls is not None:
            judged = check_names(name, "calls", calls, '"send_mail"', Rule | str)
            self._calls = Rules(ask=judged, root=root)
        self._on_taint = on_taint
        self._key = f"hookline.{name}"
        """Where it is noted in the metadata who said what, once that has left the conversation."""
        self._trust = TrustedSources(self._is_trusted, self._is_trusted_hook, trust_attachments)
        self._known: dict[str, Provenance] = {}
        """What the runs in progress have read. All of it is in their states: another process reads it again."""

    # --- a capability -------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """The policy, here and in children."""
        name = self.name
        yield hook("before_tool_use", self._judge, name=name, tier="policy")
        prompt, keep = f"{name}-prompt", f"{name}-keep"
        yield hook("prompt_submit", self._note_prompt, name=prompt, scope="tree", priority=_LAST)
        yield hook("before_compact", self._keep, name=keep, scope="tree", priority=_LAST)
        yield hook("execution_end", self._forget, name=f"{name}-over", scope="tree")

    def notes(self, _definition: object) -> Iterator[Note]:
        """What is trusted, and what happens to the rest."""
        verb = "asks before" if self._on_taint == "ask" else "blocks"
        which = "calls of tools that are not pure"
        if self._calls is not None:
            which = ", ".join(map(str, self._calls.ask)) or "nothing"
        trusted = ", ".join(map(str, self._trusted.allow))
        yield Note(
            f"{verb} {which} with arguments from tool results"
            + (f", apart from results of {trusted}" if trusted else "")
        )

    # --- judging ------------------------------------------------------------------------------------

    def _judge(self, ctx: ToolHookContext) -> HookOutcome | None:
        if is_note_overwrite(ctx.tool_call):
            return HookOutcome.block("a model cannot write Hookline's own metadata")
        if not self._is_judged(ctx):
            return None
        found = self._provenance(ctx.state, _run_of(ctx)).findings(ctx.tool_call)
        if not found:
            return None
        reason = _reason(found)
        return HookOutcome.ask(reason) if self._on_taint == "ask" else HookOutcome.block(reason)

    def _is_judged(self, ctx: ToolHookContext) -> bool:
        call, tool = ctx.tool_call, ctx.tool
        if self._calls is not None:
            return self._calls.judge(call).decision == "ask"
        if call.name in _NO_ACTS or (tool is not None and tool.is_pure(call.args)):
            return False
        return call.name != "bash" or not is_read_only_call(call, tool, ctx.state)

    def _provenance(self, state: AgentState, run: RunHandle | None) -> Provenance:
        """What a run has read, up to now, and what the runs above it had."""
        known = self._known.get(state.run_id)
        parent = run.parent if run is not None else None
        above = None if parent is None else self._provenance(parent.state, parent)
        if known is None:
            prompt = run.system_prompt if run is not None else ""
            known = Provenance(self._trust, prompt, above)
            if run is not None:
                self._known[state.run_id] = known
        known.read(state, self._notes(state))
        return known

    # --- notes --------------------------------------------------------------------------------------

    def _notes(self, state: AgentState) -> TaintNotes:
        return msgspec.convert(thaw(state.metadata.get(self._key, {})), TaintNotes)

    def _note_prompt(self, ctx: PromptHookContext) -> PromptHookContext:
        """Note the prompt. Hooks may add messages to a conversation that look like one."""
        notes = self._notes(ctx.state)
        before = notes.prompts
        if before is None:  # the conversation is older than the policy
            before = tuple(
                digest(message.text)
                for message in ctx.state.messages
                if isinstance(message, UserMessage) and not message.by
            )
        return self._save_notes(ctx, replace(notes, prompts=(*before, digest(ctx.prompt))))

    def _keep(self, ctx: CompactHookContext) -> CompactHookContext | None:
        """Note the messages that a summary replaces: who said what still counts, in another process too."""
        notes = self._notes(ctx.state)
        leaving = self._provenance(ctx.state, _run_of(ctx)).select_to_keep(ctx.messages)
        new = [message for message in leaving if message not in notes.kept]
        return self._save_notes(ctx, replace(notes, kept=(*notes.kept, *new))) if new else None

    def _save_notes(self, ctx: Self, notes: TaintNotes) -> Self:
        return ctx.with_metadata(self._key, msgspec.to_builtins(notes))

    def _forget(self, ctx: ExecutionHookContext) -> None:
        self._known.pop(ctx.state.run_id, None)

    def _is_trusted(self, call: ToolCall) -> bool:
        return self._trusted.judge(call).decision == "allow"

    def _is_trusted_hook(self, name: str) -> bool:
        return any(rule.argument is None and rule.is_about(name) for rule in self._trusted.allow)

    def __repr__(self) -> str:
        return (
            f"<TaintPolicy {self._on_taint}, trusted={[str(rule) for rule in self._trusted.allow]}>"
        )


def _run_of(ctx: AgentContext) -> RunHandle | None:
    return ctx.run if ctx.has_run else None


def _reason(found: tuple[TaintedValue, ...]) -> str:
    parts = [f"{each.argument} has {_shorten(each.value)} from {each.source}" for each in found]
    more = len(parts) - _MOST
    said = "; ".join(parts[:_MOST]) + (f"; and {more} more like it" if more > 0 else "")
    return f"{said}: that does not come from the user"


def _shorten(value: str) -> str:
    flat = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    return repr(flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 3]}...")
