"""Where Hookline's own directories are, by their real paths, and that a jail leaves them as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import FileJail
from hookline.containment.own_places import journal_paths, own_places
from hookline.errors import ProtectedPathError
from hookline.own_directories import own_directories

_VARIABLES = ("HOOKLINE_CONFIG_DIR", "HOOKLINE_DATA_DIR", "XDG_STATE_HOME")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which the process works, with a link and a directory, and a home elsewhere."""
    for name in (*_VARIABLES, "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "root"
    (root / "real/hookline").mkdir(parents=True)
    (root / "link").symlink_to("real")
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("variable", _VARIABLES)
@pytest.mark.parametrize(
    "value", ["{root}/real", "{root}/link", "{root}/../other", "{root}/real/../link"]
)
def test_a_jail_does_not_change_them(
    root: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """Also if the variable or a link is set after the jail was made."""
    (root.parent / "other").symlink_to("root/real")
    with FileJail(root) as jail:
        jail.write_text("real/hookline/plain", "x")
        monkeypatch.setenv(variable, value.format(root=root))
        for path in ("real/hookline/x", "real/HOOKLINE/x", "link/hookline/x", "real/hookline"):
            with pytest.raises(ProtectedPathError):
                jail.write_text(path, "planted")
        for path in ("real", "real/hookline"):
            with pytest.raises(ProtectedPathError):
                jail.remove(path, recursive=True)
        jail.write_text("other", "x")


@pytest.mark.parametrize("value", ["real/hookline", "./link/hookline", "real/../link/hookline"])
def test_relative_paths_begin_where_the_process_works(
    root: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """As Hookline itself reads them."""
    monkeypatch.setenv("HOOKLINE_DATA_DIR", value)
    assert str(root / "real/hookline") in own_places().real
    with FileJail(root) as jail, pytest.raises(ProtectedPathError):
        jail.write_text("real/hookline/x", "planted")


@pytest.mark.parametrize("value", [".", "..", "link/..", "{root}"])
def test_a_jail_in_one_of_them_changes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Whatever is in there, Hookline reads it."""
    monkeypatch.setenv("HOOKLINE_CONFIG_DIR", value.format(root=root))
    with FileJail(root) as jail:
        with pytest.raises(ProtectedPathError):
            jail.write_text("x", "planted")
        assert [each.name for each in jail.list()] == ["link", "real"]


def test_a_link_on_the_way_is_not_removed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made in its place would be read."""
    monkeypatch.setenv("HOOKLINE_DATA_DIR", str(root / "link/hookline"))
    assert own_places().ways == [str(root / "link")]
    with FileJail(root) as jail, pytest.raises(ProtectedPathError):
        jail.remove("link")


def test_the_ones_without_variables_count_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another terminal has other variables."""
    before = own_places().real
    monkeypatch.setenv("HOOKLINE_DATA_DIR", "data")
    assert {*before, str(root / "data")} == {*own_places().real}


def test_without_a_home_there_are_none() -> None:
    """A relative one is none."""
    assert all(str(each).startswith("/dev/null/") for each in own_directories({"HOME": "x"}))


def test_the_journals_of_an_agent(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own, and the one that a variable names for the next run."""
    monkeypatch.delenv("HOOKLINE_JOURNAL", raising=False)
    assert journal_paths(None) == []
    monkeypatch.setenv("HOOKLINE_JOURNAL", "runs.db")
    assert journal_paths(None) == [str(root / "runs.db")]
