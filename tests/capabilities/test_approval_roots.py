"""Where the paths in rules begin, and what `lint()` says about rules that cannot be meant as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, ToolContext, tool
from hookline.capabilities import Approval, Files
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, calls, say


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with secrets in it, which is not the current directory."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "secrets").mkdir()
    (root / "secrets" / "a").write_text("SECRET")
    (root / ".env").write_text("SECRET")
    (root / "src" / "notes.txt").symlink_to("../.env")
    (root / "src" / "plain.txt").write_text("plain")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return root


def came(project: Path, approval: Approval, *made: Any) -> list[str]:
    """What comes of calls of the file tools."""
    driver = ScriptedDriver([calls(*made), say("done")])
    agent = AgentBuilder().with_driver(driver).with_capability(Files(project))
    result = agent.with_capability(approval).build().run_sync("Go.")
    return [each.text() for step in result.steps for each in step.results]


def test_paths_in_rules_begin_where_the_files_do(project: Path) -> None:
    """However a file is named, the rule about it finds it, wherever the process was started."""
    approval = Approval(deny=["read(.env)", "read(secrets/**)"])
    paths = [
        ".env",
        str(project / ".env"),
        "src/notes.txt",
        "secrets/a",
        str(project / "secrets/a"),
    ]
    made = [*(call("read", path=path) for path in paths), call("search", pattern="SECRET")]
    assert all(text.startswith("Blocked: the rule") for text in came(project, approval, *made))
    assert came(project, approval, call("read", path="src/plain.txt")) == ["     1\tplain"]


def test_allowed_paths_begin_there_too(project: Path) -> None:
    """Edits are accepted, and writing is allowed, below the root of the files."""
    write = call("write", path="src/new.txt", content="x")
    allowed = Approval(allow="write(src/**)", mode="deny_unlisted")
    assert came(project, allowed, write)[0].startswith("Made")
    absolute = call("write", path=str(project / "src/other.txt"), content="x")
    assert came(project, allowed, absolute)[0].startswith("Made")
    assert came(project, Approval(ask="Edit", mode="accept_edits"), write) != []


def test_rules_of_a_parent_mean_its_own_files_in_a_child(project: Path) -> None:
    """A child that works in a directory below is held to what the parent's rules say about it."""

    @tool
    async def delegate(context: ToolContext) -> list[str]:
        """Have a child read."""
        driver = ScriptedDriver([call("read", path="a"), say("done")])
        child = AgentBuilder().with_driver(driver).with_capability(Files(project / "secrets"))
        result = await context.spawn(child.build(), "Go.", name="child")
        return [each.text() for step in result.steps for each in step.results]

    driver = ScriptedDriver([call("delegate"), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(delegate).with_capability(Files(project))
    agent.with_capability(Approval(deny="read(secrets/**)"))
    (step, _) = agent.build().run_sync("Go.").steps
    assert "Blocked: the rule" in step.results[0].text()


def test_two_roots_are_a_finding_and_forbid_from_both(project: Path, tmp_path: Path) -> None:
    """Rules that begin elsewhere than the calls forbid what either means, allow nothing, and lint says so."""
    approval = Approval(deny="read(.env)", allow="write(src/**)", mode="deny_unlisted", root=".")
    made = [call("read", path=".env"), call("write", path="src/b", content="x")]
    assert all(text.startswith("Blocked") for text in came(project, approval, *made))
    agent = AgentBuilder().with_driver(ScriptedDriver([])).with_capability(Files(project))
    (found,) = agent.with_capability(approval).build().lint()
    assert "paths in rules begin at" in str(found)
    assert str(project) in str(found)


def test_explain_says_where_paths_begin(project: Path) -> None:
    """Without a root of its own, the capability reports which one it found."""
    agent = AgentBuilder().with_driver(ScriptedDriver([])).with_capability(Files(project))
    built = agent.with_capability(Approval(deny="read(.env)")).build()
    assert built.lint() == []
    assert "paths in rules begin at" in str(built.explain())


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Rules that begin nowhere would forbid nothing."""
    with pytest.raises(BuildError, match="there is no directory"):
        Approval(root=tmp_path / "nowhere")


def test_a_rule_about_no_tool_is_a_finding() -> None:
    """A name that no tool has is reported with the one that was probably meant; what may come later is not."""

    @tool
    def deploy(env: str) -> str:
        """Deploy."""
        return env

    rules = ["raed(.env)", "bsh(git push *)", "deplyo", "zzz(x)"]
    fine = [
        "bash(git push *)",
        "Read(.env)",
        "deploy(env=prod)",
        "mcp__gh__create",
        "my_*",
        "files.write(a)",
    ]
    approval = Approval(deny=[*rules, *fine])
    agent = AgentBuilder().with_driver(ScriptedDriver([])).with_tools(deploy)
    found = [str(each) for each in agent.with_capability(approval).build().lint()]
    assert len(found) == len(rules)
    for text, meant in zip(found, ["read", "bash", "deploy"], strict=False):
        assert f"Did you mean '{meant}'?" in text
