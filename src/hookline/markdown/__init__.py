"""Markdown files for agents: front matter, skills, subagents. Modules are imported when a name is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.markdown.document import (
        Document,
        PageHooks,
        agent_name,
        agent_pages,
        has_commands,
        names_in,
    )
    from hookline.markdown.skill import Skill, SkillLibrary
    from hookline.markdown.tool_names import (
        grants_tool,
        is_control_tool,
        is_known_elsewhere,
        means_tool,
    )

_HOME: dict[str, str] = {
    "Document": "document",
    "PageHooks": "document",
    "Skill": "skill",
    "SkillLibrary": "skill",
    "agent_name": "document",
    "agent_pages": "document",
    "grants_tool": "tool_names",
    "has_commands": "document",
    "is_control_tool": "tool_names",
    "is_known_elsewhere": "tool_names",
    "means_tool": "tool_names",
    "names_in": "document",
}
"""The module of each name."""

__all__ = [
    "Document",
    "PageHooks",
    "Skill",
    "SkillLibrary",
    "agent_name",
    "agent_pages",
    "grants_tool",
    "has_commands",
    "is_control_tool",
    "is_known_elsewhere",
    "means_tool",
    "names_in",
]

__getattr__ = lazy.names_from(__name__, _HOME)
