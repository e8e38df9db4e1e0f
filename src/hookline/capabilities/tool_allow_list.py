"""The tools of a task: other tools are not called, whatever a model was persuaded to do."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeAlias

from hookline.agent import Note, hook
from hookline.capabilities.notes import is_note_overwrite
from hookline.errors import BuildError, UsageError
from hookline.hooks import HookOutcome, Registration
from hookline.lifecycle import (
    AgentContext,
    InferenceHookContext,
    PromptHookContext,
    ToolHookContext,
)
from hookline.lifecycle.contexts import own_and_parent_states
from hookline.permissions import Rule, Rules
from hookline.permissions.names import ANSWER_TOOL, COMPANIONS

Listed: TypeAlias = Iterable[Rule | str]
Choose: TypeAlias = Callable[[str], Listed | Awaitable[Listed | None] | None]
"""Gives the tools of a task from its prompt, before anything untrusted has been read."""

_LAST = -100_000
"""After hooks that change a prompt, or add tools to a request."""
_EXAMPLE = 'Give rules in a list, ["read", "bash(git status)"], or a function of the prompt.'


class ToolAllowList:
    """The tools a task may use, as rules: `ToolAllowList(["read", "bash(git status)"])`.

    Or a function of the prompt that gives them, sync or async: it is asked once, when the prompt is submitted, so that
    nothing the run reads later can lengthen the list. Children are held to the list of the run at the top, because
    their prompts are written by models. `hide` hides the other tools from the model. Paths in rules begin at `root`.
    """

    def __init__(
        self,
        tools: Listed | Choose,
        *,
        hide: bool = True,
        root: str | os.PathLike[str] = ".",
        name: str = "tool-allow-list",
    ) -> None:
        if isinstance(tools, str | Rule) or not (callable(tools) or isinstance(tools, Iterable)):
            raise BuildError(f"ToolAllowList({tools!r}) is not a list of tools.", remedy=_EXAMPLE)
        self.name = name
        self._choose: Choose | None = tools if callable(tools) else None
        self._rules = Rules(allow=() if callable(tools) else tuple(tools), root=root)
        self._root = root
        self._hide = hide
        self._key = f"hookline.{name}"
        """Where in the metadata the list of a run is kept."""

    # --- a capability -------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """The policy; with it what chooses the list, and what hides the other tools."""
        name = self.name
        yield hook("before_tool_use", self._judge, name=name, tier="policy")
        if self._choose is not None:
            yield hook("prompt_submit", self._keep_choice, name=f"{name}-choice", priority=_LAST)
        if self._hide:
            offer = f"{name}-offer"
            yield hook("before_inference", self._offer, name=offer, priority=_LAST, scope="tree")

    def notes(self, _definition: object) -> Iterator[Note]:
        """What is on the list."""
        if self._choose is None:
            yield Note(f"only {_list_rules(self._rules)} may be called")
        else:
            chooser = getattr(self._choose, "__name__", repr(self._choose))
            yield Note(f"only what {chooser} chooses for a prompt may be called")

    # --- the list -----------------------------------------------------------------------------------

    async def _keep_choice(self, ctx: PromptHookContext) -> PromptHookContext:
        assert self._choose is not None
        chosen = self._choose(ctx.prompt)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        return ctx.with_metadata(self._key, [str(rule) for rule in _check_rules(chosen)])

    def _rules_for(self, ctx: AgentContext) -> Rules:
        """The list that was given, or that was chosen for the run at the top; else nothing is on it."""
        if self._choose is None:
            return self._rules
        chosen: Any = None
        for state in own_and_parent_states(
            ctx
        ):  # the topmost counts: it is the one whose prompt a person wrote
            chosen = state.metadata.get(self._key, chosen)
        return self._rules if chosen is None else Rules(allow=tuple(chosen), root=self._root)

    # --- holding to it ------------------------------------------------------------------------------

    def _judge(self, ctx: ToolHookContext) -> HookOutcome | None:
        call = ctx.tool_call
        if is_note_overwrite(call):
            return HookOutcome.block("a model cannot write Hookline's own metadata")
        rules = self._rules_for(ctx)
        is_named = _is_named(call.name, rules)
        goes_with = is_named and call.name in COMPANIONS
        if call.name == ANSWER_TOOL or goes_with or rules.judge(call).decision == "allow":
            return None
        what = f"this call of {call.name}" if is_named else call.name
        return HookOutcome.block(f"{what} is not on the task's list of tools: {_list_rules(rules)}")

    def _offer(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        rules = self._rules_for(ctx)
        request = ctx.request
        offered = tuple(
            spec
            for spec in request.tools
            if spec.name == ANSWER_TOOL or _is_named(spec.name, rules)
        )
        if len(offered) == len(request.tools):
            return None
        request, choice = request.with_tools(offered), request.tool_choice
        names = {spec.name for spec in offered}
        is_met = choice in ("auto", "none") or choice in names or (choice == "required" and names)
        return ctx.with_request(request if is_met else request.with_tool_choice("auto"))

    def __repr__(self) -> str:
        chosen = self._rules.allow if self._choose is None else self._choose
        return f"<ToolAllowList {chosen!r}>"


def _is_named(tool: str, rules: Rules) -> bool:
    """Whether a tool is on the list, for whichever calls."""
    names = (tool, COMPANIONS.get(tool, tool))
    return any(rule.is_about(name) for rule in rules.allow for name in names)


def _list_rules(rules: Rules) -> str:
    return ", ".join(str(rule) for rule in rules.allow) or "nothing is on it"


def _check_rules(chosen: Any) -> tuple[Rule, ...]:
    if chosen is None:
        return ()
    if isinstance(chosen, str | Rule) or not isinstance(chosen, Iterable):
        raise UsageError(
            f"the tools of a task were given as {chosen!r}.", remedy='Give a list: ["read"].'
        )
    return Rules(allow=tuple(chosen)).allow
