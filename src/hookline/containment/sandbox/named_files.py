"""Files that configuration names: what git includes, where its hooks are, and programs that settings name.

Includes and `core.hooksPath` are found in full, with the settings that git itself prints for each file. Which files
these are is found here: a command can remove what git finds a repository by. Programs are found as far as a word of a
setting is the path of an existing file. A reader for each language was rejected: a shell has endless ways to write a
path, and what the program runs in turn is the user's own code in any case.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sized
from typing import NamedTuple

from hookline.containment.git_settings import is_plain, settings_in, system_files, user_files
from hookline.containment.links import real_path
from hookline.containment.sandbox.repositories import bytes_of, git_directories, text_of
from hookline.errors import SandboxError
from hookline.secret_tables import is_env_file

_MOST_INCLUDED = 200
_LARGEST_SCRIPT = 64 * 1024
_STARTS = 4
"""Directories from which a path in a script may begin: its own, and those above. mise reads `.config/mise/conf.d`."""
_IS_SCRIPT = re.compile(
    r"(?:.*/)?(?:\.envrc(?:\..*)?|\.?mise\..*toml|mise/.*\.toml|hgrc(?:-not-shared)?|\.hgsub|\.sl/config)",
    re.DOTALL,
)
_HG_INCLUDE = re.compile(r"(?m)^%include\s+(\S.*?)\s*$")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_VARIABLE = re.compile(r"\$\{?\w+\}?")
_WORD = re.compile(r"[^\s=:,;()\[\]{}\"'|&<>$`!]+")


class _Setting(NamedTuple):
    file: str
    key: str
    value: str


def named_by_git(top: str) -> list[str]:
    """Whole paths that git's settings in a repository name, and the files that these settings are in.

    The repository's own files are among them only if they include a file or say where hooks are.
    """
    git, common = git_directories(top)
    own = [f"{each}/{name}" for each in (git, common) for name in ("config", "config.worktree")]
    settings = list(_settings([*system_files(), *user_files(), *own]))
    trees = [_join(git, each.value) for each in settings if each.key == "core.worktree"]
    starts = list(dict.fromkeys((top, *trees, *_linked_trees(common))))
    found: list[str] = []
    for file, key, value in settings:
        is_name = key == "core.hookspath" or key.startswith(("include.", "includeif."))
        found += (path for path in (file, real_path(file)) if is_name or path not in own)
        if key == "core.hookspath":
            found += (_join(start, value) for start in starts)
            found += (turn for start in starts for turn in turns(start, value))
        elif key.startswith(("include.", "includeif.")):
            found += _find_included(file, value)
            found += turns(os.path.dirname(file), value)
        elif not is_plain(key, value):
            found += _files_in(value, starts)
    return list(dict.fromkeys(found))


def turns(base: str, path: str) -> Iterator[str]:
    """Directories that a path enters and leaves again by `..`: if one becomes a link, the path leads elsewhere."""
    here, last = base, ""
    for part in os.path.expanduser(path).split("/"):
        if part == ".." and last not in ("", ".", "..", ".git"):
            yield here
        if part not in ("", "."):
            here, last = _join(here, part), part


def hooks_of_user(top: str) -> list[str]:
    """Where the user's own settings place hooks. Settings in `top`, which commands can write, do not count."""
    settings = _settings([*system_files(), *user_files()])
    return [
        value
        for file, key, value in settings
        if key == "core.hookspath" and not f"{real_path(file)}/".startswith(f"{top}/")
    ]


def named_by_script(path: str) -> list[str]:
    """Existing files that words of an `.envrc`, `hgrc`, `.hgsub` or file of mise name, and what these load or include.

    That counts also while it is missing: many an `.envrc` has `dotenv_if_exists` in it and nothing else.
    """
    if not _IS_SCRIPT.fullmatch(path):
        return []
    starts = [os.path.dirname(path)]
    while len(starts) < _STARTS:
        starts.append(os.path.dirname(starts[-1]))
    found = _included_by_mercurial(path)
    text = "\n".join(text_of(each, _LARGEST_SCRIPT) for each in (path, *found))
    found += _files_in(text, starts)
    loaded = {word for word in _words(text) if is_env_file(os.path.basename(word))}
    if "dotenv" in text:
        loaded.add(".env")
    found += (_join(starts[0], word) for word in loaded)
    return list(dict.fromkeys(found))


def _included_by_mercurial(path: str) -> list[str]:
    """What an `hgrc` includes, and what that includes in turn."""
    files = [path]
    for file in files:  # it grows
        for named in _HG_INCLUDE.findall(text_of(file)):
            included = _join(os.path.dirname(file), os.path.expandvars(named))
            if included not in files:
                files.append(included)
        _check_number("Mercurial", file, files)
    return files[1:]


def _check_number(program: str, file: str, included: Sized) -> None:
    if len(included) > _MOST_INCLUDED:
        raise SandboxError(
            f"{program}'s configuration includes more than {_MOST_INCLUDED} files, the last ones in '{file}'.",
            remedy="Include fewer files: all of them have to be protected.",
        )


def _linked_trees(git: str) -> Iterator[str]:
    """The further work trees of a repository: relative paths begin in each of them."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{git}/worktrees"):
            text = text_of(f"{git}/worktrees/{name}/gitdir")
            if pointer := text.partition("\0")[0].strip():
                yield os.path.dirname(_join(f"{git}/worktrees/{name}", pointer))


def _settings(files: Iterable[str]) -> Iterator[_Setting]:
    """The settings in files and in all that these include, on whatever condition: a command may fulfil it."""
    pending = list(dict.fromkeys(files))[::-1]
    seen = set(pending)
    while pending:
        file = pending.pop()
        for key, value in settings_in(bytes_of(file)) or ():
            yield _Setting(file, key, value)
            if key.startswith(("include.", "includeif.")):
                more = [path for path in _find_included(file, value) if path not in seen]
                seen.update(more)
                pending += more
        _check_number("git", file, seen)


def _find_included(file: str, value: str) -> list[str]:
    """A path that a file includes, which may be a link itself."""
    return [_join(os.path.dirname(each), value) for each in {file, real_path(file)}]


def _files_in(text: str, starts: Iterable[str]) -> Iterator[str]:
    """The existing files that words of a text name. A variable or a command may stand for a directory before them."""
    words = _words(text)
    yield from filter(os.path.isfile, {_join(start, word) for start in starts for word in words})


def _words(text: str) -> set[str]:
    text = _VARIABLE.sub(" ", _COMMENT.sub("", text))
    return {each for word in _WORD.findall(text) for each in (word, word.lstrip("/"))}


def _join(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
