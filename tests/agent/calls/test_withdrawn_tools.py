"""A tool that a hook removed from the request does not run if the model calls it anyway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from wires.anthropic import AnthropicWire
from wires.google import GoogleWire
from wires.openai import OpenAIWire

from hookline import AgentBuilder, HookOutcome, RunStatus
from hookline.agent import RunResult
from hookline.drivers import ToolCallingDriver
from hookline.journal import MemoryJournal
from hookline.lifecycle import InferenceHookContext, ToolHookContext
from hookline.playback import replay
from hookline.state import InferenceResponse, ResultStatus
from hookline.testing import ScriptedDriver, WireCall, WireTurn, call, calls, say

Ask = Callable[[InferenceHookContext], Awaitable[InferenceResponse]]


def wipe(disk: str) -> str:
    """Wipe a disk."""
    raise AssertionError("it was removed from the request")


def look(place: str) -> str:
    """Look at a place."""
    return f"nothing in {place}"


def without_wipe(ctx: InferenceHookContext) -> InferenceHookContext:
    """The request without the tool."""
    tools = tuple(spec for spec in ctx.request.tools if spec.name != "wipe")
    return ctx.with_request(ctx.request.with_tools(tools))


async def around_without_wipe(ctx: InferenceHookContext, next: Ask) -> InferenceResponse:
    """The same in a hook around the inference."""
    return await next(without_wipe(ctx))


def wiping(how: str, *turns: Any) -> AgentBuilder:
    """An agent whose model calls both tools, of which a hook removes one."""
    script = turns or (calls(call("look", place="cellar"), call("wipe", disk="c")), say("done"))
    builder = AgentBuilder().with_driver(ScriptedDriver(script)).with_tools(look, wipe)
    if how == "before":
        return builder.on_before_inference(without_wipe)
    return builder.around_inference(around_without_wipe)


def statuses(result: RunResult) -> list[ResultStatus]:
    """What became of the calls of the first step."""
    return [each.status for each in result.steps[0].results]


@pytest.mark.parametrize("how", ["before", "around"])
async def test_it_is_blocked_and_the_model_reads_why(how: str) -> None:
    """Other calls of the answer run."""
    result = await wiping(how).build().run("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")
    assert statuses(result) == [ResultStatus.OK, ResultStatus.BLOCKED]
    assert "removed the tool 'wipe'" in result.state.messages[-2].text


@pytest.mark.parametrize("how", ["before", "around"])
async def test_replay_comes_to_the_same(how: str) -> None:
    """Hooks around the inference are not asked in a replay: what they removed is on record."""
    journal = MemoryJournal()
    await wiping(how).with_journal(journal).build().run("go", run_id="r")
    assert str(await replay(journal, "r", wiping(how).build())).startswith("run 'r' is identical")


async def test_it_can_be_called_in_a_step_in_which_it_is_offered() -> None:
    """What a hook removes from one request says nothing about the next."""

    def not_at_first(ctx: InferenceHookContext) -> InferenceHookContext | None:
        return None if ctx.state.step_count else without_look(ctx)

    def without_look(ctx: InferenceHookContext) -> InferenceHookContext:
        return ctx.with_request(ctx.request.with_tools(()))

    turns = [call("look", place="cellar"), call("look", place="attic"), say("done")]
    agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(look)
    result = await agent.on_before_inference(not_at_first).build().run("go")
    found = [step.results[0].status for step in result.steps[:2]]
    assert found == [ResultStatus.BLOCKED, ResultStatus.OK]


async def test_a_hook_may_say_why_or_give_the_result_itself() -> None:
    """Hooks before the tool are asked first, and a result of theirs counts."""
    blocking = wiping("before").on_before_tool_use(lambda ctx: HookOutcome.block("ask first"))
    assert [each.reason for each in (await blocking.build().run("go")).steps[0].results] == [
        "ask first"
    ] * 2

    def pretend(ctx: ToolHookContext) -> ToolHookContext:
        return ctx.with_result("pretended")

    pretending = await wiping("before").on_before_tool_use(pretend).build().run("go")
    assert [each.result for each in pretending.steps[0].results] == ["pretended"] * 2


@pytest.mark.parametrize("wire", [AnthropicWire, GoogleWire, OpenAIWire])
async def test_over_the_wire_of_every_provider(wire: type[Any]) -> None:
    """The provider is not offered the tool, calls it anyway, and reads that it did not run."""
    far = wire()
    turns = [WireTurn(calls=(WireCall("wipe", {"disk": "c"}),)), WireTurn("Then not.")]
    async with far.provider(turns) as provider:
        agent = AgentBuilder().with_driver(ToolCallingDriver(far.model, provider=provider))
        agent.with_tools(look, wipe).on_before_inference(without_wipe)
        result = await agent.build().run("go")
    assert statuses(result) == [ResultStatus.BLOCKED]
    assert "Wipe a disk" not in str(far.requests[0])
    assert "removed the tool 'wipe'" in str(far.requests[1]).replace("\\'", "'")
