"""What a newcomer sees first explains itself."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_first_example_shows_plan_journal_and_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The demo prints the plan, a numbered line per record with the block among them, and why it stopped."""
    runpy.run_path(str(ROOT / "examples/first_agent.py"), run_name="__main__")
    printed = capsys.readouterr().out
    plan, journal = printed.split("THE JOURNAL")
    assert "only-build" in plan
    assert "only-build says block, notes.txt is not in build/" in journal
    numbers = [line.split()[0] for line in journal.splitlines() if line[:4].strip().isdigit()]
    assert numbers == [str(number) for number in range(len(numbers))]
    assert printed.rstrip().endswith("decided by 'tool-calls'")
