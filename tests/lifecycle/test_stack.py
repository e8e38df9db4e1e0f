"""A stack of hooks used alone, without an agent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import msgspec
import pytest

import hookline
from hookline import (
    AfterStepHookContext,
    AfterToolHookContext,
    AgentBuilder,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    FailureHookContext,
    HookOutcome,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    StepHookContext,
    StopHookContext,
    ToolCall,
    ToolHookContext,
    ToolNameMatcher,
    ToolResult,
    backtest,
)
from hookline.adapters import ToolMiddlewareAdapter
from hookline.errors import HookError, OrderError, RegistrationError, UsageError
from hookline.hooks import Context, Kind, Point, Result, Verdict
from hookline.lifecycle import HookStack
from hookline.state import Decision, InferenceRequest, InferenceResponse
from hookline.testing import ScriptedDriver, say


def using(
    name: str = "bash", point: Point[Any] = HookPoint.BEFORE_TOOL_USE, **args: Any
) -> ToolHookContext:
    """A context with a tool call."""
    return ToolHookContext(point=point, tool_call=ToolCall("1", name, args))


def says(answer: Any) -> Any:
    """A hook that always gives this answer."""
    return lambda ctx: answer


NO = HookOutcome.block("no")


# --- the stack itself -----------------------------------------------------------------------------


async def test_the_engine_works_with_a_lifecycle_of_ones_own() -> None:
    """Points and contexts of any program: here, a door."""

    class Visit(Context, frozen=True, kw_only=True):
        guest: str

    door: Point[Visit] = Point("door", Visit, changes=frozenset({"guest"}), blocks="they stay out")
    stack = (
        HookStack()
        .with_hook(lambda ctx: msgspec.structs.replace(ctx, guest=ctx.guest.title()), door)
        .with_hook(
            lambda ctx: HookOutcome.block("not on the list") if ctx.guest == "Eve" else None, door
        )
    )
    welcome = await stack.process(Visit(point=door, guest="ann"))
    assert (welcome.is_blocked, welcome.context.guest) == (False, "Ann")
    refused = await stack.process(Visit(point=door, guest="eve"))
    assert (refused.is_blocked, refused.reason) == (True, "not on the list")


def test_it_is_the_stack_of_the_facade() -> None:
    """`from hookline import HookStack` knows the lifecycle."""
    assert hookline.HookStack is HookStack


@pytest.mark.parametrize(
    "name", ["before_tool_use", "PreToolUse", "pre_tool_use", "onBeforeToolUse"]
)
async def test_a_point_may_be_named_in_any_spelling(name: str) -> None:
    """The stack that comes of it knows names too."""
    stack = (
        HookStack().with_hook(says(NO), name, name="first").with_hook(says(NO), name, name="second")
    )
    assert type(stack) is HookStack
    assert {entry.point for entry in stack.registrations} == {HookPoint.BEFORE_TOOL_USE}
    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=ToolCall("1", "bash"))
    outcome = await stack.process(ctx)
    assert (outcome.is_blocked, outcome.decided_by) == (True, "first")
    assert [entry.name for entry in stack.plan(name).entries] == ["first", "second"]


def test_a_name_of_no_point_is_refused_with_the_closest() -> None:
    """Like in the builder."""
    with pytest.raises(RegistrationError, match="Did you mean 'before_tool_use'"):
        HookStack().with_hook(says(NO), "befor_tool_use")


async def test_points_of_ones_own_work_too() -> None:
    """A stack is not bound to the lifecycle."""
    upload = Point("upload", Context, blocks="the upload")
    assert (await HookStack().with_hook(says(NO), upload).process(Context(point=upload))).is_blocked


async def test_a_context_that_is_not_of_its_point_is_refused() -> None:
    """Hooks there read what such a context does not have."""
    context = PromptHookContext(point=HookPoint.BEFORE_TOOL_USE, prompt="x")
    with pytest.raises(
        UsageError, match=r"at before_tool_use take a ToolHookContext, not a Prompt"
    ):
        await HookStack().process(context)


def test_the_engine_loads_without_an_agent() -> None:
    """Importing the hooks room brings nothing of the rooms that know about agents."""
    program = """
import sys, types
import importlib.util
package = types.ModuleType("hookline")
package.__path__ = importlib.util.find_spec("hookline").submodule_search_locations
sys.modules["hookline"] = package
import hookline.hooks
packages = {name.split(".")[1] for name in sys.modules if name.startswith("hookline.")}
print(*sorted(packages))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.split() == ["_aio", "errors", "hooks", "wildcards"]


