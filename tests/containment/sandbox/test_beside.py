"""Commands that start while others run: they get the same sandbox, and nothing that runs can disturb how it is made."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import os
import secrets
import threading
from pathlib import Path
from typing import Any

import pytest

from hookline.containment import Sandbox, SandboxPaths
from hookline.containment.sandbox import bubblewrap, inventory, mount_points
from hookline.containment.sandbox.protection import Protection
from hookline.containment.sandbox.work_tree import work_tree
from hookline.errors import SandboxError

from .conftest import needs_bubblewrap

pytestmark = needs_bubblewrap

EXCHANGE = """
import ctypes, os, random, sys, time
libc = ctypes.CDLL(None)
def exchange(one, other):
    libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
for name, target in zip(sys.argv[1::2], sys.argv[2::2]):
    os.symlink(target, name)
print("ready", flush=True)
while True:
    for number, name in enumerate(sys.argv[1::2]):
        exchange(f"sub{number}", name)
        time.sleep(random.random() * 0.01)
"""


async def _start(sandbox: Sandbox, *command: str) -> bubblewrap.RunningCommand:
    ready = asyncio.Event()
    running = await sandbox.start(command, on_output=lambda _: ready.set())
    await ready.wait()
    return running


async def test_a_running_command_cannot_have_files_made_or_emptied_outside(tmp_path: Path) -> None:
    """Directories that are exchanged for links while sandboxes are made lead to nothing outside, in any place."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    for number in range(2):
        (work / f"sub{number}").mkdir(parents=True)
        (work / f"sub{number}" / ".env").write_text("TOKEN=1")
    (outside / "empty").mkdir(parents=True)
    (outside / "full").mkdir()
    (outside / "full" / ".env").write_text("KEPT=1")
    (work / "exchange.py").write_text(EXCHANGE)
    sandbox = Sandbox(work, "required")
    links = ("link0", f"/oldroot{outside}/empty", "link1", f"/oldroot{outside}/full")
    running = await _start(sandbox, "python3", "exchange.py", *links)
    try:
        for number in range(24):
            with contextlib.suppress(SandboxError):  # refused: nothing was run
                await sandbox.run("true", place="workspace" if number % 3 else "read-only")
    finally:
        running.kill()
        await running.wait()
    assert os.listdir(outside / "empty") == []
    assert (outside / "full" / ".env").read_text() == "KEPT=1"


async def test_a_command_beside_another_gets_the_same_sandbox(tmp_path: Path) -> None:
    """Devices, protected names, hidden files, the read-only place and exit codes are as for a command alone."""
    (tmp_path / ".hookline").mkdir()
    (tmp_path / ".env").write_text("TOKEN=1")
    sandbox = Sandbox(tmp_path, "required")
    line = (
        "cat .env; echo x > /dev/null && head -c 3 /dev/urandom | wc -c; touch made && echo made; "
        "touch .hookline/x /etc/hookline-x 2>/dev/null || echo refused; ls /proc/1/root/oldroot 2>&1 | wc -l; "
        "unshare -U true 2>/dev/null || echo no namespaces; exit 3"
    )
    alone = await sandbox.run(line)
    running = await _start(sandbox, "sh", "-c", "echo ready; exec sleep 60")
    try:
        beside = await sandbox.run(line)
        read_only = await sandbox.run("touch x; touch /tmp/x && echo own", place="read-only")
    finally:
        running.kill()
        await running.wait()
    assert (beside.exit_code, beside.text) == (alone.exit_code, alone.text) == (3, beside.text)
    assert "made\nrefused\n" in beside.text
    assert read_only.text.endswith("own\n")
    assert "Read-only" in read_only.text


async def test_commands_that_start_together_all_run(tmp_path: Path) -> None:
    """The first is made as if alone, the others beside it, in directories above and below too."""
    (tmp_path / "below").mkdir()
    sandboxes = [Sandbox(tmp_path, "required"), Sandbox(tmp_path / "below", "required")]
    results = await asyncio.gather(
        *(sandboxes[number % 2].run(f"sleep 0.05; echo {number}") for number in range(8))
    )
    assert [each.text for each in results] == [f"{number}\n" for number in range(8)]


