"""The configuration files of Gemini CLI, Codex and Cursor."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.definition import Handler, Level, Source, own_directory, shown_path
from hookline.command_hooks.dialects.cursor import CLOSED
from hookline.command_hooks.reading.claude_entries import make as make_claude
from hookline.command_hooks.reading.cursor_plugins import plugin_roots
from hookline.command_hooks.reading.files import (
    Warn,
    about,
    flat,
    load_json,
    load_toml,
    nested,
    seconds_field,
    text_field,
    texts_field,
    usual_shell,
)
from hookline.command_hooks.reading.gemini_extensions import extensions

_CODEX_KEYS = frozenset({"hooks", "description", "$schema"})
_CODEX_MANAGED = ("requirements.toml", "managed_config.toml")
"""Files that only the administrator has."""
_NO_EVENTS = ("state", "managed_dir", "windows_managed_dir")
_CURSOR_TIMEOUT = 60.0
_LOOPS = 5


def _source(dialect: str, level: Level, path: Path, project: Path, home: Path) -> Source:
    return Source(dialect, level, str(path), shown_path(path, project, home))


def _about(source: Source, warn: Warn) -> Warn:
    return about(source.label, warn)


# --- Gemini CLI ---------------------------------------------------------------------------------------


def read_gemini(project: Path, home: Path, warn: Warn, *, system: Path | None) -> list[Handler]:
    """System, user and project settings, and the user's extensions."""
    places = [] if system is None else [(Level.MANAGED, system / "gemini-cli" / "settings.json")]
    places += [
        (Level.USER, home / ".gemini" / "settings.json"),
        (Level.PROJECT, project / ".gemini" / "settings.json"),
    ]
    found: list[Handler] = []
    off: set[str] = set()
    for level, path in places:
        if level is Level.PROJECT and project == home:
            continue
        handlers, names = read_gemini_file(path, level, project, home, warn)
        off |= names if not level.is_repository else set()
        own = names if level.is_repository else set()
        found += [each for each in handlers if not _is_off(each, own)]
    for root in extensions(home, project, warn):
        path = root / "hooks" / "hooks.json"
        source = _source("gemini", Level.PLUGIN, path, project, home)
        source = msgspec.structs.replace(source, root=str(root))
        told = _about(source, warn)
        content = load_json(path, told) or {}
        found += nested(_grouped(content.get("hooks", {}), told), source, _gemini, told)
    return _by_name([each for each in found if not _is_off(each, off)])


def read_gemini_file(
    path: Path, level: Level, project: Path, home: Path, warn: Warn
) -> tuple[list[Handler], set[str]]:
    """One settings file: its hooks, and the names and commands that it switches off (`*` for all)."""
    source = _source("gemini", level, path, project, home)
    told = _about(source, warn)
    content = load_json(path, told) or {}
    hooks = content.get("hooks", {})
    off: set[str] = set()
    for config in (content.get("hooksConfig"), hooks):
        if isinstance(config, dict):
            disabled = config.get("disabled")
            off |= (
                {each for each in disabled if isinstance(each, str)}
                if isinstance(disabled, list)
                else set()
            )
            off |= {"*"} if config.get("enabled") is False else set()
    tools = content.get("tools")
    off |= {"*"} if isinstance(tools, dict) and tools.get("enableHooks") is False else set()
    if isinstance(hooks, dict):
        hooks = {
            key: value
            for key, value in hooks.items()
            if key not in ("enabled", "disabled", "notifications")
        }
    return list(nested(_grouped(hooks, told), source, _gemini, told)), off


def _grouped(hooks: Any, warn: Warn) -> Any:
    """Hooks in the form of `{event: [{matcher, hooks}]}`. Guards are installed in others too, and must not be lost."""
    if isinstance(hooks, list):
        warn("'hooks' is a list; its hooks are taken by the event that each names")
        by_event: dict[str, list[Any]] = {}
        for each in hooks:
            event = text_field(each, "event") if isinstance(each, dict) else ""
            by_event.setdefault(event or "?", []).append(each)
        hooks = by_event
    if not isinstance(hooks, dict):
        return hooks
    return {
        event: [_group(each) for each in groups] if isinstance(groups, list) else groups
        for event, groups in hooks.items()
    }


def _group(entry: Any) -> Any:
    """An entry that is a hook itself, as the group of it alone."""
    is_hook = isinstance(entry, dict) and "command" in entry and "hooks" not in entry
    return {**entry, "hooks": [entry]} if is_hook else entry


_SHORTEST = 0.1
"""No program can be started and answer in less: whoever wrote it meant seconds, as in Claude's settings."""


