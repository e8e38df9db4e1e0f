"""git's settings, as git itself prints them. Whatever reads them in its place reads some byte differently."""

from __future__ import annotations

import os
import re
import shutil
from functools import lru_cache

from hookline.containment.links import real_path
from hookline.containment.processes import run_briefly

_SYSTEM = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/run/current-system/sw/bin"
GIT = shutil.which("git", path=_SYSTEM) or shutil.which("git")
"""Where the system has it, first: a search path may lead through a directory that commands can write in."""
LARGEST = 1_000_000
"""Bytes of a configuration file."""
_MOST = 50 * LARGEST
_TIME = 5.0

_PLAIN_KEY = re.compile(
    r"""
    core\.(?: repositoryformatversion | filemode | bare | logallrefupdates | ignorecase | precomposeunicode | symlinks
        | autocrlf | eol | safecrlf | abbrev | quotepath | untrackedcache | preloadindex | commentchar | whitespace
        | sparsecheckout | sparsecheckoutcone )
    | extensions\.(?: objectformat | worktreeconfig | refstorage )
    | user\.(?: name | email | signingkey | useconfigonly ) | author\.(?: name | email ) | committer\.(?: name | email )
    | remote\..*\.(?: url | pushurl | fetch | push | tagopt | prune | mirror | skipdefaultupdate | gh-resolved )
    | remote\.pushdefault
    | branch\..*\.(?: remote | pushremote | merge | rebase | description | [a-z-]*merge-base )
    | branch\.(?: autosetupmerge | autosetuprebase | sort )
    | pull\.(?: rebase | ff ) | push\.(?: default | autosetupremote | followtags ) | fetch\.(?: prune | prunetags )
    | merge\.(?: ff | conflictstyle | renamelimit ) | rebase\.(?: autosquash | autostash | updaterefs )
    | init\.defaultbranch | log\.(?: date | decorate | follow | abbrevcommit ) | rerere\.enabled
    | diff\.(?: algorithm | renames | renamelimit | colormoved | noprefix | mnemonicprefix )
    | status\.(?: short | branch | relativepaths | showuntrackedfiles | aheadbehind | showstash | renames )
    | advice\.[a-z]+ | color\.[a-z.]+ | column\.[a-z]+ | index\.(?: version | threads | sparse )
    | gc\.(?: auto | autodetach | autopacklimit | pruneexpire | reflogexpire | reflogexpireunreachable | packrefs
        | writecommitgraph | worktreepruneexpire )
    | commit\.(?: gpgsign | verbose ) | tag\.(?: gpgsign | sort ) | lfs\.repositoryformatversion
    | submodule\..*\.(?: url | active | branch )
    """,
    re.VERBOSE | re.DOTALL,
)
_RUNS_WHAT_FOLLOWS = re.compile(r"\s*(ext|fd)::", re.IGNORECASE)
"""How an address begins for which git runs what follows."""


def is_plain(key: str, value: str) -> bool:
    """Whether a setting names no program, no other file and no other place."""
    return _PLAIN_KEY.fullmatch(key) is not None and not _RUNS_WHAT_FOLLOWS.match(value)


@lru_cache(maxsize=256)
def settings_in(content: bytes) -> tuple[tuple[str, str], ...] | None:
    """The settings of a configuration file, without what it includes; None if git cannot list them.

    Keys are in lower case but for what is between the dots. The file is handed over by its content, not by its path:
    somebody may put another one there meanwhile.
    """
    if len(content) > LARGEST:
        return None
    printed = run_git(["config", "--file", "-", "--list", "-z", "--no-includes"], content=content)
    if printed is None:
        return None
    return _pairs(printed)


def _pairs(printed: str) -> tuple[tuple[str, str], ...]:
    """The keys and values that git prints with `-z`."""
    pairs = (setting.partition("\n") for setting in printed.split("\0") if setting)
    return tuple((key, value) for key, _, value in pairs)


def run_git(words: list[str], where: str = "/", content: bytes = b"") -> str | None:
    """What git prints, or None if it fails. Only a repository's own files have a say, and nothing of theirs is run."""
    if GIT is None or (where != "/" and real_path(GIT).startswith(f"{where}/")):
        return None
    quiet = ["safe.directory=*", "core.hooksPath=/dev/null", "core.fsmonitor=false"]
    options = [word for each in quiet for word in ("-c", each)]
    environment = {
        "PATH": os.path.dirname(GIT),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
    }
    if where == "/":
        environment["GIT_DIR"] = "/nonexistent"
    try:
        code, output, _ = run_briefly(
            [GIT, *options, *words], seconds=_TIME, env=environment, cwd=where, stdin=content
        )
    except OSError:
        return None
    return os.fsdecode(output) if code == 0 and len(output) <= _MOST else None


def settings_of_user(where: str, wanted: str, scope: str = "global") -> tuple[tuple[str, str], ...]:
    """The settings of the user's own file whose keys fit a pattern, as they hold in a directory.

    `scope` is `global` for that file, or `system` for the one of the system.
    """
    return _of_user(where, wanted, scope, _change_times(scope))


def user_files() -> tuple[str, ...]:
    """Where the user's own settings are, whether or not they are there."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    return (named,) if named else (f"{base}/git/config", os.path.expanduser("~/.gitconfig"))


def system_files() -> tuple[str, ...]:
    """Where the system's settings are, whether or not they are there."""
    return (os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig",)


def _change_times(scope: str) -> tuple[tuple[str, int], ...]:
    """The files that the settings are in, and when they changed last."""
    found = []
    for path in user_files() if scope == "global" else system_files():
        try:
            found.append((path, os.stat(path).st_mtime_ns))
        except OSError:
            continue
    return tuple(found)


@lru_cache(maxsize=64)
def _of_user(
    where: str, wanted: str, scope: str, changed: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, str], ...]:
    """As git prints them: it knows what the file includes. Listing runs nothing."""
    if not changed or GIT is None:
        return ()
    argv = [GIT, "config", f"--{scope}", "--includes", "-z", "--get-regexp", wanted]
    env = {
        name: os.environ[name]
        for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
        if name in os.environ
    }
    env["PATH"] = os.path.dirname(GIT)
    for place in (where, "/"):  # a repository that cannot be read must not cost the user's name
        try:
            code, output, _ = run_briefly(argv, seconds=_TIME, env=env, cwd=place)
        except OSError:
            continue
        if not code:
            return _pairs(os.fsdecode(output))
    return ()