async def test_a_start_beside_another_can_be_cancelled(tmp_path: Path) -> None:
    """Whenever that happens, no process of it stays, though one more is between us and the command."""
    mark = f"hookline-{secrets.token_hex(8)}"
    sandbox = Sandbox(tmp_path, "required")
    running = await _start(sandbox, "sh", "-c", "echo ready; exec sleep 60")
    try:
        for moment in range(12):
            starting = asyncio.create_task(sandbox.run(["sh", "-c", "sleep 60", mark]))
            await asyncio.sleep(moment * 0.003)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert _processes_with(mark) == []
    finally:
        running.kill()
        await running.wait()


def _processes_with(mark: str) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found


async def test_a_bubblewrap_with_privileges_starts_nothing_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be nested, so a command that could be disturbed is refused, and the error says what to do."""
    sandbox = Sandbox(tmp_path, "required")
    running = await _start(sandbox, "sh", "-c", "echo ready; exec sleep 60")
    program = dataclasses.replace(bubblewrap.find_installed(), needs_privileges=True)
    monkeypatch.setattr(bubblewrap, "find_installed", lambda: program)
    try:
        with pytest.raises(SandboxError, match="Wait for the other command"):
            await sandbox.run("true")
    finally:
        running.kill()
        await running.wait()
    assert (await sandbox.run("echo alone")).text == "alone\n"


async def test_without_a_lock_every_sandbox_is_nested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no file of ours can be written, nobody knows who else runs, and commands work all the same."""
    (tmp_path / "work").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(inventory, "records_directory", lambda: str(tmp_path / "file" / "none"))
    assert not inventory.StartLock().is_held
    assert (await Sandbox(tmp_path / "work", "required").run("echo works")).text == "works\n"


def test_the_start_lock_is_held_by_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another waits until it is given back, and is told after a while who may have it."""
    first = inventory.StartLock()
    gotten = threading.Event()

    def wait() -> None:
        lock = inventory.StartLock()
        gotten.set()
        lock.give_back()

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(inventory, "_PATIENCE", 0.0)
        with pytest.raises(SandboxError, match="lslocks"):
            inventory.StartLock()
    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not gotten.is_set()
    first.give_back()
    first.give_back()
    waiting.join()
    assert gotten.is_set()


@pytest.fixture
def outer(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The options of each sandbox in which another one was made."""
    made: list[list[str]] = []
    build = bubblewrap.Arrangement._surroundings

    def spy(self: bubblewrap.Arrangement, *given: Any) -> list[str]:
        words = build(self, *given)
        made.append(os.pread(int(words[2]), 1 << 20, 0).decode().split("\0"))
        return words

    monkeypatch.setattr(bubblewrap.Arrangement, "_surroundings", spy)
    return made


async def test_a_link_in_the_lasting_tmp_leads_nowhere(
    tmp_path: Path, outer: list[list[str]]
) -> None:
    """A command that has ended put it where the next one has something mounted: the project, a file that is shown."""
    work, tmp, outside = tmp_path / "work", tmp_path / "tmp", tmp_path / "outside"
    shown = tmp_path / "shown" / "file"
    for each in (work, tmp, outside, shown.parent):
        each.mkdir()
    shown.write_text("shown")
    paths = SandboxPaths(tmp=tmp, show=(shown,))
    sandbox = Sandbox(work, "required", paths=paths)
    assert (await sandbox.run(["cat", str(shown)])).text == "shown"
    top = tmp_path.relative_to("/tmp").parts[0]
    for place, target in (
        (f"/tmp/{top}", f"/oldroot{outside}"),
        (str(shown.parent), f"/oldroot{outside}"),
        (str(shown), f"/oldroot{outside}/new"),
    ):
        line = (
            f"cd /; mv {place} /tmp/moved-$$; mkdir -p $(dirname {place}); ln -s {target} {place}"
        )
        assert "cannot create" not in (await sandbox.run(line)).text
        again = await sandbox.run(["cat", str(shown)])
        assert (again.text, os.listdir(outside)) == ("shown", []), place
    assert outer == []  # and none of that needs a second sandbox


