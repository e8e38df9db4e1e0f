"""Claude Code's settings files at all their levels, and the hooks of its plugins."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hookline.command_hooks.dialects.config_files import (
    HookEntry,
    Plugin,
    about,
    hook_file,
    load_file,
    unique,
)
from hookline.command_hooks.handler import (
    DroppedHook,
    Handler,
    HookSearch,
    HookSource,
    JsonObject,
    Level,
    Warn,
    object_of,
    own_directory,
    text_of,
)
from hookline.command_hooks.hook_kinds import tool_of
from hookline.wildcards import matches

_ON_A_MAC = Path("/Library/Application Support/ClaudeCode")
_RANK = {Level.MANAGED: 0, Level.USER: 1, Level.PLUGIN: 1, Level.LOCAL: 2, Level.PROJECT: 2}
"""A file can switch off the hooks of its own rank and below."""
_MANIFEST = ".claude-plugin/plugin.json"
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_OPTION = re.compile(r"\$\{user_config\.(\w+)\}")
_OPTION_VARIABLE = "CLAUDE_PLUGIN_OPTION_"
_TIMEOUTS = {"UserPromptSubmit": 30.0, "MessageDisplay": 10.0, "SessionEnd": 1.5}
_MODEL_TIMEOUTS = {"prompt": 30.0, "agent": 60.0}
"""Kinds of hooks that a model answers, with their seconds."""
_MODEL_EVENTS = frozenset(
    {"PermissionRequest", "PostToolBatch", "PostToolUse", "PostToolUseFailure", "PreToolUse", "Stop", "SubagentStop",
     "UserPromptSubmit"}
)  # fmt: skip
_LONGEST_AT_END = 60.0
_ASYNC_TIMEOUT = 86400.0
"""Seconds of an async hook: it ends with the run at the latest."""
_TOOL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest")


class ClaudeSettings(NamedTuple):
    """One settings file, plugin or page, read."""

    level: Level
    handlers: tuple[Handler, ...]
    content: JsonObject


def find_hooks(search: HookSearch) -> list[Handler]:
    """The hooks of all levels that are in force: the administrator's first, those of pages last."""
    found = [_settings_file(path, level, search) for level, path in _places(search)]
    installed = dict.fromkeys(_installed_plugins(found, search), Level.PLUGIN)
    said = [each.content for each in found if not each.level.is_repository]
    for root, level in {**installed, **_plugins(search)}.items():
        found.append(_plugin(root, level, search, said))
    found += _pages(search)
    # The same hook in several settings files runs once; a plugin's or a page's copy runs, too.
    return unique(
        _in_force(_with_env(found), search.warn), lambda each: (*each.identity, each.source.root)
    )


def find_named_hooks(search: HookSearch) -> list[Handler]:
    """The hooks of settings files, plugins and pages that are named, where no others are read."""
    found = [_settings_file(path, Level.USER, search) for path in search.settings]
    found += [_plugin(root, level, search) for root, level in _plugins(search).items()]
    return [handler for settings in (*found, *_pages(search)) for handler in settings.handlers]


def read_hooks(path: Path, level: Level, search: HookSearch) -> tuple[Handler, ...]:
    """The hooks of one settings file."""
    return _with_env([_settings_file(path, level, search)])[0].handlers


def _places(search: HookSearch) -> list[tuple[Level, Path]]:
    found: list[tuple[Level, Path]] = []
    if search.system is not None:
        is_mac = sys.platform == "darwin"
        directory = _ON_A_MAC if is_mac else search.system / "claude-code"
        more = sorted((directory / "managed-settings.d").glob("*.json"))
        found += [(Level.MANAGED, each) for each in (directory / "managed-settings.json", *more)]
    found.append((Level.USER, _own_directory(search.home) / "settings.json"))
    found += [(Level.USER, path) for path in search.settings]
    if search.project != search.home:  # else these would be the user's files again
        folder = search.project / ".claude"
        found.append((Level.PROJECT, folder / "settings.json"))
        found.append((Level.LOCAL, folder / "settings.local.json"))
    return found


def _own_directory(home: Path) -> Path:
    return own_directory(home, ".claude", "CLAUDE_CONFIG_DIR")


def _pages(search: HookSearch) -> Iterator[ClaudeSettings]:
    return (ClaudeSettings(page.level, page.handlers, JsonObject()) for page in search.pages)


def _settings_file(path: Path, level: Level, search: HookSearch) -> ClaudeSettings:
    file = hook_file(search.source("claude", level, path), search.warn)
    handlers = file.read_nested(file.content.get("hooks", {}), make_hook)
    said = [name for name, value in file.content.object("permissions").items() if value]
    if said:
        remedy = "write rules into [approvals] of hookline.toml"
        file.warn(f"its 'permissions' ({', '.join(said)}) are not read; {remedy}")
    return ClaudeSettings(level, tuple(handlers), file.content)


# --- levels ---------------------------------------------------------------------------------------------