def _gemini(
    source: Source, event: str, group: Mapping[str, Any], hook: Mapping[str, Any], warn: Warn
) -> Handler | None:
    command = text_field(hook, "command")
    if hook.get("type", "command") != "command" or not command.strip():
        warn(f"{event}: only hooks with a command are run here")
        return None
    timeout = seconds_field(hook, 60.0, warn, unit=0.001)
    if "timeout" in hook and timeout < _SHORTEST:
        timeout *= 1000
        warn(f"{event}: timeout={timeout:g} would be milliseconds; it is taken for seconds")
    return Handler(
        source=source,
        event=event,
        command=command,
        matcher=text_field(group, "matcher"),
        timeout=timeout,
        is_sequential=group.get("sequential") is True,
        shell="bash",
        env=texts_field(hook, "env"),
        label=text_field(hook, "name"),
        definition={"event": event, "matcher": group.get("matcher"), "hook": dict(hook)},
    )


def _is_off(handler: Handler, off: set[str]) -> bool:
    return "*" in off or handler.label in off or handler.command in off


def _by_name(handlers: Iterable[Handler]) -> list[Handler]:
    kept: dict[object, Handler] = {}
    for handler in handlers:
        kept.setdefault((handler.event, handler.matcher, handler.label, handler.command), handler)
    return list(kept.values())


# --- Codex --------------------------------------------------------------------------------------------


def read_codex(project: Path, home: Path, warn: Warn, *, system: Path | None) -> list[Handler]:
    """`hooks.json` and `[hooks]` in `config.toml`, of each layer."""
    places = [] if system is None else [(Level.MANAGED, system / "codex")]
    places += [
        (Level.USER, own_directory(home, ".codex", "CODEX_HOME")),
        (Level.PROJECT, project / ".codex"),
    ]
    found: list[Handler] = []
    for level, directory in places:
        if level is Level.PROJECT and project == home:
            continue
        of_level = _CODEX_MANAGED if level is Level.MANAGED else ()
        names = ("hooks.json", "config.toml", *of_level)
        off = any(_is_switched_off(directory / name) for name in names[1:])
        found += [
            handler
            for name in names
            for handler in read_codex_file(directory / name, level, project, home, warn)
            if not off or handler.event == "notify"
        ]
        if off and not level.is_repository:  # then those that are trusted less are off as well
            return found
        if level is Level.MANAGED and _only_managed(directory / "requirements.toml"):
            return found
    return found


def _only_managed(path: Path) -> bool:
    """Whether the administrator leaves nobody else a hook."""
    return (load_toml(path, lambda _said: None) or {}).get("allow_managed_hooks_only") is True


def _is_switched_off(path: Path) -> bool:
    """Whether a configuration says that there are to be no hooks, by the feature's name or the one it had."""
    features = (load_toml(path, lambda _said: None) or {}).get("features")
    if not isinstance(features, dict):
        return False
    return features.get("hooks", features.get("codex_hooks")) is False


