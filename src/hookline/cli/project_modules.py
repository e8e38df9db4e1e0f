"""Imports of a project's modules, from their source alone.

Python prefers an extension module to the source beside it, and bytecode in `__pycache__` that claims to be made from
it. A contained command, or whoever wrote the repository, may have put them there, and nobody has looked at them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import hookline

_OURS = os.path.dirname(os.path.realpath(hookline.__file__))


class _Project:
    """A directory whose modules are imported in this way, and the files that may be."""

    def __init__(self, top: str) -> None:
        self._top = top
        self.texts: dict[str, bytes] = {}
        """The files that were trusted, as they were read then: some are imported later, during a run."""
        self.is_open = False
        """Whether others may be imported: the user has named the program."""

    def read(self, path: str) -> bytes:
        """The content of a module."""
        known = self.texts.get(os.path.realpath(path))
        if known is not None:
            return known
        if not self.is_open and not self._is_on_users_path(os.path.realpath(path)):
            raise ImportError(f"{path} is not among the files that were trusted", path=path)
        return Path(path).read_bytes()

    def _is_on_users_path(self, path: str) -> bool:
        """Whether it is in a directory that the user's own environment names, as that of a package in development."""
        ours = (self._top, os.path.join(self._top, ".hookline"))
        places = {os.path.realpath(each or os.curdir) for each in sys.path}.difference(ours)
        return any(_is_below(path, each) for each in places if _is_below(each, self._top))


_PROJECTS: dict[str, _Project] = {}


@contextlib.contextmanager
def importable(places: Sequence[Path]) -> Iterator[None]:
    """Import modules of these directories within this block only."""
    before = list(sys.path)
    make_importable(places)
    try:
        yield
    finally:
        sys.path[:] = before


def make_importable(places: Sequence[Path]) -> None:
    """From now on, import modules of these directories.

    They come before installed packages, and after the standard library, which they must not replace.
    """
    packages = [place for place, path in enumerate(sys.path) if path.endswith("-packages")]
    at = min(packages, default=len(sys.path))
    sys.path[at:at] = map(str, places)


def import_from_source(project: Path, trusted: Iterable[Path] | None = None) -> None:
    """From now on, import modules of a project from their source; if files are `trusted`, these and no others."""
    top = os.path.realpath(project)
    ours = _PROJECTS.setdefault(top, _Project(top))
    ours.is_open |= trusted is None
    for path in trusted or ():
        with contextlib.suppress(OSError):
            ours.texts[os.path.realpath(path)] = path.read_bytes()
    if _finder_for not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder_for)
    for place in list(sys.path_importer_cache):
        if _is_below(os.path.realpath(place), top):
            del sys.path_importer_cache[place]


def _finder_for(place: str) -> FileFinder:
    """What finds modules in a directory of such a project. Where this is none, Python's own finder is asked next."""
    real = os.path.realpath(place or os.curdir)
    # A link in the project may lead out of it.
    whole = os.path.abspath(place)
    tops = [top for top in _PROJECTS if _is_below(real, top) or _is_below(whole, top)]
    # In an environment of the project. The project itself may lie in a directory of such a name.
    inside = max((top for top in tops if _is_below(real, top)), key=len, default="/")
    parts = os.path.relpath(real, inside).split(os.sep)
    is_installed = any(part.endswith("-packages") for part in parts)
    own = (_OURS, *map(os.path.realpath, (sys.prefix, sys.base_prefix)))
    # An environment may lie in the project, and it may lie in ours.
    is_ours = any(
        _is_below(real, each) and not _is_below(top, each) for each in own for top in tops
    )
    if not tops or is_installed or is_ours or not os.path.isdir(real):
        raise ImportError("not a directory of a project", path=place)
    project = _PROJECTS[max(tops, key=len)]
    source: Any = functools.partial(_SourceLoader, project=project)
    extension: Any = functools.partial(_ExtensionLoader, project=project)
    return FileFinder(place, (source, [".py"]), (extension, EXTENSION_SUFFIXES))


def _is_below(path: str, top: str) -> bool:
    return f"{path}/".startswith(f"{top.rstrip('/')}/")


class _SourceLoader(SourceFileLoader):
    """Compiles the source. Bytecode is neither read nor written."""

    def __init__(self, fullname: str, path: str, project: _Project) -> None:
        super().__init__(fullname, path)
        self._project = project

    def get_data(self, path: str) -> bytes:
        if path == self.path:
            return self._project.read(path)
        return super().get_data(path)  # data of a package

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _ExtensionLoader(ExtensionFileLoader):
    """Loads an extension module that has no source beside it, and that is still what it was."""

    def __init__(self, name: str, path: str, project: _Project) -> None:
        super().__init__(name, path)
        self._project = project

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if self._project.read(self.path) != Path(self.path).read_bytes():
            raise ImportError(f"{self.path} has changed since it was trusted", path=self.path)
        return super().create_module(spec)
