"""Subagents: agents that an agent may start by name, defined in code or in Markdown files."""

from hookline.capabilities.subagents.capability import Subagents
from hookline.capabilities.subagents.subagent import Subagent

__all__ = ["Subagent", "Subagents"]
