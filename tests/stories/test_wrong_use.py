"""Wrong use: caught when the agent is built, or answered with an error that says who, where, what and how to fix it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    CallableMatcher,
    CompositeMatcher,
    ContinuationCriterionAdapter,
    Decision,
    ErrorAction,
    ErrorClass,
    ErrorPolicy,
    EventTypeMatcher,
    HookError,
    HooklineError,
    HookOutcome,
    HookPoint,
    HookStack,
    InferenceResponse,
    RunResult,
    RunStatus,
    StateProcessorAdapter,
    StepTypeMatcher,
    ToolHookContext,
    ToolMiddlewareAdapter,
    ToolNameMatcher,
    ToolResult,
    hook,
    on,
    tool,
)
from hookline.testing import ScriptedDriver, call, say


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns, or one call and an answer."""
    script = turns or (call("add", a=1, b=2), say("3"))
    return AgentBuilder().with_driver(ScriptedDriver(script)).with_tools(add)


def fine(ctx: Any) -> None:
    """A hook nothing is wrong with."""


def refused(attempt: Callable[[], object]) -> str:
    """The message with which an attempt is refused; the error is one of ours and has words for it."""
    with pytest.raises(HooklineError) as caught:
        attempt()
    return str(caught.value)


def failure(result: RunResult, name: str) -> str:
    """The whole error of the hook of this name, as it stands in the run's record."""
    for record in result.records:
        if record.type == "hook" and record.hook == name and record.verdict == "failed":  # type: ignore[attr-defined]
            return str(record.error.message)  # type: ignore[attr-defined]
    raise AssertionError(f"hook '{name}' did not fail")


# --- a hook at a point that does not exist ----------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("before_tol_use", "before_tool_use"),
        ("BeforeTolUse", "before_tool_use"),
        ("PreToolUze", "before_tool_use"),
        ("shoud_continue", "should_continue"),
        ("execution_stop", "execution_start"),
    ],
)
def test_a_hook_at_a_point_that_does_not_exist(wrong: str, meant: str) -> None:
    """Hook, point and the point that was probably meant."""
    for attempt in (
        lambda: AgentBuilder().add_hook(wrong, fine),
        lambda: hook(wrong, fine),
    ):
        message = refused(attempt)
        assert f"hook 'fine': '{wrong}' is not a hook point." in message
        assert f"Did you mean '{meant}'?" in message
    assert f"'{wrong}' is not a hook point." in refused(lambda: HookPoint(wrong))
    assert f"'{wrong}' is not a hook point." in refused(lambda: getattr(on, wrong))


def test_a_point_that_is_like_none_is_answered_with_all_of_them() -> None:
    """Where no guess is good, the list is."""
    message = refused(lambda: AgentBuilder().add_hook("xyzzy", fine, name="mine"))
    assert "hook 'mine': 'xyzzy' is not a hook point." in message
    assert all(point.value in message for point in HookPoint)


@pytest.mark.parametrize("wrong", [None, 3, fine, ["stop"]])
def test_a_point_that_is_no_text_is_refused(wrong: Any) -> None:
    """Also when hook and point are swapped."""
    assert "is not a hook point" in refused(lambda: AgentBuilder().add_hook(wrong, fine))
    assert "is not a hook point" in refused(lambda: HookStack().with_hook(fine, wrong))


async def test_a_stack_is_asked_with_a_context() -> None:
    """A state is not one."""
    with pytest.raises(
        HooklineError, match=r"is not a context\. Pass one, such as ToolHookContext"
    ):
        await HookStack().process(AgentState())  # type: ignore[type-var]


# --- what is no hook --------------------------------------------------------------------------------


async def async_generator(ctx: Any) -> Any:
    """An async function with a yield in it."""
    yield None


def generator(ctx: Any) -> Any:
    """A function with a yield in it."""
    yield None


