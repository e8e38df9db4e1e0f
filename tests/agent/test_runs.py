"""What an agent knows of its own runs, and what every way out of one does."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import Any

import pytest
from session_setup import SessionSetup

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    HookOutcome,
    RunStatus,
    StopReason,
    tool,
)
from hookline.agent.resume import SessionMembership
from hookline.errors import RunNotCompletedError, SessionError, UsageError
from hookline.journal import hooks_in
from hookline.testing import ScriptedDriver, call, say


def builder(*turns: Any) -> AgentBuilder:
    """An agent that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns))


def paying(*turns: Any) -> tuple[Agent, list[int]]:
    """An agent whose one tool pays, once, and asks first."""
    paid: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    agent = (
        builder(*turns)
        .with_tools(pay)
        .on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="careful")
        .build()
    )
    return agent, paid


def test_a_paused_step_is_resumed_once() -> None:
    """Its calls have run, so a second resume from the same result is refused and nothing is paid twice."""
    agent, paid = paying(call("pay", amount=5), say("done"), say("again"))
    paused = agent.run_sync("go", run_id="R")
    answers = {paused.pending[0].id: Decision.allow()}
    assert agent.resume_sync("R", answers).status is RunStatus.COMPLETED
    with pytest.raises(UsageError, match="resumed already"):
        agent.resume_sync(paused, answers)
    assert paid == [5]


def test_a_refused_resume_can_be_tried_again() -> None:
    """The run still waits, so it is still known, and the answer can be given again."""
    agent_paid: list[int] = []
    refuse = [True]

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        agent_paid.append(amount)
        return "paid"

    agent = (
        builder(call("pay", amount=5), say("done"))
        .with_tools(pay)
        .on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"))
        .on_execution_start(
            lambda ctx: HookOutcome.block("not now") if ctx.resumed and refuse else None
        )
        .build()
    )
    paused = agent.run_sync("go", run_id="R")
    answers = {paused.pending[0].id: True}
    refused = agent.resume_sync("R", answers)
    assert (refused.status, refused.stop_reason) == (RunStatus.PAUSED, StopReason.RUN_REFUSED)
    refuse.clear()
    assert agent.resume_sync("R", answers).status is RunStatus.COMPLETED
    assert agent_paid == [5]


def test_cancelling_from_many_threads_raises_nothing() -> None:
    """The book of runs is asked and written from any thread."""
    agent = builder(*[say("hi")] * 400).build()
    raised: list[BaseException] = []
    going = threading.Event()

    def run_many() -> None:
        try:
            for _ in range(60):
                agent.run_sync("go")
        except BaseException as error:
            raised.append(error)

    def cancel_many() -> None:
        try:
            while not going.is_set():
                agent.cancel("nope")
        except BaseException as error:
            raised.append(error)

    runners = [threading.Thread(target=run_many) for _ in range(4)]
    canceller = threading.Thread(target=cancel_many)
    for thread in (*runners, canceller):
        thread.start()
    for thread in runners:
        thread.join()
    going.set()
    canceller.join()
    assert raised == []


async def test_a_run_cancelled_before_it_began_keeps_the_reason() -> None:
    """Who said so, and why, is in the explanation."""
    agent = builder(say("hi")).build()
    assert agent.cancel("r1", "the user said so") == 0
    result = await agent.run("go", run_id="r1")
    assert result.status is RunStatus.CANCELLED
    assert "the user said so" in result.explain()


async def test_cancelling_in_the_last_step_cancels() -> None:
    """A cancellation before the end of the run takes effect."""
    agent = builder(say("hi")).on_after_step(lambda ctx: counts.append(agent.cancel())).build()
    counts: list[int] = []
    agent = (
        builder(say("hi"))
        .on_after_step(lambda ctx: counts.append(agent.cancel()) or None)  # type: ignore[func-returns-value]
        .build()
    )
    result = await agent.run("go")
    assert (counts, result.status) == ([1], RunStatus.CANCELLED)


async def test_cancelling_on_the_way_out_is_too_late_and_says_so() -> None:
    """Zero runs were still there to be cancelled, and the answer stands."""
    counts: list[int] = []
    agent = (
        builder(say("hi"))
        .on_execution_end(lambda ctx: counts.append(agent.cancel()) or None)  # type: ignore[func-returns-value]
        .build()
    )
    result = await agent.run("go")
    assert (counts, result.text, result.status) == ([0], "hi", RunStatus.COMPLETED)


