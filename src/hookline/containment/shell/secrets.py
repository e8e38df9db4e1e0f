"""Files that hold secrets, by their names: keys, tokens, environments, histories.

A path is asked about in one of three forms: relative to the work directory if it is below it, `~/..` or `~name/..` if
it is below a home, else from the root. `places.py` makes them, of what is written and of where that leads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from hookline.containment.links import is_below, real_path
from hookline.own_directories import home, state_directory
from hookline.secret_tables import (
    COPY_ENDING,
    HOME_SECRETS,
    INSTALLATIONS,
    LIKELY_SECRETS,
    PUBLIC_KEY_FILE,
    SAMPLE_FILE,
    SECRET_ENDINGS,
    SECRET_FILE_NAME,
    SECRET_FILES,
    SECRET_PAIRS,
    is_env_file,
)
from hookline.wildcards import matches

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OF_PROCESS = frozenset(
    """
    cgroup cmdline comm io limits loadavg maps mountinfo mounts mountstats oom_adj oom_score oom_score_adj sched
    schedstat smaps smaps_rollup stat statm status uid_map gid_map wchan
    """.split()
)
_PLAIN_IN_HOME = tuple(tuple(path.lower().split("/")) for path in INSTALLATIONS)
_WHOLE_PLACES = frozenset(
    """
    / ~ /root /home /Users /etc /proc /var /run /etc/ssh /etc/ssl /etc/letsencrypt /etc/kubernetes /run/user ~/.config
    /private /private/etc /var/home /export/home /usr/home /Volumes /Library ~/Library ~/snap /var/run /var/lib
    """.split()
)
USUAL_HOME = re.compile(r"/root(?=/|$)|/(?:home|users|var/home)/[^/]+", re.IGNORECASE)
"""Where homes usually are, also those of users that are not known here."""
_HIDDEN_PLACES = frozenset(path.lower() for path in HOME_SECRETS)
_CONFIG_OF_HOME = re.compile(r"/\.(?:config|local)/")
_OF_GIT = re.compile(r"^:(\([^)]*\)|[/!^]*)|@\{[^{}]*\}")
"""What git reads in front of a path, and behind a branch: `stash@{0}`."""
_LONGEST = 255
"""Of the name of a file. Longer words are no files, and longer patterns are not looked at."""
_SOURCE = re.compile(
    r"\.(?:py|pyi|ts|tsx|js|jsx|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|md|rst|html|css|scss|vue)$"
)
_MERE_WORDS = frozenset(
    "credentials credential secrets secret keystore wallet token tokens keyrings gcloud".split()
)
"""Names of directories, or beginnings of names, that mean nothing where the file is source code or prose."""
_BRACKETS = re.compile(r"\[[!^]?\]?(?:\[:\w+:\]|[^\]/])*\]")
_REMEMBERED = 4096
"""Words that are not looked at again: a command is gone through more than once, and agents repeat themselves."""


DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
"""Devices that are harmless to read, and have an end. Another path below `/dev` may lead anywhere: `/dev/fd/../cwd`."""


def parts_of(path: str) -> list[str]:
    """The names in a path."""
    return [part for part in re.split(r"[/:=]", path) if part]


@lru_cache(_REMEMBERED)
def is_secret(path: str) -> bool:
    """Whether a path holds secrets: keys, tokens, environments, histories. One that is still a pattern may."""
    return _is_pattern(path) or _is_secret_place(path)


def _is_secret_place(whole: str) -> bool:
    parts = parts_of(whole)
    if whole.startswith("/dev/") and whole not in DEVICES:
        return True
    if whole.startswith("/") and parts and _is_process(parts):
        return True
    is_in_etc = len(parts) == 1 or parts[-2:-1] in (["etc"], ["backups"])
    if parts and is_in_etc and COPY_ENDING.sub("", parts[-1]) in ("shadow", "gshadow"):
        return True
    if parts[-2:] in ([".git", "config"], [".git", "config.worktree"]):  # addresses with passwords
        return True
    if parts[-2:-1] == [".ssh"] and re.fullmatch(r"[\w.-]+\.pub", parts[-1]):
        return False
    if _is_kept_in_home(whole, parts):
        return True
    if not SECRET_PAIRS.isdisjoint(pairwise(part.lower() for part in parts)):
        return True
    if parts and _is_secret_file_name(parts[-1]):
        return True
    mere = _MERE_WORDS if parts and _SOURCE.search(parts[-1]) else frozenset[str]()
    return any(_is_name_of_secret(part) for part in parts if part.partition(".")[0] not in mere)


def _is_secret_file_name(name: str) -> bool:
    if name == "passwd" or len(name) > _LONGEST or SAMPLE_FILE.search(name.lower()):
        return False
    return SECRET_FILE_NAME.search(_CAPITAL.sub("_", name).lower()) is not None


def _is_kept_in_home(whole: str, parts: list[str]) -> bool:
    """Whether a path leads into one of the hidden places of a home that are not known to be plain."""
    names = _hidden_in_home(whole, parts)
    # The model reads output there that is too long for it.
    output = os.path.relpath(f"{state_directory(os.environ)}/tmp", home(os.environ))
    plain = (*_PLAIN_IN_HOME, tuple(output.lower().split("/")))
    return bool(names) and not any(tuple(names[: len(each)]) == each for each in plain)


def _hidden_in_home(whole: str, parts: list[str]) -> list[str]:
    """The names of a path from the hidden entry of a home on; empty if it leads into none."""
    if whole.startswith("~"):
        below = parts[1:]
    elif home := USUAL_HOME.match(whole):
        below = parts_of(whole[home.end() :])
    elif whole.startswith("/") and (found := _CONFIG_OF_HOME.search(whole)):  # any user's home
        below = parts_of(whole[found.start() :])
    else:
        return []
    names = [name.lower() for name in below]
    is_hidden = names[:1] and (names[0][0] == "." or "/".join(names[:2]) in _HIDDEN_PLACES)
    return names if is_hidden else []


def is_hidden_in_home(path: str) -> bool:
    """Whether a path is, or is below, a hidden entry of a home: plain or not, a token may be in it."""
    return bool(_hidden_in_home(path, parts_of(path)))


def _is_pattern(name: str) -> bool:
    return not set("*?[").isdisjoint(name)


def _is_process(parts: list[str]) -> bool:
    """Whether a path below `/proc` shows what a process knows: only some of its files are known not to."""
    if parts[0] != "proc" or len(parts) < 2:
        return False
    name = parts[1]
    if name in {"kcore", "kmsg", "keys"}:
        return True
    of_process = name in {"self", "thread-self"} or not re.fullmatch("[a-z][a-z_-]*", name)
    return of_process and (len(parts) < 3 or parts[-1] not in _OF_PROCESS)


def _is_name_of_secret(name: str) -> bool:
    lower = name.lower()
    if len(name) > _LONGEST or SAMPLE_FILE.search(lower) or PUBLIC_KEY_FILE.fullmatch(lower):
        return False
    lower = COPY_ENDING.sub("", lower) or lower
    if is_env_file(lower):
        return True
    if lower in SECRET_FILES or lower.endswith((*SECRET_ENDINGS, ".tfvars.json")):
        return True
    if lower.startswith("ssh_host_") and not lower.endswith(".pub"):
        return True
    return lower.startswith(("service-account", "service_account", "credentials."))


def can_pick_secret(pattern: str) -> bool:
    """Whether a pattern by which a program itself picks files may pick a secret: to it a star is a leading dot, too."""
    plain = _OF_GIT.sub("", _BRACKETS.sub("?", pattern.lower().replace("\\", "")))
    if len(pattern) > _LONGEST or "{" in plain or "[" in plain:
        return True
    if not _is_pattern(plain):
        return is_secret(pattern)
    if plain.endswith(SECRET_ENDINGS):
        return True
    if not re.search("[a-z0-9]", plain):
        return False
    parts = [part for part in plain.split("/") if part.strip("*")]
    return any(matches(name, part) for part in parts for name in LIKELY_SECRETS)


def is_whole_home(path: str) -> bool:
    """Whether a path is a home directory, all of them, everything, or a place with many secrets."""
    parts = parts_of(path)
    if re.sub("^~[^/]*", "~", path) in _WHOLE_PLACES or (path.startswith("~") and len(parts) == 1):
        return True
    return len(parts) == 2 and parts[0] in {"home", "Users"} and path.startswith("/")


def has_home(path: str, homes: Iterable[str]) -> bool:
    """Whether one of these home directories is this one, or lies in it."""
    return any(is_below(home, real_path(path)) for home in homes)
