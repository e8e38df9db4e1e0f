"""The commands that the shell policy is tested on, as lines of text."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "containment" / "shell" / "corpus"


def commands(name: str) -> list[str]:
    """The commands of a file, one a line."""
    return (CORPUS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
