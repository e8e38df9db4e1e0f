"""Which part of the file system a command sees, and which part of that it can change."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from hookline.containment.interpreter import environments_below
from hookline.containment.links import is_inside_any, real_path
from hookline.containment.own_places import own_places
from hookline.containment.protected import (
    AGENT_CONFIGURATION,
    INSTRUCTIONS,
    OBEYED,
    RUN_BELOW,
    VERSION_CONTROL,
    is_git_directory,
    run_by_pattern,
)
from hookline.containment.sandbox.directory_entries import listing
from hookline.containment.sandbox.home import dot_entry, homes, mounted_homes
from hookline.containment.sandbox.tables import (
    EMPTIED,
    HELD,
    OF_PROJECTS,
    PROTECTED_AT_HOME,
)
from hookline.errors import SandboxError, UsageError
from hookline.own_directories import own_directories
from hookline.secret_tables import HOME_SECRETS, SECRET_PATH_VARIABLES, SYSTEM_SECRETS

_PRIVATE, _DEPTH = ("/etc", "/var"), 4
"""Where what is private of root's is looked for, and how deep."""
_MOST_FILES = 8
"""Private files of one directory that are hidden one by one."""
_OWN_VARIABLES = "HOOKLINE_CONFIG_DIR, HOOKLINE_DATA_DIR, XDG_STATE_HOME, XDG_CONFIG_HOME"
"""By which the user says where that is."""
_ACCESS_LIST = "system.posix_acl_access"


