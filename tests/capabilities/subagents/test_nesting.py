"""Subagents of subagents: how deep, under which hooks, and through pauses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunStatus,
    SQLiteJournal,
    hook,
    replay,
    tool,
)
from hookline.capabilities import Skills, Subagent, Subagents
from hookline.errors import ToolError
from hookline.testing import FakeClock, ScriptedDriver, call, calls, check_hook, say


@tool
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


def spawn(agent: str, prompt: str = "go on") -> Any:
    """A call that starts one."""
    return call("spawn_subagent", agent=agent, prompt=prompt)


def member(name: str, *turns: Any, **options: Any) -> Subagent:
    """A subagent that makes these turns."""
    return Subagent(
        name, f"The {name}.", model=ScriptedDriver([*turns, say(f"{name} done")]), **options
    )


def parent(*turns: Any, members: Any, **options: Any) -> AgentBuilder:
    """An agent over these."""
    driver = ScriptedDriver([*turns, say("done")])
    made = AgentBuilder().with_driver(driver).with_tools(send).with_limits(steps=99)
    return made.with_capability(Subagents(*members, **options))


def result_texts(heard: list[Any]) -> list[str]:
    """The texts of all results, in the order in which the calls ended."""
    return [each.result.text for each in heard if each.type == "tool_result"]


# --- depth ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_no_subagent_is_deeper_than_the_limit(depth: int) -> None:
    """One that would be is an error at the place where it was tried, which can continue without it."""
    turns = [call("spawn_subagent", agent="again", prompt="deeper")] * depth
    again = member("again", *turns, *[say("up")] * depth)
    heard: list[Any] = []
    made = parent(spawn("again"), members=[again], max_depth=depth).on_event(heard.append)
    result = await made.build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert result_texts(heard)[0] == (
        f"Error: subagent 'again' was not started: it would have depth {depth + 1}, "
        f"and {depth} is the maximum. Do the task yourself."
    )
    assert len([each for each in heard if each.type == "child_started"]) == depth


async def test_an_agent_that_is_a_subagent_itself_counts_from_the_top() -> None:
    """Its own limit is about the whole tree above it."""
    inner = parent(spawn("deep"), members=[member("deep")], max_depth=1).build()
    heard: list[Any] = []
    made = parent(spawn("inner"), members=[Subagent("inner", "I.", agent=inner)])
    await made.on_event(heard.append).build().run("go")
    assert "was not started: it would have depth 2" in result_texts(heard)[0]


# --- hooks around -----------------------------------------------------------------------------------


async def test_a_hook_may_keep_one_from_starting() -> None:
    """Its starter reads why."""
    made = parent(spawn("a"), members=[member("a")])
    made.on_subagent_start(lambda ctx: HookOutcome.block(f"no {ctx.name} today"))
    result = await made.build().run("go")
    assert "the subagent was not started: no a today" in result.steps[0].results[0].text


async def test_a_hook_may_send_one_back_to_work() -> None:
    """With what is missing as its next task, so often and no more."""
    worker = Subagent("a", "A.", model=ScriptedDriver([say("draft"), say("with tests")]))
    made = parent(spawn("a"), members=[worker])
    made.on_subagent_stop(
        lambda ctx: None if "tests" in ctx.result.text else HookOutcome.block("add tests")
    )
    result = await made.build().run("go")
    assert result.steps[0].results[0].result == "with tests"
    model: Any = worker.model
    assert [message.text for message in model.requests[1].messages] == [
        "go on",
        "draft",
        "add tests",
    ]


async def test_hooks_see_every_level_from_where_they_are() -> None:
    """Those of the top see what the top starts; with the tree as scope, all."""
    seen: list[tuple[str, int]] = []
    members = [member("a", spawn("b")), member("b")]
    made = parent(spawn("a"), members=members)
    made.on_subagent_start(lambda ctx: seen.append((ctx.name, ctx.run.depth)), scope="tree")
    await made.build().run("go")
    assert seen == [("a", 0), ("b", 1)]


# --- approvals --------------------------------------------------------------------------------------


class Steady:
    """A model that answers by how far the conversation is, so that any process can continue with it."""

    def __init__(self, *turns: Any) -> None:
        self.turns = turns

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step."""
        return await ScriptedDriver([self.turns[turn.state.step_count]]).infer(request, turn)


def branches() -> Any:
    """An agent over two branches, each of which asks before something is sent."""
    members = [
        Subagent("a", "A.", model=Steady(spawn("b"), say("a done"))),
        Subagent("b", "B.", model=Steady(call("send", to="anna"), say("b done"))),
        Subagent("c", "C.", model=Steady(call("send", to="bert"), say("c done"))),
    ]
    made = AgentBuilder().with_driver(Steady(calls(spawn("a"), spawn("c")), say("done")))
    made.with_tools(send).with_capability(Subagents(*members))
    ask = HookOutcome.ask("sure?")
    return made.on_before_tool_use(lambda ctx: ask, matcher="send", tier="policy").build()


async def test_questions_of_all_branches_surface_at_the_top() -> None:
    """Each is answered once, in another process if need be, and the top gets what it would have got."""
    paused = await branches().run("go")
    assert paused.status is RunStatus.PAUSED
    assert [question.tool_call.args["to"] for question in paused.pending] == ["anna", "bert"]
    first, second = paused.pending
    state = AgentState.from_json(paused.state.to_json())
    once = await branches().resume(state, {first.id: True})
    assert [question.id for question in once.pending] == [second.id]
    state = AgentState.from_json(once.state.to_json())
    result = await branches().resume(state, {second.id: False})
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")
    assert [each.result for each in result.steps[0].results] == ["a done", "c done"]