async def test_breaking_out_of_a_stream_cancels_the_run() -> None:
    """The loop closes the iterator that nobody holds any more; the tool is cut off and execution_end runs."""
    finished: list[str] = []
    ended: list[RunStatus] = []

    @tool
    async def slow() -> str:
        """Never end."""
        await asyncio.Event().wait()
        finished.append("slow")
        return "done"

    agent = (
        builder(call("slow"), say("x"))
        .with_tools(slow)
        .on_execution_end(lambda ctx: ended.append(ctx.status))
        .build()
    )
    async for event in agent.stream("go"):
        if event.type == "call":
            break
    gc.collect()
    for _ in range(50):
        await asyncio.sleep(0)
    assert (finished, ended) == ([], [RunStatus.CANCELLED])


async def test_leaving_after_the_last_state_is_not_cancelling() -> None:
    """The run had ended by itself."""
    ended: list[RunStatus] = []
    agent = builder(say("hi")).on_execution_end(lambda ctx: ended.append(ctx.status)).build()
    stream = agent.iterate("go")
    async for _ in stream:
        break
    await stream.aclose()
    assert ended == [RunStatus.COMPLETED]


async def test_the_way_out_is_taken_even_if_the_task_is_cancelled_on_it(skip_time: Any) -> None:
    """session_end runs although the caller stopped waiting during execution_end."""
    seen: list[str] = []

    async def linger(ctx: Any) -> None:
        seen.append("execution_end")
        await asyncio.sleep(120)

    agent = (
        builder(say("hi"))
        .on_execution_end(linger)
        .on_session_end(lambda ctx: seen.append("session_end"))
        .build()
    )
    skipped = skip_time(60, lambda: bool(seen))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.run("go"), 60)
    await skipped
    assert seen == ["execution_end", "session_end"]


def test_stopping_at_the_start_takes_no_prompt() -> None:
    """Stop means now: the prompt is not shown to hooks and does not enter the conversation."""
    shown: list[str] = []
    agent = (
        builder(say("hi"))
        .on_execution_start(lambda ctx: HookOutcome.stop("closed"))
        .on_prompt_submit(lambda ctx: shown.append(ctx.prompt))
        .build()
    )
    result = agent.run_sync("go")
    assert (result.status, shown, len(result.state.messages)) == (RunStatus.STOPPED, [], 0)


def test_a_result_keeps_its_own_record() -> None:
    """What happened cannot be changed afterwards."""
    result = builder(say("hi")).build().run_sync("go")
    assert isinstance(result.records, tuple)
    assert result.records[-1].type == "result"


def test_a_named_session_is_not_ended_by_resuming_a_run_of_it() -> None:
    """Only a session of one run ends with it."""
    ended: list[str] = []

    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = (
        builder(call("pay"), say("done"))
        .with_tools(pay)
        .on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"))
        .on_session_end(lambda ctx: ended.append(ctx.session_id))
        .build()
    )
    paused = agent.run_sync("go", session="s")
    done = agent.resume_sync(paused, {paused.pending[0].id: True})
    assert (done.status, ended) == (RunStatus.COMPLETED, [])


def test_nothing_to_run_is_said() -> None:
    """Without a prompt and without a conversation there is no question to ask a model."""
    with pytest.raises(UsageError, match="nothing to run"):
        builder(say("hi")).build().run_sync()


def test_a_tool_that_exits_is_a_tool_that_failed() -> None:
    """A library that calls sys.exit inside a tool does not take the run with it."""
    ended: list[RunStatus] = []

    @tool
    def leave() -> str:
        """Leave."""
        sys.exit(3)

    agent = (
        builder(call("leave"), say("still here"))
        .with_tools(leave)
        .on_execution_end(lambda ctx: ended.append(ctx.status))
        .build()
    )
    result = agent.run_sync("go")
    assert (result.text, ended) == ("still here", [RunStatus.COMPLETED])
    assert "SystemExit" in str(result.steps[0].results[0].error)


# --- runs of sessions that are kept in the journal go through the session -----------------------


@pytest.fixture
def setup() -> SessionSetup:
    """A journal without sessions."""
    return SessionSetup()


async def test_a_session_says_whether_a_run_starts_it(setup: SessionSetup) -> None:
    """Whatever the state knows of sessions."""
    agent = setup.agent(say("a"), say("b"), say("c"))
    first = await agent.run("one", session=SessionMembership("s", "fork"))
    await agent.run("two", session=SessionMembership("s"), state=first.state)
    await agent.run("three", session=SessionMembership("s", "clear"), state=first.state)
    assert setup.seen == ["start s fork", "start s clear"]


