"""Flags that would do nothing: mistyped, empty, or taken back by another."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--without", "bahs"), "--without: there is no capability 'bahs'. Did you mean 'bash'?"),
        (("--without", ""), "--without: there is no capability ''."),
        (("--capability", "skils"), "--capability: there is no capability 'skils'."),
        (
            ("--set", "capabilities.bahs.enabled=false"),
            "--set: there is no capability 'bahs'. Did you mean 'bash'?",
        ),
        (("--set", "capabilities.bash.enabled='no'"), "'bash.enabled' is 'no'"),
        (("--set", "limits.stepz=3"), "--set: 'limits.stepz' is not a setting."),
        (("--set", "limits"), "--set 'limits' sets nothing. Write --set KEY=VALUE."),
        (
            ("--set", "model='a'", "--set", "model.b=1"),
            "--set 'model.b=1' contradicts another flag",
        ),
        (("--deny", ""), "--deny names no call. Write a rule: --deny 'bash(git push *)'."),
        (("--ask", " "), "--ask names no call."),
        (("--deny", "bash("), "--deny: the rule 'bash(' has a '('"),
        (
            ("--sandbox", "required", "--without", "bash"),
            "--sandbox is about 'bash', which --without leaves out. Give one of them.",
        ),
        (
            ("--sandbox", "host", "--set", "capabilities.bash.enabled=false"),
            "--sandbox is about 'bash', which --set leaves out.",
        ),
        (
            ("--capability", "bash", "--without", "bash"),
            "--capability bash and --without bash contradict each other.",
        ),
        (
            ("--no-save", "--journal", "j.db"),
            "--no-save records nothing, and --journal records the run in j.db.",
        ),
        (
            ("-c", "--from", "last"),
            "-c continues the last conversation, and --from that of last.",
        ),
    ],
)
def test_a_flag_that_would_do_nothing_is_wrong_use(
    flags: tuple[str, ...], told: str, place: Any
) -> None:
    """It is reported before anything runs: whoever gave it relies on it."""
    model = place.script({"say": "Hi."})
    done = place.run("run", "--model", model, *flags, "x")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_conversation_is_named_once(place: Any) -> None:
    """In chat as in run."""
    done = place.run("chat", "-c", "--session", "a")
    assert done.returncode == 2
    assert "-c continues the last conversation, and --session a." in done.stderr


def test_a_run_that_is_not_kept_may_go_on_with_one_of_a_journal(place: Any) -> None:
    """There --journal says where the conversation is, which --no-save does not take back."""
    model = place.script({"say": "Hi."})
    common = ("run", "--model", model, "--journal", ".hookline/j.db")
    assert place.run(*common, "x").returncode == 0
    done = place.run(*common, "-c", "--no-save", "x")
    assert done.returncode == 0, done.stderr
    assert place.run("runs", "--journal", ".hookline/j.db").stdout.count("completed") == 1


@pytest.mark.parametrize("flags", [("--deny", "bsah(ls)"), ("--set", "approvals.ask=['bsah']")])
def test_a_rule_about_no_tool_is_reported(flags: tuple[str, ...], place: Any) -> None:
    """It holds nobody back, so also those who want it quiet read of it."""
    model = place.script({"say": "Hi."})
    done = place.run("run", "-q", "--model", model, *flags, "x")
    assert (done.returncode, done.stdout) == (0, "Hi.\n"), done.stderr
    assert f"{flags[0]}: there is no tool 'bsah' here for" in done.stderr
    assert "Did you mean 'bash'?" in done.stderr


def test_a_rule_of_a_file_is_reported_where_it_is_clear_what_it_means(place: Any) -> None:
    """A file may be for several agents, and name tools that this one does not have."""
    path = place.write("hookline.toml", '[approvals]\ndeny = ["bsah(ls)", "deploy"]\n')
    done = place.run("run", "-q", "--model", place.script({"say": "Hi."}), "x")
    assert done.returncode == 0
    assert done.stderr == (
        f"hookline: {path}:2: there is no tool 'bsah' here for 'bsah(ls)'. Did you mean 'bash'?\n"
    )


@pytest.mark.parametrize("action", ["test", "explain"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("raed", "ls"), "there is no tool 'raed'. Did you mean 'read'?"),
        (("nosuch", "ls"), "there is no tool 'nosuch'. Your tools are: read,"),
        (("write", "ls"), "the arguments are not JSON"),
    ],
)
def test_a_tool_that_is_not_there_is_reported_first(
    action: str, words: tuple[str, ...], told: str, place: Any
) -> None:
    """What its arguments would be does not matter then."""
    done = place.run("hooks", action, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_fork_without_a_task_says_how_to_fork(place: Any) -> None:
    """With the step that it would continue from."""
    assert place.run("run", "--model", place.script({"say": "Hi."}), "x").returncode == 0
    done = place.run("fork", "last")
    assert done.returncode == 2
    assert 'Say what to do: hookline fork last --at 1 "..."' in done.stderr
