"""A skill's allowed-tools hold while it is active: until another is loaded, it is unloaded, or the run ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pretend import bash, read, write

from hookline import AgentBuilder, AgentState, HookOutcome, RunStatus, SQLiteJournal, tool
from hookline.capabilities import Skills, Subagent, Subagents
from hookline.testing import ScriptedDriver, call, calls, check_hook, say


@tool
def bash_poll(id: str) -> str:
    """See how a command is doing."""
    return f"{id} is running"


@tool(effect="pure")
def structured_output(answer: str) -> str:
    """Give the answer."""
    return answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Skills that allow this and that."""
    for name, allowed in {
        "reader": "Read, Bash(git:*)",
        "docs": "Read(docs/**)",
        "nothing": "[]",
        "anything": "'*'",
        "free": "",
    }.items():
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: d\nallowed-tools: {allowed}\n---\nDo it."
        )
    return tmp_path / "skills"


def builder(skills: Skills, *turns: Any) -> AgentBuilder:
    """An agent that makes these turns."""
    driver = ScriptedDriver([*turns, say("done")])
    made = AgentBuilder().with_driver(driver).with_tools(read, write, bash, bash_poll)
    return made.with_tools(structured_output).with_capability(skills)


def result_texts(result: Any) -> list[str]:
    """The text of every result, the loading of skills apart."""
    results = [each for step in result.steps for each in step.results]
    return [each.text for each in results if each.name != "load_skill"]


WRITE = call("write", path="a")


def blocked(name: str, allowed: str) -> str:
    """What a model reads."""
    return (
        f"Blocked: skill '{name}' is active and allows only {allowed}; "
        "unload it first if you are done with it"
    )


async def test_only_what_it_allows_runs(folder: Path) -> None:
    """By the names and rules of other agents; what gives the answer, and what looks after a command, always may."""
    result = (
        await builder(
            Skills(folder),
            WRITE,
            call("load_skill", name="reader"),
            calls(
                call("read", path="a"),
                call("bash", command="git status && git log"),
                call("bash", command="git status; rm -rf x"),
                call("bash", command="git $(rm x)"),
                call("bash_poll", id="1"),
                call("structured_output", answer="yes"),
                WRITE,
            ),
        )
        .build()
        .run("go")
    )
    no = blocked("reader", "Read, Bash(git:*)")
    assert result_texts(result) == [
        "wrote a",
        "text of a",
        "ran git status && git log",
        no,
        no,
        "1 is running",
        "yes",
        no,
    ]


async def test_rules_about_paths_hold(folder: Path) -> None:
    """From the root that was named."""
    result = (
        await builder(
            Skills(folder, root="/project"),
            call("load_skill", name="docs"),
            calls(
                call("read", path="docs/a.md"),
                call("read", path="/project/docs/b.md"),
                call("read", path="docs/../secret"),
            ),
        )
        .build()
        .run("go")
    )
    no = blocked("docs", "Read(docs/**)")
    assert result_texts(result) == ["text of docs/a.md", "text of /project/docs/b.md", no]


@pytest.mark.parametrize(
    ("then", "outcome"),
    [
        (call("load_skill", name="nothing"), "no tools at all"),
        (call("load_skill", name="anything"), "wrote a"),
        (call("load_skill", name="free"), "wrote a"),
        (call("load_skill", name="reader", unload=True), "wrote a"),
        (call("load_skill", name="free", unload=True), "allows only Read"),
        (call("load_skill", name="unknown"), "allows only Read"),
        (call("load_skill", name="free", file="x.md"), "allows only Read"),
    ],
)
async def test_when_a_skill_stops_being_active(folder: Path, then: Any, outcome: str) -> None:
    """When another is loaded, or when it is unloaded itself; not by what fails, or by looking at a file."""
    turns = [call("load_skill", name="reader"), then, WRITE]
    result = await builder(Skills(folder), *turns).build().run("go")
    assert outcome in result_texts(result)[-1]


async def test_a_run_begins_without_an_active_skill(folder: Path) -> None:
    """Also one that continues with a conversation in which one was."""
    agent = builder(
        Skills(folder), call("load_skill", name="reader"), WRITE, say("first"), WRITE
    ).build()
    first = await agent.run("go")
    second = await agent.run("more", state=first.state)
    assert "allows only" in result_texts(first)[0]
    assert result_texts(second) == ["wrote a"]


async def test_outside_may_ask_instead(folder: Path) -> None:
    """A person may let a call through that the skill does not mention."""
    turns = [call("load_skill", name="reader"), WRITE]
    asked: list[str] = []

    def approve(question: Any) -> bool:
        asked.append(question.reason)
        return True

    agent = builder(Skills(folder, outside="ask"), *turns).with_approver(approve).build()
    assert result_texts(await agent.run("go")) == ["wrote a"]
    assert asked == ["skill 'reader' is active and allows only Read, Bash(git:*)"]


