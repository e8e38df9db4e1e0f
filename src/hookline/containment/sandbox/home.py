"""A home directory as commands see it: a temporary one, with the entries that do not begin with a dot, read-only.

Programs keep their keys in entries that begin with a dot, each under a name of its own. A table of such names was
always behind: 78 of 124 kinds were not in it. So none is shown, but for the paths that programs are started from.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache

from hookline.containment.git_settings import settings_of_user
from hookline.containment.links import MOST_LINKS, is_inside_any, links_and_target, real_path
from hookline.containment.mount_table import second_paths
from hookline.containment.sandbox.directory_entries import listing
from hookline.containment.sandbox.tables import EMPTIED, OF_PROJECTS, STORES, SYSTEM, TOOL_VARIABLES
from hookline.secret_tables import INSTALLATIONS, SECRET_ENDINGS, SECRET_FILES

_FIRST_PERSON, _NOBODY = 1000, 65534
"""Numbers of users who are people."""
_PACKAGES = tuple(f"/{name}" for name in INSTALLATIONS)


def homes() -> list[str]:
    """The home directories whose entries we could read: our own, and for root everybody's."""
    changed = []
    for path in ("/etc/passwd", "/home"):
        with contextlib.suppress(OSError):
            changed.append(os.stat(path).st_ctime_ns)
    return list(_homes(os.path.expanduser("~"), os.geteuid(), tuple(changed)))


def mounted_homes() -> list[str]:
    """The same, also in the second places where they are mounted, a home before those inside it.

    It takes longer: the table of mounts is read.
    """
    found = homes()
    return sorted([*found, *second_paths(tuple(each for each in found if not is_of_system(each)))])


def is_of_system(home: str) -> bool:
    """Whether a home is a directory of the system, as for users who are services: `/`, `/usr/sbin`, `/var`."""
    holds = any(place.startswith(f"{home}/") for place in EMPTIED)
    return home == "/" or holds or any(f"{home}/".startswith(f"{place}/") for place in SYSTEM)


@lru_cache(maxsize=16)
def _homes(_home: str, user: int, _changed: tuple[int, ...]) -> list[str]:
    found = _own_homes()
    if user == 0:
        found += (each.pw_dir for each in pwd.getpwall() if _FIRST_PERSON <= each.pw_uid < _NOBODY)
        with contextlib.suppress(OSError):
            found += (entry.path for entry in os.scandir("/home") if entry.is_dir())
    return _check(found)


def _own_homes() -> list[str]:
    """What `HOME` says, and what the system says."""
    found = [os.path.expanduser("~")]
    with contextlib.suppress(KeyError):
        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return _check(found)


def _check(paths: Iterable[str]) -> list[str]:
    real = dict.fromkeys(map(real_path, paths))
    return [home for home in real if os.path.isdir(home)]


def entries(home: str) -> tuple[list[str], list[str]]:
    """The paths of the entries of a home: those that begin with a dot, and the others."""
    names = listing(home).names
    return (
        [os.path.join(home, name) for name in names if name.startswith(".")],
        [os.path.join(home, name) for name in names if not name.startswith(".")],
    )


def hidden_links(home: str) -> list[str]:
    """The entries that begin with a dot and are links, and the links in `.config`.

    People keep such files in a directory of their own, as `~/.aws -> dotfiles/aws`.
    """
    config = os.path.join(home, ".config")
    top = [name for name in listing(home).links if name.startswith(".")]
    return [
        *(os.path.join(home, name) for name in top),
        *(os.path.join(config, name) for name in listing(config).links),
    ]


def linked_entries(home: str) -> list[str]:
    """Where hidden links of a home lead, if that is in the same home."""
    targets = map(real_path, hidden_links(home))
    return [path for path in targets if path.startswith(f"{home}/") and os.path.exists(path)]


