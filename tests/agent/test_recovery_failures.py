"""What failed, was refused or was withheld before a process died stays so after it, and is reported once."""

from __future__ import annotations

from typing import Any

import pytest
from lives import Case, Tape, World, cut, driven, story_of

from hookline import AgentBuilder, ErrorPolicy, HookOutcome, RunResult, RunStatus, StopReason, tool
from hookline.errors import RateLimitError, ToolError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import ErrorRaised, Record, encode
from hookline.testing import FakeClock, ScriptedDriver, call, say

STOP = ErrorAction.STOP


async def whole(case: Case) -> tuple[RunResult, Tape]:
    """A run that nobody killed, and its record."""
    world = World(case, Tape())
    return await driven(world, world.agent().run("go", run_id="run")), world.tape


async def resume_case(case: Case, tape: Tape, at: int) -> RunResult:
    """The run of a process that died after so many records, at its end."""
    world = World(case, cut(tape, at))
    return await driven(world, world.agent().resume("run"))


def after(tape: Tape, kind: str, number: int = 0) -> int:
    """How many records there are with this one, of its kind."""
    found = [at for at, record in enumerate(tape.written, 1) if record.type == kind]
    return found[number]


# --- a run that had failed, or was cancelled -----------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "hooks"),
    [
        (("fails",), ()),
        (("invalid",), ()),
        (("look", "fails"), ()),
        (("look",), (("after_inference", "crash"),)),
        (("look",), (("after_step", "crash"),)),
        (("fails",), (("after_tool_use", "watch"),)),
        (("fails", "delegate"), (("subagent_start", "crash"),)),
    ],
)
@pytest.mark.parametrize("kind", ["step", "status"])
async def test_a_run_that_had_failed_has_failed(
    script: tuple[str, ...], hooks: tuple[tuple[str, str], ...], kind: str
) -> None:
    """Of the same error, also when the process died before it could say so."""
    case = Case((script,), hooks, on_error=STOP)
    expected, tape = await whole(case)
    result = await resume_case(case, tape, after(tape, kind))
    assert (expected.status, result.status) == (RunStatus.FAILED, RunStatus.FAILED)
    assert result.error is not None
    assert story_of(result) == story_of(expected)


async def test_a_call_that_ends_the_run_ends_it_from_its_record_too() -> None:
    """Its result is on record, the step is not settled: the error policy has said stop, and is not asked again."""
    case = Case((("fails", "look"),), on_error=STOP)
    expected, tape = await whole(case)
    result = await resume_case(case, tape, after(tape, "tool_result"))
    assert result.status is RunStatus.FAILED
    assert story_of(result) == story_of(expected)


async def test_agent_failed_hooks_are_called_for_a_failure_in_another_process() -> None:
    """With an exception of the name, the words and the kind it had."""
    case = Case((("fails",),), on_error=STOP)
    _, tape = await whole(case)
    world = World(case, cut(tape, after(tape, "step")))
    heard: list[Any] = []
    builder = world._builder("agent", case.script).with_journal(world.tape)
    agent = builder.on_agent_failed(lambda ctx: heard.append(ctx.exception)).build()
    result = await agent.resume("run")
    assert heard == [result.error]
    assert isinstance(result.error, ValueError)
    assert str(result.error) == "no such luck"


async def test_a_run_that_was_cancelled_is_cancelled() -> None:
    """It does not become an ordinary end because the process died."""
    tape = Tape()

    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        agents[0].cancel("run", "enough")
        return "done"

    def agent() -> Any:
        driver = ScriptedDriver([call("wait"), say("never")])
        return AgentBuilder().with_driver(driver).with_tools(wait).with_journal(tape).build()

    agents = [agent()]
    expected = await agents[0].run("go", run_id="run")
    tape = cut(tape, after(tape, "step"))
    result = await agent().resume("run")
    assert (expected.status, result.status) == (RunStatus.CANCELLED, RunStatus.CANCELLED)
    assert story_of(result) == story_of(expected)


async def test_what_hooks_noted_of_a_failed_run_is_kept() -> None:
    """Also of one that failed before its first step had begun."""
    case = Case((("look",),), (("before_step", "crash"), ("error", "note")), on_error=STOP)
    expected, tape = await whole(case)
    result = await resume_case(case, tape, after(tape, "status"))
    assert dict(result.state.metadata) == {"note-1": 0}
    assert story_of(result) == story_of(expected)


# --- a run that was refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["refuse", "crash", "end"])
async def test_a_refused_prompt_makes_no_step_in_another_process(action: str) -> None:
    """A refused run is on record with its end, or not at all."""
    case = Case((("look",),), (("prompt_submit", action),))
    world = World(case, Tape())
    on_record: list[list[Record]] = []
    builder = world.builder()
    builder.on_execution_end(lambda ctx: on_record.append(list(world.tape.written)))
    expected = await driven(world, builder.build().run("go", run_id="run"))
    assert on_record == [[]]
    assert world.tape.cuts() == [len(world.tape.written)]
    result = await resume_case(case, world.tape, len(world.tape.written))
    assert (result.status, result.steps) == (RunStatus.STOPPED, ())
    assert result.stop_reason in (StopReason.PROMPT_REFUSED, StopReason.HOOK)
    assert story_of(result) == story_of(expected)


