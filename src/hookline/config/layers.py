"""Layers of settings, each above the one before, and the origin of every value."""

from __future__ import annotations

import copy
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hookline.config.schema import KeyPath
from hookline.config.validation import InvalidSetting, check
from hookline.errors import ConfigError, UsageError

_MAX_DEPTH = 60
_LINE = re.compile(r"at line (\d+)")


class Layer(msgspec.Struct, frozen=True):
    """The settings of one file, of the environment or of the flags."""

    name: str
    """As it is shown: a path, `environment`, `flag`, `default`."""
    data: dict[str, Any]
    is_project: bool = False
    """It comes with a repository: strangers may have written it."""
    text: str = ""
    prefix: tuple[str, ...] = ()
    """The table of the file that has the settings: `tool.hookline` in a pyproject.toml."""
    sources: dict[KeyPath, str] = {}
    """Origins that are not lines of the text: variables, flags, values whose position changed."""

    def where(self, path: KeyPath) -> str:
        """Where a value of this layer is written: file and line, the variable, the flag."""
        if origin := _origin(self.sources, path):
            return origin
        line = line_of(self.text, (*self.prefix, *path)) if self.text else None
        return f"{self.name}:{line}" if line else self.name


def _origin(origins: dict[KeyPath, str], path: KeyPath) -> str:
    """The origin of a value, else of what is around it, else of the first value in it; empty if none is known."""
    for length in range(len(path), 0, -1):
        if path[:length] in origins:
            return origins[path[:length]]
    inside = (origin for inner, origin in origins.items() if inner[: len(path)] == path)
    return next(inside, "")


def read_layer(path: Path, *, is_project: bool = False) -> Layer:
    """Read and check the settings in a TOML file."""
    name, text = str(path), _read(path)
    prefix: tuple[str, ...] = ("tool", "hookline") if path.name == "pyproject.toml" else ()
    try:
        data: Any = tomllib.loads(text)
        for word in prefix:
            data = data.get(word, {}) if isinstance(data, dict) else {}
        if not isinstance(data, dict):
            raise ConfigError(
                f"{name}: '{write_path(prefix)}' is {data!r}, and not a table.",
                remedy=f"Write [{write_path(prefix)}], and the settings below it.",
            )
        if _depth(data) > _MAX_DEPTH:
            raise RecursionError
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        where = f"{name}:{line[1]}" if line else name
        raise ConfigError(f"{where}: it is not TOML: {error}.", remedy="Fix that line.") from None
    except RecursionError:
        problem = f"lists or tables are nested deeper than {_MAX_DEPTH} levels."
        raise ConfigError(f"{name}: {problem}", remedy="Use fewer levels.") from None
    return check_layer(Layer(name, data, is_project, text, prefix))


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror or error}."
        raise ConfigError(problem, remedy="Fix that, or use --bare.") from None
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"{path}:{line}: it is not text in UTF-8: {error.reason}."
        raise ConfigError(problem, remedy="Save the file in UTF-8.") from None


def _depth(data: Any) -> int:
    """How deep tables and lists are nested, counted up to one more than is allowed."""
    depth, level = 0, [data]
    while level and depth <= _MAX_DEPTH:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return depth


def check_layer(layer: Layer) -> Layer:
    """Return the layer; raise a ConfigError if something in it is not a valid setting."""
    try:
        check(layer.data)
    except InvalidSetting as wrong:
        raise invalid_setting_error(wrong, layer.where) from None
    return layer


def invalid_setting_error(wrong: InvalidSetting, where: Callable[[KeyPath], str]) -> ConfigError:
    """The error for a wrong setting, with its place."""
    shown = write_path(wrong.path)
    problem = f"'{shown}' {wrong.problem}" if shown else f"it {wrong.problem}"
    return ConfigError(f"{where(wrong.path)}: {problem}.", remedy=wrong.remedy)


def is_of_project(where: str, project: Path) -> bool:
    """Whether a value is written in a file of the project: strangers may have written it."""
    return where.startswith(os.path.join(project, ""))


