"""Hooks that conform, how that is checked, and what is compared."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookline import AgentBuilder, Decision, HookOutcome, HookPoint, ToolContext
from hookline.errors import ModelError, RegistrationError, UsageError
from hookline.state import InferenceResponse
from hookline.testing import Report, ScriptedDriver, call, calls, check_hook_sync, say

EVERY_MODE = ("run", "run again", "run_sync", "stream", "iterate", "parallel", "subagent")
Check = Callable[..., Awaitable[Report]]
"""See the fixture of that name."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(why: str) -> str:
    """Never works."""
    raise RuntimeError(why)


def too_big(ctx: Any) -> HookOutcome | None:
    """Block what is too big."""
    return HookOutcome.block("too big") if ctx.tool_call.args["a"] > 10 else None


# --- hooks that conform -------------------------------------------------------------------------------


async def test_a_hook_that_decides_by_its_context_conforms_in_every_mode(check: Check) -> None:
    """The same verdicts, results, messages and ending, whichever way the agent is driven."""
    report = await check("before_tool_use", too_big, matcher="add")
    assert report.ok, report
    assert bool(report)
    assert report.modes == EVERY_MODE
    assert report.skipped == {}
    assert report.verdicts == ("proceed", "block", "proceed")
    assert report.ending.startswith("completed")


