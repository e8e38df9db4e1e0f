"""A configured hook or rule that is not in force stops every command that drives an agent."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from terminal import Terminal

from hookline.cli.exits import Exit

_BARE = ("--without", "bash")
_HOOKS = """
from hookline import HookOutcome

def guard(ctx):
    return HookOutcome.block("not that") if ctx.tool_call.name == "write" else None
"""
_CONFIG = '[[hooks]]\non = "before_tool_use"\nrun = "hooks:guard"\nmatch = "write"\n'
_SCRIPT = "#!/bin/sh\necho 'not that' >&2\nexit 2\n"


def guarded(place: Any) -> None:
    """A project with a policy in Python."""
    place.write("hooks.py", _HOOKS)
    place.write("hookline.toml", _CONFIG)


def guarded_by_claude(place: Any, command: str = "sh .claude/hooks/guard.sh") -> None:
    """A project with a hook for Claude Code."""
    entry = {"matcher": "Write", "hooks": [{"type": "command", "command": command}]}
    place.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [entry]}}, indent=1))
    place.write(".claude/hooks/guard.sh", _SCRIPT)


def writing(place: Any) -> str:
    """A model that writes a file."""
    return str(
        place.script({"call": "write", "args": {"path": "a.txt", "content": "x"}}, {"say": "Done."})
    )


def write(place: Any, *flags: str) -> Any:
    """Let it write."""
    return place.run("run", "--model", writing(place), "--allow", "write", *_BARE, *flags, "x")


def terminal_of(place: Any, *arguments: str) -> Terminal:
    """The command in a terminal."""
    env = {"HOME": str(place.home), "NO_COLOR": "1"}
    return Terminal(*arguments, cwd=place.project, env=env, columns=200)


def written(place: Any) -> bool:
    """Whether the model has written its file."""
    return (place.project / "a.txt").exists()


def recorded(place: Any) -> list[str]:
    """What the journal says that the last run was without."""
    for line in place.run("show", "--json").stdout.splitlines():
        found = _find_without(json.loads(line))
        if found:
            return found
    return []


def _find_without(value: Any) -> list[str]:
    if isinstance(value, dict):
        if "without" in value:
            return list(value["without"])
        return next(filter(None, map(_find_without, value.values())), [])
    return next(filter(None, map(_find_without, value)), []) if isinstance(value, list) else []


def test_one_edit_of_a_policy_does_not_switch_it_off(place: Any) -> None:
    """The run is refused with what to do; the policy holds before, and once it is trusted again."""
    guarded(place)
    place.run("trust")
    assert "Blocked: not that" in write(place).stderr
    place.write("hooks.py", _HOOKS + "# edited\n")
    refused = write(place)
    assert refused.returncode == Exit.CONFIG
    assert "is not as you trusted it" in refused.stderr
    assert "hooks:guard at before_tool_use" in refused.stderr
    assert f"then: hookline trust {place.project}" in refused.stderr
    assert "--without-untrusted" in refused.stderr
    assert not written(place)
    assert place.run("trust").returncode == 0
    assert "Blocked: not that" in write(place).stderr


@pytest.mark.parametrize("change", ["added", "removed", "emptied", "script"])
def test_a_change_of_hooks_in_another_agents_files_stops_the_run(place: Any, change: str) -> None:
    """A script that is added beside them, hooks that disappear, a script that is another one."""
    guarded_by_claude(place)
    place.run("trust")
    assert "Blocked: not that" in write(place).stderr
    if change == "added":
        place.write(".claude/hooks/more.sh", "exit 0\n")
    elif change == "removed":
        (place.project / ".claude/settings.json").unlink()
    elif change == "emptied":
        place.write(".claude/settings.json", '{"hooks": {}}')
    else:
        place.write(".claude/hooks/guard.sh", "exit 0\n")
    refused = write(place)
    assert refused.returncode == Exit.CONFIG, refused.stderr
    assert "is not as you trusted it" in refused.stderr
    assert not written(place)
    shown = place.run("trust", "--show")
    assert shown.returncode == Exit.CONFIG
    assert place.run("trust").returncode == 0
    assert write(place).returncode == Exit.DONE


@pytest.mark.parametrize("text", ["", "# nothing\n", '[approvals]\ndeny = ["read(.env)"]\n'])
def test_hooks_that_disappear_from_a_trusted_configuration(place: Any, text: str) -> None:
    """Also if nothing is left that waits for trust, or no file at all."""
    guarded(place)
    place.run("trust")
    if text:
        place.write("hookline.toml", text)
    else:
        (place.project / "hookline.toml").unlink()
    refused = write(place)
    assert (refused.returncode, written(place)) == (Exit.CONFIG, False), refused.stderr
    assert "hookline.toml: not as it was trusted" in refused.stderr
    assert place.run("trust").returncode == 0
    assert write(place).returncode == Exit.DONE


def test_without_untrusted_lists_what_is_missing_every_time_and_records_it(place: Any) -> None:
    """On standard error, also in quiet mode, and in the journal."""
    guarded(place)
    guarded_by_claude(place)
    for _ in range(2):
        done = write(place, "--without-untrusted", "-q")
        assert done.returncode == Exit.DONE, done.stderr
        assert "hookline.toml:1: hooks[0], hooks:guard at before_tool_use" in done.stderr
        assert ".claude/settings.json: PreToolUse: sh .claude/hooks/guard.sh" in done.stderr
    assert written(place)
    lines = recorded(place)
    assert [line.rpartition(": ")[2] for line in lines] == [
        "hooks[0], hooks:guard at before_tool_use",
        "sh .claude/hooks/guard.sh",
    ]
    assert "ran without this, because it was not trusted: " in place.run("show").stdout
    assert "is identical" in place.run("replay").stdout
    place.run("trust")
    assert write(place, "--without-untrusted").stderr.startswith("step 1")
    assert recorded(place) == []


def test_every_command_that_drives_an_agent_is_stopped(place: Any) -> None:
    """A conversation and a run that is continued; a run that is over is shown."""
    place.write("hookline.toml", "")
    place.run("trust")
    assert place.run("run", "--model", place.script({"say": "Hi."}), "x").returncode == Exit.DONE
    (first, *_) = place.run("runs").stdout.split()
    model = writing(place)
    paused = place.run("run", "--model", model, "--ask", "write", *_BARE, "x")
    assert paused.returncode == Exit.WAITING
    guarded(place)
    for command in (
        ("chat", "--model", model, *_BARE),
        ("resume", "--allow", "all"),
        ("run", "--from", first, "more"),
    ):
        assert place.run(*command, stdin="hello\n").returncode == Exit.CONFIG, command
    assert not written(place)
    assert "chat-" not in place.run("runs").stdout
    resumed = place.run("resume", "--allow", "all", "--without-untrusted")
    assert (resumed.returncode, written(place)) == (Exit.DONE, True), resumed.stderr
    assert recorded(place)
    assert "is identical" in place.run("replay").stdout
    assert place.run("resume").returncode == Exit.DONE
    told = place.run("chat", "--model", model, *_BARE, "--without-untrusted", stdin="hello\n")
    assert "hooks[0]" in told.stderr
    assert recorded(place)


def test_what_only_restricts_holds_and_what_restricts_nothing_is_left_out(place: Any) -> None:
    """Neither stops a run; the second is reported."""
    place.write(
        "hookline.toml",
        'model = "script:evil.json"\nsystem_prompt = "x"\n'
        '[approvals]\ndeny = ["write"]\nallow = ["bash"]\n[capabilities.skills]\nsources = ["s"]\n',
    )
    done = write(place)
    assert (done.returncode, written(place)) == (Exit.DONE, False), done.stderr
    assert "model, system_prompt, approvals.allow[0], capabilities.skills.sources" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "[capabilities.redaction]\n",
        '[capabilities.tool_allow_list]\ntools = ["read"]\n',
        '[capabilities.files]\nroot = "docs"\n',
        '[[hooks]]\non = "stop"\ndo = "block"\nreason = "tests first"\n',
        '[[hooks]]\non = "before_tool_use"\nmatch = "/^write$/"\ndo = "block"\nreason = "x"\n',
        'agent = "careful"\n[agents.careful]\nsystem_prompt = "x"\n',
    ],
)
def test_what_may_restrict_stops_the_run(place: Any, text: str) -> None:
    """A capability that guards, a smaller jail, a rule with an expression, another agent."""
    place.write("hookline.toml", text)
    refused = write(place)
    assert (refused.returncode, written(place)) == (Exit.CONFIG, False), refused.stderr
    assert "is not trusted" in refused.stderr


def test_an_agent_of_ones_own_and_bare_are_not_asked_about(place: Any) -> None:
    """The configuration is not theirs."""
    guarded(place)
    assert write(place, "--bare").returncode == Exit.DONE
    place.write(
        "own.py",
        "from hookline import AgentBuilder\nfrom hookline.drivers import ScriptedDriver, say\n"
        "def build():\n    return AgentBuilder().with_driver(ScriptedDriver([say('Hi.')]))\n",
    )
    assert place.run("run", "own:build", "x").returncode == Exit.DONE


# --- the question ---------------------------------------------------------------------------------------


def test_the_question_shows_what_changed_and_trusts_by_a_word(place: Any) -> None:
    """A diff; then the run has its guard. The trusted texts are the user's alone to read."""
    guarded(place)
    place.run("trust")
    place.write("hooks.py", _HOOKS.replace("not that", "not this"))
    terminal = terminal_of(place, "run", "--model", writing(place), "--allow", "write", *_BARE, "x")
    seen = terminal.wait_for("[quit] ")
    assert '-    return HookOutcome.block("not that")' in seen
    assert '+    return HookOutcome.block("not this")' in seen
    terminal.press("trust\n")
    assert terminal.end() == Exit.DONE, terminal.text
    assert "Blocked: not this" in terminal.text
    assert not written(place)
    (kept,) = place.home.rglob("trusted-projects.json")
    assert "not this" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize("answer", ["\n", "t\n", "yes\n", "\x04"])
