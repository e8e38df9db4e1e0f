"""Hooks in any language: programs and addresses that are sent an event and may decide. JSON in, exit code out.

Scripts written for Claude Code, Gemini CLI, Codex, Cursor and Copilot run as they are. `Dialect` is the interface for
other protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.command_hooks.capability import CommandHooks
    from hookline.command_hooks.dialect import Dialect, Transcripts, register_dialect
    from hookline.command_hooks.dialects.config_files import HookEntry, HookFile, Plugin, hook_file
    from hookline.command_hooks.dialects.event_facts import TOOL, Event, EventDialect, EventFacts
    from hookline.command_hooks.dialects.hookline import read_hook
    from hookline.command_hooks.handler import (
        Handler,
        HookSearch,
        HookSource,
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
    from hookline.command_hooks.trusted_files import definition_digest, not_covered

_HOME: dict[str, str] = {
    "TOOL": "dialects.event_facts",
    "CommandHooks": "capability",
    "Dialect": "dialect",
    "Event": "dialects.event_facts",
    "EventDialect": "dialects.event_facts",
    "EventFacts": "dialects.event_facts",
    "Handler": "handler",
    "HookEntry": "dialects.config_files",
    "HookFile": "dialects.config_files",
    "HookSearch": "handler",
    "HookSource": "handler",
    "Level": "handler",
    "NameTest": "tools",
    "Plugin": "dialects.config_files",
    "ProgramAnswer": "handler",
    "ProgramResult": "handler",
    "RunFacts": "handler",
    "ShownCall": "tools",
    "ToolForm": "tools",
    "ToolNames": "tools",
    "Transcripts": "dialect",
    "TrustStore": "trust_store",
    "TrustedHooks": "trust_store",
    "definition_digest": "trusted_files",
    "denied": "handler",
    "expression": "tools",
    "failed": "handler",
    "hook_file": "dialects.config_files",
    "is_trusted": "trust_store",
    "names_or_expression": "tools",
    "not_covered": "trusted_files",
    "one_of": "tools",
    "read_hook": "dialects.hookline",
    "register_dialect": "dialect",
    "trust": "trust_store",
    "whole_expression": "tools",
}
"""The module of each name."""

__all__ = [
    "TOOL",
    "CommandHooks",
    "Dialect",
    "Event",
    "EventDialect",
    "EventFacts",
    "Handler",
    "HookEntry",
    "HookFile",
    "HookSearch",
    "HookSource",
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
    "not_covered",
    "one_of",
    "read_hook",
    "register_dialect",
    "trust",
    "whole_expression",
]

__getattr__ = lazy.names_from(__name__, _HOME)