def _in_force(found: list[ClaudeSettings], warn: Warn) -> list[Handler]:
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
    trusted = [each.content for each in found if not each.level.is_repository]
    return [_with_listed(each, trusted) for each in handlers if _may_call(each, trusted, warn)]


def _with_env(found: list[ClaudeSettings]) -> list[ClaudeSettings]:
    """The hooks with the `env` of settings. A repository's is for its own hooks, and the user's, which may be
    secret, is not for those."""
    env: dict[bool, dict[str, str]] = {True: {}, False: {}}
    for settings in found:  # of several files, the last one counts
        env[settings.level.is_repository].update(settings.content.strings("env"))
    return [
        settings._replace(
            handlers=tuple(
                _add_variables(each, env[settings.level.is_repository])
                for each in settings.handlers
            )
        )
        for settings in found
    ]


def _add_variables(handler: Handler, variables: dict[str, str]) -> Handler:
    if not variables:
        return handler
    definition = {**handler.definition, "env": variables}  # trust is bound to them
    return msgspec.structs.replace(handler, env={**variables, **handler.env}, definition=definition)


def _with_listed(handler: Handler, trusted: Iterable[Mapping[str, Any]]) -> Handler:
    """An HTTP hook with those of its variables that the user or the administrator lists, if they do."""
    for content in trusted:
        listed = content.get("httpHookAllowedEnvVars")
        if handler.allowed_env and isinstance(listed, list):
            kept = tuple(name for name in handler.allowed_env if name in listed)
            handler = msgspec.structs.replace(handler, allowed_env=kept)
    return handler


def _may_call(handler: Handler, trusted: Iterable[Mapping[str, Any]], warn: Warn) -> bool:
    """Whether the addresses that the user or the administrator lists, if they do, include this one."""
    if handler.kind != "http":
        return True
    for content in trusted:
        allowed = content.get("allowedHttpHookUrls")
        if not isinstance(allowed, list):
            continue
        if not any(isinstance(each, str) and matches(handler.url, each) for each in allowed):
            warn(f"'{handler.url}' is not among the allowedHttpHookUrls, so it is not called")
            return False
    return True


# --- plugins --------------------------------------------------------------------------------------------


def _plugins(search: HookSearch) -> dict[Path, Level]:
    """The named plugins. One that is for Codex alone is read there."""
    return {
        root: level
        for root, level in search.plugins.items()
        if (root / _MANIFEST).is_file() or not (root / ".codex-plugin/plugin.json").is_file()
    }


def _plugin(
    root: Path, level: Level, search: HookSearch, settings: Iterable[JsonObject] = ()
) -> ClaudeSettings:
    """A plugin's hooks; its manifest may name other files for them, or have them itself."""
    plugin = Plugin(root, search, [_MANIFEST])
    name = plugin.manifest.text("name") or root.name
    data = _own_directory(search.home) / "plugins" / "data" / name
    path, label = str(root / plugin.usual), f"{name}/hooks.json"
    source = HookSource("claude", level, path, label, str(root), str(data))
    handlers: list[Handler] = []
    for _, content in plugin.files(and_usual=True):
        file = hook_file(source, search.warn, content)
        handlers += file.read_nested(content.get("hooks", {}), make_hook)
    # The user's choices may be secret: a repository's plugin has the defaults.
    options = _options(plugin.manifest, name, () if level.is_repository else settings)
    equipped = (_with_options(each, options, plugin.warn) for each in handlers)
    return ClaudeSettings(level, tuple(each for each in equipped if each is not None), JsonObject())


def _installed_plugins(found: Iterable[ClaudeSettings], search: HookSearch) -> Iterator[Path]:
    """The plugins that the user has installed and switched on."""
    enabled: dict[str, Any] = {}
    for settings in found:
        if not settings.level.is_repository:
            enabled |= settings.content.object("enabledPlugins")
    wanted = [name for name, value in enabled.items() if value is True]
    if not wanted:
        return
    folder = _own_directory(search.home) / "plugins"
    warn = about("~/.claude/plugins/installed_plugins.json", search.warn)
    known = load_file(folder / "installed_plugins.json", warn).object("plugins")
    for name, entry in known.items():
        for each in entry if isinstance(entry, list) else [entry]:
            path = object_of(each).get("installPath")
            if name in wanted and isinstance(path, str):
                yield Path(path).expanduser()
    others = (name for name in wanted if name not in known)
    yield from _in_marketplaces(others, folder / "marketplaces", search.warn)


def _in_marketplaces(wanted: Iterable[str], directory: Path, warn: Warn) -> Iterator[Path]:
    """The directories of plugins called `plugin@marketplace` in marketplaces that were cloned by hand."""
    for each in wanted:
        name, _, marketplace = each.partition("@")
        if not _PLUGIN_NAME.fullmatch(marketplace):
            continue
        root = directory / marketplace
        about_it = about(f"~/.claude/plugins/marketplaces/{marketplace}", warn)
        content = load_file(root / ".claude-plugin" / "marketplace.json", about_it)
        base = text_of(content.object("metadata").get("pluginRoot"))
        for entry in map(object_of, content.array("plugins")):
            if entry.get("name") != name:
                continue
            source = entry.text("source")
            path = (root / ("" if source.startswith("./") else base) / source).resolve()
            if source and path.is_relative_to(root.resolve()) and path.is_dir():
                yield path


