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
_HOOK_DIRECTORIES = ("core.hookspath", "init.templatedir")
"""Git runs what is in the first. It copies the second into each new repository, with its hooks."""
_HG_INCLUDE = re.compile(r"(?m)^%include\s+(\S.*?)\s*$")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_VARIABLE = re.compile(r"\$\{?\w+\}?")
_WORD = re.compile(r"[^\s=:,;()\[\]{}\"'|&<>$`!]+")


def files_named_by_git(top: str, root: str = "") -> list[str]:
    """Whole paths that git's settings in a repository name, and the files that these settings are in.

    The repository's own files are among them only if they include a file or say where hooks are. A path that only
    passes `root`, where commands can write, does not name it: nobody can put a link in its place.
    """
    git, common = git_directories(top)
    own = [f"{each}/{name}" for each in (git, common) for name in ("config", "config.worktree")]
    files = _settings([*system_files(), *user_files(), *own])
    found, passed = [file for file in files if file not in own], list[str]()
    settings = [(file, key, value) for file in files for key, value in files[file]]
    trees = [_join(git, value) for _, key, value in settings if key == "core.worktree"]
    starts = list(dict.fromkeys((top, *trees, *_linked_trees(common))))
    for file, key, value in settings:
        if key in _HOOK_DIRECTORIES:
            found += (file, *(_join(start, value) for start in starts))
            passed += (turn for start in starts for turn in turns(start, value))
        elif key.startswith(("include.", "includeif.")):
            found += (file, *_find_included(file, value))
            passed += turns(os.path.dirname(file), value)
        elif not is_plain(key, value):
            found += _files_in(value, starts)
    found += (each for each in passed if real_path(each) != root)
    return list(dict.fromkeys(found))


def turns(base: str, path: str) -> Iterator[str]:
    """Directories that a path enters and leaves again by `..`: if one becomes a link, the path leads elsewhere."""
    whole = os.path.expanduser(path)
    here, last = "/" if os.path.isabs(whole) else base, ""
    for part in whole.split("/"):
        if part == ".." and last not in ("", ".", "..", ".git"):
            yield here
        if part not in ("", "."):
            here, last = _join(here, part), part


def hooks_of_user(top: str) -> list[str]:
    """Where the user's own settings place hooks. Settings in `top`, which commands can write, do not count."""
    files = _settings([*system_files(), *user_files()])
    return [
        value
        for file, settings in files.items()
        for key, value in settings
        if key == "core.hookspath" and not f"{real_path(file)}/".startswith(f"{top}/")
    ]


def files_named_by_script(path: str) -> list[str]:
    """Existing files that words of an `.envrc`, `hgrc`, `.hgsub` or file of mise name, and what these load or include.

    That counts also while it is missing: many an `.envrc` has `dotenv_if_exists` in it and nothing else.
    """
    if not _IS_SCRIPT.fullmatch(path):
        return []
    starts = [os.path.dirname(path)]
    while len(starts) < _STARTS:
        starts.append(os.path.dirname(starts[-1]))
    found = _mercurial_includes(path)
    text = "\n".join(text_of(each, _LARGEST_SCRIPT) for each in (path, *found))
    found += _files_in(text, starts)
    loaded = {word for word in _words(text) if is_env_file(os.path.basename(word))}
    if "dotenv" in text:
        loaded.add(".env")
    found += (_join(starts[0], word) for word in loaded)
    return list(dict.fromkeys(found))


def _mercurial_includes(path: str) -> list[str]:
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


def _settings(files: Iterable[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """The settings of files and of all that these include, on whatever condition: a command may fulfil it.

    A file that is empty or missing is among them: it counts as soon as somebody writes it.
    """
    pending = list(dict.fromkeys(files))[::-1]
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    while pending:
        file = pending.pop()
        if file in found:
            continue
        found[file] = settings_in(bytes_of(file)) or ()
        _check_number("git", file, found)
        for key, value in found[file]:
            if key.startswith(("include.", "includeif.")):
                pending += _find_included(file, value)
    return found


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
    """A whole path without `..`. What is before a `..` is followed as the kernel does: it may be a link."""
    before, up, after = f"{os.path.join(base, os.path.expanduser(path))}/".rpartition("/../")
    return os.path.normpath(f"{real_path(before + up)}/{after}" if up else after)
