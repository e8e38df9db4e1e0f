"""Rules for tool calls: what is denied, what a person is asked about, what passes, and how that changes by mode.

How a person is asked, and who answers, is in `agent/approvals.py`; the prompt is in `cli/approval_prompt.py`.
"""

from __future__ import annotations

import enum
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from hookline.agent import hook
from hookline.capabilities.notes import is_note_overwrite
from hookline.containment.links import real_path
from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.errors import BuildError, HooklineError, UsageError
from hookline.hooks import HookOptions, HookOutcome, Registration
from hookline.lifecycle import AgentContext, ExecutionHookContext, ToolHookContext
from hookline.option_checks import check_names
from hookline.permissions import Root, Rule, Rules, Ruling
from hookline.permissions.names import ANSWER_TOOL, COMPANIONS
from hookline.permissions.read_only_calls import asks_for_more, is_read_only_call
from hookline.state import AgentState, Decision
from hookline.wildcards import matches_any


class ApprovalMode(enum.StrEnum):
    """What happens to calls in addition to the rules."""

    DEFAULT = "default"
    """Calls that no rule is about are left to the other hooks."""
    ASK_UNLISTED = "ask_unlisted"
    """Calls that no rule is about ask, unless they only read."""
    ACCEPT_EDITS = "accept_edits"
    """Changes to files inside the root pass without asking."""
    PLAN = "plan"
    """Nothing is changed: only what reads runs."""
    DENY_UNLISTED = "deny_unlisted"
    """Calls that no rule is about are blocked."""


C = TypeVar("C", bound=AgentContext)

STATE_KEY = "hookline.approval"
"""Where the mode is kept in the metadata, once one was set."""
_UNCLEAR = 1 << 62
"""Later than any time: a note that cannot be read lets nothing through."""


class _Set(NamedTuple):
    """A mode, and when it was set: the latest is valid."""

    at: int
    """In nanoseconds since 1970, so that a mode in a state compares with one set in another process."""
    mode: ApprovalMode


def as_mode(mode: ApprovalMode | str, error: type[HooklineError]) -> ApprovalMode:
    """A mode by its name, also as other agents write it (`acceptEdits`), or an error that names them all."""
    spelled = (
        re.sub(r"(?<=[a-z])(?=[A-Z])|[- ]", "_", mode).lower() if isinstance(mode, str) else mode
    )
    try:
        return ApprovalMode(spelled)
    except ValueError:
        raise error(
            f"{mode!r} is not a mode.", remedy=f"Modes: {', '.join(ApprovalMode)}."
        ) from None