async def test_journals_of_overlapping_directories_cannot_be_written_beside_a_command(
    tmp_path: Path, outer: list[list[str]]
) -> None:
    """Each directory that commands work in has one, above and below."""
    above, below = tmp_path / "work", tmp_path / "work" / "sub"
    for each in (above, below):
        (each / ".hookline").mkdir(parents=True)
    for first, second in ((above, below), (below, above)):
        running = await _start(Sandbox(first, "required"), "sh", "-c", "echo ready; exec sleep 60")
        try:
            assert (await Sandbox(second, "required").run("echo works")).text == "works\n"
        finally:
            running.kill()
            await running.wait()
        options = outer.pop()
        for each in (above, below):
            place = options.index(f"{each}/.hookline")
            assert options[place - 1 : place + 2] == ["--ro-bind", *[f"{each}/.hookline"] * 2]


async def test_without_records_a_command_above_is_found_by_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could exchange the directory for a link, and nobody knows of it. One of this process is known."""
    below = tmp_path / "work" / "below"
    below.mkdir(parents=True)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(inventory, "records_directory", lambda: str(tmp_path / "file" / "none"))
    above, sandbox = Sandbox(tmp_path / "work", "required"), Sandbox(below, "required")
    running = await _start(above, "sh", "-c", "echo ready; exec sleep 60")
    try:
        assert (await sandbox.run("echo works")).text == "works\n"
        monkeypatch.setattr(bubblewrap, "used_roots", lambda _: [])  # as another process sees it
        with pytest.raises(SandboxError, match=r"runs in .*cannot be written"):
            await sandbox.run("true")
    finally:
        running.kill()
        await running.wait()
    assert (await sandbox.run("echo works")).text == "works\n"


def begin(directory: Path) -> inventory.Inventory:
    """A record of a directory."""
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        record = inventory.Inventory.begin(str(directory), held, {}, {}, (), {})
    finally:
        os.close(held)
    assert record is not None
    return record


def descriptors() -> set[str]:
    """What this process has open, but for the directory that is read for that."""
    paths = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return {f"{path} {os.readlink(path)}" for path in paths if os.path.lexists(path)}


def found(directory: Path) -> inventory.SandboxRecord:
    """The one record that there is of a directory; of one that is not where it was, there is one of all."""
    (record,) = (each for each in inventory.records() if each.root in (str(directory), ""))
    return record


def test_a_record_that_does_not_fit_on_the_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of one would be taken for a damaged one, and ignored. Nothing of it is left."""
    record = begin(tmp_path)
    there, open_before = os.listdir(inventory.records_directory()), descriptors()
    write = os.write
    monkeypatch.setattr(inventory.os, "write", lambda fd, text: write(fd, text[:10]))
    with pytest.raises(SandboxError, match="Make room"):
        begin(tmp_path)
    assert sorted(os.listdir(inventory.records_directory())) == sorted(there)
    assert descriptors() <= open_before
    with pytest.raises(SandboxError, match="Make room"):  # then the command is not run
        record.note_first(os.getpid())
    assert os.path.getsize(record._path.replace(".json", ".processes")) == 0
    monkeypatch.undo()
    record.end()
    assert not os.path.exists(record._path)


@pytest.mark.parametrize("elsewhere", [0, 1], ids=["another machine", "another container"])
def test_the_record_of_another_machine_says_nothing_about_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: int
) -> None:
    """With the same home, its paths may be missing here, or other directories."""
    (tmp_path / "work").mkdir()
    other = [*inventory._namespace()]
    other[elsewhere] += "-other"
    with monkeypatch.context() as there:
        there.setattr(inventory, "_namespace", lambda: other)
        record = begin(tmp_path / "work")
    try:
        inventory._own.discard(record._path)  # as another process sees it
        (tmp_path / "work").rmdir()
        paths = (str(tmp_path / "work"), "")
        assert not [each for each in inventory.records() if each.root in paths]
        (tmp_path / "here").mkdir()
        assert Sandbox(tmp_path / "here", "required").run_sync("echo works").text == "works\n"
    finally:
        record.end()


async def test_the_process_is_noted_while_another_thread_looks_at_the_tree(tmp_path: Path) -> None:
    """The look takes seconds in a large tree, and the event loop would wait for it."""
    protection = Protection(tmp_path).hold()
    held, done = threading.Event(), threading.Event()

    def look() -> None:
        with work_tree(str(tmp_path))._lock:
            held.set()
            done.wait()

    looking = threading.Thread(target=look)
    looking.start()
    held.wait()
    try:
        await asyncio.wait_for(asyncio.to_thread(protection.note_first, os.getpid()), 20)
    finally:
        done.set()
        looking.join()
        protection.release()


