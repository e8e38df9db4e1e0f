"""Which directories the user trusts, and as what: by a hash of their configuration and of the scripts it names."""

from __future__ import annotations

import enum
import hashlib
import json
import os
import re
import shlex
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.config.following import follow
from hookline.errors import TrustError

_VERSION = 1
_MOST_FILES = 2_000
_PLACE = re.compile(r"\$\{?(CLAUDE|HOOKLINE)_PROJECT_DIR\}?")
_RUNNING = frozenset({"run", "command", "args", "target", "agent"})
"""Keys whose words are names of what is run."""
_TARGETS = frozenset({"run", "target", "agent"})
"""Keys whose word is `module:name`."""
_READ = frozenset({"skills", "subagents", "plugins"})
"""Parts whose words are names of files that tell the agent what to do, or that are run."""


class Standing(enum.StrEnum):
    """How a directory stands with the user."""

    NOTHING = "nothing to trust"
    TRUSTED = "trusted"
    UNKNOWN = "not trusted"
    CHANGED = "changed since it was trusted"


class Trust:
    """The file in which it is kept what the user trusts. Only the user can write it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def standing(self, project: Path, prints: Mapping[str, str]) -> Standing:
        """Whether the project is trusted as it is now."""
        if not prints:
            return Standing.NOTHING
        known = self._read().get(str(project))
        if known is None or not known["files"]:  # it may be that only its hooks are trusted
            return Standing.UNKNOWN
        return Standing.TRUSTED if known["files"] == dict(prints) else Standing.CHANGED

    def knows(self, project: Path) -> bool:
        """Whether its files were ever trusted."""
        return bool(self._read().get(str(project), {}).get("files"))

    def changes(self, project: Path, prints: Mapping[str, str]) -> list[str]:
        """The files that are not what they were when the project was trusted."""
        files = self._read().get(str(project), {}).get("files", {})
        return sorted(name for name in {*files, *prints} if files.get(name) != prints.get(name))

    def approve(self, project: Path, prints: Mapping[str, str]) -> None:
        """Trust the project as it is now."""
        self._put(project, files=dict(prints))

    def hooks_of(self, project: Path) -> str:
        """What the hooks that other agents' files in the project name were recognised by; empty if they never were."""
        return str(self._read().get(str(project), {}).get("hooks", ""))

    def pages_of(self, project: Path) -> dict[str, str]:
        """What the hooks of the project's subagents and skills were recognised by, by page."""
        pages = self._read().get(str(project), {}).get("pages", {})
        return dict(pages) if isinstance(pages, dict) else {}

    def approve_hooks(self, project: Path, mark: str, pages: Mapping[str, str]) -> None:
        """Trust these hooks as they are now, and those of these pages."""
        self._put(project, hooks=mark, pages=dict(pages))

    def repositories(self) -> dict[str, str]:
        """The repositories in which git may read without asking, each with the hash of its own configuration."""
        known = self._read()
        marks = {name: each.get("repository", "") for name, each in known.items()}
        return {name: mark for name, mark in marks.items() if isinstance(mark, str) and mark}

    def approve_repository(self, top: Path, mark: str) -> None:
        """Let git read in a repository, as long as its configuration has this hash."""
        self._put(top, repository=mark)

    def revoke_repository(self, top: Path) -> bool:
        """Let git ask there again. Says whether it had been trusted."""
        known = self._read()
        entry = known.get(str(top), {})
        if not entry.pop("repository", ""):
            return False
        if not (entry["files"] or entry.get("hooks") or entry.get("pages")):
            del known[str(top)]
        self._write(known)
        return True

    def _put(self, project: Path, **entries: Any) -> None:
        known = self._read()
        before = known.get(str(project), {"files": {}})
        known[str(project)] = {**before, **entries, "at": int(time.time())}
        self._write(known)

    def revoke(self, project: Path) -> bool:
        """Trust it no longer. Says whether it had been trusted."""
        known = self._read()
        if known.pop(str(project), None) is None:
            return False
        self._write(known)
        return True

    def directories(self) -> list[str]:
        """What is trusted."""
        return sorted(self._read())

    def _read(self) -> dict[str, Any]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise TrustError(f"{self.path} cannot be read: {error.strerror}.") from None
        with open(descriptor, encoding="utf-8") as file:
            facts = os.fstat(descriptor)
            writable = stat.S_IMODE(facts.st_mode) & 0o022
            strange = hasattr(os, "geteuid") and facts.st_uid not in (os.geteuid(), 0)
            if writable or strange:
                raise TrustError(
                    f"{self.path} can be written by others, so it says nothing about whom you trust.",
                    remedy=f"Look at it, then: chmod 600 {shlex.quote(str(self.path))}.",
                )
            try:
                found = json.load(file)
                if found["version"] != _VERSION:
                    raise ValueError(found["version"])
                return {
                    str(name): {**each, "files": dict(each["files"])}
                    for name, each in found["directories"].items()
                }
            except (ValueError, KeyError, TypeError, AttributeError):
                raise TrustError(
                    f"{self.path} is not what was written there.",
                    remedy="Delete it, and trust your directories again: hookline trust DIR.",
                ) from None

    def _write(self, known: dict[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Made with mode 0600, and put in place as a whole.
            descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=".trust-")
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(
                    {"version": _VERSION, "directories": known}, file, indent=1, sort_keys=True
                )
            os.replace(name, self.path)
        except OSError as error:
            raise TrustError(f"{self.path} cannot be written: {error.strerror}.") from None


# --- what is trusted ----------------------------------------------------------------------------------


def fingerprints(
    project: Path, texts: Mapping[Path, str], data: Iterable[dict[str, Any]]
) -> dict[str, str]:
    """The hash of each configuration file, as it was read, and of each file in the project that the settings name."""
    said = sorted({path for each in data for path in _named(project, each)} - texts.keys())
    named = sorted({*said, *follow(project, said).files})
    if len(named) > _MOST_FILES:
        raise TrustError(
            f"the configuration of {project} names more than {_MOST_FILES} files.",
            remedy="Name smaller directories in it.",
        )
    prints = {_relative(project, path): _digest(text.encode()) for path, text in texts.items()}
    return {**prints, **{_relative(project, path): _hash(path) for path in named}}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _relative(project: Path, path: Path) -> str:
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TrustError(f"{path} cannot be read: {error.strerror}.") from None


def _named(project: Path, data: Any, key: str = "") -> Iterator[Path]:
    """Every file of the project that the settings name as something to run, or to do as it says."""
    if isinstance(data, dict):
        for name, value in data.items():
            inherits = key in _READ
            yield from _named(project, value, key if inherits else str(name))
    elif isinstance(data, list):
        for value in data:
            yield from _named(project, value, key)
    elif isinstance(data, str) and key in _RUNNING | _READ:
        yield from _modules(project, data) if key in _TARGETS else _files(project, data)


def _modules(project: Path, target: str) -> Iterator[Path]:
    """The files that are run when `module:name` is loaded: a module is what it imports, too."""
    from hookline.config.imports import files_of

    yield from files_of(project, target.partition(":")[0])


def _files(project: Path, text: str) -> Iterator[Path]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in (text, *words):
        yield from _found(project, _PLACE.sub(lambda _: str(project), word))


def _found(project: Path, word: str) -> Iterator[Path]:
    if not word or "\0" in word or len(word) > 4_000:
        return
    try:
        path = Path(os.path.normpath(project / word))
        if path == project or not path.is_relative_to(project):
            return
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(inside for inside in path.rglob("*") if inside.is_file())
    except OSError:
        return
