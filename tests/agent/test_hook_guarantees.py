"""What holds for hooks whatever other hooks do: nothing they did is lost, nothing they say goes unrecorded."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, ErrorPolicy, HookOutcome, RunStatus, ToolContext, tool
from hookline.errors import UsageError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import (
    ApprovalAsked,
    ErrorRaised,
    HookRan,
    Record,
    ResponseReceived,
    RunStarted,
    fold,
    hooks_in,
)
from hookline.testing import ScriptedDriver, call, calls, say

IN_A_STEP = ("before_step", "after_step", "should_continue", "stop")


def add(a: int) -> int:
    """Add one."""
    return a + 1


def builder(*turns: Any) -> AgentBuilder:
    """An agent that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)


def boom(ctx: Any) -> None:
    """A hook that crashes."""
    raise ValueError("boom")


# --- when one hook of a point fails -----------------------------------------------------------------


@pytest.mark.parametrize(
    "point",
    "execution_start before_step before_inference after_step should_continue stop execution_end session_end".split(),
)
async def test_what_a_hook_did_stays_when_the_next_one_fails(point: str) -> None:
    """In the state, and in what the journal adds up to."""
    agent = builder(call("add", a=1), say("a"))
    agent.add_hook(point, lambda ctx: ctx.with_metadata("audit", 1), priority=5, name="writer")
    result = await agent.add_hook(point, boom, name="broken").build().run("go")
    assert result.status is RunStatus.FAILED
    assert result.state.metadata == {"audit": 1}
    assert fold(result.records).state == result.state


async def test_evaluations_stay_when_another_hook_fails() -> None:
    """The outcome keeps every word that was said before."""
    policy = ErrorPolicy(actions={ErrorClass.HOOK: ErrorAction.IGNORE})
    agent = builder(call("add", a=1), say("a")).with_error_policy(policy)
    agent.on_should_continue(boom, name="broken", priority=-5)
    result = await agent.build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert [step.outcome.resolved_by for step in result.steps if step.outcome] == ["tool-calls"] * 2


@pytest.mark.parametrize("point", IN_A_STEP)
async def test_the_error_policy_decides_about_a_hook_inside_a_step(point: str) -> None:
    """It may ignore it, and then the run continues. The journal has what was really done."""
    for action, status in (
        (ErrorAction.IGNORE, RunStatus.COMPLETED),
        (ErrorAction.STOP, RunStatus.FAILED),
    ):
        agent = builder(call("add", a=1), say("done"))
        agent.with_error_policy(ErrorPolicy(actions={ErrorClass.HOOK: action}))
        result = await agent.add_hook(point, boom, name="broken").build().run("go")
        raised = [record for record in result.records if isinstance(record, ErrorRaised)]
        assert {record.action for record in raised} == {action.value}
        assert result.status is status


async def test_outside_a_step_there_is_nothing_for_the_policy_to_decide() -> None:
    """The run is lost, and the journal says so."""
    policy = ErrorPolicy(actions={ErrorClass.HOOK: ErrorAction.IGNORE})
    agent = builder(say("never")).with_error_policy(policy).on_execution_start(boom)
    result = await agent.build().run("go")
    (raised,) = [record for record in result.records if isinstance(record, ErrorRaised)]
    assert (result.status, raised.action) == (RunStatus.FAILED, "stop")


async def test_every_after_step_hook_runs_whatever_another_one_does() -> None:
    """They are on the way out of a step."""
    ran: list[str] = []
    agent = builder(say("a"))
    agent.on_after_step(boom, name="broken", priority=5)
    agent.on_after_step(lambda ctx: ran.append("other"))
    assert (await agent.build().run("go")).status is RunStatus.FAILED
    assert ran == ["other"]


async def test_observers_see_the_end_of_an_inference_that_was_not_made() -> None:
    """Every before has an after."""
    ran: list[str] = []
    agent = builder(say("a"))
    agent.on_before_inference(
        lambda ctx: HookOutcome.block("not now") if not ctx.step_index else None
    )
    agent.on_after_inference(lambda ctx: ran.append(str(ctx.response)), tier="observer")
    await agent.build().run("go")
    assert len(ran) == 2
    assert ran[0] == "None"


# --- no hook is skipped, nothing goes unrecorded ------------------------------------------------------


@pytest.mark.parametrize("attribute", [lambda self, live: None, "text", None])
async def test_no_attribute_of_a_hook_keeps_it_from_being_called(attribute: Any) -> None:
    """Only the default guards, which are of a class of their own, are asked without a context."""

    class Hook:
        def __call__(self, ctx: Any) -> HookOutcome:
            return HookOutcome.block("never")

    Hook.answer_without_context = attribute  # type: ignore[attr-defined]
    agent = builder(say("a")).with_limits(steps=None, tokens=None, seconds=None)
    result = await agent.on_before_step(Hook(), name="wall").build().run("go")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 0)


