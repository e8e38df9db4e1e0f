"""Hooks in any language as a capability: those of configuration files, and those a program names itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from hookline.command_hooks.announcing import may_detach
from hookline.command_hooks.asking import Group, HandlerMatcher
from hookline.command_hooks.background import Background
from hookline.command_hooks.definition import Handler, Level, home_directory
from hookline.command_hooks.dialects import DIALECTS
from hookline.command_hooks.dialects.claude import DISPLAY
from hookline.command_hooks.digest import digest_of
from hookline.command_hooks.doubts import doubts
from hookline.command_hooks.holding import kept_from_starting, untrusted, why_held_back
from hookline.command_hooks.models import Models
from hookline.command_hooks.reading import (
    FOREIGN,
    Page,
    find_hooks,
    read_file,
    read_hook,
    read_pages,
)
from hookline.command_hooks.runner import Runner
from hookline.command_hooks.scripts import scripts_of
from hookline.command_hooks.stopping import ENDS, CapOfOthers
from hookline.command_hooks.tail_calls import make_calls
from hookline.command_hooks.texts import Spill
from hookline.command_hooks.transcript import Transcripts, default_directory
from hookline.command_hooks.trusting import TrustStore, pinned
from hookline.definition import Definition, Note
from hookline.errors import BuildError
from hookline.hooks import HookOutcome, Options, Registration, register
from hookline.lifecycle import HookPoint, ToolHookContext, point_named
from hookline.state import EMPTY, RunStatus

_PRIORITY = -100
"""After the agent's own hooks: they judge what those made of it."""
_FIRST = 10_000
"""Around all other hooks of a tier."""
_OF_THE_TREE = frozenset(
    {"before_tool_use", "permission_request", "after_tool_use", "subagent_start", "subagent_stop", "before_compact"}
)  # fmt: skip
"""Points where hooks are asked in child runs too; the rest a child has not, or its parent has for it."""

_MANIFESTS = (".claude-plugin/plugin.json", ".codex-plugin/plugin.json")
_OF_COPILOT = (".github/hooks", ".github/copilot")
"""Directories where a new file is a new hook, which would take the trust of all others. The rest of what other agents
read is kept by the file jail, under names that are only theirs."""

_GOES_ON = HookPoint.EXECUTION_START.value
_OVER = HookPoint.SESSION_END.value
"""Where everything is done and said: a hook that fails has nothing to keep from happening, and is only told of."""


