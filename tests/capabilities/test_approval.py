from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline import AgentBuilder, Decision, HookOutcome, ToolContext, tool
from hookline.capabilities import Approval, ApprovalMode, Files, StructuredOutput
from hookline.errors import BuildError, UsageError
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, calls, say


@tool
def exec(argv: list[str]) -> str:
    """Run a command."""
    return f"ran {' '.join(argv)}"


@tool
def write(path: str, content: str = "") -> str:
    """Write a file."""
    return f"wrote {path}"


@tool(effect="pure")
def read(path: str) -> str:
    """Read a file."""
    return f"read {path}"


@tool
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


def run(text: str) -> Any:
    """A call of exec, with these words."""
    return call("exec", argv=text.split())


def builder(approval: Approval, *turns: Any) -> AgentBuilder:
    """An agent whose model makes these turns, under these rules."""
    driver = ScriptedDriver([*turns, say("done")])
    return (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(exec, write, read, send)
        .with_capability(approval)
    )


def once(approval: Approval, made: Any) -> str:
    """The outcome of one call: its result, or `asked`."""
    result = builder(approval, made).build().run_sync("Go.")
    return "asked" if result.pending else result_texts(result)[0]


def test_rules_deny_ask_and_allow() -> None:
    """A denied call is blocked and the model reads the rule; an asked one waits; others run."""
    approval = Approval(allow="bash(git log *)", ask="bash(git *)", deny="bash(git push --force *)")
    assert once(approval, run("git push x --force")) == (
        "Blocked: the rule `bash(git push --force *)` denies it"
    )
    assert once(approval, run("git log")) == "asked"  # ask goes before allow
    assert once(approval, run("ls")) == "ran ls"
    assert once(approval, call("send", to="me")) == "sent to me"


def test_a_question_names_its_rule() -> None:
    """Who is asked sees which rule asks."""
    asked: list[PendingApproval] = []

    def approver(question: PendingApproval) -> bool:
        asked.append(question)
        return True

    agent = builder(Approval(ask="bash(git push *)"), run("git push")).with_approver(approver)
    assert result_texts(agent.build().run_sync("Go.")) == ["ran git push"]
    assert asked[0].asked_by == "approval"
    assert asked[0].reason == "the rule `bash(git push *)` asks about it"


# --- modes --------------------------------------------------------------------------------------------


def test_mode_plan_runs_only_what_reads() -> None:
    """In plan mode pure tools run; everything else is blocked, also what a rule allows."""
    approval = Approval(allow=["write", "exec"], mode="plan")
    assert once(approval, call("read", path="a")) == "read a"
    assert once(approval, run("ls -la")) == "ran ls -la"
    for made in (call("write", path="a"), run("git push"), call("send", to="me")):
        assert once(approval, made).startswith("Blocked: plan mode: nothing is changed now")
    assert once(Approval(deny="read", mode="plan"), call("read", path="a")).startswith("Blocked")


@pytest.mark.parametrize("mode", ["plan", "ask_unlisted"])
def test_what_a_server_says_of_its_tools_is_not_believed(mode: str) -> None:
    """A tool of an MCP server that calls itself pure only reads where a rule vouches for it."""

    @tool(name="mcp__notes__read", effect="pure")
    def notes() -> str:
        """Read, it says."""
        return "notes"

    def one(approval: Approval) -> list[str]:
        agent = builder(approval, call("mcp__notes__read")).with_tools(notes)
        return result_texts(agent.build().run_sync("Go."))

    assert one(Approval(mode=mode)) != ["notes"]
    assert one(Approval(allow="mcp__notes__*", mode=mode)) == ["notes"]


def test_mode_accept_edits_passes_edits_inside_the_root(tmp_path: Path) -> None:
    """Edits inside the root are not asked about; outside, and where a rule names a path, they are."""
    approval = Approval(
        ask=["Edit", "exec", "write(.github/**)"],
        deny="write(secret/**)",
        mode="accept_edits",
        root=tmp_path,
    )
    assert once(approval, call("write", path="src/a")) == "wrote src/a"
    assert once(approval, call("write", path="../a")) == "asked"
    assert once(approval, call("write", path="/etc/a")) == "asked"
    assert once(approval, call("write", path=".github/a")) == "asked"
    assert once(approval, call("write", path="secret/a")).startswith("Blocked")
    assert once(approval, run("ls")) == "asked"


