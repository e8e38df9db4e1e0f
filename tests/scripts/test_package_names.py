"""The part of docs/design-coverage.md that scripts/package_names.py makes."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> Any:
    """Load scripts/package_names.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module("package_names")


def rows(text: str) -> dict[str, dict[str, str]]:
    """For each package on the page, its names with what is said of them."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("### "):
            names = found.setdefault(line[4:], {})
        elif line.startswith("| `"):
            shown, said = line.strip("| ").split(" | ")
            names.update(dict.fromkeys(shown.replace("`", "").split(", "), said))
    return found


def problems(script: Any, text: str) -> list[str]:
    """What is wrong with this part of the page. A row may name any test file that imports its names."""
    page, found = rows(text), []
    for module in script.modules():
        said = page.get(module, {})
        for name in script.reference.exported_names(module):
            files = script.users(module, name)
            shown = said.get(name, "")
            if not (shown.strip("`") in files or (shown == script.REASON and not files)):
                found.append(f"{module}.{name}: {shown or 'not on the page'}")
    return found


def test_every_public_name_is_on_the_page_with_a_test_or_a_reason(script: Any) -> None:
    """Of every package, whatever it exports."""
    text = script.PAGE.read_text(encoding="utf-8").partition(script.TITLE)[2]
    assert problems(script, text) == [], "run scripts/package_names.py"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("`MemoryJournal`", "`MemoryJornal`", "hookline.journal.MemoryJournal: not on the page"),
        ("`Scripted`", "`Script`", "hookline.drivers.Scripted: not on the page"),
        ("### hookline.tools\n", "### hookline.tool\n", "hookline.tools.Effect: not on the page"),
    ],
)
def test_a_name_that_is_missing_is_found(script: Any, old: str, new: str, problem: str) -> None:
    """The package and the name are said."""
    assert problem in problems(script, script.section().replace(old, new))


def test_a_wrong_file_and_a_wrong_reason_are_found(script: Any) -> None:
    """The file must import the name, and a reason is none if a test does."""
    text = script.section()
    own = next(line for line in text.splitlines() if line.startswith("| `ErrorAction`"))
    file = own.split(" | ")[1].strip(" |")
    for instead in ("`tests/test_lazy.py`", script.REASON):
        found = problems(script, text.replace(own, own.replace(file, instead)))
        assert f"hookline.flow.ErrorAction: {instead}" in found
