"""Modes in which nothing is changed: commands run where they cannot, and no way around it holds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, Decision, RunResult, SQLiteJournal, ToolContext, tool
from hookline.capabilities import Approval, Bash, TaintPolicy
from hookline.errors import SandboxError
from hookline.hooks import HookOutcome
from hookline.testing import ScriptedDriver, call, calls, say

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
pytestmark = needs_bubblewrap
READING_MODES = ("plan", "ask_unlisted")
TOUCH = call("bash", command="touch made; echo ran")


def builder(work: Path, approval: Approval, *turns: Any, **options: Any) -> AgentBuilder:
    """An agent with a shell whose model makes these turns."""
    driver = ScriptedDriver([*turns, say("done")])
    made = AgentBuilder().with_driver(driver).with_capability(Bash(work, **options))
    return made.with_capability(approval)


def results(result: RunResult) -> list[Any]:
    """The results of all calls."""
    return [each for step in result.steps for each in step.results]


@pytest.mark.parametrize("mode", READING_MODES)
@pytest.mark.parametrize("usual", ["read-only", "workspace", "host"])
def test_every_command_runs_read_only_without_a_question(
    tmp_path: Path, mode: str, usual: Any
) -> None:
    """Whatever it does and whatever the usual place is; the call on record is the one that ran."""
    turn = calls(
        TOUCH,
        call("exec", argv=["touch", "made"]),
        call("bash", command="sleep 0.1; touch made", background=True),
        call("bash", command="npm install", place="read-only"),
        call("bash", command="sudo ls"),
    )
    agent = builder(tmp_path, Approval(mode=mode), turn, place=usual).with_approver("deny").build()
    result = agent.run_sync("Go.")
    *ran, denied = results(result)
    assert [each.status.value for each in ran] == ["ok"] * 4
    assert {each.metadata["place"] for each in ran} == {"read-only"}
    assert denied.status.value == "blocked"
    assert [each.args["place"] for each in result.steps[0].calls[:4]] == ["read-only"] * 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    [
        {"place": "workspace"},
        {"place": "host"},
        {"network": True},
        {"place": "host", "network": True},
    ],
)
def test_more_than_reading_is_refused_or_asks(tmp_path: Path, given: dict[str, Any]) -> None:
    """The refusal says what the model can do; a yes to the question gives what was asked for."""
    turn = call("bash", command="touch made", **given)
    (planned,) = results(builder(tmp_path, Approval(mode="plan"), turn).build().run_sync("Go."))
    assert planned.status.value == "blocked"
    assert (
        'Call bash with place="read-only", network=false or without these arguments' in planned.text
    )
    approval = Approval(mode="ask_unlisted")
    (denied,) = results(
        builder(tmp_path, approval, turn).with_approver("deny").build().run_sync("Go.")
    )
    assert denied.status.value == "denied"
    assert not (tmp_path / "made").exists()
    agent = builder(tmp_path, approval, turn).with_approver(lambda _: Decision.allow()).build()
    (allowed,) = results(agent.run_sync("Go."))
    assert allowed.metadata["place"] == given.get("place", "workspace")
    assert (tmp_path / "made").exists()


def test_a_command_that_a_rule_allows_is_not_held_back_in_ask_unlisted(tmp_path: Path) -> None:
    """There the user has said what it may do; in plan mode nothing is changed, whatever rules say."""
    for mode, place in (("ask_unlisted", "workspace"), ("plan", "read-only")):
        approval = Approval(allow=["bash(touch *)"], mode=mode)
        turn = call("bash", command="touch made")
        (ran,) = results(builder(tmp_path, approval, turn).build().run_sync("Go."))
        assert ran.metadata["place"] == place
    (ran,) = results(
        builder(tmp_path, Approval(allow=["bash(touch *)"], mode="ask_unlisted"), TOUCH)
        .build()
        .run_sync("Go.")
    )
    assert ran.metadata["place"] == "read-only"


def test_a_background_command_is_looked_at_and_ended_in_the_same_mode(tmp_path: Path) -> None:
    """Who may start one must be able to see what it prints, and to end it."""
    for mode in READING_MODES:
        turns = (
            call("bash", command="echo on; sleep 60", background=True),
            call("bash_poll", id="bg-1"),
            call("bash_stop", id="bg-1"),
        )
        agent = builder(tmp_path, Approval(mode=mode), *turns).with_approver("deny").build()
        began, _, ended = results(agent.run_sync("Go."))
        assert began.metadata["place"] == "read-only"
        assert "bg-1 was stopped" in ended.text


def test_a_rule_that_asks_still_asks(tmp_path: Path) -> None:
    """The person who wrote it wants to see such a call, wherever it runs."""
    approval = Approval(ask=["bash(touch *)"], mode="plan")
    agent = builder(tmp_path, approval, call("bash", command="touch made")).with_approver("deny")
    assert results(agent.build().run_sync("Go."))[0].status.value == "denied"


@pytest.mark.parametrize("mode", READING_MODES)
@pytest.mark.parametrize("tier", ["before", "around"])
def test_a_hook_that_rewrites_the_call_is_judged(tmp_path: Path, mode: str, tier: str) -> None:
    """Whether it comes before the mode's own hook, after it, or stands around the tool."""
    approval = Approval(mode=mode)
    made = builder(tmp_path, approval, TOUCH).with_approver("deny")
    if tier == "before":
        made.on_before_tool_use(
            lambda ctx: ctx.with_args(place="workspace"), after=f"{approval.name}-place"
        )
    else:

        async def around(ctx: Any, next: Any) -> Any:
            return await next(ctx.with_args(place="workspace"))

        made.around_tool_use(around)
    (result,) = results(made.build().run_sync("Go."))
    assert result.status.value in ("blocked", "denied")
    assert not (tmp_path / "made").exists()


