"""Hooks that say where they run: every description becomes registrations in one place."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    HookOutcome,
    HookPoint,
    HookStack,
    RunStatus,
    ToolCall,
    ToolHookContext,
    ToolNameMatcher,
    hook,
    on,
    tool,
)
from hookline.adapters import (
    ContinuationCriteriaAdapter,
    ContinuationCriterionAdapter,
    StateProcessorAdapter,
    ToolMiddlewareAdapter,
)
from hookline.agent import Capability
from hookline.capabilities import Hooks
from hookline.errors import BuildError, RegistrationError
from hookline.hooks import CompositeMatcher, Matcher, Registration, Shape
from hookline.lifecycle.stack import registrations_of
from hookline.testing import ScriptedDriver, call, calls, say


@tool
def bash(command: str) -> str:
    """Pretend to run a command."""
    return f"ran {command}"


@tool
def read(path: str) -> str:
    """Pretend to read a file."""
    return f"text of {path}"


def builder(*turns: Any) -> AgentBuilder:
    """An agent with two tools that plays these turns and then answers."""
    return AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(bash, read)


BOTH = calls(call("bash", command="ls"), call("read", path="a"))


def texts(made: AgentBuilder) -> list[str]:
    """What became of each call."""
    result = made.build().run_sync("go")
    assert result.status is RunStatus.COMPLETED
    return [each.text for step in result.steps for each in step.results]


class Described:
    """A hook whose description is given to it."""

    def __init__(self, points: Any = (), matcher: Any = None, answer: Any = None) -> None:
        self._points = points
        self._matcher = matcher
        self._answer = answer
        self.seen: list[str] = []

    def points(self) -> Any:
        return self._points

    def matcher(self) -> Any:
        return self._matcher

    def handle(self, ctx: Any) -> Any:
        self.seen.append(ctx.point.value)
        return self._answer


class OnEvent:
    """The older spelling: one event, and the hook itself says whether it matches."""

    def event(self) -> str:
        return "PreToolUse"

    def matches(self, ctx: ToolHookContext) -> bool:
        return ctx.tool_call.name == "bash"

    def handle(self, ctx: ToolHookContext) -> HookOutcome:
        return HookOutcome.block("no shell")


class Wrapping:
    """Middleware that says where it runs."""

    def points(self) -> list[str]:
        return ["before_tool_use"]

    async def handle(self, ctx: Any, next: Any) -> Any:
        result = await next(ctx)
        return result if result.is_blocked else HookOutcome.block("nobody else objected")


# --- where ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([HookPoint.BEFORE_STEP], ["before_step"]),
        (["PreToolUse", "onAfterToolUse"], ["before_tool_use", "after_tool_use"]),
        ((HookPoint.BEFORE_TOOL_USE, "PreToolUse"), ["before_tool_use"]),
        ({"stop"}, ["stop"]),
        (HookPoint.STOP, ["stop"]),
        ("Stop", ["stop"]),
    ],
)
def test_points_are_named_in_any_spelling(points: Any, expected: list[str]) -> None:
    """One point or several, each of them once."""
    assert [each.point.value for each in registrations_of(Described(points))] == expected


def test_an_empty_list_means_every_point_that_is_asked() -> None:
    """All but those around an action, whose hooks have to do the action."""
    everywhere = registrations_of(Described([]))
    assert [each.point for each in everywhere] == [each for each in HookPoint if not each.around]
    watching = Described([])
    assert texts(builder(BOTH).with_hook(watching)) == ["ran ls", "text of a"]
    assert watching.seen.count("before_tool_use") == 2
    assert watching.seen[0] == "session_start"
    assert watching.seen[-1] == "session_end"


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        (None, r"hook 'Described': points\(\) gave None"),
        (7, r"points\(\) gave 7"),
        (["befor_step"], r"hook 'Described': 'befor_step' is not a hook point. Did you mean"),
        ([7], "hook 'Described': 7 is not a hook point"),
        (["around_tool_use"], r"at around_tool_use: it must take \(ctx, call_next\)"),
    ],
)
def test_a_wrong_description_is_refused(points: Any, problem: str) -> None:
    """Naming the hook, and what the method returns."""
    for take in (AgentBuilder().with_hook, HookStack().with_hook, AgentBuilder().with_hooks):
        with pytest.raises(RegistrationError, match=problem):
            take(Described(points))


def test_two_descriptions_are_one_too_many() -> None:
    """Neither is silently ignored."""

    class Both(OnEvent):
        def points(self) -> list[str]:
            return ["stop"]

    with pytest.raises(RegistrationError, match=r"hook 'Both': it has both. Give it event\(\)"):
        AgentBuilder().with_hook(Both())


def test_a_hook_that_says_where_it_runs_is_registered_there_only() -> None:
    """It is written for the contexts of its points. One for all points goes anywhere."""
    for register in (
        lambda: AgentBuilder().on_before_step(OnEvent()),  # type: ignore[arg-type]
        lambda: AgentBuilder().add_hook("before_step", OnEvent()),
        lambda: hook("before_step", OnEvent()),
        lambda: HookStack().with_hook(OnEvent(), "before_step"),
    ):
        with pytest.raises(RegistrationError, match="the hook names its own points: PreToolUse"):
            register()
    assert hook("BeforeToolUse", OnEvent()).point is HookPoint.BEFORE_TOOL_USE
    assert hook("before_step", Described([])).point is HookPoint.BEFORE_STEP


@pytest.mark.parametrize("thing", [Described, OnEvent])
def test_a_class_is_no_hook(thing: type) -> None:
    """The remedy is an instance."""
    with pytest.raises(RegistrationError, match=rf"Pass an instance: {thing.__name__}\(...\)"):
        AgentBuilder().with_hook(thing)


def test_what_says_nothing_is_refused_by_a_builder() -> None:
    """An agent has many points, and a hook that meant one of them would run at all."""
    with pytest.raises(RegistrationError, match=r"has no hooks.*give it points\(\) or event\(\)"):
        AgentBuilder().with_hook(lambda ctx: None)


# --- when -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (None, ["Blocked: no", "Blocked: no"]),
        ("bash", ["Blocked: no", "text of a"]),
        (ToolNameMatcher("re*"), ["ran ls", "Blocked: no"]),
        (lambda ctx: ctx.tool_call.name == "read", ["ran ls", "Blocked: no"]),
    ],
)
def test_a_hook_brings_its_matcher(matcher: Any, expected: list[str]) -> None:
    """Whatever `matcher=` takes; None is none."""
    refusing = Described(["before_tool_use"], matcher, HookOutcome.block("no"))
    assert texts(builder(BOTH).with_hook(refusing)) == expected


def test_a_hook_may_match_itself() -> None:
    """`matches(ctx)` of the hook is asked before it is called."""
    assert texts(builder(BOTH).with_hook(OnEvent())) == ["Blocked: no shell", "text of a"]


@pytest.mark.parametrize("register", ["with_hook", "on_before_tool_use", "add_hook"])
def test_the_matcher_counts_in_every_registration(register: str) -> None:
    """Also where the point is given, together with a matcher that is given there."""
    for given, expected in (
        ("*", ["Blocked: no shell", "text of a"]),
        ("read", ["ran ls", "text of a"]),
    ):
        made = builder(BOTH)
        args = ("PreToolUse", OnEvent()) if register == "add_hook" else (OnEvent(),)
        getattr(made, register)(*args, matcher=given)
        assert texts(made) == expected


def test_a_wrong_matcher_of_a_hook_is_refused_with_its_name() -> None:
    """As one that is given."""
    with pytest.raises(RegistrationError, match="hook 'Described' at stop: 5 is not a matcher"):
        AgentBuilder().with_hook(Described(["stop"], 5))


def test_the_matcher_of_a_hook_is_in_the_plan() -> None:
    """With the name of the method, or of the matcher's class."""

    class Weekend:
        def matches(self, ctx: Any) -> bool:
            return False

    made = builder().with_hooks(OnEvent(), Described(["stop"], Weekend()))
    plan = str(made.build().explain())
    assert "when OnEvent.matches" in plan
    assert "when Weekend" in plan


