"""The command in a real terminal: what people see as it happens, and what a key does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyte
import pytest
from terminal import Terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no pseudo-terminals here")

_BARE = ("--without", "bash")
_SLOW = """
import asyncio, os
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, call, say

async def nap(seconds: float) -> str:
    '''Sleep until somebody wakes us.'''
    while not os.path.exists("woken"):
        await asyncio.sleep(0.01)
    return "slept"

class Slowly(ScriptedDriver):
    async def infer(self, request, turn):
        turn.emit_text("one ")
        turn.emit_text("two ")
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
        turn.emit_text("three")
        return await super().infer(request, turn)

def naps():
    turns = [call("nap", seconds=3), call("nap", seconds=60), say("Rested.")]
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(nap)

def one_nap():
    turns = [call("nap", seconds=3), say("Rested.")]
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(nap)

def words():
    return AgentBuilder().with_driver(Slowly([say(""), say("")]))

def long_nap():
    return AgentBuilder().with_driver(ScriptedDriver([call("nap", seconds=60), say("x")])).with_tools(nap)
"""


def opened(place: Any, *arguments: str, columns: int = 120, **env: str) -> Terminal:
    """The command in a terminal."""
    return Terminal(
        *arguments,
        cwd=place.project,
        env={"HOME": str(place.home), "NO_COLOR": "1", **env},
        columns=columns,
    )


def test_it_streams_with_colours_and_a_spinner(place: Any) -> None:
    """Words are there before the answer is whole."""
    place.write("slow.py", _SLOW)
    terminal = opened(place, "run", "slow:words", "Count.", NO_COLOR="")
    terminal.wait_for("one two")
    assert "three" not in terminal.seen
    place.write("go", "")
    terminal.wait_for("three")
    assert terminal.end() == 0
    assert "\x1b[32mdone\x1b[0m" in terminal.seen


_WAITS = """
import asyncio, logging, os
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, say

class Waits(ScriptedDriver):
    async def infer(self, request, turn):
        logging.getLogger("hookline").warning("a notice of the model")
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
        return await super().infer(request, turn)

def agent():
    return AgentBuilder().with_driver(Waits([say("Well.")]))
"""


def test_the_spinner_continues_below_a_line(place: Any) -> None:
    """While a model works the screen moves, with the time, also after a notice; it is gone at the end."""
    place.write("waits.py", _WAITS)
    terminal = opened(place, "run", "waits:agent", "Go.")
    terminal.wait_for("a notice of the model\r\n")
    terminal.wait_for("thinking 1 s")
    terminal.wait_for("thinking 2 s")
    place.write("go", "")
    terminal.wait_for("Well.")
    assert terminal.end() == 0
    rest = terminal.seen.partition("Well.")[2]
    assert "thinking" not in rest
    assert all("thinking" not in line.rpartition("\x1b[K")[2] for line in terminal.seen.split("\n"))


_STALLS = """
import asyncio, os
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver
from hookline.state import InferenceResponse

_PARTS = ("a" * 39, "b" * 30 + "漢字 and", " then the end.")

class Stalls(ScriptedDriver):
    async def infer(self, request, turn):
        for number, text in enumerate(_PARTS):
            turn.emit_text(text)
            while not os.path.exists(f"go{number}"):
                await asyncio.sleep(0.01)
        return InferenceResponse(text="".join(_PARTS))

def agent():
    return AgentBuilder().with_driver(Stalls([]))
"""


def test_a_stream_that_stalls_moves(place: Any) -> None:
    """The spinner stands below the text that has come, also at the end of the window, and leaves nothing behind."""
    place.write("stalls.py", _STALLS)
    terminal = opened(place, "run", "stalls:agent", "Go.", columns=40)
    terminal.resize(40, rows=4)
    screen = pyte.Screen(40, 4)
    stream = pyte.Stream(screen)
    ends = ("a" * 39, "漢字 and", "then the end.")
    for number, text in enumerate(ends):
        terminal.wait_for(text)
        terminal.wait_for("thinking 1 s\x1b8")
        terminal.wait_for("thinking 2 s\x1b8")
        screen.reset()
        stream.feed(terminal.seen)
        *before, last = [line.rstrip() for line in screen.display if line.strip()]
        assert "thinking" in last
        assert "thinking" not in "".join(before)
        place.write(f"go{number}", "")
    assert before[-2:] == ["b" * 29 + "漢字 and th", "en the end."]
    assert terminal.end() == 0
    stream.feed(terminal.seen)
    assert "thinking" not in "".join(screen.display)


_HOOKS_THAT_WAIT = """
import asyncio, os, time
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, call, say

