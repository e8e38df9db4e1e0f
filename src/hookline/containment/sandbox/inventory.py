"""What was in a directory before commands ran there, on disk: if we die before we look again, the next start does.

There is one file per directory and process, locked as long as the process lives.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_MODE = 0o600


class Inventory:
    """The record of one process for one directory, while commands run there."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path, self._fd = path, fd

    @classmethod
    def begin(cls, root: str, known: Mapping[str, tuple[int, int, int]]) -> Inventory | None:
        """Write down what is there; None where nothing can be written: then nobody looks after our death."""
        import fcntl  # not on Windows, where this module can be imported all the same

        path = _place() / f"{_key(root)}-{os.getpid()}.json"
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.ftruncate(fd, 0)
            os.write(fd, json.dumps({"root": root, "known": known}).encode())
            return cls(path, fd)
        return None

    def end(self) -> None:
        """Everything was looked at."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._fd)


def left_behind(root: str) -> Iterator[dict[str, tuple[int, int, int]]]:
    """What was there before the commands of processes that died. Each is given once."""
    import fcntl

    place = _place()
    if not place.is_dir():
        return
    for path in place.glob(f"{_key(root)}-*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it is locked while its process lives
            text = file.read()
            if text:  # else it died before its first command
                yield {name: tuple(each) for name, each in json.loads(text)["known"].items()}
            path.unlink()


def _place() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~/.local/state"))
    return base / "hookline" / "sandbox"


def _key(root: str) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
