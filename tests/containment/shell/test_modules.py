"""Modules that Python is told to run: they only look, unless a file where Python stands would be run in their place."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.containment import ShellPolicy

LOOKS = """
    python -m json.tool f.json
    python3 -m json.tool --indent 2 < f.json
    cat f.json | python3 -m json.tool | head
    python3.12 -m json.tool --sort-keys f.json
    python -m pip list
    python3 -m pip list --format=json
    python3 -m pip show pip
    python -m pip --version
    python3 -m pip freeze
    python -m pip check
    python -m site
    python3 -m sysconfig
    python -m platform
    python -m zipfile -l a.zip
    python -m tarfile --list a.tar
    python -m calendar 2024
    python -m this
"""
MORE = """
    python -m json.tool in out
    python -m json.tool .env
    python -m json.tool --outfile x
    python -m zipfile -e a.zip .
    python -m zipfile -c a.zip x
    python -m tarfile -e a.tar
    python -m pip install x
    python -m pip download x
    python -m pip config set a b
    python -m pip list --log x
    python -m pip --python ./evil list
    python -m http.server
    python -m venv x
    python -m pytest --version
    python -m timeit x
    python -m pdb x
    python -m evil
    python -c 'x' -m json.tool
    python -W x -m json.tool
    ls | xargs python -m json.tool
    python -m "$x"
    ./python -m json.tool f
"""


def lines(text: str) -> list[str]:
    """The commands of a list."""
    return [line.strip() for line in text.strip().splitlines()]


def decision(command: str, root: Path) -> str:
    """What the policy says of a command in a directory."""
    return ShellPolicy.default().judge(command, root=str(root)).decision


@pytest.mark.parametrize("command", lines(LOOKS))
def test_a_module_that_looks_runs(command: str, tmp_path: Path) -> None:
    """In a project with files of its own, none of which is named like a module of Python's."""
    for name in ("main.py", "setup.py", "conftest.py", "__init__.py", "json", "notes.json"):
        (tmp_path / name).write_text("")
    for name in ("src", "tests", "logging", "__pycache__"):
        (tmp_path / name).mkdir()
    (tmp_path / "test").mkdir()
    (tmp_path / "test/__init__.py").write_text("")
    assert decision(command, tmp_path) == "allow"


@pytest.mark.parametrize("command", lines(MORE))
def test_a_module_that_does_more_is_asked_about(command: str, tmp_path: Path) -> None:
    """Other modules, other verbs of them, and what writes."""
    assert decision(command, tmp_path) != "allow"


SHADOWS = """
    argparse.py runpy.py JSON.py json/__init__.py pathlib.pyc re.so re.cpython-312-x86_64-linux-gnu.so codecs.pyd
    _sysconfigdata__linux_x86_64-linux-gnu.py sitecustomize.py attr.py attr/x org/python/core.py pip/__init__.py
    pip.py cPickle.py distutils/__init__.py _json.abi3.so StringIO.py
""".split()


@pytest.mark.parametrize("file", SHADOWS)
def test_a_file_under_the_name_of_a_module_is_asked_about(file: str, tmp_path: Path) -> None:
    """Whatever it is written as, and also what is only tried."""
    (tmp_path / "sub").mkdir()
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("")
    for command in lines(LOOKS):
        assert decision(command, tmp_path) == "ask"
        assert decision(f"cd sub; cd ..; {command}", tmp_path) == "ask"
    assert decision("python -m json.tool f", tmp_path / "sub") == "allow"


def test_what_python_really_imports_is_asked_about(tmp_path: Path) -> None:
    """Held against Python itself: whatever a module imports, a file of that name where it stands asks."""
    imported: set[str] = set()
    for words in ("json.tool --help", "pip list", "pip --version", "pip check", "site", "platform"):
        command = [sys.executable, "-X", "importtime", "-m", *words.split()]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        # What a machine's own set-up imports comes before the directory is looked through.
        after = re.split(r"\|\s+site$", found.stderr, maxsplit=1, flags=re.MULTILINE)[-1]
        imported |= set(re.findall(r"\|\s+(\w+)$", after, re.MULTILINE))
    own = {name for name in imported if name.startswith(("__editable__", "__editable_"))}
    assert {"runpy", "argparse", "json"} <= imported
    for name in sorted(imported - own):
        file = tmp_path / f"{name}.py"
        file.write_text("")
        assert decision("python -m json.tool f", tmp_path) == "ask", name
        file.unlink()


def test_a_planted_module_really_runs(tmp_path: Path) -> None:
    """Why it is asked about: Python runs it, and from a directory without it does not."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "argparse.py").write_text("open('proof', 'w')\n")
    command = [sys.executable, "-m", "json.tool"]
    subprocess.run(command, cwd=tmp_path / "sub", input=b"{}", capture_output=True, check=True)
    assert not (tmp_path / "sub/proof").exists()
    subprocess.run(command, cwd=tmp_path, input=b"{}", capture_output=True, check=False)
    assert (tmp_path / "proof").exists()


def test_freeze_asks_where_packages_lie(tmp_path: Path) -> None:
    """What lies where Python stands may say that it comes from a repository, and pip asks there."""
    (tmp_path / "evil-1.0.dist-info").mkdir()
    assert decision("python -m pip freeze", tmp_path) == "ask"
    assert decision("python -m pip list", tmp_path) == "allow"
    (tmp_path / ".hg").mkdir()
    assert decision("pip freeze", tmp_path) == "ask"
