"""The floors of the house hold, and each contract in pyproject.toml catches what it should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]

# What is planted (file below src/hookline, and its text), and the contract that has to catch it.
VIOLATIONS = {
    "the engine imports state": (
        "engine",
        {"hooks/planted.py": "import hookline.state\n"},
    ),
    "state imports the engine": (
        "layers",
        {"state/planted.py": "import hookline.hooks\n"},
    ),
    "flow imports its neighbour": (
        "layers",
        {"flow/planted.py": "import hookline.journal\n"},
    ),
    "a room on no floor": (
        "layers",
        {"planted/__init__.py": ""},
    ),
    "the kernel imports pydantic": (
        "kernel-pure",
        {"lifecycle/planted.py": "import pydantic\n"},
    ),
    "a capability imports another": (
        "capabilities-independent",
        {
            "capabilities/planted.py": "import hookline.capabilities.planted_too\n",
            "capabilities/planted_too.py": "",
        },
    ),
    "a command imports the fakes": (
        "testing-private",
        {"cli/planted.py": "import hookline.testing\n"},
    ),
    "two modules of a room import each other": (
        "no-cycles",
        {
            "tools/planted.py": "import hookline.tools.planted_too\n",
            "tools/planted_too.py": "import hookline.tools.planted\n",
        },
    ),
}


def lint(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run lint-imports over the sources below `root`, even where another copy is installed."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy what lint-imports reads, so that a test can plant something in it."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "hookline", tmp_path / "src" / "hookline", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_sources_keep_every_contract() -> None:
    """The house stands as it is drawn."""
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in result.stdout


@pytest.mark.parametrize(("contract", "planted"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_a_planted_violation_is_caught(contract: str, planted: dict[str, str], copy: Path) -> None:
    """The contract that is meant to catch a violation catches it, and names where it is."""
    for name, text in planted.items():
        path = copy / "src" / "hookline" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    result = lint(copy, "--contract", contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Contracts: 0 kept, 1 broken." in result.stdout
    assert "planted" in result.stdout


def test_every_contract_has_a_planted_violation() -> None:
    """A contract nobody has seen break may be one that cannot break."""
    assert {contract["id"] for contract in CONTRACTS} == {name for name, _ in VIOLATIONS.values()}
