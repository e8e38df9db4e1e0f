"""Files that the user's own configuration names: hooks, filters, included files, scripts that a shell loads.

Whoever changes such a file changes what runs. The settings in each file of git's are those that git itself prints.
Which files these are is found here: a command may take away what git finds a repository by. Programs in settings and
scripts are searched for words: what a script builds at run time, or finds by `PATH`, is not found here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hookline.containment.git_settings import is_plain, settings_in, user_files

_DEEPEST_INCLUDE = 10
_DEEPEST_MISE = 4
_MOST_INCLUDED = 200
_OF_SYSTEM = ("/etc/gitconfig",)
_LARGEST = 1_000_000
_WITHOUT_FILES = frozenset(
    {"branch", "remote", "user", "submodule", "url", "color", "advice", "alias"}
)
"""Sections of git whose values are names and addresses. A file that is called `origin` is not meant by one."""
_SEPARATORS = re.compile(r"[=:,;()\[\]{}\"'\s|&<>$`]+")
_OF_SHELL = re.compile(r"[$`|&;]")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
"""Not a `#` inside a word, at which `shlex` would end the text."""
_HERE = re.compile(r"\$(?:PWD\b|\{PWD\})")
_HAS_ENDING = re.compile(r"[\w-]+\.[A-Za-z]\w*")
_PROJECT = re.compile(r"\{\{\s*(?:config_root|cwd)\s*\}\}/?")
"""What mise writes for the directory of a project."""
_LOADED = re.compile(
    r"(?m)(?:^|[;&|]|\b(?:then|do|else)\b)[ \t]*"
    r"(?:source|source_env|source_env_if_exists|dotenv|dotenv_if_exists|\.)(?=[ \t;&|]|$)"
    r"[ \t]*[\"']?(?:\$\{?PWD\}?/)?([^\s\"';&|]*)"
)
"""What an `.envrc` runs or loads, whether or not it is there."""
_INCLUDED_BY_HG = re.compile(r"(?m)^%include\s+(\S+)")


class _Setting(NamedTuple):
    file: str
    key: str
    value: str


def named_by_git(top: str) -> list[str]:
    """Whole paths that git's settings in a repository name, and the files that these settings are in."""
    git, common = _git_directories(top)
    own = [f"{each}/{name}" for each in (git, common) for name in ("config", "config.worktree")]
    settings = list(_settings([*_OF_SYSTEM, *user_files(), *own]))
    trees = [_joined(git, each.value) for each in settings if each.key == "core.worktree"]
    starts = dict.fromkeys((top, *trees, *_linked_trees(common)))
    named = (path for start in starts for each in settings for path in _named(each, start))
    files = (path for each in settings for path in (each.file, os.path.realpath(each.file)))
    return list(dict.fromkeys((*named, *files)))


def named_by_user(top: str, start: str) -> list[str]:
    """What the user's own settings name in a new repository at `start`. Settings that lie in `top` do not count."""
    settings = _settings([*_OF_SYSTEM, *user_files()])
    own = (each for each in settings if not _is_in(os.path.realpath(each.file), top))
    return [path for each in own for path in _named(each, start)]


def _git_directories(top: str) -> tuple[str, str]:
    """The git directory of a work tree, and the one that it shares with others. A bare repository is its own."""
    git = f"{top}/.git"
    if os.path.isfile(git):
        git = _joined(top, _text(git).partition("gitdir:")[2].strip() or git)
    elif not os.path.lexists(git):
        git = top
    common = _text(f"{git}/commondir").strip()
    return git, _joined(git, common) if common else git