def test_mode_deny_unlisted_blocks_what_no_rule_is_about() -> None:
    """Only what rules allow, or ask about, has a chance."""
    approval = Approval(allow="read", ask="send", mode=ApprovalMode.DENY_UNLISTED)
    assert once(approval, call("read", path="a")) == "read a"
    assert once(approval, call("send", to="me")) == "asked"
    assert once(approval, run("ls")) == "Blocked: no rule allows this call of exec."


def test_mode_ask_unlisted_asks_about_what_may_change_something() -> None:
    """Pure tools and allowed calls run; the rest is asked about."""
    approval = Approval(allow="bash(ls *)", mode="ask_unlisted")
    assert once(approval, call("read", path="a")) == "read a"
    assert once(approval, run("ls -l")) == "ran ls -l"
    assert once(approval, run("rm a")) == "asked"


def test_mode_deny_unlisted_lets_a_run_answer() -> None:
    """The tool by which it gives its output is no act."""
    builder = AgentBuilder().with_driver(ScriptedDriver([call("structured_output", output=3)]))
    builder.with_capability(StructuredOutput(int)).with_capability(Approval(mode="deny_unlisted"))
    assert builder.build().run_sync("Three?").output == 3


def test_mode_accept_edits_answers_for_nobody_else(tmp_path: Path) -> None:
    """What agents obey is asked about by Files: that it is an edit does not settle it, and a rule does."""
    write = call("write", path="AGENTS.md", content="x")
    for approval, written in (
        (Approval(mode="accept_edits"), False),
        (Approval(allow="write"), True),
    ):
        builder = AgentBuilder().with_driver(ScriptedDriver([write, say("done")]))
        builder.with_capability(Files(tmp_path)).with_capability(approval).with_approver("deny")
        builder.build().run_sync("Write it.")
        assert (tmp_path / "AGENTS.md").exists() is written


@pytest.mark.parametrize("spelled", ["accept_edits", "accept-edits", "acceptEdits", "Accept edits"])
def test_a_mode_is_known_in_other_spellings(spelled: str) -> None:
    """As other agents write it."""
    assert once(Approval(mode=spelled), call("read", path="a")) == "read a"
    assert Approval(mode=spelled).mode == "accept_edits"


def test_what_is_no_mode_is_refused() -> None:
    """A wrong mode or list is an error that says what there is."""
    with pytest.raises(BuildError, match="Modes: default, ask_unlisted, accept_edits, plan"):
        Approval(mode="yolo")
    with pytest.raises(UsageError, match="is not a mode"):
        Approval().set_mode("yolo")
    with pytest.raises(UsageError, match="never closed"):
        Approval(deny="bash(rm")
    with pytest.raises(BuildError, match="not a list of names"):
        Approval(answers="bash")


# --- answering for a rule -----------------------------------------------------------------------------


def asks(_ctx: Any) -> HookOutcome:
    """A hook that asks about everything."""
    return HookOutcome.ask("is that so?")


@pytest.mark.parametrize(
    ("hook", "tier", "passes"),
    [
        ("bash-policy", "policy", True),
        ("bash", "hook", True),
        ("files-jail", "policy", True),
        ("taint", "policy", False),
        ("mcp-pins", "policy", False),
    ],
)
def test_a_rule_answers_the_asks_it_may_answer(hook: str, tier: str, passes: bool) -> None:
    """What the shell or file policy asks about, a rule can allow; what others ask about is for a person."""
    agent = builder(Approval(allow="bash(git push *)"), run("git push"))
    agent.on_before_tool_use(asks, name=hook, tier=tier)
    result = agent.build().run_sync("Go.")
    assert (result_texts(result) == ["ran git push"]) is passes
    assert bool(result.pending) is not passes


@pytest.mark.parametrize("second", ["policy", "hook"])
def test_a_rule_answers_nobody_when_one_may_not_be_answered(second: str) -> None:
    """Two hooks ask: a rule that may answer only one of them answers neither."""
    agent = builder(Approval(allow="exec"), run("git push"))
    agent.on_before_tool_use(asks, name="bash-policy", tier="policy")
    agent.on_before_tool_use(asks, name="taint", tier=second)
    pending = agent.build().run_sync("Go.").pending
    assert pending[0].askers == ("bash-policy", "taint")