def test_where_no_record_can_be_made_on_a_full_disk_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have records, and would take it that no command runs."""
    (tmp_path / "work").mkdir()
    sandbox = Sandbox(tmp_path / "work", "required")
    assert sandbox.run_sync("echo works").text == "works\n"
    make = os.open

    def full(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if str(path).startswith(inventory.records_directory()) and flags & os.O_EXCL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(path, flags, *more, **options)

    monkeypatch.setattr(inventory.os, "open", full)
    with pytest.raises(SandboxError, match="Make room"):
        sandbox.run_sync("true")
    monkeypatch.undo()
    assert sandbox.run_sync("echo works").text == "works\n"


def test_a_command_that_outlives_its_process_counts_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of a killed process is free before the kernel has ended its commands. Another may get its number."""
    record = begin(tmp_path)
    record.note_first(os.getpid())
    record.leave()
    monkeypatch.setattr(inventory, "_ENDING", 0.0)
    assert found(tmp_path).is_alive
    processes = record._path.replace(".json", ".processes")
    Path(processes).write_text(f"{os.getpid()} 1\n")
    assert not found(tmp_path).is_alive
    found(tmp_path).forget()
    assert not os.path.exists(processes)


async def test_a_directory_that_a_command_above_has_moved_is_in_use(
    tmp_path: Path, outer: list[list[str]]
) -> None:
    """Wherever it is now, for commands of this process and of others."""
    (tmp_path / "work" / "a").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    above, below = Sandbox(tmp_path / "work", "required"), tmp_path / "work" / "a"
    running = await _start(Sandbox(below, "required"), "sh", "-c", "echo ready; exec sleep 60")
    try:
        assert (await above.run("mv a b")).exit_code == 0
        outer.clear()
        moved = Sandbox(tmp_path / "work" / "b", "required")
        assert (await moved.run("echo works")).text == "works\n"
        assert len(outer) == 1
    finally:
        running.kill()
        await running.wait()
    (tmp_path / "other" / "x").mkdir()
    record = begin(tmp_path / "other" / "x")
    try:
        inventory._own.discard(record._path)  # as another process sees it
        (tmp_path / "other").rename(tmp_path / "elsewhere")
        assert found(tmp_path / "other" / "x").root == ""
        (tmp_path / "other").symlink_to("elsewhere")
        assert found(tmp_path / "other" / "x").root == ""
    finally:
        record.end()


async def test_what_the_user_changes_elsewhere_stays_while_a_moved_directory_is_used(
    tmp_path: Path,
) -> None:
    """Nobody knows where the commands of another process are, but not every change is theirs."""
    for name in ("work", "other"):
        (tmp_path / name).mkdir()
    record = begin(tmp_path / "other")
    try:
        inventory._own.discard(record._path)  # as another process sees it
        guide = tmp_path / "work" / "AGENTS.md"
        guide.write_text("one")
        running = await _start(
            Sandbox(tmp_path / "work", "required"), "sh", "-c", "echo ready; exec sleep 60"
        )
        (tmp_path / "other").rename(tmp_path / "elsewhere")
        guide.write_text("two")
        running.kill()
        await running.wait()
        assert guide.read_text() == "two"
    finally:
        record.end()


def test_a_process_that_has_ended_is_not_noted(tmp_path: Path) -> None:
    """A line without a start would be no record of anything."""
    record = begin(tmp_path)
    record.note_first(2**30)
    assert not os.path.exists(record._path.replace(".json", ".processes"))
    record.end()


