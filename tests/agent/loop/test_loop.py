from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    ContinuationEvaluation,
    HookOutcome,
    HookPoint,
    RunStatus,
    StopReason,
    tool,
)
from hookline.errors import HookError, NoModelError, TranscriptError, UsageError
from hookline.journal import RunFinished, RunStarted, StatusChanged
from hookline.state import AssistantMessage, Log, UserMessage, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

ORDER = """
session_start execution_start prompt_submit
before_step before_inference after_inference
before_tool_use before_tool_use after_tool_use after_tool_use
after_step should_continue
before_step before_inference after_inference
after_step should_continue stop
output execution_end session_end
""".split()


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


def builder(*turns: Any) -> AgentBuilder:
    """An agent with two tools that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add, fail)


def watched(agent: AgentBuilder, seen: list[str]) -> AgentBuilder:
    """The builder with a hook at every point that notes the point."""

    def note(ctx: Any) -> None:
        seen.append(ctx.point.value)

    for point in HookPoint:
        if not point.around:
            agent.add_hook(point, note, name="note")
    return agent


# --- the order of things ------------------------------------------------------------------------------


async def test_a_run_walks_the_whole_lifecycle_in_order() -> None:
    """Every point is asked, in the order the lifecycle is written down."""
    seen: list[str] = []
    turns = (calls(call("add", a=1, b=2), call("add", a=3, b=4)), say("3 and 7"))
    result = await watched(builder(*turns), seen).build().run("sums?")
    assert seen == ORDER
    assert (result.text, result.status, result.state.step_count) == (
        "3 and 7",
        RunStatus.COMPLETED,
        2,
    )


async def test_the_fixed_example_behaves_as_promised() -> None:
    """The example everyone starts with: an answer, a status, and a count of steps."""
    result = await builder(call("add", a=2, b=3), say("5")).build().run("2+3?")
    assert (result.text, result.status, result.state.step_count) == ("5", RunStatus.COMPLETED, 2)
    assert result.stop_reason is StopReason.COMPLETED
    assert result.explain() == (
        "completed after 2 steps: completed (the last answer calls no tool), decided by 'tool-calls'"
    )


async def test_the_model_sees_its_calls_and_their_results() -> None:
    """The second request has the user's prompt, the call, and its one result."""
    driver = ScriptedDriver([call("add", a=2, b=3), say("5")])
    await AgentBuilder().with_driver(driver).with_tools(add).build().run("2+3?")
    assert str(driver.requests[1]) == 'user: 2+3?\nassistant: add({"a":2,"b":3})\ntool add: 5'


async def test_a_point_without_hooks_needs_none() -> None:
    """An agent with a driver and nothing else answers."""
    result = await AgentBuilder().with_driver(ScriptedDriver([say("hi")])).build().run("hello")
    assert result.text == "hi"


async def test_an_agent_without_a_model_does_not_run() -> None:
    """It is not built unless none is wanted; then to run it is wrong use, and the error says what to give it."""
    with pytest.raises(NoModelError, match="with_model"):
        AgentBuilder().build()
    with pytest.raises(UsageError, match="with_model"):
        await AgentBuilder().build(model=None).run("hello")


# --- state --------------------------------------------------------------------------------------------


async def test_metadata_written_at_the_start_is_read_at_the_end() -> None:
    """What one hook writes through its context lives for the whole run and ends up in the state."""
    clock = FakeClock()
    took: list[float] = []

    async def wait(ctx: Any) -> None:
        clock.advance(2.5)

    def stop_watch(ctx: Any) -> Any:
        took.append(clock.now() - ctx.metadata["started"])
        return ctx.with_metadata("took", took[0])

    result = await (
        builder(call("add", a=1, b=1), say("2"))
        .with_clock(clock)
        .on_execution_start(lambda ctx: ctx.with_metadata("started", clock.now()))
        .on_before_tool_use(wait)
        .on_execution_end(stop_watch)
        .build()
        .run("go")
    )
    assert took == [2.5]
    assert result.state.metadata["took"] == 2.5


