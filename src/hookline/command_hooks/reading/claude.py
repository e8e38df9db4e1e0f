"""Claude Code's settings files, at all their levels, and the hooks of its plugins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hookline.command_hooks.definition import (
    Handler,
    Level,
    Source,
    own_directory,
    shown_path,
)
from hookline.command_hooks.reading.claude_entries import make
from hookline.command_hooks.reading.files import (
    Dropped,
    Warn,
    about,
    load_json,
    nested,
    text_field,
    texts_field,
)
from hookline.command_hooks.reading.marketplaces import in_marketplaces
from hookline.command_hooks.reading.plugin_options import chosen, with_options
from hookline.errors import BuildError

_RANK = {Level.MANAGED: 0, Level.USER: 1, Level.PLUGIN: 1, Level.LOCAL: 2, Level.PROJECT: 2}
"""Who may switch off whom: a file those of its own rank and below."""


class Settings(NamedTuple):
    """One settings file, read."""

    level: Level
    handlers: tuple[Handler, ...]
    content: Mapping[str, Any]


def own_files(home: Path) -> Path:
    """Where a user keeps settings and plugins."""
    return own_directory(home, ".claude", "CLAUDE_CONFIG_DIR")


def managed_directory() -> Path:
    """Where an administrator puts settings."""
    if sys.platform == "darwin":
        return Path("/Library/Application Support/ClaudeCode")
    return Path("/etc/claude-code")


def read_settings(
    project: Path,
    home: Path,
    warn: Warn,
    *,
    managed: Path | None,
    plugins: Mapping[Path, Level] | None = None,
    named: Iterable[Path] = (),
    pages: Iterable[Settings] = (),
) -> list[Handler]:
    """The hooks of all levels that are in force, those of the administrator first, those of pages last."""
    places: list[tuple[Level, Path]] = []
    if managed is not None:
        places.append((Level.MANAGED, managed / "managed-settings.json"))
        more = sorted((managed / "managed-settings.d").glob("*.json"))
        places += [(Level.MANAGED, path) for path in more]
    places += [
        (Level.USER, own_files(home) / "settings.json"),
        *((Level.USER, path) for path in named),
        (Level.PROJECT, project / ".claude" / "settings.json"),
        (Level.LOCAL, project / ".claude" / "settings.local.json"),
    ]
    found = [
        read_settings_file(path, level, project, home, warn)
        for level, path in places
        if not (level.is_repository and project == home)  # the same files twice
    ]
    installed = dict.fromkeys(_installed(home, found, warn), Level.PLUGIN)
    levels = {**installed, **(plugins or {})}
    said = [each.content for each in found if not each.level.is_repository]
    found += [_plugin(root, level, project, home, warn, said) for root, level in levels.items()]
    found += pages
    return _once(_ending(_in_force(with_variables(found), warn)))


def read_settings_file(path: Path, level: Level, project: Path, home: Path, warn: Warn) -> Settings:
    """One settings file."""
    label = shown_path(path, project, home)
    told = about(label, _refusing(warn) if level is Level.MANAGED else warn)
    content = load_json(path, told) or {}
    source = Source("claude", level, str(path), label)
    handlers = tuple(nested(content["hooks"], source, make, told)) if "hooks" in content else ()
    return Settings(level, handlers, content)


def _refusing(warn: Warn) -> Warn:
    """Warnings about an administrator's file. Without a hook that it requires nothing is begun."""

    def told(said: str) -> None:
        if isinstance(said, Dropped):
            raise BuildError(
                f"a hook that the administrator of this machine requires cannot be loaded: {said}",
                remedy="Have the file corrected.",
            )
        warn(said)

    return told


