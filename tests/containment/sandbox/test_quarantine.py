"""Nothing is looked at or changed where a link leads, wherever in a path it is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.containment.sandbox import quarantine
from hookline.errors import SandboxError

from .conftest import ROOT, needs_bubblewrap


@pytest.fixture(params=["at once", "one name after the other"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system call that opens a path at once, and without, as on an old kernel."""
    if request.param != "at once":
        monkeypatch.setattr(quarantine, "is_available", lambda: False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a file in it, and a second path that leads there through a link above it."""
    (tmp_path / "real" / "inner" / "sub").mkdir(parents=True)
    (tmp_path / "real" / "inner" / "sub" / "file").write_text("theirs")
    (tmp_path / "way").symlink_to("real")
    return tmp_path / "real" / "inner"


def test_a_link_above_the_root_leads_nowhere(tmp_path: Path, root: Path) -> None:
    """As one below it: what is there cannot be seen, renamed or replaced."""
    through = str(tmp_path / "way" / "inner")
    for path in ("sub/file", "sub"):
        assert quarantine.facts_of(str(root), path) is not None
        assert quarantine.facts_of(through, path) is None
        assert quarantine.move_aside(through, path) == ""
        assert quarantine.move_up(through, path) == ""
    assert quarantine.content_of(through, "sub/file", 10) is None
    quarantine.make_link(through, "link", "file")
    assert os.listdir(root) == ["sub"]
    assert os.listdir(root / "sub") == ["file"]


def test_the_root_itself_may_be_a_link_no_more_than_what_is_above_it(
    tmp_path: Path, root: Path
) -> None:
    """Only a path of real directories counts as one."""
    (tmp_path / "link").symlink_to(root)
    assert quarantine.is_directory(str(root))
    for path in (tmp_path / "link", tmp_path / "way" / "inner", root / "sub" / "file"):
        assert not quarantine.is_directory(str(path))
        with pytest.raises(SandboxError, match="not the same directory any more"):
            quarantine.open_directory(str(path))
    os.close(quarantine.open_directory(str(root)))


def test_a_directory_is_not_opened_to_us_through_a_link(tmp_path: Path, root: Path) -> None:
    """One of ours that somebody closed stays closed where a link leads."""
    (root / "sub").chmod(0)
    quarantine.open_to_us(str(tmp_path / "way" / "inner" / "sub"), stat.S_IRWXU)
    assert stat.S_IMODE((root / "sub").stat().st_mode) == 0
    quarantine.open_to_us(str(root / "sub"), stat.S_IRWXU)
    assert stat.S_IMODE((root / "sub").stat().st_mode) == stat.S_IRWXU


def test_what_is_found_is_changed_as_before(root: Path) -> None:
    """Names in a real directory are seen, renamed and moved to the top."""
    assert quarantine.names_in(str(root), "sub") == ["file"]
    assert quarantine.move_aside(str(root), "sub/file") == "sub/file.from-command"
    (root / "sub" / "inner").mkdir()
    assert quarantine.move_up(str(root), "sub/inner").startswith("deep.from-command-")
    quarantine.make_link(str(root), "link", "target")
    assert quarantine.target_of(str(root), "link") == "target"
    assert quarantine.target_of(str(root), "gone") is None


def test_a_closed_directory_moves_up_and_keeps_its_mode(root: Path) -> None:
    """So does the directory that it was in; one that is gone takes nothing else with it."""
    (root / "sub" / "inner").mkdir()
    for path in (root / "sub" / "inner", root / "sub"):
        path.chmod(0o500)
    assert quarantine.move_up(str(root), "sub/gone") == ""
    name = quarantine.move_up(str(root), "sub/inner")
    assert sorted(os.listdir(root)) == sorted(["sub", name])
    for path in (root / name, root / "sub"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o500


def test_a_long_name_at_the_top_becomes_a_short_one(root: Path) -> None:
    """The path of the top may be nearly too long already."""
    (root / ("d" * 250)).mkdir()
    assert quarantine.move_up(str(root), "d" * 250) in os.listdir(root)


@needs_bubblewrap
@pytest.mark.parametrize(
    ("path", "moved"),
    [("a/mount/x/y", "a/mount/deep"), ("a/b/mount/x", "deep/mount/x"), ("a/b/mount", "deep/mount")],
)
def test_a_directory_of_another_mount_moves_as_far_up_as_it_can(
    tmp_path: Path, path: str, moved: str
) -> None:
    """To the top of its mount; a mount, and what is at the top of one already, with the directory that it is in."""
    (tmp_path / path.partition("mount")[0]).mkdir(parents=True)
    code = f"""
import os, pathlib, re, sys
sys.path.insert(0, {str(ROOT / "src")!r})
from hookline.containment.sandbox.quarantine import move_up
os.chdir({str(tmp_path)!r})
pathlib.Path({path!r}).mkdir(parents=True, exist_ok=True)
pathlib.Path({path!r}, "file").touch()
move_up(os.getcwd(), {path!r})
print(*(re.sub("deep[^/]*", "deep", str(file.parent)) for file in pathlib.Path().rglob("file")))
"""
    mount = tmp_path / (path.partition("mount")[0] + "mount")
    argv = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(mount), sys.executable, "-c", code]
    assert subprocess.run(argv, capture_output=True, text=True).stdout == f"{moved}\n"


def test_what_cannot_be_moved_up_is_closed(root: Path) -> None:
    """Then git reads no repository in it for an ordinary user."""
    assert quarantine.move_up(str(root), "sub") == ""
    assert stat.S_IMODE((root / "sub").stat().st_mode) == 0
