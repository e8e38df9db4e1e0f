"""Rules about tool calls, as people write them: `bash(git push *)`, `files.write(src/**)`, `mcp__server__*`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookline.permissions.paths import Root
    from hookline.permissions.rule import Rule
    from hookline.permissions.rules import Rules, Ruling
    from hookline.permissions.suggest import suggest_rule

_HOME: dict[str, str] = {
    "Root": "paths",
    "Rule": "rule",
    "Rules": "rules",
    "Ruling": "rules",
    "suggest_rule": "suggest",
}
"""Where each name lives in this room."""

__all__ = ["Root", "Rule", "Rules", "Ruling", "suggest_rule"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