# --- what failed on the way ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hooks",
    [
        (("before_step", "crash"),),
        (("before_inference", "crash"),),
        (("after_inference", "crash"),),
        (("after_step", "crash"),),
    ],
)
async def test_a_hook_that_had_failed_is_reported_once(hooks: tuple[tuple[str, str], ...]) -> None:
    """In the errors of the step, and on record."""
    case = Case((("look", "invalid"),), hooks)
    expected, tape = await whole(case)
    for at in tape.cuts():
        result = await resume_case(case, tape, at)
        errors = [record for record in result.records if isinstance(record, ErrorRaised)]
        assert [step.errors for step in result.steps] == [step.errors for step in expected.steps]
        assert len(errors) == sum(len(step.errors) for step in expected.steps)


class Busy:
    """A model that is busy so often, then says this."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def infer(self, request: Any, turn: Any) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise RateLimitError("slow down")
        return await ScriptedDriver([say("here")]).infer(request, turn)


async def test_failed_attempts_count_in_the_process_that_got_the_answer() -> None:
    """A process that died in between had failures of its own, which led to nothing."""
    tape = Tape()

    def agent(times: int) -> Any:
        policy = ErrorPolicy(actions={ErrorClass.RATE_LIMIT: ErrorAction.RETRY})
        builder = AgentBuilder().with_driver(Busy(times)).with_error_policy(policy)
        builder.on_after_inference(lambda ctx: None)
        return builder.with_clock(FakeClock()).with_journal(tape).build()

    await agent(2).run("go", run_id="run")
    tape = cut(tape, after(tape, "error", 1))
    await agent(1).resume("run")
    tape = cut(tape, after(tape, "response"))
    result = await agent(9).resume("run")
    assert [error.type for error in result.steps[0].errors] == ["hookline.errors.RateLimitError"]
    assert (result.text, result.state.counters.errors) == ("here", 1)


async def test_an_error_hook_says_again_what_it_said_of_a_call_on_record() -> None:
    """It is not called a second time, and what it noted is not lost."""
    case = Case((("fails",),), (("error", "note"),))
    expected, tape = await whole(case)
    result = await resume_case(case, tape, after(tape, "tool_result"))
    assert dict(result.state.metadata) == dict(expected.state.metadata) != {}


# --- words that were withheld --------------------------------------------------------------------------


def replace(ctx: Any) -> Any:
    """Makes something else of it."""
    return ctx.with_result("nothing happened")


def withhold(ctx: Any) -> Any:
    """Keeps it to itself."""
    return HookOutcome.block("not for you")


@pytest.mark.parametrize(
    ("hook", "words"),
    [(withhold, "not for you"), (replace, "the call failed, and a hook replaced its result")],
)
async def test_the_words_of_a_withheld_error_are_nowhere_when_it_ends_the_run(
    hook: Any, words: str
) -> None:
    """Neither in the status, nor in the result, nor anywhere else on record; in any process."""
    case = Case((("fails",),), on_error=STOP)

    def agent(tape: Tape) -> Any:
        builder = World(case, tape)._builder("agent", case.script).with_journal(tape)
        return builder.on_after_tool_use(hook).build()

    tape = Tape()
    results = [await agent(tape).run("go", run_id="run")]
    for at in tape.cuts()[:-1]:
        results.append(await agent(cut(tape, at)).resume("run"))
    for result in results:
        assert (result.status, result.state.ending.reason) == (RunStatus.FAILED, words)
        assert isinstance(result.error, ToolError)
        assert not any(b"no such luck" in encode(record) for record in result.records)
        assert story_of(result) == story_of(results[0])


# --- calls that did not run ----------------------------------------------------------------------------


async def test_calls_that_did_not_run_have_the_arguments_they_would_have_run_with() -> None:
    """In any process: as they were validated."""
    case = Case((("look",), ("look about",)), (("after_inference", "stop"),))
    expected, tape = await whole(case)
    assert dict(expected.steps[1].calls[0].args) == {"at": ""}
    for at in tape.cuts():
        assert story_of(await resume_case(case, tape, at)) == story_of(expected)


async def test_a_call_that_did_not_run_is_not_on_record_as_started() -> None:
    """Its result says so already."""
    case = Case((("look", "unknown"),), on_error=STOP)
    expected, tape = await whole(case)
    result = await resume_case(case, tape, after(tape, "tool_result"))
    assert "call" not in [record.type for record in result.records]
    assert story_of(result) == story_of(expected)
