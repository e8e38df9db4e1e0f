"""On the host: whatever a command does to get away, nothing of it is left when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_results import is_running

from hookline.containment import Sandbox
from hookline.containment.sandbox.running_command import RunningCommand
from hookline.errors import UsageError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")

ROOT = Path(__file__).resolve().parents[3]
_SIGNALS = 0x7FFFFFFF
"""Those that programs know of; the two that follow belong to the C library."""
LEAVES = {
    "another session": "setsid sleep {n} >/dev/null 2>&1 &",
    "no environment": "env -i setsid sleep {n} >/dev/null 2>&1 &",
    "no environment, and our output": "env -i setsid sleep {n} &",
    "no parent": "(env -i setsid sh -c 'sleep {n} & sleep {n}' >/dev/null 2>&1 &);",
}


@pytest.mark.parametrize("way", LEAVES)
@pytest.mark.parametrize("timeout", [None, 2.0])
def test_what_got_away_ends_with_the_command(
    tmp_path: Path, way: str, timeout: float | None
) -> None:
    """When it exits by itself, and when its time is over, and at once."""
    marker = f"41{os.getpid():07}"
    leave = LEAVES[way].format(n=marker)
    seen = Sandbox(tmp_path, "host").run_sync(
        f"{leave} echo started{'; sleep 60' if timeout else ''}", timeout=timeout
    )
    assert seen.text == "started\n"
    assert seen.ended == ("timeout" if timeout else "exited")
    assert not is_running(f"sleep {marker}")


@pytest.mark.parametrize(
    ("attack", "ended", "timeout"),
    [
        ("kill -STOP $PPID;", "timeout", 0.5),
        ("(while :; do kill -STOP $PPID; done) &", "timeout", 0.5),
        ("kill -KILL $PPID;", "exited", 30),
    ],
)
def test_a_command_that_attacks_its_supervisor_ends_all_the_same(
    tmp_path: Path, attack: str, ended: str, timeout: float
) -> None:
    """A supervisor that is stopped is woken; of one that is killed, the command is found by its mark."""
    marker = f"42{os.getpid():07}"
    seen = Sandbox(tmp_path, "host").run_sync(f"{attack} sleep {marker}", timeout=timeout)
    assert (seen.ended, seen.exit_code) == (ended, 137)
    assert not is_running(f"sleep {marker}")


def test_what_got_away_dies_with_us(tmp_path: Path) -> None:
    """When the process that started the command is killed, also what has no mark is gone."""
    marker = f"43{os.getpid():07}"
    code = f"""
import asyncio
from hookline.containment import Sandbox
from hookline.errors import UsageError
async def main():
    sandbox = Sandbox({str(tmp_path)!r}, "host")
    await sandbox.start("env -i setsid sleep {marker} & sleep 60", on_output=print)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", code], env=env) as owner:
        _wait_until(f"sleep {marker}", runs=True)
        owner.send_signal(signal.SIGKILL)
    _wait_until(f"sleep {marker}", runs=False)


def _inherited() -> int:
    """The signals that the starter of the tests ignores, as nohup does. Python itself ignores two."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    own = (1 << signal.SIGPIPE - 1) | (1 << signal.SIGXFSZ - 1)
    return int(line.split()[1], 16) & ~own


def test_a_program_is_run_as_if_nobody_stood_above_it(tmp_path: Path) -> None:
    """It has its session, no more open files than it should, and signals as they are by default."""
    show = (
        "import os, signal; print(os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/proc/self/fd')))[:-1], "
        "os.popen('yes | head -n 1').read().strip())"
    )
    ignored = "grep SigIgn /proc/self/status"
    sandbox = Sandbox(tmp_path, "host")
    assert sandbox.run_sync([sys.executable, "-I", "-c", show]).text == "True [0, 1, 2] y\n"
    signals = int(sandbox.run_sync(ignored).text.split()[1], 16) & _SIGNALS
    assert signals & ~_inherited() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the mark is there on Linux only")
def test_a_daemon_without_an_environment_does_not_outlive_a_killed_supervisor(
    tmp_path: Path,
) -> None:
    """Nothing is left of where it came from but a limit, which it does not know of."""
    marker = f"46{os.getpid():07}"
    daemon = f"(env -i setsid sh -c 'exec sleep {marker} <&- >&- 2>&-' &)"
    attack = f"{daemon}; sleep 0.3; kill -KILL $PPID; sleep {marker}"
    seen = Sandbox(tmp_path, "host").run_sync(attack, timeout=30)
    assert (seen.ended, seen.exit_code) == ("exited", 137)
    assert not is_running(f"sleep {marker}")


async def test_in_an_event_loop_it_has_to_be_awaited(tmp_path: Path) -> None:
    """`run_sync` is refused there, and the message says what to write."""
    with pytest.raises(UsageError, match=r"where an event loop runs\. Use `await sandbox\.run"):
        Sandbox(tmp_path, "host").run_sync("true")


async def test_many_at_once_do_not_end_each_other(tmp_path: Path) -> None:
    """One supervisor knows which process belongs to which command."""
    sandbox = Sandbox(tmp_path, "host")
    runs = (sandbox.run(f"sleep 0.{n}; echo {n}") for n in range(4))
    assert [each.text for each in await asyncio.gather(*runs)] == ["0\n", "1\n", "2\n", "3\n"]


def _wait_until(words: str, *, runs: bool) -> None:
    deadline = time.monotonic() + 20
    while is_running(words) is not runs:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_where_there_can_be_no_supervisor_a_command_is_ended_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a frozen program, which has no interpreter to run it with."""
    monkeypatch.setattr("hookline.containment.processes.supervisor_client._CODE", None)
    sandbox, marker = Sandbox(tmp_path, "host"), f"48{os.getpid():07}"
    assert sandbox.run_sync("echo ran").text == "ran\n"
    leave = f"sleep 0.5; (env -i setsid sleep {marker} &); sleep 60"
    late = sandbox.run_sync(leave, timeout=2)
    assert (late.ended, late.exit_code) == ("timeout", 137)
    assert not is_running(f"sleep {marker}")


def test_the_end_of_a_command_is_noticed_before_a_loop_closes(tmp_path: Path) -> None:
    """Also of one that is cancelled at its start: later nobody could notice it."""
    sandbox = Sandbox(tmp_path, "host")

    async def give_up() -> RunningCommand:
        return await sandbox.start("sleep 60", on_output=print)

    for _ in range(10):
        command = asyncio.run(give_up())
        assert command._process is not None
        assert command._process.returncode is not None


def test_an_invalid_grant_is_named(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(
        UsageError, match=r"grant=True is not a SandboxGrant\. For example: SandboxGrant"
    ):
        Sandbox(tmp_path, "host").run_sync("true", grant=True)  # type: ignore[arg-type]
