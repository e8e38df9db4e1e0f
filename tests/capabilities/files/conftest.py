"""A directory with a few files, and a way to call the tools on it through a whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Files
from hookline.state import ToolResult
from hookline.testing import ScriptedDriver, calls, say


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`root/` with a program, a text and something that git ignores; a secret beside it."""
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("import os\n\n\ndef main():\n    return 1\n")
    (root / "notes.txt").write_text("one\ntwo\nthree\n")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "debug.log").write_text("main was called\n")
    (root / "build").mkdir()
    (root / "build" / "out.txt").write_text("main\n")
    (root / ".hidden").write_text("main\n")
    (tmp_path / "secret.txt").write_text("secret main\n")
    return root


Use = Callable[..., list[ToolResult]]


@pytest.fixture
def use(root: Path) -> Use:
    """Run calls, one step for each, or for each list of them; gives their results, in order."""

    def use(*steps: Any, files: Files | None = None) -> list[ToolResult]:
        turns = [calls(*step) if isinstance(step, list) else step for step in steps]
        agent = (
            AgentBuilder()
            .with_driver(ScriptedDriver([*turns, say("done")]))
            .with_capability(files or Files(root))
            .build()
        )
        result = agent.run_sync("Go.")
        assert result.status == "completed", result.explain()
        return [each for step in result.steps for each in step.results]

    return use
