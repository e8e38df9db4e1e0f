"""A directory that is replaced by a link while the sandbox is made: nothing is run, and nothing outside is mounted."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.containment import Sandbox, mount_table
from hookline.containment.links import is_below
from hookline.containment.sandbox import bubblewrap
from hookline.containment.sandbox.bubblewrap import BubblewrapCommand
from hookline.containment.sandbox.mounts import MountPlan
from hookline.errors import SandboxError

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work directory with a repository, whose `.git` is mounted on itself, and another one outside."""
    subprocess.run(["git", "init", "-q", str(tmp_path / "work/sub")], check=True)
    shutil.copytree(tmp_path / "work/sub/.git", tmp_path / "outside")
    return tmp_path / "work"


def refused(work: Path) -> None:
    """Nothing is run, neither in the work directory nor outside."""
    said = "was replaced while the sandbox was made|mount on symlink"  # a newer bubblewrap finds a link itself
    with pytest.raises(SandboxError, match=said):
        asyncio.run(Sandbox(work, "required").run("touch sub/.git/planted"))
    assert list(work.parent.rglob("planted")) == []


def test_something_outside_is_mounted(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path led out for a moment, while bubblewrap looked for what to mount."""
    made, inside = MountPlan._work, str(work / "sub/.git")

    def led_out(self: MountPlan, *args: Any) -> Iterator[str]:
        words = list(made(self, *args))
        for at in range(0, len(words), 3):
            if words[at + 2] == inside:
                words[at + 1] = str(work.parent / "outside")
        return iter(words)

    monkeypatch.setattr(MountPlan, "_work", led_out)
    refused(work)


def test_something_else_is_protected(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory has another name, and a link its old one: what has the old name later is not protected."""
    begin = BubblewrapCommand._begin

    def replace_first(self: BubblewrapCommand, *args: Any) -> int:
        (work / "sub/.git").rename(work / "sub/moved")
        (work / "sub/.git").symlink_to("moved")
        return begin(self, *args)

    monkeypatch.setattr(BubblewrapCommand, "_begin", replace_first)
    monkeypatch.setattr(bubblewrap, "_TRIES", 1)  # it can be replaced once
    refused(work)


def test_a_mount_that_somebody_makes_meanwhile_is_no_reason_to_refuse(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox is made again, and the command runs once."""
    answers = iter(["/mnt/new", "/mnt/other"])
    look = bubblewrap.find_misplaced
    monkeypatch.setattr(
        bubblewrap, "find_misplaced", lambda *given: next(answers, None) or look(*given)
    )
    ran = asyncio.run(Sandbox(work, "required").run("echo ran | tee -a said"))
    assert (ran.text, (work / "said").read_text()) == ("ran\n", "ran\n")


def test_what_nobody_replaces_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """Names with blanks and other characters, mounts inside one another and covered files."""
    work = tmp_path / "a b\\c\td"
    work.mkdir()
    for name in ("x y", "é\n1", "plain"):
        subprocess.run(["git", "init", "-q", str(work / name)], check=True)
    (work / ".env").write_text("A=1")
    assert asyncio.run(Sandbox(work, "required").run("cat .env; touch made")).exit_code == 0
    assert (work / "made").exists()


def test_names_with_odd_ends_of_lines() -> None:
    """The kernel escapes a line feed in a name, and nothing else that ends a line elsewhere."""
    name = "a\rb\x0bc\x0cd\x85e\u2028f"
    line = f"30 1 8:1 /{name} /mnt/{name}\\040x rw - ext4 /dev/sda rw\n"
    (mount,) = mount_table._parse(line)
    assert (mount.root, mount.place) == (f"/{name}", f"/mnt/{name} x")


def test_a_device_is_no_place_for_anything() -> None:
    """What is mounted there is the machine's or our own, and not whatever a command has put in the place of ours."""
    table = mount_table._parse(Path("/proc/self/mountinfo").read_text())
    (root,) = [each for each in table if each.place == "/"]
    line = (
        f"30 1 {root.device} {root.root.rstrip('/')}/etc/passwd /dev/null rw - ext4 /dev/sda rw\n"
    )
    ours = {"/dev/null", "/run/ours/null"}
    assert mount_table.find_misplaced(line, (), ours, ()) == "/dev/null"
    assert mount_table.find_misplaced(line, (), {*ours, "/etc/passwd"}, ()) is None


def test_all_paths_have_those_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a directory that is mounted elsewhere, of one in it that is, and of a disk that is mounted in it."""
    mounts = [
        "8:1 / /", "8:1 /home/me/sub /mnt/part", "8:1 /home /second", "8:2 / /home/me/disk", "8:2 /inner /mnt/inner"
    ]  # fmt: skip
    table = tmp_path / "table"
    table.write_text("".join(f"30 1 {each} rw - ext4 /dev/sda rw\n" for each in mounts))
    monkeypatch.setattr(mount_table, "_TABLE", str(table))
    found = mount_table.all_paths("/home/me")
    outermost = {"/home/me", "/mnt/part", "/second/me", "/mnt/inner"}
    assert outermost.issubset(found)
    assert all(any(is_below(each, one) for one in outermost) for each in found)
    assert mount_table.all_paths() == []


@pytest.mark.parametrize(
    ("mounts", "root", "expected"),
    [
        (["/ /"], "/home/me", ["/home/me"]),
        (["/ /"], "/", ["/"]),
        (["/ /", "/home /mnt"], "/home/me", ["/home/me", "/mnt/me"]),
        (["/home /mnt"], "/home", ["/mnt"]),
        (["/home /mnt"], "/homes", []),
        (["/ /mnt"], "/", ["/mnt"]),
    ],
)
def test_paths_of_what_is_mounted(mounts: list[str], root: str, expected: list[str]) -> None:
    """By each mount of the same disk that holds it."""
    outside = [mount_table._Mount("8:1", *each.split()) for each in mounts]
    assert list(mount_table._paths(mount_table._Mount("8:1", root, "/x"), outside)) == expected
