"""Rules about tool calls, as people write them: `bash(git push *)`, `files.write(src/**)`, `mcp__server__*`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.permissions.paths import Root
    from hookline.permissions.rules import Rule, Rules, Ruling, suggest_rule

_HOME: dict[str, str] = {
    "Root": "paths",
    "Rule": "rules",
    "Rules": "rules",
    "Ruling": "rules",
    "suggest_rule": "rules",
}
"""The module of each name."""

__all__ = ["Root", "Rule", "Rules", "Ruling", "suggest_rule"]

__getattr__ = lazy.names_from(__name__, _HOME)
