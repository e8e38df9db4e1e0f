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

from hookline import AgentBuilder, HookOutcome, RunStatus, SQLiteJournal, ToolContext, tool
from hookline.agent import Agent
from hookline.definition import Doubt
from hookline.errors import JournalError
from hookline.journal import CallAdmitted, RunQueued, RunStarted, RunTakenUp
from hookline.journal.write_ahead_log import PAGE_SIZE
from hookline.lifecycle import SubagentHookContext
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
    """An agent that pays eight times; `who` does it: the `run` or a `child` of it.

    `then` is called after each payment, and with 0 before the child begins.
    """

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
            then(0)
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


def back_up(journal: SQLiteJournal, backup: Path) -> None:
    """Make a backup while a run is in a step: the event loop of the run is in use."""
    copying = threading.Thread(target=journal.backup_sync, args=(backup,))
    copying.start()
    copying.join()


def restore(backup: Path, path: Path) -> None:
    """Put a backup in the place of a closed journal. The file of last commits stays: it knows what was done later."""
    shutil.copyfile(backup, path)
    with SQLiteJournal(path) as journal, pytest.raises(JournalError, match="is lost"):
        journal.claim_sync("r")


def delete(journal: SQLiteJournal, ledger: Path) -> None:
    """The run is deleted when it has ended."""
    assert "r" in journal.prune_sync(keep=0)


def replace_by_others(journal: SQLiteJournal, ledger: Path) -> None:
    """It is deleted, and others get its number, and that of its child."""
    delete(journal, ledger)
    for run_id in ("other", "another"):
        journal.claim_sync(run_id).write([RunStarted(run_id, 0, 1.0, "agent", run_id)]).result()


def replace_by_itself(journal: SQLiteJournal, ledger: Path) -> None:
    """It is deleted, and another run gets its number and its id."""
    delete(journal, ledger)
    claim = journal.claim_sync("r")
    claim.write([RunStarted("r", 0, 1.0, "agent", "r")]).result()
    claim.give_back().result()


AFTERWARDS: dict[str, Callable[[SQLiteJournal, Path], None]] = {
    "ended": lambda journal, ledger: None,
    "deleted": delete,
    "replaced by others": replace_by_others,
    "replaced by itself": replace_by_itself,
}


@pytest.mark.parametrize("who", ["run", "child"])
@pytest.mark.parametrize("afterwards", AFTERWARDS.values(), ids=AFTERWARDS)
def test_a_restored_backup_pays_nothing_again(
    tmp_path: Path, who: str, afterwards: Callable[[SQLiteJournal, Path], None]
) -> None:
    """The file of last commits was left where it was, and knows what was done after the backup.

    Also when the run was deleted since, and when the backup is restored a second and a third time.
    """
    path, ledger, backup = tmp_path / "journal.db", tmp_path / "ledger", tmp_path / "backup.db"

    def then(n: int) -> None:
        if n == 3:
            back_up(journal, backup)

    with SQLiteJournal(path) as journal:
        payer(journal, ledger, who, then).run_sync("Pay.", run_id="r")
        afterwards(journal, ledger)
        assert str(journal.check_sync()).endswith("no damage")
    paid = ledger.read_text()
    for _ in range(2):
        restore(backup, path)
        with SQLiteJournal(path, accept_loss=True) as journal:
            assert "was missing" not in str(journal.check_sync())
    for _ in range(2):
        restore(backup, path)
        with SQLiteJournal(path, accept_loss=True) as journal:
            assert payer(journal, ledger, who).resume_sync("r").text == "done"
        assert ledger.read_text() == paid


