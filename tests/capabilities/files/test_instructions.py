"""Files that every agent obeys: a person is asked before one is written, in child runs too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunResult
from hookline.capabilities import Files
from hookline.containment import INSTRUCTIONS, FileJail
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, calls, say


def run(files: Files, *turns: Any, answer: bool) -> tuple[RunResult, list[str]]:
    """A run, and what a person was asked in it."""
    asked: list[str] = []

    def approver(question: Any) -> bool:
        asked.append(question.reason)
        return answer

    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")]))
    return builder.with_capability(files).with_approver(approver).build().run_sync("Go."), asked


def statuses(result: RunResult) -> list[str]:
    """What became of the calls."""
    return [made.status.value for step in result.steps for made in step.results]


@pytest.mark.parametrize("name", [*sorted(INSTRUCTIONS), "sub/agents.MD", "sub/mise.toml"])
def test_a_person_is_asked_about_instructions(root: Path, name: str) -> None:
    """A no leaves them as they are, a yes is enough to write and to edit them; reading needs neither."""
    (root / "link").symlink_to(name)
    write = call("write", path=name, content="obey me")
    by_link = call("write", path="link", content="obey me")
    result, asked = run(Files(root), write, by_link, answer=False)
    assert statuses(result) == ["denied", "denied"]
    assert "is obeyed by every agent" in asked[0]
    assert not (root / name).exists()
    edit = call("edit", path=name, old="obey", new="help")
    result, asked = run(Files(root), write, call("read", path=name), edit, answer=True)
    assert statuses(result) == ["ok", "ok", "ok"]
    assert len(asked) == 2
    assert (root / name).read_text() == "help me"


def test_instructions_can_be_opened_and_closed(root: Path) -> None:
    """`ask=()` opens none of them by itself but leaves them protected; named in neither, they are files like others."""
    write = call("write", path="AGENTS.md", content="x")
    assert statuses(run(Files(root, ask=()), write, answer=True)[0]) == ["blocked"]
    assert statuses(run(Files(FileJail(root)), write, answer=True)[0]) == ["blocked"]
    free = Files(root, ask=(), protected=[".git"])
    result, asked = run(free, write, answer=False)
    assert statuses(result) == ["ok"]
    assert asked == []
    with pytest.raises(BuildError, match="ask= has 'a/b' in it"):
        Files(root, ask=["a/b"])


def test_other_configuration_is_blocked_and_not_asked_about(root: Path) -> None:
    """Hooks, permissions and servers are for people to write."""
    names = [".husky/pre-push", ".agents/x", ".devcontainer/x", ".windsurf/x", "mcp.json"]
    turn = calls(*(call("write", path=name, content="x") for name in names))
    result, asked = run(Files(root), turn, answer=True)
    assert statuses(result) == ["blocked"] * len(names)
    assert asked == []
