"""Which package indexes pip and uv are configured for here, read without either of them."""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Somewhere that wheels may be found: an index with a page for each package, or one page or folder of links."""

    address: str
    """A URL, or the path of a folder or a page."""
    is_index: bool


class Configured(NamedTuple):
    """What was found: places, the first to be asked first, and the certificates they are checked with."""

    places: tuple[Place, ...]
    certificates: str = ""


class _Settings(NamedTuple):
    """What one file, or the environment, says."""

    indexes: list[str]
    links: list[str]
    no_index: bool = False
    certificates: str = ""


def configured(environment: Mapping[str, str] | None = None) -> Configured:
    """The environment comes first, then pip's files, then uv's. As hashes are pinned, it is safe to ask them all."""
    env = os.environ if environment is None else environment
    every = [*_from_environment(env), *_from_pip_files(env), *_from_uv_files(env)]
    places = [Place(one, False) for settings in every for one in settings.links]
    if not any(settings.no_index for settings in every):
        places += [Place(one, True) for settings in every for one in settings.indexes]
    certificates = next((one.certificates for one in every if one.certificates), "")
    return Configured(tuple(dict.fromkeys(places)), certificates)


# --- the environment ----------------------------------------------------------------------------


def _from_environment(env: Mapping[str, str]) -> Iterator[_Settings]:
    def words(*names: str) -> list[str]:
        return [word for name in names for word in env.get(name, "").split()]

    yield _Settings(
        words("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
        words("PIP_FIND_LINKS"),
        _is_true(env.get("PIP_NO_INDEX", "")),
        env.get("PIP_CERT", ""),
    )
    named = words("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL")
    yield _Settings(
        [_without_name(one) for one in named],
        env.get("UV_FIND_LINKS", "").replace(",", " ").split(),
        _is_true(env.get("UV_NO_INDEX", "")),
    )


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on")


def _without_name(index: str) -> str:
    """uv takes `name=address` as well as an address, and an address may have `=` in it too."""
    name, equals, address = index.partition("=")
    return address if equals and name.replace("-", "").replace("_", "").isalnum() else index


# --- pip's files --------------------------------------------------------------------------------


def _from_pip_files(env: Mapping[str, str]) -> Iterator[_Settings]:
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        return
    for path in _pip_files(env):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, configparser.Error):
            continue  # pip itself would complain; here another place may do
        yield _pip_settings(parser)


def _pip_settings(parser: configparser.RawConfigParser) -> _Settings:
    def words(key: str) -> list[str]:
        found = [parser.get(section, key, fallback="") for section in ("download", "global")]
        return " ".join(found).split()

    return _Settings(
        [*words("index-url"), *words("extra-index-url")],
        words("find-links"),
        any(map(_is_true, words("no-index"))),
        parser.get("global", "cert", fallback=""),
    )


def _pip_files(env: Mapping[str, str]) -> Iterator[Path]:
    """From the one that counts most to the one that counts least."""
    if env.get("PIP_CONFIG_FILE"):
        yield Path(env["PIP_CONFIG_FILE"])
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    yield Path(sys.prefix, name)
    for folder in _config_folders(env):
        yield folder / "pip" / name
    yield Path.home() / ("pip" if sys.platform == "win32" else ".pip") / name
    if sys.platform != "win32":
        yield Path("/etc/pip.conf")


def _config_folders(env: Mapping[str, str]) -> Iterator[Path]:
    """Where programs keep their settings: the user's folders, then everybody's."""
    if sys.platform == "win32":
        for variable in ("APPDATA", "PROGRAMDATA"):
            if env.get(variable):
                yield Path(env[variable])
        return
    if sys.platform == "darwin":
        yield Path.home() / "Library" / "Application Support"
    yield Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if sys.platform == "darwin":
        yield Path("/Library/Application Support")
    for folder in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield Path(folder)


# --- uv's files ---------------------------------------------------------------------------------


def _from_uv_files(env: Mapping[str, str]) -> Iterator[_Settings]:
    if _is_true(env.get("UV_NO_CONFIG", "")):
        return
    for path in _uv_files(env):
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        table = found if path.name != "pyproject.toml" else found.get("tool", {}).get("uv", {})
        for settings in (table, table.get("pip")):
            if isinstance(settings, dict):
                yield _uv_settings(settings)


def _uv_settings(table: Mapping[str, Any]) -> _Settings:
    indexes: list[str] = []
    links = _texts(table.get("find-links"))
    for each in table.get("index", ()):
        if isinstance(each, dict) and isinstance(each.get("url"), str) and not each.get("explicit"):
            (links if each.get("format") == "flat" else indexes).append(each["url"])
    indexes += [*_texts(table.get("index-url")), *_texts(table.get("extra-index-url"))]
    return _Settings(indexes, links, table.get("no-index") is True)


def _texts(value: object) -> list[str]:
    values: Iterable[object] = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]


def _uv_files(env: Mapping[str, str]) -> Iterator[Path]:
    """From the one that counts most to the one that counts least."""
    if env.get("UV_CONFIG_FILE"):
        yield Path(env["UV_CONFIG_FILE"])
        return
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "uv.toml").is_file() or (folder / "pyproject.toml").is_file():
            yield folder / "uv.toml"
            yield folder / "pyproject.toml"
            break
    for folder in _config_folders(env):
        yield folder / "uv" / "uv.toml"
    if sys.platform != "win32":
        yield Path("/etc/uv/uv.toml")
