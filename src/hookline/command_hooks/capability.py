"""Hooks in any language as a capability: those of configuration files, and those that a program names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec

from hookline.command_hooks.batch import AsyncHooks, HandlerBatch, HandlerMatcher
from hookline.command_hooks.checks import check_hooks, check_matcher, check_program
from hookline.command_hooks.dialect import (
    all_dialects,
    default_directory,
    dialect_of,
    event_of,
    find_hooks,
    read_file,
)
from hookline.command_hooks.dialects.hookline import read_hook
from hookline.command_hooks.dialects.pages import add_pages
from hookline.command_hooks.handler import (
    SYSTEM,
    DroppedHook,
    FailMode,
    Handler,
    HookPage,
    HookSearch,
    Level,
    Warn,
    home_directory,
    with_fail_mode,
)
from hookline.command_hooks.hook_kinds import HookModels
from hookline.command_hooks.objections import ENDS, ObjectionCap
from hookline.command_hooks.runner import Runner
from hookline.command_hooks.trust_store import (
    TrustStore,
    UntrustedHooks,
    find_untrusted,
    start_policies,
)
from hookline.command_hooks.trusted_files import (
    definition_digest,
    find_bound,
    find_listed,
    pin_files,
)
from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.errors import BuildError
from hookline.hooks import HookOptions, HookOutcome, Registration, register
from hookline.lifecycle import (
    AgentContext,
    ExecutionHookContext,
    HookPoint,
    ToolHookContext,
    point_named,
)
from hookline.state import EMPTY, RunStatus
from hookline.wildcards import matches

_OWN = "hookline"
"""Our own dialect: its hooks are in our configuration files, or in a program."""
_PRIORITY = -100
"""After the agent's own hooks."""
_FIRST, _LAST = 10_000, -1_000
"""Around all other hooks of a tier, and after them."""
_OF_THE_TREE = frozenset(
    {"before_tool_use", "permission_request", "after_tool_use", "subagent_start", "subagent_stop", "before_compact"}
)  # fmt: skip
"""Points where hooks are asked in child runs, too. The others belong to the run of the user."""

_RESTART = HookPoint.EXECUTION_START.value
_OVER = HookPoint.SESSION_END.value
"""Nothing is left to block there: a failure is only reported."""


