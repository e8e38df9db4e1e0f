"""Hooks in the front matter of subagents and skills: where they hold, and what happens while they are not trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hook_commands import holds
from run_results import result_texts

from hookline import Agent, AgentBuilder, ToolCall, tool
from hookline.capabilities import Skills, Subagents
from hookline.command_hooks import CommandHooks, Level, TrustStore
from hookline.errors import BuildError
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.state import AgentState
from hookline.testing import ScriptedDriver, call, say

GUARD = """\
hooks:
  PreToolUse:
    - matcher: Bash
      hooks:
        - type: command
          command: echo "not in {name}" >&2; exit 2
"""


def page(stage: Any, name: str, hooks: str, *, home: bool = False) -> Path:
    """A subagent's page, with these hooks."""
    head = f"name: {name}\ndescription: About {name}.\ntools: Bash, Agent\n"
    text = f"---\n{head}{hooks}---\nDo it."
    return stage.file(f".claude/agents/{name}.md", text, home=home)  # type: ignore[no-any-return]


def skill(stage: Any, name: str, hooks: str) -> Path:
    """A skill with these hooks."""
    text = f"---\nname: {name}\ndescription: About {name}.\n{hooks}---\nDo it."
    return stage.file(f".claude/skills/{name}/SKILL.md", text)  # type: ignore[no-any-return]


def places(stage: Any) -> dict[str, list[Path]]:
    """Where the pages of the project are, as far as there are any."""
    found = {
        "agents": stage.root / ".claude/agents",
        "skills": stage.root / ".claude/skills",
    }
    return {kind: [place] for kind, place in found.items() if place.is_dir()}


def agent(stage: Any, *turns: Any, trust: Any = True) -> tuple[Agent, CommandHooks]:
    """An agent with the subagents and skills of the project, which all play these turns one after the other."""
    where = places(stage)
    hooks = stage.discover(trust=trust, **where)
    builder = AgentBuilder().with_driver(ScriptedDriver(list(turns))).with_tools(*stage.tools)
    if "agents" in where:
        builder.with_capability(Subagents(*where["agents"], commands=hooks))
    if "skills" in where:
        builder.with_capability(Skills(*where["skills"], commands=hooks))
    return builder.with_capability(hooks).build(), hooks


def spawn(name: str) -> Any:
    """A turn that starts a subagent."""
    return call("spawn_subagent", agent=name, prompt="go")


def test_the_hooks_of_a_subagent_hold_in_its_runs_only(stage: Any) -> None:
    """Whoever starts it, and another subagent, are not asked by them."""
    page(stage, "careful", GUARD.format(name="careful"))
    page(stage, "free", "")
    log = stage.root / "log"
    stage.tools = (_logging(log),)
    one, two, three, four = (call("bash", command=word) for word in ("a", "b", "c", "d"))
    turns = [one, spawn("careful"), two, say("so"), spawn("free"), three, say("so"), four]
    built, _ = agent(stage, *turns, say("done"))
    built.run_sync("go")
    assert log.read_text() == "acd"


def test_they_hold_in_what_the_subagent_starts_itself(stage: Any) -> None:
    """Otherwise it could have another do what it may not."""
    page(stage, "careful", GUARD.format(name="careful"))
    page(stage, "free", "")
    log = stage.root / "log"
    stage.tools = (_logging(log),)
    turns = [spawn("careful"), spawn("free"), call("bash", command="ls"), *[say("so")] * 3]
    built, _ = agent(stage, *turns)
    built.run_sync("go")
    assert not log.exists()


def _logging(log: Path) -> Any:
    @tool
    def bash(command: str) -> str:
        """Run a command."""
        with log.open("a") as file:
            file.write(command)
        return "ran"

    return bash