async def test_what_a_skill_allows_is_no_permission(folder: Path) -> None:
    """A policy that asks, asks; a skill cannot give what its user did not."""
    turns = [call("load_skill", name="reader"), call("read", path="a")]
    made = builder(Skills(folder), *turns).with_approver("deny")
    made.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), matcher="read", tier="policy")
    assert result_texts(await made.build().run("go"))[0].startswith("Denied")


async def test_it_holds_after_a_pause_even_if_the_files_have_changed(folder: Path) -> None:
    """What counts is what was loaded."""

    def asking(*turns: Any) -> Any:
        made = builder(Skills(folder), *turns)
        return made.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), matcher="read").build()

    turns = [call("load_skill", name="reader"), call("read", path="a")]
    paused = await asking(*turns).run("go")
    assert paused.status is RunStatus.PAUSED
    (folder / "reader/SKILL.md").write_text("---\nname: reader\ndescription: d\n---\nFree.")
    state = AgentState.from_json(paused.state.to_json())
    answers = {each.id: True for each in state.pending}
    result = await asking(WRITE).resume(state, answers)
    assert result_texts(result) == ["text of a", blocked("reader", "Read, Bash(git:*)")]


async def test_a_skill_that_is_gone_can_still_be_unloaded(folder: Path, tmp_path: Path) -> None:
    """Or the run would be held to it forever."""

    def asking(*turns: Any) -> Any:
        made = builder(Skills(folder), *turns)
        return made.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), matcher="read").build()

    paused = await asking(call("load_skill", name="reader"), call("read", path="a")).run("go")
    (folder / "reader").rename(tmp_path / "elsewhere")
    unload = call("load_skill", name="Reader", unload=True)
    answers = {each.id: True for each in paused.pending}
    result = await asking(WRITE, unload, WRITE).resume(paused.state, answers)
    assert "allows only" in result_texts(result)[1]
    assert result_texts(result)[2] == "wrote a"


async def test_it_holds_when_another_process_takes_the_run_up(folder: Path, tmp_path: Path) -> None:
    """From the journal alone."""
    journal = SQLiteJournal(tmp_path / "runs.db")

    def made(*turns: Any) -> Any:
        return builder(Skills(folder), *turns).with_journal(journal)

    first = made(call("load_skill", name="reader"), call("read", path="a"))
    first.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), matcher="read")
    paused = await first.build().run("go", run_id="r")
    again = made(WRITE).build()
    result = await again.resume("r", {each.id: True for each in paused.pending})
    await journal.close()
    assert result_texts(result)[-1] == blocked("reader", "Read, Bash(git:*)")


async def test_it_holds_in_what_the_agent_starts(folder: Path) -> None:
    """A subagent does not do what its starter may not; and it can have an active skill of its own besides."""
    (folder / "reader/SKILL.md").write_text(
        "---\nname: reader\ndescription: d\nallowed-tools: Read, Agent\n---\n"
    )
    turns = [
        WRITE,
        call("read", path="a"),
        call("load_skill", name="nothing"),
        call("read", path="b"),
    ]
    helper = ScriptedDriver([*turns, say("tried")])
    heard: list[Any] = []
    made = builder(
        Skills(folder),
        call("load_skill", name="reader"),
        call("spawn_subagent", agent="helper", prompt="write it"),
    ).with_capability(Subagents(Subagent("helper", "Helps.", model=helper)))
    result = await made.on_event(heard.append).build().run("go", run_id="r")
    below = [
        record.result.text
        for record in heard
        if record.type == "tool_result" and record.run_id != "r"
    ]
    assert below[0] == blocked("reader", "Read, Agent")
    assert below[1] == "text of a"
    assert below[3] == blocked("nothing", "no tools at all")
    assert "skills.active" in result.state.metadata
    assert "# Skills" in helper.requests[0].system


async def test_the_policy_is_the_same_however_the_agent_is_driven(folder: Path) -> None:
    """Run, streamed, step by step, in parallel, and as a subagent."""
    skills = Skills(folder)
    policy = next(each for each in skills.hooks() if each.tier == "policy")

    def start(made: AgentBuilder) -> None:
        active = {"name": "reader", "allowed": ["Read"], "digest": ""}
        made.on_execution_start(lambda ctx: ctx.with_metadata("skills.active", active))

    report = await check_hook(
        "before_tool_use",
        policy.hook,
        tier="policy",
        name="skills-allowed-tools",
        script=[call("read", path="a"), call("write", path="a"), say("done")],
        tools=[read, write],
        configure=start,
    )
    assert report.ok, report
    assert "block" in report.verdicts
