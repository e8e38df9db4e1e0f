"""None"""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest
from lives import Tape, cut
from plain_store import PlainStore

from hookline import (
    AgentBuilder,
    AgentState,
    ErrorPolicy,
    HookOutcome,
    RunResult,
    RunStatus,
    StopReason,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from hookline.errors import ToolError
from hookline.journal import CallAdmitted, CallSettled, HookRan, Record, ToolProgress, decode
from hookline.state import InferenceResponse, ResultStatus, Usage, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


def builder(*turns: Any, tools: tuple[Any, ...] = ()) -> AgentBuilder:
    """An agent with these tools besides its own two that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add, fail, *tools)


class Log:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def hook(self, word: str) -> Any:
        """A hook that notes the call."""
        return lambda ctx: self.lines.append(f"{word} {ctx.tool_call.args.get('n', '')}".strip())


def results(result: Any, step: int = 0) -> list[ToolResult]:
    """The results of one step."""
    return list(result.steps[step].results)


# --- one call, start to finish ------------------------------------------------------------------------


async def test_hooks_see_validated_arguments_with_defaults_filled_in() -> None:
    """Text that is a number has become one, and what the model left out is there."""
    seen: list[Any] = []
    agent = builder(call("add", a="41"), say("42"))
    agent.on_before_tool_use(lambda ctx: seen.append(dict(ctx.tool_call.args)))
    result = await agent.build().run("go")
    assert seen == [{"a": 41, "b": 1}]
    assert results(result)[0].result == 42


async def test_arguments_are_read_only_to_any_depth() -> None:
    """A hook that tries to change them in place fails, and the call is blocked: that is failing closed."""
    got: list[Any] = []

    async def store(items: dict[str, list[int]]) -> str:
        """Store."""
        got.append(items)
        items["mine"] = []
        return "ok"

    def meddle(ctx: Any) -> None:
        ctx.tool_call.args["items"]["a"].append(99)

    turns = (call("store", items={"a": [1]}), say("done"))
    blocked = await builder(*turns, tools=(store,)).on_before_tool_use(meddle).build().run("go")
    assert results(blocked)[0].status is ResultStatus.BLOCKED
    plain = await builder(*turns, tools=(store,)).build().run("go")
    assert got == [{"a": [1], "mine": []}]
    assert plain.steps[0].calls[0].args == {"items": {"a": [1]}}  # the tool had a copy of its own


async def test_rewrites_fold_in_order_and_are_validated_again() -> None:
    """Each hook sees the call as the one before it left it; what runs is what the last one left."""
    seen: list[int] = []

    def double(ctx: Any) -> Any:
        seen.append(ctx.tool_call.args["a"])
        return ctx.with_args(a=str(ctx.tool_call.args["a"] * 2))

    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(double, name="one").on_before_tool_use(double, name="two")
    result = await agent.build().run("go")
    assert seen == [1, 2]
    assert results(result)[0].result == 5
    assert result.steps[0].calls[0].args == {"a": 4, "b": 1}


async def test_a_rewrite_that_does_not_fit_the_tool_is_a_block_by_that_hook() -> None:
    """The tool does not run, and the model reads what happened."""
    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(lambda ctx: ctx.with_args(a="not a number"), name="mangler")
    (blocked,) = results(await agent.build().run("go"))
    assert (blocked.status, blocked.decided_by) == (ResultStatus.BLOCKED, "mangler")


async def test_a_hook_cannot_swap_the_call_for_another() -> None:
    """The call keeps its id: every call of the model's has its own result."""
    from hookline import ToolCall

    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(lambda ctx: ToolCall("other", "add", {"a": 1}), name="swapper")
    result = await agent.build().run("go")
    (blocked,) = results(result)
    assert (blocked.status, blocked.decided_by) == (ResultStatus.BLOCKED, "swapper")
    check_transcript(result.state.messages)


async def test_a_call_may_be_redirected_to_another_tool() -> None:
    """With the same id, and arguments that fit there."""
    from hookline import ToolCall

    agent = builder(call("fail"), say("ok"))
    agent.on_before_tool_use(lambda ctx: ToolCall(ctx.tool_call.id, "add", {"a": 2}))
    (done,) = results(await agent.build().run("go"))
    assert (done.name, done.result) == ("add", 3)


@pytest.mark.parametrize("value", [None, 0, "text", {"a": [1]}, False])
async def test_a_hook_may_supply_the_result_itself(value: Any) -> None:
    """The tool does not run; None is a value like any other, and later hooks see it."""
    seen: list[Any] = []
    agent = builder(call("fail"), say("ok"))
    agent.on_before_tool_use(lambda ctx: ctx.with_result(value))
    agent.on_after_tool_use(lambda ctx: seen.append(ctx.execution.result))
    result = await agent.build().run("go")
    (done,) = results(result)
    assert (done.is_success, done.result, seen) == (True, value, [value])
    assert result.state.counters.tool_calls == 0
    assert not any(isinstance(record, CallAdmitted) for record in result.records)


async def test_policies_judge_what_the_hooks_made_of_the_call() -> None:
    """A policy sees the final call, and cannot change it."""
    seen: list[Any] = []
    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(lambda ctx: seen.append(ctx.tool_call.args["a"]), tier="policy")
    agent.on_before_tool_use(lambda ctx: ctx.with_args(a=100), priority=-10)
    await agent.build().run("go")
    assert seen == [100]
    changer = builder(call("add", a=1), say("ok"))
    changer.on_before_tool_use(lambda ctx: ctx.with_args(a=5), tier="policy", name="meddler")
    (blocked,) = results(await changer.build().run("go"))
    assert (blocked.status, blocked.decided_by) == (ResultStatus.BLOCKED, "meddler")


async def test_a_blocked_call_is_read_by_the_model_and_the_run_continues() -> None:
    """It is recorded with the hook's name, and the run ends completed."""
    agent = builder(call("add", a=1), say("then not"))
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("too dangerous"), name="guard")
    result = await agent.build().run("go")
    assert (result.text, result.status) == ("then not", RunStatus.COMPLETED)
    (blocked,) = results(result)
    assert (blocked.status, blocked.reason, blocked.decided_by) == (
        ResultStatus.BLOCKED,
        "too dangerous",
        "guard",
    )
    assert (blocked.is_blocked, blocked.is_success) == (True, False)
    assert result.state.messages[2].text == "Blocked: too dangerous"
    verdicts = [record for record in result.records if isinstance(record, HookRan)]
    assert [(r.hook, r.verdict, r.reason, r.call_id) for r in verdicts if r.verdict == "block"] == [
        ("guard", "block", "too dangerous", "call_1_1")
    ]


