"""What trust in a hook is bound to: the code that its command names, and the directories of programs and scripts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from hookline.command_hooks.handler import Handler
from hookline.command_hooks.script import expand_placeholders, placeholders
from hookline.containment.interpreter import environments_below
from hookline.containment.protected import AGENT_CONFIGURATION
from hookline.own_directories import state_directory
from hookline.shell_text.named_files import (
    GONE,
    MAX_CODE,
    CommandWords,
    expand_directories,
    find_bound_paths,
    find_command_words,
    find_named_files,
    hash_path,
    is_binary,
    resolve_parents,
    runs_project_modules,
)

_MISSING = "missing now; it cannot be made while an agent runs, so install it before"
READABLE_SHELLS = ("", "sh", "bash")
"""The shells whose lines we can read. In a line for another one any word may name a script."""


def read_words(handler: Handler, project: Path) -> CommandWords:
    """What the words of a hook's command are for."""
    env = {
        name: expand_placeholders(value, handler, str(project))
        for name, value in handler.env.items()
    }
    known = {**env, **placeholders(handler, str(project)), "PWD": str(project)}
    if handler.argv is not None:
        argv = [expand_placeholders(word, handler, str(project)) for word in handler.argv]
        return find_command_words(argv, known, env.values())
    line = expand_placeholders(handler.command, handler, str(project), for_shell=True)
    is_readable = handler.shell in READABLE_SHELLS
    return find_command_words(line, known, env.values(), is_readable=is_readable)


def find_scripts(handler: Handler, project: Path) -> dict[Path, bool]:
    """The files that a hook's command names as programs and scripts, each with whether it can be run now."""
    if handler.kind != "command":
        return {}
    found = find_named_files(read_words(handler, project), _find_bases(handler, project), project)
    return {resolve_parents(path)[0]: can_run for path, can_run in found.items()}


def _find_bases(handler: Handler, project: Path) -> tuple[Path, Path]:
    cwd = expand_placeholders(handler.cwd, handler, str(project))
    return project / cwd, project


def find_bound(handler: Handler, project: Path) -> list[Path]:
    """The files and directories that trust in a hook is bound to, and that must not change while it is in force."""
    named: list[Path] = []
    if handler.kind == "command":
        words = read_words(handler, project)
        named = find_bound_paths(words, _find_bases(handler, project), project)
    return [*dict.fromkeys((*named, *find_listed(handler.files, project)))]


def find_listed(names: Sequence[str], project: Path) -> list[Path]:
    """The files and directories that a list names."""
    if not names:
        return []
    from hookline.config.trust import find_listed_paths  # takes a while to load

    return find_listed_paths(names, project)


def hash_files(handler: Handler, project: Path) -> dict[str, str]:
    """The files that trust is bound to, with their hashes: of a directory all that counts in it."""
    files = expand_directories(find_bound(handler, project), project)
    return {str(path): hash_path(path, project) for path in files}


def describe_bound(handler: Handler, project: Path) -> list[str]:
    """The files and directories that trust in a hook is bound to, in words."""
    said = []
    for path in find_bound(handler, project):
        shown = path.relative_to(project) if path.is_relative_to(project) else path
        if not path.is_dir():
            said.append(str(shown) if path.exists() else f"{shown} ({_MISSING})")
        elif path.is_relative_to(project):
            count = len(expand_directories([path], project))
            most = " or more, of which no more are read" if count == MAX_CODE else ""
            said.append(f"{shown}/ ({count:,} {'file' if count == 1 else 'files'}{most})")
    return said


def pin_files(handler: Handler, project: Path, files: Sequence[str] = ()) -> Handler:
    """A hook with the hashes of what it is bound to, which are checked before each run; `files` are bound, too."""
    bound = (*find_bound(handler, project), *find_listed(files, project))
    pins = {str(path): hash_path(path, project) for path in bound}
    return msgspec.structs.replace(handler, pins=pins)


def find_change(handler: Handler, project: Path) -> str:
    """A file or directory that has changed since it was pinned; empty if none."""
    pins = (handler.pins or {}).items()
    changed = (path for path, known in pins if hash_path(Path(path), project) != known)
    return next(changed, "") or _find_other_script(handler, project)


def _find_other_script(handler: Handler, project: Path) -> str:
    """A script that the command names now and did not name when it was pinned: a directory may be a link since.

    Such a directory is not pinned itself: after `cd src && ../lint.sh`, nobody could write in `src`.
    """
    if handler.pins is None:
        return ""
    named = map(str, find_scripts(handler, project))
    return next((each for each in named if each not in handler.pins and os.path.isfile(each)), "")


def find_replaceable_link(handler: Handler, project: Path) -> str:
    """A link in the top directory on the way to what a repository's hook is bound to; empty if there is none.

    It cannot be read-only, so a command could replace it in the moment between the check of a hash and the start.
    """
    if not handler.source.level.is_repository:
        return ""
    bound = find_bound(handler, project) if handler.pins is None else map(Path, handler.pins)
    links = (path.name for path in bound if path.parent == project and path.is_symlink())
    return next((name for name in links if name not in AGENT_CONFIGURATION), "")


