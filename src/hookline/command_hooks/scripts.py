"""The files of a project that a hook's command names: all of them, and those that are certainly its scripts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.command_hooks.definition import Handler

if TYPE_CHECKING:
    from hookline.config import ScriptDependencies

_NAMES = r"(?:(?:CLAUDE|GEMINI|CURSOR|COPILOT|HOOKLINE)_PROJECT_DIR|workspacePath|PWD)"
_PATHS = re.compile(rf"\$\{{{_NAMES}(?::?[-=][^}}]*)?\}}|\${_NAMES}")
_ROOTS = re.compile(
    r"\$\{(?:(?:CLAUDE_)?PLUGIN_ROOT|CLAUDE_SKILL_DIR)\}|\$(?:(?:CLAUDE_)?PLUGIN_ROOT|CLAUDE_SKILL_DIR)"
)
"""The folder of a plugin or a skill, in the commands of its hooks."""
_SAYS_WHERE = re.compile(
    r"\$\(\s*(?:git rev-parse --show-toplevel|pwd)\b[^()]*\)|`\s*(?:git rev-parse --show-toplevel|pwd)\b[^`]*`"
)
"""Commands inside of a command that say where the project is."""
_WORDS = re.compile(r"[^\s'\"`;|&<>()=]+")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_ENDS = re.compile(r"[;|&()\n]+|\{|\}|if|then|else|elif|fi|do|done|while|until|!")
_INTERPRETER = re.compile(
    r"(?:ba|z|da|k|fi)?sh|python[\d.]*|pypy\d*|node|nodejs|bun|deno|ruby|perl|php|lua|Rscript|pwsh|powershell|tsx|ts-node"
    r"|uv|uvx|npx|pnpx|poetry|pipenv|source|\."
)
_WRAPPERS = frozenset(
    {"env", "exec", "command", "nohup", "time", "nice", "timeout", "sudo", "stdbuf"}
)
_VERBS = frozenset(
    {"run", "tsx", "ts-node", "python", "python3", "node", "exec", "-s", "--script", "x"}
)
_NO_SCRIPT = ("-c", "-e", "-m", "--eval", "--command", "-Command", "-p", "--print")
_CODE = frozenset(
    ".sh .bash .zsh .fish .py .pyw .js .mjs .cjs .ts .mts .cts .tsx .jsx .rb .pl .pm .php .lua .ps1 .psm1 .bat .cmd "  # noqa: SIM905 - a table of names
    ".awk .sed .jq .r .go .rs .java .kts .exs .ex .wasm .exe".split()
)
_WRITTEN = re.compile(r"(?:\d|&)?>>?[|&]?\s*(?:\"[^\"]*\"|'[^']*'|[^\s;|&<>()]+)")
"""Where a command sends its output to."""
_CONFIGURED = frozenset({".claude", ".codex", ".cursor", ".gemini", ".github", ".hookline"})
_NOT_OURS = frozenset({"__pycache__", "node_modules", ".git", ".venv", "venv"})
_MOST_BESIDE = 200
_DEEPEST = 4
_LARGEST = 64 << 20


def named_files(handler: Handler, project: Path) -> dict[str, str]:
    """The files inside the project that trust is bound to, with their hashes.

    They are those that a command runs, those it names that hold code, what its scripts run in turn, and all code in a
    directory that is there for hooks. What a hook writes, a log say, is not: it would take back its own trust.
    """
    named = _hashed(_words_of(handler), handler, project)
    code = {path: mark for path, mark in named.items() if _holds_code(Path(path))}
    scripts = _run_by(handler, project)
    besides = (*_followed(scripts, project).files, *_for_hooks(scripts, project))
    return {**code, **{str(path): hash_of(path) for path in dict.fromkeys(besides)}}


def scripts_of(handler: Handler, project: Path) -> dict[str, str]:
    """The files inside the project that a command runs, and those beside them that these run, with their hashes.

    What a script runs elsewhere, a module of the project say, is not among them: it may be what the agent works on.
    """
    scripts = _run_by(handler, project)
    folders = {path.parent for path in scripts if path.parent != project}
    return {
        str(path): hash_of(path)
        for path in _followed(scripts, project).files
        if path in scripts or any(path.is_relative_to(folder) for folder in folders)
    }


def not_covered(handler: Handler, project: Path) -> tuple[str, ...]:
    """What a hook runs that its trust is not bound to, in words, as far as that shows."""
    from hookline.config import is_task_runner

    said = [
        f"{os.path.basename(program)} runs what other files say"
        for program in run_programs(handler)
        if is_task_runner(program)
    ]
    return (*dict.fromkeys(said), *_followed(_run_by(handler, project), project).unseen)


def _run_by(handler: Handler, project: Path) -> list[Path]:
    """The files inside the project that a command itself runs."""
    return [Path(path) for path in _hashed(run_programs(handler), handler, project)]


def run_programs(handler: Handler) -> list[str]:
    """The programs that a hook runs, and the scripts that these are given, as it names them."""
    if handler.argv is not None:
        return list(_programs(list(handler.argv), 0))
    return list(_programs_in(_SAYS_WHERE.sub("$PWD", handler.command), 0))


def is_interpreter(program: str) -> bool:
    """Whether a program runs what it is given, so that nothing of a hook shows in itself."""
    return _INTERPRETER.fullmatch(os.path.basename(program)) is not None


def _followed(scripts: list[Path], project: Path) -> ScriptDependencies:
    from hookline.config import find_dependencies  # only where it is needed: it takes a while

    return find_dependencies(project, scripts)


def _for_hooks(scripts: Iterable[Path], project: Path) -> Iterator[Path]:
    """All code in the directories of an agent's configuration that these scripts are in: it is there for them."""
    for folder in dict.fromkeys(filter(None, (_folder_of(path, project) for path in scripts))):
        count = 0
        for place, inner, names in os.walk(folder):
            inner[:] = sorted(name for name in inner if name not in _NOT_OURS)
            for path in (Path(place, name) for name in sorted(names)):
                if path.suffix.lower() in _CODE and path.is_file():
                    yield path
                    count += 1
            if count > _MOST_BESIDE:
                break


