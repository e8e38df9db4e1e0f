"""Runs that are over, or wait: resume, runs, show, fork, replay, backtest."""

from __future__ import annotations

import json
from typing import Any

from hookline.cli.exits import Exit

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


def test_a_fork_goes_another_way(place: Any) -> None:
    """From a step on, with another prompt; a step that is not there is an error."""
    model = place.script({"call": "list", "args": {}}, {"say": "Empty."})
    place.run("run", "--model", model, "Look.", *_BARE)
    done = place.run(
        "fork",
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
    wrong = place.run("fork", "last", "--at", "9", "x", "--model", place.script({"say": "x"}))
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
    """And told: it keeps nobody from their own runs, nor from those of a third project."""
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
    """The story of a run names the command that tells the child's."""
    place.write("family.py", _FAMILY)
    model = place.script({"call": "ask"}, {"say": "Done."})
    assert place.run("run", "family:agent", "--model", model, "Go.").returncode == 0
    told = place.run("show").stdout
    command = next(line for line in told.splitlines() if ": hookline show " in line)
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
        told = place.run(*command)
        assert "\x1b" not in told.stdout + told.stderr, command
        assert told.stdout


def test_a_conversation_is_reopened_as_it_was(place: Any) -> None:
    """With the model and the rules of then; what is said anew holds, and is kept with the runs from then on."""
    model = place.script(_WRITE, _WRITE, {"say": "Written."})
    first = place.run("chat", "--model", model, "--deny", "list", *_BARE, stdin="Write.\n")
    assert first.returncode == 0, first.stderr
    again = place.run("chat", "-c", "--ask", "write", stdin="Again.\n")
    assert again.returncode == Exit.WAITING, again.stderr
    assert f"with --model {model} --deny list --without bash\n" in again.stderr
    on = place.run("resume", "--allow", "all")
    assert on.returncode == Exit.WAITING, on.stderr  # the second of them is asked about, too