class YieldsInHandle:
    """An object whose handle is an async generator."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        yield await next(ctx)


class HandlesNothing:
    """An object without a handle."""


@pytest.mark.parametrize("wrong", [async_generator, generator, YieldsInHandle()])
def test_a_generator_as_a_hook(wrong: Any) -> None:
    """Its body would never run, so it is refused where it is registered."""
    message = refused(lambda: AgentBuilder().on_before_tool_use(wrong, name="gen"))
    assert message.startswith("hook 'gen' at before_tool_use: it is a generator function")
    assert "returns its answer instead of yielding" in message


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            None,
            "None is not a hook. Pass a function of the context, or an object with handle(ctx, next).",
        ),
        ("text", "'text' is not a hook."),
        (HandlesNothing(), "is not a hook."),
        (
            HandlesNothing,
            "you passed the class HandlesNothing. Pass an instance: HandlesNothing(...).",
        ),
        (HookOutcome.proceed(), "is not a hook."),
        (lambda: None, "a hook takes one argument, the context, and this one takes 0."),
        (lambda call, state: call, "Read ctx.tool_call and ctx.state"),
        (lambda *, ctx: None, "a hook takes one argument, the context"),
    ],
)
def test_something_that_is_no_hook(wrong: Any, words: str) -> None:
    """Hook, point, what was expected, and what to write instead."""
    message = refused(lambda: AgentBuilder().on_before_tool_use(wrong, name="mine"))
    assert message.startswith("hook 'mine' at before_tool_use: ")
    assert words in message


def test_a_hook_around_an_action_takes_two_arguments() -> None:
    """And one that takes only the context is told how to write it."""
    message = refused(lambda: AgentBuilder().around_tool_use(fine))  # type: ignore[arg-type]
    assert message == (
        "hook 'fine' at around_tool_use: it must take (ctx, call_next). "
        "Write `async def around(ctx, call_next): ...`."
    )


# --- a coroutine that is never awaited --------------------------------------------------------------


async def async_hook(ctx: Any) -> None:
    """A hook as it should be."""


def test_a_coroutine_as_a_hook() -> None:
    """`on_stop(check(ctx))` instead of `on_stop(check)`."""
    message = refused(lambda: AgentBuilder().on_stop(async_hook(None)))  # type: ignore[arg-type]
    assert message.startswith("hook 'async_hook' at stop: you passed a coroutine")
    assert "Pass the async function itself, without calling it." in message


def test_a_lambda_that_calls_an_async_hook_is_awaited() -> None:
    """It gives a coroutine where it is called, which is as good as an async function."""

    async def gate(ctx: ToolHookContext) -> HookOutcome:
        return HookOutcome.block("inner")

    result = builder().on_before_tool_use(lambda ctx: gate(ctx)).build().run_sync("go")
    assert result.steps[0].results[0].reason == "inner"


def test_a_coroutine_as_a_tool() -> None:
    """The same mistake with a tool."""

    async def look(at: str) -> str:
        return at

    message = refused(lambda: AgentBuilder().with_tools(look("x")).build())
    assert "look(...) was called" in message
    assert "without calling it" in message


def test_next_that_is_not_awaited() -> None:
    """The rest of the chain did not run, which nobody meant: the call is not let through."""

    class Forgets:
        async def handle(self, ctx: Any, next: Any) -> None:
            next(ctx)

    result = builder().on_before_tool_use(Forgets()).build().run_sync("go")
    assert failure(result, "Forgets") == (
        "hook 'Forgets' at before_tool_use: it called next(ctx) and never awaited it. "
        "Write `return await next(ctx)`."
    )
    assert result.steps[0].results[0].is_blocked


def test_next_that_is_returned_without_await_is_awaited() -> None:
    """A sync middleware that hands on is understood."""

    class HandsOn:
        def handle(self, ctx: Any, next: Any) -> Any:
            return next(ctx)

    agent = builder().on_before_tool_use(HandsOn(), priority=1)
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("inner"), name="inner")
    assert agent.build().run_sync("go").steps[0].results[0].reason == "inner"


def test_call_next_that_is_not_awaited() -> None:
    """Returned or dropped, the action did not run as its author meant."""

    async def returns(ctx: Any, call_next: Any) -> Any:
        return call_next(ctx)

    async def drops(ctx: Any, call_next: Any) -> Any:
        call_next(ctx)
        return ToolResult("made up")

    for around in (returns, drops):
        result = builder().around_tool_use(around).build().run_sync("go")
        assert failure(result, around.__name__) == (
            f"hook '{around.__name__}' at around_tool_use: it called call_next and never awaited it. "
            "Write `await call_next(ctx)`."
        )


def test_an_async_matcher() -> None:
    """A coroutine is always true, so such a matcher would match everything."""

    async def matches(ctx: Any) -> bool:
        return False

    assert "is async" in refused(lambda: CallableMatcher(matches))  # type: ignore[arg-type]
    message = refused(lambda: AgentBuilder().on_stop(fine, matcher=matches))
    assert message.startswith("hook 'fine' at stop: ")
    assert "plain function" in message


def test_an_async_listener() -> None:
    """Nobody would await it."""

    async def listen(record: Any) -> None: ...

    message = refused(lambda: AgentBuilder().on_event(listen))
    assert "is async" in message
    assert "agent.stream" in message


# --- a matcher of a wrong type ----------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [3, ["bash"], {"tool": "bash"}, ToolNameMatcher, True, b"bash"])
def test_a_matcher_of_a_wrong_type(wrong: Any) -> None:
    """Hook, point, and the kinds of matcher there are."""
    message = refused(lambda: AgentBuilder().on_before_tool_use(fine, matcher=wrong))
    assert message.startswith("hook 'fine' at before_tool_use: ")
    assert "is not a matcher. Use a tool name ('bash', 'read_*', '/regex/')" in message


def test_a_part_of_a_wrong_type_in_a_composite_matcher() -> None:
    """Wherever it is combined."""
    for attempt in (
        lambda: CompositeMatcher.all_of("bash", 3),  # type: ignore[arg-type]
        lambda: CompositeMatcher.any_of(None),  # type: ignore[arg-type]
        lambda: ToolNameMatcher("bash") & 3,  # type: ignore[operator]
        lambda: ToolNameMatcher("bash") | ["x"],  # type: ignore[operator]
    ):
        assert "is not a matcher" in refused(attempt)


@pytest.mark.parametrize("wrong", ["", "/(/", 5])
def test_a_pattern_that_can_match_nothing(wrong: Any) -> None:
    """Empty, not a regular expression, not text."""
    assert refused(lambda: ToolNameMatcher(wrong))


@pytest.mark.parametrize(
    "matcher",
    [
        EventTypeMatcher("PreToolUze"),
        EventTypeMatcher("PreToolUse", "PreToolUze"),
        EventTypeMatcher("PreToolUze") & ToolNameMatcher("add"),
        ~EventTypeMatcher("PreToolUze"),
        CompositeMatcher.any_of("add", ~(EventTypeMatcher("PreToolUze") | ToolNameMatcher("x"))),
    ],
    ids=["alone", "beside a right one", "in and", "in not", "nested"],
)
def test_an_event_matcher_with_a_misspelled_name(matcher: Any) -> None:
    """It would silently never match, or always: refused with hook, point and what was meant."""
    for attempt in (
        lambda: AgentBuilder().on_before_tool_use(fine, matcher=matcher, name="mine"),
        lambda: AgentBuilder().add_hook("PreToolUse", fine, matcher=matcher, name="mine"),
        lambda: AgentBuilder().with_hooks(hook("stop", fine, matcher=matcher, name="mine")),
    ):
        message = refused(attempt)
        assert message.startswith("the matcher of hook 'mine' at ")
        assert "'PreToolUze' is not a hook point. Did you mean 'before_tool_use'?" in message


@pytest.mark.parametrize("wrong", [(), (3,), ("stop", None)])
def test_an_event_matcher_without_names(wrong: tuple[Any, ...]) -> None:
    """It takes points, by name or as they are."""
    assert "takes hook points" in refused(lambda: EventTypeMatcher(*wrong))


def test_a_step_type_that_does_not_exist() -> None:
    """It would silently never match; the three there are do."""
    message = refused(lambda: StepTypeMatcher("tool-use"))
    assert "'tool-use' is not a type of step. Use one of 'tool_use'" in message
    for known in ("tool_use", "final_response", "incomplete"):
        StepTypeMatcher(known)


# --- names and order --------------------------------------------------------------------------------


def test_two_hooks_of_one_name() -> None:
    """At one point a name is given once; at two points it may be given twice."""
    agent = builder().on_before_tool_use(fine, name="check").on_before_tool_use(fine, name="check")
    assert refused(agent.build) == (
        "two hooks at before_tool_use are named 'check'. Give each its own name=."
    )
    builder().on_before_tool_use(fine, name="check").on_after_tool_use(fine, name="check").build()


def test_two_hooks_of_one_name_from_two_capabilities() -> None:
    """Capabilities share the names, too."""

    class Brings:
        def __init__(self, name: str) -> None:
            self.name = name

        def hooks(self) -> Any:
            return [hook("stop", fine, name="check")]

    agent = builder().with_capability(Brings("one")).with_capability(Brings("two"))
    assert "two hooks at stop are named 'check'" in refused(agent.build)


def test_hooks_without_names_never_collide() -> None:
    """The same function twice is two hooks."""
    seen: list[str] = []
    agent = (
        builder().on_stop(lambda ctx: seen.append("one")).on_stop(lambda ctx: seen.append("two"))
    )
    agent.build().run_sync("go")
    assert seen == ["one", "two"]


def test_a_cycle_is_shown_as_a_chain() -> None:
    """Each name in it, in order, and the way out."""
    agent = (
        builder()
        .on_stop(fine, name="a", before="b")
        .on_stop(fine, name="b", before="c")
        .on_stop(fine, name="c", before="a")
    )
    message = refused(agent.build)
    assert "the hooks at stop wait for each other: " in message
    assert any(
        chain in message for chain in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")
    )
    assert "Drop one of these before=/after= options." in message


def test_a_name_that_no_hook_has() -> None:
    """With the one that was probably meant."""
    agent = builder().on_stop(fine, name="security").on_stop(fine, name="log", after="securty")
    assert refused(agent.build) == (
        "hook 'log' at stop: after='securty' names no hook. Did you mean 'security'?"
    )


def test_an_order_that_the_tiers_forbid() -> None:
    """A policy cannot run before the hooks whose work it judges."""
    agent = builder().on_before_tool_use(fine, name="rewrite")
    agent.on_before_tool_use(fine, name="judge", tier="policy", before="rewrite")
    message = refused(agent.build)
    assert "hook 'judge' (policy) at before_tool_use cannot run before 'rewrite' (hook)" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tier": "polcy"}, "tier='polcy' is not one of hook, policy, observer."),
        ({"scope": "global"}, "scope='global' is not one of self, tree."),
        ({"on_failure": "ignore"}, "on_failure='ignore' is not one of closed, open."),
        ({"priority": "high"}, "priority= takes a whole number, not 'high'."),
        ({"timeout": 0}, "timeout= takes seconds above zero, not 0."),
        ({"timeout": "5s"}, "timeout= takes seconds above zero, not '5s'."),
        ({"before": 5}, "before= takes names of hooks, not 5."),
        ({"after": ["a", fine]}, "after= takes names of hooks, not"),
        ({"tier": "observer", "shadow": True}, "an observer decides nothing"),
        ({"tier": "policy", "on_failure": "open"}, "a policy that fails open is no policy."),
    ],
)
def test_a_wrong_option(options: dict[str, Any], words: str) -> None:
    """Hook, point, the option, what was given and what it takes."""
    message = refused(lambda: AgentBuilder().on_before_tool_use(fine, name="mine", **options))
    assert message.startswith("hook 'mine' at before_tool_use: ")
    assert words in message


@pytest.mark.parametrize("wrong", ["", 5])
def test_a_name_that_is_none(wrong: Any) -> None:
    """A name is text, and not empty."""
    assert "before_tool_use" in refused(lambda: AgentBuilder().on_before_tool_use(fine, name=wrong))


def test_a_policy_cannot_wrap_an_action() -> None:
    """It judges; what it would do around an action belongs elsewhere."""

    async def around(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    message = refused(lambda: AgentBuilder().around_tool_use(around, tier="policy"))
    assert message.startswith(
        "hook 'around' at around_tool_use: only tier 'hook' can wrap an action."
    )


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
        "hook 'sly' at before_tool_use: a policy may only judge, and it changed 'tool_call'. "
        "Return HookOutcome.block/stop/ask, or register it with tier='hook'."
    )
    assert result.steps[0].results[0].decided_by == "sly"


def test_a_policy_that_tries_to_allow() -> None:
    """Allowing widens, and a policy only narrows."""
    agent = builder().on_before_tool_use(lambda ctx: HookOutcome.allow(), tier="policy", name="lax")
    result = agent.build().run_sync("go")
    assert "hook 'lax' at before_tool_use: a policy may only narrow" in failure(result, "lax")
    assert result.steps[0].results[0].is_blocked


@pytest.mark.parametrize(
    "answer",
    [False, True, "no", 0, (), {}, HookOutcome.block, HookOutcome, Decision.allow()],
    ids=repr,
)
def test_an_answer_that_means_nothing_is_never_taken_as_allow(answer: Any) -> None:
    """False least of all: the call is blocked, and the error lists what may be returned."""
    result = builder().on_before_tool_use(lambda ctx: answer, name="vague").build().run_sync("go")
    message = failure(result, "vague")
    assert message.startswith("hook 'vague' at before_tool_use: it returned ")
    assert (
        "which means nothing here. Return None, a HookOutcome, a changed ToolHookContext" in message
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
    """The same for what is said about going on."""
    result = (
        builder().on_before_step(lambda ctx: ctx.forbid(5), name="wordless").build().run_sync("go")
    )
    assert "hook 'wordless' at before_step" in str(result.error)
    assert "which is not text" in str(result.error)


@pytest.mark.parametrize(
    "point", ["after_step", "should_continue", "execution_end", "session_start"]
)
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
        f"hook 'meddler' at {point}: it changed '{field}', which cannot be changed here."
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
    assert "second time, and its effect is 'once'" in str(refused_result.error)
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


class Thing:
    """Something that does not say how it becomes JSON."""


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
    """It becomes an error that the model reads, and the run goes on."""

    def gives() -> Any:
        """Give something."""
        return NOT_JSON[kind]

    agent = builder(call("gives"), say("done")).with_tools(gives)
    result = agent.build().run_sync("go")
    failed = result.steps[0].results[0]
    assert failed.text().startswith("Error: the result of tool 'gives' ")
    assert result.status is RunStatus.COMPLETED
    assert AgentState.from_json(result.state.to_json()) == result.state


def test_a_result_from_a_hook_that_is_not_json_names_the_hook() -> None:
    """The same for a result that a hook supplies or replaces."""
    for point in ("before_tool_use", "after_tool_use"):
        agent = builder().add_hook(point, lambda ctx: ctx.with_result(Thing()), name="giver")
        reason = agent.build().run_sync("go").steps[0].results[0].reason
        assert reason.startswith("hook 'giver' failed")
        assert "Thing, which is not JSON" in reason


# --- tools ------------------------------------------------------------------------------------------


def test_a_tool_without_annotations() -> None:
    """The function, the parameter and what to write."""

    def look(at):  # type: ignore[no-untyped-def]
        """Look."""

    for attempt in (lambda: tool(look), lambda: AgentBuilder().with_tools(look).build()):
        message = refused(attempt)
        assert "look" in message
        assert "'at'" in message
        assert "annotat" in message


def test_something_that_is_no_tool() -> None:
    """A list of tools, a class, a name."""
    for wrong in ([add], Thing, "add", None):
        assert refused(lambda wrong=wrong: AgentBuilder().with_tools(wrong).build())


def test_two_tools_of_one_name() -> None:
    """Both are named, with where they were written."""

    @tool(name="add")
    def plus(a: int) -> int:
        return a

    message = refused(lambda: builder().with_tools(plus).build())
    assert "two tools are called 'add'" in message
    assert "plus" in message


# --- the builder ------------------------------------------------------------------------------------


class SyncDriver:
    """A driver whose infer is not async."""

    def infer(self, request: Any, turn: Any) -> InferenceResponse:
        return InferenceResponse("hi")


class TextDriver:
    """A driver that gives text instead of a response."""

    async def infer(self, request: Any, turn: Any) -> Any:
        return "hi"


@pytest.mark.parametrize(
    "wrong", [None, "gpt", ScriptedDriver, fine, Thing(), ScriptedDriver([]).infer]
)
def test_a_wrong_driver(wrong: Any) -> None:
    """Refused where it is given, with what a driver has."""
    message = refused(lambda: AgentBuilder().with_driver(wrong))
    assert "is not a driver. A driver has `async def infer(self, request, turn)`." in message


def test_a_model_by_name_needs_a_provider() -> None:
    """The message says which there are."""
    message = refused(lambda: AgentBuilder().with_model("gpt-5"))
    assert "there is no provider 'gpt-5'" in message
    assert "Write provider:model, with one of: anthropic, google, local, openai." in message


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
def test_a_model_needs_its_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable it is looked for in."""
    for name in ("ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    with pytest.raises(HooklineError, match=r"_API_KEY") as caught:
        AgentBuilder().with_model(f"{provider}:x")
    assert "\n" not in str(caught.value)


def test_an_agent_without_a_driver() -> None:
    """It can be built and explained; running it says what is missing."""
    result = AgentBuilder().build().run_sync("go")
    assert result.status is RunStatus.FAILED
    assert 'Give it one: AgentBuilder().with_model("provider:NAME"), or set HOOKLINE_MODEL.' in (
        str(result.error)
    )


@pytest.mark.parametrize(
    ("driver", "words"),
    [(SyncDriver(), "await"), (TextDriver(), "'hi' instead of an InferenceResponse")],
)
def test_a_driver_that_answers_wrongly_fails_the_run(driver: Any, words: str) -> None:
    """A run never raises for what happens inside it."""
    result = AgentBuilder().with_driver(driver).build().run_sync("go")
    assert (result.status, result.text) == (RunStatus.FAILED, "")
    assert words in str(result.error)


def test_a_script_that_is_too_short_says_so() -> None:
    """How many turns it has, which one was asked for, and what to do."""
    result = builder(call("add", a=1, b=2)).build().run_sync("go")
    assert str(result.error) == (
        "the script has 1 turn, and the agent asked for turn 2. "
        "Add a turn to the ScriptedDriver, or find out why the run went on."
    )


@pytest.mark.parametrize("wrong", ["hello", None, ValueError, ["say"]])
def test_a_turn_that_is_none(wrong: Any) -> None:
    """Text must be said with `say`."""
    message = refused(lambda: ScriptedDriver([say("x"), wrong]))
    assert message.startswith("turn 2 of the script is ")
    assert "Use say(...), call(...), calls(...)" in message


class Brings:
    """A capability that brings what it is told to."""

    name = "brings"

    def __init__(self, given: Any = ()) -> None:
        self.given = given

    def hooks(self) -> Any:
        return self.given


def test_a_capability_twice() -> None:
    """By name, and with the remedy."""
    agent = AgentBuilder().with_capability(Brings())
    assert refused(lambda: agent.with_capability(Brings())) == (
        "capability 'brings' is installed already. Give the second one another name."
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Brings, "brings is a class. Pass an instance: Brings()."),
        (Thing(), "It needs hooks(), tools() or configure(builder)."),
        ("bash", "It needs hooks(), tools() or configure(builder)."),
        (Brings(None), "hooks() of capability 'brings' gave None. Return a list, or yield them."),
        (Brings([fine]), "has no hooks. Decorate it with @on.<point>(...)"),
    ],
)
def test_something_that_is_no_capability(wrong: Any, words: str) -> None:
    """A class, an object without parts, one that forgot to return, and one that gives bare functions."""
    assert words in refused(lambda: AgentBuilder().with_capability(wrong))


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (
            lambda made: made.with_limits(steps=-1),
            "limit steps=-1 is not a number of at least zero.",
        ),
        (lambda made: made.with_limits(tokens="many"), "limit tokens='many'"),
        (lambda made: made.with_limits(objections=None), "limit objections=None"),
        (lambda made: made.with_error_policy("retry"), "'retry' is not an ErrorPolicy."),
        (lambda made: made.with_approver("yes"), "'yes' is not an approver."),
        (lambda made: made.with_system_prompt(None), "the system prompt is text, not None."),
        (lambda made: made.with_id(7), "the agent's id is text, not 7."),
        (lambda made: made.on_event(None), "None is not a listener."),
        (
            lambda made: made.without_default("limits.stepz"),
            "'limits.stepz' is not a default guard.",
        ),
        (lambda made: made.with_hooks(fine), "has no hooks."),
        (lambda made: type(made).on_stop(fine), "this is a method of a builder."),
        (lambda made: ErrorPolicy(max_retries=-1), "max_retries=-1"),
        (lambda made: ErrorPolicy(max_retries=None), "max_retries=None"),
        (lambda made: ErrorPolicy(actions={"tools": "retry"}), "'tools' is not a valid ErrorClass"),
        (lambda made: ErrorPolicy(actions={"tool": "again"}), "'again' is not a valid ErrorAction"),
    ],
)
def test_a_wrong_setting(attempt: Callable[[AgentBuilder], object], words: str) -> None:
    """Refused where it is given, with the value."""
    assert words in refused(lambda: attempt(AgentBuilder()))


