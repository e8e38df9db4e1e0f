"""A project and a home of its own for each test, and the command in it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_server import CommandServer

_SOURCE = Path(__file__).parents[2] / "src"
# With -P, the working directory is not where modules are looked for, as with the installed command.
_PROGRAM = "import sys; from hookline.cli import main; sys.exit(main())"


class Place:
    """A project, its user's home, and what is printed when the command is run there."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self._commands = commands
        self.home = folder / "home"
        self.project = folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.command = f"{shlex.quote(sys.executable)} -P -c {shlex.quote(_PROGRAM)}"
        self.env = {"HOME": str(self.home), "PYTHONPATH": str(_SOURCE), "NO_COLOR": "1"}

    def script(self, *turns: dict[str, Any], name: str = "script.json") -> str:
        """A model that makes these turns, as `--model` takes it."""
        path = self.home / name
        path.write_text(json.dumps(turns), encoding="utf-8")
        return f"script:{path}"

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """`hookline ARGUMENTS` in the project, as a process of its own."""
        known = {
            name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")
        }
        whole = {**known, **self.env, **env}
        if not any(name.startswith("PYTHON") for name in env):  # Python reads these when it starts
            return self._commands.run(arguments, self.project, whole, stdin)
        return subprocess.run(
            [sys.executable, "-P", "-c", _PROGRAM, *arguments],
            cwd=self.project,
            env=whole,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


class Commands:
    """A server of commands, started when it is needed, and again after a test that did not wait for its command."""

    def __init__(self) -> None:
        self.server: CommandServer | None = None

    def run(
        self, arguments: tuple[str, ...], cwd: Path, env: dict[str, str], stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one."""
        server = self.server or CommandServer(_SOURCE)
        self.server = None
        try:
            done = server.run(arguments, cwd=cwd, env=env, stdin=stdin)
        except BaseException:
            server.close()
            raise
        self.server = server
        return done


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """What runs the command."""
    made = Commands()
    yield made
    if made.server is not None:
        made.server.close()


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    """A project with nothing in it."""
    return Place(tmp_path, commands)


@pytest.fixture
def hookline(place: Place) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command."""
    return place.run
