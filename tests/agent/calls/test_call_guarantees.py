"""Mistakes that were found in tool calls, each with the test that would have caught it."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import msgspec
import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    Decision,
    ErrorPolicy,
    HookOutcome,
    RunStatus,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from hookline.errors import HookError
from hookline.journal import CallSettled, HookRan, TextDelta, ToolProgress, encode
from hookline.state import InferenceResponse, ResultStatus, Usage
from hookline.testing import ScriptedDriver, call, calls, say


def builder(*turns: Any, tools: tuple[Any, ...] = ()) -> AgentBuilder:
    """An agent with these tools that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*tools)


def only(result: Any) -> ToolResult:
    """The result of the one call of the first step."""
    (found,) = result.steps[0].results
    return found


class Payments:
    """A tool that notes what it was called with."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(effect="idempotent")
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool = pay

    def builder(self, *turns: Any) -> AgentBuilder:
        return builder(*turns, tools=(self.tool,))


@pytest.fixture
def payments() -> Payments:
    """Nothing is paid yet."""
    return Payments()


def to(amount: int) -> Any:
    """A hook around a payment that hands on another amount."""

    async def change(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_args(amount=amount))

    return change


# --- hooks after a tool ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(ResultStatus))
async def test_a_tool_cannot_step_around_the_policies_with_a_status(status: ResultStatus) -> None:
    """Whatever status a tool gives its result, the tool ran, and every hook looks."""

    @tool
    async def sly() -> ToolResult:
        """Sly."""
        return ToolResult(None, None, status, reason="SECRET")

    agent = builder(call("sly"), say("ok"), tools=(sly,)).on_after_tool_use(
        lambda ctx: HookOutcome.block("no secrets"), tier="policy"
    )
    result = await agent.build().run("go")
    assert only(result).status is ResultStatus.WITHHELD
    assert "SECRET" not in result.state.to_json()


async def test_a_result_that_a_hook_supplied_is_looked_at_whatever_its_status() -> None:
    """Before the tool and around it: a value that replaces the tool's result is judged like one."""
    blocked = ToolResult(None, None, ResultStatus.BLOCKED, reason="SECRET")

    async def instead(ctx: Any, call_next: Any) -> ToolResult:
        return blocked

    before = Payments().builder(call("pay", amount=1), say("ok"))
    before.on_before_tool_use(lambda ctx: msgspec.structs.replace(ctx, execution=blocked))
    around = Payments().builder(call("pay", amount=1), say("ok")).around_tool_use(instead)
    for agent in (before, around):
        agent.on_after_tool_use(lambda ctx: HookOutcome.block("no"), tier="policy")
        assert only(await agent.build().run("go")).status is ResultStatus.WITHHELD


async def test_a_changed_call_that_was_refused_is_shown_to_observers_only(
    payments: Payments,
) -> None:
    """Nothing ran, so there is no result to judge."""
    asked: list[str] = []
    agent = payments.builder(call("pay", amount=1), say("ok")).around_tool_use(to(99))
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.block("too much") if ctx.tool_call.args["amount"] > 10 else None
    )
    agent.on_after_tool_use(lambda ctx: asked.append("policy"), tier="policy")
    agent.on_after_tool_use(lambda ctx: asked.append("observer"), tier="observer")
    result = await agent.build().run("go")
    assert (only(result).status, asked) == (ResultStatus.BLOCKED, ["observer"])


async def test_an_error_that_was_withheld_is_not_kept_with_the_step() -> None:
    """Nor one that a hook rewrote: the state knows that the call failed, and not with what words."""

    @tool
    async def leak() -> str:
        """Leak."""
        raise ValueError("SECRET")

    def rewrite(ctx: Any) -> Any:
        error = msgspec.structs.replace(ctx.execution.error, message="it failed")
        return msgspec.structs.replace(
            ctx, execution=msgspec.structs.replace(ctx.execution, error=error)
        )

    for hook, kept in ((lambda ctx: HookOutcome.block("no"), "no"), (rewrite, "it failed")):
        agent = builder(call("leak"), say("ok"), tools=(leak,)).on_after_tool_use(hook)
        result = await agent.build().run("go")
        assert [error.message for error in result.steps[0].errors] == [kept]
        assert "SECRET" not in result.state.to_json()
        assert b"SECRET" not in b"".join(map(encode, result.records))


