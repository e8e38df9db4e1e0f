from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import AgentBuilder, AgentState, StopReason
from hookline.config.load import DEFAULTS
from hookline.drivers import Turn
from hookline.errors import BuildError
from hookline.flow import STOP_REASONS, Ledger, RunLimits
from hookline.state import Counters, InferenceRequest, InferenceResponse, ToolCall, Usage

USAGES = st.builds(
    Usage,
    st.integers(0, 99),
    st.integers(0, 99),
    st.just(1),
    st.none() | st.integers(0, 9).map(float),
)


def spent(ledger: Ledger) -> tuple[int, int, int, float]:
    """What a ledger holds."""
    return ledger.steps, ledger.tool_calls, ledger.tokens, ledger.cost


def test_the_defaults() -> None:
    """Steps, tokens and active time are limited; cost and tool calls are not until they are set."""
    limits = RunLimits()
    assert (limits.steps, limits.tokens, limits.seconds) == (50, 1_000_000, 1800.0)
    assert (limits.cost, limits.tool_calls) == (None, None)


@pytest.mark.parametrize("value", [-1, -0.5, math.nan, "20", True, [1]])
@pytest.mark.parametrize("name", RunLimits.__struct_fields__)
def test_a_limit_that_is_no_number_is_refused_by_name(name: str, value: Any) -> None:
    """When it is made, with the way to have no limit."""
    with pytest.raises(BuildError, match=f"limit {name}=") as caught:
        RunLimits(**{name: value})
    assert "None" in caught.value.remedy


def test_the_command_has_the_same_defaults() -> None:
    """A run of the library stops where a run of the command does."""
    limits = msgspec.structs.asdict(RunLimits())
    assert {name: value for name, value in limits.items() if value is not None} == DEFAULTS[
        "limits"
    ]


def test_cached_input_does_not_count() -> None:
    """The token limit counts what is new: input from the provider's cache is not, what is put there is."""
    ledger = Ledger(AgentState(), 0.0)
    ledger.add_usage(Usage(1_000, 20, 1, cache_read_tokens=900, cache_write_tokens=80))
    assert ledger.tokens == 120
    resumed = Counters(usage=Usage(1_000, 20, 1, cache_read_tokens=900))
    assert Ledger(AgentState(counters=resumed), 0.0).tokens == 120


def test_a_run_does_not_count_cached_input() -> None:
    """A long conversation that the provider has in its cache does not use up the tokens of a run."""

    class Caching:
        async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
            usage = Usage(1_000, 10, 1, cache_read_tokens=990)
            if len(request.messages) > 5:
                return InferenceResponse("done", usage=usage)
            return InferenceResponse("", (ToolCall(f"c{len(request.messages)}", "look"),), usage)

    agent = AgentBuilder().with_driver(Caching()).with_tools(look).with_limits(tokens=70).build()
    result = agent.run_sync("Go.")
    assert (result.text, result.usage.total_tokens) == ("done", 4_040)
    narrow = AgentBuilder().with_driver(Caching()).with_tools(look).with_limits(tokens=60).build()
    assert narrow.run_sync("Go.").stop_reason is StopReason.TOKEN_LIMIT


def look() -> str:
    """Look around."""
    return "nothing"


def test_zero_and_none_are_limits() -> None:
    """Zero allows nothing, None everything."""
    assert RunLimits(steps=0, cost=None).steps == 0


def test_every_limit_has_a_stop_reason_of_its_own() -> None:
    """So that a run that stopped says at which limit."""
    assert set(STOP_REASONS) == set(RunLimits.__struct_fields__)
    assert len(set(STOP_REASONS.values())) == len(STOP_REASONS)
    assert all(isinstance(reason, StopReason) for reason in STOP_REASONS.values())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), USAGES), max_size=8))
def test_what_a_child_spends_every_run_above_it_spends(
    spending: list[tuple[int, int, Usage]],
) -> None:
    """A ledger holds what its run and everything below it spent, and nothing of its siblings."""
    line = [Ledger(AgentState(), 0.0)]
    for _ in range(3):
        line.append(Ledger(AgentState(), 0.0, line[-1]))
    sibling = Ledger(AgentState(), 0.0, line[0])
    for level, tool_calls, usage in spending:
        line[level].add_step()
        line[level].add_tool_calls(tool_calls)
        line[level].add_usage(usage)
    for level, ledger in enumerate(line):
        below = [entry for entry in spending if entry[0] >= level]
        assert spent(ledger) == (
            len(below),
            sum(calls for _, calls, _ in below),
            sum(usage.total_tokens for _, _, usage in below),
            sum(usage.cost or 0.0 for _, _, usage in below),
        )
    assert spent(sibling) == (0, 0, 0, 0.0)


def test_calls_that_were_admitted_and_did_not_run_are_given_back() -> None:
    """Here and in every run above."""
    parent = Ledger(AgentState(), 0.0)
    child = Ledger(AgentState(), 0.0, parent)
    child.add_tool_calls(3)
    child.add_tool_calls(-1)
    assert (child.tool_calls, parent.tool_calls) == (2, 2)


COUNTERS = Counters(steps=2, tool_calls=3, usage=Usage(10, 5, 2, 0.5), active_seconds=7.0)


def test_a_ledger_continues_where_the_state_stands() -> None:
    """A resumed run has spent what it had spent before the pause; the pause itself costs nothing."""
    ledger = Ledger(AgentState(counters=COUNTERS), started=1000.0)
    assert spent(ledger) == (2, 3, 15, 0.5)
    assert ledger.seconds(1000.0) == 7.0
    assert ledger.seconds(1002.5) == 9.5


def test_the_ledgers_above_are_found_by_level() -> None:
    """A guard that was inherited watches the run it was made for."""
    top = Ledger(AgentState(), 0.0)
    middle = Ledger(AgentState(), 0.0, top)
    bottom = Ledger(AgentState(), 0.0, middle)
    assert bottom.above(0) is bottom
    assert bottom.above(1) is middle
    assert bottom.above(2) is top
