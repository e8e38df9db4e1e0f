"""`hookline run`, piped: the answer on stdout, everything else on stderr, and an exit code that says how it ended."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.cli.exits import Exit, exit_of
from hookline.journal import SQLiteJournal, decode, encode
from hookline.state import RunStatus, StopReason
from hookline.testing import ScriptedDriver, say

_DOCS = Path(__file__).parents[2] / "docs"
_LOOK = {"call": "list", "args": {}}
_BARE = ("--without", "bash")


def test_the_answer_alone_is_on_stdout(place: Any) -> None:
    """Steps, calls and the closing line are on stderr, without colours or anything that moves."""
    place.write("a.txt", "x")
    model = place.script(
        {"say": "I will look.", "calls": [_LOOK]}, {"say": "One file: 你好.", "tokens": 12}
    )
    done = place.run("run", "--model", model, "What is here?", *_BARE)
    assert (done.returncode, done.stdout) == (0, "One file: 你好.\n")
    assert "\x1b" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "step 1 scripted: 1 call"
    assert lines[1].startswith("  run list(.)")
    assert re.fullmatch(
        r'done; 2 steps, 12 tokens, [\d.]+ s; reopen: hookline run --from [\w-]+ "\.\.\."',
        lines[-1],
    )


def test_each_result_stands_directly_below_its_call(place: Any) -> None:
    """Also of calls that run at once, and of one that a rule blocks; of one that is alone the call is shown at once."""
    for name in "abc":
        place.write(f"{name}.txt", f"text of {name}\n")
    reads = [{"call": "read", "args": {"path": f"{name}.txt"}} for name in "abc"]
    model = place.script({"calls": reads}, reads[0], {"say": "Read."})
    done = place.run("run", "--model", model, "--deny", "read(b.txt)", "Read.", *_BARE)
    expected = [("run", "a", "text of a"), ("not run", "b", "Blocked: "), ("run", "c", "text of c")]
    for printed, indent in (
        (done.stderr, "    "),
        (place.run("show", "last", "--full").stdout, ""),
    ):
        lines = printed.splitlines()
        calls = [place for place, line in enumerate(lines) if re.match("  (not )?run read", line)]
        assert len(calls) == 4
        for number, (label, name, text) in zip(calls, [*expected, expected[0]], strict=True):
            assert lines[number].startswith(f"  {label} read({name}.txt)")
            assert lines[number + 1].startswith(indent)
            assert text in lines[number + 1]


def test_a_verdict_is_shown(place: Any) -> None:
    """A line says which hook, where, what, about which call and why."""
    model = place.script({"call": "read", "args": {"path": ".env"}}, {"say": "No."})
    done = place.run("run", "--model", model, "--deny", "read(.env)", "Read it.", *_BARE)
    assert done.returncode == 0
    assert (
        "hook approval at before_tool_use: block read(.env): the rule `read(.env)` denies it"
        in done.stderr
    )


def test_json_is_the_journals_records(place: Any) -> None:
    """One per line, exactly as they are in the journal, the result last; and nothing else."""
    model = place.script(_LOOK, {"say": "Done."})
    done = place.run("run", "--model", model, "--json", "--journal", "runs.db", "Look.", *_BARE)
    lines = done.stdout.splitlines()
    records = [decode(line) for line in lines]
    assert records[-1].type == "result"
    assert done.stderr == ""
    with SQLiteJournal(place.project / "runs.db") as journal:
        kept = journal.read_sync(records[0].run_id)
    assert [encode(record).decode() for record in kept] == lines


def test_quiet_is_the_answer_alone(place: Any) -> None:
    """Without an answer, a line says why."""
    done = place.run("run", "-q", "--model", place.script({"say": "Hi."}), "Hello.", *_BARE)
    assert (done.stdout, done.stderr) == ("Hi.\n", "")
    done = place.run(
        "run", "-q", "--model", place.script(_LOOK, _LOOK), "--max-steps", "1", "x", *_BARE
    )
    assert done.stdout == ""
    assert "step_limit" in done.stderr


@pytest.mark.parametrize("way", ["words", "file", "stdin", "both", "all"])
def test_the_task_comes_from_anywhere(way: str, place: Any) -> None:
    """Words, a file, what is piped in, and several of them."""
    model = place.script({"say": "ok"})
    place.write("task.txt", "from the file")
    given: dict[str, tuple[tuple[str, ...], str, str]] = {
        "words": (("from", "--max-steps", "3", "words"), "", "from words"),
        "file": (("-f", "task.txt"), "", "from the file"),
        "stdin": ((), "from the pipe", "from the pipe"),
        "both": (("Explain:",), "a pipe", "Explain:\n\na pipe"),
        "all": (("-f", "task.txt"), "and a pipe", "from the file\n\nand a pipe"),
    }
    words, piped, task = given[way]
    done = place.run("run", "--json", "--model", model, *words, *_BARE, stdin=piped)
    prompts = [
        record for record in map(json.loads, done.stdout.splitlines()) if record["type"] == "prompt"
    ]
    assert [prompt["text"] for prompt in prompts] == [task]


def test_a_slow_pipe_is_waited_for(place: Any) -> None:
    """What comes later than the command starts still is part of the task; a pipe that says nothing is left out."""
    model = place.script({"say": "ok"})
    command = f"{place.command} run --json --model {model} Explain: --without bash"
    for piped, task in (("(sleep 1; echo late)", "Explain:\n\nlate"), ("sleep 8", "Explain:")):
        done = subprocess.run(
            ["bash", "-c", f"{piped} | {command}"],
            cwd=place.project,
            env={**os.environ, **place.env},
            capture_output=True,
            text=True,
            check=False,
        )
        prompt = next(line for line in done.stdout.splitlines() if '"prompt"' in line)
        assert json.loads(prompt)["text"].strip() == task
    assert "the pipe had no data" in done.stderr


def test_nothing_is_kept_if_asked_so(place: Any) -> None:
    """With --no-save there is no file, and no command that reopens it."""
    done = place.run("run", "--no-save", "--model", place.script({"say": "Hi."}), "x", *_BARE)
    assert done.stdout == "Hi.\n"
    assert "reopen" not in done.stderr
    assert not list(place.home.rglob("*.db"))


def test_show_has_what_was_said_before(place: Any) -> None:
    """The last messages in a line each, or all of them; a wrong chain head is damage."""
    place.run("run", "--model", place.script({"say": "Hi."}), "x", *_BARE)
    (path,) = place.home.rglob("journal.db")
    with SQLiteJournal(path) as journal:
        driver = ScriptedDriver([say("One\nanswer."), *[say("Yes.")] * 11])
        agent = AgentBuilder().with_driver(driver).with_journal(journal).build()
        result = agent.run_sync("First.", run_id="r-0")
        for number in range(1, 12):
            result = agent.run_sync(f"Next {number}.", state=result.state, run_id=f"r-{number}")
    short = place.run("show").stdout.splitlines()
    assert "| (2 earlier messages; --full shows all)" in short
    assert [line for line in short if line.startswith("| > ")] == [
        f"| > Next {number}." for number in range(1, 11)
    ]
    full = place.run("show", "--full").stdout
    assert "\n| > First.\n| One\n| answer.\n| > Next 1." in full
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET run_id = 'other' WHERE run_id = 'r-2'")
    for options in ((), ("--json",)):
        refused = place.run("show", *options)
        assert refused.returncode == Exit.FAILED
        assert "its conversation begins in run 'r-2'" in refused.stderr


def test_a_conversation_continues(place: Any) -> None:
    """-c continues the last one, --from with any."""
    place.run("run", "--model", place.script({"say": "One."}), "First.", *_BARE)
    place.run("run", "-c", "--model", place.script({"say": "Two."}), "Second.", *_BARE)
    first = place.run("runs", "--json").stdout.splitlines()[-1]
    earlier = json.loads(first)["run_id"]
    shown = place.run("show", "--json").stdout.splitlines()
    assert json.loads(shown[0])["continues"]["run_id"] == earlier
    shown = place.run("show").stdout
    assert f"continues a conversation: hookline show {earlier}" in shown
    assert "\n| > First.\n| One.\n" in shown
    assert "\n> Second.\n" in shown
    assert "| " not in place.run("show", earlier).stdout
    refused = place.run("runs", "--delete", earlier)
    assert "cannot be deleted alone" in refused.stderr
    again = place.run(
        "run",
        "--json",
        "--from",
        json.loads(first)["run_id"],
        "--model",
        place.script({"say": "3"}),
        "x",
        *_BARE,
    )
    assert "Second." not in again.stdout
    deleted = place.run("runs", "--delete", earlier, "--with-later").stdout
    assert deleted.startswith("deleted ")
    assert deleted.count(",") == 2


def test_what_continues_has_the_flags_of_before(place: Any) -> None:
    """The agent, the model and the rules: a conversation that is reopened with the printed command keeps them."""
    place.write(
        "mine.py",
        "from hookline import AgentBuilder\n"
        "def look() -> str:\n    'Look.'\n    return 'seen'\n"
        "def agent():\n    return AgentBuilder().with_tools(look)\n",
    )
    model = place.script({"call": "look", "args": {}}, {"say": "Looked."})
    place.run("run", "mine:agent", "--model", model, "--deny", "look", "First.")
    for again in (("run", "-c"), ("run", "--from", "last"), ("run", "-c", "--at", "1")):
        done = place.run(*again, "Again.")
        assert (done.returncode, done.stdout) == (0, "Looked.\n"), done.stderr
        assert f": --agent mine:agent --model {model} --deny look\n" in done.stderr
        assert "the rule `look` denies it" in done.stderr
    other = place.script({"say": "Another."}, name="other.json")
    done = place.run("run", "-c", "--model", other, "Again.")
    assert done.stdout == "Another.\n"
    assert ": --agent mine:agent --deny look\n" in done.stderr
    done = place.run("run", "-c", "--agent", "mine:agent", "--model", model, "-q", "Again.")
    assert (done.stdout, done.stderr) == ("Looked.\n", "")


# --- exit codes ------------------------------------------------------------------------------------------

_STOP = '[[hooks]]\non = "{on}"\ndo = "{do}"\nreason = "not now"\n'


@pytest.mark.parametrize(
    ("code", "turns", "flags", "config"),
    [
        (Exit.DONE, [{"say": "ok"}], [], ""),
        (Exit.FAILED, [], [], ""),
        (Exit.USAGE, [{"say": "ok"}], ["--max-steps", "x"], ""),
        (Exit.LIMIT, [_LOOK, _LOOK], ["--max-steps", "1"], ""),
        (Exit.BLOCKED, [{"say": "ok"}], [], _STOP.format(on="prompt_submit", do="block")),
        (Exit.BLOCKED, [_LOOK], [], _STOP.format(on="before_tool_use", do="stop")),
        (Exit.WAITING, [_LOOK], ["--ask", "list"], ""),
        (Exit.CONFIG, [{"say": "ok"}], [], "modle = 1"),
        (Exit.USAGE, [{"say": "ok"}], ["--capability", "filse"], ""),
    ],
)
def test_exit_codes(
    code: Exit, turns: list[Any], flags: list[str], config: str, place: Any
) -> None:
    """Each way a run ends has its own, and no error is more than a few lines."""
    place.write("hookline.toml", config)
    done = place.run("run", "--model", place.script(*turns), *flags, "x", *_BARE)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_stop_reason_of_ones_own_is_no_success() -> None:
    """A hook stopped the run, whatever it calls the reason. A run that is completed is done."""
    own = StopReason("maintenance")
    assert exit_of(RunStatus.STOPPED, own) is Exit.BLOCKED
    assert exit_of(RunStatus.COMPLETED, own) is Exit.DONE
    assert exit_of(RunStatus.STOPPED, StopReason.STEP_LIMIT) is Exit.LIMIT


def test_the_page_has_the_same_table() -> None:
    """docs/cli.md lists every code."""
    page = (_DOCS / "cli.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .+? \|$", page, re.MULTILINE)
    assert list(map(int, rows)) == [code.value for code in Exit]


def test_a_crash_has_its_type(place: Any) -> None:
    """The words of a KeyError alone are the key. Live and in the recording."""
    place.write(
        "mine.py",
        "from hookline import AgentBuilder\nfrom hookline.testing import ScriptedDriver\n"
        "def agent():\n    return AgentBuilder().with_driver(ScriptedDriver([KeyError('nokey')]))\n",
    )
    done = place.run("run", "mine:agent", "x")
    assert "failed: KeyError: 'nokey'; 1 step" in done.stderr
    assert "failed: error KeyError: 'nokey'\n" in place.run("show", "last").stdout


def test_an_error_is_one_line(place: Any) -> None:
    """Also one that nobody foresaw."""
    place.write("broken.py", "raise RuntimeError('oh')\n")
    done = place.run("run", "broken:agent", "x")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "hookline: 'broken:agent' cannot be loaded: broken.py:1: RuntimeError: oh"
    )
    assert len(done.stderr.splitlines()) == 1


def test_without_a_model_one_line_says_how_to_get_one(place: Any) -> None:
    """Where the local one is not installed."""
    hide = (
        "import importlib.util as u; f = u.find_spec; "
        "u.find_spec = lambda n, *a: None if n == 'xllamacpp' else f(n, *a)"
    )
    place.write("sitecustomize.py", hide)
    done = place.run("run", "x", PYTHONPATH=f"{place.project}:{place.env['PYTHONPATH']}")
    assert done.returncode == Exit.CONFIG
    assert "no model was named, and the local one is not here" in done.stderr
    assert "pip install" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- agents of one's own -----------------------------------------------------------------------------------

_AGENT = """
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, say, call