def test_a_backup_that_is_restored_while_a_run_makes_up_for_it_pays_nothing_again(
    tmp_path: Path,
) -> None:
    """The run has made fewer steps since the loss was accepted than before it. The larger number counts."""
    path, ledger, backup = tmp_path / "journal.db", tmp_path / "ledger", tmp_path / "backup.db"

    def then(n: int) -> None:
        if n == 3:
            back_up(journal, backup)

    with SQLiteJournal(path) as journal:
        payer(journal, ledger, "run", then).run_sync("Pay.", run_id="r")
    paid = ledger.read_text()
    restore(backup, path)
    with SQLiteJournal(path, accept_loss=True) as journal:
        claim = journal.claim_sync("r")
        claim.write([RunTakenUp("r", len(journal.read_sync("r")), 1.0)]).result()
        claim.give_back().result()
    restore(backup, path)
    with SQLiteJournal(path, accept_loss=True) as journal:
        payer(journal, ledger, "run").resume_sync("r")
    assert ledger.read_text() == paid


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.PAUSED])
def test_a_run_that_waited_in_the_backup_pays_nothing_again(
    tmp_path: Path, status: RunStatus
) -> None:
    """What it did when it went on is lost."""
    path, ledger, backup = tmp_path / "journal.db", tmp_path / "ledger", tmp_path / "backup.db"

    def build(journal: SQLiteJournal) -> Agent:
        @tool
        def pay(n: int) -> str:
            """Pay."""
            with ledger.open("a") as file:
                file.write(f"{n}\n")
            return "paid"

        turns = [*(call("pay", n=n) for n in range(1, 5)), say("done")]
        builder = AgentBuilder().with_driver(ByStep(*turns)).with_tools(pay)
        if status is RunStatus.PAUSED:
            builder.on_before_tool_use(
                lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args["n"] == 2 else None,
                tier="policy",
                name="asks",
            )
        return builder.with_journal(journal).build()

    with SQLiteJournal(path) as journal:
        if status is RunStatus.PAUSED:
            (question,) = build(journal).run_sync("Pay.", run_id="r").pending
            answers = {question.id: True}
        else:
            claim = journal.claim_sync("r")
            queued = RunQueued("r", 0, 1.0, agent_id="agent", prompt="Pay.")
            claim.write([queued]).result()
            claim.give_back().result()
            answers = {}
        assert [each.status for each in journal.runs_sync()] == [status]
        journal.backup_sync(backup)
        assert build(journal).resume_sync("r", answers).text == "done"
    assert ledger.read_text() == "1\n2\n3\n4\n"
    restore(backup, path)
    with SQLiteJournal(path, accept_loss=True) as journal:
        result = build(journal).resume_sync("r", answers)
        while result.pending:  # whether to do again what is in doubt is asked too
            result = build(journal).resume_sync("r", {each.id: True for each in result.pending})
        assert result.text == "done"
    assert ledger.read_text() == "1\n2\n3\n4\n"


@pytest.mark.parametrize("has_lost", [True, False], ids=["lost", "kept"])
@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_a_child_that_was_sent_back_pays_nothing_again(
    tmp_path: Path, effect: Any, *, has_lost: bool
) -> None:
    """It had ended in the backup, and made more steps since. One that is sent back later for the first time pays."""
    path, ledger, backup = tmp_path / "journal.db", tmp_path / "ledger", tmp_path / "backup.db"
    ledger.touch()

    def build(journal: SQLiteJournal, *, sends_back: bool) -> Agent:
        @tool
        def pay(n: int) -> str:
            """Pay."""
            with ledger.open("a") as file:
                file.write(f"{n}\n")
            return "paid"

        turns = [call("pay", n=1), say("first"), call("pay", n=2), call("pay", n=3), say("second")]
        child = AgentBuilder().with_driver(ByStep(*turns)).with_tools(pay).build()

        @tool(effect=effect)
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(child, "Pay.")).text

        async def send_back(ctx: SubagentHookContext) -> HookOutcome | None:
            if ctx.result is None or ctx.result.text != "first":
                return None
            if not backup.exists():
                await journal.backup(backup)
            return HookOutcome.block("more") if sends_back else None

        builder = AgentBuilder().with_driver(ByStep(call("delegate"), say("done")))
        builder = builder.with_tools(delegate).with_journal(journal)
        builder.on_subagent_stop(send_back, name="sends back")
        return builder.build()

    with SQLiteJournal(path) as journal:
        build(journal, sends_back=has_lost).run_sync("Pay.", run_id="r")
    assert ledger.read_text() == ("1\n2\n3\n" if has_lost else "1\n")
    restore(backup, path)
    with SQLiteJournal(path, accept_loss=True) as journal:
        build(journal, sends_back=True).resume_sync("r")
    assert ledger.read_text() == "1\n2\n3\n"


# Accepts the loss, continues, and is killed when the child that begins again has made a step.
AGAIN = """
import os, sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
import test_accepted_loss
from hookline import SQLiteJournal

class Killing(test_accepted_loss.ByStep):
    async def infer(self, request, turn):
        if len(self.turns) == 9 and turn.state.step_count == 1:
            os.kill(os.getpid(), 9)
        return await super().infer(request, turn)

test_accepted_loss.ByStep = Killing
journal = SQLiteJournal(sys.argv[1], accept_loss=True)
test_accepted_loss.payer(journal, Path(sys.argv[2]), "child").resume_sync("r")
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_child_of_which_nothing_is_left_pays_nothing_again(
    tmp_path: Path, *, is_killed: bool
) -> None:
    """Its steps are not known. It begins again, and is in doubt also if a process is killed meanwhile."""
    path, ledger, backup = tmp_path / "journal.db", tmp_path / "ledger", tmp_path / "backup.db"

    def then(n: int) -> None:
        if n == 0:
            back_up(journal, backup)

    with SQLiteJournal(path) as journal:
        payer(journal, ledger, "child", then).run_sync("Pay.", run_id="r")
    paid = ledger.read_text()
    restore(backup, path)
    if is_killed:
        command = [sys.executable, "-c", AGAIN, path, ledger, Path(__file__).parent]
        assert subprocess.run(command, check=False).returncode == -9
    with SQLiteJournal(path, accept_loss=True) as journal:
        assert [each.steps for each in journal.runs_sync()] == [1, 0][not is_killed :]
        assert payer(journal, ledger, "child").resume_sync("r").text == "done"
    assert ledger.read_text() == paid
