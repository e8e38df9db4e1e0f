"""Installing the public MCP servers, on a machine we know nothing about."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load scripts/mcp_servers.py as if the repository were an empty directory."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("mcp_servers", ROOT / "scripts/mcp_servers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    place = tmp_path / ".mcp-servers"
    monkeypatch.setattr(module, "PLACE", place)
    monkeypatch.setattr(module, "STAMP", place / "installed.json")
    monkeypatch.setattr(module.environment, "LOCK", tmp_path / ".venv.lock")
    return module


@pytest.fixture
def installing(servers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Let every installation end with this problem; gives the kinds that were installed."""

    def end_with(problem: str) -> list[str]:
        kinds: list[str] = []

        def install(kind: str) -> str:
            kinds.append(kind)
            return problem

        monkeypatch.setattr(servers, "_install", install)
        return kinds

    return end_with


def test_servers_are_installed_once(
    servers: ModuleType, installing: Callable[[str], list[str]]
) -> None:
    """A second run does nothing."""
    kinds = installing("")
    servers.ensure()
    servers.ensure()
    assert kinds == ["python", "node"]
    assert servers.missing() == {}


def test_other_versions_are_installed_again(
    servers: ModuleType, installing: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those that changed."""
    kinds = installing("")
    servers.ensure()
    monkeypatch.setitem(servers.WANTED, "python", ("mcp-server-time==1",))
    servers.ensure()
    assert kinds == ["python", "node", "python"]


def test_what_cannot_be_installed_is_written_down(
    servers: ModuleType,
    installing: Callable[[str], list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the reason, for the tests to give when they skip; and it is tried again next time."""
    kinds = installing("no network")
    servers.ensure()
    stamp = json.loads(servers.STAMP.read_text())
    assert [part["problem"] for part in stamp.values()] == ["no network", "no network"]
    assert "their tests are skipped: no network" in capsys.readouterr().err
    assert servers.missing() == {
        "MCP servers from PyPI": "no network",
        "MCP servers from npm": "no network",
    }
    servers.ensure()
    assert kinds == ["python", "node"] * 2


def test_without_npm_there_is_a_reason(
    servers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not everybody who works on this has it."""
    monkeypatch.setattr(servers.shutil, "which", lambda _: None)
    assert servers._install("node") == "npm is not installed"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("print('much'); raise SystemExit('not there')", "not there"),
        ("raise SystemExit('E404\\nA complete log of this run is in x')", "E404"),
        ("raise SystemExit(4)", "exit code 4"),
        ("pass", ""),
    ],
)
def test_the_last_word_of_an_installer_is_the_reason(
    servers: ModuleType, program: str, problem: str
) -> None:
    """Whatever it said before."""
    assert servers._run(sys.executable, "-u", "-c", program) == problem


def test_an_installer_that_is_not_there_is_a_reason(servers: ModuleType) -> None:
    """Nothing about it stops the tests."""
    assert "no-such-installer" in servers._run("no-such-installer")