async def test_a_second_blocker_does_not_hide_the_first() -> None:
    """The first reason stands; a stop is stricter and replaces it."""
    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("first"), name="one")
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("second"), name="two")
    (blocked,) = results(await agent.build().run("go"))
    assert (blocked.reason, blocked.decided_by) == ("first", "one")


async def test_an_unknown_tool_is_answered_with_the_closest_ones() -> None:
    """The model reads what it probably meant; no hook is asked about it."""
    asked: list[Any] = []
    agent = builder(call("ad", a=1), say("ok")).on_before_tool_use(asked.append)
    result = await agent.build().run("go")
    (invalid,) = results(result)
    assert invalid.status is ResultStatus.INVALID
    assert "'add'" in result.state.messages[2].text
    assert (asked, result.status) == ([], RunStatus.COMPLETED)


async def test_arguments_that_do_not_fit_are_answered_with_the_field() -> None:
    """The model reads which one and what is wrong with it."""
    result = await builder(call("add", a="x"), say("ok")).build().run("go")
    (invalid,) = results(result)
    assert invalid.status is ResultStatus.INVALID
    assert "a" in result.state.messages[2].text
    assert result.status is RunStatus.COMPLETED
    assert result.steps[0].has_errors


async def test_a_tool_error_is_read_by_the_model_and_the_run_completes() -> None:
    """Recovering from a failed call is not failing."""
    result = await builder(call("fail"), say("never mind")).build().run("go")
    (failed,) = results(result)
    assert failed.error is not None
    assert (failed.error.type, failed.error.message, failed.error.error_class) == (
        "ValueError",
        "it is broken",
        "tool",
    )
    assert result.state.messages[2].text == "Error: it is broken"
    assert result.state.messages[2].is_error
    assert (result.status, result.error) == (RunStatus.COMPLETED, None)
    loaded = AgentState.from_json(result.state.to_json())
    assert loaded.steps[0].results[0].error == failed.error


async def test_what_is_not_json_cannot_be_a_result() -> None:
    """It is an error result that names the tool."""

    async def make() -> Any:
        """Make."""
        return object()

    result = await builder(call("make"), say("ok"), tools=(make,)).build().run("go")
    assert results(result)[0].status is ResultStatus.ERROR
    assert "'make'" in result.state.messages[2].text


async def test_output_too_large_for_the_conversation_is_cut_with_a_note() -> None:
    """The model reads how much is missing; the step keeps the whole."""

    @tool(max_chars=10)
    def speak() -> str:
        """Speak."""
        return "x" * 5000

    result = await builder(call("speak"), say("ok"), tools=(speak,)).build().run("go")
    text = result.state.messages[2].text
    assert text.startswith("x" * 10 + "\n[cut here: 10 of 5,000")
    assert len(results(result)[0].result) == 5000


async def test_a_tool_that_takes_too_long_is_an_error_for_the_model() -> None:
    """It is cancelled, and its outcome is said to be unknown."""

    @tool(timeout=0.01)
    async def sleep() -> str:
        """Sleep."""
        await asyncio.sleep(30)
        return "never"

    result = await builder(call("sleep"), say("ok"), tools=(sleep,)).build().run("go")
    assert "did not finish within 0.01 s" in result.state.messages[2].text
    assert result.status is RunStatus.COMPLETED


