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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hookline.shell_text import UNKNOWN
from hookline.shell_text.runners import SHELLS, has_value, name_of
from hookline.shell_text.started import StartSearch, files_of_program, is_task_runner

_MAX_FILES = 100
_MAX_DEPTH = 8
_MAX_BYTES = 1 << 17
_MAX_LINE = 2_000
"""Characters of a line that are read. A longer line is an attempt to keep us busy."""
_MAX_OUTSIDE = 1 << 20
"""Bytes of a script outside of the project."""
_OF_THE_SYSTEM = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")
_MAX_SHOWN = 100
_MAX_LINKS = 40
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
_NODE_ENDINGS = (
    "", ".js", ".mjs", ".cjs", ".ts", ".mts", ".node", "/package.json", "/index.js", "/index.ts"
)  # fmt: skip
_MODULE_ENDINGS = (".py", ".pyc", ".so", ".pyd")
"""Files that Python imports. An extension module comes before the source beside it."""
_SEARCH_VARIABLES = frozenset(
    "PATH PYTHONPATH PYTHONHOME NODE_PATH BASH_ENV LD_LIBRARY_PATH LD_PRELOAD PERL5LIB RUBYLIB".split()  # noqa: SIM905 - a table of names
)
"""Variables with directories that programs load from, or with files that they load: a name in them needs no slash."""
_CODE = frozenset(
    ".sh .bash .zsh .fish .py .pyw .pyc .so .pyd .pth .js .mjs .cjs .ts .mts .cts .tsx .jsx .node .rb .pl .pm .php "  # noqa: SIM905 - a table of names
    ".lua .ps1 .psm1 .bat .cmd .awk .sed .jq .r .go .rs .java .kts .exs .ex .wasm .exe".split()
)
MAX_CODE = 1_000
_NOT_CODE = frozenset({"__pycache__", "node_modules", ".git", ".venv", "venv"})
"""Directories whose content changes all the time, or is installed."""
_ASSIGNED = r"([A-Za-z_]\w*)\+?=(.*)"
_PROJECT_VARIABLE = r"\b[A-Z]+_PROJECT_DIR\b"
"""A variable for the project's directory: each agent has one of its own."""
_EXPORTS = frozenset({"export", "declare", "typeset", "readonly", "local"})
_NO_LOADERS = frozenset({"[", "[[", "test", "echo", "printf", "cd", "pushd"})
"""Commands of the shell that load nothing that they name."""
_IN_A_VALUE = r"[^\s:=,;]+"


class ScriptDependencies(NamedTuple):
    """What scripts run in turn, and where they load it from."""

    files: tuple[Path, ...]
    """The scripts themselves come first."""
    unseen: tuple[str, ...]
    """What cannot be found without running them, in words."""
    started: tuple[Path, ...] = ()
    """Those of the files that are started or loaded by their paths, not imported by their names."""
    folders: tuple[Path, ...] = ()
    """The directories that these are in, or would be in: who can write there changes what runs."""
    names: tuple[Path, ...] = ()
    """Single files: those that are, or would be, in the project's top directory, and data that variables name."""
    missing: tuple[Path, ...] = ()
    """Files and directories of the project that would be loaded if they were there."""
    exposed: tuple[str, ...] = ()
    """What is loaded from the top directory, where nothing can protect it, in words."""
    links: tuple[Path, ...] = ()
    """Links in the top directory by which something is loaded: they can be replaced."""


class _Run(NamedTuple):
    """One thing that a script runs: the places where it may be, the likely ones first; and words if it is nowhere."""

    places: tuple[Path, ...]
    words: str = ""
    is_import: bool = False
    is_folder: bool = False
    """Whether it is a directory in which programs or modules are searched."""
    is_guess: bool = False
    """Whether it is one of many names, or only a shell knows its directory: what is missing is not held."""


