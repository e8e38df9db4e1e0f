"""Install the programs that tests run and that no Python package brings, where the system does not have them.

    python3 scripts/system_tools.py

`scripts/test.py` does this by itself, and puts them on the PATH of the tests. They come from the Debian packages of
the table below: installed when this is root, otherwise unpacked below `.system-tools`. What cannot be had is
written down with the reason, and the tests that need it are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import environment

PLACE = environment.ROOT / ".system-tools"
PROBLEMS = PLACE / "problems.json"
PATIENCE = 300  # seconds for one command


class Tool(NamedTuple):
    """A program, and the Debian package that brings it."""

    name: str
    package: str
    program: str


WANTED = (
    Tool("ripgrep", "ripgrep", "rg"),
    Tool("bubblewrap", "bubblewrap", "bwrap"),
)


def ensure() -> None:
    """Install what is missing; what could not be installed is tried again each time."""
    missing = [tool for tool in WANTED if find(tool) is None]
    if not missing:
        return
    try:
        PLACE.mkdir(exist_ok=True)
    except OSError as error:
        environment.say(f"Missing for the tests: {_names(missing)}: {error}")
        return
    with environment.one_at_a_time():
        problems = {tool.name: _install(tool) for tool in missing if find(tool) is None}
        PROBLEMS.write_text(json.dumps(problems, indent=2) + "\n", encoding="utf-8")
    for name, problem in problems.items():
        if problem:
            environment.say(f"{name} is missing, and its tests are skipped: {problem}")


def missing() -> dict[str, str]:
    """The programs that are not here, with the reason."""
    try:
        problems = json.loads(PROBLEMS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        problems = {}
    return {
        tool.name: problems.get(tool.name) or "it could not be installed"
        for tool in WANTED
        if find(tool) is None
    }


def find(tool: Tool) -> Path | None:
    """Where the program is: on the PATH, or unpacked here."""
    found = shutil.which(tool.program) or shutil.which(tool.program, path=str(_programs(tool)))
    return Path(found) if found else None


def path() -> str:
    """The PATH on which the programs are found."""
    unpacked = [str(place) for place in map(_programs, WANTED) if place.is_dir()]
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *unpacked])


def _install(tool: Tool) -> str:
    """Install one program; gives the reason why that cannot be done, if it cannot."""
    if shutil.which("apt-get") is None:
        return "it is not installed, and this is no Debian system where it could be fetched"
    environment.say(f"Installing {tool.name} for the tests")
    if _is_root() and not _with_apt(tool) and find(tool):
        return ""
    problem = _unpack(tool)
    return problem or ("" if find(tool) else f"its package has no program '{tool.program}'")


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _with_apt(tool: Tool) -> str:
    command = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60", "--yes")
    install = (*command, "install", "--no-install-recommends", tool.package)
    if not _run(*install):
        return ""
    return _run(*command, "update") or _run(*install)  # the lists of packages may be missing or old


def _unpack(tool: Tool) -> str:
    """The package below `.system-tools`, which needs no rights: with the system's lists, or with lists of its own."""
    place = PLACE / tool.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    own = ("-o", f"Dir::State::Lists={PLACE / 'lists'}", "-o", f"Dir::Cache={PLACE / 'cache'}")
    for part in ("lists/partial", "cache/archives/partial"):
        (PLACE / part).mkdir(parents=True, exist_ok=True)
    problem = _run("apt-get", "-qq", "download", tool.package, cwd=place)
    if problem:
        problem = _run("apt-get", "-qq", *own, "update") or _run(
            "apt-get", "-qq", *own, "download", tool.package, cwd=place
        )
    archives = list(place.glob("*.deb"))
    if problem or not archives:
        return problem or "nothing was downloaded"
    return _run("dpkg", "-x", str(archives[0]), str(place))


def _programs(tool: Tool) -> Path:
    return PLACE / tool.name / "usr" / "bin"


def _run(*command: str, cwd: Path = environment.ROOT) -> str:
    """Run a command; gives what it said last, if it failed."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _names(tools: list[Tool]) -> str:
    return ", ".join(tool.name for tool in tools)


if __name__ == "__main__":
    ensure()
    sys.exit(0)