def setting_error(where: str, problem: str, remedy: str = "") -> UsageError | ConfigError:
    """The error for a value in a flag (wrong use) or in a file (wrong configuration)."""
    kind = UsageError if where.startswith("--") else ConfigError
    return kind(f"{where}: {problem}", remedy=remedy)


def put(data: dict[Any, Any], path: KeyPath, value: Any) -> None:
    """Set a value deep in tables. Missing tables are added."""
    for name in path[:-1]:
        data = data.setdefault(name, {})
    data[path[-1]] = value


def find(data: Any, path: Iterable[object]) -> Any:
    """A value deep in tables; None if there is none."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


ADDED = frozenset({"hooks", "hook_files", "allow", "ask", "deny"})
"""Lists to which each layer adds. Every other list is replaced by the layer above."""
_BASH = ("capabilities", "bash")


class MergedLayers:
    """All layers as one, with the origin of every value."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.origins: dict[KeyPath, str] = {}

    def add_layer(self, layer: Layer) -> None:
        """Put a layer on top."""
        self._merge(self.data, layer.data, (), layer, ())

    def _merge(
        self,
        under: dict[str, Any],
        over: dict[str, Any],
        path: KeyPath,
        layer: Layer,
        said: KeyPath,
    ) -> None:
        for name, value in _with_place(over, path).items():
            here = (*path, name)
            there = (*said, name if name in over else "sandbox")
            if isinstance(value, dict):
                if not isinstance(under.get(name), dict):
                    under[name] = {}
                if not value:
                    self.origins[here] = layer.where(there)
                self._merge(under[name], value, here, layer, there)
            elif name in ADDED and isinstance(value, list):
                listed = under.setdefault(name, [])
                for position, each in enumerate(value):
                    if name == "hooks" or each not in listed:
                        self.origins[(*here, len(listed))] = layer.where((*there, position))
                        listed.append(copy.deepcopy(each))
            else:
                under[name] = copy.deepcopy(value)
                self.origins[here] = layer.where(there)

    def where(self, path: KeyPath) -> str:
        """The origin of a value; for a table, the origin of the first value in it."""
        return _origin(self.origins, path) or "default"


def _with_place(table: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """Write `sandbox = "host"` as `place = "host"`, so that a layer above can change either.

    A table with `sandbox = "host"` and another place contradicts itself. That is refused after merging.
    """
    says_host = path[-2:] == _BASH and table.get("sandbox") == "host"
    if not says_host or table.get("place", "host") != "host":
        return table
    return {**table, "sandbox": "auto", "place": "host"}


def leaves(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value with its path. A hook counts as one value, and so does an empty table."""
    if isinstance(data, dict) and data and not (path and isinstance(path[-1], int)):
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    elif isinstance(data, list) and path and path[-1] in ADDED:
        for position, value in enumerate(data):
            yield (*path, position), value
    elif path:
        yield path, data


# --- the line of a key in a TOML file ------------------------------------------------------------

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_WORD = re.compile(r"\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+)")


def line_of(text: str, path: KeyPath) -> int | None:
    """The line of a value, or of the nearest table around it, counted from one; None if neither is written."""
    best, found = 0, None
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            table = _index_path(_split_path(header[2]), header[1] == "[[", counts)
            here = table
        else:
            key = _KEY.match(line)
            if key is None:
                continue
            here = (*table, *_split_path(key[1]))
        if path[: len(here)] == here and len(here) > best:
            best, found = len(here), number
    return found


def _split_path(dotted: str) -> KeyPath:
    return tuple(a or b or c for a, b, c in _WORD.findall(dotted))


def _index_path(words: KeyPath, is_list: bool, counts: dict[KeyPath, int]) -> KeyPath:
    """The path of a table, with the positions in lists of tables, which its header does not contain."""
    whole: KeyPath = ()
    for position, word in enumerate(words):
        whole = (*whole, word)
        if is_list and position == len(words) - 1:
            counts[whole] = counts.get(whole, -1) + 1
        if whole in counts:
            whole = (*whole, counts[whole])
    return whole


def write_path(path: KeyPath) -> str:
    """A path as people write it: `hooks[0].on`."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += f".{part}" if shown else part
    return shown
