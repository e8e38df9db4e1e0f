"""The configuration files of Copilot: directories of hook files, settings that have hooks in them, and plugins."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.definition import Handler, Level, Source, own_directory, shown_path
from hookline.command_hooks.dialects.vscode_tools import looks_for_failures
from hookline.command_hooks.reading.claude_entries import make as make_claude
from hookline.command_hooks.reading.files import (
    Dropped,
    Make,
    Warn,
    about,
    flat,
    load_json,
    load_text,
    nested,
    seconds_field,
    text_field,
    texts_field,
    usual_shell,
)
from hookline.command_hooks.reading.knowing import as_it_reads

_POLICIES = Path("github-copilot") / "policy.d"
_TIMEOUT = 30.0
_FAILED = "postToolUseFailure"
_LOCATIONS = "chat.hookFilesLocations"
_USUAL = ".github/hooks"
_COMMANDS = frozenset({"bash", "powershell", "command", "script"})
"""What a hook alone has: a file that has it at its top is one that was written for no agent."""
_OF_CLAUDE = (".claude/settings.json", ".claude/settings.local.json")


def read_copilot(project: Path, home: Path, warn: Warn, *, system: Path | None) -> list[Handler]:
    """The administrator's hooks, then the user's, the repository's and those of plugins."""
    own, github = own_directory(home, ".copilot", "COPILOT_HOME"), project / ".github"
    found: list[Handler] = []
    if system is not None:
        paths = [path for path in _in(system / _POLICIES) if _is_the_administrators(path, warn)]
        found += _read(paths, Level.MANAGED, project, home, warn)
    users = [own / "settings.json", own / "config.json", *_in(own / "hooks")]
    if _switches_off(own / "settings.json", own / "config.json"):
        return found
    found += _read(users, Level.USER, project, home, warn)
    settings, local = (github / "copilot" / f"settings{part}.json" for part in ("", ".local"))
    if not _switches_off(settings, local):  # a repository speaks for its own hooks
        named = _places(project, warn)
        found += _read([*named, settings], Level.PROJECT, project, home, warn)
        found += _read([local], Level.LOCAL, project, home, warn)
    for root in sorted((own / "installed-plugins").glob("*/*/")):
        data = own / "plugin-data" / root.parent.name / root.name
        found += _plugin(root, data, project, home, warn)
    return found


def _places(project: Path, warn: Warn) -> list[Path]:
    """The hook files of a repository: those of the usual directory, and where its settings for VS Code say."""
    path, told = project / ".vscode" / "settings.json", about(".vscode/settings.json", warn)
    is_said = _LOCATIONS in (load_text(path, lambda _said: None) or "")
    given = (load_json(path, told) or {}).get(_LOCATIONS) if is_said else None
    said = {_USUAL: True, **(given if isinstance(given, dict) else {})}
    found: dict[Path, None] = {}
    for name, is_on in said.items():
        if is_on is not True or name.startswith("~") or name in _OF_CLAUDE:
            continue  # a user's files, and Claude's, are read anyway
        path = project / name
        if not path.resolve().is_relative_to(project.resolve()):
            told(f"{_LOCATIONS}: '{name}' is outside of the project, so it is not read")
            continue
        found |= dict.fromkeys(_in(path) if path.is_dir() else [path])
    return list(found)


def _in(directory: Path) -> list[Path]:
    """The hook files of a directory, also where each has one of its own."""
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


def _read(
    paths: list[Path], level: Level, project: Path, home: Path, warn: Warn
) -> Iterator[Handler]:
    for path in paths:
        yield from read_copilot_file(path, level, project, home, warn)


def read_copilot_file(
    path: Path, level: Level, project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """One file. Events in Pascal case are Claude's, and are told in the form of VS Code."""
    source = Source("copilot", level, str(path), shown_path(path, project, home))
    told = about(source.label, warn)
    content = load_json(path, told) or {}
    if "hooks" not in content and not _COMMANDS.isdisjoint(content):
        told(
            Dropped(
                "it has no 'hooks' object with the names of events in it, so nothing of it runs"
            )
        )
    return _handlers(content, source, project, told)


def _plugin(root: Path, data: Path, project: Path, home: Path, warn: Warn) -> list[Handler]:
    """The hooks of a plugin that the user has installed; its manifest may name another file, or have them itself."""
    told = about(shown_path(root, project, home), warn)
    places = ("plugin.json", ".github/plugin/plugin.json", ".claude-plugin/plugin.json")
    named = next(
        (m["hooks"] for p in places if (m := load_json(root / p, told)) and "hooks" in m), None
    )
    paths = (
        [root / named]
        if isinstance(named, str)
        else [root / "hooks.json", root / "hooks" / "hooks.json"]
    )
    path = next((each for each in paths if each.is_file()), paths[0])
    if not path.resolve().is_relative_to(root.resolve()):
        told(f"its hooks are to be outside of it, at '{named}', so they are not read")
        return []
    label = shown_path(path, project, home)
    source = Source("copilot", Level.PLUGIN, str(path), label, str(root), str(data))
    content = named if isinstance(named, dict) else load_json(path, told) or {}
    return _handlers(content if "hooks" in content else {"hooks": content}, source, project, told)


def _handlers(
    content: Mapping[str, Any], source: Source, project: Path, warn: Warn
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
        as_it_reads(handler, project, is_vscodes=is_vscodes and not _is_grouped(entries))
        for event, entries in hooks.items()
        for handler in _event(event, entries, as_vscode if event[:1].isupper() else source, warn)
    ]
    return found if _FAILED in hooks else [*found, *_for_failures(found)]


def _for_failures(handlers: list[Handler]) -> Iterator[Handler]:
    """Hooks that were written when a tool that failed was no event of its own, for that event too."""
    for handler in handlers:
        if handler.event == "postToolUse" and looks_for_failures(handler):
            yield msgspec.structs.replace(handler, event=_FAILED)


def read_vscode_entries(
    hooks: Mapping[str, Any], source: Source, project: Path, warn: Warn
) -> Iterator[Handler]:
    """The hooks of pages that have them as VS Code's files do: one after the other, without groups."""
    there = msgspec.structs.replace(source, dialect="vscode")
    for handler in flat(dict(hooks), there, _copilot, warn):
        yield as_it_reads(handler, project, is_vscodes=True)


def _event(event: str, entries: Any, source: Source, warn: Warn) -> Iterator[Handler]:
    """The hooks of an event: one after the other, or in groups as in Claude's files."""
    is_grouped = _is_grouped(entries)
    make: Make = make_claude if is_grouped and source.dialect == "vscode" else _copilot
    yield from (nested if is_grouped else flat)({event: entries}, source, make, warn)


def _is_grouped(entries: Any) -> bool:
    """Whether hooks are in groups, as Claude has them."""
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and "hooks" in entry for entry in entries
    )


def _copilot(
    source: Source, event: str, group: Mapping[str, Any], hook: Mapping[str, Any], warn: Warn
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
    """A program and its arguments, which no shell reads; empty if it is a line for one."""
    program, args = hook.get("exec"), hook.get("args")
    words = program if isinstance(program, list) else [program] if program else []
    return tuple(map(str, [*words, *(args if words and isinstance(args, list) else ())]))


def _line(hook: Mapping[str, Any]) -> str:
    ours = "osx" if sys.platform == "darwin" else "linux"
    return next((line for key in ("bash", ours, "command") if (line := text_field(hook, key))), "")