class CommandHooks:
    """Hooks that are programs or addresses: JSON in, an exit code or JSON out.

        AgentBuilder().with_capability(CommandHooks([{"on": "before_tool_use", "command": "./check.sh"}]))
        AgentBuilder().with_capability(CommandHooks.discover("."))

    `project` is the directory they run in, and `cwd` that of the agent's tools, if it is another. `transcripts` is the
    directory of the conversations that they can read. `files` are files and directories of the project that their
    scripts load from elsewhere: they must not change during a run.
    """

    def __init__(
        self,
        hooks: Iterable[Mapping[str, Any] | Handler] = (),
        *,
        project: str | os.PathLike[str] = ".",
        cwd: str | os.PathLike[str] | None = None,
        transcripts: str | os.PathLike[str] | None = None,
        on_failure: Literal["open", "closed"] | None = None,
        files: Iterable[str] = (),
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
            handlers = [with_fail_mode(each, on_failure) for each in handlers]
        self.files = tuple(files)
        self.handlers = tuple(_pin(each, self.project, self.files) for each in handlers)
        self.warnings: tuple[str, ...] = ()
        """What is wrong with the files, in sentences."""
        self.untrusted = UntrustedHooks()
        """Hooks of the repository that are off because they are not trusted, have changed since, or are gone."""
        self.cap_of_others: int | None = None
        """How often hooks without a cap of their own may object to the end of a run. Set where the agent's cap, which
        counts all objections, is lifted."""
        self._own_caps: set[str] = set()
        """The names of the hooks with a cap of their own."""
        self._caps: list[ObjectionCap] = []
        self._pages: tuple[HookPage, ...] = ()
        directory = (
            default_directory(self.project)
            if transcripts is None
            else Path(transcripts).expanduser()
        )
        works_in = self.project if cwd is None else Path(cwd).expanduser().resolve()
        self.runner = Runner(self.project, directory, works_in)
        self._async_hooks = AsyncHooks(self.runner)
        self._protected: frozenset[str] = frozenset()
        self._batches: list[HandlerBatch] = []

    @classmethod
    def discover(
        cls,
        project: str | os.PathLike[str] = ".",
        *,
        dialects: Iterable[str] | None = None,
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
        failures: Mapping[str, FailMode] = EMPTY,
        project_failures: Mapping[str, FailMode] = EMPTY,
        files: Iterable[str] = (),
        name: str = "command-hooks",
    ) -> CommandHooks:
        """All hooks of a user: the machine's, their own, those of plugins, and, once trusted, the project's.

        `dialects` are those whose files are read; without it, all that have files. `plugins` are directories of plugins
        for Claude Code or Codex that the user names, and `project_plugins` those that the repository names. `settings`
        are more settings files of Claude Code that the user names. `agents` and `skills` are the places of the agent's
        subagents and skills: hooks in their front matter are read, too. `models` gives names of models a meaning
        (`{"haiku": "anthropic:NAME"}`). `trust` is a trust store; True trusts the project now, False never.
        `failures` says for files, by the names under which they are shown, whether hooks that fail block
        (`{".claude/*": "closed"}`); `project_failures` is what the repository says, and opens only its own hooks.
        `files` are files and directories of the project that scripts of its hooks load from elsewhere.
        """
        read = None if dialects is None else tuple(dialects)
        agents, skills, files = list(agents), list(skills), tuple(files)
        given = dict.fromkeys(_expand(plugins), Level.PLUGIN)
        given |= dict.fromkeys(_expand(project_plugins), Level.PROJECT)
        warnings: list[str] = []
        where = Path(project).expanduser().resolve()
        search = HookSearch(
            where,
            home_directory() if home is None else Path(home).expanduser(),
            warnings.append,
            system=SYSTEM if managed else None,
            plugins=given,
            settings=tuple(_expand(settings)),
        )
        search = add_pages(search, agents=agents, skills=skills)
        found = _with_fail_modes(find_hooks(search, read), failures, project_failures, search.warn)
        # Before trust is checked: what changes in between is noticed.
        handlers = [_pin(each, where, files) for each in found]
        places = (*agents, *skills, *given)
        off = find_untrusted(handlers, where, trust, places, reads_files=read != ())
        kept = [each for each in handlers if each not in off.held]
        made = cls(
            [*kept, *hooks], project=where, cwd=cwd, transcripts=transcripts, on_failure=on_failure,
            files=files, name=name,
        )  # fmt: skip
        made.runner.models = HookModels(models)
        warnings += (*off.warnings, *made.runner.models.complaints(made.handlers))
        made.warnings, made.untrusted, made._pages = tuple(warnings), off, search.pages
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
        """The hooks of one file. A program that names it trusts it."""
        where = Path(project).expanduser().resolve()
        warnings: list[str] = []
        search = HookSearch(where, home_directory(), warnings.append)
        found = read_file(Path(path).expanduser().resolve(), dialect, Level.CODE, search)
        made = cls(found, project=where, transcripts=transcripts, on_failure=on_failure, name=name)
        made.warnings = (*warnings, *made.runner.models.complaints(made.handlers))
        return made

    @property
    def dropped(self) -> tuple[str, ...]:
        """Why hooks that are configured cannot be read, and are not in force."""
        return tuple(str(each) for each in self.warnings if isinstance(each, DroppedHook))

    @property
    def powerless(self) -> tuple[str, ...]:
        """Why hooks that guard calls or prompts cannot be started, where that would let everything pass.

        A failure that the user has opened is wanted. After a call and at the end, hooks that cannot be started are
        often about another machine: a player of sounds, a formatter.
        """
        guards = (*self.at("before_tool_use"), *self.at("prompt_submit"))
        return tuple(
            note.text
            for each in guards
            if each.on_failure == "open" and each.on_unreadable == "closed" and not each.is_async
            for note in check_program(each, self.project)
        )

    @property
    def held_back(self) -> tuple[Handler, ...]:
        """Hooks of the repository that are off because they are not trusted, or have changed since."""
        return self.untrusted.held

    # --- a capability -------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """A hook for each handler, and the hooks that these need: to protect their files, and to remember."""
        self.runner.prepare(self.handlers)
        for point, handlers in self._by_point().items():
            yield from self._at(point, handlers)
        self._protected = self.protected_files()
        if self._protected:
            files = "/^(write|edit)$/"
            yield self._own(
                "before_tool_use", self._protect, "protection", tier="policy", matcher=files
            )
        labels = {each.source.label for each in self.held_back}
        for page in self._pages:
            if page.label in labels:
                yield from start_policies(page, self.project)
        if self.at("session_start"):
            commands, around = "/^(bash|exec)$/", self.runner.variables.around_command
            yield self._own("around_tool_use", around, "variables", scope="tree", matcher=commands)
            begin = self.runner.begin_session
            yield self._own("session_start", begin, "begun", tier="observer")
            again = self._own("execution_start", begin, "begun", tier="observer")
            yield msgspec.structs.replace(again, each_process=True)
        if any(not dialect_of(each).repeats_questions for each in self.at("permission_request")):
            remember = self.runner.remember_question
            yield self._own(
                "permission_request", remember, "questions", scope="tree", priority=_LAST
            )
        if any(each.is_async or dialect_of(each).can_detach(each) for each in self.handlers):
            news = self._async_hooks
            yield self._own("before_step", news.add_words, "news", scope="tree")
            # After those that start more of them.
            yield self._own("stop", news.object_to_end, "news", scope="tree", priority=_LAST)
        if self.cap_of_others is not None:
            yield from self._register_caps(self.cap_of_others)
        later = self.at("before_inference")
        if any(event_of(each).after_summary for each in later):
            begin, end = self.runner.begin_summary, self.runner.end_summary
            yield self._own("before_compact", begin, "summaries", tier="observer", priority=_LAST)
            yield self._own("before_inference", end, "summaries", tier="observer", priority=_LAST)
        if self.handlers:
            yield self._own("execution_end", self._end, "end", scope="tree", priority=_LAST)
            yield self._own("session_end", self._forget, "end", scope="tree", priority=_LAST)

    def _own(
        self, point: str, function: Any, suffix: str, **options: Unpack[HookOptions]
    ) -> Registration:
        """A hook of the capability itself."""
        options["name"] = f"{self.name}-{suffix}"
        return register(point_named(point), function, options)

    def notes(self, definition: Definition) -> Iterator[Note]:
        """What is wrong with the files, which hooks are off, and which would never run."""
        for warning in self.warnings:
            yield Note(warning, is_problem=True)
        yield from check_hooks(self.handlers, definition.toolbox, self.project)

    def never_asked(self, definition: Definition) -> Iterator[Note]:
        """The hooks of other agents' files whose matchers are about no tool of the agent."""
        for handler in self.handlers:
            if handler.source.dialect != _OWN:
                yield from check_matcher(handler, definition.toolbox)

    def pin_scripts(self) -> None:
        """Run no script that has changed since now, whoever wrote its hook: the agent may have changed it.

        A program that makes an agent once and changes scripts later does not want this.
        """
        self.handlers = tuple(
            each if each.pins is not None else pin_files(each, self.project)
            for each in self.handlers
        )

    def has_read(self, page: str | os.PathLike[str]) -> bool:
        """Whether the hooks of a page were read: they run, or its subagent or skill cannot start."""
        real = os.path.realpath(page)
        return any(os.path.realpath(each.path) == real for each in self._pages)

    @property
    def has_own_caps(self) -> bool:
        """Whether a hook with a cap of its own is asked at the end of a run."""
        ends = [each for point in ENDS for each in self.at(point)]
        return any(dialect_of(each).caps_objections for each in ends)

    def at(self, point: str) -> tuple[Handler, ...]:
        """The handlers of a point, in order."""
        return tuple(self._by_point().get(point_named(point).value, ()))

    def _by_point(self) -> dict[str, list[Handler]]:
        found: dict[str, list[Handler]] = {}
        for handler in self.handlers:
            for point in dialect_of(handler).points_of(handler):
                found.setdefault(point, []).append(handler)
        return found

    def _at(self, point: str, handlers: list[Handler]) -> Iterator[Registration]:
        groups: dict[tuple[object, ...], list[Handler]] = {}
        for handler in sorted(handlers, key=_is_later):
            # Those that only observe are not started with those that decide, and those that are not asked in child
            # runs not with those that are.
            kind = (_is_later(handler), self._is_observer(handler), _scope(point, handler))
            groups.setdefault((handler.source.dialect, *kind), []).append(handler)
        names: dict[str, int] = {}
        for members in groups.values():
            batch = HandlerBatch(members, self.runner, self._async_hooks)
            self._batches.append(batch)
            for index, handler in enumerate(members):
                count = names[handler.name] = names.get(handler.name, 0) + 1
                name = handler.name if count == 1 else f"{handler.name} ({count})"
                yield self._register(point, batch, index, handler, name)

    def _register(
        self, point: str, batch: HandlerBatch, index: int, handler: Handler, name: str
    ) -> Registration:
        observes = self._is_observer(handler)
        dialect = dialect_of(handler)
        if point in ENDS and dialect.caps_objections:
            self._own_caps.add(name)
        options = HookOptions(
            name=name,
            matcher=HandlerMatcher(self.runner, handler),
            tier="observer" if observes else "hook",
            scope=_scope(point, handler),
            on_failure="open" if observes or point == _OVER else handler.on_failure,
            priority=_PRIORITY,
        )
        made = register(point_named(point), batch.hook(index), options)
        again = point == _RESTART and dialect.is_restart(handler.event)
        digest = definition_digest(handler, self.project)
        return msgspec.structs.replace(made, each_process=again, external=digest)

    def _is_observer(self, handler: Handler) -> bool:
        """Whether it decides nothing; one that says what is shown is waited for, if there is a display."""
        event = event_of(handler)
        return event.observes and not (event.displays and self.runner.display is not None)

    def _register_caps(self, most: int) -> Iterator[Registration]:
        self._own_caps.add(f"{self.name}-news")
        cap = ObjectionCap(most, self._own_caps)
        self._caps.append(cap)
        for point in ENDS:
            for tier in ("hook", "policy"):
                yield self._own(point, cap, f"cap-{tier}", tier=tier, scope="tree", priority=_FIRST)

    # --- around them --------------------------------------------------------------------------------

    def protected_files(self) -> frozenset[str]:
        """The files that name hooks, and what these are bound to: the agent cannot change them. The directory that it
        works in is none of them."""
        found = find_listed(self.files, self.project)
        manifests = [name for each in all_dialects().values() for name in each.manifests]
        for handler in self.handlers:
            found += find_bound(handler, self.project)
            found += [Path(handler.source.path)] if handler.source.path else []
            if handler.source.root:
                found += (Path(handler.source.root, each) for each in manifests)
        real = map(os.path.realpath, found)
        return frozenset(path for path in real if not f"{self.runner.cwd}/".startswith(f"{path}/"))

    def _protect(self, ctx: ToolHookContext) -> HookOutcome | None:
        path = ctx.tool_call.args.get("path")
        if not isinstance(path, str):
            return None
        full = os.path.realpath(Path(self.runner.cwd) / path)
        named = (name for each in all_dialects().values() for name in each.protected_folders)
        folders = (os.path.realpath(self.project / name) for name in named)
        is_theirs = self._is_other_name(full)
        held = (f"{each}{os.sep}" for each in (*self._protected, *folders))
        if is_theirs or any(f"{full}{os.sep}".startswith(each) for each in held):
            return HookOutcome.block(
                f"'{path}' is used by a hook of this run, or is in the directory of its scripts, so it cannot be "
                "changed. The user can change it outside of the run."
            )
        return None

    def _is_other_name(self, path: str) -> bool:
        """Whether a path is another name (a hard link) of a protected file."""
        try:
            asked = os.stat(path)
        except OSError:
            return False
        if asked.st_nlink < 2:
            return False
        for each in self._protected:
            with contextlib.suppress(OSError):
                if os.path.samestat(asked, os.stat(each)):
                    return True
        return False

    async def _end(self, ctx: ExecutionHookContext) -> None:
        is_paused = ctx.status is RunStatus.PAUSED
        for batch in self._batches:
            batch.forget(ctx.state.run_id)
        self.runner.end_run(ctx.state, is_paused=is_paused)
        for cap in self._caps:
            cap.forget(ctx.state.run_id)
        if not is_paused:
            await self._async_hooks.end(ctx)

    async def _forget(self, ctx: AgentContext) -> None:
        await self._async_hooks.end(ctx)  # those that were started at the end itself
        self.runner.end_session(ctx.state)

    async def aclose(self) -> None:
        """Close the models that hooks named."""
        await self.runner.models.aclose()

    def __repr__(self) -> str:
        return f"<CommandHooks {len(self.handlers)} in {self.project}>"


def _pin(handler: Handler, project: Path, files: Sequence[str]) -> Handler:
    """A repository's hook with the hashes of what it is bound to; any other as it is."""
    if handler.pins is not None or not handler.source.level.is_repository:
        return handler
    return pin_files(handler, project, files)


def _expand(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    return (Path(each).expanduser() for each in paths)


def _with_fail_modes(
    handlers: Iterable[Handler],
    failures: Mapping[str, FailMode],
    project_failures: Mapping[str, FailMode],
    warn: Warn,
) -> list[Handler]:
    """Hooks with what the user and the repository say about failures, by file.

    A name counts before a pattern, and of patterns `closed`. The administrator's hooks are not changed.
    """
    changed, used = list[Handler](), set[str]()
    for handler in handlers:
        for said, is_theirs in ((project_failures, True), (failures, False)):
            names = [each for each in said if matches(handler.source.label, each)]
            used.update(names)
            exact = [each for each in names if each == handler.source.label]
            modes = {said[each] for each in exact or names}
            mode: FailMode = "closed" if "closed" in modes else "open"
            is_loosened = mode == "open" and is_theirs and not handler.source.level.is_repository
            if modes and not is_loosened and handler.source.level is not Level.MANAGED:
                handler = with_fail_mode(handler, mode)
        changed.append(handler)
    for name in dict.fromkeys([*failures, *project_failures]):
        if name not in used:
            warn(f"hook_failures: no hook comes from '{name}'")
    return changed


def _scope(point: str, handler: Handler) -> str:
    """Whether it is asked in child runs, too; one of a subagent is asked only there."""
    return "tree" if point in _OF_THE_TREE or handler.agent else "self"


def _is_later(handler: Handler) -> bool:
    return event_of(handler).is_later
