"""A rule or a hook about a tool that nobody has is an error; one about a tool that this agent lacks is reported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hookline.cli.exits import Exit

_SERVER = Path(__file__).parents[2] / "support" / "plain_mcp_server.py"


def run(place: Any, *flags: str) -> Any:
    """Run a model that only speaks."""
    return place.run("run", "-q", "--model", place.script({"say": "Hi."}), *flags, "x")


def own(place: Any, text: str) -> Path:
    """The user's own configuration."""
    path: Path = place.home / ".config/hookline/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "flags",
    [
        ("--deny", "bsah(ls)"),
        ("--ask", "bsah"),
        ("--allow", "bsah(git push *)"),
        ("--set", "approvals.ask=['bsah']"),
    ],
)
def test_an_unknown_tool_in_a_flag_is_wrong_use(flags: tuple[str, ...], place: Any) -> None:
    """With the closest name."""
    done = run(place, *flags)
    assert (done.returncode, done.stdout) == (Exit.USAGE, ""), done.stderr
    assert f"{flags[0]}: there is no tool 'bsah'" in done.stderr
    assert "Did you mean 'bash'?" in done.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[approvals]\ndeny = ["read(.env)", "bsah(ls)"]\n', 2),
        ('[[hooks]]\non = "PreToolUse"\nmatch = "read|bsah"\ndo = "block"\nreason = "x"\n', 1),
        ('[[hooks]]\non = "PreToolUse"\nmatch = "bsah(rm *)"\ndo = "ask"\nreason = "x"\n', 1),
        ('[[hooks]]\non = "PreToolUse"\nmatch = { tool = "bsah" }\ncommand = "true"\n', 1),
    ],
)
def test_an_unknown_tool_in_a_file_is_a_wrong_configuration(
    text: str, line: int, place: Any
) -> None:
    """With file, line and the closest name, for every kind of hook."""
    path = place.write("hookline.toml", text)
    place.run("trust")
    done = run(place)
    assert (done.returncode, done.stdout) == (Exit.CONFIG, ""), done.stderr
    assert f"{path}:{line}: there is no tool 'bsah'" in done.stderr
    assert "Did you mean 'bash'?" in done.stderr


@pytest.mark.parametrize("name", ["raed_*", "deploy", "mcp__nothing__x", "files.nothing"])
def test_globs_and_servers_are_checked_too(name: str, place: Any) -> None:
    """A glob that means no known tool, and a server that is not configured."""
    place.write("hookline.toml", f'[approvals]\ndeny = ["{name}"]\n')
    done = run(place)
    assert (done.returncode, f"there is no tool '{name}'" in done.stderr) == (Exit.CONFIG, True)


@pytest.mark.parametrize(
    "name", ["*", "re*", "files.*", "mcp__*", "Bash", "Edit", "bash", "exec", "read", "todo_write"]
)
def test_what_is_known_is_no_error(name: str, place: Any) -> None:
    """Ours, those of other agents, and globs."""
    place.write("hookline.toml", f'[approvals]\nask = ["{name}"]\n')
    assert run(place).returncode == Exit.DONE


def test_tools_of_a_server_are_checked_when_it_is_connected(place: Any) -> None:
    """By name and by glob, with the closest one; a server that is switched off is only reported."""
    program, script = json.dumps(sys.executable), json.dumps(str(_SERVER))
    own(place, f'[mcp.time]\ncommand = {program}\nargs = [{script}, "{place.home}"]\n')
    listed = place.run("tools", "--json").stdout.splitlines()
    names = [json.loads(line)["name"] for line in listed]
    first = next(name for name in names if name.startswith("mcp__time__"))
    for good in (first, "mcp__time__*", "mcp__time", "mcp__*"):
        assert run(place, "--deny", good).stderr == "", good
    wrong = run(place, "--deny", f"{first}x")
    assert (wrong.returncode, f"Did you mean '{first}'?" in wrong.stderr) == (Exit.USAGE, True)
    wrong = run(place, "--deny", "mcp__tiem__*")
    assert (wrong.returncode, "Did you mean 'mcp__time__*'?" in wrong.stderr) == (Exit.USAGE, True)
    off = run(place, "--deny", first, "--set", "mcp.time.enabled=false")
    assert (off.returncode, f"has no tool '{first}'" in off.stderr) == (Exit.DONE, True)


def test_the_users_own_file_may_name_servers_of_other_projects(place: Any) -> None:
    """It is for all of them, so this is reported and no error."""
    path = own(place, '[approvals]\ndeny = ["mcp__payments__*"]\n')
    done = run(place)
    assert (done.returncode, done.stdout) == (Exit.DONE, "Hi.\n")
    assert f"{path}:2: the agent has no tool 'mcp__payments__*'" in done.stderr


def test_a_guard_for_a_known_tool_that_the_agent_lacks_is_reported(place: Any) -> None:
    """At the start of every run, and by lint. What is allowed guards nothing, and is not reported."""
    place.write("hookline.toml", '[approvals]\ndeny = ["bash(ls)"]\nallow = ["todo_write"]\n')
    place.run("trust")
    for _ in range(2):
        done = run(place, "--without", "bash")
        assert done.returncode == Exit.DONE
        assert "hookline.toml:2: the agent has no tool 'bash' for 'bash(ls)'" in done.stderr
        assert "todo_write" not in done.stderr
    assert run(place).stderr == ""
    linted = place.run("hooks", "lint", "--without", "bash")
    assert (linted.returncode, "no tool 'bash'" in linted.stdout) == (Exit.FAILED, True)
    assert place.run("hooks", "lint").returncode == Exit.DONE


