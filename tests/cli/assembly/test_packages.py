"""Capabilities of installed packages: found by name, imported only when a configuration in force names them."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/team_hooks"
OF_USER = ".config/hookline/config.toml"


class Packages:
    """A directory in which packages are installed, and the command that finds them there."""

    def __init__(self, place: Any, folder: Path) -> None:
        self.place = place
        self.folder = folder
        folder.mkdir()

    def declare(self, package: str, version: str, entries: dict[str, str], folder: Path) -> None:
        """What pip writes down about a package."""
        about = folder / f"{package.replace('-', '_')}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (about / "entry_points.txt").write_text(
            "\n".join(("[hookline.capabilities]", *lines)) + "\n"
        )

    def install(
        self, package: str, name: str, module: str, text: str, version: str = "1.0"
    ) -> None:
        """A package whose import leaves a file."""
        self.declare(package, version, {name: f"{module}:Capability"}, self.folder)
        mark = f"open({str(self.folder / 'imported')!r}, 'a').close()\n"
        (self.folder / f"{module}.py").write_text(mark + text)

    @property
    def is_imported(self) -> bool:
        """Whether a package was imported."""
        return (self.folder / "imported").exists()

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """Run the command where they are installed."""
        path = os.pathsep.join((str(ROOT / "src"), str(self.folder)))
        done: CompletedProcess[str] = self.place.run(*arguments, PYTHONPATH=path)
        return done

    def configure(self, text: str) -> None:
        """The user's own file."""
        path = self.place.home / OF_USER
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def packages(place: Any, tmp_path: Path) -> Packages:
    """Nothing is installed yet."""
    return Packages(place, tmp_path / "installed")


GUARD = """
from hookline import HookOutcome, hook
class Capability:
    name = "anything"
    speaks_for_user = True
    def __init__(self, word: str = "no", times: int = 1) -> None:
        self.word = word
    def hooks(self):
        yield hook("before_tool_use", lambda ctx: HookOutcome.block(self.word), name="guard", matcher="bash")
"""


def test_a_package_is_imported_only_when_a_configuration_names_it(packages: Packages) -> None:
    """Installed alone it changes nothing. Named, its hooks are listed with package and version, and judge."""
    packages.install("acme-guard", "acme", "acme_module", GUARD, "2.5")
    assert "acme" not in packages.run("hooks", "list").stdout
    packages.configure("[capabilities.acme]\nenabled = false\n")
    assert "acme" not in packages.run("hooks", "list").stdout
    assert not packages.is_imported

    packages.configure('[capabilities.acme]\nword = "never"\n')
    listed = packages.run("hooks", "list")
    assert "acme (acme-guard 2.5)" in listed.stdout, listed.stderr
    rows = map(json.loads, packages.run("hooks", "list", "--json").stdout.splitlines())
    [row] = [row for row in rows if row["hook"] == "guard"]
    assert (row["from"], row["package"]) == ("acme", "acme-guard 2.5")
    assert "never" in packages.run("hooks", "test", "bash", "ls").stdout
    assert '"acme"' in packages.run("config", "schema").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[capabilities.acmee]\n", "config.toml:1: there is no capability 'acmee'. Did you mean 'acme'?"),
        ("[capabilities.acme]\nwrod = 'x'\n", "config.toml:2: 'capabilities.acme.wrod' is not a setting."),
        ("[capabilities.acme]\ntimes = 'x'\n", "config.toml:2: 'capabilities.acme.times' is 'x': expected a whole"),
        ("[capabilities.acme]\nenabled = 3\n", "config.toml:2: 'capabilities.acme.enabled' is 3"),
    ],
)  # fmt: skip
def test_mistakes_are_found_with_their_line(packages: Packages, text: str, said: str) -> None:
    """As those about a capability of Hookline."""
    packages.install("acme-guard", "acme", "acme_module", GUARD)
    packages.configure(text)
    done = packages.run("hooks", "list")
    assert done.returncode == 6
    assert said in done.stderr


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise OSError('no disk')", "'acme' of acme-guard 1.0 cannot be imported: OSError('no disk')."),
        ("Capability = 3", "'acme' of acme-guard 1.0 is neither a class nor a function."),
        ("def Capability(): return 3", "not a capability"),
    ],
)  # fmt: skip
def test_a_package_that_does_not_work_stops_the_run(
    packages: Packages, module: str, said: str
) -> None:
    """A guard that is configured and missing is no smaller problem than one that is not trusted."""
    packages.install("acme-guard", "acme", "acme_module", module)
    packages.configure("[capabilities.acme]\n")
    done = packages.run("run", "--model", packages.place.script({"say": "hello"}), "Hello?")
    assert done.returncode == 6, done.stderr
    assert said in done.stderr
    assert "hello" not in done.stdout


