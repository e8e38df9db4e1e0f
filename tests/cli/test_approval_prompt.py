"""Questions on a real terminal: what is shown, and what a key does."""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from terminal import Terminal

from hookline.cli.approval_prompt import preview
from hookline.cli.terminal import Paint
from hookline.state import ToolCall

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no pseudo-terminals here")

_BARE = ("--without", "bash")
_WRITE = {"call": "write", "args": {"path": "a.txt", "content": "new\n"}}
_PUSH = {"call": "bash", "args": {"command": "git push origin main", "network": True}}


def opened(place: Any, *arguments: str, columns: int = 120, **env: str) -> Terminal:
    """The command in a terminal."""
    plain = {"HOME": str(place.home), "NO_COLOR": "1", "EDITOR": "", "VISUAL": ""}
    return Terminal(*arguments, cwd=place.project, env={**plain, **env}, columns=columns)


def asked(place: Any, call: dict[str, Any], columns: int = 120, **env: str) -> Terminal:
    """A run that asks about a call."""
    model = place.script(call, {"say": "That is all."})
    rule = ("--ask", "write(a.txt)") if call is _WRITE else ()
    return opened(place, "run", "--model", model, *rule, "Go.", columns=columns, **env)


@pytest.mark.parametrize(
    ("keys", "expected", "code"),
    [
        ("y", "Made 'a.txt'", 0),
        ("Y", "Made 'a.txt'", 0),
        ("a", "Made 'a.txt'", 0),
        ("p", "Made 'a.txt'", 0),
        ("n", "Denied: a person said no", 0),
        ("dnot on a Friday\r", "Denied: not on a Friday", 0),
        ("q", "paused: 1 question to answer", 5),
    ],
)
def test_a_key_answers(keys: str, expected: str, code: int, place: Any) -> None:
    """What is asked, by whom and why is shown with the change as a diff; one key answers."""
    terminal = asked(place, _WRITE)
    terminal.wait_for("? explain")
    assert "+new" in terminal.text
    assert "asked by approval: the rule `write(a.txt)` asks about it" in terminal.text
    terminal.press(keys[0])
    if keys[1:]:
        terminal.wait_for(": ")
        terminal.press(keys[1:])
    assert terminal.end() == code, terminal.text
    assert expected in terminal.text


def test_an_answer_for_the_session_or_a_rule_is_not_asked_again(place: Any) -> None:
    """`a` holds for the same call, `p` for those like it; ? explains and asks again."""
    write = {"call": "write", "args": {"path": "a/b.txt", "content": "x\n"}}
    other = {"call": "write", "args": {"path": "a/c.txt", "content": "x\n"}}
    model = place.script(write, other, {"say": "That is all."})
    terminal = opened(place, "run", "--model", model, "--ask", "write", "Write.", *_BARE)
    terminal.wait_for("? explain")
    terminal.press("?")
    terminal.wait_for("before_tool_use")
    terminal.wait_for("? explain")
    terminal.press("p")
    assert terminal.end() == 0, terminal.text
    assert (place.project / "a/c.txt").exists()
    assert terminal.text.count("wants to run") == 1


def test_a_command_that_is_changed_is_judged_again(place: Any) -> None:
    """And what is said about it is about the changed call."""
    edit = "s/git push origin main/rm -rf \\//"
    terminal = asked(place, _PUSH, EDITOR=f"sed -i '{edit}'")
    terminal.wait_for("? explain")
    terminal.press("e")
    assert terminal.end() == 0, terminal.text
    assert "Blocked" in terminal.text
    assert "block bash(rm -rf /)" in terminal.text


def test_an_editor_is_used_where_there_is_one(place: Any) -> None:
    """It gets the arguments as JSON; one that cannot be started is reported, and asks again."""
    edit = "import sys; p = sys.argv[1]; t = open(p).read(); open(p, 'w').write(t.replace('a.txt', 'c.txt'))"
    terminal = asked(place, _WRITE, EDITOR=f"{sys.executable} -c {shlex.quote(edit)}")
    terminal.wait_for("? explain")
    terminal.press("e")
    assert terminal.end() == 0, terminal.text
    assert (place.project / "c.txt").exists()
    terminal = asked(place, _WRITE, EDITOR="no-such-editor")
    terminal.wait_for("? explain")
    terminal.press("e")
    terminal.wait_for("cannot be started")
    terminal.wait_for("? explain")
    terminal.press("n")
    assert terminal.end() == 0, terminal.text


