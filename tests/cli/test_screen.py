"""The lines on the screen: their width, which of them stay, and which are only shown on demand."""

from __future__ import annotations

import io
import json
import logging
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from terminal import Terminal

from hookline.cli import console
from hookline.cli.screen import Screen
from hookline.cli.terminal import (
    TOGETHER,
    align_columns,
    columns,
    fit_text,
    wrap_text,
)

_LETTERS = st.text(st.sampled_from("ab c漢字é\u0301 -"), max_size=60)
_COLOURED = st.lists(st.one_of(_LETTERS, st.sampled_from(["\x1b[31m", "\x1b[0m"])), max_size=6)


@given(_COLOURED, st.integers(2, 40))
def test_what_is_fitted_fits(parts: list[str], room: int) -> None:
    """Wide characters count twice, marks and colours not at all; what was cut says so, and ends its colour."""
    text = "".join(parts)
    shown = fit_text(text, room)
    assert columns(shown) <= room
    if shown != text:
        assert columns(text) > room
        assert shown.removesuffix("\x1b[0m").endswith("…")
        assert "\x1b" not in shown or shown.endswith("\x1b[0m")


@given(_LETTERS, st.integers(8, 40), st.sampled_from(["", "  "]))
def test_what_is_wrapped_fits_and_loses_nothing(text: str, room: int, indent: str) -> None:
    """Every word is there, in order, and no line is too wide."""
    lines = wrap_text(text, room, indent)
    assert all(columns(line) <= room for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_words_that_belong_together_stay_together() -> None:
    """Unless there is no room for them in any line."""
    pair = f"d no,{TOGETHER}and{TOGETHER}say"
    assert wrap_text(f"one two {pair}", 14) == ["one two d", "no, and say"]
    assert wrap_text(pair, 8) == ["d", "no, and", "say"]


_NAP = """
import asyncio
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, call, say

async def nap(seconds: float) -> str:
    '''Sleep.'''
    await asyncio.sleep(seconds)
    return "slept"

def build():
    turns = [call("nap", seconds=4), say("Rested.")]
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(nap)
"""


def _napping(place: Any, columns: int = 60, **env: str) -> Terminal:
    place.write("naps.py", _NAP)
    return Terminal(
        "run",
        "naps:build",
        "x",
        cwd=place.project,
        env={"HOME": str(place.home), "NO_COLOR": "1", **env},
        columns=columns,
    )


_SCREENS = (
    "run --help",
    "hooks list",
    "hooks explain",
    "hooks lint",
    "hooks test read .env",
    "config show",
    "tools",
    "runs",
    "show last --hooks",
    "approve last",
    "doctor",
    "backtest --deny read",
    "model list",
    "trust --show",
    "journal check",
    "worker",
    "nonsense",
    "run --model nonsense x",
)
_SCRIPT_HOOK = {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/.claude/hooks/look-at-it.sh'}


def _project_with_long_words(place: Any) -> None:
    """A trusted project with rules, a script as a hook, a run that is done and one that waits."""
    hooks = {"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [_SCRIPT_HOOK]}]}
    denied = {"permissions": {"deny": ["Read(./secrets/**)"]}}
    place.write(".claude/settings.json", json.dumps({"hooks": hooks, **denied}))
    place.write(".claude/hooks/look-at-it.sh", "#!/bin/sh\n").chmod(0o755)
    place.write("a.txt", "x\n")
    place.write(
        "hookline.toml",
        '[approvals]\nask = ["write(a-rather-long-name-of-a-file-in-a-rule.txt)", "edit"]\n'
        '[[hooks]]\non = "before_tool_use"\nmatch = "read"\ncommand = "true --a-long-option and-a-word"\n',
    )
    assert place.run("trust").returncode == 0
    file = {"path": "a-rather-long-name-of-a-file-in-a-rule.txt", "content": ""}
    read, write = {"call": "read", "args": {"path": "a.txt"}}, {"call": "write", "args": file}
    for turns, code in (([read, {"say": "Read."}], 0), ([write], 5)):
        ran = place.run(
            "run", "--model", place.script(*turns), f"Go {'on ' * 40}", "--without", "bash"
        )
        assert ran.returncode == code, ran.stderr


def test_every_screen_fits_and_breaks_no_word(place: Any) -> None:
    """Rows and sentences are wrapped between words, or cut. In a pipe a row is one line."""
    _project_with_long_words(place)
    env = {"HOME": str(place.home), "NO_COLOR": "1"}
    wide = [(120, command) for command in ("hooks explain", "backtest --deny read")]
    for room, command in [*((80, each) for each in _SCREENS), *wide]:
        terminal = Terminal(*command.split(), cwd=place.project, env=env, columns=room)
        terminal.end()
        lines = terminal.text.splitlines()
        assert lines, command
        assert [line for line in lines if columns(line) > room] == [], command
        piped = place.run(*command.split())
        words = {
            word for word in (piped.stdout + piped.stderr).split() if columns(word) <= room - 20
        }
        joined = [a.split()[-1:] + b.split()[:1] for a, b in pairwise(lines)]
        broken = [pair for pair in joined if len(pair) == 2 and "".join(pair) in words]
        assert broken == [], command


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_a_terminal_that_cannot_take_a_line_back_has_no_spinner(kind: str, place: Any) -> None:
    """Nor any other sequence."""
    terminal = _napping(place, TERM=kind, NO_COLOR="" if kind else "1")
    assert terminal.end() == 0, terminal.text
    assert "\x1b" not in terminal.seen
    assert "thinking" not in terminal.seen
    assert "ok 4." in terminal.seen


def test_nothing_is_coloured_in_a_pipe(place: Any) -> None:
    """Neither the answer nor the progress, and no line is cut as if for a window."""
    long = "word " * 40
    model = place.script({"call": "read", "args": {"path": long.strip()}}, {"say": "Hi."})
    done = place.run("run", "--model", model, "x", "--without", "bash", NO_COLOR="")
    assert done.stdout == "Hi.\n"
    assert "\x1b" not in done.stderr
    assert f"run read({long.strip()})" in done.stderr


@pytest.mark.parametrize("room", [5, 7, 12, 30])
def test_colours_stay_whole_where_a_line_is_broken(room: int) -> None:
    """However narrow the window is: half a code would be shown as letters."""
    text = f"  \x1b[1mp\x1b[0m all{TOGETHER}write(/out.txt)  \x1b[1;33mlonger-than-that\x1b[0m"
    lines = wrap_text(text, room, "  ")
    assert "".join(lines).count("\x1b[") == 4
    assert all(re.sub(r"\x1b\[[0-9;]*m", "", line).isprintable() for line in lines)
    assert all(columns(line) <= room for line in lines)


def test_a_tool_that_fails_is_reported_in_words(place: Any) -> None:
    """Not by the name of a class: what it said comes with its result."""
    place.write("hookline.toml", '[errors]\ntool = "stop"\n')
    assert place.run("trust").returncode == 0
    model = place.script({"call": "read", "args": {"path": "nowhere"}}, {"say": "x"})
    done = place.run("run", "--model", model, "x", "--without", "bash")
    assert "failed: there is no 'nowhere'. Look for it" in done.stderr
    assert "hookline.errors" not in done.stderr


_FAILING = """
from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver, say

def crash(ctx):
    raise KeyError("nokey")

def agent(*turns):
    return AgentBuilder().with_driver(ScriptedDriver(turns or [say("Hi.")]))

model = agent(KeyError("nokey"))
hook = agent().on_before_step(crash)
end = agent().on_execution_end(crash)
observer = agent().on_before_step(crash, tier="observer")
two = agent(ValueError("other")).on_before_step(crash, on_failure="open")
"""


def test_one_failure_gives_one_message(place: Any) -> None:
    """If it ends the run, the last line; else the line of the hook."""
    place.write("failing.py", _FAILING)
    shown = {}
    for name in ("model", "hook", "end", "observer", "two"):
        done = place.run("run", f"failing:{name}", "x")
        shown[name] = [line for line in done.stderr.splitlines() if "nokey" in line]
        assert len(shown[name]) == 1, (name, done.stderr)
    assert shown["model"][0].startswith("failed: KeyError: 'nokey'; ")
    assert shown["hook"][0].startswith("failed: hook 'crash' at before_step: KeyError: 'nokey'; ")
    assert shown["observer"] == ["  hook crash at before_step: failed: KeyError: 'nokey'"]
    assert shown["two"] == shown["observer"]


def test_a_program_that_is_not_executable_is_reported_with_the_remedy(place: Any) -> None:
    """The guard blocks, and the reason says what to do."""
    place.write("guard.sh", "#!/bin/sh\nexit 0\n").chmod(0o644)
    place.write("hookline.toml", '[[hooks]]\non = "PreToolUse"\ncommand = "./guard.sh"\n')
    assert place.run("trust").returncode == 0
    done = place.run("hooks", "test", "list", "{}")
    assert "Permission denied; is it executable? (chmod +x)" in done.stdout, done.stdout


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    """Wide characters count twice, and nothing is left at the end of a line."""
    assert align_columns([["a", "b", "c"], ["\u6f22", "", ""]]) == ["a   b  c", "\u6f22"]
    assert align_columns([]) == []


def test_a_message_after_the_command_has_ended_fails_nobody() -> None:
    """Its stream may be closed; the program that called it in its own process goes on."""
    stream = io.StringIO()
    screen = Screen(out=io.StringIO(), err=stream)
    stream.close()
    console._LogHandler(screen).handle(
        logging.LogRecord("hookline", logging.WARNING, "", 0, "later", (), None)
    )
