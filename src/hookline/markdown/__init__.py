"""Markdown files for agents: front matter, skills, subagents. Modules are imported when a name is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.markdown.document import Document
    from hookline.markdown.skill import Skill, SkillLibrary

_HOME = {
    "document": "Document",
    "skill": "Skill SkillLibrary",
}
"""The names of each module."""

__all__ = [
    "Document",
    "Skill",
    "SkillLibrary",
]

__getattr__ = lazy.names_from(__name__, _HOME)
