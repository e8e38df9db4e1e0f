"""Trust: a repository's hooks are off until the user has said yes to exactly these hooks and these scripts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hookline.command_hooks.definition import Handler, Level
from hookline.command_hooks.reading import FOREIGN, find_hooks, read_pages
from hookline.command_hooks.scripts import hash_of, named_files, scripts_of
from hookline.errors import TrustError, UsageError


class TrustStore:
    """What the user trusts, as far as it is hooks: in the one file that says which projects they trust, and as what."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        from hookline.config import (
            TrustFile,
            trust_file,
        )  # only where it is needed: it takes a while

        self._kept = trust_file(os.environ) if path is None else TrustFile(Path(path))
        self.path = self._kept.path

    def trust(
        self,
        directory: str | os.PathLike[str] = ".",
        *,
        fingerprint: str = "",
        agents: Iterable[str | os.PathLike[str]] = (),
        skills: Iterable[str | os.PathLike[str]] = (),
        plugins: Iterable[str | os.PathLike[str]] = (),
    ) -> str:
        """Trust a repository's hooks as they are now. Gives what they are recognised by.

        Those of the pages in `.claude/agents`, `.claude/skills` and the places that are named are among them, and those
        of plugins that it names.
        """
        where = _resolved(directory)
        mark = fingerprint or fingerprint_of(where)
        self._kept.approve_hooks(where, mark, marks_of_pages(where, agents, skills, plugins))
        return mark

    def is_trusted(self, directory: str | os.PathLike[str] = ".", *, fingerprint: str = "") -> bool:
        """Whether a repository's hooks are those that were trusted. Changed means not."""
        where = _resolved(directory)
        known = self._known(where)
        return bool(known) and known == (fingerprint or fingerprint_of(where))

    def was_trusted(self, directory: str | os.PathLike[str] = ".") -> bool:
        """Whether the directory's hooks were trusted once, as they are now or as they were."""
        return bool(self._known(_resolved(directory)))

    def pages(self, directory: str | os.PathLike[str] = ".") -> dict[str, str]:
        """What the hooks of the directory's pages and plugins were recognised by when they were trusted."""
        try:
            return self._kept.pages_of(_resolved(directory))
        except TrustError:
            return {}

    def distrust(self, directory: str | os.PathLike[str] = ".") -> bool:
        """Take all trust in the directory back. Says whether there was any."""
        return self._kept.revoke(_resolved(directory))

    def directories(self) -> tuple[str, ...]:
        """The directories that were trusted."""
        return tuple(self._kept.directories())

    def _known(self, where: Path) -> str:
        """What was trusted. A file that others can write, or that is damaged, trusts nothing."""
        try:
            return self._kept.hooks_of(where)
        except TrustError:
            return ""

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


def marks_of_pages(
    directory: Path,
    agents: Iterable[str | os.PathLike[str]] = (),
    skills: Iterable[str | os.PathLike[str]] = (),
    plugins: Iterable[str | os.PathLike[str]] = (),
) -> dict[str, str]:
    """What the hooks of each page and plugin in a repository are recognised by: of the usual places, and of those
    named."""
    nobody = Path(os.devnull) / "nobody"
    pages = read_pages(
        directory,
        nobody,
        lambda _: None,
        agents=[*agents, directory / ".claude/agents"],
        skills=[*skills, directory / ".claude/skills"],
    )
    given = dict.fromkeys((Path(each).expanduser() for each in plugins), Level.PROJECT)
    found = find_hooks(
        directory, nobody, ("claude", "codex"), plugins=given, pages=pages, managed=False
    )
    return page_marks(found.handlers, directory)


def page_marks(handlers: Iterable[Handler], project: Path) -> dict[str, str]:
    """What those of the hooks that are of a page or a plugin in a repository are recognised by, by its file."""
    by_page: dict[str, list[Handler]] = {}
    for handler in handlers:
        if handler.source.level.is_repository and handler.is_apart:
            by_page.setdefault(handler.source.label, []).append(handler)
    return {label: fingerprint(each, project) for label, each in by_page.items()}


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


def _resolved(directory: str | os.PathLike[str]) -> Path:
    where = Path(directory).expanduser().resolve()
    if not where.is_dir():
        raise UsageError(f"there is no directory '{where}'.", remedy="Name the repository.")
    return where
