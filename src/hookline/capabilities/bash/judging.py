"""The policy in front of every command: what is forbidden, what a person is asked about, what the sandbox covers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hookline.capabilities.bash.needs import needs_network
from hookline.containment import Sandbox
from hookline.hooks import HookOutcome
from hookline.lifecycle import ToolHookContext
from hookline.state import AgentState

if TYPE_CHECKING:
    from hookline.containment import ShellPolicy


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

    @property
    def note(self) -> str:
        """What `explain()` says of it."""
        contained = self._bash.sandbox.status.contained and self._bash.ask != "always"
        about = "what leaves the sandbox" if contained else "what is not plainly harmless"
        return f"{self._bash.sandbox.describe()}; denies what is dangerous, asks about {about}"

    def handle(self, ctx: ToolHookContext) -> HookOutcome | None:
        """Block what is denied, ask about what needs a person."""
        args = ctx.tool_call.args
        command = command_of(args)
        if command is None:
            return HookOutcome.block("this is not a command that can be judged")
        verdict = self._bash.policy.judge(command, cwd=self._where(ctx), root=self._root(ctx))
        if verdict.decision == "deny":
            return HookOutcome.block(verdict.reason)
        reasons = self._reasons(ctx, command, verdict)
        return HookOutcome.ask("; ".join(reasons)) if reasons else None

    def _reasons(self, ctx: ToolHookContext, command: str, verdict: Any) -> list[str]:
        """Why a person is to be asked; empty if nobody is."""
        bash, args = self._whose(ctx), ctx.tool_call.args
        allowed = verdict.decision == "allow"
        contained = bash is not None and bash.sandbox.status.contained
        if bash is None or not contained:
            kept = bash is not None and bash.has_kept_variables(ctx.state)
            if allowed and kept:
                return ["earlier commands have set variables that may change what it does"]
            return [] if allowed else [f"{verdict.reason} ({_WHERE[contained]})"]
        reasons = []
        if args.get("outside"):
            reasons.append("it is to run outside the sandbox, with your files, keys and network")
        elif args.get("network") or (
            needs_network(command) and not self._is_by_rule(ctx, command, allowed)
        ):
            reasons.append("it is to have the network")
        if not allowed and (reasons or self._bash.ask == "always"):
            reasons.append(verdict.reason)
        return reasons

    def _is_by_rule(self, ctx: ToolHookContext, command: str, allowed: bool) -> bool:
        """Whether it is a rule of the user's that allows the command, rather than its being harmless."""
        from hookline.containment import ShellPolicy

        plain = ShellPolicy.default().judge(command, cwd=self._where(ctx), root=self._root(ctx))
        return allowed and plain.decision != "allow"

    def _where(self, ctx: ToolHookContext) -> str:
        """The directory it is to run in: below the work directory as seen from there, else with all of its path."""
        bash = self._whose(ctx) or self._bash
        named = ctx.tool_call.args.get("cwd")
        root = Path(self._root(ctx))
        place = root / bash.kept_directory(ctx.state)
        if isinstance(named, str) and "\0" not in named:
            place = place / os.path.expanduser(named)
        real = Path(os.path.realpath(place))
        if not real.is_relative_to(root):
            return str(real)
        inside = str(real.relative_to(root))
        return "" if inside == "." else inside

    def _root(self, ctx: ToolHookContext) -> str:
        """The work directory of whoever will run it."""
        return os.path.realpath((self._whose(ctx) or self._bash).sandbox.root)

    def _whose(self, ctx: ToolHookContext) -> Shell | None:
        """The capability whose tool will run: in a child it may be another one, or none."""
        tool = None if ctx.run is None else ctx.run.tool(ctx.tool_call.name)
        owner = getattr(getattr(tool, "function", None), "__self__", None)
        return owner if isinstance(owner, type(self._bash)) else None


_WHERE = {True: "in the sandbox", False: "it would run on the host"}


def command_of(args: Any) -> str | None:
    """The command of a call as text for a shell, also when it is a list for none."""
    command, argv = args.get("command"), args.get("argv")
    if isinstance(command, str):
        return command
    if isinstance(argv, Sequence) and not isinstance(argv, str):
        return shlex.join(map(str, argv))
    return None