async def until(name):
    while not os.path.exists(name):
        await asyncio.sleep(0.01)

async def look():
    "Look."
    await until("looked")
    return "seen"

async def greet(ctx):
    await until("greeted")

def check(ctx):
    print("one line of the hook")
    while not os.path.exists("checked"):
        time.sleep(0.01)
    print("half a line ", end="")
    while not os.path.exists("asked"):
        time.sleep(0.01)

async def measure(ctx, call_next):
    await until("before")
    result = await call_next(ctx)
    await until("after")
    return result

async def watch(ctx):
    await until("watched")

def agent():
    turns = [call("look"), say("Well.")]
    return (
        AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(look)
        .on_execution_start(greet).on_before_tool_use(check).around_tool_use(measure)
        .on_execution_end(watch, tier="observer")
    )
"""


def test_the_screen_moves_while_a_hook_or_a_tool_works(place: Any) -> None:
    """The spinner names it, with the time, wherever the hook is asked; what the hook prints stays readable."""
    place.write("hooks_that_wait.py", _HOOKS_THAT_WAIT)
    terminal = opened(place, "run", "hooks_that_wait:agent", "Go.")
    for name, done in (
        ("hook greet", "greeted"),
        ("hook check", "checked"),
        ("half a line", "asked"),
        ("hook measure", "before"),
        ("running look", "looked"),
        ("hook measure", "after"),
        ("hook watch", "watched"),
    ):
        terminal.wait_for(f"{name} ")
        if name.startswith("hook"):
            terminal.wait_for(f"{name} 1 s")
        place.write(done, "")
    assert terminal.end() == 0, terminal.text
    screen = pyte.Screen(120, 40)
    pyte.Stream(screen).feed(terminal.seen)
    shown = [line.rstrip() for line in screen.display if line.strip()]
    assert "one line of the hook" in shown
    assert any(line.startswith("half a line") for line in shown)
    assert not any(f"{name} " in line for line in shown for name in ("hook", "running")), shown
    piped = place.run("run", "hooks_that_wait:agent", "Go.").stderr
    assert "hook check" not in piped
    assert "\x1b" not in piped


def test_the_screen_moves_while_the_agent_is_made(place: Any) -> None:
    """A server of MCP may take long to start, and its failure stands alone on its line."""
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nraise SystemExit(1)"
    place.write(
        "hookline.toml", f'[mcp.slow]\ncommand = "python3"\nargs = ["-c", {json.dumps(waits)}]\n'
    )
    assert place.run("trust").returncode == 0
    terminal = opened(place, "run", "--model", place.script({"say": "x"}), "x", *_BARE)
    terminal.wait_for("starting 1 s")
    place.write("go", "")
    assert terminal.end() != 0
    screen = pyte.Screen(120, 40)
    pyte.Stream(screen).feed(terminal.seen)
    shown = [line.rstrip() for line in screen.display if line.strip()]
    assert shown[0].startswith("hookline: MCP server 'slow': it exited with code 1")
    assert not any("starting" in line for line in shown)


def test_the_screen_moves_while_a_command_is_asked(place: Any) -> None:
    """Of a long name the beginning is shown, and the time."""
    place.write(
        "hookline.toml",
        '[[hooks]]\non = "before_tool_use"\ncommand = "until test -e go; do sleep 0.1; done"\n',
    )
    assert place.run("trust").returncode == 0
    model = place.script({"call": "list", "args": {}}, {"say": "x"})
    terminal = opened(place, "run", "--model", model, "x", *_BARE, columns=60)
    terminal.wait_for("hook hookline.toml:1: until test -e go")
    terminal.wait_for("… 2 s")
    place.write("go", "")
    assert terminal.end() == 0, terminal.text


_REFUSES = """
import logging
from hookline import AgentBuilder, HookOutcome
from hookline.drivers import ScriptedDriver, call, say

class Warns(ScriptedDriver):
    async def infer(self, request, turn):
        logging.getLogger("hookline").warning("a model that is " + "very " * 16 + "small")
        return await super().infer(request, turn)