def test_a_rule_lifts_no_block_and_no_ask_of_a_rule() -> None:
    """What another hook blocks stays blocked, and what a rule asks about is not answered by another."""
    agent = builder(Approval(allow="*", answers=["*"]), run("ls"))
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("no"), name="bash-policy")
    assert result_texts(agent.build().run_sync("Go.")) == ["Blocked: no"]
    assert once(Approval(allow="*", ask="exec", answers=["*"]), run("ls")) == "asked"


def test_the_user_chooses_which_hooks_an_answer_is_for() -> None:
    """`answers` names the hooks."""
    agent = builder(Approval(allow="exec", answers=["taint"]), run("ls"))
    agent.on_before_tool_use(asks, name="taint", tier="policy")
    assert result_texts(agent.build().run_sync("Go.")) == ["ran ls"]


# --- children -----------------------------------------------------------------------------------------


def family(approval: Approval, *turns: Any, approver: Any = None) -> AgentBuilder:
    """An agent whose child's child makes these turns."""

    @tool
    async def delegate(depth: int, context: ToolContext) -> list[str]:
        """Hand on."""
        inner = AgentBuilder().with_tools(exec, write, read, send)
        if depth:
            inner.with_tools(delegate).with_driver(
                ScriptedDriver([call("delegate", depth=depth - 1), say("done")])
            )
        else:
            inner.with_driver(ScriptedDriver([*turns, say("done")]))
        result = await context.spawn(inner.build(), "Go.", name=f"child{depth}")
        return result_texts(result)

    driver = ScriptedDriver([call("delegate", depth=2), say("done")])
    made = AgentBuilder().with_driver(driver).with_tools(delegate).with_capability(approval)
    return made if approver is None else made.with_approver(approver)


def test_rules_and_modes_hold_three_runs_down() -> None:
    """What is denied at the top is denied in a child's child's child; the mode holds there too."""
    approval = Approval(deny="bash(git push *)", ask="send", allow="delegate")
    result = family(approval, calls(run("git push"), run("ls"))).build().run_sync("Go.")
    assert "`bash(git push *)` denies it" in result_texts(result)[0]
    assert "ran ls" in result_texts(result)[0]
    paused = family(approval, call("send", to="me")).build().run_sync("Go.")
    assert [question.asked_by for question in paused.pending] == ["approval"]
    strict = Approval(allow=["delegate", "bash(ls *)"], mode="deny_unlisted")
    result = family(strict, calls(run("ls"), call("send", to="me"))).build().run_sync("Go.")
    assert "ran ls" in result_texts(result)[0]
    assert "no rule allows this call of send" in result_texts(result)[0]


def test_rules_show_in_explain() -> None:
    """`explain()` shows the policy, the approver and where answers are kept."""
    shown = " ".join(
        str(builder(Approval(deny="exec", ask=list("abcd"))).build().explain()).split()
    )
    for name in ("approval-answers", "approval-keeper", "denies exec; asks a, b, c and 1 more"):
        assert name in shown


def test_decisions_of_the_approver_are_bound_to_a_call_as_before() -> None:
    """A plain yes is for one call; the same rule asks again."""
    answers = iter([Decision.allow(), Decision.deny("enough")])
    agent = builder(Approval(ask="send"), call("send", to="a"), call("send", to="a"))
    result = agent.with_approver(lambda _question: next(answers)).build().run_sync("Go.")
    assert result_texts(result) == ["sent to a", "Denied: enough"]


def test_what_a_running_tool_asks_is_for_a_person() -> None:
    """A rule about a call says nothing about what its tool asks while it runs."""

    @tool
    async def bash(command: str, context: ToolContext) -> str:
        """Run a command, and ask for something else."""
        decision = await context.ask(context.call, "may it have your keys?")
        return decision.answer

    agent = builder(Approval(allow="bash", answers=["*"]), call("bash", command="ls"))
    result = agent.with_tools(bash).build().run_sync("Go.")
    assert result_texts(result) == ["deny"]
