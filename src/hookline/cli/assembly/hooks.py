"""The hooks of a configuration: Python functions, rules, commands and addresses, under one name."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.assembly.matching import match_of, matcher_of, names_in, ours_of
from hookline.cli.assembly.rules import rule_of
from hookline.config import HookSettings, MatchSettings, Settings
from hookline.definition import Definition, Note
from hookline.errors import BuildError, ConfigError, UsageError
from hookline.hooks import Matcher, Options, Point, Registration, register
from hookline.lifecycle import ToolHookContext, point_named
from hookline.state import ToolCall
from hookline.tools import Toolbox

_GLOB = {*"*?["}


class ConfiguredHooks:
    """The Python hooks and the rules of a configuration, as a capability: it can replace no guard."""

    name = "configuration"

    def __init__(self, settings: Settings, root: Path) -> None:
        self._settings = settings
        self._root = root
        self._names: dict[int, str] = {}

    def hooks(self) -> Iterator[Registration]:
        """A registration for each of them. What is wrong with one is told with where it is written."""
        for position, hook in enumerate(self._settings.configuration.hooks):
            if hook.run is None and hook.do is None:
                continue
            try:
                made = self._registration(hook)
                self._names[position] = made.name
                yield made
            except (BuildError, UsageError) as error:
                where = self._settings.where("hooks", position)
                raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error

    def notes(self, definition: Definition) -> Iterator[Note]:
        """Which of them are about tools that there are none of: they guard nothing."""
        for position, hook in enumerate(self._settings.configuration.hooks):
            if hook.run is None and hook.do is None:
                continue
            for name, meant in unmet(hook, definition.toolbox):
                where = self._settings.where("hooks", position)
                yield Note(
                    f"{where}: the hook '{hook.name or hook.run or _named(hook)}' is for a tool '{name}' that there "
                    "is none of here.",
                    is_problem=True,
                    remedy=f"Did you mean '{meant}'?"
                    if meant
                    else "Correct its name, give the agent the tool, or leave it out.",
                    hook=self._names.get(position, ""),
                )

    def _registration(self, hook: HookSettings) -> Registration:
        point = point_named(hook.on)
        if hook.do is not None:
            function, matcher = rule_of(hook, point, self._root)
            made = register(point, function, options_of(hook, matcher, default=_named(hook)))
            # A name that nobody gave may be met twice: the second is numbered.
            return made if hook.name else msgspec.structs.replace(made, named=False)
        assert hook.run is not None
        found = found_hook(hook.run, self._settings.project)
        return register(point, found, options_of(hook, matched(hook, point, self._root)))


def unmet(hook: HookSettings, toolbox: Toolbox) -> Iterator[tuple[str, str]]:
    """The tools that a hook is for and that are not here, each with the one that was probably meant."""
    rule, pattern = _about(hook)
    tools = [tool.name for tool in toolbox]
    names = [] if not pattern or pattern.startswith("/") else names_in(pattern)
    lost = [name for name in names if not ({name, *ours_of(name)} & {*tools} or set(name) & _GLOB)]
    if not (rule or lost):
        return
    from hookline.command_hooks.checks import unknown_tools
    from hookline.permissions import Rule

    yield from unknown_tools([rule] if rule else [], toolbox)
    for name in lost:
        # A rule knows more names for a tool than a plain name does.
        ours = [tool for tool in tools if Rule(name).touches(ToolCall("", tool))]
        yield from [(name, ours[0])] if ours else unknown_tools([name], toolbox)


def _about(hook: HookSettings) -> tuple[str, str]:
    """The rule and the name of a tool by which a hook says what it is for; empty where it says none."""
    match = hook.match
    if match is None or not issubclass(point_named(hook.on).context, ToolHookContext):
        return "", ""
    if isinstance(match, MatchSettings):
        return match.rule or "", match.tool or ""
    if hook.do == "redact":
        return "", ""
    is_rule = "(" in match and not match.startswith("/")
    return (match, "") if is_rule else ("", match)


def matched(hook: HookSettings, point: Point[Any], root: Path) -> Matcher | None:
    """What a Python hook is for."""
    return matcher_of(match_of(hook, point), point, root)


def _named(hook: HookSettings) -> str:
    """What a rule without a name is called: what it does, and to what."""
    match = hook.match
    if hook.do == "redact":
        return f"redact at {hook.on}"  # names are in journals, and the words must not be
    if isinstance(match, MatchSettings):
        args = ", ".join(f"{name}={value}" for name, value in match.args.items())
        about = match.rule or " ".join(part for part in (match.tool, args, match.text) if part)
    else:
        about = match or ""
    return f"{hook.do}: {about}" if about else f"{hook.do} at {hook.on}"


def options_of(hook: HookSettings, matcher: Any, *, default: str | None = None) -> Options:
    """The options of a registration."""
    tier = hook.tier or ("policy" if hook.do in ("block", "ask", "stop") else "hook")
    return Options(
        priority=hook.priority,
        matcher=matcher,
        name=hook.name or default,
        before=hook.before,
        after=hook.after,
        tier=tier,
        scope=hook.scope,
        timeout=hook.timeout,
        on_failure=hook.on_failure,
        shadow=hook.shadow,
    )


@contextlib.contextmanager
def _found_in(project: Path) -> Iterator[None]:
    """Look for modules in the project, for a moment: what is loaded later is not to be taken from there.

    It comes before what is installed, and after the standard library: nothing of a project takes the place of that.
    """
    before = list(sys.path)
    places = [place for place, path in enumerate(before) if path.endswith("-packages")]
    at = min(places, default=len(before))
    sys.path[at:at] = [str(project), str(project / ".hookline")]
    try:
        yield
    finally:
        sys.path[:] = before


def named_parts(target: str) -> tuple[str, str]:
    """The module and the name in it that `module:name` says."""
    module, colon, path = target.partition(":")
    if not (module and colon and path):
        raise ConfigError(
            f"'{target}' does not name a hook.", remedy='Write run = "module:function".'
        )
    return module, path


def found_hook(target: str, project: Path) -> Any:
    """The function, or the object, that `module:name` names."""
    module_name, path = named_parts(target)
    try:
        with _found_in(project):
            found: Any = import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the hook '{target}' cannot be loaded: there is no module '{error.name}'.",
            remedy=f"Modules are looked for in {project} and {project / '.hookline'}.",
        ) from None
    except AttributeError:
        raise ConfigError(f"module '{module_name}' has no '{path}'.") from None
    except Exception as error:
        raise ConfigError(
            f"the hook '{target}' cannot be loaded: {type(error).__name__}: {error}."
        ) from error
    return found
