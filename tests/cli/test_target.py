"""An agent of one's own in every command that has to do with an agent: as a builder, and built already."""

from __future__ import annotations

import os
from typing import Any

import pytest
from terminal import Terminal

_AGENT = """
import asyncio
from pathlib import Path
from hookline import AgentBuilder, HookOutcome
from hookline.drivers import ScriptedDriver, call, say

def touch(name: str) -> str:
    '''Make a file.'''
    Path(name).touch()
    return "made"

async def nap(seconds: float) -> str:
    '''Sleep.'''
    await asyncio.sleep(seconds)
    return "slept"

def no_secrets(ctx):
    if "secret" in ctx.tool_call.args.get("name", ""):
        return HookOutcome.block("not that")

def build():
    turns = [call("touch", name="made.txt"), say("Made it.")]
    return (
        AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(touch)
        .on_before_tool_use(no_secrets, tier="policy")
    )

built = build().build()
naps = AgentBuilder().with_driver(
    ScriptedDriver([call("nap", seconds=2), call("nap", seconds=60), say("x")])
).with_tools(nap).build()
"""


@pytest.fixture
def own(place: Any) -> Any:
    """A project with agents in Python."""
    place.write("own.py", _AGENT)
    return place


@pytest.mark.parametrize("name", ["own:build", "own:built"])
def test_every_command_takes_it(name: str, own: Any) -> None:
    """As its first word."""
    done = own.run("run", name, "Go.")
    assert (done.returncode, done.stdout) == (0, "Made it.\n"), done.stderr
    assert own.run("chat", name, stdin="Go.\n").stdout == "Made it.\n"
    assert own.run("run", "-c", "--at", "1", name, "Again.").stdout == "Made it.\n"
    assert own.run("run", "-c", name, "Again.").stdout == "Made it.\n"
    assert own.run("tools", name).stdout.startswith("touch ")
    assert '"name"' in own.run("tools", name, "touch").stdout
    assert "no_secrets" in own.run("hooks", "list", name).stdout
    assert "no_secrets" in own.run("hooks", "explain", name, "touch", '{"name": "a"}').stdout
    assert own.run("hooks", "lint", name).returncode == 0
    report = own.run("backtest", name, "-n", "1")
    assert "no verdict would change" in report.stdout, report.stderr


@pytest.mark.parametrize("name", ["own:build", "own:built"])
def test_asking_its_hooks_runs_nothing(name: str, own: Any) -> None:
    """Neither the model nor a tool, also where the agent was built already."""
    done = own.run("hooks", "test", name, "touch", '{"name": "secret.txt"}')
    assert done.returncode == 4, done.stderr
    assert "block      no_secrets" in done.stdout
    done = own.run("hooks", "test", name, "touch", '{"name": "made.txt"}')
    assert done.returncode == 0, done.stderr
    assert not (own.project / "made.txt").exists()


@pytest.mark.skipif(os.name != "posix", reason="there are no pseudo-terminals here")
def test_ctrl_c_stops_one_that_was_built_after_its_step(own: Any) -> None:
    """The hook that does it is added to what is built."""
    env = {"HOME": str(own.home), "NO_COLOR": "1"}
    terminal = Terminal("run", "own:naps", "x", cwd=own.project, env=env)
    terminal.wait_for("run nap(seconds=2")
    terminal.press("\x03")
    assert terminal.end() == 130, terminal.text
    assert "interrupted; 1 step" in terminal.text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("own:built", "--model", "script:x"), "built already, so --model cannot change it"),
        (("own:build", "--sandbox", "host"), "--sandbox cannot change an agent of your own"),
        (("own:build", "--without", "bash"), "--without cannot change an agent of your own"),
        (("own:build", "--set", "errors.tool='stop'"), "--set cannot change"),
        (("own:build", "--agent", "own:built"), "there are two agents"),
        (("nowhere:build",), "there is no module 'nowhere'"),
        (("own:nobody",), "module 'own' has no 'nobody'"),
    ],
)
def test_a_flag_that_would_do_nothing_is_an_error(
    arguments: tuple[str, ...], expected: str, own: Any
) -> None:
    """Whoever gave it relies on it."""
    done = own.run("run", *arguments, "x")
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr


def test_what_flags_say_holds_for_a_builder(own: Any) -> None:
    """The model, the system prompt, capabilities, limits and rules."""
    model = own.script({"call": "touch", "args": {"name": "x.txt"}}, {"say": "Done."})
    flags = ("--model", model, "--system-prompt", "Be brief.", "--capability", "task_planning")
    done = own.run("tools", "own:build", "--capability", "task_planning")
    assert "todo_write" in done.stdout, done.stderr
    done = own.run("run", "own:build", *flags, "--deny", "touch", "x")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert not (own.project / "x.txt").exists()
    assert own.run("run", "own:build", *flags, "--max-steps", "1", "x").returncode == 3


def test_a_variable_for_all_agents_does_not_get_in_its_way(own: Any) -> None:
    """An agent that has a model keeps it."""
    done = own.run("run", "own:built", "x", HOOKLINE_MODEL="anthropic:x", HOOKLINE_MAX_STEPS="9")
    assert (done.returncode, done.stdout) == (0, "Made it.\n"), done.stderr


def test_time_is_up_in_the_middle_of_a_step(own: Any) -> None:
    """A tool that does not end does not keep a run from its limit; the code is that of a limit."""
    own.write("late.py", _AGENT + "\ndef long():\n    return AgentBuilder().with_tools(nap)\n")
    model = own.script({"call": "nap", "args": {"seconds": 60}}, {"say": "x"})
    done = own.run("run", "late:long", "--model", model, "--timeout", "1", "x")
    assert done.returncode == 3, done.stderr
    assert "stopped, time_limit: 1 s are over" in done.stderr
    done = own.run("run", "late:long", "--model", model, "--timeout", "1", "--json", "x")
    assert done.returncode == 3
    assert '"stop_reason":"time_limit"' in done.stdout.splitlines()[-1]
    assert "stopped" in own.run("runs", "-n", "1").stdout
    assert "stopped: time_limit 1 s are over" in own.run("show").stdout


def test_what_waits_for_trust_is_not_about_it(own: Any) -> None:
    """The repository's settings do not hold for an agent of one's own, so nothing says that they are not in force."""
    own.write("hookline.toml", 'system_prompt = "Obey."\n[limits]\nsteps = 90\n')
    for arguments in (
        ("run", "own:built", "x"),
        ("tools", "own:built"),
        ("hooks", "list", "own:built"),
    ):
        done = own.run(*arguments)
        assert (done.returncode, "trust" in done.stderr) == (0, False), done.stderr
    done = own.run("tools")
    assert "system_prompt, limits.steps not in force" in done.stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import nosuchthing\n", "mine.py:1: ModuleNotFoundError: No module named"),
        ("\ndef (\n", "mine.py:2: SyntaxError: "),
        ("def agent():\n    raise RuntimeError('no db')\n", "mine.py:2: RuntimeError: no db."),
        ("async def agent():\n    return 1 / 0\n", "mine.py:2: ZeroDivisionError: "),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_reported_with_its_place(
    code: str, expected: str, own: Any
) -> None:
    """Who, where, and what to do."""
    own.write("mine.py", code)
    done = own.run("run", "mine:agent", "x")
    assert done.returncode == 1
    assert done.stderr.startswith(f"hookline: 'mine:agent' cannot be loaded: {expected}"), (
        done.stderr
    )
    remedy = "Install 'nosuchthing' for" if "nosuch" in code else "Fix that"
    assert remedy in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_of_the_directory_replaces_no_module_of_python(place: Any) -> None:
    """Packages of the project are found; a module with the name of one of Python is an error."""
    place.write("json.py", "raise SystemExit('json of the directory')")
    place.write("team/__init__.py", "")
    place.write("team/words.py", "TEXT = 'Found.'")
    place.write("team/agents.py", _OF_A_PACKAGE)
    for command in (("run", "team.agents:agent", "Go."), ("hooks", "list", "team.agents:agent")):
        ran = place.run(*command)
        assert ran.returncode == 0, ran.stderr
    wrong = place.run("run", "json:agent", "Go.")
    assert wrong.returncode == 2
    assert "'json' is a module of Python itself" in wrong.stderr
    assert "Give it another name" in place.run("worker", "json:agents").stderr


_OF_A_PACKAGE = """
import json
from team.words import TEXT
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, say

assert json.loads("1") == 1
agent = AgentBuilder().with_driver(ScriptedDriver([say(TEXT)]))
"""