@dataclass(frozen=True, kw_only=True)
class SandboxPaths:
    """What differs from the usual view: everything can be read, but for secrets; only the work directory written."""

    write: tuple[str | Path, ...] = ()
    """Further directories that can be written."""
    show: tuple[str | Path, ...] = ()
    """Hidden paths that are shown read-only: a virtual environment in /tmp, `~/.config/tool`, `.env`. A
    path that is not whole is one below the work directory; a single name means that name at any depth."""
    hide: tuple[str | Path, ...] = ()
    """Further files and directories that cannot be read, as whole paths. `~` is the home directory; `*` is any name."""
    protect: tuple[str, ...] = ()
    """Further names below what can be written that stay as they are, as `deploy/keys`."""
    keep: tuple[str | Path, ...] = ()
    """Further files and directories that stay as they are. Missing ones cannot be made."""
    unprotected: tuple[str, ...] = ()
    """Names of the table of protected ones that may be changed after all, as `.vscode`."""
    tmp: str | Path | None = None
    """A directory to be the command's /tmp; without one it is empty, and gone with the command."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "tmp" and isinstance(value, str | Path):
                raise UsageError(
                    f"{field.name}={value!r} is one path, and a list is expected.",
                    remedy=f"Write {field.name}=({str(value)!r},).",
                )
        for path in self.hide:
            if not os.path.isabs(os.path.expanduser(path)):
                raise UsageError(
                    f"hide= has {str(path)!r} in it, which is not an absolute path.",
                    remedy="Begin it with '/' or '~'.",
                )
        for name in self.protect:
            _check_protected(name)


def _check_protected(name: str) -> None:
    """Refuse a name that would keep nothing."""
    parts = str(name).split("/")
    if not name or os.path.isabs(name) or ".." in parts or str(name).startswith("~"):
        raise UsageError(
            f"protect= has {name!r} in it, which is not a name below the writable directories.",
            remedy="Give a relative name, such as 'deploy/keys'. Use keep= for other files.",
        )
    if any(sign in str(name) for sign in "*?["):
        raise UsageError(
            f"protect= has {name!r} in it: files that may not exist yet must be named without patterns.",
            remedy="Name each file, or the directory they are in.",
        )


def work_directory(path: str | Path) -> Path:
    """A directory that may be given to commands to write in, without links in its path."""
    if not isinstance(path, str | os.PathLike):
        raise SandboxError(f"{path!r} is not a directory.", remedy="Give the path of one.")
    real = Path(os.path.expanduser(path)).resolve()
    if not real.is_dir():
        raise SandboxError(f"there is no directory '{path}'.", remedy="Make it, or name another.")
    if real == Path("/") or real in map(
        Path, ("/etc", "/usr", "/bin", "/lib", "/proc", "/sys", "/dev")
    ):
        raise SandboxError(
            f"'{real}' is a system directory: a sandbox that can write there protects nothing.",
            remedy="Work in a directory below it.",
        )
    return real


def check_name(root: Path, paths: SandboxPaths) -> None:
    """Refuse a directory that others obey as a whole: whatever a command writes in it is obeyed."""
    name, above = root.name, root.parent.name
    is_obeyed = name in OBEYED or name in RUN_BELOW.get(above, ()) or run_by_pattern(above, [name])
    is_inside = not VERSION_CONTROL.isdisjoint(root.parts)
    if is_inside and not is_git_directory(os.listdir(root)):  # else its parts are known
        is_obeyed = True
    if is_obeyed and name not in paths.unprotected:
        raise SandboxError(
            f"'{root}' cannot be the work directory of commands: other programs run or follow the files in it.",
            remedy="Work in the directory above it, with SandboxPaths(unprotected=...) if commands are to change it.",
        )


def secrets(further: Iterable[str | Path] = (), reveal: Iterable[str] = ()) -> list[str]:
    """Every secret outside of the hidden entries of homes, as real paths; none lies in another.

    `reveal` leaves some out.
    """
    # Asked for every command, about many names: by text, which costs a fraction of what paths do.
    revealed = {real_path(os.path.expanduser(each)) for each in reveal}
    wanted = named_secrets(further)
    for pattern in SYSTEM_SECRETS:
        found = glob.glob(pattern) if "*" in pattern else (pattern,)
        wanted += (path for path in found if not _is_empty_file(path))
    # What we may not even look at, a command of ours may not either.
    real = {real_path(path) for path in wanted if os.path.exists(path)}
    return outermost(real - revealed - {"/"})


def named_secrets(further: Iterable[str | Path] = ()) -> list[str]:
    """The paths of secrets that are not the system's: in homes, and as variables and the user spell them."""
    found = [os.path.join(home, name) for home in mounted_homes() for name in HOME_SECRETS]
    return [
        *found,
        *_find_named(homes()),
        *(path for each in further for path in _matching_paths(each)),
    ]


def _is_empty_file(path: str) -> bool:
    """Whether a file has nothing in it. Programs of the system fill one by putting another in its place, which ends
    what was mounted on it."""
    try:
        facts = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_size == 0


@cache
def private_of_root() -> tuple[str, ...]:
    """What below /etc and /var only root may read, by its owner or group, if we are root.

    Debian's copy of /etc/shadow in /var/backups, logs, keys of services: no table has them all. Found once in a
    process, and four levels deep.
    """
    found = (private_below(each, _DEPTH) for each in _PRIVATE if os.geteuid() == 0)
    return tuple(itertools.chain(*found))


def private_below(directory: str, depth: int) -> list[str]:
    """What we may read and others may not, to a depth. What is in such a directory is private too.

    The files of other users are refused by the kernel: a command of root's has no capabilities. Each that is found
    costs a mount: no locks and nothing empty is. With many files the directory that they are in is found, too.
    """
    files, found = list[str](), list[str]()
    try:
        with os.scandir(directory) as opened:
            entries = [entry for entry in opened if not entry.is_symlink()]
    except FileNotFoundError:
        return []
    except OSError:  # what cannot be looked at may hold anything
        return [directory]
    for entry in entries:
        is_directory, is_open = entry.is_dir(), True
        try:
            facts = entry.stat(follow_symlinks=False)
            is_open = bool(facts.st_mode & (stat.S_IXOTH if is_directory else stat.S_IROTH))
            holds = is_open or (os.listdir(entry.path) if is_directory else facts.st_size)
            is_private = not is_open and bool(holds) and _is_for_us(entry.path, facts)
        except FileNotFoundError:
            continue
        except OSError:
            is_open, is_private = False, True
        if is_private:
            (found if is_directory else files).append(entry.path)
        elif is_open and is_directory and depth > 1:
            found += private_below(entry.path, depth - 1)
    is_crowded = len(files) > _MOST_FILES and directory not in _PRIVATE
    return [*found, *files, *([directory] if is_crowded else [])]