def test_every_other_answer_quits(place: Any, answer: str) -> None:
    """Nothing is run and nothing trusted."""
    guarded(place)
    terminal = terminal_of(place, "run", "--model", writing(place), "--allow", "write", *_BARE, "x")
    terminal.wait_for("[quit] ")
    terminal.press(answer)
    assert terminal.end() == Exit.CONFIG, terminal.text
    assert "nothing was run" in terminal.text
    assert not written(place)
    assert place.run("trust", "--show").returncode == Exit.CONFIG


def test_ctrl_c_at_the_question_interrupts(place: Any) -> None:
    """As everywhere."""
    guarded(place)
    terminal = terminal_of(place, "chat", "--model", writing(place), *_BARE)
    terminal.wait_for("[quit] ")
    assert terminal.interrupt() == Exit.INTERRUPTED, terminal.text


def test_a_directory_that_was_never_trusted_lists_what_would_run(place: Any) -> None:
    """And `without` runs without it, for this time."""
    guarded(place)
    guarded_by_claude(place)
    terminal = terminal_of(place, "run", "--model", writing(place), "--allow", "write", *_BARE, "x")
    seen = terminal.wait_for("[quit] ")
    assert "is not trusted" in seen
    assert "runs at before_tool_use: hooks:guard" in seen
    assert "runs at PreToolUse (.claude/settings.json): sh .claude/hooks/guard.sh" in seen
    terminal.press("without\n")
    assert terminal.end() == Exit.DONE, terminal.text
    assert written(place)
    assert recorded(place)
    assert write(place).returncode == Exit.CONFIG