def refuse(ctx):
    return HookOutcome.block("the files here are shared " + "with others " * 6 + "so ask first")

def agent():
    driver = Warns([call("look", path="x" * 70), say("No.")])
    return AgentBuilder().with_driver(driver).with_tools(look).on_before_tool_use(refuse)

def look(path: str) -> str:
    "Look."
    return "nothing"
"""


def test_reasons_and_notices_are_wrapped_and_the_command_stays_whole(place: Any) -> None:
    """A verdict is read to its end in 80 columns, a line of progress is cut, and nothing is broken in a word."""
    place.write("refuses.py", _REFUSES)
    terminal = opened(place, "run", "refuses:agent", "Go.", columns=80)
    assert terminal.end() == 0
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", terminal.seen).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= 80
    said = " ".join(" ".join(lines).split())
    assert "very small" in said
    assert "with others so ask first no Blocked:" in said
    assert any(re.match(r'reopen: hookline run --from \S+ "\.\.\."$', line) for line in lines)


_FETCHES = """
import sys
from hookline.cli.screen import Screen
from hookline.providers.local.weights import ProgressBar

screen = Screen()
screen.spin("thinking")
ProgressBar.line = screen.show_progress
bar = ProgressBar("fetching it")
bar(1_000_000, 3_000_000)
sys.stdin.readline()
bar.end()
sys.stdin.readline()
screen.close()
"""


def test_one_line_moves_while_a_model_is_fetched(place: Any) -> None:
    """The spinner says how far it is, with the time, and what follows."""
    terminal = Terminal(
        "-c", _FETCHES, cwd=place.project, env={"NO_COLOR": "1"}, program=sys.executable
    )
    terminal.wait_for("fetching it: 1 of 3 MB 1 s")
    terminal.press("\n")
    terminal.wait_for("thinking ")
    terminal.press("\n")
    assert terminal.end() == 0
    assert "█" not in terminal.seen


_NOTICES = """
import logging
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, say

class Warns(ScriptedDriver):
    async def infer(self, request, turn):
        log = logging.getLogger("hookline")
        log.warning("read this once", extra={"is_once": True})
        log.warning("it protects less", extra={"is_protection": True})
        return await super().infer(request, turn)

def agent():
    return AgentBuilder().with_driver(Warns([say("Well.")]))
