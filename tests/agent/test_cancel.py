from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from plain_store import PlainStore

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunStatus,
    StopReason,
    ToolContext,
)
from hookline.errors import RateLimitError
from hookline.journal import Record, RunFinished, hooks_in
from hookline.state import InferenceRequest, InferenceResponse, ResultStatus, check_transcript
from hookline.testing import ScriptedDriver, call, calls, say


class Hangs:
    """A driver that never answers, and notes when it is interrupted."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.interrupted = False

    async def infer(self, request: InferenceRequest, turn: Any) -> InferenceResponse:
        self.asked.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.interrupted = True
            raise
        return InferenceResponse("never")


class Work:
    """A tool that never ends by itself, and a list of what happened."""

    def __init__(self, expected: int = 1) -> None:
        self.log: list[str] = []
        self.started = asyncio.Event()
        self.expected = expected

    def tools(self) -> tuple[Any, ...]:
        async def hang(n: int = 0) -> str:
            """Hang."""
            self.log.append(f"start {n}")
            if sum(line.startswith("start") for line in self.log) == self.expected:
                self.started.set()
            try:
                await asyncio.sleep(60)
            finally:
                self.log.append(f"cleanup {n}")
            return "never"

        async def quick(n: int = 0) -> str:
            """Be quick."""
            self.log.append(f"quick {n}")
            return "done"

        return hang, quick


def noting(agent: AgentBuilder, log: list[str]) -> AgentBuilder:
    """The builder with hooks that note each way out."""
    for point in (
        "after_tool_use",
        "after_step",
        "execution_end",
        "session_end",
        "error",
        "output",
    ):
        agent.add_hook(point, lambda ctx: log.append(ctx.point.value), name=f"note-{point}")
    return agent


async def cancelled(task: asyncio.Task[Any]) -> Any:
    """The result of a run that must not have raised, and must not have left its task half cancelled."""
    result = await asyncio.wait_for(task, 60)
    assert result.status is RunStatus.CANCELLED
    assert result.stop_reason is StopReason.CANCELLED
    check_transcript(result.state.messages)
    assert AgentState.from_json(result.state.to_json()) == result.state
    return result


def start(agent: Agent, **keywords: Any) -> asyncio.Task[Any]:
    """The run in a task of its own, which checks that it leaves no cancellation behind."""

    async def main() -> Any:
        result = await agent.run("go", **keywords)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return result

    return asyncio.create_task(main())


# --- when ---------------------------------------------------------------------------------------------


async def test_a_run_cancelled_before_it_starts_makes_no_step() -> None:
    """Named early, it ends as soon as it begins, and its way out is taken."""
    log: list[str] = []
    agent = noting(AgentBuilder().with_driver(ScriptedDriver([])), log).build()
    assert agent.cancel("later", "not needed") == 0
    result = await cancelled(start(agent, run_id="later"))
    assert (result.state.step_count, log) == (0, ["execution_end", "session_end"])


async def test_a_coroutine_that_is_cancelled_before_it_runs_still_ends_well() -> None:
    """A run that exists and has not begun can be cancelled like any other."""
    agent = AgentBuilder().with_driver(ScriptedDriver([])).build()
    coroutine = agent.run("go", run_id="r")
    assert agent.cancel("r") == 1
    assert (await coroutine).status is RunStatus.CANCELLED


async def test_cancelling_during_a_model_call_interrupts_it() -> None:
    """The driver is interrupted, the step is settled, and the hooks after it run."""
    log: list[str] = []
    driver = Hangs()
    agent = noting(AgentBuilder().with_driver(driver), log).build()
    task = start(agent, run_id="r")
    await driver.asked.wait()
    assert agent.cancel("r", "user pressed stop") == 1
    result = await cancelled(task)
    assert driver.interrupted
    assert log == ["after_step", "execution_end", "session_end"]
    assert result.explain() == "cancelled after 1 step: cancelled (user pressed stop)"
    assert [message.text for message in result.state.messages] == ["go"]


async def test_cancelling_during_tools_gives_every_call_its_result() -> None:
    """Those that ran keep theirs, those that were running are in doubt, and their clean-up has run."""
    work = Work(2)
    log = work.log
    batch = calls(call("hang", n=1), call("quick", n=2), call("hang", n=3))
    agent = AgentBuilder().with_driver(ScriptedDriver([batch])).with_tools(*work.tools())
    built = noting(agent, log).build()
    task = start(built, run_id="r")
    await work.started.wait()
    built.cancel("r")
    result = await cancelled(task)
    assert [each.status.value for each in result.steps[0].results] == [
        "cancelled",
        "ok",
        "cancelled",
    ]
    assert set(log[:3]) == {"start 1", "quick 2", "start 3"}
    assert set(log[3:5]) == {"cleanup 1", "cleanup 3"}
    assert log[5:] == [*["after_tool_use"] * 3, "after_step", "execution_end", "session_end"]
    assert result.steps[0].outcome.stop_reason is StopReason.CANCELLED


async def test_cancelling_a_single_call_is_the_same() -> None:
    """One call runs in the run's own task; it ends the same way."""
    work = Work()
    agent = AgentBuilder().with_driver(ScriptedDriver([call("hang")])).with_tools(*work.tools())
    built = agent.build()
    task = start(built, run_id="r")
    await work.started.wait()
    built.cancel("r")
    result = await cancelled(task)
    assert result.steps[0].results[0].status is ResultStatus.CANCELLED
    assert "what it did is not known" in result.state.messages[-1].text