async def test_a_tool_may_speak_to_the_model_in_an_error() -> None:
    """A ToolError's words, remedy included, are what the model reads."""

    def pay() -> str:
        """Pay."""
        raise ToolError("no money.", remedy="Ask for some.")

    result = await builder(call("pay"), say("ok"), tools=(pay,)).build().run("go")
    assert result.state.messages[2].text == "Error: no money. Ask for some."


async def test_a_tool_that_raises_cancelled_itself_is_a_tool_error() -> None:
    """Only a cancelled run is cancelled."""

    async def give_up() -> str:
        """Give up."""
        raise asyncio.CancelledError

    result = await builder(call("give_up"), say("ok"), tools=(give_up,)).build().run("go")
    assert results(result)[0].status is ResultStatus.ERROR
    assert result.status is RunStatus.COMPLETED


# --- several calls ------------------------------------------------------------------------------------


async def test_hooks_are_serial_and_tools_run_together() -> None:
    """All calls are judged in call order, then run at once, then looked at in call order."""
    log = Log()
    gate = asyncio.Barrier(3)

    async def work(n: int) -> int:
        """Work."""
        log.lines.append(f"start {n}")
        await gate.wait()  # passes only when all three are running
        await asyncio.sleep(0.001 * (3 - n))
        log.lines.append(f"end {n}")
        return n

    agent = builder(calls(*(call("work", n=n) for n in (1, 2, 3))), say("ok"), tools=(work,))
    agent.on_before_tool_use(log.hook("before")).on_after_tool_use(log.hook("after"))
    result = await agent.build().run("go")
    assert log.lines == [
        *("before 1", "before 2", "before 3"),
        *("start 1", "start 2", "start 3"),
        *("end 3", "end 2", "end 1"),
        *("after 1", "after 2", "after 3"),
    ]
    assert [each.result for each in results(result)] == [1, 2, 3]


async def test_sync_tools_run_in_threads_beside_each_other() -> None:
    """Two that wait for each other both finish."""
    gate = threading.Barrier(2, timeout=60)

    def meet(n: int) -> int:
        """Meet."""
        gate.wait()
        return threading.get_ident()

    turns = (calls(call("meet", n=1), call("meet", n=2)), say("ok"))
    result = await builder(*turns, tools=(meet,)).build().run("go")
    threads = {each.result for each in results(result)}
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_a_tool_can_ask_to_be_run_alone() -> None:
    """Nothing runs beside it; what came before is done, what comes after waits."""
    running: set[int] = set()
    together: list[set[int]] = []

    async def work(n: int) -> int:
        """Work."""
        running.add(n)
        together.append(set(running))
        await asyncio.sleep(0.001)
        together.append(set(running))
        running.discard(n)
        return n

    alone = tool(work, name="alone", alone=True)
    shared = tool(work, name="shared")
    batch = calls(call("shared", n=1), call("shared", n=2), call("alone", n=3), call("shared", n=4))
    result = await builder(batch, say("ok"), tools=(alone, shared)).build().run("go")
    assert [each.result for each in results(result)] == [1, 2, 3, 4]
    assert all(group == {3} for group in together if 3 in group)
    assert {1, 2} in together


async def test_a_tool_can_limit_how_many_of_its_calls_run_at_once() -> None:
    """Of five calls never more than two run together, and all of them do run."""
    running: set[int] = set()
    most: list[int] = []

    @tool(concurrency=2)
    async def work(n: int) -> int:
        """Work."""
        running.add(n)
        most.append(len(running))
        await asyncio.sleep(0.001)
        running.discard(n)
        return n

    batch = calls(*(call("work", n=n) for n in range(5)))
    result = await builder(batch, say("ok"), tools=(work,)).build().run("go")
    assert [each.result for each in results(result)] == [0, 1, 2, 3, 4]
    assert max(most) == 2


async def test_one_bad_call_does_not_keep_the_others_from_running() -> None:
    """Each call gets its own result, in call order, and exactly one."""
    batch = calls(
        call("nope"),
        call("add", a="x"),
        call("fail"),
        call("add", a=1),
        call("add", a=13),
    )
    agent = builder(batch, say("ok"))
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.block("unlucky") if ctx.tool_call.args.get("a") == 13 else None
    )
    result = await agent.build().run("go")
    assert [each.status.value for each in results(result)] == [
        *("invalid", "invalid", "error", "ok", "blocked")
    ]
    check_transcript(result.state.messages)
    settled = [record for record in result.records if isinstance(record, CallSettled)]
    assert [record.result for record in settled] == results(result)