def test_nobody_is_asked_who_cannot_answer(place: Any) -> None:
    """With --json and --no-input there is no question, also on a terminal."""
    guarded(place)
    for flag in ("--json", "--no-input"):
        terminal = terminal_of(place, "run", "--model", writing(place), flag, *_BARE, "x")
        assert terminal.end() == Exit.CONFIG, terminal.text
        assert "[quit]" not in terminal.text


def test_what_changes_while_somebody_looks_is_not_trusted(place: Any) -> None:
    """The yes was to something else."""
    guarded(place)
    terminal = terminal_of(place, "run", "--model", writing(place), "--allow", "write", *_BARE, "x")
    terminal.wait_for("[quit] ")
    place.write("hooks.py", "def guard(ctx):\n    return None\n")
    terminal.press("trust\n")
    assert terminal.end() == Exit.CONFIG, terminal.text
    assert "was changed while you read it" in terminal.text
    assert not written(place)


def test_control_characters_in_a_diff_are_shown_and_have_no_effect(place: Any) -> None:
    """A hostile edit cannot hide itself."""
    guarded(place)
    place.run("trust")
    place.write("hooks.py", _HOOKS + "evil = 1  # \x1b[2K\x1b[1A\n")
    terminal = terminal_of(place, "run", "--model", writing(place), *_BARE, "x")
    seen = terminal.wait_for("[quit] ")
    assert "+evil = 1  # \\x1b[2K" in seen
    terminal.press("\n")
    assert terminal.end() == Exit.CONFIG


