"""Streams that are closed, full, left early, or in an encoding that lacks most characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_BARE = ("--without", "bash", "--without", "files")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="these are a POSIX shell's")


def shell(place: Any, ending: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command with what a shell says after it."""
    words = subprocess.list2cmdline(arguments)
    return subprocess.run(
        ["bash", "-c", f"{place.command} {words} {ending}"],
        cwd=place.project,
        env={**os.environ, **place.env, **env},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_nobody_there(closed: str, place: Any) -> None:
    """The run goes its way, and is kept."""
    model = place.script({"say": "Hi."})
    done = shell(place, closed, "run", "--model", model, "x", *_BARE)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "completed" in place.run("runs").stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_a_stream_cannot_have_are_written_out(encoding: str, place: Any) -> None:
    """The answer is not lost, and the exit code is that of the run."""
    model = place.script({"say": "漢字 é"})
    arguments = ("run", "--model", model, "漢", *_BARE)
    done = subprocess.run(
        ["bash", "-c", f"{place.command} {subprocess.list2cmdline(arguments)}"],
        cwd=place.project,
        env={**os.environ, **place.env, "PYTHONIOENCODING": encoding},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "漢字 é\n".encode(encoding, errors="backslashreplace")
    shown = shell(place, "", "show", PYTHONIOENCODING="ascii")
    assert (shown.returncode, "\\u6f22" in shown.stdout) == (0, True)


def test_json_is_utf_8_whatever_the_stream_speaks(place: Any) -> None:
    """It is a format, not text for a terminal."""
    model = place.script({"say": "漢字"})
    arguments = ("run", "--json", "--model", model, "x", *_BARE)
    done = shell(place, "", *arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["text"] == "漢字"


@pytest.mark.parametrize("command", ["runs", "show"])
def test_json_of_a_recorded_run_is_utf_8_too(command: str, place: Any) -> None:
    """Characters that the stream cannot have would be escaped as Python does, which JSON does not know."""
    place.run("run", "--model", place.script({"say": "hé"}), "é", *_BARE)
    done = shell(place, "", command, "--json", PYTHONIOENCODING="ascii")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert "é" in {record.get("prompt") or record.get("text") for record in records}


def test_a_reader_of_json_who_leaves_ends_the_run(place: Any) -> None:
    """As for other programs the code is 141; nothing continues that nobody reads about."""
    turns = [{"call": "list", "args": {}} for _ in range(40)]
    model = place.script(*turns, {"say": "x"})
    done = shell(
        place,
        "| head -1; exit ${PIPESTATUS[0]}",
        "run",
        "--json",
        "--model",
        model,
        "--without",
        "bash",
        "x",
    )
    assert done.returncode == 141, done.stderr
    assert done.stdout.count("\n") == 1
    assert "cancelled" in place.run("runs").stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("--version",), ("run", "x"), ("run", "--json", "x")])
def test_a_full_disk_is_reported_in_one_line(arguments: tuple[str, ...], place: Any) -> None:
    """Not as success, and not with a traceback."""
    model = place.script({"say": "Hi."})
    more = ("--model", model, *_BARE) if arguments[0] == "run" else ()
    done = shell(place, ">/dev/full", *arguments, *more)
    assert done.returncode == 1
    message = "hookline: standard output cannot be written: No space left on device."
    assert message in done.stderr
    assert "hookline show" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_where_the_answer_cannot_be_printed_it_is_reported_how_to_find_it(place: Any) -> None:
    """The closing line comes all the same; a reader who has left gets nothing more."""
    model = place.script({"say": "Hi."})
    done = shell(place, ">/dev/full", "run", "x", "--model", model, *_BARE)
    assert "done; 1 step" in done.stderr
    assert "reopen: hookline run --from" in done.stderr


_GONE = [
    pytest.param("2>&1 >answer | head -1; exit ${PIPESTATUS[0]}", id="left"),
    pytest.param(
        "2>/dev/full >answer",
        id="full",
        marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full"),
    ),
]


@pytest.mark.parametrize("ending", _GONE)
@pytest.mark.parametrize("more", [(), ("--json",), ("--deny", "bash")])
def test_a_run_continues_when_nobody_reads_its_output(
    ending: str, more: tuple[str, ...], place: Any
) -> None:
    """What is reported about a run never becomes a failure in it: all steps are made, and the answer is given."""
    turns = [{"call": "write", "args": {"path": f"{n}.txt", "content": "x"}} for n in range(4)]
    model = place.script(*turns, {"say": "Hi."})
    rules = ("--mode", "accept_edits", "--without", "bash")
    done = shell(place, ending, "run", "--model", model, "x", *rules, *more)
    assert done.returncode == 0, done.stderr
    assert "Hi." in (place.project / "answer").read_text()
    assert len(list(place.project.glob("*.txt"))) == 4
    assert "completed" in place.run("runs").stdout
    assert "rror" not in place.run("show").stdout


def test_the_code_is_that_of_a_pipe_when_the_answer_is_not_taken_either(place: Any) -> None:
    """The run is done and kept all the same."""
    turns = [{"call": "write", "args": {"path": f"{n}.txt", "content": "x"}} for n in range(4)]
    model = place.script(*turns, {"say": "Hi."})
    arguments = ("run", "--model", model, "x", "--mode", "accept_edits", "--without", "bash")
    done = shell(place, "2>&1 | head -1; exit ${PIPESTATUS[0]}", *arguments)
    assert (done.returncode, done.stdout.count("\n")) == (141, 1), done.stdout
    assert len(list(place.project.glob("*.txt"))) == 4
    assert "completed" in place.run("runs").stdout


def test_bytes_that_are_no_text_are_replaced(place: Any) -> None:
    """On the command line as in a pipe."""
    model = place.script({"say": "Hi."})
    done = shell(place, "$'a\\xff\\xfe'", "run", "-q", "--model", model, *_BARE)
    assert (done.returncode, done.stdout) == (0, "Hi.\n"), done.stderr
    assert "a\N{REPLACEMENT CHARACTER}" in place.run("show").stdout


def test_a_home_that_cannot_be_written_says_what_to_do(place: Any) -> None:
    """The run is not begun, as nobody could continue it; doctor says the same beforehand."""
    model = place.script({"say": "Hi."})
    nowhere = {"HOME": "/proc"} if Path("/proc").is_dir() else {"HOME": "/dev/null"}
    done = place.run("run", "--model", model, "x", *_BARE, **nowhere)
    assert done.returncode == 1
    assert "runs cannot be recorded in" in done.stderr
    assert "--no-save" in done.stderr
    assert place.run("run", "--model", model, "x", "--no-save", *_BARE, **nowhere).returncode == 0
    doctor = place.run("doctor", **nowhere)
    assert doctor.returncode == 1
    assert "cannot be written, so runs cannot be recorded" in doctor.stdout


def test_a_journal_of_its_own_is_in_the_command_that_reopens(place: Any) -> None:
    """Without it nobody would find the run."""
    model = place.script({"call": "list", "args": {}}, {"say": "Hi."})
    file = place.home / "a journal.db"
    arguments = ("--model", model, "--ask", "list", "--without", "bash", "x")
    done = place.run("run", "--journal", str(file), *arguments)
    assert done.returncode == 5
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("  yes: hookline ")]
    again = shell(place, line.removeprefix("  yes: hookline "))
    assert (again.returncode, again.stdout) == (0, "Hi.\n"), again.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
