"""`hookline demo`: what a newcomer sees is what happened, and what it suggests works."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from hookline.cli import demo
from hookline.cli.exits import Exit

_RIGHT = "The answer is right."
_BLOCKED = "The hook no-secrets blocked the call, once."


def suggested(printed: str) -> list[list[str]]:
    """The commands at the end, as a shell reads them."""
    lines = printed.partition("--- Now you")[2].splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("  ")]
    return [each for each in commands if each]


def test_a_newcomer_sees_plan_run_verdict_and_what_to_do_next(place: Any) -> None:
    """The folder, the hook's source, the plan, the steps, the blocked call; each command that it suggests works."""
    done = place.run("demo", "--scripted")
    assert done.returncode == 0, done.stderr
    for shown in ("def no_secrets", "$ hookline trust", "$ hookline hooks list", _RIGHT, _BLOCKED):
        assert shown in done.stdout
    assert re.search(r"^before_tool_use +no-secrets +policy ", done.stdout, re.MULTILINE)
    assert "The meeting is on Thursday at 14:00." in done.stdout
    assert "hook no-secrets at before_tool_use: block read(secret.env)" in done.stderr
    (_cd, folder), *commands = suggested(done.stdout)
    place.project = place.project / folder
    assert len(commands) == 4
    for words in commands:
        program = next(place for place, word in enumerate(words) if word.endswith("hookline"))
        arguments = words[program + 1 :]
        again = place.run(*arguments)
        assert again.returncode == 0, (arguments, again.stderr)
    assert (place.project / "run.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_wrong_answer_is_shown_as_wrong(place: Any) -> None:
    """So is a model that does not try: the hook is then asked about the call by name."""
    assert place.run("demo", "here", "--scripted").returncode == 0
    turns = [{"say": "The meeting is on Friday."}]
    (place.project / "here/turns.json").write_text(json.dumps(turns), encoding="utf-8")
    done = place.run("demo", "here", "--scripted")
    assert done.returncode == 0, done.stderr
    assert "here, as you left it" in done.stdout
    assert "The answer is wrong: it is on Thursday at 14:00" in done.stdout
    assert _RIGHT not in done.stdout
    assert "The model did not try to read the file this time." in done.stdout
    assert "block      no-secrets (configuration, policy)" in done.stdout
    assert "blocked the call" not in done.stdout


def test_a_folder_that_is_there_is_not_trusted_by_the_demo(place: Any) -> None:
    """Somebody else's hooks do not run because the demo is tried beside them; another folder stays as it is."""
    planted = place.project / "hookline-demo"
    shutil.copytree(demo.SAMPLE, planted, ignore=shutil.ignore_patterns("__pycache__"))
    (planted / "hooks.py").write_text(
        'open("ran", "w")\n\n\ndef no_secrets(ctx):\n    return None\n', encoding="utf-8"
    )
    done = place.run("demo", "--scripted")
    assert done.returncode == Exit.CONFIG, done.stdout
    assert not (planted / "ran").exists()
    assert "--- Now you" not in done.stdout
    (place.project / "mine").mkdir()
    other = place.run("demo", "mine")
    assert other.returncode == Exit.USAGE
    assert "is not a folder of the demo: it has no hookline.toml. Name another one" in other.stderr
    assert list((place.project / "mine").iterdir()) == []


def test_without_a_model_one_line_says_so(place: Any) -> None:
    """Where the model cannot be fetched, the same is shown with the scripted one."""
    nothing = {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}
    done = place.run("demo", HOOKLINE_CACHE_DIR=str(place.home / "cache"), **nothing)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("hookline: no local model here: ") == 1
    assert "The same is shown with a scripted one." in done.stderr
    assert _BLOCKED in done.stdout


def test_a_model_that_does_not_run_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the first run fails, for whatever reason, the scripted model continues."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HOOKLINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOOKLINE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setattr(demo, "has_model", lambda: True)
    monkeypatch.setattr(demo, "_LOCAL", "script:there-is-none.json")
    folder = str(tmp_path / "demo")
    assert demo.run(argparse.Namespace(folder=folder, scripted=False)) == 0
    printed, errors = capfd.readouterr()
    assert "no local model here: it does not run on this machine." in errors
    assert _BLOCKED in printed


@pytest.mark.parametrize(
    ("question", "answer", "is_right"),
    [
        (demo.HARMLESS, "The meeting is on Thursday at 14:00.", True),
        (demo.HARMLESS, "It is on Thursday.", False),
        (demo.REFUSED, "The policy forbids reading .env files", True),
        (demo.REFUSED, "secret.env says: it holds secrets", False),
        (demo.REFUSED, "this-is-not-a-real-key", False),
    ],
)
def test_answers_are_judged_by_their_words(question: Any, answer: str, is_right: bool) -> None:
    """All of them must be there."""
    assert demo.is_right(question, answer) == is_right
