"""Programs that end with us: whatever they do to get away, and however we end."""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline.containment.processes import (
    StartedProcess,
    start_program,
    supervisor,
    supervisor_client,
)

ROOT = Path(__file__).resolve().parents[3]
ENV = {"PATH": os.environ["PATH"]}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
LEAVES = {
    "a child": "sleep {n} &",
    "another session": "setsid sleep {n} >/dev/null 2>&1 &",
    "no environment": "env -i setsid sleep {n} >/dev/null 2>&1 &",
    "no parent": "(env -i setsid sh -c 'sleep {n} & sleep {n}' >/dev/null 2>&1 &);",
    "no descriptors": "(env -i setsid sh -c 'exec sleep {n} <&- >&- 2>&-' &);",
    "no signals": "(trap '' TERM HUP INT; env -i setsid sleep {n} >/dev/null 2>&1 &);",
}
STORY = """
import os, sys, time
from hookline.containment.processes import start_program
null = os.open(os.devnull, os.O_RDWR)
"""


def started(line: str, **options: tuple[int, ...]) -> StartedProcess:
    """A shell command that runs without a reader."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        return start_program(("/bin/sh", "-c", line), ENV, "/", (null, null, null), **options)
    finally:
        os.close(null)


def ended(program: StartedProcess) -> int:
    """The exit code of a program, when it has ended."""
    assert until(lambda: program.poll() is not None)
    code = program.poll()
    assert code is not None
    return code


def until(holds: Callable[[], bool]) -> bool:
    """Whether something holds before long."""
    for _ in range(3000):
        if holds():
            return True
        time.sleep(0.02)
    return False


def running(command: str) -> list[int]:
    """The processes that were started with exactly this command line, zombies left out."""
    found = []
    for pid in supervisor.living_parents():
        try:
            text = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if text.replace(b"\0", b" ").decode(errors="replace").strip() == command:
            found.append(pid)
    return found


def zombies_below(leader: int) -> list[int]:
    """Those of a process's children that nobody has reaped."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == leader:
            found.append(int(stat.parent.name))
    return found


def supervisor_of(program: StartedProcess) -> int:
    """The process that has started a program."""
    return supervisor.living_parents()[program.pid]


def number(first: int) -> str:
    """Seconds that nobody else sleeps."""
    return f"{first}{os.getpid():07}"


@on_linux
@pytest.mark.parametrize("way", LEAVES)
def test_what_got_away_is_ended_with_the_program(way: str) -> None:
    """Also when its parents are gone and nothing but the mark is left of where it came from."""
    sleep = f"sleep {number(51)}"
    program = started(LEAVES[way].format(n=number(51)) + " sleep 60")
    assert until(lambda: bool(running(sleep)))
    parent = supervisor_of(program)
    program.end()
    assert running(sleep) == []
    assert until(lambda: zombies_below(parent) == [])


@on_linux
@pytest.mark.parametrize("way", LEAVES)
def test_what_got_away_is_ended_when_we_are_killed(way: str, tmp_path: Path) -> None:
    """As hard as can be, with nobody left to see to it but the supervisor, which is gone then too."""
    sleep, note = number(52), tmp_path / "supervisor"
    line = LEAVES[way].format(n=sleep) + f" echo $PPID > {note}; sleep 60"
    code = (
        STORY + f"program = start_program(('/bin/sh', '-c', {line!r}), {ENV!r}, '/', (null,) * 3)\n"
    )
    with _a_process_of_ours(code + "time.sleep(60)") as owner:
        assert until(lambda: note.exists() and bool(note.read_text().strip()))
        assert until(lambda: bool(running(f"sleep {sleep}")))
        owner.kill()
    assert until(lambda: running(f"sleep {sleep}") == [])
    assert until(lambda: int(note.read_text()) not in supervisor.living_parents())


@on_linux
def test_several_are_distinguished() -> None:
    """Ending one leaves alone what another has started and lost."""
    line = LEAVES["no parent"] + " sleep 60"
    one, other = (started(line.format(n=number(n))) for n in (53, 54))
    assert until(lambda: bool(running(f"sleep {number(53)}") and running(f"sleep {number(54)}")))
    one.end()
    assert running(f"sleep {number(53)}") == []
    assert running(f"sleep {number(54)}")
    other.end()
    assert running(f"sleep {number(54)}") == []


@on_linux
def test_a_helper_left_on_purpose_outlives_us(tmp_path: Path) -> None:
    """One whose program did its work, also if we are killed before we could say that it may."""
    sleep, note = f"sleep {number(55)}", tmp_path / "over"
    line = f"{sleep} >/dev/null 2>&1 & echo over > {note}"
    code = (
        STORY
        + f"program = start_program(('/bin/sh', '-c', {line!r}), {ENV!r}, '/', (null,) * 3, leaves=(0,))\n"
    )
    with _a_process_of_ours(code + "time.sleep(60)") as owner:
        assert until(lambda: note.exists() and running(f"/bin/sh -c {line}") == [])
        owner.kill()
    time.sleep(0.2)
    [left] = running(sleep)
    os.kill(left, signal.SIGKILL)