async def test_adding_a_hook_makes_another_stack() -> None:
    """The first one stays as it was, also after it was used."""
    none = HookStack()
    one = none.with_hook(says(HookOutcome.block("one")), HookPoint.BEFORE_TOOL_USE)
    assert (await one.process(using())).reason == "one"
    two = one.with_hook(
        says(HookOutcome.block("two")), HookPoint.BEFORE_TOOL_USE, priority=100, name="two"
    )
    assert (await none.process(using())).kind is Kind.PROCEED
    assert (await one.process(using())).reason == "one"
    assert (await two.process(using())).reason == "two"
    assert [len(stack.registrations) for stack in (none, one, two)] == [0, 1, 2]


async def test_a_stack_is_asked_again_and_again() -> None:
    """Nothing of one question is left in the next; the plan is made once."""
    stack = HookStack().with_hook(
        lambda ctx: HookOutcome.block("rm") if "rm" in ctx.tool_call.args["command"] else None,
        HookPoint.BEFORE_TOOL_USE,
    )
    answers = [(await stack.process(using(command=text))).is_blocked for text in ("rm", "ls", "rm")]
    assert answers == [True, False, True]
    assert stack.plan(HookPoint.BEFORE_TOOL_USE) is stack.plan(HookPoint.BEFORE_TOOL_USE)


async def test_only_the_hooks_of_the_contexts_point_are_asked() -> None:
    """One stack holds the hooks of many points."""
    stack = (
        HookStack()
        .with_hook(says(HookOutcome.block("before")), HookPoint.BEFORE_TOOL_USE)
        .with_hook(says(HookOutcome.block("after")), HookPoint.AFTER_TOOL_USE)
    )
    assert (await stack.process(using())).reason == "before"
    assert (await stack.process(using(point=HookPoint.AFTER_TOOL_USE))).reason == "after"
    assert (await stack.process(PromptHookContext(point=HookPoint.PROMPT_SUBMIT))).reason == ""


async def test_names_may_be_mentioned_before_they_exist() -> None:
    """The order is settled when the stack is first asked; a name nobody has is an error then."""
    stack = HookStack().with_hook(
        says(HookOutcome.block("log")), HookPoint.BEFORE_TOOL_USE, name="log", after="security"
    )
    with pytest.raises(OrderError, match="after='security' names no hook"):
        await stack.process(using())
    stack = stack.with_hook(
        says(HookOutcome.block("security")), HookPoint.BEFORE_TOOL_USE, name="security"
    )
    assert (await stack.process(using())).decided_by == "security"


async def test_two_hooks_of_one_name_are_refused() -> None:
    """At the point where they meet."""
    stack = HookStack()
    for _ in range(2):
        stack = stack.with_hook(says(None), HookPoint.BEFORE_TOOL_USE, name="guard")
    with pytest.raises(RegistrationError, match="two hooks at before_tool_use are named 'guard'"):
        await stack.process(using())


@pytest.mark.parametrize("point", [None, HookPoint, ToolHookContext])
def test_a_hook_needs_a_point(point: Any) -> None:
    """What is neither a point nor its name is refused."""
    with pytest.raises(RegistrationError, match=r"is not a hook point\. Points: session_start"):
        HookStack().with_hook(says(None), point)


@pytest.mark.parametrize("context", [None, "before_tool_use", {}, HookPoint.BEFORE_TOOL_USE])
async def test_a_stack_is_asked_about_a_context(context: Any) -> None:
    """Anything else is refused with what it should be."""
    with pytest.raises(RegistrationError, match=r"is not a context\. Pass one, such as"):
        await HookStack().process(context)


