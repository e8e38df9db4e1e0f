"""Recorded runs: resume, runs, show, replay, backtest, and runs that continue from another."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from hookline import SQLiteJournal
from hookline.cli.exits import Exit
from hookline.journal import RunStarted

_BARE = ("--without", "bash")
_WRITE = {"call": "write", "args": {"path": "a.txt", "content": "x\n"}}


def paused(place: Any) -> str:
    """A run that waits; gives the id of its question."""
    model = place.script(_WRITE, {"say": "Written."})
    done = place.run("run", "--model", model, "--ask", "write", "--json", "Write.", *_BARE)
    assert done.returncode == Exit.WAITING, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["status"] == "paused"
    return str(result["pending"][0]["id"])


def test_without_a_terminal_a_run_pauses_and_says_how_to_answer(place: Any) -> None:
    """The commands it names work, in another process; a script continues where it was."""
    model = place.script(_WRITE, {"say": "Written."})
    done = place.run("run", "--model", model, "--ask", "write", "Write.", *_BARE)
    assert done.returncode == Exit.WAITING
    yes = next(line for line in done.stderr.splitlines() if line.startswith("  yes: hookline "))
    words = [word.strip("'") for word in yes.removeprefix("  yes: hookline ").split()]
    again = place.run(*words)
    assert (again.returncode, again.stdout) == (0, "Written.\n"), again.stderr
    assert (place.project / "a.txt").read_text() == "x\n"


def test_no_is_an_answer_too(place: Any) -> None:
    """The model reads the reason, and nothing is written."""
    question = paused(place)
    done = place.run("resume", "--deny", question, "--reason", "not today")
    assert done.returncode == 0, done.stderr
    assert "Denied: not today" in done.stderr
    assert not (place.project / "a.txt").exists()


def test_an_answer_to_nothing_is_an_error(place: Any) -> None:
    """It names what waits."""
    question = paused(place)
    done = place.run("resume", "--allow", "nope")
    assert done.returncode == Exit.USAGE
    assert question in done.stderr
    assert place.run("resume", "nope").returncode == Exit.FAILED


def test_the_rules_a_run_was_started_with_hold_when_it_continues(place: Any) -> None:
    """Flags are kept with the run: what was denied then is denied after the pause."""
    model = place.script(_WRITE, {"call": "list", "args": {}}, {"say": "Done."})
    flags = ("--ask", "write", "--deny", "list")
    assert place.run("run", "--model", model, *flags, "x", *_BARE).returncode == Exit.WAITING
    done = place.run("resume", "--allow", "all")
    assert done.returncode == 0, done.stderr
    assert "the rule `list` denies it" in done.stderr


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_place_of_a_run_holds_when_it_continues(place: Any) -> None:
    """Also where a variable said it, which another shell does not have; a wider place is reported."""
    touch = {"call": "bash", "args": {"command": "touch new || echo refused"}}
    model = place.script(_WRITE, touch, {"say": "Done."})
    flags = ("--model", model, "--ask", "write", "x")
    assert place.run("run", *flags, HOOKLINE_PLACE="read-only").returncode == Exit.WAITING
    done = place.run("resume", "--allow", "all", HOOKLINE_PLACE="host")
    assert done.returncode == 0, done.stderr
    assert not (place.project / "new").exists()
    assert "from now on" not in done.stderr
    assert place.run("run", *flags).returncode == Exit.WAITING
    done = place.run("resume", "--allow", "all", HOOKLINE_PLACE="host")
    assert (
        "the commands of this run ran in the place workspace, and now run in host ($HOOKLINE_PLACE)."
        in done.stderr
    )


def test_runs_and_show(place: Any) -> None:
    """What was run, newest first, and what happened in it."""
    model = place.script({"call": "list", "args": {}}, {"say": "Empty."})
    place.run("run", "--model", model, "First?", *_BARE)
    place.run("run", "--model", place.script({"say": "Two."}), "Second?", *_BARE)
    lines = place.run("runs").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["Second?", "First?"]
    first = lines[1].split()[0]
    shown = place.run("show", first).stdout
    assert "> First?" in shown
    assert "run list(.)" in shown
    assert shown.rstrip().endswith("Empty.")
    assert "files-jail" in place.run("show", first, "--hooks").stdout
    place.run("runs", "--delete", first)
    assert first not in place.run("runs").stdout


def test_a_run_is_deleted_with_its_child_in_any_order(place: Any) -> None:
    """The child alone is refused, and nothing says then that what was deleted before is there."""
    path = str(place.project / "runs.db")
    with SQLiteJournal(path) as journal:
        for run_id in ("over", "main", "main/0/call_1_1/1"):
            parent = run_id.split("/")[0] if "/" in run_id else None
            started = RunStarted(
                run_id, 0, 1.0, agent_id="a", session_id="main", parent_run_id=parent
            )
            claim = journal.claim_sync(run_id)
            claim.write([started]).result()
            claim.give_back().result()
    delete, child = ("runs", "--journal", path, "--delete"), "main/0/call_1_1/1"
    refused = place.run(*delete, "over", "--delete", child)
    assert (refused.returncode, refused.stdout) == (Exit.FAILED, "deleted over\n")
    assert "cannot be deleted alone: run 'main' (running) started it" in refused.stderr
    assert "Nothing" not in refused.stderr
    assert place.run(*delete, child, "--delete", "main").stdout == f"deleted main, {child}\n"


def test_a_step_has_one_number_wherever_it_is_shown_and_taken(place: Any) -> None:
    """From 1: `show` and `--at` count the steps of a run, a conversation, `/show` and `/rewind` all of its steps."""
    answers = [{"say": each} for each in ("Two.", "Three.", "Another.")]
    model = place.script({"call": "list", "args": {}}, *answers)
    typed = "First?\nSecond?\n/rewind 2\nThird?\n/show\n"
    done = place.run("chat", "--model", model, *_BARE, stdin=typed)
    assert re.findall(r"^step (\d)", done.stderr, re.M) == ["1", "2", "3", "3"]
    assert "back to after step 2" in done.stderr
    assert "\n   2 Two.\n" in done.stderr
    first = place.run("runs").stdout.splitlines()[-1].split()[0]
    assert re.findall(r"^step (\d)", place.run("show", first).stdout, re.M) == ["1", "2"]
    again = place.script({"say": "Again."})
    taken = place.run("run", "--from", first, "--at", "2", "--model", again, "Go.", *_BARE)
    assert taken.returncode == 0, taken.stderr
    refused = place.run("run", "--from", first, "--at", "3", "--model", again, "Go.", *_BARE)
    assert "give a number from 1 to 2" in refused.stderr


def test_a_fork_goes_another_way(place: Any) -> None:
    """From a step on, with another prompt; a step that is not there is an error."""
    model = place.script({"call": "list", "args": {}}, {"say": "Empty."})
    place.run("run", "--model", model, "Look.", *_BARE)
    done = place.run(
        "run",
        "--from",
        "last",
        "--at",
        "1",
        "And now?",
        "--json",
        "--model",
        place.script({"say": "Fork."}),
        *_BARE,
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records[-1]["text"] == "Fork."
    said = json.dumps(records[0]["initial"])
    assert "Look." in said
    assert "Empty." not in said
    wrong = place.run("run", "-c", "--at", "9", "x", "--model", place.script({"say": "x"}))
    assert wrong.returncode == Exit.USAGE
    assert "has no step 9" in wrong.stderr


_RULE = '[[hooks]]\non = "before_tool_use"\nmatch = "list"\ndo = "block"\nreason = "not any more"\n'


def test_replay_and_backtest_use_the_hooks_of_now(place: Any) -> None:
    """A new rule makes a recorded run differ, and the back-test says which verdict would change."""
    model = place.script({"call": "list", "args": {}}, {"say": "Empty."})
    place.run("run", "--model", model, "Look.", *_BARE)
    same = place.run("replay")
    assert (same.returncode, "is identical" in same.stdout) == (0, True), same.stdout + same.stderr
    unchanged = place.run("backtest", "--check", *_BARE)
    assert unchanged.returncode == 0, unchanged.stdout + unchanged.stderr
    place.write("hookline.toml", _RULE)
    differs = place.run("replay")
    assert differs.returncode == Exit.FAILED
    assert "not any more" in differs.stdout
    report = place.run("backtest", "--check", "--since", "1d", *_BARE)
    assert report.returncode == Exit.FAILED
    assert "not any more" in report.stdout
    assert place.run("backtest", "--since", "soon").returncode == Exit.USAGE


def test_replay_and_backtest_start_commands_only_if_asked_to(place: Any) -> None:
    """Without --run-hooks they say what is on record; one that has changed is named in the first line."""
    log = place.home / "started"
    log.touch()
    script = place.home / "check.sh"
    script.write_text(f'echo "${{HOOKLINE_REPLAY:-0}}" >> {log}\n')
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'[[hooks]]\non = "before_tool_use"\ncommand = ["sh", "{script}"]\n')
    model = place.script({"call": "list", "args": {}}, {"say": "Empty."})
    place.run("run", "--model", model, "Look.", *_BARE)
    assert log.read_text().split() == ["0"]
    for command in ("replay", "backtest"):
        same = place.run(command)
        assert (same.returncode, "not asked" in same.stdout) == (0, False), same.stdout
    assert log.read_text().split() == ["0"]
    script.write_text(script.read_text() + "exit 2\n")
    for command in ("replay", "backtest"):
        first = place.run(command).stdout.splitlines()[0]
        assert "not asked: " in first
        assert "check.sh" in first
    assert log.read_text().split() == ["0"]
    assert place.run("replay", "--run-hooks").returncode == Exit.FAILED
    assert place.run("backtest", "--check", "--run-hooks").returncode == Exit.FAILED
    assert log.read_text().split() == ["0", "1", "1"]


def test_another_project_has_runs_of_its_own(place: Any) -> None:
    """They are listed with --all, and found by their id from anywhere."""
    place.run("run", "--model", place.script({"say": "Hi."}), "Here.", *_BARE)
    run_id = place.run("runs").stdout.split()[0]
    place.project = place.home / "elsewhere"
    place.project.mkdir()
    assert place.run("runs").stdout == ""
    assert run_id in place.run("runs", "--all").stdout
    assert "> Here." in place.run("show", run_id).stdout


def test_a_broken_journal_of_another_project_is_left_out(place: Any) -> None:
    """A message says so. Runs of the own project and of a third one stay available."""
    model = place.script({"say": "Hi."})
    done = place.run("run", "--model", model, "x", "--without", "bash")
    assert done.returncode == 0, done.stderr
    (own,) = place.run("runs").stdout.splitlines()
    broken = place.home / ".local/share/hookline/projects/a-broken/journal.db"
    broken.parent.mkdir()
    broken.write_text("not a journal")
    listed = place.run("runs", "--all")
    assert (listed.returncode, listed.stdout) == (0, f"{own}\n")
    assert f"skipped: the journal '{broken}' cannot be opened" in listed.stderr
    place.project = place.home  # elsewhere
    shown = place.run("show", own.split()[0])
    assert (shown.returncode, "Hi." in shown.stdout) == (0, True), shown.stderr
    assert place.run("show", "nosuch").returncode == 1


_FAMILY = """
from hookline import AgentBuilder, ToolContext
from hookline.testing import ScriptedDriver, say