def test_two_packages_with_one_name_and_a_name_of_ours(packages: Packages) -> None:
    """Nobody chooses between two packages in silence, and none replaces a capability of Hookline."""
    packages.install("acme-bash", "bash", "other_bash", GUARD)
    assert "acme-bash" not in packages.run("hooks", "list").stdout
    assert not packages.is_imported
    packages.install("acme-one", "acme", "one", GUARD)
    packages.install("acme-two", "acme", "two", GUARD)
    packages.configure("[capabilities.acme]\n")
    done = packages.run("hooks", "list")
    assert "the capability 'acme' is offered by acme-one 1.0 and acme-two 1.0." in done.stderr
    assert not packages.is_imported


def test_a_repository_cannot_bring_a_package_or_switch_one_on(packages: Packages) -> None:
    """What is in the current directory is not installed, and a file that is not trusted imports nothing."""
    packages.install("acme-guard", "acme", "acme_module", GUARD)
    packages.place.write("hookline.toml", "[capabilities.acme]\n")
    script = packages.place.script({"say": "hello"})
    done = packages.run("run", "--model", script, "Hello?")
    assert done.returncode == 6
    assert not packages.is_imported
    assert packages.run("trust").returncode == 0
    assert packages.run("run", "--model", script, "Hello?").stdout == "hello\n"
    assert packages.is_imported

    project = packages.place.project
    packages.declare("evil", "1.0", {"evil": "evil:Capability"}, project)
    (project / "evil.py").write_text(f"open({str(project / 'ran')!r}, 'w')\n{GUARD}")
    (project / "mine.py").write_text("from hookline import AgentBuilder\nagent = AgentBuilder()\n")
    packages.configure("[capabilities.evil]\n")
    # `module:agent` puts the current directory on Python's path.
    for words in (("hooks", "list"), ("hooks", "list", "mine:agent", "--capability", "evil")):
        done = packages.run(*words)
        assert "there is no capability 'evil'" in done.stderr
    assert not (project / "ran").exists()


@pytest.fixture
def example(packages: Packages) -> Packages:
    """Install examples/team_hooks as pip would."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    entries = project["entry-points"]["hookline.capabilities"]
    packages.declare(project["name"], project["version"], entries, packages.folder)
    shutil.copytree(EXAMPLE / "src", packages.folder, dirs_exist_ok=True)
    return packages


def test_the_example_of_a_package_works(example: Packages) -> None:
    """With the configuration that it shows: a change below its directories asks, however the path is written."""
    example.configure((EXAMPLE / "hookline.toml").read_text())
    assert "acme_hooks (acme-hooks 1.2.0)" in example.run("hooks", "list").stdout
    for path, code in (("db/migrations/1.sql", 5), ("src/../db/migrations/1.sql", 5), ("a.txt", 0)):
        args = json.dumps({"path": path, "content": "x"})
        assert example.run("hooks", "test", "write", args).returncode == code, path
    turns = ({"call": "write", "args": {"path": "a.txt", "content": "x"}}, {"say": "Written."})
    done = example.run("run", "--model", example.place.script(*turns), "Write.")
    assert "acme: write a.txt: ok" in done.stderr
    assert done.stdout == "Written.\n"
