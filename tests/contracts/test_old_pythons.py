"""What the oldest Python that is supported gets wrong is not used."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))
_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\d+(?:,\d*)?\})\+")


def test_no_group_is_repeated_possessively() -> None:
    """Before 3.11.5, what a repeated group has alternatives in may be taken too far: a redaction ate a quote mark."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "re.compile" in line or line.lstrip().startswith(('r"', 'rf"', 'rb"'))
        if _POSSESSIVE_GROUP.search(line)
    ]
    assert found == []
