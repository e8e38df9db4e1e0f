from __future__ import annotations

from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    HookOutcome,
    RunStatus,
    StopReason,
    tool,
)
from hookline.journal import StepFinished, hooks_in
from hookline.state import StepType
from hookline.testing import ScriptedDriver, call, say


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def builder(*turns: Any) -> AgentBuilder:
    """An agent with one tool that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)


async def run(agent: AgentBuilder) -> Any:
    """Build it and run it."""
    return await agent.build().run("go")


# --- should_continue ----------------------------------------------------------------------------------


async def test_tools_mean_continuing_and_an_answer_means_stopping() -> None:
    """The default guard says so, and each step keeps what was said and who decided."""
    result = await run(builder(call("add", a=1), say("2")))
    first, second = (step.outcome for step in result.steps)
    assert first is not None
    assert second is not None
    assert (first.should_continue, first.resolved_by) == (True, "tool-calls")
    assert (second.should_continue, second.stop_reason) == (False, StopReason.COMPLETED)
    assert result.outcome == second
    assert result.steps[1].type is StepType.FINAL_RESPONSE


async def test_a_request_continues_a_finished_run_and_gives_the_model_the_reason() -> None:
    """A quality threshold, say: the reason is a message, signed by the hook."""
    driver = ScriptedDriver([say("short"), say("a longer answer")])

    def long_enough(ctx: Any) -> Any:
        return ctx.request_continue("say more") if len(ctx.step.text) < 10 else None

    agent = (
        AgentBuilder().with_driver(driver).on_should_continue(long_enough, name="quality").build()
    )
    result = await agent.run("go")
    assert (result.text, result.state.step_count) == ("a longer answer", 2)
    assert str(driver.requests[1]) == "user: go\nassistant: short\nuser: say more"
    assert result.state.messages[2].by == "quality"
    assert result.steps[0].outcome.resolved_by == "quality"


async def test_evaluations_do_not_go_stale() -> None:
    """What was said about one step says nothing about the next."""
    said: list[int] = []

    def once(ctx: Any) -> Any:
        said.append(len(ctx.evaluations))
        return ctx.request_continue("again") if len(said) == 1 else None

    result = await run(builder(say("a"), say("b"), say("c")).on_after_step(once))
    assert (result.text, said) == ("b", [0, 0])


@pytest.mark.parametrize(
    "point",
    "after_inference before_tool_use after_tool_use after_step should_continue".split(),
)
async def test_an_evaluation_can_be_appended_at_every_later_point_of_a_step(point: str) -> None:
    """It is journalled with the point and the hook, and counts when the step is over."""
    agent = builder(call("add", a=1), say("never"))
    agent.add_hook(point, lambda ctx: ctx.forbid("that is all", StopReason.COST_LIMIT), name="end")
    result = await run(agent)
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.COST_LIMIT)
    assert (result.state.step_count, result.outcome.resolved_by) == (1, "end")
    assert result.steps[0].results[0].result == 2  # the step was finished first
    (ended,) = [ran for ran in hooks_in(result.records) if ran.evaluations and ran.hook == "end"]
    assert (ended.point, [said.source for said in ended.evaluations]) == (point, ["end"])


async def test_an_evaluation_can_be_returned_as_it_is() -> None:
    """A hook that has nothing else to say returns just that; a source left empty becomes the hook's name."""
    said = ContinuationEvaluation("", ContinuationDecision.FORBID_CONTINUATION, "enough")
    result = await run(builder(call("add", a=1)).on_should_continue(lambda ctx: said, name="judge"))
    assert (result.status, result.outcome.resolved_by) == (RunStatus.STOPPED, "judge")


async def test_a_hook_cannot_take_back_what_others_said() -> None:
    """Removing evaluations is a failure that names the hook."""
    import msgspec

    agent = builder(call("add", a=1), say("2"))
    agent.on_after_step(lambda ctx: ctx.forbid("stop"), name="guard", priority=10)
    agent.on_after_step(lambda ctx: msgspec.structs.replace(ctx, evaluations=()), name="eraser")
    result = await run(agent)
    assert result.status is RunStatus.FAILED
    assert "eraser" in str(result.error)


async def test_nothing_said_at_all_means_stopping() -> None:
    """Without the default guard and without any other, a run ends after one step, and says why."""
    result = await run(builder(call("add", a=1)).without_default("tool-calls"))
    assert (result.status, result.stop_reason) == (RunStatus.COMPLETED, StopReason.NO_DECISION)


