"""The dialects, by name. Which one a hook speaks is a property of the file that names it."""

from __future__ import annotations

from hookline.command_hooks.dialects.base import Dialect, Place
from hookline.command_hooks.dialects.claude import Claude
from hookline.command_hooks.dialects.codex import Codex
from hookline.command_hooks.dialects.copilot import Copilot
from hookline.command_hooks.dialects.cursor import Cursor
from hookline.command_hooks.dialects.gemini import Gemini
from hookline.command_hooks.dialects.own import Own
from hookline.command_hooks.dialects.vscode import VsCode

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (Own(), Claude(), Gemini(), Codex(), Cursor(), Copilot(), VsCode())
}

__all__ = ["DIALECTS", "Dialect", "Place"]
