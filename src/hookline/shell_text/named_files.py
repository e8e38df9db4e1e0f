"""The files of code that a command line names. Trust in a hook or an MCP server is bound to them.

A word is in the role of a program or a script, or it is any other. Which it is decides only how much is bound: the role
may be guessed wrongly, so each word that is a file of code counts.

What a script loads in turn is not looked for: nobody can imitate all the ways in which interpreters find files. It is
code that the user starts, as `make` is. `files = [...]` of a hook or a server binds what else is to be bound.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from hookline.shell_text.command_search import CommandSearch, TooMuch
from hookline.shell_text.reader import UNKNOWN, PipelineStage, TooDeep
from hookline.shell_text.runners import SHELLS, can_run_code, can_run_input, name_of

MAX_CODE = 1_000
"""Files of a directory that are hashed. They are read before each run of a hook."""
GONE = "gone"
"""Stands for the hash of a file that is not there."""
_MAX_BYTES = 64 << 20
"""A larger file is known by its size and its time: nobody is to wait while all of it is read."""
_MAX_LINKS = 40
_MAX_PLACES = 100
_MAX_PATH = 1_000
_WORDS = re.compile(r"[^\s'\"`;|&<>(){}=:,!]+")
_OUTPUT = re.compile(r">{1,2}\|?\s*[^\s;|&<>()]+")
"""Where a command writes: that is another after each run, and is not run."""
_VARIABLE = re.compile(r"\$\{?(?:env:)?(\w+)\}?")
_PATTERN = re.compile(r"[*?\[]")
_NO_PATH = re.compile(r"[\0\n'\"`;|&<>(){}*?\[\]$]|://")
_NOT_FOR_SCRIPTS = re.compile(r"eval|make|[gm]?awk")
"""Programs that run code, and whose first argument is no script."""
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_PYTHON_CODE = re.compile(r"-[bBdEhiIOPqRsSuvVx]*[cm].*|-")
_MODULE = re.compile(r"-[bBdEhiIOPqRsSuvVx]*m(.*)")
_SHELL_CODE = re.compile(r"-[A-Za-z]*[cs][A-Za-z]*|-")
_OTHER_CODE = re.compile(r"-[ailnpw0]*e|-p|--(?:eval|print)(?:=.*)?|-")
"""Options of interpreters after which there is no script: the code is written there, or comes from elsewhere."""
_CODE = frozenset(
    ".sh .bash .zsh .ksh .fish .nu .py .pyw .pyc .so .pyd .pth .js .mjs .cjs .ts .mts .cts .tsx .jsx .node .rb .pl .pm "
    ".php .lua .tcl .ps1 .psm1 .bat .cmd .awk .sed .jq .r .jl .go .rs .java .jar .kts .groovy .scala .swift .dart .exs "
    ".ex .clj .bb .hs .ml .el .vim .bats .mk .wasm .exe".split()
)
_DATA = frozenset(
    ".log .txt .md .rst .json .jsonl .ndjson .csv .tsv .pid .lock .db .sqlite .sqlite3 .db-wal .db-shm .db-journal "
    ".tmp .bak .out .err .html .css .png .jpg .gif .svg .pdf .ds_store".split()
)
"""Endings of files beside a script that may change. Everything else counts: a script can source any file."""
_INSTALLED = frozenset({"__pycache__", "node_modules", ".git", ".venv", "venv"})
"""Directories whose content changes all the time, or is installed."""


# --- reading a command line ---------------------------------------------------------------------------


class CommandWords(NamedTuple):
    """What the words of a command line are for."""

    programs: tuple[str, ...]
    scripts: tuple[tuple[str, ...], ...]
    """For each interpreter the words of which the first that is a file is its script."""
    words: tuple[str, ...]
    """All words, and the parts of them that may be paths."""
    modules: tuple[str, ...]
    """What Python is to run by the name of a module: `python3 -m NAME`."""
    commands: tuple[tuple[str, ...], ...]


def find_command_words(
    command: str | Sequence[str],
    variables: Mapping[str, str],
    values: Iterable[str] = (),
    *,
    is_readable: bool = True,
) -> CommandWords:
    """Read a line for a shell, or the words of one command. `values` are further texts that may name files.

    If it is for another shell than those that we can read, or is not correct, each of its words may be a script.
    """
    line = command if isinstance(command, str) else tuple(command)
    known = {"HOME": os.path.expanduser("~"), **variables}
    return _find_command_words(line, tuple(known.items()), tuple(values), is_readable)


@lru_cache(maxsize=256)
def _find_command_words(
    line: str | tuple[str, ...],
    variables: tuple[tuple[str, str], ...],
    values: tuple[str, ...],
    is_readable: bool,
) -> CommandWords:
    search, known = _ProgramSearch(variables=dict(variables)), dict(variables)
    try:
        if isinstance(line, str):
            search.script(line)
        else:
            search.search_words(list(line), " ".join(line))
        is_readable = is_readable and not search.is_broken
    except (TooMuch, TooDeep):
        is_readable = False
    text = _OUTPUT.sub(" ", line if isinstance(line, str) else "\n".join(line))
    text = _VARIABLE.sub(lambda found: known.get(found[1], UNKNOWN), text)
    parts = dict.fromkeys(_WORDS.findall("\n".join((text, *values))))
    if not is_readable:
        search.scripts += [(word,) for word in parts]
    parts |= dict.fromkeys(word for argv in search.commands for word in argv)
    # A path may be joined to an option: `-Chooks`.
    joined = [each for word in parts if word[:1] == "-" for each in (word[2:], word.lstrip("-"))]
    return CommandWords(
        tuple(dict.fromkeys(argv[0] for argv in search.commands)),
        tuple(dict.fromkeys(search.scripts)),
        tuple(filter(None, dict.fromkeys((*parts, *joined)))),
        tuple(dict.fromkeys(name for argv in search.commands for name in _find_modules(argv))),
        tuple(search.commands),
    )


class _ProgramSearch(CommandSearch):
    """Finds what the interpreters in a text are given as scripts."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables)
        self.scripts: list[tuple[str, ...]] = []

    def examine(self, argv: list[str], text: str) -> None:
        """Note the words that may be the script."""
        words, name = script_words(argv), name_of(argv)
        # Options of other interpreters may have files as values: `node -r ./a.js b.js`. Then all of them count.
        is_first = name in SHELLS or _PYTHON.fullmatch(name)
        self.scripts += [words] if is_first else [(word,) for word in words]
        super().examine(argv, text)

    def stage(self, stage: PipelineStage) -> None:
        """Note a script that an interpreter reads as its input: `sh < x.sh`."""
        targets = [target for operator, target in stage.redirects if operator in ("<", "<>")]
        if targets and any(map(can_run_input, self.argvs(stage))):
            self.scripts += [(target,) for target in targets]
        super().stage(stage)


