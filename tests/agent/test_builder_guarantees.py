"""What a capability cannot take away, and what a hook cannot do to its run."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from hookline import AgentBuilder, HookOutcome, RunStatus, StopReason, hook, tool
from hookline.errors import BuildError, UsageError
from hookline.flow import ErrorPolicy
from hookline.hooks import CallableMatcher
from hookline.journal import HookRan
from hookline.state import Usage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def builder(*turns: Any) -> AgentBuilder:
    """An agent with one tool that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)


async def run(agent: AgentBuilder) -> Any:
    """Build it and run it."""
    return await agent.build().run("go")


def quiet(ctx: Any) -> None:
    """Says nothing."""


class Installs:
    """A capability whose configure is given."""

    def __init__(self, configure: Any, name: str = "greedy") -> None:
        self.configure = configure
        self.name = name


class Brings:
    """A capability whose hooks are given."""

    name = "greedy"

    def __init__(self, *hooks: Any) -> None:
        self.hooks = lambda: hooks


# --- defaults and capabilities --------------------------------------------------------------------

TAKEOVERS = [
    ("before_tool_use", "limits", "observer"),
    ("before_tool_use", "limits", "policy"),
    ("before_step", "limits", "hook"),
    ("should_continue", "tool-calls", "hook"),
]


@pytest.mark.parametrize(("point", "name", "tier"), TAKEOVERS)
async def test_a_capability_cannot_take_the_place_of_a_default(
    point: str, name: str, tier: str
) -> None:
    """However it registers the hook, and whether or not the limit is set yet."""
    for capability in (
        Brings(hook(point, quiet, name=name, tier=tier)),
        Installs(lambda made: made.add_hook(point, quiet, name=name, tier=tier)),
        Installs(lambda made: made.with_capability(Brings(hook(point, quiet, name=name))), "outer"),
        Brings(msgspec.structs.replace(hook(point, quiet, name=name, tier=tier), source="x")),
    ):
        agent = builder(calls(call("add", a=1), call("add", a=2)), say("done"))
        with pytest.raises(BuildError, match="capability 'greedy' cannot replace") as caught:
            agent.with_capability(capability)
        assert caught.value.remedy
        result = await run(agent.with_limits(tool_calls=1))
        assert result.stop_reason is StopReason.TOOL_CALL_LIMIT


@pytest.mark.parametrize("name", ["limits", "tool-calls"])
def test_a_capability_cannot_leave_out_a_default(name: str) -> None:
    """Only the builder of the agent can."""
    agent = builder(say("done"))
    with pytest.raises(BuildError, match=f"cannot leave out the default guard '{name}'"):
        agent.with_capability(Installs(lambda made: made.without_default(name)))
    agent.without_default(name).build()


def test_a_hook_of_a_capability_that_is_only_called_like_a_default_is_just_a_hook() -> None:
    """A name that nobody gave replaces nothing; it is numbered."""

    def limits(ctx: Any) -> None:
        """Has an unlucky name."""

    agent = builder(say("done")).with_capability(Brings(hook("before_step", limits))).build()
    assert "limits-2" in agent.explain()


@pytest.mark.parametrize("options", [{"tier": "observer"}, {}, {"tier": "policy", "shadow": True}])
def test_what_replaces_a_policy_must_be_a_policy(options: dict[str, Any]) -> None:
    """And one that is enforced; leaving it out has a method of its own."""
    agent = builder(say("done")).with_limits(tool_calls=1)
    agent.on_before_tool_use(quiet, name="limits", **options)
    with pytest.raises(BuildError, match="replaces a policy") as caught:
        agent.build()
    assert "without_default('limits')" in caught.value.remedy
    agent.without_default("limits").build()


