"""The policy in front of every command: what is forbidden, what a person is asked about, what the sandbox covers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hookline.capabilities.bash.needs import needs_network
from hookline.containment import Sandbox
from hookline.errors import ToolError
from hookline.hooks import HookOutcome
from hookline.lifecycle import ToolHookContext
from hookline.state import AgentState, ToolCall

if TYPE_CHECKING:
    from hookline.containment import ShellPolicy, Verdict


class Shell(Protocol):
    """What is to be known of whoever runs commands."""

    @property
    def policy(self) -> ShellPolicy:
        """What judges them."""

    ask: Literal["outside-sandbox", "always"]
    sandbox: Sandbox

    def has_kept_variables(self, state: AgentState) -> bool:
        """Whether earlier commands have set variables for the next one."""

    def kept_directory(self, state: AgentState) -> str:
        """Where earlier commands have left the shell; empty for the work directory."""


class ShellGuard:
    """Judges the final call by the shell policy. Nothing that a policy forbids runs, contained or not."""

    def __init__(self, bash: Shell) -> None:
        self._bash = bash
        self._judged: dict[tuple[str, str], tuple[Shell | None, list[str]]] = {}
        """Calls that may run, by run and id: whose tool it is, and what a person was asked."""

    @property
    def note(self) -> str:
        """What `explain()` says of it."""
        contained = self._bash.sandbox.status.contained and self._bash.ask != "always"
        about = "what leaves the sandbox" if contained else "what is not plainly harmless"
        return f"{self._bash.sandbox.describe()}; denies what is dangerous, asks about {about}"

    def handle(self, ctx: ToolHookContext) -> HookOutcome | None:
        """Block what is denied, ask about what needs a person."""
        key = (ctx.state.run_id, ctx.tool_call.id)
        self._judged.pop(key, None)
        if command_of(ctx.tool_call.args) is None:
            return HookOutcome.block("this is not a command that can be judged")
        bash = self._whose(ctx)
        denied, reasons = self._judgement(bash, ctx.tool_call, ctx.state)
        if denied:
            return HookOutcome.block(denied)
        self._judged[key] = (bash, reasons)
        return HookOutcome.ask("; ".join(reasons)) if reasons else None

    def check(self, call: ToolCall, state: AgentState) -> None:
        """Judge a call again as it starts: other commands of its turn have run since, in its directory and before it.

        What nobody was asked about then is an error now; in a turn of its own it would be a question.
        """
        if (known := self._judged.get((state.run_id, call.id))) is None:
            return
        bash, asked = known
        denied, reasons = self._judgement(bash, call, state)
        news = [denied] if denied else [reason for reason in reasons if reason not in asked]
        if news:
            raise ToolError(
                f"commands that ran since it was judged have changed what this one does: {news[0]}",
                remedy="Call it again, after them: then it is judged as things are now.",
            )

    def forget(self, run_id: str) -> None:
        """Forget what was judged for a run that has ended."""
        for key in [key for key in self._judged if key[0] == run_id]:
            del self._judged[key]

    def _judgement(
        self, bash: Shell | None, call: ToolCall, state: AgentState
    ) -> tuple[str, list[str]]:
        """Why a call is denied, or empty; and why a person is to be asked, as things are now."""
        command = command_of(call.args) or ""
        place = place_of(bash or self._bash, call, state)
        verdict = self._bash.policy.judge(command, **place)
        if verdict.decision == "deny":
            return verdict.reason, []
        return "", self._reasons(bash, call, state, verdict)

    def _reasons(
        self, bash: Shell | None, call: ToolCall, state: AgentState, verdict: Verdict
    ) -> list[str]:
        """Why a person is to be asked; empty if nobody is."""
        args, allowed = call.args, verdict.decision == "allow"
        contained = bash is not None and bash.sandbox.status.contained
        if bash is None or not contained:
            kept = bash is not None and bash.has_kept_variables(state)
            if allowed and kept:
                return ["earlier commands have set variables that may change what it does"]
            return [] if allowed else [f"{verdict.reason} ({_WHERE[contained]})"]
        reasons = []
        if args.get("outside"):
            reasons.append("it is to run outside the sandbox, with your files, keys and network")
        elif args.get("network") or (
            needs_network(command_of(args) or "")
            and not (allowed and self._is_by_rule(bash, call, state))
        ):
            reasons.append("it is to have the network")
        if not allowed and (reasons or self._bash.ask == "always"):
            reasons.append(verdict.reason)
        return reasons

    def _is_by_rule(self, bash: Shell, call: ToolCall, state: AgentState) -> bool:
        """Whether it is a rule of the user's that allows the command, rather than its being harmless."""
        from hookline.containment import ShellPolicy

        place = place_of(bash, call, state)
        plain = ShellPolicy.default().judge(command_of(call.args) or "", **place)
        return plain.decision != "allow"

    def _whose(self, ctx: ToolHookContext) -> Shell | None:
        """The capability whose tool will run: in a child it may be another one, or none."""
        tool = None if ctx.run is None else ctx.run.tool(ctx.tool_call.name)
        owner = getattr(getattr(tool, "function", None), "__self__", None)
        return owner if isinstance(owner, type(self._bash)) else None


_WHERE = {True: "in the sandbox", False: "it would run on the host"}


def place_of(bash: Shell, call: ToolCall, state: AgentState) -> dict[str, str]:
    """The work directory, and where in it a call is to run: as seen from there, or with all of its path."""
    named = call.args.get("cwd")
    root = Path(os.path.realpath(bash.sandbox.root))
    place = root / bash.kept_directory(state)
    if isinstance(named, str) and "\0" not in named:
        place = place / os.path.expanduser(named)
    real = Path(os.path.realpath(place))
    inside = str(real.relative_to(root)) if real.is_relative_to(root) else str(real)
    return {"root": str(root), "cwd": "" if inside == "." else inside}


def command_of(args: Any) -> str | None:
    """The command of a call as text for a shell, also when it is a list for none."""
    command, argv = args.get("command"), args.get("argv")
    if isinstance(command, str):
        return command
    if isinstance(argv, Sequence) and not isinstance(argv, str):
        return shlex.join(map(str, argv))
    return None
