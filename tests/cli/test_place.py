"""Where commands run, as the command line says it."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from hookline.cli.exits import Exit

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
    ("arguments", "code", "told"),
    [
        (("--place", "nowhere"), Exit.USAGE, "choose from"),
        (("--place", "host", "--without", "bash"), Exit.USAGE, "--place is about 'bash'"),
        (
            ("--place", "host", "--sandbox", "required"),
            Exit.CONFIG,
            "--place says place = 'host' and --sandbox says sandbox = 'required', which contradict each other.",
        ),
        (
            ("--place", "read-only", "--sandbox", "host"),
            Exit.CONFIG,
            "--place says place = 'read-only' and --sandbox says sandbox = 'host'",
        ),
    ],
)
def test_what_cannot_be_is_an_error(place: Any, arguments: Any, code: int, told: str) -> None:
    """Before anything runs; of two words that exclude each other it is said who said which."""
    done = place.run("run", "--model", touching(place), *arguments, "Go.")
    assert done.returncode == code
    assert told in done.stderr


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
        told = place.run("doctor", HOOKLINE_PLACE="read-only").stdout
        assert "passed its test; place read-only" in told