async def test_hooks_around_an_action_need_the_action() -> None:
    """There is nothing to wrap without it, and nothing is silently left out."""

    async def timer(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    stack = HookStack().with_hook(timer, HookPoint.AROUND_TOOL_USE)
    with pytest.raises(
        UsageError, match=r"around_tool_use wrap an action.*process\(context, action"
    ):
        await stack.process(using(point=HookPoint.AROUND_TOOL_USE))


def test_a_stack_refuses_what_cannot_be_a_hook_at_once() -> None:
    """Not when it is asked."""

    async def generator(ctx: Any) -> Any:
        yield

    with pytest.raises(RegistrationError, match="hook 'generator' at before_step"):
        HookStack().with_hook(generator, HookPoint.BEFORE_STEP)


async def test_every_option_of_a_registration_is_there() -> None:
    """And arrives."""
    stack = HookStack().with_hook(
        says(None),
        HookPoint.BEFORE_TOOL_USE,
        priority=3,
        matcher="bash",
        name="guard",
        before="log",
        after=["auth"],
        tier="policy",
        timeout=2,
        shadow=True,
        on_failure="open",
    )
    (made,) = stack.registrations
    assert (made.name, made.priority, made.matcher) == ("guard", 3, ToolNameMatcher("bash"))
    assert (made.before, made.after, made.tier) == (("log",), ("auth",), "policy")
    assert (made.timeout, made.shadow, made.on_failure) == (2.0, True, "open")


# --- with the contexts of an agent ----------------------------------------------------------------


async def test_a_dangerous_command_is_blocked() -> None:
    """The example of every document about hooks."""

    def guard(ctx: ToolHookContext) -> HookOutcome | None:
        if "rm -rf" in ctx.tool_call.args.get("command", ""):
            return HookOutcome.block("Dangerous command blocked")
        return None

    stack = HookStack().with_hook(
        guard, HookPoint.BEFORE_TOOL_USE, priority=100, matcher=ToolNameMatcher("bash")
    )
    blocked = await stack.process(using(command="rm -rf /"))
    assert (blocked.is_blocked, blocked.decided_by) == (True, "guard")
    assert blocked.reason == "Dangerous command blocked"
    assert not (await stack.process(using(command="ls"))).is_blocked
    assert not (await stack.process(using("echo", command="rm -rf /"))).is_blocked


@pytest.mark.parametrize(
    ("ctx", "answer", "read"),
    [
        (using(a=1), ToolCall("1", "bash", {"a": 2}), lambda ctx: ctx.tool_call.args["a"] == 2),
        (using(a=1), ToolResult("cached"), lambda ctx: ctx.execution.result == "cached"),
        (using(), AgentState().with_metadata("k", 1), lambda ctx: ctx.metadata == {"k": 1}),
        (
            using(point=HookPoint.AFTER_TOOL_USE),
            ToolResult(None),
            lambda ctx: ctx.execution.result is None and ctx.execution.is_success,
        ),
        (
            PromptHookContext(point=HookPoint.PROMPT_SUBMIT, prompt="hi"),
            "hello",
            lambda ctx: ctx.prompt == "hello",
        ),
        (
            OutputHookContext(point=HookPoint.OUTPUT, output="hi"),
            "hello",
            lambda ctx: ctx.output == "hello",
        ),
        (
            InferenceHookContext(point=HookPoint.BEFORE_INFERENCE),
            InferenceRequest(system="be kind"),
            lambda ctx: ctx.request.system == "be kind",
        ),
        (
            InferenceHookContext(point=HookPoint.BEFORE_INFERENCE),
            InferenceResponse("known"),
            lambda ctx: ctx.response.text == "known",
        ),
        (
            InferenceHookContext(point=HookPoint.AFTER_INFERENCE),
            InferenceResponse("other"),
            lambda ctx: ctx.response.text == "other",
        ),
        (
            StepHookContext(point=HookPoint.AFTER_STEP),
            AgentState().with_metadata("k", 1),
            lambda ctx: ctx.metadata == {"k": 1},
        ),
    ],
)
async def test_a_plain_value_means_what_it_says(ctx: Any, answer: Any, read: Any) -> None:
    """A call, a result, a state, a request, a response, a text: each where it has a meaning."""
    result = await HookStack().with_hook(says(answer), ctx.point).process(ctx)
    assert result.kind is Kind.PROCEED
    assert read(result.context)


@pytest.mark.parametrize(
    ("ctx", "answer", "expected"),
    [
        (StepHookContext(point=HookPoint.BEFORE_STEP), "go on", "StepHookContext, AgentState or"),
        (StepHookContext(point=HookPoint.BEFORE_STEP), False, "StepHookContext, AgentState or"),
        (StopHookContext(point=HookPoint.STOP), True, "StopHookContext, AgentState or"),
        (
            InferenceHookContext(point=HookPoint.AFTER_INFERENCE),
            InferenceRequest(),
            "InferenceHookContext, InferenceResponse, AgentState or",
        ),
        (
            FailureHookContext(point=HookPoint.ERROR),
            "retry",
            "FailureHookContext, AgentState or ContinuationEvaluation",
        ),
    ],
)
async def test_a_value_at_the_wrong_point_is_an_error(ctx: Any, answer: Any, expected: str) -> None:
    """It names hook and point, and lists what may be returned there."""
    with pytest.raises(HookError) as caught:
        await HookStack().with_hook(says(answer), ctx.point, name="guess").process(ctx)
    assert f"hook 'guess' at {ctx.point.value}: it returned {answer!r}" in str(caught.value)
    assert expected in caught.value.remedy


@pytest.mark.parametrize("answer", ["ls", False, True, {"a": 1}, ["ls"]])
async def test_a_meaningless_answer_before_a_tool_keeps_it_from_running(answer: Any) -> None:
    """Fail closed: it is a block, never an allow."""
    ctx = using()
    result = await HookStack().with_hook(says(answer), ctx.point, name="guess").process(ctx)
    assert (result.is_blocked, result.decided_by) == (True, "guess")


@pytest.mark.parametrize(
    "point",
    [
        HookPoint.SESSION_START,
        HookPoint.AFTER_STEP,
        HookPoint.SHOULD_CONTINUE,
        HookPoint.ERROR,
        HookPoint.AGENT_FAILED,
        HookPoint.EXECUTION_END,
        HookPoint.SESSION_END,
    ],
)
async def test_a_block_where_nothing_can_be_blocked_is_an_error(point: Point[Any]) -> None:
    """It is not swallowed."""
    with pytest.raises(HookError, match=f"at {point.value}: nothing can be blocked here"):
        await (
            HookStack()
            .with_hook(says(HookOutcome.block("no")), point)
            .process(point.context(point=point))
        )


@pytest.mark.parametrize(
    ("ctx", "field", "value"),
    [
        (using(point=HookPoint.AFTER_TOOL_USE), "tool_call", ToolCall("1", "other")),
        (using(), "reason", "because"),
        (InferenceHookContext(point=HookPoint.AFTER_INFERENCE), "request", InferenceRequest()),
        (StepHookContext(point=HookPoint.BEFORE_STEP), "step_index", 7),
        (FailureHookContext(point=HookPoint.ERROR), "exception", ValueError()),
        (PromptHookContext(point=HookPoint.PROMPT_SUBMIT), "decided", Verdict()),
    ],
)
async def test_each_point_guards_its_fields(ctx: Any, field: str, value: Any) -> None:
    """Changing another one fails, naming hook, field and point."""

    def forger(ctx: Any) -> Any:
        return msgspec.structs.replace(ctx, **{field: value})

    try:
        result = await HookStack().with_hook(forger, ctx.point).process(ctx)
        message = result.reason
        assert result.is_blocked
    except HookError as error:
        message = str(error)
    assert f"it changed '{field}', which cannot be changed at {ctx.point.value}." in message
    assert "'forger'" in message


async def test_permission_hooks_answer_with_a_decision_and_silence_is_no_consent() -> None:
    """Deny is a block, whatever another said; nothing said is no answer."""
    ctx = using(point=HookPoint.PERMISSION_REQUEST)

    async def decided(*answers: Any) -> Result[Any]:
        stack = HookStack()
        for answer in answers:
            stack = stack.with_hook(says(answer), ctx.point)
        return await stack.process(ctx)

    assert (await decided(None)).answer is None
    allowed = await decided(None, Decision.allow())
    assert (allowed.kind, allowed.answer) == (Kind.PROCEED, Decision.allow())
    assert (await decided(Decision.deny("no"))).is_blocked
    denied = await decided(Decision.allow(), Decision.deny("no"))
    assert (denied.is_blocked, denied.reason) == (True, "no")


@pytest.mark.parametrize("as_value", [True, False])
async def test_evaluations_can_be_appended_at_every_point_where_they_count(as_value: bool) -> None:
    """As a value, or through the context; here they only pile up, in order."""
    wish = ContinuationEvaluation("critic", ContinuationDecision.REQUEST_CONTINUATION, "more")
    for point in HookPoint:
        if point.around or point.without_effect:
            continue
        hook = says(wish) if as_value else lambda ctx: ctx.request_continue("more")
        stack = HookStack().with_hook(hook, point, name="critic").with_hook(hook, point)
        result = await stack.process(point.context(point=point))
        decisions = [each.decision for each in result.context.evaluations]
        assert decisions == [wish.decision] * 2, point


async def test_what_one_hook_writes_the_next_reads() -> None:
    """Metadata and arguments compose in one answer."""
    stack = (
        HookStack()
        .with_hook(
            lambda ctx: HookOutcome.proceed(ctx.with_args(path="/tmp/x").with_metadata("seen", 1)),
            HookPoint.BEFORE_TOOL_USE,
        )
        .with_hook(
            lambda ctx: HookOutcome.block(f"{ctx.tool_call.args['path']} {ctx.get('seen')}"),
            HookPoint.BEFORE_TOOL_USE,
            tier="policy",
        )
    )
    result = await stack.process(using(path="/etc/passwd", mode="r"))
    assert result.reason == "/tmp/x 1"
    assert result.context.tool_call.args == {"path": "/tmp/x", "mode": "r"}


async def test_an_observer_of_a_blocked_call_sees_which_hook_blocked_it() -> None:
    """Through the context's verdict, which nobody else has."""
    verdicts: list[Verdict | None] = []
    stack = (
        HookStack()
        .with_hook(lambda ctx: verdicts.append(ctx.decided), HookPoint.BEFORE_TOOL_USE, name="eye")
        .with_hook(
            says(HookOutcome.block("no")), HookPoint.BEFORE_TOOL_USE, tier="policy", name="law"
        )
        .with_hook(
            lambda ctx: verdicts.append(ctx.verdict), HookPoint.BEFORE_TOOL_USE, tier="observer"
        )
    )
    await stack.process(using())
    assert verdicts == [None, Verdict(Kind.BLOCK, "no", "law")]


async def test_a_hook_that_is_no_observer_learns_that_it_has_no_verdict() -> None:
    """The error says what to do."""
    stack = HookStack().with_hook(lambda ctx: ctx.verdict.label, HookPoint.BEFORE_TOOL_USE)
    result = await stack.process(using())
    assert "only observers have ctx.verdict" in str(result.failures[0].__cause__)
    assert "tier='observer'" in str(result.failures[0].__cause__)


@pytest.mark.parametrize(
    ("point", "general", "exact"),
    [
        (HookPoint.AFTER_TOOL_USE, ToolHookContext, AfterToolHookContext),
        (HookPoint.AFTER_STEP, StepHookContext, AfterStepHookContext),
    ],
)
async def test_a_stack_takes_the_general_context_too(point: Any, general: Any, exact: Any) -> None:
    """Where a point has a context of its own, the one that it extends has the same fields."""
    seen: list[type] = []
    stack = HookStack().with_hook(lambda ctx: seen.append(type(ctx)), point)
    await stack.process(general(point=point))
    await stack.process(exact(point=point))
    assert seen == [general, exact]
    with pytest.raises(UsageError, match=f"take a {exact.__name__}, not a StopHookContext"):
        await stack.process(StopHookContext(point=point))


@pytest.mark.parametrize("tier", ["hook", "policy", "observer"])
async def test_nothing_a_hook_is_shown_can_be_changed_in_place(tier: str) -> None:
    """Arguments and metadata are read-only to any depth: trying is the hook's own failure."""
    tried: list[str] = []

    def vandal(ctx: ToolHookContext) -> None:
        for change in (
            lambda: ctx.tool_call.args.update(path="/etc"),
            lambda: ctx.tool_call.args["list"].append(3),
            lambda: ctx.tool_call.args["deep"]["er"].pop("est"),
            lambda: ctx.metadata.clear(),
            lambda: setattr(ctx, "tool_call", None),
            lambda: setattr(ctx.tool_call, "name", "other"),
        ):
            try:
                change()
            except (TypeError, AttributeError) as error:
                tried.append(type(error).__name__)
        raise RuntimeError("I tried")

    args: dict[str, Any] = {"path": "/tmp", "list": [1, 2], "deep": {"er": {"est": 1}}}
    ctx = using(**args).with_metadata("kept", True)
    result = await HookStack().with_hook(vandal, ctx.point, tier=tier).process(ctx)
    assert len(tried) == 6
    assert result.is_blocked is (tier != "observer")
    assert result.context is ctx
    assert ctx.metadata == {"kept": True}
    assert ctx.tool_call == ToolCall("1", "bash", args)


async def test_every_hook_that_asks_is_named() -> None:
    """Policies first, then hooks, unless another hook has lifted their asks; the first one's reason is given."""

    def asks(ctx: Any) -> HookOutcome:
        return HookOutcome.ask("sure?")

    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=ToolCall("1", "t"))
    stack = HookStack()
    for name, tier in (("a", "hook"), ("b", "policy"), ("c", "policy"), ("d", "hook")):
        stack = stack.with_hook(asks, HookPoint.BEFORE_TOOL_USE, name=name, tier=tier)
    asked = await stack.process(ctx)
    assert (asked.decided_by, asked.askers) == ("b", ("b", "c", "a", "d"))
    lifted = stack.with_hook(lambda _: HookOutcome.allow(), HookPoint.BEFORE_TOOL_USE, name="e")
    assert (await lifted.process(ctx)).askers == ("b", "c")


