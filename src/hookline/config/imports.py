"""Which files of a project are run when one of its modules is loaded: its own, and those it imports from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PLACES = (".", "src", ".hookline")
"""Where in a project modules are looked for."""


def files_of(project: Path, module: str) -> list[Path]:
    """The files of a module of the project, and of all it imports from there, however indirectly.

    Of a package it is all files: which of them are loaded is for the package to say.
    """
    waiting, seen, found = [module.partition(".")[0]], set[str](), dict[Path, None]()
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        for path in _of_name(project, name):
            if path not in found:
                found[path] = None
                waiting += _imported(path)
    return list(found)


def _of_name(project: Path, name: str) -> Iterator[Path]:
    for place in PLACES:
        base = project / place
        if (base / name).is_dir():
            yield from sorted(path for path in (base / name).rglob("*.py") if path.is_file())
        if (base / f"{name}.py").is_file():
            yield base / f"{name}.py"


def _imported(path: Path) -> list[str]:
    """The names of the modules and packages that a file imports; what it finds out when it runs is not seen."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.append(node.module.partition(".")[0])
    return names
