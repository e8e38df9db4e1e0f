"""Which files of version control name programs or lead elsewhere, and which of them a command may leave behind.

Only git's configuration is looked into, as git itself prints it. Every other file of these kinds is judged by being
there. No program is ever started in a repository of the tree: it would obey what a command has left there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from hookline.containment.git_settings import is_plain, settings_in
from hookline.containment.sandbox.quarantine import content_of

Check: TypeAlias = Literal["none", "git-config", "git-hooks", "too-deep"]
"""What a new file has to pass to stay: nothing helps, its keys are all harmless, or it holds samples only. A directory
that is too deep to look into is moved to the top, where it is looked into."""


class Part(NamedTuple):
    """A file or directory that somebody else runs or obeys."""

    path: str
    """Relative to the directory that commands can write."""
    check: Check = "none"


OTHER_SYSTEMS = {
    ".hg": ("hgrc", "hgrc-not-shared", "sharedpath"),
    ".jj": ("repo/config.toml", "repo/store/git_target", "workspace-config.toml", "config.toml"),
    ".bzr": ("branch/branch.conf", "branch/location", "branch-format/branch.conf"),
    "_darcs": ("prefs/defaults", "prefs/sources"),
    ".pijul": ("config",),
    ".sl": ("config", "hgrc", "sharedpath"),
}
"""Files that name programs or lead to another repository, by the directory that they are in."""

_LARGEST_INDEX = 64 * 1024 * 1024
_LARGEST_SOURCED = 1024 * 1024
_DEEPEST_INCLUDE = 10
_SEPARATORS = re.compile(r"[=:,;()\[\]{}\"'\s]+")
_SOURCED = re.compile(
    r"(?m)^\s*(?:(?:source|source_env|source_env_if_exists|dotenv|dotenv_if_exists|\.|%include)\s+[\"']?([^\s\"';&|]+)"
    r"|_\.(?:source|file)\s*=\s*(\[[^\]]*\]|.*))"
)
"""What an `.envrc`, an `hgrc` or mise's configuration runs or loads, whether or not it is there: all of them pass over
a file that is missing."""


def is_git_directory(names: frozenset[str]) -> bool:
    """Whether git would take a directory with these entries for a repository, whatever it is called."""
    return "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names)


def git_parts(git: str) -> Iterator[Part]:
    """The parts of one git directory. Those of submodules and further work trees are git directories themselves."""
    yield Part(f"{git}/config", "git-config")
    yield Part(f"{git}/hooks", "git-hooks")
    for name in ("config.worktree", "commondir", "gitdir", "sl/config"):
        yield Part(f"{git}/{name}")


# --- what may stay ------------------------------------------------------------------------------------


def is_harmless_configuration(content: bytes) -> bool:
    """Whether every setting is one that runs nothing. What git cannot list is not."""
    settings = settings_in(content)
    return settings is not None and all(is_plain(key, value) for key, value in settings)


def may_be_tracked(path: str) -> bool:
    """Whether git may track a file, by the names in the index of the repository that it is in."""
    top, name = os.path.split(path)
    while top != "/" and not os.path.lexists(f"{top}/.git"):
        top, last = os.path.split(top)
        name = f"{last}/{name}"
    if top == "/":
        return False
    index = content_of(top, ".git/index", _LARGEST_INDEX)
    if index is None:  # there is none, or it is elsewhere
        return not os.path.isdir(f"{top}/.git")
    is_compressed = index[4:8] == b"\0\0\0\4"
    return is_compressed or os.fsencode(name) + b"\0" in index


# --- what is named ------------------------------------------------------------------------------------


def files_named_by_git(content: bytes, top: str, beside: str, depth: int = 0) -> Iterator[str]:
    """Whole paths that a configuration of the user's names: further configuration, hooks, filters and other programs.

    `top` is where a program of the configuration starts, `beside` where an included path begins.
    """
    for key, value in settings_in(content) or ():
        section, _, name = key.partition(".")
        if not value or is_plain(key, value) or (section == "alias" and value[0] != "!"):
            continue
        if section in ("include", "includeif"):
            path = _joined(beside, value)
            yield path
            if depth < _DEEPEST_INCLUDE and os.path.isfile(path):
                with open(path, "rb") as file:
                    inner = file.read(_LARGEST_INDEX)
                yield from files_named_by_git(inner, top, os.path.dirname(path), depth + 1)
        elif name in ("hookspath", "excludesfile", "attributesfile"):
            yield _joined(top, value)
        else:
            yield from (path for path in words_as_paths(value, top) if os.path.isfile(path))


def files_named_in(text: str, *tops: str, directories: bool = False) -> Iterator[str]:
    """Files that a configuration in another language names: those that are there, and those that it would source.

    A file that it would source is read in the same way. `tops` are where a path may begin. With `directories` those
    that are there count too: an extension of Mercurial may be one.
    """
    exists = os.path.exists if directories else os.path.isfile
    pending, seen = [(text, tops)], set[str]()
    while pending:
        words, places = pending.pop()
        for top in places:
            yield from (path for path in words_as_paths(words, top) if exists(path))
            for one, several in _SOURCED.findall(words):
                for path in words_as_paths(several, top) if several else (_joined(top, one),):
                    yield path
                    if path in seen or not os.path.isfile(path):
                        continue
                    seen.add(path)
                    with contextlib.suppress(OSError), open(path, "rb") as file:
                        inner = os.fsdecode(file.read(_LARGEST_SOURCED))
                        pending.append((inner, (*tops, os.path.dirname(path))))


def words_as_paths(text: str, top: str) -> Iterator[str]:
    """The words of a text as whole paths, if they may be paths."""
    try:
        words = shlex.split(text.removeprefix("!"), comments=True)
    except ValueError:
        words = text.split()
    for word in words:
        for part in {word, *_SEPARATORS.split(word)}:
            if part and "\0" not in part and len(part) < 4096:
                yield _joined(top, part)


def _joined(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
