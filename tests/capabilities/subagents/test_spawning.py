"""Starting a subagent: what its starter gets, however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hookline import AgentBuilder, HookOutcome, RunStatus, ToolContext, tool
from hookline.capabilities import Subagent, Subagents
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, calls, say


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


def spawn(agent: str = "helper", prompt: str = "help me", **more: Any) -> Any:
    """A call that starts a subagent."""
    return call("spawn_subagent", agent=agent, prompt=prompt, **more)


HELPED = (say("helped"),)


def parent(*turns: Any, helper: Any = HELPED, **options: Any) -> AgentBuilder:
    """An agent that makes these turns over a helper that makes those."""
    driver = ScriptedDriver([*turns, say("done")])
    member = Subagent("helper", "Helps.", "You help.", model=ScriptedDriver(helper), **options)
    return (
        AgentBuilder()
        .with_id("parent")
        .with_driver(driver)
        .with_tools(look, fail)
        .with_capability(Subagents(member))
    )


def first(result: Any) -> Any:
    """The result of the first call."""
    return result.steps[0].results[0]


async def test_the_starter_gets_the_answer_and_not_the_conversation() -> None:
    """The subagent sees its own prompt and the task, and nothing else; its run is on record."""
    made = parent(spawn(prompt="look around"), helper=[call("look"), say("I saw it.")])
    result = await made.build().run("go", run_id="r")
    assert first(result).result == "I saw it."
    assert not any("seen" in message.text for message in result.state.messages)
    assert [record.name for record in result.records if record.type == "child_started"] == [
        "helper"
    ]
    assert result.usage.requests == 4


async def test_a_subagent_gets_its_prompt_and_its_task() -> None:
    """Its system prompt is its own."""
    driver = ScriptedDriver([say("ok")])
    member = Subagent("helper", "Helps.", "You help.", model=driver)
    made = AgentBuilder().with_driver(ScriptedDriver([spawn(), say("x")]))
    made.with_system_prompt("You lead.").with_capability(Subagents(member))
    await made.build().run("a secret plan")
    (request,) = driver.requests
    assert (request.system, [message.text for message in request.messages]) == (
        "You help.",
        ["help me"],
    )


async def test_the_tools_description_lists_the_subagents() -> None:
    """In the description of the tool."""
    driver = ScriptedDriver([say("done")])
    made = AgentBuilder().with_driver(driver)
    members = [Subagent("a", "Does\n  this."), Subagent("b", "Does that.")]
    await made.with_capability(Subagents(*members)).build().run("go")
    (spec,) = driver.requests[0].tools
    assert spec.name == "spawn_subagent"
    assert "- a: Does this.\n- b: Does that." in spec.description
    assert list(spec.parameters["properties"]) == ["agent", "prompt", "description"]
    assert spec.parameters["required"] == ["agent", "prompt"]


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("helpr", "there is no subagent 'helpr'. Did you mean 'helper'? Subagents: helper."),
        ("zzz", "there is no subagent 'zzz'. Subagents: helper."),
    ],
)
async def test_an_unknown_name_is_answered_with_the_closest(agent: str, words: str) -> None:
    """And nothing is started."""
    result = await parent(spawn(agent)).build().run("go")
    assert first(result).status is ResultStatus.ERROR
    assert words in first(result).text
    assert not [record for record in result.records if record.type == "child_started"]


async def test_names_are_found_in_any_case() -> None:
    """As models write them."""
    assert first(await parent(spawn(" Helper ")).build().run("go")).result == "helped"


async def test_an_empty_task_is_an_error() -> None:
    """There is nothing to do."""
    result = await parent(spawn(prompt="  ")).build().run("go")
    assert "the prompt is empty" in first(result).text


async def test_records_have_the_task_in_a_few_words() -> None:
    """As progress of the call."""
    heard: list[Any] = []
    made = parent(spawn(description="the report")).on_event(heard.append)
    await made.build().run("go")
    said = [record.message for record in heard if record.type == "progress"]
    assert said == ["helper: the report"]


# --- what is no answer ----------------------------------------------------------------------------


async def test_a_failure_is_an_error_the_starter_can_handle() -> None:
    """It reads why, and continues."""
    broken = [RuntimeError("the model is gone")]
    result = await parent(spawn(), helper=broken).build().run("go")
    assert (result.status, first(result).status) == (RunStatus.COMPLETED, ResultStatus.ERROR)
    assert first(result).text == "Error: subagent 'helper' failed: the model is gone."


async def test_a_limit_is_an_error_that_says_which() -> None:
    """With the last it said, as what it is."""
    helper = [calls(call("look")), calls(call("look"))]
    result = await parent(spawn(), helper=helper, limits={"steps": 1}).build().run("go")
    assert first(result).status is ResultStatus.ERROR
    assert (
        "subagent 'helper' was stopped before it was done: steps: 1 of 1 used (step_limit)"
        in first(result).text
    )


async def test_text_of_a_stopped_subagent_is_marked_as_no_answer() -> None:
    """A stopped subagent may have said something worth knowing."""
    turn = calls(call("look"))
    talking = msgspec.structs.replace(turn, text="Half way through.")
    result = await parent(spawn(), helper=[talking, turn], limits={"steps": 1}).build().run("go")
    assert 'Its last text, which is not a final answer: "Half way through."' in first(result).text


async def test_a_hook_that_stops_a_subagent_stops_only_that() -> None:
    """Its starter reads the reason."""
    stop = HookOutcome.stop("too dangerous")
    made = parent(spawn(), helper=[call("look"), say("x")])
    made.on_before_tool_use(lambda ctx: stop if ctx.run.depth else None, scope="tree", name="guard")
    result = await made.build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert "was stopped before it was done: too dangerous" in first(result).text


async def test_an_answer_that_hooks_never_take_is_no_answer() -> None:
    """A gate that is never content does not open when it has sent the subagent back often enough."""
    builder = parent(spawn(), helper=[say("first"), say("second"), say("third")])
    builder.with_limits(objections=2)
    builder.on_subagent_stop(lambda ctx: HookOutcome.block("the tests fail"), name="gate")
    result = first(await builder.build().run("go"))
    assert result.status is ResultStatus.ERROR
    assert "objected 2 times, which is the limit; the last: the tests fail" in result.text
    assert 'Its last text, which is not a final answer: "third"' in result.text


async def test_a_tool_that_fails_in_a_subagent_is_its_own_affair() -> None:
    """It reads the error and answers."""
    result = await parent(spawn(), helper=[call("fail"), say("could not")]).build().run("go")
    assert first(result).result == "could not"


async def test_a_subagent_without_a_word_is_said_to_be_one() -> None:
    """An empty answer would look like a mistake."""
    result = await parent(spawn(), helper=[say("")]).build().run("go")
    assert first(result).result == "(subagent 'helper' finished without an answer)"


async def test_a_typed_answer_stays_typed() -> None:
    """What a hook makes of the output is the result, as JSON."""
    made = parent(spawn())
    made.on_output(
        lambda ctx: ctx.with_output({"ok": [1, 2]}) if ctx.run.depth else None, scope="tree"
    )
    assert first(await made.build().run("go")).result == {"ok": [1, 2]}


async def test_an_answer_that_is_no_json_is_its_text() -> None:
    """Rather than an error about a type."""
    made = parent(spawn())
    made.on_output(
        lambda ctx: ctx.with_output(complex(1, 2)) if ctx.run.depth else None, scope="tree"
    )
    assert first(await made.build().run("go")).result == "(1+2j)"


# --- several ----------------------------------------------------------------------------------------


async def test_several_work_at_the_same_time() -> None:
    """Each waits for the other, so one after the other they would wait forever."""
    there = asyncio.Barrier(2)

    @tool
    async def meet(context: ToolContext) -> str:
        """Wait for the other one."""
        await asyncio.wait_for(there.wait(), 10)
        return "met"

    def member(name: str) -> Subagent:
        return Subagent(name, name, model=ScriptedDriver([call("meet"), say(name)]))

    driver = ScriptedDriver([calls(spawn("a"), spawn("b")), say("done")])
    made = AgentBuilder().with_driver(driver).with_tools(meet)
    result = await made.with_capability(Subagents(member("a"), member("b"))).build().run("go")
    assert [each.result for each in result.steps[0].results] == ["a", "b"]


async def test_at_most_so_many_at_once() -> None:
    """`concurrency` is for tools that cannot bear many."""
    now, most = 0, 0

    @tool
    async def work() -> str:
        """Work."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return "done"

    model = ScriptedDriver([*[call("work")] * 6, *[say("x")] * 6])
    driver = ScriptedDriver([calls(*[spawn("a")] * 6), say("done")])
    made = AgentBuilder().with_driver(driver).with_tools(work).with_limits(steps=50)
    members = Subagents(Subagent("a", "A.", model=model), concurrency=2)
    result = await made.with_capability(members).build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert most <= 2


async def test_one_that_fails_leaves_the_others_alone() -> None:
    """Each call has its own result."""
    bad = Subagent("bad", "Bad.", model=ScriptedDriver([RuntimeError("no")]))
    good = Subagent("good", "Good.", model=ScriptedDriver([say("fine")]))
    driver = ScriptedDriver([calls(spawn("bad"), spawn("good")), say("done")])
    made = AgentBuilder().with_driver(driver).with_capability(Subagents(bad, good))
    result = await made.build().run("go")
    assert [each.text for each in result.steps[0].results] == [
        "Error: subagent 'bad' failed: no.",
        "fine",
    ]
