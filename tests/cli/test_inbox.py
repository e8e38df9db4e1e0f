"""`hookline approve` and `hookline cancel`, on runs that wait and on runs that another process drives."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from terminal import Terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="runs are leased on POSIX systems")

DESK = """
import asyncio, os, pathlib
from hookline import AgentBuilder, HookOutcome, tool
from hookline.testing import ScriptedDriver, call, say

here = pathlib.Path(__file__).parent

@tool(effect="idempotent")
async def pay(amount: int) -> str:
    "Pay."
    with (here / "paid").open("a") as file:
        print(amount, file=file)
    return f"paid {amount}"

@tool(effect="idempotent")
async def nap() -> str:
    "Wait for a long time."
    (here / "asked").touch()
    await asyncio.sleep(600)
    return "rested"

async def never(question):
    (here / "asked").touch()
    await asyncio.sleep(600)
    return True

class Model:
    "Says what belongs to the step, in every process."
    def __init__(self, *turns):
        self.turns = turns

    async def infer(self, request, turn):
        return await ScriptedDriver([self.turns[turn.state.step_count]]).infer(request, turn)

def builder(*turns):
    desk = AgentBuilder().with_driver(Model(*turns, say("Done."))).with_tools(pay, nap)
    return desk.on_before_tool_use(lambda ctx: HookOutcome.ask("money"), matcher="pay", name="cashier")