# --- an action ----------------------------------------------------------------------------------------


class Request(Context, frozen=True, kw_only=True):
    """A context of a program's own."""

    path: str = "/"
    user: str = ""


REQUEST: Point[Request] = Point("request", Request, changes={"user"}, blocks="it is refused")
AROUND: Point[Request] = Point("around_request", Request, changes={"user"}, around=True)


def page(ctx: Request) -> str:
    """The action."""
    return f"{ctx.path} for {ctx.user or 'nobody'}"


async def slow_page(ctx: Request) -> str:
    """The same, async."""
    await asyncio.sleep(0)
    return page(ctx)


@pytest.mark.parametrize("action", [page, slow_page])
async def test_hooks_wrap_an_action(action: Any) -> None:
    """The first is outermost; each may change what it hands on and what comes back."""
    log: list[str] = []

    def wrapping(name: str) -> Any:
        async def hook(ctx: Request, call_next: Any) -> str:
            log.append(f"{name} in")
            done: str = await call_next(ctx.replace(user=ctx.user + name))
            log.append(f"{name} out")
            return f"{name}({done})"

        return hook

    stack = HookStack().with_hook(wrapping("a"), AROUND).with_hook(wrapping("b"), AROUND)
    stack = stack.with_hook(wrapping("c"), AROUND, priority=1)
    result = await stack.process(Request(point=AROUND), action)
    assert result.answer == "c(a(b(/ for cab)))"
    assert log == ["c in", "a in", "b in", "b out", "a out", "c out"]
    assert result.kind is Kind.PROCEED