async def test_a_stop_keeps_every_call_that_has_not_run_from_running() -> None:
    """Also those that were cleared before it, and each still gets a result that says so."""
    ran: list[int] = []

    async def work(n: int) -> int:
        """Work."""
        ran.append(n)
        return n

    agent = builder(calls(*(call("work", n=n) for n in (1, 2, 3))), tools=(work,))
    asked: list[int] = []

    def stop_at_two(ctx: Any) -> Any:
        asked.append(ctx.tool_call.args["n"])
        return HookOutcome.stop("not two") if ctx.tool_call.args["n"] == 2 else None

    result = await agent.on_before_tool_use(stop_at_two, name="two").build().run("go")
    assert (ran, asked) == ([], [1, 2])
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert [each.status.value for each in results(result)] == ["not_run"] * 3
    assert [each.text for each in results(result)] == [
        "Not run: the run was stopped first (not two)",
        "Not run: not two",
        "Not run: the run was stopped first (not two)",
    ]
    check_transcript(result.state.messages)
    assert result.state.counters.tool_calls == 0


async def test_a_stop_after_a_call_keeps_its_result() -> None:
    """What has run has run: the result is in the conversation, and no other step is made."""
    agent = builder(calls(call("add", a=1), call("add", a=2)))
    seen: list[int] = []

    def stop(ctx: Any) -> Any:
        seen.append(ctx.execution.result)
        return HookOutcome.stop("that will do")

    result = await agent.on_after_tool_use(stop).build().run("go")
    assert [each.result for each in results(result)] == [2, 3]
    assert (seen, result.status) == ([2, 3], RunStatus.STOPPED)
    assert result.state.step_count == 1


async def test_forbid_lets_the_step_finish_and_then_stops() -> None:
    """All calls of the step run; the model gets no other turn."""
    agent = builder(calls(call("add", a=1), call("fail")))
    agent.on_before_tool_use(lambda ctx: ctx.forbid("last one"), name="closing")
    result = await agent.build().run("go")
    assert [each.status.value for each in results(result)] == ["ok", "error"]
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert result.explain().endswith("(last one), decided by 'closing'")


# --- after --------------------------------------------------------------------------------------------


async def test_hooks_may_change_a_result_and_add_to_its_metadata() -> None:
    """The model reads the changed one; the metadata is kept with it."""
    agent = builder(call("add", a=1), say("ok"))
    agent.on_after_tool_use(lambda ctx: ctx.with_result(ctx.execution.result * 10), name="times")
    agent.on_after_tool_use(
        lambda ctx: ctx.with_execution(ctx.execution.with_metadata("checked", True)), name="check"
    )
    result = await agent.build().run("go")
    (done,) = results(result)
    assert (done.result, done.metadata) == (20, {"checked": True})
    assert result.state.messages[2].text == "20"


async def test_a_withheld_result_is_kept_nowhere() -> None:
    """The model reads the reason; conversation, step and journal have no trace of the value."""

    def secret() -> str:
        """Report it."""
        return "hunter2"

    agent = builder(call("secret"), say("ok"), tools=(secret,))
    agent.on_after_tool_use(lambda ctx: HookOutcome.block("it is a secret"), name="censor")
    result = await agent.build().run("go")
    (withheld,) = results(result)
    assert (withheld.status, withheld.decided_by) == (ResultStatus.WITHHELD, "censor")
    assert result.state.messages[2].text == "Result withheld: it is a secret"
    from hookline.journal import encode

    assert b"hunter2" not in b"".join(encode(record) for record in result.records)
    assert "hunter2" not in result.state.to_json()


async def test_a_recovered_error_is_a_success() -> None:
    """A hook may turn a failed call into a value."""
    agent = builder(call("fail"), say("ok"))
    agent.on_after_tool_use(lambda ctx: None if ctx.execution.is_success else ctx.with_result("-"))
    result = await agent.build().run("go")
    (done,) = results(result)
    assert (done.is_success, done.error, done.result) == (True, None, "-")


@pytest.mark.parametrize("point", ["before_tool_use", "after_tool_use"])
@pytest.mark.parametrize("wrong", ["text", 5, object()])
async def test_an_invalid_execution_is_the_hooks_failure(point: str, wrong: Any) -> None:
    """The call is blocked or its result withheld: failing closed."""
    agent = builder(call("add", a=1), say("ok"))
    agent.add_hook(point, lambda ctx: ctx.with_execution(wrong), name="odd")
    result = await agent.build().run("go")
    (done,) = results(result)
    assert (done.is_blocked, done.decided_by) == (True, "odd")
    assert result.status is RunStatus.COMPLETED


async def test_only_observers_see_calls_that_did_not_run() -> None:
    """Blocked, unknown and invalid ones, with the verdict and who gave it."""
    judged: list[str] = []
    seen: list[tuple[str, str, str]] = []

    def watch(ctx: Any) -> None:
        seen.append((ctx.execution.status.value, ctx.verdict.label, ctx.verdict.decided_by))

    agent = builder(
        calls(call("nope"), call("add", a="x"), call("add", a=1), call("fail")), say("ok")
    )
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("no"), matcher="add", name="guard")
    agent.on_after_tool_use(lambda ctx: judged.append(ctx.tool_call.name))
    agent.on_after_tool_use(watch, tier="observer")
    await agent.build().run("go")
    assert judged == ["fail"]
    assert seen == [
        ("invalid", "block", ""),
        ("invalid", "block", ""),
        ("blocked", "block", "guard"),
        ("error", "proceed", ""),
    ]