async def test_a_default_guard_can_be_replaced_by_name() -> None:
    """A hook of that name at that point takes its place."""
    agent = builder(call("add", a=1), say("never"))
    agent.on_should_continue(lambda ctx: ctx.allow_stop("one is enough"), name="tool-calls")
    result = await run(agent)
    assert (result.state.step_count, result.outcome.reason) == (1, "one is enough")


async def test_every_outcome_is_on_record() -> None:
    """One per step, with everything that was said."""
    result = await run(builder(call("add", a=1), say("2")))
    finished = [record.step for record in result.records if isinstance(record, StepFinished)]
    assert [step.outcome for step in finished] == [step.outcome for step in result.steps]
    assert [len(step.outcome.evaluations) for step in finished if step.outcome] == [1, 1]


async def test_should_continue_sees_the_outcome_so_far() -> None:
    """A hook can read what the others have answered."""
    seen: list[Any] = []
    agent = builder(say("hi"))
    agent.on_after_step(lambda ctx: ctx.allow_stop("fine"), name="first")
    agent.on_should_continue(lambda ctx: seen.append(ctx.continuation.resolved_by))
    await run(agent)
    assert seen == ["first"]


# --- stop hooks ---------------------------------------------------------------------------------------


async def test_a_stop_hook_may_object_and_the_model_reads_why() -> None:
    """Pending tasks: do not stop, continue."""
    driver = ScriptedDriver([say("done"), call("add", a=1), say("really done")])

    def unfinished(ctx: Any) -> Any:
        return HookOutcome.block("a task is open") if len(ctx.state.steps) < 2 else None

    agent = (
        AgentBuilder().with_driver(driver).with_tools(add).on_stop(unfinished, name="tasks").build()
    )
    result = await agent.run("go")
    assert (result.text, result.state.step_count) == ("really done", 3)
    assert str(driver.requests[1]).endswith("assistant: done\nuser: a task is open")
    assert result.state.counters.objections == 1
    assert result.status is RunStatus.COMPLETED


async def test_stop_hooks_are_asked_only_when_about_to_stop() -> None:
    """Not while tools are being used."""
    asked: list[int] = []
    agent = builder(call("add", a=1), call("add", a=2), say("ok"))
    await run(agent.on_stop(lambda ctx: asked.append(ctx.step.index)))
    assert asked == [2]


async def test_objections_are_capped_and_the_cap_is_the_reason() -> None:
    """Eight in one run by default; the ninth ends it, honestly."""
    agent = builder(*[say(str(n)) for n in range(12)])
    result = await run(agent.on_stop(lambda ctx: HookOutcome.block("never!"), name="stubborn"))
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.OBJECTION_LIMIT)
    assert (result.state.step_count, result.state.counters.objections) == (9, 8)
    assert "objected 8 times" in result.explain()
    assert result.text == "8"


@pytest.mark.parametrize("cap", [0, 1, 3])
async def test_the_cap_can_be_set(cap: int) -> None:
    """Zero means that stop hooks are asked and cannot object."""
    asked: list[int] = []

    def object_(ctx: Any) -> Any:
        asked.append(1)
        return HookOutcome.block("no")

    agent = builder(*[say("x")] * 5).with_limits(objections=cap)
    result = await run(agent.on_stop(object_))
    assert (result.state.step_count, len(asked)) == (cap + 1, cap + 1)
    assert result.stop_reason is StopReason.OBJECTION_LIMIT


async def test_asking_to_continue_in_a_stop_hook_is_an_objection() -> None:
    """Both spellings are capped."""
    agent = builder(*[say("x")] * 5).with_limits(objections=2)
    result = await run(agent.on_stop(lambda ctx: ctx.request_continue("more")))
    assert (result.state.step_count, result.stop_reason) == (3, StopReason.OBJECTION_LIMIT)


async def test_objections_are_counted_over_the_run_and_not_in_a_row() -> None:
    """Calling a tool in between does not start the count again."""
    turns = [say("a"), call("add", a=1), say("b"), call("add", a=1), say("c")]
    agent = builder(*turns).with_limits(objections=2)
    result = await run(agent.on_stop(lambda ctx: HookOutcome.block("no")))
    assert (result.text, result.stop_reason) == ("c", StopReason.OBJECTION_LIMIT)


