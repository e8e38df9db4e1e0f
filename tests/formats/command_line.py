"""The `hookline` command in a project and a home that are always at the same place.

What a user trusts is bound to the path of a directory, and so is where the runs of a project are kept. So the data
was written below ROOT, and is put there again; a lock keeps other tests away meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = Path("/tmp/hookline-formats-place")
PROJECT, HOME, ALL_KEYS = ROOT / "project", ROOT / "home", ROOT / "all_keys"
CAN_BE_THERE = Path("/tmp").is_dir() and Path("/tmp").resolve() == Path("/tmp")


@contextmanager
def place() -> Iterator[None]:
    """A fresh project and an empty home, below ROOT."""
    with Path(f"{ROOT}.{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        try:
            shutil.copytree(HERE / "project", PROJECT)
            shutil.copytree(HERE / "all_keys", ALL_KEYS)
            for name in ("skills", "agents"):
                shutil.copytree(HERE / "project" / name, ALL_KEYS / name)
            HOME.mkdir()
            repository(PROJECT)
            yield
        finally:
            shutil.rmtree(ROOT, ignore_errors=True)


def repository(folder: Path) -> None:
    """Make the folder a git repository, with the same configuration wherever git comes from."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env=environment())
    (folder / ".git/config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
    )


def environment(**more: str) -> dict[str, str]:
    """Nothing of the person who runs the tests, except where programs are."""
    return {"HOME": str(HOME), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **more}


def hookline(
    *arguments: str, folder: Path = PROJECT, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "hookline", *arguments],
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def rows(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """The lines of JSON that a command printed."""
    return [json.loads(line) for line in done.stdout.splitlines()]


_TIMES = re.compile(r"\d+\.\d+ s\b|\d+ ms\b")


def steady(value: Any) -> Any:
    """The same without what differs from one run to the next: times, durations and ids of new runs."""
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items() if key not in _CHANGING}
    if isinstance(value, list):
        return [steady(item) for item in value]
    if isinstance(value, str):
        return _TIMES.sub("TIME", value)
    return value


_CHANGING = {
    "at", "run_id", "session_id", "agent_id", "duration", "readings", "started_at", "updated_at", "latency",
    "recorded_latency", "active_seconds", "id", "approval_id", "link",
}  # fmt: skip