def _is_for_us(path: str, facts: os.stat_result) -> bool:
    """Whether we may read a file without capabilities: as its owner, by a group, or by a list of further users."""
    of_group = facts.st_gid in (os.getegid(), *os.getgroups()) and facts.st_mode & stat.S_IRWXG
    return facts.st_uid == os.geteuid() or bool(of_group) or _ACCESS_LIST in os.listxattr(path)


def hides_nothing(paths: SandboxPaths) -> list[str]:
    """Paths of `hide` that do not exist, or are spelled wrong."""
    return [str(each) for each in paths.hide if not any(map(os.path.exists, _matching_paths(each)))]


def is_shown_by_name(paths: SandboxPaths, path: str) -> bool:
    """Whether `show` has an environment file by its name, or by its path below a writable directory."""
    return not {path, os.path.basename(path)}.isdisjoint(map(str, paths.show))


def _matching_paths(path: str | Path) -> list[str]:
    """The path itself, and what matches it as a pattern."""
    whole = os.path.abspath(os.path.expanduser(path))
    return [whole, *glob.glob(whole, include_hidden=True, recursive=True)]


def _find_named(homes: list[str]) -> Iterator[str]:
    """The secrets that variables of our environment name, unless that would hide a whole home directory."""
    for name in SECRET_PATH_VARIABLES & os.environ.keys():
        for value in os.environ[name].split(os.pathsep):
            path = os.path.expanduser(value)
            is_above = any(f"{home}/".startswith(f"{real_path(path)}/") for home in homes)
            if os.path.isabs(path) and not is_above:
                yield path


@cache
def emptied_directories() -> tuple[Path, ...]:
    """The directories that are replaced by empty ones, as real paths."""
    found = (real_path(each) for each in EMPTIED if os.path.isdir(each))
    return tuple(map(Path, outermost(found)))


def held_names(root: Path, paths: SandboxPaths) -> list[str]:
    """What can neither be changed nor made at the top of a directory that can be written, relative to it."""
    linked = sorted(OBEYED & listing(str(root)).links)
    linked = [name for name in linked if is_kept_by_its_target(root, name, paths)]
    names = [name for name in HELD if name not in linked]
    names += [*_targets(root, linked), *environments_below(root), *paths.protect]
    names += filter(None, (_kept_name(path, root) for path in paths.keep))
    for home in map(Path, homes()):
        if home.is_relative_to(root):
            inside = home.relative_to(root)
            names += [str(inside / name) for name in PROTECTED_AT_HOME]
    made = {name.partition("/")[0] for name in PROTECTED_AT_HOME}  # as long as a command runs
    for place in map(real_path, own_directories(os.environ)):
        # We write in it, so nothing else may hold its place; and only what is there is hidden.
        is_made = os.path.basename(dot_entry(place, homes())) in made
        if place.startswith(f"{root}/") and not is_made:
            with contextlib.suppress(OSError):
                os.makedirs(place, 0o700, exist_ok=True)
    return without(paths.unprotected, (*names, *own_names(root)))


def _kept_name(path: str | Path, root: Path) -> str:
    """What to hold for a path that is kept, relative to the root: itself, or the first part of it that is missing."""
    real = real_path(os.path.expanduser(path))
    if not real.startswith(f"{root}/"):
        return ""
    name = os.path.relpath(real, root)
    return next((each for each in prefixes(name) if not os.path.lexists(f"{root}/{each}")), name)


