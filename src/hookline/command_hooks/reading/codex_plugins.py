"""The hooks of Codex's plugins: those that the user has installed and switched on, and those that are named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.command_hooks.definition import (
    Handler,
    Level,
    Source,
    own_directory,
    shown_path,
)
from hookline.command_hooks.reading.files import (
    Warn,
    about,
    load_json,
    load_toml,
    nested,
    text_field,
)
from hookline.command_hooks.reading.others import make_codex

_MANIFESTS = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json")
_USUAL = "hooks/hooks.json"


def is_codex_plugin(root: Path) -> bool:
    """Whether a directory is a plugin for Codex alone. One that is for Claude too is taken for that."""
    codex, claude = ((root / each).is_file() for each in _MANIFESTS)
    return codex and not claude


def read_codex_plugins(
    project: Path, home: Path, warn: Warn, named: Mapping[Path, Level], *, installed: bool
) -> list[Handler]:
    """The hooks of those that are named, and of those that are installed, each plugin once."""
    own = own_directory(home, ".codex", "CODEX_HOME")
    levels = dict.fromkeys(_installed(own, warn) if installed else (), Level.PLUGIN)
    return [
        handler
        for root, level in {**levels, **named}.items()
        for handler in _plugin(root, level, own, project, home, warn)
    ]


def _installed(own: Path, warn: Warn) -> Iterator[Path]:
    """The newest version of each plugin that the user's configuration switches on."""
    content = load_toml(own / "config.toml", lambda _: None) or {}  # who reads its hooks complains
    plugins, features = content.get("plugins"), content.get("features")
    if isinstance(features, dict) and False in (
        features.get("hooks"),
        features.get("plugin_hooks"),
    ):
        return
    for name, said in plugins.items() if isinstance(plugins, dict) else ():
        if not isinstance(said, dict) or said.get("enabled", True) is not True:
            continue
        plugin, _, market = name.partition("@")
        versions = sorted((own / "plugins" / "cache" / market / plugin).glob("*/"), key=_version)
        if versions:
            yield versions[-1]
        else:
            warn(f"~/.codex/config.toml: the plugin '{name}' is switched on, and not installed")


def _version(root: Path) -> list[tuple[int, int, str]]:
    """By what versions are compared: numbers as numbers, and a word before any number."""
    parts = re.findall(r"\d+|[a-z]+", root.name.lower())
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def _plugin(
    root: Path, level: Level, own: Path, project: Path, home: Path, warn: Warn
) -> list[Handler]:
    """A plugin's hooks: in its usual file, or where its manifest says, or in the manifest itself."""
    told = about(shown_path(root, project, home), warn)
    read = (load_json(root / each, told) for each in _MANIFESTS)
    manifest: dict[str, Any] = next(filter(None, read), {})
    is_cached = root.parent.parent.parent == own / "plugins" / "cache"
    name = text_field(manifest, "name") or (root.parent.name if is_cached else root.name)
    given = manifest.get("hooks", _USUAL)
    found: list[Handler] = []
    for each in given if isinstance(given, list) else [given]:
        path = root / (each if isinstance(each, str) else _MANIFESTS[0])
        if not path.resolve().is_relative_to(root.resolve()):
            told(f"its hooks are to be outside of it, at '{each}', so they are not read")
            continue
        content = load_json(path, told) if isinstance(each, str) else each
        if not isinstance(content, dict):
            continue
        label = f"{name}/{path.relative_to(root).name}"
        data = own / "plugins" / "data" / name
        source = Source("codex", level, str(path), label, str(root), str(data))
        hooks = content["hooks"] if "hooks" in content else {} if isinstance(each, str) else content
        found += nested(hooks, source, make_codex, told)
    return found