# --- all spellings ------------------------------------------------------------------------------------


class Counting:
    """A state processor."""

    def process(self, state: Any) -> Any:
        return state.with_metadata("steps", state.step_count)


@on.before_tool_use(matcher="bash", priority=3)
def decorated(ctx: Any) -> HookOutcome:
    """A decorated function."""
    return HookOutcome.block("decorated")


class Methods:
    """Decorated methods."""

    @on.before_tool_use(matcher="bash")
    def refuse(self, ctx: Any) -> HookOutcome:
        return HookOutcome.block("a method")


SPELLINGS = [
    decorated,
    Methods(),
    OnEvent(),
    Described(["before_tool_use"], "bash", HookOutcome.block("no")),
    Wrapping(),
    hook("before_tool_use", lambda ctx: HookOutcome.block("lambda"), matcher="bash"),
]


@pytest.mark.parametrize("thing", SPELLINGS, ids=lambda thing: type(thing).__name__)
def test_every_spelling_goes_everywhere(thing: Any) -> None:
    """To the builder, alone or with others, through a capability, into a bundle and into a stack."""

    class Brings:
        name = "brings"

        def hooks(self) -> Any:
            return [thing]

    assert isinstance(Brings(), Capability)
    ways = [
        builder(BOTH).with_hook(thing),
        builder(BOTH).with_hooks(Described(["stop"]), thing, StateProcessorAdapter(Counting())),
        builder(BOTH).with_capability(Brings()),
        builder(BOTH).with_capability(Hooks("bundle", thing)),
    ]
    for made in ways:
        assert texts(made)[0].startswith("Blocked: ")
    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=ToolCall("1", "bash"))
    assert HookStack().with_hook(thing).process_sync(ctx).is_blocked