# --- tools in threads ------------------------------------------------------------------------------------


async def test_what_tools_in_threads_charge_is_counted_to_the_last_token() -> None:
    """Many threads at once lose nothing, and the sum is there when the step settles."""
    ready = threading.Barrier(8)

    @tool
    def spend(n: int, context: ToolContext) -> str:
        """Spend."""
        ready.wait(60)
        for _ in range(200):
            context.charge(Usage(1, 1, 1))
        return "ok"

    batch = calls(*(call("spend", n=n) for n in range(8)))
    agent = builder(batch, say("ok"), tools=(spend,)).with_limits(tokens=None)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        result = await agent.build().run("go")
    finally:
        sys.setswitchinterval(interval)
    own = sum((step.usage.input_tokens for step in result.steps), 0)
    assert result.state.usage.input_tokens - own == 1600


async def test_progress_from_a_thread_reaches_listeners_in_the_runs_thread_before_the_result() -> (
    None
):
    """Listeners need not be thread-safe, and get records in order."""
    heard: list[tuple[type, bool]] = []
    home = threading.get_ident()

    @tool
    def work(context: ToolContext) -> str:
        """Work."""
        context.progress("half")
        return "done"

    agent = builder(call("work"), say("ok"), tools=(work,))
    agent.on_event(lambda record: heard.append((type(record), threading.get_ident() == home)))
    await agent.build().run("go")
    kinds = [kind for kind, _ in heard]
    assert all(at_home for _, at_home in heard)
    assert kinds.index(ToolProgress) < kinds.index(CallSettled)


async def test_a_child_cannot_be_started_from_a_thread() -> None:
    """The tool reads what to do instead."""
    child = builder(say("hello")).build()

    @tool
    def delegate(context: ToolContext) -> str:
        """Delegate."""
        return str(asyncio.run(context.spawn(child, "go")))

    result = await builder(call("delegate"), say("ok"), tools=(delegate,)).build().run("go")
    assert "thread" in str(only(result).error)
    assert "async def" in str(only(result).error)


async def test_a_tool_gets_the_journal_as_it_is_and_cannot_write_it() -> None:
    """It is a snapshot: later records do not turn up in it."""
    seen: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.journal)
        return "ok"

    result = await builder(call("look"), say("ok"), tools=(look,)).build().run("go")
    (journal,) = seen
    assert type(journal) is tuple
    assert 0 < len(journal) < len(result.records)


# --- asking about a supplied result ----------------------------------------------------------------------


def supplied(payments: Payments) -> AgentBuilder:
    """An agent whose hook has the result at hand, and whose policy asks all the same."""
    agent = payments.builder(call("pay", amount=5), say("ok"))
    agent.on_before_tool_use(lambda ctx: ctx.with_result("from the cache"))
    return agent.on_before_tool_use(lambda ctx: HookOutcome.ask("really?"), tier="policy")


@pytest.mark.parametrize(("answer", "status"), [(True, "ok"), (False, "denied")])
async def test_a_policy_is_asked_for_before_a_supplied_result_is_used(
    payments: Payments, answer: bool, status: str
) -> None:
    """A yes uses it, a no denies it; the tool runs in neither case."""
    result = await supplied(payments).with_approver(lambda question: answer).build().run("go")
    assert (only(result).status, payments.paid) == (status, [])
    assert (only(result).result == "from the cache") is answer


@pytest.mark.parametrize("answer", [Decision.allow(), Decision.deny("no")])
async def test_a_supplied_result_waits_through_a_pause(
    payments: Payments, answer: Decision
) -> None:
    """It is in the saved state, and is used or dropped as the answer says."""
    after: list[Any] = []
    agent = supplied(payments).on_after_tool_use(lambda ctx: after.append(ctx.execution.result))
    built = agent.build()
    paused = await built.run("go")
    assert (paused.status, after) == (RunStatus.PAUSED, [])
    state = AgentState.from_json(paused.state.to_json())
    result = await built.resume(state, {paused.pending[0].id: answer})
    yes = answer.answer == "allow"
    assert only(result).status == ("ok" if yes else "denied")
    assert after == (["from the cache"] if yes else [])
    assert (payments.paid, result.state.counters.tool_calls) == ([], 0)


