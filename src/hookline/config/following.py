"""What a script runs in turn: the files of its project that it sources, starts or imports, as far as that can be seen.

Only places where something is run count: `source x`, `bash x.sh`, `"$DIR"/x.sh` as a command, `import x`,
`require('./x')`. A name in a list is none: a guard that protects `setup.py` would else lose its trust with every change
of it. What only shows when a script runs is said in words, so that a person can look at it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

_MOST_FILES = 100
_DEEPEST = 8
_LARGEST = 1 << 17
_LONGEST = 2_000
"""Characters of a line that are looked at: nobody writes longer ones, except to keep us busy."""
_MOST_RUNS = 500
_MOST_COMMANDS = 5_000
# Compiled when they are first used: most projects have no script to follow.
_SHELL = r"(?:ba|z|da|k)?sh"
_PYTHON = r"(?:python|pypy)[\d.]*|uv|uvx"
_NODE = r"node|nodejs|bun|deno|tsx|ts-node"
_KINDS = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
    **dict.fromkeys((".py", ".pyw"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"), "node"),
}
_INSIDE = r"(?:[^()\n]|\([^()\n]*\))*"
_INNER = rf"\$\(({_INSIDE})\)"
_QUOTED = r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'"""
_TOKEN = rf"""((?:{_QUOTED}|\$\({_INSIDE}\)|\$\{{[^}}\n]*\}}|[^\s;|&<>()"'`])+)|[;|&()`\n]"""
"""A word of a shell script, or what ends a command."""
_BEFORE = frozenset(
    "if then else elif do while until exec command time nohup ! { export local readonly declare".split()  # noqa: SIM905 - a table of names
)
"""What may stand before a command, or before the assignments that it begins with."""
_ASSIGNED = r"(?s)([A-Za-z_]\w*)=(.*)"
_VARIABLE = r"\$\{?([A-Za-z_]\w*)\}?"
_EXPANDED = r"(?s).*(?:\)|\}|\$\w+|`)"
"""All of a word up to the end of what a shell puts in its place."""
_IMPORT = (
    r"(?m)^[ \t]*(?:import[ \t]+([\w., \t]+)"
    r"|from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]{0,4000}\)|[^\n#;]*))"
)
_REQUIRED = r"""(?:\brequire\s*\(|\bimport\s*\(|\bimport\s+|\bfrom\s+)\s*['"]([^'"\n]+)['"]"""
_NO_SCRIPT_FOR_A_SHELL = ("-c", "-s", "-")
_NO_SCRIPT = ("-c", "-m", "-e", "--eval", "-p", "--print", "-", "pip", "sync", "tool")
_NODE_ENDINGS = ("", ".js", ".mjs", ".cjs", ".ts", ".mts", ".json", "/index.js", "/index.ts")
_RUNNERS = frozenset(
    "npm npx yarn pnpm make just task tox nox pytest cargo go gradle mvn rake bundle pre-commit".split()  # noqa: SIM905 - a table of names
)
"""Programs that run what other files of a project say."""


class Followed(NamedTuple):
    """What scripts run in turn."""

    files: tuple[Path, ...]
    """The scripts themselves first."""
    unseen: tuple[str, ...]
    """What they run besides, in words."""


class _Run(NamedTuple):
    """One thing that a script runs: where it may be, of which the first counts that is there; or words, if unseen."""

    places: tuple[Path, ...]
    words: str = ""


def follow(project: Path, scripts: Iterable[Path]) -> Followed:
    """The files of a project that are run when these scripts are."""
    found: dict[Path, None] = {}
    unseen: dict[str, None] = {}
    waiting = [(path, 0) for path in scripts]
    while waiting:
        path, depth = waiting.pop(0)
        if path in found:
            continue
        if len(found) >= _MOST_FILES or depth > _DEEPEST:
            unseen[f"more than {_MOST_FILES} files"] = None
            break
        found[path] = None
        for run in islice(dict.fromkeys(_runs(path, project)), _MOST_RUNS):
            there = next((each for each in run.places if _is_file(each, project)), None)
            if there is not None:
                waiting.append((there, depth + 1))
            elif run.words:
                unseen[f"{_shown(path, project)}: {run.words}"] = None
    return Followed(tuple(found), tuple(unseen))


def files_of_program(module: str) -> tuple[str, ...]:
    """The files that `python -m module` runs first, as they are named in the directory that it is looked for in."""
    parts = module.split(".")
    packages = ["/".join((*parts[:count], "__init__.py")) for count in range(1, len(parts) + 1)]
    path = "/".join(parts)
    return (f"{path}.py", f"{path}/__main__.py", *packages)


def runs_what_others_say(program: str) -> bool:
    """Whether a program is one that runs what other files of a project say, such as `npm` and `make`."""
    return os.path.basename(program) in _RUNNERS


def _is_file(path: Path, project: Path) -> bool:
    try:
        return path.is_relative_to(project) and path.is_file()
    except (OSError, ValueError):
        return False


