"""The tools bash, exec, bash_poll and bash_stop, and the policy in front of them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from hookline.agent import hook
from hookline.capabilities.bash.guard import ShellGuard, directory_of, named_place
from hookline.capabilities.bash.output import Scratch
from hookline.capabilities.bash.runner import CommandRequest, CommandRunner
from hookline.capabilities.bash.session import SessionRecorder, ShellSession, lost
from hookline.capabilities.options import check_choice, check_positive
from hookline.containment import Sandbox, SandboxLimits, SandboxPaths
from hookline.containment.interpreter import module_places_in
from hookline.containment.sandbox import PLACES, Place
from hookline.definition import Definition, Note
from hookline.errors import BuildError, HooklineError, SandboxError, ToolError
from hookline.hooks import HookOptions, Registration
from hookline.lifecycle import ExecutionHookContext, ToolHookContext
from hookline.state import AgentState, RunStatus, ToolCall, ToolResult
from hookline.tools import AnyTool, ToolContext, tool

if TYPE_CHECKING:
    from hookline.containment import ShellPolicy


Ask: TypeAlias = Literal["outside-sandbox", "always"]
Keep: TypeAlias = Literal["nothing", "session"]

_TIMEOUT = 120.0
_LONGEST_WAIT = 60.0
"""Seconds a look at a background command may take."""


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
                remedy=f"Say max_timeout={timeout:g} too, or give less time.",
            )
        _check_reader()
        self.name = name
        self._policy = None if policy is None else _checked_policy(policy)
        self.ask: Ask = ask
        self.keep: Keep = keep
        self.timeout = min(timeout, max_timeout)
        self.max_timeout = max_timeout
        self._show = _checked_show(show)
        scratch = Scratch(output_dir)
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
        # What is too long is cut here, where the rest is kept in a file.
        return [
            tool(
                self._bash,
                name="bash",
                description=bash,
                max_chars=None,
                concurrency=in_turn,
                pure_with=pure,
            ),
            tool(self._exec, name="exec", description=exec_, max_chars=None, pure_with=pure),
            tool(self._poll, name="bash_poll", max_chars=None),
            tool(self._stop, name="bash_stop", effect="idempotent", max_chars=None),
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

    def notes(self, definition: Definition) -> Iterator[Note]:
        """Where a command could put a module that this program would import.

        What is on record is not for a command to change, nor what guards the agent.
        """
        self.sandbox.keep(*definition.protected_files)
        self._refuse_reachable(definition.journal)
        yield from self._notes_on_paths()
        places = module_places_in(self.sandbox.writable) if self.sandbox.status.contained else []
        for place in places:
            yield Note(
                f"Python looks for modules in '{place}', where commands can write: what one puts there may be run "
                "outside the sandbox, when it is imported.",
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

    def _refuse_reachable(self, journal: object) -> None:
        """A journal that commands can reach is refused: a file that one puts beside it can remove what is on record."""
        for path in (getattr(journal, name, None) for name in ("given", "path")):
            if not isinstance(path, str) or not self.sandbox.status.contained:
                continue
            if self.sandbox.can_reach(path):
                place = self.sandbox.root / ".hookline" / Path(path).name
                raise BuildError(
                    f"the journal '{path}' is in a directory that commands can write.",
                    remedy=f"Keep it in '{place}', which is read-only for them, or outside '{self.sandbox.root}'.",
                )

    def _say_where(self, ctx: ExecutionHookContext) -> ExecutionHookContext:
        """Write into the state, and so the journal, whether commands are contained."""
        now = self.sandbox.status
        said = {
            "place": now.place,
            "sandbox": now.sandbox,
            "driver": now.driver,
            "contained": now.contained,
            "reason": now.reason,
        }
        return ctx.with_metadata(f"{self.name}.sandbox", said)

    def _name_directory(self, ctx: ToolHookContext) -> ToolHookContext | None:
        """Write into a call where it runs, if an earlier command has left the shell elsewhere than at the top.

        `./run.sh` is another program in another directory: a rule or a remembered yes must not mistake one for the
        other. A command in a call that says where it runs is judged by what the call says.
        """
        args, kept = ctx.tool_call.args, self.kept_directory(ctx.state)
        named = args.get("cwd") or ""
        is_at_top = self.sandbox.root / kept == self.sandbox.root
        if is_at_top or not isinstance(named, str) or self._guard.owner(ctx) is not self:
            return None
        try:
            place = named_place(self.sandbox, args.get("place"), network=bool(args.get("network")))
            is_there = self._runner.is_there(kept, place)
        except HooklineError:  # the policy refuses the call, and says why
            return None
        where = str(self.sandbox.root / kept / os.path.expanduser(named))
        return ctx.with_args(cwd=where) if is_there and where != named else None

    def _keep(self, ctx: ToolHookContext) -> ToolHookContext | None:
        left = None if ctx.execution is None else ctx.execution.metadata.get("session")
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
        command: str,
        context: ToolContext,
        timeout: float | None = None,
        background: bool = False,
        cwd: str = "",
        place: Place | None = None,
        network: bool = False,
    ) -> ToolResult:
        """Run a command in a shell.

        Args:
            command: The command, as for `bash -c`. It has no input.
            timeout: Seconds until it is ended, with everything it started; one in the background only if given.
            background: Do not wait for it: gives an id for bash_poll and bash_stop.
            cwd: The directory to run in, relative to the work directory.
            place: Where to run it: "read-only" (what it writes is gone with it, no network), "workspace" (it may write
                in the work directory) or "host" (outside the sandbox; a person is asked). Usually left out.
            network: Give this command the network. A person is asked.
        """
        run_id, session = context.state.run_id, self._session(context.state)
        request = self._request(context, command, command, cwd, place, network)
        if background:
            if timeout is not None and not timeout > 0:
                raise ToolError(
                    f"timeout={timeout:g} is no time.", remedy="Give seconds, or leave it out."
                )
            return await self._runner.start_in_background(request, run_id, timeout)
        seconds = self._seconds(timeout)
        if self.keep == "nothing" or self._runner.leaves(request):
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
        said = recorder.note if recorder.heard else lost(command, left, str(self.sandbox.root))
        if said:
            result = result.with_result(result.text() + said)
        return result.with_metadata("session", left.to_json())

    async def _exec(
        self,
        argv: list[str],
        context: ToolContext,
        timeout: float | None = None,
        cwd: str = "",
        place: Place | None = None,
        network: bool = False,
    ) -> ToolResult:
        """Run a program with its arguments, without a shell.

        Args:
            argv: The program and its arguments, each as it is: nothing is expanded.
            timeout: Seconds until it is ended, with everything it started.
            cwd: The directory to run in, relative to the work directory.
            place: Where to run it: "read-only" (what it writes is gone with it, no network), "workspace" (it may write
                in the work directory) or "host" (outside the sandbox; a person is asked). Usually left out.
            network: Give this command the network. A person is asked.
        """
        if not argv or not argv[0]:
            raise ToolError(
                "argv names no program.", remedy="Give one, and its arguments after it."
            )
        request = self._request(context, argv, shlex.join(argv), cwd, place, network)
        return await self._runner.run(request, context, self._seconds(timeout))

    async def _poll(self, id: str, context: ToolContext, wait: float = 0.0) -> ToolResult:
        """See what a background command has printed since the last time, and whether it still runs.

        Args:
            id: What bash gave when the command was started.
            wait: Seconds to wait for it to print something, or to end; 60 at most.
        """
        seconds = min(max(wait, 0.0), _LONGEST_WAIT)
        return await self._runner.poll(context.state.run_id, id, seconds)

    async def _stop(self, id: str, context: ToolContext) -> ToolResult:
        """End a background command, with everything it started.

        Args:
            id: What bash gave when the command was started.
        """
        return await self._runner.stop(context.state.run_id, id)

    def _request(
        self,
        context: ToolContext,
        command: str | list[str],
        text: str,
        cwd: str,
        place: Place | None,
        network: bool,
    ) -> CommandRequest:
        """What to run for a call, once it was judged again."""
        judged = self._guard.check(context.call, context.state)
        try:
            named = named_place(self.sandbox, place, network=network)
        except SandboxError as error:
            raise ToolError(error.message, remedy=error.remedy) from None
        return CommandRequest(
            command=command,
            text=text,
            cwd=cwd,
            place=named,
            network=network,
            env_files=judged.env_files,
            only_reads=judged.only_reads,
            session=self._session(context.state),
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

    def _session(self, state: AgentState) -> ShellSession:
        if self.keep == "nothing":
            return ShellSession()
        known = self._sessions.get(state.run_id)
        return ShellSession.from_json(state.metadata.get(self._key)) if known is None else known

    def has_kept_variables(self, state: AgentState) -> bool:
        """Whether earlier commands have set variables for the next one."""
        return bool(self._session(state).env)

    def kept_directory(self, state: AgentState) -> str:
        """Where earlier commands have left the shell; empty for the work directory."""
        return self._session(state).cwd

    def whereabouts(self, call: ToolCall, state: AgentState) -> tuple[str, str] | None:
        """The work directory, and where in it a call would run, for other policies.

        None if earlier commands have set variables: any program may be another one then.
        """
        if self.has_kept_variables(state):
            return None
        where = directory_of(self, call, state)
        return where["root"], where["cwd"]

    def __repr__(self) -> str:
        return f"<Bash {self.sandbox.root}, {self.sandbox.place}, {self.sandbox.sandbox}>"


def _check_reader() -> None:
    """Say now, and not at the first command, if what reads commands is not installed."""
    if find_spec("tree_sitter") is None or find_spec("tree_sitter_bash") is None:
        from hookline.containment import read_command

        read_command("true")


def _checked_policy(policy: ShellPolicy) -> ShellPolicy:
    if not callable(getattr(policy, "judge", None)) or isinstance(policy, type):
        raise BuildError(
            f"Bash: policy={policy!r} is no ShellPolicy.",
            remedy="Use ShellPolicy.default().with_rules(allow=..., ask=..., deny=...), or leave it out.",
        )
    return policy


def _checked_show(paths: Sequence[str | Path]) -> tuple[str | Path, ...]:
    if isinstance(paths, str | Path) or not all(isinstance(path, str | Path) for path in paths):
        raise BuildError(
            f"Bash: show={paths!r} is not a list of paths.", remedy='Write show=[".env"].'
        )
    if not all(map(str, paths)):
        raise BuildError(
            f"Bash: show={paths!r} has an empty path in it.", remedy='Write show=[".env"].'
        )
    return tuple(paths)


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
            "Bash: a Sandbox has a root, a place, limits and variables of its own.",
            remedy="Give them to the Sandbox, and Bash only that.",
        )


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
    "other programs (.git/config, .git/hooks, .vscode and their like) are read-only.",
    "host": "Nothing contains it: a person is asked about what is not plainly harmless.",
}
_KEPT = "The working directory and exported variables last from one command to the next."
_NOT_KEPT = "Every command starts in the work directory, with the same variables: `cd` and `export` do not last."
_CONTINUES = "so use background=true for what is to go on, not `&` or nohup."