# --- what belongs together ----------------------------------------------------------------------------


class Notes:
    """A capability whose tool is no use without its hooks."""

    name = "notes"

    def tools(self) -> list[Any]:
        def note(text: str) -> str:
            """Note something."""
            return text

        return [note]

    def hooks(self) -> Any:
        def keep(ctx: Any) -> Any:
            return ctx.with_metadata("notes", [*(ctx.get("notes") or []), ctx.execution.result])

        def show(ctx: Any) -> Any:
            return ctx.request.with_system(f"Notes: {', '.join(ctx.get('notes') or ['none'])}")

        yield hook("after_tool_use", keep, matcher="note", name="keep-notes", after="other")
        yield hook("before_inference", show, name="show-notes", before="keep-notes")


async def test_a_tool_comes_with_the_hooks_of_its_capability() -> None:
    """A subagent's notes are its own; one without the tool has nothing of it."""
    writer = member("writer", call("note", text="mine"), tools=["note"])
    inner = member("inner", spawn("writer"))
    sender = member("sender", tools=["send"])
    made = parent(
        call("note", text="ours"), spawn("inner"), spawn("sender"), members=[writer, inner, sender]
    )
    made.on_after_tool_use(lambda ctx: None, name="other").with_capability(Notes())
    result = await made.build().run("go")
    assert result.state.metadata["notes"] == ["ours"]
    models: list[Any] = [each.model for each in (writer, inner, sender)]
    assert [request.system for request in models[0].requests] == ["Notes: none", "Notes: mine"]
    assert models[1].requests[0].system == "Notes: none"
    assert models[2].requests[0].system == ""


async def test_a_run_with_subagents_can_be_replayed(tmp_path: Path) -> None:
    """With its subagents as they would be started now."""
    journal = SQLiteJournal(tmp_path / "runs.db")
    subagents = Subagents(member("a", call("send", to="anna"), hooks=[hook("before_step", note)]))
    made = AgentBuilder().with_driver(ScriptedDriver([spawn("a"), say("done")])).with_tools(send)
    agent = made.with_capability(subagents).with_journal(journal).build()
    await agent.run("go", run_id="r")
    again = await replay(journal, "r", agent, children=subagents.built_for(agent))
    await journal.close()
    assert again.identical, again
    assert again.unknown == ()


def note(ctx: Any) -> Any:
    """A hook of a subagent's own."""
    return ctx.with_metadata("noted", True)


async def test_rules_may_name_the_skills_it_can_load(tmp_path: Path) -> None:
    """`Skill(pdf)`, as other agents write it."""
    for name in ("pdf", "git"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\ndescription: d\n---\nThe {name} page.")
    load = [call("load_skill", name=name) for name in ("pdf", "git")]
    allowed = member("a", calls(*load), tools=["Skill(pdf)"])
    denied = member("b", calls(*load), disallowed_tools=["Skill(pdf)"])
    heard: list[Any] = []
    made = parent(spawn("a"), spawn("b"), members=[allowed, denied])
    await made.with_capability(Skills(tmp_path)).on_event(heard.append).build().run("go")
    texts = result_texts(heard)
    assert "The pdf page." in texts[0]
    assert texts[1] == "Blocked: subagent 'a' may only use Skill(name=pdf)"
    assert texts[3] == "Blocked: subagent 'b' may not use Skill(name=pdf)"
    assert "The git page." in texts[4]


async def test_a_subagent_lives_by_the_clock_and_the_error_policy_of_its_starter() -> None:
    """So that time limits, retries and their waits are the same for all."""
    clock = FakeClock()

    @tool
    async def wait() -> str:
        """Take long."""
        clock.advance(100)
        return "waited"

    slow = member("slow", call("wait"), call("wait"), call("wait"), tools=[wait])
    made = parent(spawn("slow"), members=[slow]).with_clock(clock).with_limits(seconds=150)
    result = await made.build().run("go")
    assert "seconds: 200 of 150 used" in result.steps[0].results[0].text


async def test_a_subagent_that_cannot_be_built_deep_down_is_a_tool_error() -> None:
    """What could not be known before is said where it is tried."""

    class Moody:
        name = "moody"
        made = 0

        def tools(self) -> list[Any]:
            type(self).made += 1
            if type(self).made > 1:
                raise ToolError("not today")
            return []

    a = member("a", spawn("b"), capabilities=[])
    b = member("b", capabilities=[Moody()])
    heard: list[Any] = []
    await parent(spawn("a"), members=[a, b]).on_event(heard.append).build().run("go")
    assert "not today" in result_texts(heard)[0]


async def test_a_policy_is_the_same_in_a_subagent_as_anywhere() -> None:
    """The conformance suite drives it every way, with subagents beside."""
    members = Subagents(Subagent("a", "A.", model=ScriptedDriver([say("x")] * 99)))
    report = await check_hook(
        "before_tool_use",
        lambda ctx: HookOutcome.block("no") if ctx.tool_call.name == "send" else None,
        tier="policy",
        name="no-sending",
        script=[call("send", to="anna"), spawn("a"), say("done")],
        tools=[send],
        configure=lambda made: made.with_capability(members),
    )
    assert report.ok, report
