from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.mcp import process
from hookline.mcp.process import Descendant, descendants

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="only /proc tells who started whom"
)


@needs_proc
def test_children_of_children_are_found_and_can_be_ended() -> None:
    """In whatever session they are."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        found = descendants(os.getpid())
        assert {parent.pid, grandchild} <= {relative.pid for relative in found}
        [stray] = descendants(parent.pid)
        assert stray.pid == grandchild
        assert stray.signal(signal.SIGKILL)
    assert not stray.signal(0)


@needs_proc
def test_another_process_of_the_same_number_is_left_alone() -> None:
    """Numbers are given again."""
    assert not Descendant(os.getpid(), "0").signal(signal.SIGKILL)


def test_where_the_system_does_not_tell_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the group of the server is all that is known."""
    monkeypatch.setattr(process, "_PROC", tmp_path / "none")
    assert descendants(os.getpid()) == []
    assert not Descendant(os.getpid(), "0").signal(0)
