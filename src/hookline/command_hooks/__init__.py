"""Hooks in any language: programs and addresses that are told what happens, and may decide. JSON in, exit code out.

Scripts written for Claude Code, Gemini CLI, Codex, Cursor and Copilot run as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.command_hooks.capability import CommandHooks
    from hookline.command_hooks.definition import Handler, Level, Source
    from hookline.command_hooks.reading import read_hook
    from hookline.command_hooks.scripts import not_covered
    from hookline.command_hooks.trusting import TrustStore, is_trusted, marks_of_pages, trust
    from hookline.command_hooks.trying import Tried, try_hooks

_HOME: dict[str, str] = {
    "CommandHooks": "capability",
    "Handler": "definition",
    "Level": "definition",
    "Source": "definition",
    "Tried": "trying",
    "TrustStore": "trusting",
    "is_trusted": "trusting",
    "marks_of_pages": "trusting",
    "not_covered": "scripts",
    "read_hook": "reading",
    "trust": "trusting",
    "try_hooks": "trying",
}
"""Where each name lives in this room."""

__all__ = [
    "CommandHooks",
    "Handler",
    "Level",
    "Source",
    "Tried",
    "TrustStore",
    "is_trusted",
    "marks_of_pages",
    "not_covered",
    "read_hook",
    "trust",
    "try_hooks",
]

__getattr__ = lazy.names_from(__name__, _HOME)
