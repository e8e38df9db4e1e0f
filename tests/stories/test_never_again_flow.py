"""What went wrong before must not happen again: continuation, evaluations, crashing hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from never_again import (
    POINTS,
    Boom,
    add,
    assert_whole,
    builder,
    full_run,
    once,
)

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    ContinuationDecision,
    ErrorPolicy,
    HookOutcome,
    RunResult,
    RunStatus,
    StopReason,
)
from hookline.state import InferenceRequest, InferenceResponse
from hookline.testing import ScriptedDriver, call, say

# --- a continuation request never overrides a guard or a cancel -------------------------------------


EAGER = [
    ("before_step", lambda ctx: ctx.request_continue("more")),
    ("after_step", lambda ctx: ctx.request_continue("more")),
    ("should_continue", lambda ctx: ctx.request_continue("more")),
    ("stop", lambda ctx: ctx.request_continue("more")),
    ("stop", lambda ctx: HookOutcome.block("more")),
]


def eager(agent: AgentBuilder) -> AgentBuilder:
    """This builder with hooks that want to continue, everywhere."""
    for number, (point, hook) in enumerate(EAGER):
        agent.add_hook(point, hook, name=f"eager-{number}", priority=-1000)
    return agent


def test_a_continuation_request_does_not_override_a_limit() -> None:
    """Hooks that want to continue at every point still end at the step limit."""
    agent = eager(builder(*[say("again")] * 9)).with_limits(steps=3, objections=100)
    result = agent.build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert result.state.step_count == 3


def test_a_continuation_request_does_not_override_a_hook_that_forbids_or_stops() -> None:
    """Neither the gentle way to end a run nor the immediate one."""
    forbids = eager(builder(*[say("again")] * 9)).on_before_step(lambda ctx: ctx.forbid("enough"))
    assert forbids.build().run_sync("go").state.step_count == 0
    stops = eager(builder(*[say("again")] * 9)).on_after_step(lambda ctx: HookOutcome.stop("now"))
    result = stops.build().run_sync("go")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 1)


@pytest.mark.parametrize(
    "point", "before_step before_inference before_tool_use after_step should_continue stop".split()
)
def test_a_continuation_request_does_not_override_a_cancel(point: str) -> None:
    """Cancelled is cancelled, wherever in the step it happened."""
    agents: list[Agent] = []

    def cancel(ctx: Any) -> None:
        agents[0].cancel(reason="enough of this")

    driver = ScriptedDriver([call("add", a=1, b=2), say("one"), say("never")])
    agent = AgentBuilder().with_driver(driver).with_tools(add)
    agent.add_hook(point, cancel, priority=9, name="canceller")
    for number, (where, hook) in enumerate(EAGER):
        if where == "stop" or point != "stop":
            agent.add_hook(where, hook, name=f"eager-{number}", priority=-1000)
    agents.append(agent.build())
    result = agents[0].run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.CANCELLED, StopReason.CANCELLED)
    assert len(driver.requests) == {"before_step": 0, "before_inference": 0, "stop": 2}.get(
        point, 1
    )
    assert "enough of this" in result.explain()
    assert_whole(result)


async def test_a_continuation_request_does_not_override_a_cancel_during_a_model_call() -> None:
    """The model is interrupted and no stop hook brings the run back."""
    asked = asyncio.Event()

    class Hangs:
        async def infer(self, request: InferenceRequest, turn: Any) -> InferenceResponse:
            asked.set()
            await asyncio.sleep(60)
            raise AssertionError("never gets here")

    agent = eager(AgentBuilder().with_driver(Hangs())).build()
    running = asyncio.create_task(agent.run("go"))
    await asked.wait()
    agent.cancel(reason="changed my mind")
    result = await running
    assert (result.status, result.stop_reason) == (RunStatus.CANCELLED, StopReason.CANCELLED)
    assert "changed my mind" in result.explain()


def test_a_continuation_request_does_not_override_the_error_policy() -> None:
    """A run that is lost stays lost."""
    result = eager(builder(RuntimeError("gone"), say("never"))).build().run_sync("go")
    assert (result.status, result.text) == (RunStatus.FAILED, "")


# --- evaluations never go stale across steps --------------------------------------------------------


@pytest.mark.parametrize(
    "point", [*POINTS[1:4], "before_inference", "after_inference", "after_step"]
)
def test_evaluations_never_go_stale_across_steps(point: str) -> None:
    """What is requested once is honoured once: the next step begins with nothing said."""
    agent = builder(say("one"), say("two"), say("three"))
    agent.add_hook(point, once(lambda ctx: ctx.request_continue("again")), name="once")
    fresh: list[Any] = []
    agent.add_hook("before_step", lambda ctx: fresh.append(ctx.evaluations), priority=2000)
    result = agent.build().run_sync("go")
    assert all(said == () for said in fresh)
    requested = [
        step.index
        for step in result.steps
        for said in (step.outcome.evaluations if step.outcome is not None else ())
        if said.decision is ContinuationDecision.REQUEST_CONTINUATION
    ]
    assert requested in ([], [0])
    assert result.state.step_count == 1 + len(requested)


def test_evaluations_do_not_leak_from_one_run_into_the_next() -> None:
    """A stopped conversation continues with a new prompt, on the same agent and the same state."""
    agent = builder(say("one"), say("two"))
    built = agent.on_after_step(once(lambda ctx: ctx.forbid("enough"))).build()
    first = built.run_sync("go")
    second = built.run_sync("go on", state=first.state)
    assert (first.status, second.status) == (RunStatus.STOPPED, RunStatus.COMPLETED)


# --- a crashing hook never escapes the run ----------------------------------------------------------


CRASHES: dict[str, Callable[[], Exception | BaseException]] = {
    "an exception": lambda: Boom("crash"),
    "a cancelled error": lambda: asyncio.CancelledError(),
    "a stop iteration": lambda: StopIteration("crash"),
    "a group": lambda: ExceptionGroup("crash", [Boom("one"), Boom("two")]),
}


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("tier", ["hook", "observer"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_crashing_hook_never_escapes_the_run(point: str, tier: str, crash: str) -> None:
    """At every point, in every tier: the run gives a result, execution_end is reached, the state is whole."""
    ended: list[str] = []

    def broken(ctx: Any) -> None:
        raise CRASHES[crash]()

    agent = full_run().add_hook(point, broken, name="broken", tier=tier)
    agent.on_execution_end(lambda ctx: ended.append(ctx.status.value), tier="observer", name="end")
    if point == "agent_failed":
        agent.with_error_policy(ErrorPolicy.stop_on_any_error())
    result = await agent.build().run("go")
    assert isinstance(result, RunResult)
    assert ended
    assert AgentState.from_json(result.state.to_json()) == result.state
    assert_whole(result)
    reached = [
        record
        for record in result.records
        if record.type == "hook" and record.hook == "broken"  # type: ignore[attr-defined]
    ]
    if point not in ("before_compact",) and not (point == "agent_failed" and tier == "observer"):
        assert reached
        assert {record.verdict for record in reached} == {"failed"}  # type: ignore[attr-defined]
    if tier == "observer" and point != "agent_failed":
        assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


@pytest.mark.parametrize("point", POINTS)
async def test_a_hook_that_fails_open_never_changes_the_result(point: str) -> None:
    """Recorded and skipped, at every point."""

    def broken(ctx: Any) -> None:
        raise Boom("crash")

    agent = full_run().add_hook(point, broken, on_failure="open")
    result = await agent.build().run("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


@pytest.mark.parametrize("point", ["around_tool_use", "around_inference"])
async def test_a_crash_around_an_action_never_escapes_the_run(point: str) -> None:
    """Before the action, after it, and instead of it."""

    async def before(ctx: Any, call_next: Any) -> Any:
        raise Boom("before")

    async def after(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)
        raise Boom("after")

    async def instead(ctx: Any, call_next: Any) -> Any:
        return "not a result"

    for hook in (before, after, instead):
        result = (
            await builder(call("add", a=1, b=2), say("done"))
            .add_hook(point, hook)
            .build()
            .run("go")
        )
        assert isinstance(result, RunResult)
        assert_whole(result)
        failed = [each for each in result.records if getattr(each, "verdict", "") == "failed"]
        assert failed[0].hook == hook.__name__  # type: ignore[attr-defined]


async def test_a_crashing_matcher_listener_approver_or_driver_never_escapes_the_run() -> None:
    """Whatever else a user hands in is code that may be wrong, too."""

    def crash(*_: Any) -> Any:
        raise Boom("crash")

    class Driver:
        async def infer(self, request: Any, turn: Any) -> Any:
            raise Boom("crash")

    turns = call("add", a=1, b=2), say("done")
    matched = (
        await builder(*turns).on_before_tool_use(lambda ctx: None, matcher=crash).build().run("go")
    )
    assert (matched.status, matched.steps[0].results[0].is_blocked) == (RunStatus.COMPLETED, True)
    asked = (
        builder(*turns).on_before_tool_use(lambda ctx: HookOutcome.ask("?")).with_approver(crash)
    )
    assert (await asked.build().run("go")).steps[0].results[0].status == "denied"
    assert (await AgentBuilder().with_driver(Driver()).build().run("go")).status is RunStatus.FAILED


def test_a_crashing_listener_never_escapes_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the run continues."""

    def crash(record: Any) -> None:
        raise Boom("crash")

    result = builder(say("done")).on_event(crash).build().run_sync("go")
    assert result.status is RunStatus.COMPLETED
    assert "listener failed" in caplog.text
