"""Rules for tool calls: what is denied, what a person is asked about, what passes, and how that changes by mode."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from hookline.errors import BuildError, HooklineError, UsageError
from hookline.hooks import HookOutcome, Options, Registration, register
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.permissions import Rule, Rules, Ruling
from hookline.state import AgentState, Decision, ToolCall


class ApprovalMode(enum.StrEnum):
    """What happens to calls, besides what the rules say."""

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


STATE_KEY = "hookline.approval"
"""Where in the metadata the mode is kept that somebody has set."""

_EDITS = Rule.parse("Edit(**)")
_OWN_NOTES = frozenset(
    {"list_metadata", "load_skill", "read_metadata", "spawn_subagent", "structured_output", "todo_write", "tools"}
)  # fmt: skip
"""Tools that change nothing outside the conversation, or whose children are judged themselves."""


class Approval:
    """Rules and modes as a capability: `Approval(ask=["bash(git push *)"], deny=["read(.env)"])`.

    `deny` goes before `ask`, `ask` before `allow`. A rule to allow answers the asks of the hooks that `answers` names,
    and never lifts a block. `root` is the directory that paths in rules are relative to.
    """

    def __init__(
        self,
        allow: Iterable[Rule | str] | Rule | str = (),
        ask: Iterable[Rule | str] | Rule | str = (),
        deny: Iterable[Rule | str] | Rule | str = (),
        *,
        mode: ApprovalMode | str = ApprovalMode.DEFAULT,
        root: str | os.PathLike[str] = ".",
        remember: bool = True,
        answers: Iterable[str] = ("bash*", "files*"),
        name: str = "approval",
    ) -> None:
        if isinstance(answers, str):
            raise BuildError(
                f"answers={answers!r} is not a list of hooks.", remedy="Give their names in a list."
            )
        self.name = name
        self.rules = Rules(allow, ask, deny, root=root)
        self.remember = remember
        self._answers = tuple(answers)
        self._modes = _Modes(_mode(mode, BuildError))

    # --- a capability -------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """The policy, the hook that answers for it, and the one that keeps modes and forgets answers."""
        judge = Options(name=self.name, tier="policy")
        yield register(HookPoint.BEFORE_TOOL_USE, _Judge(self), judge)
        answer = Options(name=f"{self.name}-answers", scope="tree")
        yield register(HookPoint.PERMISSION_REQUEST, self._answer, answer)
        keep = Options(name=f"{self.name}-keeper", scope="tree", priority=1000)
        for point in (
            HookPoint.EXECUTION_START,
            HookPoint.BEFORE_STEP,
            HookPoint.BEFORE_TOOL_USE,
        ):
            yield register(point, self._keep, keep)
        yield register(HookPoint.EXECUTION_END, self._end, keep)

    def judge(self, ctx: ToolHookContext) -> HookOutcome | None:
        """What the rules and the mode say about a call: a block, an ask, or nothing against it."""
        call = ctx.tool_call
        if _writes_our_notes(call):
            return HookOutcome.block(f"'{STATE_KEY}' is not for the model to write.")
        ruling = self.rules.judge(call)
        if ruling.decision == "deny":
            return HookOutcome.block(ruling.reason)
        mode = self._modes.of(ctx.state)
        if mode is ApprovalMode.PLAN and not _only_reads(ctx):
            return HookOutcome.block(
                f"plan mode: nothing is changed now, and {call.name} may change something. "
                "Go on with what only reads, and say what you would do."
            )
        if ruling.decision == "ask":
            return None if self._accepts(mode, call, ruling) else HookOutcome.ask(ruling.reason)
        if ruling.decision == "allow":
            return None
        return self._judge_unlisted(mode, ctx)

    def _judge_unlisted(self, mode: ApprovalMode, ctx: ToolHookContext) -> HookOutcome | None:
        name = ctx.tool_call.name
        if mode is ApprovalMode.DENY_UNLISTED:
            return HookOutcome.block(f"no rule allows this call of {name}.")
        if mode is ApprovalMode.ASK_UNLISTED and not _only_reads(ctx):
            return HookOutcome.ask(f"no rule allows this call of {name}")
        return None

    def _accepts(self, mode: ApprovalMode, call: ToolCall, ruling: Ruling) -> bool:
        """Whether the mode accepts an edit that a rule asks about. A rule that names a path still asks."""
        is_about_paths = any(rule.argument is not None for rule in ruling.rules)
        return not is_about_paths and self._is_accepted_edit(mode, call)

    def _is_accepted_edit(self, mode: ApprovalMode, call: ToolCall) -> bool:
        return mode is ApprovalMode.ACCEPT_EDITS and _EDITS.covers(call, self.rules.root)

    def _answer(self, ctx: ToolHookContext) -> Decision | None:
        """A yes to an ask, where a rule or the mode says so, and all who ask may be answered by a rule."""
        if _is_of_a_running_tool(ctx.tool_call):
            return None  # it asks about something else than the call that the rules are about
        askers = {ctx.asked_by, *ctx.also_asked_by}
        if not all(map(self._may_answer, askers)) or self.judge(ctx) is not None:
            return None
        if askers == {
            self.name
        }:  # it was asked under other rules, or in another mode, before the run paused
            return Decision.allow("it is not asked about any more")
        ruling = self.rules.judge(ctx.tool_call)
        if ruling.decision == "allow":
            return Decision.allow(ruling.reason)
        if self._is_accepted_edit(self._modes.of(ctx.state), ctx.tool_call):
            return Decision.allow("edits are accepted")
        return None

    def _may_answer(self, hook: str) -> bool:
        return hook == self.name or any(fnmatchcase(hook, known) for known in self._answers)

    # --- modes and remembered answers ---------------------------------------------------------------

    @property
    def mode(self) -> ApprovalMode:
        """The mode of runs that have not been given one of their own."""
        return self._modes.default

    def set_mode(self, mode: ApprovalMode | str, *, run_id: str | None = None) -> None:
        """Change the mode of one run, with its children, or of all: those going on and those to come.

        It holds from the next call on. It is kept in the state of the run, and with it in its session.
        """
        self._modes.set(_mode(mode, UsageError), run_id)

    def mode_of(self, state: AgentState) -> ApprovalMode:
        """The mode that holds for a run, going by its state."""
        return self._modes.of(state)

    def revoke(self, *names: str, run_id: str | None = None) -> None:
        """Forget remembered answers, by their names in `state.remembered`; without names, all of them.

        It holds from the next call on, in one run or in all that are going on.
        """
        self._modes.forget(names, run_id)

    def _keep(self, ctx: Any) -> Any:
        """Write a mode that was set into the state, and take answers out that were revoked."""
        kept = self._modes.kept(ctx)
        gone = self._modes.forgotten(ctx.state) if self.remember else ()
        if gone is not None and kept.state.remembered:
            kept = kept.with_state(kept.state.without_remembered(*gone))
        return kept if kept is not ctx else None

    def _end(self, ctx: Any) -> Any:
        kept = self._keep(ctx)
        self._modes.leave(ctx.state)
        return kept

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


class _Modes:
    """The modes of the runs that are going on. A child has the mode of the run at the top of its tree."""

    def __init__(self, default: ApprovalMode) -> None:
        self.default = default
        self._set: dict[str, ApprovalMode] = {}
        self._above: dict[str, str] = {}
        self._going: set[str] = set()
        self._revoked: dict[str, set[str] | None] = {}
        """Answers that are to be forgotten, by run; None for all of them."""

    def set(self, mode: ApprovalMode, run_id: str | None) -> None:
        if run_id is None:
            self.default = mode
            self._set.update(dict.fromkeys(self._going, mode))
        else:
            self._set[self._top(run_id)] = mode

    def of(self, state: AgentState) -> ApprovalMode:
        top = self._top_of(state)
        known = self._set.get(top)
        return known or _mode_in(state) or self.default

    def kept(self, ctx: Any) -> Any:
        """The context, with the mode in its metadata if somebody has set one."""
        state: AgentState = ctx.state
        top = self._top_of(state)
        if top == state.run_id and top not in self._going:
            self._going.add(top)
            before = _mode_in(state)
            if before is not None:
                self._set.setdefault(top, before)
        mode = self._set.get(top)
        if mode is None or _mode_in(state) is mode:
            return ctx
        return ctx.with_metadata(STATE_KEY, {"mode": mode.value})

    def forget(self, names: tuple[str, ...], run_id: str | None) -> None:
        for top in self._going if run_id is None else {self._top(run_id)}:
            before = self._revoked.get(top, set())
            self._revoked[top] = None if before is None or not names else before | set(names)

    def forgotten(self, state: AgentState) -> tuple[str, ...] | None:
        """The answers to forget now: none of them (None), these, or, without any names, all."""
        top = self._top_of(state)
        if top not in self._revoked:
            return None
        # A child may remember what its parent does: what is revoked stays so until the run at the top ends.
        names = self._revoked[top]
        if names is None:
            return ()
        found = tuple(name for name in names if name in state.remembered)
        return found or None

    def leave(self, state: AgentState) -> None:
        run_id = state.run_id
        if self._above.pop(run_id, None) is None:
            self._going.discard(run_id)
            self._set.pop(run_id, None)
            self._revoked.pop(run_id, None)

    def _top_of(self, state: AgentState) -> str:
        if state.parent_run_id is not None:
            self._above[state.run_id] = state.parent_run_id
        return self._top(state.run_id)

    def _top(self, run_id: str) -> str:
        while run_id in self._above:
            run_id = self._above[run_id]
        return run_id


def _mode(mode: ApprovalMode | str, error: type[HooklineError]) -> ApprovalMode:
    try:
        return ApprovalMode(mode)
    except ValueError:
        raise error(
            f"{mode!r} is not a mode.", remedy=f"Modes: {', '.join(ApprovalMode)}."
        ) from None


def _mode_in(state: AgentState) -> ApprovalMode | None:
    """The mode that a state says; one that cannot be understood is the strictest."""
    kept = state.metadata.get(STATE_KEY)
    if kept is None:
        return None
    try:
        return ApprovalMode(kept["mode"])
    except (ValueError, KeyError, TypeError):
        return ApprovalMode.DENY_UNLISTED


def _only_reads(ctx: ToolHookContext) -> bool:
    """Whether a call certainly changes nothing: its tool says so, or its command line is known to."""
    call = ctx.tool_call
    tool = None if ctx.run is None else ctx.run.tool(call.name)
    is_pure = tool is not None and tool.effect == "pure"
    if is_pure or call.name in _OWN_NOTES:
        return True
    command = call.args.get("command")
    return call.name == "bash" and isinstance(command, str) and _is_quiet(command)


def _is_quiet(command: str) -> bool:
    try:
        from hookline.containment import ShellPolicy

        return bool(ShellPolicy.default().judge(command).decision == "allow")
    except (ImportError, HooklineError):
        return False  # without its parser nothing is known of the command


def _is_of_a_running_tool(call: ToolCall) -> bool:
    return "/ask-" in call.id


def _writes_our_notes(call: ToolCall) -> bool:
    return call.name == "write_metadata" and str(call.args.get("key", "")).startswith("hookline.")
