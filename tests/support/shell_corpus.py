"""The commands that the shell policy is tested on, as lines of text."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "containment" / "shell" / "corpus"


def commands(name: str) -> list[str]:
    """The commands of a file, one a line; a line that begins with `## ` is a heading."""
    lines = (CORPUS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("## ")]
