"""Hooks in any language: programs and addresses that are sent an event and may decide. JSON in, exit code out.

Scripts written for Claude Code, Gemini CLI, Codex, Cursor and Copilot run as they are. `Dialect` is the interface for
other protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.command_hooks.capability import CommandHooks
    from hookline.command_hooks.dialect import Dialect, register_dialect
    from hookline.command_hooks.dialects.own import read_hook
    from hookline.command_hooks.handler import (
        Handler,
        HookSearch,
        HookSource,
        Level,
        ProgramAnswer,
        ProgramResult,
        RunFacts,
    )
    from hookline.command_hooks.scripts import definition_digest, not_covered
    from hookline.command_hooks.tools import ShownCall, ToolForm, ToolNames
    from hookline.command_hooks.trust_store import TrustStore, is_trusted, marks_of_pages, trust

_HOME: dict[str, str] = {
    "CommandHooks": "capability",
    "Dialect": "dialect",
    "Handler": "handler",
    "HookSource": "handler",
    "Level": "handler",
    "ProgramAnswer": "handler",
    "ProgramResult": "handler",
    "RunFacts": "handler",
    "HookSearch": "handler",
    "ShownCall": "tools",
    "ToolForm": "tools",
    "ToolNames": "tools",
    "TrustStore": "trust_store",
    "definition_digest": "scripts",
    "is_trusted": "trust_store",
    "marks_of_pages": "trust_store",
    "not_covered": "scripts",
    "read_hook": "dialects.own",
    "register_dialect": "dialect",
    "trust": "trust_store",
}
"""The module of each name."""

__all__ = [
    "CommandHooks",
    "Dialect",
    "Handler",
    "HookSearch",
    "HookSource",
    "Level",
    "ProgramAnswer",
    "ProgramResult",
    "RunFacts",
    "ShownCall",
    "ToolForm",
    "ToolNames",
    "TrustStore",
    "definition_digest",
    "is_trusted",
    "marks_of_pages",
    "not_covered",
    "read_hook",
    "register_dialect",
    "trust",
]

__getattr__ = lazy.names_from(__name__, _HOME)
