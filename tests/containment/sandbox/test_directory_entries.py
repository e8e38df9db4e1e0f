"""The entries of a directory are read again when it has changed, and not before."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hookline.containment.sandbox.directory_entries import identity_of, listing, settle

SECOND = 1_000_000_000


def test_what_is_in_a_directory(tmp_path: Path) -> None:
    """Its names, and which of them are directories and links. A link to a directory is a link."""
    (tmp_path / "file").touch()
    (tmp_path / "below").mkdir()
    (tmp_path / "link").symlink_to("below")
    found = listing(str(tmp_path))
    assert sorted(found.names) == ["below", "file", "link"]
    assert (found.directories, found.links) == (("below",), {"link"})
    (tmp_path / "below/inner").touch()
    assert listing(str(tmp_path / "link")).names == ("inner",)


@pytest.mark.parametrize("name", ["missing", "file"])
def test_what_cannot_be_listed_is_empty(tmp_path: Path, name: str) -> None:
    """Something else than a directory, or nothing."""
    (tmp_path / "file").touch()
    assert listing(str(tmp_path / name)).names == ()


def test_every_change_is_noticed(tmp_path: Path) -> None:
    """Also one right after the look before: two changes may leave the same time behind."""
    for number in range(200):
        (tmp_path / str(number)).touch()
        assert len(listing(str(tmp_path)).names) == number + 1
    (tmp_path / "0").unlink()
    (tmp_path / "0").symlink_to("1")
    assert listing(str(tmp_path)).links == {"0"}


def test_a_directory_that_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is old enough for the next change to show."""
    changed_at = os.stat(tmp_path).st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed_at + 10 * SECOND)
    (tmp_path / "file").touch()
    found = listing(str(tmp_path))
    assert found.names == ("file",)
    assert listing(str(tmp_path)) is found


def test_a_young_directory_is_not_known_by_its_time(tmp_path: Path) -> None:
    """How long that takes depends on how exact the times of the file system are."""
    device, number, _ = identity_of(os.stat(tmp_path))
    exact, whole = (device, number, 5 * SECOND + 1), (device, number, 5 * SECOND)
    assert settle(exact, 5 * SECOND + 2) != exact
    assert settle(exact, 6 * SECOND) == exact
    assert settle(whole, 6 * SECOND) != whole
    assert settle(whole, 8 * SECOND) == whole
