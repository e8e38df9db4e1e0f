"""What the user has chosen for a plugin: its `userConfig`, with the values in the user's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.reading.files import Dropped, Warn

_PLACE = re.compile(r"\$\{user_config\.(\w+)\}")
_VARIABLE = "CLAUDE_PLUGIN_OPTION_"


def chosen(
    manifest: Mapping[str, Any], name: str, contents: Iterable[Mapping[str, Any]]
) -> dict[str, str]:
    """The options of a plugin by name: what settings say, the last of them, or what the plugin says itself."""
    declared = manifest.get("userConfig")
    found: dict[str, Any] = {}
    for key, option in declared.items() if isinstance(declared, dict) else ():
        if isinstance(option, dict) and "default" in option:
            found[key] = option["default"]
    for content in contents:
        configs = content.get("pluginConfigs")
        for plugin, config in configs.items() if isinstance(configs, dict) else ():
            options = config.get("options") if isinstance(config, dict) else None
            if str(plugin).partition("@")[0] == name and isinstance(options, dict):
                found |= options
    return {key: _text(value) for key, value in found.items() if re.fullmatch(r"[A-Za-z_]\w*", key)}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def with_options(handler: Handler, options: Mapping[str, str], warn: Warn) -> Handler | None:
    """A plugin's hook with its options: as variables, and in the words of a program that no shell reads."""
    if _PLACE.search(handler.command):
        told = f"{handler.event}: '${{user_config...}}' in a line for a shell is read by the shell, so the hook is"
        warn(Dropped(f"{told} left out: use ${_VARIABLE}NAME, or 'args'"))
        return None
    if not options and handler.argv is None:
        return handler
    variables = {f"{_VARIABLE}{key.upper()}": value for key, value in options.items()}
    words = None
    if handler.argv is not None:
        words = tuple(_PLACE.sub(lambda found: options.get(found[1], ""), w) for w in handler.argv)
    return msgspec.structs.replace(handler, env={**variables, **handler.env}, argv=words)
