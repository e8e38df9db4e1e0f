"""The files that a hook's command names: its scripts, and what these run. Trust and records are bound to them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import VARIABLE, Handler
from hookline.command_hooks.script import expand_placeholders, placeholders
from hookline.containment.protected import AGENT_CONFIGURATION
from hookline.shell_text import UNKNOWN
from hookline.shell_text.runners import can_run_others, code_words
from hookline.shell_text.started import Started, StartSearch, is_interpreter
from hookline.state import EMPTY

if TYPE_CHECKING:
    from hookline.config.script_dependencies import ScriptDependencies

_WORDS = re.compile(r"[^\s'\"`;|&<>()=]+")
READABLE_SHELLS = ("", "sh", "bash")
"""The shells whose lines we can read. In a line for another one any word may name a script."""
MOVE_IT = "put its files into .hookline/hooks, and name the script by its path"
"""The remedy for a hook that nothing can protect where it is."""
_MOST_ENTRIES = 10_000
"""Entries of a directory among which links are looked for."""
_LARGEST = 64 << 20
GONE = "gone"
"""Stands for the hash of a file that is not there."""


def named_files(handler: Handler, project: Path) -> dict[str, str]:
    """The files that trust is bound to, with their hashes.

    They are the files that a command runs, those it names that hold code, what its scripts run in turn, and all code in
    the directories of these; outside of the project scripts only. Files that a hook writes, such as logs, are not: it
    would withdraw its own trust.
    """
    from hookline.config.script_dependencies import code_below

    found = _loaded(handler, project)
    inside = [each for each in found.folders if each.is_relative_to(project)]
    inside += filter(None, (_folder_of(each, project) for each in found.started))
    return {str(path): hash_of(path) for path in dict.fromkeys((*found.files, *code_below(inside)))}


def pins_of(handler: Handler, project: Path) -> dict[str, str]:
    """The files that a hook loads, with their hashes; those that are missing are to stay so."""
    found = _loaded(handler, project)
    absent = (each for each in found.missing if not any(map(each.is_relative_to, found.folders)))
    pinned = (*_files_loaded(found, project), *absent)
    return {str(path): hash_of(path) for path in pinned}


def held_paths(handler: Handler, project: Path) -> set[str]:
    """What must not change while a hook is in force: the directories that it loads from, wherever they are, and its
    files at the top. What links in these directories lead to is among them.
    """
    found = _loaded(handler, project)
    places = {*found.folders, *found.names}
    if not handler.source.level.is_repository:
        # A missing file is probably not meant to be in the project.
        places -= {*found.missing}
        absent = {each.parent for each in found.missing}
        places = {
            each
            for each in places
            if each not in absent or any(path.is_relative_to(each) for path in found.started)
        }
    linked = (path for link in _links_below(found, project) for path in _link_places(link, project))
    return {os.path.realpath(each) for each in (*places, *linked)}


def _loaded(handler: Handler, project: Path) -> ScriptDependencies:
    """What a hook loads: trust is bound to it, it is pinned, and its directories are held."""
    line = CommandLine(handler, project)
    return line.dependencies(line.code())


def _files_loaded(found: ScriptDependencies, project: Path) -> list[Path]:
    """Without modules elsewhere in the project: the agent may be working on those, and Python does not import them."""
    started, folders = set(found.started), found.folders
    return [
        path
        for path in found.files
        if path in started
        or not path.is_relative_to(project)
        or any(map(path.is_relative_to, folders))
    ]


def _links_below(found: ScriptDependencies, project: Path) -> Iterator[Path]:
    """The links in directories of the project that are held."""
    for folder in found.folders:
        walk = os.walk(folder) if folder.is_relative_to(project) else ()
        entries = (Path(place, name) for place, *lists in walk for names in lists for name in names)
        yield from filter(Path.is_symlink, islice(entries, _MOST_ENTRIES))


def _link_places(link: Path, project: Path) -> Iterator[Path]:
    """What is held because of a link: the directory of each further link and of code, other files as they are."""
    from hookline.config.script_dependencies import is_code, way_of

    for each in way_of(link):
        is_whole = each.parent != project and (each.is_symlink() or is_code(each))
        if not each.is_symlink() or is_whole:
            yield each.parent if is_whole else each


def exposure(handler: Handler, project: Path) -> str:
    """Why nothing can protect what a repository's hook loads, in words; empty if that is not known of it.

    `PYTHONSAFEPATH` in the variables of the hook says that it is wanted.
    """
    from hookline.config.script_dependencies import way_of

    if not handler.source.level.is_repository or "PYTHONSAFEPATH" in handler.env:
        return ""
    found = CommandLine(handler, project).dependencies([])
    further = (each for link in _links_below(found, project) for each in way_of(link))
    links = (
        f"{each.name} is a symbolic link, which a command can replace"
        for each in (*found.links, *further)
        if each.parent == project and each.is_symlink() and each.name not in AGENT_CONFIGURATION
    )
    return next(iter((*found.exposed, *links)), "")


def not_covered(handler: Handler, project: Path) -> tuple[str, ...]:
    """What a hook runs that its trust is not bound to, in words, as far as that shows."""
    from hookline.config.script_dependencies import MAX_CODE, code_below, describe_program

    line = CommandLine(handler, project)
    named = (word for word, *_ in line.search.started if os.sep in word and UNKNOWN not in word)
    paths = (Path(os.path.normpath(project / os.path.expanduser(word))) for word in named)
    said = list(filter(None, (describe_program(path, project) for path in paths)))
    found = line.dependencies(line.code())
    said += found.unseen
    for folder in found.folders:
        if folder.is_relative_to(project) and len(list(code_below([folder]))) == MAX_CODE:
            said.append(f"{folder.relative_to(project)} has {MAX_CODE:,} files of code or more")
    if "PYTHONSAFEPATH" in handler.env:
        said.append("PYTHONSAFEPATH is set, so Python may import what is in the top directory")
    words = exposure(handler, project)
    if words:
        said.insert(0, f"it is not run: {words}; {MOVE_IT}")
    return tuple(dict.fromkeys(said))


def script_folders(handler: Handler, project: Path) -> tuple[str, ...]:
    """The directories of the Python scripts that a hook starts, in which these have their own modules.

    Of a repository's hook these are directories that are held, never the top directory. For another one the project has
    none after a `cd` to elsewhere: there, the same name may mean a file that is hostile.
    """
    from hookline.config.script_dependencies import is_python

    if handler.kind != "command":
        return ()
    line = CommandLine(handler, project)
    started: list[Path] = []
    if handler.source.level.is_repository:
        started += (each for each in _loaded(handler, project).started if each.parent != project)
    else:
        for path in _users_scripts(handler, project, line.search):
            is_inside = path.is_relative_to(project)
            started += [path] if is_inside else _dependencies_of([path], path.parent).started
    real = (os.path.realpath(each) for each in started if is_python(each))
    return tuple(dict.fromkeys(map(os.path.dirname, real)))


def _users_scripts(handler: Handler, project: Path, search: StartSearch) -> list[Path]:
    goals = ("".join(argv[1:2]) for argv in search.commands if argv[:1] in (("cd",), ("pushd",)))
    moves = [Path(os.path.normpath(project / os.path.expanduser(each))) for each in goals]
    elsewhere = [each for each in moves if not each.is_relative_to(project)]
    scripts = script_paths(handler, project)
    if elsewhere:
        words = [word for word, _, is_script in search.started if is_script]
        scripts = [each for each in scripts if not each.is_relative_to(project)]
        scripts += [place / word for place in elsewhere for word in words]
    return scripts


def changed_file(handler: Handler) -> str:
    """A file that has changed since it was pinned; empty if none."""
    pins = handler.pins or {}
    return next((path for path, known in pins.items() if hash_of(Path(path)) != known), "")


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
    found = _files_loaded(_loaded(handler, project), project)
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
        return "not readable" if os.path.lexists(path) else GONE


def _is_code(path: Path) -> bool:
    """Whether a file is meant to be run, by its name, its mode or its first bytes."""
    from hookline.config.script_dependencies import is_code

    if is_code(path):
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
        self._env = {
            name: expand_placeholders(value, handler, str(project))
            for name, value in handler.env.items()
        }
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

    def code(self) -> list[Path]:
        """These, and all code that a word names: who knows what a program does with its words."""
        named = filter(_is_code, self.files_named(self.words))
        return list(dict.fromkeys((*self.scripts(), *named)))

    def dependencies(self, scripts: list[Path]) -> ScriptDependencies:
        """The files that the command and its scripts run."""
        from hookline.config.script_dependencies import find_dependencies  # takes a while to load

        return find_dependencies(
            self.project,
            scripts,
            searches=[self.search],
            directory=self.places[1],
            variables=self._env,
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
                with contextlib.suppress(OSError, ValueError):
                    is_inside = full.is_relative_to(self.project)
                    if full.exists() if is_inside else is_script(full):
                        yield full
