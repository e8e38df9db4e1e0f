from __future__ import annotations

import asyncio
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from hookline import Agent, AgentBuilder, HookOutcome, ToolContext, tool
from hookline.mcp import AgentServer
from hookline.testing import ScriptedDriver, call, calls, say

ERAS = ["legacy", "auto"]


@pytest.fixture(params=ERAS)
def mode(request: pytest.FixtureRequest) -> str:
    """The older protocol and the newer one."""
    return str(request.param)


@tool
async def work(context: ToolContext) -> str:
    """Work, and say so."""
    context.progress("half done")
    return "worked"


def describe(*turns: Any) -> AgentBuilder:
    """An agent that makes these turns."""
    return AgentBuilder().with_id("worker").with_driver(ScriptedDriver(turns)).with_tools(work)


def careful(*turns: Any) -> Agent:
    """The same, with a hook that asks about every call."""
    builder = describe(*turns)
    builder.on_before_tool_use(lambda _: HookOutcome.ask("is it worth it?"), name="thrift")
    return builder.build()


def answering(
    action: Literal["accept", "decline", "cancel"], **content: str
) -> tuple[list[str], Any]:
    """A person at the client who always answers the same, and what that person was asked."""
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action=action, content=dict(content) or None)

    return asked, answer


def served(agent: Agent, mode: str, **options: Any) -> Client:
    """A client of the SDK that is connected with the agent's server."""
    return Client(AgentServer(agent).server, mode=mode, **options)


async def test_an_agent_is_one_tool(mode: str) -> None:
    """Its name and description come from the agent, or from the options of the server."""
    agent = describe(say("hi")).build()
    async with served(agent, mode) as client:
        [offered] = (await client.list_tools()).tools
        assert client.server_info is not None
        assert client.server_info.name == "worker"
    assert offered.name == "run"
    assert offered.description == "Give the agent 'worker' a task and get its answer."
    assert offered.input_schema["required"] == ["prompt"]
    named = AgentServer(agent, name="other", description="Adds numbers.").server
    async with Client(named, mode=mode) as client:
        assert (await client.list_tools()).tools[0].description == "Adds numbers."


async def test_it_answers(mode: str) -> None:
    """With the text of the run, and with how it ended beside it."""
    async with served(describe(call("work"), say("All done.")).build(), mode) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert not result.is_error
    assert [block.text for block in result.content] == ["All done."]  # type: ignore[union-attr]
    assert result.structured_content["status"] == "completed"
    assert result.structured_content["steps"] == 2
    assert result.structured_content["pending"] == []


async def test_it_reports_progress(mode: str) -> None:
    """Steps, calls and what tools report are progress, and the numbers rise."""
    messages: list[tuple[float, str | None]] = []

    async def hear(progress: float, _total: float | None, message: str | None) -> None:
        messages.append((progress, message))

    async with served(describe(call("work"), say("done")).build(), mode) as client:
        await client.call_tool("run", {"prompt": "go"}, progress_callback=hear)
    assert messages == [(1, "step 1"), (2, "calls work"), (3, "work: half done"), (4, "step 2")]


