"""The project's own environment: `.venv`, made when missing, refreshed when pyproject.toml changed.

Everything here parses on Python 3.6, so that a Python too old for Hookline gets as far as the
message below instead of a SyntaxError.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

OLDEST = (3, 11)

if sys.version_info < OLDEST:
    sys.exit(
        f"Hookline needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}.\n"
        f"Remedy: run this with a newer one, for example: python3.12 {sys.argv[0]}"
    )

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PROGRAMS = VENV / "bin"
PYTHON = PROGRAMS / "python"
STAMP = VENV / "hookline-installed.json"
LOCK = ROOT / ".venv.lock"

# Each way to make an environment: the modules it needs, and its arguments to Python. The last one
# makes an environment without pip; `_pip` then reaches into it with the pip of this Python.
WAYS = (
    (("venv", "ensurepip"), ("venv", "--clear")),
    (("virtualenv",), ("virtualenv", "--quiet", "--clear")),
    (("venv", "pip"), ("venv", "--clear", "--without-pip")),
)


def ensure(*extras: str) -> Path:
    """Return the environment's Python, with Hookline and the named extras installed in it."""
    if not _is_current(extras):
        with one_at_a_time():
            # Another process may have done the work while this one waited for its turn.
            if not _is_current(extras):
                _refresh(extras)
    return PYTHON


def run(*command: str | Path, cwd: Path = ROOT, quiet: bool = False) -> int:
    """Run a command, from the root of the repository unless told otherwise, and return its exit code.

    `quiet` leaves out what it prints on standard output, and not what it has to say besides.
    """
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run([str(part) for part in command], cwd=cwd, stdout=output).returncode


def _is_current(extras: tuple[str, ...]) -> bool:
    stamp = _read_stamp()
    return (
        set(extras) <= set(stamp.get("extras", ()))
        and stamp.get("pyproject") == _digest_of_pyproject()
        and _is_sound(stamp)
    )


def _refresh(extras: tuple[str, ...]) -> None:
    stamp = _read_stamp()
    if not (_is_sound(stamp) and _pip()):
        _create()
    # What was installed before stays: running the demo must not take the tests' tools away.
    wanted = sorted({*extras, *stamp.get("extras", ())})
    _install(wanted)
    facts = {
        "extras": wanted,
        "home": str(ROOT),
        "pyproject": _digest_of_pyproject(),
        "python": _version(),
    }
    STAMP.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _is_sound(stamp: dict[str, Any]) -> bool:
    """Tell whether packages can be installed into the environment as it stands.

    One that was moved, or whose Python was replaced, still starts but finds nothing installed.
    """
    version = _version()
    return (
        version is not None
        and version >= list(OLDEST)
        and stamp.get("home", str(ROOT)) == str(ROOT)
        and stamp.get("python", version) == version
    )


def _version() -> list[int] | None:
    """Return the minor version of the environment's Python, or None when it does not start."""
    program = "import json, sys; print(json.dumps(sys.version_info[:2]))"
    try:
        answer = subprocess.run([str(PYTHON), "-c", program], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    version: list[int] = json.loads(answer.stdout)
    return version


def make_venv(directory: Path) -> bool:
    """Make an empty environment, in whatever way this Python can; says whether there is one now."""
    return any(
        all(map(_has, modules)) and run(sys.executable, "-m", *arguments, directory) == 0
        for modules, arguments in WAYS
    )


def pip_for(python: Path) -> list[str]:
    """Return the pip of an environment's Python, else this Python's pip pointed at it, else nothing."""
    own = [str(python), "-m", "pip"]
    from_outside = [sys.executable, "-m", "pip", "--python", str(python)]
    for pip in (own, from_outside):
        if subprocess.run([*pip, "--version"], capture_output=True).returncode == 0:
            return pip
    return []


def _create() -> None:
    say(f"Making an environment in {VENV}")
    if make_venv(VENV):
        return
    sys.exit(
        f"No environment could be made in {VENV}: {sys.executable} can use neither venv with\n"
        "ensurepip, nor virtualenv, nor venv with pip, or that directory cannot be written.\n"
        "Remedy: on Debian and Ubuntu, `apt install python3-venv`; elsewhere, install Python from\n"
        "python.org or `pip install virtualenv`; and work in a checkout that you own."
    )


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _install(extras: list[str]) -> None:
    target = ".[{}]".format(",".join(extras)) if extras else "."
    say(f"Installing hookline{target[1:]} into {VENV}; this may take some minutes")
    # What runs local models is machine code: where there is none for this machine, that is found out at once.
    options = ("--quiet", "--disable-pip-version-check", "--only-binary", "xllamacpp")
    if run(*_pip(), "install", *options, "--editable", target) != 0:
        sys.exit(
            f"pip could not install hookline{target[1:]}; its message is above.\n"
            "Remedy: see that this machine reaches the Python package index, then run this again."
        )


def _pip() -> list[str]:
    return pip_for(PYTHON)


def _read_stamp() -> dict[str, Any]:
    """Return what the last complete installation wrote down; nothing, when there was none."""
    try:
        stamp: dict[str, Any] = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp


def _digest_of_pyproject() -> str:
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the lock while the environment is built; the system frees it should this process die."""
    try:
        file = LOCK.open("w")
    except OSError as problem:
        sys.exit(
            f"The environment in {VENV} has to be built, and that cannot be done here: {problem}.\n"
            "Remedy: run this as the owner of the checkout, or in a copy of your own."
        )
    with file:
        if not _try_lock(file):
            say("Waiting for another process that is building the environment")
            while not _try_lock(file):
                time.sleep(0.2)
        yield


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def argument_parser(about: str | None) -> argparse.ArgumentParser:
    """A parser for a script, whose `--help` is the script's docstring."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=about, formatter_class=form, allow_abbrev=False)


def say(message: str) -> None:
    """Tell the person who runs this what is going on."""
    print(message, file=sys.stderr, flush=True)
