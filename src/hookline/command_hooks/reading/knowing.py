"""What a script for Copilot or VS Code knows: one file is for both, and they tell hooks different things.

VS Code has other tools than Copilot, and reads files with Copilot's events as if they had its own. Which of the two a
script was written for shows in its text.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.vscode_tools import (
    KEY,
    names_tools,
    reads_snake_case,
    words_in,
)
from hookline.command_hooks.scripts import is_interpreter, run_programs, scripts_of

_LARGEST = 2 << 20
_ROOT = re.compile(r"\$\{\w*PLUGIN_ROOT\}|\$\w*PLUGIN_ROOT\b")
_PASCAL = {
    "sessionStart": "SessionStart",
    "userPromptSubmitted": "UserPromptSubmit",
    "preToolUse": "PreToolUse",
    "permissionRequest": "PermissionRequest",
    "postToolUse": "PostToolUse",
    "postToolUseFailure": "PostToolUseFailure",
    "agentStop": "Stop",
    "subagentStart": "SubagentStart",
    "subagentStop": "SubagentStop",
    "preCompact": "PreCompact",
    "errorOccurred": "ErrorOccurred",
    "sessionEnd": "SessionEnd",
}
"""Copilot's events, and what VS Code makes of them."""


def as_it_reads(handler: Handler, project: Path, *, is_vscodes: bool) -> Handler:
    """A hook with the words that it knows. One that looks for VS Code's fields only is told what VS Code tells.

    Where no tool is named, or nothing can be read, the form of the file says whom it is for.
    """
    if handler.kind != "command":
        return handler
    texts = (handler.command, *(handler.argv or ()), *_texts(handler, project))
    knows = words_in("\n".join(texts))
    if is_vscodes and not handler.matcher and not names_tools(knows):
        knows |= {KEY}
    handler = msgspec.structs.replace(handler, knows=knows)
    if handler.event in _PASCAL and reads_snake_case(handler):
        there = msgspec.structs.replace(handler.source, dialect="vscode")
        return msgspec.structs.replace(handler, source=there, event=_PASCAL[handler.event])
    return handler


def _texts(handler: Handler, project: Path) -> Iterator[str]:
    """The scripts that a hook runs: in the project, beside the file that names it, or on the path."""
    paths = dict.fromkeys(map(Path, scripts_of(handler, project)))
    paths |= dict.fromkeys(_elsewhere(handler))
    for path in paths:
        text = _text(path)
        if text:
            yield text


def _elsewhere(handler: Handler) -> Iterator[Path]:
    beside = Path(handler.source.root or os.path.dirname(handler.source.path))
    for word in run_programs(handler):
        if is_interpreter(word):
            continue
        named = _ROOT.sub(lambda _: handler.source.root, word)
        named = os.path.expanduser(os.path.expandvars(named))
        if os.sep in named:
            yield beside / named
        elif found := shutil.which(named):
            yield Path(found)


def _text(path: Path) -> str:
    """What is in a script; empty for what is none."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        content = path.read_bytes()
    except OSError:
        return ""
    return "" if b"\0" in content[:4096] else content.decode(errors="replace")
