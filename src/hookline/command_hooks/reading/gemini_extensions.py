"""The extensions of Gemini CLI that a user has: where each is, and whether it is switched on for a project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hookline.command_hooks.reading.files import Warn, load_json, text_field

_RULES = "extension-enablement.json"
_INSTALLED = ".gemini-extension-install.json"
_STARS = re.compile(r"(/?)\\\*")


def extensions(home: Path, project: Path, warn: Warn) -> Iterator[Path]:
    """The directories of those that are on, in the order of their names."""
    directory = home / ".gemini" / "extensions"
    rules = load_json(directory / _RULES, warn) or {} if directory.is_dir() else {}
    for each in sorted(directory.glob("*/")):
        entry = rules.get(each.name)
        overrides = entry.get("overrides") if isinstance(entry, dict) else None
        if is_on(overrides if isinstance(overrides, list) else [], project):
            yield _root(each, warn)


def _root(directory: Path, warn: Warn) -> Path:
    """Where an extension's files are: one that is only linked has them elsewhere."""
    installed = load_json(directory / _INSTALLED, warn) or {}
    source = text_field(installed, "source")
    return Path(source) if installed.get("type") == "link" and source else directory


def is_on(overrides: list[object], project: Path) -> bool:
    """Whether an extension is on for a project: the last rule about its path says so, and `!` says that it is off."""
    path, on = f"{project.as_posix().rstrip('/')}/", True
    for rule in overrides:
        if isinstance(rule, str) and _expression(rule.removeprefix("!")).fullmatch(path):
            on = not rule.startswith("!")
    return on


def _expression(rule: str) -> re.Pattern[str]:
    """A path, with `*` for whatever is below it."""
    whole = rule if rule.endswith(("/", "*")) else f"{rule}/"
    return re.compile(_STARS.sub(lambda found: f"({found[1]}.*)?", re.escape(whole)))
