"""Subagents in Markdown files, as published for other agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pretend import bash, read, write

from hookline import AgentBuilder, HookOutcome, hook, tool
from hookline.capabilities import Subagent, Subagents
from hookline.errors import BuildError
from hookline.flow import RunLimits
from hookline.testing import ScriptedDriver, call, calls, say

REVIEWER = """\
---
name: code-reviewer
description: Use this agent when code was written. Examples: <example>Context: a "new" function</example>
tools: Read, Grep, Bash(git diff:*)
disallowedTools: Write
model: sonnet
color: blue
maxTurns: 7
permissionMode: default
---

You review code.

Be strict.
"""


@tool(effect="pure")
def search(pattern: str) -> str:
    """Search files."""
    return f"lines with {pattern}"


def agent_file(folder: Path, name: str, fields: str, body: str = "You help.") -> Path:
    """A file for one subagent."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: About {name}.\n{fields}\n---\n{body}\n")
    return path


def builder(*turns: Any, subagents: Subagents) -> AgentBuilder:
    """An agent that works on files."""
    made = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_limits(steps=99)
    return made.with_tools(read, search, write, bash).with_capability(subagents)


def spawn(agent: str) -> Any:
    """A call that starts one."""
    return call("spawn_subagent", agent=agent, prompt="go on")


def test_a_published_file_is_read_as_it_is(tmp_path: Path) -> None:
    """All of its front matter is kept."""
    (tmp_path / "reviewer.md").write_text(REVIEWER)
    agents = Subagents(tmp_path).agents
    reviewer = agents["code-reviewer"]
    assert reviewer.prompt == "You review code.\n\nBe strict."
    assert reviewer.description.endswith('Context: a "new" function</example>')
    assert reviewer.tools == ("Read", "Grep", "Bash(git diff:*)")
    assert reviewer.disallowed_tools == ("Write",)
    assert reviewer.limits == RunLimits(steps=7, tokens=None, seconds=None)
    assert (reviewer.model, reviewer.fields["color"]) == ("sonnet", "blue")


async def test_it_runs_with_the_tools_of_the_agent(tmp_path: Path) -> None:
    """Under the names they have here."""
    (tmp_path / "reviewer.md").write_text(REVIEWER)
    model = ScriptedDriver(
        [calls(call("bash", command="git diff HEAD"), call("bash", command="git push")), say("ok")]
    )
    heard: list[Any] = []
    made = builder(spawn("code-reviewer"), subagents=Subagents(tmp_path, models={"sonnet": model}))
    result = await made.on_event(heard.append).build().run("go")
    assert result.steps[0].results[0].result == "ok"
    assert [spec.name for spec in model.requests[0].tools] == ["read", "search", "bash"]
    assert model.requests[0].system == "You review code.\n\nBe strict."
    results = [each.result.text for each in heard if each.type == "tool_result"]
    assert results[:2] == [
        "ran git diff HEAD",
        "Blocked: subagent 'code-reviewer' may only use Bash(git diff:*)",
    ]


def test_directories_files_and_code_together(tmp_path: Path) -> None:
    """Earlier ones go first; what is left out is said; what is no agent is no mistake."""
    agent_file(tmp_path / "mine", "a", "", "mine")
    agent_file(tmp_path / "theirs", "a", "", "theirs")
    agent_file(tmp_path / "theirs/sub", "b", "")
    agent_file(tmp_path / "theirs", "off", "disabled: true")
    (tmp_path / "theirs/README.md").write_text("# About these agents")
    (tmp_path / "theirs/notes.txt").write_text("x")
    agent_file(tmp_path / "theirs/.cache", "hidden", "")
    single = agent_file(tmp_path, "single", "")
    sources = [tmp_path / "mine", tmp_path / "theirs"]
    agents = Subagents(Subagent("b", "In code."), sources, single)
    assert list(agents.agents) == ["b", "a", "single"]
    assert agents.agents["a"].prompt == "mine"
    lint = [str(each) for each in builder(subagents=agents).build().lint()]
    assert any("theirs/a.md: it is ignored" in each for each in lint)
    assert any("theirs/sub/b.md: it is ignored, because 'b' (in code)" in each for each in lint)


