"""A run whose journal lost its end: it is not resumed by itself, and once it is, nothing is done twice unasked."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, SQLiteJournal, ToolContext, tool
from hookline.agent import Agent
from hookline.definition import Doubt
from hookline.errors import JournalError
from hookline.journal import CallAdmitted, RunStarted, RunTakenUp
from hookline.journal.write_ahead_log import PAGE_SIZE
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, calls, say

# Drives a run of one step with two calls, and is killed when the first has run.
LIFE = """
import os, sys, time
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from test_accepted_loss import agent_of
from hookline import SQLiteJournal

def then():
    print("paid", flush=True)
    time.sleep(60)

agent_of(SQLiteJournal(sys.argv[1]), Path(sys.argv[2]), then).run_sync("Pay.", run_id="r")
"""


def agent_of(
    journal: SQLiteJournal,
    ledger: Path,
    then: Callable[[], object] = lambda: None,
    **options: Any,
) -> Agent:
    """An agent that pays once and looks something up."""

    @tool(alone=True)  # so that nothing is written while it runs
    def pay(amount: int) -> str:
        """Pay."""
        with ledger.open("a") as file:
            file.write(f"{amount}\n")
        then()
        return "paid"

    @tool(effect="pure")
    def look(place: str) -> str:
        """Look something up."""
        return f"seen {place}"

    turns = [calls(call("pay", amount=5), call("look", place="here")), say("done")]
    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(pay, look)
    return builder.with_journal(journal, **options).build()


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """The journal of a killed process, after the last commit was damaged: that the call was to run."""
    path = tmp_path / "journal.db"
    command = [sys.executable, "-c", LIFE, path, tmp_path / "ledger", Path(__file__).parent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as life:
        assert life.stdout is not None
        assert life.stdout.readline() == "paid\n"
        life.kill()
    log = path.with_name("journal.db-wal")
    content = bytearray(log.read_bytes())
    content[-100] ^= 1
    log.write_bytes(content)
    return path


async def test_a_run_is_not_resumed_when_the_end_of_its_journal_is_lost(
    lost: Path, tmp_path: Path
) -> None:
    """The error says what to do, and nothing runs."""
    async with SQLiteJournal(lost) as journal:
        assert not (await journal.check()).ok
        with pytest.raises(JournalError, match=r"is lost.*backup.*accept_loss"):
            await agent_of(journal, tmp_path / "ledger").resume("r")
    assert (tmp_path / "ledger").read_text() == "5\n"


async def test_after_an_accepted_loss_a_call_that_may_have_run_is_in_doubt(
    lost: Path, tmp_path: Path
) -> None:
    """Its intent is not on record; a call without an effect runs, and the record says why."""
    async with SQLiteJournal(lost, accept_loss=True) as journal:
        assert not any(isinstance(each, CallAdmitted) for each in await journal.read("r"))
        result = await agent_of(journal, tmp_path / "ledger").resume("r")
        assert (tmp_path / "ledger").read_text() == "5\n"
        paid, seen = result.steps[0].results
        assert paid.status is ResultStatus.IN_DOUBT
        assert "the end of the journal was lost" in paid.reason
        assert seen.result == "seen here"
        (taken_up,) = [each for each in await journal.read("r") if isinstance(each, RunTakenUp)]
        assert taken_up.after_loss
        assert (await journal.check()).ok


async def test_on_in_doubt_decides_after_a_loss_too(lost: Path, tmp_path: Path) -> None:
    """A function that knows that nothing was done lets the call run."""
    async with SQLiteJournal(lost, accept_loss=True) as journal:
        agent = agent_of(journal, tmp_path / "ledger", on_in_doubt=lambda doubt: Doubt.NOT_DONE)
        await agent.resume("r")
        assert (tmp_path / "ledger").read_text() == "5\n5\n"


async def test_a_new_run_after_a_loss_is_not_in_doubt(lost: Path, tmp_path: Path) -> None:
    """Nothing of it can have been lost."""
    async with SQLiteJournal(lost, accept_loss=True) as journal:
        result = await agent_of(journal, tmp_path / "ledger").run("Pay.", run_id="new")
        assert [each.status for each in result.steps[0].results] == [ResultStatus.OK] * 2
        assert isinstance((await journal.read("new"))[0], RunStarted)


# Drives a run of eight steps, each of which pays, in the run itself or in a child, and is killed in the last one. What
# was done before the step that is given, if one is, is in the database by then.
LONG_LIFE = """
import os, sqlite3, sys
sys.path.insert(0, sys.argv[4])
from pathlib import Path
from test_accepted_loss import payer
from hookline import SQLiteJournal

def then(n):
    if [str(n)] == sys.argv[5:]:
        sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint")
    if n == 8:
        os.kill(os.getpid(), 9)