@on_linux
def test_a_program_that_did_its_work_has_done_so_before_we_were_gone(tmp_path: Path) -> None:
    """The supervisor hears of both at once: its helper continues all the same."""
    sleep, note = f"sleep {number(59)}", tmp_path / "supervisor"
    line = f"{sleep} >/dev/null 2>&1 & sleep 0.5; echo $PPID > {note}; kill -STOP $PPID"
    code = (
        STORY
        + f"program = start_program(('/bin/sh', '-c', {line!r}), {ENV!r}, '/', (null,) * 3, leaves=(0,))\n"
    )
    with _a_process_of_ours(code + "time.sleep(60)") as owner:
        assert until(lambda: note.exists() and running(f"/bin/sh -c {line}") == [])
        owner.kill()
    os.kill(int(note.read_text()), signal.SIGCONT)
    time.sleep(0.2)
    [left] = running(sleep)
    os.kill(left, signal.SIGKILL)


@on_linux
@pytest.mark.parametrize("how", ["KILL", "STOP"])
def test_a_supervisor_that_is_attacked_is_replaced(how: str) -> None:
    """The program that did it is ended by its mark, and the next is started as if nothing had happened."""
    sleep = f"sleep {number(56)}"
    program = started(f"sleep 0.3; kill -{how} $PPID; exec {sleep}")
    assert until(lambda: bool(running(sleep)))
    program.end()
    assert running(sleep) == []
    after = started("exit 7")
    assert ended(after) == 7
    after.end()