async def test_a_hook_around_may_answer_itself_or_repeat_the_action() -> None:
    """A cache and a retry, which are what such hooks are for."""
    calls: list[str] = []

    def flaky(ctx: Request) -> str:
        calls.append(ctx.path)
        if len(calls) == 1:
            raise ConnectionError("no answer")
        return "page"

    async def cached(ctx: Request, call_next: Any) -> Any:
        return "cached" if ctx.path == "/known" else await call_next(ctx)

    async def twice(ctx: Request, call_next: Any) -> Any:
        try:
            return await call_next(ctx)
        except ConnectionError:
            return await call_next(ctx)

    stack = HookStack().with_hook(cached, AROUND).with_hook(twice, AROUND)
    assert (await stack.process(Request(point=AROUND, path="/known"), flaky)).answer == "cached"
    assert (await stack.process(Request(point=AROUND), flaky)).answer == "page"
    assert calls == ["/", "/"]


async def test_the_error_of_an_action_is_the_callers() -> None:
    """It is neither a failure of a hook nor logged as one."""

    def broken(ctx: Request) -> str:
        raise LookupError("no such page")

    async def through(ctx: Request, call_next: Any) -> Any:
        return await call_next(ctx)

    stack = HookStack().with_hook(through, AROUND)
    for point in (AROUND, REQUEST):
        with pytest.raises(LookupError, match="no such page"):
            await stack.process(Request(point=point), broken)