async def test_calls_that_had_not_started_are_not_run() -> None:
    """A tool that wants to be alone keeps the others waiting; cancelled, they never start."""
    from hookline import tool

    work = Work()
    hang, quick = work.tools()
    alone = tool(hang, name="alone", alone=True)
    batch = calls(call("alone", n=1), call("quick", n=2))
    agent = AgentBuilder().with_driver(ScriptedDriver([batch])).with_tools(alone, quick).build()
    task = start(agent, run_id="r")
    await work.started.wait()
    agent.cancel("r")
    result = await cancelled(task)
    assert [each.status.value for each in result.steps[0].results] == ["cancelled", "not_run"]
    assert work.log == ["start 1", "cleanup 1"]


@pytest.mark.parametrize(
    "point",
    "execution_start prompt_submit before_step before_inference after_inference before_tool_use "
    "after_tool_use after_step should_continue output".split(),
)
async def test_a_hook_may_cancel_its_own_run(point: str) -> None:
    """From any point, the run ends at the next place where it can."""
    ran: list[int] = []

    async def work(n: int) -> int:
        """Work."""
        ran.append(n)
        return n

    ends: list[Any] = []
    built: list[Agent] = []
    turns = [call("work", n=1), say("never")] if point != "output" else [say("never")]
    agent = AgentBuilder().with_driver(ScriptedDriver(turns))
    agent.with_tools(work).on_execution_end(lambda ctx: ends.append(ctx.status))
    agent.add_hook(point, lambda ctx: built[0].cancel(ctx.state.run_id) and None)
    built.append(agent.build())
    result = await cancelled(start(built[0]))
    assert ends == [RunStatus.CANCELLED]
    late = ("after_tool_use", "after_step", "should_continue")
    assert ran == ([1] if point in late else [])
    asked = any(record.type == "request" for record in result.records)
    assert asked is (point in ("after_inference", "before_tool_use", "output", *late))
    assert result.state.step_count == (
        0 if point in ("execution_start", "prompt_submit") else 1
    ) or (point == "before_step")


