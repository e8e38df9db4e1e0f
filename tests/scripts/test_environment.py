"""The scripts that a newcomer runs first, on a machine we know nothing about."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load scripts/environment.py as if the repository were an empty directory with a project."""
    spec = importlib.util.spec_from_file_location("environment", ROOT / "scripts/environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    venv = tmp_path / ".venv"
    programs = venv / module.PROGRAMS.name
    places = {"ROOT": tmp_path, "VENV": venv, "PROGRAMS": programs, "PYTHON": programs / "python"}
    files = {"STAMP": venv / module.STAMP.name, "LOCK": tmp_path / module.LOCK.name}
    for name, place in {**places, **files}.items():
        monkeypatch.setattr(module, name, place)
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    return module


@pytest.fixture
def installed(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record what would be installed, instead of fetching it; environments are made without pip."""
    seen: list[list[str]] = []
    monkeypatch.setattr(environment, "WAYS", environment.WAYS[-1:])
    monkeypatch.setattr(environment, "_has", lambda _: True)
    monkeypatch.setattr(environment, "_install", seen.append)
    monkeypatch.setattr(environment, "_pip", lambda: ["pip"])
    return seen


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_old_python_can_parse_a_script(script: Path) -> None:
    """A Python that is too old reaches the message about it, not a SyntaxError."""
    ast.parse(script.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_an_old_python_gets_an_error_that_says_what_to_do() -> None:
    """The message says which Python is needed, which one it is, and the remedy."""
    program = "import sys; sys.version_info = (3, 8, 0, 'final', 0); import environment"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert "needs Python 3.11 or newer" in answer.stderr
    assert "Remedy:" in answer.stderr


def test_the_environment_is_made_once(
    environment: ModuleType, installed: list[list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    """A second run with an unchanged project does nothing and says nothing."""
    python = environment.ensure("dev")
    assert subprocess.run([python, "-c", ""]).returncode == 0
    capfd.readouterr()
    assert environment.ensure("dev") == python
    assert environment.ensure() == python
    assert installed == [["dev"]]
    assert capfd.readouterr() == ("", "")


def test_a_changed_project_is_installed_again(
    environment: ModuleType, installed: list[list[str]]
) -> None:
    """A changed pyproject.toml refreshes the environment, and keeps the extras that were in it."""
    environment.ensure("dev")
    kept = environment.VENV / "kept"
    kept.touch()
    (environment.ROOT / "pyproject.toml").write_text("[project] # changed\n", encoding="utf-8")
    environment.ensure()
    assert installed == [["dev"], ["dev"]]
    assert kept.exists()


def test_another_extra_is_added(environment: ModuleType, installed: list[list[str]]) -> None:
    """The demo's environment becomes the tests' environment when the tests are run."""
    environment.ensure()
    environment.ensure("dev")
    assert installed == [[], ["dev"]]


@pytest.mark.parametrize("fact", [{"home": "/elsewhere"}, {"python": [3, 1]}])
def test_a_moved_environment_is_made_again(
    environment: ModuleType, installed: list[list[str]], fact: dict[str, object]
) -> None:
    """An environment from another place, or of another Python, is replaced."""
    environment.ensure()
    stamp = json.loads(environment.STAMP.read_text(encoding="utf-8"))
    environment.STAMP.write_text(json.dumps({**stamp, **fact}), encoding="utf-8")
    (environment.VENV / "stale").touch()
    environment.ensure()
    assert installed == [[], []]
    assert not (environment.VENV / "stale").exists()


def test_a_failed_installation_is_tried_again(
    environment: ModuleType, installed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation that did not finish does not count as one."""
    with monkeypatch.context() as offline:
        offline.setattr(environment, "_install", lambda _: sys.exit("no network"))
        with pytest.raises(SystemExit, match="no network"):
            environment.ensure()
    environment.ensure()
    assert installed == [[]]


def test_without_any_way_to_make_an_environment_there_is_a_remedy(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python without venv, virtualenv and pip ends with what to install."""
    monkeypatch.setattr(environment, "_has", lambda _: False)
    with pytest.raises(SystemExit, match="apt install python3-venv"):
        environment.ensure()


def test_a_checkout_that_cannot_be_written_is_named(environment: ModuleType) -> None:
    """When the lock cannot be made, the message says where and what to do."""
    environment.LOCK.mkdir()
    with pytest.raises(SystemExit, match="Remedy: run this as the owner"):
        environment.ensure()


def test_two_processes_take_turns(environment: ModuleType) -> None:
    """While one process builds the environment, another does not get the lock."""
    with environment.LOCK.open("w") as first, environment.LOCK.open("w") as second:
        assert environment._try_lock(first)
        assert not environment._try_lock(second)


def test_a_failing_installation_says_what_to_check(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When pip fails, the reader is pointed at its message and at the network."""
    monkeypatch.setattr(environment, "_pip", lambda: [sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(SystemExit, match=r"hookline\[dev\].*\n.*Remedy: .* package index"):
        environment._install(["dev"])
