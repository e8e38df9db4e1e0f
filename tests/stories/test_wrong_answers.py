"""Wrong use: what hooks answer and change that means nothing, is not allowed, or is not JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from wrong_use import Thing, builder, failure

from hookline import (
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    HookPoint,
    RunResult,
    RunStatus,
    ToolHookContext,
    tool,
)
from hookline.errors import HookError
from hookline.testing import ScriptedDriver, call, say

# --- answers that mean nothing, and changes that are not allowed ------------------------------------


def test_a_policy_that_tries_to_change_a_call() -> None:
    """It fails closed: the call is not run, and the error says what a policy may do."""
    ran: list[int] = []

    @tool(name="add")
    def recording(a: int, b: int) -> int:
        ran.append(a)
        return a

    agent = AgentBuilder().with_driver(ScriptedDriver([call("add", a=1, b=2), say("no")]))
    agent.with_tools(recording)
    agent.on_before_tool_use(lambda ctx: ctx.with_args(a=5), tier="policy", name="sly")
    result = agent.build().run_sync("go")
    assert ran == []
    assert failure(result, "sly") == (
        "hook 'sly' at before_tool_use: a policy may only judge, but it changed 'tool_call' at before_tool_use. "
        "Return HookOutcome.block/stop/ask, or register it with tier='hook'."
    )
    assert result.steps[0].results[0].decided_by == "sly"


def test_a_policy_that_tries_to_allow() -> None:
    """Allowing widens, and a policy only narrows."""
    agent = builder().on_before_tool_use(lambda ctx: HookOutcome.allow(), tier="policy", name="lax")
    result = agent.build().run_sync("go")
    assert "hook 'lax' at before_tool_use: a policy cannot allow" in failure(result, "lax")
    assert result.steps[0].results[0].is_blocked


@pytest.mark.parametrize(
    "answer",
    [False, True, "no", 0, (), {}, HookOutcome.block, HookOutcome, Decision.allow()],
    ids=lambda answer: repr(answer).partition(" at 0x")[0],
)
def test_an_answer_that_means_nothing_is_never_taken_as_allow(answer: Any) -> None:
    """False least of all: the call is blocked, and the error lists what may be returned."""
    result = builder().on_before_tool_use(lambda ctx: answer, name="vague").build().run_sync("go")
    message = failure(result, "vague")
    assert message.startswith("hook 'vague' at before_tool_use: it returned ")
    assert (
        "which has no meaning here. Return None, a HookOutcome, a changed ToolHookContext"
        in message
    )
    assert result.steps[0].results[0].is_blocked


@pytest.mark.parametrize("reason", [ValueError("why"), 5, None, b"why"])
def test_a_reason_that_is_no_text(reason: Any) -> None:
    """It would end in a state that cannot be saved: it is the hook's failure, and the call is blocked."""
    agent = builder().on_before_tool_use(lambda ctx: HookOutcome.block(reason), name="wordless")
    result = agent.build().run_sync("go")
    assert failure(result, "wordless").startswith(
        "hook 'wordless' at before_tool_use: its reason is "
    )
    assert result.steps[0].results[0].is_blocked
    assert AgentState.from_json(result.state.to_json()) == result.state


def test_a_reason_for_an_evaluation_that_is_no_text() -> None:
    """The same for what is said about continuing."""
    result = (
        builder().on_before_step(lambda ctx: ctx.forbid(5), name="wordless").build().run_sync("go")
    )
    assert "hook 'wordless' at before_step" in str(result.error)
    assert "which is not text" in str(result.error)


@pytest.mark.parametrize("point", ["after_step", "should_continue", "session_start"])
def test_a_block_where_nothing_can_be_blocked(point: str) -> None:
    """It is an error, and says what is possible there."""
    result = (
        builder()
        .add_hook(point, lambda ctx: HookOutcome.block("no"), name="late")
        .build()
        .run_sync("go")
    )
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, HookError)
    assert (result.error.hook, result.error.point) == ("late", point)
    assert "nothing can be blocked here." in result.error.problem
    assert result.error.remedy.startswith("Possible: proceed")