def own_names(root: Path) -> list[str]:
    """What lies below a directory of Hookline's own and of the user's settings of git, but for what is hidden there.

    It is an error if commands that can write in the directory decide what is read: no mount can hold a link, or a
    directory that a path only passes.
    """
    ways, real = own_places()
    around = next((place for place in real if is_inside_any(root, [place])), None)
    if around is not None:
        raise SandboxError(
            f"commands cannot be let write in '{root}': '{around}' holds settings, trust or records of the user's.",
            remedy=f"Work elsewhere, or move them: {_OWN_VARIABLES}.",
        )
    for way in ways:
        if way.startswith(f"{root}/") and not is_in_hidden_entry(Path(way), root):
            raise SandboxError(
                f"Hookline or git finds settings, trust or records of the user's by '{way}', which commands could "
                "replace: no link, and no directory before a '..', can be held.",
                remedy=f"Name the directory by a whole path without links and '..': {_OWN_VARIABLES}.",
            )
    inside = (Path(place) for place in real if place.startswith(f"{root}/"))
    return [str(each.relative_to(root)) for each in inside if not is_in_hidden_entry(each, root)]


def is_in_hidden_entry(path: Path, root: Path) -> bool:
    """Whether a path below the root lies in an entry of a home that no command sees. A missing one it could make."""
    entry = dot_entry(str(path), homes())
    is_seen = root.is_relative_to(entry) or os.path.basename(entry) in OF_PROJECTS
    return bool(entry) and not is_seen and os.path.lexists(entry)


def without(left_out: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names, once each, but for those that are left out, or lie in what is."""
    out = {name.strip("/") for name in left_out}
    return [
        name
        for name in dict.fromkeys(each.strip("/") for each in names)
        if name not in out and not any(name.startswith(f"{each}/") for each in out)
    ]


def is_kept_by_its_target(root: Path, name: str, paths: SandboxPaths) -> bool:
    """Whether this is a link whose target is kept, and that is made again when a command replaces it.

    So are instructions, as CLAUDE.md to AGENTS.md, and the configuration of agents, which they read when they start, if
    it leads straight to its target, and no other directory that can be written holds that. Not so what somebody else
    may run at any moment, such as a prompt that asks git: while a command runs, another link could be there.
    """
    path = root / name
    if not path.is_symlink():
        return False
    real = Path(real_path(path))
    is_next = os.path.normpath(path.parent / os.readlink(path)) == str(real)
    is_kept = is_inside_any(real, [root]) or not is_inside_any(real, find_existing(paths.write))
    is_obeyed = name in AGENT_CONFIGURATION or os.path.basename(name) in INSTRUCTIONS
    return is_obeyed and is_next and is_kept and not root.is_relative_to(real)


def _targets(root: Path, names: Iterable[str]) -> Iterator[str]:
    """What there are links to below the root, also if it is not there: who changes that changes what is obeyed."""
    for name in names:
        real = Path(real_path(root / name))
        if real.is_relative_to(root):
            yield str(real.relative_to(root))


def outermost(paths: Iterable[str]) -> list[str]:
    """The paths that lie in no other."""
    kept: list[str] = []
    for path in sorted(
        set(paths), key=lambda each: each.split("/")
    ):  # what lies in another comes after it
        if not kept or not path.startswith(f"{kept[-1]}/"):
            kept.append(path)
    return kept


def prefixes(path: str) -> Iterator[str]:
    """A path and the directories that it is in, the outermost first."""
    yield from (path[: found.start()] for found in re.finditer("/", path))
    yield path


def printable(path: str) -> str:
    """A path for a message: a command chooses the names, and may choose any bytes."""
    text = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def find_existing(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The real paths of those that there are."""
    for path in paths:
        real = real_path(os.path.expanduser(path))
        if os.path.exists(real):
            yield Path(real)
