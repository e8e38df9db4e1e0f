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
    HookEntry,
    HookFile,
    Plugin,
    about,
    hook_file,
    load_file,
    load_text,
    quiet,
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
    Level,
    Warn,
    first_text,
    object_of,
    own_directory,
    text_of,
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
    is_said = _LOCATIONS in (load_text(path, quiet) or "")
    given = object_of((load_file(path, warn) or {}).get(_LOCATIONS)) if is_said else {}
    said = {_USUAL: True, **given}
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
    contents = (load_file(path, quiet) for path in paths)
    return any(content.get("disableAllHooks") is True for content in contents if content)


def _read(paths: list[Path], level: Level, search: HookSearch) -> Iterator[Handler]:
    for path in paths:
        yield from read_file(path, level, search)


def read_file(path: Path, level: Level, search: HookSearch) -> list[Handler]:
    """One file. Events in Pascal case are in the dialect of VS Code."""
    file = hook_file(search.source("copilot", level, path), search.warn)
    if "hooks" not in file.content and not _COMMANDS.isdisjoint(file.content):
        said = "it has no 'hooks' object with the names of events in it, so nothing of it runs"
        file.warn(Dropped(said))
    return _handlers(file, search.project)


def _plugin(root: Path, data: Path, search: HookSearch) -> Iterator[Handler]:
    """The hooks of an installed plugin."""
    plugin = Plugin(root, search, _MANIFESTS, ("hooks.json", "hooks/hooks.json"))
    for path, content in plugin.files():
        source = search.source("copilot", Level.PLUGIN, path, root=str(root), data=str(data))
        bare = content if "hooks" in content else {"hooks": content}
        yield from _handlers(hook_file(source, search.warn, bare), search.project)


def _handlers(file: HookFile, project: Path) -> list[Handler]:
    hooks, version = file.content.get("hooks", {}), file.content.get("version", 1)
    if file.content.get("disableAllHooks") is True:
        return []
    if hooks and version != 1:
        file.warn(Dropped(f"version {version!r} is not known, so none of it is read"))
        return []
    if not isinstance(hooks, dict):
        file.warn("'hooks' is not an object, so it has none")
        return []
    as_vscode = _as_vscode(file)
    is_vscodes = "version" not in file.content  # Copilot asks for one
    found = [
        with_known_fields(handler, project, is_vscodes=is_vscodes and not _is_grouped(entries))
        for event, entries in hooks.items()
        for handler in _event(event, entries, as_vscode if event[:1].isupper() else file)
    ]
    if _FAILED not in hooks:  # hooks that were written before failures had an event of their own
        before = [
            each for each in found if each.event == "postToolUse" and looks_for_failures(each)
        ]
        found += [msgspec.structs.replace(each, event=_FAILED) for each in before]
    return found


def _as_vscode(file: HookFile) -> HookFile:
    return file._replace(source=msgspec.structs.replace(file.source, dialect="vscode"))


def read_vscode_entries(hooks: dict[str, Any], file: HookFile, project: Path) -> Iterator[Handler]:
    """The hooks of a page in VS Code's form, without groups."""
    for handler in _as_vscode(file).flat(hooks, _make_hook):
        yield with_known_fields(handler, project, is_vscodes=True)


def _event(event: str, entries: Any, file: HookFile) -> Iterator[Handler]:
    """The hooks of an event, with or without groups."""
    if not _is_grouped(entries):
        return file.flat({event: entries}, _make_hook)
    make = make_claude_hook if file.source.dialect == "vscode" else _make_hook
    return file.nested({event: entries}, make)


def _is_grouped(entries: Any) -> bool:
    """Whether hooks are in groups, as in Claude's files."""
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and "hooks" in entry for entry in entries
    )


def _make_hook(entry: HookEntry) -> Handler | None:
    hook, kind = entry.fields, entry.fields.get("type", "command")
    if kind == "prompt":
        entry.warn("a prompt is for sessions that somebody opens there, so it is left out")
        return None
    what: dict[str, Any]
    if kind == "http" and entry.text("url"):
        what = entry.address()
    elif kind == "command" and _words(hook):
        what = {"argv": _words(hook)}
    elif kind == "command" and _line(entry).strip():
        what = {"command": _line(entry), "shell": usual_shell()}
    else:
        entry.warn(Dropped("a hook has no command for this machine, so it is left out"))
        return None
    return entry.handler(
        **what,
        matcher=entry.text("matcher") or text_of(entry.group.get("matcher")),
        timeout=entry.seconds(_TIMEOUT, "timeoutSec", "timeout"),
        env=texts_field(hook, "env"),
        cwd=entry.text("cwd"),
        label=entry.text("comment")[:60],
    )


def _words(hook: Mapping[str, Any]) -> tuple[str, ...]:
    """A program and its arguments, without a shell; empty if there is none."""
    program, args = hook.get("exec"), hook.get("args")
    words = program if isinstance(program, list) else [program] if program else []
    return tuple(map(str, [*words, *(args if words and isinstance(args, list) else ())]))


def _line(entry: HookEntry) -> str:
    ours = "osx" if sys.platform == "darwin" else "linux"
    return first_text(entry.fields, "bash", ours, "command")