@pytest.mark.parametrize(
    "point",
    "execution_start prompt_submit before_step before_inference after_inference before_tool_use "
    "permission_request after_tool_use after_step should_continue stop output error "
    "around_inference around_tool_use".split(),
)
async def test_cancelling_while_a_hook_is_waiting_interrupts_the_hook(point: str) -> None:
    """Wherever it waits, it is interrupted, which is on record, and the run takes its way out."""
    waiting = asyncio.Event()
    ends: list[Any] = []

    async def wait(ctx: Any, *_: Any) -> None:
        waiting.set()
        await asyncio.sleep(60)

    async def work() -> str:
        """Work."""
        return "done"

    first = RateLimitError("slow") if point == "error" else call("work")
    turns = [say("done")] if point in ("stop", "output") else [first, say("done")]
    agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(work)
    agent.add_hook(point, wait).on_execution_end(lambda ctx: ends.append(ctx.status))
    if point == "permission_request":
        agent.on_before_tool_use(lambda ctx: HookOutcome.ask("?"))
    built = agent.build()
    task = start(built, run_id="r")
    await waiting.wait()
    assert built.cancel("r", "enough") == 1
    result = await cancelled(task)
    assert (ends, result.text) == ([RunStatus.CANCELLED], "")
    assert "enough" in result.explain()
    (cut,) = [ran for ran in hooks_in(result.records) if ran.hook == "wait"]
    assert (cut.verdict, cut.reason) == ("failed", "it was cancelled while it waited.")
    assert cut.error is not None
    assert cut.error.type.endswith("CancelledError")
    kinds = [record.type for record in result.records]
    assert kinds.count("step_started") == kinds.count("step")


async def test_a_result_whose_hooks_were_interrupted_is_withheld() -> None:
    """Nobody has cleared it, so it enters neither conversation nor step; the hook is not asked again."""
    asked: list[int] = []
    waiting = asyncio.Event()

    async def redact(ctx: Any) -> None:
        asked.append(1)
        waiting.set()
        await asyncio.sleep(60)

    async def secret() -> str:
        """Report it."""
        return "hunter2"

    agent = AgentBuilder().with_driver(ScriptedDriver([call("secret")])).with_tools(secret)
    built = agent.on_after_tool_use(redact).build()
    task = start(built, run_id="r")
    await waiting.wait()
    built.cancel("r")
    result = await cancelled(task)
    assert (asked, result.steps[0].results[0].status) == ([1], ResultStatus.WITHHELD)
    assert "hunter2" not in result.state.to_json()


async def test_cancelling_while_the_hooks_of_a_lost_run_are_called() -> None:
    """The error hook is interrupted; the way out is taken all the same."""
    waiting = asyncio.Event()
    ends: list[Any] = []

    def crash(ctx: Any) -> None:
        raise RuntimeError("lost")

    async def wait(ctx: Any) -> None:
        waiting.set()
        await asyncio.sleep(60)

    agent = AgentBuilder().with_driver(ScriptedDriver([])).on_execution_start(crash)
    agent.on_error(wait).on_execution_end(lambda ctx: ends.append(ctx.status))
    built = agent.build()
    task = start(built, run_id="r")
    await waiting.wait()
    built.cancel("r")
    await cancelled(task)
    assert ends == [RunStatus.CANCELLED]


async def test_cancelling_during_back_off_ends_the_wait() -> None:
    """Nobody sits out a minute's delay first."""
    agent = AgentBuilder().with_driver(ScriptedDriver([RateLimitError("slow", retry_after=60)]))
    heard = asyncio.Event()
    built = agent.on_error(lambda ctx: heard.set()).build()
    task = start(built, run_id="r")
    await heard.wait()
    built.cancel("r")
    await cancelled(task)


@pytest.mark.parametrize("point", ["execution_end", "session_end"])
async def test_a_hook_that_raises_a_cancellation_on_the_way_out_does_not_cost_the_result(
    point: str,
) -> None:
    """The run was cancelled, and not the task: whoever waits for the run gets its result."""

    async def raise_it(ctx: Any) -> None:
        raise asyncio.CancelledError

    driver = Hangs()
    agent = AgentBuilder().with_driver(driver).add_hook(point, raise_it).build()
    task = start(agent, run_id="run")
    await driver.asked.wait()
    agent.cancel("run")
    await cancelled(task)


