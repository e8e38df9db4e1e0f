"""One program: its input, its output, and its end with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline.command_hooks.script import MOST_OUTPUT, ProgramSpec, run_program

ENV = {"PATH": os.environ["PATH"]}
SkipTime = Callable[[float, Callable[[], bool]], asyncio.Task[None]]


def order(*argv: str, stdin: bytes = b"", timeout: float = 20.0, cwd: str = "/") -> ProgramSpec:
    """An order for a program."""
    return ProgramSpec(argv, stdin, ENV, cwd, timeout)


def sh(text: str, **options: Any) -> ProgramSpec:
    """An order for a line of shell."""
    return order("/bin/sh", "-c", text, **options)


def has_text(note: Path) -> bool:
    """Whether a program has written its note."""
    return note.exists() and bool(note.read_text().strip())


def is_alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def zombies_of_ours() -> list[str]:
    """Children of this process that nobody has reaped."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.append(stat.parent.name)
    return found


async def gone(pid: int) -> bool:
    """Whether a process is gone before long."""
    for _ in range(200):
        if not is_alive(pid):
            return True
        await asyncio.sleep(0.02)
    return False


async def test_output_errors_and_exit_code() -> None:
    """All three come back, each in its place."""
    ran = await run_program(sh("cat; echo oops >&2; exit 3", stdin=b"hello"))
    assert (ran.code, ran.stdout, ran.stderr, ran.problem) == (3, "hello", "oops\n", "")


async def test_bytes_that_are_no_text_are_replaced() -> None:
    """A program may print anything."""
    ran = await run_program(sh(r"printf '\377ok'"))
    assert ran.stdout == "\ufffdok"


async def test_a_program_that_never_reads_is_not_waited_for() -> None:
    """Five megabytes nobody reads: no broken pipe, no hang."""
    ran = await run_program(sh("exit 0", stdin=b"x" * 5_000_000))
    assert ran.code == 0


async def test_a_program_that_reads_and_writes_a_lot_does_not_lock_up() -> None:
    """Its input is written while its output is read."""
    ran = await run_program(sh("cat", stdin=b"y" * 900_000))
    assert len(ran.stdout) == 900_000


async def test_a_flood_is_read_and_dropped() -> None:
    """The kept output is bounded, and the program can end."""
    ran = await run_program(sh("head -c 30000000 /dev/zero; echo end >&2"))
    assert (len(ran.stdout), ran.stderr) == (MOST_OUTPUT + 1, "end\n")


async def test_an_endless_flood_ends_with_its_time() -> None:
    """`yes` is stopped like any other."""
    ran = await run_program(sh("yes", timeout=0.3))
    assert (ran.problem, ran.code) == ("timeout", None)


async def test_a_program_that_is_not_there() -> None:
    """It cannot be started, and that is said."""
    ran = await run_program(order("/no/such/program"))
    assert ran.problem == "spawn_error"
    assert "/no/such/program" in ran.detail