def test_the_stop_of_a_subagent_is_the_stop_of_a_subagent(stage: Any) -> None:
    """Its page says Stop; the script gets SubagentStop, and can send it back to work."""
    active = holds('event["stop_hook_active"]')
    is_named = holds('event["hook_event_name"] == "SubagentStop"')
    stage.script(
        "stop.sh",
        f'#!/bin/sh\ninput=$(cat)\necho "$input" | {is_named} || exit 1\n'
        f'echo "$input" | {active} && exit 0\necho more >&2\nexit 2\n',
    )
    hooks = "hooks:\n  Stop:\n    - hooks:\n        - {type: command, command: ./stop.sh}\n"
    page(stage, "worker", hooks)
    built, _ = agent(stage, spawn("worker"), say("short"), say("longer"), say("done"))
    assert result_texts(built.run_sync("go")) == ["longer"]


def test_the_hooks_of_a_skill_hold_from_when_it_is_loaded(stage: Any) -> None:
    """Unloading it does not take them back: a model cannot switch off a guard."""
    skill(stage, "careful", GUARD.format(name="careful"))
    ls = call("bash", command="ls")
    load, unload = (
        call("load_skill", name="careful"),
        call("load_skill", name="careful", unload=True),
    )
    built, _ = agent(stage, ls, load, ls, unload, ls, say("done"))
    said = result_texts(built.run_sync("go"))
    assert said[0] == "ran ls"
    assert said[2] == said[4] == "Blocked: not in careful"


def test_a_person_who_starts_a_skill_loads_its_hooks(stage: Any) -> None:
    """`/name` counts like load_skill."""
    skill(stage, "careful", GUARD.format(name="careful"))
    built, _ = agent(stage, call("bash", command="ls"), say("done"))
    assert result_texts(built.run_sync("/careful now")) == ["Blocked: not in careful"]


def test_once_is_once_and_only_for_skills(stage: Any) -> None:
    """One that objects keeps its turn; a subagent's page cannot say it."""
    log = stage.root / "log"
    entry = "        - {{type: command, once: true, command: 'echo {name} >> {log}{more}'}}\n"
    head = "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n"
    one = entry.format(name="once", log=log, more="")
    two = entry.format(name="no", log=log, more="; exit 2")
    skill(stage, "careful", head + one + two)
    ls = call("bash", command="ls")
    built, hooks = agent(stage, call("load_skill", name="careful"), ls, ls, ls, say("done"))
    built.run_sync("go")
    assert sorted(log.read_text().split()) == ["no"] * 3 + ["once"]
    assert [each.once for each in hooks.handlers] == [True, True]
    page(stage, "careful", head + one)
    _, hooks = agent(stage, say("done"))
    assert [each.once for each in hooks.handlers if each.agent] == [False]


def test_once_is_once_where_nothing_can_be_kept_in_the_state(stage: Any) -> None:
    """The hooks around children leave no trace there."""
    log = stage.root / "log"
    entry = f"{{type: command, once: true, command: 'echo x >> {log}'}}"
    skill(stage, "careful", f"hooks: {{SubagentStart: [{{hooks: [{entry}]}}]}}\n")
    page(stage, "free", "")
    turns = [call("load_skill", name="careful"), *[spawn("free"), say("so")] * 2, say("done")]
    built, _ = agent(stage, *turns)
    built.run_sync("go")
    assert log.read_text() == "x\n"


def test_the_hooks_of_a_skill_hold_in_the_next_run_of_the_conversation(stage: Any) -> None:
    """A skill that was loaded guards until the conversation is over."""
    skill(stage, "careful", GUARD.format(name="careful"))
    first, _ = agent(stage, call("load_skill", name="careful"), say("loaded"))
    state = first.run_sync("go").state
    second, _ = agent(stage, call("bash", command="ls"), say("done"))
    result = second.run_sync("more", state=state)
    assert result_texts(result)[-1] == "Blocked: not in careful"


def test_a_skill_finds_its_scripts(stage: Any) -> None:
    """Its folder is in the command and in the environment."""
    stage.script(
        ".claude/skills/careful/check.sh", '#!/bin/sh\necho "$CLAUDE_PLUGIN_ROOT" >&2; exit 2\n'
    )
    command = "${CLAUDE_SKILL_DIR}/check.sh"
    head = "hooks:\n  PreToolUse:\n    - hooks:\n"
    skill(stage, "careful", f"{head}        - {{type: command, command: '{command}'}}\n")
    ls = call("bash", command="ls")
    built, _ = agent(stage, call("load_skill", name="careful"), ls, say("done"))
    folder = stage.root / ".claude/skills/careful"
    assert result_texts(built.run_sync("go"))[1] == f"Blocked: {folder}"


