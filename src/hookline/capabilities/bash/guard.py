"""The policy in front of every command: what is forbidden, what a person is asked about, what the sandbox covers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from hookline.capabilities.bash.network_needs import needs_network
from hookline.containment import Sandbox
from hookline.containment.sandbox import Place, is_looser
from hookline.containment.shell.words import join_words
from hookline.errors import SandboxError, ToolError
from hookline.hooks import HookOutcome
from hookline.lifecycle import ToolHookContext
from hookline.permissions import names_relative_program
from hookline.state import AgentState, ToolCall

if TYPE_CHECKING:
    from hookline.containment import ShellPolicy, ShellVerdict


class Shell(Protocol):
    """What the guard has to know about the capability that runs commands."""

    @property
    def policy(self) -> ShellPolicy:
        """What judges them."""

    ask: Literal["outside-sandbox", "always"]
    sandbox: Sandbox

    def has_kept_variables(self, state: AgentState) -> bool:
        """Whether earlier commands have set variables for the next one."""

    def kept_directory(self, state: AgentState) -> str:
        """Where earlier commands have left the shell; empty for the work directory."""


class Judgement(NamedTuple):
    """What is true of a call as things are now."""

    denied: str = ""
    """Why it does not run; empty if it may."""
    reasons: tuple[str, ...] = ()
    """Why a person is asked; empty if nobody is."""
    env_files: tuple[str, ...] = ()
    """The environment files it names, which it sees once a person has said yes."""
    only_reads: bool = False
    """Whether it runs on the host because the policy itself allows it: nobody was asked, and no rule names it."""
    where: str = ""
    """The directory it runs in."""


class ShellGuard:
    """Judges the final call by the shell policy. Nothing that a policy forbids runs, contained or not."""

    def __init__(self, bash: Shell) -> None:
        self._bash = bash
        self._judged: dict[tuple[str, str], tuple[Shell | None, Judgement]] = {}
        """Calls that may run, by run and id: whose tool it is, and how it was judged."""

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
        bash = self.owner(ctx)
        found = self._judge(bash, ctx.tool_call, ctx.state)
        if found.denied:
            return HookOutcome.block(found.denied)
        self._judged[key] = (bash, found)
        return HookOutcome.ask("; ".join(found.reasons)) if found.reasons else None

    def check(self, call: ToolCall, state: AgentState) -> Judgement:
        """Judge a call again as it starts: other commands of its turn have run since, in its directory and before it.

        What nobody was asked about then is an error now; in a turn of its own it would be a question. So is another
        directory for `./run.sh`: rules and people have judged the program of that name in the one it had then.
        """
        if (known := self._judged.get((state.run_id, call.id))) is None:
            return Judgement()
        bash, before = known
        found = self._judge(bash, call, state)
        asked = before.reasons
        news = found.denied or next((each for each in found.reasons if each not in asked), "")
        if not news and found.where != before.where and names_relative_program(call):
            news = f"it would run in {found.where}"
        if news:
            raise ToolError(
                f"commands that ran since it was judged have changed what this one does: {news}",
                remedy="Call it again, after them: then it is judged as things are now.",
            )
        return found

    def forget(self, run_id: str) -> None:
        """Forget what was judged for a run that has ended."""
        for key in [key for key in self._judged if key[0] == run_id]:
            del self._judged[key]

    def _judge(self, bash: Shell | None, call: ToolCall, state: AgentState) -> Judgement:
        where = directory_of(bash or self._bash, call, state)
        verdict = self._bash.policy.judge(command_of(call.args) or "", **where)
        found = self._judge_place(bash, call, state, verdict)
        return found._replace(where=os.path.join(where["root"], where["cwd"]))

    def _judge_place(
        self, bash: Shell | None, call: ToolCall, state: AgentState, verdict: ShellVerdict
    ) -> Judgement:
        if verdict.decision == "deny":
            return Judgement(verdict.reason)
        if bash is None:  # a tool of somebody else's: nothing is known of where it runs
            return Judgement("", _on_the_host(verdict))
        asked, network = call.args.get("place"), bool(call.args.get("network"))
        try:
            place = bash.sandbox.place_of(named_place(bash.sandbox, asked, network=network))
        except SandboxError as error:
            return Judgement(f"{error.message} {error.remedy}".strip())
        if place == "host" and not bash.sandbox.status.contained:
            if verdict.decision == "allow" and bash.has_kept_variables(state):
                return Judgement("", (_VARIABLES,))
            reasons = _on_the_host(verdict)
            only_reads = not reasons and not self._is_by_rule(bash, call, state)
            return Judgement("", reasons, only_reads=only_reads)
        inside = self._reasons_inside(bash, place, call, state, verdict)
        return Judgement("", tuple(inside), verdict.env_files)

    def _reasons_inside(
        self, bash: Shell, place: Place, call: ToolCall, state: AgentState, verdict: ShellVerdict
    ) -> list[str]:
        """Why a person is asked about a command where there is a sandbox: most are simply contained."""
        reasons = []
        if place == "host":
            reasons.append(
                "it is to run on the host, outside the sandbox, with your files, keys and network"
            )
        elif is_looser(place, bash.sandbox.place):
            reasons.append(f"it is to write in {bash.sandbox.root}")
        if place == "workspace" and self._needs_network(bash, call, state, verdict):
            reasons.append("it is to have the network")
        if verdict.env_files and place != "host":
            reasons.append(f"it is to see {', '.join(verdict.env_files)}, which may hold secrets")
        removes = verdict.asks_in_sandbox and place != "read-only"
        if verdict.decision != "allow" and (reasons or removes or self._bash.ask == "always"):
            reasons.append(verdict.reason)
        return reasons

    def _needs_network(
        self, bash: Shell, call: ToolCall, state: AgentState, verdict: ShellVerdict
    ) -> bool:
        """Whether a person is asked about the network: not if a rule of the user's allows the command."""
        if call.args.get("network"):
            return True
        if not needs_network(command_of(call.args) or ""):
            return False
        return verdict.decision != "allow" or not self._is_by_rule(bash, call, state)

    def _is_by_rule(self, bash: Shell, call: ToolCall, state: AgentState) -> bool:
        """Whether it is a rule of the user's that allows the command, rather than its being harmless."""
        from hookline.containment import ShellPolicy

        where = directory_of(bash, call, state)
        # A policy of somebody else's may have no rules to be left out.
        plain = getattr(self._bash.policy, "without_rules", ShellPolicy.default)()
        return bool(plain.judge(command_of(call.args) or "", **where).decision != "allow")

    def owner(self, ctx: ToolHookContext) -> Shell | None:
        """The capability whose tool will run: in a child it may be another one, or none."""
        tool = None if ctx.run is None else ctx.run.tool(ctx.tool_call.name)
        owner = getattr(getattr(tool, "function", None), "__self__", None)
        return owner if isinstance(owner, type(self._bash)) else None


_VARIABLES = "earlier commands have set variables that may change what it does"


def _on_the_host(verdict: ShellVerdict) -> tuple[str, ...]:
    """Why a person is asked where nothing contains a command."""
    if verdict.decision == "allow" and not verdict.env_files:
        return ()
    return (f"{verdict.reason} (it would run on the host)",)


def named_place(sandbox: Sandbox, asked: Place | None, *, network: bool) -> Place | None:
    """The place that a call asks for; None if it is the usual one, which is the host where there is no sandbox.

    What cannot be had is an error: another place than the usual one where there is no sandbox, or a network where it
    is read-only.
    """
    named = None if asked == sandbox.place else asked
    if sandbox.place_of(named) == "read-only" and network:
        raise SandboxError(
            "a command in the read-only place has no network.",
            remedy='Call it with network=true and place="workspace".',
        )
    return named


def directory_of(bash: Shell, call: ToolCall, state: AgentState) -> dict[str, str]:
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
        return join_words([*map(str, argv)])
    return None
