"""`hookline hooks`: a guard that guards nothing is reported, and the exit code says so; lists are aligned."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hookline.cli.exits import Exit
from hookline.cli.terminal import columns

_HOOK = '[[hooks]]\non = "before_tool_use"\n'


def linted(place: Any, hook: str, *arguments: str) -> tuple[int, str]:
    """What lint says about a hook of a trusted project."""
    reason = '\nreason = "no"\n' if '"block"' in hook or '"ask"' in hook else "\n"
    place.write("hookline.toml", _HOOK + hook + reason)
    place.run("trust")
    done = place.run("hooks", "lint", *arguments)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ('match = "bsah"\ndo = "block"', "a tool 'bsah', which the agent does not have. Did you mean 'bash'?"),
        ('match = "nothing_like_it"\ndo = "block"', "a tool 'nothing_like_it'"),
        ('match = "read|bsah"\ndo = "block"', "Did you mean 'bash'?"),
        ('match = "bsah(git push *)"\ndo = "ask"', "Did you mean 'bash'?"),
        ('match = { tool = "raed", text = "x" }\ndo = "block"', "Did you mean 'read'?"),
        ('match = "bsah"\ncommand = "true"', "Did you mean 'bash'?"),
        ('match = "my tool"\ncommand = "true"', "a tool 'my tool'"),
        ('match = "my tool"\ndo = "block"', "a tool 'my tool'"),
        ('match = "bsah(rm *)"\ncommand = "true"', "Did you mean 'bash'?"),
        ('command = "./missing.sh"', "cannot run: there is no file './missing.sh'"),
        ('command = "bash ./missing.sh --fast"', "there is no file './missing.sh'"),
        ('command = ["python3", "missing.py"]', "there is no file 'missing.py'"),
        ('command = "no-such-program-here x"', "there is no program 'no-such-program-here'"),
        ('command = "./plain.sh"', "'./plain.sh' is not executable"),
    ],
)  # fmt: skip
def test_a_dead_guard_is_a_complaint(hook: str, expected: str, place: Any) -> None:
    """A tool that does not exist, however it is named, and a program that cannot be started."""
    place.write("plain.sh", "exit 0\n")
    code, said = linted(place, hook)
    assert code == Exit.FAILED, said
    assert expected in said
    assert "no mistakes found" not in said


@pytest.mark.parametrize(
    "hook",
    [
        'match = "bash"\ndo = "block"',
        'match = "bash"\nrun = "guard:check"\ntier = "policy"',
        'match = "bash(git push *)"\ndo = "ask"',
        'match = "bash(git push *)"\ncommand = "true"',
    ],
)
def test_a_tool_that_was_left_out_is_reported_once(hook: str, place: Any) -> None:
    """Next to the file tools too: without a shell, its guard guards nothing."""
    place.write("guard.py", "def check(ctx):\n    return None\n")
    code, said = linted(place, hook, "--without", "bash")
    assert code == Exit.FAILED, said
    assert said.count("is for a tool 'bash'") == 1
    assert "dead-matcher" not in said


@pytest.mark.parametrize(
    "hook",
    [
        'match = "bash"\ndo = "block"',
        'match = "mcp__*"\ndo = "block"',
        'match = "Bash(git push *)"\ndo = "ask"',
        'match = "hunter2"\ndo = "redact"',
        'match = "Bash"\ncommand = "true"',
        'match = "/^(bash|read)$/"\ncommand = "true"',
        'command = "./check.sh --fast"',
        'command = "sh plain.sh"',
        'command = "sh -c true"',
        'command = "test -x ./missing.sh && ./missing.sh"',
        'command = "echo done"',
    ],
)
def test_what_may_be_right_is_no_finding(hook: str, place: Any) -> None:
    """Other agents' names in rules, patterns of what may come, and commands that look before they run."""
    place.write("plain.sh", "exit 0\n")
    place.write("check.sh", "#!/bin/sh\nexit 0\n").chmod(0o755)
    code, said = linted(place, hook)
    assert (code, "no mistakes found" in said) == (0, True), said


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ({"PreToolUs": [{"hooks": [{"type": "command", "command": "true"}]}]}, "'PreToolUs' is not an event"),
        ({"PreToolUse": [{"matcher": "(", "hooks": [{"type": "command", "command": "true"}]}]}, "is ignored"),
        (
            {"PreToolUse": [{"hooks": [{"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/no.sh'}]}]},
            "there is no file",
        ),
        (
            {"PreToolUse": [{"matcher": "Bash(git push*)", "hooks": [{"type": "command", "command": "true"}]}]},
            "is a permission rule, and a matcher is the name of a tool",
        ),
    ],
)  # fmt: skip
def test_so_is_what_was_left_out_of_other_agents_files(
    hooks: dict[str, Any], expected: str, place: Any
) -> None:
    """An unknown event, a matcher that cannot be read, a missing script."""
    place.write(".claude/settings.json", json.dumps({"hooks": hooks}))
    place.run("trust")
    done = place.run("hooks", "lint")
    assert done.returncode == Exit.FAILED, done.stderr
    assert expected in done.stdout
    assert done.stderr == ""  # what is a finding is not also a notice


def test_so_is_a_tool_where_cursor_looks_in_the_command(place: Any) -> None:
    """A guard whose matcher is the name of the shell sees hardly any command."""
    entry = {"command": "true", "matcher": "Shell"}
    hooks = {"version": 1, "hooks": {"beforeShellExecution": [entry]}}
    place.write(".cursor/hooks.json", json.dumps(hooks))
    place.run("trust")
    assert "is looked for in the command's text" in place.run("hooks", "lint").stdout


@pytest.mark.parametrize(
    ("path", "hooks"),
    [
        (".cursor/hooks.json", {"beforeShellExecution": [{"command": ".cursor/hooks/gone.sh"}]}),
        (".github/hooks/a.json", {"preToolUse": [{"type": "command", "bash": "./gone.sh"}]}),
    ],
)
def test_so_is_a_script_that_is_gone(path: str, hooks: dict[str, Any], place: Any) -> None:
    """In the files of the agents that run their hooks by bash, too."""
    place.write(path, json.dumps({"version": 1, "hooks": hooks}))
    place.run("trust")
    assert "there is no file" in place.run("hooks", "lint").stdout


def test_so_is_a_file_of_copilot_that_names_no_event(place: Any) -> None:
    """A hook that is written at the top of a file is in force nowhere, and that is reported."""
    place.write(".github/hooks/guard.json", json.dumps({"events": ["PreToolUse"], "bash": "true"}))
    done = place.run("hooks", "lint")
    assert done.returncode == Exit.FAILED
    assert "has no 'hooks' object" in done.stdout


def test_a_group_of_names_is_no_permission_rule(place: Any) -> None:
    """An expression with a group in it is read as one; of these tools the agent has none."""
    group = {"matcher": "Task(Create|List)", "hooks": [{"type": "command", "command": "true"}]}
    place.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [group]}}))
    place.run("trust")
    said = place.run("hooks", "lint").stdout
    assert "is never asked: 'Task(Create|List)' means no tool" in said
    assert "permission rule" not in said