def test_options_come_with_the_registration() -> None:
    """They replace those of a decorator, and belong to every point of a hook."""
    (one,) = registrations_of(decorated, {"priority": 7, "tier": "policy"})
    assert (one.priority, one.tier, one.matcher) == (7, "policy", ToolNameMatcher("bash"))
    two = registrations_of(Described(["stop", "error"]), {"name": "both", "on_failure": "open"})
    assert {(each.name, each.on_failure) for each in two} == {("both", "open")}
    with pytest.raises(RegistrationError, match="is registered with its options already"):
        AgentBuilder().with_hook(hook("stop", lambda ctx: None), priority=3)


def test_a_capability_is_credited_for_hooks_that_describe_themselves() -> None:
    """They are installed together or not at all, as all its parts."""

    class Brings:
        name = "brings"

        def hooks(self) -> Any:
            yield OnEvent()
            yield Described(["no such point"])

    made = builder()
    with pytest.raises(BuildError, match="is not a hook point"):
        made.with_capability(Brings())
    assert made.with_hook(OnEvent()).build().definition.capabilities == ()


def test_middleware_that_describes_itself_wraps_the_rest() -> None:
    """It sees what the others decided."""
    (made,) = registrations_of(Wrapping())
    assert isinstance(made, Registration)
    assert made.shape is Shape.MIDDLEWARE
    assert texts(builder(BOTH).with_hooks(Wrapping(), OnEvent())) == [
        "Blocked: no shell",
        "Blocked: nobody else objected",
    ]


# --- adapters ---------------------------------------------------------------------------------------


class NoShell:
    """Tool middleware."""

    async def process(self, made: ToolCall, state: Any, next: Any) -> Any:
        return None if made.name == "bash" else await next(made, state)


def test_an_adapter_knows_its_point() -> None:
    """It needs no further argument; a point that contradicts its position is refused."""
    counting = StateProcessorAdapter(Counting(), position="before")
    made = builder(BOTH).with_hooks(counting, ToolMiddlewareAdapter(NoShell()))
    assert texts(made) == ["Blocked: blocked by NoShell", "text of a"]
    with pytest.raises(
        RegistrationError, match="'Counting' at after_step: the hook names its own points"
    ):
        builder().on_after_step(counting)