@pytest.mark.parametrize("answer", [None, HookOutcome.block("no"), HookOutcome.proceed()])
async def test_a_hook_around_gives_a_result(answer: Any) -> None:
    """A forgotten `return` and a verdict are mistakes, and not results."""

    async def forgets(ctx: Request, call_next: Any) -> Any:
        await call_next(ctx)
        return answer

    stack = HookStack().with_hook(forgets, AROUND)
    with pytest.raises(
        HookError, match=r"'forgets' at around_request.*Return what `await call_next"
    ):
        await stack.process(Request(point=AROUND), page)
    nothing = await stack.process(Request(point=AROUND), lambda ctx: answer)
    assert nothing.answer is answer


async def test_a_hook_around_that_fails_open_is_left_out() -> None:
    """The action is done once, and the failure is in the result."""
    done: list[str] = []

    async def broken(ctx: Request, call_next: Any) -> Any:
        raise RuntimeError("down")

    stack = HookStack().with_hook(broken, AROUND, on_failure="open")
    result = await stack.process(Request(point=AROUND), lambda ctx: done.append(ctx.path) or "page")
    assert (result.answer, done) == ("page", ["/"])
    assert [failure.problem for failure in result.failures] == ["RuntimeError: down"]


async def test_tool_middleware_works_without_an_agent() -> None:
    """At a point of the lifecycle, with its context and its results."""

    class Loud:
        async def process(self, made: ToolCall, state: AgentState, next: Any) -> ToolResult:
            result: ToolResult = await next(made.with_args(text="louder"), state)
            return result.with_metadata("loud", True)

    stack = HookStack().with_hook(ToolMiddlewareAdapter(Loud()))
    ctx = using("echo", HookPoint.AROUND_TOOL_USE, text="hm")
    result = await stack.process(ctx, lambda ctx: ToolResult(ctx.tool_call.args["text"]))
    assert (result.answer.result, dict(result.answer.metadata)) == ("louder", {"loud": True})


