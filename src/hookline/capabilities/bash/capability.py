"""The tools bash, exec, bash_poll and bash_stop, and the policy in front of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from hookline.agent import hook
from hookline.capabilities.bash.output import Scratch
from hookline.capabilities.bash.runner import CommandRequest, CommandRunner
from hookline.capabilities.bash.session import SessionRecorder, ShellSession, lost_directory_note
from hookline.capabilities.notes import read_note
from hookline.containment import Sandbox, SandboxLimits, SandboxPaths
from hookline.containment.change_times import find_change_since
from hookline.containment.interpreter import module_places_in
from hookline.containment.own_places import journal_paths
from hookline.containment.sandbox import PLACES, Place, is_looser
from hookline.containment.shell.words import join_words
from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.errors import BuildError, HooklineError, SandboxError, ToolError
from hookline.hooks import HookOptions, HookOutcome, Registration
from hookline.lifecycle import AfterToolHookContext, ExecutionHookContext, ToolHookContext
from hookline.option_checks import check_choice, check_names, check_positive
from hookline.permissions.subject import has_relative_program
from hookline.state import AgentState, RunStatus, ToolCall, ToolResult
from hookline.tools import AnyTool, ToolContext, tool

if TYPE_CHECKING:
    from hookline.containment import ShellPolicy, ShellVerdict


Ask: TypeAlias = Literal["outside-sandbox", "always"]
Keep: TypeAlias = Literal["nothing", "session"]

_TIMEOUT = 120.0
_ARGV = "The program and its arguments, each as it is: nothing is expanded."
_TIME = "Seconds until it is ended, with everything it started"
_BACKGROUND = """\
Do not wait for it: gives an id for bash_poll and bash_stop. In the sandbox no other command reaches a
server that it starts: start server and client in one command."""
_CWD = "The directory to run in, relative to the work directory."
_PLACE = """\
Where to run it: "read-only" (what it writes is gone with it, no network), "workspace" (it may write
in the work directory) or "host" (outside the sandbox; a person is asked). Usually left out."""
_NETWORK = """\
Give this command the network. A person is asked. What needs the user's credentials (git push, a
private registry) needs place="host" instead."""
_SAID_OF_SANDBOX = ("place", "sandbox", "driver", "contained", "reason")


class Bash:
    """Gives an agent a shell in `root`, in a sandbox where there is one.

        AgentBuilder().with_model(...).with_capability(Bash("project", sandbox="required"))

    `place` is where commands run that name no place: `workspace` (the default), `read-only` or `host`. `sandbox` says
    what happens where there is no sandbox, `auto` or `required`; or it is a Sandbox of your own. `ask` says what
    happens to commands that the policy would ask a person about: with `outside-sandbox` they run without asking where
    the sandbox holds them, with `always` a person is asked all the same. With `keep="session"` a working directory and
    exported variables last from one command to the next. `show` names what commands see although it is hidden:
    `~/.config/tool`, or `.env` for the environment files of the work directory.
    """

    def __init__(
        self,
        root: str | Path = ".",
        *,
        place: Place | None = None,
        sandbox: Literal["auto", "required", "host"] | Sandbox = "auto",
        policy: ShellPolicy | None = None,
        ask: Ask = "outside-sandbox",
        keep: Keep = "nothing",
        timeout: float = _TIMEOUT,
        max_timeout: float = 3600.0,
        max_chars: int = 20_000,
        output_dir: str | Path | None = None,
        limits: SandboxLimits | None = None,
        pass_env: Sequence[str] = (),
        show: Sequence[str | Path] = (),
        name: str = "bash",
    ) -> None:
        check_choice("Bash", "ask", ask, get_args(Ask))
        check_choice("Bash", "keep", keep, get_args(Keep))
        for option, value in {
            "timeout": timeout,
            "max_timeout": max_timeout,
            "max_chars": max_chars,
        }.items():
            check_positive("Bash", option, value)
        if timeout > max_timeout and timeout != _TIMEOUT:
            raise BuildError(
                f"Bash: timeout={timeout:g} is more than max_timeout={max_timeout:g}.",
                remedy=f"Set max_timeout={timeout:g} too, or a lower timeout.",
            )
        _check_reader()
        self.name = name
        self.reaches_journal = False
        """Whether a journal is where contained commands can write, which is refused unless commands run on the host."""
        self._policy = None if policy is None else _check_policy(policy)
        self.ask: Ask = ask
        self.keep: Keep = keep
        self.timeout = min(timeout, max_timeout)
        self.max_timeout = max_timeout
        self._show = check_names("Bash", "show", show, '".env"', str | Path)
        scratch = Scratch(output_dir, root)
        if isinstance(sandbox, Sandbox):
            _check_left_to_sandbox(root, sandbox, place, limits, (*pass_env, *map(str, show)))
            self.sandbox = sandbox
        else:
            paths = SandboxPaths(tmp=scratch.tmp, show=(scratch.output, *self._show))
            self.sandbox = Sandbox(
                root, sandbox, place=place, paths=paths, limits=limits, pass_env=pass_env
            )
        scratch.check_beside(self.sandbox.root)
        self.sandbox.keep(scratch.output)  # we write there ourselves, outside the sandbox
        self._runner = CommandRunner(self.sandbox, scratch, max_chars)
        self._guard = ShellGuard(self)
        self._sessions: dict[str, ShellSession] = {}
        """What the latest command of a run left, before the state has it."""

    @property
    def policy(self) -> ShellPolicy:
        """What judges commands. The default one is loaded for the first command."""
        if self._policy is None:
            from hookline.containment import ShellPolicy

            self._policy = ShellPolicy.default()
        return self._policy

    # --- a capability ---------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        keeps = self.keep == "session"
        bash, exec_ = _descriptions(self.sandbox, keep=keeps, timeout=self.timeout)
        in_turn = 1 if keeps else None
        pure = {"place": PLACES[0], "network": False} if self.sandbox.can_contain() else {}
        usual = {"place": self.sandbox.place_of()}
        # What is too long is cut here, where the rest is kept in a file.
        both: dict[str, Any] = {"max_chars": None, "pure_with": pure, "defaults": usual}
        return [
            tool(self._bash, name="bash", description=bash, concurrency=in_turn, **both),
            tool(self._exec, name="exec", description=exec_, **both),
            tool(self._runner.poll, name="bash_poll", max_chars=None),
            tool(self._runner.stop, name="bash_stop", effect="idempotent", max_chars=None),
        ]

    def hooks(self) -> Iterator[Registration]:
        """The policy, the note about the sandbox, what is kept between commands, and the end of background commands."""
        name, commands = self.name, "/^(bash|exec)$/"
        yield hook("execution_start", self._say_where, name=f"{name}-sandbox")
        policy = HookOptions(name=f"{name}-policy", tier="policy", matcher=commands, scope="tree")
        yield hook("before_tool_use", self._guard, **policy)
        yield hook("execution_end", self._end, name=f"{name}-end", scope="tree")
        if self.keep == "session":
            kept = f"{name}-session"
            yield hook("after_tool_use", self._keep, name=kept, matcher="bash", scope="tree")
            # Behind other hooks, so that policies, rules, the fingerprint and the journal have the directory.
            where = HookOptions(
                name=f"{name}-directory", matcher=commands, scope="tree", priority=-500
            )
            yield hook("before_tool_use", self._name_directory, **where)

    def protect_files(self, definition: Definition) -> None:
        """What is on record is not for a command to change, nor what guards an agent of this tree."""
        self._refuse_late(definition)
        self.sandbox.keep(*definition.protected_files)
        self._refuse_reachable(definition.journal)

    def _refuse_late(self, definition: Definition) -> None:
        """Refuse an agent whose files our commands may have changed, or one that runs now still can."""
        new = {*definition.protected_files}.difference(map(str, self.sandbox.paths.keep))
        reached = filter(self.sandbox.can_reach, sorted(new)) if self.sandbox.has_started else ()
        for path in reached:
            changed = find_change_since(path, definition.guarded_since)
            if changed or self.sandbox.is_used:
                raise BuildError(
                    f"'{changed or path}' belongs to a hook or a server of agent '{definition.agent_id}', and a "
                    f"command {'may have changed it' if changed else 'that runs now can change it'}.",
                    remedy="Look at the change, and build the agent after it."
                    if changed
                    else "Wait for the command, or end it.",
                )

    def notes(self, definition: Definition) -> Iterator[Note]:  # noqa: ARG002 - the protocol's signature
        """Where a command could put a module that this program would import."""
        yield from self._notes_on_paths()
        places = module_places_in(self.sandbox.writable) if self.sandbox.status.contained else []
        for place in places:
            yield Note(
                f"Python imports modules from '{place}', where commands can write: a module that a command puts "
                "there may run outside the sandbox.",
                is_problem=True,
                remedy="Keep your program in another directory, or run it with `python -P`.",
            )

    def _notes_on_paths(self) -> Iterator[Note]:
        """What is named and is not there, or is not what it should be."""
        for path in self._show:
            whole = self.sandbox.root / os.path.expanduser(path)
            if "/" in str(path) and not os.path.exists(whole):
                yield Note(
                    f"show names '{path}', and there is nothing at '{whole}'.",
                    is_problem=True,
                    remedy="Correct the path, or leave it out.",
                )
        trusted = getattr(self._policy, "trusted", ())
        # Those that were trusted on the command line may be gone since, and nobody is at fault.
        for top in trusted if not isinstance(trusted, Mapping) else ():
            if not os.path.lexists(os.path.join(top, ".git")):
                yield Note(
                    f"the policy trusts '{top}', and there is no repository: it has no .git.",
                    is_problem=True,
                    remedy="Name the top directory of a repository.",
                )

    def is_shown(self, path: str) -> bool:
        """Whether `show` names an environment file of the work directory, by its name or path."""
        named = {os.path.expanduser(each) for each in self.sandbox.paths.show}
        return not named.isdisjoint(
            (path, os.path.relpath(path, self.sandbox.root), os.path.basename(path))
        )

    def _refuse_reachable(self, journal: object) -> None:
        """A journal that commands can reach is refused: a file that one puts beside it can remove what is on record."""
        for path in filter(self.sandbox.can_reach, journal_paths(journal)):
            if self.sandbox.place == "host":
                self.reaches_journal = True
            elif self.sandbox.status.contained:
                place = self.sandbox.root / ".hookline" / Path(path).name
                raise BuildError(
                    f"the journal '{path}' is in a directory that commands can write.",
                    remedy=f"Keep it in '{place}', which is read-only for them, or outside '{self.sandbox.root}'.",
                )

    def _say_where(self, ctx: ExecutionHookContext) -> ExecutionHookContext:
        """Write into the state, and so the journal, whether commands are contained; the model is asked next."""
        if not ctx.run.is_replay:
            self.sandbox.look_ahead()
        now = self.sandbox.status
        said = {name: getattr(now, name) for name in _SAID_OF_SANDBOX}
        return ctx.with_metadata(f"{self.name}.sandbox", said)

    def _name_directory(self, ctx: ToolHookContext) -> ToolHookContext | None:
        """Write into a call where it runs, if an earlier command has left the shell elsewhere than at the top.

        `./run.sh` is another program in another directory: a rule or a remembered yes must not mistake one for the
        other. A command in a call that says where it runs is judged by what the call says.
        """
        args, kept = ctx.tool_call.args, self.session_of(ctx.state).cwd
        named = args.get("cwd") or ""
        is_at_top = self.sandbox.root / kept == self.sandbox.root
        if is_at_top or not isinstance(named, str) or self._guard.owner(ctx) is not self:
            return None
        try:
            place = requested_place(
                self.sandbox, args.get("place"), network=bool(args.get("network"))
            )
            where, is_gone = self.directory_of(named, ctx.state, place)
        except HooklineError:  # the policy refuses the call, and says why
            return None
        return None if is_gone or where == named else ctx.with_args(cwd=where)

    def _keep(self, ctx: AfterToolHookContext) -> AfterToolHookContext | None:
        left = ctx.execution.metadata.get("session")
        return None if left is None else ctx.with_metadata(self._key, left)

    async def _end(self, ctx: ExecutionHookContext) -> None:
        """End background commands. A run that pauses has not ended; its process might."""
        run_id = ctx.state.run_id
        self._sessions.pop(run_id, None)
        if ctx.status is not RunStatus.PAUSED:
            self._guard.forget(run_id)
            await self._runner.backgrounds.end(run_id)

    # --- the tools ------------------------------------------------------------------------------------

    async def _bash(
        self,
        command: Annotated[str, "The command, as for `bash -c`. It has no input."],
        context: ToolContext,
        timeout: Annotated[float | None, f"{_TIME}; one in the background only if given."] = None,
        background: Annotated[bool, _BACKGROUND] = False,
        cwd: Annotated[str, _CWD] = "",
        place: Annotated[Place | None, _PLACE] = None,
        network: Annotated[bool, _NETWORK] = False,
    ) -> ToolResult:
        run_id, session = context.state.run_id, self.session_of(context.state)
        request = self._request(context, command, cwd, place, network)
        if background:
            if timeout is not None and not timeout > 0:
                raise ToolError(
                    f"timeout={timeout:g} is not a time.", remedy="Give seconds, or leave it out."
                )
            return await self._runner.start_in_background(request, run_id, timeout)
        seconds = self._seconds(timeout)
        if self.keep == "nothing" or self._runner.is_outside(request):
            return await self._runner.run(request, context, seconds)
        recorder = SessionRecorder()
        try:
            result = await self._runner.run(request, context, seconds, recorder)
        except ToolError:
            # Where the last command was may be gone, and no command could leave a place that none can be in.
            self._sessions[run_id] = ShellSession("", session.env)
            raise
        finally:
            left = recorder.take(self.sandbox.environment(place=request.place), session)
        self._sessions[run_id] = left
        said = (
            recorder.note
            if recorder.heard
            else lost_directory_note(command, left, str(self.sandbox.root))
        )
        if said:
            result = result.with_result(result.text + said)
        return result.with_metadata("session", msgspec.to_builtins(left))

    async def _exec(
        self,
        argv: Annotated[list[str], _ARGV],
        context: ToolContext,
        timeout: Annotated[float | None, f"{_TIME}."] = None,
        cwd: Annotated[str, _CWD] = "",
        place: Annotated[Place | None, _PLACE] = None,
        network: Annotated[bool, _NETWORK] = False,
    ) -> ToolResult:
        if not argv or not argv[0]:
            raise ToolError(
                "argv names no program.", remedy="Give one, and its arguments after it."
            )
        request = self._request(context, argv, cwd, place, network)
        return await self._runner.run(request, context, self._seconds(timeout))

    def _request(
        self,
        context: ToolContext,
        command: str | list[str],
        cwd: str,
        place: Place | None,
        network: bool,
    ) -> CommandRequest:
        """What to run for a call, once it was judged again."""
        judged = self._guard.check(context.call, context.state)
        try:
            named = requested_place(self.sandbox, place, network=network)
            directory, note = judged.where or self.directory_of(cwd, context.state, named)
        except SandboxError as error:
            raise ToolError(error.message, remedy=error.remedy) from None
        return CommandRequest(
            command,
            directory,
            place=named,
            network=network,
            env_files=judged.env_files,
            only_reads=judged.only_reads,
            env=self.session_of(context.state).env,
            note=note,
        )

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self.timeout
        if not 0 < timeout <= self.max_timeout:
            raise ToolError(
                f"timeout={timeout:g} is not between 0 and {self.max_timeout:g} seconds.",
                remedy="Run what takes longer in the background: `bash` with background=true.",
            )
        return timeout

    # --- what is kept ---------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        return f"{self.name}.session"

    def session_of(self, state: AgentState) -> ShellSession:
        """Where earlier commands have left the shell, and the variables that they have set for the next one."""
        if self.keep == "nothing":
            return ShellSession()
        known = self._sessions.get(state.run_id)
        return read_note(state, self._key, ShellSession) if known is None else known

    def whereabouts(self, call: ToolCall, state: AgentState) -> tuple[str, str] | None:
        """The work directory, and where in it a call would run, for other policies.

        None if earlier commands have set variables: any program may be another one then. Or if it is no path.
        """
        if self.session_of(state).env:
            return None
        try:
            return str(self.sandbox.root), self.directory_of(call.args.get("cwd"), state, None)[0]
        except SandboxError:
            return None

    def directory_of(
        self, named: object, state: AgentState, place: Place | None
    ) -> tuple[str, str]:
        """Where a call that names this directory is to run, and a note: what `CommandRunner.find_directory` says."""
        kept = self.session_of(state).cwd
        return self._runner.find_directory(kept, named if isinstance(named, str) else "", place)

    def __repr__(self) -> str:
        return f"<Bash {self.sandbox.root}, {self.sandbox.place}, {self.sandbox.sandbox}>"


def _check_reader() -> None:
    """Say now, and not at the first command, if what reads commands is not installed."""
    if find_spec("tree_sitter") is None or find_spec("tree_sitter_bash") is None:
        from hookline.containment import read_command

        read_command("true")


def _check_policy(policy: ShellPolicy) -> ShellPolicy:
    if not callable(getattr(policy, "judge", None)) or isinstance(policy, type):
        raise BuildError(
            f"Bash: policy={policy!r} is not a ShellPolicy.",
            remedy="Use ShellPolicy.default().with_rules(allow=..., ask=..., deny=...), or leave it out.",
        )
    return policy


def _check_left_to_sandbox(
    root: str | Path,
    sandbox: Sandbox,
    place: Place | None,
    limits: SandboxLimits | None,
    pass_env: Sequence[str],
) -> None:
    elsewhere = Path(root).expanduser().resolve() not in (Path.cwd(), sandbox.root)
    if limits is not None or pass_env or elsewhere or place not in (None, sandbox.place):
        raise BuildError(
            "Bash: a Sandbox has its own root, place, limits and variables.",
            remedy="Set them in the Sandbox, and pass only the Sandbox to Bash.",
        )


# --- the policy -----------------------------------------------------------------------------------


class Judgement(NamedTuple):
    """What is true of a call as things are now."""

    denied: str = ""
    """Why it does not run; empty if it may."""
    reasons: tuple[str, ...] = ()
    """Why a person is asked; empty if nobody is."""
    env_files: tuple[str, ...] = ()
    """The environment files it names, which it sees once a person has said yes."""
    only_reads: bool = False
    """Whether the policy itself allows it everywhere, so that nobody was asked about it, and no rule names it."""
    where: tuple[str, str] | None = None
    """The directory it runs in, and a note if that is not where it was to."""


class ShellGuard:
    """Judges the final call by the shell policy. Nothing that a policy forbids runs, contained or not."""

    def __init__(self, bash: Bash) -> None:
        self._bash = bash
        self._judged: dict[tuple[str, str], tuple[Bash | None, Judgement]] = {}
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
        if not news and found.where != before.where and has_relative_program(call):
            news = f"it would run in {found.where[0] if found.where else 'no directory'}"
        if news:
            raise ToolError(
                f"commands that ran after it was judged have changed what it does: {news}",
                remedy="Call it again: then it is judged again.",
            )
        return found

    def forget(self, run_id: str) -> None:
        """Forget what was judged for a run that has ended."""
        for key in [key for key in self._judged if key[0] == run_id]:
            del self._judged[key]

    def _judge(self, bash: Bash | None, call: ToolCall, state: AgentState) -> Judgement:
        its, asked = bash or self._bash, call.args.get("place")
        network, named = bool(call.args.get("network")), None
        try:
            if bash is not None:  # of a tool of somebody else's it is not known where it runs
                named = requested_place(bash.sandbox, asked, network=network)
            where = its.directory_of(call.args.get("cwd"), state, named)
        except SandboxError as error:
            return Judgement(f"{error.message} {error.remedy}".strip())
        root = str(its.sandbox.root)
        verdict = self._bash.policy.judge(command_of(call.args) or "", root=root, cwd=where[0])
        found = self._judge_place(bash, call, state, verdict, named)
        return found._replace(where=where)

    def _judge_place(
        self,
        bash: Bash | None,
        call: ToolCall,
        state: AgentState,
        verdict: ShellVerdict,
        named: Place | None,
    ) -> Judgement:
        if verdict.decision == "deny":
            return Judgement(verdict.reason)
        if bash is None:
            # Only that tool knows where `~` or `sub` is: the files there are not those that were looked at.
            elsewhere = (_UNKNOWN_DIRECTORY,) if call.args.get("cwd") else ()
            return Judgement("", (*_on_the_host(verdict), *elsewhere))
        place = bash.sandbox.place_of(named)
        if place == "host" and not bash.sandbox.status.contained:
            if verdict.decision == "allow" and bash.session_of(state).env:
                return Judgement("", (_VARIABLES,))
            reasons = _on_the_host(verdict)
            return Judgement("", reasons, only_reads=not reasons and verdict.only_reads)
        inside = self._reasons_inside(bash, place, call, verdict)
        return Judgement("", tuple(inside), verdict.env_files, verdict.only_reads)

    def _reasons_inside(
        self, bash: Bash, place: Place, call: ToolCall, verdict: ShellVerdict
    ) -> list[str]:
        """Why a person is asked about a command where there is a sandbox: most are simply contained."""
        reasons = []
        if place == "host":
            reasons.append(
                "it would run on the host, outside the sandbox, with your files, keys and network"
            )
        elif is_looser(place, bash.sandbox.place):
            reasons.append(f"it would write in {bash.sandbox.root}")
        if place == "workspace" and bash.reaches_journal:
            reasons.append("it could change the journal, which is in the work directory")
        if place == "workspace" and call.args.get("network"):
            reasons.append("it would have the network")
        hidden = [path for path in verdict.env_files if not bash.is_shown(path)]
        if hidden and place != "host":
            reasons.append(f"it would see {', '.join(hidden)}, which may hold secrets")
        removes = verdict.asks_in_sandbox and place != "read-only"
        if verdict.decision != "allow" and (reasons or removes or self._bash.ask == "always"):
            reasons.append(verdict.reason)
        return reasons

    def owner(self, ctx: ToolHookContext) -> Bash | None:
        """The capability whose tool will run: in a child it may be another one, or none."""
        owner = getattr(getattr(ctx.tool, "function", None), "__self__", None)
        return owner if isinstance(owner, Bash) else None


_UNKNOWN_DIRECTORY = "it is not known which directory its tool means by cwd"
_VARIABLES = "earlier commands have set variables that may change what it does"


def _on_the_host(verdict: ShellVerdict) -> tuple[str, ...]:
    """Why a person is asked where nothing contains a command."""
    if verdict.decision == "allow" and not verdict.env_files:
        return ()
    return (f"{verdict.reason} (it would run on the host)",)


def requested_place(sandbox: Sandbox, asked: Place | None, *, network: bool) -> Place | None:
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


def command_of(args: Any) -> str | None:
    """The command of a call as text for a shell, also when it is a list for none."""
    command, argv = args.get("command"), args.get("argv")
    if isinstance(command, str):
        return command
    if isinstance(argv, Sequence) and not isinstance(argv, str):
        return join_words([*map(str, argv)])
    return None


# --- descriptions that depend on where commands run --------------------------------------------


def _descriptions(sandbox: Sandbox, *, keep: bool, timeout: float) -> tuple[str, str]:
    """The descriptions of bash and exec."""
    place = sandbox.status.place
    kind = "on the host" if place == "host" else "in a sandbox"
    where = f"{kind}, in {sandbox.root}"
    rules = _RULES[place].format(root=sandbox.root)
    kept = _KEPT if keep else _NOT_KEPT
    ends = f"It is ended after {timeout:g} seconds, unless another timeout is given. What it starts ends with it"
    return (
        f"Run a command in a shell, {where}.\n\n{rules} {kept} {ends}, {_CONTINUES}",
        f"Run a program with its arguments, without a shell, {where}.\n\n{rules} {ends}.",
    )


_RULES: dict[Place, str] = {
    "read-only": "It can write nothing that lasts (/tmp and the home directory are gone with it), has no network and "
    'sees no credentials; place="workspace" lets it write in {root}, if a person agrees.',
    "workspace": "It can write in {root} and /tmp only, has no network and sees no credentials; files that configure "
    "other programs (.git/config, .git/hooks, .vscode and others) are read-only, also in a repository that an earlier "
    "command made: make and configure one in one command.",
    "host": "It runs without a sandbox: a person is asked about what is not plainly harmless.",
}
_KEPT = "The working directory and exported variables last from one command to the next."
_NOT_KEPT = "Every command starts in the work directory, with the same variables: `cd` and `export` do not last."
_CONTINUES = "so use background=true, not `&` or nohup, for a command that has to continue."
