"""The first command of the README, without its installation: it calls `hookline demo`, and nothing else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Load scripts/demo.py."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    for name in ("demo", "environment"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("demo")
    for name in ("demo", "environment"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("arguments", "can_install", "installed"),
    [
        ([], True, [("terminal",)]),
        (["here"], False, [("terminal",), ()]),
        (["--scripted"], True, [()]),
    ],
)
def test_it_installs_what_is_needed_and_calls_the_command(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    can_install: bool,
    installed: list[tuple[str, ...]],
) -> None:
    """With the local model, where that can be installed; in the directory where it was started."""
    tried: list[tuple[str, ...]] = []
    ran: list[tuple[object, ...]] = []

    def ensure(*extras: str) -> None:
        tried.append(extras)
        if extras and not can_install:
            sys.exit("no such thing for this machine")

    def run(*command: object, cwd: Path) -> int:
        ran.append((*command, cwd))
        return 3

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(script.environment, "ensure", ensure)
    monkeypatch.setattr(script.environment, "run", run)
    assert script.main(arguments) == 3
    assert tried == installed
    assert ran == [(script.HOOKLINE, "demo", *arguments, tmp_path)]