def _shown(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def _runs(path: Path, project: Path) -> Iterator[_Run]:
    try:
        with path.open("rb") as file:
            whole = file.read(_LARGEST).decode(errors="replace").replace("\\\n", " ")
    except OSError:
        return
    text = "\n".join(line[:_LONGEST] for line in whole.split("\n"))
    kind = _KINDS.get(path.suffix.lower()) or _by_first_line(text)
    if kind == "shell":
        yield from _in_shell(text, path, project)
    elif kind == "python":
        yield from _in_python(text, path, project)
    elif kind == "node":
        for name in re.findall(_REQUIRED, text):
            if name.startswith("."):
                base = os.path.normpath(path.parent / name)
                yield _Run(tuple(Path(base + ending) for ending in _NODE_ENDINGS))


def _by_first_line(text: str) -> str:
    line = text.partition("\n")[0] if text.startswith("#!") else ""
    names = [os.path.basename(word) for word in line[2:].split()]
    for kind, pattern in (("shell", _SHELL), ("python", _PYTHON), ("node", _NODE)):
        if any(re.fullmatch(pattern, name) for name in names):
            return kind
    return ""


# --- shell ------------------------------------------------------------------------------------------


def _in_shell(text: str, path: Path, project: Path) -> Iterator[_Run]:
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    values: dict[str, str] = {}
    whole = "\n".join((text, *re.findall(_INNER, text), ""))
    for words in islice(_commands(whole, values), _MOST_COMMANDS):
        yield from _as_module(words, project)
        place = _what_runs(words)
        if place is not None:
            yield from _named(words[place], place > 0, values, path, project)
        elif runs_what_others_say(words[0]):
            yield _Run((), f"{words[0]} runs what other files say")


def _commands(text: str, values: dict[str, str]) -> Iterator[list[str]]:
    """The commands of a shell script, each as its words; notes what is assigned on the way."""
    words: list[str] = []
    for match in re.finditer(_TOKEN, text):
        word = match[1]
        if word is None:
            if words:
                yield words
            words = []
        elif words or word not in _BEFORE:
            assigned = None if words else re.fullmatch(_ASSIGNED, word)
            if assigned is not None:
                values[assigned[1]] = assigned[2]
            else:
                words.append(word)


def _as_module(words: list[str], project: Path) -> Iterator[_Run]:
    if re.fullmatch(_PYTHON, os.path.basename(words[0])) and "-m" in words[:-1]:
        for name in files_of_program(words[words.index("-m") + 1]):
            yield _Run((project / name, project / "src" / name))


def _what_runs(words: list[str]) -> int | None:
    """Which word of a command names the file that is run, if one does."""
    program = os.path.basename(_unquoted(words[0]))
    if words[0] not in ("source", ".") and not any(
        re.fullmatch(kind, program) for kind in (_SHELL, _PYTHON, _NODE)
    ):
        return 0 if "/" in words[0] or words[0].startswith(('"$', "$")) else None
    is_shell = re.fullmatch(_SHELL, program) is not None
    for place, word in enumerate(words[1:], 1):
        if word in (_NO_SCRIPT_FOR_A_SHELL if is_shell else _NO_SCRIPT):
            return None
        if not word.startswith("-") and word not in ("run", "python", "python3"):
            return place
    return None


def _named(
    word: str, is_given: bool, values: dict[str, str], path: Path, project: Path
) -> Iterator[_Run]:
    """The file that a word names, which may begin with something that only a shell can work out."""
    plain = _unquoted(word)
    variable = re.fullmatch(_VARIABLE, plain)
    if variable and variable[1] in values:
        plain = _unquoted(values[variable[1]])
    tail = re.sub(_EXPANDED, "", plain, count=1)
    if tail == plain:  # nothing to be worked out
        bases = [project, path.parent]
    elif tail.startswith("/"):
        bases, tail = [path.parent, *_above(path, project)], tail.lstrip("/")
    else:
        bases = []
    words = f"{plain} is known only when it runs" if is_given and tail != plain else ""
    yield _Run(tuple(Path(os.path.normpath(base / tail)) for base in bases), words)


def _above(path: Path, project: Path) -> Iterator[Path]:
    for folder in path.parent.parents:
        if not folder.is_relative_to(project):
            return
        yield folder


def _unquoted(word: str) -> str:
    return word.replace('"', "").replace("'", "")


# --- Python -----------------------------------------------------------------------------------------


def _in_python(text: str, path: Path, project: Path) -> Iterator[_Run]:
    for plain, dots, module, names in re.findall(_IMPORT, text):
        if plain:
            for each in plain.split(","):
                yield from _imported(each.split()[0] if each.split() else "", path, project)
        elif dots:
            base = path.parents[min(len(dots), len(path.parents)) - 1]
            yield from _from(base, module, names)
        else:
            yield from _imported(module, path, project)
            for place in _module_places(module, path, project):
                yield from _from(place, module, names)


def _imported(module: str, path: Path, project: Path) -> Iterator[_Run]:
    """A module and the packages that it is in, each of which is run."""
    parts = module.split(".")
    for place in _module_places(module, path, project):
        for count in range(1, len(parts) + 1):
            yield _Run(tuple(_of_module(place, ".".join(parts[:count]))))


def _from(place: Path, module: str, names: str) -> Iterator[_Run]:
    """What is imported from a package: its modules, if they are that."""
    if module:
        yield _Run(tuple(_of_module(place, module)))
    base = place.joinpath(*module.split(".")) if module else place
    for name in re.findall(r"(\w+)(?:[ \t]+as[ \t]+\w+)?[ \t]*(?:,|\)|\n|$)", names):
        yield _Run(tuple(_of_module(base, name)))


def _module_places(module: str, path: Path, project: Path) -> list[Path]:
    """Where a module is looked for: beside the script, and, if it is not one of Python's own, in the project."""
    if not module:
        return []
    if module.partition(".")[0] in sys.stdlib_module_names:
        return [path.parent]
    return list(dict.fromkeys((path.parent, project, project / "src", *_above(path, project))))


def _of_module(place: Path, module: str) -> Iterator[Path]:
    base = place.joinpath(*module.split("."))
    yield base.with_name(f"{base.name}.py")
    yield base / "__init__.py"