def shout(text: str) -> str:
    '''Say it loudly.'''
    return text.upper()

def build():
    return AgentBuilder().with_driver(ScriptedDriver([call("shout", text="hey"), say("Done.")])).with_tools(shout)

built = build().build()
"""


@pytest.mark.parametrize("name", ["build", "built"])
def test_an_agent_of_ones_own(name: str, place: Any) -> None:
    """`module:agent`, a builder or an agent, runs like any other."""
    place.write("mine.py", _AGENT)
    done = place.run("run", f"mine:{name}", "Shout.")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "run shout(text='hey')" in done.stderr
    assert "completed" in place.run("runs").stdout


def test_flags_hold_for_a_builder_and_not_for_what_is_built(place: Any) -> None:
    """What cannot be changed is refused rather than ignored."""
    place.write("mine.py", _AGENT)
    assert place.run("run", "mine:build", "x", "--max-steps", "1").returncode == Exit.LIMIT
    done = place.run("run", "mine:built", "x", "--max-steps", "1")
    assert done.returncode == Exit.USAGE
    assert "the agent is built already, so --max-steps cannot change it." in done.stderr


def test_a_changed_request_is_left_to_the_journal(place: Any) -> None:
    """A hook that adds to every request is not reported in every step."""
    todos = [{"content": "dig", "status": "pending"}]
    model = place.script({"call": "todo_write", "args": {"todos": todos}}, {"say": "Done."})
    done = place.run("run", "--model", model, "x", "--capability", "task_planning", *_BARE)
    assert done.returncode == 0, done.stderr
    assert "changes request" not in done.stderr


def test_an_answer_is_given_whatever_fails_when_the_session_ends(place: Any) -> None:
    """The failure is reported beside it."""
    place.write("hookline.toml", '[[hooks]]\non = "session_end"\ncommand = "exit 7"\n')
    assert place.run("trust").returncode == 0
    ran = place.run("run", "--model", place.script({"say": "The answer."}), "x")
    assert (ran.returncode, ran.stdout) == (0, "The answer.\n"), ran.stderr
    assert "at session_end: failed: it ended with exit code 7" in ran.stderr


def test_an_answer_is_printed_though_a_hook_fails_when_all_is_over(place: Any) -> None:
    """It was printed before; the exit code and the last line report the failure."""
    place.write("late.py", "def bad(ctx):\n    raise RuntimeError('boom')\n")
    place.write("hookline.toml", '[[hooks]]\non = "session_end"\nrun = "late:bad"\n')
    assert place.run("trust").returncode == 0
    model = place.script({"say": "Forty-two."})
    shown = place.run("run", "--model", model, "Go.")
    assert (shown.returncode, shown.stdout) == (1, "Forty-two.\n")
    assert "boom" in shown.stderr
    said = place.run("run", "--model", model, "--json", "Go.").stdout.splitlines()
    assert json.loads(said[-1])["text"] == "Forty-two."