async def test_the_user_may_replace_a_default() -> None:
    """A policy by a policy, and the new one holds."""

    def none_at_all(ctx: Any) -> HookOutcome:
        return HookOutcome.block("not one")

    agent = builder(call("add", a=1), say("done")).with_limits(tool_calls=9)
    agent.on_before_tool_use(none_at_all, name="limits", tier="policy")
    result = await run(agent)
    assert result.steps[0].results[0].reason == "not one"


# --- a capability is installed as a whole ---------------------------------------------------------


class HalfWay:
    """A capability that breaks in one of its parts."""

    name = "half-way"

    def __init__(self, breaks: str) -> None:
        self.breaks = breaks

    def _part(self, part: str) -> None:
        if self.breaks == part:
            raise RuntimeError(part)

    def hooks(self) -> Any:
        yield hook("before_step", quiet, name="left-over")
        self._part("hooks")

    def tools(self) -> Any:
        self._part("tools")
        return [add]

    def configure(self, made: AgentBuilder) -> None:
        made.with_system_prompt("changed").with_limits(steps=1).on_event(quiet)
        made.with_id("changed").with_error_policy(ErrorPolicy())
        made.on_after_step(quiet, name="left-over-too")
        self._part("configure")


@pytest.mark.parametrize("part", ["hooks", "tools", "configure"])
def test_a_capability_that_breaks_leaves_the_builder_as_it_was(part: str) -> None:
    """Its name is free, its hooks are not there, and the driver is still the same object."""
    driver = ScriptedDriver([say("done")])
    made = AgentBuilder().with_driver(driver).with_id("mine").without_default("tool-calls")
    before = made._parts()
    with pytest.raises(RuntimeError, match=part):
        made.with_capability(HalfWay(part))
    assert made._parts() == before
    assert made.build().definition.driver is driver
    agent = made.with_capability(HalfWay("nowhere")).build()
    assert "left-over-too" in agent.explain()
    assert made._source == ""


def test_a_capability_inside_another_can_break_alone() -> None:
    """The outer one catches it, and continues as itself."""

    def configure(made: AgentBuilder) -> None:
        with pytest.raises(RuntimeError):
            made.with_capability(HalfWay("configure"))
        made.on_before_step(quiet, name="outer-hook")

    definition = builder(say("x")).with_capability(Installs(configure, "outer")).build().definition
    assert definition.capabilities == ("outer",)
    own = {each.name: each.source for each in definition.registrations if each.source != "default"}
    assert own == {"outer-hook": "outer"}


# --- what a hook sees of its run ------------------------------------------------------------------


async def test_a_hook_cannot_give_itself_more_to_spend() -> None:
    """Whatever it sets is refused, and the limit holds."""
    refused: list[str] = []

    def cheat(ctx: Any) -> None:
        handle = ctx.run
        for name, value in (("ledger", None), ("depth", -1), ("spent", None), ("run_id", "x")):
            try:
                setattr(handle, name, value)
            except AttributeError:
                refused.append(name)
        with pytest.raises(AttributeError):
            handle.spent.steps = -100
        with pytest.raises(AttributeError):
            _ = handle.ledger
        for usage in (Usage(input_tokens=-100), Usage(cost=-1.0), Usage(cost=float("nan")), 5):
            with pytest.raises(UsageError):
                handle.charge(usage)

    agent = builder(*[call("add", a=1)] * 5).with_limits(steps=2)
    result = await run(agent.on_before_step(cheat).on_after_step(cheat, tier="observer"))
    assert result.stop_reason is StopReason.STEP_LIMIT
    assert len(result.steps) == 2
    assert refused[:4] == ["ledger", "depth", "spent", "run_id"]


async def test_a_hook_sees_what_its_run_has_spent() -> None:
    """Steps, tokens, cost, calls and seconds, as they are at that moment."""
    seen: list[Any] = []
    clock = FakeClock()

    async def look(ctx: Any) -> None:
        await clock.sleep(2)
        ctx.run.charge(Usage(input_tokens=5, cost=0.5))
        seen.append((ctx.run.run_id == ctx.state.run_id, ctx.run.depth, ctx.run.spent))

    agent = builder(calls(call("add", a=1), call("add", a=2)), say("done")).with_clock(clock)
    await run(agent.on_after_step(look))
    for number, (same, depth, spent) in enumerate(seen, start=1):
        assert (same, depth) == (True, 0)
        assert (spent.steps, spent.tool_calls, spent.cost) == (number, 2, 0.5 * number)
        assert spent.tokens >= 5 * number
        assert spent.seconds >= 2 * number