def _linked_trees(git: str) -> Iterator[str]:
    """The further work trees of a repository: paths that are not whole begin in each of them."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{git}/worktrees"):
            if pointer := _text(f"{git}/worktrees/{name}/gitdir").strip():
                yield os.path.dirname(_joined(f"{git}/worktrees/{name}", pointer))


def _settings(files: Iterable[str]) -> Iterator[_Setting]:
    """The settings in some files and in all that these include, on whatever condition: a command may fulfil it."""
    pending = list(dict.fromkeys(files))[::-1]
    seen = set(pending)
    while pending:
        file = pending.pop()
        for key, value in settings_in(_content(file)) or ():
            setting = _Setting(file, key, value)
            yield setting
            if key.startswith(("include.", "includeif.")) and len(seen) < _MOST_INCLUDED:
                more = [path for path in _named(setting, "/") if path not in seen]
                seen.update(more)
                pending += more


def _named(setting: _Setting, start: str) -> Iterator[str]:
    """What one setting names. `start` is where git starts a program."""
    section, _, name = setting.key.partition(".")
    if section in ("include", "includeif"):
        for file in {setting.file, os.path.realpath(setting.file)}:
            yield _joined(os.path.dirname(file), setting.value)
    elif name in ("hookspath", "excludesfile", "attributesfile"):
        yield _joined(start, setting.value)
    elif section not in _WITHOUT_FILES and not is_plain(setting.key, setting.value):
        yield from _files_in(setting.value, start)


def _is_in(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory}/")


# --- other languages ----------------------------------------------------------------------------------


def named_by_hg(text: str, beside: str, top: str, depth: int = _DEEPEST_INCLUDE) -> Iterator[str]:
    """What a configuration of Mercurial names: further files, extensions, hooks. `top` is where it runs programs."""
    for name in _INCLUDED_BY_HG.findall(text):
        path = _joined(beside, name)
        yield path
        if depth:
            yield from named_by_hg(_text(path), os.path.dirname(path), top, depth - 1)
    for start in (beside, top):
        yield from _files_in(text, start, directories=True)


def named_by_shell(text: str, beside: str) -> Iterator[str]:
    """What an `.envrc` names: what it loads, and files that are there."""
    for name in _LOADED.findall(text):
        yield _joined(beside, name or ".env")
    yield from filter(os.path.isfile, (_joined(beside, word) for word in _words(text)))


def named_by_mise(text: str, beside: str) -> Iterator[str]:
    """What a configuration of mise names: what it loads into the environment, and files that are there."""
    text = _PROJECT.sub("", text)
    loaded: list[str] = []
    with contextlib.suppress(tomllib.TOMLDecodeError, KeyError, TypeError):
        settings = tomllib.loads(text)
        loaded += (*_strings(settings.get("env_file")), *_strings(settings["env"]["_"]))
    start = beside
    for _ in range(
        _DEEPEST_MISE
    ):  # its paths begin at the project, and it may be `.config/mise/conf.d/x.toml`
        yield from (_joined(start, each) for each in loaded)
        yield from filter(os.path.isfile, (_joined(start, word) for word in _words(text)))
        start = os.path.dirname(start)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _files_in(text: str, start: str, *, directories: bool = False) -> Iterator[str]:
    """The files that a text names: those that are there, and what looks like a path and is missing.

    A shell may be in another directory by then, or put one before a word: each that is named is tried.
    """
    text = os.path.expandvars(_HERE.sub(lambda _: start, text))
    words = list(_words(text))
    starts = [start]
    is_shell = _OF_SHELL.search(text) is not None
    if is_shell:
        starts += [path for word in words if os.path.isdir(path := _joined(start, word))]
    for place in starts:
        for word in words:
            for each in {word, word.lstrip("/")} if is_shell else (word,):
                path = _joined(place, each)
                is_there = os.path.exists(path)
                if (is_there and (directories or os.path.isfile(path))) or (
                    not is_there and ("/" in word or _HAS_ENDING.fullmatch(word))
                ):
                    yield path


def _words(text: str) -> Iterator[str]:
    """The words of a text that may be paths."""
    text = _COMMENT.sub("", text)
    try:
        words = shlex.split(text.removeprefix("!"))
    except ValueError:
        words = text.split()
    for word in words:
        for part in dict.fromkeys((word, *_SEPARATORS.split(word))):
            if part and "\0" not in part and len(part) < 4096:
                yield part


def _content(path: str) -> bytes:
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(_LARGEST)
    return b""


def _text(path: str) -> str:
    return _content(path).decode(errors="surrogateescape")


def _joined(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
