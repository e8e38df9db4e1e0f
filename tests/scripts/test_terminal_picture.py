"""The picture of a terminal is what a terminal shows, and nothing else."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """Load scripts/terminal_picture.py."""
    return runpy.run_path(str(ROOT / "scripts/terminal_picture.py"))


@pytest.fixture(scope="module")
def drawn(script: dict[str, Any]) -> str:
    """The picture as it comes out today."""
    picture: str = script["picture"]()
    return picture


def test_the_picture_is_what_the_terminal_shows(drawn: str) -> None:
    """The file in docs/ is what `hookline run` shows in a terminal today."""
    kept = (ROOT / "docs/terminal.svg").read_text(encoding="utf-8")
    assert kept == drawn, "run scripts/terminal_picture.py"


def test_the_picture_shows_the_block_and_the_closing_line(drawn: str) -> None:
    """The hook, the call it blocked, its reason, the answer and how to reopen the run can be read."""
    words = ["".join(each.itertext()) for each in ElementTree.fromstring(drawn).iter(f"{SVG}text")]
    shown = "\n".join(words)
    for said in ("no-secrets", "block", "read(secret.env)", "the policy forbids", "reopen:"):
        assert said in shown


def test_ids_and_times_are_always_the_same(script: dict[str, Any]) -> None:
    """What differs from run to run is replaced, and what only looks like it is not."""
    said = b"\x1b[32mok\x1b[0m 1.5 s text\r\n2 steps, 58 tokens, 12.3 s; --from 0101-2359-0a1b2c; 4.0 s\r\n"
    assert script["same"](said) == (
        b"\x1b[32mok\x1b[0m text\r\n2 steps, 58 tokens, 0.2 s; --from 1115-1518-a38b9b; 4.0 s\r\n"
    )


def test_looks_are_kept(script: dict[str, Any]) -> None:
    """Words in another colour are pieces of their own, as wide as their columns, and are escaped."""
    drawn = script["draw"](script["shown"](b"a \x1b[1;31m<b>\x1b[0m c"))
    assert (
        '<text x="34.8" y="52" textLength="25.2" fill="#ff7b72" font-weight="700">&lt;b&gt;</text>'
        in drawn
    )