@pytest.mark.parametrize(
    ("point", "change", "field"),
    [
        ("after_tool_use", lambda ctx: ctx.with_args(a=9), "tool_call"),
        ("permission_request", lambda ctx: ctx.with_args(a=9), "tool_call"),
        ("after_inference", lambda ctx: ctx.with_request(ctx.request.with_system("x")), "request"),
        ("before_step", lambda ctx: msgspec.structs.replace(ctx, step_index=7), "step_index"),
        ("stop", lambda ctx: msgspec.structs.replace(ctx, point=HookPoint.OUTPUT), "point"),
    ],
)
def test_a_change_that_a_point_does_not_allow(point: str, change: Any, field: str) -> None:
    """The error names hook, field and point, and what may be changed there."""
    agent = builder().add_hook(point, change, name="meddler").with_approver(lambda pending: True)
    agent.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), name="ask")
    message = failure(agent.build().run_sync("go"), "meddler")
    assert message.startswith(
        f"hook 'meddler' at {point}: it changed '{field}', which cannot be changed at {point}."
    )
    assert "Changeable: evaluations, " in message


def test_a_context_that_was_not_derived_from_the_one_given() -> None:
    """A fresh context of another kind is refused."""
    agent = builder().on_before_step(
        lambda ctx: ToolHookContext(point=HookPoint.BEFORE_TOOL_USE), name="confused"
    )
    result = agent.build().run_sync("go")
    assert "it returned a ToolHookContext instead of a StepHookContext." in str(result.error)


def test_a_call_changed_into_something_that_does_not_fit_the_tool() -> None:
    """A rewritten call is validated again, and the rewriter is named."""
    result = (
        builder()
        .on_before_tool_use(lambda ctx: ctx.with_args(a="x"), name="rewrite")
        .build()
        .run_sync("go")
    )
    assert result.steps[0].results[0].is_blocked
    assert "hook 'rewrite' failed" in result.steps[0].results[0].reason


def test_a_call_replaced_by_another_one() -> None:
    """The id stays, so that every call has its one result."""

    def replace(ctx: ToolHookContext) -> Any:
        return msgspec.structs.replace(ctx.tool_call, id="other")

    result = builder().on_before_tool_use(replace).build().run_sync("go")
    assert "keep the id" in failure(result, "replace")


def test_removing_what_another_hook_said() -> None:
    """Evaluations are appended and never taken away."""
    agent = builder().on_after_step(lambda ctx: ctx.forbid("guard"), name="guard", priority=1)
    agent.on_after_step(lambda ctx: msgspec.structs.replace(ctx, evaluations=()), name="eraser")
    result = agent.build().run_sync("go")
    assert "hook 'eraser' at after_step: it removed evaluations of other hooks." in str(
        result.error
    )


def test_calling_next_twice() -> None:
    """The rest of a chain runs once."""

    class Twice:
        async def handle(self, ctx: Any, next: Any) -> Any:
            await next(ctx)
            return await next(ctx)

    result = builder().on_before_tool_use(Twice()).build().run_sync("go")
    assert failure(result, "Twice") == (
        "hook 'Twice' at before_tool_use: it called next twice. Call next once."
    )


def test_forgetting_to_return_around_an_action() -> None:
    """The result would be lost: the error says what to return."""

    async def forgets(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)

    tools = builder().around_tool_use(forgets).build().run_sync("go")
    assert failure(tools, "forgets") == (
        "hook 'forgets' at around_tool_use: it returned None (NoneType). "
        "Return what `await call_next(ctx)` gives, or a ToolResult."
    )
    model = builder().around_inference(forgets).build().run_sync("go")
    assert "hook 'forgets' at around_inference: it returned None" in str(model.error)
    assert "InferenceResponse" in str(model.error)


def test_calling_a_tool_twice_that_must_run_once() -> None:
    """Refused before it does harm, with the remedy; a pure tool may be called again."""

    async def again(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)
        return await call_next(ctx)

    ran: list[str] = []

    def agent(effect: Any) -> RunResult:
        @tool(effect=effect)
        def pay() -> str:
            ran.append(effect)
            return "paid"

        script = AgentBuilder().with_driver(ScriptedDriver([call("pay"), say("done")]))
        return script.with_tools(pay).around_tool_use(again).build().run_sync("go")

    refused_result = agent("once").steps[0].results[0]
    assert ran == ["once"]
    assert "hook 'again' at around_tool_use: it called 'pay' a second time" in (
        str(refused_result.error)
    )
    assert "Declare the tool pure or idempotent" in str(refused_result.error)
    assert agent("pure").steps[0].results[0].is_success


# --- changing in place ------------------------------------------------------------------------------


