"""The dialects that Hookline knows, one file or folder each. The order is that of their hooks."""

from __future__ import annotations

from hookline.command_hooks.dialect import register_dialect
from hookline.command_hooks.dialects.claude.protocol import Claude
from hookline.command_hooks.dialects.codex import Codex
from hookline.command_hooks.dialects.copilot import Copilot
from hookline.command_hooks.dialects.cursor import Cursor
from hookline.command_hooks.dialects.gemini import Gemini
from hookline.command_hooks.dialects.hookline import Hookline
from hookline.command_hooks.dialects.vscode import VsCode

for _dialect in (Hookline(), Claude(), Gemini(), Codex(), Cursor(), Copilot(), VsCode()):
    register_dialect(_dialect)
