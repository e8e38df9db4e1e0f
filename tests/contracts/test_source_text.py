"""What the text of the source must not contain."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from hookline.journal import Record
from hookline.state import ErrorInfo, InferenceResponse, ToolResult

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hookline"
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


def test_records_and_results_are_built_by_keyword() -> None:
    """They have many fields. Only a record's run, number and time may be positional."""
    most = {kind.__name__: 3 for kind in Record.__subclasses__()}
    most |= {kind.__name__: 2 for kind in (ErrorInfo, InferenceResponse, ToolResult)}
    assert len(most) > 20
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in most
        if sum(3 if isinstance(each, ast.Starred) else 1 for each in node.args) > most[node.func.id]
    ]
    assert found == []


def test_the_table_of_moved_modules_leads_to_modules() -> None:
    """Whoever follows the table of the changelog finds what is written there."""
    _, _, modules = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("private paths.")
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", modules, re.MULTILINE)
    missing = []
    for package, cell in rows:
        for new in re.findall(r"`[\w.]+`: `([\w.]+)`", cell):
            full = new if new.startswith("hookline.") else f"{package}.{new}"
            place = SOURCE.parent / full.replace(".", "/")
            if not (place.is_dir() or place.with_suffix(".py").exists()):
                missing.append(full)
    assert len(rows) > 20
    assert missing == []
