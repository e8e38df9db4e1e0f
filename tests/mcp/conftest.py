"""Servers to talk to, and agents that do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hookline import AgentBuilder, RunResult, ToolResult
from hookline.mcp import McpServer, McpServers
from hookline.testing import ScriptedDriver, say

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
PUBLIC = ROOT / ".mcp-servers"
PROGRAMS = "Scripts" if os.name == "nt" else "bin"


class Used(NamedTuple):
    """The result of a run."""

    run: RunResult
    results: list[ToolResult]
    progress: list[Any]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The directory in which the plain server writes down what happens to it."""
    place = tmp_path / "notes"
    place.mkdir()
    return place


@pytest.fixture
def plain(notes: Path) -> Callable[..., McpServer]:
    """Describe the plain server: older protocol, over pipes, at once there."""

    def describe(*options: str, **settings: Any) -> McpServer:
        args = [SUPPORT / "plain_mcp_server.py", notes, *options]
        return McpServer.stdio(sys.executable, args, **{"name": "plain", **settings})

    return describe


@pytest.fixture
def sdk() -> Callable[..., McpServer]:
    """Describe the server that is written with the SDK: newer protocol, over pipes."""

    def describe(**settings: Any) -> McpServer:
        args = [SUPPORT / "sdk_mcp_server.py"]
        return McpServer.stdio(sys.executable, args, **{"name": "sdk", **settings})

    return describe


@pytest.fixture
def start_http() -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Start the server that is written with the SDK over HTTP; gives the process and its address."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str, port: int = 0) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, SUPPORT / "sdk_mcp_server.py", "--http", str(port), *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def public() -> Callable[..., McpServer]:
    """Describe a server of the public ones; without it the test is skipped, with the reason."""

    def describe(program: str, *args: Any, **settings: Any) -> McpServer:
        for kind, folder in (("python", PROGRAMS), ("node", "node_modules/.bin")):
            path = PUBLIC / kind / folder / program
            if path.exists():
                return McpServer.stdio(path, args, **settings)
        pytest.skip(f"{program} is not installed: {_why_not()}")

    return describe


def _why_not() -> str:
    try:
        stamp = json.loads((PUBLIC / "installed.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "run `python3 scripts/mcp_servers.py`"
    return "; ".join(part["problem"] for part in stamp.values() if part["problem"])


@pytest.fixture
def use() -> Callable[..., Coroutine[Any, Any, Used]]:
    """Run an agent that has the servers' tools and makes these turns."""

    async def use(mcp: McpServers, *turns: Any, approver: Any = None) -> Used:
        progress: list[Any] = []

        def hear(record: Any) -> None:
            if record.type == "progress":
                progress.append(record.message)

        driver = ScriptedDriver([*turns, say("done")])
        builder = AgentBuilder().with_driver(driver).with_capability(mcp).on_event(hear)
        if approver is not None:
            builder.with_approver(approver)
        run = await builder.build().run("go")
        return Used(run, [result for step in run.steps for result in step.results], progress)

    return use


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    """Whether a process runs; a zombie does not."""

    def is_running(pid: int) -> bool:
        stat = Path(f"/proc/{pid}/stat")
        if Path("/proc/self/stat").exists():
            with contextlib.suppress(OSError):
                return stat.read_text().rpartition(")")[2].split()[0] != "Z"
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    return is_running


@pytest.fixture
def kill() -> Callable[[int], None]:
    """End a process without asking."""
    return lambda pid: os.kill(pid, signal.SIGKILL)