@pytest.mark.parametrize(
    "point",
    [
        point
        for point in HookPoint
        if "state" in point.changes
        and not point.around
        and point not in ("permission_request", "before_compact")
    ],
)
async def test_state_written_at_any_point_is_kept(point: Any) -> None:
    """Also what a tool hook writes, and what hooks on the way out write."""
    turns = [call("fail"), say("ok")] if point != "agent_failed" else [RuntimeError("lost")]
    agent = builder(*turns).add_hook(point, lambda ctx: ctx.with_metadata("was", ctx.point.value))
    result = await agent.build().run("go")
    assert result.state.metadata.get("was") == point.value, "no turn here reaches the point"


async def test_metadata_that_is_not_json_is_the_hooks_failure() -> None:
    """It is refused at once, naming the hook and the key."""
    result = await (
        builder(say("hi"))
        .on_before_step(lambda ctx: ctx.with_metadata("bad", object()), name="careless")
        .build()
        .run("go")
    )
    assert result.status is RunStatus.FAILED
    assert "careless" in str(result.error)
    assert "metadata 'bad'" in str(result.error)


async def test_ids_name_the_agent_the_run_and_the_session() -> None:
    """They are in the state, and the run's are the ones that were given."""
    agent = builder(say("hi")).with_id("clerk").build()
    state = (await agent.run("go", session="s-1", run_id="r-1")).state
    assert (state.agent_id, state.run_id, state.session_id) == ("clerk", "r-1", "s-1")
    assert state.parent_agent_id is None


async def test_a_finished_state_can_be_run_again() -> None:
    """The second run continues with the conversation, and counts its own steps."""
    driver = ScriptedDriver(
        [call("add", a=1, b=1, tokens=5), say("2", tokens=7), say("4", tokens=9)]
    )
    agent = AgentBuilder().with_driver(driver).with_tools(add).build()
    first = await agent.run("1+1?")
    second = await agent.run("and twice that?", state=first.state)
    assert second.text == "4"
    assert (first.state.step_count, second.state.step_count, len(second.state.steps)) == (2, 1, 3)
    assert (second.usage.total_tokens, second.state.usage.total_tokens) == (9, 21)
    assert "user: 1+1?" in str(driver.requests[2])
    assert second.state.session_id == first.state.session_id
    assert second.run_id != first.run_id


async def test_running_again_after_json_is_the_same_as_running_again() -> None:
    """A state that went through JSON gives the same conversation."""
    texts = []
    for through_json in (False, True):
        agent = builder(call("add", a=1, b=1), say("2"), say("4")).build()
        state = (await agent.run("1+1?")).state
        state = AgentState.from_json(state.to_json()) if through_json else state
        again = await agent.run("more", state=state)
        texts.append([message.text for message in again.state.messages])
    assert texts[0] == texts[1]


async def test_a_prompt_is_optional() -> None:
    """A conversation can be put together first and then run."""
    driver = ScriptedDriver([say("hi")])
    agent = AgentBuilder().with_driver(driver).build()
    result = await agent.run(state=AgentState().with_user_message("hello"))
    assert (result.text, str(driver.requests[0])) == ("hi", "user: hello")


async def test_step_durations_include_model_hooks_and_tools() -> None:
    """A step lasts from before_step to the end of its stop hooks."""
    clock = FakeClock()

    def think(state: AgentState) -> Any:
        clock.advance(10)
        return call("nap") if not state.steps else say("done")

    async def nap() -> str:
        """Sleep."""
        clock.advance(100)
        return "rested"

    def slow_hook(ctx: Any) -> None:
        clock.advance(1)

    result = await (
        AgentBuilder()
        .with_driver(ScriptedDriver([think, think]))
        .with_tools(nap)
        .with_clock(clock)
        .with_limits(seconds=None)
        .on_before_step(slow_hook)
        .on_after_tool_use(slow_hook)
        .on_after_step(slow_hook)
        .on_stop(slow_hook)
        .build()
        .run("go")
    )
    assert [step.duration for step in result.steps] == [113, 13]
    assert [step.number for step in result.steps] == [1, 2]
    assert result.state.counters.active_seconds == pytest.approx(126)


# --- what hooks do to the conversation ----------------------------------------------------------------