"""


def test_a_notice_appears_once_and_a_warning_every_time(place: Any) -> None:
    """A quiet run shows only the warning, and does not count for the notice."""
    place.write("notices.py", _NOTICES)
    runs = [
        place.run("run", *flags, "notices:agent", "Go.").stderr for flags in (("-q",), (), (), ())
    ]
    assert ["read this once" in each for each in runs] == [False, True, False, False]
    assert ["it protects less" in each for each in runs] == [True] * 4
    unknown = place.run("run", "notices:agent", "Go.", HOOKLINE_DATA_DIR=str(place.home / "else"))
    assert "read this once" in unknown.stderr


def test_no_color(place: Any) -> None:
    """NO_COLOR is respected."""
    terminal = opened(
        place, "run", "--model", place.script({"say": "Hi."}), "x", *_BARE, NO_COLOR="1"
    )
    assert terminal.end() == 0
    assert "\x1b[3" not in terminal.seen
    assert "done; 1 step" in terminal.seen


def test_ctrl_c_once_stops_after_the_step_and_saves(place: Any) -> None:
    """The tool that runs is not cut off; the run can be continued."""
    place.write("slow.py", _SLOW)
    terminal = opened(place, "run", "slow:naps", "Rest.")
    terminal.wait_for("run nap(seconds=3")
    terminal.press("\x03")
    terminal.wait_for("stopping after this step")
    place.write("woken", "")
    assert terminal.end() == 130, terminal.text
    assert "slept" in terminal.text
    assert "interrupted; 1 step" in terminal.text
    assert "stopped" in place.run("runs").stdout
    replayed = place.run("replay", "last")
    assert (replayed.returncode, "is identical" in replayed.stdout) == (0, True), replayed.stdout


def test_ctrl_c_twice_stops_now(place: Any) -> None:
    """A step in progress is cancelled, and hooks on the way out still run."""
    place.write("slow.py", _SLOW)
    terminal = opened(place, "run", "slow:long_nap", "Rest.")
    terminal.wait_for("run nap(seconds=60")
    began = time.monotonic()
    terminal.press("\x03")
    terminal.wait_for("stopping after this step")
    terminal.press("\x03")
    assert terminal.end() == 130, terminal.text
    assert time.monotonic() - began < 30
    assert "cancelled" in place.run("runs").stdout


def test_ctrl_c_while_a_hook_waits_is_reported_in_words(place: Any) -> None:
    """As it happens, and when the run is shown later."""
    begun = place.home / "begun"
    place.write(
        "hookline.toml",
        f'[[hooks]]\non = "before_tool_use"\ncommand = "touch {begun}; sleep 60"\n',
    )
    assert place.run("trust").returncode == 0
    model = place.script({"call": "list", "args": {}}, {"say": "x"})
    terminal = opened(place, "run", "--model", model, "x", *_BARE, columns=300)
    terminal.wait_for("step 1")
    while not begun.exists():
        time.sleep(0.05)
    terminal.press("\x03")
    terminal.wait_for("stopping after this step")
    terminal.press("\x03")
    assert terminal.end() == 130, terminal.text
    for shown in (terminal.text, place.run("show").stdout):
        assert "failed list(): it was cancelled while it waited" in " ".join(shown.split())
        assert "CancelledError" not in shown


def test_ctrl_c_at_a_question_leaves_it_open(place: Any) -> None:
    """The run stays paused, and can be answered later."""
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    terminal = opened(place, "run", "--model", model, "--ask", "list", "x", *_BARE)
    terminal.wait_for("? explain")
    terminal.press("\x03")
    assert terminal.end() == 130, terminal.text
    assert "hookline resume" in terminal.text
    done = place.run("resume", "--allow", "all")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


def test_a_signal_to_end_is_obeyed(place: Any) -> None:
    """SIGTERM cancels the run, which is saved as cancelled."""
    place.write("slow.py", _SLOW)
    terminal = opened(place, "run", "slow:long_nap", "Rest.")
    terminal.wait_for("run nap(seconds=60")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 130
    assert "cancelled" in place.run("runs").stdout


def test_after_a_signal_to_end_no_process_of_the_run_is_alive(place: Any) -> None:
    """Neither the command that a tool runs nor what that has left in the background, in a session of its own."""
    command = "setsid sleep 600 & echo $! > pids; echo $$ >> pids; touch begun; sleep 600"
    model = place.script({"call": "bash", "args": {"command": command}}, {"say": "Done."})
    terminal = opened(place, "run", "--model", model, "--sandbox", "host", "--allow", "bash", "x")
    while not (place.project / "begun").exists():
        time.sleep(0.05)
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 130
    for pid in (place.project / "pids").read_text().split():
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


_STUCK_HOOKS = {
    "the event loop": "import time\n\nasync def guard(ctx):\n    {begun}\n    time.sleep(600)\n",
    "every thread": "import re\n\ndef guard(ctx):\n    {begun}\n    re.match('(a+)+b', 'a' * 64)\n",
}
"""Hooks that never end, by what they hold up."""


@pytest.fixture(params=_STUCK_HOOKS)
def stuck(request: pytest.FixtureRequest, place: Any) -> Terminal:
    """A run whose hook never ends."""
    begun = place.home / "begun"
    place.write(
        "hooks.py",
        _STUCK_HOOKS[request.param].format(begun=f"open({str(begun)!r}, 'w').close()"),
    )
    place.write("hookline.toml", '[[hooks]]\non = "before_tool_use"\nrun = "hooks:guard"\n')
    assert place.run("trust").returncode == 0
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    terminal = opened(place, "run", "--model", model, "x", *_BARE)
    while not begun.exists():
        time.sleep(0.05)
    return terminal


def test_ctrl_c_three_times_ends_the_process_whatever_a_hook_does(
    place: Any, stuck: Terminal
) -> None:
    """The run is as it would be after a crash: it can be continued."""
    for _ in range(3):
        stuck.press_ctrl_c()
    assert stuck.end() in (-signal.SIGINT, -signal.SIGKILL)
    assert "running" in place.run("runs").stdout


def test_commands_that_only_ask_hooks_end_too(place: Any) -> None:
    """After three Ctrl-C, while a hook holds up every thread."""
    begun = place.home / "begun"
    hook = _STUCK_HOOKS["every thread"].format(begun=f"open({str(begun)!r}, 'w').close()")
    hook = hook.replace("'a' * 64", "'a' * (64 if os.getenv('STUCK') else 1)")
    place.write("hooks.py", f"import os\n{hook}")
    place.write("hookline.toml", '[[hooks]]\non = "before_tool_use"\nrun = "hooks:guard"\n')
    assert place.run("trust").returncode == 0
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    assert place.run("run", "--model", model, "x").returncode == 0
    for command in (("hooks", "test", "list"), ("backtest",), ("replay", "last")):
        begun.unlink()
        terminal = opened(place, *command, STUCK="1")
        while not begun.exists():
            time.sleep(0.05)
        for _ in range(3):
            terminal.press_ctrl_c()
        assert terminal.end() in (-signal.SIGINT, -signal.SIGKILL), command


def test_a_signal_to_end_is_obeyed_whatever_a_hook_does(place: Any, stuck: Terminal) -> None:
    """The watchdog waits some seconds first."""
    os.kill(stuck.pid, signal.SIGTERM)
    assert stuck.end() == -signal.SIGKILL
    assert "running" in place.run("runs").stdout


_STARTS = """
import os, pathlib, subprocess

