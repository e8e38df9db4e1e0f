"""Wrong use: hooks that cannot be registered: wrong points, wrong shapes, wrong matchers."""

from __future__ import annotations

from typing import Any

import pytest
from wrong_use import builder, failure, fine, refused

from hookline import (
    AgentBuilder,
    AgentState,
    CallableMatcher,
    CompositeMatcher,
    EventTypeMatcher,
    HookOutcome,
    HookPoint,
    HookStack,
    ToolHookContext,
    ToolNameMatcher,
    ToolResult,
    hook,
    on,
)
from hookline.errors import HooklineError
from hookline.hooks import StepTypeMatcher

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
    """The error for one that takes only the context says how to write it."""
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

    message = refused(lambda: AgentBuilder().with_tools(look("x")).build(model=None))
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
        "Write `await next(ctx)`."
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
            f"hook '{around.__name__}' at around_tool_use: it called call_next(ctx) and never awaited it. "
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