def _folder_of(path: Path, project: Path) -> Path | None:
    """`.claude/hooks` for a script anywhere in it; None for one that is somewhere else, or not in a directory there."""
    parts = path.relative_to(project).parts
    if len(parts) > 2 and parts[0] in _CONFIGURED:
        return project / parts[0] / parts[1]
    return None


def programs_of(words: list[str]) -> list[str]:
    """The program that the words of one command run, and the script that it is given, if it is an interpreter."""
    return list(_programs(words, 0))


def with_project(command: str, project: Path) -> str:
    """A command in which the variables that say where the project is are replaced by that."""
    return _PATHS.sub(lambda _: str(project), command)


def hash_of(path: Path) -> str:
    """The hash of a file; of one that is gone, or too large, a text that is none."""
    try:
        if path.stat().st_size > _LARGEST:
            return "too large"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "gone"


def _holds_code(path: Path) -> bool:
    """Whether a file is meant to be run, by its name, its mode or how it begins."""
    if path.suffix.lower() in _CODE:
        return True
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) or file.read(2) == b"#!"
    except OSError:
        return True


def _hashed(words: Iterable[str], handler: Handler, project: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    if handler.kind != "command":
        return found
    named = sorted({_ROOTS.sub(lambda _: handler.source.root, each) for each in words})
    places = _places(handler, project)
    for base in places:
        for full in _inside(named, base, project):
            if os.path.isfile(full):
                found[str(full)] = hash_of(full)
                if full.parent not in places:  # what a script is given is often beside it
                    places.append(full.parent)
    return found


def _places(handler: Handler, project: Path) -> list[Path]:
    """Where the names in a command begin: the project, the directory it runs in, and those that it names itself."""
    places = [project, Path(os.path.normpath(project / handler.cwd))]
    places += [
        each for each in _inside(sorted(_words_of(handler)), project, project) if each.is_dir()
    ]
    return list(dict.fromkeys(places))


def _inside(words: Iterable[str], base: Path, project: Path) -> Iterator[Path]:
    """The paths that words may mean, as far as they are in the project."""
    for word in words:
        path = Path(_PATHS.sub(lambda _: str(project), word))
        full = Path(os.path.normpath(base / path))
        with contextlib.suppress(OSError, ValueError):
            if full.is_relative_to(project) and full.exists():
                yield full


def _words_of(handler: Handler) -> set[str]:
    """What may be file names in a command, however it is quoted."""
    if handler.argv is not None:
        return {*handler.argv, *(each for word in handler.argv for each in _WORDS.findall(word))}
    command = _WRITTEN.sub(" ", _SAYS_WHERE.sub("$PWD", handler.command))
    words = {*_WORDS.findall(command), *_WORDS.findall(re.sub(r"[\"']", "", command))}
    with contextlib.suppress(ValueError):
        for word in shlex.split(command):
            words |= {word, *_WORDS.findall(word)}
    return words


def _programs_in(command: str, depth: int) -> Iterator[str]:
    """What a command line runs: the program of each of its commands, and the script an interpreter is given."""
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars=";|&()\n")
        reader.whitespace = " \t\r"
        reader.whitespace_split = True
        tokens = list(reader)
    except ValueError:
        yield from _WORDS.findall(command)  # it cannot be read: anything in it may be a script
        return
    words: list[str] = []
    for token in [*tokens, ";"]:
        if _ENDS.fullmatch(token):
            yield from _programs(words, depth)
            words = []
        else:
            words.append(token)


def _programs(words: list[str], depth: int) -> Iterator[str]:
    """The program that the words of one command run, and the script that it is given."""
    rest = list(words)
    while rest and (_ASSIGNED.fullmatch(rest[0]) or os.path.basename(rest[0]) in _WRAPPERS):
        wrapped = rest.pop(0)
        if os.path.basename(wrapped) in _WRAPPERS:
            while rest and (rest[0].startswith("-") or rest[0].isdigit()):
                rest.pop(0)
    if not rest:
        return
    program = rest.pop(0)
    yield program
    if is_interpreter(program):
        yield from _given_to(rest, depth)


def _module(name: str) -> Iterator[str]:
    """The files that a module of the project is, wherever in it modules are looked for."""
    from hookline.config import files_of_program

    for path in files_of_program(name):
        yield from (path, f"src/{path}")


def _given_to(words: list[str], depth: int) -> Iterator[str]:
    """The script among the arguments of an interpreter, and what is in a line that it is given instead."""
    for place, word in enumerate(words):
        if word in _NO_SCRIPT:
            if word == "-m" and place + 1 < len(words):
                yield from _module(words[place + 1])
            if word == "-c" and depth < _DEEPEST and place + 1 < len(words):
                yield from _programs_in(words[place + 1], depth + 1)
            return
        if word == "<" and place + 1 < len(words):
            yield words[place + 1]
            return
        if not word.startswith("-") and word not in _VERBS:
            yield word.removeprefix("<")
            return
