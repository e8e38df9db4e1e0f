"""Skills in an agent: shown by name, loaded when needed, started by people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline import AgentBuilder, tool
from hookline.capabilities import Skills
from hookline.errors import BuildError
from hookline.markdown import SkillLibrary
from hookline.testing import ScriptedDriver, call, calls, say


@tool(effect="pure")
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


def skill(folder: Path, fields: str = "", body: str = "Do it.") -> Path:
    """A skill, by its folder's name."""
    folder.mkdir(parents=True)
    head = f"name: {folder.name}\ndescription: About {folder.name}."
    (folder / "SKILL.md").write_text(f"---\n{head}\n{fields}\n---\n{body}")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two skills for models, and one for people."""
    pdf = skill(tmp_path / "pdf", body="Fill $ARGUMENTS in.")
    (pdf / "references").mkdir()
    (pdf / "references/forms.md").write_text("All about forms.")
    skill(tmp_path / "git")
    skill(tmp_path / "deploy", "disable-model-invocation: true", "Deploy to $0.")
    return tmp_path


def agent(*turns: Any, skills: Skills) -> tuple[Any, ScriptedDriver]:
    """An agent with these skills, and its driver."""
    driver = ScriptedDriver([*turns, say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(read).with_capability(skills)
    return builder.with_system_prompt("Be kind.").build(), driver


async def test_before_each_step_the_model_is_shown_names_and_descriptions(folder: Path) -> None:
    """In the request only: the conversation does not grow by it. What is for people is not shown."""
    built, driver = agent(call("read", path="a"), skills=Skills(folder))
    result = await built.run("go")
    for request in driver.requests:
        assert request.system.startswith("Be kind.\n\n# Skills\n")
        assert "- git: About git.\n- pdf: About pdf." in request.system
        assert "deploy" not in request.system
        assert "Fill" not in request.system
    assert not any("About pdf" in message.text for message in result.state.messages)


async def test_a_skill_is_loaded_with_a_list_of_its_files(folder: Path) -> None:
    """And a file of it with another call."""
    built, _ = agent(
        call("load_skill", name="pdf", arguments="form 7"),
        call("load_skill", name="pdf", file="references/forms.md"),
        skills=Skills(folder),
    )
    page, file = result_texts(await built.run("go"))
    assert "Fill form 7 in." in page
    assert "- references/forms.md (16 bytes)" in page
    assert file == "All about forms."


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"name": "pdff"}, "there is no skill 'pdff'. Did you mean 'pdf'? Skills: git, pdf."),
        ({"name": "deploy"}, "only a person can start the skill 'deploy'."),
        ({"name": "deploy", "file": "x"}, "only a person can start the skill 'deploy'."),
        ({"name": "pdf", "file": "../git/SKILL.md"}, "skill 'pdf' has no file '../git/SKILL.md'."),
        ({"name": "pdf", "file": "/etc/passwd"}, "has no file '/etc/passwd'."),
    ],
)
async def test_what_cannot_be_loaded_is_an_error_the_model_can_act_on(
    folder: Path, args: dict[str, Any], words: str
) -> None:
    """It names what there is."""
    built, _ = agent(call("load_skill", **args), skills=Skills(folder))
    (text,) = result_texts(await built.run("go"))
    assert words in text


async def test_people_start_a_skill_by_its_name(folder: Path) -> None:
    """`/name` and what it is for; other prompts stay as they are."""
    built, driver = agent(skills=Skills(folder))
    await built.run("/deploy staging now")
    assert "Deploy to staging." in driver.requests[0].messages[0].text
    for prompt in ("/unknown x", "/deploy/x", "what is /deploy?", "/etc/passwd is a file"):
        built, driver = agent(skills=Skills(folder))
        await built.run(prompt)
        assert driver.requests[0].messages[0].text == prompt


async def test_the_files_of_a_skill_that_a_person_started_can_be_read(folder: Path) -> None:
    """Though the model could not have loaded it."""
    (folder / "deploy/hosts.md").write_text("one, two")
    read_it = call("load_skill", name="deploy", file="hosts.md")
    built, _ = agent(read_it, skills=Skills(folder))
    assert result_texts(await built.run("/deploy staging")) == ["one, two"]


async def test_a_skill_that_is_not_for_people_is_not_started_by_them(tmp_path: Path) -> None:
    """`user-invocable: false` is for models only."""
    skill(tmp_path / "background", "user-invocable: false")
    built, driver = agent(skills=Skills(tmp_path))
    await built.run("/background")
    assert driver.requests[0].messages[0].text == "/background"
    assert "- background:" in driver.requests[0].system


async def test_a_long_list_is_cut_to_a_budget(tmp_path: Path) -> None:
    """Every name stays; descriptions share the room."""
    for number in range(100):
        skill(tmp_path / f"skill-{number}", f"when: {'x' * 10}").joinpath("SKILL.md").write_text(
            f"---\nname: skill-{number}\ndescription: {'word ' * 300}\n---\n"
        )
    built, driver = agent(skills=Skills(tmp_path))
    await built.run("go")
    system = driver.requests[0].system
    assert len(system) < 20_000
    assert all(f"- skill-{number}: word" in system for number in range(100))


async def test_an_agent_that_may_not_load_is_shown_nothing(folder: Path) -> None:
    """A hook that takes the tool out of a request takes the list out too, if it comes first."""
    driver = ScriptedDriver([say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(Skills(folder))
    builder.on_before_inference(lambda ctx: ctx.request.with_tools(()), priority=1)
    await builder.build().run("go")
    assert driver.requests[0].system == ""


def test_explain_and_lint_list_the_skills(folder: Path) -> None:
    """And what is wrong, with file and line; the rest works."""
    (folder / "broken").mkdir()
    (folder / "broken/SKILL.md").write_text("---\nname: x\ndescription: [\n---\n")
    skill(folder / "guarded", "hooks: {PreToolUse: []}\n")
    skill(folder / "guarded2", "hooks: {PreToolUse: [x]}\n")
    built, _ = agent(skills=Skills(folder))
    assert "5 skills: deploy, git, guarded, guarded2, pdf" in built.explain()
    found = [str(finding) for finding in built.lint()]
    assert any("broken/SKILL.md:3: the front matter is not YAML" in each for each in found)
    assert any("the hooks of skill 'guarded2' are not run" in each for each in found)


def test_wrong_use_is_an_error(folder: Path) -> None:
    """Before anything runs."""
    with pytest.raises(BuildError, match="there are no skills to give"):
        Skills()
    with pytest.raises(BuildError, match="outside='maybe' is not valid"):
        Skills(folder, outside="maybe")  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="from directories, or from one library"):
        Skills(SkillLibrary(folder), folder)
    with pytest.raises(BuildError, match="there is no directory"):
        Skills(folder / "nowhere")


async def test_a_changed_page_counts_when_the_agent_is_built_again(folder: Path) -> None:
    """What a run was shown stays what it loads."""
    built, _ = agent(call("load_skill", name="git"), skills=Skills(folder))
    (folder / "git/SKILL.md").write_text("---\nname: git\ndescription: d\n---\nChanged.")
    assert "Do it." in result_texts(await built.run("go"))[0]
    built, _ = agent(call("load_skill", name="git"), skills=Skills(folder))
    assert "Changed." in result_texts(await built.run("go"))[0]


async def test_several_calls_in_one_step(folder: Path) -> None:
    """Each gets its own; the last one loaded is active."""
    built, _ = agent(
        calls(call("load_skill", name="git"), call("load_skill", name="pdf")), skills=Skills(folder)
    )
    result = await built.run("go")
    assert len(result_texts(result)) == 2
    assert result.state.metadata["skills.active"]["name"] == "pdf"