async def ask(ctx: ToolContext) -> str:
    "Ask a child."
    child = AgentBuilder().with_driver(ScriptedDriver([say("the child says hi")])).build()
    return (await ctx.spawn(child, "Hello, child.")).text

def agent():
    return AgentBuilder().with_tools(ask)
"""


def test_what_a_child_did_can_be_shown(place: Any) -> None:
    """The output for a run names the command that shows the child's."""
    place.write("family.py", _FAMILY)
    model = place.script({"call": "ask"}, {"say": "Done."})
    assert place.run("run", "family:agent", "--model", model, "Go.").returncode == 0
    shown = place.run("show").stdout
    command = next(line for line in shown.splitlines() if ": hookline show " in line)
    child = place.run("show", command.rpartition(" ")[2].strip("'"))
    assert child.returncode == 0, child.stderr
    assert "the child says hi" in child.stdout


def test_what_a_run_said_cannot_move_the_terminal_later(place: Any) -> None:
    """When it is driven again, or its hooks are asked again, with other rules."""
    model = place.script(
        {"call": "write", "args": {"path": "a\x1b[2J.txt", "content": "\x1b[31mx"}}, {"say": "ok"}
    )
    assert place.run("run", "--model", model, "Go \x1b[2J.", "--without", "bash").returncode == 0
    for command in (
        ("replay", "--set", "approvals.deny=['write']"),
        ("backtest", "--deny", "write", "--without", "bash"),
        ("show", "--full", "--hooks"),
        ("runs",),
    ):
        done = place.run(*command)
        assert "\x1b" not in done.stdout + done.stderr, command
        assert done.stdout


