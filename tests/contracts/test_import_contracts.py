"""The import contracts in pyproject.toml hold, and each catches what it should; the kernel imports what it may."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
LAYERS = next(contract for contract in CONTRACTS if contract["id"] == "layers")["layers"]

# Modules that break contracts: file below src/hookline, its text, and the contract that must report it. All are
# planted at once, so each has a name that no other report can contain.
VIOLATIONS = {
    "hooks/planted_engine.py": ("import hookline.state\n", "engine"),
    "state/planted_upward.py": ("import hookline.hooks\n", "layers"),
    "flow/planted_neighbour.py": ("import hookline.journal\n", "layers"),
    "planted_package/__init__.py": ("", "layers"),
    "lifecycle/planted_heavy.py": ("import pydantic\n", "kernel-pure"),
    "workers/temporal.py": ("import dbos\n", "engines"),  # in the place of the module itself
    "capabilities/planted_capability.py": (
        "import hookline.capabilities.planted_other\n",
        "capabilities-independent",
    ),
    "capabilities/planted_other.py": ("", "capabilities-independent"),
    "cli/planted_fake.py": ("import hookline.testing\n", "testing-private"),
    "tools/planted_circle.py": ("import hookline.tools.planted_back\n", "no-cycles"),
    "tools/planted_back.py": ("import hookline.tools.planted_circle\n", "no-cycles"),
}


def lint(root: Path) -> str:
    """What lint-imports prints about the sources below `root`, even where another copy is installed."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each contract reports about a copy of the sources with every violation in it."""
    root = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "hookline", root / "src" / "hookline", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", root)
    for name, (text, _) in VIOLATIONS.items():
        path = root / "src" / "hookline" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    printed = lint(root)
    ids = {contract["name"]: contract["id"] for contract in CONTRACTS}
    parts = re.split(rf"^({'|'.join(map(re.escape, ids))})\n-+\n", printed, flags=re.MULTILINE)
    return {ids[name]: report for name, report in zip(parts[1::2], parts[2::2], strict=True)}


def test_the_sources_keep_every_contract() -> None:
    """Nothing in the tree imports what it may not."""
    printed = lint(ROOT)
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in printed


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_planted_violation_is_caught(name: str, reports: dict[str, str]) -> None:
    """The contract that is meant for a violation reports the module."""
    module = name.removesuffix("/__init__.py").removesuffix(".py").split("/")[-1]
    assert module in reports.get(VIOLATIONS[name][1], "")


def test_every_contract_has_a_planted_violation() -> None:
    """A contract that was never seen to fail may be one that cannot fail."""
    assert {contract["id"] for contract in CONTRACTS} == {name for _, name in VIOLATIONS.values()}


def test_every_layer_exists() -> None:
    """import-linter ignores a layer without a package, so a removed package would stay in the list."""
    names = [name.strip() for layer in LAYERS for name in layer.split("|")]
    source = ROOT / "src" / "hookline"
    missing = [n for n in names if not (source / n).is_dir() and not (source / f"{n}.py").is_file()]
    assert missing == []


# --- the kernel ---------------------------------------------------------------------------------------

SOURCE = ROOT / "src" / "hookline"
KERNEL = ("errors.py", "flow", "hooks", "journal", "lifecycle", "state")
ALLOWED = {*sys.stdlib_module_names, "hookline", "msgspec"}


def foreign_imports(name: str, text: str) -> Iterator[str]:
    """The packages that a module of the kernel imports and may not, wherever in the module it does."""
    allowed = ALLOWED | {"psycopg"} if name.startswith("journal/postgres/") else ALLOWED
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        else:
            continue
        yield from (each for each in modules if each.partition(".")[0] not in allowed)


def test_the_kernel_imports_only_the_standard_library_and_msgspec() -> None:
    """A contract of import-linter forbids packages by name; any other one would pass."""
    paths = [
        path
        for part in KERNEL
        for path in (SOURCE.joinpath(part).rglob("*.py") if "." not in part else [SOURCE / part])
    ]
    texts = {
        path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in paths
    }
    assert {name.partition("/")[0] for name in texts} == set(KERNEL)
    found = {name: list(foreign_imports(name, text)) for name, text in texts.items()}
    assert {name: modules for name, modules in found.items() if modules} == {}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("state/planted.py", "import httpx2", ["httpx2"]),
        ("hooks/planted.py", "import os, yaml.nodes as nodes", ["yaml.nodes"]),
        ("flow/planted.py", "def f():\n    from sqlalchemy.orm import Session", ["sqlalchemy.orm"]),
        ("journal/planted.py", "import psycopg", ["psycopg"]),
        ("journal/postgres/planted.py", "import psycopg", []),
        ("errors.py", "from collections.abc import Iterator\nimport msgspec, hookline.lazy", []),
    ],
)
def test_a_planted_import_in_the_kernel_is_found(name: str, text: str, found: list[str]) -> None:
    """Whatever it is called, and wherever it stands."""
    assert list(foreign_imports(name, text)) == found
