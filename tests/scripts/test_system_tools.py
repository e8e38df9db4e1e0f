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
    from_debian = tuple(tool for tool in module.WANTED if tool.name in ("ripgrep", "bubblewrap"))
    monkeypatch.setattr(module, "WANTED", from_debian)
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
    assert tools.path().split(":")[0].endswith("/.system-tools/bubblewrap/usr/bin")


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


def wanted(tools: ModuleType, name: str, source: str, program: str) -> tuple[str, str, str, str]:
    """One tool that is to be installed, and no other."""
    tool = tools.Tool(name, "package==1 other==2", program, source)
    tools.WANTED = (tool,)
    return tool


def made_venv(place: Path) -> bool:
    """An environment whose Python answers for pip, and installs a program."""
    pip = '#!/bin/sh\necho "$@" >> "$0.log"\n[ "$3" = install ] && : > "${0%/*}/prog" && '
    planted(place / "bin", "python", pip + '/bin/chmod +x "${0%/*}/prog"\nexit 0\n')
    return True


def test_a_program_from_pypi_is_linked_alone(
    tools: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment has a `python` too, which is not to be found on the PATH."""
    monkeypatch.setattr(tools.environment, "make_venv", made_venv)
    tool = wanted(tools, "one", "pypi", "prog")
    tools.ensure()
    assert tools.find(tool) == tools.PLACE / "bin" / "prog"
    assert tools.path().split(":")[0].endswith("/.system-tools/bin")
    assert [path.name for path in (tools.PLACE / "bin").iterdir()] == ["prog"]
    assert (tools.PLACE / "one/bin/python.log").read_text().endswith("package==1 other==2\n")


def test_a_program_from_npm_is_linked_alone(tools: ModuleType, tmp_path: Path) -> None:
    """npm puts it below the repository."""
    install = '#!/bin/sh\nd="$3/node_modules/.bin"; /bin/mkdir -p "$d"; : > "$d/prog"; '
    planted(tmp_path / "bin", "npm", install + '/bin/chmod +x "$d/prog"\n')
    tool = wanted(tools, "one", "npm", "prog")
    tools.ensure()
    assert tools.find(tool) == tools.PLACE / "bin" / "prog"


@pytest.mark.parametrize("source", ["wheels", "npm cache"])
def test_packages_are_fetched_once_and_again_when_others_are_wanted(
    tools: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """What tests install without a network is there when all of it was fetched."""
    monkeypatch.setattr(tools.environment, "make_venv", made_venv)
    planted(tmp_path / "bin", "npm")
    tool = wanted(tools, "some", source, "")
    assert tools.find(tool) is None
    tools.ensure()
    assert tools.find(tool) == tools.PLACE / "some"
    assert tools.find(tool._replace(package="package==2")) is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [("npm", "npm is not installed"), ("pypi", "no environment could be made for it")],
)
def test_without_an_installer_the_reason_is_named(
    tools: ModuleType, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    """And nothing is raised."""
    monkeypatch.setattr(tools.environment, "make_venv", lambda place: False)
    wanted(tools, "one", source, "prog")
    tools.ensure()
    assert tools.missing() == {"one": reason}


def test_what_consists_of_many_packages_is_roots_to_install(
    tools: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not unpacked."""
    monkeypatch.setattr(tools, "_is_root", lambda: False)
    planted(tmp_path / "bin", "apt-get")
    wanted(tools, "one", "debian as root", "prog")
    tools.ensure()
    assert tools.missing() == {"one": "only root can install its packages"}


def test_another_version_of_a_pinned_program_is_installed_again(
    tools: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that an earlier version of the table brought is not taken for the one that is wanted now."""
    old = tools.Tool("Thing", "thing==1.0", "thing", "pypi")
    new = old._replace(package="thing==2.0 helper==3.1")
    planted(tools.PLACE / "Thing" / "bin", "thing")
    assert tools.find(old) is None  # nothing says which version it is
    assert tools._link(old, tools.PLACE / "Thing" / "bin") == ""
    assert tools.find(old) is not None
    assert tools.find(new) is None
    monkeypatch.setattr(tools, "WANTED", (new,))
    installed: list[str] = []
    monkeypatch.setattr(tools, "_install", lambda tool: installed.append(tool.package) or "")
    tools.ensure()
    assert installed == [new.package]