class CommandHooks:
    """Hooks that are programs or addresses: JSON in, an exit code or JSON out.

        AgentBuilder().with_capability(CommandHooks([{"on": "before_tool_use", "command": "./check.sh"}]))
        AgentBuilder().with_capability(CommandHooks.discover("."))

    `project` is the directory they run in, and `cwd` the one in which the agent's tools work, if that is another.
    `transcripts` is where conversations are written for them to read.
    """

    def __init__(
        self,
        hooks: Iterable[Mapping[str, Any] | Handler] = (),
        *,
        project: str | os.PathLike[str] = ".",
        cwd: str | os.PathLike[str] | None = None,
        transcripts: str | os.PathLike[str] | None = None,
        spill: str | os.PathLike[str] | None = None,
        on_failure: Literal["open", "closed"] | None = None,
        name: str = "command-hooks",
    ) -> None:
        if isinstance(hooks, str | Mapping):
            raise BuildError(f"{hooks!r} is not a list of hooks.", remedy="Put it into a list.")
        if on_failure not in (None, "open", "closed"):
            raise BuildError(
                f"on_failure={on_failure!r} means nothing.", remedy="Use 'open' or 'closed'."
            )
        self.name = name
        self.project = Path(project).expanduser().resolve()
        if not self.project.is_dir():
            raise BuildError(
                f"there is no directory '{self.project}'.", remedy="Name the project's."
            )
        handlers = [each if isinstance(each, Handler) else read_hook(each) for each in hooks]
        if on_failure is not None:
            handlers = [msgspec.structs.replace(each, on_failure=on_failure) for each in handlers]
        self.handlers = tuple(pinned(each, self.project) for each in handlers)
        self.warnings: tuple[str, ...] = ()
        """What is wrong with files that were read, in sentences."""
        self.held_back: tuple[Handler, ...] = ()
        """Hooks of the repository that are off because it is not trusted, or has changed since."""
        self.cap_of_others: int | None = None
        """How often all hooks that are not of another agent may object to the end of a run. For who lifts the cap of
        the agent, so that those which are may object so often in a row."""
        self._apart: set[str] = set()
        self._caps: list[CapOfOthers] = []
        self._pages: tuple[Page, ...] = ()
        directory = (
            default_directory(self.project)
            if transcripts is None
            else Path(transcripts).expanduser()
        )
        spilled = Spill(None if spill is None else Path(spill))
        works_in = self.project if cwd is None else Path(cwd).expanduser().resolve()
        self.runner = Runner(self.project, Transcripts(directory), spilled, works_in)
        self._background = Background(self.runner)
        self._protected: frozenset[str] = frozenset()
        self._groups: list[Group] = []

    @classmethod
    def discover(
        cls,
        project: str | os.PathLike[str] = ".",
        *,
        dialects: Iterable[str] = FOREIGN,
        home: str | os.PathLike[str] | None = None,
        plugins: Iterable[str | os.PathLike[str]] = (),
        project_plugins: Iterable[str | os.PathLike[str]] = (),
        settings: Iterable[str | os.PathLike[str]] = (),
        agents: Iterable[str | os.PathLike[str]] = (),
        skills: Iterable[str | os.PathLike[str]] = (),
        models: Mapping[str, Any] = EMPTY,
        hooks: Iterable[Mapping[str, Any] | Handler] = (),
        trust: TrustStore | bool | None = None,
        managed: bool = True,
        cwd: str | os.PathLike[str] | None = None,
        transcripts: str | os.PathLike[str] | None = None,
        on_failure: Literal["open", "closed"] | None = None,
        name: str = "command-hooks",
    ) -> CommandHooks:
        """All hooks that a user has: of the machine, their own, those of plugins, and, once trusted, the project's.

        `plugins` are directories of plugins, for Claude Code or for Codex, that the user wants, and `project_plugins`
        those that the repository wants. `settings` are more settings files of Claude Code's, which the user names.
        `agents` and `skills` are the places whose subagents and skills the agent has: the hooks in their front matter
        are among those that are read. `models` says what names of models mean that hooks have
        (`{"haiku": "anthropic:NAME"}`). `trust` is where it is kept what is trusted; True trusts the project now, False
        never.
        """
        where = Path(project).expanduser().resolve()
        own = Path(home).expanduser() if home is not None else home_directory()
        given = dict.fromkeys((Path(each).expanduser() for each in plugins), Level.PLUGIN)
        given |= dict.fromkeys((Path(each).expanduser() for each in project_plugins), Level.PROJECT)
        warnings: list[str] = []
        pages = read_pages(where, own, warnings.append, agents=agents, skills=skills)
        named = [Path(each).expanduser() for each in settings]
        found = find_hooks(
            where, own, dialects, plugins=given, settings=named, pages=pages, managed=managed
        )
        handlers = [pinned(each, where) for each in found.handlers]
        warnings += found.warnings
        held = untrusted(handlers, where, trust)
        if held:
            handlers = [each for each in handlers if each not in held]
            warnings.append(why_held_back(where, held, trust))
        made = cls(
            [*handlers, *hooks],
            project=where,
            cwd=cwd,
            transcripts=transcripts,
            on_failure=on_failure,
            name=name,
        )
        made.runner.models = Models(models)
        warnings += made.runner.models.complaints(made.handlers)
        made.warnings, made.held_back = tuple(warnings), tuple(held)
        made._pages = tuple(pages)
        return made

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        dialect: str = "claude",
        *,
        project: str | os.PathLike[str] = ".",
        transcripts: str | os.PathLike[str] | None = None,
        on_failure: Literal["open", "closed"] | None = None,
        name: str = "command-hooks",
    ) -> CommandHooks:
        """The hooks of one file. Who names it in a program trusts it."""
        where = Path(project).expanduser().resolve()
        found = read_file(
            Path(path).expanduser().resolve(), dialect, Level.CODE, where, home_directory()
        )
        made = cls(
            found.handlers, project=where, transcripts=transcripts, on_failure=on_failure, name=name
        )
        made.warnings = (*found.warnings, *made.runner.models.complaints(made.handlers))
        return made

    # --- a capability -------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """One hook for each handler, and, where they are needed, those that protect their files and tell their news."""
        for point, handlers in self._by_point().items():
            yield from self._at(point, handlers)
        self._protected = self.protected_files()
        if self._protected:
            options = Options(
                name=f"{self.name}-protection", tier="policy", matcher="/^(write|edit)$/"
            )
            yield register(HookPoint.BEFORE_TOOL_USE, self._protect, options)
        labels = {each.source.label for each in self.held_back}
        for page in self._pages:
            if page.label in labels:
                yield from kept_from_starting(page, self.project)
        if self.at("session_start"):
            options = Options(
                name=f"{self.name}-variables", scope="tree", matcher="/^(bash|exec)$/"
            )
            yield register(HookPoint.AROUND_TOOL_USE, self.runner.variables.around_command, options)
            options = Options(name=f"{self.name}-begun", tier="observer")
            yield register(HookPoint.SESSION_START, self.runner.begun, options)
            again = register(HookPoint.EXECUTION_START, self.runner.begun, options)
            yield msgspec.structs.replace(again, each_process=True)
        if any(each.source.dialect != "hookline" for each in self.at("permission_request")):
            options = Options(name=f"{self.name}-questions", scope="tree", priority=-1000)
            yield register(HookPoint.PERMISSION_REQUEST, self.runner.questions.put, options)
        if any(each.is_async or may_detach(each) for each in self.handlers):
            options = Options(name=f"{self.name}-news", scope="tree")
            yield register(HookPoint.BEFORE_STEP, self._background.tell, options)
            last = msgspec.structs.replace(
                options, priority=-1000
            )  # after those that start some more
            yield register(HookPoint.STOP, self._background.object, last)
        if self.cap_of_others is not None:
            yield from self._capped(self.cap_of_others)
        if any(self.runner.waits_for_summary(each) for each in self.at("before_inference")):
            options = Options(name=f"{self.name}-summaries", tier="observer", priority=-1000)
            yield register(HookPoint.BEFORE_COMPACT, self.runner.compacting, options)
            yield register(HookPoint.BEFORE_INFERENCE, self.runner.compacted, options)
        if any(each.source.dialect == "gemini" for each in self.at("after_tool_use")):
            options = Options(name=f"{self.name}-tail-calls", scope="tree", priority=_PRIORITY)
            yield register(HookPoint.BEFORE_INFERENCE, make_calls, options)
        if self.handlers:
            options = Options(name=f"{self.name}-end", scope="tree", priority=-1000)
            yield register(HookPoint.EXECUTION_END, self._end, options)
            yield register(HookPoint.SESSION_END, self._forget, options)

    def notes(self, definition: Definition) -> Iterator[Note]:
        """What is wrong with files that were read, which hooks are off, and which would never run."""
        for warning in self.warnings:
            yield Note(warning, is_problem=True)
        yield from doubts(self.handlers, definition.toolbox, self.project)

    def knows(self, page: str | os.PathLike[str]) -> bool:
        """Whether the hooks of a subagent's or a skill's page were read: they run, or it is kept from starting."""
        real = os.path.realpath(page)
        return any(os.path.realpath(each.path) == real for each in self._pages)

    @property
    def counts_objections(self) -> bool:
        """Whether a hook of another agent has a say in stopping: it may object so often in a row, not in a run."""
        ends = [each for point in ENDS for each in self.at(point)]
        return any(each.source.dialect != "hookline" for each in ends)

    def at(self, point: str) -> tuple[Handler, ...]:
        """The handlers of a point, in the order in which they are heard."""
        return tuple(self._by_point().get(point_named(point).value, ()))

    def _by_point(self) -> dict[str, list[Handler]]:
        found: dict[str, list[Handler]] = {}
        for handler in self.handlers:
            for point in DIALECTS[handler.source.dialect].points_of(handler):
                found.setdefault(point, []).append(handler)
        return found

    def _at(self, point: str, handlers: list[Handler]) -> Iterator[Registration]:
        groups: dict[tuple[str, bool, str], list[Handler]] = {}
        handlers = sorted(handlers, key=_is_later)
        for handler in handlers:
            # Who only looks on is not started with those who decide: there may be nothing to see then. Nor is, in a
            # child run, who is not asked there.
            stage = (
                f"{handler.source.dialect} later" if _is_later(handler) else handler.source.dialect
            )
            key = (stage, self._observes(handler), _scope(point, handler))
            groups.setdefault(key, []).append(handler)
        names: dict[str, int] = {}
        for members in groups.values():
            group = Group(members, self.runner, self._background)
            self._groups.append(group)
            for index, handler in enumerate(members):
                count = names[handler.name] = names.get(handler.name, 0) + 1
                name = handler.name if count == 1 else f"{handler.name} ({count})"
                yield self._registered(point, group, index, handler, name)

    def _registered(
        self, point: str, group: Group, index: int, handler: Handler, name: str
    ) -> Registration:
        observes = self._observes(handler)
        if point in ENDS and handler.source.dialect != "hookline":
            self._apart.add(name)
        options = Options(
            name=name,
            matcher=HandlerMatcher(self.runner, handler),
            tier="observer" if observes else "hook",
            scope=_scope(point, handler),
            on_failure="open" if observes or point == _OVER else handler.on_failure,
            priority=_PRIORITY,
        )
        made = register(point_named(point), group.hook(index), options)
        again = point == _GOES_ON and DIALECTS[handler.source.dialect].begins_again(handler.event)
        digest = digest_of(handler, self.project)
        return msgspec.structs.replace(made, each_process=again, external=digest)

    def _observes(self, handler: Handler) -> bool:
        """Whether it only looks on; one that says what is shown is waited for, where somebody watches."""
        is_shown = handler.event == DISPLAY and self.runner.display is not None
        return handler.event in DIALECTS[handler.source.dialect].observing and not is_shown

    def _capped(self, most: int) -> Iterator[Registration]:
        self._apart.add(f"{self.name}-news")
        cap = CapOfOthers(most, self._apart)
        self._caps.append(cap)
        for point in ENDS:
            for tier in ("hook", "policy"):
                options = Options(
                    name=f"{self.name}-cap-{tier}", tier=tier, scope="tree", priority=_FIRST
                )
                yield register(point_named(point), cap, options)

    # --- around them --------------------------------------------------------------------------------

    def protected_files(self) -> frozenset[str]:
        """The files that say which hooks there are, and the scripts they name: not for the agent to change."""
        files: set[str] = set()
        for handler in self.handlers:
            files |= {os.path.realpath(handler.source.path)} if handler.source.path else set()
            files |= {os.path.realpath(path) for path in scripts_of(handler, self.project)}
            if handler.source.root:
                files |= {os.path.realpath(Path(handler.source.root, each)) for each in _MANIFESTS}
        return frozenset(files)

    def _protect(self, ctx: ToolHookContext) -> HookOutcome | None:
        path = ctx.tool_call.args.get("path")
        if not isinstance(path, str):
            return None
        full = os.path.realpath(Path(self.runner.cwd) / path)
        folders = (os.path.realpath(self.project / each) for each in _OF_COPILOT)
        if full in self._protected or any(full.startswith(f"{each}{os.sep}") for each in folders):
            return HookOutcome.block(
                f"'{path}' belongs to a hook that watches this run, so it cannot be changed."
            )
        return None

    async def _end(self, ctx: Any) -> None:
        for group in self._groups:
            group.forget(ctx.state.run_id)
        self.runner.questions.forget(ctx.state.run_id)
        for cap in self._caps:
            cap.forget(ctx.state.run_id)
        if ctx.status is not RunStatus.PAUSED:
            await self._background.end(ctx)

    async def _forget(self, ctx: Any) -> None:
        await self._background.end(ctx)  # those that were begun at the end itself
        self.runner.forget(ctx.state)

    async def aclose(self) -> None:
        """Close the models that hooks have named."""
        await self.runner.models.aclose()

    def __repr__(self) -> str:
        return f"<CommandHooks {len(self.handlers)} in {self.project}>"


def _scope(point: str, handler: Handler) -> str:
    """Whether it is asked in child runs too; one of a subagent is asked nowhere else."""
    return "tree" if point in _OF_THE_TREE or handler.agent else "self"


def _is_later(handler: Handler) -> bool:
    return handler.event in DIALECTS[handler.source.dialect].later