def describe_change(handler: Handler, project: Path) -> str:
    """Why a hook is not run although it is trusted; empty if it is."""
    link = find_replaceable_link(handler, project)
    if link:
        return (
            f"the link '{link}' in the top directory leads to its script, and a command can replace it; "
            "name the script by its real path"
        )
    changed = find_change(handler, project)
    since, remedy = "it was trusted", "trust it again"
    if not handler.source.level.is_repository:
        since, remedy = "the command was started", "start the command again"
    what = f"the code in {changed}" if os.path.isdir(changed) else f"its script {changed}"
    was_missing = (handler.pins or {}).get(changed) == GONE
    how = "was missing when" if was_missing else "has changed since"
    return changed and f"{what} {how} {since}; read it, and {remedy}"


_DIGESTED = (
    "event", "kind", "command", "argv", "url", "headers", "allowed_env", "prompt", "model", "continues", "tool",
    "input", "matcher", "rule", "timeout", "on_failure", "is_async", "wakes", "is_sequential", "cwd", "shell",
    "in_argument", "loop_limit", "agent", "skill", "once",
)  # fmt: skip


def definition_digest(handler: Handler, project: Path) -> str:
    """A hash of a hook's definition and of the files that it is bound to.

    A recorded answer is valid while this stays the same. Of variables only the names count: values may be secret.
    """
    content = {name: getattr(handler, name) for name in _DIGESTED}
    content |= {"dialect": handler.source.dialect, "env": sorted(handler.env)}
    content["scripts"] = sorted(hash_files(handler, project).items())
    text = json.dumps(
        msgspec.to_builtins(content), sort_keys=True, separators=(",", ":"), default=str
    )
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


# --- where its programs and modules are searched --------------------------------------------------------


def search_variables(
    handler: Handler, inherited: Mapping[str, str], project: Path
) -> dict[str, str]:
    """Variables with which a program on the host finds no programs and modules that others have put in its way.

    Programs are not searched in the project, and Python modules only beside the hook's scripts, which are bound. A
    repository's hook that names a module of the project (`python3 -m pytest`) is meant to import from there. If
    scripts are in the project, Python takes what it has compiled from a directory of the user's, not from
    `__pycache__` beside the source.
    """
    is_repository = handler.source.level.is_repository
    path, modules = inherited.get("PATH", os.defpath), inherited.get("PYTHONPATH", "")
    folders = _find_import_folders(handler, project)
    places = (*folders, *_find_outside("" if is_repository else modules, project))
    # Not empty: `PYTHONPATH=lib:$PYTHONPATH` would search the directory that it starts in.
    found = {
        "PATH": os.pathsep.join(_find_outside(path, project)) or os.defpath,
        "PYTHONPATH": os.pathsep.join(places or (os.devnull,)),
    }
    if not (is_repository and runs_project_modules(read_words(handler, project))):
        found["PYTHONSAFEPATH"] = "1"
    if is_repository or any(Path(each).is_relative_to(project) for each in folders):
        found["PYTHONPYCACHEPREFIX"] = _bytecode_directory()
    return found


def _find_import_folders(handler: Handler, project: Path) -> tuple[str, ...]:
    """The directories in which Python finds modules, if a hook starts it: those of its scripts, and those listed.

    The top directory is none of them: commands can write there. For a hook that is not the repository's, a directory
    of the project counts only if the command does nothing else: after a `cd`, the same name may mean a hostile file.
    """
    if handler.kind != "command":
        return ()
    top, words = Path(os.path.realpath(project)), read_words(handler, project)
    scripts = [path for path, can_run in find_scripts(handler, project).items() if can_run]
    for program in words.programs:
        path = Path(shutil.which(program) or os.devnull) if "/" not in program else Path(os.devnull)
        scripts += [path] if path.is_absolute() and _is_python(path) else []
    folders = [Path(os.path.realpath(path)).parent for path in scripts]
    folders += (path for path in find_listed(handler.files, project) if path.is_dir())
    is_whole = handler.source.level.is_repository or len(words.commands) == 1
    return tuple(
        dict.fromkeys(
            str(each)
            for each in folders
            if each != top and (is_whole or not each.is_relative_to(top))
        )
    )


def _is_python(path: Path) -> bool:
    """Whether a program is a script for Python."""
    if not path.is_file() or is_binary(path):
        return False
    with path.open("rb") as file:
        return b"python" in file.readline(256)


@lru_cache(maxsize=64)
def _find_outside(path: str, project: Path) -> tuple[str, ...]:
    """The entries of a search path outside of the project, and those of the environment that we run in ourselves."""
    from hookline.containment.sandbox.environment import trusted_entries  # takes a while to load

    top = Path(os.path.realpath(project))
    own = [top / each for each in environments_below(top)]
    return tuple(trusted_entries(path, [top], own))


def _bytecode_directory() -> str:
    """A directory that only the user can write. Without a home it is one that nobody can write or read."""
    found = str(state_directory(os.environ) / "bytecode")
    if not os.path.isdir(found):
        with contextlib.suppress(OSError):
            os.makedirs(found, mode=0o700, exist_ok=True)
    return found
