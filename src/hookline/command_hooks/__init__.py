"""Hooks in any language: programs and addresses that are sent an event and may decide. JSON in, exit code out.

Scripts written for Claude Code, Gemini CLI, Codex, Cursor and Copilot run as they are. `Dialect` is the interface for
other protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.command_hooks.capability import CommandHooks
    from hookline.command_hooks.dialect import (
        TOOL,
        Dialect,
        Event,
        EventFacts,
        Transcripts,
        register_dialect,
    )
    from hookline.command_hooks.dialects.config_files import HookEntry, HookFile, Plugin, hook_file
    from hookline.command_hooks.dialects.hookline import read_hook
    from hookline.command_hooks.handler import (
        Handler,
        HookSearch,
        HookSource,
        JsonObject,
        Level,
        ProgramAnswer,
        ProgramResult,
        RunFacts,
        denied,
        failed,
    )
    from hookline.command_hooks.tools import (
        NameTest,
        ShownCall,
        ToolForm,
        ToolNames,
        expression,
        names_or_expression,
        one_of,
        whole_expression,
    )
    from hookline.command_hooks.trust_store import TrustedHooks, TrustStore, is_trusted, trust
    from hookline.command_hooks.trusted_files import definition_digest

_HOME = {
    "capability": "CommandHooks",
    "dialect": "Dialect Event EventFacts TOOL Transcripts register_dialect",
    "dialects.config_files": "HookEntry HookFile Plugin hook_file",
    "dialects.hookline": "read_hook",
    "handler": (
        "Handler HookSearch HookSource JsonObject Level ProgramAnswer ProgramResult RunFacts denied "
        "failed"
    ),
    "tools": (
        "NameTest ShownCall ToolForm ToolNames expression names_or_expression one_of "
        "whole_expression"
    ),
    "trust_store": "TrustStore TrustedHooks is_trusted trust",
    "trusted_files": "definition_digest",
}
"""The names of each module."""

__all__ = [
    "TOOL",
    "CommandHooks",
    "Dialect",
    "Event",
    "EventFacts",
    "Handler",
    "HookEntry",
    "HookFile",
    "HookSearch",
    "HookSource",
    "JsonObject",
    "Level",
    "NameTest",
    "Plugin",
    "ProgramAnswer",
    "ProgramResult",
    "RunFacts",
    "ShownCall",
    "ToolForm",
    "ToolNames",
    "Transcripts",
    "TrustStore",
    "TrustedHooks",
    "definition_digest",
    "denied",
    "expression",
    "failed",
    "hook_file",
    "is_trusted",
    "names_or_expression",
    "one_of",
    "read_hook",
    "register_dialect",
    "trust",
    "whole_expression",
]

__getattr__ = lazy.names_from(__name__, _HOME)
