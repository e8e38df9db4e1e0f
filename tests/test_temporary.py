"""Temporary directories are gone when their process is, also one that was killed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hookline._temporary import PREFIX, remove_left, temporary_directory

MAKE = """
import sys, threading
from hookline._temporary import temporary_directory

made = temporary_directory()
for thread in threading.enumerate():  # one that is late removes what is left behind after this
    if thread.name == "hookline-clear":
        thread.join()
print(made, flush=True)
sys.stdin.read()
"""


def start(place: Path, **more: str) -> tuple[subprocess.Popen[str], Path]:
    """A process that has made a directory, and the directory."""
    env = {**os.environ, "XDG_STATE_HOME": str(place), "TMPDIR": "/nowhere", **more}
    argv, pipe = [sys.executable, "-c", MAKE], subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=env)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_process_removes_its_own(tmp_path: Path) -> None:
    """When it ends by itself."""
    process, made = start(tmp_path)
    assert made.is_dir()
    assert made.is_relative_to(tmp_path / "hookline" / "tmp")
    process.communicate()
    assert not any((tmp_path / "hookline" / "tmp").iterdir())


def test_where_no_state_can_be_kept_it_is_where_tmpdir_says(tmp_path: Path) -> None:
    """So it was everywhere, and what mounts such a file looks whether commands can write there."""
    process, made = start(tmp_path, XDG_STATE_HOME="/dev/null", TMPDIR=str(tmp_path))
    assert made.parent.parent == tmp_path
    process.communicate()
    assert not any(tmp_path.iterdir())


def test_the_next_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """And neither what belongs to a process that lives, nor what has another name."""
    killed, left = start(tmp_path)
    alive, kept = start(tmp_path)
    other = left.parent.parent / "hookline-other"
    other.mkdir()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.is_dir()
    remove_left(str(left.parent.parent))
    assert not left.parent.exists()
    assert kept.is_dir()
    assert other.is_dir()
    alive.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to somebody else")
def test_what_belongs_to_others_stays(tmp_path: Path) -> None:
    """A link, a file and a directory of another user are no directories of ours."""
    theirs, link, target = tmp_path / f"{PREFIX}a", tmp_path / f"{PREFIX}b", tmp_path / "target"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    target.mkdir()
    link.symlink_to(target)
    (tmp_path / f"{PREFIX}c").touch()
    remove_left(str(tmp_path))
    assert {each.name for each in tmp_path.iterdir()} == {
        "target",
        *(f"{PREFIX}{name}" for name in "abc"),
    }


def test_another_machine_sees_that_a_process_lives(tmp_path: Path) -> None:
    """On NFS it sees locks of files and not those of directories, and both may have the same home."""
    alive, kept = start(tmp_path)
    with open(kept.parent / "lock", "rb+") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    directory = os.open(kept.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(directory)
    alive.communicate()


def test_a_disk_that_becomes_full_later_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made then is where TMPDIR says."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    full, make = str(temporary_directory().parent), os.mkdir

    def mkdir(path: str, *mode: int) -> None:
        if path.startswith(f"{full}/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        make(path, *mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert not temporary_directory().is_relative_to(tmp_path / "hookline")