@pytest.mark.parametrize("point", ["before_step", "before_inference"])
async def test_a_message_added_before_the_model_is_asked_stays_before_its_answer(
    point: str,
) -> None:
    """The conversation in the state is the one the model saw, in that order."""
    driver = ScriptedDriver([call("add", a=1, b=1), say("2")])
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(add)
        .add_hook(point, lambda ctx: ctx.state.with_user_message(f"hint {ctx.step_index}"))
        .build()
    )
    state = (await agent.run("go")).state
    assert [message.text for message in state.messages] == ["go", "hint 0", "", "2", "hint 1", "2"]
    assert str(driver.requests[0]) == "user: go\nuser: hint 0"
    assert str(driver.requests[1]).startswith(str(driver.requests[0]))


@pytest.mark.parametrize("point", ["before_tool_use", "after_tool_use", "after_inference"])
async def test_a_message_added_while_calls_are_in_flight_comes_after_their_results(
    point: str,
) -> None:
    """A call and its results stay together, whatever hooks have to say in between."""
    driver = ScriptedDriver([calls(call("add", a=1, b=1), call("fail")), say("2")])
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(add, fail)
        .add_hook(
            point, lambda ctx: ctx.state.with_user_message("note") if not ctx.state.steps else None
        )
        .build()
    )
    await agent.run("go")
    check_transcript(driver.requests[1].messages)
    roles = [message.role for message in driver.requests[1].messages]
    assert roles[:4] == ["user", "assistant", "tool", "tool"]
    assert set(roles[4:]) == {"user"}


async def test_a_hook_may_rewrite_the_conversation() -> None:
    """Between steps it may be summarised, as long as calls and results stay together."""
    driver = ScriptedDriver([call("add", a=1, b=1), say("2")])

    def summarise(ctx: Any) -> Any:
        return ctx.state.with_messages(Log([UserMessage("so far: 1+1 was asked")]))

    agent = AgentBuilder().with_driver(driver).with_tools(add).on_after_step(summarise).build()
    result = await agent.run("1+1?")
    assert str(driver.requests[1]) == "user: so far: 1+1 was asked"
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("point", ["before_step", "after_step", "before_inference"])
async def test_a_hook_cannot_leave_a_call_without_its_result(point: str) -> None:
    """A conversation no model may be shown is refused, and names the hook."""
    driver = ScriptedDriver([call("add", a=1, b=1), say("2")])

    def drop_results(ctx: Any) -> Any:
        kept = [message for message in ctx.state.messages if message.role != "tool"]
        return ctx.state.with_messages(Log(kept)) if len(kept) > 1 else None

    result = await (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(add)
        .add_hook(point, drop_results, name="cutter")
        .build()
        .run("go")
    )
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, HookError)
    assert "cutter" in str(result.error)
    assert len(driver.requests) == 1


async def test_a_conversation_that_is_not_valid_cannot_be_run() -> None:
    """A state put together by hand is checked before a model is shown it."""
    agent = builder(say("hi")).build()
    call_ = (await builder(call("add", a=1, b=1), say("2")).build().run("go")).steps[0].calls[0]
    broken = AgentState(messages=Log([UserMessage("go"), AssistantMessage("", (call_,))]))
    with pytest.raises(TranscriptError, match="has no result"):
        await agent.run("more", state=broken)


# --- the ways out -------------------------------------------------------------------------------------

running: list[Agent] = []
"""The agent whose hook cancels it."""


def _block_start(agent: AgentBuilder) -> AgentBuilder:
    return agent.on_execution_start(lambda ctx: HookOutcome.block("closed"))


def _block_prompt(agent: AgentBuilder) -> AgentBuilder:
    return agent.on_prompt_submit(lambda ctx: HookOutcome.block("rude"))


def _block_step(agent: AgentBuilder) -> AgentBuilder:
    return agent.on_before_step(lambda ctx: HookOutcome.block("enough"))


def _stop_at_tool(agent: AgentBuilder) -> AgentBuilder:
    return agent.on_before_tool_use(lambda ctx: HookOutcome.stop("no tools"))


def _withhold(agent: AgentBuilder) -> AgentBuilder:
    return agent.on_output(lambda ctx: HookOutcome.block("secret"))


def _crash(agent: AgentBuilder) -> AgentBuilder:
    def crash(ctx: Any) -> None:
        raise RuntimeError("crash")

    return agent.on_after_step(crash)


