"""What a command may use, and that nothing of it continues when it has ended. Every bomb here is a small one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from run_results import is_running

from hookline.containment import Sandbox, SandboxLimits
from hookline.containment.sandbox import limits as limits_module
from hookline.containment.sandbox.cgroups import homes
from hookline.containment.sandbox.watcher import Watcher
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


WORKERS = """
import os, time
for _ in range(10):
    if os.fork() == 0:
        held = b"x" * (40 << 20)
        time.sleep(20)
        os._exit(0)
for _ in range(10):
    os.wait()
print("all done", flush=True)
"""
SHARING_WORKERS = """
import os, time
held = b"x" * (100 << 20)
for _ in range(10):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
for _ in range(10):
    os.wait()
print("all done", flush=True)
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


def test_where_the_kernel_does_not_count_a_watcher_does(place: Place) -> None:
    """Without a control group, and as root, processes are counted from outside, and the command is ended."""
    loop = "for i in $(seq 300); do sleep 20 & done; wait"
    seen = place.run(loop, limits={"processes": 40}, timeout=15, watched=True)
    assert seen.ended == "processes"


def test_a_nice_process_can_start_commands(place: Place) -> None:
    """With a watcher a command is made nice; only root may lower the value of one that is nicer already."""
    assert int(place.run("nice", watched=True, nice=15).text) == min(os.nice(0) + 15, 19)
    assert int(place.run("nice", watched=True).text) == max(os.nice(0), 10)


def test_a_watcher_counts_threads_too(place: Place) -> None:
    """One process with many threads is as many."""
    code = "import threading, time\nfor _ in range(60): threading.Thread(target=time.sleep, args=(20,)).start()"
    assert (
        place.run_python(code, limits={"processes": 40}, timeout=15, watched=True).ended
        == "processes"
    )


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
    marker = f"30{os.getpid():07}"
    seen = place.run(leave.replace("300", marker) + " echo started")
    assert seen.text == "started\n"
    assert seen.duration < 10
    assert not is_running(f"sleep {marker}")


def test_a_time_out_ends_the_whole_tree(place: Place) -> None:
    """The command, its children and those that have gone their own way are gone when the time is over."""
    marker = f"31{os.getpid():07}"
    seen = place.run(f"setsid sleep {marker} & sleep {marker}", timeout=0.5)
    assert (seen.ended, seen.exit_code) == ("timeout", 137)
    assert not is_running(f"sleep {marker}")


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_it_dies_with_us(tmp_path: Path) -> None:
    """When the process that started it is killed, nothing of it continues: in the sandbox, and on the host."""
    for mode in ("required", "host"):
        marker = f"3{len(mode)}{os.getpid():07}"
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
            _wait_until(lambda words=f"sleep {marker}": is_running(words))
            owner.send_signal(signal.SIGKILL)
        _wait_until(lambda words=f"sleep {marker}": not is_running(words))


@pytest.mark.parametrize("watched", [False, True])
def test_memory_is_limited_for_all_processes_together(place: Place, watched: bool) -> None:
    """Ten processes, each far below the limit, are ended when they exceed it together."""
    seen = place.run_python(WORKERS, limits={"memory": 200 * MIB}, timeout=60, watched=watched)
    assert (seen.ended, seen.exit_code) == ("memory", 137)
    assert "all done" not in seen.text


@pytest.mark.parametrize("watched", [False, True])
def test_memory_that_processes_share_counts_once(place: Place, watched: bool) -> None:
    """Ten workers that were forked from one large process need its memory once."""
    limits = {"memory": 300 * MIB}
    seen = place.run_python(SHARING_WORKERS, limits=limits, timeout=60, watched=watched)
    assert (seen.ended, seen.exit_code, seen.text) == ("exited", 0, "all done\n")


@pytest.mark.parametrize("watched", [False, True])
def test_the_rest_of_a_command_does_not_continue_without_memory(
    place: Place, watched: bool
) -> None:
    """The kernel may end one process only; the command that started it is ended too."""
    hog = f"{place.python} -I -c 'x = b\"x\" * (400 << 20); import time; time.sleep(20)'"
    limits = {"memory": 200 * MIB}
    seen = place.run(
        f"{hog} || sleep 20; echo continued", limits=limits, timeout=60, watched=watched
    )
    assert seen.ended == "memory"
    assert "continued" not in seen.text


