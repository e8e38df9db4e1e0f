"""Where things are kept: the user's files, a project's files, and the journals."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from hookline.errors import ConfigError

_SHARED = "pyproject.toml"
"""It is there for others, too: one without settings in it is none of ours."""
_LARGEST = 10 << 20
"""Bytes of a file with settings. One that is larger is none, and may be meant to be read for ever."""
_BYTE_ORDER = b"\xef\xbb\xbf\xff\xfe"
_MAY_BE_OURS = re.compile(
    rb"""
    ^ \s* \[\[? \s* ["']? tool ["']? \s* \. \s* ["']? hookline \b  # [tool.hookline], [tool.hookline.limits]
    | ^ \s* (?: ["']? tool ["']? \s* \. \s* )? ["']? hookline ["']? \s* [.=]  # tool.hookline.model =
    | ^ \s* ["']? tool ["']? \s* = .* hookline  # tool = { hookline = ... }
    """,
    re.MULTILINE | re.VERBOSE,
)
"""How a table of ours begins in a file that is no TOML, as far as one can tell."""
PROJECT_FILES = (_SHARED, "hookline.toml", ".hookline/config.toml")
"""The files of a project, the one that counts most last."""


def user_folder(environ: Mapping[str, str]) -> Path:
    """Where the user's own configuration is, and what they trust."""
    return _under(environ, "HOOKLINE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")


def data_folder(environ: Mapping[str, str]) -> Path:
    """Where runs are kept."""
    return _under(environ, "HOOKLINE_DATA_DIR", "XDG_DATA_HOME", ".local/share")


def _under(environ: Mapping[str, str], own: str, base: str, otherwise: str) -> Path:
    if environ.get(own):
        return Path(environ[own]).expanduser().absolute()
    given = Path(environ.get(base, ""))
    # A path that is not absolute is to be ignored, says the XDG specification.
    folder = given if given.is_absolute() else home(environ) / otherwise
    return folder / "hookline"


def home(environ: Mapping[str, str]) -> Path:
    """The home directory. Where nobody can say where that is, it is a place in which there is and can be nothing."""
    known = environ.get("HOME") or os.path.expanduser("~")
    return Path(known) if os.path.isabs(known) else Path(os.devnull)


def project_of(start: Path, environ: Mapping[str, str]) -> Path:
    """The project a directory belongs to: the nearest above it with a configuration, else its repository, else itself.

    What lies above the repository, or is the home directory or above it, is not looked at.
    """
    start = start.resolve()
    above = list(_candidates(start, home(environ).resolve()))
    for folder in above:
        if _is_configured(folder):
            return folder
    return next((folder for folder in above if (folder / ".git").exists()), start)


def _is_configured(folder: Path) -> bool:
    try:
        return any(True for _ in project_files(folder))
    except ConfigError:  # it is meant to be: whoever reads the files says what is wrong with them
        return True


def _candidates(start: Path, own: Path) -> Iterator[Path]:
    for folder in (start, *start.parents):
        is_home = folder == own or folder in own.parents
        if is_home and folder != start:
            return
        yield folder
        if (folder / ".git").exists():
            return


def project_files(folder: Path) -> Iterator[Path]:
    """The configuration files in a directory."""
    for name in PROJECT_FILES:
        path = folder / name
        if is_there(path) and (name != _SHARED or _has_table(path)):
            yield path


def is_there(path: Path) -> bool:
    """Whether it is a file. What is there and cannot be read is an error: it may be what forbids something."""
    try:
        found = path.stat()
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        if path.is_symlink() and path.name != _SHARED:
            raise _unreadable(path, "it is a link to nothing") from None
        return False
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from None
    if stat.S_ISREG(found.st_mode):
        if found.st_size > _LARGEST:
            raise _unreadable(path, f"it is larger than {_LARGEST >> 20} MB")
        return True
    if _is_nothing(found) or path.name == _SHARED:
        return False
    raise _unreadable(path, "it is a directory" if stat.S_ISDIR(found.st_mode) else "it is no file")


def _unreadable(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {why}.", remedy="Mend that, or use --bare.")


def _is_nothing(found: os.stat_result) -> bool:
    """Whether it is the null device, which stands in the place of files that are not to be seen."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev


def _has_table(path: Path) -> bool:
    """Whether a pyproject.toml is one of ours: it has a [tool.hookline], or is broken and may have one.

    One that is broken and does not speak of such a table is somebody else's business.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from None
    plain = data.replace(b"\0", b"").lstrip(
        _BYTE_ORDER
    )  # as far as ASCII goes, whatever the encoding
    if b"hookline" not in plain:
        return False
    try:
        tables = tomllib.loads(data.decode()).get("tool", {})
        return isinstance(tables, dict) and "hookline" in tables
    except (ValueError, RecursionError):
        return _MAY_BE_OURS.search(plain) is not None


def journal_of(project: Path, environ: Mapping[str, str]) -> Path:
    """The journal of a project: in the user's data directory, where it is not committed, cloned or forged."""
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:10]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", project.name)[:40] or "root"
    return data_folder(environ) / "projects" / f"{name}-{digest}" / "journal.db"
