"""The files that a hook's command names: its scripts, and what these run. Trust and records are bound to them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import Handler

if TYPE_CHECKING:
    from hookline.config import ScriptDependencies

_SAYS_WHERE = re.compile(
    r"\$\(\s*(?:git rev-parse --show-toplevel|pwd)\b[^()]*\)|`\s*(?:git rev-parse --show-toplevel|pwd)\b[^`]*`"
)
"""Commands inside of a command that print the project's directory."""
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
"""Redirections of output."""
_NOT_OURS = frozenset({"__pycache__", "node_modules", ".git", ".venv", "venv"})
_MOST_BESIDE = 200
_DEEPEST = 4
_LARGEST = 64 << 20


def named_files(handler: Handler, project: Path) -> dict[str, str]:
    """The files of the project that trust is bound to, with their hashes.

    They are the files that a command runs, those it names that hold code, what its scripts run in turn, and all code in
    a directory for hooks. Files that a hook writes, such as logs, are not: it would withdraw its own trust.
    """
    named = _hashed(_words_of(handler), handler, project)
    code = {path: mark for path, mark in named.items() if _holds_code(Path(path))}
    scripts = _run_by(handler, project)
    more = (*_followed(scripts, project).files, *_for_hooks(scripts, project))
    return {**code, **{str(path): hash_of(path) for path in dict.fromkeys(more)}}


def scripts_of(handler: Handler, project: Path) -> dict[str, str]:
    """The files of the project that a command runs, and those beside them that these run, with their hashes.

    The agent cannot change them during a run. So modules elsewhere in the project are not among them: the agent may be
    working on those.
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


def changed_script(handler: Handler) -> str:
    """A script that has changed since it was trusted; empty if none has."""
    return next((path for path, known in handler.pins.items() if hash_of(Path(path)) != known), "")


_DIGESTED = (
    "event", "kind", "command", "argv", "url", "headers", "allowed_env", "prompt", "model", "continues", "tool",
    "input", "matcher", "rule", "timeout", "on_failure", "is_async", "wakes", "is_sequential", "cwd", "shell",
    "in_argument", "loop_limit", "agent", "skill", "once",
)  # fmt: skip


def definition_digest(handler: Handler, project: Path) -> str:
    """A hash of a hook's definition and of the content of its scripts and what these run, where they can be found.

    A recorded answer is valid while this stays the same. Of variables only the names count: values may be secret.
    """
    content = {name: getattr(handler, name) for name in _DIGESTED}
    content |= {"dialect": handler.source.dialect, "env": sorted(handler.env)}
    content["scripts"] = sorted((str(p), hash_of(p)) for p in _files_run(handler, project))
    text = json.dumps(
        msgspec.to_builtins(content), sort_keys=True, separators=(",", ":"), default=str
    )
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def script_paths(handler: Handler, project: Path) -> list[Path]:
    """The files that a hook runs: in the project, beside the file that names it, elsewhere, or on the path."""
    if handler.kind != "command":
        return []
    found = list(map(Path, scripts_of(handler, project)))
    beside = Path(handler.source.root or os.path.dirname(handler.source.path))
    for word in run_programs(handler):
        named = with_project(_with_root(word, handler), project)
        named = os.path.expanduser(os.path.expandvars(named))
        places = [base / named for base in (project / handler.cwd, project, beside)]
        if os.sep not in named:
            places.append(Path(shutil.which(named) or named))
        is_script = not is_interpreter(word)
        found += [each for each in places if is_script and each.is_file()][:1]
    return list(dict.fromkeys(found))


def _files_run(handler: Handler, project: Path) -> set[Path]:
    """The files that a hook runs, and those that these run. A script of the project is followed in the project only."""
    outside = [project, Path(handler.source.root or os.path.expanduser("~"))]
    found = set(script_paths(handler, project))
    for path in [Path(os.path.normpath(each)) for each in found]:
        roots = [project] if path.is_relative_to(project) else [*outside, path.parent]
        for root in roots:
            _, *followed = _followed([path], root).files
            found.update(followed)
    return found


def _run_by(handler: Handler, project: Path) -> list[Path]:
    """The files of the project that a command itself runs."""
    return [Path(path) for path in _hashed(run_programs(handler), handler, project)]


def run_programs(handler: Handler) -> list[str]:
    """The programs that a hook runs, and the scripts that these get, as it names them."""
    if handler.argv is not None:
        return list(programs_of(list(handler.argv)))
    return list(_programs_in(_SAYS_WHERE.sub("$PWD", handler.command), 0))


def is_interpreter(program: str) -> bool:
    """Whether a program runs a script that it gets."""
    return _INTERPRETER.fullmatch(os.path.basename(program)) is not None


def _followed(scripts: list[Path], project: Path) -> ScriptDependencies:
    from hookline.config import find_dependencies  # only where it is needed: it takes a while

    return find_dependencies(project, scripts)


def _for_hooks(scripts: Iterable[Path], project: Path) -> Iterator[Path]:
    """All code in the directories of an agent's configuration that these scripts are in."""
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
    """`.claude/hooks` for a script anywhere in it; None for one elsewhere, or directly in `.claude`."""
    parts = path.relative_to(project).parts
    folders = (each.configuration_folders for each in all_dialects().values())
    if len(parts) > 2 and any(parts[0] in each for each in folders):
        return project / parts[0] / parts[1]
    return None