class Narrow:
    """Middleware that judges what the rest left."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        """Let the rest go first."""
        rest = await next(ctx)
        return too_big(rest.context) or rest


class SyncMiddleware:
    """Middleware that is not async itself."""

    def handle(self, ctx: Any, next: Any) -> Any:
        """Hand on."""
        return next(ctx)


async def slowly(ctx: Any) -> HookOutcome | None:
    """An async hook."""
    await asyncio.sleep(0)
    return too_big(ctx)


async def double(ctx: Any, call_next: Any) -> Any:
    """Wraps the tool."""
    execution = await call_next(ctx)
    return execution.with_result(execution.result * 2)


async def cached(ctx: Any, call_next: Any) -> Any:
    """Does not call the model."""
    return InferenceResponse("from the cache")


def count(ctx: Any) -> Any:
    """Counts in metadata, where it belongs."""
    return ctx.with_metadata("count", ctx.get("count", 0) + 1)


CONFORMING: list[tuple[str, Any, dict[str, Any]]] = [
    ("before_tool_use", slowly, {}),
    ("before_tool_use", Narrow(), {}),
    ("before_tool_use", SyncMiddleware(), {}),
    ("before_tool_use", too_big, {"tier": "policy"}),
    ("before_tool_use", too_big, {"shadow": True}),
    ("before_tool_use", too_big, {"timeout": 5.0}),
    ("before_tool_use", slowly, {"timeout": 5.0}),
    ("before_tool_use", too_big, {"tier": "observer"}),
    ("before_tool_use", lambda ctx: ctx.with_args(b=0), {"name": "rewrite"}),
    ("before_tool_use", lambda ctx: ctx.with_result(None), {"name": "supply"}),
    ("before_tool_use", lambda ctx: HookOutcome.stop("enough"), {"name": "stop"}),
    ("before_tool_use", lambda ctx: HookOutcome.ask("sure?"), {"name": "ask"}),
    ("before_tool_use", lambda ctx: HookOutcome.ask("sure?"), {"name": "ask", "tier": "policy"}),
    ("before_tool_use", lambda ctx: ctx.forbid("last one"), {"name": "forbid"}),
    ("before_tool_use", count, {"scope": "tree"}),
    ("around_tool_use", double, {}),
    ("around_tool_use", double, {"scope": "tree"}),
    ("around_inference", cached, {}),
    ("after_tool_use", lambda ctx: HookOutcome.block("private"), {"name": "veil"}),
    ("after_tool_use", lambda ctx: ctx.with_result("***"), {"name": "redact"}),
    ("prompt_submit", lambda ctx: f"{ctx.prompt} Please.", {"name": "polite", "scope": "tree"}),
    ("prompt_submit", lambda ctx: HookOutcome.block("rude"), {"name": "rude"}),
    ("execution_start", lambda ctx: HookOutcome.block("closed"), {"name": "closed"}),
    ("session_start", count, {}),
    ("session_end", count, {}),
    ("before_step", count, {}),
    ("after_step", lambda ctx: ctx.forbid("one is enough"), {"name": "one", "scope": "tree"}),
    ("before_inference", lambda ctx: ctx.with_response("supplied"), {"name": "supply"}),
    ("after_inference", count, {}),
    ("should_continue", lambda ctx: ctx.allow_stop("why not"), {"name": "why-not"}),
    ("stop", lambda ctx: None, {"name": "fine"}),
    ("output", lambda ctx: ctx.output.upper(), {"name": "loud", "scope": "tree"}),
    ("execution_end", count, {"scope": "tree"}),
]


@pytest.mark.parametrize(
    ("point", "hook", "options"),
    CONFORMING,
    ids=[
        f"{point}-{options.get('name') or getattr(hook, '__name__', type(hook).__name__)}"
        for point, hook, options in CONFORMING
    ],
)
async def test_every_kind_of_hook_can_conform(
    check: Check, point: str, hook: Any, options: dict[str, Any]
) -> None:
    """Plain, async, middleware, around; every tier; every answer: nothing differs, and something was asked."""
    report = await check(point, hook, **options)
    assert report.ok, report
    assert report.verdicts


async def test_hooks_at_failures_can_be_checked(check: Check) -> None:
    """Scripts may raise, and so may tools."""
    seen: list[str] = []
    for point, script in (
        ("error", [call("fail", why="disk full"), say("ok")]),
        ("error", [ModelError("gone")]),
        ("agent_failed", [ModelError("gone")]),
    ):
        report = await check(
            point, lambda ctx: seen.append(ctx.error_message), script=script, tools=[fail], name="e"
        )
        assert report.ok, report
    assert set(seen) == {"disk full", "gone"}


async def test_a_permission_hook_is_reached_by_configuring_the_agent(check: Check) -> None:
    """`configure` adds what the conversation needs besides the hook: here, someone who asks."""

    def configure(builder: AgentBuilder) -> None:
        builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="careful")

    report = await check(
        "permission_request",
        lambda ctx: Decision.allow() if ctx.tool_call.args["a"] < 10 else Decision.deny("too big"),
        configure=configure,
        name="guardian",
    )
    assert report.ok, report
    assert report.verdicts == ("allow", "block", "allow")
    assert "parallel" in report.modes


async def test_hooks_around_children_can_be_checked(check: Check) -> None:
    """The subagent points are reached by a tool that starts a child."""

    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        child = AgentBuilder().with_driver(ScriptedDriver([say("inner")])).build()
        return str((await context.spawn(child, "task")).text)

    for point in ("subagent_start", "subagent_stop"):
        report = await check(
            point,
            lambda ctx: None,
            name="watch",
            tools=[delegate],
            script=[call("delegate"), say("x")],
        )
        assert report.ok, report


# --- what is compared, and what is not ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "script", "why"),
    [
        ("after_step", [call("add", a=1, b=2), call("add", a=3, b=3)], "number of steps"),
        ("before_tool_use", [call("add", a=1, b=2), say("x")], "no two turns"),
        ("before_tool_use", [calls(call("add", a=1, b=2)), lambda state: say("x")], "depend on"),
        ("before_tool_use", [call("add", a=1, b=2), call("add", a=1, b=3)], "left the script"),
    ],
)
async def test_parallel_calls_are_compared_only_where_that_is_the_same_conversation(
    check: Check, point: str, script: list[Any], why: str
) -> None:
    """Otherwise the report says why not."""
    report = await check(point, lambda ctx: None, script=script, name="quiet")
    assert "parallel" not in report.modes
    assert why in report.skipped["parallel"]


async def test_several_turns_are_made_one_with_text_and_tokens_kept(check: Check) -> None:
    """Turns that are calls already are merged too, and usage adds up the same."""
    used: dict[int, int] = {}

    def note(ctx: Any) -> None:
        used[ctx.state.step_count] = ctx.state.usage.total_tokens

    script = [
        calls(call("add", a=1, b=2), call("add", a=2, b=2, tokens=2), tokens=3),
        call("add", a=3, b=3, tokens=4),
        say("done", tokens=5),
    ]
    report = await check(
        "after_tool_use",
        lambda ctx: None,
        script=script,
        name="quiet",
        configure=lambda builder: builder.on_execution_end(note),
        skip=["subagent"],
    )
    assert report.ok, report
    assert "parallel" in report.modes
    assert used == {3: 14, 2: 14}


async def test_sessions_are_not_compared_in_a_child(check: Check) -> None:
    """A child run has no session of its own."""
    report = await check("session_start", lambda ctx: None, name="hello")
    assert report.skipped["subagent"] == "a child run belongs to its parent's session"


async def test_an_inherited_hook_judges_the_child_only(check: Check) -> None:
    """A tree-scoped allow-list that knows no delegating tool still gets to judge the child."""
    report = await check(
        "before_tool_use",
        lambda ctx: None if ctx.tool_call.name == "add" else HookOutcome.block("unlisted"),
        name="allow-list",
        tier="policy",
    )
    assert report.ok, report
    assert report.verdicts == ("proceed",) * 3


# --- how it is called ---------------------------------------------------------------------------------


def test_there_is_a_front_for_code_that_is_not_async() -> None:
    """Same arguments, same report."""
    script = [call("add", a=1, b=2), call("add", a=11, b=2), say("done")]
    report = check_hook_sync("PreToolUse", too_big, script=script, tools=[add])
    assert report.ok, report
    assert report.point == "before_tool_use"
    assert check_hook_sync.__name__ == "check_hook_sync"


async def test_points_can_be_given_as_points(check: Check) -> None:
    """A HookPoint is as good as its name."""
    assert (await check(HookPoint.BEFORE_TOOL_USE, too_big)).ok


async def test_a_hook_or_a_factory_is_needed_and_not_both(check: Check) -> None:
    """Either would leave unclear what is checked."""
    with pytest.raises(UsageError, match="exactly one"):
        await check("before_tool_use")
    with pytest.raises(UsageError, match="exactly one"):
        await check("before_tool_use", too_big, factory=lambda: too_big)


@pytest.mark.parametrize("mode", ["paralel", "run"])
async def test_only_modes_that_exist_can_be_skipped(check: Check, mode: str) -> None:
    """A misspelt mode is not silently compared, and the reference is always needed."""
    with pytest.raises(UsageError, match="can be skipped"):
        await check("before_tool_use", too_big, skip=[mode])


async def test_wrong_use_of_a_hook_is_an_error_as_it_is_in_a_builder(check: Check) -> None:
    """What cannot be registered cannot be checked."""
    with pytest.raises(RegistrationError, match="not a hook point"):
        await check("before_tool_uses", too_big)
    with pytest.raises(RegistrationError, match="one argument"):
        await check("before_tool_use", lambda call, state: None)
    with pytest.raises(RegistrationError, match="piority"):
        await check("before_tool_use", too_big, piority=3)


# --- faults ------------------------------------------------------------------------------------


Check_faults = Callable[..., Awaitable[Report]]
"""See the fixture of that name."""


def too_big_faults(ctx: Any) -> HookOutcome | None:
    """Block what is too big."""
    return HookOutcome.block("too big") if ctx.tool_call.args["a"] > 10 else None


def what(report: Report) -> set[tuple[str, str]]:
    """Where the report found something, as (mode, what)."""
    return {(difference.mode, difference.what) for difference in report.differences}


class Quota:
    """Keeps a count of its own."""

    def __init__(self) -> None:
        self.left = 2

    def __call__(self, ctx: Any) -> HookOutcome | None:
        """Let two calls pass."""
        self.left -= 1
        return None if self.left >= 0 else HookOutcome.block("no more")


async def test_what_a_hook_keeps_between_runs_is_found(check: Check_faults) -> None:
    """The second of two equal runs shows it, and the report says what to do."""
    report = await check("before_tool_use", Quota())
    assert not report.ok
    first = report.differences[0]
    assert (first.mode, first.what) == ("run again", "verdict 1")
    assert (first.expected.verdict, first.got.verdict) == ("proceed", "block")
    assert "factory=" in str(report)


async def test_a_hook_that_is_meant_to_keep_something_is_made_again_for_each_run(
    check: Check_faults,
) -> None:
    """With a factory, the same hook conforms: its count is the run's."""
    report = await check("before_tool_use", factory=Quota)
    assert report.ok, report
    assert report.verdicts == ("proceed", "proceed", "block")


