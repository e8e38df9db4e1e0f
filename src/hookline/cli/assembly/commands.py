"""Hooks that are programs or addresses: those of the configuration, and those of other agents' files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.cli.assembly.capabilities import places_of
from hookline.config import HookSettings, MatchSettings, Settings, home, user_folder
from hookline.errors import BuildError, ConfigError, UsageError

_FOLDERS = {
    "claude": (".claude",),
    "gemini": (".gemini",),
    "codex": (".codex",),
    "cursor": (".cursor",),
    "copilot": (".github/hooks", ".github/copilot", ".copilot"),
}
"""Where each agent keeps its files, in a project or at home. Where none of them is, nothing needs to be loaded."""
_ELSEWHERE = {
    "claude": "CLAUDE_CONFIG_DIR",
    "codex": "CODEX_HOME",
    "copilot": "COPILOT_HOME",
}
"""The variables that say where else a user keeps them."""
_MANAGED = (
    "/etc/claude-code",
    "/etc/gemini-cli",
    "/etc/codex",
    "/etc/cursor",
    "/etc/github-copilot",
)
_OF_PLUGINS = ("hooks/hooks.json", ".claude-plugin/plugin.json", ".codex-plugin/plugin.json")
_A_SETTINGS_FILE = 'Name a settings file of Claude Code\'s: {"hooks": {...}}.'
_NOT_THEIRS = ("tier", "priority", "before", "after", "scope", "shadow")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def command_hooks(settings: Settings, folder: Path, warn: Callable[[str], None]) -> Any:
    """The capability that runs them, for an agent that works in a folder; None where there are none."""
    found = _found(settings, folder, warn)
    if found is not None:
        found.runner.mode = settings.configuration.approvals.mode
    return found


def _found(settings: Settings, folder: Path, warn: Callable[[str], None]) -> Any:
    own = list(_own(settings))
    dialects = () if settings.is_bare else tuple(_dialects(settings))
    pages = pages_in(settings.configuration.capabilities, settings.project)
    plugins, files = _plugins(settings), _settings_files(settings)
    if not own and not dialects and not pages and not plugins and not files:
        return None
    from hookline.command_hooks import CommandHooks

    if not dialects and not pages and not plugins and not files:
        return CommandHooks(own, project=settings.project, cwd=folder)
    found = CommandHooks.discover(
        settings.project,
        dialects=dialects,
        hooks=own,
        trust=trust_store(),
        cwd=folder,
        models=_models(settings),
        plugins=[root for root, is_theirs in plugins.items() if not is_theirs],
        project_plugins=[root for root, is_theirs in plugins.items() if is_theirs],
        settings=files,
        agents=pages.get("agents", ()),
        skills=pages.get("skills", ()),
    )
    for warning in found.warnings:
        warn(warning)
    return found if found.handlers or found.warnings or pages else None


def _plugins(settings: Settings) -> dict[Path, bool]:
    """The plugins that are named, and whether the project names them. One that is not there would guard nothing."""
    found = {}
    for position, each in enumerate(settings.configuration.plugins):
        where = settings.where("plugins", position)
        is_theirs = where.startswith(str(settings.project))
        base = settings.project if is_theirs else user_folder(os.environ)
        root = base / Path(each).expanduser()
        if not root.is_dir():
            remedy = "Name a directory with a hooks/hooks.json or a .claude-plugin in it."
            raise _wrong(where, f"there is no plugin directory '{root}'.", remedy)
        if not any((root / name).exists() for name in _OF_PLUGINS):
            remedy = f"It has none of {', '.join(_OF_PLUGINS)}."
            raise _wrong(where, f"'{root}' is no plugin with hooks.", remedy)
        if not is_theirs and (root / _OF_PLUGINS[0]).is_file():
            _check_object(root / _OF_PLUGINS[0], where)
        found[root] = is_theirs
    return found


def _settings_files(settings: Settings) -> list[Path]:
    """The settings files that the user names. One that is not there, or not JSON, would guard nothing."""
    found = []
    for position, each in enumerate(settings.configuration.claude_settings):
        where = settings.where("claude_settings", position)
        if where.startswith(str(settings.project)):
            remedy = "Put its hooks into .claude/settings.json, which is read anyway."
            raise _wrong(where, "a project does not name settings files.", remedy)
        path = user_folder(os.environ) / Path(each).expanduser()
        if not path.is_file():
            raise _wrong(where, f"there is no file '{path}'.", _A_SETTINGS_FILE)
        _check_object(path, where)
        found.append(path)
    return found


def _check_object(path: Path, where: str) -> None:
    """Whoever names a file wants its hooks: one that cannot be read is not passed over."""
    from hookline.command_hooks.dialects.config_files import load_json

    problems: list[str] = []
    if load_json(path, problems.append) is None:
        raise _wrong(where, f"of '{path}' nothing is read: {problems[0]}.", _A_SETTINGS_FILE)


def _wrong(where: str, said: str, remedy: str) -> UsageError | ConfigError:
    """What a flag says is wrong use of the command, and what a file says a wrong configuration."""
    kind = UsageError if where.startswith("--") else ConfigError
    return kind(f"{where}: {said}", remedy=remedy)


def _models(settings: Settings) -> Mapping[str, Any]:
    """What the names of models mean that other agents' files have: as it is said for subagents."""
    options = settings.configuration.capabilities.get("subagents", {})
    models = options.get("models")
    return models if isinstance(models, dict) else {}


