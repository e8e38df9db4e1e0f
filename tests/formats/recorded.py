"""The data of each version, unpacked for a test that may write to it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "2026-11"
"""The first version, with all that is no journal."""
VERSIONS = ("2026-11", "2026-11-2")
"""Each has journals: of version 1 and of version 2 of the records."""
JOURNALS = ("finished", "unfinished", "sessions")


def unpack(version: str, name: str, folder: Path) -> Path:
    """A packed file of the data, as it was."""
    path = folder / name
    path.write_bytes(content(version, name))
    return path


def content(version: str, name: str) -> bytes:
    """What is in a packed file."""
    return gzip.decompress((DATA.parent / version / f"{name}.gz").read_bytes())


def expected(version: str, name: str) -> Any:
    """What the version that wrote the data said about it."""
    return json.loads((DATA.parent / version / f"{name}.json").read_text(encoding="utf-8"))


def states(version: str) -> dict[str, str]:
    """The saved states, by run."""
    lines = (DATA.parent / version / "states.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["state"]["run_id"]: line for line in lines}