def linked_credentials(home: str) -> list[str]:
    """Of that, what has credentials by the name of the link, or by names of its own."""
    found = []
    for link in hidden_links(home):
        target = real_path(link)
        found += [target] if _is_credential(os.path.basename(link)) else credentials_in(target)
    return [path for path in found if path.startswith(f"{home}/") and os.path.exists(path)]


def dot_entry(path: str, known: Iterable[str]) -> str:
    """The entry of a home that begins with a dot and holds this path; empty if none does."""
    for home in known:
        before = f"{home}/" if home != "/" else home
        if path.startswith(f"{before}."):
            return before + path[len(before) :].partition("/")[0]
    return ""


def needed_paths(writable: tuple[str, ...], known: list[str], env: Mapping[str, str]) -> list[str]:
    """Whole paths in hidden places that programs are started from, and what they cannot do without.

    They are given as they are, with the links on the way and where they lead. `env` are the variables of the command,
    `writable` the directories that commands can write in.
    """
    homes_known = tuple(known)
    searched = dict.fromkeys(filter(os.path.exists, _search_path(env)))
    directories = {
        path: paths for path in searched if (paths := shown_paths(path, writable, homes_known))
    }
    found = dict.fromkeys(itertools.chain(*directories.values()))
    wanted = _paths_named(env)
    wanted += (sys.prefix, sys.base_prefix, sys.exec_prefix)  # the interpreter that runs us
    wanted += [os.path.join(home, name) for home in _own_homes() for name in INSTALLATIONS]
    there = filter(os.path.exists, dict.fromkeys(wanted))
    found |= dict.fromkeys(
        each for path in there for each in shown_paths(path, writable, homes_known)
    )
    for directory in directories:
        with contextlib.suppress(OSError):
            changed = os.stat(directory).st_ctime_ns
            found |= dict.fromkeys(_behind_links(directory, changed, writable, homes_known))
    emptied = tuple(f"{each}/" for each in EMPTIED)
    return [path for path in found if dot_entry(path, known) or path.startswith(emptied)]


