"""Install the public MCP servers that the tests talk to, each kind in a place of its own below `.mcp-servers`.

    python3 scripts/mcp_servers.py

`scripts/test.py` does this by itself. What cannot be installed here is written down with the reason, and
the tests that need it are skipped.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import environment

PLACE = environment.ROOT / ".mcp-servers"
STAMP = PLACE / "installed.json"

# Exact versions: a test that fails tells of our change, not of theirs.
WANTED = {
    "python": ("mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19"),
    "node": (
        "@modelcontextprotocol/server-everything@2026.8.31",
        "@modelcontextprotocol/server-filesystem@2026.8.31",
    ),
}
PATIENCE = 300  # seconds for one kind


def ensure() -> None:
    """Install what is missing; what could not be installed is tried again each time."""
    if all(_is_current(kind) for kind in WANTED):
        return
    try:
        PLACE.mkdir(exist_ok=True)
    except OSError as problem:
        environment.say(f"No MCP servers for the tests: {problem}")
        return
    with environment.one_at_a_time():
        for kind in WANTED:
            if not _is_current(kind):
                environment.say(f"Installing MCP servers for the tests: {', '.join(WANTED[kind])}")
                _note(kind, _install(kind))


def missing() -> dict[str, str]:
    """The kinds of servers that are not here, with the reason."""
    stamp = _read_stamp()
    return {
        f"MCP servers from {'PyPI' if kind == 'python' else 'npm'}": stamp.get(kind, {}).get(
            "problem"
        )
        or "they could not be installed"
        for kind in WANTED
        if not _is_current(kind)
    }


def _install(kind: str) -> str:
    """Install one kind of servers; gives the reason why that cannot be done, if it cannot."""
    place = PLACE / kind
    shutil.rmtree(place, ignore_errors=True)
    return _with_pip(place) if kind == "python" else _with_npm(place)


def _with_pip(place: Path) -> str:
    python = place / "bin" / "python"
    if not environment.make_venv(place):
        return "no environment could be made for them"
    pip = environment.pip_for(python)
    if not pip:
        return "there is no pip to install them with"
    quiet = ("--quiet", "--disable-pip-version-check", "--retries", "1")
    return _run(*pip, "install", *quiet, *WANTED["python"])


def _with_npm(place: Path) -> str:
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    place.mkdir(parents=True)
    quiet = ("--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
    return _run(npm, "install", "--prefix", str(place), *quiet, *WANTED["node"])


def _run(*command: str) -> str:
    """Run a command; gives what it said last, if it failed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    if done.returncode == 0:
        return ""
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    telling = [line for line in lines if "complete log of this run" not in line]  # npm's last words
    return telling[-1] if telling else f"exit code {done.returncode}"


def _is_current(kind: str) -> bool:
    return bool(_read_stamp().get(kind) == {"wanted": _digest(kind), "problem": ""})


def _note(kind: str, problem: str) -> None:
    stamp = {**_read_stamp(), kind: {"wanted": _digest(kind), "problem": problem}}
    STAMP.write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
    if problem:
        environment.say(f"They could not be installed, and their tests are skipped: {problem}")


def _read_stamp() -> dict[str, Any]:
    try:
        stamp: dict[str, Any] = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp


def _digest(kind: str) -> str:
    """What is wanted, and where: an environment that was moved does not work any more."""
    return hashlib.sha256(json.dumps([WANTED[kind], str(PLACE)]).encode()).hexdigest()


if __name__ == "__main__":
    environment.argument_parser(__doc__).parse_args()
    ensure()
    sys.exit(0)
