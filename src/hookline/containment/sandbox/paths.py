"""Which part of the file system a command sees, and which part of that it can change."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from hookline.containment.interpreter import environments_below
from hookline.containment.protected import AGENT_CONFIGURATION, INSTRUCTIONS
from hookline.containment.sandbox.tables import (
    EMPTIED,
    PROTECTED,
    PROTECTED_AT_HOME,
    PROTECTED_IF_THERE,
)
from hookline.errors import SandboxError, UsageError
from hookline.secret_tables import HOME_SECRETS, SECRET_PATH_VARIABLES, SYSTEM_SECRETS


@dataclass(frozen=True, kw_only=True)
class SandboxPaths:
    """What differs from the usual view: everything can be read, but for secrets; only the work directory written."""

    write: tuple[str | Path, ...] = ()
    """Further directories that can be written."""
    read: tuple[str | Path, ...] = ()
    """What is to be seen although it is in a place that is hidden, as a virtual environment in /tmp."""
    hide: tuple[str | Path, ...] = ()
    """Further files and directories that cannot be read, as whole paths. `~` is the home directory; `*` is any name."""
    protect: tuple[str, ...] = ()
    """Further names below what can be written that stay as they are, as `deploy/keys`."""
    keep: tuple[str | Path, ...] = ()
    """Further files and directories that stay as they are, where they exist when a command starts."""
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
                    f"hide= has {str(path)!r} in it, which is no whole path.",
                    remedy="Begin it with '/' or '~'.",
                )
        for name in self.protect:
            _check_protected(name)


def _check_protected(name: str) -> None:
    """Refuse a name that would keep nothing."""
    parts = str(name).split("/")
    if not name or os.path.isabs(name) or ".." in parts or str(name).startswith("~"):
        raise UsageError(
            f"protect= has {name!r} in it, which is no name below what can be written.",
            remedy="Give one relative to it, as 'deploy/keys'. For other files there is keep=.",
        )
    if any(sign in str(name) for sign in "*?["):
        raise UsageError(
            f"protect= has {name!r} in it: what is held also while it is missing has to be named in full.",
            remedy="Name each file, or the directory they are in.",
        )


def work_directory(path: str | Path) -> Path:
    """A directory that may be given to commands to write in, without links in its path."""
    if not isinstance(path, str | os.PathLike):
        raise SandboxError(f"{path!r} is no directory.", remedy="Give the path of one.")
    real = Path(os.path.expanduser(path)).resolve()
    if not real.is_dir():
        raise SandboxError(f"there is no directory '{path}'.", remedy="Make it, or name another.")
    if real == Path("/") or real in map(
        Path, ("/etc", "/usr", "/bin", "/lib", "/proc", "/sys", "/dev")
    ):
        raise SandboxError(
            f"'{real}' is the system itself: a sandbox in which it can be written holds nothing.",
            remedy="Work in a directory of its own.",
        )
    return real


def homes() -> list[Path]:
    """The home directories whose secrets we could read: our own, and for root everybody's."""
    found = [Path(os.path.expanduser("~"))]
    if os.geteuid() == 0:
        found += [Path("/root"), *map(Path, glob.glob("/home/*"))]
    return list(dict.fromkeys(Path(os.path.realpath(home)) for home in found))


def hidden(further: Iterable[str | Path] = (), reveal: Iterable[str] = ()) -> list[Path]:
    """Every secret that there is here, as real paths; none lies in another. `reveal` leaves some out, by the table."""
    # Asked for every command, about many names: by text, which costs a fraction of what paths do.
    revealed = {os.path.realpath(os.path.expanduser(each)) for each in reveal}
    mine = homes()
    wanted = [path for home in mine for path in _credentials(str(home))]
    for pattern in SYSTEM_SECRETS:
        wanted += glob.glob(pattern) if "*" in pattern else (pattern,)
    wanted += [*_named(mine), *(path for each in further for path in _meant(each))]
    # What we may not even look at, a command of ours may not either.
    real = {os.path.realpath(path) for path in wanted if os.path.exists(path)}
    return _outermost(real - revealed - {"/"})


def hides_nothing(paths: SandboxPaths) -> list[str]:
    """What is to be hidden and is not there, or is spelled wrong."""
    return [str(each) for each in paths.hide if not any(map(os.path.exists, _meant(each)))]


def _meant(path: str | Path) -> list[str]:
    """What is to be hidden: what is called just so, and what fits it as a pattern."""
    whole = os.path.abspath(os.path.expanduser(path))
    return [whole, *glob.glob(whole, include_hidden=True, recursive=True)]