async def test_what_middleware_hands_on_is_on_record() -> None:
    """With what it changed and what it said, before the hooks inside it."""

    class Middleware:
        async def handle(self, ctx: Any, next: Any) -> Any:
            return await next(ctx.with_args(a=100).with_metadata("k", 1).forbid("enough"))

    agent = builder(call("add", a=1), say("never"))
    agent.on_before_tool_use(Middleware(), name="outer", priority=5)
    agent.on_before_tool_use(
        lambda ctx: ctx.with_metadata("seen", ctx.tool_call.args["a"]), name="inner"
    )
    result = await agent.build().run("go")
    ran = [each for each in hooks_in(result.records) if each.point == "before_tool_use"]
    assert [each.hook for each in ran] == ["outer", "inner"]
    assert ran[0].changes is not None
    assert ran[0].changes["tool_call"]["args"] == {"a": 100}
    assert ran[0].changes["state"] == {"metadata": {"set": {"k": 1}}}
    assert [said.reason for said in ran[0].evaluations] == ["enough"]
    assert result.state.metadata == {"k": 1, "seen": 100}


# --- listeners ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [False, True])
async def test_an_observer_of_the_output_does_not_change_the_stream(observed: bool) -> None:
    """It cannot withhold, so nothing is held back for it."""
    heard: list[Record] = []
    agent = builder(say("draft"), say("final")).on_event(heard.append)
    agent.on_stop(lambda ctx: HookOutcome.block("more") if ctx.state.step_count < 2 else None)
    if observed:
        agent.on_output(lambda ctx: None, tier="observer")
    await agent.build().run("go")
    answers = [record.text for record in heard if isinstance(record, ResponseReceived)]
    assert answers == ["draft", "final"]


async def test_an_answer_that_becomes_a_value_is_streamed_as_that_value() -> None:
    """In the words of the result."""
    heard: list[Record] = []
    agent = builder(say("five")).on_event(heard.append)
    result = await agent.on_output(lambda ctx: ctx.with_output({"n": 5})).build().run("go")
    answers = [record.text for record in heard if isinstance(record, ResponseReceived)]
    assert answers == [result.text] == ['{"n":5}']


# --- pauses and children --------------------------------------------------------------------------------


async def test_one_pause_cannot_be_left_twice() -> None:
    """Not even when the run paused again in the same step: what was approved has run."""
    ran: list[str] = []

    @tool
    async def pay(what: str) -> str:
        """Pay."""
        ran.append(what)
        return "paid"

    child = AgentBuilder().with_tools(pay)
    child.with_driver(ScriptedDriver([call("pay", what="one"), call("pay", what="two"), say("x")]))
    child.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), tier="policy")
    inner = child.build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(inner, "task")).text

    outer = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("y")]))
    agent = outer.with_tools(delegate).build()
    first = await agent.run("go")
    second = await agent.resume(first, {first.pending[0].id: True})
    assert (second.status, ran) == (RunStatus.PAUSED, ["one"])
    with pytest.raises(UsageError, match="was resumed already"):
        await agent.resume(first, {first.pending[0].id: True})
    last = await agent.resume(second, {second.pending[0].id: True})
    assert (last.status, ran) == (RunStatus.COMPLETED, ["one", "two"])
    numbers = [record.seq for result in (first, second, last) for record in result.records]
    assert numbers == list(range(len(numbers)))


async def test_a_question_that_still_waits_is_not_asked_again() -> None:
    """On record it stands once, however often the run is resumed without an answer to it."""
    agent = builder(calls(call("add", a=1), call("add", a=2)), say("done"))
    built = agent.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), tier="policy").build()
    paused = await built.run("go")
    one, other = paused.pending
    still = await built.resume(paused, {one.id: True})
    done = await built.resume(still, {other.id: True})
    records = [*paused.records, *still.records, *done.records]
    assert len([record for record in records if isinstance(record, ApprovalAsked)]) == 2
    assert done.status is RunStatus.COMPLETED


async def test_a_child_that_is_sent_back_has_one_journal() -> None:
    """Its records are counted on, and its second start says that it continues."""
    heard: list[Record] = []
    inner = AgentBuilder().with_driver(ScriptedDriver([say("bad"), say("good")])).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(inner, "task")).text

    outer = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("y")]))
    outer.with_tools(delegate).on_event(heard.append)
    outer.on_subagent_stop(
        lambda ctx: HookOutcome.block("again") if ctx.result.text == "bad" else None
    )
    result = await outer.build().run("go", run_id="r")
    assert result.steps[0].results[0].result == "good"
    mine = [record for record in heard if record.run_id != "r" and record.type != "text_delta"]
    assert [record.seq for record in mine] == list(range(len(mine)))
    assert [record.resumed for record in mine if isinstance(record, RunStarted)] == [False, True]
    assert all(isinstance(record.verdict, str) for record in heard if isinstance(record, HookRan))
