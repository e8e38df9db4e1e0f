"""Layers of settings, one over the other, and where each value came from."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import msgspec

from hookline.config.check import Wrong, check
from hookline.config.lines import Path, deepest_line, dotted, line_of
from hookline.errors import ConfigError

_DEEPEST = 60
_LINE = re.compile(r"at line (\d+)")


class Layer(msgspec.Struct, frozen=True):
    """What one file, the environment or the flags say."""

    name: str
    """As it is shown: a path, `environment`, `flag`, `default`."""
    data: dict[str, Any]
    is_project: bool = False
    """It comes with a repository, and so from strangers until it is trusted."""
    text: str = ""
    prefix: tuple[str, ...] = ()
    """Where in the file the settings are: `tool.hookline` in a pyproject.toml."""
    sources: dict[Path, str] = {}
    """For values that have a name of their own: which variable, which flag."""

    def where(self, path: Path) -> str:
        """Where a value of this layer is written: file and line, the variable, the flag."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.sources:
                return self.sources[path[:length]]
        for way, said in self.sources.items():
            if way[: len(path)] == path:
                return said
        line = line_of(self.text, (*self.prefix, *path)) if self.text else None
        return f"{self.name}:{line}" if line else self.name


def read_layer(path: FilePath, *, is_project: bool = False) -> Layer:
    """The settings in a TOML file, checked."""
    name = str(path)
    text = _text(path)
    prefix: tuple[str, ...] = ("tool", "hookline") if path.name == "pyproject.toml" else ()
    try:
        data: Any = tomllib.loads(text)
        for word in prefix:
            data = data.get(word, {}) if isinstance(data, dict) else {}
        if not isinstance(data, dict):
            raise ConfigError(
                f"{name}: '{dotted(prefix)}' is {data!r}, and not a table.",
                remedy=f"Write [{dotted(prefix)}], and the settings below it.",
            )
        if _depth(data) > _DEEPEST:
            raise RecursionError
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        where = f"{name}:{line[1]}" if line else name
        raise ConfigError(f"{where}: it is not TOML: {error}.", remedy="Mend that line.") from None
    except RecursionError:
        raise ConfigError(
            f"{name}:{deepest_line(text, _DEEPEST)}: there are lists or tables in each other that go deeper "
            f"than {_DEEPEST} levels.",
            remedy="No setting is as deep: mend that.",
        ) from None
    return checked(Layer(name, data, is_project, text, prefix))


def _text(path: FilePath) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror or error}.", remedy="Mend that, or use --bare."
        ) from None
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: it is not text in UTF-8: {error.reason}.",
            remedy="Save the file in UTF-8.",
        ) from None


def _depth(data: Any) -> int:
    """How many tables and lists are in each other, as far as that matters."""
    depth, level = 0, [data]
    while level and depth <= _DEEPEST:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return depth


def checked(layer: Layer) -> Layer:
    """The layer, if all it says means something."""
    try:
        check(layer.data)
    except Wrong as wrong:
        shown = dotted(wrong.path)
        what = f"'{shown}' {wrong.problem}" if shown else f"it {wrong.problem}"
        raise ConfigError(f"{layer.where(wrong.path)}: {what}.", remedy=wrong.remedy) from None
    return layer


ADDED = frozenset({"hooks", "allow", "ask", "deny"})
"""Lists that add up over the layers. Every other list is replaced as a whole."""
_BASH = ("capabilities", "bash")


class Merged:
    """All layers as one, with the origin of every value."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.origins: dict[Path, str] = {}

    def lay(self, layer: Layer) -> None:
        """Put a layer on top."""
        self._lay(self.data, layer.data, (), layer, ())

    def _lay(
        self, under: dict[str, Any], over: dict[str, Any], path: Path, layer: Layer, said: Path
    ) -> None:
        for name, value in _with_place(over, path).items():
            here = (*path, name)
            there = (*said, name if name in over else "sandbox")
            if isinstance(value, dict):
                if not isinstance(under.get(name), dict):
                    under[name] = {}
                if not value:
                    self.origins[here] = layer.where(there)
                self._lay(under[name], value, here, layer, there)
            elif name in ADDED and isinstance(value, list):
                self._add(under, value, here, layer, there)
            else:
                under[name] = copy.deepcopy(value)
                self.origins[here] = layer.where(there)

    def _add(
        self, under: dict[str, Any], value: list[Any], here: Path, layer: Layer, there: Path
    ) -> None:
        name = str(here[-1])
        listed = under.setdefault(name, [])
        for position, each in enumerate(value):
            if name != "hooks" and each in listed:
                continue
            self.origins[(*here, len(listed))] = layer.where((*there, position))
            listed.append(copy.deepcopy(each))

    def where(self, path: Path) -> str:
        """Where a value came from; for a table, where the first of what is in it did."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        inside = (said for way, said in self.origins.items() if way[: len(path)] == path)
        return next(inside, "default")


def _with_place(table: dict[str, Any], path: Path) -> dict[str, Any]:
    """A table in which `sandbox = "host"` is said as `place = "host"`, so that a layer above can change either.

    One that says `sandbox = "host"` and another place contradicts itself: that is refused when all is merged.
    """
    says_host = path[-2:] == _BASH and table.get("sandbox") == "host"
    if not says_host or table.get("place", "host") != "host":
        return table
    return {**table, "sandbox": "auto", "place": "host"}


def leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value, with the way to it. A hook is one value, and so is a table with nothing in it."""
    if isinstance(data, dict) and data and not (path and isinstance(path[-1], int)):
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    elif isinstance(data, list) and path and path[-1] in ADDED:
        for position, value in enumerate(data):
            yield (*path, position), value
    elif path:
        yield path, data
