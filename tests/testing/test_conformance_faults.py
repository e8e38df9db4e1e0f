"""Hooks that do not conform are found out, with what differs and where."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from hookline import HookOutcome
from hookline.testing import Report

Check = Callable[..., Awaitable[Report]]
"""See the fixture of that name."""


def too_big(ctx: Any) -> HookOutcome | None:
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


async def test_what_a_hook_keeps_between_runs_is_found(check: Check) -> None:
    """The second of two equal runs tells, and the report says what to do."""
    report = await check("before_tool_use", Quota())
    assert not report.ok
    first = report.differences[0]
    assert (first.mode, first.what) == ("run again", "verdict 1")
    assert (first.expected.verdict, first.got.verdict) == ("proceed", "block")
    assert "factory=" in str(report)


async def test_a_hook_that_is_meant_to_keep_something_is_made_anew_for_each_run(
    check: Check,
) -> None:
    """With a factory, the same hook conforms: its count is the run's."""
    report = await check("before_tool_use", factory=Quota)
    assert report.ok, report
    assert report.verdicts == ("proceed", "proceed", "block")


async def test_what_a_hook_keeps_without_showing_it_in_a_verdict_is_found(check: Check) -> None:
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


async def test_what_may_differ_can_be_ignored_by_key(check: Check) -> None:
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
    check: Check, hook: Callable[[Any], Any], mode: str, scope: str
) -> None:
    """Only the mode in which it differs is reported."""
    report = await check("before_tool_use", hook, scope=scope)
    assert {difference.mode for difference in report.differences} == {mode}
    assert (mode, "verdict 1") in what(report)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (lambda ctx: False, "means nothing here"),
        (lambda ctx: ctx.undefined, "AttributeError"),
        (lambda ctx: HookOutcome.proceed(ctx.with_state(7)), "not an AgentState"),
        (lambda ctx: ctx.tool_call.args.update(a=1), "read-only"),
        (lambda ctx: setattr(ctx, "state", None), "immutable"),
    ],
)
async def test_a_hook_that_fails_or_answers_nonsense_is_found(
    check: Check, hook: Any, words: str
) -> None:
    """Its failure is the same in every mode, and is still reported."""
    report = await check("before_tool_use", hook, name="odd")
    assert {difference.mode for difference in report.differences} == {"run"}
    assert words in str(report.differences[0].got)
    assert "an answer that means something at before_tool_use" in str(report)


async def test_an_answer_the_point_does_not_know_is_found(check: Check) -> None:
    """What is right at one point can be wrong at another."""
    report = await check("after_step", lambda ctx: HookOutcome.block("no"), name="late")
    assert "nothing can be blocked here" in str(report)


async def test_a_policy_that_changes_what_it_judges_is_found(check: Check) -> None:
    """The rules of the tier are part of what is legal."""
    report = await check(
        "before_tool_use", lambda ctx: ctx.with_args(b=0), name="meddler", tier="policy"
    )
    assert "a policy may only judge" in str(report)


async def test_a_hook_that_changes_its_context_in_place_is_found(check: Check) -> None:
    """Forcing one's way past the frozen values does not go unnoticed."""

    def forced(ctx: Any) -> None:
        msgspec.structs.force_setattr(ctx, "step_index", 99)

    report = await check("before_step", forced)
    assert ("run", "the context of call 1 of the hook") in what(report)
    assert "changed in place" in str(report)


async def test_a_hook_that_takes_long_to_say_nothing_is_found(check: Check) -> None:
    """It costs time at every call, so it has to be quick; one that decides may take its time."""

    async def dawdles(ctx: Any) -> HookOutcome | None:
        await asyncio.sleep(0.002)
        return too_big(ctx)

    report = await check("before_tool_use", dawdles, quick=0.001)
    assert what(report) == {
        ("every mode", "saying nothing, call 1"),
        ("every mode", "saying nothing, call 3"),
    }
    assert (await check("before_tool_use", dawdles, quick=5.0)).ok


async def test_a_hook_that_is_never_asked_was_not_checked(check: Check) -> None:
    """A matcher that matches nothing must not read as success."""
    report = await check("before_tool_use", too_big, matcher="ad")
    assert what(report) == {("run", "how often the hook was asked")}
    assert "the matcher matches nothing" in str(report)


async def test_a_mode_can_be_skipped(check: Check) -> None:
    """A hook that is about single calls says so instead of failing."""
    report = await check("before_tool_use", by_parallel, skip=["parallel"])
    assert report.ok, report
    assert report.skipped == {"parallel": "as you asked"}


async def test_the_report_reads_well(check: Check) -> None:
    """The first lines say what was checked; each difference shows both sides once."""
    fine = str(await check("before_tool_use", too_big)).splitlines()
    assert fine[0] == "hook 'too_big' at before_tool_use: conforms"
    assert fine[1] == "  compared  run, run again, run_sync, stream, iterate, parallel, subagent"
    assert fine[2] == "  verdicts  2 proceed, 1 block"
    bad = str(await check("before_tool_use", by_parallel))
    assert "hook 'by_parallel' at before_tool_use: 2 differences" in bad
    assert "  parallel: verdict 1\n    expected  proceed about add(a=1, b=2)\n" in bad
    assert "    got       block about add(a=1, b=2) (one at a time)\n" in bad
    assert bad.endswith("    also: result of call 1")
