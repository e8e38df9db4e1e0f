"""The configuration files of Copilot and VS Code: directories of hook files, settings with hooks, and plugins."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.dialects.claude.settings import make_hook as make_claude_hook
from hookline.command_hooks.dialects.config_files import (
    Dropped,
    Make,
    about,
    about_plugin,
    flat,
    inside,
    load_json,
    load_text,
    nested,
    seconds_field,
    text_field,
    texts_field,
    usual_shell,
)
from hookline.command_hooks.dialects.copilot.known_fields import (
    looks_for_failures,
    with_known_fields,
)
from hookline.command_hooks.handler import (
    Handler,
    HookSearch,
    HookSource,
    Level,
    Warn,
    own_directory,
)

_POLICIES = Path("github-copilot") / "policy.d"
_TIMEOUT = 30.0
_FAILED = "postToolUseFailure"
_LOCATIONS = "chat.hookFilesLocations"
_USUAL = ".github/hooks"
_COMMANDS = frozenset({"bash", "powershell", "command", "script"})
"""Keys of a hook: a file that has them at the top has no events."""
_MANIFESTS = ("plugin.json", ".github/plugin/plugin.json", ".claude-plugin/plugin.json")
_OF_CLAUDE = (".claude/settings.json", ".claude/settings.local.json")


def find_hooks(search: HookSearch) -> list[Handler]:
    """The administrator's hooks, then the user's, the repository's and those of plugins."""
    own = own_directory(search.home, ".copilot", "COPILOT_HOME")
    found: list[Handler] = []
    if search.system is not None:
        policies = _in(search.system / _POLICIES)
        paths = [path for path in policies if _is_the_administrators(path, search.warn)]
        found += _read(paths, Level.MANAGED, search)
    users = [own / "settings.json", own / "config.json"]
    if _switches_off(*users):
        return found
    found += _read([*users, *_in(own / "hooks")], Level.USER, search)
    folder = search.project / ".github" / "copilot"
    settings, local = folder / "settings.json", folder / "settings.local.json"
    if not _switches_off(settings, local):
        found += _read([*_in_project(search), settings], Level.PROJECT, search)
        found += _read([local], Level.LOCAL, search)
    for root in sorted((own / "installed-plugins").glob("*/*/")):
        found += _plugin(root, own / "plugin-data" / root.parent.name / root.name, search)
    return found


def _in_project(search: HookSearch) -> list[Path]:
    """The hook files of a repository: in the usual directory, and where its settings for VS Code say."""
    project, path = search.project, search.project / ".vscode" / "settings.json"
    warn = about(".vscode/settings.json", search.warn)
    is_said = _LOCATIONS in (load_text(path, lambda _said: None) or "")
    given = (load_json(path, warn) or {}).get(_LOCATIONS) if is_said else None
    said = {_USUAL: True, **(given if isinstance(given, dict) else {})}
    found: dict[Path, None] = {}
    for name, is_on in said.items():
        if is_on is not True or name.startswith("~") or name in _OF_CLAUDE:
            continue  # the user's files, and Claude's, are read anyway
        path = project / name
        if not path.resolve().is_relative_to(project.resolve()):
            warn(f"{_LOCATIONS}: '{name}' is outside of the project, so it is not read")
            continue
        found |= dict.fromkeys(_in(path) if path.is_dir() else [path])
    return list(found)


def _in(directory: Path) -> list[Path]:
    """The hook files of a directory, and those in directories of their own."""
    return sorted([*directory.glob("*.json"), *directory.glob("*/hooks.json")])


def _is_the_administrators(path: Path, warn: Warn) -> bool:
    try:
        facts = path.stat()
    except OSError as error:
        warn(Dropped(f"{path}: it cannot be read ({error})"))
        return False
    if facts.st_uid == 0 and not facts.st_mode & 0o022:
        return True
    warn(Dropped(f"{path}: others than the administrator can write it, so it is not read"))
    return False


def _switches_off(*paths: Path) -> bool:
    contents = (load_json(path, lambda _said: None) for path in paths)
    return any(content.get("disableAllHooks") is True for content in contents if content)


def _read(paths: list[Path], level: Level, search: HookSearch) -> Iterator[Handler]:
    for path in paths:
        yield from read_file(path, level, search)


def read_file(path: Path, level: Level, search: HookSearch) -> list[Handler]:
    """One file. Events in Pascal case are in the dialect of VS Code."""
    source = search.source("copilot", level, path)
    warn = about(source.label, search.warn)
    content = load_json(path, warn) or {}
    if "hooks" not in content and not _COMMANDS.isdisjoint(content):
        said = "it has no 'hooks' object with the names of events in it, so nothing of it runs"
        warn(Dropped(said))
    return _handlers(content, source, search.project, warn)


