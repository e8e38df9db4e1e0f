"""A task's list of tools: what is not on it is not called, here and in children, whatever was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pretend import bash, read, write
from run_results import result_texts

from hookline import (
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunStatus,
    SQLiteJournal,
    ToolContext,
    tool,
)
from hookline.capabilities import ToolAllowList
from hookline.errors import BuildError, UsageError
from hookline.permissions import Rule
from hookline.testing import ScriptedDriver, call, calls, check_hook, say


@tool
def write_metadata(key: str, value: list[str]) -> str:
    """Note something."""
    return "noted"


@tool
def structured_output(answer: str) -> str:
    """Give the answer."""
    return answer


READ, WRITE = call("read", path="a.txt"), call("write", path="a.txt")
TOOLS = (read, write, bash, write_metadata, structured_output)


def builder(listed: Any, *turns: Any, **options: Any) -> AgentBuilder:
    """An agent that makes these turns, held to a list."""
    made = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(*TOOLS)
    return made.with_capability(ToolAllowList(listed, **options))


def offered(result_of: AgentBuilder) -> list[list[str]]:
    """The tools in each request to the model."""
    agent = result_of.build()
    agent.run_sync("Read it.")
    driver: Any = agent.definition.driver
    return [[spec.name for spec in request.tools] for request in driver.requests]


def test_only_what_is_listed_is_called() -> None:
    """The model reads what is on the list."""
    result = builder(["read", "bash"], READ, WRITE).build().run_sync("Go.")
    assert result_texts(result) == [
        "text of a.txt",
        "Blocked: write is not on the task's list of tools: read, bash",
    ]


def test_rules_can_be_about_arguments() -> None:
    """A tool may be on the list for some calls only."""
    listed = ["read(docs/**)", Rule.parse("bash(git status)")]
    turns = (
        call("read", path="docs/a.md"),
        READ,
        call("bash", command="git status"),
        call("bash", command="git status; rm -rf x"),
    )
    result = result_texts(builder(listed, *turns).build().run_sync("Go."))
    assert [text.startswith("Blocked: this call of") for text in result] == [
        False,
        True,
        False,
        True,
    ]


def test_what_looks_after_a_command_goes_with_it() -> None:
    """Whoever may start a command may see how it is doing, and stop it."""

    @tool
    def bash_poll(id: str) -> str:
        """See how a command is doing."""
        return f"{id} is running"

    for listed, is_on in ((["bash(sleep 9)"], True), (["read"], False)):
        agent = builder(listed, call("bash_poll", id="1")).with_tools(bash_poll)
        result = result_texts(agent.build().run_sync("Go."))[0]
        assert result == "1 is running" if is_on else result.startswith("Blocked: bash_poll")
        assert ("bash_poll" in offered(builder(listed).with_tools(bash_poll))[0]) is is_on


def test_an_empty_list_allows_nothing_but_the_answer() -> None:
    """An answer in a form is no act."""
    turns = calls(READ, WRITE, call("structured_output", answer="42"))
    result = result_texts(builder([], turns).build().run_sync("Go."))
    assert result[0] == "Blocked: read is not on the task's list of tools: nothing is on it"
    assert result[2] == "42"


def test_other_tools_are_hidden_from_the_model() -> None:
    """Unless it would see them."""
    assert offered(builder(["read(docs/**)"])) == [["read", "structured_output"]]
    assert len(offered(builder(["read"], hide=False))[0]) == len(TOOLS)


def test_a_demand_for_a_hidden_tool_is_dropped() -> None:
    """A provider would refuse a request that demands a tool it does not offer."""
    for choice, kept in (("write", "auto"), ("read", "read"), ("required", "required")):

        def demand(ctx: Any, *, choice: str = choice) -> Any:
            return ctx.with_request(ctx.request.with_tool_choice(choice))

        agent = builder(["read"]).on_before_inference(demand).build()
        agent.run_sync("Go.")
        driver: Any = agent.definition.driver
        assert driver.requests[0].tool_choice == kept


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_chooses_by_the_prompt(is_async: bool) -> None:
    """It is asked once for each prompt, and not again, whatever the run reads."""
    asked: list[str] = []

    def choose(prompt: str) -> list[str]:
        asked.append(prompt)
        return ["write"] if "write" in prompt else ["read"]

    async def choose_later(prompt: str) -> list[str]:
        return choose(prompt)

    chosen = choose_later if is_async else choose
    agent = builder(chosen, READ, WRITE, say("1"), READ, WRITE).build()
    first = agent.run_sync("Look at it.")
    assert result_texts(first)[1].startswith(
        "Blocked: write is not on the task's list of tools: read"
    )
    second = agent.run_sync("Now write it.", state=first.state)
    assert [text[:7] for text in result_texts(second)[-2:]] == ["Blocked", "wrote a"]
    assert asked == ["Look at it.", "Now write it."]


@pytest.mark.parametrize("nothing", [None, []])
def test_what_was_not_chosen_is_not_on_the_list(nothing: Any) -> None:
    """A function that has no idea gives no tools."""
    assert result_texts(builder(lambda _: nothing, READ).build().run_sync("Go."))[0].startswith(
        "Blocked"
    )


def test_a_state_without_a_choice_has_nothing_on_the_list() -> None:
    """A run that had begun without the list is not continued as if everything were on it."""
    plain = AgentBuilder().with_driver(ScriptedDriver([READ, say("x")])).with_tools(*TOOLS)
    ask = plain.on_before_tool_use(lambda _: HookOutcome.ask("?"), name="asks")
    paused = ask.build().run_sync("Go.")
    assert paused.status is RunStatus.PAUSED
    agent = builder(lambda _: ["read"]).build()
    state = AgentState.from_json(paused.state.to_json())
    resumed = agent.resume_sync(state, {question.id: True for question in state.pending})  # type: ignore[misc]
    assert result_texts(resumed) == [
        "Blocked: read is not on the task's list of tools: nothing is on it"
    ]


def test_a_function_that_fails_refuses_the_prompt() -> None:
    """Nothing runs without a list."""

    def broken(_prompt: str) -> list[str]:
        raise ValueError("no idea")

    result = builder(broken, READ).build().run_sync("Go.")
    assert result.status is RunStatus.STOPPED
    assert result_texts(result) == []
    result = builder(lambda _: "read", READ).build().run_sync("Go.")
    assert result.status is RunStatus.STOPPED
    assert "were given as 'read'" in result.explain()


def test_the_list_is_not_for_the_model_to_write() -> None:
    """Where it is kept nobody but the list writes."""
    turns = (
        call("write_metadata", key="hookline.tool-allow-list", value=["write"]),
        call("write_metadata", key="a", value=["b"]),
        WRITE,
    )
    result = result_texts(
        builder(lambda _: ["read", "write_metadata"], *turns).build().run_sync("Go.")
    )
    assert result[0] == "Blocked: a model cannot write Hookline's own metadata"
    assert result[1] == "noted"
    assert result[2].startswith("Blocked")


# --- children -----------------------------------------------------------------------------------------


def delegate_to(child: AgentBuilder) -> Any:
    """A tool that starts a child and returns the results of its calls."""

    @tool
    async def spawn_subagent(task: str, context: ToolContext) -> list[str]:
        """Have another agent do it."""
        return result_texts(await context.spawn(child.build(), task))

    return spawn_subagent


def child_agent(*turns: Any) -> AgentBuilder:
    """An agent that makes these turns, without a list of its own."""
    return AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(*TOOLS)


def child_results(top: AgentBuilder, child: AgentBuilder) -> Any:
    """The results of a child's calls; the top run starts the child."""
    result = top.with_tools(delegate_to(child)).build().run_sync("Look.")
    return result.steps[0].results[0].result


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("chooses", [False, True])
def test_children_are_held_to_the_list_of_the_top(depth: int, chooses: bool) -> None:
    """A task that a model wrote chooses nothing."""
    spawn = call("spawn_subagent", task="please write")

    def choose(prompt: str) -> list[str]:
        return ["spawn_subagent", "write" if "write" in prompt else "read"]

    lowest = child_agent(READ, WRITE)
    child = lowest
    for _ in range(depth - 1):
        made = AgentBuilder().with_driver(ScriptedDriver([spawn, say("done")]))
        child = made.with_tools(delegate_to(child))
    top = builder(choose if chooses else ["spawn_subagent", "read"], spawn)
    result = child_results(top, child)
    while len(result) == 1:  # a child's results are one text to its parent
        result = json.loads(result[0])
    assert result[0] == "text of a.txt"
    assert result[1].startswith("Blocked: write is not on the task's list of tools")