def _credentials(home: str) -> Iterator[str]:
    """Those of the table that may be there: the home directory is read once, not asked for every name."""
    try:
        there = set(os.listdir(home))
    except OSError:
        there = {name.partition("/")[0] for name in HOME_SECRETS}
    yield from (f"{home}/{name}" for name in HOME_SECRETS if name.partition("/")[0] in there)


def _named(homes: list[Path]) -> Iterator[str]:
    """The secrets that variables of our environment name, unless that would hide a whole home directory."""
    for name in SECRET_PATH_VARIABLES & os.environ.keys():
        for value in os.environ[name].split(os.pathsep):
            path = Path(os.path.expanduser(value))
            if path.is_absolute() and not any(
                home.is_relative_to(path.resolve()) for home in homes
            ):
                yield str(path)


@cache
def emptied() -> tuple[Path, ...]:
    """The directories that are replaced by empty ones, as real paths."""
    return tuple(_outermost(os.path.realpath(each) for each in EMPTIED if os.path.isdir(each)))


def protected_names(root: Path, paths: SandboxPaths) -> list[str]:
    """What is not to change below a directory that can be written, relative to it."""
    there = [name for name in PROTECTED_IF_THERE if os.path.lexists(f"{root}/{name}")]
    linked = {name for name in (*PROTECTED, *there) if _is_linked(root, name, paths)}
    names = [name for name in (*PROTECTED, *there) if name not in linked]
    names += [*_linked_to(root, linked), *environments_below(root), *paths.protect]
    names += [
        os.path.relpath(kept, root) for kept in existing(paths.keep) if inside_any(kept, [root])
    ]
    for home in homes():
        if home.is_relative_to(root):
            inside = home.relative_to(root)
            names += [str(inside / name) for name in PROTECTED_AT_HOME]
    return _without(paths.unprotected, names)


def watched_names(root: Path, paths: SandboxPaths) -> list[str]:
    """Where nothing new may stay: what is protected only where it exists, and links that are made again."""
    names = [name for name in PROTECTED_IF_THERE if not os.path.lexists(f"{root}/{name}")]
    names += [name for name in (*PROTECTED, *PROTECTED_IF_THERE) if _is_linked(root, name, paths)]
    return _without((*paths.unprotected, *paths.protect), names)


def _without(left_out: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names, once each, but for those that are left out, or lie in what is."""
    out = {name.strip("/") for name in left_out}
    return [
        name
        for name in dict.fromkeys(each.strip("/") for each in names)
        if name not in out and not any(name.startswith(f"{each}/") for each in out)
    ]


def _is_linked(root: Path, name: str, paths: SandboxPaths) -> bool:
    """Whether this is a link whose target is kept, and that is made again when a command replaces it.

    So are instructions, as CLAUDE.md to AGENTS.md. So is the configuration of agents, which they read when they start,
    if what it leads to is one step away and where this directory, or nobody, can write. Not so what somebody else may
    run at any moment, such as a prompt that asks git: while a command runs, another link could be there.
    """
    path = root / name
    if not path.is_symlink():
        return False
    if os.path.basename(name) in INSTRUCTIONS:
        return True
    real = Path(os.path.realpath(path))
    is_next = os.path.normpath(path.parent / os.readlink(path)) == str(real)
    is_kept = inside_any(real, [root]) or not inside_any(real, existing(paths.write))
    return name in AGENT_CONFIGURATION and is_next and is_kept and not root.is_relative_to(real)


def _linked_to(root: Path, names: Iterable[str]) -> Iterator[str]:
    """What there are links to below the root, also if it is not there: who changes that changes what is obeyed."""
    for name in names:
        real = Path(os.path.realpath(root / name))
        if real.is_relative_to(root) and (real.is_file() or name in AGENT_CONFIGURATION):
            yield str(real.relative_to(root))


def _outermost(paths: Iterable[str]) -> list[Path]:
    kept: list[str] = []
    for path in sorted(set(paths)):  # what lies in another comes after it
        if not any(path.startswith(f"{other}/") for other in kept):
            kept.append(path)
    return list(map(Path, kept))


def inside_any(path: Path, others: Iterable[Path]) -> bool:
    """Whether a path is one of the others, or lies in one."""
    text = f"{path}/".replace("//", "/")
    return any(text.startswith(f"{other}/".replace("//", "/")) for other in others)


def existing(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The real paths of those that there are."""
    for path in paths:
        real = os.path.realpath(os.path.expanduser(path))
        if os.path.exists(real):
            yield Path(real)
