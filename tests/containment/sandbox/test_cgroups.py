"""Control groups, where we may make them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.containment.sandbox import cgroups
from hookline.containment.sandbox.cgroups import Controller, Group, homes

MIB = 1024**2
WORKERS = """
import os, time
input()
for _ in range(10):
    if os.fork() == 0:
        held = b"x" * (20 * 1024 * 1024)
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""


def _home(controller: Controller) -> Path:
    home = homes(controller).get(controller)
    if home is None:
        pytest.skip(f"no control groups with {controller} can be made here")
    return home


@pytest.fixture(params=["pids", "memory"])
def home(request: pytest.FixtureRequest) -> Path:
    """Where groups of each kind are made."""
    return _home(request.param)


@pytest.fixture
def group_of_memory() -> Iterator[Group]:
    """A group that gets 100 MiB."""
    group = Group({"memory": (_home("memory"), 100 * MIB)})
    yield group
    _until_removed(group)


def _until_removed(group: Group) -> None:
    deadline = time.monotonic() + 20
    paths = list(group._paths)
    while True:
        group.remove()
        if not any(path.exists() for path in paths):
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_group_counts_and_is_removed() -> None:
    """What is in it starts no more than it may, and it can be removed once that is gone."""
    home = _home("pids")
    before = set(home.glob(f"hookline-{os.getpid()}-*"))
    group = Group({"pids": (home, 5)})
    command = "read line; for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait"
    with subprocess.Popen(["bash", "-c", command], stdin=-1, stderr=-1, text=True) as one:
        group.add(one.pid)
        _, complaint = one.communicate("go\n")
    assert "fork" in complaint
    _until_removed(group)
    assert set(home.glob(f"hookline-{os.getpid()}-*")) == before


@pytest.fixture(params=[("pids", 100), ("memory", 100 * MIB)])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """One of each kind."""
    controller, limit = request.param
    made = Group({controller: (_home(controller), limit)})
    yield made
    _until_removed(made)


def test_what_a_thread_in_the_group_starts_is_born_there(group: Group) -> None:
    """In the old hierarchy. The thread itself, and what it starts later, is where it was."""
    (path,) = group._paths
    if not path.joinpath("tasks").exists():
        pytest.skip("the new hierarchy moves whole processes")
    commands = []

    def start() -> None:
        with group.join_group():
            commands.append(subprocess.Popen(["sleep", "60"]))
        commands.append(subprocess.Popen(["sleep", "60"]))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    try:
        assert path.joinpath("cgroup.procs").read_text().split() == [str(commands[0].pid)]
        group.add(commands[1].pid)  # it is not the first one's, whose number nobody has to know
        assert path.joinpath("tasks").read_text().split() == [str(commands[0].pid)]
    finally:
        for command in commands:
            command.kill()
            command.wait()


def test_the_main_thread_stays_where_it_is(group: Group) -> None:
    """All memory of our own process would be counted as the group's."""
    (path,) = group._paths
    with group.join_group():
        assert path.joinpath("cgroup.procs").read_text() == ""
        command = subprocess.Popen(["sleep", "60"])
    try:
        group.add(command.pid)
        assert path.joinpath("cgroup.procs").read_text().split() == [str(command.pid)]
    finally:
        command.kill()
        command.wait()


def test_memory_is_counted_for_all_together(group_of_memory: Group) -> None:
    """Ten processes of 20 MiB do not fit into 100 MiB, and the group says so."""
    with subprocess.Popen([sys.executable, "-c", WORKERS], stdin=subprocess.PIPE) as one:
        group_of_memory.add(one.pid)
        assert not group_of_memory.ran_out_of_memory
        assert one.stdin is not None
        one.stdin.write(b"\n")
        one.stdin.flush()
        if group_of_memory.oom is None:
            assert one.wait(20) == -9  # all of them end at once
        else:
            assert select.select([group_of_memory.oom], [], [], 20)[0]
        for path in group_of_memory._paths:
            for pid in path.joinpath("cgroup.procs").read_text().split():
                subprocess.run(["kill", "-9", pid], check=False, stderr=subprocess.DEVNULL)
    assert group_of_memory.ran_out_of_memory


def test_one_directory_serves_all_controllers_that_share_it(tmp_path: Path) -> None:
    """In the new hierarchy processes and memory are limited in one group, swap included, which ends as a whole."""
    made = tmp_path / "made"
    files = ("pids.max", "memory.max", "memory.swap.max", "memory.oom.group", "cgroup.procs")

    class Kernel(type(tmp_path)):  # type: ignore[misc] - the directory with the files that a kernel puts there
        def mkdir(self, *args: object, **options: object) -> None:
            super().mkdir(*args, **options)
            for name in files:
                Path(self, name).touch()

    parent = Kernel(made)
    parent.mkdir()
    group = Group({"pids": (parent, 7), "memory": (parent, 64 * MIB)})
    group.add(4242)
    (path,) = group._paths
    assert [path.joinpath(name).read_text() for name in files] == [
        "7",
        str(64 * MIB),
        "0",
        "1",
        "4242",
    ]
    assert group.oom is None
    path.joinpath("memory.events").write_text("oom 1\noom_kill 0\n")
    assert not group.ran_out_of_memory
    path.joinpath("memory.events").write_text("oom 1\noom_kill 3\n")
    assert group.ran_out_of_memory
    cgroups._left.discard(path)


def test_what_the_dead_left_is_cleared(home: Path) -> None:
    """The group of a process that is no more is removed by the next one that looks for a place, unless it is another
    container's."""
    numbers = os.stat("/proc/self/ns/pid").st_ino
    dead = 10_000_000 + os.getpid()  # above every number of a process, and no other test's
    left, others = home / f"hookline-{dead}-{numbers}-1", home / f"hookline-{dead}-1-1"
    left.mkdir()
    others.mkdir()
    cgroups._home.cache_clear()
    assert home in homes("pids", "memory").values()
    assert not left.exists()
    others.rmdir()