def test_requests_of_children_have_no_other_tools_either() -> None:
    """What is hidden at the top is hidden below."""
    child = child_agent()
    top = builder(["spawn_subagent", "read"], call("spawn_subagent", task="x"))
    top.with_tools(delegate_to(child)).build().run_sync("Go.")
    driver: Any = child.build().definition.driver
    assert [spec.name for spec in driver.requests[0].tools] == ["read", "structured_output"]


def test_a_child_with_a_list_of_its_own_has_both() -> None:
    """The list of a child holds besides, and cannot add to that of the top."""
    child = child_agent(READ, WRITE).with_capability(ToolAllowList(["write"], name="own"))
    top = builder(["spawn_subagent", "read"], call("spawn_subagent", task="x"))
    result = child_results(top, child)
    assert all(text.startswith("Blocked") for text in result)


# --- any way of driving ---------------------------------------------------------------------------------


async def test_it_is_the_same_however_an_agent_is_driven() -> None:
    """Run, stream, step by step, in parallel, as a child."""
    report = await check_hook(
        "before_tool_use",
        factory=lambda: next(iter(ToolAllowList(["read"]).hooks())).hook,
        script=[READ, WRITE, say("done")],
        tools=[read, write],
        tier="policy",
    )
    assert report.ok, str(report)


