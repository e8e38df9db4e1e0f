"""The command as a whole: help, errors, and what it loads before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import hookline
from hookline.cli import main

_SOURCE = Path(__file__).parents[2] / "src"


def test_it_prints_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, alone, with success."""
    assert main(["--version"]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"hookline {hookline.__version__}\n"
    assert shown.err == ""


def test_it_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for help, it says what it is and where to begin, and succeeds."""
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: hookline")
    assert "--version" in shown.out
    assert "AgentBuilder" in shown.out
    assert shown.err == ""


def test_without_arguments_it_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """As there is nothing else it can do yet."""
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: hookline")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--versoin"], "there is no flag '--versoin' here. Did you mean '--version'?"),
        (["--vers"], "there is no flag '--vers' here."),
        (["rnu"], "there is no command 'rnu'. Did you mean 'run'?"),
        (["fix the bug"], "hookline run 'fix the bug'"),
        (
            ["run", "--modell", "x", "y"],
            "Did you mean '--model'? (`hookline run --help` says more)",
        ),
        (["hooks", "list", "--jsn"], "Did you mean '--json'?"),
        (["show", "one", "two"], "'two' is not expected here."),
    ],
)
def test_what_it_does_not_know_is_an_error(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr that says what was probably meant, and the exit code for wrong use."""
    try:
        code: object = main(arguments)
    except SystemExit as exit:
        code = exit.code
    assert code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert expected in shown.err
    assert shown.err.count("\n") == 1


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    """`hookline help` is what people try."""
    with pytest.raises(SystemExit) as exit:
        main(["help"])
    assert exit.value.code == 0
    assert capsys.readouterr().out.startswith("usage: hookline")


def test_it_reads_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Called as a command it takes the arguments it was started with."""
    monkeypatch.setattr(sys, "argv", ["hookline", "--version"])
    assert main() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [(["--version"], 0, "hookline ", ""), (["--wrong"], 2, "", "there is no flag '--wrong'")],
)
def test_as_a_process(arguments: list[str], code: int, out: str, err: str) -> None:
    """Exit code and streams are what a shell sees."""
    program = "import sys; from hookline.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout.startswith(out)
    assert err in done.stderr


def test_it_is_installed_as_a_command() -> None:
    """Where the package is installed, the command leads here."""
    try:
        found = metadata.distribution("hookline").entry_points
    except metadata.PackageNotFoundError:
        pytest.skip("hookline is not installed here, only on the path")
    [command] = [entry for entry in found if entry.name == "hookline"]
    assert command.load() is main


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """`python -m hookline` does what `hookline` does, and a module in the working directory takes nobody's place."""
    (tmp_path / "argparse.py").write_text("raise SystemExit('taken over')\n")
    (tmp_path / "msgspec.py").write_text("raise SystemExit('taken over')\n")
    env = {**os.environ, "PYTHONPATH": str(_SOURCE), "HOME": str(tmp_path / "home")}

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hookline", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    assert ran("--version").stdout.startswith("hookline 0.")
    wrong = ran("rum", "x")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "hookline: there is no command 'rum'. Did you mean 'run'?\n",
    )
    assert ran("runs").returncode == 0


# --- what the command does not load before it is needed: that is most of what a start costs ---


_SLOW = (
    "anthropic",
    "google.genai",
    "hookline.containment.shell.policy",
    "hookline.containment.shell.scan",
    "hookline.mcp",
    "httpx",
    "jsonschema",
    "mcp",
    "openai",
    "pydantic",
    "tree_sitter",
    "xllamacpp",
    "yaml",
)
_LOADED = """
import json, sys
from hookline.cli import main
main(sys.argv[2:])
print(json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]))
"""


@pytest.mark.parametrize("config", ["", '[approvals]\ndeny = ["read(.env)"]\n'])
def test_a_first_step_loads_nothing_slow(config: str, place: Any) -> None:
    """With files and a shell, and with a configuration."""
    if config:
        place.write("hookline.toml", config)
    model = place.script({"say": "Hi."})
    arguments = ["run", "--quiet", "--model", model, "x"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LOADED, json.dumps(_SLOW), *arguments],
        cwd=place.project,
        env={**place.env, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert done.stdout.splitlines() == ["Hi.", "[]"]


def test_the_version_loads_nearly_nothing(place: Any) -> None:
    """Neither the agent nor what reads configuration."""
    heavy = ("asyncio", "msgspec", "hookline.agent", "hookline.config", "hookline.state")
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LOADED, json.dumps(heavy), "--version"],
        env={**place.env, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[1] == "[]"