@pytest.mark.parametrize("change", ["nothing", "script", "front matter", "page text"])
def test_pages_of_a_repository_are_trusted_as_they_are(stage: Any, change: str) -> None:
    """Front matter and scripts are what trust is bound to. What a model reads below it is not run."""
    stage.script("guard.sh", "#!/bin/sh\necho no >&2; exit 2\n")
    head = "hooks:\n  PreToolUse:\n    - hooks:\n        - {type: command, command: ./guard.sh}\n"
    path = page(stage, "careful", head)
    store = TrustStore(stage.root.parent / "trust.json")
    turns = [spawn("careful"), call("bash", command="ls"), say("one"), say("done")]
    built, hooks = agent(stage, *turns, trust=store)
    assert [each.agent for each in hooks.held_back] == ["careful"]
    assert "hookline trust" in hooks.warnings[0]
    refused = result_texts(built.run_sync("go"))[0]
    assert "the hooks of subagent 'careful'" in refused
    store.trust(stage.root)
    if change == "script":
        stage.script("guard.sh", "#!/bin/sh\nexit 0\n")
    elif change == "front matter":
        path.write_text(path.read_text().replace("tools: Bash, Agent", "tools: Bash"))
    elif change == "page text":
        path.write_text(path.read_text() + "\nAnd more.")
    _, hooks = agent(stage, *turns, trust=store)
    assert bool(hooks.handlers) is (change in ("nothing", "page text"))
    assert bool(hooks.held_back) is not bool(hooks.handlers)


def test_a_skill_whose_hooks_are_off_is_not_loaded(stage: Any) -> None:
    """Neither by the model nor by a person; without hooks it would do what its author guards."""
    skill(stage, "careful", GUARD.format(name="careful"))
    load = call("load_skill", name="Careful")
    built, _ = agent(stage, load, say("done"), trust=False)
    assert "the hooks of skill 'careful'" in result_texts(built.run_sync("go"))[0]
    built, _ = agent(stage, say("done"), trust=False)
    assert built.run_sync("/careful").stop_reason == "prompt_refused"


def test_pages_of_the_user_are_theirs(stage: Any) -> None:
    """They are not in the repository, so nobody has to trust them."""
    page(stage, "careful", GUARD.format(name="careful"), home=True)
    hooks = stage.discover(trust=False, agents=[stage.home / ".claude/agents"])
    (handler,) = hooks.handlers
    assert handler.source.level is Level.USER
    assert handler.source.label == "~/.claude/agents/careful.md"


def test_of_two_pages_with_one_name_the_first_counts(stage: Any) -> None:
    """As it does for the subagent: the hooks of one are never those of the other."""
    page(stage, "careful", "", home=True)
    page(stage, "careful", GUARD.format(name="careful"))
    both = [stage.home / ".claude/agents", stage.root / ".claude/agents"]
    assert not stage.discover(agents=both).handlers
    assert stage.discover(agents=both[::-1]).handlers


def test_a_link_in_the_repository_is_the_repositorys(stage: Any) -> None:
    """Wherever it leads to: the owner of the directory has chosen it."""
    page(stage, "careful", GUARD.format(name="careful"), home=True)
    (stage.root / "agents").symlink_to(stage.home / ".claude/agents")
    (held,) = stage.discover(trust=False, agents=[stage.root / "agents"]).held_back
    assert held.source.level is Level.PROJECT


def test_mistakes_in_front_matter_are_reported_and_the_rest_holds(stage: Any) -> None:
    """An unknown event, one that subagents do not have, and an invalid entry."""
    extra = "  Nonsense: []\n  SessionStart: []\n  PostToolUse: [7]\n"
    page(stage, "careful", GUARD.format(name="careful") + extra)
    _, hooks = agent(stage, say("done"))
    assert [each.event for each in hooks.handlers] == ["PreToolUse"]
    words = "\n".join(hooks.warnings)
    assert ".claude/agents/careful.md: 'Nonsense' is not an event" in words
    assert "SessionStart does not happen in a subagent" in words
    assert "PostToolUse has an entry that is not an object" in words