async def test_a_new_run_has_its_objections_back() -> None:
    """The cap is per run, not per conversation."""
    agent = builder(*[say("x")] * 6).with_limits(objections=1)
    built = agent.on_stop(lambda ctx: HookOutcome.block("no")).build()
    first = await built.run("go")
    second = await built.run("again", state=first.state)
    assert (first.state.step_count, second.state.step_count) == (2, 2)


@pytest.mark.parametrize("objection", ["block", "request"])
@pytest.mark.parametrize("point", ["after_step", "should_continue", "before_step", "stop"])
async def test_nothing_overrides_a_guard(objection: str, point: str) -> None:
    """Neither an objection nor a request, wherever the guard said no."""
    agent = builder(say("a"), say("b"))
    agent.add_hook(point, lambda ctx: ctx.forbid("closed"), name="guard")
    agent.on_stop(
        lambda ctx: HookOutcome.block("no") if objection == "block" else ctx.request_continue("no"),
        name="objector",
    )
    if point != "stop":  # a request before it would mean that nothing is about to stop
        agent.on_should_continue(lambda ctx: ctx.request_continue("please"), name="beggar")
    result = await run(agent)
    steps = 0 if point == "before_step" else 1
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, steps)
    assert result.outcome.resolved_by == "guard"
    assert result.state.counters.objections == 0


async def test_a_stop_hook_may_end_the_run_finally() -> None:
    """A stop at stop is a Forbid: the run is stopped, not completed, and the answer is still there."""
    result = await run(builder(say("hi")).on_stop(lambda ctx: HookOutcome.stop("no more")))
    assert (result.status, result.stop_reason, result.text) == (
        RunStatus.STOPPED,
        StopReason.HOOK,
        "hi",
    )


async def test_a_hook_names_its_own_stop_reason() -> None:
    """One the runtime knows is kept."""
    agent = builder(say("hi"))
    agent.on_before_step(lambda ctx: HookOutcome.stop("pricey", stop_reason=StopReason.COST_LIMIT))
    assert (await run(agent)).stop_reason is StopReason.COST_LIMIT


# --- the end ------------------------------------------------------------------------------------------


async def test_output_hooks_may_change_the_answer_and_make_it_a_value() -> None:
    """The caller gets what they made of it; the conversation keeps what the model said."""
    agent = builder(say("41")).on_output(lambda ctx: ctx.with_output(int(ctx.output) + 1))
    result = await run(agent)
    assert (result.output, result.text) == (42, "42")
    assert result.state.last_text() == "41"
    texted = await run(builder(say("41")).on_output(lambda ctx: ctx.output + "!"))
    assert texted.text == "41!"


async def test_a_withheld_answer_is_not_given() -> None:
    """The run ends stopped, with the reason and who said so."""
    agent = builder(say("the secret")).on_output(lambda ctx: HookOutcome.block("no"), name="censor")
    result = await run(agent)
    assert (result.output, result.text, result.status) == (None, "", RunStatus.STOPPED)
    assert (result.stop_reason, result.state.ending.decided_by) == (
        StopReason.OUTPUT_WITHHELD,
        "censor",
    )


async def test_output_hooks_see_what_a_stopped_run_has_to_say() -> None:
    """An answer that a limit cut short goes through them too."""
    agent = builder(*[say("partial")] * 3).with_limits(steps=2)
    agent.on_should_continue(lambda ctx: ctx.request_continue("more"))
    result = await run(agent.on_output(lambda ctx: ctx.output.upper()))
    assert (result.status, result.text) == (RunStatus.STOPPED, "PARTIAL")


async def test_why_did_it_stop_fits_one_line() -> None:
    """`explain` is one line for every kind of ending, before and after JSON."""
    for agent in (
        builder(say("hi")),
        builder(*[call("add", a=1)] * 3).with_limits(steps=2),
        builder(RuntimeError("lost")),
    ):
        result = await run(agent)
        line = result.explain()
        assert line
        assert "\n" not in line
        assert AgentState.from_json(result.state.to_json()).explain_stop() == line
    assert "has not stopped" in AgentState().explain_stop()


# --- forbid takes effect where it is said ---------------------------------------------------------------


async def test_forbid_before_a_step_means_that_it_is_not_made() -> None:
    """It is not counted, the model is not called, and the other hooks of the point are still asked."""
    asked: list[str] = []
    driver = ScriptedDriver([say("never")])
    agent = AgentBuilder().with_driver(driver)
    agent.on_before_step(lambda ctx: ctx.forbid("closed", "closing time"), name="door")
    agent.on_before_step(lambda ctx: asked.append("other"))
    agent.on_after_step(lambda ctx: asked.append("after"))
    agent.on_execution_end(lambda ctx: asked.append("end"))
    result = await run(agent)
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, "closing time")
    assert (result.state.step_count, driver.requests, asked) == (0, [], ["other", "end"])


