"""The Python hooks and the rules of a configuration."""

from __future__ import annotations

import functools
import inspect
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hookline._aio import WorkerThread, is_async_callable
from hookline.cli.assembly.matchers import match_of, matcher_of
from hookline.cli.assembly.rules import rule_of
from hookline.cli.assembly.tool_names import wrong_names_in_hook
from hookline.cli.assembly.verification import locate_errors
from hookline.cli.project_modules import import_from_source, importable
from hookline.cli.target import attribute_of, split_target
from hookline.config import Settings
from hookline.config.locations import own_file
from hookline.config.module_files import find_module_files
from hookline.config.schema import HookSettings, MatchSettings
from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.errors import ConfigError
from hookline.hooks import HookOptions, Registration, register
from hookline.hooks.hook import target_of
from hookline.hooks.plan import with_timeout
from hookline.lifecycle import AgentContext, point_named
from hookline.lifecycle.contexts import LiveRun

_SYNC_TIMEOUT = 60.0
"""Seconds for a synchronous hook that names no limit: for its own code, without what it wraps."""


class HookThreads:
    """A thread for each run, in which its synchronous hooks run: a slow one does not hold up Ctrl-C and SIGTERM.

    It is the same thread for all hooks of a run, because what a hook opens (a connection of sqlite3) may belong to a
    thread. A hook that takes too long is left behind with its thread.
    """

    def __init__(self) -> None:
        self._by_run: weakref.WeakKeyDictionary[LiveRun, WorkerThread] = weakref.WeakKeyDictionary()

    def wrap(self, function: Callable[..., Any], limit: float | None) -> Callable[..., Any]:
        """The function as an asynchronous hook. It may hand on to what it wraps: `return next(ctx)`."""

        async def call(ctx: AgentContext, *rest: Any) -> Any:
            if ctx.live is None:
                return function(ctx, *rest)
            return await self._of(ctx.live).call(function, ctx, *rest)

        own_part = call if limit is None else with_timeout(call, limit)

        @functools.wraps(function)
        async def in_thread(*args: Any) -> Any:
            answer = await own_part(*args)
            return await answer if inspect.isawaitable(answer) else answer

        return in_thread

    def _of(self, run: LiveRun) -> WorkerThread:
        thread = self._by_run.get(run)
        if thread is None or thread.is_stuck:
            thread = self._by_run[run] = WorkerThread(f"hookline: hooks of {run.run_id}")
            weakref.finalize(run, thread.close)
        return thread


class ConfiguredHooks:
    """The Python hooks and the rules of a configuration, as a capability: it can replace no guard."""

    name = "configuration"

    def __init__(self, settings: Settings, root: Path) -> None:
        self._settings = settings
        self._root = root
        self._names: dict[int, str] = {}
        self._threads = HookThreads()

    def hooks(self) -> Iterator[Registration]:
        """A registration for each hook. A mistake is reported with its file and line."""
        for position, hook in enumerate(self._settings.configuration.hooks):
            if hook.run is None and hook.do is None:
                continue
            with locate_errors(self._settings.where("hooks", position)):
                made = self._registration(hook, self._settings.where("hooks", position))
            self._names[position] = made.name
            yield made

    def notes(self, definition: Definition) -> Iterator[Note]:
        """The hooks for tools that the agent does not have: they guard nothing."""
        for position, hook in enumerate(self._settings.configuration.hooks):
            if hook.run is None and hook.do is None:
                continue
            where = self._settings.where("hooks", position)
            for wrong in wrong_names_in_hook(hook, where, self._settings, definition.toolbox):
                other = "Correct its name, give the agent the tool, or leave it out."
                yield Note(
                    f"{where}: the hook '{hook.name or hook.run or _default_name(hook)}' is for a tool '{wrong.name}', "
                    "which the agent does not have.",
                    is_problem=True,
                    remedy=f"Did you mean '{wrong.meant}'?" if wrong.meant else other,
                    hook=self._names.get(position, ""),
                )

    def _load(self, target: str, where: str) -> Any:
        """A function of the project, or, if the user's own file names it, of that file's directory: not of any project
        that they happen to be in."""
        project, own = self._settings.project, own_file(os.environ)
        if where.startswith(f"{own}:"):
            return load_hook(target, [own.parent], None)
        return load_hook(target, [project, project / ".hookline"], project)

    def _registration(self, hook: HookSettings, where: str) -> Registration:
        point = point_named(hook.on)
        if hook.do is not None:
            function, matcher = rule_of(hook, point, self._root)
            made = register(point, function, _options(hook, matcher))
            # Two rules may have the same default name: the second one is numbered.
            return made if hook.name else msgspec.structs.replace(made, named=False)
        function = self._load(hook.run or "", where)
        matcher = matcher_of(match_of(hook, point), point, self._root)
        made = register(point, function, _options(hook, matcher))
        target = target_of(function)
        if is_async_callable(target):
            return made
        limit = _SYNC_TIMEOUT if hook.timeout is None else None
        return msgspec.structs.replace(made, hook=self._threads.wrap(target, limit))


def _default_name(hook: HookSettings) -> str:
    """The name of a rule without a name: what it does, and to what."""
    match = hook.match
    if hook.do == "redact":
        return f"redact at {hook.on}"  # names are in journals, and the redacted words must not be
    if isinstance(match, MatchSettings):
        args = ", ".join(f"{name}={value}" for name, value in match.args.items())
        about = match.rule or " ".join(part for part in (match.tool, args, match.text) if part)
    else:
        about = match or ""
    return f"{hook.do}: {about}" if about else f"{hook.do} at {hook.on}"


def _options(hook: HookSettings, matcher: Any) -> HookOptions:
    tier = hook.tier or ("policy" if hook.do in ("block", "ask", "stop") else "hook")
    return HookOptions(
        priority=hook.priority,
        matcher=matcher,
        name=hook.name or (_default_name(hook) if hook.do is not None else None),
        before=hook.before,
        after=hook.after,
        tier=tier,
        scope=hook.scope,
        timeout=hook.timeout,
        on_failure=hook.on_failure,
        shadow=hook.shadow,
    )


def load_hook(target: str, places: Sequence[Path], project: Path | None) -> Any:
    """Load the function or object that `module:name` names.

    Its module is installed, or in one of the places. If these belong to a project, only files are imported from there
    that trust is bound to.
    """
    module_name, path = split_target(target, "a hook", 'run = "module:function"')
    if project is not None:
        import_from_source(project, find_module_files(project, module_name))
    try:
        with importable(places):
            module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the hook '{target}' cannot be loaded: there is no module '{error.name}'.",
            remedy=f"Modules are searched in {' and '.join(map(str, places))}.",
        ) from None
    except Exception as error:
        raise ConfigError(
            f"the hook '{target}' cannot be loaded: {type(error).__name__}: {error}."
        ) from error
    return attribute_of(module, path, "hook")
