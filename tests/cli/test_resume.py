"""`hookline resume`: of a run that waits, that was interrupted, that is over; and what is set for it besides."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from hookline.cli.exits import Exit

_BARE = ("--without", "bash")
_READ = {"call": "read", "args": {"path": "a.txt"}}
_WRITE = {"call": "write", "args": {"path": "b.txt", "content": "new\n"}}


def run_ids(place: Any) -> list[str]:
    """The runs there are, the newest first."""
    lines = place.run("runs", "--json").stdout.splitlines()
    return [json.loads(line)["run_id"] for line in lines]


def test_a_run_that_is_over_is_not_run_again(place: Any) -> None:
    """Its answer is on standard output, and on the other that it is over and how to continue."""
    model = place.script({"say": "It is there."})
    assert place.run("run", "--model", model, "Look.", *_BARE).returncode == 0
    (run_id,) = run_ids(place)
    told = place.run("resume")
    assert (told.returncode, told.stdout) == (0, "It is there.\n")
    assert told.stderr == (
        f"hookline: run {run_id} is over (done): nothing in it waits. "
        f'To continue from there: hookline run --from {run_id} "..."\n'
    )
    quiet = place.run("resume", "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "It is there.\n", "")
    records = place.run("resume", "--json")
    (line,) = records.stdout.splitlines()
    assert json.loads(line)["type"] == "result"
    assert line == place.run("show", "--json").stdout.splitlines()[-1]
    assert len(run_ids(place)) == 1


def test_the_exit_code_of_a_run_that_is_over_is_its_own(place: Any) -> None:
    """A limit stays a limit."""
    place.write("a.txt", "x")
    model = place.script(_READ, {"say": "It is there."})
    ended = place.run("run", "--model", model, "--max-steps", "1", "Look.", *_BARE)
    assert ended.returncode == Exit.LIMIT
    told = place.run("resume")
    assert told.returncode == Exit.LIMIT
    assert "is over (stopped by 'limits', step_limit: steps: 1 of 1 used)" in told.stderr


def test_what_is_set_for_a_resume_holds(place: Any) -> None:
    """Over the flags that the run was started with; and the command for the next time names it again."""
    place.write("a.txt", "x")
    model = place.script(_WRITE, _READ, _WRITE, {"say": "Done."})
    flags = ("--ask", "write", "--max-steps", "50")
    assert place.run("run", "--model", model, *flags, "Go.", *_BARE).returncode == Exit.WAITING
    ended = place.run("resume", "--allow", "all", "--set", "limits.steps=2")
    assert ended.returncode == Exit.LIMIT, ended.stderr
    assert "step_limit: steps: 2 of 2 used" in ended.stderr
    assert place.run("run", "--model", model, *flags, "Go.", *_BARE).returncode == Exit.WAITING
    ended = place.run("resume", "--allow", "all", "--set", "approvals.ask=['read']")
    assert ended.returncode == Exit.WAITING, ended.stderr
    assert "waiting: read(a.txt)" in ended.stderr
    assert "--set 'approvals.ask=['\"'\"'read'\"'\"']' --allow" in ended.stderr


def test_what_is_set_for_a_resume_is_checked(place: Any) -> None:
    """As for a run. What an answer would need and is not given is reported, too."""
    model = place.script(_WRITE, {"say": "Done."})
    place.run("run", "--model", model, "--ask", "write", "Go.", *_BARE)
    wrong = place.run("resume", "--allow", "all", "--set", "limits.step=2")
    assert wrong.returncode == Exit.USAGE
    assert "Did you mean 'limits.steps'" in wrong.stderr or "steps" in wrong.stderr
    wrong = place.run("resume", "--allow", "all", "--reason", "no")
    assert wrong.returncode == Exit.USAGE
    assert "--deny" in wrong.stderr
    assert not (place.project / "b.txt").exists()


def test_a_replay_takes_what_is_set(place: Any) -> None:
    """It asks what would be different with it."""
    model = place.script(_WRITE, {"say": "Done."})
    assert place.run("run", "--model", model, "Go.", *_BARE).returncode == 0
    assert place.run("replay").returncode == 0
    differs = place.run("replay", "--set", "approvals.deny=['write']")
    assert differs.returncode == Exit.FAILED
    assert "approval" in differs.stdout


def interrupted(place: Any, *arguments: str) -> None:
    """Run the command until its tool has begun, and press Ctrl-C."""
    begun, go = place.project / "begun", place.project / "go"
    program = "import sys; from hookline.cli import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program, *arguments],
        cwd=place.project,
        env={**os.environ, **place.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        until = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        told = process.stdout.readline()
        while told and "stopping after this step" not in told:
            told = process.stdout.readline()
        go.touch()
        told += process.stdout.read()
    begun.unlink()
    go.unlink()
    assert process.returncode == Exit.INTERRUPTED, told
    assert "reopen: hookline resume " in told


_AGENT = """
import asyncio
from pathlib import Path
from hookline import AgentBuilder