pausing = builder(call("pay", amount=5)).build
resting = builder(call("nap")).build
asking = builder(call("pay", amount=5)).with_approver(never).build
"""


class Desk:
    """An agent that pays, driven by one process, and the commands of another."""

    def __init__(self, place: Any) -> None:
        self.place = place
        place.write("desk.py", DESK)
        self.run = place.run

    @contextlib.contextmanager
    def start(self, agent: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that drives a run, which waits for somebody."""
        with subprocess.Popen(
            [*shlex.split(self.place.command), "run", f"desk:{agent}", "--no-input", "Pay."],
            cwd=self.place.project,
            env={**os.environ, **self.place.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                assert _until((self.place.project / "asked").exists)
                yield process
            finally:
                process.kill()

    @property
    def paid(self) -> list[str]:
        """What was paid."""
        file = self.place.project / "paid"
        return file.read_text().split() if file.exists() else []

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The records of the last run of one type."""
        lines = self.run("show", "--json").stdout.splitlines()
        return [record for line in lines if (record := json.loads(line))["type"] == kind]

    @property
    def question(self) -> str:
        """The question of the last run."""
        (asked,) = self.records("approval_asked")
        return str(asked["approval"]["id"])


def _until(holds: Callable[[], bool]) -> bool:
    for _ in range(600):
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def desk(place: Any) -> Desk:
    """A desk in a project of its own."""
    return Desk(place)


# --- a run that waits ---------------------------------------------------------------------------------


def test_what_waits_is_listed_and_answered(desk: Desk) -> None:
    """By the end of its id; the record says who answered, and the run continues with `resume`."""
    assert desk.run("run", "desk:pausing", "Pay.").returncode == 5
    listed = desk.run("approve")
    assert (listed.returncode, "asked by cashier: money" in listed.stdout) == (0, True)
    assert f"hookline approve {desk.question.split('/')[0]} {desk.question}" in listed.stdout
    given = desk.run("approve", "last", "call_1_1", "--by", "ann")
    assert (given.returncode, "hookline resume" in given.stdout) == (0, True), given
    assert desk.paid == []
    listed = desk.run("approve")
    assert ("answered: allow, by ann" in listed.stdout, "yes:" in listed.stdout) == (True, False)
    assert desk.run("resume", "last").stdout == "Done.\n"
    (answered,) = desk.records("approval_answered")
    assert (answered["by"], desk.paid) == ("inbox: ann", ["5"])
    nothing = desk.run("approve")
    assert nothing.stdout.startswith("nothing waits for an answer in run")


def test_the_same_answer_succeeds_and_another_is_an_error(desk: Desk) -> None:
    """Before the run takes it, and after."""
    desk.run("run", "desk:pausing", "Pay.")
    no = ("approve", "last", "call_1_1", "--deny", "--reason", "not today", "--by", "ann")
    assert desk.run(*no).returncode == 0
    first = "was answered already (deny) by ann: not today"
    for resumes in (True, False):
        assert desk.run(*no).returncode == 0
        other = desk.run("approve", "last", "call_1_1")
        assert (other.returncode, first in other.stderr) == (2, True), other
        if resumes:
            allowed = desk.run("resume", "last", "--allow", "all")
            assert (allowed.returncode, first in allowed.stderr) == (2, True), allowed
            assert desk.run("resume", "last").stdout == "Done.\n"
    assert desk.paid == []


def test_wrong_questions_are_reported_with_what_waits(desk: Desk) -> None:
    """Also a no without a question, and a reason without a no."""
    desk.run("run", "desk:pausing", "Pay.")
    for arguments, problem in (
        (["last", "other"], f"no question 'other' waits for an answer. Waiting: {desk.question}"),
        (["last", "--deny"], f"which question is denied? Waiting: {desk.question}"),
        (
            ["last", "call_1_1", "--reason", "x"],
            "--reason is for a denied call",
        ),
        (["nobody", "call_1_1"], "there is no run 'nobody'"),
    ):
        done = desk.run("approve", *arguments)
        assert problem in " ".join(done.stderr.split())
        assert done.returncode != 0
    assert desk.records("approval_answered") == []


def test_a_run_that_waits_is_cancelled(desk: Desk) -> None:
    """At once, by nobody but the command; there is nothing to cancel afterwards."""
    desk.run("run", "desk:pausing", "Pay.")
    done = desk.run("cancel", "last", "--by", "ann", "--reason", "wrong")
    assert (done.returncode, done.stdout.endswith("is over: cancelled.\n")) == (0, True), done
    assert "cancelled by ann: wrong" in desk.run("show").stdout
    again = desk.run("cancel", "last")
    assert (again.returncode, "there is nothing to cancel" in again.stderr) == (2, True)
    assert desk.paid == []


def test_cancelling_names_its_run(desk: Desk) -> None:
    """`hookline cancel` alone would end something that nobody named."""
    assert desk.run("cancel").returncode == 2


# --- a run that another process drives ----------------------------------------------------------------


@pytest.mark.parametrize("deny", [False, True])
def test_a_driven_run_is_answered_from_elsewhere(desk: Desk, *, deny: bool) -> None:
    """While its approver is asked: the process that drives it continues."""
    with desk.start("asking") as driver:
        done = desk.run("approve", "last", desk.question, *(["--deny"] if deny else []))
        assert (done.returncode, "answered" in done.stdout) == (0, True), done
        assert driver.wait(30) == 0
    (answered,) = desk.records("approval_answered")
    assert answered["by"].startswith("inbox: ")
    assert "@" in answered["by"]
    assert desk.paid == ([] if deny else ["5"])


@pytest.mark.parametrize("agent", ["resting", "asking"])
def test_a_driven_run_is_cancelled_from_elsewhere(desk: Desk, agent: str) -> None:
    """It waits for a tool or for a person; the command waits until it has ended."""
    with desk.start(agent) as driver:
        done = desk.run("cancel", "last", "--by", "ann")
        assert (done.returncode, "is over: cancelled" in done.stdout) == (0, True), done
        assert driver.wait(30) == 130
    posted, over = desk.records("status")[-1], desk.records("result")[-1]
    assert (over["status"], posted["reason"]) == ("cancelled", "cancelled by ann")
    assert desk.paid == []


def test_an_answer_survives_the_process_that_was_to_take_it(desk: Desk) -> None:
    """It is stopped, so that it cannot see the answer, and killed; the next process takes the answer."""
    with desk.start("asking") as driver:
        question = desk.question
        os.kill(driver.pid, signal.SIGSTOP)
        done = desk.run("approve", "last", question, "--by", "ann")
        assert "uses it when it asks again" in done.stdout
        driver.kill()
    assert desk.records("approval_answered") == []
    assert desk.run("resume", "last").returncode == 0
    (answered,) = desk.records("approval_answered")
    assert (answered["by"], desk.paid) == ("inbox: ann", ["5"])


def test_a_run_whose_process_died_is_cancelled(desk: Desk) -> None:
    """Nobody has to drive it for that."""
    with desk.start("resting") as driver:
        driver.kill()
    done = desk.run("cancel", "last")
    assert (done.returncode, "is over: cancelled" in done.stdout) == (0, True), done
    assert '"cancelled"' in desk.run("runs", "--json").stdout


def test_of_two_answers_from_two_processes_one_counts(desk: Desk) -> None:
    """The other process gets an error with the first answer."""
    desk.run("run", "desk:pausing", "Pay.")
    question = desk.question
    command = [*shlex.split(desk.place.command), "approve", "last", question]
    racing = [
        subprocess.Popen(
            [*command, *more],
            cwd=desk.place.project,
            env={**os.environ, **desk.place.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for more in (["--by", "ann"], ["--deny", "--by", "bob"])
    ]
    said = [process.communicate(timeout=60)[1] for process in racing]
    codes = [process.returncode for process in racing]
    assert sorted(codes) == [0, 2]
    first, words = (("ann", "allow"), said[1]) if codes[0] == 0 else (("bob", "deny"), said[0])
    assert f"was answered already ({first[1]}) by {first[0]}" in words
    assert desk.run("resume", "last").returncode == 0
    (answered,) = desk.records("approval_answered")
    assert (answered["decision"]["answer"], answered["by"]) == (first[1], f"inbox: {first[0]}")
    assert desk.paid == (["5"] if first[1] == "allow" else [])


# --- a person at a terminal ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["approve", "cancel"])
def test_a_question_at_a_terminal_is_left_when_it_is_answered_elsewhere(
    desk: Desk, command: str
) -> None:
    """The command that asks continues, and says who answered or cancelled."""
    terminal = Terminal("run", "desk:pausing", "Pay.", cwd=desk.place.project, env=desk.place.env)
    terminal.wait_for("? explain")
    given = [desk.question] if command == "approve" else []
    done = desk.run(command, "last", *given, "--by", "ann")
    assert done.returncode == 0, done
    terminal.wait_for("ann answered" if given else "ann cancelled the run")
    assert terminal.end() == (0 if given else 130), terminal.text
    assert desk.paid == (["5"] if given else [])