@pytest.mark.parametrize("wrong", ["Stop", "SubagentStop"])
def test_both_names_of_the_end_count_whatever_is_wrong_with_one(stage: Any, wrong: str) -> None:
    """The other stays in force."""
    right = "SubagentStop" if wrong == "Stop" else "Stop"
    good = "[{hooks: [{type: command, command: 'true'}]}]"
    page(stage, "careful", f"hooks: {{{wrong}: 7, {right}: {good}}}\n")
    _, hooks = agent(stage, say("done"))
    assert [each.event for each in hooks.handlers] == ["SubagentStop"]
    assert any("is not a list" in each for each in hooks.warnings)


def test_a_skill_may_spell_it_as_it_likes(stage: Any) -> None:
    """As with its other fields: a guard is not lost to a letter."""
    skill(stage, "careful", GUARD.format(name="careful").replace("hooks:", "Hooks:", 1))
    built, _ = agent(
        stage, call("load_skill", name="careful"), call("bash", command="ls"), say("so")
    )
    assert result_texts(built.run_sync("go"))[1] == "Blocked: not in careful"


def test_a_subagent_whose_hooks_nobody_runs_is_an_error(stage: Any) -> None:
    """No agents were named, they were not read, or `CommandHooks` is not in the agent."""
    page(stage, "careful", GUARD.format(name="careful"))
    where = stage.root / ".claude/agents"
    with pytest.raises(
        BuildError, match=r"careful\.md:5: it has hooks that are commands.*CommandHooks"
    ):
        Subagents(where)
    with pytest.raises(BuildError, match="it has hooks that are commands"):
        Subagents(where, commands=stage.discover())
    subagents = Subagents(where, commands=stage.discover(agents=[where]))
    builder = AgentBuilder().with_driver(ScriptedDriver([])).with_tools(*stage.tools)
    with pytest.raises(BuildError, match="its hooks are run by 'command-hooks'"):
        builder.with_capability(subagents).build()


def test_lint_reports_skills_whose_hooks_do_not_run(stage: Any) -> None:
    """And no longer does once somebody runs them."""
    path = skill(stage, "careful", GUARD.format(name="careful"))
    built, _ = agent(stage, say("done"))
    assert not [each for each in built.lint() if "not run" in str(each)]
    alone = AgentBuilder().with_driver(ScriptedDriver([])).with_capability(Skills(path.parent))
    assert [each for each in alone.build().lint() if "not run" in str(each)]


def test_a_test_of_hooks_asks_those_of_pages_too(stage: Any) -> None:
    """As they would be asked where they hold."""
    page(stage, "careful", GUARD.format(name="careful"))
    _, hooks = agent(stage, say("done"))
    (matcher,) = [
        each.matcher for each in hooks.hooks() if hasattr(each.matcher, "matches_anywhere")
    ]
    asked = ToolHookContext(
        point=HookPoint.BEFORE_TOOL_USE,
        state=AgentState(run_id="r"),
        tool_call=ToolCall("1", "bash", {"command": "ls"}),
    )
    assert not matcher.matches(asked)
    assert matcher.matches_anywhere(asked)


def test_the_agent_cannot_write_a_page_with_hooks(stage: Any) -> None:
    """It is a file of a hook like any other."""
    path = page(stage, "careful", GUARD.format(name="careful"))
    built, hooks = agent(stage, call("write", path=str(path), content="x"), say("done"))
    assert str(path) in hooks.protected_files()
    assert "is used by a hook" in result_texts(built.run_sync("go"))[0]


def test_switched_off_hooks_are_off_in_pages_too(stage: Any) -> None:
    """The user's disableAllHooks is for all of theirs, and for those of repositories."""
    page(stage, "careful", GUARD.format(name="careful"))
    stage.file(".claude/settings.json", {"disableAllHooks": True}, home=True)
    hooks = stage.discover(agents=[stage.root / ".claude/agents"])
    assert not hooks.handlers
    assert any("disableAllHooks" in each for each in hooks.warnings)