def _ask(agent: AgentBuilder) -> AgentBuilder:
    return agent.on_before_tool_use(lambda ctx: HookOutcome.ask("really?"))


def _cancel(agent: AgentBuilder) -> AgentBuilder:
    def cancel(ctx: Any) -> None:
        running[-1].cancel(ctx.state.run_id, "changed my mind")

    return agent.on_before_tool_use(cancel)


ENDINGS: list[tuple[Callable[[AgentBuilder], AgentBuilder], RunStatus, StopReason]] = [
    (lambda agent: agent, RunStatus.COMPLETED, StopReason.COMPLETED),
    (_block_start, RunStatus.STOPPED, StopReason.RUN_REFUSED),
    (_block_prompt, RunStatus.STOPPED, StopReason.PROMPT_REFUSED),
    (_block_step, RunStatus.STOPPED, StopReason.STEP_REFUSED),
    (_stop_at_tool, RunStatus.STOPPED, StopReason.HOOK),
    (_withhold, RunStatus.STOPPED, StopReason.OUTPUT_WITHHELD),
    (_crash, RunStatus.FAILED, StopReason.ERROR),
    (_ask, RunStatus.PAUSED, StopReason.APPROVAL_PENDING),
    (_cancel, RunStatus.CANCELLED, StopReason.CANCELLED),
]


@pytest.mark.parametrize(("change", "status", "reason"), ENDINGS)
async def test_every_path_out_goes_through_execution_end(
    change: Callable[[AgentBuilder], AgentBuilder], status: RunStatus, reason: StopReason
) -> None:
    """Whatever ends a run, execution_end runs once, knows how it ended, and the state says the same."""
    ends: list[Any] = []
    agent = change(builder(call("add", a=1, b=1), say("2"))).on_execution_end(ends.append).build()
    running.append(agent)
    result = await agent.run("go")
    assert [(ctx.status, ctx.stop_reason) for ctx in ends] == [(status, reason)]
    assert (result.status, result.stop_reason) == (status, reason)
    assert result.state.ending is not None
    assert (result.state.ending.status, result.state.ending.stop_reason) == (status, reason)
    assert result.explain().startswith(f"{status.value} after")
    check_transcript(result.state.messages)
    assert AgentState.from_json(result.state.to_json()) == result.state


@pytest.mark.parametrize(("change", "status", "reason"), ENDINGS)
async def test_the_journal_begins_and_ends_with_the_run(
    change: Callable[[AgentBuilder], AgentBuilder], status: RunStatus, reason: StopReason
) -> None:
    """The first record says that it began, the last has the result, and they are numbered without gaps."""
    agent = change(builder(call("add", a=1, b=1), say("2"))).build()
    running.append(agent)
    result = await agent.run("go")
    records = result.records
    assert isinstance(records[0], RunStarted)
    last = records[-1]
    assert isinstance(last, RunFinished)
    assert (last.text, last.status, last.stop_reason) == (result.text, status, reason)
    assert [record.seq for record in records] == list(range(len(records)))
    assert sum(isinstance(record, StatusChanged) for record in records) == 1


async def test_every_step_that_began_is_on_record_as_finished() -> None:
    """Also when a hook after it crashes: what the step added to the conversation is not lost."""
    result = await _crash(builder(call("add", a=1, b=1), say("2"))).build().run("go")
    kinds = [record.type for record in result.records]
    assert kinds.count("step_started") == kinds.count("step") == 1
    assert result.steps[0].outcome is not None
    assert result.steps[0].outcome.stop_reason is StopReason.ERROR


async def test_a_refused_run_makes_no_step_and_calls_no_model() -> None:
    """execution_start can refuse a run before anything costs anything."""
    driver = ScriptedDriver([])
    agent = _block_start(AgentBuilder().with_driver(driver)).build()
    result = await agent.run("go")
    assert (result.state.step_count, driver.requests, list(result.state.messages)) == (0, [], [])
    assert "closed" in result.explain()


async def test_a_refused_prompt_never_enters_the_conversation() -> None:
    """The state is as it was before."""
    first = await builder(say("hi")).build().run("hello")
    agent = _block_prompt(builder()).build()
    second = await agent.run("@#!", state=first.state)
    assert second.state.messages == first.state.messages
    assert second.text == ""