def test_a_hook_that_takes_the_place_away_is_judged(tmp_path: Path) -> None:
    """What is judged is the call that would run: without a place it would run in the workspace."""
    made = builder(tmp_path, Approval(mode="plan"), call("bash", command="ls"))
    made.on_before_tool_use(lambda ctx: ctx.with_args(place=None), after="approval-place")
    (result,) = results(made.build().run_sync("Go."))
    assert result.text.startswith("Blocked: plan mode")


@pytest.mark.parametrize("mode", READING_MODES)
def test_children_are_held_to_it(tmp_path: Path, mode: str) -> None:
    """A subagent has the mode of the run above it, with a shell of its own too."""
    child = builder(tmp_path, Approval(name="own"), TOUCH).build()

    @tool(effect="pure")
    async def delegate(context: ToolContext) -> Any:
        """Have another agent do it."""
        result = await context.spawn(child, "Go.", name="child")
        return [each.metadata["place"] for each in results(result)]

    driver = ScriptedDriver([call("delegate"), say("done")])
    parent = AgentBuilder().with_driver(driver).with_tools(delegate).with_approver("deny")
    (came,) = results(parent.with_capability(Approval(mode=mode)).build().run_sync("Go."))
    assert came.result == ["read-only"]
    assert not (tmp_path / "made").exists()


async def test_the_mode_can_change_in_the_middle_of_a_run(tmp_path: Path) -> None:
    """It holds from the next call on, in both directions."""
    approval = Approval(mode="plan")
    modes = iter(("default", "plan", "ask_unlisted"))
    steps = builder(tmp_path, approval, TOUCH, TOUCH, TOUCH, TOUCH).build().iterate("Go.")
    async for state in steps:
        if (mode := next(modes, None)) is not None:
            approval.set_mode(mode, run_id=state.run_id)
    assert steps.result is not None
    places = [each.metadata["place"] for each in results(steps.result)]
    assert places == ["read-only", "workspace", "read-only", "read-only"]


def test_a_call_that_waited_is_judged_by_the_mode_of_now(tmp_path: Path) -> None:
    """It was asked about in one mode, and its run continues in another, in another process."""
    journal = SQLiteJournal(str(tmp_path / "runs.db"))
    work = tmp_path / "work"
    work.mkdir()
    turn = call("bash", command="touch made", network=True)

    def agent(mode: str) -> Any:
        return builder(work, Approval(mode=mode), turn).with_journal(journal).build()

    paused = agent("default").run_sync("Go.")
    (question,) = paused.pending
    resumed = agent("plan").resume_sync(paused.run_id, {question.id: Decision.allow()})
    assert results(resumed)[0].text.startswith("Blocked: plan mode")
    assert not (work / "made").exists()


