"""Around a project: init, trust, config, doctor, tools, hooks, completion; and how quickly it starts."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import Any

import pytest

from hookline.cli.exits import Exit
from hookline.cli.parser import COMMANDS

_BARE = ("--without", "bash")


def output_of_test(place: Any, name: str) -> str:
    """What the generated test prints."""
    done = subprocess.run(
        [sys.executable, name],
        cwd=place.project,
        env={**os.environ, **place.env},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout or done.stderr


def test_init_makes_a_project_that_works(place: Any) -> None:
    """Its test passes, its hook holds without another word, its agent runs; and it is made once."""
    assert place.run("init").returncode == 0
    assert output_of_test(place, "test_hooks.py") == "ok\n"
    assert place.run("trust", "--show").returncode == 0
    model = place.script({"call": "read", "args": {"path": "notes.txt"}}, {"say": "Notes."})
    done = place.run("run", "agent:build", "What is in notes.txt?", "--model", model)
    assert (done.returncode, done.stdout) == (0, "Notes.\n"), done.stderr
    again = place.run("init")
    assert again.returncode == Exit.USAGE
    assert "has a hookline.toml already" in again.stderr


def test_a_file_that_is_there_is_left_alone_and_not_trusted(place: Any) -> None:
    """Ours gets another name, and the project works all the same."""
    theirs = {
        "hooks.py": "raise SystemExit('evil')\n",
        "src/hookline_hooks/__init__.py": "raise SystemExit('evil')\n",
        "agent.py": "raise SystemExit('evil')\n",
        "test_hooks.py": "evil\n",
        "notes.txt": "mine\n",
    }
    for name, text in theirs.items():
        place.write(name, text)
    done = place.run("init")
    assert done.returncode == 0, done.stderr
    assert {name: (place.project / name).read_text() for name in theirs} == theirs
    written = [line.rpartition("/")[2] for line in done.stdout.splitlines()]
    assert written == [
        "hookline.toml",
        "hookline_hooks_2.py",
        "hookline_agent.py",
        "test_hookline_hooks.py",
        "hookline_notes.txt",
    ]
    trusted = place.run("trust", "--show")
    assert trusted.returncode == 0
    assert trusted.stdout.split("\n")[:2] == ["  hookline.toml", "  hookline_hooks_2.py"]
    assert output_of_test(place, "test_hookline_hooks.py") == "ok\n"
    assert place.run("hooks", "test", "bash", "rm x").returncode == Exit.BLOCKED
    model = place.script({"say": "Hi."})
    built = place.run("run", "hookline_agent:build", "x", "--model", model)
    assert (built.returncode, built.stdout) == (0, "Hi.\n"), built.stderr


def test_init_does_not_trust_what_its_hook_would_load_besides(place: Any) -> None:
    """A package here that is called like ours: the directory stays untrusted, and that is said."""
    place.write("hookline/__init__.py", "raise SystemExit('evil')\n")
    done = place.run("init")
    assert done.returncode == 0
    assert "is not trusted: the hook also loads hookline/__init__.py" in done.stderr
    assert place.run("trust", "--list").stdout == ""


def test_init_leaves_a_configured_directory_alone(place: Any) -> None:
    """Whichever file it is in."""
    place.write("pyproject.toml", "[tool.hookline.limits]\nsteps = 3\n")
    done = place.run("init")
    assert (done.returncode, "has a pyproject.toml already" in done.stderr) == (Exit.USAGE, True)
    assert not (place.project / "hooks.py").exists()


@pytest.mark.parametrize("flags", [(), ("--place", "host")])
def test_the_rules_of_init_hold_for_every_tool(place: Any, flags: tuple[str, ...]) -> None:
    """An environment file gets one verdict whichever tool would see it; so does rm."""
    place.run("init")
    place.write(".env", "KEY=1\n")
    argv = json.dumps({"argv": ["cat", ".env"]})
    for tool, given in (("read", ".env"), ("bash", "cat .env"), ("exec", argv)):
        done = place.run("hooks", "test", *flags, tool, given)
        assert done.returncode == Exit.WAITING, (tool, done.stdout)
    removing = json.dumps({"argv": ["/bin/rm", "notes.txt"]})
    for tool, given in (("bash", "rm notes.txt"), ("bash", "/bin/rm -f a"), ("exec", removing)):
        done = place.run("hooks", "test", *flags, tool, given)
        assert (done.returncode, "block      no_rm" in done.stdout) == (Exit.BLOCKED, True)


def test_hostile_configuration_does_nothing_before_trust(place: Any) -> None:
    """No code runs, no server starts, no model is set, whichever command looks at it."""
    touch = "open('evil', 'w')"
    place.write("evil.py", f"{touch}\n\ndef hook(ctx):\n    {touch}\n")
    place.write(
        "hookline.toml",
        'agent = "evil:hook"\nmodel = "script:evil.json"\n[[hooks]]\non = "session_start"\nrun = "evil:hook"\n'
        '[mcp.evil]\ncommand = "touch"\nargs = ["evil"]\n[[hooks]]\non = "session_start"\ncommand = "touch evil"\n',
    )
    model = place.script({"say": "Hi."})
    for command in (
        ("run", "--model", model, "x", *_BARE),
        ("tools", *_BARE),
        ("hooks", "list", *_BARE),
        ("hooks", "test", "read", '{"path": "a"}', *_BARE),
        ("config", "show"),
        ("doctor",),
        ("trust", "--show"),
    ):
        done = place.run(*command)
        assert "Traceback" not in done.stderr, done.stderr
        assert not (place.project / "evil").exists(), command
    assert "hookline trust" in place.run("run", "--model", model, "x", *_BARE).stderr
    assert place.run("trust").returncode == 0
    assert place.run("trust", "--show").returncode == 0
    place.write("evil.py", "other = 1")
    changed = place.run("trust", "--show")
    assert changed.returncode == Exit.CONFIG
    assert "evil.py  (changed)" in changed.stdout


def test_config_show_says_where_each_value_came_from(place: Any) -> None:
    """And hides keys."""
    place.write("hookline.toml", "[limits]\nsteps = 7\n")
    done = place.run(
        "config",
        "show",
        "--max-cost",
        "2",
        "--set",
        "model_settings.api_key=secret",
        HOOKLINE_MODE="plan",
    )
    assert f"= 7  # {place.project}/hookline.toml:2" in done.stdout
    assert "= 2.0  # --max-cost" in done.stdout
    assert '= "plan"  # $HOOKLINE_MODE' in done.stdout
    assert "secret" not in done.stdout
    rows = [json.loads(line) for line in place.run("config", "show", "--json").stdout.splitlines()]
    assert {"key": "model", "value": "local:", "from": "default"} in rows
    assert json.loads(place.run("config", "schema").stdout)["title"] == "Hookline configuration"
    assert "journal.db" in place.run("config", "where").stdout


def test_doctor_says_what_to_do(place: Any) -> None:
    """About variables with a slip in them, say."""
    done = place.run("doctor", HOOKLINE_MODELL="x")
    assert done.returncode == Exit.FAILED
    assert "the variable HOOKLINE_MODELL has no meaning" in done.stdout
    assert "Did you mean HOOKLINE_MODEL?" in done.stdout


@pytest.mark.parametrize(
    ("variable", "provider"),
    [("GOOGLE_API_KEY", "google"), ("ANTHROPIC_AUTH_TOKEN", "anthropic")],
)
def test_doctor_knows_every_variable_of_a_key(place: Any, variable: str, provider: str) -> None:
    """It looks where the provider looks."""
    assert f"ok  {provider}: models" in place.run("doctor", **{variable: "x"}).stdout


def test_tools_and_hooks_are_listed(place: Any) -> None:
    """With what each came with."""
    assert "read    files  Read a file." in place.run("tools", *_BARE).stdout
    found = json.loads(place.run("tools", "read", "--json", *_BARE).stdout)
    assert "path" in found["parameters"]["properties"]
    listed = place.run("hooks", "list", "--json", *_BARE).stdout.splitlines()
    assert {"files-jail", "approval"} <= {json.loads(line)["hook"] for line in listed}
    assert "a block: the call is not run" in place.run("hooks", "list", "--points").stdout
    assert "files-jail" in place.run("hooks", "explain", "read", '{"path": "a"}', *_BARE).stdout
    assert place.run("hooks", "lint", *_BARE).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell: str, place: Any) -> None:
    """And their flags."""
    script = place.run("completion", shell).stdout
    assert all(name in script for name in COMMANDS)
    assert "max-steps" in script
    if shell == "bash":
        asked = f'{script}\nCOMP_WORDS=(hookline run --max-s); COMP_CWORD=2; _shtab_hookline; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
        assert done.stdout == "--max-steps\n", done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, place: Any) -> None:
    """--help, on stdout, with success."""
    done = place.run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: hookline {command}")


def cpu_seconds(place: Any, *arguments: str) -> float:
    """The least processor time of three starts; the first may have to compile."""
    taken = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = place.run(
            *arguments, PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(place.home / "pyc")
        )
        assert done.returncode == 0, done.stderr
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def test_it_loads_little_to_print_its_version(place: Any) -> None:
    """No agent, no asyncio, no pydantic: what a version needs."""
    program = "import sys; from hookline.cli import main; main(['--version']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **place.env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"asyncio", "pydantic", "hookline.agent", "hookline.config", "msgspec"} & set(
        done.stdout.split()
    )


def test_it_starts_quickly(place: Any) -> None:
    """Far from what would be felt: a guard against loading something heavy, not a benchmark."""
    assert cpu_seconds(place, "--version") < 0.6
    assert cpu_seconds(place, "run", "--model", place.script({"say": "Hi."}), "x") < 1.6


def test_trust_shows_what_it_is_bound_to(place: Any) -> None:
    """The script, the code beside it, and what is listed. What a script loads from elsewhere may change."""
    place.write("s/guard.sh", '. "$(dirname "$0")/lib.sh"\n. ./elsewhere/lib.sh\n. ./more/lib.sh\n')
    for name in ("s", "elsewhere", "more"):
        place.write(f"{name}/lib.sh", "true\n")
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "sh s/guard.sh"}]}]}
    place.write(".claude/settings.json", json.dumps({"hooks": hooks}))
    place.write(
        "hookline.toml",
        'hook_files = ["more"]\n[[hooks]]\non = "stop"\ncommand = "ruff check s/lib.sh"\n',
    )
    said = place.run("trust").stdout
    assert "sh s/guard.sh\n    bound to s/guard.sh\n    bound to s/ (2 files)\n" in said
    assert "ruff check s/lib.sh\n    bound to s/lib.sh\n" in said
    for name, code in (("elsewhere", 0), ("s", 6), ("more", 6)):
        path = place.write(f"{name}/lib.sh", "false\n")
        assert place.run("trust", "--show").returncode == code, name
        path.write_text("true\n")
    assert place.run("trust", "--show").returncode == 0
    place.write("s/new.sh", "")
    assert place.run("run", "--model", place.script({"say": "Hi."}), "x").returncode == 6


def test_trusting_says_which_variables_go_where(place: Any) -> None:
    """An address or a server that a repository names may be given a key: that is seen before it is trusted."""
    place.write(
        "hookline.toml",
        '[[hooks]]\non = "stop"\nurl = "https://a.example/x"\nheaders = { X-Key = "${FIRST_KEY}" }\n'
        '[mcp.far]\nurl = "https://b.example/mcp"\nheaders = { Authorization = "Bearer ${SECOND_KEY}" }\n'
        '[mcp.near]\ncommand = "true"\nenv = { KEY = "${THIRD_KEY}" }\n',
    )
    handler = {
        "type": "http",
        "url": "https://c.example/x",
        "headers": {"X-Key": "$FOURTH_KEY"},
        "allowedEnvVars": ["FOURTH_KEY", "NEVER_SENT"],
    }
    settings = {"hooks": {"Stop": [{"hooks": [handler]}]}}
    place.write(".claude/settings.json", json.dumps(settings))
    shown = place.run("trust", "--show").stdout
    for name in ("FIRST_KEY", "SECOND_KEY", "THIRD_KEY", "FOURTH_KEY"):
        assert f"is given ${name}\n" in shown
    assert "NEVER_SENT" not in shown


def test_the_directory_of_a_servers_script_is_trusted_with_it(place: Any) -> None:
    """New code in it asks again. A module of the project can be a server, too."""
    model = place.script({"say": "Hi."})
    place.write("tools/server.py", "import sys\nsys.exit('it was started')\n")
    table = '[mcp.own]\ncommand = "python3"\nargs = %s\n'
    place.write("hookline.toml", table % '["-m", "tools.server"]')
    assert "WARNING: bound to no file" in place.run("trust").stdout
    assert "it was started" in place.run("run", "--model", model, "x").stderr
    place.write("hookline.toml", table % '["tools/server.py"]')
    assert "bound to tools/ (1 file)" in place.run("trust").stdout
    assert "it was started" in place.run("run", "--model", model, "x").stderr
    place.write("tools/org.py", "")
    assert "tools/org.py" in place.run("run", "--model", model, "x").stderr
