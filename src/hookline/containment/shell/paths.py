"""Paths that matter: where a removal or a write changes what others do, and devices that are no files."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from hookline.containment.protected import AGENT_CONFIGURATION, INSTRUCTIONS
from hookline.containment.shell.words import Word

DEVICES = frozenset("null zero full random urandom stdin stdout stderr tty fd".split())
"""Devices that are harmless to read and to write."""

SYSTEM = frozenset(
    "bin boot dev etc lib lib32 lib64 libx32 proc sbin sys usr system library applications".split()
)
"""The directories at the root in which nobody but the system writes."""

_START_UP = frozenset(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .cshrc .tcshrc .login .xinitrc .xprofile .xsessionrc .pam_environment config.fish .gitconfig authorized_keys
    .rhosts .bashrc.d .zshrc.d .profile.d .envrc
    """.split()
)
_AGENT = frozenset(name.lower() for name in AGENT_CONFIGURATION | INSTRUCTIONS)
_KEPT_DIRECTORIES = frozenset(
    ".ssh .gnupg .aws .kube autostart launchagents launchdaemons cron.d cron.daily crontabs".split()
)
_KEPT = _START_UP | _AGENT | _KEPT_DIRECTORIES
_KEPT_PAIRS = frozenset(
    {
        (".git", "hooks"),
        (".git", "config"),
        (".hg", "hgrc"),
        ("systemd", "user"),
        ("spool", "cron"),
        ("fish", "conf.d"),
        ("fish", "functions"),
    }
)
_ABOVE = re.compile(r"\.\.(?:/\.\.)*(?:/[^\w/]*[*?\]][^\w/]*)?")


def resolve(path: str, where: str = "") -> str:
    """A path without detours, beginning with `/`, `~` or nothing, as seen from `where`."""
    if path.startswith("file://"):
        path = path[len("file://") :]
    if where and not path.startswith(("/", "~")):
        path = f"{where}/{path}"
    return re.sub("^//+", "/", posixpath.normpath(path)) if path else path


def seen_from(where: str, path: str) -> str:
    """Where a path leads from a directory."""
    return f"{where}/{path}" if where and not path.startswith(("/", "~")) else path


def is_place(word: Word) -> bool:
    """Whether a word names one directory that can be looked at: it is exact, or begins with the home."""
    if re.match(r"~[-+0-9]", word.text):  # of the stack of directories
        return False
    if word.exact and word.text.startswith("~"):  # in quotes it is a name like every other
        return False
    return word.exact or (not word.hidden and re.fullmatch(r"[\w./~@ -]+", word.text) is not None)


def places_of(root: str, steps: Iterable[str]) -> set[str]:
    """The directories to which steps may lead, one from the other: to bash, and to a program that follows each link."""
    places = [root or os.curdir]
    for step in steps:
        ways = {step, os.path.expanduser(step)}  # in quotes a tilde is a name like every other
        places = [os.path.join(place, way) for place in places for way in sorted(ways)]
    return {way for place in places for way in _ways(place)}


def _ways(place: str) -> set[str]:
    """Where a path may lead: behind a link, `..` is another directory to bash than to whoever has followed the link."""
    if ".." not in place:
        return {place}
    ways = {os.sep if os.path.isabs(place) else os.getcwd()}
    for part in place.split(os.sep):
        if part == os.pardir:
            ways |= {os.path.realpath(way) for way in ways}
            ways = {os.path.dirname(way) for way in ways}
        else:
            ways = {os.path.normpath(os.path.join(way, part)) for way in ways}
    return ways


def trees_above(places: Iterable[str]) -> list[str]:
    """The directories in which a working tree may begin that some directories belong to."""
    trees: set[str] = set()
    for place in places:
        level, below = os.path.realpath(place), ""
        while level != below:
            if os.path.lexists(os.path.join(level, ".git")):
                trees.add(level)
            level, below = os.path.dirname(level), level
    return sorted(trees) or [""]


def names_in(places: Iterable[str]) -> Iterator[str]:
    """What lies in some directories, those that exist; of one that cannot be read, a name that is like any other."""
    for place in places:
        try:
            yield from os.listdir(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield "*:*"


def lies_above(place: str, name: str) -> bool:
    """Whether something of a name lies in a directory or in one above it; also where that cannot be looked at."""
    try:
        level = os.path.realpath(place)
    except OSError:
        return True
    while not os.path.lexists(os.path.join(level, name)):
        level, below = os.path.dirname(level), level
        if level == below:
            return False
    return True


def parts_of(path: str) -> list[str]:
    """The names in a path."""
    return [part for part in re.split(r"[/:=]", path) if part]


def is_outside(path: str, where: str = "") -> bool:
    """Whether a removal aims at the root, at a home, at a system directory or above where it starts."""
    whole = resolve(path, where)
    parts = parts_of(whole)
    if path.startswith("~") or whole.startswith(".."):
        return True
    if whole.startswith("~"):  # by way of `cd`: work in a project below it is ordinary
        return len(parts) <= 2
    if not whole.startswith("/"):
        return False
    if len(parts) <= 1 or parts[0] in SYSTEM or (parts[0] == "var" and parts[1] != "tmp"):
        return True
    depth = {"root": 2, "home": 3, "Users": 3}.get(parts[0], 0)
    return len(parts) <= depth


def is_above(path: str) -> bool:
    """Whether a path is `..` in any spelling, or all that lies there, wherever it is seen from."""
    return _ABOVE.fullmatch(posixpath.normpath(path)) is not None if path else False


def is_protected(path: str, where: str = "") -> bool:
    """Whether a write there would change what the system, a shell, git or an agent does."""
    whole = resolve(path, where)
    parts = parts_of(whole.lower())
    if whole in {"/", "~"}:
        return True
    if whole.startswith("/") and parts and parts[0] in SYSTEM:
        return parts[0] != "dev" or is_device(whole)
    if re.match(r"(\.\./){2,}etc/", whole):  # far enough up, it is the root
        return True
    if any(map(_is_kept, parts)):
        return True
    return not _KEPT_PAIRS.isdisjoint(pairwise(parts))


def _is_kept(name: str) -> bool:
    """Whether a name is one of those, or a pattern that spells out most of one."""
    if name in _KEPT or not re.search(r"[*?\[]", name) or len(re.findall("[a-z]", name)) < 4:
        return name in _KEPT
    return len(name) < 40 and any(fnmatch.fnmatchcase(one, name) for one in _KEPT)


def is_device(path: str) -> bool:
    """Whether a path is a disk or another device that must not be written to."""
    whole = resolve(path)
    if not whole.startswith("/dev/"):
        return False
    return parts_of(whole)[1] not in DEVICES | {"shm", "pts"}


def is_network(path: str) -> bool:
    """Whether bash would open a connection for a path."""
    return re.match(r"/dev/(tcp|udp)/", re.sub("/+", "/", path)) is not None