async def test_at_other_points_the_action_is_last() -> None:
    """It gets the context that the hooks left, and is not done if one of them objects or asks."""
    done: list[str] = []

    def act(ctx: Request) -> str:
        done.append(ctx.user)
        return "done"

    signed = HookStack().with_hook(lambda ctx: ctx.replace(user="ann"), REQUEST)
    result = await signed.process(Request(point=REQUEST), act)
    assert (result.answer, result.context.user, done) == ("done", "ann", ["ann"])
    blocked = await signed.with_hook(says(NO), REQUEST).process(Request(point=REQUEST), act)
    assert (blocked.is_blocked, blocked.answer, done) == (True, None, ["ann"])
    asking = HookStack().with_hook(says(HookOutcome.ask("sure?")), HookPoint.BEFORE_TOOL_USE)
    asked = await asking.process(using(), lambda ctx: done.append("tool"))
    assert (asked.is_asking, done) == (True, ["ann"])


async def test_an_action_may_answer_like_a_hook() -> None:
    """With an outcome: what it says counts, and nobody decided who proceeds."""
    ctx = Request(point=REQUEST)
    changed = ctx.replace(user="ann")
    went = await HookStack().process(ctx, lambda ctx: HookOutcome.proceed(changed))
    assert (went.context, went.is_blocked, went.decided_by) == (changed, False, "")
    stopped = await HookStack().process(ctx, lambda ctx: HookOutcome.stop("enough"))
    assert (stopped.is_stopped, stopped.reason, stopped.decided_by) == (True, "enough", "terminal")


async def test_what_is_no_action_is_refused() -> None:
    """Before any hook runs."""
    seen: list[Any] = []
    stack = HookStack().with_hook(seen.append, REQUEST)
    with pytest.raises(UsageError, match="'page' is not an action"):
        await stack.process(Request(point=REQUEST), "page")  # type: ignore[arg-type]
    assert seen == []


# --- without async --------------------------------------------------------------------------------------


def test_a_stack_is_asked_without_async() -> None:
    """The same answers, for async hooks and actions too."""

    async def later(ctx: Request) -> Request:
        await asyncio.sleep(0)
        return ctx.replace(user="ann")

    stack = HookStack().with_hook(later, REQUEST)
    result = stack.process_sync(Request(point=REQUEST), slow_page)
    assert (result.answer, result.context.user) == ("/ for ann", "ann")
    assert stack.with_hook(says(NO), REQUEST).process_sync(Request(point=REQUEST)).is_blocked


async def test_inside_async_code_the_other_form_is_named() -> None:
    """Waiting there would block everything else."""
    with pytest.raises(UsageError, match=r"Write `await stack.process\(...\)`"):
        HookStack().process_sync(Request(point=REQUEST))


# --- contexts of one's own ------------------------------------------------------------------------------


async def test_a_hook_changes_what_the_point_allows() -> None:
    """Another field is refused with hook, field and point, and an unknown one is the hook's failure."""
    stack = HookStack().with_hook(lambda ctx: ctx.replace(path="/admin"), REQUEST, name="forger")
    with pytest.raises(
        HookError, match=r"'forger' at request: it changed 'path'.*Changeable: user"
    ):
        await stack.process(Request(point=REQUEST))
    typo = HookStack().with_hook(lambda ctx: ctx.replace(usr="ann"), REQUEST, name="typo")
    with pytest.raises(HookError, match=r"'typo' at request.*usr"):
        await typo.process(Request(point=REQUEST))