async def test_runs_beside_a_session_are_refused_under_its_name(setup: SessionSetup) -> None:
    """An agent's `session=` is for those who keep the state themselves."""
    session = await setup.sessions.create(id="s")
    agent = setup.agent(say("a"))
    with pytest.raises(UsageError, match=r"Sessions\(journal\)\.get\('s'\)\.run\(agent, prompt\)"):
        await agent.run("go", session="s")
    for run_id in ("session/s", "r/0/call_1_1/1"):
        with pytest.raises(UsageError, match="ids with a slash are those of child runs and sess"):
            await agent.run("go", run_id=run_id)
        with pytest.raises(UsageError, match="ids with a slash"):
            await session.run(agent, "go", run_id=run_id)
    assert (await agent.run("go", session="other")).state.session_id == "other"
    assert (await session.refresh()).version == 1
    assert not setup.journal.claimed


async def test_a_run_of_a_suspended_session_is_not_resumed_beside_it(setup: SessionSetup) -> None:
    """Not by its id, and not by its state."""
    session = await setup.sessions.create(id="s")
    paused = await session.run(setup.agent(call("pay", amount=5)), "pay")
    answers = {paused.pending[0].id: True}
    await session.suspend()
    agent = setup.agent(say("done"))
    for run in ("s-1", paused, paused.state):
        with pytest.raises(SessionError, match="is suspended"):
            await agent.resume(run, answers)
    assert (setup.paid, setup.journal.claimed) == ([], set())


async def test_a_run_of_a_session_continues_in_the_session(setup: SessionSetup) -> None:
    """Beside it nobody would be kept off the session, and one that was left behind could still act."""
    session = await setup.sessions.create(id="s")
    paused = await session.run(setup.agent(call("pay", amount=5)), "pay")
    answers = {paused.pending[0].id: True}
    agent = setup.agent(say("done"))
    with pytest.raises(UsageError, match=r"get\('s'\)\.resume_run\(agent, decisions\)"):
        await agent.resume("s-1", answers)
    assert (setup.paid, setup.journal.claimed) == ([], set())
    assert (await session.resume_run(agent, answers)).text == "done"
    assert (await agent.resume("s-1")).text == "done"  # what is over can be looked at anywhere


# --- no silent failure ----------------------------------------------------------------------------------


async def test_a_completed_run_gives_itself() -> None:
    """`(await agent.run(...)).raise_for_status().text` is the answer, or an exception."""
    result = await builder(say("hi")).build().run("go")
    assert result.raise_for_status() is result


async def test_every_other_status_is_raised_with_the_reason_and_the_hook() -> None:
    """The exception has the result, and the failure of a failed run is its cause."""
    stopped = builder(say("hi")).on_before_step(lambda ctx: HookOutcome.block("no"), name="door")
    failed = builder(RuntimeError("the model is gone"))
    paused = builder(call("look")).with_tools(
        tool(lambda: "seen", name="look", description="Look.")
    )
    paused.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="asker")
    for agent, words in (
        (stopped, ("no", "'door'")),
        (failed, ("the model is gone",)),
        (paused, ("'asker' asked about look: sure?",)),
    ):
        result = await agent.build().run("go")
        with pytest.raises(RunNotCompletedError) as raised:
            result.raise_for_status()
        assert all(word in str(raised.value) for word in words)
        assert (raised.value.result, raised.value.__cause__) == (result, result.error)
        assert all(word in str(result) for word in (result.status, *words))


def crashing(ctx: Any) -> None:
    """A hook with a bug."""
    raise ValueError("a bug in a hook")


async def test_the_record_says_where_a_hook_crashed() -> None:
    """File, line and code are in the record of the hook, without our own frames above it."""
    result = await builder(say("hi")).on_before_step(crashing).build().run("go")
    (ran,) = [ran for ran in hooks_in(result.records) if ran.verdict == "failed"]
    assert "test_runs.py" in ran.traceback
    assert 'raise ValueError("a bug in a hook")' in ran.traceback
    assert "hooks/run.py" not in ran.traceback


async def test_a_failing_observer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It changes nothing about the run, and somebody gets to know of it."""
    agent = builder(say("hi")).on_before_step(crashing, name="counter", tier="observer")
    result = await agent.build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert "observer hook 'counter' at before_step: ValueError: a bug in a hook" in caplog.text


@pytest.mark.parametrize("point", ["error", "agent_failed", "execution_end", "session_end"])
def test_a_hook_that_fails_where_the_result_does_not_say_so_is_logged(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as an error hook whose answer cannot be used: the result has the error that it was asked about."""

    def wrong(ctx: Any) -> HookOutcome:
        return HookOutcome.block("no")

    result = builder(RuntimeError("the model is gone")).add_hook(point, wrong).build().run_sync("x")
    assert str(result.error) == "the model is gone"
    assert f"hook 'wrong' at {point}: nothing can be blocked here" in caplog.text
    raised = next(each for each in result.records if each.type == "error")
    assert ("hook 'wrong' at error" in raised.reason) is (point == "error")