async def test_a_run_on_its_way_out_is_not_interrupted() -> None:
    """What was decided is decided: cancelling during execution_end changes nothing."""
    waiting = asyncio.Event()
    log: list[str] = []

    async def save(ctx: Any) -> None:
        waiting.set()
        await asyncio.sleep(0.01)
        log.append("saved")

    built = AgentBuilder().with_driver(ScriptedDriver([say("hi")])).on_execution_end(save).build()
    task = start(built, run_id="r")
    await waiting.wait()
    built.cancel("r")
    result = await task
    assert (result.status, result.text, log) == (RunStatus.COMPLETED, "hi", ["saved"])


# --- how ----------------------------------------------------------------------------------------------


async def test_cancelling_works_from_another_thread() -> None:
    """A signal handler or a web server may do it."""
    driver = Hangs()
    agent = AgentBuilder().with_driver(driver).build()
    task = start(agent, run_id="r")
    await driver.asked.wait()
    thread = threading.Thread(target=lambda: agent.cancel("r", "from a thread"))
    thread.start()
    result = await cancelled(task)
    thread.join()
    assert "from a thread" in result.explain()


async def test_cancelling_works_from_inside_a_tool() -> None:
    """Sync tools run in threads of their own."""
    built: list[Agent] = []

    def abort() -> str:
        """Abort."""
        built[0].cancel(reason="the tool said so")
        return "aborted"

    agent = AgentBuilder().with_driver(ScriptedDriver([call("abort"), say("never")]))
    built.append(agent.with_tools(abort).build())
    result = await cancelled(start(built[0]))
    assert "the tool said so" in result.explain()


async def test_a_sync_tool_can_see_that_it_is_no_longer_wanted() -> None:
    """Its thread cannot be interrupted, so it is abandoned; it can look."""
    started, gone = threading.Event(), threading.Event()

    def work(context: ToolContext) -> str:
        """Work."""
        started.set()
        for _ in range(30_000):
            if context.is_cancelled:
                gone.set()
                return "stopped"
            threading.Event().wait(0.002)
        return "never"

    agent = AgentBuilder().with_driver(ScriptedDriver([call("work")])).with_tools(work).build()
    task = start(agent, run_id="r")
    await asyncio.to_thread(started.wait, 60)
    agent.cancel("r")
    result = await cancelled(task)
    assert await asyncio.to_thread(gone.wait, 60)
    assert result.steps[0].results[0].status is ResultStatus.CANCELLED


async def test_cancel_without_a_name_cancels_all_runs() -> None:
    """It returns how many runs it cancelled; runs that have ended do not count."""
    driver = Hangs()
    agent = AgentBuilder().with_driver(driver).build()
    tasks = [start(agent) for _ in range(3)]
    await driver.asked.wait()
    await asyncio.sleep(0)
    assert agent.cancel(reason="all") == 3
    for task in tasks:
        await cancelled(task)
    assert agent.cancel() == 0


async def test_cancelling_twice_is_cancelling_once() -> None:
    """The first reason stays."""
    driver = Hangs()
    agent = AgentBuilder().with_driver(driver).build()
    task = start(agent, run_id="r")
    await driver.asked.wait()
    agent.cancel("r", "first")
    agent.cancel("r", "second")
    assert "first" in (await cancelled(task)).explain()


