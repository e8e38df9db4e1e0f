"""The files that a script runs in turn, in the project or outside: what it sources, starts or imports.

Only places where something is run count: `source x`, `bash x.sh`, `"$DIR"/x.sh` as a command, `import x`,
`require('./x')`. A name in a list does not: a guard that protects `setup.py` would lose its trust with every change
of that file. What is known only when a script runs is reported in words, so that a person can look at it.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from hookline.shell_text import UNKNOWN
from hookline.shell_text.runners import SHELLS
from hookline.shell_text.started import StartSearch, is_task_runner

_MAX_FILES = 100
_MAX_DEPTH = 8
_MAX_BYTES = 1 << 17
_MAX_LINE = 2_000
"""Characters of a line that are read. A longer line is an attempt to keep us busy."""
_MAX_OUTSIDE = 1 << 20
"""Bytes of a script outside of the project."""
_OF_THE_SYSTEM = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")
_MAX_SHOWN = 100
_MAX_RUNS = 500
# Compiled at first use: most projects have no script.
_PYTHON = r"(?:python|pypy)[\d.]*|uv|uvx"
_NODE = r"node|nodejs|bun|deno|tsx|ts-node"
_KINDS = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
    **dict.fromkeys((".py", ".pyw"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"), "node"),
}
_REQUIRED = r"""(?:\brequire\s*\(|\bimport\s*\(|\bimport\s+|\bfrom\s+)\s*['"]([^'"\n]+)['"]"""
_NODE_ENDINGS = ("", ".js", ".mjs", ".cjs", ".ts", ".mts", ".json", "/index.js", "/index.ts")


class ScriptDependencies(NamedTuple):
    """What scripts run in turn."""

    files: tuple[Path, ...]
    """The scripts themselves come first."""
    unseen: tuple[str, ...]
    """What cannot be found without running them, in words."""


class _Run(NamedTuple):
    """One thing that a script runs: the places where it may be, the first that exists counts; and words otherwise."""

    places: tuple[Path, ...]
    words: str = ""


def find_dependencies(project: Path, scripts: Iterable[Path]) -> ScriptDependencies:
    """Find the files that these scripts run: those of the project, and scripts elsewhere."""
    found: dict[Path, None] = {}
    unseen: dict[str, None] = {}
    waiting = [(path, 0) for path in scripts]
    while waiting:
        path, depth = waiting.pop(0)
        if path in found:
            continue
        if len(found) >= _MAX_FILES or depth > _MAX_DEPTH:
            unseen[f"more than {_MAX_FILES} files"] = None
            break
        found[path] = None
        for run in islice(dict.fromkeys(_runs(path, project)), _MAX_RUNS):
            there = next((each for each in run.places if _is_file(each, project)), None)
            if there is not None:
                waiting.append((there, depth + 1))
            elif run.words:
                unseen[f"{_display_path(path, project)}: {run.words}"] = None
    return ScriptDependencies(tuple(found), tuple(unseen))


def _is_file(path: Path, project: Path) -> bool:
    try:
        return path.is_file() if path.is_relative_to(project) else is_script(path)
    except (OSError, ValueError):
        return False


def is_script(path: Path) -> bool:
    """Whether a file outside of the project is a script, by its name or its first bytes.

    Trust does not cover programs of the machine: it would end with every update.
    """
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or not 0 < facts.st_size <= _MAX_OUTSIDE:
            return False
        with path.open("rb") as file:
            first = file.read(2)
        return first == b"#!" or (bool(_kind_of(path.name)) and first != b"\x7fE")
    except (OSError, ValueError):
        return False


def _display_path(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def _runs(path: Path, project: Path) -> Iterator[_Run]:
    try:
        with path.open("rb") as file:
            whole = file.read(_MAX_BYTES).decode(errors="replace").replace("\\\n", " ")
    except OSError:
        return
    text = "\n".join(line[:_MAX_LINE] for line in whole.split("\n"))
    kind = _kind_of(path.name) or _kind_by_first_line(text)
    if kind == "shell":
        yield from _in_shell(text, path, project)
    elif kind == "python":
        yield from _in_python(whole, path, project)
    elif kind == "node":
        for name in re.findall(_REQUIRED, text):
            if name.startswith("."):
                base = os.path.normpath(path.parent / name)
                yield _Run(tuple(Path(base + ending) for ending in _NODE_ENDINGS))


def _kind_of(name: str) -> str:
    return _KINDS.get(os.path.splitext(name)[1].lower(), "")


def _kind_by_first_line(text: str) -> str:
    line = text.partition("\n")[0] if text.startswith("#!") else ""
    names = [os.path.basename(word) for word in line[2:].split()]
    if not SHELLS.isdisjoint(names):
        return "shell"
    for kind, pattern in (("python", _PYTHON), ("node", _NODE)):
        if any(re.fullmatch(pattern, name) for name in names):
            return kind
    return ""


# --- shell ------------------------------------------------------------------------------------------


def _in_shell(text: str, path: Path, project: Path) -> Iterator[_Run]:
    search = StartSearch({"0": UNKNOWN})
    search.search(text)
    for word, written, is_script in search.started:
        if is_script or "/" in word or UNKNOWN in word or _kind_of(word):
            yield _find_named_file(word, written if is_script else "", path, project)
        elif is_task_runner(word):
            yield _Run((), f"{word} runs commands from other files")
    if search.is_cut:
        yield _Run((), "it is too long or nested too deeply to be read completely")


def _find_named_file(word: str, written: str, path: Path, project: Path) -> _Run:
    """The file that a word names. The word may begin with a value that only the shell knows."""
    _, mark, tail = word.rpartition(UNKNOWN)
    bases: list[Path] = []
    if not mark:
        bases = [project, path.parent]
        if tail.startswith("~/"):  # `$HOME/` is read as this
            tail = os.path.expanduser(tail)
    elif tail.startswith("/"):
        bases, tail = [path.parent, *_folders_above(path, project), project], tail.lstrip("/")
    shown = " ".join(written.split())[:_MAX_SHOWN]
    unseen = f"the file in `{shown}` is known only when it runs" if written and mark else ""
    places = tuple(Path(os.path.normpath(base / tail)) for base in bases)
    if not mark:
        unseen = next(filter(None, (describe_program(each, project) for each in places)), "")
    return _Run(places, unseen)


def describe_program(path: Path, project: Path) -> str:
    """Words about a program outside of a project that trust does not cover; empty for those of the system."""
    try:
        is_elsewhere = not path.is_relative_to(project) and path.is_file()
    except (OSError, ValueError):
        return ""
    if not is_elsewhere or is_script(path) or str(path).startswith(_OF_THE_SYSTEM):
        return ""
    return f"{path} is a program outside of this directory"


def _folders_above(path: Path, project: Path) -> Iterator[Path]:
    for folder in path.parent.parents:
        if not folder.is_relative_to(project):
            return
        yield folder


# --- Python -----------------------------------------------------------------------------------------


class _Import(NamedTuple):
    """An import of a module, or of names from one."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0
    """How many dots stand before the module."""


def _imports(source: str | bytes) -> list[_Import] | None:
    """The imports of a Python file; None if it is not Python of this version."""
    try:
        with warnings.catch_warnings():  # of the file, and of no interest here
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: list[_Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [_Import(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            found.append(_Import(node.module or "", names, node.level))
    return found


def _in_python(text: str, path: Path, project: Path) -> Iterator[_Run]:
    imports = _imports(text)
    if imports is None:
        yield _Run((), "it is not Python code that can be read here")
    for module, names, level in imports or ():
        if level:
            yield from _import_from(path.parents[min(level, len(path.parents)) - 1], module, names)
            continue
        yield from _import_module(module, path, project)
        for place in _module_places(module, path, project) if names else ():
            yield from _import_from(place, module, names)


def _import_module(module: str, path: Path, project: Path) -> Iterator[_Run]:
    """A module and the packages that contain it: Python runs each of them."""
    parts = module.split(".")
    for place in _module_places(module, path, project):
        for count in range(1, len(parts) + 1):
            yield _Run(tuple(_module_files(place, ".".join(parts[:count]))))


def _import_from(place: Path, module: str, names: Iterable[str]) -> Iterator[_Run]:
    """The modules that are imported from a package."""
    if module:
        yield _Run(tuple(_module_files(place, module)))
    base = place.joinpath(*module.split(".")) if module else place
    for name in names:
        yield _Run(tuple(_module_files(base, name)))


def _module_places(module: str, path: Path, project: Path) -> list[Path]:
    """Where a module may be: beside the script, and in the project if it is not in the standard library."""
    if not module:
        return []
    if module.partition(".")[0] in sys.stdlib_module_names:
        return [path.parent]
    return list(
        dict.fromkeys((path.parent, project, project / "src", *_folders_above(path, project)))
    )


def _module_files(place: Path, module: str) -> Iterator[Path]:
    base = place.joinpath(*module.split("."))
    yield base.with_name(f"{base.name}.py")
    yield base / "__init__.py"


# --- the modules of a hook or an agent ----------------------------------------------------------------

_MODULE_FOLDERS = (".", "src", ".hookline")


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
        for path in _files_of_name(project, name):
            if path not in found:
                found[path] = None
                waiting += _imported_names(path)
    return list(found)


def _files_of_name(project: Path, name: str) -> Iterator[Path]:
    for folder in _MODULE_FOLDERS:
        base = project / folder
        if (base / name).is_dir():
            yield from sorted(path for path in (base / name).rglob("*.py") if path.is_file())
        if (base / f"{name}.py").is_file():
            yield base / f"{name}.py"


def _imported_names(path: Path) -> list[str]:
    try:
        imports = _imports(path.read_bytes()) or []
    except OSError:
        return []
    return [each.module.partition(".")[0] for each in imports if not each.level]
