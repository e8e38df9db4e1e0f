"""Trust: a repository's hooks are off until the user has said yes to exactly these hooks and these scripts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.reading import FOREIGN, find_hooks
from hookline.command_hooks.scripts import hash_of, named_files, scripts_of
from hookline.errors import UsageError

_VERSION = 1


class TrustStore:
    """A file in the user's configuration directory that says which directories are trusted, and as what."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_path() if path is None else Path(path)

    def trust(self, directory: str | os.PathLike[str] = ".", *, fingerprint: str = "") -> str:
        """Trust a repository's hooks as they are now. Gives what they are recognised by."""
        where = _resolved(directory)
        mark = fingerprint or fingerprint_of(where)
        entries = self._read()
        entries[str(where)] = {"fingerprint": mark, "at": int(time.time())}
        self._write(entries)
        return mark

    def is_trusted(self, directory: str | os.PathLike[str] = ".", *, fingerprint: str = "") -> bool:
        """Whether a repository's hooks are those that were trusted. Changed means not."""
        where = _resolved(directory)
        entry = self._read().get(str(where))
        if not isinstance(entry, dict):
            return False
        return bool(entry.get("fingerprint") == (fingerprint or fingerprint_of(where)))

    def was_trusted(self, directory: str | os.PathLike[str] = ".") -> bool:
        """Whether the directory was trusted once, as it is now or as it was."""
        return str(_resolved(directory)) in self._read()

    def distrust(self, directory: str | os.PathLike[str] = ".") -> None:
        """Take the trust back."""
        entries = self._read()
        if entries.pop(str(_resolved(directory)), None) is not None:
            self._write(entries)

    def directories(self) -> tuple[str, ...]:
        """The directories that were trusted."""
        return tuple(sorted(self._read()))

    def _read(self) -> dict[str, Any]:
        """The entries. A file that others can write, or that is damaged, trusts nothing."""
        try:
            facts = os.stat(self.path)
            if facts.st_mode & 0o022 or facts.st_uid not in (os.getuid(), 0):
                return {}
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        entries = found.get("trusted") if isinstance(found, dict) else None
        return entries if isinstance(entries, dict) and found.get("version") == _VERSION else {}

    def _write(self, entries: dict[str, Any]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, "trusted": entries}, indent=1, sort_keys=True)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=".trust-")  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def __repr__(self) -> str:
        return f"<TrustStore {self.path}>"


def trust(directory: str | os.PathLike[str] = ".", *, store: TrustStore | None = None) -> str:
    """Trust a repository's hooks as they are now, in the user's own file."""
    return (store or TrustStore()).trust(directory)


def is_trusted(directory: str | os.PathLike[str] = ".", *, store: TrustStore | None = None) -> bool:
    """Whether a repository's hooks are those that were trusted."""
    return (store or TrustStore()).is_trusted(directory)


def fingerprint_of(directory: Path) -> str:
    """What the hooks of a directory, in all dialects, are recognised by."""
    # Without a home and without an administrator: what they have is not the repository's.
    found = find_hooks(directory, Path(os.devnull) / "nobody", FOREIGN, managed=False)
    return fingerprint(found.handlers, directory)


def fingerprint(handlers: Iterable[Handler], project: Path) -> str:
    """A hash of what repository files say about hooks, and of the scripts that they name."""
    said = [
        [
            handler.source.dialect,
            handler.source.label,
            handler.source.level.value,
            dict(handler.definition),
            sorted(named_files(handler, project).items()),
        ]
        for handler in handlers
        if handler.source.level.is_repository
    ]
    content = json.dumps(said, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(content.encode(errors="replace")).hexdigest()


def pinned(handler: Handler, project: Path) -> Handler:
    """A repository's hook with the hashes of its scripts: before each run they are looked at again."""
    if handler.pins or not handler.source.level.is_repository:
        return handler
    return msgspec.structs.replace(handler, pins=scripts_of(handler, project))


def changed_script(handler: Handler) -> str:
    """A script that is another now than when it was trusted; empty if there is none."""
    return next((path for path, known in handler.pins.items() if hash_of(Path(path)) != known), "")


def default_path() -> Path:
    """The user's own file."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(base).expanduser() / "hookline" / "trust.json"
    except RuntimeError:
        raise UsageError(
            "there is no home directory to keep trust in.", remedy="Set HOME or XDG_CONFIG_HOME."
        ) from None


def _resolved(directory: str | os.PathLike[str]) -> Path:
    where = Path(directory).expanduser().resolve()
    if not where.is_dir():
        raise UsageError(f"there is no directory '{where}'.", remedy="Name the repository.")
    return where
