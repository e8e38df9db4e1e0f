from __future__ import annotations

from typing import Any

import pytest

from hookline import Agent, AgentBuilder, Decision, HookOutcome, HookPoint, RunStatus, ToolContext
from hookline.errors import BuildError
from hookline.state import AssistantMessage, ToolCall, ToolMessage, UserMessage
from hookline.testing import BlockedAction, Recorder, ScriptedDriver, call, calls, say, transcript


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def too_big(ctx: Any) -> HookOutcome | None:
    """Block what is too big."""
    return HookOutcome.block("too big") if ctx.tool_call.args["a"] > 10 else None


def builder(recorder: Recorder, *turns: Any) -> AgentBuilder:
    """An agent that can add, with a recorder."""
    driver = ScriptedDriver(turns)
    return AgentBuilder().with_driver(driver).with_tools(add).with_capability(recorder)


STEP_WITH_A_TOOL = """
    before_step before_inference after_inference before_tool_use after_tool_use after_step should_continue
""".split()
LAST_STEP = (
    "before_step before_inference after_inference after_step should_continue stop output".split()
)


def test_it_knows_the_points_in_the_order_they_were_visited() -> None:
    """Every point that a run passes is recorded, with or without a hook."""
    recorder = Recorder()
    builder(recorder, call("add", a=1, b=2), say("3")).build().run_sync("1+2?")
    assert recorder.points == [
        *"session_start execution_start prompt_submit".split(),
        *STEP_WITH_A_TOOL,
        *LAST_STEP,
        *"execution_end session_end".split(),
    ]


def test_it_knows_which_hooks_ran_and_what_they_said() -> None:
    """Verdict, reason, duration and changes of each hook, in order; itself it leaves out."""
    recorder = Recorder()
    agent = (
        builder(recorder, call("add", a=1, b=2), call("add", a=11, b=2), say("3"))
        .on_before_tool_use(too_big, name="size")
        .on_after_step(lambda ctx: ctx.with_metadata("seen", ctx.step_number), name="note")
        .build()
    )
    agent.run_sync("go")
    assert recorder.verdicts("size") == [
        ("before_tool_use", "proceed"),
        ("before_tool_use", "block"),
    ]
    assert next(ran.changes for ran in recorder.ran if ran.hook == "note") == {
        "state": {"metadata": {"set": {"seen": 1}}}
    }
    assert all(ran.duration >= 0 for ran in recorder.ran)
    assert "recorder" not in {ran.hook for ran in recorder.ran}
    [first, second] = [visit for visit in recorder.visits if visit.point == "before_tool_use"]
    assert [ran.hook for ran in first.hooks] == ["size"]
    assert (first.verdict, second.verdict, second.decided_by) == ("proceed", "block", "size")


def test_it_knows_the_conversation_and_the_calls_that_ran() -> None:
    """A blocked call is in the conversation, and not among the calls that ran."""
    recorder = Recorder()
    turns = [calls(call("add", a=1, b=2), call("add", a=11, b=2)), say("3")]
    builder(recorder, *turns).on_before_tool_use(too_big, name="size").build().run_sync("go")
    assert recorder.calls == [("add", {"a": 1, "b": 2})]
    assert recorder.transcript() == [
        ("user", "go"),
        ("assistant", "", ("add", {"a": 1, "b": 2}), ("add", {"a": 11, "b": 2})),
        ("tool", "add", "3"),
        ("tool", "add", "Blocked: too big"),
        ("assistant", "3"),
    ]


def test_it_knows_what_was_blocked_and_by_whom() -> None:
    """Each thing that was prevented is there once, although observers see a blocked call twice."""
    recorder = Recorder()
    agent = (
        builder(recorder, call("add", a=11, b=2), say("first"), say("second"))
        .on_before_tool_use(too_big, name="size")
        .on_stop(
            lambda ctx: HookOutcome.block("one more") if ctx.state.step_count < 3 else None,
            name="eager",
        )
        .on_output(lambda ctx: HookOutcome.block("secret"), name="censor")
        .build()
    )
    agent.run_sync("go")
    assert recorder.blocked == (
        BlockedAction("before_tool_use", "size", "too big", "add"),
        BlockedAction("stop", "eager", "one more"),
        BlockedAction("output", "censor", "secret"),
    )


