"""Hooks that are programs or addresses: of the configuration, and of other agents' files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.cli.assembly.capabilities import places_of
from hookline.cli.assembly.matchers import is_expression, match_of, names_in
from hookline.command_hooks import CommandHooks, Level, TrustStore, read_hook
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.dialects.config_files import load_file
from hookline.command_hooks.handler import FailMode
from hookline.config import Settings
from hookline.config.layers import is_of_project, setting_error
from hookline.config.schema import HookSettings
from hookline.errors import ConfigError
from hookline.own_directories import configuration_directory

_USUAL = "hooks/hooks.json"
"""The usual file with the hooks of a plugin."""
_A_SETTINGS_FILE = 'Name a settings file of Claude Code: {"hooks": {...}}.'
_PYTHON_ONLY = ("tier", "priority", "before", "after", "scope", "shadow")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A variable of the user's environment, in headers and environments."""


def command_hooks(settings: Settings, folder: Path) -> CommandHooks | None:
    """The capability that runs them, for an agent that works in a folder; None if there are none."""
    own = list(_own_handlers(settings))
    pages = pages_in(settings.configuration.capabilities, settings.project)
    plugins, files = _plugins(settings), _settings_files(settings)
    if settings.is_bare and not (own or pages or plugins or files):
        return None
    found = CommandHooks.discover(
        settings.project,
        dialects=() if settings.is_bare else settings.configuration.dialects,
        hooks=own,
        trust=TrustStore(),
        cwd=folder,
        models=_models(settings),
        plugins=[root for root, is_theirs in plugins.items() if not is_theirs],
        project_plugins=[root for root, is_theirs in plugins.items() if is_theirs],
        settings=files,
        agents=pages.get("agents", ()),
        skills=pages.get("skills", ()),
        failures={} if settings.is_bare else _failures(settings, is_theirs=False),
        project_failures={} if settings.is_bare else _failures(settings, is_theirs=True),
        files=settings.configuration.hook_files,
    )
    if not (found.handlers or found.warnings or pages):
        return None
    found.pin_scripts()
    found.runner.mode = settings.configuration.approvals.mode
    return found


def _failures(settings: Settings, *, is_theirs: bool) -> dict[str, FailMode]:
    """What the user's files, or the project's, say about hooks that fail."""
    found: dict[str, FailMode] = {}
    for name, mode in settings.configuration.hook_failures.items():
        where = settings.where("hook_failures", name)
        if is_of_project(where, settings.project) is not is_theirs:
            continue
        if is_theirs and mode == "open" and name.startswith(("~", "/")):
            remedy = "Put it into your own configuration file."
            raise setting_error(
                where, f"a project cannot let the hooks fail open for '{name}'.", remedy
            )
        found[name] = mode
    return found


def _plugins(settings: Settings) -> dict[Path, bool]:
    """The named plugins, and whether the project names them. A missing one is an error: it would guard nothing."""
    found = {}
    manifests = (name for each in all_dialects().values() for name in each.manifests)
    files = tuple(dict.fromkeys((_USUAL, *manifests)))
    for position, each in enumerate(settings.configuration.plugins):
        where = settings.where("plugins", position)
        is_theirs = is_of_project(where, settings.project)
        base = settings.project if is_theirs else configuration_directory(os.environ)
        root = base / Path(each).expanduser()
        if not root.is_dir():
            remedy = f"Name a directory with one of {', '.join(files)}."
            raise setting_error(where, f"there is no plugin directory '{root}'.", remedy)
        if not any((root / name).exists() for name in files):
            remedy = f"It has none of {', '.join(files)}."
            raise setting_error(where, f"'{root}' is not a plugin with hooks.", remedy)
        if not is_theirs and (root / _USUAL).is_file():
            _check_object(root / _USUAL, where)
        found[root] = is_theirs
    return found


