"""Configuration files, read: where each dialect keeps its hooks, and how they are written there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from hookline.command_hooks.definition import Handler, Level
from hookline.command_hooks.reading.claude import (
    Settings,
    managed_directory,
    read_named_settings,
    read_plugins,
    read_settings,
    read_settings_file,
    with_variables,
)
from hookline.command_hooks.reading.codex_plugins import is_codex_plugin, read_codex_plugins
from hookline.command_hooks.reading.copilot import read_copilot, read_copilot_file
from hookline.command_hooks.reading.others import (
    read_codex,
    read_codex_file,
    read_cursor,
    read_cursor_file,
    read_gemini,
    read_gemini_file,
)
from hookline.command_hooks.reading.own import read_hook
from hookline.command_hooks.reading.pages import Page, read_pages
from hookline.errors import UsageError

FOREIGN = ("claude", "gemini", "codex", "cursor", "copilot")
_SYSTEM = Path("/etc")


class Found(NamedTuple):
    """What files say, and what is wrong with them."""

    handlers: tuple[Handler, ...]
    warnings: tuple[str, ...]


def find_hooks(
    project: Path,
    home: Path,
    dialects: Iterable[str] = FOREIGN,
    *,
    plugins: Mapping[Path, Level] | None = None,
    settings: Iterable[Path] = (),
    pages: Iterable[Page] = (),
    managed: bool = True,
) -> Found:
    """The hooks of all files that these dialects have, for a project and a user, and those of plugins and pages."""
    warnings: list[str] = []
    handlers: list[Handler] = []
    system = _SYSTEM if managed else None
    written = [Settings(each.level, each.handlers, {}) for each in pages]
    dialects = tuple(dialects)
    named = plugins or {}
    of_codex = {root: level for root, level in named.items() if is_codex_plugin(root)}
    others = {root: level for root, level in named.items() if root not in of_codex}
    more = tuple(settings)
    if "claude" not in dialects:
        handlers += read_named_settings(more, project, home, warnings.append)
        handlers += read_plugins(others, project, home, warnings.append)
        handlers += [handler for page in written for handler in page.handlers]
    handlers += read_codex_plugins(
        project, home, warnings.append, of_codex, installed="codex" in dialects
    )
    for dialect in dialects:
        if dialect == "claude":
            place = managed_directory() if managed else None
            handlers += read_settings(
                project,
                home,
                warnings.append,
                managed=place,
                plugins=others,
                named=more,
                pages=written,
            )
        elif dialect == "gemini":
            handlers += read_gemini(project, home, warnings.append, system=system)
        elif dialect == "codex":
            handlers += read_codex(project, home, warnings.append, system=system)
        elif dialect == "cursor":
            handlers += read_cursor(project, home, warnings.append, system=system)
        elif dialect == "copilot":
            handlers += read_copilot(project, home, warnings.append, system=system)
        else:
            raise UsageError(
                f"the dialect {dialect!r} has no files.", remedy=f"Dialects: {', '.join(FOREIGN)}."
            )
    return Found(tuple(map(_required, handlers)), tuple(warnings))


def _required(handler: Handler) -> Handler:
    """What an administrator requires does not give way when it is broken, in whatever dialect."""
    if handler.source.level is not Level.MANAGED:
        return handler
    return msgspec.structs.replace(handler, on_failure="closed")


def read_file(path: Path, dialect: str, level: Level, project: Path, home: Path) -> Found:
    """The hooks of one file that somebody names."""
    if not path.is_file():
        raise UsageError(f"there is no file '{path}'.", remedy="Name a file with hooks.")
    warnings: list[str] = []
    given = (path, level, project, home, warnings.append)
    if dialect == "claude":
        (settings,) = with_variables([read_settings_file(*given)])
        handlers: Iterable[Handler] = settings.handlers
    elif dialect == "gemini":
        handlers = read_gemini_file(*given)[0]
    elif dialect == "codex":
        handlers = read_codex_file(*given)
    elif dialect == "cursor":
        handlers = read_cursor_file(*given)
    elif dialect == "copilot":
        handlers = read_copilot_file(*given)
    else:
        raise UsageError(
            f"the dialect {dialect!r} has no files.", remedy=f"Dialects: {', '.join(FOREIGN)}."
        )
    return Found(tuple(handlers), tuple(warnings))


__all__ = ["FOREIGN", "Found", "Page", "find_hooks", "read_file", "read_hook", "read_pages"]
