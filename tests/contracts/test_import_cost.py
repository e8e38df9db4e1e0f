"""What `import hookline` brings along: counted, never timed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MOST_MODULES = 200


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Return the modules a fresh interpreter holds after `import hookline`."""
    program = "import hookline, json, sys; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(answer.stdout))


@pytest.mark.parametrize(
    "heavy", ["docstring_parser", "httpx", "opentelemetry", "pydantic", "rich", "sqlite3", "yaml"]
)
def test_import_leaves_heavy_packages_alone(imported: set[str], heavy: str) -> None:
    """A package that only some agents need is imported by the first one that needs it."""
    assert sorted(name for name in imported if name.split(".")[0] == heavy) == []


def test_import_brings_few_modules(imported: set[str]) -> None:
    """Importing Hookline stays cheap, as counted in modules."""
    assert len(imported) <= MOST_MODULES, sorted(imported)