async def test_a_prompt_can_be_rewritten() -> None:
    """By a changed context, or by just returning the text."""
    for answer in (lambda ctx: ctx.with_prompt("be nice"), lambda ctx: "be nice"):
        driver = ScriptedDriver([say("ok")])
        agent = AgentBuilder().with_driver(driver).on_prompt_submit(answer).build()
        await agent.run("@#!")
        assert str(driver.requests[0]) == "user: be nice"


@pytest.mark.parametrize("point", ["execution_start", "prompt_submit"])
async def test_a_stop_before_the_first_step_ends_the_run(point: str) -> None:
    """There is no step to let finish, so `stop` and `forbid` both end it before one."""
    for answer in (lambda ctx: HookOutcome.stop("not today"), lambda ctx: ctx.forbid("not today")):
        driver = ScriptedDriver([])
        agent = AgentBuilder().with_driver(driver).add_hook(point, answer, name="gate").build()
        result = await agent.run("go")
        assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
        assert "decided by 'gate'" in result.explain()
        assert not driver.requests


async def test_sessions_start_once_and_end_with_a_run_that_has_none() -> None:
    """A run without a session is its own; a run in a session that the state knows does not start it again."""
    seen: list[str] = []
    agent = (
        builder(say("a"), say("b"), say("c"))
        .on_session_start(lambda ctx: seen.append(f"start {ctx.session_id} {ctx.source}"))
        .on_session_end(lambda ctx: seen.append(f"end {ctx.session_id}"))
        .build()
    )
    await agent.run("x", run_id="r1")
    assert seen == ["start r1 startup", "end r1"]
    seen.clear()
    first = await agent.run("x", session="s")
    await agent.run("y", session="s", state=first.state)
    assert seen == ["start s startup"]


# --- hooks on the way out that fail -------------------------------------------------------------------


@pytest.mark.parametrize("point", ["execution_end", "session_end"])
def test_a_hook_that_fails_when_all_is_over_does_not_take_the_answer(point: str) -> None:
    """The run has failed, and the result and the journal have what the model said."""

    def boom(ctx: Any) -> None:
        raise RuntimeError("disk full")

    builder = AgentBuilder().with_driver(ScriptedDriver([say("forty-two")]))
    result = builder.add_hook(point, boom).build().run_sync("go")
    assert (result.status, result.output) == (RunStatus.FAILED, "forty-two")
    assert isinstance(result.error, HookError)
    finished = result.records[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.text, finished.status) == ("forty-two", RunStatus.FAILED)


async def test_a_failing_hook_on_the_way_out_does_not_keep_the_others_from_running() -> None:
    """All execution_end hooks run; the run fails, and the error hooks get the reason."""
    seen: list[str] = []

    def crash(ctx: Any) -> None:
        raise RuntimeError("disk full")

    result = await (
        builder(say("hi"))
        .on_execution_end(crash, name="saver", priority=1)
        .on_execution_end(lambda ctx: seen.append("second"))
        .on_session_end(lambda ctx: seen.append("session"))
        .on_error(lambda ctx: seen.append(ctx.error_message))
        .on_agent_failed(lambda ctx: seen.append("lost"))
        .build()
        .run("go")
    )
    assert result.status is RunStatus.FAILED
    assert seen == [
        "second",
        "hook 'saver' at execution_end: RuntimeError: disk full",
        "lost",
        "session",
    ]
    assert result.text == "hi"  # it was given before


async def test_a_hook_on_the_way_out_that_fails_open_changes_nothing() -> None:
    """It is recorded and skipped."""

    def crash(ctx: Any) -> None:
        raise RuntimeError("disk full")

    agent = builder(say("hi")).on_execution_end(crash, on_failure="open", name="saver").build()
    result = await agent.run("go")
    assert (result.text, result.status) == ("hi", RunStatus.COMPLETED)
    failed = [record for record in result.records if getattr(record, "verdict", "") == "failed"]
    assert [record.hook for record in failed] == ["saver"]


# --- wrong use ----------------------------------------------------------------------------------------


