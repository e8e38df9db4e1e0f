"""Environment files: a person is asked before one is read, and searches pass over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunResult
from hookline.capabilities import Approval, Files
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, say


def run(
    files: Files, *turns: Any, answer: bool, mode: str = "default"
) -> tuple[RunResult, list[str]]:
    """A run, and what a person was asked in it."""
    asked: list[str] = []

    def approver(question: Any) -> bool:
        asked.append(question.reason)
        return answer

    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")]))
    builder = builder.with_capability(files).with_capability(Approval(mode=mode))
    return builder.with_approver(approver).build().run_sync("Go."), asked


def texts(result: RunResult) -> list[str]:
    """What the calls gave."""
    return [str(made.result) for step in result.steps for made in step.results]


@pytest.mark.parametrize("mode", ["default", "ask_unlisted", "accept_edits", "plan"])
@pytest.mark.parametrize("name", [".env", "deploy/prod.env", "link", "x/.env", "x/../.env"])
def test_reading_one_asks(root: Path, name: str, mode: str) -> None:
    """Also by a link, and where it is one; a no shows nothing, a yes shows it to that one call."""
    (root / "deploy").mkdir()
    (root / "x").mkdir()
    for path in (".env", "deploy/prod.env"):
        (root / path).write_text("KEY=a-secret\n")
    (root / "link").symlink_to(".env")
    (root / "settings").write_text("KEY=a-secret\n")
    (root / "x" / ".env").symlink_to("../settings")
    read = call("read", path=name)
    result, asked = run(Files(root), read, answer=False, mode=mode)
    assert len(asked) == 1
    assert "environment file" in asked[0]
    assert "a-secret" not in "".join(texts(result))
    result, asked = run(Files(root), read, read, answer=True, mode=mode)
    assert len(asked) == 2
    assert "a-secret" in texts(result)[0]


def test_a_search_passes_over_them(root: Path) -> None:
    """It says so; named as the path, a person is asked. A sample is searched."""
    for path in ("prod.env", "prod.env.example", "notes.md"):
        (root / path).write_text("KEY=a-secret\n")
    search = call("search", pattern="a-secret", everything=True)
    result, asked = run(Files(root), search, answer=False)
    assert asked == []
    assert "prod.env:" not in texts(result)[0]
    assert "prod.env.example" in texts(result)[0]
    assert "notes.md" in texts(result)[0]
    assert "1 environment file left out" in texts(result)[0]
    result, asked = run(
        Files(root), call("search", pattern="a-secret", path="prod.env"), answer=False
    )
    assert len(asked) == 1


def test_they_can_be_shown(root: Path) -> None:
    """By name or by path."""
    for path in (".env", "src/.env"):
        (root / path).write_text("KEY=a-secret\n")
    result, asked = run(Files(root, show=[".env"]), call("read", path="src/.env"), answer=False)
    assert (asked, "a-secret" in texts(result)[0]) == ([], True)
    result, asked = run(Files(root, show=["./src/.env"]), call("read", path=".env"), answer=False)
    assert len(asked) == 1
    with pytest.raises(BuildError, match="show="):
        Files(root, show=".env")
