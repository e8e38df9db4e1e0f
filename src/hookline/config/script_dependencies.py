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
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from hookline.shell_text import UNKNOWN
from hookline.shell_text.runners import HAVE_VALUES, SHELLS, name_of
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
_PYTHON_ALONE = r"(?:python|pypy)[\d.]*"
_NODE = r"node|nodejs|bun|deno|tsx|ts-node"
_KINDS = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
    **dict.fromkeys((".py", ".pyw"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"), "node"),
}
_REQUIRED = r"""(?:\brequire\s*\(|\bimport\s*\(|\bimport\s+|\bfrom\s+)\s*['"]([^'"\n]+)['"]"""
_NODE_ENDINGS = ("", ".js", ".mjs", ".cjs", ".ts", ".mts", ".json", "/index.js", "/index.ts")
_MODULE_ENDINGS = (".py", ".pyc", ".so", ".pyd")
"""Files that Python imports. An extension module comes before the source beside it."""
_STANDARD = sys.stdlib_module_names - {"test"}
"""The standard library, but for its own tests, which nothing imports, and whose name many projects use."""


class ScriptDependencies(NamedTuple):
    """What scripts run in turn."""

    files: tuple[Path, ...]
    """The scripts themselves come first."""
    unseen: tuple[str, ...]
    """What cannot be found without running them, in words."""
    started: tuple[Path, ...] = ()
    """Those of the files that are started, not imported."""
    shadows: tuple[Path, ...] = ()
    """Those of the files that Python takes for modules of its standard library."""
    beside: tuple[Path, ...] = ()
    """Further modules that Python would take for installed ones, which import each other: their names count."""
    searched: tuple[Path, ...] = ()
    """The directories, also missing ones, in which a new file might be taken for one of these."""


class _Run(NamedTuple):
    """One thing that a script runs: the places where it may be, the first that exists counts; and words otherwise."""

    places: tuple[Path, ...]
    words: str = ""
    is_import: bool = False


def find_dependencies(
    project: Path,
    scripts: Iterable[Path],
    *,
    commands: Iterable[Sequence[str]] = (),
    directory: Path | None = None,
    has_safe_path: bool = False,
    follows: Callable[[Path], bool] = lambda _path: True,
) -> ScriptDependencies:
    """Find the files that these scripts run: those of the project, and scripts elsewhere.

    `commands` are run in the `directory`, by default the project. With `has_safe_path` Python does not look for modules
    in there. What `follows` denies is found, and not looked into.
    """
    search = _DependencySearch(project, follows, has_safe_path=has_safe_path)
    return search.search(scripts, commands, directory or project)


class _DependencySearch:
    """One search, from the scripts of a command to the last file that they run."""

    def __init__(
        self, project: Path, follows: Callable[[Path], bool], *, has_safe_path: bool
    ) -> None:
        self._project = project
        self._follows = follows
        self._found: dict[Path, None] = {}
        self._started: dict[Path, None] = {}
        self._unseen: dict[str, None] = {}
        self._modules = _Modules(project, has_safe_path=has_safe_path)
        self._searched: dict[Path, None] = {}

    def search(
        self, scripts: Iterable[Path], commands: Iterable[Sequence[str]], directory: Path
    ) -> ScriptDependencies:
        """Look at each script, and at what it runs in turn."""
        waiting = [(path, 0, True) for path in scripts]
        runs = self._modules.in_commands(commands, [directory])
        waiting += [(path, 1, is_started) for path, is_started in self._files_of(runs)]
        shadows: dict[Path, None] = {}
        while waiting or self._modules.has_news:
            new = [each for each in self._modules.find_shadows() if each not in shadows]
            shadows |= dict.fromkeys(new)
            waiting += [(path, 1, False) for path in new]
            if waiting and not self._look_at(*waiting.pop(0), waiting):
                break
        return ScriptDependencies(
            tuple(self._found),
            tuple(self._unseen),
            tuple(self._started),
            tuple(shadows),
            tuple(each for each in self._modules.find_beside() if each not in self._found),
            tuple({**self._searched, **self._modules.searched}),
        )

    def _look_at(
        self, path: Path, depth: int, is_started: bool, waiting: list[tuple[Path, int, bool]]
    ) -> bool:
        """Add what a file runs; False if there is too much of it."""
        if path in self._found:
            return True
        if len(self._found) >= _MAX_FILES or depth > _MAX_DEPTH:
            self._unseen[f"more than {_MAX_FILES} files"] = None
            return False
        self._found[path] = None
        if is_started:
            self._started[path] = None
        if self._follows(path):
            runs = _runs(path, self._project, self._modules, is_started=is_started)
            shown = _display_path(path, self._project)
            waiting += [
                (each, depth + 1, was_started) for each, was_started in self._files_of(runs, shown)
            ]
        return True

    def _files_of(self, runs: Iterable[_Run], shown: str = "") -> Iterator[tuple[Path, bool]]:
        for run in islice(dict.fromkeys(runs), _MAX_RUNS):
            self._searched |= dict.fromkeys(each.parent for each in run.places)
            there = next((each for each in run.places if _is_file(each, self._project)), None)
            if there is not None:
                yield there, not run.is_import
            elif run.words:
                self._unseen[f"{shown}: {run.words}"] = None


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


def _runs(path: Path, project: Path, modules: _Modules, *, is_started: bool) -> Iterator[_Run]:
    try:
        with path.open("rb") as file:
            whole = file.read(_MAX_BYTES).decode(errors="replace").replace("\\\n", " ")
    except OSError:
        return
    text = "\n".join(line[:_MAX_LINE] for line in whole.split("\n"))
    kind = _kind_of(path.name) or _kind_by_first_line(text)
    if kind == "shell":
        yield from _in_shell(text, path, project, modules)
    elif kind == "python":
        yield from modules.in_file(whole, path, is_started=is_started)
    elif kind == "node":
        for name in re.findall(_REQUIRED, text):
            if name.startswith("."):
                base = os.path.normpath(path.parent / name)
                yield _Run(tuple(Path(base + ending) for ending in _NODE_ENDINGS))


def is_python(path: Path) -> bool:
    """Whether a file is a Python script, by its name or its first line."""
    if _kind_of(path.name):
        return _kind_of(path.name) == "python"
    try:
        with path.open("rb") as file:
            return _kind_by_first_line(file.read(_MAX_LINE).decode(errors="replace")) == "python"
    except OSError:
        return False


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


def _in_shell(text: str, path: Path, project: Path, modules: _Modules) -> Iterator[_Run]:
    search = StartSearch({"0": UNKNOWN})
    search.search(text)
    yield from modules.in_commands(search.commands, [project, path.parent], search.texts)
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


class _Modules:
    """The modules that Python code imports, and others that would be imported in their place."""

    def __init__(self, project: Path, *, has_safe_path: bool) -> None:
        self._project = project
        self._has_safe_path = has_safe_path
        self._listings: dict[Path, dict[str, list[Path]]] = {}
        self._first: dict[Path, None] = {}
        """The directories that Python searches before its standard library."""
        self._has_others = False
        """Whether modules are imported that are installed, as far as that is seen."""
        self.has_news = False
        """Whether there are directories in which no shadows were looked for."""

    @property
    def searched(self) -> dict[Path, None]:
        """The directories that were looked into."""
        return dict.fromkeys(self._listings)

    def in_file(self, text: str, path: Path, *, is_started: bool) -> Iterator[_Run]:
        """What a Python file imports."""
        imports = _imports(text)
        if imports is None:
            yield _Run((), "it is not Python code that can be read here")
        if is_started:
            self._add_first(Path(os.path.realpath(path)).parent)
            self._add_first(path.parent)
        for module, names, level in imports or ():
            if level:
                place = path.parents[min(level, len(path.parents)) - 1]
                yield from self._import_from(place, module, names)
            else:
                folders = [path.parent, self._project, self._project / "src"]
                folders += _folders_above(path, self._project)
                yield from self._import(module, names, folders)

    def in_commands(
        self,
        commands: Iterable[Sequence[str]],
        directories: Sequence[Path],
        texts: Iterable[str] = (),
    ) -> Iterator[_Run]:
        """What Python imports that is given its code on a command line, or on its input."""
        codes = [code for argv in commands if (code := _python_code(argv)) is not None]
        if self._has_safe_path or not codes:
            return
        for each in directories:
            self._add_first(each)
        folders = [*directories, self._project, self._project / "src"]
        for code in (*codes, *texts):
            for module, names, level in _imports(code) or ():
                if not level:
                    yield from self._import(module, names, folders)

    def find_shadows(self) -> Iterator[Path]:
        """The files that are imported in the place of the standard library."""
        self.has_news = False
        for place in list(self._first):
            for name in sorted(_STANDARD & self._listing(place).keys()):
                yield from self._files_of(place, name)

    def find_beside(self) -> Iterator[Path]:
        """All modules in the directories that come first, if there are installed ones that they may replace."""
        for place in self._first if self._has_others else ():
            for name in sorted(filter(str.isidentifier, self._listing(place))):
                yield from self._files_of(place, name)

    def _add_first(self, place: Path) -> None:
        if place not in self._first:
            self._first[place] = None
            self.has_news = True

    def _import(self, module: str, names: tuple[str, ...], folders: list[Path]) -> Iterator[_Run]:
        """A module, the packages that contain it, and modules in it: Python runs each of them."""
        top, parts = module.partition(".")[0], module.split(".")
        if top in sys.stdlib_module_names:
            folders = folders[:1]
        runs: list[_Run] = []
        for place in dict.fromkeys(folders):
            for count in range(1, len(parts) + 1):
                runs += self._module(place, ".".join(parts[:count]))
            if names:
                runs += self._import_from(place, module, names)
        self._has_others |= not runs and top not in sys.stdlib_module_names
        yield from runs

    def _import_from(self, place: Path, module: str, names: Iterable[str]) -> Iterator[_Run]:
        """The modules that are imported from a package."""
        if module:
            yield from self._module(place, module)
        base = place.joinpath(*module.split(".")) if module else place
        for name in names:
            yield from self._module(base, name)

    def _module(self, place: Path, module: str) -> Iterator[_Run]:
        *packages, name = module.split(".")
        for path in self._files_of(place.joinpath(*packages), name):
            yield _Run((path,), is_import=True)

    def _files_of(self, place: Path, name: str) -> list[Path]:
        """All files that Python may load for a module: which of them is first depends on the interpreter."""
        listing = self._listing(place)
        if name not in listing:
            return []
        return [*listing[name], *self._listing(place / name).get("__init__", ())]

    def _listing(self, place: Path) -> dict[str, list[Path]]:
        """The names in a directory up to their first dot, with the files that are modules."""
        known = self._listings.get(place)
        if known is not None:
            return known
        found: dict[str, list[Path]] = {}
        try:
            for name in sorted(os.listdir(place)):
                files = found.setdefault(name.partition(".")[0], [])
                if name.endswith(_MODULE_ENDINGS):
                    files.append(place / name)
        except (OSError, ValueError):
            pass
        self._listings[place] = found
        return found


def _python_code(argv: Sequence[str]) -> str | None:
    """The code that Python is given on a command line, empty if it reads that; None if it is given a file.

    A module (`-m`) is code that imports it. With `-I` and `-P` Python does not search the directory it is in.
    """
    if not re.fullmatch(_PYTHON_ALONE, name_of(argv)):
        return None
    for place, word in enumerate(argv[1:], start=1):
        if argv[place - 1] in HAVE_VALUES:
            continue
        if re.fullmatch(r"-[A-Za-z]*[IP][A-Za-z]*", word):
            return None
        following = "".join(argv[place + 1 : place + 2])
        if re.match(r"-[A-Zbdhiqsuvx]*c", word):
            return word.partition("c")[2] or following
        if re.match(r"-[A-Zbdhiqsuvx]*m", word):
            return f"import {word.partition('m')[2] or following}"
        if not word.startswith("-"):
            return None
    return ""


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
            inside = (base / name).rglob("*")
            yield from sorted(path for path in inside if _is_module(path))
        yield from sorted(path for path in base.glob(f"{name}.*") if _is_module(path))


def _is_module(path: Path) -> bool:
    """Whether it is loaded as a module: as source, or compiled for the machine. Our loader reads no bytecode."""
    return path.suffix in (".py", ".so", ".pyd") and path.is_file()


def _imported_names(path: Path) -> list[str]:
    try:
        imports = _imports(path.read_bytes()) or []
    except OSError:
        return []
    return [each.module.partition(".")[0] for each in imports if not each.level]
