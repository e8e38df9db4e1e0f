"""Installing programs that the tests run, on a machine we know nothing about."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load scripts/system_tools.py as if neither the repository nor the PATH had anything in it."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("system_tools", ROOT / "scripts/system_tools.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "system_tools", module)
    spec.loader.exec_module(module)
    place = tmp_path / ".system-tools"
    monkeypatch.setattr(module, "PLACE", place)
    monkeypatch.setattr(module, "PROBLEMS", place / "problems.json")
    monkeypatch.setattr(module.environment, "LOCK", tmp_path / ".venv.lock")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return module


def planted(directory: Path, name: str, text: str = "#!/bin/sh\n") -> None:
    """A program that does what the text says."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(text)
    (directory / name).chmod(0o755)


def test_what_is_there_is_not_installed(
    tools: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program on the PATH, or one that was unpacked before, is enough."""
    monkeypatch.setattr(tools, "_install", lambda tool: pytest.fail(f"installed {tool.name}"))
    planted(tmp_path / "bin", "rg")
    planted(tools.PLACE / "bubblewrap" / "usr" / "bin", "bwrap")
    tools.ensure()
    assert not tools.PROBLEMS.exists()
    assert tools.path().endswith("/.system-tools/bubblewrap/usr/bin")


def test_what_cannot_be_installed_is_written_down(
    tools: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason, for the tests to give when they skip."""
    tools.ensure()
    problems = json.loads(tools.PROBLEMS.read_text())
    assert set(problems) == {"ripgrep", "bubblewrap"}
    assert "no Debian system" in problems["ripgrep"]
    assert "its tests are skipped" in capsys.readouterr().err
    assert tools.missing() == problems


def test_without_rights_a_package_is_unpacked(
    tools: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is not root gets the program below the repository, and it is found there."""
    monkeypatch.setattr(tools, "_is_root", lambda: False)
    planted(tmp_path / "bin", "apt-get", '#!/bin/sh\n[ "$2" = download ] && : > "$3.deb"\n')
    unpack = '#!/bin/sh\n/bin/mkdir -p "$3/usr/bin"\nfor p in rg bwrap; do : > "$3/usr/bin/$p"\n'
    planted(tmp_path / "bin", "dpkg", unpack + '/bin/chmod +x "$3/usr/bin/$p"; done\n')
    tools.ensure()
    assert json.loads(tools.PROBLEMS.read_text()) == {"ripgrep": "", "bubblewrap": ""}
    assert [tools.find(tool) is not None for tool in tools.WANTED] == [True, True]
    assert tools.missing() == {}


def test_the_last_word_of_an_installer_is_the_reason(
    tools: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the package does not hold what was wanted."""
    monkeypatch.setattr(tools, "_is_root", lambda: False)
    planted(tmp_path / "bin", "apt-get", "#!/bin/sh\necho much; echo no network; exit 1\n")
    assert tools._install(tools.WANTED[0]) == "no network"
    planted(tmp_path / "bin", "apt-get", '#!/bin/sh\n[ "$2" = download ] && : > "$3.deb"\n')
    planted(tmp_path / "bin", "dpkg")
    assert tools._install(tools.WANTED[0]) == "its package has no program 'rg'"