# --- hooks around an action -----------------------------------------------------------------------


async def test_leaving_the_program_around_a_tool_is_a_crash_of_the_hook() -> None:
    """The run ends with a failure that names it, and the program continues."""

    async def leave(ctx: Any, call_next: Any) -> Any:
        sys.exit(1)

    agent = builder(call("add", a=1), say("done"))
    result = await run(agent.around_tool_use(leave, name="leaver", on_failure="open"))
    assert result.status is RunStatus.COMPLETED
    [ran] = [each for each in result.records if isinstance(each, HookRan) and each.hook == "leaver"]
    assert ran.verdict == "failed"


@pytest.mark.parametrize("mode", ["open", "closed"])
async def test_a_matcher_that_fails_around_a_tool_is_a_failure_of_its_hook(mode: str) -> None:
    """Closed it keeps the tool from running; open it is skipped; the record names it either way."""

    async def later(ctx: Any) -> bool:
        return True

    def soon(ctx: Any) -> Any:
        return later(ctx)

    async def around(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    agent = builder(call("add", a=1), say("done"))
    agent.around_tool_use(around, name="picky", matcher=CallableMatcher(soon), on_failure=mode)
    result = await run(agent)
    [ran] = [each for each in result.records if isinstance(each, HookRan) and each.hook == "picky"]
    assert "nobody awaits" in ran.reason
    [execution] = result.steps[0].results
    assert execution.is_success == (mode == "open")


# --- the way out ----------------------------------------------------------------------------------


async def test_a_task_cancelled_at_the_end_of_a_run_still_asks_everyone_there() -> None:
    """What closes files and sends reports runs, although the hook before it was cut off."""
    ran: list[str] = []
    waiting = asyncio.Event()

    async def slow(ctx: Any) -> None:
        waiting.set()
        await asyncio.sleep(10)

    agent = builder(say("done")).on_execution_end(slow, name="slow")
    agent.on_execution_end(lambda ctx: ran.append("closed"), name="closes")

    def look(ctx: Any) -> None:
        ran.append(ctx.verdict.label)

    agent.on_execution_end(look, tier="observer")
    task = asyncio.create_task(run(agent))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == ["closed", "failed"]


@pytest.mark.parametrize("limits", [{"steps": None}, {"steps": 51}, {"tool_calls": 6}])
def test_a_capability_cannot_raise_a_limit(limits: dict[str, Any]) -> None:
    """What the user allows a run to spend stays what it is."""
    mine = builder(say("x")).with_limits(tool_calls=5)
    with pytest.raises(BuildError, match="capability 'greedy' can only lower limits"):
        mine.with_capability(Installs(lambda b: b.with_limits(**limits)))


def test_a_capability_may_narrow_a_limit() -> None:
    """Less is always allowed."""
    mine = builder(say("x")).with_capability(Installs(lambda b: b.with_limits(steps=3, cost=1.0)))
    assert "3 steps" in mine.build().explain()


async def test_a_driver_that_exits_is_a_model_that_failed() -> None:
    """A client library that calls sys.exit does not take the run with it."""

    class Leaves:
        async def infer(self, request: Any, turn: Any) -> Any:
            sys.exit(3)

    ended: list[RunStatus] = []
    agent = (
        AgentBuilder().with_driver(Leaves()).on_execution_end(lambda ctx: ended.append(ctx.status))
    )
    result = await run(agent)
    assert (result.status, ended) == (RunStatus.FAILED, [RunStatus.FAILED])
