"""A project with hooks in it, and an agent that they watch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunResult, tool
from hookline.command_hooks import CommandHooks
from hookline.testing import ScriptedDriver, call, say


@tool
def bash(command: str, timeout: float | None = None) -> str:
    """Run a command."""
    return f"ran {command}"


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


@tool
def write(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {path}"


class Stage:
    """A project directory, a home directory, and ways to run an agent there."""

    tools = (bash, read, write)

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.home = root / "home"
        self.transcripts = root / "transcripts"
        self.root.mkdir()
        self.home.mkdir()

    def elsewhere(self, name: str) -> Stage:
        """Another stage, in a directory of this name."""
        directory = self.root.parent / name
        directory.mkdir()
        return Stage(directory)

    def script(self, name: str, text: str) -> Path:
        """Write an executable script into the project."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def file(self, name: str, content: Any, *, home: bool = False) -> Path:
        """Write a configuration file, of the project or of the user."""
        path = (self.home if home else self.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def hooks(self, *given: Mapping[str, Any], **options: Any) -> CommandHooks:
        """Hooks in Hookline's own form."""
        return CommandHooks(given, project=self.root, transcripts=self.transcripts, **options)

    def claude(self, event: str, *commands: str, matcher: str = "", **more: Any) -> CommandHooks:
        """Hooks in the form of Claude's settings."""
        entries = [{"type": "command", "command": command, **more} for command in commands]
        group = {"hooks": entries, **({"matcher": matcher} if matcher else {})}
        self.file(".claude/settings.json", {"hooks": {event: [group]}})
        return self.discover()

    def discover(self, **options: Any) -> CommandHooks:
        """All hooks of the project and of the user, trusted unless it is said otherwise."""
        given = {"trust": True, "managed": False, "home": self.home, **options}
        return CommandHooks.discover(self.root, transcripts=self.transcripts, **given)

    def run(
        self, hooks: CommandHooks, *turns: Any, prompt: str = "go", **parts: Callable[..., Any]
    ) -> RunResult:
        """Run an agent under these hooks."""
        driver = ScriptedDriver(list(turns) or [call("bash", command="ls"), say("done")])
        builder = AgentBuilder().with_driver(driver).with_tools(*self.tools)
        for name, part in parts.items():
            builder = getattr(builder, name)(part)
        return builder.with_capability(hooks).build().run_sync(prompt)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """An empty project."""
    return Stage(tmp_path)


@pytest.fixture(autouse=True)
def _no_files_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not read or write the directories of the user who runs them."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in list(os.environ):
        if name.startswith(("CLAUDE", "GEMINI", "CURSOR", "COPILOT")):
            monkeypatch.delenv(name)
