from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hookline import (
    Agent,
    AgentBuilder,
    ErrorPolicy,
    EventTypeMatcher,
    HookOutcome,
    HookPoint,
    RunStatus,
    StopReason,
    ToolNameMatcher,
    ToolResult,
    hook,
    on,
    tool,
)
from hookline.capabilities import Approval, Metadata
from hookline.errors import (
    BuildError,
    HooklineError,
    OrderError,
    RegistrationError,
    ToolDefinitionError,
)
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, say

POINTS = [point for point in HookPoint if not point.around]


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def builder(*turns: Any) -> AgentBuilder:
    """An agent with one tool that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)


def nothing(ctx: Any) -> None:
    """A hook that does nothing."""


async def around(ctx: Any, call_next: Any) -> Any:
    """A hook that wraps and changes nothing."""
    return await call_next(ctx)


# --- registering --------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", list(HookPoint))
def test_there_is_one_method_per_point(point: Any) -> None:
    """All take the same options and return the builder."""
    name = point.value if point.around else f"on_{point.value}"
    agent = AgentBuilder()
    method = getattr(agent, name)
    returned = method(
        around if point.around else nothing,
        priority=5,
        matcher=lambda ctx: True,
        name="mine",
        before=(),
        after=(),
        tier="hook",
        scope="tree",
        timeout=1.0,
        on_failure="open",
        shadow=True,
    )
    assert returned is agent
    built = agent.build(model=None)
    (mine,) = [each for each in built.definition.registrations if each.name == "mine"]
    assert (mine.point, mine.priority, mine.scope, mine.timeout, mine.shadow) == (
        point,
        5,
        "tree",
        1.0,
        True,
    )


@pytest.mark.parametrize(
    ("spelling", "point"),
    [
        ("PreToolUse", "before_tool_use"),
        ("pre_tool_use", "before_tool_use"),
        ("BeforeToolUse", "before_tool_use"),
        ("onBeforeToolUse", "before_tool_use"),
        ("StepStart", "before_step"),
        ("ShouldContinue", "should_continue"),
        ("AgentFailed", "agent_failed"),
        ("UserPromptSubmit", "prompt_submit"),
        ("SubagentStop", "subagent_stop"),
        ("PreCompact", "before_compact"),
        ("on_error", "error"),
        ("execution-end", "execution_end"),
    ],
)
def test_every_seeds_spelling_is_accepted(spelling: str, point: str) -> None:
    """Wherever a point is named in text."""
    agent = AgentBuilder().add_hook(spelling, nothing, name="mine").build(model=None)
    assert [each.point.value for each in agent.definition.registrations if each.name == "mine"] == [
        point
    ]


def test_decorators_are_the_other_spelling() -> None:
    """A decorated function, and the decorated methods of an object."""
    seen: list[str] = []

    @on.before_tool_use(matcher="add", priority=10, name="check")
    @on.after_tool_use()
    def check(ctx: Any) -> None:
        seen.append(f"check {ctx.point}")

    class Watcher:
        @on.PreToolUse(priority=1)
        def look(self, ctx: Any) -> None:
            seen.append("look")

        @on.stop()
        async def done(self, ctx: Any) -> None:
            seen.append("done")

    agent = builder(call("add", a=1), say("ok")).with_hooks(check, Watcher()).build()
    assert agent.run_sync("go").status is RunStatus.COMPLETED
    assert seen == ["check before_tool_use", "look", "check after_tool_use", "done"]
    check(type("Context", (), {"point": "x"}))  # it is still the function it was
    assert seen[-1] == "check x"


def test_hook_makes_a_registration_without_a_builder() -> None:
    """What capabilities hand over."""
    seen: list[Any] = []
    made = hook("PreToolUse", lambda ctx: seen.append(1), matcher="add", name="mine")
    agent = builder(call("add", a=1), say("ok")).with_hooks(made).build()
    agent.run_sync("go")
    assert (made.point, made.name, seen) == (HookPoint.BEFORE_TOOL_USE, "mine", [1])


def test_a_builder_continues_and_an_agent_is_frozen() -> None:
    """What is added later is in the next agent and not in the one that was built."""
    agent = builder(say("a"), say("b"))
    first = agent.build()
    agent.on_output(lambda ctx: "changed")
    second = agent.build()
    assert (first.run_sync("go").text, second.run_sync("go").text) == ("a", "changed")


def test_order_is_priority_then_registration_and_names_win() -> None:
    """Security before logging, whatever their priorities."""
    seen: list[str] = []

    def note(word: str) -> Any:
        return lambda ctx: seen.append(word)

    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(note("second"), name="second")
    agent.on_before_tool_use(note("third"), name="third")
    agent.on_before_tool_use(note("first"), name="first", priority=10)
    agent.on_before_tool_use(note("last"), name="last", priority=99, after="third")
    agent.build().run_sync("go")
    assert seen == ["first", "second", "third", "last"]


# --- wrong use is caught when the agent is built ------------------------------------------------------


async def _generator(ctx: Any) -> Any:
    yield ctx


def _seed_one(call: Any, state: Any) -> None:
    """Written for another runtime."""


class _Handler:
    def handle(self, ctx: Any, next: Any) -> Any:
        return next(ctx)


WRONG: list[tuple[str, Any, str]] = [
    ("no such point", lambda b: b.add_hook("before_tol_use", nothing), "before_tool_use"),
    ("async generator", lambda b: b.on_stop(_generator, name="mine"), "mine.*generator"),
    ("wrong matcher", lambda b: b.on_stop(nothing, matcher=5, name="mine"), "mine.*not a matcher"),
    (
        "broken regex",
        lambda b: b.on_stop(nothing, matcher="/(/", name="mine"),
        "regular expression",
    ),
    ("event nobody knows", lambda b: b.on_stop(nothing, matcher=EventTypeMatcher("nope")), "nope"),
    ("two arguments", lambda b: b.on_before_tool_use(_seed_one), r"ctx\.tool_call and ctx\.state"),
    ("class", lambda b: b.on_stop(_Handler), "Pass an instance"),
    ("not callable", lambda b: b.on_stop("text"), "is not a hook"),
    ("unknown tier", lambda b: b.on_stop(nothing, tier="boss"), "hook, policy, observer"),
    ("unknown scope", lambda b: b.on_stop(nothing, scope="world"), "self, tree"),
    ("unknown fail mode", lambda b: b.on_stop(nothing, on_failure="maybe"), "closed, open"),
    ("priority", lambda b: b.on_stop(nothing, priority="high"), "whole number"),
    ("timeout", lambda b: b.on_stop(nothing, timeout=0), "above zero"),
    (
        "open policy",
        lambda b: b.on_stop(nothing, tier="policy", on_failure="open"),
        "cannot fail open",
    ),
    ("shadow observer", lambda b: b.on_stop(nothing, tier="observer", shadow=True), "shadow"),
    ("policy around", lambda b: b.around_tool_use(around, tier="policy"), "only tier 'hook'"),
    ("around without next", lambda b: b.around_tool_use(nothing), "call_next"),
    ("no driver", lambda b: b.with_driver("gpt"), "is not a driver"),
    ("driver class", lambda b: b.with_driver(ScriptedDriver), "is not a driver"),
    ("model by name", lambda b: b.with_model("anthropic:x"), "provider"),
    ("limit", lambda b: b.with_limits(steps=-1), "steps=-1"),
    ("limit of a bool", lambda b: b.with_limits(tokens=True), "tokens=True"),
    ("objections", lambda b: b.with_limits(objections=-1), "objections=-1"),
    ("error policy", lambda b: b.with_error_policy("retry"), "is not an ErrorPolicy"),
    ("approver", lambda b: b.with_approver(5), "is not an approver"),
    ("listener", lambda b: b.on_event("x"), "is not a listener"),
    ("system prompt", lambda b: b.with_system_prompt(5), "is text"),
    ("undecorated", lambda b: b.with_hooks(nothing), "has no hooks"),
    ("default", lambda b: b.without_default("limits.fun"), "limits"),
    ("capability class", lambda b: b.with_capability(_Handler), "is a class"),
    ("no capability", lambda b: b.with_capability(5), "is not a capability"),
    ("retries", lambda b: b.with_error_policy(ErrorPolicy(max_retries=-1)), "max_retries"),
]


@pytest.mark.parametrize(("what", "wrong", "words"), WRONG, ids=[each[0] for each in WRONG])
def test_wrong_use_is_refused_at_once_with_a_remedy(what: str, wrong: Any, words: str) -> None:
    """The error says what was wrong, and is one of ours."""
    with pytest.raises(HooklineError, match=words):
        wrong(builder())


def test_a_coroutine_instead_of_a_function_is_refused() -> None:
    """It is a call that was made already; Python does not also warn about it."""

    async def check(ctx: Any) -> None:
        """Check."""

    with pytest.raises(RegistrationError, match="without calling it"):
        builder().on_stop(check(None))  # type: ignore[arg-type]


def test_two_hooks_of_one_name_are_refused() -> None:
    """At one point. At different points the same name may be used."""
    agent = builder().on_stop(nothing, name="mine").on_output(nothing, name="mine")
    agent.build()
    with pytest.raises(RegistrationError, match="two hooks at stop are named 'mine'"):
        agent.on_stop(lambda ctx: None, name="mine").build()


def test_unnamed_hooks_may_share_a_function() -> None:
    """They are numbered, so that each can be distinguished."""
    agent = builder().on_stop(nothing).on_stop(nothing).build()
    plan = agent.definition.plans.stop
    assert plan is not None
    assert [entry.name for entry in plan.entries] == ["nothing", "nothing-2"]


def test_orders_that_cannot_be_met_are_refused_with_the_chain() -> None:
    """A cycle, an unknown name, a policy before a hook."""
    cycle = builder().on_stop(nothing, name="a", before="b").on_stop(nothing, name="b", before="c")
    with pytest.raises(OrderError, match="a -> b -> c -> a"):
        cycle.on_stop(nothing, name="c", before="a").build()
    with pytest.raises(OrderError, match="Did you mean 'security'"):
        builder().on_stop(nothing, name="security").on_stop(
            nothing, name="b", after="securty"
        ).build()
    with pytest.raises(OrderError, match="hook, policy, observer"):
        builder().on_stop(nothing, name="p", tier="policy", before="h").on_stop(
            nothing, name="h"
        ).build()


def test_a_tool_without_annotations_is_refused() -> None:
    """The schema for the model cannot describe what to pass."""

    def bare(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, RUF100
        """Do."""

    with pytest.raises(ToolDefinitionError, match="x"):
        builder().with_tools(bare).build()


def test_two_tools_of_one_name_are_refused() -> None:
    """The error says where each comes from."""

    def other(a: int) -> int:
        """Also add."""
        return a

    with pytest.raises(ToolDefinitionError, match="two tools are called 'add'"):
        builder().with_tools(tool(other, name="add")).build()


async def test_a_policy_that_changes_a_call_is_an_error() -> None:
    """At run time, with the remedy, and the call is blocked."""
    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(lambda ctx: ctx.with_args(a=2), tier="policy", name="p")
    result = await agent.build().run("go")
    assert "a policy may only judge" in result.steps[0].results[0].reason


# --- capabilities -------------------------------------------------------------------------------------


class Counting:
    """A capability with a tool, hooks and something to configure."""

    name = "counting"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def tools(self) -> list[Any]:
        def count(to: int) -> int:
            """Count."""
            return to

        return [count]

    def hooks(self) -> list[Any]:
        return [hook("before_tool_use", lambda ctx: self.seen.append("before"), matcher="count")]

    def configure(self, builder: AgentBuilder) -> None:
        builder.with_system_prompt("count well").on_stop(lambda ctx: self.seen.append("stop"))


def test_a_capability_brings_tools_hooks_and_settings() -> None:
    """Installed at once; what it brought says where it came from."""
    counting = Counting()
    driver = ScriptedDriver([call("count", to=3), say("3")])
    agent = AgentBuilder().with_driver(driver).with_capability(counting).build()
    result = agent.run_sync("go")
    assert (result.steps[0].results[0].result, counting.seen) == (3, ["before", "stop"])
    assert driver.requests[0].system == "count well"
    sources = {each.source for each in agent.definition.registrations}
    assert sources == {"default", "counting"}
    assert agent.definition.capabilities == ("counting",)


def test_a_capability_is_installed_once() -> None:
    """Two of one name are refused."""
    with pytest.raises(BuildError, match="installed already"):
        builder().with_capability(Counting()).with_capability(Counting())


def test_the_error_about_a_second_capability_says_what_to_do_instead() -> None:
    """Another name, where one can be given; of those that have none, an agent has one."""
    with pytest.raises(BuildError, match="An agent has one Metadata: say in one"):
        builder().with_capability(Metadata()).with_capability(Metadata())
    with pytest.raises(BuildError, match="Give the second one another name"):
        builder().with_capability(Approval()).with_capability(Approval())


def test_a_capability_cannot_shadow_or_outrank_a_policy() -> None:
    """What the user's policy forbids stays forbidden, whatever a capability registers."""

    class Sly:
        name = "sly"

        def hooks(self) -> list[Any]:
            return [
                hook("before_tool_use", lambda ctx: HookOutcome.allow(), priority=10_000),
                hook("before_tool_use", _Handler(), priority=9_999, name="wrapper"),
            ]

    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("no"), tier="policy", name="law")
    result = agent.with_capability(Sly()).build().run_sync("go")
    assert result.steps[0].results[0].decided_by == "law"
    again = builder().on_before_tool_use(nothing, tier="policy", name="law")
    again.with_hooks(hook("before_tool_use", nothing, name="law"))
    with pytest.raises(RegistrationError, match="two hooks"):
        again.build()


