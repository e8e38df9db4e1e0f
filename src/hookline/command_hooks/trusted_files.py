"""The files that a hook's command names: its scripts, and what these run. Trust and records are bound to them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

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
    """The files that trust is bound to, with their hashes; an empty one if only their being there counts.

    They are the files that a command runs, those it names that hold code, what its scripts run in turn, and all code in
    a directory for hooks; outside of the project scripts only. Files that a hook writes, such as logs, are not: it
    would withdraw its own trust.
    """
    line = CommandLine(handler, project)
    code = filter(_is_code, line.files_named(line.words))
    scripts = line.scripts()
    found = line.dependencies(scripts)
    whole = dict.fromkeys((*code, *found.files, *_for_hooks(scripts, project)))
    names = {str(path): "" for path in found.beside}
    return names | {str(path): hash_of(path) for path in whole}


def scripts_of(handler: Handler, project: Path) -> dict[str, str]:
    """The files that a command runs, and those beside them or outside that these run, with their hashes.

    The agent cannot change them during a run. So modules elsewhere in the project are not among them: the agent may be
    working on those.
    """
    return {path: known for path, known in loaded_files(handler, project).items() if known}


def loaded_files(handler: Handler, project: Path) -> dict[str, str]:
    """The files of `scripts_of`, and others that they load, with an empty hash: these may change, but not be new."""
    return _load_search(handler, project)[0]


def _load_search(handler: Handler, project: Path) -> tuple[dict[str, str], set[Path]]:
    """The files that a hook would load, and the directories in which a new file might be one of them."""
    line = CommandLine(handler, project)
    scripts = line.scripts()
    folders = {path.parent for path in scripts if path.parent != project}

    def is_kept(path: Path) -> bool:
        is_elsewhere = not path.is_relative_to(project)
        return path in scripts or is_elsewhere or any(map(path.is_relative_to, folders))

    found = line.dependencies(scripts, is_kept)
    hashes = {
        str(path): hash_of(path) if is_kept(path) or path in found.shadows else ""
        for path in found.files
    }
    return {str(path): "" for path in found.beside} | hashes, line.searched | {*found.searched}


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
    return (*dict.fromkeys(said), *line.dependencies(line.scripts()).unseen)


def script_folders(handler: Handler, project: Path) -> tuple[str, ...]:
    """The directories of the Python scripts that a hook starts, in which these have their own modules.

    In the project it has none after a `cd` to elsewhere: there, the same name may mean a file that is hostile.
    """
    from hookline.config.script_dependencies import is_python

    search = CommandLine(handler, project).search
    goals = ("".join(argv[1:2]) for argv in search.commands if argv[:1] in (("cd",), ("pushd",)))
    moves = [Path(os.path.normpath(project / os.path.expanduser(each))) for each in goals]
    elsewhere = [each for each in moves if not each.is_relative_to(project)]
    scripts = script_paths(handler, project) if handler.kind == "command" else []
    if elsewhere:
        words = [word for word, _, is_script in search.started if is_script]
        scripts = [each for each in scripts if not each.is_relative_to(project)]
        scripts += [place / word for place in elsewhere for word in words]
    folders: dict[str, None] = {}
    for path in scripts:
        is_inside = path.is_relative_to(project)
        started = [path] if is_inside else _dependencies_of([path], path.parent).started
        real = (os.path.realpath(each) for each in started if is_python(each))
        folders |= dict.fromkeys(map(os.path.dirname, real))
    return tuple(folders)


class PinCheck:
    """Whether hooks would still load the files that were pinned, with the same content, and no others."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._unchanged: dict[int, tuple[Handler, dict[str, _Directory | None]]] = {}
        """By hook, the directories that were searched when it was last found unchanged."""

    def changed_file(self, handler: Handler) -> str:
        """A file that has changed since it was pinned, or that would be loaded and was not there; empty if none."""
        if handler.pins is None:
            return ""
        for path, known in handler.pins.items():
            if known and hash_of(Path(path)) != known:
                return path
        _, before = self._unchanged.get(id(handler), (None, None))
        if before is not None and before == {each: _look_at(each) for each in before}:
            return ""
        asked = time.time_ns()
        files, searched = _load_search(handler, self._project)
        new = next((path for path in files if path not in handler.pins), "")
        seen = {each: _look_at(each) for each in map(str, searched)}
        # In a moment in which a directory changes it may change again, with the same time.
        is_quiet = all(each is None or each[2] < asked - _MOMENT for each in seen.values())
        if is_quiet and not new:
            self._unchanged[id(handler)] = handler, seen
        else:
            self._unchanged.pop(id(handler), None)
        return new


_Directory: TypeAlias = tuple[int, int, int]
"""Device, inode and time of the last change."""
_MOMENT = 1_000_000_000
"""Nanoseconds in which two changes may have one time."""


def _look_at(directory: str) -> _Directory | None:
    try:
        facts = os.stat(directory)
    except (OSError, ValueError):
        return None
    return facts.st_dev, facts.st_ino, facts.st_ctime_ns


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
            # A program without a directory in its name is one of the path, whatever the project has.
            places.insert(
                len(places) if is_script else 0, Path(shutil.which(named) or project / named)
            )
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
        self.has_safe_path = not handler.source.level.is_repository
        """Whether its Python programs do not look for modules in the project: see `environment`."""
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
        self.searched: set[Path] = set()
        """The directories in which a word may name a file that was not there."""
        self.places += filter(os.path.isdir, self._inside(self.words, project))

    def scripts(self) -> list[Path]:
        """The files that the command itself runs, and the code that is named in `python -c ..`."""
        scripts = self.files_named(word for word, _, is_script in self.search.started if is_script)
        given = [text for argv in self.search.commands for text in code_words(argv)]
        words = {word for text in given for word in _WORDS.findall(text)}
        programs = self.files_named({*words, *(word for word, *_ in self.search.started)})
        return [path for path in programs if path in scripts or _is_code(path)]

    def dependencies(
        self, scripts: list[Path], follows: Callable[[Path], bool] = lambda _path: True
    ) -> ScriptDependencies:
        """The files that the command and its scripts run."""
        from hookline.config.script_dependencies import find_dependencies  # takes a while to load

        return find_dependencies(
            self.project,
            scripts,
            commands=self.search.commands,
            directory=self.places[1],
            has_safe_path=self.has_safe_path,
            follows=follows,
        )

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
                self.searched.add(full.parent)
                with contextlib.suppress(OSError, ValueError):
                    is_inside = full.is_relative_to(self.project)
                    if full.exists() if is_inside else is_script(full):
                        yield full
