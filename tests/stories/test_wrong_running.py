"""Wrong use: runs that are started, paused and resumed wrongly."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from wrong_use import builder, failure, refused

from hookline import AgentBuilder, AgentState, Decision, HookOutcome, RunStatus
from hookline.errors import HooklineError
from hookline.lifecycle import ExecutionHookContext
from hookline.state import InferenceResponse
from hookline.testing import say

# --- running ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [3, b"hello", ["hello"], {"role": "user"}, say("hello")])
def test_a_prompt_that_is_no_text(prompt: Any) -> None:
    """In every way of running, and before anything has run."""
    agent = builder().build()
    for attempt in (agent.run_sync, agent.run, agent.stream, agent.iterate):
        assert refused(lambda attempt=attempt: attempt(prompt)).startswith(
            "the prompt is text, not "
        )


def test_a_prompt_that_cannot_be_saved() -> None:
    """Half a surrogate pair is refused here and not when the state is saved."""
    assert "the prompt is not valid Unicode" in refused(
        lambda: builder().build().run_sync("\ud800")
    )


@pytest.mark.parametrize("state", [{}, "{}", 5])
def test_an_invalid_state(state: Any) -> None:
    """JSON text must be read first, and the message says with what."""
    message = refused(lambda: builder().build().run_sync("go", state=state))
    assert message.startswith("state= takes an AgentState, not ")
    assert "AgentState.from_json" in message


@pytest.mark.parametrize("option", ["session", "run_id"])
def test_an_id_that_is_no_text(option: str) -> None:
    """It would end in a state that cannot be loaded."""
    assert (
        refused(lambda: builder().build().run_sync("go", **{option: 7}))
        == f"{option}= takes text, not 7."
    )


def test_an_empty_id() -> None:
    """It would be another run each time, and nobody could resume it by that id."""
    assert refused(lambda: builder().build().run_sync("go", run_id="")) == (
        "a run id cannot be empty. Give a run_id."
    )


async def test_run_sync_inside_a_loop() -> None:
    """It would block the loop it is in: the error says what to write, and nothing is left unawaited."""
    agent = builder().build()
    for attempt in (lambda: agent.run_sync("go"), lambda: agent.resume_sync("some-run")):
        message = refused(attempt)
        assert message.startswith("this function waits for its result")
        assert "Write `await agent.run(...)`." in message


async def test_a_run_id_that_is_running_already() -> None:
    """Two runs at once have two ids; afterwards an id is free again."""
    started = asyncio.Event()

    class Slow:
        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            started.set()
            await asyncio.sleep(0.01)
            return InferenceResponse("done")

    agent = AgentBuilder().with_driver(Slow()).build()
    first = asyncio.create_task(agent.run("go", run_id="one"))
    await started.wait()
    with pytest.raises(HooklineError, match="run 'one' is running already"):
        agent.run("go", run_id="one")
    assert (await first).text == "done"
    assert (await agent.run("go", run_id="one")).text == "done"


async def test_the_result_of_a_stream_that_was_not_read() -> None:
    """The message says to read it to its end first."""
    stream = builder().build().stream("go")
    with pytest.raises(HooklineError, match="Read the stream to its end first"):
        _ = stream.result
    async for _ in stream:
        pass
    assert stream.result.text == "3"


def test_a_state_that_is_no_state_or_from_the_future() -> None:
    """Loading says what is wrong with it."""
    saved = json.loads(builder().build().run_sync("go").state.to_json())
    saved["version"] += 1
    message = refused(lambda: AgentState.from_json(json.dumps(saved)))
    assert "Upgrade hookline to read it." in message
    for wrong in ("garbage", "{}", '{"format": "other", "version": 1, "state": {}}', "[]"):
        assert "saved" in refused(lambda wrong=wrong: AgentState.from_json(wrong))


# --- pausing and resuming ---------------------------------------------------------------------------


def asking() -> AgentBuilder:
    """A builder whose run pauses at its one call."""
    return builder().on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask")


def test_resume_with_an_unknown_id() -> None:
    """The way out is to resume from the state."""
    message = refused(lambda: asking().build().resume_sync("no-such-run"))
    assert "no paused run 'no-such-run' is known to this agent." in message
    assert "agent.resume(AgentState.from_json(text), decisions)" in message


def test_resume_of_something_that_does_not_wait() -> None:
    """A finished state is run with a new prompt instead."""
    agent = builder().build()
    done = agent.run_sync("go")
    for finished in (done, done.state, AgentState()):
        message = refused(lambda finished=finished: agent.resume_sync(finished))
        assert message == "this state does not wait for anything. Run it with a new prompt instead."


@pytest.mark.parametrize("wrong", [None, 5, {}])
def test_resume_of_something_that_is_no_run(wrong: Any) -> None:
    """It takes an id, a state or a result."""
    message = refused(lambda: asking().build().resume_sync(wrong))
    assert "resume takes a run id, a state or a result" in message


@pytest.mark.parametrize("wrong", [True, Decision.allow(), "yes", [True]])
def test_decisions_that_are_no_mapping(wrong: Any) -> None:
    """Answers belong to approvals, by id; nothing has run by then."""
    agent = asking().build()
    paused = agent.run_sync("go")
    message = refused(lambda: agent.resume_sync(paused, wrong))
    assert message.startswith("decisions= takes answers by approval id, not ")
    assert "{pending.id: Decision.allow()" in message


def test_an_answer_to_a_question_nobody_asked_does_not_lose_the_run() -> None:
    """The ids that wait are named, and the run can be resumed by its id afterwards."""
    agent = asking().build()
    paused = agent.run_sync("go")
    (pending,) = paused.pending
    message = refused(lambda: agent.resume_sync(paused.run_id, {"call_1_1": True}))
    assert "no question with id 'call_1_1' waits for an answer." in message
    assert pending.id in message
    message = refused(lambda: agent.resume_sync(paused.run_id, {pending.id: "yes"}))  # type: ignore[dict-item]
    assert "Use Decision.allow(), .deny(...) or .edit(...)." in message
    resumed = agent.resume_sync(paused.run_id, {pending.id: True})
    assert (resumed.status, resumed.text) == (RunStatus.COMPLETED, "3")


def test_a_hook_that_fails_at_a_resume_leaves_the_run_paused() -> None:
    """The result says of what it failed, and the run can be resumed again."""
    broken = [False]

    def start(ctx: ExecutionHookContext) -> None:
        if broken[0]:
            raise ValueError("no connection")

    agent = asking().on_execution_start(start).build()
    paused = agent.run_sync("go")
    (pending,) = paused.pending
    broken[0] = True
    failed = agent.resume_sync(paused, {pending.id: True})
    assert failed.status is RunStatus.PAUSED
    assert "no connection" in str(failed.error)
    broken[0] = False
    resumed = agent.resume_sync(paused, {pending.id: True})
    assert (resumed.status, resumed.error) == (RunStatus.COMPLETED, None)


def test_running_a_paused_state() -> None:
    """A new prompt cannot come between a call and its answer."""
    agent = asking().build()
    paused = agent.run_sync("go")
    assert paused.status is RunStatus.PAUSED
    for attempt in (agent.run_sync, agent.run, agent.stream, agent.iterate):
        message = refused(lambda attempt=attempt: attempt("something else", state=paused.state))
        assert message.startswith("this state waits for an approval")
        assert "agent.resume(state, decisions={pending.id: Decision.allow()})" in message


@pytest.mark.parametrize("answer", [None, "yes", 1, HookOutcome.proceed()])
def test_an_approver_that_answers_something_else_denies(answer: Any) -> None:
    """Only True and Decisions allow; the reason says what it answered."""
    result = asking().with_approver(lambda pending: answer).build().run_sync("go")
    denied = result.steps[0].results[0]
    assert denied.status == "denied"
    assert "neither a Decision nor a bool" in denied.reason


def test_a_permission_hook_that_returns_a_bool_denies() -> None:
    """True means nothing there: consent is a Decision."""
    agent = (
        asking()
        .on_permission_request(lambda ctx: True, name="yes")
        .with_approver(lambda pending: True)
    )
    result = agent.build().run_sync("go")
    assert result.steps[0].results[0].status == "denied"
    assert "Decision" in failure(result, "yes")
