"""Where symbolic links lead, and what lies inside of what."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from hookline.containment.change_times import is_settled
from hookline.own_directories import whole_path

MOST_LINKS = 40
"""Links on the way to a file that the kernel follows."""
_NOT_PRINTED = re.compile(r"(hooks|lfs|objects/[0-9a-f]{2})/", re.DOTALL)
"""Directories whose files git never prints: it runs hooks, and objects are compressed, so that others do not unpack."""
_MOST_KNOWN = 64

_Times = tuple[tuple[str, int], ...]
_KNOWN: dict[str, tuple[_Times, str | None]] = {}
"""What was found, and when each directory had changed last. A directory changes when a link is put into it, and the
time of that change (unlike that of its content) cannot be set."""


def is_below(path: str | Path, directory: str | Path) -> bool:
    """Whether a whole path is a directory or something below it, as both are written."""
    return is_inside_any(path, (directory,))


def is_inside_any(path: str | Path, others: Iterable[str | Path]) -> bool:
    """Whether a path is one of the others, or lies in one."""
    places = [f"{str(other).rstrip('/')}/".replace("//", "/") for other in others]
    return f"{path}/".replace("//", "/").startswith(tuple(places))


def real_path(path: str | os.PathLike[str]) -> str:
    """A path without links, as the kernel resolves it; after forty of them, the way that is left.

    `os.path.realpath` follows any number. A chain of a thousand links, which a command makes in a second, ends it with
    a RecursionError before Python 3.13.
    """
    return links_and_target(whole_path(os.fspath(path)))[-1]


def links_and_target(path: str) -> list[str]:
    """Every link on the way of a whole path, without links in its own path, and what the path leads to in the end."""
    return _follow(path, [])


def ways_and_target(path: str) -> list[str]:
    """The same, and before that each directory that the path enters and leaves again by `..`.

    If one of these becomes a link, the path leads elsewhere.
    """
    left: list[str] = []
    found = _follow(path, left)
    return [*(each for each in left if not is_below(found[-1], each)), *found]


def _follow(path: str, left: list[str]) -> list[str]:
    here, rest = "", path.split("/")[::-1]  # asked about many paths for every command: by text
    links: list[str] = []
    while rest and len(links) <= MOST_LINKS:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            left.append(here)
            here = here.rpartition("/")[0]
            continue
        here = f"{here}/{name}"
        try:
            target = os.readlink(here)
        except OSError:
            continue  # no link, or not there
        links.append(here)
        here = "" if target.startswith("/") else here.rpartition("/")[0]
        rest += target.split("/")[::-1]
    return [*links, "/".join((here, *filter(None, reversed(rest)))) or "/"]


def link_out_of(inside: str) -> str | None:
    """A symbolic link below this directory, relative to it, that leads out of it; None if there is none.

    It is for `.git`. git follows such links like files of its own, and repeats in its errors what it cannot read:
    `.git/packed-refs` that leads to `~/.git-credentials` has `git fetch` print a password. The names that git reads are
    not listed here: any link counts.
    """
    known = _KNOWN.get(inside)
    if known is not None and all(_change_time(path) == at for path, at in known[0]):
        return known[1]
    times: list[tuple[str, int]] = []
    now = time.time_ns()
    found = _search(inside, real_path(inside), "", times)
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN.pop(inside, None)
    if all(is_settled(at, now) for _, at in times):
        _KNOWN[inside] = (tuple(times), found)
    return found


def _search(inside: str, real: str, below: str, times: list[tuple[str, int]]) -> str | None:
    here = os.path.join(inside, below)
    times.append(
        (here, _change_time(here))
    )  # before it is read: a change meanwhile is seen the next time
    try:
        with os.scandir(here) as entries:
            inner = sorted(
                (entry.name, entry.is_symlink())
                for entry in entries
                if entry.is_symlink() or entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return below or "."  # what cannot be looked at may hold anything
    for name, is_link in inner:
        path = os.path.join(below, name)
        if _NOT_PRINTED.fullmatch(f"{path}/"):
            continue
        if is_link:
            target = real_path(os.path.join(inside, path))
            if not is_below(target, real) or _is_not_searched(os.path.relpath(target, real)):
                return path
        elif found := _search(inside, real, path, times):
            return found
    return None


def _is_not_searched(path: str) -> bool:
    """Whether a link leads where this does not look for links."""
    return _NOT_PRINTED.match(f"{path}/") is not None


def _change_time(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0
