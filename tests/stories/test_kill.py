"""Runs that survive kill -9: real processes, real kills, and the file they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

SUPPORT = Path(__file__).parents[1] / "support"
EACH = 15
"""Deaths at each place, in each of two processes: 210 and more."""
EVERY = int(os.environ.get("HOOKLINE_KILL_EVERY", "13"))
"""The distance between two records at which a process is killed. HOOKLINE_KILL_EVERY=1 kills at each."""


@pytest.mark.timeout(900)
def test_no_death_loses_or_repeats_anything(tmp_path: Path) -> None:
    """In a model call, a hook, a tool, after its effect, in a commit, while a person is asked, and anywhere.

    No step is lost or settled twice, nothing that must run once happens twice, an idempotent call only with its
    own key, every transcript is valid, and every run finishes.
    """
    folders = [tmp_path / "one", tmp_path / "two"]
    running = []
    for seed, folder in enumerate(folders):
        folder.mkdir()
        command = [sys.executable, str(SUPPORT / "mortal.py"), str(folder), str(seed), str(EACH)]
        running.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    reports = [_report(process) for process in running]
    assert [report["wrong"] for report in reports] == [[], []]
    for report in reports:
        assert min(report["deaths"].values()) >= EACH, report["deaths"]
        assert len(report["deaths"]) == 7
        assert "no damage" in report["journal"]
    assert sum(sum(report["deaths"].values()) for report in reports) >= 200


@pytest.mark.timeout(3600)
def test_no_kill_at_a_record_or_a_commit_loses_or_repeats_anything(tmp_path: Path) -> None:
    """Of tools, parallel calls, approvals, children, sessions, hooks around steps and retries.

    The first kill is at a known record or commit, and a second one somewhere after it. The run ends, no effect is
    missing or there twice, no more calls are in doubt than were running, and the record replays.
    """
    command = [sys.executable, str(SUPPORT / "kill_everywhere.py"), str(tmp_path), str(EVERY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    assert [words for each in report.values() for words in each["wrong"]] == [], done.stderr
    assert len(report) == 11
    assert min(each["deaths"] for each in report.values()) >= 60 // EVERY


@pytest.mark.timeout(3600)
def test_no_kill_loses_or_repeats_anything_in_postgresql(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """The same runs, killed at fewer places."""
    command = [sys.executable, str(SUPPORT / "kill_everywhere.py"), str(tmp_path), "30"]
    database = {**os.environ, "HOOKLINE_DATABASE_URL": postgres.url()}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=database)
    report: dict[str, Any] = json.loads(done.stdout)
    assert [words for each in report.values() for words in each["wrong"]] == [], done.stderr
    assert len(report) == 11
    assert min(each["deaths"] for each in report.values()) >= 2


def _report(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    report: dict[str, Any] = json.loads(out.splitlines()[-1])
    report["wrong"] += err.splitlines()
    return report


HOLDER = """
import asyncio, sys
from hookline import AgentBuilder
from hookline.journal import SQLiteJournal
from hookline.testing import ScriptedDriver, call, say

async def hold() -> str:
    '''Hold on.'''
    print("holding", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return "held"

driver = ScriptedDriver([call("hold"), say("done")])
agent = AgentBuilder().with_driver(driver).with_tools(hold).with_journal(SQLiteJournal(sys.argv[1])).build()
print(asyncio.run(agent.run("go", run_id="run")).status.value, flush=True)
"""

TAKER = """
import asyncio, sys
from hookline import AgentBuilder
from hookline.errors import RunInUseError
from hookline.journal import SQLiteJournal
from hookline.testing import ScriptedDriver, say

async def hold() -> str:
    '''Hold on.'''
    return "held"

driver = ScriptedDriver([say("done")])
agent = AgentBuilder().with_driver(driver).with_tools(hold).with_journal(SQLiteJournal(sys.argv[1])).build()
try:
    print(asyncio.run(agent.resume("run")).steps[0].results[0].status.value)
except RunInUseError as error:
    print(f"refused: {error}")
"""


def test_a_second_process_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    """One works, the other's error names the holder; the lease of a dead holder is taken over at once."""
    path = str(tmp_path / "runs.db")
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], **pipes)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holding\n"

    def take() -> str:
        taken = subprocess.run(
            [sys.executable, "-c", TAKER, path], capture_output=True, text=True, check=True
        )
        return taken.stdout.strip()

    refused = take()
    assert refused.startswith("refused: ")
    assert str(holder.pid) in refused
    holder.kill()
    holder.communicate()
    assert take() == "in_doubt"


FIVE = """
import asyncio, os, signal, sys
from hookline import AgentBuilder, tool
from hookline.journal import SQLiteJournal
from hookline.testing import ScriptedDriver, call, calls, say

path, option, last = sys.argv[1:]
dies = os.path.exists(path) is False

@tool(**eval(option))
async def pay(amount: int) -> str:
    '''Pay.'''
    if dies and amount == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {amount}"

turns = [calls(*[call("pay", amount=number) for number in range(1, 6)])] if dies else []
agent = (
    AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(pay)
    .with_journal(SQLiteJournal(path)).build()
)
if dies:
    asyncio.run(agent.run("go", run_id="run"))
else:
    result = asyncio.run(agent.resume("run"))
    print(*[each.status.value for each in result.steps[0].results])
"""


@pytest.mark.parametrize(
    ("option", "dies_in", "statuses"),
    [
        ("{'alone': True}", 1, "in_doubt ok ok ok ok"),
        ("{'alone': True}", 4, "ok ok ok in_doubt ok"),
        ("{'concurrency': 1}", 2, "ok in_doubt ok ok ok"),
        ("{'concurrency': 2}", 1, "in_doubt in_doubt ok ok ok"),
        ("{}", 1, "in_doubt in_doubt in_doubt in_doubt in_doubt"),
    ],
)
def test_only_calls_that_had_started_are_in_doubt(
    option: str, dies_in: int, statuses: str, tmp_path: Path
) -> None:
    """A call that waits for others to end, or for a place, has no intent yet, and runs when the run is resumed."""
    command = [sys.executable, "-c", FIVE, str(tmp_path / "runs.db"), option, str(dies_in)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -9
    resumed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert resumed.stdout.strip() == statuses
