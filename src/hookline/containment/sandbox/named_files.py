"""Files that the user's own configuration names: hooks, filters, included files, scripts that a shell loads.

Whoever changes such a file changes what runs. What git reads, git lists itself: it follows included files, links and
further work trees. Listing runs nothing. Shell scripts are only searched for words: what a script builds at run time,
or finds by `PATH`, is not found here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from hookline.containment.git_settings import GIT, user_files

_TIME = 5.0
_DEEPEST_INCLUDE = 10
_DEEPEST_MISE = 4
_LARGEST = 1_000_000
_WITHOUT_FILES = frozenset(
    {"branch", "remote", "user", "submodule", "url", "color", "advice", "alias"}
)
"""Sections of git whose values are names and addresses. A file that is called `origin` is not meant by one."""
_SEPARATORS = re.compile(r"[=:,;()\[\]{}\"'\s]+")
_LOADED = re.compile(
    r"(?m)(?:^|[;&|]|\b(?:then|do|else)\b)[ \t]*"
    r"(?:source|source_env|source_env_if_exists|dotenv|dotenv_if_exists|\.)(?=[ \t;&|]|$)"
    r"[ \t]*[\"']?(?:\$\{?PWD\}?/)?([^\s\"';&|]*)"
)
"""What an `.envrc` runs or loads, whether or not it is there."""
_INCLUDED_BY_HG = re.compile(r"(?m)^%include\s+(\S+)")

Stamp: TypeAlias = tuple[tuple[str, tuple[int, int] | None], ...]


class _Setting(NamedTuple):
    file: str
    key: str
    value: str


def named_by_git(top: str) -> list[str]:
    """Whole paths that git's settings in a directory name, and the files that these settings are in."""
    settings = _settings(top)
    trees = [_joined(top, each.value) for each in settings if each.key == "core.worktree"]
    named = (path for start in (top, *trees) for each in settings for path in _named(each, start))
    files = (path for each in settings for path in (each.file, os.path.realpath(each.file)))
    return list(dict.fromkeys((*named, *files)))


def named_by_user(top: str, start: str) -> list[str]:
    """What settings from outside of a directory name in a repository in it that is new: the user's own settings."""
    settings = [each for each in _settings(top) if not _is_in(os.path.realpath(each.file), top)]
    return [path for each in settings for path in _named(each, start)]


def _is_in(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory}/")


def _named(setting: _Setting, start: str) -> Iterator[str]:
    """What one setting names. `start` is where git starts a program."""
    section, _, name = setting.key.partition(".")
    if section in ("include", "includeif"):
        for file in {setting.file, os.path.realpath(setting.file)}:
            yield _joined(os.path.dirname(file), setting.value)
    elif name in ("hookspath", "excludesfile", "attributesfile"):
        yield _joined(start, setting.value)
    elif section not in _WITHOUT_FILES:
        yield from _files_in(setting.value, start)


_listed: dict[str, tuple[Stamp, tuple[_Setting, ...]]] = {}


def _settings(top: str) -> tuple[_Setting, ...]:
    """The settings that hold in a directory, with the file of each. They are listed again when one of these changed."""
    known = _listed.get(top)
    if known is not None and known[0] == _stamp(path for path, _ in known[0]):
        return known[1]
    found = tuple(_list_settings(top))
    files = [f"{top}/.git", f"{top}/.git/config", f"{top}/.git/config.worktree", *user_files()]
    for setting in found:
        files.append(setting.file)
        if setting.key.startswith(("include.", "includeif.")):
            files += _named(setting, top)
    _listed[top] = (_stamp(dict.fromkeys(files)), found)
    return found


def _stamp(files: Iterable[str]) -> Stamp:
    return tuple((path, _version(path)) for path in files)


def _version(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        facts = os.stat(path)
        # A directory changes with every lock file that git makes in it.
        return facts.st_ino, 0 if os.path.isdir(path) else facts.st_ctime_ns
    return None


def _list_settings(top: str) -> Iterator[_Setting]:
    if GIT is None:
        return
    env = {
        name: os.environ[name]
        for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
        if name in os.environ
    }
    env |= {"PATH": os.path.dirname(GIT), "LC_ALL": "C"}
    argv = [GIT, "-c", "safe.directory=*", "config", "--list", "--show-origin", "--includes", "-z"]
    for words in (argv, [*argv, "--global"]):  # a repository that cannot be read hides nothing else
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            ran = subprocess.run(
                words, cwd=top, env=env, capture_output=True, timeout=_TIME, check=True
            )
            printed = iter(os.fsdecode(ran.stdout).split("\0"))
            for origin, setting in zip(printed, printed, strict=False):
                kind, _, path = origin.partition(":")
                if kind == "file":
                    key, _, value = setting.partition("\n")
                    yield _Setting(_joined(top, path), key, value)
            return


# --- other languages ----------------------------------------------------------------------------------


def named_by_hg(text: str, beside: str) -> Iterator[str]:
    """What a configuration of Mercurial names: further files, extensions, hooks."""
    return _named_by_hg(text, beside, os.path.dirname(beside), _DEEPEST_INCLUDE)


def _named_by_hg(text: str, beside: str, top: str, depth: int) -> Iterator[str]:
    for name in _INCLUDED_BY_HG.findall(text):
        path = _joined(beside, name)
        yield path
        if depth:
            yield from _named_by_hg(_text(path), os.path.dirname(path), top, depth - 1)
    for start in (beside, top):
        yield from _files_in(text, start, directories=True)


def named_by_shell(text: str, beside: str) -> Iterator[str]:
    """What an `.envrc` names: what it loads, and files that are there."""
    for name in _LOADED.findall(text):
        yield _joined(beside, name or ".env")
    yield from (path for _, path in _words(text, beside) if os.path.isfile(path))


def named_by_mise(text: str, beside: str) -> Iterator[str]:
    """What a configuration of mise names: what it loads into the environment, and files that are there."""
    loaded: list[str] = []
    with contextlib.suppress(tomllib.TOMLDecodeError, KeyError, TypeError):
        settings = tomllib.loads(text)
        loaded += (*_strings(settings.get("env_file")), *_strings(settings["env"]["_"]))
    start = beside
    for _ in range(
        _DEEPEST_MISE
    ):  # its paths begin at the project, and it may be `.config/mise/conf.d/x.toml`
        yield from (_joined(start, each) for each in loaded)
        yield from (path for _, path in _words(text, start) if os.path.isfile(path))
        start = os.path.dirname(start)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _files_in(text: str, start: str, *, directories: bool = False) -> Iterator[str]:
    """The files that a text names: those that are there, and what looks like a path and is missing."""
    for word, path in _words(text, start):
        is_there = os.path.exists(path)
        if (is_there and (directories or os.path.isfile(path))) or (not is_there and "/" in word):
            yield path


def _words(text: str, start: str) -> Iterator[tuple[str, str]]:
    """The words of a text, and the same as whole paths."""
    try:
        words = shlex.split(text.removeprefix("!"), comments=True)
    except ValueError:
        words = text.split()
    for word in words:
        for part in {word, *_SEPARATORS.split(word)}:
            if part and "\0" not in part and len(part) < 4096:
                yield part, _joined(start, part)


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(_LARGEST).decode(errors="surrogateescape")
    return ""


def _joined(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
