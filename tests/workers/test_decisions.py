"""Whether a worker drives a run is decided on what it reads under the claim, not on what it has read before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
import working_agents
from postgres_server import PostgresServer

from hookline import RunStatus
from hookline.journal import (
    ChildFinished,
    ChildStarted,
    MemoryJournal,
    Questions,
    Record,
    RunFinished,
    RunStarted,
    RunTakenUp,
    StepFinished,
    post_answer,
    reopen,
)
from hookline.journal.writer import RunClaim
from hookline.state import Decision, Step, StopReason
from hookline.workers import QueueJournal, Worker
from hookline.workers.base import is_stuck

Meanwhile = Callable[[], Awaitable[None]]


@pytest.fixture
async def elsewhere(postgres: PostgresServer, journal: QueueJournal) -> AsyncIterator[QueueJournal]:
    """The same journal, as another process has it."""
    async with QueueJournal(postgres.url(), schema=journal.database.schema) as other:
        yield other


def before_the_claim(
    journal: QueueJournal, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile
) -> None:
    """Let something happen once, when a run was read and before it is claimed."""
    claim, waiting = journal.claim, [meanwhile]

    async def claim_late(run_id: str) -> RunClaim:
        if waiting:
            await waiting.pop()()
        return await claim(run_id)

    monkeypatch.setattr(journal, "claim", claim_late)


async def answer(journal: QueueJournal) -> None:
    """Allow the call that run `r` asks about."""
    (question,) = (await Questions.read(journal, "r")).open
    await post_answer(journal, "r", question.id, Decision.allow(), by="ann")


async def test_a_run_that_another_worker_drove_meanwhile_is_not_driven_again(
    journal: QueueJournal, elsewhere: QueueJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its next answer: nothing is written, and no hook is asked."""
    agents = working_agents.make_agents(tmp_path)
    worker, other = Worker(journal, agents), Worker(elsewhere, agents)
    await journal.submit("asks", "Pay.", run_id="r")
    await worker._drive("r")
    await answer(journal)
    left = []

    async def drive() -> None:
        await other._drive("r")
        left.extend(await elsewhere.read("r"))

    before_the_claim(journal, monkeypatch, drive)
    await worker._drive("r")
    assert isinstance(left[-1], RunFinished)
    assert left[-1].status is RunStatus.PAUSED
    assert await journal.read("r") == left


async def test_attempts_that_another_worker_settled_meanwhile_fail_no_run(
    journal: QueueJournal, elsewhere: QueueJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has made a step since it was read. What did not, fails."""
    agents = working_agents.make_agents(tmp_path)
    worker, other = Worker(journal, agents, max_attempts=1), Worker(elsewhere, agents)
    await journal.submit("asks", "Pay.", run_id="r")
    await worker._drive("r")

    async def die() -> None:
        """Take the run up, and do nothing more."""
        durable = await reopen(elsewhere, "r", ())
        durable.append(RunTakenUp("r", len(durable.records), elsewhere.database.now()))
        await durable.commit()
        await durable.close()

    async def drive() -> None:
        await other._drive("r")

    await answer(journal)
    await die()
    before_the_claim(journal, monkeypatch, drive)
    await worker._drive("r")
    (info,) = await journal.runs()
    assert (info.status, info.steps) == (RunStatus.PAUSED, 1)
    await answer(journal)
    before_the_claim(journal, monkeypatch, die)
    await worker._drive("r")
    last = (await journal.read("r"))[-1]
    assert isinstance(last, RunFinished)
    assert (last.status, last.stop_reason) == (RunStatus.FAILED, StopReason.ATTEMPTS)


async def test_a_run_stays_with_the_version_that_took_it_up_meanwhile(
    journal: QueueJournal, elsewhere: QueueJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that does not accept it puts it where only those look that do."""
    old = working_agents.make_agents(tmp_path, "1")
    new = working_agents.make_agents(tmp_path, "2", accepts=["1"])
    worker, other = Worker(journal, old), Worker(elsewhere, new)
    await journal.submit("asks", "Pay.", run_id="r")
    await worker._drive("r")
    await answer(journal)

    async def drive() -> None:
        await other._drive("r")
        await answer(elsewhere)

    before_the_claim(journal, monkeypatch, drive)
    await worker._drive("r")
    records = await journal.read("r")
    drivers = [each.agent_version for each in records if isinstance(each, RunStarted | RunTakenUp)]
    assert drivers[-1] == "2"
    entries = await journal._find_entries(("ENQUEUED",), ["r"])
    assert "default/asks@2" in [each.queue for each in entries]


async def test_steps_of_a_child_count_as_those_of_the_run_that_waits_for_it() -> None:
    """A subagent may work for many deployments. A run that gets no further is stuck all the same."""
    parent, child, other = "r", "r/0/call/1", "r/0/call/2"
    begun = [RunStarted(parent, 0, 1.0), ChildStarted(parent, 1, 1.0, child_run_id=child)]
    taken_up = [RunTakenUp(parent, 2 + number, 10.0 + number) for number in range(5)]

    async def is_stuck_with(*steps: float, more: Sequence[Record] = ()) -> bool:
        journal = MemoryJournal()
        if steps:
            claim = await journal.claim(child)
            start = RunStarted(child, 0, 1.0, parent_run_id=parent)
            made = [StepFinished(child, n, at, step=Step(n)) for n, at in enumerate(steps, 1)]
            claim.write([start, *made])
            claim.give_back().result()
        return await is_stuck(journal, [*begun, *more, *taken_up], 5)

    assert not await is_stuck_with(2.0, 12.5)
    assert await is_stuck_with(2.0), "no step since it was first taken up again"
    assert await is_stuck_with(), "it has not begun"
    done = ChildFinished(parent, 9, 1.0, child_run_id=child)
    assert await is_stuck_with(2.0, 12.5, more=[done])
    unknown = ChildStarted(parent, 9, 1.0, child_run_id=other)
    assert not await is_stuck_with(2.0, 12.5, more=[unknown])