def shown_paths(path: str, writable: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """A path as it is, the links on its way, and where it leads; none if a command could decide where that is.

    What lies in a directory that commands can write is shown anyway. A link there may lead to any file of the user's.
    """
    found = _way(path, writable, known)
    return () if found is None else (os.path.normpath(path), *found)


def _way(path: str, writable: tuple[str, ...], known: tuple[str, ...]) -> list[str] | None:
    """The links on the way of a path and its target; None if a command could have made one, or can write there."""
    *links, target = way = links_and_target(path)
    # A program that is in no hidden entry, but among temporary files, may be shown whoever made the link. A directory
    # may not: what is hidden in it would be seen by the path of the link. In a store nothing is hidden.
    is_harmless = is_inside_any(target, STORES) or (
        _is_program(target) and not dot_entry(target, known)
    )
    is_planted = not is_harmless and any(_can_be_planted(link, known) for link in links)
    passes = any(is_inside_any(each, writable) for each in way)
    return None if passes or is_planted or len(links) > MOST_LINKS else way


def _can_be_planted(link: str, known: tuple[str, ...]) -> bool:
    """Whether a command could have made a link, in a sandbox of whatever project.

    Nobody knows where the user's projects are. They are not in entries of homes that commands do not see, nor where the
    user cannot write. Root can write everywhere, and has no projects in directories of the system.
    """
    directory, entry = os.path.dirname(link), dot_entry(link, known)
    # Where a home is the work directory, commands may write entries that projects have, such as ~/.venv.
    if directory == "/" or (entry and os.path.basename(entry) not in OF_PROJECTS):
        return False
    if os.geteuid() == 0:
        return not is_inside_any(link, SYSTEM)
    try:
        is_own = os.stat(directory).st_uid == os.geteuid()
    except OSError:  # it was removed
        return True
    return is_own or os.access(directory, os.W_OK)


def credentials_in(path: str) -> list[str]:
    """The files of a shown directory whose names say that they hold credentials."""
    deepest = path.count("/") if path.endswith(_PACKAGES) else path.count("/") + 1
    found, pending = [], [path]
    while pending:
        place = pending.pop()
        inside = listing(place)
        found += [f"{place}/{name}" for name in inside.names if _is_credential(name)]
        if place.count("/") < deepest:  # deeper, there are the files of packages
            pending += (f"{place}/{name}" for name in inside.directories)
    return found


def hidden_programs(known: list[str], shown: Iterable[str]) -> list[str]:
    """The programs on the search path that commands do not see, or that lead to a file which they do not see."""
    visible = tuple(shown)

    def is_hidden(path: str) -> bool:
        return bool(dot_entry(path, known)) and not is_inside_any(path, visible)

    found = []
    for directory in _search_path(os.environ):
        with contextlib.suppress(OSError):
            found += [
                entry.path
                for entry in os.scandir(directory)
                if entry.is_file()
                and any(
                    map(is_hidden, (directory, real_path(entry.path), _interpreter(entry.path)))
                )
            ]
    return sorted(found)


def _search_path(env: Mapping[str, str]) -> list[str]:
    places = env.get("PATH", "").split(os.pathsep)
    return [os.path.normpath(each) for each in places if os.path.isabs(each)]


@lru_cache(maxsize=128)
def _behind_links(
    directory: str, _changed: int, writable: tuple[str, ...], known: tuple[str, ...]
) -> tuple[str, ...]:
    """What the links to programs in a directory lead to: the installation, or the file alone."""
    links = [entry.path for entry in os.scandir(directory) if entry.is_symlink()]
    # Files with keys can hardly ever be executed.
    programs = (_way(link, writable, known) for link in links if _is_program(link))
    found = dict.fromkeys(_installation(each[-1]) for each in programs if each is not None)
    # Most are programs of the system.
    return tuple(path for path in found if "/." in path or is_inside_any(path, EMPTIED))


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _installation(program: str) -> str:
    """What a program needs beside itself: its virtual environment or its package; or the file alone."""
    above = os.path.dirname(os.path.dirname(program))
    if os.path.exists(f"{above}/pyvenv.cfg"):
        return above
    head, found, _ = program.partition("/node_modules/")
    return f"{head}/node_modules" if found else program


def _paths_named(env: Mapping[str, str]) -> list[str]:
    named = (each for name in TOOL_VARIABLES for each in env.get(name, "").split(os.pathsep))
    return [path for path in named if os.path.isabs(path)]


@lru_cache(maxsize=8192)
def _is_credential(name: str) -> bool:
    small = name.lower()
    return small in SECRET_FILES or small.endswith(SECRET_ENDINGS)


def _interpreter(path: str) -> str:
    """The program that the first line of a script names; empty if there is none."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        first = file.readline(256)
        if first.startswith(b"#!"):
            return real_path(os.fsdecode(first[2:].split()[0])) if first[2:].split() else ""
    return ""


# --- git ---------------------------------------------------------------------------------------------

_GIT_KEYS = ("user.name", "user.email", "safe.directory", "core.excludesfile", "init.defaultbranch")
_GIT_KEY = rf"^({'|'.join(_GIT_KEYS)})$"


def git_configuration(root: str) -> bytes:
    """Settings of the user's that git gets. The user's own file may hold tokens and name programs."""
    lines = []
    for key, value in settings_of_user(root, _GIT_KEY):
        section, _, name = key.partition(".")
        lines.append(f"[{section}]\n\t{name} = {_quote_for_git(value)}\n")
    return "".join(lines).encode(errors="surrogateescape")


def ignore_file() -> list[str]:
    """The user's own list of ignored files, where there is one."""
    named = [value for key, value in settings_of_user("/", _GIT_KEY) if key == "core.excludesfile"]
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    paths = [os.path.expanduser(each) for each in named] or [f"{base}/git/ignore"]
    return [path for path in paths if os.path.isabs(path) and os.path.isfile(path)]


def _quote_for_git(value: str) -> str:
    escaped = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{escaped}"'
