"""Rules without code: what `match` is for, and what `do` does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline import AgentBuilder, HookPoint, RunResult
from hookline.cli.assembly.hooks import ConfiguredHooks
from hookline.cli.exits import Exit
from hookline.config import Layer, load
from hookline.config.layers import check_layer
from hookline.drivers import ScriptedDriver, call, say
from hookline.errors import BuildError, ConfigError


def run_with(
    tmp_path: Path, *hooks: dict[str, Any], turns: tuple[Any, ...] = (), prompt: str = "Go."
) -> RunResult:
    """Run an agent with these rules."""

    def read(path: str) -> str:
        """Read a file."""
        return f"key sk-abc123def456ghi789jkl012mno345 of {path}"

    def bash(command: str) -> str:
        """Run a command."""
        return f"ran {command}"

    async def wait() -> str:
        """Wait for a quarter of a second."""
        await asyncio.sleep(0.25)
        return "waited"

    settings = load(
        tmp_path, {"HOME": str(tmp_path)}, flags=check_layer(Layer("flag", {"hooks": list(hooks)}))
    )
    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("The password is hunter2.")]))
    builder.with_tools(read, bash, wait).with_capability(ConfiguredHooks(settings, tmp_path))
    return builder.build().run_sync(prompt)


def rule(on: str, do: str, **more: Any) -> dict[str, Any]:
    """A rule with a reason."""
    return {"on": on, "do": do, **({} if do == "redact" else {"reason": "because"}), **more}


@pytest.mark.parametrize(
    ("match", "blocked"),
    [
        ("bash", True),
        ("b*", True),
        ("/^ba/", True),
        ("read", False),
        ("bash(git push *)", True),
        ("bash(git pull *)", False),
        ({"tool": "bash", "args": {"command": "/--force/"}}, True),
        ({"tool": "bash", "args": {"command": "git"}}, False),
        ({"text": "push"}, True),
        ({"text": "/PUSH/i"}, True),
        ({"tool": "read", "text": "push"}, False),
        (None, True),
    ],
)
def test_what_a_rule_matches(match: Any, blocked: bool, tmp_path: Path) -> None:
    """A tool, a glob, an expression, a rule about a call, its arguments, its words; all that is said must fit."""
    given = rule("before_tool_use", "block", **({} if match is None else {"match": match}))
    result = run_with(tmp_path, given, turns=(call("bash", command="git push --force"),))
    expected = "Blocked: because" if blocked else "ran git push --force"
    assert result_texts(result) == [expected]


def test_ask_and_stop(tmp_path: Path) -> None:
    """A person is asked; the run ends."""
    asked = run_with(
        tmp_path, rule("PreToolUse", "ask", match="bash"), turns=(call("bash", command="x"),)
    )
    assert [question.reason for question in asked.pending] == ["because"]
    stopped = run_with(
        tmp_path, rule("before_tool_use", "stop"), turns=(call("bash", command="x"),)
    )
    assert stopped.stop_reason.value == "stopped_by_hook"


def test_redact(tmp_path: Path) -> None:
    """What matches, or secrets where nothing is said, in a result, in a prompt and in the answer."""
    turns = (call("read", path="a"),)
    secrets = run_with(
        tmp_path, rule("after_tool_use", "redact", match={"tool": "read"}), turns=turns
    )
    assert "sk-abc" not in result_texts(secrets)[0]
    words = run_with(
        tmp_path,
        rule("after_tool_use", "redact", match="/key \\S+/"),
        rule("output", "redact", match="hunter2"),
        rule("prompt_submit", "redact", match="/\\d{4}/"),
        turns=turns,
        prompt="My pin is 1234.",
    )
    assert result_texts(words) == ["[redacted] of a"]
    assert words.text == "The password is [redacted]."
    assert words.state.messages[0].text == "My pin is [redacted]."


@pytest.mark.parametrize("on", ["after_tool_use", "PostToolUse", "before_tool_use"])
@pytest.mark.parametrize("words", ["hunter2", "hunt(er2)", "/hunter\\d/"])
def test_what_is_redacted_is_words_at_every_point(on: str, words: str, tmp_path: Path) -> None:
    """Never a tool's name or a rule about a call, with which it would stay where it was and nobody would know."""
    said = words.strip("/").replace("\\d", "2")
    turns = (call("bash", command=f"echo {said}"),)
    result = run_with(tmp_path, rule(on, "redact", match=words), turns=turns)
    assert result_texts(result) == ["ran echo [redacted]"]


