"""Flags and arguments: what they set, what people get wrong, and where commands run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from hookline import SQLiteJournal
from hookline.cli.exits import Exit
from hookline.sessions import Sessions


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--without", "bahs"), "--without: there is no capability 'bahs'. Did you mean 'bash'?"),
        (("--without", ""), "--without: there is no capability ''."),
        (("--capability", "skils"), "--capability: there is no capability 'skils'."),
        (
            ("--set", "capabilities.bahs.enabled=false"),
            "--set: there is no capability 'bahs'. Did you mean 'bash'?",
        ),
        (("--set", "capabilities.bash.enabled='no'"), "'capabilities.bash.enabled' is 'no'"),
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
            "--sandbox is an option of 'bash', but --without switches that capability off. Give one of them.",
        ),
        (
            ("--sandbox", "host", "--set", "capabilities.bash.enabled=false"),
            "--sandbox is an option of 'bash', but --set switches that capability off.",
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
            "argument --from: not allowed with argument -c/--continue",
        ),
    ],
)
def test_a_flag_that_would_do_nothing_is_wrong_use(
    flags: tuple[str, ...], expected: str, place: Any
) -> None:
    """It is reported before anything runs: a user who gave it relies on it."""
    model = place.script({"say": "Hi."})
    done = place.run("run", "--model", model, *flags, "x")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_conversation_is_named_once(place: Any) -> None:
    """In chat as in run."""
    done = place.run("chat", "-c", "--session", "a")
    assert done.returncode == 2
    assert "argument --session: not allowed with argument -c/--continue" in done.stderr


def test_a_run_that_is_not_kept_may_continue_one_of_a_journal(place: Any) -> None:
    """There --journal says where the conversation is, which --no-save does not take back."""
    model = place.script({"say": "Hi."})
    common = ("run", "--model", model, "--journal", ".hookline/j.db")
    assert place.run(*common, "x").returncode == 0
    done = place.run(*common, "-c", "--no-save", "x")
    assert done.returncode == 0, done.stderr
    assert place.run("runs", "--journal", ".hookline/j.db").stdout.count("completed") == 1


@pytest.mark.parametrize("action", ["test", "explain"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("raed", "ls"), "there is no tool 'raed'. Did you mean 'read'?"),
        (("nosuch", "ls"), "there is no tool 'nosuch'. Your tools are: read,"),
        (("write", "ls"), "the arguments are not JSON"),
    ],
)
def test_a_tool_that_is_not_there_is_reported_first(
    action: str, words: tuple[str, ...], expected: str, place: Any
) -> None:
    """What its arguments would be does not matter then."""
    done = place.run("hooks", action, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


def test_a_step_without_a_run_is_wrong_use(place: Any) -> None:
    """The message says how to name one."""
    done = place.run("run", "--at", "3", "x")
    assert done.returncode == 2
    assert 'Name it: hookline run --from RUN --at 3 "..."' in done.stderr


# --- what people get wrong: the exit code says what kind of mistake it is, and the line what to do ---


_BARE = ("--without", "bash")
_MAIN = "import sys; from hookline.cli import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        (2, "run --model nope:x hi", "--model: there is no provider 'nope'"),
        (2, "run --model bogus hi", "anthropic, google, lmstudio, local, ollama, openai, script."),
        (2, "run --model script:nowhere.json hi", "--model: the script 'nowhere.json' cannot"),
        (2, "run --model script: hi", "--model: no file is named for the script."),
        (2, "run -f nowhere.md", "Give -f the path of a text file"),
        (2, "run --agent nope hi", "there is no agent 'nope' in the configuration"),
        (6, "run --model openai:x hi", "model_settings.api_key in your own file"),
        (6, "tools --capability structured_output", "needs the option 'output'"),
        (2, "hooks explain nope", "there is no tool 'nope'"),
        (2, "hooks list nope", "An agent of your own is named module:agent."),
        (2, "hooks list --points nope", "'nope' is not expected here"),
        (2, "hooks list --point", "there is no flag '--point' here. Did you mean '--points'?"),
        (2, "config show --jso", "there is no flag '--jso' here. Did you mean '--json'?"),
        (2, "run --mod plan hi", "there is no flag '--mod' here. Did you mean '--mode'?"),
        (2, "hooks test --prompt a --answer b", "--prompt and --answer cannot be asked about"),
        (2, "hooks test --prompt a --result b", "--result is the result of a tool"),
        (2, "hooks test write a.txt", "the arguments are not JSON"),
        (2, "trust --show --revoke", "not allowed with argument"),
        (2, "trust --list --revoke", "not allowed with argument"),
        (2, "tools nope", "there is no tool 'nope'"),
        (2, "tools read write", "'write' is not expected here"),
        (2, "run -c --at x hi", "'x' is not a whole number"),
        (2, "mcp-serve nope", "'nope' does not name an agent"),
        (2, "mcp-serve nope:agent", "there is no module 'nope'"),
        (1, "chat --session nope", "Begin one: hookline chat."),
        (0, "trust --list", "you trust no directory yet"),
        (0, "runs", 'no runs here yet: hookline run "..."'),
        (0, "runs --journal nope.db", "there is no journal 'nope.db' yet"),
        (2, "runs --with-later", "--with-later is for runs that are deleted, and none is"),
        (2, "journal check --journal nope.db", "there is no journal 'nope.db'"),
        (2, "journal backup x.db --journal nope.db", "there is no journal 'nope.db'"),
        (2, "backtest --journal nope.db", "there is no journal 'nope.db'"),
    ],
)
def test_a_mistake_is_reported(code: int, words: str, expected: str, place: Any) -> None:
    """In one line, which is about the command and not about Python."""
    done = place.run(*words.split(), OPENAI_API_KEY="")
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_list_of_runs_says_when_none_is_like_that(place: Any) -> None:
    """There are some, and none of them waits."""
    model = place.script({"say": "ok"})
    assert place.run("run", "--model", model, "x", *_BARE).returncode == Exit.DONE
    assert place.run("runs", "--status", "paused").stderr == "of 1 run here, none is paused\n"
    assert place.run("runs", "-n", "0").stderr == ""


def test_a_conversation_that_is_not_there_is_reported_with_those_that_are(place: Any) -> None:
    """By the ids that --session takes."""
    model = place.script({"say": "ok"})
    assert place.run("chat", "--model", model, *_BARE, stdin="Hi.\n").returncode == Exit.DONE
    assert "There are: chat-" in place.run("chat", "--session", "nope").stderr


def test_a_failure_is_reported_without_two_ends_of_a_sentence(place: Any) -> None:
    """The closing line continues after what failed."""
    done = place.run("run", "--model", place.script(), "x", *_BARE)
    assert done.returncode == Exit.FAILED
    assert "find out why the run continued; 1 step" in done.stderr


def test_help_has_one_line_for_each_command(place: Any) -> None:
    """Long names, too."""
    lines = place.run("--help", COLUMNS="100").stdout.splitlines()
    assert any(line.split()[:2] == ["mcp-serve", "offer"] for line in lines)
    assert any(line.split()[:2] == ["completion", "print"] for line in lines)


def test_nothing_is_kept_of_a_conversation_or_a_fork_that_is_not_saved(place: Any) -> None:
    """No file is written, and nothing is said about reopening."""
    model = place.script({"say": "ok"})
    talked = place.run("chat", "--no-save", "--model", model, *_BARE, stdin="Hi.\nAgain.\n")
    assert talked.stdout.startswith("ok\n"), talked.stderr
    assert "reopen" not in talked.stderr
    assert list(place.home.rglob("journal.db")) == []
    assert place.run("chat", "--no-save", "-c").returncode == Exit.USAGE
    assert place.run("chat", "--no-save", "--journal", "x.db").returncode == Exit.USAGE
    assert place.run("run", "--model", model, "x", *_BARE).returncode == Exit.DONE
    forked = place.run("run", "-c", "--no-save", "--model", model, "y", *_BARE)
    assert (forked.returncode, forked.stdout) == (Exit.DONE, "ok\n"), forked.stderr
    assert len(place.run("runs").stdout.splitlines()) == 1


def test_a_directory_that_is_gone_is_reported(place: Any) -> None:
    """And not only that something is not there."""
    program = f"import os, subprocess; os.rmdir({str(place.project)!r}); {_MAIN}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "runs"],
        cwd=place.project,
        env={**os.environ, **place.env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == Exit.FAILED
    assert "does not exist any more. Change to another one." in done.stderr


def test_the_doctor_says_where_a_model_cannot_be_kept(place: Any) -> None:
    """Before it is fetched."""
    place.write("file", "")
    report = place.run("doctor", HOOKLINE_CACHE_DIR=str(place.project / "file/models")).stdout
    if "local model" not in report:
        pytest.skip("local models cannot run here")
    assert "export HOOKLINE_CACHE_DIR=..., and then: hookline model get" in report


def test_a_run_is_dropped_only_when_all_that_are_named_are_there(place: Any) -> None:
    """And never one that was not named."""
    model = place.script({"say": "ok"})
    assert place.run("run", "--model", model, "x", *_BARE).returncode == Exit.DONE
    assert place.run("runs", "--delete", "").returncode == Exit.USAGE
    assert place.run("runs", "--delete", "last", "--delete", "nope").returncode == Exit.FAILED
    assert len(place.run("runs").stdout.splitlines()) == 1
    dropped = place.run("runs", "--delete", "last", "--delete", "last")
    assert dropped.stdout.startswith("deleted ")
    assert len(dropped.stdout.splitlines()) == 1
    assert place.run("runs").stdout == ""


@pytest.mark.parametrize("command", ["runs", "show"])
def test_a_setting_that_would_do_nothing_is_reported(command: str, place: Any) -> None:
    """Whoever sets it relies on it."""
    done = place.run(command, "--set", "limits.steps=3")
    assert done.returncode == Exit.USAGE
    assert "has no effect" in done.stderr


def test_the_hooks_of_now_are_asked_about_a_run_of_another_project(place: Any) -> None:
    """A run is found wherever it is, by its id."""
    model = place.script({"say": "ok"})
    assert place.run("run", "--model", model, "x", *_BARE).returncode == Exit.DONE
    run_id = place.run("runs").stdout.split()[0]
    place.project = place.home.parent / "other"
    place.project.mkdir()
    asked = place.run("backtest", run_id, *_BARE)
    assert (asked.returncode, asked.stdout.split(",")[0]) == (Exit.DONE, "1 run"), asked.stderr
    assert place.run("run", "--model", model, "y", *_BARE).returncode == Exit.DONE
    mixed = place.run("backtest", "last", run_id)
    assert mixed.returncode == Exit.USAGE
    assert "is in another project" in mixed.stderr


def test_a_conversation_that_somebody_else_is_in_is_reported_once(place: Any) -> None:
    """With what can be done about it in a conversation."""
    model = place.script({"say": "ok"}, {"say": "ok"})
    assert place.run("chat", "--model", model, *_BARE, stdin="Hi.\n").returncode == Exit.DONE
    path = next(place.home.rglob("journal.db"))
    with SQLiteJournal(path) as journal:
        session = Sessions(journal).list_sync(limit=1)[0].id
        claim = journal.claim_sync(f"session/{session}")
        done = place.run("chat", "-c", "--model", model, *_BARE, stdin="Hi.\n")
        claim.give_back().result()
    assert done.returncode == Exit.FAILED
    assert done.stderr.count("is in use by another process") == 1
    assert done.stderr.endswith("or continue in a copy: /fork\n")


# --- where commands run, as the command line says it ---


needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


def touching(place: Any, **more: Any) -> str:
    """A model that makes a file."""
    args = {"command": "touch made", **more}
    return str(place.script({"call": "bash", "args": args}, {"say": "done"}))


@needs_bubblewrap
@pytest.mark.parametrize(
    ("flags", "env", "made"),
    [
        ((), {}, True),
        (("--place", "workspace"), {}, True),
        (("--place", "read-only"), {}, False),
        (("--place", "read-only", "--sandbox", "required"), {}, False),
        ((), {"HOOKLINE_PLACE": "read-only"}, False),
        (("--mode", "plan"), {}, False),
        (("--mode", "ask_unlisted"), {}, False),
        (("--set", "capabilities.bash.place='read-only'"), {}, False),
    ],
)
def test_where_a_command_runs(place: Any, flags: Any, env: Any, made: bool) -> None:
    """By flag, by variable, by setting and by mode; nobody is asked."""
    done = place.run("run", "--model", touching(place), *flags, "Go.", **env)
    assert done.returncode == Exit.DONE, done.stderr
    assert (place.project / "made").exists() == made


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("--place", "nowhere"), Exit.USAGE, "choose from"),
        (("--place", "host", "--without", "bash"), Exit.USAGE, "--place is an option of 'bash'"),
        (
            ("--place", "host", "--sandbox", "required"),
            Exit.CONFIG,
            "--place says place = 'host' and --sandbox says sandbox = 'required', which contradict each other.",
        ),
        (
            ("--place", "read-only", "--sandbox", "host"),
            Exit.CONFIG,
            "--place says place = 'read-only' and --sandbox says sandbox = 'host', which contradict each other. "
            "sandbox = 'host' is an older word for that place: leave it or the place out. "
            "For one run, --sandbox auto does it.",
        ),
    ],
)
def test_what_cannot_be_is_an_error(place: Any, arguments: Any, code: int, expected: str) -> None:
    """Before anything runs. The error about two contradicting values names both sources."""
    done = place.run("run", "--model", touching(place), *arguments, "Go.")
    assert done.returncode == code
    assert expected in done.stderr


def test_config_show_refuses_a_wrong_variable(place: Any) -> None:
    """And names the choices; a right one is shown with where it came from."""
    wrong = place.run("config", "show", HOOKLINE_SANDBOX="requierd")
    assert wrong.returncode != Exit.DONE
    assert (
        "$HOOKLINE_SANDBOX is 'requierd'. Set it to one of: required, auto, host." in wrong.stderr
    )
    shown = place.run("config", "show", "--json", HOOKLINE_SANDBOX="host").stdout.splitlines()
    rows = [json.loads(line) for line in shown]
    key = {"key": "capabilities.bash.place", "value": "host", "from": "$HOOKLINE_SANDBOX"}
    assert key in rows


def test_doctor_says_where_commands_run(place: Any) -> None:
    """And by whose word, if that is the host."""
    assert (
        "place: commands run on the host, by $HOOKLINE_PLACE"
        in place.run("doctor", HOOKLINE_PLACE="host").stdout
    )
    if shutil.which("bwrap") is not None:
        report = place.run("doctor", HOOKLINE_PLACE="read-only").stdout
        assert "passed its test; place read-only" in report


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
def test_doctor_lists_programs_that_are_hidden_and_not_shown(place: Any) -> None:
    """A script whose interpreter is hidden does not work in the sandbox, until `show` names the place."""
    tools, hidden = place.home / "tools", place.home / ".opt" / "sh"
    for path in (tools / "script", hidden):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!{hidden}\n")
        path.chmod(0o755)
    search = f"{tools}:/usr/bin:/bin"
    assert f"hidden place: {tools}/script" in place.run("doctor", PATH=search).stdout
    own = place.home / ".config" / "hookline" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[capabilities.bash]\nshow = ["~/.opt"]\n')
    assert "hidden place" not in place.run("doctor", PATH=search).stdout