def test_an_error_policy_in_words_means_what_it_says() -> None:
    """Text for a class and an action is the same as the constants."""
    policy = ErrorPolicy(actions={"validation": "ignore"}, otherwise="stop")  # type: ignore[dict-item, arg-type]
    assert policy == ErrorPolicy(actions={ErrorClass.VALIDATION: ErrorAction.IGNORE})
    agent = builder(call("nope"), RuntimeError("gone")).with_error_policy(policy).build()
    result = agent.run_sync("go")
    assert (result.status, result.state.step_count) == (RunStatus.FAILED, 2)


def test_a_decorator_without_parentheses() -> None:
    """`@on.before_step` and `@on.before_step()` are the same."""
    seen: list[str] = []

    @on.before_step
    def bare(ctx: Any) -> None:
        seen.append("bare")

    @on.before_step()
    def called(ctx: Any) -> None:
        seen.append("called")

    builder(say("done")).with_hooks(bare, called).build().run_sync("go")
    assert seen == ["bare", "called"]


def test_a_decorator_with_an_option_that_does_not_exist() -> None:
    """Refused where it is written."""
    with pytest.raises(TypeError, match="prio"):
        on.before_step(prio=4)(fine)


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: StateProcessorAdapter(Thing()), "has no process(...) method."),
        (
            lambda: StateProcessorAdapter(lambda state: state, position="during"),
            "neither 'before' nor 'after'",
        ),
        (
            lambda: ContinuationCriterionAdapter(Thing()),
            "is not a criterion. It needs evaluate(state).",
        ),
        (lambda: ToolMiddlewareAdapter(Thing()), "has no process(...) method."),
        (lambda: ToolMiddlewareAdapter(Thing), "has no process(...) method."),
    ],
)
def test_something_that_an_adapter_cannot_adapt(attempt: Callable[[], object], words: str) -> None:
    """What it lacks is named."""
    assert words in refused(attempt)


def test_an_adapted_piece_that_answers_nonsense_is_named() -> None:
    """The error names the criterion, not the adapter."""

    class Maybe:
        def evaluate(self, state: AgentState) -> str:
            return "maybe"

    agent = builder().on_should_continue(ContinuationCriterionAdapter(Maybe()))
    assert "hook 'Maybe' at should_continue: it returned 'maybe'" in str(
        agent.build().run_sync("go").error
    )


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
def test_a_state_that_is_none(state: Any) -> None:
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


async def test_run_sync_inside_a_loop() -> None:
    """It would block the loop it is in: the error says what to write, and nothing is left unawaited."""
    agent = builder().build()
    for attempt in (lambda: agent.run_sync("go"), lambda: agent.resume_sync("some-run")):
        message = refused(attempt)
        assert message.startswith("this is async code already")
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
