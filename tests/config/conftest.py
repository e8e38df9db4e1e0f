"""An empty project, and a user with a home of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with nothing in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The variables of a user."""
    return {"HOME": str(tmp_path / "home")}