def test_a_conversation_is_reopened_as_it_was(place: Any) -> None:
    """With the model and the rules of then; what is said again holds, and is kept with the runs from then on."""
    model = place.script(_WRITE, _WRITE, {"say": "Written."})
    first = place.run("chat", "--model", model, "--deny", "list", *_BARE, stdin="Write.\n")
    assert first.returncode == 0, first.stderr
    again = place.run("chat", "-c", "--ask", "write", stdin="Again.\n")
    assert again.returncode == Exit.WAITING, again.stderr
    assert f": --model {model} --deny list --without bash\n" in again.stderr
    on = place.run("resume", "--allow", "all")
    assert on.returncode == Exit.WAITING, on.stderr  # the second of them is asked about, too


# --- `hookline resume`: of a run that waits, that was interrupted, that is over; and what is set for it besides ---


_READ = {"call": "read", "args": {"path": "a.txt"}}
_WRITE_B = {"call": "write", "args": {"path": "b.txt", "content": "new\n"}}


def run_ids(place: Any) -> list[str]:
    """The runs there are, the newest first."""
    lines = place.run("runs", "--json").stdout.splitlines()
    return [json.loads(line)["run_id"] for line in lines]


def test_a_run_that_is_over_is_not_run_again(place: Any) -> None:
    """Its answer is on standard output, and on the other that it is over and how to continue."""
    model = place.script({"say": "It is there."})
    assert place.run("run", "--model", model, "Look.", *_BARE).returncode == 0
    (run_id,) = run_ids(place)
    done = place.run("resume")
    assert (done.returncode, done.stdout) == (0, "It is there.\n")
    assert done.stderr == (
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
    done = place.run("resume")
    assert done.returncode == Exit.LIMIT
    assert "is over (stopped by 'limits', step_limit: steps: 1 of 1 used)" in done.stderr


def test_what_is_set_for_a_resume_holds(place: Any) -> None:
    """Over the flags that the run was started with; and the command for the next time names it again."""
    place.write("a.txt", "x")
    model = place.script(_WRITE_B, _READ, _WRITE_B, {"say": "Done."})
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
    model = place.script(_WRITE_B, {"say": "Done."})
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
    model = place.script(_WRITE_B, {"say": "Done."})
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
        output = process.stdout.readline()
        while output and "stopping after this step" not in output:
            output = process.stdout.readline()
        go.touch()
        output += process.stdout.read()
    begun.unlink()
    go.unlink()
    assert process.returncode == Exit.INTERRUPTED, output
    assert "reopen: hookline resume " in output


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
    """Its last line says how: as another run. Without a higher limit its outcome is shown again."""
    place.write("mine.py", _AGENT)
    model = place.script({"call": "work"}, {"say": "All done."})
    ended = place.run("run", "mine:agent", "--model", model, "--timeout", "3", "Go.")
    assert ended.returncode == Exit.LIMIT, ended.stderr
    (first,) = run_ids(place)
    command = f"hookline resume {first} --set limits.seconds=6"
    assert ended.stderr.rstrip().endswith(f"reopen: {command}")
    done = place.run("resume")
    assert (done.returncode, run_ids(place)) == (Exit.LIMIT, [first])
    assert command in done.stderr
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
    model = place.script(_WRITE_B, {"say": "Written."})
    paused = place.run("chat", "--model", model, "--ask", "write", *_BARE, stdin="Write it.\n")
    assert paused.returncode == Exit.WAITING, paused.stderr
    command = next(line for line in paused.stderr.splitlines() if line.startswith("  yes: "))
    words = command.removeprefix("  yes: hookline ").replace("'", "").split()
    ended = place.run(*words)
    assert (ended.returncode, ended.stdout) == (0, "Written.\n"), ended.stderr
    assert (place.project / "b.txt").read_text() == "new\n"


def test_without_any_run_the_remedy_is_to_begin(place: Any) -> None:
    """There is no list to look at."""
    done = place.run("resume")
    assert done.returncode == Exit.FAILED
    assert done.stderr == 'hookline: there is no run here yet. Begin with: hookline run "...".\n'


@pytest.mark.parametrize("run", ["0101-a", "last"])
def test_a_journal_that_is_missing_is_named(place: Any, run: str) -> None:
    """A file that a flag names and that is not there is the reason, not the run."""
    done = place.run("show", "--journal", "gone.db", run)
    assert done.returncode == Exit.FAILED
    assert "there is no file 'gone.db'" in done.stderr
    assert not (place.project / "gone.db").exists()


def test_verdicts_of_a_run_that_is_resumed_say_what_they_are_about(place: Any) -> None:
    """Another process had seen the calls."""
    calls = [{"call": "read", "args": {"path": name}} for name in ("a.txt", "b.txt")]
    model = place.script({"calls": calls}, {"say": "Done."})
    waiting = place.run("run", "--model", model, "--ask", "read", "Look.", *_BARE)
    assert waiting.returncode == Exit.WAITING
    done = place.run("resume", "--deny", "all").stderr
    for name in ("a.txt", "b.txt"):
        assert f"ask read({name})" in done