async def test_an_observer_never_changes_the_result() -> None:
    """Neither by what it returns nor by crashing."""

    def crash(ctx: Any) -> Any:
        raise RuntimeError("observer down")

    turns = (calls(call("add", a=1), call("fail")), say("ok"))
    plain = await builder(*turns).build().run("go")
    watched = builder(*turns)
    for point in ("before_tool_use", "after_tool_use", "after_step", "should_continue", "stop"):
        watched.add_hook(point, crash, tier="observer", name="crash")
        watched.add_hook(point, lambda ctx: HookOutcome.block("no"), tier="observer", name="no")
    result = await watched.build().run("go")
    assert list(result.state.messages) == list(plain.state.messages)
    assert (result.status, result.text) == (plain.status, plain.text)


# --- what a tool may know and do ----------------------------------------------------------------------


async def test_a_tool_may_take_a_context_the_model_never_sees() -> None:
    """State, its call, an idempotency key, progress and the journal."""
    got: dict[str, Any] = {}
    heard: list[Any] = []

    async def look(word: str, context: ToolContext) -> str:
        """Look."""
        context.progress({"done": 0.5})
        got["call"] = (context.call.name, context.call.args["word"])
        got["key"] = context.idempotency_key
        got["metadata"] = context.state.metadata["user"]
        got["records"] = len(context.journal)
        got["cancelled"] = context.is_cancelled
        return word

    driver = ScriptedDriver([call("look", word="hi"), say("ok")])
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(look)
        .on_execution_start(lambda ctx: ctx.with_metadata("user", "kim"))
        .on_event(lambda record: heard.append(record) if isinstance(record, ToolProgress) else None)
        .build()
    )
    result = await agent.run("go", run_id="r")
    assert got.pop("records") > 0
    assert got == {
        "call": ("look", "hi"),
        "key": "r/0/call_1_1",
        "metadata": "kim",
        "cancelled": False,
    }
    assert "context" not in driver.requests[0].tools[0].parameters["properties"]
    assert [(record.name, record.message) for record in heard] == [("look", {"done": 0.5})]
    assert not any(isinstance(record, ToolProgress) for record in result.records)
    admitted = next(record for record in result.records if isinstance(record, CallAdmitted))
    assert (admitted.idempotency_key, admitted.effect) == ("r/0/call_1_1", "once")


async def test_a_tools_own_model_calls_count() -> None:
    """Tokens it charges are the run's."""

    async def ask(context: ToolContext) -> str:
        """Ask another model."""
        context.charge(Usage(input_tokens=11, requests=1))
        return "ok"

    result = await builder(call("ask"), say("ok"), tools=(ask,)).build().run("go")
    assert result.usage.total_tokens == 11


async def test_the_intent_is_on_record_before_anything_starts() -> None:
    """Every call of a batch is admitted in the journal before the first of them runs."""
    order: list[str] = []

    async def work(n: int) -> int:
        """Work."""
        order.append(f"run {n}")
        return n

    agent = builder(calls(call("work", n=1), call("work", n=2)), say("ok"), tools=(work,))
    agent.on_event(lambda record: order.append(record.type) if record.type == "call" else None)
    await agent.build().run("go")
    assert order == ["call", "call", "run 1", "run 2"]


def intents(store: PlainStore) -> list[list[str]]:
    """The calls whose intents were committed together, in order."""
    start, found = 0, []
    for end in store.ends:
        batch = [decode(line) for _, line in store.written[start:end]]
        names = [str(each.call.args["n"]) for each in batch if isinstance(each, CallAdmitted)]
        found += [names] if names else []
        start = end
    return found


@pytest.mark.parametrize(
    ("options", "commits"),
    [
        ({}, [["1", "2", "3"]]),
        ({"alone": True}, [["1"], ["2"], ["3"]]),
        ({"concurrency": 1}, [["1"], ["2"], ["3"]]),
        ({"concurrency": 2}, [["1", "2"], ["3"]]),
    ],
)
async def test_calls_that_start_together_share_a_commit(
    options: dict[str, Any], commits: list[list[str]]
) -> None:
    """A call that waits has no intent until it starts."""
    store = PlainStore()

    @tool(**options)
    async def work(n: int) -> str:
        """Work."""
        await asyncio.sleep(0)
        return f"did {n}"

    turn = calls(*[call("work", n=number) for number in (1, 2, 3)])
    made = builder(turn, say("done"), tools=(work,)).with_journal(store).build()
    assert (await made.run("go")).status is RunStatus.COMPLETED
    assert intents(store) == commits


def kinds(store: PlainStore) -> list[list[str]]:
    """The types of the records that were committed together, in order."""
    starts = [0, *store.ends]
    return [
        [decode(line).type for _, line in store.written[start:end]]
        for start, end in itertools.pairwise(starts)
    ]