def test_a_read_only_call_that_waited_never_runs_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that continues with it may have no sandbox: then it does not run."""
    journal = SQLiteJournal(str(tmp_path / "runs.db"))
    work = tmp_path / "work"
    work.mkdir()

    def agent() -> Any:
        approval = Approval(ask=["bash(touch *)"], mode="plan")
        turn = call("bash", command="touch made")
        return builder(work, approval, turn).with_journal(journal).build()

    paused = agent().run_sync("Go.")
    (question,) = paused.pending
    assert question.tool_call.args["place"] == "read-only"

    def missing() -> Any:
        from hookline.errors import SandboxError

        raise SandboxError("bubblewrap is not installed.", remedy="Install it.")

    monkeypatch.setattr("hookline.containment.sandbox.sandbox.run_selftest", missing)
    resumed = agent().resume_sync(paused.run_id, {question.id: Decision.allow()})
    assert results(resumed)[0].status.value == "blocked"
    assert not (work / "made").exists()


def test_a_session_of_the_shell_continues_in_plan_mode(tmp_path: Path) -> None:
    """Variables of earlier commands cannot make a command change anything, so they do not stand in the way."""
    bash = {"keep": "session"}
    first = builder(
        tmp_path,
        Approval(),
        call("bash", command="export WORD=hello; mkdir -p sub; cd sub"),
        **bash,
    )
    before = first.build().run_sync("Go.")
    then = builder(
        tmp_path,
        Approval(mode="plan"),
        call("bash", command="echo $WORD; basename $PWD; touch x"),
        **bash,
    )
    last = results(then.build().run_sync("Go.", state=before.state))[-1]
    assert last.text.startswith("hello\nsub\n")
    assert last.metadata["place"] == "read-only"


def test_a_tool_of_ones_own_says_with_which_arguments_it_changes_nothing(tmp_path: Path) -> None:
    """What holds for commands holds for every tool that says so, and not for a server's, which cannot."""

    @tool(pure_with={"dry_run": True})
    def deploy(target: str, dry_run: bool | None = None) -> str:
        """Deploy."""
        return f"{target} {dry_run}"

    def came(mode: str, *turns: Any) -> list[str]:
        driver = ScriptedDriver([*turns, say("done")])
        made = AgentBuilder().with_driver(driver).with_tools(deploy).with_approver("deny")
        return [
            each.text
            for each in results(made.with_capability(Approval(mode=mode)).build().run_sync("Go."))
        ]

    turns = (call("deploy", target="a"), call("deploy", target="a", dry_run=False))
    assert came("default", *turns) == ["a None", "a False"]
    ran, refused = came("plan", *turns)
    assert ran == "a True"
    assert "Call deploy with dry_run=true or without these arguments" in refused
    assert came("ask_unlisted", *turns)[1].startswith("Denied")


def test_taint_is_not_asked_about_what_changes_nothing(tmp_path: Path) -> None:
    """Words of others in a command that can only read do no harm."""

    @tool(effect="pure")
    def read() -> str:
        """Read a page that others wrote."""
        return "look at 1234567890 of the others"

    turns = (
        call("read"),
        call("bash", command="touch 1234567890", place="read-only"),
        call("bash", command="touch 1234567890"),
    )
    made = builder(tmp_path, Approval(), *turns).with_tools(read)
    made.with_capability(TaintPolicy(on_taint="block"))
    _, inside, loose = results(made.build().run_sync("Go."))
    assert inside.metadata["place"] == "read-only"
    assert loose.status.value == "blocked"


def test_another_policy_still_has_its_say(tmp_path: Path) -> None:
    """That a command cannot change anything does not lift what somebody else forbids."""
    made = builder(tmp_path, Approval(mode="plan"), TOUCH)
    made.on_before_tool_use(lambda _ctx: HookOutcome.block("no"), tier="policy", name="strict")
    assert results(made.build().run_sync("Go."))[0].text == "Blocked: no"


@pytest.mark.parametrize(("usual", "status"), [("host", "blocked"), ("workspace", "ok")])
def test_a_rule_about_the_host_is_about_calls_that_run_there(
    tmp_path: Path, usual: Any, status: str
) -> None:
    """A call without a place runs in the usual one, and is judged there."""
    turn = calls(call("bash", command="echo x"), call("exec", argv=["echo", "x"], place=None))
    for rule in ("bash(place=host)", "bash(command=echo *, place=host)", "exec(place=host)"):
        approval = Approval(deny=[rule])
        agent = builder(tmp_path, approval, turn, place=usual).with_approver("deny").build()
        shell, words = results(agent.run_sync("Go."))
        assert words.status.value == status
        assert shell.status.value == ("ok" if rule.startswith("exec") else status)


@pytest.mark.parametrize("mode", READING_MODES)
@pytest.mark.parametrize(
    "asked", [{"place": "workspace"}, {"place": "host"}, {"network": True}, {}, {"place": None}]
)
def test_without_a_sandbox_to_ask_for_a_place_or_the_network_is_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, asked: dict[str, Any]
) -> None:
    """The same as with one: it is refused, or asked about, also of a harmless command."""

    def missing() -> object:
        raise SandboxError("bubblewrap is not installed.", remedy="Install it.")

    monkeypatch.setattr("hookline.containment.sandbox.sandbox.run_selftest", missing)
    turn = calls(call("bash", command="ls", **asked), call("exec", argv=["ls"], **asked))
    agent = builder(tmp_path, Approval(mode=mode), turn, sandbox="auto").with_approver("deny")
    is_more = any(asked.values())
    refused = "blocked" if mode == "plan" else "denied"
    for each in results(agent.build().run_sync("Go.")):
        assert each.status.value == (refused if is_more else "ok")
        assert ("without place and network" in each.text) == (is_more and mode == "plan")


def test_without_a_sandbox_every_command_is_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule about the host is about all calls there."""

    def missing() -> object:
        raise SandboxError("bubblewrap is not installed.", remedy="Install it.")

    monkeypatch.setattr("hookline.containment.sandbox.sandbox.run_selftest", missing)
    turn = call("bash", command="echo x")
    agent = builder(tmp_path, Approval(deny=["bash(place=host)"]), turn, sandbox="auto").build()
    (result,) = results(agent.run_sync("Go."))
    assert result.status.value == "blocked"