@pytest.mark.parametrize("where", ["model", "tool", "tools", "output", "after_step", "error"])
async def test_cancelling_the_task_around_a_run_runs_its_way_out_and_is_passed_on(
    where: str,
) -> None:
    """Whoever cancels the task and not the run is owed the CancelledError, after execution_end."""
    ends: list[Any] = []
    waiting = asyncio.Event()

    async def wait(ctx: Any = None) -> None:
        waiting.set()
        await asyncio.sleep(60)

    async def hang(n: int = 0) -> str:
        """Hang."""
        await wait()
        return "never"

    turns: dict[str, Any] = {
        "tool": call("hang"),
        "tools": calls(call("hang", n=1), call("hang", n=2)),
        "error": RuntimeError("x"),
    }
    driver: Any = Hangs() if where == "model" else ScriptedDriver([turns.get(where, say("hi"))])
    agent = AgentBuilder().with_driver(driver).with_tools(hang)
    agent.on_execution_end(lambda ctx: ends.append(ctx.status))
    if where in ("output", "after_step", "error"):
        agent.add_hook(where, wait)
    task = asyncio.create_task(agent.build().run("go"))
    await (driver.asked if where == "model" else waiting).wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == [RunStatus.CANCELLED]


@pytest.mark.parametrize("point", ["agent_failed", "execution_end", "session_end"])
async def test_the_way_out_is_taken_to_its_end_even_if_the_task_is_cancelled_on_it(
    point: str,
) -> None:
    """One hook is interrupted; what comes after it still happens, the last record included."""
    waiting = asyncio.Event()
    log: list[str] = []

    async def wait(ctx: Any) -> None:
        waiting.set()
        await asyncio.sleep(60)

    turn: Any = RuntimeError("lost") if point == "agent_failed" else say("hi")
    agent = AgentBuilder().with_driver(ScriptedDriver([turn])).add_hook(point, wait)
    for other in ("execution_end", "session_end"):
        if other != point:
            agent.add_hook(other, lambda ctx: log.append(ctx.point.value))
    agent.on_event(lambda record: log.append("result") if record.type == "result" else None)
    task = asyncio.create_task(agent.build().run("go"))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rest = {"agent_failed": ["execution_end", "session_end"], "execution_end": ["session_end"]}
    before = ["execution_end"] if point == "session_end" else []
    assert log == [*before, *rest.get(point, []), "result"]


async def test_a_time_limit_around_a_run_works_as_anywhere(skip_time: Any) -> None:
    """asyncio.timeout raises TimeoutError, and the run has taken its way out."""
    ends: list[Any] = []
    driver = Hangs()
    agent = AgentBuilder().with_driver(driver).on_execution_end(lambda ctx: ends.append(ctx.status))
    skipped = skip_time(30, driver.asked.is_set)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await agent.build().run("go")
    await skipped
    assert ends == [RunStatus.CANCELLED]


async def test_a_request_to_continue_never_overrides_a_cancel() -> None:
    """Whatever stop hooks think of it."""
    built: list[Agent] = []
    agent = AgentBuilder().with_driver(ScriptedDriver([say("a"), say("b")]))
    agent.on_after_step(lambda ctx: built[0].cancel(ctx.state.run_id) and None)
    agent.on_should_continue(lambda ctx: ctx.request_continue("more"))
    agent.on_stop(lambda ctx: HookOutcome.block("never"))
    built.append(agent.build())
    result = await cancelled(start(built[0]))
    assert result.state.step_count == 1


async def test_a_failing_hook_does_not_turn_a_cancelled_run_into_another() -> None:
    """after_step crashes while the run is being cancelled: cancelled it stays, and the crash is on record."""
    driver = Hangs()

    def crash(ctx: Any) -> None:
        raise RuntimeError("oops")

    agent = AgentBuilder().with_driver(driver).on_after_step(crash, name="shaky").build()
    task = start(agent, run_id="r")
    await driver.asked.wait()
    agent.cancel("r")
    result = await cancelled(task)
    failed = [record for record in result.records if getattr(record, "verdict", "") == "failed"]
    assert [record.hook for record in failed] == ["shaky"]


