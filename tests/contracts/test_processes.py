"""Processes are started in one package."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "hookline"
STARTS = re.compile(
    r"^\s*(?:import|from) (?:subprocess|multiprocessing|pty)\b"
    r"|\bos\.(?:posix_spawnp?|fork|forkpty|popen|system|spawn[lv]p?e?|exec[lv]p?e?)\("
    r"|create_subprocess_|subprocess_(?:exec|shell)\(|open_process\(|run_process\(",
    re.MULTILINE,
)
ELSEWHERE = {"cli/approval_prompt.py"}
"""The editor of a person: it has the terminal, and nobody watches it."""


def test_processes_are_started_in_one_package() -> None:
    """Whoever starts one elsewhere has to see to its end, its output and its time again."""
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if STARTS.search(path.read_text(encoding="utf-8"))
    }
    outside = {name for name in found if not name.startswith("containment/processes/")}
    assert outside == ELSEWHERE
    assert "containment/processes/child.py" in found