def _mode_in(state: AgentState) -> _Set | None:
    """The mode that a state says; one that cannot be understood is the strictest, whatever is set later."""
    kept = state.metadata.get(STATE_KEY)
    if kept is None:
        return None
    try:
        at = kept.get("set_at", 1)
        return _Set(at if type(at) is int else 1, ApprovalMode(kept["mode"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _Set(_UNCLEAR, ApprovalMode.DENY_UNLISTED)


_EDITS = Rule.parse("Edit(**)")
_OWN_NOTES = frozenset(
    {"list_metadata", "load_skill", "read_metadata", "spawn_subagent", "todo_write", "tools", ANSWER_TOOL}
)  # fmt: skip
"""Tools that change nothing outside the conversation, or whose child runs are judged themselves."""


class Approval:
    """Rules and modes as a capability: `Approval(ask=["bash(git push *)"], deny=["read(.env)"])`.

    `deny` goes before `ask`, `ask` before `allow`. A rule to allow also answers hooks that ask and that `answers`
    names, and never lifts a block. Paths in rules are relative to `root`; by default to what paths in the calls are
    relative to, such as the root of Files.
    """

    def __init__(
        self,
        allow: Iterable[Rule | str] | Rule | str = (),
        ask: Iterable[Rule | str] | Rule | str = (),
        deny: Iterable[Rule | str] | Rule | str = (),
        *,
        mode: ApprovalMode | str = ApprovalMode.DEFAULT,
        root: str | os.PathLike[str] | None = None,
        remember: bool = True,
        answers: Iterable[str] = ("bash*", "files*"),
        name: str = "approval",
    ) -> None:
        self.name = name
        self.rules = Rules(allow, ask, deny, root=_check_root(root))
        self._has_root = root is not None
        self._roots: set[str] = set()
        """The roots of the tools of the agents that have this: their rules mean these in child runs too."""
        self.remember = remember
        self._answers = check_names(name, "answers", answers, '"bash*", "files*"')
        self._default = _Set(0, as_mode(mode, BuildError))
        self._set: dict[str, _Set] = {}
        """The modes of runs in progress. A child has the mode of the run at the top of its tree."""
        self._above: dict[str, str] = {}
        self._running: set[str] = set()
        self._revoked: dict[str, list[frozenset[str]]] = {}
        """Answers to forget, by run, in the order in which they were revoked; an empty set means all."""
        self._forgot: dict[str, int] = {}
        """How many of these a run has forgotten: each once, so that it may learn an answer again."""
        self._now = 0

    # --- a capability -------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """The policy, the hook that keeps commands from changing anything, and those for answers and modes."""
        name = self.name
        yield hook("before_tool_use", _Judge(self), name=name, tier="policy")
        # Last of the hooks, so that the policies judge the call that it leaves.
        last = HookOptions(name=f"{name}-place", scope="tree", priority=-1000)
        yield hook("before_tool_use", self._keep_from_changing, **last)
        yield hook("permission_request", self._answer, name=f"{name}-answers", scope="tree")
        keep = HookOptions(name=f"{name}-keeper", scope="tree", priority=1000)
        for point in ("execution_start", "before_step", "before_tool_use"):
            yield hook(point, self._keep, **keep)
        yield hook("execution_end", self._end, **keep)

    def notes(self, definition: Definition) -> Iterator[Note]:
        """Where paths begin, and rules that are probably wrong in this agent."""
        roots = {tool.root: tool.name for tool in definition.toolbox if tool.root}
        self._roots |= roots.keys()
        for root, tool in roots.items():
            if not self._has_root:
                yield Note(f"paths in rules are relative to {root}")
            elif real_path(root) != real_path(self.rules.root):
                yield Note(
                    f"paths in rules are relative to {self.rules.root}, and paths in calls of {tool} to {root}.",
                    is_problem=True,
                    remedy="Leave root= out: then paths in rules have the root of the calls.",
                )
        for rule, meant in self.rules.strangers(tool.name for tool in definition.toolbox):
            yield Note(
                f"the rule `{rule}` is about a tool '{rule.tool}', and there is no such tool here.",
                is_problem=True,
                remedy=f"Did you mean '{meant}'?"
                if meant
                else "Correct its name, or leave the rule out if no child run has such a tool either.",
            )

    def _roots_of(self, ctx: ToolHookContext) -> tuple[Root, ...]:
        """Where paths begin for a call: first for its own tool, then for those of the agents above."""
        calls = ctx.tool.root if ctx.tool else ""
        if self._has_root:
            return (Root(self.rules.root, calls),)
        first = calls or self.rules.root
        return (Root(first), *(Root(each, calls) for each in sorted(self._roots - {first})))

    def _rule(self, ctx: ToolHookContext) -> Ruling:
        """What the rules say about a call, where its tool runs it."""
        defaults = ctx.tool.defaults if ctx.tool else {}
        return self.rules.judge(ctx.tool_call, *self._roots_of(ctx), defaults=defaults)

    def _keep_from_changing(self, ctx: ToolHookContext) -> ToolHookContext | None:
        """In a mode in which nothing is changed, give a call the arguments with which its tool changes nothing.

        The call itself is changed, so that what is recorded and shown is what runs. Rejected: a mode that the tool
        reads by itself, because the journal would not say where a command ran. A call that asks for something else is
        not changed; the policy judges it.
        """
        call = ctx.tool_call
        mode = self.mode_of(ctx.state)
        pure = _pure_with(ctx)
        if not pure or mode not in (ApprovalMode.PLAN, ApprovalMode.ASK_UNLISTED):
            return None
        missing = {name: value for name, value in pure.items() if call.args.get(name) is None}
        if not missing or any(call.args.get(name) not in (None, pure[name]) for name in pure):
            return None
        listed = self._rule(ctx).decision == "allow"
        if mode is ApprovalMode.ASK_UNLISTED and listed:
            return None  # the user has said that it may do what it does
        return ctx.with_args(**missing)

    def judge(self, ctx: ToolHookContext) -> HookOutcome | None:
        """What the rules and the mode say about a call: a block, an ask, or nothing against it."""
        call = ctx.tool_call
        if is_note_overwrite(call):
            return HookOutcome.block(f"'{STATE_KEY}' cannot be written by the model.")
        ruling = self._rule(ctx)
        if ruling.decision == "deny":
            return HookOutcome.block(ruling.reason)
        mode = self.mode_of(ctx.state)
        is_vouched = ruling.decision == "allow"
        if mode is ApprovalMode.PLAN and not _is_reading(ctx, is_vouched=is_vouched):
            return HookOutcome.block(_not_in_plan_mode(ctx))
        if ruling.decision == "ask":
            return None if self._is_accepted(mode, ctx, ruling) else HookOutcome.ask(ruling.reason)
        if ruling.decision == "allow":
            return None
        return self._judge_unlisted(mode, ctx)

    def _judge_unlisted(self, mode: ApprovalMode, ctx: ToolHookContext) -> HookOutcome | None:
        name = ctx.tool_call.name
        starter = COMPANIONS.get(name)
        if starter is not None:
            rules = (*self.rules.allow, *self.rules.ask)
            if mode is ApprovalMode.ASK_UNLISTED or any(rule.is_about(starter) for rule in rules):
                return None
        if mode is ApprovalMode.DENY_UNLISTED and name != ANSWER_TOOL:
            return HookOutcome.block(f"no rule allows this call of {name}.")
        if mode is ApprovalMode.ASK_UNLISTED and not _is_reading(ctx):
            return HookOutcome.ask(f"no rule allows this call of {name}")
        return None

    def _is_accepted(self, mode: ApprovalMode, ctx: ToolHookContext, ruling: Ruling) -> bool:
        """Whether the mode accepts an edit that a rule asks about. A rule that names a path still asks."""
        names_path = any(rule.argument is not None for rule in ruling.rules)
        if mode is not ApprovalMode.ACCEPT_EDITS or names_path:
            return False
        return _EDITS.covers(ctx.tool_call, self._roots_of(ctx)[0])

    def _answer(self, ctx: ToolHookContext) -> Decision | None:
        """A yes to an ask, where a rule or the mode says so, and all who ask may be answered by a rule."""
        if "/ask-" in ctx.tool_call.id:
            return None  # a running tool asks, and not about the call that the rules are about
        askers = {ctx.asked_by, *ctx.also_asked_by}
        may_answer = all(each == self.name or matches_any(each, self._answers) for each in askers)
        if not may_answer or self.judge(ctx) is not None:
            return None
        if askers == {self.name}:
            # It asked under other rules, or in another mode, before the run paused.
            return Decision.allow("no hook asks about it any more")
        # A mode answers for no other hook: a hook that asks about an edit knows more than that it is one.
        ruling = self._rule(ctx)
        return Decision.allow(ruling.reason) if ruling.decision == "allow" else None

    # --- modes and remembered answers ---------------------------------------------------------------

    @property
    def mode(self) -> ApprovalMode:
        """The mode of runs that have not been given one of their own."""
        return self._default.mode

    def set_mode(self, mode: ApprovalMode | str, *, run_id: str | None = None) -> None:
        """Change the mode of one run, with its children, or of all runs, now and later.

        It is valid from the next call on, and kept in the state of the run.
        """
        checked = as_mode(mode, UsageError)
        self._now = max(self._now + 1, time.time_ns())
        if run_id is None:
            self._default = _Set(self._now, checked)
        else:
            self._set[self._top(run_id)] = _Set(self._now, checked)

    def mode_of(self, state: AgentState) -> ApprovalMode:
        """The mode that holds for a run, going by its state."""
        return self._latest(state).mode

    def revoke(self, *names: str, run_id: str | None = None) -> None:
        """Forget remembered answers, by their names in `state.remembered`; without names, all of them.

        It is valid from the next call on, in one run or in all runs in progress.
        """
        for top in self._running if run_id is None else {self._top(run_id)}:
            self._revoked.setdefault(top, []).append(frozenset(names))

    def _keep(self, ctx: C) -> C | None:
        """Write a mode that was set into the state, and take answers out that were revoked."""
        state, kept = ctx.state, ctx
        top, latest = self._top_of(state), self._latest(state)
        if top == state.run_id:
            self._running.add(top)
            if latest.at:
                self._set[top] = latest  # its children go by it, and have states of their own
        if latest.at and _mode_in(state) != latest:
            kept = ctx.with_metadata(STATE_KEY, {"mode": latest.mode.value, "set_at": latest.at})
        gone = self._find_revoked(state, top) if self.remember else ()
        if gone is not None and state.remembered:
            kept = kept.with_state(kept.state.without_remembered(*gone))
        return kept if kept is not ctx else None

    def _latest(self, state: AgentState) -> _Set:
        given = (self._set.get(self._top_of(state)), _mode_in(state), self._default)
        return max((each for each in given if each is not None), key=lambda each: each.at)

    def _find_revoked(self, state: AgentState, top: str) -> tuple[str, ...] | None:
        """The answers to forget now: none (None), these, or all (an empty tuple)."""
        revoked = self._revoked.get(top, [])
        new = revoked[self._forgot.get(state.run_id, 0) :]
        if not new:
            return None
        self._forgot[state.run_id] = len(revoked)
        if not all(new):
            return ()
        names = frozenset[str]().union(*new)
        return tuple(sorted(name for name in names if name in state.remembered)) or None

    def _end(self, ctx: ExecutionHookContext) -> ExecutionHookContext | None:
        """A run has ended, or pauses: what is set for it is in its state."""
        kept, run_id = self._keep(ctx), ctx.state.run_id
        self._forgot.pop(run_id, None)
        if self._above.pop(run_id, None) is None:
            self._running.discard(run_id)
            self._set.pop(run_id, None)
            self._revoked.pop(run_id, None)
        return kept

    def _top_of(self, state: AgentState) -> str:
        if state.parent_run_id is not None:
            self._above[state.run_id] = state.parent_run_id
        return self._top(state.run_id)

    def _top(self, run_id: str) -> str:
        while run_id in self._above:
            run_id = self._above[run_id]
        return run_id

    def __repr__(self) -> str:
        return f"<Approval {self.mode.value}, {self.rules!r}>"


class _Judge:
    """The policy."""

    def __init__(self, approval: Approval) -> None:
        self._approval = approval

    @property
    def note(self) -> str:
        """What `explain()` says of it."""
        rules = self._approval.rules
        said = [f"mode {self._approval.mode.value}"]
        for verb, given in (("denies", rules.deny), ("asks", rules.ask), ("allows", rules.allow)):
            if given:
                more = f" and {len(given) - 3} more" if len(given) > 3 else ""
                said.append(f"{verb} {', '.join(map(str, given[:3]))}{more}")
        return "; ".join(said)

    def handle(self, ctx: ToolHookContext) -> HookOutcome | None:
        """Judge the final call."""
        return self._approval.judge(ctx)


def _check_root(root: str | os.PathLike[str] | None) -> str | os.PathLike[str]:
    if root is None:
        return "."
    if not os.path.isdir(root):
        raise BuildError(
            f"there is no directory {os.fspath(root)!r}, the root of the rules.",
            remedy="Name one that is there, or leave root= out.",
        )
    return root


def _is_reading(ctx: ToolHookContext, *, is_vouched: bool = False) -> bool:
    """Whether a call certainly changes nothing: its tool says so, or its command line is known to.

    What a tool of an MCP server says of itself counts only if a rule allows the call (`is_vouched`).
    """
    call, tool = ctx.tool_call, ctx.tool
    is_believed = is_vouched or not call.name.startswith("mcp__")
    is_pure = tool is not None and tool.is_pure(call.args) and is_believed
    if is_pure or call.name in _OWN_NOTES or call.name in COMPANIONS:
        return True  # a command that was started in plan mode must be polled and stopped there, too
    if tool is not None and tool.pure_with:
        return False  # it could have been called so that it changes nothing
    return is_read_only_call(call, tool, ctx.state)


def _pure_with(ctx: ToolHookContext) -> Mapping[str, Any]:
    """The arguments with which the tool of a call changes nothing; empty if there are none."""
    return ctx.tool.pure_with if ctx.tool else {}


def _not_in_plan_mode(ctx: ToolHookContext) -> str:
    """Why a call is blocked in plan mode, and what the model can do instead."""
    name, pure = ctx.tool_call.name, _pure_with(ctx)
    if not pure:
        without = " without place and network" if asks_for_more(ctx.tool_call) else ""
        return (
            f"plan mode: nothing is changed now, and {name} may change something. "
            f"Continue with what only reads{without}, and say what you would do."
        )
    given = ", ".join(f"{key}={json.dumps(value)}" for key, value in pure.items())
    return (
        f"plan mode: nothing is changed now. Call {name} with {given} or without these arguments, and describe "
        "what else you would do."
    )