async def test_a_supplied_result_is_dropped_when_a_person_edits_the_call(
    payments: Payments,
) -> None:
    """It was the result of another call."""
    agent = payments.builder(call("pay", amount=5), say("ok"))
    agent.on_before_tool_use(
        lambda ctx: ctx.with_result("cached") if ctx.tool_call.args["amount"] == 5 else None
    )
    agent.on_before_tool_use(lambda ctx: HookOutcome.ask("really?"), tier="policy")
    agent.with_approver(lambda question: Decision.edit(amount=6))
    result = await agent.build().run("go")
    assert (only(result).result, payments.paid) == ("paid 6", [6])


# --- calls changed around a tool -------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_a_call_changed_around_the_tool_is_judged_by_hooks_of_every_tier(
    payments: Payments, tier: str
) -> None:
    """What could not have been asked for cannot be smuggled in."""

    def guard(ctx: Any) -> Any:
        return HookOutcome.block("too much") if ctx.tool_call.args["amount"] > 10 else None

    agent = payments.builder(call("pay", amount=1), say("ok")).around_tool_use(to(99))
    result = await agent.on_before_tool_use(guard, tier=tier, name="guard").build().run("go")
    assert (only(result).status, only(result).decided_by) == (ResultStatus.BLOCKED, "guard")
    assert payments.paid == []


@pytest.mark.parametrize(("answer", "paid"), [(True, [99]), (False, [])])
async def test_a_hook_may_ask_about_a_call_changed_around_the_tool(
    payments: Payments, answer: bool, paid: list[int]
) -> None:
    """A person is asked about the call as it was changed."""
    asked: list[Any] = []

    def approve(question: Any) -> bool:
        asked.append(question.tool_call.args["amount"])
        return answer

    agent = payments.builder(call("pay", amount=1), say("ok")).around_tool_use(to(99))
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("that much?") if ctx.tool_call.args["amount"] > 10 else None
    )
    await agent.with_approver(approve).build().run("go")
    assert (asked, payments.paid) == ([99], paid)


async def test_hooks_may_rewrite_or_answer_a_call_changed_around_the_tool(
    payments: Payments,
) -> None:
    """They are asked as for any call."""

    def capped(ctx: Any) -> Any:
        return ctx.with_args(amount=10) if ctx.tool_call.args["amount"] > 10 else None

    agent = payments.builder(call("pay", amount=1), say("ok")).around_tool_use(to(99))
    assert only(await agent.on_before_tool_use(capped).build().run("go")).result == "paid 10"

    def answered(ctx: Any) -> Any:
        return ctx.with_result("cached") if ctx.tool_call.args["amount"] > 10 else None

    seen: list[Any] = []
    agent = payments.builder(call("pay", amount=1), say("ok")).around_tool_use(to(99))
    agent.on_after_tool_use(lambda ctx: seen.append(ctx.execution.result))
    assert only(await agent.on_before_tool_use(answered).build().run("go")).result == "cached"
    assert (payments.paid, seen) == ([10], ["cached"])


async def test_a_changed_call_is_one_call_to_the_limit(payments: Payments) -> None:
    """Judging it a second time does not count it a second time, and does not make room for another."""
    turns = (call("pay", amount=1), call("pay", amount=2), say("ok"))
    agent = payments.builder(*turns).around_tool_use(to(9)).with_limits(tool_calls=1)
    result = await agent.build().run("go")
    assert payments.paid == [9]
    assert result.status is RunStatus.STOPPED
    assert result.state.counters.tool_calls == 1


# --- failures --------------------------------------------------------------------------------------------