def test_a_withheld_result_is_blocked_and_its_call_ran() -> None:
    """What a hook withholds after the tool ran counts as prevented, at that point."""
    recorder = Recorder()
    agent = (
        builder(recorder, call("add", a=1, b=2), say("?"))
        .on_after_tool_use(lambda ctx: HookOutcome.block("private"), name="veil")
        .build()
    )
    agent.run_sync("go")
    assert recorder.calls == [("add", {"a": 1, "b": 2})]
    assert recorder.blocked == (BlockedAction("after_tool_use", "veil", "private", "add"),)


def test_a_limit_that_stops_the_run_is_blocked_by_the_limit() -> None:
    """A stop is there with its verdict."""
    recorder = Recorder()
    agent = builder(recorder, call("add", a=1, b=2), say("3")).with_limits(steps=1).build()
    assert agent.run_sync("go").status is RunStatus.STOPPED
    [stopped] = recorder.blocked
    assert (stopped.point, stopped.by, stopped.verdict) == ("before_step", "limits", "stop")


@pytest.mark.parametrize(
    ("permission", "by"),
    [(None, "approver"), (lambda ctx: Decision.deny("not today"), "guardian")],
)
def test_a_denied_call_names_the_hook_that_denied_it(permission: Any, by: str) -> None:
    """Whether a permission hook or the approver says no, it is there once."""
    recorder = Recorder()
    made = (
        builder(recorder, call("add", a=1, b=2), say("?"))
        .on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="careful")
        .with_approver(lambda pending: Decision.deny("not today"))
    )
    if permission is not None:
        made.on_permission_request(permission, name="guardian")
    made.build().run_sync("go")
    denied = BlockedAction("permission_request", by, "not today", "add", "deny")
    assert recorder.blocked == (denied,)


def test_hooks_around_an_action_are_visits_too() -> None:
    """An observer cannot stand around an action, but a hook that does is recorded."""
    recorder = Recorder()

    async def timed(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    agent = builder(recorder, call("add", a=1, b=2), say("3")).around_tool_use(timed).build()
    agent.run_sync("go")
    position = recorder.points.index("around_tool_use")
    assert recorder.points[position - 1 : position + 2] == [
        "before_tool_use",
        "around_tool_use",
        "after_tool_use",
    ]
    assert recorder.verdicts("timed") == [("around_tool_use", "proceed")]


def parent_of(child: Agent, recorder: Recorder) -> Agent:
    """An agent with a tool that starts a child."""

    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return str((await context.spawn(child, "1+2?")).text)

    turns = [call("delegate"), say("done")]
    driver = ScriptedDriver(turns)
    return AgentBuilder().with_driver(driver).with_tools(delegate).with_capability(recorder).build()


def test_child_runs_are_seen_too() -> None:
    """A recorder of the parent sees the points, calls and conversation of the child."""
    recorder = Recorder()
    turns = [call("add", a=1, b=2), say("3")]
    child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add).build()
    result = parent_of(child, recorder).run_sync("go", run_id="outer")
    assert result.text == "done"
    runs = list(dict.fromkeys(visit.run_id for visit in recorder.visits))
    assert runs[0] == "outer"
    assert len(runs) == 2
    assert recorder.calls == [("delegate", {}), ("add", {"a": 1, "b": 2})]
    assert recorder.transcript()[0] == ("user", "go")
    assert recorder.transcript(runs[1])[0] == ("user", "1+2?")
    inside = [visit.point for visit in recorder.visits if visit.run_id == runs[1]]
    assert inside == [
        *"execution_start prompt_submit".split(),
        *STEP_WITH_A_TOOL,
        *LAST_STEP,
        "execution_end",
    ]


def test_one_recorder_for_parent_and_child_sees_everything_once() -> None:
    """What reaches it on two ways is one thing that happened."""
    recorder = Recorder()
    turns = [call("add", a=1, b=2), say("3")]
    child = builder(recorder, *turns).build()
    parent_of(child, recorder).run_sync("go", run_id="outer")
    inside = [visit.point for visit in recorder.visits if visit.run_id != "outer"]
    assert inside.count("execution_start") == 1
    assert inside.count("before_tool_use") == 1
    assert recorder.calls == [("delegate", {}), ("add", {"a": 1, "b": 2})]
    assert len(recorder.records) == len({id(record) for record in recorder.records})