def with_project(command: str, project: Path) -> str:
    """A command with the project's directory in place of variables for it."""
    found = (each.project_variables for each in all_dialects().values())
    names = "|".join(sorted({"PWD"}.union(*found)))
    pattern = rf"\$\{{(?:{names})(?::?[-=][^}}]*)?\}}|\$(?:{names})"
    return re.sub(pattern, lambda _: str(project), command)


def _with_root(word: str, handler: Handler) -> str:
    """A word with the directory of the plugin or the skill in place of variables for it."""
    found = (each.root_variables | each.skill_variables for each in all_dialects().values())
    names = "|".join(sorted(set[str]().union(*found)))
    return re.sub(rf"\$\{{(?:{names})\}}|\$(?:{names})", lambda _: handler.source.root, word)


def hash_of(path: Path) -> str:
    """The hash of a file; a word in its place if it is gone or too large."""
    try:
        if path.stat().st_size > _LARGEST:
            return "too large"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "gone"


def _holds_code(path: Path) -> bool:
    """Whether a file is meant to be run, by its name, its mode or its first bytes."""
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
    named = sorted({with_project(_with_root(each, handler), project) for each in words})
    places = _places(handler, project)
    for base in places:
        for full in _inside(named, base, project):
            if os.path.isfile(full):
                found[str(full)] = hash_of(full)
                if full.parent not in places:  # arguments of a script are often beside it
                    places.append(full.parent)
    return found


def _places(handler: Handler, project: Path) -> list[Path]:
    """The directories that names in a command are relative to: the project, its own, and those that it names."""
    places = [project, Path(os.path.normpath(project / handler.cwd))]
    words = sorted({with_project(each, project) for each in _words_of(handler)})
    places += [each for each in _inside(words, project, project) if each.is_dir()]
    return list(dict.fromkeys(places))


def _inside(words: Iterable[str], base: Path, project: Path) -> Iterator[Path]:
    """The files of the project that words may mean."""
    for word in words:
        full = Path(os.path.normpath(base / word))
        with contextlib.suppress(OSError, ValueError):
            if full.is_relative_to(project) and full.exists():
                yield full


def _words_of(handler: Handler) -> set[str]:
    """Words of a command that may be file names, however they are quoted."""
    if handler.argv is not None:
        return {*handler.argv, *(each for word in handler.argv for each in _WORDS.findall(word))}
    command = _WRITTEN.sub(" ", _SAYS_WHERE.sub("$PWD", handler.command))
    words = {*_WORDS.findall(command), *_WORDS.findall(re.sub(r"[\"']", "", command))}
    with contextlib.suppress(ValueError):
        for word in shlex.split(command):
            words |= {word, *_WORDS.findall(word)}
    return words


def shell_tokens(command: str) -> list[str] | None:
    """The words and operators of a command line; None if a quote is left open."""
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars=";|&()\n")
        reader.whitespace = " \t\r"
        reader.whitespace_split = True
        return list(reader)
    except ValueError:
        return None


def _programs_in(command: str, depth: int) -> Iterator[str]:
    """What a command line runs: the program of each of its commands, and the script of an interpreter."""
    tokens = shell_tokens(command)
    if tokens is None:
        yield from _WORDS.findall(command)  # unreadable: any word may be a script
        return
    words: list[str] = []
    for token in [*tokens, ";"]:
        if _ENDS.fullmatch(token):
            yield from programs_of(words, depth)
            words = []
        else:
            words.append(token)


def programs_of(words: list[str], depth: int = 0) -> Iterator[str]:
    """The program of one command, and its script, if it is an interpreter."""
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


def _given_to(words: list[str], depth: int) -> Iterator[str]:
    """The script among the arguments of an interpreter, or what its `-c` line runs."""
    for place, word in enumerate(words):
        if word in _NO_SCRIPT:
            if word == "-m" and place + 1 < len(words):
                from hookline.config import files_of_program

                for path in files_of_program(words[place + 1]):
                    yield from (path, f"src/{path}")
            if word == "-c" and depth < _DEEPEST and place + 1 < len(words):
                yield from _programs_in(words[place + 1], depth + 1)
            return
        if word == "<" and place + 1 < len(words):
            yield words[place + 1]
            return
        if not word.startswith("-") and word not in _VERBS:
            yield word.removeprefix("<")
            return