def _settings_files(settings: Settings) -> list[Path]:
    """The settings files that the user names. A missing or broken one is an error: it would guard nothing."""
    found = []
    for position, each in enumerate(settings.configuration.claude_settings):
        where = settings.where("claude_settings", position)
        if is_of_project(where, settings.project):
            remedy = "Put its hooks into .claude/settings.json, which is read anyway."
            raise setting_error(where, "a project cannot name settings files.", remedy)
        path = configuration_directory(os.environ) / Path(each).expanduser()
        if not path.is_file():
            raise setting_error(where, f"there is no file '{path}'.", _A_SETTINGS_FILE)
        _check_object(path, where)
        found.append(path)
    return found


def _check_object(path: Path, where: str) -> None:
    """Refuse a file that cannot be read: the user relies on its hooks."""
    problems: list[str] = []
    load_file(path, problems.append)
    if problems:
        raise setting_error(where, f"'{path}' cannot be used: {problems[0]}.", _A_SETTINGS_FILE)


def _models(settings: Settings) -> Mapping[str, Any]:
    """What model names in other agents' files mean: the `models` of subagents."""
    options = settings.configuration.capabilities.get("subagents", {})
    models = options.get("models")
    return models if isinstance(models, dict) else {}


def pages_in(capabilities: Mapping[str, Any], project: Path) -> dict[str, list[str]]:
    """The places of an agent's subagents and skills: their pages may describe hooks."""
    found = {}
    for option, name in (("agents", "subagents"), ("skills", "skills")):
        options = capabilities.get(name)
        if isinstance(options, dict) and options.get("enabled", True) and options.get("sources"):
            found[option] = places_of(options["sources"], project)
    return found


def _own_handlers(settings: Settings) -> Iterator[Any]:
    for position, hook in enumerate(settings.configuration.hooks):
        if hook.command is None and hook.url is None:
            continue
        where = settings.where("hooks", position)
        yield handler_of(hook, where, settings.project)


def handler_of(hook: HookSettings, where: str, project: Path) -> Any:
    """The handler of a hook in the configuration. Nothing is run yet."""
    default = HookSettings(on=hook.on)
    for name in _PYTHON_ONLY:
        if getattr(hook, name) != getattr(default, name):
            raise ConfigError(f"a command or an address has no '{name}'.", remedy="Leave it out.")
    spec = {
        "on": hook.on,
        **_match(hook),
        "url": hook.url,
        "command" if isinstance(hook.command, str) else "argv": hook.command,
        **{name: getattr(hook, name) for name in ("timeout", "on_failure", "name")},
        **{name: getattr(hook, name) for name in ("env", "files", "headers")},
        "allowed_env": VARIABLE.findall(" ".join(hook.headers.values())),
    }
    lists = {name: list(each) if isinstance(each, tuple) else each for name, each in spec.items()}
    given = {name: each for name, each in lists.items() if each}
    # A repository's command gets only harmless variables, and its scripts are checked before each run.
    level = Level.PROJECT if is_of_project(where, project) else Level.CODE
    return read_hook(given, level=level, path=where.rpartition(":")[0], label=where)


def _match(hook: HookSettings) -> dict[str, Any]:
    match = match_of(hook)
    if match.args or match.text:
        raise ConfigError(
            "a command hook can only match a tool or a rule.",
            remedy="Check the arguments in the command.",
        )
    found = {} if match.rule is None else {"if": match.rule}
    return found if match.tool is None else {**found, "matcher": _expression(match.tool)}


def _expression(pattern: str) -> str:
    """Names of tools as a matcher of other agents: globs become an expression."""
    if is_expression(pattern):
        body, _, flags = pattern[1:].rpartition("/")
        return f"(?i){body}" if flags else body
    if pattern == "*" or not {"*", "?"} & set(pattern):
        return pattern
    letters = {"*": ".*", "?": "."}
    globs = (
        "".join(letters.get(char, re.escape(char)) for char in name) for name in names_in(pattern)
    )
    return "|".join(f"^{each}$" for each in globs)
