"""Back-test with the hooks of then: nothing would change, whatever limit stopped the run and wherever it was killed."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recorded_runs import Case, Tape, World, cases

from hookline import Agent
from hookline.playback import backtest

Limits = dict[str, int]
LIMITS: list[Limits] = [{}, {"steps": 1}, {"steps": 2}, {"tool_calls": 0}, {"tool_calls": 2}]


def agent(case: Case, limits: Limits, tape: Tape | None = None) -> Agent:
    """The agent of a case, with these limits."""
    builder = World(case).builder().with_limits(**limits)
    return (builder if tape is None else builder.with_journal(tape)).build()


async def check(tape: Tape, case: Case, limits: Limits) -> None:
    """The hooks of then say what they said."""
    report = await backtest(tape, agent(case, limits))
    assert report.ok, str(report)


@example(case=Case((("unknown", "look"), ())), limits={}, part=0.5)
@example(case=Case((("look",), ("unknown", "look too"))), limits={"tool_calls": 2}, part=0.6)
@given(case=cases, limits=st.sampled_from(LIMITS), part=st.floats(0, 1))
def test_a_killed_run_is_judged_as_it_was(case: Case, limits: Limits, part: float) -> None:
    """As the kill left it, and after it was resumed."""

    async def main() -> None:
        whole = Tape()
        await agent(case, limits, whole).run("go", run_id="run")
        tape = whole.cut(1 + int(part * (len(whole.batches) - 1)))
        await check(tape, case, limits)
        await agent(case, limits, tape).resume("run")
        await check(tape, case, limits)

    asyncio.run(main())


@pytest.mark.parametrize(
    "script", [(("unknown", "look"), ()), (("look",), ("unknown", "look too"))]
)
@pytest.mark.parametrize("limits", LIMITS)
async def test_an_invalid_call_is_followed_from_every_kill(
    script: tuple[tuple[str, ...], ...], limits: Limits
) -> None:
    """Its error is on record before its result is, and once, though two processes came to it."""
    case, whole = Case(script), Tape()
    await agent(case, limits, whole).run("go", run_id="run")
    for batches in range(1, len(whole.batches)):
        tape = whole.cut(batches)
        await check(tape, case, limits)
        await agent(case, limits, tape).resume("run")
        await check(tape, case, limits)