async def test_a_hook_that_is_interrupted_while_a_run_is_cancelled_does_not_end_the_others() -> (
    None
):
    """Each call is looked at, the step is settled, and after_step runs: what nobody cleared is withheld."""
    work = Work()
    log: list[str] = []

    async def give_up(ctx: Any) -> None:
        log.append(f"look {ctx.tool_call.args['n']}")
        raise asyncio.CancelledError

    batch = calls(call("quick", n=1), call("hang", n=2), call("quick", n=3))
    agent = AgentBuilder().with_driver(ScriptedDriver([batch])).with_tools(*work.tools())
    agent.on_after_tool_use(give_up).on_after_step(lambda ctx: log.append("after_step"))
    built = agent.build()
    task = start(built, run_id="r")
    await work.started.wait()
    await asyncio.sleep(0)
    built.cancel("r")
    result = await cancelled(task)
    assert log == ["look 1", "look 2", "look 3", "after_step"]
    assert {each.status for each in result.steps[0].results} == {ResultStatus.WITHHELD}
    kinds = [record.type for record in result.records]
    assert kinds.count("step_started") == kinds.count("step") == 1


@pytest.mark.parametrize("point", ["before_inference", "after_inference"])
async def test_cancelling_while_error_hooks_handle_a_hooks_failure_settles_the_step(
    point: str,
) -> None:
    """The step had begun, so it ends."""
    waiting = asyncio.Event()

    def crash(ctx: Any) -> None:
        raise RuntimeError("oops")

    async def wait(ctx: Any) -> None:
        waiting.set()
        await asyncio.sleep(60)

    agent = AgentBuilder().with_driver(ScriptedDriver([say("hi")])).add_hook(point, crash)
    built = agent.on_error(wait).build()
    task = start(built, run_id="r")
    await waiting.wait()
    built.cancel("r")
    result = await cancelled(task)
    kinds = [record.type for record in result.records]
    assert kinds.count("step_started") == kinds.count("step") == 1


async def test_hooks_that_time_out_still_do_so_while_a_run_is_cancelled() -> None:
    """A time limit of a hook's own is distinguished from the cancellation around it."""
    driver = Hangs()
    log: list[str] = []

    async def slow(ctx: Any) -> None:
        await asyncio.sleep(60)

    agent = (
        AgentBuilder()
        .with_driver(driver)
        .on_after_step(slow, timeout=0.01, on_failure="open")
        .on_after_step(lambda ctx: log.append("after"), priority=-1)
        .build()
    )
    task = start(agent, run_id="r")
    await driver.asked.wait()
    agent.cancel("r")
    await cancelled(task)
    assert log == ["after"]


async def test_a_cancelled_state_can_be_run_again() -> None:
    """The conversation is valid, and has the outcome of the calls."""
    work = Work()
    driver = ScriptedDriver([call("hang"), say("all right")])
    agent = AgentBuilder().with_driver(driver).with_tools(*work.tools()).build()
    task = start(agent, run_id="r")
    await work.started.wait()
    agent.cancel("r")
    state = (await cancelled(task)).state
    again = await agent.run("and now?", state=state)
    assert (again.text, again.status) == ("all right", RunStatus.COMPLETED)
    check_transcript(driver.requests[1].messages)


class CancelsAtTheEnd(PlainStore):
    """Cancels the task that writes the end of a run, while it waits for that."""

    async def claim(self, run_id: str) -> Any:
        claim: Any = await super().claim(run_id)
        write, task = claim.write, asyncio.current_task()

        def write_and_cancel(records: list[Record]) -> Future[None]:
            written: Future[None] = write(records)
            if not any(isinstance(each, RunFinished) for each in records):
                return written
            assert task is not None
            task.cancel()
            return Future()

        claim.write = write_and_cancel
        return claim


async def test_listeners_hear_of_the_end_when_its_commit_is_cancelled() -> None:
    """It is written all the same."""
    told: list[str] = []
    builder = AgentBuilder().with_driver(ScriptedDriver([say("hi")]))
    builder.with_journal(CancelsAtTheEnd()).on_event(lambda record: told.append(record.type))
    agent = builder.build()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(agent.run("go"))
    assert told[-1] == "result"
