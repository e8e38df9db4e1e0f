"""A directory to be jailed in, with a secret beside it, and a jail for each way to open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.containment import FileJail

SECRET = "what nobody inside may read"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`root/docs/notes.txt` and `root/docs/deep/er.txt`; outside, `secret.txt` and `elsewhere/secret.txt`."""
    root = tmp_path / "root"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "docs" / "notes.txt").write_text("notes")
    (root / "docs" / "deep" / "er.txt").write_text("deeper")
    (tmp_path / "elsewhere").mkdir()
    for place in (tmp_path, tmp_path / "elsewhere"):
        (place / "secret.txt").write_text(SECRET)
    return root


@pytest.fixture(params=["openat2", "steps"])
def way(request: pytest.FixtureRequest) -> str:
    """How paths are opened: with the system call where there is one, and name by name."""
    from hookline.containment import openat2

    if request.param == "openat2" and not openat2.is_available():
        pytest.skip("this system has no openat2")
    return str(request.param)


@pytest.fixture
def jail(root: Path, way: str) -> Iterator[FileJail]:
    """A jail of the root."""
    with FileJail(root, way=way) as jail:  # type: ignore[arg-type]
        yield jail