async def test_a_child_is_part_of_the_run(mode: str) -> None:
    """Progress of a subagent is reported as well."""
    messages: list[str | None] = []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        messages.append(message)

    child = describe(call("work"), say("child is done")).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Let another do it."""
        return str((await context.spawn(child, "go", name="helper")).text)

    agent = describe(call("delegate"), say("done")).with_tools(delegate).build()
    async with served(agent, mode) as client:
        await client.call_tool("run", {"prompt": "go"}, progress_callback=hear)
    assert messages == [
        *("step 1", "calls delegate", "starts helper"),
        *("step 1", "calls work", "work: half done", "step 2"),
        "step 2",
    ]


async def test_cancelling_the_call_cancels_the_run(mode: str) -> None:
    """The run ends at once, and its hooks on the way out still run."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        """Take a minute."""
        begun.set()
        await asyncio.sleep(60)

    async def on_end(ctx: Any) -> None:
        await asyncio.sleep(0.01)  # a hook that waits is not interrupted again
        assert ctx.status == "cancelled"
        ended.set()

    builder = describe(call("wait"), say("done")).with_tools(wait).on_execution_end(on_end)
    async with served(builder.build(), mode) as client:
        calling = asyncio.create_task(client.call_tool("run", {"prompt": "go"}))
        await begun.wait()
        calling.cancel()
        await asyncio.wait([calling])
        await ended.wait()


@pytest.mark.parametrize(
    ("action", "content", "text"),
    [
        ("accept", {"answer": "allow"}, "worked"),
        ("accept", {"answer": "deny", "reason": "too dear"}, "Denied: too dear"),
        ("decline", {}, "Denied: permission was not given"),
    ],
)
async def test_the_person_at_the_client_is_asked(
    mode: str, action: Any, content: dict[str, str], text: str
) -> None:
    """What a hook asks is asked there, and the run continues with the answer."""
    agent = careful(call("work"), say("done"))
    asked, answer = answering(action, **content)
    async with served(agent, mode, elicitation_callback=answer) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert asked == ["May the agent call work with {}? thrift asks: is it worth it?"]
    assert result.structured_content["status"] == "completed"
    driver = agent.definition.driver
    assert driver is not None
    assert text in str(driver.requests[-1])  # type: ignore[attr-defined]


async def test_a_run_that_is_kept_from_continuing_does_not_ask_again(mode: str) -> None:
    """It still waits, and the client reads why instead of being asked the same forever."""
    builder = describe(call("work"), say("done"))
    builder.on_before_tool_use(lambda ctx: HookOutcome.ask("is it worth it?"))
    builder.on_execution_start(lambda ctx: HookOutcome.block("not now") if ctx.resumed else None)
    asked, answer = answering("accept", answer="allow")
    async with served(builder.build(), mode, elicitation_callback=answer) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert len(asked) == 1
    assert result.structured_content["status"] == "paused"
    assert "not now" in result.structured_content["why"]


async def test_every_question_of_a_step_is_asked(mode: str) -> None:
    """And none of its calls runs before all are answered."""
    agent = careful(calls(call("work"), call("work")), call("work"), say("done"))
    asked, answer = answering("accept", answer="allow")
    async with served(agent, mode, elicitation_callback=answer) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert len(asked) == 3
    assert result.structured_content["status"] == "completed"


@pytest.mark.parametrize("can_be_asked", [False, True])
async def test_what_is_not_answered_is_said(mode: str, can_be_asked: bool) -> None:
    """Without a person, or with one who looks away, the result is that the run waits, and for what."""
    _, answer = answering("cancel")
    callback = answer if can_be_asked else None
    agent = careful(call("work"), say("done"))
    async with served(agent, mode, elicitation_callback=callback) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert result.is_error
    assert result.structured_content["status"] == "paused"
    [waiting] = result.structured_content["pending"]
    assert "May the agent call work" in waiting
    assert waiting in result.content[0].text  # type: ignore[union-attr]


async def test_a_client_that_cannot_ask_after_all_gets_the_same_error() -> None:
    """It says that it can, and answers with an error."""

    async def answer(context: Any, params: Any) -> types.ErrorData:
        return types.ErrorData(code=types.INTERNAL_ERROR, message="no screen")

    agent = careful(call("work"), say("done"))
    async with served(agent, "legacy", elicitation_callback=answer) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert result.structured_content["status"] == "paused"


async def test_an_approver_of_the_agent_is_asked_first(mode: str) -> None:
    """Who serves an agent that has one is not interested in what the client thinks."""
    builder = describe(call("work"), say("done")).with_approver("deny")
    builder.on_before_tool_use(lambda _: HookOutcome.ask("why?"))
    asked, answer = answering("accept", answer="allow")
    async with served(builder.build(), mode, elicitation_callback=answer) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert asked == []
    assert result.structured_content["status"] == "completed"


async def test_an_answer_to_a_run_that_does_not_wait_is_refused() -> None:
    """A client cannot continue with a run that is not its own, nor twice with one."""
    agent = careful(call("work"), say("done"))
    server = AgentServer(agent)
    async with Client(server.server, elicitation_callback=answering("cancel")[1]) as client:
        first = await client.session.call_tool("run", {"prompt": "go"}, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        for state in ("made up", first.request_state):
            server._paused.clear()
            with pytest.raises(MCPError, match=r"requestState|does not wait"):
                await client.session.call_tool("run", {"prompt": "go"}, request_state=state)


async def test_a_run_that_fails_is_an_error(mode: str) -> None:
    """With the reason in one line."""
    async with served(describe().build(), mode) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert result.is_error
    assert result.structured_content["status"] == "failed"
    assert "script" in result.content[0].text  # type: ignore[union-attr]


async def test_a_run_that_is_stopped_says_so(mode: str) -> None:
    """What it has to say comes first, and then why it ended there."""
    agent = describe(call("work"), say("done")).with_limits(steps=1).build()
    async with served(agent, mode) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert not result.is_error
    assert "steps: 1 of 1 used" in result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("tool_name", "arguments"),
    [
        ("other", {"prompt": "go"}),
        ("run", {}),
        ("run", {"prompt": 5}),
        ("run", {"prompt": "a", "b": 1}),
    ],
)
async def test_wrong_calls_are_refused(
    mode: str, tool_name: str, arguments: dict[str, Any]
) -> None:
    """Before anything runs."""
    agent = describe(say("done")).build()
    async with served(agent, mode) as client:
        with pytest.raises(MCPError, match=r"the one tool is 'run'|takes one argument, 'prompt'"):
            await client.call_tool(tool_name, arguments)
    assert agent.definition.driver.requests == []  # type: ignore[union-attr]
