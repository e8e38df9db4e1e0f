"""Rules about tool calls, as people write them: `bash(git push *)`, `files.write(src/**)`, `mcp__server__*`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.permissions.paths import Root
    from hookline.permissions.rules import Rule, Rules, Ruling, suggest_rule

_HOME = {
    "paths": "Root",
    "rules": "Rule Rules Ruling suggest_rule",
}
"""The names of each module."""

__all__ = ["Root", "Rule", "Rules", "Ruling", "suggest_rule"]

__getattr__ = lazy.names_from(__name__, _HOME)