def test_trust_of_an_earlier_version_has_no_texts(place: Any) -> None:
    """It is honoured, and a change is shown without a diff."""
    guarded(place)
    place.run("trust")
    (kept,) = place.home.rglob("trusted-projects.json")
    old = json.loads(kept.read_text())
    for entry in old["directories"].values():
        entry.pop("texts", None)
        entry.pop("hook_texts", None)
    kept.write_text(json.dumps(old))
    assert "Blocked: not that" in write(place).stderr
    place.write("hooks.py", _HOOKS + "# more\n")
    shown = place.run("trust", "--show").stdout
    assert "hooks.py  (changed)" in shown
    assert "hooks.py: the text that was trusted was not kept" in shown


# --- scripts elsewhere, and under other names -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["claude", "own"])
def test_trust_covers_scripts_outside_of_the_project(place: Any, tmp_path: Path, kind: str) -> None:
    """Those that a hook names."""
    outside = tmp_path / "tools"
    outside.mkdir()
    (outside / "guard.sh").write_text("echo 'not that' >&2\nexit 2\n")
    command = f"sh {outside}/guard.sh"
    if kind == "claude":
        guarded_by_claude(place, command)
    else:
        place.write("hookline.toml", f'[[hooks]]\non = "before_tool_use"\ncommand = "{command}"\n')
    assert place.run("trust").returncode == 0
    assert "Blocked: not that" in write(place).stderr
    (outside / "guard.sh").write_text("exit 0\n")
    refused = write(place)
    assert (refused.returncode, written(place)) == (Exit.CONFIG, False), refused.stderr


def test_a_script_of_the_users_own_hook_is_noticed_too(place: Any) -> None:
    """It needs no trust, and still does not run if it has changed since the command was started."""
    script = place.home / "guard.sh"
    script.write_text("exit 0\n")
    os.link(script, place.project / "other.txt")
    own = place.home / ".claude/settings.json"
    own.parent.mkdir()
    entry = {"matcher": "Write", "hooks": [{"type": "command", "command": f"sh {script}"}]}
    own.write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    assert "Blocked" not in write(place).stderr
    assert written(place)
    (place.project / "a.txt").unlink()
    turns = [
        {"call": "bash", "args": {"command": "echo '# x' >> other.txt"}},
        {"call": "write", "args": {"path": "a.txt", "content": "x"}},
        {"say": "Done."},
    ]
    flags = ("--allow", "bash", "--allow", "write", "--place", "host")
    done = place.run("run", "--model", place.script(*turns), *flags, "x")
    assert "has changed since the command was started" in done.stderr
    assert not written(place)
    assert "Blocked" not in write(place).stderr


@pytest.mark.parametrize("name", ["guard.sh", ".claude/hooks/guard.sh"])
def test_a_script_changed_under_another_name_is_noticed_before_it_runs(
    place: Any, name: str
) -> None:
    """By a hard link, during the run. The tools refuse, and what was changed otherwise is not run."""
    guarded_by_claude(place, f"sh {name}")
    place.write(name, _SCRIPT)
    place.run("trust")
    os.link(place.project / name, place.project / "other.txt")
    turns = [
        {"call": "read", "args": {"path": "other.txt"}},
        {"call": "edit", "args": {"path": "other.txt", "old": "exit 2", "new": "exit 0"}},
        {"say": "Done."},
    ]
    done = place.run("run", "--model", place.script(*turns), "--allow", "edit", *_BARE, "x")
    assert (place.project / name).read_text() == _SCRIPT, done.stderr
    turns = [
        {"call": "bash", "args": {"command": "printf 'exit 0' > other.txt"}},
        {"call": "write", "args": {"path": "a.txt", "content": "x"}},
        {"say": "Done."},
    ]
    flags = ("--allow", "bash", "--allow", "write", "--place", "host")
    done = place.run("run", "--model", place.script(*turns), *flags, "x")
    assert not written(place), done.stderr


_UNREADABLE = {
    "no JSON": '{"hooks": {',
    "no object": '["hooks"]',
    "a typo of an event": '{"hooks": {"PreToolUs": [{"hooks": [{"type": "command", "command": "x"}]}]}}',
    "hooks that are a list": '{"hooks": []}',
    "a kind that is not known": '{"hooks": {"PreToolUse": [{"hooks": [{"type": "oracle"}]}]}}',
    "a matcher that is no text": '{"hooks": {"PreToolUse": [{"matcher": 3, "hooks": []}]}}',
}