def test_a_name_that_is_missing_is_that_of_the_file(tmp_path: Path) -> None:
    """As some write them."""
    (tmp_path / "helper.md").write_text("---\ndescription: Helps.\n---\nHelp.")
    assert list(Subagents(tmp_path).agents) == ["helper"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            "tools: Read, Raed",
            r"a\.md: subagent 'a': there is no tool 'Raed' .*Did you mean 'read'\?",
        ),
        ("disallowedTools: Wriet", "there is no tool 'Wriet'"),
        ("tools: Agent(b)", "there is no subagent 'b'"),
        ("maxTurns: many", r"a\.md:4: 'maxTurns' should be a whole number"),
        ("limits: 7", r"a\.md:4: 'limits' should name limits"),
        ("limits: {steps: few}", r"a\.md:4: limit steps='few' is not a number"),
        ("limits: {stps: 1}", r"a\.md: subagent 'a': there is no limit 'stps'"),
        ("permissionMode: wild", r"a\.md:4: there is no mode 'wild'"),
        ("hooks: {PreToolUse: [x]}", r"a\.md:4: it has hooks that are commands"),
        ("hooks: [guard]", r"a\.md:4: there is no hook 'guard'\. Hooks: none"),
        ("skills: pdf", r"a\.md: subagent 'a': it has skills \(pdf\), but their directory"),
        ("model: nonsense", r"a\.md: subagent 'a': .*nonsense"),
        ("tools: 'Bash('", r"a\.md: subagent 'a': .*never closed"),
        ("tools: [", r"a\.md:4: the front matter is not YAML"),
        ("disabled: perhaps", r"a\.md:4: 'disabled' should be true or false"),
    ],
)
def test_what_is_wrong_is_an_error_with_the_file(tmp_path: Path, fields: str, words: str) -> None:
    """Before anything runs."""
    agent_file(tmp_path, "a", fields)
    with pytest.raises(BuildError, match=words):
        builder(subagents=Subagents(tmp_path)).build()


def test_a_file_without_front_matter_or_description(tmp_path: Path) -> None:
    """Is no agent, and says so."""
    (tmp_path / "a.md").write_text("# Just text")
    with pytest.raises(BuildError, match=r"a\.md: it has no front matter"):
        Subagents(tmp_path)
    (tmp_path / "a.md").write_text("---\nname: a(b)\ndescription: d\n---\nx")
    with pytest.raises(BuildError, match=r"a\.md: 'a\(b\)' is not a valid name for a subagent"):
        Subagents(tmp_path)
    (tmp_path / "a.md").write_text("---\nname: a\n---\nx")
    with pytest.raises(BuildError, match=r"a\.md: subagent 'a': it has no description"):
        Subagents(tmp_path)


def test_tools_that_only_others_have_are_done_without(tmp_path: Path) -> None:
    """It is said; a subagent that has nothing left is not offered."""
    agent_file(tmp_path, "some", "tools: Read, WebSearch, mcp__linear__create")
    agent_file(tmp_path, "none", "tools: WebSearch, WebFetch")
    agent = builder(subagents=Subagents(tmp_path)).build()
    spawner = agent.definition.toolbox.get("spawn_subagent")
    assert spawner is not None
    assert "some: About some." in spawner.description
    assert "none: About none." not in spawner.description
    explanation = agent.explain().replace("\n" + " " * 16, " ")
    assert "it does not get WebSearch, mcp__linear__create" in explanation
    assert any("it is ignored: the agent has none of WebSearch" in str(e) for e in agent.lint())


@pytest.mark.parametrize("tools", ["Read, json-db, redis, docker", "[Read, eslint, kubectl]"])
def test_names_that_are_no_tools_anywhere_are_done_without(tmp_path: Path, tools: str) -> None:
    """Published files list programs and services among the tools; `lint()` says what will not be had."""
    agent_file(tmp_path, "a", f"tools: {tools}")
    agent = builder(subagents=Subagents(tmp_path)).build()
    explanation = agent.explain()
    assert "subagents: a: read " in explanation.replace("\n" + " " * 16, " ")
    names = ", ".join(tools.strip("[]").split(", ")[1:])
    # Where the lines are parted depends on how long the path is, and a hyphen is a place to part them.
    assert "".join(f"a.md: it does not get {names}".split()) in "".join(explanation.split())
    assert any(f"has a tool {names}." in str(finding) for finding in agent.lint())


@pytest.mark.parametrize("tools", ["All tools", "all", "'*'"])
def test_all_tools_are_all_of_them(tmp_path: Path, tools: str) -> None:
    """As other agents show a file that lists none."""
    agent_file(tmp_path, "a", f"tools: {tools}")
    agent = builder(subagents=Subagents(tmp_path)).build()
    explanation = agent.explain().replace("\n" + " " * 16, " ")
    names = [tool.name for tool in agent.definition.toolbox if tool.name != "spawn_subagent"]
    assert f"subagents: a: {', '.join(names)}; starts a" in explanation
    assert agent.lint() == []


def test_other_pages_of_a_directory_are_passed_over(tmp_path: Path) -> None:
    """A guide next to the definitions does not disable them; `lint` reports that it is no definition."""
    agent_file(tmp_path, "a", "")
    (tmp_path / "GUIDE.md").write_text("# How to use these agents")
    agent = builder(subagents=Subagents(tmp_path)).build()
    words = "GUIDE.md: it has no front matter, so it describes no subagent and is ignored."
    assert any(words in str(finding) for finding in agent.lint())
    with pytest.raises(BuildError, match="it has no front matter"):
        Subagents(tmp_path / "GUIDE.md")


def test_what_is_forbidden_need_not_be_there(tmp_path: Path) -> None:
    """A tool that others have is forbidden all the same, should the agent get it."""
    agent_file(tmp_path, "a", "tools: []\ndisallowedTools: WebFetch, NotebookEdit, Task")
    agent = builder(subagents=Subagents(tmp_path)).build()
    assert "subagents: a: no tools" in agent.explain()
    assert agent.lint() == []


