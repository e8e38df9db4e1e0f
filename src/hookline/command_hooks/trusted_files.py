"""The files that a hook's command names: its scripts, and what these run. Trust and records are bound to them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import VARIABLE, Handler
from hookline.command_hooks.script import expand_placeholders, placeholders
from hookline.shell_text import UNKNOWN
from hookline.shell_text.runners import can_run_others, code_words
from hookline.shell_text.started import Started, StartSearch, is_interpreter, is_task_runner
from hookline.state import EMPTY

if TYPE_CHECKING:
    from hookline.config.script_dependencies import ScriptDependencies

_WORDS = re.compile(r"[^\s'\"`;|&<>()=]+")
READABLE_SHELLS = ("", "sh", "bash")
"""The shells whose lines we can read. In a line for another one any word may name a script."""
_CODE = frozenset(
    ".sh .bash .zsh .fish .py .pyw .js .mjs .cjs .ts .mts .cts .tsx .jsx .rb .pl .pm .php .lua .ps1 .psm1 .bat .cmd "  # noqa: SIM905 - a table of names
    ".awk .sed .jq .r .go .rs .java .kts .exs .ex .wasm .exe".split()
)
_NOT_OURS = frozenset({"__pycache__", "node_modules", ".git", ".venv", "venv"})
_MOST_BESIDE = 200
_LARGEST = 64 << 20


def named_files(handler: Handler, project: Path) -> dict[str, str]:
    """The files that trust is bound to, with their hashes.

    They are the files that a command runs, those it names that hold code, what its scripts run in turn, and all code in
    a directory for hooks; outside of the project scripts only. Files that a hook writes, such as logs, are not: it
    would withdraw its own trust.
    """
    line = CommandLine(handler, project)
    code = filter(_is_code, line.files_named(line.words))
    scripts = line.scripts()
    more = (*_dependencies_of(scripts, project).files, *_for_hooks(scripts, project))
    return {str(path): hash_of(path) for path in dict.fromkeys((*code, *more))}


def scripts_of(handler: Handler, project: Path) -> dict[str, str]:
    """The files that a command runs, and those beside them or outside that these run, with their hashes.

    The agent cannot change them during a run. So modules elsewhere in the project are not among them: the agent may be
    working on those.
    """
    scripts = CommandLine(handler, project).scripts()
    folders = {path.parent for path in scripts if path.parent != project}
    return {
        str(path): hash_of(path)
        for path in _dependencies_of(scripts, project).files
        if path in scripts
        or not path.is_relative_to(project)
        or any(path.is_relative_to(folder) for folder in folders)
    }


def not_covered(handler: Handler, project: Path) -> tuple[str, ...]:
    """What a hook runs that its trust is not bound to, in words, as far as that shows."""
    from hookline.config.script_dependencies import describe_program

    line = CommandLine(handler, project)
    said = [
        f"{os.path.basename(word)} runs commands from other files"
        for word, _, is_script in line.search.started
        if not is_script and is_task_runner(word)
    ]
    named = (word for word, *_ in line.search.started if os.sep in word and UNKNOWN not in word)
    paths = (Path(os.path.normpath(project / os.path.expanduser(word))) for word in named)
    said += filter(None, (describe_program(path, project) for path in paths))
    return (*dict.fromkeys(said), *_dependencies_of(line.scripts(), project).unseen)


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
    for word, _, is_script in CommandLine(handler, project, os.environ).search.started:
        if not is_script and (is_interpreter(word) or can_run_others((word, "run"))):
            continue
        named = os.path.expanduser(word)
        places = [base / named for base in (project / handler.cwd, project, beside)]
        if os.sep not in named:
            places.append(Path(shutil.which(named) or named))
        with contextlib.suppress(ValueError):  # no name of a file
            found += [each for each in places if each.is_file()][:1]
    return list(dict.fromkeys(found))


def _files_run(handler: Handler, project: Path) -> set[Path]:
    """The files that a hook runs, and those that these run. A script of the project is followed in the project only."""
    outside = [project, Path(handler.source.root or os.path.expanduser("~"))]
    found = set(script_paths(handler, project))
    for path in [Path(os.path.normpath(each)) for each in found]:
        roots = [project] if path.is_relative_to(project) else [*outside, path.parent]
        for root in roots:
            _, *followed = _dependencies_of([path], root).files
            found.update(followed)
    return found


def _dependencies_of(scripts: list[Path], project: Path) -> ScriptDependencies:
    from hookline.config.script_dependencies import (
        find_dependencies,  # only where it is needed: it takes a while
    )

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
    if not path.is_relative_to(project):
        return None
    parts = path.relative_to(project).parts
    folders = (each.configuration_folders for each in all_dialects().values())
    if len(parts) > 2 and any(parts[0] in each for each in folders):
        return project / parts[0] / parts[1]
    return None


def hash_of(path: Path) -> str:
    """The hash of a file; a word in its place if it is gone or too large."""
    try:
        if path.stat().st_size > _LARGEST:
            return "too large"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "gone"


def _is_code(path: Path) -> bool:
    """Whether a file is meant to be run, by its name, its mode or its first bytes."""
    if path.suffix.lower() in _CODE:
        return True
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) or file.read(2) == b"#!"
    except OSError:
        return True


class CommandLine:
    """The command of a hook, read: what it starts, and every word of it that may name a file."""

    def __init__(
        self, handler: Handler, project: Path, environment: Mapping[str, str] = EMPTY
    ) -> None:
        known = {**placeholders(handler, str(project)), "PWD": str(project)}
        self.project = project
        self.search = StartSearch({**environment, **known})

        def expand(text: str) -> str:
            return VARIABLE.sub(lambda found: known.get(found[1] or found[2]) or found[0], text)

        texts: list[str] = []
        if handler.argv is not None:
            texts = list(map(expand, handler.argv))
            self.search.search(texts)
        else:
            self.search.search(
                expand_placeholders(handler.command, handler, str(project), for_shell=True)
            )
            is_ours = handler.shell in READABLE_SHELLS
            if not (is_ours and self.search.is_whole):
                whole = expand(handler.command)
                texts = [whole, re.sub(r"[\"']", "", whole)]
                words = dict.fromkeys(each for text in texts for each in _WORDS.findall(text))
                # A line that bash would not take may run any file; that of another shell what is code.
                self.search.started += [Started(word, "", is_script=is_ours) for word in words]
        texts += self.search.words
        self.words = {each for text in texts for each in (text, *_WORDS.findall(text))}
        self.places = [project, Path(os.path.normpath(project / handler.cwd))]
        """The directories that names are relative to: the project, its own, and those that it names."""
        self.places += filter(os.path.isdir, self._inside(self.words, project))

    def scripts(self) -> list[Path]:
        """The files that the command itself runs, and the code that is named in `python -c ..`."""
        scripts = self.files_named(word for word, _, is_script in self.search.started if is_script)
        given = [text for argv in self.search.commands for text in code_words(argv)]
        words = {word for text in given for word in _WORDS.findall(text)}
        programs = self.files_named({*words, *(word for word, *_ in self.search.started)})
        return [path for path in programs if path in scripts or _is_code(path)]

    def files_named(self, words: Iterable[str]) -> list[Path]:
        """The files that words name: in the project, and scripts elsewhere."""
        found: dict[Path, None] = {}
        named, places = set(words), list(dict.fromkeys(self.places))
        for base in places:
            for full in self._inside(named, base):
                if os.path.isfile(full):
                    found[full] = None
                    if full.parent not in places and full.is_relative_to(self.project):
                        places.append(full.parent)  # arguments of a script are often beside it
        return list(found)

    def _inside(self, words: Iterable[str], base: Path) -> Iterator[Path]:
        """The files that words may mean. What only a shell knows may be any directory, or nothing."""
        from hookline.config.script_dependencies import is_script

        for word in sorted(words):
            after = word.rpartition(UNKNOWN)[2]
            names = {word.replace(UNKNOWN, ""), after.lstrip("/")} if after != word else {word}
            paths = (base / os.path.expanduser(name) for name in names)
            for full in (Path(os.path.normpath(path)) for path in paths):
                with contextlib.suppress(OSError, ValueError):
                    is_inside = full.is_relative_to(self.project)
                    if full.exists() if is_inside else is_script(full):
                        yield full