def guard(ctx):
    orphan = "setsid sleep 600 > /dev/null & echo $!"
    left = subprocess.run(["sh", "-c", orphan], stdout=subprocess.PIPE, text=True).stdout
    program = subprocess.Popen(["sh", "-c", "sleep 600; true"])
    pathlib.Path("pids.new").write_text(f"{program.pid} {left}")
    os.rename("pids.new", "pids")
    program.wait()
"""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="the system says nothing about processes"
)
def test_what_a_hook_has_started_itself_ends_too(place: Any) -> None:
    """The program that a hook in Python waits for, and one that has left its parent and its session."""
    place.write("hooks.py", _STARTS)
    place.write("hookline.toml", '[[hooks]]\non = "before_tool_use"\nrun = "hooks:guard"\n')
    assert place.run("trust").returncode == 0
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    terminal = opened(place, "run", "--model", model, "x", *_BARE)
    pid_file = place.project / "pids"
    while not pid_file.exists():
        time.sleep(0.05)
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.end()
    until = time.monotonic() + 30
    pids = [int(pid) for pid in pid_file.read_text().split()]
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [is_alive(pid) for pid in pids] == [False, False]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_run_whose_process_died_continues(place: Any) -> None:
    """In another process, from its id; what was cut off is not run again behind anybody's back."""
    command = "touch started && sleep 5"
    model = place.script({"call": "bash", "args": {"command": command}}, {"say": "Still here."})
    terminal = opened(place, "run", "--model", model, "--sandbox", "host", "--allow", "bash", "x")
    terminal.wait_for("run bash(touch")
    until = time.monotonic() + 30
    while not (place.project / "started").exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.end()
    done = place.run("resume")
    assert (done.returncode, done.stdout) == (0, "Still here.\n"), done.stderr
    assert "run bash" not in done.stderr


def test_wide_characters_fit_the_window(place: Any) -> None:
    """A line that would be too wide is cut by columns, not by letters; also after the window was made smaller."""
    wide = "漢字" * 30
    model = place.script({"call": "read", "args": {"path": wide}}, {"say": wide})
    terminal = opened(place, "run", "--model", model, "x", *_BARE, columns=60, NO_COLOR="1")
    terminal.resize(40)
    assert terminal.end() == 0
    lines = [line for line in terminal.text.split("\n") if line.startswith("  run read(")]
    assert lines
    assert all(len(line) + line.count("漢") + line.count("字") <= 60 for line in lines)
    assert wide in terminal.text.replace("\n", "").replace("\r", "")


def test_what_a_model_says_cannot_move_the_terminal(place: Any) -> None:
    """Escape sequences are shown, not obeyed."""
    model = place.script({"say": "\x1b]0;owned\x07\x1b[2Jhello"})
    terminal = opened(place, "run", "--model", model, "x", *_BARE, NO_COLOR="1")
    assert terminal.end() == 0
    assert "\\x1b]0;owned\\x07" in terminal.seen
    assert "\x1b]0" not in terminal.seen
    assert "\x1b[2J" not in terminal.seen