async def work() -> str:
    "Work."
    Path("begun").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return "worked"

def agent():
    return AgentBuilder().with_tools(work)
"""


def test_what_was_interrupted_continues(place: Any) -> None:
    """From where it was, without a new prompt, as another run; a script continues where it was, again and again."""
    place.write("mine.py", _AGENT)
    model = place.script({"call": "work"}, {"call": "work"}, {"say": "All done."})
    interrupted(place, "run", "mine:agent", "--model", model, "Go.")
    (first,) = run_ids(place)
    interrupted(place, "resume")
    ended = place.run("resume")
    assert (ended.returncode, ended.stdout) == (0, "All done.\n"), ended.stderr
    last, middle, again = run_ids(place)
    assert again == first
    assert f"run {middle} was interrupted: it continues as run {last}." in ended.stderr
    listed = place.run("runs").stdout.splitlines()
    assert "(continued without a new prompt)" in listed[0]


def test_what_a_limit_ended_continues_with_more(place: Any) -> None:
    """As its closing line says, as another run; without more of it, what it came to is shown again."""
    place.write("mine.py", _AGENT)
    model = place.script({"call": "work"}, {"say": "All done."})
    ended = place.run("run", "mine:agent", "--model", model, "--timeout", "3", "Go.")
    assert ended.returncode == Exit.LIMIT, ended.stderr
    (first,) = run_ids(place)
    command = f"hookline resume {first} --set limits.seconds=6"
    assert ended.stderr.rstrip().endswith(f"reopen: {command}")
    told = place.run("resume")
    assert (told.returncode, run_ids(place)) == (Exit.LIMIT, [first])
    assert command in told.stderr
    (place.project / "go").touch()
    ended = place.run(*command.split()[1:])
    assert (ended.returncode, ended.stdout) == (0, "All done.\n"), ended.stderr
    last, again = run_ids(place)
    assert again == first
    assert f"run {first} was ended by limits.seconds: it continues as run {last}." in ended.stderr


def test_steps_that_were_too_few_are_made_more(place: Any) -> None:
    """The command that is shown names the limit that was reached, once."""
    model = place.script({"call": "list", "args": {}}, {"call": "list", "args": {}}, {"say": "Ok."})
    ended = place.run("run", "--model", model, "--max-steps", "1", "Go.", *_BARE)
    (first,) = run_ids(place)
    command = f"hookline resume {first} --set limits.steps=2"
    assert ended.stderr.rstrip().endswith(f"reopen: {command}"), ended.stderr
    ended = place.run("resume", "--set", "limits.steps=1")
    assert ended.returncode == Exit.LIMIT
    second = run_ids(place)[0]
    assert ended.stderr.rstrip().endswith(
        f"reopen: hookline resume {second} --set limits.steps=2"
    ), ended.stderr
    ended = place.run("resume", second, "--set", "limits.steps=2")
    assert (ended.returncode, ended.stdout) == (0, "Ok.\n"), ended.stderr


def test_a_run_of_a_conversation_is_answered_as_its_command_says(place: Any) -> None:
    """`chat` without a terminal pauses, and the command that it prints continues in the conversation."""
    model = place.script(_WRITE, {"say": "Written."})
    paused = place.run("chat", "--model", model, "--ask", "write", *_BARE, stdin="Write it.\n")
    assert paused.returncode == Exit.WAITING, paused.stderr
    command = next(line for line in paused.stderr.splitlines() if line.startswith("  yes: "))
    words = command.removeprefix("  yes: hookline ").replace("'", "").split()
    ended = place.run(*words)
    assert (ended.returncode, ended.stdout) == (0, "Written.\n"), ended.stderr
    assert (place.project / "b.txt").read_text() == "new\n"


def test_without_any_run_the_remedy_is_to_begin(place: Any) -> None:
    """There is no list to look at."""
    told = place.run("resume")
    assert told.returncode == Exit.FAILED
    assert told.stderr == 'hookline: there is no run here yet. Begin with: hookline run "...".\n'


def test_verdicts_of_a_run_that_is_taken_up_say_what_they_are_about(place: Any) -> None:
    """Another process had seen the calls."""
    calls = [{"call": "read", "args": {"path": name}} for name in ("a.txt", "b.txt")]
    model = place.script({"calls": calls}, {"say": "Done."})
    waiting = place.run("run", "--model", model, "--ask", "read", "Look.", *_BARE)
    assert waiting.returncode == Exit.WAITING
    told = place.run("resume", "--deny", "all").stderr
    for name in ("a.txt", "b.txt"):
        assert f"ask read({name})" in told