@pytest.mark.parametrize("columns", [20, 33, 80])
def test_a_question_fits_its_window(columns: int, place: Any) -> None:
    """No line of it is wider, but for the command itself, which is never cut."""
    terminal = asked(place, _PUSH, columns=columns)
    terminal.wait_for("explain")
    lines = terminal.text.replace("\r", "\n").split("\n")  # a spinner writes over its line
    assert [line for line in lines if len(line) > columns and "$ git" not in line] == []
    words = " ".join(terminal.text.split())
    assert "git push is not known to be read-only" in words
    rule = "bash(command=git push *, network=true)"  # it is wrapped where there is no room for it
    assert "".join(f"a for this session p all {rule}".split()) in "".join(words.split())
    terminal.press("n")
    assert terminal.end() == 0


def test_colours_do_not_count_as_columns(place: Any) -> None:
    """A coloured sentence is wrapped where the window ends: as it would be without its colours."""
    terminal = asked(place, _PUSH, columns=44, NO_COLOR="", FORCE_COLOR="1")
    terminal.wait_for("explain")
    first, second, *_ = terminal.text.partition("  hook ")[
        2
    ].splitlines()  # a spinner may be before it
    assert first.rstrip() == "bash-policy at before_tool_use: ask"
    assert second.startswith("      bash(git push")
    terminal.press("n")
    assert terminal.end() == 0


@pytest.mark.parametrize("key", ["", "d"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_at_a_question(key: str, number: signal.Signals, place: Any) -> None:
    """Whatever is being typed: the question stays open, and the run can be continued."""
    terminal = asked(place, _WRITE)
    terminal.wait_for("? explain")
    if key:
        terminal.press(key)
        terminal.wait_for("tell the model: ")
    terminal.signal_until(number, "paused: 1 question to answer")
    assert terminal.end() == 130, terminal.text
    assert "paused" in place.run("runs").stdout


def test_an_explanation_is_as_wide_as_the_window(place: Any) -> None:
    """As it is when the key is pressed."""
    terminal = asked(place, _WRITE, columns=60)
    terminal.wait_for("? explain")
    terminal.press("?")
    shown = terminal.wait_for("asked in run")
    assert "for this call: runs" in shown  # too narrow for a table
    assert max(map(len, shown.replace("\r", "").splitlines())) < 60
    terminal.wait_for("? explain")
    terminal.resize(150)
    terminal.press("?")
    shown = terminal.wait_for("asked in run")
    assert "for this call  " in shown
    assert 100 < max(map(len, shown.replace("\r", "").splitlines())) < 150
    terminal.wait_for("? explain")
    terminal.press("n")
    assert terminal.end() == 0, terminal.text


def test_the_hooks_of_a_conversation_fit_the_window(place: Any) -> None:
    """`/hooks` in a chat, and `hooks explain` on a terminal."""
    model = place.script({"say": "ok"})
    talk = opened(place, "chat", "--model", model, *_BARE, columns=62)
    talk.press_until("/hooks\r", "no hooks at")
    talk.press_until("\x04", "continue: ")
    assert talk.end() == 0
    explained = opened(place, "hooks", "explain", *_BARE, columns=62)
    assert explained.end() == 0
    for screen in (talk.text, explained.text):
        lines = screen.replace("\r", "").splitlines()
        assert max(len(line) for line in lines if not line.startswith("session ")) <= 62


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("false", "the editor ended with exit code 1: nothing is changed"),
        ("true", "nothing was changed: y runs it as it is"),
        ("/no/such/editor", "cannot be started: No such file or directory"),
    ],
)
def test_leaving_the_editor_is_no_yes(editor: str, expected: str, place: Any) -> None:
    """One that fails, and one that changes nothing: the question is asked again."""
    terminal = asked(place, _WRITE, EDITOR=editor)
    terminal.wait_for("? explain")
    terminal.press("e")
    terminal.wait_for(expected)
    terminal.wait_for("? explain")
    terminal.press("n")
    assert terminal.end() == 0, terminal.text
    assert not (place.project / "a.txt").exists()


def test_an_argument_that_is_left_out_is_reported(place: Any) -> None:
    """The call would run with it as it was: so it is asked about again."""
    editor = place.home / "editor.sh"
    editor.write_text("""#!/bin/sh\necho '{"path": "a.txt"}' > "$1"\n""")
    editor.chmod(0o755)
    terminal = asked(place, _WRITE, EDITOR=str(editor))
    terminal.wait_for("? explain")
    terminal.press("e")
    terminal.wait_for("'content' cannot be left out: give it another value")
    terminal.wait_for("? explain")
    terminal.press("n")
    assert terminal.end() == 0, terminal.text
    assert not (place.project / "a.txt").exists()