async def test_a_second_mount_of_a_directory_is_the_same_directory(
    tmp_path: Path, outer: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that runs in it by another path could disturb the start."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    running = await _start(Sandbox(work, "required"), "sh", "-c", "echo ready; exec sleep 60")
    monkeypatch.setattr(
        bubblewrap, "all_paths", lambda *paths: [each.replace("work", "other") for each in paths]
    )
    try:
        assert (await Sandbox(other, "required").run("echo works")).text == "works\n"
        assert len(outer) == 1
    finally:
        running.kill()
        await running.wait()


async def test_of_two_commands_that_start_together_one_waits_where_none_can_be_nested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finds the record of the other, and both were refused."""
    sandbox = Sandbox(tmp_path, "required")
    await sandbox.run("true")
    program = dataclasses.replace(bubblewrap.find_installed(), needs_privileges=True)
    monkeypatch.setattr(bubblewrap, "find_installed", lambda: program)
    monkeypatch.setattr(bubblewrap, "_TURN", 60.0)
    results = await asyncio.gather(*(sandbox.run(f"echo {number}") for number in range(2)))
    assert [each.text for each in results] == ["0\n", "1\n"]


async def test_where_none_can_be_nested_the_error_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other command runs: it is not known, for the state directory cannot be written."""
    sandbox = Sandbox(tmp_path, "required")
    program = dataclasses.replace(bubblewrap.find_installed(), needs_privileges=True)
    monkeypatch.setattr(bubblewrap, "find_installed", lambda: program)
    nowhere = "/dev/null/none"
    for module in (inventory, bubblewrap):
        monkeypatch.setattr(module, "records_directory", lambda: nowhere)
    with pytest.raises(SandboxError, match="none' cannot be written") as raised:
        await sandbox.run("true")
    assert "XDG_STATE_HOME" in str(raised.value)
    assert "Wait" not in str(raised.value)


async def test_a_profile_that_forbids_nesting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody exchanges directories: no sandbox can be made inside of another one."""
    installed = bubblewrap.find_installed()
    script, work = tmp_path / "bwrap", tmp_path / "work"
    script.write_text(
        f'#!/bin/sh\n[ "$(readlink /proc/self/ns/user)" = "{os.readlink("/proc/self/ns/user")}" ] || '
        f'{{ echo "bwrap: setting up uid map: Permission denied" >&2; exit 1; }}\nexec {installed.path} "$@"\n'
    )
    script.chmod(0o755)
    work.mkdir()
    sandbox = Sandbox(work, "required")
    program = dataclasses.replace(installed, path=str(script))
    monkeypatch.setattr(bubblewrap, "find_installed", lambda: program)
    running = await _start(sandbox, "sh", "-c", "echo ready; exec sleep 60")
    try:
        with pytest.raises(SandboxError, match="AppArmor"):
            await sandbox.run("true")
    finally:
        running.kill()
        await running.wait()
    assert (await sandbox.run("echo alone")).text == "alone\n"


async def test_a_path_in_a_variable_disturbs_nothing(
    tmp_path: Path, outer: list[list[str]]
) -> None:
    """Only what is mounted can be exchanged."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    running = await _start(
        Sandbox(tmp_path / "one", "required"), "sh", "-c", "echo ready; exec sleep 60"
    )
    try:
        other = Sandbox(tmp_path / "other", "required", env={"TOOLS": str(tmp_path / "one")})
        assert (await other.run("echo works")).text == "works\n"
    finally:
        running.kill()
        await running.wait()
    assert outer == []


@pytest.mark.parametrize("failing", ["open_null_device", "file_clock", "filter_program"])
async def test_a_start_that_fails_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """No descriptor stays open, and other processes can start commands."""
    sandbox = Sandbox(tmp_path, "required")
    await sandbox.run("true")

    def fail() -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = descriptors()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(bubblewrap, failing, fail)
        with pytest.raises(SandboxError, match="Too many open files"):
            await sandbox.run("true")
    assert descriptors() <= before
    lock = inventory.StartLock()
    assert lock.is_held
    lock.give_back()


async def test_where_nothing_can_be_locked_every_sandbox_is_nested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outer: list[list[str]]
) -> None:
    """As on some network file systems: nobody knows who else runs, and commands work all the same."""
    sandbox = Sandbox(tmp_path, "required")
    await sandbox.run("true")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = descriptors()
    monkeypatch.setattr(inventory.fcntl, "flock", refuse)
    assert (await sandbox.run("echo works")).text == "works\n"
    assert len(outer) == 1
    assert descriptors() <= before


async def test_a_lasting_tmp_in_which_nothing_can_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be full."""
    for name in ("work", "tmp", "shown"):
        (tmp_path / name).mkdir()
    paths = SandboxPaths(tmp=tmp_path / "tmp", show=(tmp_path / "shown",))
    sandbox = Sandbox(tmp_path / "work", "required", paths=paths)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mount_points, "_make_directory", full)
    with pytest.raises(SandboxError, match=r"/tmp', .* \(No space left") as raised:
        await sandbox.run("true")
    assert "tmp=" in str(raised.value)
