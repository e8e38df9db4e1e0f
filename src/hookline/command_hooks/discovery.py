"""All hooks of a project and a user, whatever the dialect."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hookline.command_hooks.dialect import all_dialects, dialect_named
from hookline.command_hooks.handler import Handler, Level, Search
from hookline.errors import UsageError


def find_hooks(search: Search, dialects: Iterable[str] | None = None) -> list[Handler]:
    """The hooks of all files that these dialects have, and those of named settings, plugins and pages."""
    wanted = _with_files() if dialects is None else tuple(dialects)
    handlers: list[Handler] = []
    for name, dialect in all_dialects().items():
        if name not in wanted:
            handlers += dialect.find_named(search)
    for name in wanted:
        _check_files(name)
        handlers += dialect_named(name).find(search)
    return [_required(each) for each in handlers]


def read_file(path: Path, dialect: str, level: Level, search: Search) -> list[Handler]:
    """The hooks of one file that somebody names."""
    if not path.is_file():
        raise UsageError(f"there is no file '{path}'.", remedy="Name a file with hooks.")
    _check_files(dialect)
    return list(dialect_named(dialect).read(path, level, search))


def _with_files() -> tuple[str, ...]:
    return tuple(name for name, dialect in all_dialects().items() if dialect.has_files)


def _check_files(name: str) -> None:
    if name not in _with_files():
        raise UsageError(
            f"the dialect {name!r} has no files.", remedy=f"Dialects: {', '.join(_with_files())}."
        )


def _required(handler: Handler) -> Handler:
    """An administrator's hook fails closed in any dialect."""
    if handler.source.level is not Level.MANAGED:
        return handler
    return msgspec.structs.replace(handler, on_failure="closed")