def test_files_in_memory_count_as_memory(place: Place) -> None:
    """Where a control group counts, temporary directories and memory files count with the processes."""
    if place.user is not None or "memory" not in homes("memory"):
        return  # a watcher does not count them, as docs/sandbox.md says
    code = """
import os
fds = [os.memfd_create("x") for _ in range(10)]
for fd in fds:
    os.write(fd, b"x" * (30 << 20))
print("all done")
"""
    assert place.run_python(code, limits={"memory": 200 * MIB}).ended == "memory"


def test_a_process_that_lets_nobody_look_counts_in_full(place: Place) -> None:
    """Who hides what it shares is not counted for less."""
    code = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + WORKERS
    assert (
        place.run_python(code, limits={"memory": 200 * MIB}, timeout=60, watched=True).ended
        == "memory"
    )


def test_address_space_is_limited(place: Place) -> None:
    """More address space than allowed is not given, though the memory would be."""
    limits = {"address_space": 300 * MIB}
    seen = place.run_python("x = bytearray(400 * 1024 * 1024)", limits=limits)
    assert "MemoryError" in seen.text


def test_on_the_host_memory_is_limited_for_each_process(tmp_path: Path) -> None:
    """A process does not get more than the limit; what it only reserves does not count."""
    sandbox = Sandbox(tmp_path, "host", limits=SandboxLimits(memory=300 * MIB))
    reserved = "import mmap; x = mmap.mmap(-1, 1 << 30, prot=0)"
    seen = sandbox.run_sync(
        [sys.executable, "-I", "-c", f"{reserved}; print('reserved'); bytearray(400 << 20)"]
    )
    assert "reserved" in seen.text
    assert "MemoryError" in seen.text


def test_what_is_written_to_the_disk_is_limited(place: Place) -> None:
    """A command that writes more than it may is ended, whether one process writes it or many that have ended."""
    limits = {"disk": 60 * MIB}
    one = "while :; do head -c 5M /dev/zero > file; sync file; done"
    assert place.run(one, limits=limits, timeout=60).ended == "disk"
    few = "for i in 1 2 3; do head -c 5M /dev/zero > file-$i; done; sleep 0.3; echo done"
    seen = place.run(few, limits=limits)
    assert (seen.ended, seen.text) == ("exited", "done\n")


def test_what_nobody_waits_for_is_counted_as_far_as_it_was_seen(place: Place) -> None:
    """The kernel forgets what such a process has written; the watcher does not."""
    code = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for number in range(40):
    if os.fork() == 0:
        with open("file", "wb") as file:
            file.write(b"x" * (10 << 20))
        time.sleep(0.3)
        os._exit(0)
    time.sleep(0.4)
"""
    assert place.run_python(code, limits={"disk": 60 * MIB}, timeout=60).ended == "disk"


@pytest.fixture
def small_disk(place: Place) -> Iterator[Place]:
    """A work directory on a file system of 64 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place.work], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here ({mounted.stderr.decode().strip()})")
    try:
        place.own()
        yield place
    finally:
        subprocess.run(["umount", "-l", place.work], check=True)


def test_some_of_the_disk_stays_free(small_disk: Place) -> None:
    """A command is ended before the file system is full."""
    fill = "head -c 40M /dev/zero > file; sleep 20; echo continued"
    assert small_disk.run(fill, limits={"disk_reserve": 30 * MIB}, timeout=60).ended == "disk"


def test_a_disk_that_is_nearly_full_does_not_end_every_command(small_disk: Place) -> None:
    """What is free at the start counts: a command may use half of it, however little that is."""
    (small_disk.work / "before").write_bytes(bytes(44 * MIB))
    limits = {"disk_reserve": 30 * MIB}
    seen = small_disk.run("head -c 5M /dev/zero > file; sleep 0.3; echo done", limits=limits)
    assert (seen.ended, seen.text) == ("exited", "done\n")
    assert small_disk.run("head -c 12M /dev/zero > more; sleep 20", limits=limits).ended == "disk"