def test_a_question_is_asked_again_after_ctrl_z(place: Any) -> None:
    """The shell has changed the terminal meanwhile: one key still answers."""
    model = place.script(_WRITE, {"say": "That is all."})
    env = {"HOME": str(place.home), "NO_COLOR": "1"}
    terminal = Terminal("--norc", "--noprofile", "-i", cwd=place.project, env=env, program="bash")
    terminal.press(f"{place.command} run --model {model} --ask write Go. --without bash\r")
    terminal.wait_for("? explain")
    terminal.press("\x1a")
    terminal.wait_for("Stopped")
    terminal.press("fg\r")
    assert "+new" in terminal.wait_for("? explain")
    terminal.press("n")
    terminal.wait_for("Denied: a person said no")
    terminal.wait_for("done;")
    terminal.press("exit 7\r")
    assert terminal.end() == 7


# --- the preview of a call: a person sees all that it would do ---


def lines(folder: Path, tool: str = "bash", **args: Any) -> list[str]:
    """A call as it is shown."""
    return preview(ToolCall("c", tool, args), folder, Paint(io.StringIO(), {}))


def test_what_a_tool_of_others_gets_is_shown_whole(tmp_path: Path) -> None:
    """False or nothing may be what counts."""
    shown = lines(tmp_path, "mcp__site__deploy", command="deploy", dry_run=False, keep=0, to="")
    assert shown == ["$ deploy", "dry_run: false", "keep: 0", "to: "]


def test_a_command_with_all_that_goes_with_it(tmp_path: Path) -> None:
    """Where it runs, and what it is given besides; what is not asked for is left out."""
    args = {"timeout": None, "background": False, "cwd": "sub", "place": "host", "network": False}
    assert lines(tmp_path, command="ls\npwd", **args) == [
        "$ ls",
        "pwd",
        "cwd: sub",
        "place: host",
    ]
    assert lines(tmp_path, argv=["rm", "a b"], **args) == [
        "$ rm 'a b'",
        "cwd: sub",
        "place: host",
    ]


def test_a_file_that_is_written_as_a_diff_to_what_is_there(tmp_path: Path) -> None:
    """New or changed, down to the line break at its end."""
    assert lines(tmp_path, path="a", content="x\n")[2:] == ["@@ -0,0 +1 @@", "+x"]
    (tmp_path / "a").write_text("x")
    assert lines(tmp_path, path="a", content="x") == ["a: no change"]
    preview = lines(tmp_path, path="a", content="x\n")
    assert preview[3:] == ["-x", "\\ no line break at the end", "+x"]
    assert lines(tmp_path, path="a", content="y", mode="append")[-1] == "mode: append"


def test_every_replacement_of_an_edit(tmp_path: Path) -> None:
    """One or several at once, with what says how often."""
    one = lines(tmp_path, path="a", old="x", new="y", replace_all=True, edits=None)
    assert one[3:] == ["-x", "+y", "replace_all: true"]
    several = lines(
        tmp_path,
        path="a",
        old="",
        new="",
        replace_all=False,
        edits=[{"old": "one", "new": "two"}, {"old": "three", "new": ""}],
    )
    assert [line for line in several if line in ("-one", "+two", "-three")] == [
        "-one",
        "+two",
        "-three",
    ]
    assert not any("no change" in line for line in several)


@pytest.mark.parametrize("value", ["\x1b[2J", "\u202e"])
def test_nothing_in_it_moves_the_terminal(value: str, tmp_path: Path) -> None:
    """In a command, a path, a diff or an argument."""
    for args in (
        {"command": value},
        {"argv": [value]},
        {"path": value, "content": value},
        {"path": "a", "old": value, "new": "x"},
        {"other": value},
        {"other": {"deep": value}},
    ):
        assert not any(value in line for line in lines(tmp_path, **args)), args


def test_what_is_long_is_shown_with_its_end(tmp_path: Path) -> None:
    """Lines, and one line: nothing is hidden behind much that is harmless."""
    shown = lines(tmp_path, command="\n".join(["true"] * 300 + ["evil"]))
    assert (shown[45], shown[-1], len(shown)) == ("... 241 lines more ...", "evil", 61)
    (line,) = lines(tmp_path, command=f"ls{' ' * 4_000}; evil")
    assert " ... 2,010 characters more ... " in line
    assert line.endswith("; evil")
    content = "\n".join(map(str, range(10_000)))
    shown = lines(tmp_path, path="a", content=content)
    assert shown[45].endswith("lines more ...")
    assert shown[-2] == "+9999"
