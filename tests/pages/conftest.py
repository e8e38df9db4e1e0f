"""Recorded runs of every kind, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import PROGRAM, Chromium
from shown_runs import ShownRuns

from hookline import SQLiteJournal


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownRuns]:
    """A journal with a run of every kind."""
    with SQLiteJournal(tmp_path_factory.mktemp("journal") / "runs.db") as journal:
        made = ShownRuns(journal)
        made.make_all()
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Chromium, without a window."""
    if PROGRAM is None:
        pytest.skip("Chromium is not here: scripts/system_tools.py installs it")
    made = Chromium()
    yield made
    made.close()


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    """Where a page is written."""
    return tmp_path / "page.html"