async def test_an_observer_sees_the_verdict_in_any_context() -> None:
    """The context declares nothing for that."""
    seen: list[Verdict | None] = []
    stack = (
        HookStack()
        .with_hook(lambda ctx: seen.append(ctx.verdict), REQUEST, tier="observer")
        .with_hook(says(NO), REQUEST, name="gate")
    )
    await stack.process(Request(point=REQUEST))
    assert seen == [Verdict(Kind.BLOCK, "no", "gate")]


# --- hooks without a point ------------------------------------------------------------------------------


async def test_a_hook_without_a_point_is_asked_about_everything() -> None:
    """At points of the lifecycle and of one's own, in its place among the others; not around an action."""
    log: list[str] = []

    def note(name: str) -> Any:
        return lambda ctx: log.append(f"{name} {ctx.point}")

    stack = (
        HookStack()
        .with_hook(note("first"), name="first")
        .with_hook(note("second"), REQUEST, name="second")
        .with_hook(note("third"), name="third", matcher=lambda ctx: ctx.point == "request")
        .with_hook(note("fourth"), name="fourth", priority=100)
    )
    await stack.process(Request(point=REQUEST))
    await stack.process(using())
    await stack.process(Request(point=AROUND), page)
    assert log == [
        *("fourth request", "first request", "second request", "third request"),
        *("fourth before_tool_use", "first before_tool_use"),
    ]
    lifecycle = [point for point in HookPoint if not point.around]
    assert [each.point for each in stack.registrations if each.name == "first"] == lifecycle
    assert stack.plan(REQUEST).entries[0].name == "fourth"


async def test_a_hook_that_says_all_points_means_those_of_ones_own_too() -> None:
    """And one that says where it runs is asked there only."""
    log: list[str] = []

    class Everywhere:
        def points(self) -> list[str]:
            return []

        def handle(self, ctx: Any) -> None:
            log.append(str(ctx.point))

    class OnTools(Everywhere):
        def points(self) -> list[str]:
            return ["PreToolUse"]

    stack = HookStack().with_hook(Everywhere()).with_hook(OnTools())
    await stack.process(Request(point=REQUEST))
    await stack.process(using())
    assert log == ["request", "before_tool_use", "before_tool_use"]


async def test_a_stack_with_a_hook_for_every_point_can_be_back_tested() -> None:
    """Its hooks are added at each point of the record."""
    agent = AgentBuilder().with_driver(ScriptedDriver([say("hi")])).build()
    run = await agent.run("go")
    stack = HookStack().with_hook(
        lambda ctx: HookOutcome.block("no") if ctx.point == "prompt_submit" else None, name="law"
    )
    report = await backtest(run.records, stack)
    assert "law" in str(report)


# --- failures --------------------------------------------------------------------------------------------


def crash(ctx: Any) -> None:
    """Fails."""
    raise RuntimeError("down")


@pytest.mark.parametrize(
    ("options", "blocked"),
    [({"tier": "observer"}, False), ({"on_failure": "open"}, False), ({}, True)],
)
async def test_a_failure_is_in_the_result_and_in_the_log(
    options: Any, blocked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it counts as: hook, point and words, and in the log the place where it crashed."""
    stack = HookStack().with_hook(crash, HookPoint.BEFORE_TOOL_USE, **options)
    result = await stack.process(using())
    assert result.is_blocked is blocked
    (failure,) = result.failures
    assert (failure.hook, failure.point) == ("crash", "before_tool_use")
    assert isinstance(failure.__cause__, RuntimeError)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("hookline.hooks", "WARNING")
    text = record.getMessage()
    assert text.startswith("hook 'crash' at before_tool_use: RuntimeError: down")
    assert 'raise RuntimeError("down")' in text


async def test_a_failure_that_is_an_error_is_raised_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where a failing hook cannot count as a block."""
    with pytest.raises(HookError, match="'crash' at request"):
        await HookStack().with_hook(crash, REQUEST).process(Request(point=REQUEST))
    assert len(caplog.records) == 1


async def test_an_answer_without_meaning_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The hook did not crash."""
    stack = HookStack().with_hook(says(5), HookPoint.BEFORE_TOOL_USE, name="guess")
    assert (await stack.process(using())).is_blocked
    assert "Traceback" not in caplog.text
    assert "hook 'guess' at before_tool_use: it returned 5" in caplog.text


async def test_without_failures_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A block is no failure."""
    result = await HookStack().with_hook(says(NO), REQUEST).process(Request(point=REQUEST))
    assert (result.failures, caplog.records) == ((), [])