def test_a_small_build_raises_no_alarm(place: Place) -> None:
    """Many short processes that read, write and rename files are ended by no watcher."""
    build = """
for i in $(seq 40); do echo "int f$i;" > f$i.c; done
for round in 1 2 3; do
  for i in $(seq 40); do (cat f$i.c | tr a-z A-Z > f$i.o && mv f$i.o out-$i) & done; wait
  cat out-* > all; sha256sum all >> sums
done
wc -l < sums
"""
    limits = {"memory": 400 * MIB, "disk": 400 * MIB, "processes": 400}
    seen = place.run(build, limits=limits, timeout=60, watched=True)
    assert (seen.ended, seen.text) == ("exited", "3\n")


async def test_no_watcher_is_left_and_none_is_started_for_nothing(sandbox: Sandbox) -> None:
    """It ends with its command; without a limit none is started."""

    def watchers() -> int:
        return sum("_end_at_limit" in repr(task) for task in asyncio.all_tasks())

    running = await sandbox.start("sleep 0.2", on_output=lambda _: None)
    assert watchers() == 1
    await running.wait()
    await asyncio.sleep(0)
    assert watchers() == 0
    kept = SandboxLimits(processes=None, memory=None, disk=None, disk_reserve=None)
    sandbox.limits = kept
    running = await sandbox.start("sleep 0.1", on_output=lambda _: None)
    assert watchers() == 0
    await running.wait()
    assert "no limits on memory, processes and disk" in sandbox.describe()


async def test_a_watcher_that_fails_ends_the_command(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing runs that nobody looks at."""
    monkeypatch.setattr(Watcher, "_look", lambda self: 1 / 0)
    ended = await sandbox.run("sleep 20")
    assert ended.ended == "stopped"
    assert "The watcher of a command failed" in caplog.text


def test_no_group_is_left(tmp_path: Path) -> None:
    """The groups of commands are gone when the process is that made them, also of commands that were killed."""
    code = f"""
import os
from hookline.containment.sandbox import Sandbox, SandboxLimits, cgroups
sandbox = Sandbox({str(tmp_path)!r}, "required", limits=SandboxLimits(memory=100 << 20))
for _ in range(3):
    sandbox.run_sync("true")
    sandbox.run_sync("sleep 20", timeout=0.1)
    sandbox.run_sync("x=$(head -c 300M /dev/zero | tr '\\\\0' x); sleep 5", timeout=20)
for home in set(cgroups.homes("pids", "memory").values()):
    print(home)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env) as owner:
        said, _ = owner.communicate(timeout=120)
        assert owner.returncode == 0
    for home in said.decode().split():
        assert list(Path(home).glob(f"hookline-{owner.pid}-*")) == []


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
    """Whoever waits may be cancelled; the command does not continue."""
    marker = f"35{os.getpid():07}"
    task = asyncio.create_task(sandbox.run(f"sleep {marker}"))
    while not is_running(f"sleep {marker}"):  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(f"sleep {marker}")
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
    marker = f"36{os.getpid():07}"

    async def main() -> None:
        sandbox = Sandbox(tmp_path, mode)  # type: ignore[arg-type]
        await sandbox.start(f"sleep {marker}", on_output=lambda _: None)
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert not is_running(f"sleep {marker}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("found", [{"pids", "memory"}, {"pids"}, set()])
@pytest.mark.parametrize("counted", [False, True])
def test_what_holds_is_described(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, found: set[str], counted: bool
) -> None:
    """Each limit is named with its mechanism, and that a watcher reacts late."""

    def found_homes(*wanted: str) -> dict[str, Path]:
        return {name: Path("/group") for name in wanted if name in found}

    monkeypatch.setattr(limits_module, "homes", found_homes)
    monkeypatch.setattr(limits_module, "kernel_counts_processes", lambda: counted)
    said = sandbox.describe()
    assert f"memory by a {'control group' if 'memory' in found else 'watcher'}" in said
    kernel = "resource limit" if counted else "control group" if "pids" in found else "watcher"
    assert f"processes by a {kernel}" in said
    assert "disk by a watcher (a watcher reacts late)" in said
