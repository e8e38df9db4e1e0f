"""What a command may use, and that nothing of it goes on when it has ended. Every bomb here is a small one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.containment import Sandbox, SandboxLimits
from hookline.containment.sandbox import bubblewrap
from hookline.errors import UsageError

from .conftest import ROOT, Place, needs_bubblewrap

pytestmark = needs_bubblewrap

MIB = 1024**2
BOMB = """
import os, time
made = 0
for _ in range(300):  # bounded: what the limit does not stop ends here
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
    except OSError:
        break
print(made, flush=True)
"""


def test_a_fork_bomb_is_stopped(place: Place) -> None:
    """Only so many processes can be started, by root too; all are gone with the command."""
    seen = place.run_python(BOMB, limits={"processes": 40}, timeout=15)
    assert seen.ended in {"exited", "processes"}
    if seen.ended == "exited":
        assert int(seen.text) < 40


def test_a_bomb_that_doubles_is_held(place: Place) -> None:
    """The one that everybody knows: it gets no further than the limit, and is gone with its time."""
    seen = place.run(
        "bomb() { bomb | bomb & }; bomb; sleep 30", limits={"processes": 64}, timeout=2
    )
    assert seen.ended in {"timeout", "exited", "processes"}
    assert seen.duration < 20


async def test_where_the_kernel_does_not_count_we_do(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a control group, and as root, processes are counted from outside, and the command is ended."""
    monkeypatch.setattr(bubblewrap, "home_for_groups", lambda: None)
    monkeypatch.setattr(bubblewrap, "kernel_counts_processes", lambda: False)
    sandbox.limits = SandboxLimits(processes=40)
    loop = "for i in $(seq 300); do sleep 20 & done; wait"
    ended = await sandbox.run(loop, timeout=15)
    assert ended.ended == "processes"


@pytest.mark.parametrize(
    "leave",
    [
        "sleep 300 &",
        "nohup sleep 300 >/dev/null 2>&1 &",
        "setsid sleep 300 &",
        "(setsid sleep 300 & ) &",
    ],
)
def test_no_daemon_survives(place: Place, leave: str) -> None:
    """What a command leaves behind ends with it, also what has left its group and its parent."""
    marker = f"30{os.getpid() % 1000:03}"
    seen = place.run(leave.replace("300", marker) + " echo started")
    assert seen.text == "started\n"
    assert seen.duration < 10
    assert not _runs(f"sleep {marker}")


def test_a_time_out_ends_the_whole_tree(place: Place) -> None:
    """The command, its children and those that have gone their own way are gone when the time is over."""
    marker = f"31{os.getpid() % 1000:03}"
    seen = place.run(f"setsid sleep {marker} & sleep {marker}", timeout=0.5)
    assert (seen.ended, seen.exit_code) == ("timeout", 137)
    assert not _runs(f"sleep {marker}")


def _runs(words: str) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().replace(b"\0", b" ").strip() == words.encode():
                return True
        except OSError:
            continue
    return False


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_it_dies_with_us(tmp_path: Path) -> None:
    """When the process that started it is killed, nothing of it goes on: in the sandbox, and on the host."""
    for mode in ("required", "host"):
        marker = f"3{len(mode)}{os.getpid() % 1000:03}"
        code = f"""
import asyncio
from hookline.containment.sandbox import Sandbox
async def main():
    sandbox = Sandbox({str(tmp_path)!r}, {mode!r})
    await sandbox.start("setsid sleep {marker} & sleep {marker}", on_output=print)
    await asyncio.sleep(0.5)
    print("started", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, env=env
        ) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"started\n"
            _wait_until(lambda words=f"sleep {marker}": _runs(words))
            owner.send_signal(signal.SIGKILL)
        _wait_until(lambda words=f"sleep {marker}": not _runs(words))


def test_memory_is_limited(place: Place) -> None:
    """More address space than allowed is not given."""
    seen = place.run_python("x = bytearray(400 * 1024 * 1024)", limits={"memory": 300 * MIB})
    assert "MemoryError" in seen.text


def test_processor_time_is_limited(place: Place) -> None:
    """A process that only computes is ended after so many seconds of it."""
    seen = place.run("while :; do :; done", limits={"cpu_seconds": 1}, timeout=60)
    assert (seen.ended, seen.exit_code) == ("exited", 128 + 9)


def test_files_are_limited(place: Place) -> None:
    """A file grows to the limit and no further; neither do the directories that are made for the command."""
    seen = place.run("head -c 3M /dev/zero > big; wc -c < big", limits={"file_size": MIB})
    assert seen.text.split()[-1] == str(MIB)
    seen = place.run("head -c 3M /dev/zero > /tmp/big; wc -c < /tmp/big", limits={"scratch": MIB})
    assert int(seen.text.split()[-1]) <= MIB


def test_output_is_limited(place: Place) -> None:
    """A command that prints without end is ended; the beginning and the end of what it printed are kept."""
    seen = place.run("yes", limits={"output": 2 * MIB}, timeout=30)
    assert seen.ended == "output"
    assert len(seen.text) < MIB
    assert seen.left_out > MIB


def test_what_is_ended_says_how_it_ended(place: Place) -> None:
    """Also if it has ended in the moment in which it is killed once more: its exit code is not lost."""
    for _ in range(15):
        assert place.run("yes", limits={"output": MIB // 4}, timeout=30).exit_code == 137


async def test_being_cancelled_ends_it(sandbox: Sandbox) -> None:
    """Whoever waits may be cancelled; the command does not go on."""
    marker = f"35{os.getpid() % 1000:03}"
    task = asyncio.create_task(sandbox.run(f"sleep {marker}"))
    while not _runs(f"sleep {marker}"):  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _runs(f"sleep {marker}")
    assert list(sandbox.root.iterdir()) == []


@pytest.mark.parametrize(
    "bad", [{"memory": 0}, {"processes": -1}, {"output": 1.5}, {"cpu_seconds": "9"}]
)
def test_a_limit_that_means_nothing_is_refused(bad: dict[str, object]) -> None:
    """The message names the limit and says what would be one."""
    with pytest.raises(UsageError, match=r"is not a limit\. Give a whole number above 0"):
        SandboxLimits(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["required", "host"])
def test_it_ends_with_the_loop(tmp_path: Path, mode: str) -> None:
    """A command that nobody waits for does not outlive the loop it was started in."""
    marker = f"36{os.getpid() % 1000:03}"

    async def main() -> None:
        sandbox = Sandbox(tmp_path, mode)  # type: ignore[arg-type]
        await sandbox.start(f"sleep {marker}", on_output=lambda _: None)
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert not _runs(f"sleep {marker}")
    assert list(tmp_path.iterdir()) == []