async def test_results_of_calls_that_end_together_share_a_commit_with_the_next_intents() -> None:
    """A step has one commit, however many calls it has."""
    store = PlainStore()

    @tool
    async def work(n: int) -> str:
        """Work."""
        return f"did {n}"

    turn = calls(*[call("work", n=number) for number in range(5)])
    await builder(turn, turn, say("done"), tools=(work,)).with_journal(store).build().run("go")
    batches = kinds(store)
    assert [batch.count("call") for batch in batches] == [0, 5, 5, 0]
    assert [batch.count("tool_result") for batch in batches] == [0, 0, 5, 5]


async def test_a_result_is_written_while_another_call_runs() -> None:
    """Otherwise a process that dies then would put a call in doubt that is done."""
    store = PlainStore()

    @tool
    async def quick() -> str:
        """Work."""
        return "did it"

    @tool
    async def slow() -> str:
        """Wait for the other one to be written."""
        while not any("tool_result" in batch for batch in kinds(store)):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
        return "saw it"

    turn = calls(call("quick"), call("slow"))
    made = builder(turn, say("done"), tools=(quick, slow)).with_journal(store).build()
    assert (await made.run("go")).status is RunStatus.COMPLETED


async def test_a_call_whose_intent_cannot_be_written_does_not_start() -> None:
    """Also if others have run by then; the run fails, and says why."""
    store = PlainStore()
    did: list[int] = []

    @tool(concurrency=1)
    async def work(n: int) -> str:
        """Work."""
        did.append(n)
        store.is_full = True
        return f"did {n}"

    turn = calls(call("work", n=1), call("work", n=2))
    result = await builder(turn, tools=(work,)).with_journal(store).build().run("go")
    assert (result.status, did) == (RunStatus.FAILED, [1])
    assert "the disk is full" in str(result.error)


async def test_the_limit_on_tool_calls_is_checked_before_a_batch() -> None:
    """A batch that would go over it does not run, and blocked calls do not count."""
    ran: list[int] = []

    async def work(n: int) -> int:
        """Work."""
        ran.append(n)
        return n

    batch = calls(call("work", n=1), call("work", n=2))
    agent = builder(batch, batch, say("never"), tools=(work,)).with_limits(tool_calls=3)
    result = await agent.build().run("go")
    assert ran == [1, 2]
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.TOOL_CALL_LIMIT)
    assert [each.status.value for each in results(result, 1)] == ["not_run", "not_run"]
    blocking = builder(batch, batch, batch, say("done"), tools=(work,)).with_limits(tool_calls=3)
    blocking.on_before_tool_use(
        lambda ctx: HookOutcome.block("odd") if ctx.tool_call.args["n"] == 1 else None
    )
    assert (await blocking.build().run("go")).status is RunStatus.COMPLETED


# --- what a turn has used up its calls cannot use any more: limits are checked before them too --


class Shop:
    """A tool that notes what it did, and a clock that turns may move."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.bought: list[int] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent with the tool."""

        @tool
        async def buy(n: int) -> int:
            """Buy."""
            self.bought.append(n)
            return n

        driver = ScriptedDriver([*turns, say("done")])
        return AgentBuilder().with_driver(driver).with_tools(buy).with_clock(self.clock)

    def slow(self, state: AgentState) -> Any:
        """A turn that takes its time."""
        self.clock.advance(400)
        return call("buy", n=1)


class Costly:
    """A model that has its price."""

    async def infer(self, request: object, turn: object) -> InferenceResponse:
        """The same call again and again."""
        return InferenceResponse("", (ToolCall("c", "buy", {"n": 1}),), Usage(5, 5, 1, 2.0))


NOTHING: dict[str, Any] = {}


def look(ctx: object) -> None:
    """A hook that says nothing."""


@pytest.mark.parametrize("more", [NOTHING, {"tool_calls": 50}])
@pytest.mark.parametrize("point", ["", "before_tool_use", "after_inference", "after_tool_use"])
@pytest.mark.parametrize(
    ("limit", "reason", "why"),
    [
        ({"tokens": 10}, StopReason.TOKEN_LIMIT, "tokens: 20 of 10 used"),
        ({"tokens": 20}, StopReason.TOKEN_LIMIT, "tokens: 20 of 20 used"),
        ({"seconds": 300}, StopReason.TIME_LIMIT, "seconds: 400 of 300 used"),
        ({"cost": 1.5}, StopReason.COST_LIMIT, "cost: 2 of 1.5 used"),
    ],
)
def test_a_turn_that_uses_up_a_limit_runs_no_calls(
    limit: dict[str, Any], reason: StopReason, why: str, point: str, more: dict[str, Any]
) -> None:
    """Whatever other limits and hooks there are: the call says why it was not run, and the run that it was stopped."""
    shop = Shop()
    turn = shop.slow if "seconds" in limit else call("buy", n=1, tokens=20)
    builder = shop.builder(turn).with_limits(**limit, **more)
    if "cost" in limit:
        builder.with_driver(Costly())
    if point:
        builder.add_hook(point, look)
    ended = builder.build().run_sync("go")
    (result,) = ended.steps[0].results
    assert shop.bought == []
    assert (result.status, result.reason) == (ResultStatus.NOT_RUN, why)
    assert (ended.status, ended.stop_reason) == (RunStatus.STOPPED, reason)
    assert ended.explain() == f"stopped after 1 step: {reason} ({why}), decided by 'limits'"
    assert ended.state.counters.tool_calls == 0