@pytest.mark.parametrize("is_own", [False, True], ids=["the project's", "the user's"])
def test_hooks_that_cannot_be_read_stop_the_run(place: Any, is_own: bool) -> None:
    """Whoever wrote them, and trust is no remedy: only a correction is, or the flag."""
    file = (place.home if is_own else place.project) / ".claude/settings.json"
    file.parent.mkdir(exist_ok=True)
    for case, text in _UNREADABLE.items():
        file.write_text(text)
        place.run("trust", ".")
        refused = write(place)
        assert refused.returncode == Exit.CONFIG, (case, refused.stderr)
        assert "is configured with hooks that cannot be read or started" in refused.stderr
        assert "Correct it." in refused.stderr
        assert ".claude/settings.json: " in refused.stderr
        assert not written(place)
    without = write(place, "--without-untrusted")
    assert without.returncode == Exit.DONE
    assert "running without these hooks and rules, which are not in force" in without.stderr
    assert written(place)


def test_a_guard_that_cannot_be_started_stops_the_run(place: Any) -> None:
    """In the dialects in which a hook that fails lets a call pass; not if the user opened it, and not at the end."""
    place.write("guard.sh", "exit 0\n")
    for event, command, code in (
        ("PreToolUse", "./guard.sh", Exit.CONFIG),  # not executable
        ("PreToolUse", "./missing.sh", Exit.CONFIG),
        ("UserPromptSubmit", "no-such-program", Exit.CONFIG),
        ("Stop", "no-such-program", Exit.DONE),
        ("PreToolUse", "sh guard.sh", Exit.DONE),
    ):
        entry = {"hooks": [{"type": "command", "command": command}]}
        place.write(".claude/settings.json", json.dumps({"hooks": {event: [entry]}}))
        place.run("trust", ".")
        done = write(place)
        assert done.returncode == code, (command, done.stderr)
        assert ("cannot run: " in done.stderr) is (code == Exit.CONFIG)
        assert written(place) is (code == Exit.DONE)
        (place.project / "a.txt").unlink(missing_ok=True)
    entry["hooks"][0]["command"] = "./missing.sh"
    place.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [entry]}}))
    place.write("hookline.toml", '[hook_failures]\n".claude/settings.json" = "open"\n')
    place.run("trust", ".")
    assert write(place).returncode == Exit.DONE


def test_the_question_about_what_cannot_be_read_offers_no_trust(place: Any) -> None:
    """The word changes nothing."""
    place.write(".claude/settings.json", '{"hooks": {')
    arguments = ("run", "--model", writing(place), "--allow", "write", *_BARE, "x")
    for answer, code in (("trust", Exit.CONFIG), ("without", Exit.DONE)):
        terminal = terminal_of(place, *arguments)
        assert "`trust`" not in terminal.wait_for("[quit] ")
        terminal.press(f"{answer}\n")
        assert terminal.end() == code, terminal.text
        assert written(place) is (answer == "without")


_OWN_PROJECT = {
    "a repository": ".git/HEAD",
    "a configuration": "pyproject.toml",
}
"""What makes a directory a project of its own: a command in the sandbox can make each of them."""


@pytest.mark.parametrize("what", _OWN_PROJECT)
@pytest.mark.parametrize("guard", [guarded, guarded_by_claude])
def test_a_directory_of_a_trusted_project_does_not_leave_it_silently(
    place: Any, guard: Any, what: str
) -> None:
    """Until the user says that it is a project of its own."""
    (place.project / ".git").mkdir()
    guard(place)
    assert place.run("trust").returncode == 0
    place.write(f"sub/{_OWN_PROJECT[what]}", "[tool.hookline]\n")
    top = place.project
    place.project = top / "sub"
    refused = write(place)
    assert refused.returncode == Exit.CONFIG
    assert f"{top}: {top}/sub is a project of its own" in refused.stderr
    assert not written(place)
    assert write(place, "--without-untrusted").returncode == 0
    assert write(place, "--bare").returncode == 0
    (place.project / "a.txt").unlink()
    assert place.run("trust").returncode == 0
    assert write(place).returncode == 0
    assert written(place)


def test_a_trusted_project_whose_configuration_is_gone_stays_one(place: Any) -> None:
    """For runs in its directories too, without a repository."""
    guarded(place)
    assert place.run("trust").returncode == 0
    (place.project / "hookline.toml").unlink()
    (place.project / "sub").mkdir()
    place.project = place.project / "sub"
    assert write(place).returncode == Exit.CONFIG
    assert not written(place)


def test_a_repository_that_git_may_read_is_not_a_project_of_its_own(place: Any) -> None:
    """Trust in it is about git alone."""
    guarded(place)
    assert place.run("trust").returncode == 0
    top = place.project
    place.project = top / "sub"
    place.project.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=place.project, check=True)
    assert place.run("trust", "--repository", ".").returncode == 0
    assert write(place).returncode == Exit.CONFIG