async def test_a_hook_that_stops_the_run_stops_the_retries_too() -> None:
    """A call whose retry was decided before a later failure made a hook stop is not run again."""
    ran: list[str] = []

    @tool(effect="pure")
    async def flaky(n: str) -> str:
        """Flaky."""
        ran.append(n)
        raise ValueError(n)

    def stop(ctx: Any) -> Any:
        return HookOutcome.stop("enough") if str(ctx.exception) == "b" else None

    batch = calls(call("flaky", n="a"), call("flaky", n="b"))
    agent = (
        builder(batch, say("ok"), tools=(flaky,))
        .on_error(stop)
        .with_error_policy(ErrorPolicy.retry_tool_errors())
    )
    result = await agent.build().run("go")
    assert sorted(ran) == ["a", "b"]
    assert result.status is RunStatus.STOPPED


async def test_each_attempt_gets_arguments_of_its_own() -> None:
    """What one attempt does to them, the next one does not see; by the policy's retry or a hook's."""
    seen: list[list[int]] = []

    @tool(effect="pure")
    async def take(xs: list[int]) -> int:
        """Take."""
        seen.append(list(xs))
        xs.clear()
        if len(seen) % 2:
            raise ValueError("again")
        return 1

    turns = (call("take", xs=[1, 2]), say("ok"))
    await (
        builder(*turns, tools=(take,))
        .with_error_policy(ErrorPolicy.retry_tool_errors())
        .build()
        .run("go")
    )

    async def retry(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)
        return await call_next(ctx)

    await builder(*turns, tools=(take,)).around_tool_use(retry).build().run("go")
    assert seen == [[1, 2]] * 4


async def test_a_mutable_default_is_fresh_in_every_call() -> None:
    """A list, one in a dict, and a sentinel that has to stay the very object it is."""
    missing: Any = object()
    lengths: list[int] = []

    @tool
    async def note(
        xs: list[int] = [],  # noqa: B006 - that is the point
        deep: dict[str, list[int]] = {"a": []},  # noqa: B006 - as above
        gap: int = missing,
    ) -> bool:
        """Note."""
        xs.append(1)
        deep["a"].append(1)
        lengths.append(len(xs) + len(deep["a"]))
        return gap is missing

    turns = (call("note"), call("note"), say("ok"))
    result = await builder(*turns, tools=(note,)).build().run("go")
    assert lengths == [2, 2]
    assert [step.results[0].result for step in result.steps[:2]] == [True, True]
    assert note.validate({}).args["xs"] == []


async def test_a_hook_around_a_tool_that_crashes_counts_as_the_call_failing(
    payments: Payments,
) -> None:
    """By default the model reads it; a policy that stops at any error fails the run."""
    heard: list[Any] = []

    async def crash(ctx: Any, call_next: Any) -> Any:
        raise RuntimeError("oops")

    def agent() -> AgentBuilder:
        made = payments.builder(call("pay", amount=1), say("ok")).around_tool_use(crash)
        return made.on_error(lambda ctx: heard.append((type(ctx.exception), ctx.error_class)))

    assert (await agent().build().run("go")).status is RunStatus.COMPLETED
    strict = agent().with_error_policy(ErrorPolicy.stop_on_any_error()).build()
    result = await strict.run("go")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, HookError)
    assert heard[:2] == [(HookError, "tool")] * 2


# --- what models and hooks hand in -----------------------------------------------------------------------


async def test_text_is_held_back_while_a_hook_around_the_inference_may_replace_it() -> None:
    """Listeners get only what the hook kept."""
    heard: list[str] = []

    class Chatty:
        async def infer(self, request: Any, context: Any) -> InferenceResponse:
            context.emit_text("SECRET")
            return InferenceResponse("SECRET")

    async def redact(ctx: Any, call_next: Any) -> Any:
        return (await call_next(ctx)).with_text("fine")

    agent = AgentBuilder().with_driver(Chatty()).around_inference(redact)
    agent.on_event(lambda record: type(record) is TextDelta and heard.append(record.text))
    await agent.build().run("go")
    assert heard == ["fine"]