def test_ten_thousand_lines(place: Any) -> None:
    """A long answer arrives whole, a long result as one line of progress."""
    text = "\n".join(f"line {number}" for number in range(10_000))
    place.write("long.txt", text)
    model = place.script({"call": "search", "args": {"pattern": "line 9999"}}, {"say": text})
    terminal = opened(place, "run", "--model", model, "x", *_BARE)
    assert terminal.end() == 0
    assert "line 9999\n" in terminal.text
    piped = place.run("run", "--model", model, "x", *_BARE)
    assert piped.stdout == text + "\n"
    assert len(piped.stderr) < 2_000


def test_a_reader_who_leaves_early_is_no_error(place: Any) -> None:
    """`hookline ... | head -1` ends without a traceback."""
    text = "\n".join(f"line {number}" for number in range(100_000))
    model = place.script({"say": text})
    words = ["run", "--model", model, "x", *_BARE]
    command = f"{place.command} " + " ".join(words) + " 2>err.txt | head -1"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=place.project,
        env={**os.environ, **place.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "line 0\n"
    assert "Traceback" not in (place.project / "err.txt").read_text()


def test_chat(place: Any) -> None:
    """A conversation with history, several lines, slash commands and an approval, that can be continued."""
    model = place.script(
        {"say": "Hello you."}, {"call": "list", "args": {}}, {"say": "Nothing."}, {"say": "Bye."}
    )
    terminal = opened(place, "chat", "--model", model, "--ask", "list", *_BARE)
    terminal.wait_for("> ")
    terminal.press("Hello,\\\r")
    terminal.wait_for("... ")
    terminal.press("again\r")
    terminal.wait_for("reopen")
    terminal.wait_for("> ")
    terminal.press("/usage\r")
    terminal.wait_for("1 request")
    terminal.wait_for("> ")
    terminal.press("What is here?\r")
    terminal.wait_for("? explain")
    terminal.press("y")
    terminal.wait_for("Nothing.")
    terminal.wait_for("> ")
    terminal.press("/show\r")
    terminal.wait_for("Hello,")
    terminal.wait_for("\n> ")
    terminal.press_until("\x03", "Ctrl-D ends")
    terminal.press_until("\x04", "continue: hookline chat")
    assert terminal.end() == 0, terminal.text
    assert "continue: hookline chat --session chat-" in terminal.text


@pytest.mark.parametrize("columns", [80, 120])
def test_the_answer_stands_below_the_last_step(place: Any, columns: int) -> None:
    """So does what the model says before it calls a tool; no line is wider than the terminal."""
    place.write("a.txt", "x" * 300)
    read = {"call": "read", "args": {"path": "a.txt"}}
    model = place.script(
        {"say": "I read it.", "calls": [read, read], "tokens": 9}, {"say": "Read."}
    )
    terminal = opened(place, "run", "--model", model, "Read.", *_BARE, columns=columns)
    assert terminal.end() == 0, terminal.text
    lines = terminal.text.splitlines()
    assert lines[:3] == ["step 1", "I read it.", "  2 calls, 9 tokens"]
    for place_of_call in (3, 5):
        assert lines[place_of_call].startswith("  run read(a.txt)")
        assert lines[place_of_call + 1].startswith("    ok ")
    assert lines[7:9] == ["step 2 scripted", "Read."]
    assert lines[9].startswith("done; 2 steps")
    assert max(map(len, lines[:9])) <= columns


def test_every_turn_of_a_conversation_streams(place: Any) -> None:
    """The second run is not taken for a child of the first: its words are there before its answer is whole."""
    place.write("slow.py", _SLOW)
    terminal = opened(place, "chat", "slow:words")
    for turn in (1, 2):
        terminal.wait_for("> ")
        terminal.press("Count.\r")
        terminal.wait_for(f"step {turn}")
        terminal.wait_for("one two")
        place.write("go", "")
        terminal.wait_for("three")
        assert "step" not in terminal.wait_for("done").lower()
        (place.project / "go").unlink()
        assert "| step" not in terminal.wait_for("reopen")
    terminal.wait_for("> ")
    terminal.press_until("\x04", "continue: hookline chat")
    assert terminal.end() == 0, terminal.text


@pytest.mark.parametrize("times", [1, 2])
def test_retry_continues_a_run_that_was_interrupted(place: Any, times: int) -> None:
    """After the step or within it; here, and in a conversation that is opened again. An answered one is over."""
    place.write("slow.py", _SLOW)
    terminal = opened(place, "chat", "slow:one_nap")
    terminal.wait_for("> ")
    terminal.press("Rest.\r")
    terminal.wait_for("run nap(seconds=3")
    terminal.press("\x03")
    terminal.wait_for("stopping after this step")
    if times == 2:
        terminal.press("\x03")
    else:
        place.write("woken", "")
    terminal.wait_for("the run was interrupted: /retry continues it")
    terminal.wait_for("> ")
    if times == 2:
        terminal.press_until("\x04", "continue: hookline chat")
        assert terminal.end() == 0, terminal.text
        place.write("go", "")
        terminal = opened(place, "chat", "-c", "slow:words")
        terminal.wait_for("> ")
    terminal.press("/retry\r")
    terminal.wait_for("Rested." if times == 1 else "three")
    terminal.wait_for("> ")
    terminal.press("/retry\r")
    terminal.wait_for("no run waits, and the last one was not interrupted")
    terminal.wait_for("> ")
    terminal.press_until("\x04", "continue: hookline chat")
    assert terminal.end() == 0, terminal.text


def test_a_text_of_several_lines_and_an_interrupted_one(place: Any) -> None:
    """The prompt says that a text continues; Ctrl-C leaves the line that was begun, and says so below it."""
    model = place.script({"say": "Read."})
    terminal = opened(place, "chat", "--model", model, *_BARE)
    terminal.wait_for("> ")
    terminal.press('"""\r')
    for word in ("one", "two"):
        terminal.wait_for("... ")
        terminal.press(f"{word}\r")
    terminal.wait_for("... ")
    terminal.press('"""\r')
    terminal.wait_for("Read.")
    terminal.wait_for("> ")
    terminal.press("half")
    terminal.wait_for("half")
    terminal.press_until("\x03", "\n(Ctrl-D ends the conversation)")
    terminal.press_until("\x04", "continue: hookline chat")
    assert terminal.end() == 0, terminal.text
    assert "> one two" in place.run("show").stdout.replace("\n", " ").replace("  ", " ")


def test_hooks_learn_how_a_conversation_ends_and_reach_the_terminal(place: Any) -> None:
    """It is cleared, and it is left; a title of theirs gets to the terminal as it is."""
    said = r'{"terminalSequence": "\u001b]2;at work\u0007"}'
    hooks = {
        "SessionEnd": [{"hooks": [{"type": "command", "command": "cat >> ends"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": f"printf '%s' '{said}'"}]}],
    }
    place.write(".claude/settings.json", json.dumps({"hooks": hooks}))
    assert place.run("trust").returncode == 0
    model = place.script({"say": "One."}, {"say": "Two."})
    terminal = opened(place, "chat", "--model", model, *_BARE)
    terminal.wait_for("> ")
    terminal.press("Go.\r")
    terminal.wait_for("\x1b]2;at work\x07")
    terminal.wait_for("> ")
    terminal.press("/clear\r")
    terminal.wait_for("started again")
    terminal.press("Go.\r")
    terminal.wait_for("Two.")
    terminal.press_until("\x04", "continue: hookline chat")
    assert terminal.end() == 0
    ends = (place.project / "ends").read_text().splitlines()
    assert [json.loads(line)["reason"] for line in ends] == ["clear", "prompt_input_exit"]


def test_a_hook_says_what_is_shown_of_an_answer(place: Any) -> None:
    """`displayContent` is on the terminal; the conversation and a pipe have the model's text."""
    said = {"hookSpecificOutput": {"hookEventName": "MessageDisplay", "displayContent": "[hidden]"}}
    hook = {"type": "command", "command": f"cat > asked; echo '{json.dumps(said)}'"}
    hooks = {"MessageDisplay": [{"hooks": [hook]}]}
    place.write(".claude/settings.json", json.dumps({"hooks": hooks}))
    assert place.run("trust").returncode == 0
    model = place.script({"say": "It is 4711."})
    terminal = opened(place, "run", "--model", model, "Which?", *_BARE)
    assert terminal.end() == 0
    assert "[hidden]" in terminal.text
    assert "4711" not in terminal.text
    assert json.loads((place.project / "asked").read_text())["delta"] == "It is 4711."
    assert "It is 4711." in place.run("show").stdout
    piped = place.run("run", "--model", model, "Which?", *_BARE)
    assert piped.stdout == "It is 4711.\n"
