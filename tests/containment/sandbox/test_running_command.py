"""A command that is given up as it starts: it never runs, nothing of it is left, and nobody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hookline._aio import wait_within
from hookline.containment import Sandbox
from hookline.containment.sandbox.bubblewrap import Arrangement, BubblewrapCommand
from hookline.containment.sandbox.work_tree import WorkTree, work_tree
from hookline.errors import SandboxError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")

MODES = ["host", *(["required"] if shutil.which("bwrap") else [])]
TURNS = 12
"""Of the event loop, after each of which a start is given up; a start takes about three, and then the kernel's time."""


async def given_up(sandbox: Sandbox, command: str, turns: int) -> None:
    """Begin to start a command, and think better of it."""
    starting = asyncio.create_task(sandbox.start(command, on_output=print))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    done, _ = await asyncio.wait([starting], timeout=20)
    assert done, f"after {turns} turns it is still waited for"
    if not starting.cancelled():  # it was started before
        running = starting.result()
        running.kill()
        await running.wait()


@pytest.mark.parametrize("mode", MODES)
async def test_a_start_that_is_cancelled_ends_and_leaves_nothing(tmp_path: Path, mode: Any) -> None:
    """At whichever turn of the event loop."""
    sandbox = Sandbox(tmp_path, mode)
    for turns in range(TURNS):
        await given_up(sandbox, f"touch ran-{turns}; sleep {marker(turns)}", turns)
    assert not [turns for turns in range(TURNS) if runs(f"sleep {marker(turns)}")]
    if mode == "required":  # on the host nothing holds a command back until its starter is ready
        assert not os.listdir(tmp_path)


@pytest.mark.skipif("required" not in MODES, reason="bubblewrap is not installed")
@pytest.mark.parametrize("look", ["enter", "leave"])
async def test_others_run_while_the_work_directory_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """A large one takes a while. Here the look waits for somebody else in the event loop."""
    others, met = threading.Event(), []
    whole = getattr(WorkTree, look)

    def waits(tree: WorkTree, *arguments: Any, **options: Any) -> Any:
        met.append(others.wait(60))
        return whole(tree, *arguments, **options)

    sandbox = Sandbox(tmp_path, "required")
    monkeypatch.setattr(WorkTree, look, waits)
    running = asyncio.create_task(sandbox.run("touch sub.txt"))
    await asyncio.sleep(0.3)
    others.set()
    assert (await running).exit_code == 0
    assert met == [True]
    assert os.listdir(tmp_path) == ["sub.txt"]


@pytest.mark.skipif("required" not in MODES, reason="bubblewrap is not installed")
@pytest.mark.parametrize("moment", ["during", "after"])
async def test_a_look_that_nobody_waits_for_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whether the start is given up while the thread checks, or between its check and its report."""
    looking, given_up = threading.Event(), threading.Event()
    whole = WorkTree.enter

    def waits(tree: WorkTree, *arguments: Any, **options: Any) -> Any:
        looking.set()
        assert moment == "after" or given_up.wait(60)
        return whole(tree, *arguments, **options)

    monkeypatch.setattr(WorkTree, "enter", waits)
    starting = asyncio.create_task(Sandbox(tmp_path, "required").start("true", on_output=print))
    assert await asyncio.to_thread(looking.wait, 5)
    if moment == "after":
        time.sleep(0.2)  # noqa: ASYNC251 - the loop must not run meanwhile
    starting.cancel()
    given_up_later = asyncio.get_running_loop().call_later(0.05, given_up.set)
    await asyncio.wait([starting])
    given_up_later.cancel()
    assert starting.cancelled()
    assert os.listdir(tmp_path) == []
    assert not work_tree(str(tmp_path))._visits


@pytest.mark.skipif("required" not in MODES, reason="bubblewrap is not installed")
async def test_a_sandbox_that_is_given_up_before_it_was_met_does_not_take_that_for_a_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a word from a pipe, and the pipe ends with us."""

    async def never_meet(self: BubblewrapCommand, monitor: int) -> int | None:
        await asyncio.sleep(0.2)
        raise OSError("nobody came")

    sandbox = Sandbox(tmp_path, "required")
    assert sandbox.status.contained  # it has passed its own test before
    monkeypatch.setattr(BubblewrapCommand, "_first_process", never_meet)
    for number in range(5):
        with pytest.raises(SandboxError, match="nobody came"):
            await sandbox.start(f"touch ran; sleep {marker(number)}", on_output=print)
    await asyncio.sleep(0.2)
    assert not os.listdir(tmp_path)
    assert not [number for number in range(5) if runs(f"sleep {marker(number)}")]


@pytest.mark.skipif("required" not in MODES, reason="bubblewrap is not installed")
async def test_a_sandbox_that_is_not_let_go_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its filter of system calls, and without one it ends: our death is no go."""
    sandbox = Sandbox(tmp_path, "required")
    assert sandbox.status.contained  # it has passed its own test before
    monkeypatch.setattr(Arrangement, "start_inside", Arrangement._close_rules)
    with pytest.raises(SandboxError, match="could not be made"):
        await sandbox.run("touch ran")
    assert not os.listdir(tmp_path)


def marker(number: int) -> str:
    """Seconds that nobody else sleeps for."""
    return f"47{os.getpid():07}.{number + 1}"


def runs(words: str) -> bool:
    """Whether a process has this in its command line."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if words.encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                return True
    return False


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_is_not_lost_to_what_happens_in_the_same_moment(turns: int) -> None:
    """Else a run would continue that somebody has ended: Python 3.11's own way to wait for so long does lose it."""
    happens = asyncio.Event()
    waiting = asyncio.create_task(wait_within(20, happens.wait()))
    await asyncio.sleep(0)
    happens.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    is_over = waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting], timeout=20)
    assert waiting.cancelled() is not is_over


async def test_the_end_of_a_process_is_noticed_where_the_system_does_not_report_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread waits for it there: on macOS, say."""
    monkeypatch.delattr(os, "pidfd_open")
    sandbox = Sandbox(tmp_path, "host")
    result = await sandbox.run("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.text, result.ended) == (3, "out\nerr\n", "exited")
    for turns in range(4):
        await given_up(sandbox, f"sleep {marker(turns)}", turns)
    assert not [turns for turns in range(4) if runs(f"sleep {marker(turns)}")]
    late = await sandbox.run(f"sleep {marker(9)}", timeout=0.2)
    assert (late.ended, runs(f"sleep {marker(9)}")) == ("timeout", False)