def test_exit_codes_and_signals_are_reported() -> None:
    """As `subprocess` reports them."""
    for line, code in (("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9)):
        program = started(line)
        assert ended(program) == code
        program.leave()


def test_what_cannot_be_started_is_said() -> None:
    """In the system's words."""
    null = (0, 1, 2)
    with pytest.raises(FileNotFoundError):
        start_program(("/no/such",), ENV, "/", null)
    with pytest.raises(FileNotFoundError):
        start_program(("no-such-program",), ENV, "/", null)
    with pytest.raises(FileNotFoundError):
        start_program(("/bin/sh",), ENV, "/no/such/directory", null)
    with pytest.raises(PermissionError):
        start_program(("/",), ENV, "/", null)
    for argv, env in (((), ENV), (("a\0b",), ENV), (("sh",), {"a=b": "c"})):
        with pytest.raises(ValueError, match=r"null|name|no program"):
            start_program(argv, env, "/", null)


def test_a_program_is_found_where_its_own_environment_says(tmp_path: Path) -> None:
    """And not where ours does."""
    (tmp_path / "known").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "known").chmod(0o755)
    program = start_program(("known",), {"PATH": f"/nowhere:{tmp_path}"}, "/", (0, 1, 2))
    assert ended(program) == 9
    program.leave()


def test_without_a_supervisor_programs_are_our_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """They run as well, and are ended with their group."""
    monkeypatch.setattr(supervisor_client, "_CODE", None)
    sleep = f"sleep {number(57)}"
    program = started(f"{sleep} & wait")
    assert until(lambda: bool(running(sleep)))
    program.terminate()
    assert ended(program) == -signal.SIGTERM
    program.end()
    assert until(lambda: running(sleep) == [])
    quick = started("exit 4")
    assert ended(quick) == 4
    quick.leave()


@on_linux
@pytest.mark.parametrize("grace", [1.0, 0.0])
def test_a_program_may_have_a_while_to_end_by_itself_after_us(grace: float, tmp_path: Path) -> None:
    """One that sees the end of its input can put away its work; what is left then is killed."""
    sleep, note = f"sleep {number(58)}", tmp_path / "over"
    line = f"env -i setsid {sleep} & cat; sleep 0.3; echo over > {note}; {sleep}"
    code = f"""
theirs, ours = os.pipe()
program = start_program(('/bin/sh', '-c', {line!r}), {ENV!r}, '/', (theirs, null, null), grace={grace})
os.close(theirs)
time.sleep(60)
"""
    with _a_process_of_ours(STORY + code) as us:
        assert until(lambda: bool(running(sleep)))
        us.kill()
    assert until(lambda: running(sleep) == [] and running(f"/bin/sh -c {line}") == [])
    assert note.exists() is bool(grace)


@pytest.mark.parametrize("attack", ["KILL", "STOP"])
def test_a_program_that_attacks_before_its_start_is_reported(attack: str) -> None:
    """It runs before the supervisor has written its number. It is not run twice, and never as a child of ours."""
    for _ in range(5):
        program = started(f"kill -{attack} $PPID; sleep {number(62)}")
        program.end()
        assert running(f"sleep {number(62)}") == []
        assert program.poll() == -signal.SIGKILL
    after = started("exit 7")
    assert ended(after) == 7
    after.end()


def test_exits_are_seen_where_the_system_cannot_wait_without_reaping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS before Python 3.13, where there is no `os.waitid`."""
    text = Path(supervisor.__file__).read_text()
    code = compile(f"import os; del os.waitid; exec(compile({text!r}, 's', 'exec'))", "s", "exec")
    monkeypatch.setattr(supervisor_client, "_CODE", marshal.dumps(code))
    monkeypatch.setattr(supervisor_client, "_supervisor", None)
    for line, expected in (("exit 3", 3), ("kill -9 $$", -9)):
        program = started(line)
        assert ended(program) == expected
        program.end()
    slow = started(f"sleep {number(63)} & wait")
    assert until(lambda: bool(running(f"sleep {number(63)}")))
    slow.end()
    assert running(f"sleep {number(63)}") == []
    assert slow.poll() == -signal.SIGKILL
    assert supervisor_client._supervisor is not None
    supervisor_client._supervisor.close()


@on_linux
def test_descriptors_are_passed_under_their_numbers(tmp_path: Path) -> None:
    """Also if the number is one that the supervisor uses, and no other descriptor is."""
    null = os.open(os.devnull, os.O_RDWR)
    with (tmp_path / "said").open("wb") as file:
        # Numbers that are free: others of this process may be files of earlier tests.
        numbers = [fcntl.fcntl(file.fileno(), fcntl.F_DUPFD, 60) for _ in range(4)]
        numbers.append(file.fileno())
        line = "; ".join(f"echo {n} >&{n}" for n in numbers) + "; "
        line += f"ls /proc/self/fd >&{numbers[0]}"
        try:
            program = start_program(
                ("/bin/bash", "-c", line), ENV, "/", (null, null, null), pass_fds=numbers
            )
        finally:
            for each in (null, *numbers[:-1]):
                os.close(each)
        assert ended(program) == 0
        program.end()
    *said, _own = (tmp_path / "said").read_text().split()
    opened = sorted([0, 1, 2, 3, *numbers])
    assert said[: len(numbers)] == list(map(str, numbers))
    assert set(map(int, said[len(numbers) :])) <= set(opened)


@contextlib.contextmanager
def _a_process_of_ours(code: str) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", code], env=env) as process:
        try:
            yield process
        finally:
            process.kill()


@on_linux
def test_a_copy_of_our_process_keeps_nothing_alive() -> None:
    """A forked supervisor that did not hear of our processes: when we are killed, they end all the same."""
    sleep = number(56)
    code = STORY + (
        f"program = start_program(('/bin/sh', '-c', 'sleep {sleep}'), {ENV!r}, '/', (null,) * 3)\n"
        "copy = os.fork()\n"
        "if copy == 0:\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "print(copy, flush=True)\n"
        "time.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env) as story:
        assert story.stdout is not None
        copy = int(story.stdout.readline())
        assert until(lambda: bool(running(f"sleep {sleep}")))
        story.kill()
        try:
            assert until(lambda: not running(f"sleep {sleep}"))
        finally:
            os.kill(copy, signal.SIGKILL)


@on_linux
def test_a_copy_has_a_supervisor_of_its_own() -> None:
    """It can start it, whatever locks were held when it was forked."""
    first = started("sleep 60")
    assert supervisor_client._supervisor is not None
    ours = supervisor_client._supervisor
    with supervisor_client._lock:
        copy = os.fork()
        if copy == 0:
            program = started("exit 7")
            os._exit(ended(program) if supervisor_client._supervisor is not ours else 1)
    _, status = os.waitpid(copy, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert first.poll() is None
    first.end()


@on_linux
def test_a_slow_supervisor_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is in use: to abandon it would end processes of others."""
    other = started("sleep 60")
    monkeypatch.setattr(supervisor_client, "_LOOK", 0.0001)
    program = started("exit 3")
    monkeypatch.undo()
    assert ended(program) == 3
    program.leave()
    assert supervisor_of(other) in supervisor.living_parents()
    assert other.poll() is None
    other.end()


@on_linux
def test_a_process_with_many_descriptors_can_start_programs() -> None:
    """More than a thousand, as a server has: what waits for an answer is not the old call that cannot count so far."""
    code = STORY + (
        "import resource\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2000), hard))\n"
        "held = [os.dup(null) for _ in range(1500)]\n"
        f"program = start_program(('/bin/sh', '-c', 'sleep 60'), {ENV!r}, '/', (null,) * 3)\n"
        "program.end()\n"
        "print(program.poll())\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (ran.stdout, ran.stderr) == ("-9\n", "")


@on_linux
def test_python_wonders_at_nothing_when_we_end() -> None:
    """The door stays open until we are gone, and nobody is warned of a socket that was forgotten."""
    code = (
        STORY
        + (
            f"start_program(('/bin/sh', '-c', 'true'), {ENV!r}, '/', (null,) * 3).end()\n"
            "class Last:\n"
            "    def __init__(self):\n"
            "        import hookline.containment.processes.supervisor_client as supervisor_client\n"
            "        self.client = supervisor_client\n"
            "    def __del__(self):\n"
            "        vars(self.client).clear()\n"  # as at the end of a process that takes all modules apart
            "sys.last = Last()\n"
        )
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-X", "dev", "-c", code]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