async def test_what_a_hook_keeps_without_showing_it_in_a_verdict_is_found(
    check: Check_faults,
) -> None:
    """Metadata and messages are compared as well."""
    numbers = iter(range(1000))
    report = await check(
        "after_tool_use", lambda ctx: ctx.with_metadata("n", next(numbers)), name="n"
    )
    assert ("run again", "metadata") in what(report)
    report = await check(
        "after_tool_use", lambda ctx: ctx.with_result(next(numbers)), name="numbers"
    )
    assert ("run again", "message 3") in what(report)


async def test_what_may_differ_can_be_ignored_by_key(check: Check_faults) -> None:
    """A time in the metadata is no difference, when one says so."""
    hook = lambda ctx: ctx.with_metadata("at", time.perf_counter_ns())  # noqa: E731 - as users write it
    assert not (await check("before_step", hook, name="clock")).ok
    report = await check("before_step", hook, name="clock", ignore=["at"])
    assert report.ok, report


def by_parallel(ctx: Any) -> HookOutcome | None:
    """Dislikes company."""
    return HookOutcome.block("one at a time") if len(ctx.response.calls) > 1 else None


def by_depth(ctx: Any) -> HookOutcome | None:
    """Behaves otherwise in a child."""
    return HookOutcome.block("no children") if ctx.state.parent_run_id else None