def test_so_is_a_guard_that_waits_for_trust(place: Any) -> None:
    """It guards nothing yet, whichever file it is in; once it is trusted there is no mistakes found."""
    place.write("hookline.toml", _HOOK + 'command = "true"\n')
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}
    place.write(".claude/settings.json", json.dumps({"hooks": hooks}))
    done = place.run("hooks", "lint")
    assert done.returncode == Exit.FAILED
    assert "hookline.toml:1: the hook is not in force. Read it, then: hookline trust" in done.stdout
    assert "1 hook of .claude/settings.json is not trusted" in done.stdout
    place.run("trust")
    assert place.run("hooks", "lint").returncode == 0


_LONG_NAMES = """
[[hooks]]
on = "before_tool_use"
do = "log"
name = "a-hook-with-a-name-that-is-longer-than-most-names-are"

[[hooks]]
on = "before_tool_use"
do = "log"
name = "\u6f22\u5b57"
"""


def test_a_long_name_does_not_shift_the_columns(place: Any) -> None:
    """Each column begins in the same place in every line."""
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(_LONG_NAMES, encoding="utf-8")
    lines = place.run("hooks", "list", "--without", "bash").stdout.splitlines()
    assert any("longer-than-most" in line for line in lines)
    ends = {columns(line[: line.rindex("  ") + 2]) for line in lines if line.endswith("always")}
    assert len(ends) == 1, "\n".join(lines)


