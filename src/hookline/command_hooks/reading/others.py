"""The configuration files of Gemini CLI, Codex, Cursor and Copilot."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.definition import Handler, Level, Source, own_directory, shown_path
from hookline.command_hooks.dialects.cursor import CLOSED
from hookline.command_hooks.reading.claude import make as make_claude
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
)

_CODEX_KEYS = frozenset({"hooks", "description", "$schema"})
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
    for path in sorted((home / ".gemini" / "extensions").glob("*/hooks/hooks.json")):
        root = path.parent.parent
        source = _source("gemini", Level.PLUGIN, path, project, home)
        source = msgspec.structs.replace(source, root=str(root))
        told = _about(source, warn)
        content = load_json(path, told) or {}
        found += nested(content.get("hooks", {}), source, _gemini, told)
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
    if isinstance(hooks, dict):
        hooks = {
            key: value
            for key, value in hooks.items()
            if key not in ("enabled", "disabled", "notifications")
        }
    return list(nested(hooks, source, _gemini, told)), off


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
        for name in ("hooks.json", "config.toml"):
            found += read_codex_file(directory / name, level, project, home, warn)
    return found


def read_codex_file(
    path: Path, level: Level, project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """One file; unknown keys at the top of a hooks.json refuse all of it, as they do in Codex."""
    source = _source("codex", level, path, project, home)
    told = _about(source, warn)
    if path.suffix == ".toml":
        content = load_toml(path, told) or {}
        hooks = content.get("hooks", {})
        hooks = (
            {key: value for key, value in hooks.items() if key != "state"}
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
    found = list(nested(hooks, source, _codex, told))
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


def _codex(
    source: Source, event: str, group: Mapping[str, Any], hook: Mapping[str, Any], warn: Warn
) -> Handler | None:
    handler = make_claude(source, event, group, hook, warn)
    if handler is None:
        return None
    if handler.kind not in ("command", "mcp_tool"):
        warn(f"{event}: hooks of type {handler.kind!r} are not run by Codex, so it is left out")
        return None
    if event == "SessionEnd":
        given = seconds_field(hook, 1.0, warn)
        return msgspec.structs.replace(handler, timeout=min(given, 3.0))
    timeout = seconds_field(hook, 600.0, warn)
    return msgspec.structs.replace(handler, timeout=timeout)


# --- Cursor -------------------------------------------------------------------------------------------


def read_cursor(project: Path, home: Path, warn: Warn, *, system: Path | None) -> list[Handler]:
    """`hooks.json` of the machine, the user and the project."""
    places = [] if system is None else [(Level.MANAGED, system / "cursor" / "hooks.json")]
    places += [
        (Level.USER, home / ".cursor" / "hooks.json"),
        (Level.PROJECT, project / ".cursor" / "hooks.json"),
    ]
    return [
        handler
        for level, path in places
        if not (level is Level.PROJECT and project == home)
        for handler in read_cursor_file(path, level, project, home, warn)
    ]


def read_cursor_file(
    path: Path, level: Level, project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """One file."""
    source = _source("cursor", level, path, project, home)
    told = _about(source, warn)
    content = load_json(path, told) or {}
    version = content.get("version", 1)
    if version != 1:
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
    # A project's commands run in the project, a user's where the file is.
    is_users = source.level in (Level.USER, Level.MANAGED)
    return Handler(
        source=source,
        event=event,
        kind=kind,
        command=command if kind == "command" else "",
        prompt=prompt if kind == "prompt" else "",
        matcher=text_field(hook, "matcher"),
        timeout=seconds_field(hook, _CURSOR_TIMEOUT, warn),
        on_failure="closed" if closed else "open",
        cwd=_cursor_directory(source, command, is_users=is_users),
        loop_limit=limit if isinstance(limit, int) and not isinstance(limit, bool) else None,
        definition={"event": event, "hook": dict(hook)},
    )


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


# --- Copilot ------------------------------------------------------------------------------------------


def read_copilot(project: Path, home: Path, warn: Warn, *, system: Path | None) -> list[Handler]:
    """All files in the directories of the machine, the user and the repository, also where each has one of its own."""
    places = [] if system is None else [(Level.MANAGED, system / "copilot" / "hooks")]
    places += [
        (Level.USER, home / ".copilot" / "hooks"),
        (Level.PROJECT, project / ".github" / "hooks"),
    ]
    return [
        handler
        for level, directory in places
        for path in sorted([*directory.glob("*.json"), *directory.glob("*/hooks.json")])
        for handler in read_copilot_file(path, level, project, home, warn)
    ]


def read_copilot_file(
    path: Path, level: Level, project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """One file. Events in Pascal case are Claude's, and their hooks speak as Claude's do."""
    source = _source("copilot", level, path, project, home)
    told = _about(source, warn)
    content = load_json(path, told) or {}
    if content.get("disableAllHooks") is True:
        return []
    hooks = content.get("hooks", {})
    if not isinstance(hooks, dict):
        told("'hooks' is not an object, so it has none")
        return []
    pascal = {event: entries for event, entries in hooks.items() if event[:1].isupper()}
    camel = {event: entries for event, entries in hooks.items() if event not in pascal}
    as_claude = msgspec.structs.replace(source, dialect="claude")
    return [
        *flat(camel, source, _copilot, told),
        *_pascal(pascal, as_claude, told),
    ]


def _pascal(hooks: Mapping[str, Any], source: Source, warn: Warn) -> Iterator[Handler]:
    for event, entries in hooks.items():
        is_nested = isinstance(entries, list) and any(
            isinstance(e, dict) and "hooks" in e for e in entries
        )
        read = nested if is_nested else flat
        for handler in read({event: entries}, source, make_claude if is_nested else _copilot, warn):
            yield (
                msgspec.structs.replace(handler, on_failure="closed")
                if event == "PreToolUse"
                else handler
            )


def _copilot(
    source: Source, event: str, _group: Mapping[str, Any], hook: Mapping[str, Any], warn: Warn
) -> Handler | None:
    timeout = seconds_field(hook, seconds_field(hook, 30.0, warn), warn, key="timeoutSec")
    handler = Handler(
        source=source,
        event=event,
        matcher=text_field(hook, "matcher"),
        timeout=timeout,
        env=texts_field(hook, "env"),
        cwd=text_field(hook, "cwd"),
        label=text_field(hook, "comment")[:60],
        definition={"event": event, "hook": dict(hook)},
    )
    kind = hook.get("type", "command")
    if kind == "http" and text_field(hook, "url"):
        return msgspec.structs.replace(
            handler, kind="http", url=text_field(hook, "url"), headers=texts_field(hook, "headers")
        )
    ours = "osx" if sys.platform == "darwin" else "linux"
    command = text_field(hook, "bash") or text_field(hook, ours) or text_field(hook, "command")
    exec_form = hook.get("exec")
    if kind == "command" and isinstance(exec_form, list) and exec_form:
        return msgspec.structs.replace(handler, argv=tuple(map(str, exec_form)))
    if kind != "command" or not command.strip():
        warn(f"{event}: a hook has no command for this machine, so it is left out")
        return None
    return msgspec.structs.replace(handler, command=command, shell="bash")