async def test_too_few_descriptors_leave_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was opened before there were no more is closed again, and the program is not started."""
    made: list[int] = []
    pipe = os.pipe

    def scarce() -> tuple[int, int]:
        if len(made) == 4:
            raise OSError(errno.EMFILE, "Too many open files")
        both = pipe()
        made.extend(both)
        return both

    monkeypatch.setattr(os, "pipe", scarce)
    ran = await run_program(sh("true"))
    assert ran.problem == "spawn_error"
    assert "Too many open files" in ran.detail
    for fd in made:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


async def test_a_file_that_cannot_be_executed(tmp_path: Path) -> None:
    """As for one that is not there."""
    path = tmp_path / "plain.txt"
    path.write_text("text")
    assert (await run_program(order(str(path)))).problem == "spawn_error"


async def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    """It is the directory that is named, and not the program."""
    ran = await run_program(order("/bin/sh", "-c", "true", cwd=str(tmp_path / "gone")))
    assert "directory" in ran.detail


async def test_a_helper_left_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    """It holds the pipe, and the answer is there at once; it continues, because it was left on purpose."""
    note = tmp_path / "pid"
    ran = await run_program(sh(f"sleep 60 & echo $! > {note}; echo answer"))
    assert (ran.code, ran.stdout) == (0, "answer\n")
    pid = int(note.read_text())
    assert is_alive(pid)
    os.kill(pid, 9)


async def test_a_hang_is_ended_with_its_children(tmp_path: Path, skip_time: SkipTime) -> None:
    """The whole group goes, not only the shell."""
    note = tmp_path / "pid"
    skipped = skip_time(60, lambda: has_text(note))
    ran = await run_program(sh(f"sleep 60 & echo $! > {note}; wait", timeout=60))
    await skipped
    assert ran.problem == "timeout"
    assert await gone(int(note.read_text()))


async def test_a_program_that_ignores_the_polite_signal_is_ended_all_the_same(
    tmp_path: Path, skip_time: SkipTime
) -> None:
    """After a moment it is not asked any more."""
    note = tmp_path / "pid"
    skipped = skip_time(60, lambda: has_text(note))
    text = f"trap '' TERM; echo $$ > {note}; while :; do sleep 0.05; done"
    ran = await run_program(sh(text, timeout=60))
    await skipped
    assert ran.problem == "timeout"
    assert not is_alive(int(note.read_text()))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strays are found in /proc")
async def test_a_child_that_left_the_group_is_found(tmp_path: Path, skip_time: SkipTime) -> None:
    """A daemon of its own session does not outlive a hook that was ended."""
    note = tmp_path / "pid"
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "time.sleep(60)\n"
    )
    skipped = skip_time(60, lambda: has_text(note))
    ran = await run_program(order(sys.executable, "-c", code, timeout=60))
    await skipped
    assert ran.problem == "timeout"
    assert await gone(int(note.read_text()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are found in /proc")
async def test_a_child_that_left_the_group_and_its_environment_is_found(
    tmp_path: Path, skip_time: SkipTime
) -> None:
    """By whose child it is."""
    note = tmp_path / "pid"
    daemon = f"echo $$ > {note}; exec sleep 60"
    skipped = skip_time(60, lambda: has_text(note))
    ran = await run_program(sh(f"env -i setsid /bin/sh -c '{daemon}' & sleep 60", timeout=60))
    await skipped
    assert ran.problem == "timeout"
    assert await gone(int(note.read_text()))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strays are found in /proc")
async def test_what_a_program_that_failed_left_behind_is_ended(tmp_path: Path) -> None:
    """Only one that did its work leaves a helper on purpose."""
    note = tmp_path / "pid"
    ran = await run_program(sh(f"sleep 60 & echo $! > {note}; exit 3"))
    assert ran.code == 3
    assert await gone(int(note.read_text()))


async def test_cancelling_ends_the_program_first(tmp_path: Path) -> None:
    """When the task is gone, so is the program."""
    note = tmp_path / "pid"
    task = asyncio.ensure_future(run_program(sh(f"echo $$ > {note}; sleep 60")))
    while not has_text(note):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(int(note.read_text()))


async def test_programs_after_a_cancelled_one_are_not_disturbed() -> None:
    """The descriptors of the one that is gone are theirs."""
    for _ in range(5):
        gone = [asyncio.ensure_future(run_program(sh("sleep 60"))) for _ in range(3)]
        await asyncio.sleep(0.02)
        for task in gone:
            task.cancel()
        others = await asyncio.gather(*(run_program(sh(f"echo {n}")) for n in range(3)))
        assert [ran.stdout for ran in others] == ["0\n", "1\n", "2\n"]
        await asyncio.wait(gone)
        assert all(task.cancelled() for task in gone)


async def test_nothing_is_left_unreaped() -> None:
    """No zombie of ours stays behind, however it ended."""
    before = zombies_of_ours()  # of other tests
    for each in (sh("exit 1"), sh("sleep 9", timeout=0.1), order("/no/such")):
        await run_program(each)
    assert set(zombies_of_ours()) <= set(before)


async def test_there_is_no_terminal() -> None:
    """A hook has a session of its own, so it cannot write to the user's terminal."""
    ran = await run_program(sh("(echo x > /dev/tty) 2>/dev/null && echo had || echo none"))
    assert ran.stdout.strip() == "none"


def test_the_terminal_of_the_agent_is_out_of_reach() -> None:
    """With a terminal a hook has a session of its own; without one it is in ours."""
    code = (
        "import asyncio, os\n"
        "from hookline.command_hooks.script import ProgramSpec, run_program\n"
        "line = '(echo x > /dev/tty) 2>/dev/null && echo had || echo none; ps -o sess= -p $$'\n"
        "spec = ProgramSpec(('/bin/sh', '-c', line), b'', dict(os.environ), '/', 20.0)\n"
        "terminal, session = asyncio.run(run_program(spec)).stdout.split()\n"
        "print(terminal, int(session) == os.getsid(0))\n"
    )
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    def said(**options: Any) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, stdout=-1, start_new_session=True, **options).stdout.decode()

    try:
        with_terminal = said(preexec_fn=take_terminal, pass_fds=(theirs,))
        without = said()
    finally:
        os.close(ours)
        os.close(theirs)
    assert with_terminal == "none False\n"
    assert without == "none True\n"
