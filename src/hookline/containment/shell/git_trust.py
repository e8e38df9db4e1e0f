"""Which repository git would read, and whether the user trusts it.

Git obeys the repository it stands in: its configuration can name programs that `git status` starts. So git is allowed
only in a repository that the user trusts, and whose settings are all on a short list. git itself prints the settings:
whatever reads them in its place reads some byte differently.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from hookline.containment.change_times import is_settled
from hookline.containment.git_settings import (
    LARGEST,
    is_plain,
    run_git,
    settings_in,
    settings_of_user,
)
from hookline.containment.links import is_below, link_out_of, real_path

_CONFIGURATION = ("config", "config.worktree")
_HOOK = "post-index-change"
"""The only hook that commands run which read: `git status` writes the index."""
_PASSWORD = re.compile(r"://(?!git@)[^/\s]*@")
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
"""Variables of the user by which git finds its repository elsewhere."""

_USERS = r"^(submodule\.recurse|diff\.submodule|status\.submodulesummary|core\.hookspath)$"
_STAYS_OUT = frozenset({"false", "no", "off", "0", "short"})


def git_objection(place: str, trusted: Collection[str | os.PathLike[str]]) -> str | None:
    """Why git may not be run in a directory without asking, or None.

    `trusted` are directories; in a mapping, each with the hash that its configuration had when it was trusted.
    """
    if elsewhere := next((name for name in _PLACES if name in os.environ), None):
        return f"{elsewhere} points to another repository"
    innermost = sorted(trusted, key=lambda each: len(os.fspath(each)), reverse=True)
    top = next((each for each in innermost if is_below(place, real_path(each))), None)
    if top is None:
        return f"no repository at {place} is trusted (hookline trust --repository DIR)"
    real = real_path(top)
    if inner := _repository_between(place, real):
        return f"{inner} may be a repository of its own"
    problem = repository_objection(real)
    if problem is None and isinstance(trusted, Mapping):
        is_same = configuration_hash(real) == trusted[top]
        problem = None if is_same else "its configuration has changed since it was trusted"
    return f"{problem} (in {real})" if problem else None


def configuration_hash(top: str) -> str:
    """The hash of a repository's own configuration files, as they are now."""
    digest = hashlib.sha256()
    for name in _CONFIGURATION:
        content = _content(os.path.join(top, ".git", name))
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST + 1)
    except OSError:
        return b""


def repository_objection(top: str) -> str | None:
    """Why git would do more than read in the repository of this directory, trusted or not, or None."""
    now = time.time_ns()
    inside = os.path.join(top, ".git")
    within = (inside, os.path.join(inside, "refs"), os.path.join(inside, "objects"))
    places = tuple(_mark(path)[:2] for path in within)
    marks = tuple(
        _mark(os.path.join(inside, name)) for name in ("config", "config.worktree", "HEAD")
    )
    if not stat.S_ISDIR(places[0][0]):
        return _no_repository(top, inside)
    if os.path.lexists(os.path.join(inside, "commondir")):
        return "its configuration is in another directory"
    if os.path.lexists(os.path.join(inside, "hooks", _HOOK)):
        return f"its hook {_HOOK} would run"
    if link := link_out_of(inside):
        return f".git/{link} leads out of the repository"
    inspect = _inspect if _are_settled(marks, now) else _inspect.__wrapped__
    return inspect(top, places, marks) or _populated_submodule(top) or _users_setting(top)


def _no_repository(top: str, inside: str) -> str:
    """What a directory is that has no directory `.git`."""
    if os.path.lexists(inside):
        return "its .git is not a directory: the repository is elsewhere, as for a submodule or a linked work tree"
    if all(os.path.lexists(os.path.join(top, name)) for name in ("HEAD", "objects", "refs")):
        return "it is a bare repository, and only one with a work tree can be trusted"
    above = os.path.dirname(top)
    while above != "/":
        if os.path.lexists(os.path.join(above, ".git")):
            return f"it has no .git: it is a part of the repository {above}"
        above = os.path.dirname(above)
    return "it has no .git, so it is not a repository"


def _repository_between(place: str, top: str) -> str | None:
    """A directory from here up to the top, without it, in which git might find another repository."""
    level = place
    while level != top:
        if any(os.path.lexists(os.path.join(level, name)) for name in (".git", "HEAD")):
            return level
        level = os.path.dirname(level)
    return None


_Mark = tuple[int, ...]
_MISSING: _Mark = (0,)


def _mark(path: str) -> _Mark:
    """What changes when a file does."""
    try:
        facts = os.lstat(path)
    except OSError:
        return _MISSING
    return (facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _are_settled(marks: Iterable[_Mark], now: int) -> bool:
    """Whether files that are read now get other marks by their next change, so that what is found can be kept."""
    return all(mark == _MISSING or is_settled(mark[-1], now) for mark in marks)


@lru_cache(64)
def _inspect(top: str, _places: tuple[_Mark, ...], marks: tuple[_Mark, ...]) -> str | None:
    """Why git may not read in a repository, while its files are those of the marks; or None."""
    inside = os.path.join(top, ".git")
    for name, mark in zip(_CONFIGURATION, marks, strict=False):
        if mark == _MISSING and name != "config":
            continue
        if not stat.S_ISREG(mark[0]) or mark[2] > LARGEST:
            return f".git/{name} is not a plain file"
        settings = settings_in(_content(os.path.join(inside, name)))
        if settings is None:
            return f"git cannot list .git/{name}"
        if problem := _settings_problem(settings):
            return problem
    found = run_git(["rev-parse", "--absolute-git-dir"], top)
    if found is None or found.removesuffix("\n") != inside:
        return "git does not find its repository there"
    return None


def _settings_problem(settings: tuple[tuple[str, str], ...]) -> str | None:
    for key, value in settings:
        if not is_plain(key, value) or (key == "core.bare" and value != "false"):
            return f"its configuration sets {key}"
        if _PASSWORD.search(value):
            return f"its configuration holds a password in {key}"
    return None


@lru_cache(64)
def _submodules(top: str, _index: _Mark) -> tuple[str, ...] | None:
    """The paths of repositories inside, by the index. None if git cannot list it."""
    listed = run_git(["ls-files", "--stage", "-z"], top)
    if listed is None:
        return None
    return tuple(
        line.partition("\t")[2] for line in listed.split("\0") if line.startswith("160000 ")
    )


def _populated_submodule(top: str) -> str | None:
    """git starts itself in each repository inside, and obeys the configuration of that one."""
    now = time.time_ns()
    index = _mark(os.path.join(top, ".git", "index"))
    listed = _submodules if _are_settled((index,), now) else _submodules.__wrapped__
    paths = () if index == _MISSING else listed(top, index)
    if paths is None:
        return "git cannot list its index"
    inner = next((p for p in paths if os.path.lexists(os.path.join(top, p, ".git"))), None)
    return f"{inner} is a repository inside of it" if inner else None


def _users_setting(top: str) -> str | None:
    """A setting outside of the repository that leads git to hooks, or into submodules of any commit.

    `core.hooksPath=.githooks` names a directory of each repository, whose content is committed.
    """
    for scope in ("global", "system"):
        for key, value in settings_of_user(top, _USERS, scope):
            if key == "core.hookspath":
                place = os.path.join(top, os.path.expanduser(value), _HOOK)
                if os.path.lexists(place):
                    return (
                        f"your own configuration of git sets {key}, and the hook {place} would run"
                    )
            elif value.lower() not in _STAYS_OUT:
                return (
                    f"your own configuration of git sets {key}, which leads into other repositories"
                )
    return None