async def test_a_choice_holds_in_streams_and_single_steps() -> None:
    """The choice is made before the first step, in every way to run an agent."""
    stream = builder(lambda _: ["read"], READ, WRITE).build().stream("Go.")
    async for _ in stream:
        pass
    states = [
        each async for each in builder(lambda _: ["read"], READ, WRITE).build().iterate("Go.")
    ]
    for steps in (stream.result.steps, states[-1].steps):
        texts = [each.text for step in steps for each in step.results]
        assert texts[0] == "text of a.txt"
        assert texts[1].startswith("Blocked")


def test_a_choice_survives_the_process(tmp_path: Path) -> None:
    """A run that pauses and is continued elsewhere keeps its list; the function is not asked again."""

    def made(choose: Any, *turns: Any) -> AgentBuilder:
        built = builder(choose, *turns).with_journal(SQLiteJournal(tmp_path / "runs.db"))
        return built.on_before_tool_use(lambda _: HookOutcome.ask("?"), matcher="read", name="asks")

    paused = made(lambda _: ["read"], READ).build().run_sync("Go.", run_id="one")
    answers: Any = {question.id: True for question in paused.pending}
    resumed = made(lambda _: ["write"], WRITE).build().resume_sync("one", answers)
    assert result_texts(resumed)[0] == "text of a.txt"
    assert result_texts(resumed)[1].startswith("Blocked: write")


def test_mistakes_are_reported_at_construction() -> None:
    """Bad lists name what is wrong."""
    for wrong in ("read", 7, None, Rule.parse("read")):
        with pytest.raises(BuildError, match="is not a list of tools"):
            ToolAllowList(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="never closed"):
        ToolAllowList(["read("])


def test_it_says_in_explain_what_is_on_the_list() -> None:
    """`explain()` shows the list, or the function that makes it."""

    def by_topic(_prompt: str) -> list[str]:
        return []

    text = builder(["read", "bash"]).build().explain()
    assert "tool-allow-list: only read, bash may be called" in text
    text = builder(by_topic).build().explain()
    assert "only what by_topic chooses for a prompt may be called" in text