def _options(manifest: JsonObject, name: str, contents: Iterable[JsonObject]) -> dict[str, str]:
    """The options of a plugin (`userConfig`): the defaults of the manifest, and what settings say."""
    found: dict[str, Any] = {}
    for key, option in manifest.object("userConfig").items():
        if "default" in object_of(option):
            found[key] = option["default"]
    for content in contents:
        for plugin, config in content.object("pluginConfigs").items():
            if str(plugin).partition("@")[0] == name:
                found |= object_of(config).object("options")
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in found.items()
        if re.fullmatch(r"[A-Za-z_]\w*", key)
    }


def _with_options(handler: Handler, options: Mapping[str, str], warn: Warn) -> Handler | None:
    """A plugin's hook with its options: as variables, and in the words of a program without a shell."""
    if _OPTION.search(handler.command):
        why = f"{handler.event}: '${{user_config...}}' in a line for a shell is read by the shell, so the hook is"
        warn(DroppedHook(f"{why} left out: use ${_OPTION_VARIABLE}NAME, or 'args'"))
        return None
    if not options and handler.argv is None:
        return handler
    variables = {f"{_OPTION_VARIABLE}{key.upper()}": value for key, value in options.items()}
    words = None
    if handler.argv is not None:
        words = tuple(_OPTION.sub(lambda found: options.get(found[1], ""), w) for w in handler.argv)
    return msgspec.structs.replace(handler, env={**variables, **handler.env}, argv=words)


# --- entries --------------------------------------------------------------------------------------------


def make_hook(entry: HookEntry) -> Handler | None:
    """The hook that an entry describes. Unknown keys are ignored."""
    event, hook = entry.event, entry.fields
    kind: Any = hook.get("type", "command")
    if not isinstance(kind, str) or kind not in _KINDS:
        entry.warn(DroppedHook(f"hooks of type {kind!r} are not run here"))
        return None
    if "if" in hook and event not in _TOOL_EVENTS:
        entry.warn("a hook with 'if' runs for tools only, so this one never runs")
        return None
    timeout = entry.seconds(_MODEL_TIMEOUTS.get(kind, _TIMEOUTS.get(event, 600.0)))
    is_program, wakes = kind == "command", hook.get("asyncRewake") is True
    if is_program and hook.get("async") is True and not wakes:
        timeout = max(timeout, _ASYNC_TIMEOUT)
    what = _KINDS[kind](entry, kind)
    if isinstance(what, str):
        entry.warn(DroppedHook(f"{what}, so it is ignored"))
        return None
    fields = {
        "kind": kind,
        "rule": entry.text("if"),
        "timeout": min(timeout, _LONGEST_AT_END) if event == "SessionEnd" else timeout,
        "is_async": is_program and (hook.get("async") is True or wakes),
        "wakes": is_program and wakes,
        "shell": entry.text("shell"),
    }
    return entry.handler(**fields, **what)


def _command(entry: HookEntry, _kind: str) -> dict[str, Any] | str:
    """A line for a shell, or words without one; some write all of these as `args`. A text says what is wrong."""
    command, args = entry.text("command"), entry.fields.get("args")
    is_texts = isinstance(args, list) and all(isinstance(each, str) for each in args)
    if args is not None and not is_texts:
        return "'args' of a hook is not a list of texts"
    if not command.strip() and not args:
        return "a hook names no command"
    return (
        {"command": command} if args is None else {"argv": (*filter(str.strip, [command]), *args)}
    )


def _http(entry: HookEntry, _kind: str) -> dict[str, Any] | str:
    if not entry.text("url"):
        return "a hook names no url"
    if entry.event == "SessionStart":
        return "hooks of type 'http' are not run there"
    return {name: value for name, value in entry.address().items() if name != "kind"}


def _mcp_tool(entry: HookEntry, _kind: str) -> dict[str, Any] | str:
    server, tool, given = entry.text("server"), entry.text("tool"), entry.fields.get("input")
    if not server or not tool or not isinstance(given, dict | None):
        return "an mcp_tool hook needs 'server', 'tool' and 'input'"
    return {"tool": tool_of(server, tool), "input": dict(given or {})}


def _model(entry: HookEntry, kind: str) -> dict[str, Any] | str:
    prompt = entry.text("prompt")
    is_run = entry.event in _MODEL_EVENTS - ({"PermissionRequest"} if kind == "agent" else set())
    if not is_run or not prompt.strip():
        return f"a hook of type {kind!r} {'has no prompt' if is_run else 'is not run there'}"
    continues = entry.fields.get("continueOnBlock") is True
    return {"prompt": prompt, "model": entry.text("model").strip(), "continues": continues}


_KINDS: dict[str, Callable[[HookEntry, str], dict[str, Any] | str]] = {
    "command": _command, "http": _http, "mcp_tool": _mcp_tool, "prompt": _model, "agent": _model
}  # fmt: skip