def test_none_of_a_batch_is_run() -> None:
    """Every call of the turn has its result, and none of them began."""
    shop = Shop()
    batch = calls(call("buy", n=1), call("buy", n=2), tokens=20)
    ended = shop.builder(batch).with_limits(tokens=20).build().run_sync("go")
    results = ended.steps[0].results
    assert (shop.bought, len(results)) == ([], 2)
    assert {each.status for each in results} == {ResultStatus.NOT_RUN}
    assert all("tokens: 20 of 20 used" in each.reason for each in results)


def test_an_answer_that_uses_up_a_limit_is_an_answer() -> None:
    """There is nothing left to keep it from."""
    shop = Shop()
    ended = shop.builder(say("bought", tokens=99)).with_limits(tokens=20).build().run_sync("go")
    assert (ended.status, ended.text) == (RunStatus.COMPLETED, "bought")


def test_the_last_step_may_use_its_tools() -> None:
    """Steps are counted as they begin: the calls of the last one that is allowed are run."""
    shop = Shop()
    ended = shop.builder(call("buy", n=1)).with_limits(steps=1).build().run_sync("go")
    assert (shop.bought, ended.stop_reason) == ([1], StopReason.STEP_LIMIT)


@pytest.mark.parametrize("way", ["left out", "replaced", "none"])
def test_limits_that_are_switched_off_are_off_here_too(way: str) -> None:
    """The guard before a step is the one that is asked before its calls."""
    shop = Shop()
    builder = shop.builder(call("buy", n=1, tokens=20)).with_limits(tokens=20)
    if way == "left out":
        builder.without_default("limits")
    elif way == "replaced":
        builder.on_before_step(look, name="limits")
    else:
        builder.with_limits(tokens=None)
    assert builder.build().run_sync("go").text == "done"
    assert shop.bought == [1]


async def test_an_approved_call_is_not_run_when_a_limit_is_used_up_since() -> None:
    """A yes is no way around the limits of the agent that continues."""
    shop = Shop()
    builder = shop.builder(call("buy", n=1, tokens=20))
    builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask")
    paused = await builder.with_limits(tokens=50).build().run("go")
    assert paused.status is RunStatus.PAUSED
    agent = builder.with_limits(tokens=20).build()
    ended: RunResult = await agent.resume(paused.state, {paused.state.pending[0].id: True})
    assert (shop.bought, ended.stop_reason) == ([], StopReason.TOKEN_LIMIT)


def test_it_is_on_record_as_what_the_hook_said_about_the_call() -> None:
    """As any other hook that stops a run before a call."""
    ended = (
        Shop().builder(call("buy", n=1, tokens=20)).with_limits(tokens=20).build().run_sync("go")
    )
    (said,) = [each for each in ended.records if each.type == "hook" and each.call_id]
    assert (said.point, said.hook, said.verdict) == ("before_tool_use", "limits", "stop")
    assert said.call_id == ended.steps[0].calls[0].id


# --- observers do not change the outcome of a call --------------------------------------------


UNSEEN = "Result withheld: the run was cancelled before the hooks had seen it"


def after_two_failures(**options: Any) -> RunResult:
    """A run whose tool works at the third try, with a hook after it that says nothing if there are options for one."""
    tries: list[int] = []

    @tool(effect="pure")
    async def flaky() -> str:
        """Fail twice."""
        tries.append(1)
        if len(tries) < 3:
            raise OSError(f"down {len(tries)}")
        return "up"

    builder = AgentBuilder().with_driver(ScriptedDriver([call("flaky"), say("done")]))
    builder.with_tools(flaky).with_error_policy(ErrorPolicy.retry_tool_errors())
    if options:
        builder.on_after_tool_use(look, name="look", **options)
    return builder.build().run_sync("go")


@pytest.mark.parametrize("options", [{"tier": "observer"}, {"shadow": True}])
def test_observers_do_not_change_the_errors_of_a_step(options: dict[str, Any]) -> None:
    """What a call failed of before it worked stays with the step and on record, words and all."""
    bare, watched = after_two_failures(), after_two_failures(**options)
    assert [error.message for error in bare.steps[0].errors] == ["down 1", "down 2"]
    assert watched.steps[0].errors == bare.steps[0].errors
    errors = [
        [each.error for each in run.records if each.type == "error"] for run in (bare, watched)
    ]
    assert errors[0] == errors[1] == list(bare.steps[0].errors)


@pytest.mark.parametrize("tier", ["hook", "policy"])
def test_words_that_hooks_never_saw_are_not_kept_where_hooks_judge(tier: str) -> None:
    """They let the result be; that tries before it failed is known, and what those said is not."""
    watched = after_two_failures(tier=tier)
    assert watched.steps[0].results[0].text == "up"
    assert [(each.type, each.message) for each in watched.steps[0].errors] == [("OSError", "")] * 2


