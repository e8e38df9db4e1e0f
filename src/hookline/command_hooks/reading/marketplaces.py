"""Plugins of Claude Code that were put on the machine by hand: a marketplace, cloned to where it looks for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.command_hooks.reading.files import Warn, about, load_json, text_field

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def in_marketplaces(wanted: Iterable[str], directory: Path, warn: Warn) -> Iterator[Path]:
    """The directories of plugins that are called `plugin@marketplace`, as far as they are there."""
    for each in wanted:
        name, _, marketplace = each.partition("@")
        if not _NAME.fullmatch(marketplace):
            continue
        root = directory / marketplace
        told = about(f"~/.claude/plugins/marketplaces/{marketplace}", warn)
        content = load_json(root / ".claude-plugin" / "marketplace.json", told) or {}
        listed = content.get("plugins")
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name:
                path = _place(root, content, text_field(entry, "source"))
                if path is not None:
                    yield path


def _place(root: Path, content: Mapping[str, Any], source: str) -> Path | None:
    """Where a marketplace keeps a plugin; None if that is somewhere else, or nowhere."""
    about_all = content.get("metadata")
    base = text_field(about_all, "pluginRoot") if isinstance(about_all, dict) else ""
    path = (root / ("" if source.startswith("./") else base) / source).resolve()
    inside = bool(source) and path.is_relative_to(root.resolve())
    return path if inside and path.is_dir() else None