def read_named_settings(
    files: Iterable[Path], project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """The hooks of settings files that are named, where no others are looked at."""
    found = [read_settings_file(path, Level.USER, project, home, warn) for path in files]
    return [handler for settings in found for handler in settings.handlers]


def read_plugins(
    plugins: Mapping[Path, Level], project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """The hooks of plugins alone, where settings files are not looked at."""
    found = [_plugin(root, level, project, home, warn) for root, level in plugins.items()]
    return [handler for settings in found for handler in settings.handlers]


def _plugin(
    root: Path,
    level: Level,
    project: Path,
    home: Path,
    warn: Warn,
    settings: Iterable[Mapping[str, Any]] = (),
) -> Settings:
    """A plugin's hooks; its manifest may name other files for them, or have them itself."""
    told = about(shown_path(root, project, home), warn)
    manifest = load_json(root / ".claude-plugin" / "plugin.json", told) or {}
    name = text_field(manifest, "name") or root.name
    path = root / "hooks" / "hooks.json"
    data = own_files(home) / "plugins" / "data" / name
    source = Source("claude", level, str(path), f"{name}/hooks.json", str(root), str(data))
    contents = [load_json(path, told)]
    named = manifest.get("hooks")
    for each in named if isinstance(named, list) else [named]:
        if isinstance(each, str) and (root / each).resolve().is_relative_to(root.resolve()):
            contents.append(load_json(root / each, told))
        elif isinstance(each, dict):
            contents.append(each if "hooks" in each else {"hooks": each})
    handlers: list[Handler] = []
    for content in contents:
        if content:
            handlers += nested(content.get("hooks", {}), source, make, told)
    # What the user has chosen may be a secret, and is not for what a repository brings.
    options = chosen(manifest, name, () if level.is_repository else settings)
    equipped = (with_options(each, options, told) for each in handlers)
    return Settings(level, tuple(each for each in equipped if each is not None), {})


def _installed(home: Path, found: Iterable[Settings], warn: Warn) -> Iterator[Path]:
    """The plugins that the user has installed and switched on."""
    enabled: dict[str, Any] = {}
    for settings in found:
        value = settings.content.get("enabledPlugins")
        if (
            isinstance(value, dict) and not settings.level.is_repository
        ):  # it switches on its own only
            enabled |= value
    if not any(value is True for value in enabled.values()):
        return
    told = about("~/.claude/plugins/installed_plugins.json", warn)
    known = load_json(own_files(home) / "plugins" / "installed_plugins.json", told) or {}
    plugins = known.get("plugins")
    for name, entry in plugins.items() if isinstance(plugins, dict) else ():
        for each in entry if isinstance(entry, list) else [entry]:
            path = each.get("installPath") if isinstance(each, dict) else None
            if enabled.get(name) is True and isinstance(path, str):
                yield Path(path).expanduser()
    others = [
        name
        for name, value in enabled.items()
        if value is True and not (isinstance(plugins, dict) and name in plugins)
    ]
    yield from in_marketplaces(others, own_files(home) / "plugins" / "marketplaces", warn)


def _in_force(found: list[Settings], warn: Warn) -> list[Handler]:
    """The hooks that no level switches off. A repository's files cannot switch off those of the user."""
    ranks = [_RANK[each.level] for each in found if each.content.get("disableAllHooks") is True]
    least = min(ranks, default=len(_RANK))
    managed = [each.content for each in found if each.level is Level.MANAGED]
    only_managed = any(content.get("allowManagedHooksOnly") is True for content in managed)
    handlers: list[Handler] = []
    for settings in found:
        rank = _RANK[settings.level]
        if settings.handlers and rank >= least:
            warn(f"disableAllHooks: the hooks of {settings.handlers[0].source.label} are off")
        elif only_managed and settings.level is not Level.MANAGED:
            for handler in settings.handlers[:1]:
                warn(f"only managed hooks run: those of {handler.source.label} are off")
        else:
            handlers += settings.handlers
    return [_with_listed(each, found) for each in handlers if _may_call(each, found, warn)]


def with_variables(found: list[Settings]) -> list[Settings]:
    """The hooks with the variables that settings have for them. A repository's are for its own hooks, and the user's,
    which may be secrets, are not for those."""
    theirs: dict[str, str] = {}
    ours: dict[str, str] = {}
    for settings in found:  # of several files, the last one counts
        (theirs if settings.level.is_repository else ours).update(
            texts_field(settings.content, "env")
        )
    return [
        settings._replace(
            handlers=tuple(
                _given(each, theirs if settings.level.is_repository else ours)
                for each in settings.handlers
            )
        )
        for settings in found
    ]


def _given(handler: Handler, variables: dict[str, str]) -> Handler:
    if not variables:
        return handler
    definition = {**handler.definition, "env": variables}  # changed, they are asked about again
    return msgspec.structs.replace(handler, env={**variables, **handler.env}, definition=definition)


def _ending(handlers: list[Handler]) -> list[Handler]:
    """Hooks at the end of a session have the time of the one that has most, or as much as a variable says."""
    times = [each.timeout for each in handlers if each.event == "SessionEnd"]
    said = os.environ.get("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS", "")
    most = int(said) / 1000 if said.isdecimal() and int(said) else max(times, default=0.0)
    return [
        msgspec.structs.replace(each, timeout=most) if each.event == "SessionEnd" else each
        for each in handlers
    ]


def _with_listed(handler: Handler, found: list[Settings]) -> Handler:
    """A hook behind an address with those of its variables that the user or the administrator has listed, if any."""
    for settings in found:
        listed = settings.content.get("httpHookAllowedEnvVars")
        if handler.allowed_env and isinstance(listed, list) and not settings.level.is_repository:
            kept = tuple(name for name in handler.allowed_env if name in listed)
            handler = msgspec.structs.replace(handler, allowed_env=kept)
    return handler


def _may_call(handler: Handler, found: list[Settings], warn: Warn) -> bool:
    """Whether the addresses that the user or the administrator has listed, if any, have this one."""
    if handler.kind != "http":
        return True
    for settings in found:
        allowed = settings.content.get("allowedHttpHookUrls")
        if settings.level.is_repository or not isinstance(allowed, list):
            continue
        if not any(isinstance(each, str) and fnmatchcase(handler.url, each) for each in allowed):
            warn(f"'{handler.url}' is not among the allowedHttpHookUrls, so it is not called")
            return False
    return True


def _once(handlers: list[Handler]) -> list[Handler]:
    """The same hook in several settings files runs once; a plugin's, a subagent's or a skill's copy is its own."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for handler in handlers:
        key = (*handler.identity, handler.source.root)
        if key not in seen:
            seen.add(key)
            kept.append(handler)
    return kept
