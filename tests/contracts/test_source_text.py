"""What the text of the source must not contain."""

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
ELSEWHERE = {"cli/approval_prompt.py", "testing/store_setup.py"}
"""The editor of a person: it has the terminal, and nobody watches it. And a fork that calls a function of a test."""


def test_processes_are_started_in_one_package() -> None:
    """Code that starts one elsewhere has to handle its end, its output and its time again."""
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if STARTS.search(path.read_text(encoding="utf-8"))
    }
    outside = {name for name in found if not name.startswith("containment/processes/")}
    assert outside == ELSEWHERE
    assert "containment/processes/child.py" in found


_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\d+(?:,\d*)?\})\+")


def test_no_group_is_repeated_possessively() -> None:
    """Before Python 3.11.5 such a group may match too much: a redaction removed a quote mark."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "re.compile" in line or line.lstrip().startswith(('r"', 'rf"', 'rb"'))
        if _POSSESSIVE_GROUP.search(line)
    ]
    assert found == []