def read_codex_file(
    path: Path, level: Level, project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """One file; unknown keys at the top of a hooks.json refuse all of it, as they do in Codex."""
    source = _source("codex", level, path, project, home)
    told = _about(source, warn)
    if path.suffix == ".toml":
        content = load_toml(path, told) or {}
        hooks = _by_event(content.get("hooks", {}))
        hooks = (
            {key: value for key, value in hooks.items() if key not in _NO_EVENTS}
            if isinstance(hooks, dict)
            else hooks
        )
    else:
        content = load_json(path, told) or {}
        unknown = sorted(content.keys() - _CODEX_KEYS)
        if unknown:
            told(f"'{unknown[0]}' is not known, so none of it is read")
            return []
        hooks = content.get("hooks", {})
    found = list(nested(hooks, source, make_codex, told))
    notify = content.get("notify") if path.suffix == ".toml" else None
    if isinstance(notify, list) and notify and all(isinstance(word, str) for word in notify):
        definition = {"event": "notify", "argv": notify}
        told_only = Handler(
            source,
            "notify",
            argv=tuple(notify),
            in_argument=True,
            timeout=30.0,
            definition=definition,
        )
        found.append(told_only)
    return found


def _by_event(hooks: Any) -> Any:
    """Hooks by their events, where they are in one list: some installers write `[[hooks]]`, with an `event` in each."""
    if not isinstance(hooks, list) or not all(isinstance(each, dict) for each in hooks):
        return hooks
    found: dict[str, list[dict[str, Any]]] = {}
    for each in hooks:
        hook = {key: value for key, value in each.items() if key not in ("event", "matcher")}
        group = {"hooks": [{"type": "command", **hook}], "matcher": each.get("matcher", "")}
        found.setdefault(str(each.get("event", "")), []).append(group)
    return found


def make_codex(
    source: Source, event: str, group: Mapping[str, Any], hook: Mapping[str, Any], warn: Warn
) -> Handler | None:
    """The handler that an entry describes."""
    handler = make_claude(source, event, group, hook, warn)
    if handler is None:
        return None
    if handler.kind not in ("command", "mcp_tool"):
        warn(f"{event}: hooks of type {handler.kind!r} are not run by Codex, so it is left out")
        return None
    handler = msgspec.structs.replace(handler, shell=handler.shell or usual_shell())
    if event == "SessionEnd":
        given = seconds_field(hook, 1.0, warn)
        return msgspec.structs.replace(handler, timeout=min(given, 3.0))
    timeout = seconds_field(hook, seconds_field(hook, 600.0, warn, key="timeoutSec"), warn)
    return msgspec.structs.replace(handler, timeout=timeout)


# --- Cursor -------------------------------------------------------------------------------------------


def read_cursor(project: Path, home: Path, warn: Warn, *, system: Path | None) -> list[Handler]:
    """`hooks.json` of the machine, the user and the project."""
    places = [] if system is None else [(Level.MANAGED, system / "cursor" / "hooks.json")]
    places += [
        (Level.USER, home / ".cursor" / "hooks.json"),
        (Level.PROJECT, project / ".cursor" / "hooks.json"),
    ]
    found = [
        handler
        for level, path in places
        if not (level is Level.PROJECT and project == home)
        for handler in read_cursor_file(path, level, project, home, warn)
    ]
    for root in plugin_roots(home):
        found += _cursor_plugin(root, project, home, warn)
    return found


def _cursor_plugin(root: Path, project: Path, home: Path, warn: Warn) -> list[Handler]:
    """The hooks of a plugin that the user has put there; its manifest may name another file, or have them itself."""
    told = about(shown_path(root, project, home), warn)
    manifest = load_json(root / ".cursor-plugin" / "plugin.json", told) or {}
    named = manifest.get("hooks", "hooks/hooks.json")
    path = root / named if isinstance(named, str) else root / ".cursor-plugin" / "plugin.json"
    if not path.resolve().is_relative_to(root.resolve()):
        told(f"its hooks are to be outside of it, at '{named}', so they are not read")
        return []
    source = _source("cursor", Level.PLUGIN, path, project, home)
    source = msgspec.structs.replace(source, root=str(root))
    if isinstance(named, str):
        return _cursor_hooks(load_json(path, told) or {}, source, told)
    return _cursor_hooks(named if "hooks" in named else {"hooks": named}, source, told)


def read_cursor_file(
    path: Path, level: Level, project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """One file."""
    source = _source("cursor", level, path, project, home)
    told = _about(source, warn)
    return _cursor_hooks(load_json(path, told) or {}, source, told)


def _cursor_hooks(content: Mapping[str, Any], source: Source, told: Warn) -> list[Handler]:
    version = content.get("version", 1)
    if version not in (1, "1"):
        told(f"version {version!r} is not known, so none of it is read")
        return []
    return list(flat(content.get("hooks", {}), source, _cursor, told))


def _cursor(
    source: Source, event: str, _group: Mapping[str, Any], hook: Mapping[str, Any], warn: Warn
) -> Handler | None:
    command, prompt = text_field(hook, "command"), text_field(hook, "prompt")
    kind = hook.get("type", "command")
    if kind not in ("command", "prompt") or not (prompt if kind == "prompt" else command).strip():
        warn(f"{event}: only hooks with a command or a prompt are run here")
        return None
    closed = hook.get("failClosed", event in CLOSED) is True
    limit = hook.get("loop_limit", _LOOPS)
    # A project's commands run in the project, a user's where the file is, a plugin's where that is.
    is_users = source.level in (Level.USER, Level.MANAGED)
    return Handler(
        source=source,
        event=event,
        kind=kind,
        command=command if kind == "command" else "",
        prompt=prompt if kind == "prompt" else "",
        model=text_field(hook, "model").strip() if kind == "prompt" else "",
        matcher=_cursor_matcher(event, hook, warn),
        timeout=seconds_field(hook, _CURSOR_TIMEOUT, warn),
        on_failure="closed" if closed else "open",
        shell=usual_shell(),
        cwd=source.root or _cursor_directory(source, command, is_users=is_users),
        loop_limit=limit if isinstance(limit, int) and not isinstance(limit, bool) else None,
        definition={"event": event, "hook": dict(hook)},
    )


def _cursor_matcher(event: str, hook: Mapping[str, Any], warn: Warn) -> str:
    """Which calls a hook is for: an expression, also where it is said of which field it is one."""
    given = hook.get("matcher")
    if not isinstance(given, dict):
        return text_field(hook, "matcher")
    names = ("tool_name", "command", "subagent_type")
    found = next((text_field(given, name) for name in names if text_field(given, name)), "")
    if not found:
        warn(f"{event}: its matcher says nothing that is known here, so it is for everything")
    return found


def _cursor_directory(source: Source, command: str, *, is_users: bool) -> str:
    """Where a command runs: a user's beside its file; a project's in the project, unless only that is where it is."""
    beside = Path(source.path).parent
    if is_users:
        return str(beside)
    for word in command.replace('"', " ").replace("'", " ").split():
        if "/" in word and not Path(word).is_absolute() and "$" not in word:
            is_here, is_beside = (
                os.path.isfile(beside.parent / word),
                os.path.isfile(beside / word),
            )
            return str(beside) if is_beside and not is_here else ""
    return ""
