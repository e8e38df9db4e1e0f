"""What the command costs before it does anything: the CPU of fresh processes, to the first step and to the end.

    python benchmarks/startup.py              # medians of 15
    python benchmarks/startup.py --check      # exit code 1 where a goal is missed

The package must have its bytecode, as pip installs it: without (PYTHONDONTWRITEBYTECODE, and a source tree that has
none yet) every start compiles every module anew.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

PROGRAM = [
    sys.executable,
    "-P",
    "-c",
    "import sys; from hookline.cli import main; sys.exit(main())",
]
GOALS = {"--version": 0.15, "first step": 0.4, "first step, configured": 0.4}
"""Seconds of CPU."""
CONFIG = """
[limits]
steps = 20
[approvals]
deny = ["read(.env)"]
[[hooks]]
on = "before_tool_use"
match = "bash(git push *)"
do = "ask"
reason = "others see it"
"""
TURNS = [{"call": "list", "args": {}}, {"say": "Listed."}]


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="CPU of the command's start.")
    parser.add_argument("-n", "--samples", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit code 1 where a goal is missed")
    arguments = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, sample in measurements(Path(folder)).items():
            sample()  # the first writes bytecode, and fills the caches of the file system
            times = sorted(sample() for _ in range(arguments.samples))
            median, goal = statistics.median(times), GOALS.get(name)
            told = f", goal {goal:.2f}" if goal else ""
            print(
                f"{name:<24} {median:.3f} s CPU (least {times[0]:.3f}, most {times[-1]:.3f}{told})"
            )
            missed += [name] if goal and median > goal else []
    return 1 if missed and arguments.check else 0


def measurements(folder: Path) -> dict[str, Callable[[], float]]:
    """What is measured, and how."""
    plain, configured = folder / "plain", folder / "configured"
    for each in (plain, configured):
        each.mkdir()
    (configured / "hookline.toml").write_text(CONFIG, encoding="utf-8")
    script = folder / "turns.json"
    script.write_text(json.dumps(TURNS), encoding="utf-8")
    home = folder / "home"
    run = ["run", "--model", f"script:{script}", "--json", "Look around."]
    found: dict[str, Callable[[], float]] = {
        "python alone": lambda: whole([sys.executable, "-c", "pass"], plain, home),
        "--version": lambda: whole([*PROGRAM, "--version"], plain, home),
    }
    for name, place in (("", plain), (", configured", configured)):
        if Path("/proc/self/stat").exists():
            found[f"first step{name}"] = partial(first_step, run, place, home)
        found[f"whole run{name}"] = partial(whole, [*PROGRAM, *run], place, home)
    return found


def started(command: list[str], folder: Path, home: Path) -> subprocess.Popen[bytes]:
    """A process in a directory, for a user who has nothing yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**kept, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def whole(command: list[str], folder: Path, home: Path) -> float:
    """The CPU of a process and its children, from its start to its end."""
    process = started(command, folder, home)
    assert process.stdout is not None
    process.stdout.read()
    process.stdout.close()
    _pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def first_step(arguments: list[str], folder: Path, home: Path) -> float:
    """The CPU of a run and its children until the model has answered for the first time."""
    process = started([*PROGRAM, *arguments], folder, home)
    assert process.stdout is not None
    used = 0.0
    for line in process.stdout:
        if json.loads(line)["type"] == "response":
            used = used_by(process.pid)
            break
    process.stdout.read()
    process.stdout.close()
    process.wait()
    return used


def used_by(pid: int) -> float:
    """The CPU of a process that still runs, and of its children that have ended, in steps of a clock tick."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