async def cancelled_meanwhile(*judges: Any, **options: Any) -> RunResult:
    """A run that is cancelled while a hook with these options takes its time over a call that is done."""
    reached = asyncio.Event()

    async def slow(ctx: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    @tool
    async def pay(n: int) -> str:
        """Pay."""
        return f"paid {n}"

    builder = AgentBuilder().with_driver(ScriptedDriver([call("pay", n=1), say("done")]))
    builder.with_tools(pay)
    for judge in judges:
        builder.on_after_tool_use(judge)
    agent = builder.on_after_tool_use(slow, name="slow", **options).build()
    run = asyncio.ensure_future(agent.run("go"))
    await reached.wait()
    agent.cancel(reason="enough")
    return await run


def hide(ctx: Any) -> Any:
    """A hook that shows something else."""
    return ctx.with_result("hidden")


def refuse(ctx: object) -> HookOutcome:
    """A hook that withholds the result."""
    return HookOutcome.block("not for you")


@pytest.mark.parametrize(
    ("judges", "options", "text"),
    [
        ((), {"tier": "observer"}, "paid 1"),
        ((), {"shadow": True}, "paid 1"),
        ((look,), {"tier": "observer"}, "paid 1"),
        ((hide,), {"tier": "observer"}, "hidden"),
        ((refuse,), {"tier": "observer"}, "Result withheld: not for you"),
        ((), {"tier": "hook"}, UNSEEN),
        ((look,), {"tier": "policy"}, UNSEEN),
        ((hide,), {"shadow": True}, UNSEEN),
    ],
)
async def test_a_cancelled_run_keeps_what_the_hooks_had_cleared(
    judges: tuple[Any, ...], options: dict[str, Any], text: str
) -> None:
    """Observers do not affect a call; a result that not every hook has judged is withheld."""
    ended = await cancelled_meanwhile(*judges, **options)
    assert ended.status is RunStatus.CANCELLED
    assert [each.text for each in ended.steps[0].results] == [text]
    settled = [each.result.text for each in ended.records if each.type == "tool_result"]
    assert settled == [text]


# --- a call that is done is on record as soon as nothing can change its result, so that no crash puts it in doubt


def settled(records: list[Record]) -> list[str]:
    """The tools that have a result on record."""
    return [record.result.name for record in records if isinstance(record, CallSettled)]


class World:
    """An agent that pays and waits at the same time, and what is on record at some moments."""

    def __init__(self, tape: Tape, *, dies: bool) -> None:
        self.tape = tape
        self.paid = 0
        self.waiting = asyncio.Event()
        self.dies = dies
        self.seen: list[list[str]] = []

    def look(self) -> None:
        """Note what is on record now."""
        self.seen.append(settled(self.tape.written))

    def builder(self, *replies: Any) -> AgentBuilder:
        @tool
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        @tool
        async def wait() -> str:
            """Wait."""
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.look()
            if self.dies:
                self.waiting.set()
                await asyncio.Event().wait()
            return "waited"

        driver = ScriptedDriver(list(replies))
        return AgentBuilder().with_driver(driver).with_tools(pay, wait).with_journal(self.tape)


@pytest.mark.parametrize("names", [("pay", "wait"), ("wait", "pay")])
async def test_a_call_that_is_done_is_not_in_doubt_because_of_a_slow_one_beside_it(
    names: tuple[str, str],
) -> None:
    """Its result is on record while the other is still running: killed then, only that one is in doubt."""
    first = World(Tape(), dies=True)
    turns = (calls(call(names[0]), call(names[1])), say("done"))
    task = asyncio.ensure_future(first.builder(*turns).build().run("go", run_id="run"))
    await first.waiting.wait()
    tape = cut(first.tape, len(first.tape.written))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = World(tape, dies=False)
    result = await again.builder(say("done")).build().resume("run")
    found = {each.name: each.status.value for each in result.steps[0].results}
    assert found == {"pay": "ok", "wait": "in_doubt"}
    assert [each.name for each in result.steps[0].calls] == list(names)
    assert (first.paid, again.paid) == (1, 0)


@pytest.mark.parametrize("point", ["after_step", "should_continue"])
async def test_a_call_is_on_record_before_the_hooks_of_the_end_of_its_step(point: str) -> None:
    """They may take their time."""
    world = World(Tape(), dies=False)
    builder = world.builder(call("pay"), say("done"))
    await builder.add_hook(point, lambda ctx: world.look()).build().run("go", run_id="run")
    assert world.seen[0] == ["pay"]


async def test_a_call_that_hooks_have_seen_is_on_record_before_they_see_the_next() -> None:
    """In call order, and not before they have seen it: they might withhold it."""
    world = World(Tape(), dies=False)
    builder = world.builder(calls(call("pay"), call("wait")), say("done"))
    builder.on_after_tool_use(lambda ctx: world.look())
    await builder.build().run("go", run_id="run")
    assert world.seen == [[], [], ["pay"]]
