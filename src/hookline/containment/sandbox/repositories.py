"""Which files of version control name programs or lead elsewhere, and which of them a command may leave behind.

Only git's configuration is looked into, as git itself prints it. Every other file of these kinds is judged by being
there.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from hookline.containment.git_settings import is_plain, run_git, settings_in
from hookline.containment.sandbox.quarantine import open_to_us

Check: TypeAlias = Literal["none", "git-config", "git-hooks"]
"""What a new file has to pass to stay: nothing helps, its keys are all harmless, or it holds samples only."""


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

_PASSING = stat.S_IRUSR | stat.S_IXUSR
_GIT_NEVER_WALKED = frozenset({"objects", "refs", "logs", "lfs"})
_WITHOUT_FILES = frozenset(
    {"branch", "remote", "user", "submodule", "url", "color", "advice", "alias"}
)
"""Sections whose values are names and addresses. A file that is called `origin` is not meant by one."""


def is_git_directory(names: frozenset[str]) -> bool:
    """Whether git would take a directory with these entries for a repository, whatever it is called."""
    return "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names)


def git_parts(root: str, git: str, *, open_closed: bool = False) -> Iterator[Part]:
    """The parts of one git directory, also of its submodules and further work trees.

    With `open_closed`, a directory of ours that cannot be listed is opened to us.
    """
    if open_closed:
        open_to_us(f"{root}/{git}", _PASSING)
    yield Part(f"{git}/config", "git-config")
    yield Part(f"{git}/config.worktree")
    yield Part(f"{git}/commondir")
    yield Part(f"{git}/sl/config")  # of Sapling, which works in git's repositories
    yield Part(f"{git}/hooks", "git-hooks")
    for name in _listed(root, f"{git}/worktrees", open_closed):
        if open_closed:
            open_to_us(f"{root}/{git}/worktrees/{name}", _PASSING)
        for file in ("commondir", "gitdir", "config.worktree"):
            yield Part(f"{git}/worktrees/{name}/{file}")
    for name in ("worktrees", "modules"):
        if os.path.islink(f"{root}/{git}/{name}"):
            yield Part(f"{git}/{name}")
    yield from _module_parts(root, f"{git}/modules", open_closed)


def _module_parts(root: str, place: str, open_closed: bool) -> Iterator[Part]:
    """Submodules may lie at any depth below `modules`: their names have slashes in them."""
    for name in _listed(root, place, open_closed):
        below = f"{place}/{name}"
        if os.path.islink(f"{root}/{below}"):
            yield Part(below)
        elif name not in _GIT_NEVER_WALKED:
            if is_git_directory(frozenset(_listed(root, below, open_closed))):
                yield from git_parts(root, below, open_closed=open_closed)
            else:
                yield from _module_parts(root, below, open_closed)


def _listed(root: str, place: str, open_closed: bool) -> list[str]:
    path = f"{root}/{place}"
    if open_closed:
        open_to_us(path, _PASSING)
    try:
        return [] if os.path.islink(path) else os.listdir(path)
    except OSError:
        return []


# --- what may stay ------------------------------------------------------------------------------------


def is_harmless_configuration(content: bytes) -> bool:
    """Whether every setting is one that runs nothing. What git cannot list is not."""
    settings = settings_in(content)
    return settings is not None and all(is_plain(key, value) for key, value in settings)


def is_tracked(path: str) -> bool:
    """Whether git tracks a file. The index is read and not refreshed, so that no program of the repository runs."""
    directory, name = os.path.split(path)
    words = ["ls-files", "--cached", "--error-unmatch", "--", f":(literal){name}"]
    return run_git(words, directory) is not None


# --- what is named ------------------------------------------------------------------------------------


def files_named_by_git(text: bytes, top: str, beside: str) -> Iterator[str]:
    """Whole paths that a configuration of the user's names: further configuration, hooks, filters and other programs.

    `top` is where a program of the configuration starts, `beside` where an included path begins.
    """
    for key, value in settings_in(text) or ():
        section, _, name = key.partition(".")
        if section in ("include", "includeif"):
            yield _joined(beside, value)
        elif name in ("hookspath", "excludesfile", "attributesfile"):
            yield _joined(top, value)
        elif section not in _WITHOUT_FILES:
            yield from (path for path in files_named_in(value, top) if os.path.isfile(path))


def files_named_in(text: str, top: str) -> Iterator[str]:
    """The words of a text as whole paths, if they may be paths."""
    try:
        words = shlex.split(text.removeprefix("!"), comments=True)
    except ValueError:
        words = text.split()
    for word in words:
        for part in re.split(r"[=:,;()]", word):
            if part and "\0" not in part and len(part) < 4096:
                yield _joined(top, part)


def _joined(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