def by_thread(ctx: Any) -> HookOutcome | None:
    """Behaves otherwise outside the main thread, where a test runs `run_sync`."""
    is_main = threading.current_thread() is threading.main_thread()
    return None if is_main else HookOutcome.block("wrong thread")


@pytest.mark.parametrize(
    ("hook", "mode", "scope"),
    [
        (by_parallel, "parallel", "self"),
        (by_depth, "subagent", "self"),
        (by_depth, "subagent", "tree"),
        (by_thread, "run_sync", "self"),
    ],
)
async def test_a_hook_that_behaves_otherwise_in_one_mode_is_found_there(
    check: Check_faults, hook: Callable[[Any], Any], mode: str, scope: str
) -> None:
    """Only the mode in which it differs is reported."""
    report = await check("before_tool_use", hook, scope=scope)
    assert {difference.mode for difference in report.differences} == {mode}
    assert (mode, "verdict 1") in what(report)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (lambda ctx: False, "has no meaning here"),
        (lambda ctx: ctx.undefined, "AttributeError"),
        (lambda ctx: HookOutcome.proceed(ctx.with_state(7)), "not an AgentState"),
        (lambda ctx: ctx.tool_call.args.update(a=1), "read-only"),
        (lambda ctx: setattr(ctx, "state", None), "immutable"),
    ],
)
async def test_a_hook_that_fails_or_answers_nonsense_is_found(
    check: Check_faults, hook: Any, words: str
) -> None:
    """Its failure is the same in every mode, and is still reported."""
    report = await check("before_tool_use", hook, name="odd")
    assert {difference.mode for difference in report.differences} == {"run"}
    assert words in str(report.differences[0].got)
    assert "an answer that means something at before_tool_use" in str(report)


async def test_an_answer_the_point_does_not_know_is_found(check: Check_faults) -> None:
    """What is right at one point can be wrong at another."""
    report = await check("after_step", lambda ctx: HookOutcome.block("no"), name="late")
    assert "nothing can be blocked here" in str(report)


async def test_a_policy_that_changes_what_it_judges_is_found(check: Check_faults) -> None:
    """The rules of the tier are part of what is legal."""
    report = await check(
        "before_tool_use", lambda ctx: ctx.with_args(b=0), name="meddler", tier="policy"
    )
    assert "a policy may only judge" in str(report)


async def test_a_hook_that_is_never_asked_was_not_checked(check: Check_faults) -> None:
    """A matcher that matches nothing must not read as success."""
    report = await check("before_tool_use", too_big_faults, matcher="ad")
    assert what(report) == {("run", "how often the hook was asked")}
    assert "the matcher matches nothing" in str(report)


async def test_a_mode_can_be_skipped(check: Check_faults) -> None:
    """A hook that is about single calls says so instead of failing."""
    report = await check("before_tool_use", by_parallel, skip=["parallel"])
    assert report.ok, report
    assert report.skipped == {"parallel": "as you asked"}


async def test_the_report_reads_well(check: Check_faults) -> None:
    """The first lines say what was checked; each difference shows both sides once."""
    fine = str(await check("before_tool_use", too_big_faults)).splitlines()
    assert fine[0] == "hook 'too_big_faults' at before_tool_use: conforms"
    assert fine[1] == "  compared  run, run again, run_sync, stream, iterate, parallel, subagent"
    assert fine[2] == "  verdicts  2 proceed, 1 block"
    bad = str(await check("before_tool_use", by_parallel))
    assert "hook 'by_parallel' at before_tool_use: 2 differences" in bad
    assert "  parallel: verdict 1\n    expected  proceed about add(a=1, b=2)\n" in bad
    assert "    got       block about add(a=1, b=2) (one at a time)\n" in bad
    assert bad.endswith("    also: result of call 1")
