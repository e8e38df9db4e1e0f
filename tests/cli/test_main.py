from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

import hookline
from hookline.cli import main


def test_it_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
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


@pytest.mark.parametrize("arguments", [["--versoin"], ["rnu"], ["--version", "extra"]])
def test_what_it_does_not_know_is_an_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, with the usage, and with the exit code for wrong use."""
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "usage: hookline" in shown.err
    assert arguments[-1] in shown.err


def test_it_reads_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Called as a command it takes the arguments it was started with."""
    monkeypatch.setattr(sys, "argv", ["hookline", "--version"])
    assert main() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [(["--version"], 0, "hookline ", ""), (["--wrong"], 2, "", "unrecognized arguments: --wrong")],
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
