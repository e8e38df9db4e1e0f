"""The first command of the README, without its installation: what a newcomer sees is what happened."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "import sys; from hookline.cli import main; sys.exit(main())"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Load scripts/demo.py as if everything were installed, with an empty home and a folder elsewhere."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    for name in ("demo", "environment"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("demo")
    program = tmp_path / "hookline"
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(PROGRAM)} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(module, "HOOKLINE", program)
    monkeypatch.setattr(module, "FOLDER", tmp_path / "hookline-demo")
    monkeypatch.setattr(module.environment, "ensure", lambda *_: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("HOOKLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HOOKLINE_MODEL", raising=False)
    monkeypatch.setattr(sys, "argv", ["demo.py", "--scripted"])
    yield module
    for name in ("demo", "environment"):
        sys.modules.pop(name, None)


def test_a_newcomer_sees_plan_run_verdict_and_what_to_do_next(
    demo: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    """The folder, the hook's source, the plan, the steps, the blocked call, the closing line and the next commands."""
    assert demo.main() == 0
    printed, errors = capfd.readouterr()
    for shown in (
        "def no_secrets",
        "$ hookline trust",
        "$ hookline hooks list",
        "hookline show last",
    ):
        assert shown in printed
    assert re.search(r"^before_tool_use +no-secrets +policy ", printed, re.MULTILINE)
    assert "The meeting is on Thursday at 14:00." in printed
    assert "The hook no-secrets blocked the call, once." in printed
    assert "hook no-secrets at before_tool_use: block read(secret.env)" in errors
    assert "reopen: hookline run --from" in errors


def test_a_model_that_does_not_try_is_not_covered_for(
    demo: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where no call met the hook, that is said, and the hook is asked about one by name."""
    demo._make_folder()
    turns = [{"say": "I would rather not."}]
    (demo.FOLDER / "turns.json").write_text(json.dumps(turns), encoding="utf-8")
    capfd.readouterr()
    demo._with_script()
    printed = capfd.readouterr().out
    assert "The model did not try to read the file this time." in printed
    assert "block      no-secrets (configuration, policy)" in printed
    assert "blocked the call" not in printed


def test_without_a_model_one_line_says_so(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where what runs the model cannot be installed, the same is shown with the scripted one."""
    tried = []

    def ensure(*extras: str) -> None:
        tried.append(extras)
        if extras:
            sys.exit("no such thing for this machine")

    monkeypatch.setattr(sys, "argv", ["demo.py"])
    monkeypatch.setattr(demo.environment, "ensure", ensure)
    assert demo.main() == 0
    printed, errors = capfd.readouterr()
    assert tried == [("terminal",), ()]
    assert errors.count("No local model here: what runs it could not be installed.") == 1
    assert "The hook no-secrets blocked the call, once." in printed


def test_a_model_that_does_not_run_here_is_said_to(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the first run fails, whatever of, the scripted model continues."""
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    monkeypatch.setattr(demo, "_has_model", lambda: True)
    monkeypatch.setenv("HOOKLINE_MODEL", "script:there-is-none.json")
    assert demo.main() == 0
    printed, errors = capfd.readouterr()
    assert "No local model here: it does not run on this machine." in errors
    assert "The hook no-secrets blocked the call, once." in printed


def test_a_folder_that_is_there_is_left_as_it_is(
    demo: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    """What somebody has changed in it stays; only what is missing is made."""
    demo._make_folder()
    (demo.FOLDER / "notes.txt").write_text("Mine.\n", encoding="utf-8")
    demo._make_folder()
    assert "as you left it" in capfd.readouterr().out
    assert (demo.FOLDER / "notes.txt").read_text(encoding="utf-8") == "Mine.\n"


def test_what_cannot_work_ends_with_its_message(demo: ModuleType) -> None:
    """A command that the rest depends on and that fails ends the demo, not in a traceback."""
    demo._make_folder()
    (demo.FOLDER / "hookline.toml").write_text("modle = 1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="That should have worked, and ended with 6"):
        demo._must("trust")