def find_dependencies(
    project: Path,
    scripts: Iterable[Path] = (),
    *,
    searches: Iterable[StartSearch] = (),
    directory: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> ScriptDependencies:
    """Find the files that these scripts and commands run: those of the project, and scripts elsewhere.

    `searches` have read commands that are run in the `directory`, by default the project, with these `variables`.
    """
    search = _DependencySearch(project)
    return search.search(scripts, searches, directory or project, variables)


class _DependencySearch:
    """One search, from the scripts of a command to the last file that they run."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._found: dict[Path, None] = {}
        self._started: dict[Path, None] = {}
        self._unseen: dict[str, None] = {}
        self._modules = _Modules(project)
        self._folders: dict[Path, None] = {}
        self._names: dict[Path, None] = {}
        self._missing: dict[Path, None] = {}
        self._exposed: dict[str, None] = {}
        self._links: dict[Path, None] = {}

    def search(
        self,
        scripts: Iterable[Path],
        searches: Iterable[StartSearch],
        directory: Path,
        variables: Mapping[str, str],
    ) -> ScriptDependencies:
        """Look at each script, and at what it runs in turn."""
        waiting = [(path, 0, True) for path in scripts]
        for search in searches:
            runs = _in_commands(search, directory / "command", self._project, self._modules)
            waiting += [(path, 1, is_started) for path, is_started in self._files_of(runs)]
        runs = _in_variables(variables.items(), directory / "command", self._project)
        waiting += [(path, 1, is_started) for path, is_started in self._files_of(runs)]
        while waiting and self._look_at(*waiting.pop(0), waiting):
            pass
        return ScriptDependencies(
            files=tuple(self._found),
            unseen=tuple(self._unseen),
            started=tuple(self._started),
            folders=tuple(self._folders),
            names=tuple(self._names),
            missing=tuple(self._missing),
            exposed=tuple({**self._exposed, **self._modules.exposed}),
            links=tuple(self._links),
        )

    def _look_at(
        self, path: Path, depth: int, is_started: bool, waiting: list[tuple[Path, int, bool]]
    ) -> bool:
        """Add what a file runs; False if there is too much of it."""
        if is_started:
            self._started[path] = None
            self._add_place(path)
        if path in self._found:
            return True
        if len(self._found) >= _MAX_FILES or depth > _MAX_DEPTH:
            self._unseen[f"more than {_MAX_FILES} files"] = None
            return False
        self._found[path] = None
        real = Path(os.path.realpath(path))
        if real != path and _is_file(real, self._project):
            waiting.append((real, depth, is_started))  # node searches from there
        runs = _runs(path, self._project, self._modules)
        shown = _display_path(path, self._project)
        waiting += [
            (each, depth + 1, was_started) for each, was_started in self._files_of(runs, shown)
        ]
        return True

    def _files_of(self, runs: Iterable[_Run], shown: str = "") -> Iterator[tuple[Path, bool]]:
        for run in islice(dict.fromkeys(runs), _MAX_RUNS):
            there: list[Path] = []
            for place in run.places:
                path = self._file_at(place)
                if run.is_folder and _exists(place):
                    self._add_folder(place)
                elif path is not None and not run.is_folder:
                    there.append(path)
                # A missing file counts where it would come before one that there is.
                elif not (run.is_import or there or _exists(place)):
                    self._add_missing(place, is_held=not run.is_guess)
            yield from ((each, not run.is_import) for each in there)
            if not there and run.words:
                self._unseen[f"{shown}: {run.words}" if shown else run.words] = None

    def _file_at(self, place: Path) -> Path | None:
        """The file that is run at a place. Python runs `__main__.py` of a directory."""
        found = (each for each in (place, place / "__main__.py") if _is_file(each, self._project))
        return next(found, None)

    def _add_place(self, path: Path) -> None:
        """Note where a file is loaded from, and each link on the way to it: whoever writes there replaces it."""
        for each in way_of(path):
            if each.parent != self._project:
                self._folders[_environment_of(each, self._project) or each.parent] = None
            else:
                (self._links if each.is_symlink() else self._names)[each] = None

    def _add_missing(self, path: Path, *, is_held: bool) -> None:
        """Note what would be loaded. It is held if that keeps nobody from making the directory it would be in."""
        if not path.is_relative_to(self._project):
            return
        self._missing[path] = None
        if is_held and path.parent == self._project:
            self._names[path] = None
        elif is_held and path.parent.is_dir():
            self._folders[path.parent] = None

    def _add_folder(self, folder: Path) -> None:
        """Note a directory in which something is searched, or a file that a variable names."""
        *links, real = way_of(folder)
        for each in links:
            self._add_place(each)
        for each in (folder, real):
            if each == self._project:
                self._exposed["programs or modules are searched in the top directory"] = None
            elif each.is_dir():
                self._folders[_environment_of(each / "x", self._project) or each] = None
            else:
                self._names[each] = None


def way_of(path: Path) -> Iterator[Path]:
    """Each symbolic link on the way to a file, and at last its real path."""
    at, waiting, links = Path(path.anchor), list(reversed(path.parts[1:])), 0
    while waiting:
        part = waiting.pop()
        at = at.parent if part == ".." else at / part
        if part != ".." and at.is_symlink() and links < _MAX_LINKS:
            yield at
            links += 1
            target = Path(os.readlink(at))
            at = Path(target.anchor) if target.is_absolute() else at.parent
            waiting += reversed(target.parts[bool(target.anchor) :])
    yield at


def code_below(folders: Iterable[Path]) -> Iterator[Path]:
    """All code in some directories, without installed packages and bytecode: any of it may be loaded.

    Of each directory not more than `MAX_CODE` files, which are read at every start.
    """
    for folder in dict.fromkeys(folders):
        if folder.name not in _NOT_CODE and not (folder / "pyvenv.cfg").is_file():
            yield from islice(_code_in(folder), MAX_CODE)


def _code_in(folder: Path) -> Iterator[Path]:
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if name not in _NOT_CODE)
        yield from filter(is_code, (Path(place, name) for name in sorted(names)))


def is_code(path: Path) -> bool:
    """Whether a file may be loaded as code: by its name, or because it has no ending and can be executed."""
    ending = path.suffix.lower()
    if (
        ending not in _CODE
        and path.name != "package.json"
        and (ending or not os.access(path, os.X_OK))
    ):
        return False
    return path.is_file()


def _environment_of(path: Path, project: Path) -> Path | None:
    """The directory of installed packages, or the Python environment, that a file is in."""
    for folder in path.parents:
        if folder == project:
            return None
        if folder.name == "node_modules" or (folder / "pyvenv.cfg").is_file():
            return folder
    return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


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


def _runs(path: Path, project: Path, modules: _Modules) -> Iterator[_Run]:
    try:
        with path.open("rb") as file:
            whole = file.read(_MAX_BYTES).decode(errors="replace").replace("\\\n", " ")
    except OSError:
        return
    text = "\n".join(line[:_MAX_LINE] for line in whole.split("\n"))
    kind = _kind_of(path.name) or _kind_by_first_line(text)
    for word in text.partition("\n")[0][2:].split() if text.startswith("#!") else ():
        program = Path(os.path.normpath(project / word))
        if "/" in word and program.is_relative_to(project) and _exists(program):
            yield _Run((program,))
    if kind == "shell":
        yield from _in_shell(text, path, project, modules)
    elif kind == "python":
        yield from modules.in_file(whole, path)
    elif kind == "node":
        for name in re.findall(_REQUIRED, text):
            if name.startswith(".") and not name.endswith(".json"):  # that is data
                base = os.path.normpath(path.parent / name)
                places = tuple(Path(base + ending) for ending in _NODE_ENDINGS)
                yield _Run(places, is_guess=True)
            elif name.startswith("#"):
                yield _Run((), f"package.json says which file {name} is")


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
    ours = re.findall(_PROJECT_VARIABLE, text)
    search = StartSearch({"0": UNKNOWN, **dict.fromkeys(ours, str(project))})
    search.search(text)
    yield from _in_commands(search, path, project, modules)
    if search.is_cut:
        yield _Run((), "it is too long or nested too deeply to be read completely")


def _in_commands(
    search: StartSearch, path: Path, project: Path, modules: _Modules
) -> Iterator[_Run]:
    """What commands in a script run, or those in a file that we only imagine: the line of a hook."""
    words = [word for argv in search.commands for word in argv]
    moves = [argv[1] for argv in search.commands if argv[0] in ("cd", "pushd") and len(argv) > 1]
    bases = [place for word in moves for place in _find_named_file(word, "", path, project).places]
    bases = [place for place in bases if place.is_relative_to(project) and _is_directory(place)]
    folders = [
        place
        for word in islice(dict.fromkeys(words), _MAX_RUNS)
        for place in _find_named_file(word, "", path, project).places
        if place != project and place.is_relative_to(project) and _is_directory(place)
    ]
    places = [*folders, path.parent, project, project / "src"]
    yield from modules.in_commands(search.commands, places, search.texts)
    assigned = filter(None, (re.fullmatch(_ASSIGNED, word, re.S) for word in words))
    given = [each for each in search.assigned if _is_given(each[0], search)]
    yield from _in_variables([*given, *((found[1], found[2]) for found in assigned)], path, project)
    yield from _in_words(search.commands, path, project)
    modules_run = {name for argv in search.commands for name in _files_of_module(argv)}
    for word, written, is_script in search.started:
        if word in modules_run:
            continue
        if is_script or "/" in word or UNKNOWN in word or _kind_of(word):
            run = _find_named_file(word, written if is_script else "", path, project, bases)
            further = (
                Path(os.path.normpath(each / word)) for each in folders if UNKNOWN not in word
            )
            # Without a text it is a word of a line that cannot be read; `run` may be a word of a program.
            is_path = written and ("/" in word or "." in word)
            likely = run.places if is_path else filter(_exists, run.places)
            yield run._replace(places=(*filter(_exists, further), *likely))
        elif is_task_runner(word):
            yield _Run((), f"{os.path.basename(word)} runs commands from other files")


def _is_given(name: str, search: StartSearch) -> bool:
    """Whether a program gets a variable that a shell sets: it is exported, or stands before the program."""
    if name in _SEARCH_VARIABLES or name == "HOME":
        return True
    is_exported = any(argv[0] in _EXPORTS and name in argv for argv in search.commands)
    return is_exported or any(f"{name}=" in each.text for each in search.started)


def _in_variables(
    variables: Iterable[tuple[str, str]], path: Path, project: Path
) -> Iterator[_Run]:
    """The directories in which variables make programs search, and what else of the project their values name."""
    for name, value in variables:
        if name in _SEARCH_VARIABLES:
            for entry in value.split(":"):
                if entry.strip(UNKNOWN):
                    run = _find_named_file(entry, "", path, project)
                    places = list(filter(_exists, run.places)) or run.places
                    for each in places:
                        is_folder = not _is_file(each, project)
                        is_guess = run.is_guess or (is_folder and not each.suffix)
                        yield _Run((each,), is_folder=is_folder, is_guess=is_guess)
            continue
        entries = [each for each in re.findall(_IN_A_VALUE, value) if "/" in each]
        for entry in (*entries, *(each[2:] for each in entries if each.startswith("-"))):
            places = (
                _find_named_file(entry, "", path, project).places if UNKNOWN not in entry else ()
            )
            for place in places:
                if place != project and place.is_relative_to(project) and _exists(place):
                    yield _Run((place,), is_folder=not is_code(place))


def _in_words(commands: Iterable[Sequence[str]], path: Path, project: Path) -> Iterator[_Run]:
    """The code of the project that words name by a path, whatever the program does with it."""
    words = (word for argv in commands if argv[0] not in _NO_LOADERS for word in argv[1:])
    for word in islice(dict.fromkeys(words), _MAX_RUNS):
        if "/" in word and UNKNOWN not in word and len(word) < _MAX_LINE:
            for place in _find_named_file(word, "", path, project).places:
                if place.is_relative_to(project) and _exists(place) and is_code(place):
                    yield _Run((place,))


def _find_named_file(
    word: str, written: str, path: Path, project: Path, moves: Iterable[Path] = ()
) -> _Run:
    """The file that a word names, also after a `cd`. The word may begin with a value that only the shell knows."""
    _, mark, tail = word.replace("\0", "").rpartition(UNKNOWN)
    bases: list[Path] = []
    if not mark:
        bases = [project, path.parent, *moves]
        if tail.startswith("~/"):  # `$HOME/` is read as this
            tail = os.path.expanduser(tail)
    elif tail.startswith("/"):
        bases, tail = [path.parent, *_folders_above(path, project), project], tail.lstrip("/")
    shown = " ".join(written.split())[:_MAX_SHOWN]
    is_unknown = bool(mark) or any(sign in word for sign in "*?[")
    unseen = f"the file in `{shown}` is known only when it runs" if written and is_unknown else ""
    places = tuple(Path(os.path.normpath(base / tail)) for base in bases)
    if not mark:
        unseen = next(filter(None, (describe_program(each, project) for each in places)), "")
    return _Run(places, unseen, is_guess=bool(mark))


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
    """The modules that Python code imports.

    Python does not search the directory that it is started in, and nothing in the top directory of a project: see
    `search_variables` of command hooks. What is imported from there nevertheless is noted.
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        self._listings: dict[Path, dict[str, list[Path]]] = {}
        self.exposed: dict[str, None] = {}
        """What is imported from the top directory of the project, in words."""

    def in_file(self, text: str, path: Path) -> Iterator[_Run]:
        """What a Python file imports."""
        imports = _imports(text)
        if imports is None:
            yield _Run((), "it is not Python code that can be read here")
        if "sys.path" in text:
            yield _Run((), "it changes sys.path, and may import from other directories")
        for module, names, level in imports or ():
            if level:
                place = path.parents[min(level, len(path.parents)) - 1]
                yield from self._import_from(place, module, names)
                continue
            folders = [path.parent, self._project, self._project / "src"]
            folders += _folders_above(path, self._project)
            runs = list(self._import(module, names, folders))
            yield from runs
            if path.parent == self._project and runs:
                self._expose(module)

    def in_commands(
        self,
        commands: Iterable[Sequence[str]],
        directories: Sequence[Path],
        texts: Iterable[str] = (),
    ) -> Iterator[_Run]:
        """What Python imports that is given its code on a command line, or on its input.

        The first directory that has it counts: it comes onto the search path.
        """
        codes = [code for argv in commands if (code := _python_code(argv)) is not None]
        for code in (*codes, *texts) if codes else ():
            for module, names, level in _imports(code) or ():
                for place in directories if not level else ():
                    runs = list(self._import(module, names, [place]))
                    if runs and place == self._project:
                        self._expose(module)
                    # It is not searched in `src`, unless it is installed from there.
                    is_import = place in (self._project, self._project / "src")
                    yield from (run._replace(is_import=is_import) for run in runs)
                    if runs:
                        break

    def _expose(self, module: str) -> None:
        self.exposed[f"the module {module} is in the top directory of the project"] = None

    def _import(self, module: str, names: tuple[str, ...], folders: list[Path]) -> Iterator[_Run]:
        """A module, the packages that contain it, and modules in it: Python runs each of them."""
        top, parts = module.partition(".")[0], module.split(".")
        if top in sys.stdlib_module_names:
            return
        for place in dict.fromkeys(folders):
            for count in range(1, len(parts) + 1):
                yield from self._module(place, ".".join(parts[:count]))
            if names:
                yield from self._import_from(place, module, names)

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


def _files_of_module(argv: Sequence[str]) -> Iterator[str]:
    """The words that stand for the module of `python -m` among what a command starts."""
    code = _python_code(argv) or ""
    for path in (
        files_of_program(code.removeprefix("import ")) if code.startswith("import ") else ()
    ):
        yield from (path, f"src/{path}")


def _python_code(argv: Sequence[str]) -> str | None:
    """The code that Python is given on a command line, empty if it reads that; None if it is given a file.

    A module (`-m`) is code that imports it. With `-I` and `-P` Python does not search the directory it is in.
    """
    if not re.fullmatch(_PYTHON_ALONE, name_of(argv)):
        return None
    for place, word in enumerate(argv[1:], start=1):
        if has_value(argv[0], argv[place - 1]):
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
