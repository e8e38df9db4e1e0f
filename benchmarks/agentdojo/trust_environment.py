"""An environment of its own for AgentDojo, which brings many packages: made once, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

REQUIREMENT = "agentdojo==0.1.35"
REPOSITORY = Path(__file__).resolve().parents[2]


def is_here() -> bool:
    """Whether this interpreter has the pinned AgentDojo, and Hookline."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        return f"agentdojo=={version('agentdojo')}" == REQUIREMENT and bool(find_spec("hookline"))
    except PackageNotFoundError:
        return False


def python() -> Path:
    """The interpreter of the environment, which is made if it is not there: one for each checkout and Python."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    which = f"{REPOSITORY} {REQUIREMENT} {sys.version}"
    folder = cache / "hookline" / f"agentdojo-{hashlib.sha256(which.encode()).hexdigest()[:12]}"
    names = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    found = folder.joinpath(*names)
    ready = folder / "ready"
    if not ready.exists():
        _make(folder, found)
        ready.touch()
    return found


def _make(folder: Path, interpreter: Path) -> None:
    print(f"making an environment with {REQUIREMENT} in {folder}", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True)
    wanted = [REQUIREMENT, "--editable", str(REPOSITORY)]
    command = [str(interpreter), "-m", "pip", "install", "--quiet", *wanted]
    if subprocess.run(command).returncode:
        raise SystemExit(f"pip could not install {REQUIREMENT}; what it says is above.")