class Given:
    """A driver that gives what it was given."""

    def __init__(self, response: Any) -> None:
        self.turns = [response, InferenceResponse("ok")]

    async def infer(self, request: Any, context: Any) -> Any:
        return self.turns.pop(0)


@pytest.mark.parametrize(
    ("response", "field"),
    [
        (InferenceResponse(7), "response.text"),  # type: ignore[arg-type]
        (InferenceResponse("", model=None), "response.model"),  # type: ignore[arg-type]
        (InferenceResponse("", {1}), "response.calls"),  # type: ignore[arg-type]
        (InferenceResponse("", ("pay",)), "response.calls[0]"),  # type: ignore[arg-type]
        (InferenceResponse("", (ToolCall(1, "pay"),)), "response.calls[0].id"),  # type: ignore[arg-type]
        (InferenceResponse("", (ToolCall("", "pay"),)), "response.calls[0]"),
        (InferenceResponse("", (ToolCall("a", None),)), "response.calls[0].name"),  # type: ignore[arg-type]
        (InferenceResponse("", (ToolCall("a", "b"),) * 2), "response.calls[1].id"),
        (InferenceResponse("", usage=None), "response.usage"),  # type: ignore[arg-type]
        (InferenceResponse("", usage=Usage(-1)), "response.usage.input_tokens"),
        (InferenceResponse("", usage=Usage(0, 1.5)), "response.usage.output_tokens"),  # type: ignore[arg-type]
        (InferenceResponse("", usage=Usage(0, 0, True)), "response.usage.requests"),
        (InferenceResponse("", usage=Usage(0, 0, 0, float("nan"))), "response.usage.cost"),
        (InferenceResponse("", usage=Usage(0, 0, 0, float("inf"))), "response.usage.cost"),
        (InferenceResponse("", usage=Usage(0, 0, 0, -0.1)), "response.usage.cost"),
    ],
)
async def test_a_response_with_something_wrong_is_refused_by_driver_and_field(
    response: Any, field: str
) -> None:
    """The message names both, and nothing of it gets into the state."""
    agent = (
        AgentBuilder()
        .with_driver(Given(response))
        .with_error_policy(ErrorPolicy.stop_on_any_error())
    )
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED
    assert field in str(result.error)
    assert "Given" in str(result.error)
    assert result.state.usage == Usage()


async def test_calls_in_a_list_become_a_tuple(payments: Payments) -> None:
    """From a driver and from a hook: what is kept cannot change any more."""
    listed = InferenceResponse("", [ToolCall("a", "pay", {"amount": 1})])  # type: ignore[arg-type]
    plain = AgentBuilder().with_driver(Given(listed)).with_tools(payments.tool)
    hooked = payments.builder(say("x"), say("ok")).on_after_inference(
        lambda ctx: listed if ctx.step_index == 0 else None
    )
    for agent in (plain, hooked):
        result = await agent.build().run("go")
        assert type(result.state.messages[1].calls) is tuple
    assert payments.paid == [1, 1]


KEPT = {
    "usage": Usage(9),
    "counters": None,
    "steps": None,
    "agent_id": "other",
    "run_id": "other",
    "session_id": "other",
    "parent_agent_id": "other",
    "parent_run_id": "other",
    "ending": 1,
    "pending_step": 1,
    "remembered": {"a": Decision.allow()},
    "first_step": 3,
}


@pytest.mark.parametrize(
    "field", sorted(set(AgentState.__struct_fields__) - {"messages", "metadata"})
)
async def test_hooks_change_messages_and_metadata_and_nothing_else_of_the_state(
    field: str,
) -> None:
    """What the run keeps (counters, steps, ids, answers) is the run's: the hook's failure names the field."""
    agent = builder(say("ok")).on_before_step(
        lambda ctx: msgspec.structs.replace(ctx.state, **{field: KEPT[field]}), name="meddler"
    )
    result = await agent.build().run("go")
    (failed,) = [r for r in result.records if type(r) is HookRan and r.verdict == "failed"]
    assert (failed.hook, failed.point) == ("meddler", "before_step")
    assert f"state.{field} is kept by the run" in failed.reason
    assert result.status is RunStatus.FAILED
