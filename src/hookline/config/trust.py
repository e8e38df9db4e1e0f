"""The directories that the user trusts, each with a hash of its configuration and of the scripts it names."""

from __future__ import annotations

import enum
import hashlib
import itertools
import json
import os
import re
import shlex
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hookline.config.layers import Layer
from hookline.config.module_files import find_module_files
from hookline.errors import TrustError
from hookline.own_directories import configuration_directory, home
from hookline.shell_text.named_files import (
    expand_directories,
    find_bound_paths,
    find_command_words,
    hash_path,
    links_to,
    resolve_parents,
)

_VERSION = 1
_MAX_FILES = 2_000
_MAX_TEXT = 64 << 10
"""Bytes of a file whose text is kept. The file is read at every start."""
_MAX_TEXTS = 1 << 20
"""Bytes of all texts of a directory."""
_DECODED: dict[tuple[str | int, ...], Any] = {}
"""The trust file as it was last read. A command asks it several times, and its texts make it large."""
_PROJECT_DIR = re.compile(r"\$\{?([A-Z]+_PROJECT_DIR)\b")
"""A variable for the project's directory: each agent has one of its own, and commands may name any of them."""
_PLACEHOLDER = re.compile(r"\$\{[A-Z]+_PROJECT_DIR\}")
"""The same where the path is put in. Other forms, as `${NAME:-.}`, are for a shell, whose lines we read with it."""
_BOUND = ("files", "hook_files")
"""Keys that list what else a hook or a server loads."""
_TARGETS = frozenset({"run", "target", "agent"})
"""Keys whose value is `module:name`."""
_READ = frozenset({"skills", "subagents", "plugins"})
"""Capabilities whose values name files that instruct the agent, or that are run."""


class TrustStatus(enum.StrEnum):
    """Whether the user trusts a directory."""

    NOTHING = "nothing to trust"
    TRUSTED = "trusted"
    UNKNOWN = "not trusted"
    CHANGED = "changed since it was trusted"