def test_redacted_words_are_in_no_part_of_a_result(tmp_path: Path) -> None:
    """Neither in a name or a value deep in it, nor in what a failed call says."""

    def look() -> dict[str, Any]:
        """Look."""
        return {"users": [{"hunter2": 1, "password": "it is hunter2"}]}

    def fail() -> str:
        """Fail."""
        raise ValueError("cannot log in with hunter2")

    hooks = [rule("after_tool_use", "redact", match="hunter2")]
    settings = load(
        tmp_path, {"HOME": str(tmp_path)}, flags=check_layer(Layer("flag", {"hooks": hooks}))
    )
    model = ScriptedDriver([call("look"), call("fail"), say("Done.")])
    builder = AgentBuilder().with_driver(model).with_tools(look, fail)
    result = builder.with_capability(ConfiguredHooks(settings, tmp_path)).build().run_sync("Go.")
    looked, failed = result_texts(result)
    assert (looked.count("[redacted]"), "hunter2" in looked) == (2, False)
    assert "cannot log in with [redacted]" in failed
    assert [made.is_success for step in result.steps for made in step.results] == [True, False]


def test_redacted_words_are_not_in_the_journal(place: Any) -> None:
    """Neither in a result nor in the name of a rule that was given none."""
    place.write("notes.txt", "The password is hunter2.\n")
    place.write(
        "hookline.toml", '[[hooks]]\non = "after_tool_use"\nmatch = "hunter2"\ndo = "redact"\n'
    )
    model = place.script({"call": "read", "args": {"path": "notes.txt"}}, {"say": "Read."})
    done = place.run("run", "--model", model, "What is in the notes?", "--without", "bash")
    assert done.returncode == 0, done.stderr
    shown = place.run("show", "last", "--json").stdout
    assert "[redacted]" in shown
    assert "hunter2" not in shown + done.stderr


