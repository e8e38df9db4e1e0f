"""The picture on the first page is drawn from a run, and from nothing else."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def script() -> dict[str, Any]:
    """Load scripts/picture.py."""
    return runpy.run_path(str(ROOT / "scripts/picture.py"))


def test_the_picture_is_what_the_script_draws(script: dict[str, Any]) -> None:
    """The file in docs/ is what scripts/picture.py makes of the example today."""
    kept = (ROOT / "docs/timeline.svg").read_text(encoding="utf-8")
    assert kept == script["picture"](), "run scripts/picture.py"


def test_the_picture_shows_the_blocked_call(script: dict[str, Any]) -> None:
    """A blocked call has an outline of its own, the hook's name and its reason."""
    root = ElementTree.fromstring(script["picture"]())
    words = {"".join(each.itertext()) for each in root.iter(f"{SVG}text")}
    styles = [each.get("class") for each in root.iter(f"{SVG}rect")]
    assert "only-build notes.txt is not in build/" in words
    assert (styles.count("unrun"), styles.count("tool"), styles.count("model")) == (1, 2, 3)


def test_the_picture_does_not_depend_on_the_machine(script: dict[str, Any]) -> None:
    """Two runs of the example on the fake clock give the same picture."""
    assert script["picture"]() == script["picture"]()