def script_words(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command of which the first that is a file is its script; none if it is given no script.

    A word after an option may be the value of that, so the next word may be the script: `bash -euo pipefail x.sh`.
    """
    name, is_run = name_of(argv), argv[1:2] in (["run"], ("run",))  # `uv run x.py`, `bun run x.ts`
    is_interpreter = can_run_code(argv) and not _NOT_FOR_SCRIPTS.fullmatch(name)
    if not (is_interpreter or is_run or UNKNOWN in argv[0]):
        return ()
    ends = _SHELL_CODE if name in SHELLS else _PYTHON_CODE
    if name not in SHELLS and not _PYTHON.fullmatch(name):
        ends = _OTHER_CODE
    found: list[str] = []
    for before, word in pairwise(argv[1 if is_run else 0 :]):
        if ends.fullmatch(word):
            break
        if not word.startswith(("-", "+")):
            found.append(word)
            if not before.startswith(("-", "+")):
                break
    return tuple(found)


def _find_modules(argv: Sequence[str]) -> Iterator[str]:
    if _PYTHON.fullmatch(name_of(argv)):
        for word, following in pairwise((*argv[1:], "")):
            module = _MODULE.fullmatch(word)
            if module:
                yield module[1] or following
            if _PYTHON_CODE.fullmatch(word):
                return


def runs_project_modules(words: CommandWords) -> bool:
    """Whether Python is to run a module that is not its own, or tests: these are in the project."""
    tops = {module.partition(".")[0] for module in words.modules}
    return bool(tops - (sys.stdlib_module_names - {"unittest", "doctest"}))


# --- the files ----------------------------------------------------------------------------------------


def find_named_files(words: CommandWords, bases: Iterable[Path], project: Path) -> dict[Path, bool]:
    """The files in the role of a program or a script, each with whether it can be run now: of the project, and scripts
    elsewhere.

    In the project a file counts also while it is missing, or is a program that cannot be executed: a command could
    change that, and the hook would run it. Programs of the machine do not count: each update changes them. A path keeps
    its `..` if a link is before one: the link is to be bound too.
    """
    places = _find_places(words, bases)
    found: dict[Path, bool] = {}
    programs = (((word,), os.X_OK) for word in words.programs if "/" in word)
    for choices, needed in (*((each, os.F_OK) for each in words.scripts), *programs):
        for word in choices:
            paths = [path for place in places for path in _find_files(word, place)]
            there = [path for path in paths if os.path.isfile(path)]
            for path in there:
                can_run, is_inside = os.access(path, needed), _is_inside(path, project)
                if is_inside or (can_run and not is_binary(path)):
                    found[path] = found.get(path, False) or can_run
            if _may_be_path(word):
                missing = (path for path in paths if path not in there)
                found |= dict.fromkeys(
                    (path for path in missing if _is_inside(path, project)), False
                )
            if there:
                break
    return found


def _find_places(words: CommandWords, bases: Iterable[Path]) -> list[Path]:
    """The directories that a path may be relative to: any that the line names, as `cd` and `--directory` do."""
    places = dict.fromkeys(bases)
    for word in words.words:
        for place in (*places,):
            path = _resolve(word, place)
            if path is not None and len(places) < _MAX_PLACES and os.path.isdir(path):
                # To `cd` of a shell `..` takes the name of a link away, to all others it is the parent of its target.
                places |= dict.fromkeys((path, Path(os.path.normpath(path))))
    return list(places)


def _may_be_path(word: str) -> bool:
    """Whether a word in the role of a script may be one that is missing: not `pipefail`, code, or data."""
    is_path = ("/" in word or "." in word) and len(word) < _MAX_PATH and not _NO_PATH.search(word)
    return is_path and os.path.splitext(word)[1].lower() not in _DATA


def _resolve(word: str, base: Path) -> Path | None:
    """The path that a word means. What only a shell knows at its beginning may be the directory it is in."""
    _, unknown, rest = word.rpartition(UNKNOWN)
    if unknown and rest[:1] not in ("", "/"):
        return None
    name = rest.lstrip("/") if unknown else os.path.expanduser(word)
    path = base / name
    whole, links = resolve_parents(path)
    return path if links else whole  # the links have to be bound too


def resolve_parents(path: Path) -> tuple[Path, list[Path]]:
    """A path without `..`, as the kernel follows it, and the links before these: there it is the target's parent.

    As a text, `link/../x` is `x`. A hook was bound to that file, and another one was run.
    """
    if ".." not in path.parts:
        return path, []
    at, links = Path(path.anchor), list[Path]()
    for part in path.parts[1:]:
        if part == ".." and os.path.islink(at):
            *passed, at = links_to(at)
            links += passed
        at = at.parent if part == ".." else at / part
    return at, links


def _is_inside(path: Path, project: Path) -> bool:
    return project in resolve_parents(path)[0].parents


def _find_files(word: str, base: Path) -> list[Path]:
    """The files that are run at a path, or at all that a pattern matches. Python runs `__main__.py` of a directory."""
    path = _resolve(word, base)
    if path is None:
        return []
    if _PATTERN.search(word):
        return [Path(each) for each in islice(glob.iglob(str(path)), MAX_CODE)]
    return [path / "__main__.py" if os.path.isdir(path) else path]


def find_bound_paths(words: CommandWords, bases: Sequence[Path], project: Path) -> list[Path]:
    """The programs and scripts with their directories, but for the top directory, and other words that are code.

    The links on the way to all these are among them. The directory of a file that cannot be run now is not.
    """
    found: dict[Path, None] = {}
    for file, can_run in find_named_files(words, bases, project).items():
        for step in (resolve_parents(file)[0], *links_to(file)):
            found[step] = None
            if step.parent != project and (can_run or step.is_symlink()):
                found[step.parent] = None
    for place in _find_places(words, bases):
        for path in (_resolve(word, place) for word in words.words):
            if path is not None and _is_inside(path, project) and _is_code(path):
                found |= dict.fromkeys((resolve_parents(path)[0], *links_to(path)))
    return list(found)


def _is_code(path: Path) -> bool:
    """Whether a file is code: it can be executed, begins with `#!`, or its name says so."""
    if not os.path.isfile(path):
        return False
    if path.suffix.lower() in _CODE or os.access(path, os.X_OK):
        return True
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def links_to(path: Path) -> Iterator[Path]:
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


def expand_directories(paths: Iterable[Path], project: Path) -> list[Path]:
    """Paths with the files of each directory of the project in its place, but for data and logs, which may change."""
    found: dict[Path, None] = {}
    for path in paths:
        is_directory = os.path.isdir(path)
        found |= dict.fromkeys(code_below(path, project) if is_directory else [path])
    return list(found)


def code_below(folder: Path, project: Path) -> Iterator[Path]:
    """What counts in a directory of the project, not more than `MAX_CODE` files; none in one of installed packages."""
    if folder.is_relative_to(project) and not is_installed(folder, project):
        yield from islice(_code_in(folder), MAX_CODE)


def is_installed(folder: Path, project: Path) -> bool:
    """Whether a directory is one of installed packages, or a Python environment, or in one."""
    parts = folder.relative_to(project).parts
    places = (project.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))
    return any(each.name in _INSTALLED or (each / "pyvenv.cfg").is_file() for each in places)


def _code_in(folder: Path) -> Iterator[Path]:
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if name not in _INSTALLED)
        paths = (f"{place}/{name}" for name in sorted(names))
        yield from (Path(path) for path in paths if os.path.isfile(path) and not _is_data(path))


def _is_data(path: str) -> bool:
    """Whether a file beside a script may change: by its name, and because it cannot be executed."""
    name = os.path.basename(path).lower()
    is_named_so = (os.path.splitext(name)[1] or name) in _DATA and name != "package.json"
    return is_named_so and not os.access(path, os.X_OK)


def is_binary(path: Path) -> bool:
    """Whether a file is no text, as far as its beginning shows."""
    try:
        with path.open("rb") as file:
            return b"\0" in file.read(1024)
    except OSError:
        return True


def hash_path(path: Path, project: Path) -> str:
    """The hash of a file, or of all that counts in a directory; a word in its place if it is gone or cannot be read.

    A link to a program, as `.venv/bin/python3` is one, is known by where it leads.
    """
    if os.path.isdir(path):
        files = [(str(each), _hash_file(each)) for each in code_below(path, project)]
        return hashlib.sha256(repr(files).encode(errors="replace")).hexdigest()
    real = os.path.realpath(path)
    return f"link to {real}" if real != str(path) and is_binary(path) else _hash_file(path)


def _hash_file(path: Path) -> str:
    if not os.path.isfile(path):
        # The sandbox holds the place of a missing file by a socket while a command runs.
        return "no file" if os.path.lexists(path) and not path.is_socket() else GONE
    try:
        with path.open("rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            if facts.st_size > _MAX_BYTES:
                return f"{facts.st_size} bytes of {facts.st_mtime_ns}"
            return hashlib.sha256(file.readall()).hexdigest()
    except OSError:
        return "not readable"