def test_older_code_is_added_by_its_kind() -> None:
    """A processor before or after a step, and criteria, with the options of every hook."""
    seen: list[int] = []
    made = (
        builder(BOTH)
        .add_pre_processor(lambda state: seen.append(state.step_count))
        .add_processor(Counting(), name="counting", priority=5)
        .add_continuation_criteria(lambda state: False, lambda state: True)
    )
    result = made.build().run_sync("go")
    assert seen == [0]
    assert (result.state.metadata["steps"], result.state.step_count) == (1, 1)
    plan = str(made.build().explain())
    assert "counting" in plan


def test_the_older_name_of_the_adapter_of_criteria_works() -> None:
    """It is the same class."""
    assert ContinuationCriteriaAdapter is ContinuationCriterionAdapter


# --- add_hook ----------------------------------------------------------------------------------------


def test_add_hook_takes_the_point_as_event() -> None:
    """The same thing under the older name, once."""
    made = builder(BOTH).add_hook(event="PreToolUse", hook=OnEvent(), priority=100)
    assert texts(made) == ["Blocked: no shell", "text of a"]
    with pytest.raises(RegistrationError, match="point= and event= are the same"):
        builder().add_hook("stop", lambda ctx: None, event="stop")  # type: ignore[call-overload]
    with pytest.raises(RegistrationError, match="is not a hook point"):
        builder().add_hook(hook=lambda ctx: None)  # type: ignore[call-overload]


# --- asking ------------------------------------------------------------------------------------------


def asks(ctx: Any) -> Any:
    """Asks, under some condition."""
    if ctx.state.step_count > 3:
        return HookOutcome.ask("go on?")
    return None


def asks_before_tools(ctx: Any) -> Any:
    """Looks where it is first."""
    return HookOutcome.ask("sure?") if ctx.point.is_tool_event else None


class AsksItself:
    """Asks somebody else, and only blocks here."""

    def ask(self, ctx: Any) -> bool:
        return bool(ctx)

    def handle(self, ctx: Any) -> Any:
        return HookOutcome.block("no") if self.ask(ctx) else None


@pytest.mark.parametrize("point", ["before_step", "prompt_submit", "permission_request", "stop"])
def test_a_hook_that_asks_where_nobody_can_be_asked_is_refused(point: str) -> None:
    """When it is registered, by whatever way, and not when the run fails."""
    bundle = Hooks("bundle").on(point, asks)
    for take in (
        lambda: AgentBuilder().add_hook(point, asks),
        lambda: AgentBuilder().add_hook(point, lambda ctx: HookOutcome.ask("sure?")),
        lambda: AgentBuilder().with_hooks(hook(point, asks, name="asks")),
        lambda: AgentBuilder().with_capability(bundle),
    ):
        with pytest.raises(
            RegistrationError, match=rf"at {point}: it answers HookOutcome.ask, but nobody can be"
        ):
            take()


def test_a_hook_that_may_ask_elsewhere_is_taken() -> None:
    """Where it can be asked, when it looks where it is, when it only watches, and when it asks nobody here."""
    made = builder().on_before_tool_use(asks).with_hook(Described([]))
    made.on_before_step(asks_before_tools).on_before_tool_use(asks_before_tools)
    made.on_before_step(asks, tier="observer")
    made.on_before_step(AsksItself())
    assert made.build()


def test_a_duck_is_a_matcher() -> None:
    """What a description brings is a plain object with `matches`."""

    class Duck:
        def matches(self, ctx: Any) -> bool:
            return bool(ctx.tool_call.name == "bash")

    assert isinstance(Duck(), Matcher)
    refusing = Described(["before_tool_use"], Duck(), HookOutcome.block("no"))
    assert texts(builder(BOTH).with_hook(refusing)) == ["Blocked: no", "text of a"]
    both = registrations_of(refusing, {"matcher": "read"})
    assert isinstance(both[0].matcher, CompositeMatcher)