def test_a_directory_may_have_any_name(place: Any) -> None:
    """One that is no text in UTF-8 is remembered with the run, which continues there."""
    odd = place.project / os.fsdecode(b"lat\xe9n")
    try:
        odd.mkdir()
    except OSError:
        pytest.skip("this file system takes only text")
    place.project = odd
    model = place.script(
        {"call": "write", "args": {"path": "a.txt", "content": "x"}}, {"say": "ok"}
    )
    script = odd / os.fsdecode(b"s\xe9.json")
    script.write_bytes(Path(model.removeprefix("script:")).read_bytes())
    named = f"script:{script.name}"
    paused = place.run("run", "--model", named, "--ask", "write", "x", "--without", "bash")
    assert paused.returncode == 5, paused.stderr
    place.project = odd.parent
    journal = next(place.home.rglob("journal.db"))
    done = place.run("resume", "--allow", "all", "--journal", str(journal))
    assert done.returncode == 0, done.stderr
    assert (odd / "a.txt").read_text() == "x"


_CHATTY = """
import os, subprocess, sys
from hookline import AgentBuilder, tool

print("while it is loaded")


def chatty(ctx):
    print("a hook speaks")
    sys.stdout.write("without an end of line")
    os.write(1, b"to the number")
    subprocess.run(["echo", "a child speaks"])


@tool
def shout() -> str:
    "Say something."
    print("a tool speaks")
    return "said"


def build():
    return AgentBuilder().with_tools(shout).on_before_tool_use(chatty)
"""


@pytest.mark.parametrize(
    ("arguments", "tool"), [(("run",), "list"), (("run", "chatty:build"), "shout")]
)
def test_what_hooks_and_tools_print_is_not_the_answer(
    arguments: tuple[str, ...], tool: str, place: Any
) -> None:
    """It is reported on standard error: --json stays the records, and a pipe gets the answer alone."""
    place.write("chatty.py", _CHATTY)
    place.write("hookline.toml", '[[hooks]]\non = "before_tool_use"\nrun = "chatty:chatty"\n')
    assert place.run("trust").returncode == 0
    model = place.script({"call": tool, "args": {}}, {"say": "Hi."})
    recorded = place.run(*arguments, "--model", model, "--json", "x")
    assert recorded.returncode == 0, recorded.stderr
    records = [json.loads(line) for line in recorded.stdout.splitlines()]
    assert records[-1]["type"] == "result"
    said = place.run(*arguments, "--model", model, "x")
    assert said.stdout == "Hi.\n"
    for text in ("while it is loaded", "a hook speaks", "to the number", "a child speaks"):
        assert text in recorded.stderr
        assert text in said.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("hooks", "test", "list", "{}", "--json"),
        ("backtest", "--json"),
        ("hooks", "list", "--json"),
    ],
)
def test_what_hooks_print_is_not_what_a_command_says(
    arguments: tuple[str, ...], place: Any
) -> None:
    """Every command that asks them keeps its output to itself."""
    place.write("chatty.py", _CHATTY)
    place.write("hookline.toml", '[[hooks]]\non = "before_tool_use"\nrun = "chatty:chatty"\n')
    assert place.run("trust").returncode == 0
    model = place.script({"call": "list", "args": {}}, {"say": "Hi."})
    assert place.run("run", "--model", model, "x").returncode == 0
    done = place.run(*arguments)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()]


def test_a_full_disk_is_reported_once(place: Any) -> None:
    """The rest of the output is dropped."""
    model = place.script({"say": "Hi."})
    done = shell(place, ">/dev/full", "run", "-q", "--model", model, "x", *_BARE)
    assert (done.returncode, done.stderr.count("cannot be written")) == (1, 1)
