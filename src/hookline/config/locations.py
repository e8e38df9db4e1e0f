"""Locations on disk: the user's file, a project's files, the journal of a project."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from hookline.errors import ConfigError
from hookline.own_directories import configuration_directory, data_directory, home

_SHARED = "pyproject.toml"
"""Other programs use this file too. Without our table it is ignored."""
_LARGEST = 10 << 20
"""Bytes. A larger file is no configuration, and may be an attempt to keep us busy."""
PROJECT_FILES = (_SHARED, "hookline.toml", ".hookline/config.toml")
"""The configuration files of a project. The last one has the highest priority."""


def own_file(environ: Mapping[str, str]) -> Path:
    """The user's own configuration file."""
    return configuration_directory(environ) / "config.toml"


def project_of(start: Path, environ: Mapping[str, str]) -> Path:
    """The project of a directory: the nearest directory with a configuration, else the repository, else itself.

    The search ends at the repository and below the home directory.
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
    except ConfigError:  # the reader of the files reports the problem
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
        if is_file(path) and (name != _SHARED or _has_table(path)):
            yield path


def is_file(path: Path) -> bool:
    """Whether there is a file. One that cannot be read is an error: it may forbid something."""
    try:
        found = path.stat()
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        if path.is_symlink() and path.name != _SHARED:
            raise _unreadable(path, "it is a broken link") from None
        return False
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from None
    if stat.S_ISREG(found.st_mode):
        if found.st_size > _LARGEST:
            raise _unreadable(path, f"it is larger than {_LARGEST >> 20} MB")
        return True
    if _is_null_device(found) or path.name == _SHARED:
        return False
    raise _unreadable(
        path, "it is a directory" if stat.S_ISDIR(found.st_mode) else "it is not a file"
    )


def _unreadable(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {why}.", remedy="Fix that, or use --bare.")


def _is_null_device(found: os.stat_result) -> bool:
    """Whether it is the null device, which a sandbox puts in the place of hidden files."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev


def _has_table(path: Path) -> bool:
    """Whether a pyproject.toml has [tool.hookline]. A broken file that mentions us counts: it may forbid something."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from None
    if b"hookline" not in data.replace(b"\0", b""):  # as far as ASCII goes, whatever the encoding
        return False
    try:
        tables = tomllib.loads(data.decode()).get("tool", {})
    except (ValueError, RecursionError):  # the reader of the file reports the problem
        return True
    return isinstance(tables, dict) and "hookline" in tables


def journal_of(project: Path, environ: Mapping[str, str]) -> Path:
    """The journal of a project. It is in the user's data directory, where nobody commits, clones or forges it."""
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:10]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", project.name)[:40] or "root"
    return data_directory(environ) / "projects" / f"{name}-{digest}" / "journal.db"