async def test_two_runs_cannot_share_an_id_at_the_same_time() -> None:
    """The second is refused while the first is running, and fine afterwards."""
    agent = builder(say("a"), say("b")).build()
    first = agent.run("x", run_id="same")
    with pytest.raises(UsageError, match="is running already"):
        agent.run("x", run_id="same")
    assert (await first).text == "a"
    assert (await agent.run("x", run_id="same")).text == "b"


async def test_run_sync_refuses_to_block_async_code() -> None:
    """It says to await instead."""
    with pytest.raises(UsageError, match=r"await agent\.run"):
        builder(say("a")).build().run_sync("x")


def test_run_sync_is_run_for_code_that_is_not_async() -> None:
    """The same result, without an event loop around it."""
    result = builder(call("add", a=2, b=3), say("5")).build().run_sync("2+3?")
    assert (result.text, result.status) == ("5", RunStatus.COMPLETED)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [({"prompt": 5}, "prompt is text"), ({"prompt": "x", "state": {}}, "takes an AgentState")],
)
async def test_what_cannot_be_run_is_refused_at_once(keywords: dict[str, Any], words: str) -> None:
    """Before a run begins, wrong use is an error of the caller's."""
    with pytest.raises(UsageError, match=words):
        await builder(say("a")).build().run(**keywords)


async def test_runs_of_one_agent_do_not_share_anything() -> None:
    """A hundred runs at once, each with its own conversation and metadata."""

    def answer(state: AgentState) -> Any:
        number = int(state.messages[0].text)
        return call("add", a=number, b=1) if not state.steps else say(state.messages[-1].text)

    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([answer] * 200))
        .with_tools(add)
        .on_prompt_submit(lambda ctx: ctx.with_metadata("asked", ctx.prompt))
        .build()
    )
    results = await asyncio.gather(*(agent.run(str(number)) for number in range(100)))
    assert [result.text for result in results] == [str(number + 1) for number in range(100)]
    assert [result.state.metadata["asked"] for result in results] == [str(n) for n in range(100)]


# --- values that are not what they should be ----------------------------------------------------------


async def test_an_evaluation_that_decides_nothing_is_the_hooks_failure() -> None:
    """It is caught where it was made, and never ends up in a state that cannot be loaded again."""
    said: Any = ContinuationEvaluation("me", "whatever")  # type: ignore[arg-type]
    result = (
        await builder(say("hi")).on_after_step(lambda ctx: said, name="vague").build().run("go")
    )
    assert result.status is RunStatus.FAILED
    assert "vague" in str(result.error)
    assert AgentState.from_json(result.state.to_json()) == result.state


@pytest.mark.parametrize("point", ["before_step", "output", "error", "stop"])
async def test_a_made_up_stop_reason_is_safe(point: str) -> None:
    """It neither raises out of the run nor lets it continue."""
    turns = [RuntimeError("x")] if point == "error" else [say("hi")]
    agent = builder(*turns).add_hook(point, lambda ctx: HookOutcome.stop("no", stop_reason="bored"))
    result = await agent.build().run("go")
    assert result.status in (RunStatus.STOPPED, RunStatus.FAILED)
    assert AgentState.from_json(result.state.to_json()) == result.state


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even saying it fails")


@pytest.mark.parametrize("error", [Unspeakable(), ValueError("a file called \udcff")])
@pytest.mark.parametrize("where", ["model", "tool", "before_step", "before_tool_use", "approver"])
async def test_an_exception_whose_words_cannot_be_kept_is_contained(
    error: Exception, where: str
) -> None:
    """Whatever an exception says of itself, the run ends in a state that can be saved."""

    def crash(ctx: Any) -> Any:
        raise error

    def broken() -> str:
        """Break."""
        raise error

    agent = AgentBuilder().with_tools(broken)
    agent.with_driver(ScriptedDriver([error if where == "model" else call("broken"), say("ok")]))
    if where == "approver":
        agent.on_before_tool_use(lambda ctx: HookOutcome.ask("?")).with_approver(crash)
    elif where not in ("model", "tool"):
        agent.add_hook(where, crash)
    result = await agent.build().run("go")
    lost = where in ("model", "before_step")
    assert result.status is (RunStatus.FAILED if lost else RunStatus.COMPLETED)
    assert AgentState.from_json(result.state.to_json()) == result.state
