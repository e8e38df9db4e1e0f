"""Modes that change and answers that are remembered: kept in the state, in the session, and after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline import (
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    SQLiteJournal,
    ToolContext,
    tool,
)
from hookline.capabilities import Approval
from hookline.sessions import Sessions
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, say


@tool
def exec(argv: list[str]) -> str:
    """Run a command."""
    return f"ran {' '.join(argv)}"


@tool
def write_metadata(key: str, value: str) -> str:
    """Write what anyone can read."""
    return f"wrote {key}"


def run(text: str) -> Any:
    """A call of exec, with these words."""
    return call("exec", argv=text.split())


def builder(approval: Approval, *turns: Any) -> AgentBuilder:
    """An agent whose model makes these turns, under these rules."""
    return (
        AgentBuilder()
        .with_driver(ScriptedDriver([*turns, say("done")]))
        .with_tools(exec, write_metadata)
        .with_capability(approval)
    )


# --- modes that change --------------------------------------------------------------------------------


async def test_a_mode_changes_in_the_middle_of_a_run() -> None:
    """Whoever holds the capability changes the mode; it holds from the next call on, and is in the state."""
    approval = Approval(mode="plan")
    agent = builder(approval, run("make"), run("make"), run("make")).build()
    stream = agent.iterate("Go.")
    number = 0
    async for state in stream:
        number += 1
        if number == 1:
            approval.set_mode("default", run_id=state.run_id)
        if number == 2:
            approval.set_mode("deny_unlisted")
    texts = result_texts(stream.result)
    assert [text.split(":")[0] for text in texts] == ["Blocked", "ran make", "Blocked"]
    assert stream.result.state.metadata["hookline.approval"]["mode"] == "deny_unlisted"
    assert approval.mode_of(stream.result.state) == "deny_unlisted"
    assert approval.mode == "deny_unlisted"


async def test_a_mode_of_one_run_is_not_that_of_another() -> None:
    """A mode that one run was given ends with it, and others never had it."""
    approval = Approval()
    stream = builder(approval, run("a"), run("b")).build().iterate("Go.")
    async for state in stream:
        approval.set_mode("plan", run_id=state.run_id)
    assert result_texts(stream.result)[1].startswith("Blocked: plan mode")
    other = await builder(approval, run("a")).build().run("Go.")
    assert result_texts(other) == ["ran a"]


def test_a_mode_goes_with_the_state() -> None:
    """A conversation that continues from a saved state has the mode it was last given."""
    approval = Approval(mode="plan")
    result = builder(approval).build().run_sync("Go.", run_id="first")
    assert "hookline.approval" not in result.state.metadata  # nobody has set one
    approval.set_mode("deny_unlisted", run_id="second")
    result = builder(approval).build().run_sync("Go.", run_id="second")
    saved = AgentState.from_json(result.state.to_json())
    again = builder(Approval(), run("ls")).build().run_sync("Go on.", state=saved)
    assert result_texts(again) == ["Blocked: no rule allows this call of exec."]


def test_a_mode_that_cannot_be_understood_is_the_strictest() -> None:
    """A state that says something else than a mode lets nothing through."""
    state = AgentState().with_metadata("hookline.approval", {"mode": "yolo"})
    result = builder(Approval(), run("ls")).build().run_sync("Go.", state=state)
    assert result_texts(result) == ["Blocked: no rule allows this call of exec."]


def test_the_model_does_not_write_the_mode() -> None:
    """A tool that writes metadata cannot be used to change it."""
    made = call("write_metadata", key="hookline.approval", value="x")
    result = builder(Approval(allow="*"), made).build().run_sync("Go.")
    assert result_texts(result) == ["Blocked: 'hookline.approval' cannot be written by the model."]


def test_a_mode_can_change_while_a_run_is_paused() -> None:
    """What was asked about under one mode is judged again under the one that holds when the run continues."""
    approval = Approval(mode="ask_unlisted")
    agent = builder(approval, run("make")).build()
    paused = agent.run_sync("Go.")
    approval.set_mode("deny_unlisted", run_id=paused.state.run_id)
    answers = {question.id: Decision.allow() for question in paused.pending}
    assert result_texts(agent.resume_sync(paused, answers))[0].startswith("Blocked")
    agent = builder(approval, run("make")).build()
    paused = agent.run_sync("Go.")
    approval.set_mode("default", run_id=paused.state.run_id)
    assert result_texts(agent.resume_sync(paused)) == ["ran make"]


async def test_a_mode_for_all_goes_before_what_a_run_was_given_earlier() -> None:
    """Whichever mode was set last holds, in the next run of a conversation and in a run that had paused."""
    approval = Approval(mode="plan")
    stream = builder(approval, run("make")).build().iterate("Go.")
    async for state in stream:
        approval.set_mode("accept_edits", run_id=state.run_id)
    approval.set_mode("plan")
    again = await builder(approval, run("make")).build().run("On.", state=stream.result.state)
    assert result_texts(again)[-1].startswith("Blocked: plan mode")
    approval.set_mode("default", run_id="third")
    third = await (
        builder(approval, run("make")).build().run("On.", state=again.state, run_id="third")
    )
    assert result_texts(third)[-1] == "ran make"
    fourth = await builder(approval, run("make")).build().run("On.", state=third.state)
    assert result_texts(fourth)[-1] == "ran make"  # nobody has set another one since


def test_a_mode_for_all_holds_for_a_run_that_waits() -> None:
    """Plan mode for all reaches a run that was given a mode of its own before it paused."""
    approval = Approval()
    asking = builder(approval, run("make")).on_before_tool_use(
        lambda ctx: HookOutcome.ask("?"), tier="policy", name="asker"
    )
    agent = asking.build()
    approval.set_mode("default", run_id="waiting")
    paused = agent.run_sync("Go.", run_id="waiting")
    approval.set_mode("plan")
    answers = {question.id: Decision.allow() for question in paused.pending}
    assert result_texts(agent.resume_sync(paused, answers))[0].startswith("Blocked: plan mode")


# --- answers that are remembered ----------------------------------------------------------------------


class Person:
    """Gives fixed answers and counts the questions."""

    def __init__(self, *answers: Decision) -> None:
        self.answers = list(answers)
        self.asked: list[PendingApproval] = []

    def __call__(self, question: PendingApproval) -> Decision:
        self.asked.append(question)
        return self.answers.pop(0)


PUSH = Decision.allow(rule="bash(git push *)")


def test_an_answer_for_a_rule_holds_for_all_it_is_about() -> None:
    """One yes to `git push *` is a yes to the next push, and none to a pull or to a push as root."""
    person = Person(PUSH, Decision.deny("no"), Decision.deny("no"))
    texts = ["git push", "git push origin main", "git pull", "sudo git push"]
    agent = builder(Approval(ask="exec"), *map(run, texts)).with_approver(person).build()
    result = agent.run_sync("Go.")
    assert result_texts(result) == [
        "ran git push",
        "ran git push origin main",
        "Denied: no",
        "Denied: no",
    ]
    assert list(result.state.remembered) == ["approval: bash(git push *)"]


def test_a_no_for_a_rule_holds_in_every_spelling() -> None:
    """What was denied for a rule is denied in ways round it too."""
    person = Person(Decision.deny("never push", rule="bash(git push *)"))
    texts = ["git push", "git -C x push", "sudo git push"]
    agent = builder(Approval(ask="exec"), *map(run, texts)).with_approver(person).build()
    assert result_texts(agent.run_sync("Go.")) == ["Denied: never push"] * 3


def test_an_answer_to_one_hook_does_not_count_for_another() -> None:
    """A rule is remembered for the hook that asked. When another hook asks, a person is asked again."""
    person = Person(PUSH, Decision.deny("that is another matter"))
    agent = builder(Approval(ask="exec"), run("git push"), run("git push x"))

    def taint(ctx: Any) -> HookOutcome | None:
        return HookOutcome.ask("tainted") if "x" in ctx.tool_call.args["argv"] else None

    agent.on_before_tool_use(taint, name="taint", tier="policy").with_approver(person)
    assert result_texts(agent.build().run_sync("Go.")) == [
        "ran git push",
        "Denied: that is another matter",
    ]
    assert person.asked[1].askers == ("approval", "taint")


def test_an_invalid_rule_is_a_no() -> None:
    """An answer whose rule cannot be understood lets nothing through, and says why."""
    agent = builder(Approval(ask="exec"), run("ls")).with_approver(
        Person(Decision.allow(rule="bash("))
    )
    assert "has a rule that is not valid" in result_texts(agent.build().run_sync("Go."))[0]


def test_answers_are_kept_in_the_session_and_the_journal(tmp_path: Path) -> None:
    """In another process the same session does not ask again, about a call or about a rule."""
    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        agent = builder(Approval(ask="exec"), run("git push")).with_journal(journal)
        session = Sessions(journal).create_sync(id="pushing")
        result = session.run_sync(agent.with_approver(Person(PUSH)).build(), "Go.")
        assert result_texts(result) == ["ran git push"]
    with SQLiteJournal(path) as journal:
        again = builder(Approval(ask="exec"), run("git push origin")).with_journal(journal)
        result = Sessions(journal).get_sync("pushing").run_sync(again.build(), "Go on.")
        assert result_texts(result)[-1] == "ran git push origin"


async def test_answers_can_be_revoked(tmp_path: Path) -> None:
    """A revoked answer counts no more: the next call asks again, and the state has forgotten it."""
    approval = Approval(ask="exec")
    person = Person(PUSH, Decision.deny("not any more"))
    turns = [run("git push"), run("git push a"), run("git push b")]
    agent = builder(approval, *turns).with_approver(person).build()
    stream = agent.iterate("Go.")
    number = 0
    async for state in stream:
        number += 1
        if number == 2:
            (name,) = state.remembered
            approval.revoke(name, run_id=state.run_id)
    assert result_texts(stream.result) == ["ran git push", "ran git push a", "Denied: not any more"]
    assert stream.result.state.remembered == {}


async def test_what_was_revoked_can_be_answered_again() -> None:
    """To revoke is to forget once: what a person answers afterwards is remembered as before."""
    approval = Approval(ask="exec")
    person = Person(PUSH, PUSH)
    turns = [run("git push"), run("git push a"), run("git push b"), run("git push c")]
    stream = builder(approval, *turns).with_approver(person).build().iterate("Go.")
    number = 0
    async for state in stream:
        number += 1
        if number == 2:
            approval.revoke(run_id=state.run_id)
    assert len(person.asked) == 2
    assert list(stream.result.state.remembered) == ["approval: bash(git push *)"]


def test_what_was_revoked_is_forgotten_in_the_journal_too(tmp_path: Path) -> None:
    """The records of a run add up to a state without the revoked answer."""
    from hookline.journal import fold

    approval = Approval(ask="exec", remember=False)
    person = Person(PUSH, Decision.allow(remember=True), Decision.deny("each time"))
    turns = [run("git push"), run("git push a"), run("git push a")]
    with SQLiteJournal(tmp_path / "runs.db") as journal:
        agent = builder(approval, *turns).with_approver(person).with_journal(journal).build()
        result = agent.run_sync("Go.")
        assert result_texts(result)[-1] == "Denied: each time"
        story = fold(journal.read_sync(result.state.run_id))
    assert story.state.remembered == result.state.remembered == {}


def test_what_a_hook_may_do_to_remembered_answers() -> None:
    """A hook may forget answers, and never add one."""
    state = AgentState(remembered={"x": Decision.allow(remember=True)}).freeze()

    def forge(ctx: Any) -> Any:
        import msgspec

        forged = {**ctx.state.remembered, "y": Decision.allow()}
        return ctx.with_state(msgspec.structs.replace(ctx.state, remembered=forged))

    agent = builder(Approval()).on_before_step(forge).build()
    result = agent.run_sync("Go.", state=state)
    assert "state.remembered is kept by the run" in str(result.error)
    agent = builder(Approval()).on_before_step(
        lambda ctx: ctx.with_state(ctx.state.without_remembered("x"))
    )
    assert agent.build().run_sync("Go.", state=state).state.remembered == {}


@pytest.mark.parametrize("way", ["run", "stream", "iterate"])
async def test_the_same_however_it_is_driven(way: str) -> None:
    """Run, streamed or step by step: the same calls are denied, asked about and run."""
    person = Person(Decision.allow(), Decision.deny("no"))
    approval = Approval(ask="bash(git push *)", deny="bash(rm *)")
    turns = [run("git push"), run("rm x"), run("ls"), run("git push")]
    agent = builder(approval, *turns).with_approver(person).build()
    if way == "run":
        result = await agent.run("Go.")
    else:
        stream: Any = getattr(agent, way)("Go.")
        async for _ in stream:
            pass
        result = stream.result
    assert result_texts(result) == [
        "ran git push",
        "Blocked: the rule `bash(rm *)` denies it",
        "ran ls",
        "Denied: no",
    ]


def test_an_answer_in_a_child_holds_in_the_whole_tree() -> None:
    """What was answered for a rule in a child is not asked again in its parent, nor in its siblings."""

    @tool
    async def delegate(context: ToolContext) -> list[str]:
        """Have a child push."""
        child = AgentBuilder().with_driver(ScriptedDriver([run("git push x"), say("done")]))
        return result_texts(
            await context.spawn(child.with_tools(exec).build(), "Go.", name="child")
        )

    person = Person(PUSH)
    turns = [call("delegate"), run("git push y"), call("delegate")]
    agent = builder(Approval(ask="bash(git push *)"), *turns).with_tools(delegate)
    result = agent.with_approver(person).build().run_sync("Go.")
    assert result_texts(result) == ['["ran git push x"]', "ran git push y", '["ran git push x"]']
    assert len(person.asked) == 1


# --- what looks after what was started ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("approval", "passes"),
    [
        (Approval(allow=["bash(sleep *)"], mode="deny_unlisted"), True),
        (Approval(ask=["Bash(sleep:*)"], mode="deny_unlisted"), True),
        (Approval(allow=["exec(sleep *)"], mode="deny_unlisted"), False),
        (Approval(allow=["read"], deny=["bash"], mode="deny_unlisted"), False),
        (Approval(allow=["bash(sleep *)"], deny=["bash_stop"], mode="deny_unlisted"), False),
        (Approval(mode="ask_unlisted"), True),
        (Approval(mode="plan"), True),
    ],
    ids=str,
)
async def test_a_command_that_may_start_may_also_be_polled_and_stopped(
    approval: Approval, passes: bool
) -> None:
    """It was judged when it was started, and these have no arguments that a rule could be about."""

    @tool
    def bash_stop(id: str) -> str:
        """End a background command."""
        return f"stopped {id}"

    agent = builder(approval, call("bash_stop", id="bg-1")).with_tools(bash_stop)
    result = await agent.with_approver("deny").build().run("Go.")
    assert (result_texts(result) == ["stopped bg-1"]) is passes