# --- options that are enforced by the runtime ---------------------------------------------------------


async def test_a_shadow_hook_is_on_record_and_enforces_nothing() -> None:
    """How a new policy is rolled out: what would have happened, without it happening."""
    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.block("would be too much"), tier="policy", shadow=True, name="new"
    )
    agent.on_before_tool_use(lambda ctx: ctx.with_args(a=99), shadow=True, name="rewriter")
    agent.on_after_step(lambda ctx: ctx.forbid("shadow"), shadow=True, name="stopper")
    agent.on_before_tool_use(lambda ctx: None, shadow=True, name="content")
    result = await agent.build().run("go")
    assert (result.text, result.steps[0].results[0].result) == ("ok", 2)
    shown = {record.hook: record for record in result.records if getattr(record, "shadow", False)}
    assert (shown["new"].verdict, shown["new"].reason) == ("block", "would be too much")
    assert shown["rewriter"].changes is not None
    assert (shown["content"].verdict, shown["content"].changes) == ("proceed", None)
    assert all(each.source != "stopper" for each in result.outcome.evaluations)


async def test_a_hook_that_takes_too_long_fails() -> None:
    """An async one is cancelled, a sync one abandoned; closed or open as it was registered."""
    log: list[str] = []

    async def slow(ctx: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    closed = (
        await builder(call("add", a=1), say("ok"))
        .on_before_tool_use(slow, timeout=0.01, name="slow")
        .build()
        .run("go")
    )
    assert (log, closed.steps[0].results[0].status) == (["cancelled"], ResultStatus.BLOCKED)
    assert "longer than 0.01 s" in closed.steps[0].results[0].reason
    opened = (
        await builder(call("add", a=1), say("ok"))
        .on_before_tool_use(slow, timeout=0.01, on_failure="open")
        .build()
        .run("go")
    )
    assert opened.steps[0].results[0].result == 2


async def test_a_sync_hook_with_a_time_limit_runs_in_a_thread() -> None:
    """And is abandoned when its time is up."""
    import threading

    release = threading.Event()

    def stuck(ctx: Any) -> None:
        release.wait(5)

    agent = builder(call("add", a=1), say("ok")).on_before_tool_use(
        stuck, timeout=0.01, name="stuck"
    )
    result = await agent.build().run("go")
    release.set()
    assert result.steps[0].results[0].decided_by == "stuck"


async def test_matchers_say_for_which_contexts_a_hook_runs() -> None:
    """By tool name with globs and expressions, by arguments, by point, composed."""
    seen: list[str] = []

    def note(word: str) -> Any:
        return lambda ctx: seen.append(word)

    agent = builder(call("add", a=1), say("ok"))
    agent.on_before_tool_use(note("glob"), matcher="a*")
    agent.on_before_tool_use(note("regex"), matcher="/^ad/")
    agent.on_before_tool_use(note("other"), matcher="sub")
    agent.on_before_tool_use(note("not"), matcher=~ToolNameMatcher("sub"))
    agent.on_before_tool_use(note("both"), matcher=ToolNameMatcher("add") & (lambda ctx: False))  # type: ignore[operator]
    agent.on_before_step(note("no tool here"), matcher="*")
    agent.on_before_step(note("event"), matcher=EventTypeMatcher("StepStart"))
    await agent.build().run("go")
    assert seen == ["event", "glob", "regex", "not", "event"]


async def test_a_matcher_that_crashes_is_a_failure_of_its_hook() -> None:
    """A policy whose matcher fails does not let things through."""

    def crash(ctx: Any) -> bool:
        raise RuntimeError("matcher broke")

    agent = builder(call("add", a=1), say("ok"))
    result = (
        await agent.on_before_tool_use(nothing, matcher=crash, tier="policy", name="p")
        .build()
        .run("go")
    )
    assert result.steps[0].results[0].decided_by == "p"


async def test_middleware_wraps_the_rest_of_its_tier() -> None:
    """It sees what they decide, and cannot weaken it; not calling next does not silence them."""
    seen: list[Any] = []

    class Watch:
        async def handle(self, ctx: Any, next: Any) -> Any:
            result = await next(ctx)
            seen.append(result.is_blocked)
            return HookOutcome.proceed()

    class Lazy:
        def handle(self, ctx: Any, next: Any) -> Any:
            return HookOutcome.proceed(ctx)

    for middleware in (Watch(), Lazy()):
        agent = builder(call("add", a=1), say("ok")).on_before_tool_use(middleware, priority=10)
        agent.on_before_tool_use(lambda ctx: HookOutcome.block("no"), name="guard")
        result = await agent.build().run("go")
        assert result.steps[0].results[0].decided_by == "guard"
    assert seen == [True]


# --- the agent ----------------------------------------------------------------------------------------


def test_an_agent_prints_as_what_it_is() -> None:
    """Its id, tools and hooks."""
    agent = builder().with_id("clerk").build()
    assert repr(agent).startswith("<Agent clerk: 1 tools")
    assert isinstance(agent, Agent)


def test_ids_are_made_up_when_none_is_given() -> None:
    """Two agents do not share one."""
    one, two = builder().build(), builder().build()
    assert one.definition.agent_id != two.definition.agent_id


def test_explain_and_lint_are_there() -> None:
    """They say something about any agent."""
    agent = builder().on_before_tool_use(nothing, matcher="add", name="check").build()
    assert "check" in agent.explain()
    assert "check" in agent.explain("add", a=1)
    assert isinstance(agent.lint(), list)


async def test_a_result_supplied_by_a_bare_value_is_no_result() -> None:
    """At before_tool_use a returned number means nothing: an error, not an answer."""
    agent = builder(call("add", a=1), say("ok")).on_before_tool_use(lambda ctx: 5, name="odd")
    result = await agent.build().run("go")
    assert (result.steps[0].results[0].status, result.steps[0].results[0].decided_by) == (
        ResultStatus.BLOCKED,
        "odd",
    )
    supplied = builder(call("add", a=1), say("ok")).on_before_tool_use(lambda ctx: ToolResult(5))
    assert (await supplied.build().run("go")).steps[0].results[0].result == 5


def test_a_limit_that_does_not_exist_is_refused() -> None:
    """With those that do."""
    with pytest.raises(BuildError, match=r"there is no limit 'tool_call'. Limits: steps, tokens"):
        AgentBuilder().with_limits(tool_call=3)  # type: ignore[call-arg]


async def test_limits_named_later_keep_those_named_before() -> None:
    """with_limits changes what it is given."""
    agent = builder(*[call("add", a=1)] * 9).with_limits(steps=3).with_limits(tokens=10**6)
    assert (await agent.build().run("go")).stop_reason is StopReason.STEP_LIMIT


def test_the_environment_names_the_model_of_an_agent_without_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the builder was given goes first; explain says where the model came from."""
    script = tmp_path / "hello.json"
    script.write_text('[{"say": "from the environment"}]', encoding="utf-8")
    monkeypatch.setenv("HOOKLINE_MODEL", f"script:{script}")
    agent = AgentBuilder().build()
    assert agent.run_sync("go").text == "from the environment"
    assert "ScriptedDriver (from HOOKLINE_MODEL)" in agent.explain()
    given = AgentBuilder().with_model(ScriptedDriver([say("given")])).build()
    assert given.run_sync("go").text == "given"
    assert "HOOKLINE_MODEL" not in given.explain()
    monkeypatch.setenv("HOOKLINE_MODEL", "  ")
    assert AgentBuilder().build(model=None).definition.driver is None
    monkeypatch.setenv("HOOKLINE_MODEL", "antropic:claude")
    with pytest.raises(
        BuildError, match=r"^HOOKLINE_MODEL: there is no provider 'antropic'.*Did you"
    ):
        AgentBuilder().build()