async def test_forbid_before_an_inference_means_that_the_model_is_not_called() -> None:
    """The step ends without an answer, after_step runs, and the run ends stopped."""
    asked: list[str] = []
    driver = ScriptedDriver([call("add", a=1), say("never")])
    agent = AgentBuilder().with_driver(driver).with_tools(add)

    def second(ctx: Any) -> Any:
        return ctx.forbid("one is enough") if ctx.step_index == 1 else None

    agent.on_before_inference(second, name="door")
    agent.on_before_inference(lambda ctx: asked.append("other"))
    agent.on_after_step(lambda ctx: asked.append(f"after {ctx.step.type}"))
    result = await run(agent)
    assert (result.status, result.outcome.resolved_by) == (RunStatus.STOPPED, "door")
    assert (result.state.step_count, len(driver.requests)) == (2, 1)
    assert asked == ["other", "after tool_use", "other", "after incomplete"]


# --- answers that mean nothing ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [False, 42, "text"])
@pytest.mark.parametrize("point", ["session_start", "after_step", "execution_end", "session_end"])
async def test_a_meaningless_value_does_not_cost_the_answer(
    point: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing depends on the answer it is logged, on record, and ignored."""
    result = await run(builder(say("hi")).add_hook(point, lambda ctx: value, name="vague"))
    assert (result.status, result.text) == (RunStatus.COMPLETED, "hi")
    (ran,) = [ran for ran in hooks_in(result.records) if ran.hook == "vague"]
    assert (ran.verdict, ran.reason.startswith("ignored: it returned")) == ("proceed", True)
    assert f"hook 'vague' at {point}: it returned {value!r}" in caplog.text


async def test_a_meaningless_value_when_the_run_is_lost_is_ignored() -> None:
    """The hook at agent_failed changes nothing about the failure."""
    agent = builder(RuntimeError("down")).on_agent_failed(lambda ctx: False, name="vague")  # type: ignore[arg-type,return-value]
    result = await run(agent)
    assert str(result.error) == "down"
    assert [ran.verdict for ran in hooks_in(result.records) if ran.hook == "vague"] == ["proceed"]


@pytest.mark.parametrize("point", ["should_continue", "stop"])
async def test_a_meaningless_value_fails_where_the_answer_decides(point: str) -> None:
    """Nobody can tell whether False meant stop or continue."""
    result = await run(builder(say("hi")).add_hook(point, lambda ctx: False))
    assert result.status is RunStatus.FAILED


@pytest.mark.parametrize("answer", [HookOutcome.block("no"), HookOutcome.ask("sure?")])
@pytest.mark.parametrize("point", ["execution_end", "session_end"])
async def test_a_block_at_the_end_changes_nothing(point: str, answer: HookOutcome) -> None:
    """It is an error of the hook and on record; status, text and output stay."""
    result = await run(builder(say("hi")).add_hook(point, lambda ctx: answer, name="late"))
    assert (result.status, result.text, result.output) == (RunStatus.COMPLETED, "hi", "hi")
    (ran,) = [ran for ran in hooks_in(result.records) if ran.hook == "late"]
    assert ran.verdict == "failed"


@pytest.mark.parametrize("point", ["output", "execution_end", "session_end"])
@pytest.mark.parametrize("is_plain", [True, False])
async def test_an_evaluation_that_comes_too_late_is_reported(
    point: str, is_plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It changes nothing; what else the hook changed stays."""
    late = ContinuationEvaluation("", ContinuationDecision.FORBID_CONTINUATION, "too late")

    def hook(ctx: Any) -> Any:
        return late if is_plain else ctx.with_metadata("seen", True).forbid("too late")

    result = await run(builder(say("hi")).add_hook(point, hook, name="late"))
    assert (result.status, result.text) == (RunStatus.COMPLETED, "hi")
    assert result.state.metadata.get("seen") is (None if is_plain else True)
    assert "which is too late here" in caplog.text
    (ran,) = [ran for ran in hooks_in(result.records) if ran.hook == "late"]
    assert (ran.evaluations, ran.reason.startswith("ignored: ")) == ((), True)