def test_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line in the log, and nothing else."""
    result = run_with(
        tmp_path, rule("before_tool_use", "log", name="seen"), turns=(call("bash", command="x"),)
    )
    assert result_texts(result) == ["ran x"]
    assert "seen at before_tool_use bash: because" in caplog.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (rule("before_tool", "block", match="bash"), None),
        (
            rule("befor_tool_use", "block"),
            "'befor_tool_use' is not a hook point. Did you mean 'before_tool_use'?",
        ),
        (rule("output", "ask"), "a hook at output cannot ask."),
        (rule("session_end", "block"), "a hook at session_end cannot block."),
        (rule("before_step", "redact"), "nothing can be redacted at before_step."),
        (
            rule("output", "block", match={"tool": "bash"}),
            "at output there is no tool call to match",
        ),
        (rule("before_tool_use", "block", match="bash(x"), "never closed"),
        (rule("output", "block", match="/(/"), "is not a regular expression"),
        ({"on": "stop", "run": "nowhere:x"}, "there is no module 'nowhere'"),
        ({"on": "stop", "run": "json:nothing"}, "module 'json' has no 'nothing'"),
        ({"on": "stop", "run": "json"}, "does not name a hook"),
    ],
)
def test_a_rule_that_can_never_work_is_an_error(
    given: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    """When the agent is made, with where it is written."""
    if message is None:
        run_with(tmp_path, given)
        return
    with pytest.raises(ConfigError, match=r"^flag: ") as error:
        run_with(tmp_path, given)
    assert message in str(error.value)


def test_a_module_of_hooks_that_fails_is_reported_as_it_fails(tmp_path: Path) -> None:
    """An AttributeError while it is loaded is not a name that the module lacks."""
    (tmp_path / "failing_hooks.py").write_text("import json\n\njson.nothing\n\ndef x(ctx): ...\n")
    with pytest.raises(ConfigError, match=r"'failing_hooks:x' cannot be loaded: AttributeError"):
        run_with(tmp_path, {"on": "stop", "run": "failing_hooks:x"})


def test_rules_cannot_take_the_place_of_a_guard(tmp_path: Path) -> None:
    """Whatever they are called."""
    with pytest.raises(BuildError, match="cannot replace the default guard 'limits'"):
        run_with(tmp_path, {**rule("before_step", "stop"), "name": "limits"})
    assert HookPoint.BEFORE_STEP.value == "before_step"


def test_a_projects_modules_take_the_place_of_no_other(place: Any) -> None:
    """A hook's module is found in the project; what is loaded after it is not."""
    place.write("hooks.py", "import json\n\ndef check(ctx):\n    return None\n")
    place.write("sqlite3.py", "open('evil', 'w')")
    place.write("hookline.toml", '[[hooks]]\non = "before_step"\nrun = "hooks:check"\n')
    place.run("trust")
    main = "import sys; sys.path.remove(''); from hookline.cli import main; sys.exit(main())"
    model = place.script({"say": "Done."})
    done = subprocess.run(
        [sys.executable, "-c", main, "run", "--model", model, "x", "--without", "bash"],
        cwd=place.project,
        env={**os.environ, **place.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "Done.\n", done.stderr
    assert not (place.project / "evil").exists()


def test_a_logged_line_is_shown(place: Any) -> None:
    """Among the others, on stderr."""
    place.write(
        "hookline.toml",
        '[[hooks]]\non = "before_tool_use"\ndo = "log"\nreason = "seen"\nname = "eye"\n',
    )
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    done = place.run("run", "--model", model, "x", "--without", "bash")
    assert "  log eye at before_tool_use list: seen" in done.stderr.splitlines()


def test_python_hooks_of_a_project(place: Any) -> None:
    """They hold once the directory is trusted, and `hooks test` shows what each would say."""
    assert place.run("init").returncode == 0
    done = place.run("hooks", "test", "bash", "rm notes.txt")
    assert done.returncode == Exit.BLOCKED, done.stderr
    assert "block      no_rm (configuration, policy): rm is not run here" in done.stdout
    assert place.run("hooks", "test", "bash", "ls").returncode == 0
    place.write("hooks.py", "def no_rm(ctx):\n    open('ran', 'w')\n")
    done = place.run("hooks", "test", "bash", "rm notes.txt")
    assert "changed since it was trusted" in done.stderr
    assert "no_rm" not in done.stdout
    assert not (place.project / "ran").exists()


def test_a_list_of_hooks_says_what_a_rule_matches(place: Any) -> None:
    """In the words of the rule, not in those of our code."""
    rule = '[[hooks]]\non = "{}"\nmatch = "{}"\ndo = "block"\nreason = "no"\n'
    place.write(
        "hookline.toml",
        rule.format("before_tool_use", "bash(git push *)") + rule.format("output", "otter"),
    )
    shown = place.run("hooks", "list").stdout
    assert "(when the call may be bash(git push *))" in shown
    assert "(when the text has otter)" in shown
    assert "<locals>" not in shown


IN_THREADS = """
import sqlite3, threading

known = {}

def opens(ctx):
    known["db"] = sqlite3.connect(":memory:")
    assert threading.current_thread() is not threading.main_thread()

def uses(ctx):
    known["db"].execute("select 1")

def waits(ctx):
    import pathlib, time
    pathlib.Path("waiting").touch()
    time.sleep(600)
"""


def test_synchronous_hooks_of_a_file_share_a_thread(place: Any) -> None:
    """What one of them opens, another may use, also where that belongs to a thread."""
    place.write("hooks.py", IN_THREADS)
    place.write(
        "hookline.toml",
        '[[hooks]]\non = "execution_start"\nrun = "hooks:opens"\n'
        '[[hooks]]\non = "before_step"\nrun = "hooks:uses"\n',
    )
    place.run("trust")
    done = place.run("run", "--model", place.script({"say": "Done."}), "x", "--without", "bash")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_hook_that_waits_does_not_hold_up_a_signal(place: Any, number: int) -> None:
    """The event loop is free while a synchronous hook of a file works."""
    place.write("hooks.py", IN_THREADS)
    place.write("hookline.toml", '[[hooks]]\non = "before_step"\nrun = "hooks:waits"\n')
    place.run("trust")
    main = "import sys; from hookline.cli import main; sys.exit(main())"
    model = place.script({"say": "Done."})
    running = subprocess.Popen(
        [sys.executable, "-c", main, "run", "--model", model, "x", "--without", "bash"],
        cwd=place.project,
        env={**os.environ, **place.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not (place.project / "waiting").exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(number)
    if number == signal.SIGINT:  # the first one lets the step end
        assert running.stderr is not None
        assert b"Ctrl-C again stops now" in running.stderr.readline()
        running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == Exit.INTERRUPTED


def test_a_hook_that_takes_too_long_has_failed(place: Any) -> None:
    """A time-out is a failure of the hook: before a tool that is a block."""
    place.write("hooks.py", IN_THREADS)
    place.write(
        "hookline.toml",
        '[[hooks]]\non = "before_tool_use"\nrun = "hooks:waits"\ntimeout = 0.2\n',
    )
    place.run("trust")
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    done = place.run("run", "--model", model, "x", "--without", "bash")
    assert "it took longer than 0.2 s" in done.stderr
    assert done.stdout == "Done.\n"


WITH_NEXT = """
import threading

def log(ctx, word):
    where = "thread" if threading.current_thread() is not threading.main_thread() else "main"
    with open("seen", "a") as file:
        file.write(f"{word} {ctx.point.value} {where}\\n")

def hand_on(ctx, next):
    log(ctx, "function")
    return next(ctx)

class Wraps:
    def handle(self, ctx, next):
        log(ctx, "object")
        return next(ctx)

    def matches(self, ctx):
        return ctx.point.value != "around_tool_use"

wraps = Wraps()
"""


def test_a_synchronous_hook_of_a_file_may_hand_on(place: Any) -> None:
    """Functions and objects with `next`, as middleware and around an action, with the matcher of the object."""
    place.write("hooks.py", WITH_NEXT)
    points = ("before_tool_use", "around_tool_use", "around_inference", "around_step")
    hook = '[[hooks]]\non = "{}"\nrun = "hooks:{}"\n'
    names = ("hand_on", "wraps")
    place.write("hookline.toml", "".join(hook.format(at, run) for at in points for run in names))
    place.run("trust")
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    done = place.run("run", "--model", model, "x", "--without", "bash")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    step = ["around_step", "around_inference"]
    made = [*step, "before_tool_use", "around_tool_use", *step]
    expected = [f"{word} {at} thread" for at in made for word in ("function", "object")]
    seen = (place.project / "seen").read_text().splitlines()
    assert seen == [each for each in expected if each != "object around_tool_use thread"]


SLOW = """
import threading

held = threading.Event()

def waits(ctx):
    held.wait(60)

def hands_on(ctx, next):
    return next(ctx)
"""


def test_a_synchronous_hook_of_a_file_has_a_limit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own code counts, and what it wraps does not."""
    monkeypatch.setattr("hookline.cli.assembly.hooks._SYNC_TIMEOUT", 0.1)
    (tmp_path / "slow_hooks.py").write_text(SLOW)
    hook = {"on": "before_tool_use", "run": "slow_hooks:waits"}
    result = run_with(tmp_path, hook, turns=(call("read", path="a"),))
    assert "it took longer than 0.1 s" in result_texts(result)[0]
    sys.modules["slow_hooks"].held.set()
    hook = {"on": "around_tool_use", "run": "slow_hooks:hands_on"}
    result = run_with(tmp_path, hook, turns=(call("wait"),))
    assert result_texts(result) == ["waited"]
