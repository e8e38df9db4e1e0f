from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """Load scripts/reference.py."""
    return runpy.run_path(str(ROOT / "scripts/reference.py"))


def test_the_page_is_up_to_date(script: dict[str, Any]) -> None:
    """docs/reference.md is what the script makes of the source today."""
    assert script["page"]() == PAGE, "run scripts/reference.py"


@pytest.mark.parametrize("package", ["hookline", "hookline.state", "hookline.command_hooks"])
def test_it_lists_what_python_exports(script: dict[str, Any], package: str) -> None:
    """Reading the source gives the names that an import gives."""
    assert script["exported_names"](package) == sorted(importlib.import_module(package).__all__)


@pytest.mark.parametrize(
    ("module", "shown"),
    [
        ("hookline.agent", "- `hook(point: str, callback: HookLike, "),
        ("hookline.errors", "- `class ToolError`: Raise this in a tool "),
        ("hookline.state", "- `class ToolCall(id: str, name: str, "),
        ("hookline.adapters", "- `class StateProcessorAdapter(processor: Any, position: "),
    ],
)
def test_a_name_has_its_signature_and_what_it_is_for(module: str, shown: str) -> None:
    """Functions, classes with fields, classes with a constructor and exceptions."""
    section = PAGE.split(f"\n## {module}\n")[1].split("\n## ")[0]
    assert shown in section


def test_a_name_without_a_definition_is_an_error(script: dict[str, Any]) -> None:
    """The script does not leave it out silently."""
    with pytest.raises(LookupError, match="exports nothing_here"):
        script["definition"]("hookline.flow", "nothing_here")