class TrustFile:
    """The file with everything that the user trusts. Only the user may write it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def status(self, project: Path, prints: Mapping[str, str]) -> TrustStatus:
        """Whether the project is trusted as it is now."""
        files = self._entry(project).get("files")
        if not files:  # an entry may be about hooks of other agents only
            return TrustStatus.UNKNOWN if prints else TrustStatus.NOTHING
        return TrustStatus.TRUSTED if files == dict(prints) else TrustStatus.CHANGED

    def is_known(self, project: Path) -> bool:
        """Whether the files of the project were ever trusted."""
        return bool(self._entry(project).get("files"))

    def find_above(self, project: Path, environ: Mapping[str, str]) -> Path | None:
        """The nearest trusted directory above a project that has no entry of its own.

        A command can make a repository or a configuration in a directory of a trusted project, which is then a project
        of its own, without the hooks and rules of the other. It cannot make an entry here.
        """
        known, own = self._read(), home(environ).resolve()
        if "texts" in known.get(str(project), {}) or self.hooks_of(project):
            return None
        above = (each for each in project.parents if each != own and each not in own.parents)
        return next((each for each in above if _has_guards(known.get(str(each), {}))), None)

    def changes(self, project: Path, prints: Mapping[str, str]) -> list[str]:
        """The files that differ from those that were trusted."""
        files = self._entry(project).get("files", {})
        return sorted(name for name in {*files, *prints} if files.get(name) != prints.get(name))

    def texts(self, project: Path) -> dict[str, str]:
        """The texts of files as they were trusted, as far as they were kept. Earlier versions kept none."""
        files = self._table(project, "files")
        # An earlier version may have trusted other files since, and has left these texts as they were.
        texts = {
            name: text
            for name, text in self._table(project, "texts").items()
            if hashlib.sha256(text.encode()).hexdigest() == files.get(name)
        }
        return {**self.hook_texts(project), **texts}

    def hook_texts(self, project: Path) -> dict[str, str]:
        """Those of files that name hooks of other agents, and of their scripts."""
        return self._table(project, "hook_texts")

    def approve(
        self,
        project: Path,
        prints: Mapping[str, str],
        texts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Trust the project as it is now."""
        self._update(project, files=dict(prints), texts=dict(texts))

    def hooks_of(self, project: Path) -> str:
        """The hash of the trusted hooks in other agents' files; empty if they were never trusted."""
        return str(self._entry(project).get("hooks", ""))

    def pages_of(self, project: Path) -> dict[str, str]:
        """The hashes of the trusted hooks of subagents and skills, by page."""
        return self._table(project, "pages")

    def approve_hooks(
        self,
        project: Path,
        mark: str,
        pages: Mapping[str, str],
        texts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Trust these hooks, and those of these pages, as they are now."""
        self._update(project, hooks=mark, pages=dict(pages), hook_texts=dict(texts))

    def repositories(self) -> dict[str, str]:
        """The repositories in which git may read without asking, each with the hash of its configuration."""
        marks = {name: each.get("repository", "") for name, each in self._read().items()}
        return {name: mark for name, mark in marks.items() if isinstance(mark, str) and mark}

    def approve_repository(self, top: Path, mark: str) -> None:
        """Let git read in a repository while its configuration has this hash."""
        self._update(top, repository=mark)

    def revoke_repository(self, top: Path) -> bool:
        """Let git ask in a repository again. Returns whether it was trusted."""
        known = self._read()
        entry = known.get(str(top), {})
        if not entry.pop("repository", ""):
            return False
        if not _has_guards(entry):
            del known[str(top)]
        self._write(known)
        return True

    def revoke(self, project: Path) -> bool:
        """Remove all trust in a directory. Returns whether there was any."""
        known = self._read()
        if known.pop(str(project), None) is None:
            return False
        self._write(known)
        return True

    def directories(self) -> list[str]:
        """The trusted directories."""
        return sorted(self._read())

    def _entry(self, project: Path) -> dict[str, Any]:
        return dict(self._read().get(str(project), {}))

    def _table(self, project: Path, name: str) -> dict[str, str]:
        found = self._entry(project).get(name, {})
        return dict(found) if isinstance(found, dict) else {}

    def _update(self, project: Path, **values: Any) -> None:
        known = self._read()
        before = known.get(str(project), {"files": {}})
        known[str(project)] = {**before, **values, "at": int(time.time())}
        self._write(known)

    def _read(self) -> dict[str, Any]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise TrustError(f"{self.path} cannot be read: {error.strerror}.") from None
        with open(descriptor, encoding="utf-8") as file:
            facts = os.fstat(descriptor)
            is_writable = stat.S_IMODE(facts.st_mode) & 0o022
            is_foreign = facts.st_uid not in (os.geteuid(), 0)
            if is_writable or is_foreign:
                raise TrustError(
                    f"{self.path} can be written by other users, so it cannot be relied on.",
                    remedy=f"Check it, then: chmod 600 {shlex.quote(str(self.path))}.",
                )
            try:
                version = (str(self.path), facts.st_ino, facts.st_mtime_ns, facts.st_size)
                found = _DECODED.get(version)
                if found is None:
                    _DECODED.clear()
                    found = _DECODED[version] = json.load(file)
                if found["version"] != _VERSION:
                    raise ValueError(found["version"])
                return {
                    str(name): {**each, "files": dict(each["files"])}
                    for name, each in found["directories"].items()
                }
            except (ValueError, KeyError, TypeError, AttributeError):
                raise TrustError(
                    f"{self.path} is damaged.",
                    remedy="Delete it, and trust your directories again: hookline trust DIR.",
                ) from None

    def _write(self, known: dict[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # mkstemp makes it with mode 0600; the rename replaces the old file as a whole.
            descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=".trust-")
            with open(descriptor, "w", encoding="utf-8") as file:
                content = {"version": _VERSION, "directories": known}
                json.dump(content, file, indent=1, sort_keys=True)
            os.replace(name, self.path)
        except OSError as error:
            raise TrustError(f"{self.path} cannot be written: {error.strerror}.") from None


def _has_guards(entry: Mapping[str, Any]) -> bool:
    """Whether an entry is about configuration or hooks, and not only about git."""
    return bool(entry.get("files") or entry.get("hooks") or entry.get("pages"))


def trust_file(environ: Mapping[str, str]) -> TrustFile:
    """The trust file of the user."""
    return TrustFile(configuration_directory(environ) / "trusted-projects.json")


# --- what is trusted ----------------------------------------------------------------------------------


def fingerprints(project: Path, layers: Iterable[Layer]) -> dict[str, str]:
    """The hash of each configuration file, as it was read, and of each file that it names."""
    texts = {Path(layer.name): layer.text for layer in layers}
    named = named_files(project, layers)
    prints = {
        _relative(project, path): hashlib.sha256(text.encode()).hexdigest()
        for path, text in texts.items()
    }
    return {**prints, **{_relative(project, path): hash_path(path, project) for path in named}}


def named_files(project: Path, layers: Iterable[Layer]) -> list[Path]:
    """The files that configuration files name to be run or followed, with all code in the directories of scripts."""
    texts = {Path(layer.name) for layer in layers}
    found = {path for layer in layers for path in _find_files(project, layer.data)}
    named = sorted(found - texts)
    if len(named) > _MAX_FILES:
        raise TrustError(
            f"the configuration of {project} names more than {_MAX_FILES} files.",
            remedy="Name smaller directories in it.",
        )
    return named


def _find_files(project: Path, data: Any, key: str = "") -> Iterator[Path]:
    """Every file that a table names, and the tables in it. `key` is the name of the table, or of one around it."""
    if isinstance(data, dict):
        yield from _find_bound_files(project, data)
        for name, value in data.items():
            yield from _find_files(project, value, key if key in _READ else str(name))
    elif isinstance(data, list):
        for value in data:
            yield from _find_files(project, value, key)
    elif isinstance(data, str) and key in _TARGETS:
        # Our own loader imports these modules, from these files only.
        yield from find_module_files(project, data.partition(":")[0])
    elif isinstance(data, str) and key in _READ:
        yield from _files_at(project, data)


def _find_bound_files(project: Path, table: dict[str, Any]) -> Iterator[Path]:
    """The files that a hook or a server is bound to, if the table is one."""
    command, args, cwd = table.get("command"), table.get("args") or (), table.get("cwd") or ""
    words = [*(command if isinstance(command, list) else [command]), *args, cwd]
    bound: list[Path] = []
    if all(isinstance(each, str) for each in words):
        given = table.get("env")
        env = {k: str(value) for k, value in given.items()} if isinstance(given, dict) else {}
        known = {**env, **dict.fromkeys(_PROJECT_DIR.findall(" ".join(words)), str(project))}
        *plain, cwd = [_PLACEHOLDER.sub(lambda _: str(project), word) for word in words]
        values = [_PLACEHOLDER.sub(lambda _: str(project), value) for value in env.values()]
        is_line = isinstance(command, str) and not args
        read = find_command_words(words[0] if is_line else plain, known, values)
        bases = [project / os.path.expanduser(cwd), project]
        bound += find_bound_paths(read, bases, project)
    for listed in map(table.get, _BOUND):
        bound += find_listed_paths(listed, project) if isinstance(listed, list) else ()
    yield from expand_directories(bound, project)


def find_listed_paths(names: Iterable[str], project: Path) -> list[Path]:
    """The files and directories that a list names, with the links on the way to them."""
    found: dict[Path, None] = {}
    for name in names:
        path, links = resolve_parents(project / name)
        if path == project or not path.is_relative_to(project) or not os.path.exists(path):
            raise TrustError(
                f"a hook or an MCP server lists {name!r} among its files, and there is no such file or directory "
                f"below {project}.",
                remedy="Correct the name, or leave it out. The top directory itself cannot be listed.",
            )
        found |= dict.fromkeys((path, *links, *links_to(path)))
    return list(found)


def read_texts(project: Path, paths: Iterable[Path]) -> dict[str, str]:
    """The text of each file that is kept, to show later what has changed. Large files and binary ones are not."""
    texts: dict[str, str] = {}
    left = _MAX_TEXTS
    for path in dict.fromkeys(paths):
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_TEXT + 1)
            if len(data) <= min(_MAX_TEXT, left):
                texts[_relative(project, path)] = data.decode()
                left -= len(data)
        except (OSError, UnicodeDecodeError):
            continue
    return texts


def _relative(project: Path, path: Path) -> str:
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def _files_at(project: Path, name: str) -> Iterator[Path]:
    """A file of the project, or all files in a directory of it."""
    path, _ = resolve_parents(project / os.path.expanduser(name))
    if path == project or not path.is_relative_to(project):
        return
    if os.path.isfile(path):
        yield path
    elif os.path.isdir(path):
        yield from itertools.islice(_files_below(path), _MAX_FILES + 1)


def _files_below(folder: Path) -> Iterator[Path]:
    """All files in a directory, also behind links: the loader follows them."""
    seen: set[str] = set()
    for place, inner, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        inner.sort()
        yield from (path for name in sorted(names) if (path := Path(place, name)).is_file())