def test_a_model_without_a_key_is_an_error_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what else can be done, and that works."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    agent_file(tmp_path, "a", "model: anthropic:some-model")
    words = r"a\.md: subagent 'a': .*anthropic.*Or map the name to a model: Subagents\(models="
    with pytest.raises(BuildError, match=words):
        builder(subagents=Subagents(tmp_path)).build()
    model = ScriptedDriver([say("x")])
    builder(subagents=Subagents(tmp_path, models={"anthropic:some-model": model})).build()


def test_a_model_as_other_agents_name_it_is_the_starters_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A published file works with whatever model there is; `explain()` says so, until the name has a meaning."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    agent_file(tmp_path, "a", "model: claude-sonnet-4-6")
    agent = builder(spawn("a"), say("It reports."), subagents=Subagents(tmp_path)).build()
    assert "'claude-sonnet-4-6' cannot be used as a model here" in " ".join(agent.explain().split())
    assert agent.run_sync("Go.").steps[0].results[0].text == "It reports."
    model = ScriptedDriver([say("Mine.")])
    mapped = Subagents(tmp_path, models={"claude-sonnet-4-6": model})
    agent = builder(spawn("a"), subagents=mapped).build()
    assert "is no model" not in " ".join(agent.explain().split())
    assert agent.run_sync("Go.").steps[0].results[0].text == "Mine."


async def test_modes_only_ever_tighten(tmp_path: Path) -> None:
    """`plan` gives what changes nothing; `dontAsk` answers no; what would loosen does not."""
    agent_file(tmp_path, "planner", "permissionMode: plan\nmodel: m")
    agent_file(tmp_path, "quiet", "permissionMode: dontAsk\nmodel: n")
    agent_file(tmp_path, "wild", "permissionMode: bypassPermissions\nmodel: o")
    planner, quiet, wild = (
        ScriptedDriver([say("x")]),
        ScriptedDriver([call("write", path="a"), say("x")]),
        ScriptedDriver([call("write", path="b"), say("x")]),
    )
    heard: list[Any] = []
    asked: list[Any] = []

    def approve(question: Any) -> bool:
        asked.append(question.tool_call.args["path"])
        return True

    made = builder(
        spawn("planner"),
        spawn("quiet"),
        spawn("wild"),
        subagents=Subagents(tmp_path, models={"m": planner, "n": quiet, "o": wild}),
    ).with_approver(approve)
    made.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), matcher="write", tier="policy")
    agent = made.on_event(heard.append).build()
    await agent.run("go")
    assert [spec.name for spec in planner.requests[0].tools] == ["read", "search"]
    explanation = [each.result.text for each in heard if each.type == "tool_result"]
    assert explanation[1].startswith("Denied")
    assert explanation[3] == "wrote b"
    assert asked == ["b"]
    assert "'bypassPermissions' has no effect" in agent.explain().replace("\n" + " " * 16, " ")


async def test_hooks_by_name(tmp_path: Path) -> None:
    """Out of those that the program has."""
    agent_file(tmp_path, "a", "hooks: [no-writing]\nmodel: m")
    model = ScriptedDriver([call("write", path="a"), say("x")])
    no = hook("PreToolUse", lambda ctx: HookOutcome.block("not here"), matcher="write")
    heard: list[Any] = []
    agents = Subagents(tmp_path, models={"m": model}, hooks={"no-writing": no})
    await builder(spawn("a"), subagents=agents).on_event(heard.append).build().run("go")
    assert next(e.result.text for e in heard if e.type == "tool_result") == "Blocked: not here"


async def test_skills_it_has_from_the_start(tmp_path: Path) -> None:
    """Their text follows its prompt; one that is not there is an error with the file."""
    (tmp_path / "skills/pdf").mkdir(parents=True)
    (tmp_path / "skills/pdf/SKILL.md").write_text("---\ndescription: d\n---\nFill it in.")
    agent_file(tmp_path / "agents", "a", "skills: [pdf]\nmodel: m")
    model = ScriptedDriver([say("x")])
    agents = Subagents(tmp_path / "agents", models={"m": model}, skills=tmp_path / "skills")
    await builder(spawn("a"), subagents=agents).build().run("go")
    assert model.requests[0].system.startswith("You help.\n\n# Skill: pdf")
    assert "Fill it in." in model.requests[0].system
    agent_file(tmp_path / "agents", "b", "skills: pfd")
    with pytest.raises(BuildError, match=r"b\.md: there is no skill 'pfd'\. Skills: pdf"):
        builder(
            subagents=Subagents(
                tmp_path / "agents", models={"m": model}, skills=tmp_path / "skills"
            )
        ).build()


def test_what_is_not_kept_is_said(tmp_path: Path) -> None:
    """Servers that are not started, and isolation that does not exist."""
    agent_file(tmp_path, "a", "mcpServers: [linear]\nisolation: worktree")
    found = [str(each) for each in builder(subagents=Subagents(tmp_path)).build().lint()]
    assert any("a.md:4: its MCP servers are not started." in each for each in found)
    assert any("a.md:5: it is not isolated" in each for each in found)
