"""Hooks around a step: before and after it, or instead of it."""

from __future__ import annotations

from typing import Any

import pytest
from lives import Tape, cut

from hookline import (
    AgentBuilder,
    Decision,
    ErrorPolicy,
    HookOutcome,
    RunStatus,
    StepHookContext,
    StopReason,
    tool,
)
from hookline.errors import HookError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import CallSettled, MemoryJournal, StepFinished, fold
from hookline.playback import backtest, replay
from hookline.state import InferenceRequest, UserMessage
from hookline.testing import ScriptedDriver, call, say


@tool(effect="pure")
def add(a: int) -> int:
    """Add one."""
    return a + 1


def builder(*turns: Any) -> AgentBuilder:
    """An agent with one tool that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)


async def test_it_is_outside_of_the_hooks_before_and_after_a_step() -> None:
    """The outermost begins first and ends last; it sees the step that was made."""
    seen: list[str] = []

    async def outer(ctx: Any, call_next: Any) -> Any:
        seen.append(f"outer {ctx.step_number}")
        ctx = await call_next(ctx)
        seen.append(f"outer made {ctx.step.type}")
        return ctx

    async def inner(ctx: Any, call_next: Any) -> Any:
        seen.append("inner")
        ctx = await call_next(ctx)
        seen.append("inner after")
        return ctx

    agent = builder(call("add", a=1), say("2"))
    agent.around_step(outer, priority=1).around_step(inner)
    agent.on_before_step(lambda ctx: seen.append("before"))
    agent.on_after_step(lambda ctx: seen.append("after"))
    result = await agent.build().run("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "2")
    one = ["inner", "before", "after", "inner after"]
    assert seen == [
        "outer 1",
        *one,
        "outer made tool_use",
        "outer 2",
        *one,
        "outer made final_response",
    ]


def noting(ctx: Any, call_next: Any) -> Any:
    """Notes something before and something after each step, and says something before the first."""

    async def work() -> Any:
        before = ctx.with_metadata(f"before {ctx.step_number}", True)
        if ctx.step_number == 1:
            before = before.with_state(before.state.with_user_message("be brief", by="noting"))
        made = await call_next(before)
        return made.with_metadata(f"after {ctx.step_number}", made.step.type)

    return work()


NOTES = {
    "before 1": True,
    "after 1": "tool_use",
    "before 2": True,
    "after 2": "final_response",
}


async def test_it_may_change_the_state_before_and_after() -> None:
    """The model reads what it said before, and the journal adds up to the same state."""
    driver = ScriptedDriver([call("add", a=1), say("2")])
    journal = MemoryJournal()
    agent = AgentBuilder().with_driver(driver).with_tools(add).with_journal(journal)
    result = await agent.around_step(noting).build().run("go", run_id="r")
    assert dict(result.state.metadata) == NOTES
    assert str(driver.requests[0]) == "user: go\nuser: be brief"
    folded = fold(await journal.read("r")).state
    assert folded.messages == result.state.messages
    assert folded.metadata == result.state.metadata


async def test_not_calling_next_means_that_the_step_is_not_made() -> None:
    """The run ends stopped, and the reason names the hook."""

    async def refuse(ctx: Any, call_next: Any) -> Any:
        return ctx.with_metadata("refused", True) if ctx.step_number == 2 else await call_next(ctx)

    agent = builder(call("add", a=1), say("never")).around_step(refuse, name="door")
    result = await agent.build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_REFUSED)
    assert (result.state.step_count, result.state.metadata["refused"]) == (1, True)
    assert "decided by 'door'" in result.explain()


@pytest.mark.parametrize("as_given", [True, False])
async def test_a_step_without_calls_can_be_made_again(as_given: bool) -> None:
    """A model that failed gets another step."""

    async def again(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        return made if made.step.text else await call_next(ctx if as_given else made)

    result = await builder(RuntimeError("down"), say("ok")).around_step(again).build().run("go")
    assert (result.status, result.text, result.error) == (RunStatus.COMPLETED, "ok", None)


async def test_a_step_whose_call_has_started_is_not_made_again() -> None:
    """That is a failure of the hook."""

    async def again(ctx: Any, call_next: Any) -> Any:
        return await call_next(await call_next(ctx))

    result = (
        await builder(call("add", a=1), say("x")).around_step(again, name="twice").build().run("go")
    )
    assert result.status is RunStatus.FAILED
    assert str(result.error).startswith(
        "hook 'twice' at around_step: it called next a second time, and a call of the step has started."
    )


async def test_the_hook_that_calls_next_a_second_time_is_named() -> None:
    """Hooks inside it, which are called again with it, are not at fault."""

    async def again(ctx: Any, call_next: Any) -> Any:
        return await call_next(await call_next(ctx))

    async def hand_on(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    agent = builder(call("add", a=1), say("x")).around_step(again, name="twice", priority=1)
    result = await agent.around_step(hand_on, name="inside").build().run("go")
    assert isinstance(result.error, HookError)
    assert result.error.hook == "twice"


@pytest.mark.parametrize("value", [None, 42])
async def test_it_returns_a_context(value: Any) -> None:
    """Anything else is a failure that names the hook and the remedy."""

    async def wrong(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)
        return value

    result = await builder(say("hi")).around_step(wrong, name="wrong").build().run("go")
    assert result.status is RunStatus.FAILED
    assert "Return what `await next(ctx)` gives" in str(result.error)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_goes_to_the_error_policy(when: str) -> None:
    """By default the run fails; if the policy ignores it, the step is made without the hook."""

    async def crash(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx) if when == "after" else None
        assert made is not made, "broken"

    agent = builder(say("hi")).around_step(crash, name="crash")
    assert (await agent.build().run("go")).status is RunStatus.FAILED
    ignore = ErrorPolicy(actions={ErrorClass.HOOK: ErrorAction.IGNORE})
    agent = builder(say("hi")).around_step(crash, name="crash").with_error_policy(ignore)
    result = await agent.build().run("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "hi")


async def test_a_pause_ends_it_and_a_resume_begins_it_again() -> None:
    """The code behind `next` does not run at the pause; after the answer the hook runs from its beginning."""
    seen: list[str] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        seen.append("before")
        try:
            made = await call_next(ctx.with_metadata("begun", len(seen)))
        except Exception:
            seen.append("caught")
            raise
        seen.append("after")
        return made

    def agent() -> Any:
        made = builder(call("add", a=1), say("2")) if not seen else builder(say("2"))
        made.around_step(watch).on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"))
        return made.with_journal(journal).build()

    journal = MemoryJournal()
    paused = await agent().run("go", run_id="r")
    assert (paused.status, seen) == (RunStatus.PAUSED, ["before"])
    answer = {each.id: Decision.allow() for each in paused.pending}
    result = await agent().resume("r", answer)
    assert (result.status, result.text) == (RunStatus.COMPLETED, "2")
    assert seen == ["before", "before", "after", "before", "after"]
    folded = fold(await journal.read("r")).state
    assert (folded.messages, folded.metadata) == (result.state.messages, result.state.metadata)


async def test_a_process_that_dies_behind_the_step_loses_nothing() -> None:
    """The hook runs again, gets the step from the record, and has the answer of the model that it had asked."""
    used: list[int] = []

    @tool
    def pay(amount: int) -> int:
        """Pay."""
        used.append(amount)
        return amount

    async def judge(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        request = InferenceRequest((UserMessage(f"good? {ctx.step_index}"),))
        said = await made.run.ask_model(request, name="judge", driver=ScriptedDriver([say("yes")]))
        return made.with_metadata(f"judged {ctx.step_index}", said.text)

    def agent(tape: Tape, *turns: Any) -> Any:
        made = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(pay)
        made.around_step(noting).around_step(judge).with_journal(tape)
        return made.build()

    whole = Tape()
    turns = call("pay", amount=5), say("done")
    expected = await agent(whole, *turns).run("go", run_id="r")
    types = [record.type for record in whole.written]
    for at in range(types.index("tool_result") + 1, len(types)):
        tape = cut(whole, at)
        answers = types[:at].count("response")
        result = await agent(tape, *turns[answers:]).resume("r")
        assert result.state.metadata == expected.state.metadata == {**NOTES, **JUDGED}, at
        assert result.state.messages == expected.state.messages, at
        assert result.usage == expected.usage, at
        assert sum(record.type == "consulted" for record in result.records) == 2, at
        replayed = await replay(tape, "r", agent(Tape()))
        assert replayed.identical, (at, replayed)
    assert used == [5]


JUDGED = {"judged 0": "yes", "judged 1": "yes"}


@pytest.mark.parametrize("action", [ErrorAction.STOP, ErrorAction.IGNORE])
async def test_what_is_passed_on_to_a_hook_that_crashes_is_lost_on_record_too(
    action: ErrorAction,
) -> None:
    """The journal gives the state that the run ended with."""

    async def outer(ctx: StepHookContext, next: Any) -> Any:
        return (await next(ctx.with_metadata("passed_on", 1))).with_metadata("after", 1)

    async def inner(ctx: StepHookContext, next: Any) -> Any:
        raise ValueError("before the step")

    policy = ErrorPolicy(actions={ErrorClass.HOOK: action})
    builder = AgentBuilder().with_driver(ScriptedDriver([say("ok")])).with_error_policy(policy)
    result = await builder.around_step(outer, priority=1).around_step(inner).build().run("go")
    assert dict(result.state.metadata) == {}
    settled = fold(result.records).settled
    assert settled.metadata == result.state.metadata
    assert [message.text for message in settled.messages] == [
        message.text for message in result.state.messages
    ]


async def test_the_record_of_a_step_has_what_was_changed_behind_it() -> None:
    """A run that is forked there continues with that."""
    journal = MemoryJournal()
    agent = builder(call("add", a=1), say("2")).around_step(noting).with_journal(journal)
    await agent.build().run("go", run_id="r")
    records = await journal.read("r")
    end = next(at for at, record in enumerate(records) if isinstance(record, StepFinished))
    assert dict(fold(records[: end + 1]).state.metadata) == {
        "before 1": True,
        "after 1": "tool_use",
    }


async def test_results_are_written_before_the_code_behind_the_step_runs() -> None:
    """However long that takes, no call is in doubt."""
    tape = Tape()
    written: list[list[str]] = []

    async def look(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        written.append([each.result.text for each in tape.written if isinstance(each, CallSettled)])
        return made

    agent = builder(call("add", a=1), say("2")).around_step(look).with_journal(tape).build()
    await agent.run("go")
    assert written == [["2"], ["2"]]


async def test_a_process_that_dies_in_a_repeated_step_does_not_end_the_run() -> None:
    """The step before it had failed, and that is no longer the end."""

    async def again(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        return made if made.step.text else await call_next(made)

    def agent(tape: Tape, *turns: Any) -> Any:
        return builder(*turns).around_step(again).with_journal(tape).build()

    whole = Tape()
    await agent(whole, RuntimeError("down"), say("ok")).run("go", run_id="r")
    ends = [at for at, each in enumerate(whole.written) if isinstance(each, StepFinished)]
    for at in range(ends[0] + 1, len(whole.written)):
        result = await agent(cut(whole, at), say("ok")).resume("r")
        assert (result.status, result.text) == (RunStatus.COMPLETED, "ok"), at


async def test_what_it_changed_after_a_step_is_written_before_the_next() -> None:
    """If the process dies in the hook before the next step, that change is not lost."""
    kept: list[Any] = []

    async def count(ctx: Any, call_next: Any) -> Any:
        kept.append(fold(await journal.read("r")).settled.metadata.get("made") if kept else None)
        made = await call_next(ctx)
        return made.with_metadata("made", made.step_number)

    journal = MemoryJournal()
    agent = builder(call("add", a=1), call("add", a=2), say("4")).around_step(count)
    await agent.with_journal(journal).build().run("go", run_id="r")
    assert kept == [None, 1, 2]


async def test_neither_replay_nor_back_test_calls_it() -> None:
    """What it changed is on record, and is changed again."""
    asked: list[int] = []

    async def count(ctx: Any, call_next: Any) -> Any:
        asked.append(ctx.step_index)
        return await call_next(ctx)

    journal = MemoryJournal()
    agent = builder(call("add", a=1), say("2")).around_step(noting)
    await agent.with_journal(journal).build().run("go", run_id="r")
    other = builder().around_step(count, name="count").build()
    replayed = await replay(journal, "r", other)
    assert replayed.identical, replayed
    report = await backtest(journal, other)
    assert (report.ok, report.around, asked) == (True, ("count",), []), report


async def test_a_repeated_step_is_replayed() -> None:
    """Both steps are on record, and what was changed between them."""

    async def again(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        return made if made.step.text else await call_next(made.with_metadata("again", True))

    journal = MemoryJournal()
    agent = builder(RuntimeError("down"), say("ok")).around_step(again).with_journal(journal)
    result = await agent.build().run("go", run_id="r")
    assert (result.text, result.state.metadata["again"]) == ("ok", True)
    assert fold(await journal.read("r")).state.metadata == result.state.metadata
    replayed = await replay(journal, "r", builder().build())
    assert replayed.identical, replayed


async def refuse(ctx: Any, call_next: Any) -> Any:
    """Makes no second step."""
    return await call_next(ctx) if ctx.step_number == 1 else ctx.with_metadata("refused", True)


async def crash_before(ctx: Any, call_next: Any) -> Any:
    """Fails before the second step."""
    return await call_next(ctx if ctx.step_number == 1 else 1 / 0)


async def crash_after(ctx: Any, call_next: Any) -> Any:
    """Fails after the second step."""
    made = await call_next(ctx)
    return made if made.step_number == 1 else 1 / 0


@pytest.mark.parametrize("hook", [refuse, crash_before, crash_after])
@pytest.mark.parametrize("action", [ErrorAction.STOP, ErrorAction.IGNORE])
async def test_a_run_that_it_ends_is_replayed(hook: Any, action: ErrorAction) -> None:
    """After a refusal and after a crash, whatever the error policy says: by record, and from every kill."""

    def agent(tape: Tape, *turns: Any) -> Any:
        made = builder(*turns).around_step(noting, priority=1).around_step(hook, name="inside")
        made.on_error(lambda ctx: ctx.with_metadata("failed", True), name="count")
        made.with_error_policy(ErrorPolicy(actions={ErrorClass.HOOK: action}))
        return made.with_journal(tape).build()

    whole, turns = Tape(), (call("add", a=1), say("2"))
    result = await agent(whole, *turns).run("go", run_id="r")
    for at in whole.cuts():
        tape = cut(whole, at)
        answers = sum(each.type == "response" for each in tape.written)
        again = await agent(tape, *turns[answers:]).resume("r")
        assert (again.status, again.text, again.state.ending) == (
            result.status, result.text, result.state.ending,
        ), at  # fmt: skip
        replayed = await replay(tape, "r", agent(Tape()))
        assert replayed.identical, (at, replayed)
        report = await backtest(tape.records("r"), agent(Tape()))
        assert report.ok, (at, str(report))


async def test_the_hook_that_made_no_step_is_named() -> None:
    """Hooks around it that change what it returned did not decide that."""
    agent = builder(call("add", a=1)).around_step(refuse, name="door")

    async def hand_on(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        return made.with_metadata("seen", made.step_number)

    result = await agent.around_step(hand_on, priority=1).build().run("go")
    assert (result.stop_reason, result.state.ending.decided_by) == (
        StopReason.STEP_REFUSED, "door",
    )  # fmt: skip


async def test_a_step_that_was_refused_is_not_made_again() -> None:
    """A hook before the step has the last word."""

    async def again(ctx: Any, call_next: Any) -> Any:
        return await call_next(await call_next(ctx))

    agent = builder(say("x")).around_step(again, name="twice")
    agent.on_before_step(lambda ctx: HookOutcome.block("no"))
    result = await agent.build().run("go")
    assert (
        "'twice' at around_step: it called next a second time, and the first step was not run"
        in str(result.error)
    )


async def test_a_step_that_waited_can_be_made_again() -> None:
    """If its calls were denied, none of them has started."""

    async def again(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        return made if made.step.text else await call_next(made.with_metadata("again", True))

    journal = MemoryJournal()

    def agent(*turns: Any) -> Any:
        made = builder(*turns).around_step(again).with_journal(journal)
        return made.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?")).build()

    paused = await agent(call("add", a=1)).run("go", run_id="r")
    answer = {each.id: Decision.deny() for each in paused.pending}
    result = await agent(say("ok")).resume("r", answer)
    assert (result.status, result.text) == (RunStatus.COMPLETED, "ok")
    assert fold(await journal.read("r")).state.metadata == result.state.metadata == {"again": True}
    replayed = await replay(journal, "r", agent())
    assert replayed.identical, replayed
