"""What people write for agents in Markdown: front matter, and skills. Published files are read as they are.

Each is loaded when its name is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.markdown.agents import agent_name, agent_pages
    from hookline.markdown.document import Document, names_in
    from hookline.markdown.library import SkillLibrary
    from hookline.markdown.page_hooks import PageHooks, has_commands
    from hookline.markdown.skill import Skill
    from hookline.markdown.tool_names import (
        grants_tool,
        is_aside,
        is_known_elsewhere,
        means_tool,
    )

_HOME: dict[str, str] = {
    "Document": "document",
    "PageHooks": "page_hooks",
    "Skill": "skill",
    "SkillLibrary": "library",
    "agent_name": "agents",
    "agent_pages": "agents",
    "grants_tool": "tool_names",
    "has_commands": "page_hooks",
    "is_aside": "tool_names",
    "is_known_elsewhere": "tool_names",
    "means_tool": "tool_names",
    "names_in": "document",
}
"""Where each name lives in this room."""

__all__ = [
    "Document",
    "PageHooks",
    "Skill",
    "SkillLibrary",
    "agent_name",
    "agent_pages",
    "grants_tool",
    "has_commands",
    "is_aside",
    "is_known_elsewhere",
    "means_tool",
    "names_in",
]

__getattr__ = lazy.names_from(__name__, _HOME)