_CRASHES = """
def crash(ctx):
    return lookup({"password": "hunter22"})  # ghp_0123456789abcdefghijABCDEFGHIJ012345

def lookup(settings):
    return settings["token"]

def odd(ctx):
    return 42
"""


@pytest.mark.parametrize("failure", ["closed", "open"])
def test_a_hook_that_crashes_is_shown_with_file_line_and_code(failure: str, place: Any) -> None:
    """`hooks test` shows the frames below the answer, without secrets; an answer without meaning has none."""
    place.write("guard.py", _CRASHES)
    place.write(
        "hookline.toml",
        f'[[hooks]]\non = "before_tool_use"\nrun = "guard:crash"\non_failure = "{failure}"\n'
        '[[hooks]]\non = "before_tool_use"\nrun = "guard:odd"\n',
    )
    place.run("trust")
    asked = ("hooks", "test", "list", "{}", "--capability", "redaction")
    done = place.run(*asked)
    lines = done.stdout.splitlines()
    [at] = [number for number, line in enumerate(lines) if " crash (" in line]
    assert "KeyError: 'token'" in lines[at]
    assert lines[at + 1].endswith('guard.py", line 3, in crash')
    assert 'guard.py", line 6, in lookup' in done.stdout
    assert "[redacted:" in lines[at + 2]
    assert "hunter22" not in done.stdout
    found = {
        each["hook"]: each
        for each in map(json.loads, place.run(*asked, "--json").stdout.splitlines())
    }
    assert "line 6, in lookup" in found["crash"]["traceback"]
    assert "traceback" not in found["odd"]


@pytest.mark.parametrize("flags", [(), ("--quiet",)])
def test_a_run_shows_where_a_hook_crashed_if_it_is_asked_to(
    flags: tuple[str, ...], place: Any
) -> None:
    """HOOKLINE_DEBUG=1: file, line and code on standard error, without secrets."""
    place.write("guard.py", _CRASHES)
    place.write("hookline.toml", '[[hooks]]\non = "before_tool_use"\nrun = "guard:crash"\n')
    place.run("trust")
    model = place.script({"call": "list", "args": {}}, {"say": "Done."})
    asked = ("run", "--model", model, "--capability", "redaction", *flags, "Go.")
    plain, debug = place.run(*asked), place.run(*asked, HOOKLINE_DEBUG="1")
    assert "guard.py" not in plain.stderr
    assert 'guard.py", line 6, in lookup' in debug.stderr
    assert "hunter22" not in debug.stderr
    assert debug.stdout == plain.stdout == "Done.\n"


def test_explain_names_the_model_and_where_it_was_decided(place: Any) -> None:
    """Of all places that can name one, the one that counts."""

    def model(*words: str, **env: str) -> str:
        shown = place.run("hooks", "explain", *words, "--without", "bash", **env).stdout
        _, _, rest = " ".join(shown.split()).partition(" model ")
        return re.split(r" (?:tools|hook) ", rest)[0]

    assert model().startswith("local:smollm2, because none is named: no --model, no $HOOKLINE")
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('model = ["anthropic:a", "local"]\n')
    assert model().startswith("anthropic:a, then local:smollm2, by /")
    assert model("read", "a.txt", HOOKLINE_MODEL="openai:b") == "openai:b, by $HOOKLINE_MODEL"
    assert model("--model", "openai:c", HOOKLINE_MODEL="openai:b") == "openai:c, by --model"
