"""The files of the Python modules that are hooks or agents. Our own loader imports these, and no others."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

_FOLDERS = (".", "src", ".hookline")


def find_module_files(project: Path, module: str) -> list[Path]:
    """Find the files of a module of the project, and of everything it imports from there.

    All files of a package count: the package decides which of them are loaded.
    """
    waiting, seen, found = [module.partition(".")[0]], set[str](), dict[Path, None]()
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        for path in _find_files(project, name):
            if path not in found:
                found[path] = None
                waiting += _find_imports(path)
    return list(found)


def _find_files(project: Path, name: str) -> Iterator[Path]:
    for folder in _FOLDERS:
        base = project / folder
        if (base / name).is_dir():
            inside = (base / name).rglob("*")
            yield from sorted(path for path in inside if _is_module(path))
        yield from sorted(path for path in base.glob(f"{name}.*") if _is_module(path))


def _is_module(path: Path) -> bool:
    """Whether it is loaded as a module: as source, or compiled for the machine. Our loader reads no bytecode."""
    return path.suffix in (".py", ".so", ".pyd") and path.is_file()


def _find_imports(path: Path) -> Iterator[str]:
    """The first parts of the modules that a file imports; none if it is not Python of this version."""
    try:
        with warnings.catch_warnings():  # of the file, and of no interest here
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]