def _plugin(root: Path, data: Path, search: HookSearch) -> list[Handler]:
    """The hooks of an installed plugin; its manifest may name another file, or have them itself."""
    warn = about_plugin(root, search)
    manifests = (load_json(root / each, warn) or {} for each in _MANIFESTS)
    named = next((each["hooks"] for each in manifests if "hooks" in each), None)
    names = [named] if isinstance(named, str) else ["hooks.json", "hooks/hooks.json"]
    path = inside(root, next((n for n in names if (root / n).is_file()), names[0]), warn)
    if path is None:
        return []
    source = search.source("copilot", Level.PLUGIN, path, root=str(root), data=str(data))
    content = named if isinstance(named, dict) else load_json(path, warn) or {}
    bare = content if "hooks" in content else {"hooks": content}
    return _handlers(bare, source, search.project, warn)


def _handlers(
    content: Mapping[str, Any], source: HookSource, project: Path, warn: Warn
) -> list[Handler]:
    hooks, version = content.get("hooks", {}), content.get("version", 1)
    if content.get("disableAllHooks") is True:
        return []
    if hooks and version != 1:
        warn(Dropped(f"version {version!r} is not known, so none of it is read"))
        return []
    if not isinstance(hooks, dict):
        warn("'hooks' is not an object, so it has none")
        return []
    as_vscode = msgspec.structs.replace(source, dialect="vscode")
    is_vscodes = "version" not in content  # Copilot asks for one
    found = [
        with_known_fields(handler, project, is_vscodes=is_vscodes and not _is_grouped(entries))
        for event, entries in hooks.items()
        for handler in _event(event, entries, as_vscode if event[:1].isupper() else source, warn)
    ]
    return found if _FAILED in hooks else [*found, *_for_failures(found)]


def _for_failures(handlers: list[Handler]) -> Iterator[Handler]:
    """Hooks written before failures had an event of their own, for that event, too."""
    for handler in handlers:
        if handler.event == "postToolUse" and looks_for_failures(handler):
            yield msgspec.structs.replace(handler, event=_FAILED)


def read_vscode_entries(
    hooks: Mapping[str, Any], source: HookSource, project: Path, warn: Warn
) -> Iterator[Handler]:
    """The hooks of a page in VS Code's form, without groups."""
    there = msgspec.structs.replace(source, dialect="vscode")
    for handler in flat(dict(hooks), there, _make_hook, warn):
        yield with_known_fields(handler, project, is_vscodes=True)


def _event(event: str, entries: Any, source: HookSource, warn: Warn) -> Iterator[Handler]:
    """The hooks of an event, with or without groups."""
    is_grouped = _is_grouped(entries)
    make: Make = make_claude_hook if is_grouped and source.dialect == "vscode" else _make_hook
    yield from (nested if is_grouped else flat)({event: entries}, source, make, warn)


def _is_grouped(entries: Any) -> bool:
    """Whether hooks are in groups, as in Claude's files."""
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and "hooks" in entry for entry in entries
    )


def _make_hook(
    source: HookSource, event: str, group: Mapping[str, Any], hook: Mapping[str, Any], warn: Warn
) -> Handler | None:
    timeout = seconds_field(hook, seconds_field(hook, _TIMEOUT, warn), warn, key="timeoutSec")
    handler = Handler(
        source=source,
        event=event,
        matcher=text_field(hook, "matcher") or text_field(group, "matcher"),
        timeout=timeout,
        env=texts_field(hook, "env"),
        cwd=text_field(hook, "cwd"),
        label=text_field(hook, "comment")[:60],
        definition={"event": event, "matcher": group.get("matcher"), "hook": dict(hook)},
    )
    kind = hook.get("type", "command")
    if kind == "http" and text_field(hook, "url"):
        return _called(handler, hook)
    if kind == "prompt":
        warn(f"{event}: a prompt is for sessions that somebody opens there, so it is left out")
        return None
    argv = _words(hook)
    if kind == "command" and argv:
        return msgspec.structs.replace(handler, argv=argv)
    command = _line(hook)
    if kind != "command" or not command.strip():
        warn(Dropped(f"{event}: a hook has no command for this machine, so it is left out"))
        return None
    return msgspec.structs.replace(handler, command=command, shell=usual_shell())


def _called(handler: Handler, hook: Mapping[str, Any]) -> Handler:
    allowed = hook.get("allowedEnvVars")
    return msgspec.structs.replace(
        handler,
        kind="http",
        url=text_field(hook, "url"),
        headers=texts_field(hook, "headers"),
        allowed_env=tuple(map(str, allowed)) if isinstance(allowed, list) else (),
    )


def _words(hook: Mapping[str, Any]) -> tuple[str, ...]:
    """A program and its arguments, without a shell; empty if there is none."""
    program, args = hook.get("exec"), hook.get("args")
    words = program if isinstance(program, list) else [program] if program else []
    return tuple(map(str, [*words, *(args if words and isinstance(args, list) else ())]))


def _line(hook: Mapping[str, Any]) -> str:
    ours = "osx" if sys.platform == "darwin" else "linux"
    return next((line for key in ("bash", ours, "command") if (line := text_field(hook, key))), "")