def set_argument(ctx: ToolHookContext) -> None:
    """Change an argument."""
    ctx.tool_call.args["a"] = 99


def set_nested(ctx: ToolHookContext) -> None:
    """Change something inside an argument."""
    ctx.tool_call.args["options"]["deep"].append(1)


def set_metadata(ctx: ToolHookContext) -> None:
    """Change the metadata."""
    ctx.metadata["a"] = 99


def set_field(ctx: ToolHookContext) -> None:
    """Change the context."""
    ctx.tool_call = None  # type: ignore[misc, assignment]


def set_state(ctx: ToolHookContext) -> None:
    """Change the state."""
    ctx.state.metadata = {}  # type: ignore[misc]


@pytest.mark.parametrize("mutate", [set_argument, set_nested, set_metadata, set_field, set_state])
def test_changing_in_place_is_refused_and_changes_nothing(mutate: Callable[[Any], None]) -> None:
    """Arguments, metadata, context and state are read-only to any depth; the hook is named."""
    got: list[Any] = []

    @tool
    def take(a: int, options: dict[str, list[int]]) -> str:
        got.append((a, options))
        return "taken"

    def agent(**more: Any) -> RunResult:
        script = [call("take", a=1, options={"deep": [0]}), say("done")]
        made = AgentBuilder().with_driver(ScriptedDriver(script)).with_tools(take)
        return made.on_before_tool_use(mutate, **more).build().run_sync("go")

    blocked = agent().steps[0].results[0]
    assert blocked.is_blocked
    assert f"hook '{mutate.__name__}' failed" in blocked.reason
    assert any(word in blocked.reason for word in ("read-only", "immutable"))
    assert agent(on_failure="open").steps[0].results[0].is_success
    assert got == [(1, {"deep": [0]})]


def test_a_tool_that_changes_its_arguments_changes_only_its_own_copy() -> None:
    """What hooks and the record have seen stays as it was."""

    @tool
    def eat(items: list[int]) -> int:
        items.clear()
        return len(items)

    agent = AgentBuilder().with_driver(ScriptedDriver([call("eat", items=[1, 2]), say("done")]))
    result = agent.with_tools(eat).build().run_sync("go")
    assert result.steps[0].calls[0].args == {"items": [1, 2]}


# --- what is not JSON -------------------------------------------------------------------------------


def itself() -> dict[str, Any]:
    """A dict that contains itself."""
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


NOT_JSON = {
    "an object": Thing(),
    "a class": Thing,
    "nan": float("nan"),
    "infinity": float("inf"),
    "a number as key": {1: "a"},
    "nested": {"a": [Thing()]},
    "half a surrogate pair": "\ud800",
    "too large an integer": 2**70,
    "itself": itself(),
}


@pytest.mark.parametrize("kind", NOT_JSON)
def test_metadata_that_is_not_json_names_the_hook(kind: str) -> None:
    """Hook, point, key and remedy; the call is not let through and the state stays savable."""
    agent = builder().on_before_tool_use(
        lambda ctx: ctx.with_metadata("key", NOT_JSON[kind]), name="writer"
    )
    result = agent.build().run_sync("go")
    blocked = result.steps[0].results[0]
    assert blocked.reason.startswith(
        "hook 'writer' failed, so this is not let through: metadata 'key' "
    )
    assert AgentState.from_json(result.state.to_json()) == result.state
    assert result.state.metadata == {}


@pytest.mark.parametrize("kind", NOT_JSON)
def test_a_result_that_is_not_json_names_the_tool(kind: str) -> None:
    """It becomes an error that the model reads, and the run continues."""

    def gives() -> Any:
        """Give something."""
        return NOT_JSON[kind]

    agent = builder(call("gives"), say("done")).with_tools(gives)
    result = agent.build().run_sync("go")
    failed = result.steps[0].results[0]
    assert failed.text.startswith("Error: the result of tool 'gives' ")
    assert result.status is RunStatus.COMPLETED
    assert AgentState.from_json(result.state.to_json()) == result.state


def test_a_result_from_a_hook_that_is_not_json_names_the_hook() -> None:
    """The same for a result that a hook supplies or replaces."""
    for point in ("before_tool_use", "after_tool_use"):
        agent = builder().add_hook(point, lambda ctx: ctx.with_result(Thing()), name="giver")
        reason = agent.build().run_sync("go").steps[0].results[0].reason
        assert reason.startswith("hook 'giver' failed")
        assert "Thing, which is not JSON" in reason
