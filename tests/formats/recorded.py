"""The data of one version, unpacked for a test that may write to it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "2026-11"
JOURNALS = ("finished", "unfinished", "sessions")


def unpack(name: str, folder: Path) -> Path:
    """A packed file of the data, as it was."""
    path = folder / name
    path.write_bytes(content(name))
    return path


def content(name: str) -> bytes:
    """What is in a packed file."""
    return gzip.decompress((DATA / f"{name}.gz").read_bytes())


def expected(name: str) -> Any:
    """What the version that wrote the data said about it."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def states() -> dict[str, str]:
    """The saved states, by run."""
    lines = (DATA / "states.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["state"]["run_id"]: line for line in lines}