_OWN = """
from hookline import AgentBuilder, HookOutcome
from hookline.testing import ScriptedDriver, say

def fetch(url: str) -> str:
    "Fetch."
    return url

def refuse(ctx):
    return HookOutcome.block("no")

def agent():
    builder = AgentBuilder().with_driver(ScriptedDriver([say("Hi.")])).with_tools(fetch)
    return builder.on_before_tool_use(refuse, matcher="fetsh", tier="policy")
"""


def test_a_matcher_that_can_never_match_is_reported(place: Any) -> None:
    """Of an agent in Python, and an expression in a file."""
    place.write("own.py", _OWN)
    done = place.run("run", "own:agent", "x")
    assert (done.returncode, done.stdout) == (Exit.DONE, "Hi.\n")
    assert "hook 'refuse' at before_tool_use never runs" in done.stderr
    assert "Did you mean 'fetch'?" in done.stderr
    rule = 'on = "before_tool_use"\nmatch = "/^bahs$/"\ndo = "block"\nreason = "no"\n'
    place.write("hookline.toml", f"[[hooks]]\n{rule}")
    place.run("trust")
    done = run(place)
    assert done.returncode == Exit.DONE
    assert done.stderr.count("never runs: its matcher") == 1


@pytest.mark.parametrize(
    ("dialect", "event", "matcher", "said"),
    [
        ("claude", "PreToolUse", "bash", "'bash' means no tool that is known here. Did you mean 'Bash'?"),
        ("claude", "PreToolUse", "Bahs", "Did you mean 'Bash'?"),
        ("claude", "PostToolUse", "Frobnicate", "'Frobnicate' means no tool that is known here"),
        ("claude", "PreToolUse", "TodoWrite", "the agent has no tool that 'TodoWrite' means"),
        ("gemini", "BeforeTool", "Write", "'Write' means no tool that is known here. Did you mean 'write_file'?"),
        ("claude", "PreToolUse", "Bash(git push:*)", "is a permission rule"),
    ],
)  # fmt: skip
def test_a_hook_that_is_never_asked_is_reported(
    dialect: str, event: str, matcher: str, said: str, place: Any
) -> None:
    """At the start of every run, and by lint: the names are those of its own dialect."""
    write_hook(place, dialect, event, matcher)
    done = run(place)
    assert (done.returncode, done.stdout) == (Exit.DONE, "Hi.\n")
    assert said in done.stderr
    linted = place.run("hooks", "lint")
    assert (linted.returncode, said in linted.stdout) == (Exit.FAILED, True), linted.stdout


@pytest.mark.parametrize(
    ("dialect", "event", "matcher"),
    [
        ("claude", "PreToolUse", "Bash"),
        ("claude", "PreToolUse", "Edit|Write|NotebookEdit"),
        ("claude", "PreToolUse", "MultiEdit"),
        ("claude", "PreToolUse", "mcp__github__.*"),
        ("claude", "PreToolUse", ".*"),
        ("claude", "PreToolUse", ""),
        ("claude", "SessionStart", "startup"),
        ("gemini", "BeforeTool", "run_shell_command"),
        ("codex", "PreToolUse", "Bash"),
    ],
)
def test_a_hook_that_may_be_asked_is_not(
    dialect: str, event: str, matcher: str, place: Any
) -> None:
    """Nothing is said about those that hold."""
    write_hook(place, dialect, event, matcher)
    assert run(place).stderr == ""


def write_hook(place: Any, dialect: str, event: str, matcher: str) -> None:
    """A hook in the user's own file for another agent."""
    name = {"claude": "settings.json", "gemini": "settings.json", "codex": "hooks.json"}[dialect]
    path = place.home / f".{dialect}" / name
    path.parent.mkdir()
    entry = {"matcher": matcher, "hooks": [{"type": "command", "command": "true"}]}
    path.write_text(json.dumps({"hooks": {event: [entry]}}), encoding="utf-8")


def test_an_agent_of_ones_own_knows_its_tools(place: Any) -> None:
    """A rule of a flag about one of them is right, and about another an error."""
    place.write(
        "own.py",
        "from hookline import AgentBuilder\nfrom hookline.drivers import ScriptedDriver, say\n"
        "def deploy(where: str) -> str:\n    'Deploy.'\n    return where\n"
        "def build():\n"
        "    return AgentBuilder().with_driver(ScriptedDriver([say('Hi.')])).with_tools(deploy)\n",
    )
    place.write("hookline.toml", '[approvals]\ndeny = ["nothing_like_it"]\n')
    assert place.run("run", "own:build", "--deny", "deploy(prod)", "x").returncode == Exit.DONE
    wrong = place.run("run", "own:build", "--deny", "deplyo(prod)", "x")
    assert (wrong.returncode, "Did you mean 'deploy'?" in wrong.stderr) == (Exit.USAGE, True)