def test_recording_changes_nothing() -> None:
    """The same run with and without a recorder gives the same conversation and the same ending."""
    turns = [calls(call("add", a=1, b=2), call("add", a=11, b=2)), call("nope"), say("3")]
    plain, watched = (
        made.on_before_tool_use(too_big, name="size").build().run_sync("go")
        for made in (
            AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add),
            builder(Recorder(), *turns),
        )
    )
    assert plain.state.messages == watched.state.messages
    assert plain.explain() == watched.explain()


def test_it_reads_as_a_story() -> None:
    """`str` shows points in order, who spoke, what was decided, and how it ended."""
    recorder = Recorder()
    agent = (
        builder(recorder, call("add", a=11, b=2), say("3"))
        .on_before_tool_use(too_big, name="size")
        .on_before_tool_use(lambda ctx: HookOutcome.block("never"), name="trial", shadow=True)
        .build()
    )
    agent.run_sync("go", run_id="r1")
    lines = str(recorder).splitlines()
    assert lines[0] == "run r1"
    assert lines[-1] == "run r1 ended completed: completed"
    [decided] = [line for line in lines if line.startswith("  before_tool_use")]
    assert decided.split(maxsplit=2) == ["before_tool_use", "add", "block by 'size': too big"]
    assert any("size (" in line and line.endswith("block: too big") for line in lines)
    assert "      proceed: limits" in lines
    points = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert points == recorder.points


def test_it_shows_what_a_shadow_would_have_done() -> None:
    """A verdict that was not enforced reads so, and nothing counts as blocked."""
    recorder = Recorder()
    agent = (
        builder(recorder, call("add", a=11, b=2), say("13"))
        .on_before_tool_use(too_big, name="trial", shadow=True)
        .build()
    )
    agent.run_sync("go")
    assert "would block: too big" in str(recorder)
    assert recorder.blocked == ()
    assert recorder.calls == [("add", {"a": 11, "b": 2})]


def test_before_anything_ran_it_is_empty() -> None:
    """A new recorder, and one that was cleared, have no records."""
    recorder = Recorder()
    assert (str(recorder), recorder.transcript(), recorder.visits) == (
        "nothing was recorded",
        [],
        (),
    )
    builder(recorder, say("hello")).build().run_sync("go")
    assert recorder.points
    recorder.clear()
    assert (recorder.records, recorder.points, recorder.blocked) == ([], [], ())


def test_a_second_recorder_needs_a_name_of_its_own() -> None:
    """Capabilities are installed by name, once."""
    first, second = Recorder(), Recorder("second")
    with pytest.raises(BuildError, match="installed already"):
        builder(first).with_capability(Recorder())
    builder(first, say("hello")).with_capability(second).build().run_sync("go")
    assert first.points == second.points
    assert "second" in {ran.hook for ran in first.ran}


def test_it_is_registered_at_every_point_that_can_be_observed() -> None:
    """Only around an action nobody can merely observe."""
    observed = {registration.point.value for registration in Recorder().hooks()}
    assert {point.value for point in HookPoint} - observed == {
        "around_inference",
        "around_step",
        "around_tool_use",
    }


# --- transcript --------------------------------------------------------------------------------


def test_each_message_is_one_tuple() -> None:
    """Who spoke, what was said and which tools were called, and no ids."""
    calls = (ToolCall("1", "add", {"a": [1]}), ToolCall("2", "now"))
    messages = [
        UserMessage("2+3?"),
        AssistantMessage("let me see", calls),
        ToolMessage("1", "add", "5"),
        ToolMessage("2", "now", "Error: no", True),
        AssistantMessage("5"),
    ]
    assert transcript(messages) == [
        ("user", "2+3?"),
        ("assistant", "let me see", ("add", {"a": [1]}), ("now", {})),
        ("tool", "add", "5"),
        ("tool", "now", "Error: no"),
        ("assistant", "5"),
    ]


def test_the_tuples_can_be_changed_without_changing_the_state() -> None:
    """Arguments are copies."""
    call = ToolCall("1", "add", {"a": [1]})
    [(_, _, (_, args))] = transcript([AssistantMessage("", (call,))])
    args["a"].append(2)
    assert call.args == {"a": [1]}