def pages_in(capabilities: Mapping[str, Any], project: Path) -> dict[str, list[str]]:
    """Where the subagents and the skills of an agent are: their pages may describe hooks."""
    found = {}
    for option, name in (("agents", "subagents"), ("skills", "skills")):
        options = capabilities.get(name)
        if isinstance(options, dict) and options.get("enabled", True) and options.get("sources"):
            found[option] = places_of(options["sources"], project)
    return found


def trust_store() -> Any:
    """Where it is kept which repositories' hooks of other agents are trusted."""
    from hookline.command_hooks import TrustStore

    return TrustStore()


def _dialects(settings: Settings) -> Iterator[str]:
    """The dialects that have files here."""
    named = settings.configuration.dialects
    places = (settings.project, home(os.environ))
    managed = any(os.path.isdir(folder) for folder in _MANAGED)
    for dialect, folders in _FOLDERS.items():
        if named is not None and dialect not in named:
            continue
        elsewhere = bool(os.environ.get(_ELSEWHERE.get(dialect, ""), ""))
        here = any((place / folder).is_dir() for place in places for folder in folders)
        if managed or elsewhere or here or (dialect == "copilot" and _says_where(settings.project)):
            yield dialect


def _says_where(project: Path) -> bool:
    """Whether settings for VS Code name other places for hook files."""
    try:
        return b"chat.hookFilesLocations" in (project / ".vscode" / "settings.json").read_bytes()
    except OSError:
        return False


def _own(settings: Settings) -> Iterator[Any]:
    for position, hook in enumerate(settings.configuration.hooks):
        if hook.command is None and hook.url is None:
            continue
        where = settings.where("hooks", position)
        try:
            yield handler_of(hook, where, settings.project)
        except (BuildError, UsageError) as error:
            raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error


def handler_of(hook: HookSettings, where: str, project: Path) -> Any:
    """The handler that a hook of the configuration is. Nothing of it is run yet."""
    from hookline.command_hooks import Level, read_hook

    default = HookSettings(on=hook.on)
    for name in _NOT_THEIRS:
        if getattr(hook, name) != getattr(default, name):
            raise ConfigError(f"a command or an address has no '{name}'.", remedy="Leave it out.")
    spec: dict[str, Any] = {"on": hook.on, **_way(hook), **_match(hook)}
    for name in ("timeout", "on_failure", "name"):
        if getattr(hook, name) is not None:
            spec[name] = getattr(hook, name)
    if hook.env:
        spec["env"] = dict(hook.env)
    if hook.headers:
        spec["headers"] = dict(hook.headers)
        spec["allowed_env"] = [
            name for value in hook.headers.values() for name in _VARIABLE.findall(value)
        ]
    # What a repository brings sees only harmless variables, and its scripts are looked at before each run.
    level = Level.PROJECT if where.startswith(str(project)) else Level.CODE
    return read_hook(spec, level=level, path=where.rpartition(":")[0], label=where)


def _way(hook: HookSettings) -> dict[str, Any]:
    if hook.url is not None:
        return {"url": hook.url}
    if isinstance(hook.command, str):
        return {"command": hook.command}
    return {"argv": list(hook.command or ())}


def _match(hook: HookSettings) -> dict[str, Any]:
    match = hook.match
    if match is None:
        return {}
    if isinstance(match, str):
        is_rule = "(" in match and not match.startswith("/")
        match = MatchSettings(rule=match) if is_rule else MatchSettings(tool=match)
    if match.args or match.text:
        raise ConfigError(
            "a command is matched by tool or by rule.",
            remedy="Let it look at the arguments itself.",
        )
    found = {} if match.rule is None else {"if": match.rule}
    return found if match.tool is None else {**found, "matcher": _expression(match.tool)}


def _expression(pattern: str) -> str:
    """A tool's name as scripts' matchers have it: a glob is an expression there."""
    if len(pattern) > 1 and pattern.startswith("/"):
        body, _, flags = pattern[1:].rpartition("/")
        return f"(?i){body}" if flags else body
    if "*" in pattern or "?" in pattern:
        if pattern == "*":
            return pattern
        letters = {"*": ".*", "?": "."}
        return "^" + "".join(letters.get(char, re.escape(char)) for char in pattern) + "$"
    return pattern
