"""Every script explains itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
RUNNABLE = [path for path in SCRIPTS.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("script", sorted(RUNNABLE), ids=lambda path: path.stem)
def test_a_script_prints_help_and_does_nothing_else(script: Path) -> None:
    """`--help` prints what the script is for."""
    ran = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    about = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    assert ran.returncode == 0, ran.stderr
    assert " ".join(about.split("\n")[0].split()) in " ".join(ran.stdout.split())
