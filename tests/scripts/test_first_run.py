"""What `.ci/run` does for the README: its commands, as somebody who has just arrived. The run itself is not a test."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import os
print(os.geteuid(), *(sorted(os.listdir(os.environ[name])) for name in ("HOME", "PATH")), *os.environ, sep=";")
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Load scripts/first_run.py."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    for name in ("first_run", "environment"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("first_run")
    for name in ("first_run", "environment"):
        sys.modules.pop(name, None)


def test_the_commands_are_those_of_the_readme(script: ModuleType) -> None:
    """Those that need Python and nothing else, in their order. The whole suite is not among them."""
    assert script.commands((ROOT / "README.md").read_text("utf-8")) == [
        'python3 -m venv .venv && .venv/bin/pip install ".[terminal]"',
        "python3 scripts/demo.py",
    ]


def test_only_the_answer_of_a_real_model_counts(script: ModuleType) -> None:
    """Right or wrong. The demo also works with a scripted model, where the real one does not run."""
    real, scripted = '$ hookline run --model local: "When?"\n', "$ hookline run --model script:x\n"
    for answer in ("The answer is right.\n", "The answer is wrong: it is on Thursday.\n"):
        assert script.has_answer(real + answer)
        assert not script.has_answer(scripted + answer)
        assert not script.has_answer(real + scripted + answer)
    assert not script.has_answer(real)


def test_a_new_user_has_an_empty_home_and_two_programs(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And no rights, no key and no setting of ours, but the settings of the network. A failed command ends it."""
    for line in ("init --quiet", "-c user.name=a -c user.email=a@b commit --allow-empty -qm one"):
        subprocess.run(["git", *line.split()], cwd=tmp_path, check=True)
    monkeypatch.setattr(script.environment, "ROOT", tmp_path)
    for name in ("HOOKLINE_DATA_DIR", "XDG_CACHE_HOME", "OPENAI_API_KEY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "/there")
    with script.new_user() as user:
        user.run(script.CLONE)
        assert (user.place / "hookline" / ".git").is_dir()
        uid, home, programs, *names = user.run(f"python3 -c '{LOOK}'").strip().split(";")
        assert int(uid) != 0
        assert (int(uid) == os.geteuid()) == (os.geteuid() != 0)
        assert (home, programs) == ("[]", "['git', 'python3']")
        assert {"HOME", "PATH", "HTTPS_PROXY"} <= set(names)
        assert not {"HOOKLINE_DATA_DIR", "XDG_CACHE_HOME", "OPENAI_API_KEY"} & set(names)
        with pytest.raises(SystemExit, match="exit code 3"):
            user.run("exit 3")