payer(SQLiteJournal(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], then).run_sync("Pay.", run_id="r")
"""


class ByStep:
    """A model that answers by how far the conversation is, so that any process can continue with it."""

    def __init__(self, *turns: Any) -> None:
        self.turns = turns

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step."""
        return await ScriptedDriver([self.turns[turn.state.step_count]]).infer(request, turn)


def payer(
    journal: SQLiteJournal, ledger: Path, who: str, then: Callable[[int], object] = lambda n: None
) -> Agent:
    """An agent that pays eight times; `who` does it: the `run` or a `child` of it."""

    @tool
    def pay(n: int) -> str:
        """Pay."""
        with ledger.open("a") as file:
            file.write(f"{n}\n")
        then(n)
        return "paid"

    turns = [*(call("pay", n=n) for n in range(1, 9)), say("done")]
    builder = AgentBuilder().with_driver(ByStep(*turns)).with_tools(pay).with_limits(steps=40)
    if who == "child":
        child = builder.build()

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(child, "Pay.")).text

        driver = ByStep(call("delegate"), say("done"))
        builder = AgentBuilder().with_driver(driver).with_tools(delegate).with_limits(steps=40)
    return builder.with_journal(journal).build()


@pytest.mark.parametrize("who", ["run", "child"])
def test_no_step_that_may_have_been_made_pays_again(tmp_path: Path, who: str) -> None:
    """Steps that were lost as a whole are made again, and their calls may have run: of a child that is gone, all."""
    path, ledger = tmp_path / "journal.db", tmp_path / "ledger"
    command = [sys.executable, "-c", LONG_LIFE, path, ledger, who, Path(__file__).parent]
    assert subprocess.run(command, check=False).returncode == -9
    size = PAGE_SIZE + 24
    frames = (path.with_name("journal.db-wal").stat().st_size - 32) // size
    assert frames > 20
    paid = ledger.read_text()
    for number in range(frames // 2, frames, 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        for end in ("", "-wal", "-commits"):
            shutil.copyfile(f"{path}{end}", folder / f"journal.db{end}")
        log = folder / "journal.db-wal"
        content = bytearray(log.read_bytes())
        content[32 + number * size + 300] ^= 1
        log.write_bytes(content)
        with SQLiteJournal(folder / "journal.db", accept_loss=True) as journal:
            result = payer(journal, ledger, who).resume_sync("r")
            assert ledger.read_text() == paid, number
            assert result.text == "done"


@pytest.mark.parametrize("who", ["run", "child"])
def test_without_the_log_and_the_last_commits_every_step_may_have_been_made(
    tmp_path: Path, who: str
) -> None:
    """The database has three of eight steps, and nothing says how many there were. A new run is not in doubt."""
    path, ledger = tmp_path / "journal.db", tmp_path / "ledger"
    command = [sys.executable, "-c", LONG_LIFE, path, ledger, who, Path(__file__).parent, "3"]
    assert subprocess.run(command, check=False).returncode == -9
    paid = ledger.read_text()
    path.with_name("journal.db-wal").unlink()
    commits = path.with_name("journal.db-commits").read_bytes()
    for number, left in enumerate([b"", commits[:100], bytes(100) + commits[100:]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copyfile(path, folder / "journal.db")
        (folder / "journal.db-commits").write_bytes(left)
        with pytest.raises(JournalError, match=r"log.*is gone|is lost"):
            SQLiteJournal(folder / "journal.db").claim_sync("r")
        with SQLiteJournal(folder / "journal.db", accept_loss=True) as journal:
            assert payer(journal, ledger, who).resume_sync("r").text == "done"
            assert ledger.read_text() == paid, number
            if number == 0:
                payer(journal, tmp_path / "new", who).run_sync("Pay.")
                assert (tmp_path / "new").read_text() == paid


@pytest.mark.parametrize("who", ["run", "child"])
def test_a_restored_backup_pays_nothing_again(tmp_path: Path, who: str) -> None:
    """The file of last commits was left where it was, and knows what was done after the backup."""
    path, ledger = tmp_path / "journal.db", tmp_path / "ledger"
    backup = tmp_path / "backup.db"

    def make_backup(n: int) -> None:
        if n == 3:
            copying = threading.Thread(target=journal.backup_sync, args=(backup,))
            copying.start()
            copying.join()

    with SQLiteJournal(path) as journal:
        payer(journal, ledger, who, make_backup).run_sync("Pay.", run_id="r")
    paid = ledger.read_text()
    shutil.move(backup, path)
    with SQLiteJournal(path) as journal, pytest.raises(JournalError, match="is lost"):
        payer(journal, ledger, who).resume_sync("r")
    with SQLiteJournal(path, accept_loss=True) as journal:
        assert payer(journal, ledger, who).resume_sync("r").text == "done"
    assert ledger.read_text() == paid
