"""Files that are put in the way of a hook: modules, programs and scripts that it would load instead of its own."""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hookline import RunResult, tool
from hookline.command_hooks import TrustStore, trusted_files
from hookline.testing import call, say


class Case(NamedTuple):
    """A hook of a project, its files, and the file that a tool leaves there during a run."""

    command: str
    files: dict[str, str]
    planted: str
    python: bool = True


SHADOWS = {
    "beside a script": Case("python3 s/g.py", {"s/g.py": "import json\n"}, "s/json.py"),
    "imported by the library": Case("python3 s/g.py", {"s/g.py": "import json\n"}, "s/re.py"),
    "a package": Case("python3 s/g.py", {"s/g.py": "import json\n"}, "s/json/__init__.py"),
    "in a directory that exists": Case(
        "python3 s/g.py", {"s/g.py": "import json\n", "s/json/x.txt": ""}, "s/json/__init__.py"
    ),
    "an extension": Case("python3 s/g.py", {"s/g.py": "import h\n", "s/h.py": ""}, "s/h.abi3.so"),
    "an optional module": Case(
        "python3 s/g.py", {"s/g.py": "try:\n import h\nexcept ImportError: 0\n"}, "s/h.py"
    ),
    "of an installed module": Case(
        "python3 s/g.py", {"s/g.py": "try:\n import yaml\nexcept ImportError: 0\n"}, "s/idna.py"
    ),
    "for -m": Case("python3 -m t.g", {"t/__init__.py": "", "t/g.py": "import json\n"}, "json.py"),
    "for -c": Case("python3 -c 'import json'", {}, "json.py"),
    "for -c in a script": Case("sh s/g.sh", {"s/g.sh": "python3 -c 'import json'\n"}, "json.py"),
    "for a here-document": Case(
        "sh s/g.sh", {"s/g.sh": "python3 - <<'E'\nimport json\nE\n"}, "json.py"
    ),
    "sourced if it exists": Case(
        "sh s/g.sh", {"s/g.sh": "[ -f s/local.sh ] && . s/local.sh\nexit 0\n"}, "s/local.sh", False
    ),
    "named in the command": Case("[ -f x.sh ] && . ./x.sh; true", {}, "x.sh", False),
}


def run(stage: Any, write: Callable[[], None], hooks: Any) -> RunResult:
    """A run in which the first call writes something, and the second one is judged by the hook."""

    @tool
    def leave() -> str:
        """Leave something behind."""
        write()
        return "left"

    stage.tools = (*type(stage).tools, leave)
    result: RunResult = stage.run(hooks, call("leave"), call("bash", command="ls"), say("done"))
    return result


def texts(result: RunResult) -> list[str]:
    """What the tools answered."""
    return [each.text for each in result.state.messages if each.role == "tool"]


def trusted(stage: Any, case: Case) -> tuple[Any, TrustStore]:
    """The hooks of a project that is trusted."""
    for name, text in case.files.items():
        stage.file(name, text)
    entry = {"type": "command", "command": case.command}
    group = {"matcher": "Bash", "hooks": [entry]}
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [group]}})
    store = TrustStore(stage.home / "trust.json")
    store.trust(stage.root)
    return stage.discover(trust=store), store


@pytest.mark.parametrize("name", SHADOWS)
def test_a_new_file_that_would_be_loaded_blocks(stage: Any, name: str) -> None:
    """As a changed one does, in the same run, and the next one starts with a question."""
    case, canary = SHADOWS[name], stage.root.parent / "CANARY"
    hooks, store = trusted(stage, case)
    code = f"open({str(canary)!r}, 'w')\n" if case.python else f"echo > '{canary}'\n"

    def write() -> None:
        stage.file(case.planted, code)

    left, judged = texts(run(stage, write, hooks))
    assert left == "left"
    assert f"{stage.root / case.planted} has changed since it was trusted" in judged
    assert not canary.exists()
    assert not store.is_trusted(stage.root)


def test_files_that_no_hook_would_load_are_none_of_its_business(stage: Any) -> None:
    """New files beside a script, and modules that the agent works on."""
    files = {
        "s/g.py": "import sys, json\nfrom app import work\nsys.exit(0)\n",
        "app/__init__.py": "",
        "app/work.py": "",
    }
    command = 'PYTHONPATH="$CLAUDE_PROJECT_DIR" python3 s/g.py'
    hooks, store = trusted(stage, Case(command, files, ""))

    def write() -> None:
        stage.file("s/deploy.py", "")
        stage.file("json.py", "")  # not where this hook looks
        stage.file("test/__init__.py", "")
        stage.file("app/work.py", "import app.more\n")
        stage.file("app/more.py", "")

    assert texts(run(stage, write, hooks)) == ["left", "ran ls"]
    assert not store.is_trusted(stage.root)  # what it imports is part of what was trusted


def test_a_directory_that_is_replaced(stage: Any) -> None:
    """A link to a directory leads to another one, which is older than the hook."""
    stage.file("old/g.py", "import json\n")
    stage.file("new/g.py", "import json\n")
    canary = stage.root.parent / "CANARY"
    stage.file("new/json.py", f"open({str(canary)!r}, 'w')\n")
    (stage.root / "s").symlink_to("old")
    hooks, _ = trusted(stage, Case("python3 s/g.py", {}, ""))

    def write() -> None:
        (stage.root / "s").unlink()
        (stage.root / "s").symlink_to("new")

    judged = texts(run(stage, write, hooks))[1]
    assert "has changed since it was trusted" in judged
    assert not canary.exists()


def test_bytecode_beside_the_source_is_not_read(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the usual kind nor of the kind that Python never compares, for a project's hook or a program's."""
    canary = stage.root.parent / "CANARY"
    files = {"s/g.py": "import h\n", "s/h.py": "x = 1\n"}
    hooks, store = trusted(stage, Case("python3 s/g.py", files, ""))
    source = stage.root / "s/h.py"

    def write() -> None:
        code = marshal.dumps(compile(f"open({str(canary)!r}, 'w')", str(source), "exec"))
        made = Path(importlib.util.cache_from_source(str(source)))
        made.parent.mkdir(exist_ok=True)
        flags = (1).to_bytes(4, "little")  # an unchecked hash
        made.write_bytes(importlib.util.MAGIC_NUMBER + flags + bytes(8) + code)

    # The interpreter of the tests: the bytecode is for this version.
    (stage.home / "bin").mkdir()
    (stage.home / "bin/python3").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setenv("PATH", f"{stage.home / 'bin'}:{os.environ['PATH']}")
    assert texts(run(stage, write, hooks)) == ["left", "ran ls"]
    own = stage.hooks({"on": "before_tool_use", "argv": ["python3", "s/g.py"]})
    assert texts(run(stage, write, own)) == ["left", "ran ls"]
    assert not canary.exists()
    assert not list((stage.root / "s/__pycache__").glob("g.*"))
    assert store.is_trusted(stage.root)


def test_programs_are_not_searched_in_the_project(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment in the project is first on the path, as if it were activated; also the shell is not from there."""
    canary = stage.root.parent / "CANARY"
    monkeypatch.setenv("PATH", f"{stage.root}/.venv/bin:.venv/bin:{os.environ['PATH']}")
    hooks, _ = trusted(stage, Case("cat > /dev/null; ls -d .claude", {".venv/bin/x": ""}, ""))

    def write() -> None:
        for name in ("bash", "cat", "ls", "sh"):
            stage.script(f".venv/bin/{name}", f"#!/bin/sh\necho > '{canary}'\n")

    assert texts(run(stage, write, hooks)) == ["left", "ran ls"]
    assert not canary.exists()


OF_THE_USER = [
    'python3 -c "import json, sys; json.load(sys.stdin)"',
    "python3 -m json.tool > /dev/null",
    "echo 'import json' | python3",
    "cd ~ && python3 hooks/g.py",
    "python3 ~/hooks/g.py",
    "sh ~/hooks/g.sh",
    "~/hooks/g",
    # A file of the project has a name that is in the command.
    "g",
    'cat | python3 -c "import json, sys; json.load(sys.stdin)" setup.py',
    "python3 -c \"import json, os; os.path.exists('setup.py')\"",
    'python3 "$HOME"/hooks/g.py',
]


@pytest.mark.parametrize("command", OF_THE_USER)
def test_a_users_hook_imports_nothing_of_a_project(
    stage: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Nobody has trusted the project. A script of the user's finds the modules beside itself."""
    canary = stage.root.parent / "CANARY"
    monkeypatch.setenv("HOME", str(stage.home))
    monkeypatch.setenv("PYTHONPATH", f":{stage.root}:.")
    monkeypatch.setenv("PATH", f"{stage.home / 'hooks'}:{os.environ['PATH']}")
    for name in ("g", "cat", "setup.py", "sitecustomize.py"):
        stage.file(name, f"#!/usr/bin/env python3\nopen({str(canary)!r}, 'w')\n")
    for name in ("json.py", "helper.py", "hooks/g.py", "hooks/helper.py"):
        stage.file(name, f"open({str(canary)!r}, 'w')\n")
    text = (
        "#!/usr/bin/env python3\nimport json, sys, helper\njson.load(sys.stdin)\nhelper.check()\n"
    )
    stage.file("hooks/helper.py", "def check():\n    print('checked')\n", home=True)
    stage.file("hooks/g.py", text, home=True)
    stage.file("hooks/g", text, home=True).chmod(0o755)
    stage.file("hooks/g.sh", 'python3 "$HOME/hooks/g.py"\n', home=True)
    entry = {"type": "command", "command": f"{command} || exit 2"}
    settings = {"hooks": {"PreToolUse": [{"hooks": [entry]}]}}
    stage.file(".claude/settings.json", settings, home=True)
    hooks = stage.discover(trust=False)
    hooks.pin_scripts()
    assert texts(stage.run(hooks)) == ["ran ls"]
    assert not canary.exists()


def test_a_programs_hook_has_the_modules_beside_its_script(stage: Any) -> None:
    """Also if the script is in the project. What it sets itself counts."""
    stage.file("hooks/g.py", "import helper\nhelper.refuse()\n")
    stage.file("hooks/helper.py", "import sys\n\ndef refuse():\n    sys.exit(2)\n")
    hook = {"on": "before_tool_use", "argv": ["python3", "hooks/g.py"]}
    assert "Blocked" in texts(stage.run(stage.hooks(hook)))[0]
    module = {"on": "before_tool_use", "argv": ["python3", "-m", "hooks.g"]}
    stage.file("hooks/g.py", "import sys\nsys.exit(2)\n")
    unsafe = {**module, "env": {"PYTHONSAFEPATH": ""}}
    assert "hooks" not in texts(stage.run(stage.hooks(unsafe)))[0]
    assert "No module named" in texts(stage.run(stage.hooks(module)))[0]


def test_directories_that_have_not_changed_are_not_searched_again(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check before each call costs little; a change in a directory is seen, also if it is undone."""
    hooks, _ = trusted(stage, Case("python3 s/g.py", {"s/g.py": "import json\n"}, ""))
    searches: list[None] = []

    class Counted(trusted_files.CommandLine):
        def __init__(self, *args: Any) -> None:
            searches.append(None)
            super().__init__(*args)

    monkeypatch.setattr(trusted_files, "CommandLine", Counted)
    handler, check = hooks.handlers[0], trusted_files.PinCheck(stage.root)

    def count() -> int:
        assert check.changed_file(handler) == ""
        number = len(searches)
        searches.clear()
        return number

    monkeypatch.setattr(trusted_files, "_MOMENT", 10**17)
    assert [count(), count()] == [1, 1]  # the directories have changed a moment ago
    monkeypatch.setattr(trusted_files, "_MOMENT", -(10**12))
    assert [count(), count(), count()] == [1, 0, 0]
    stage.file("s/other.txt", "")
    assert [count(), count()] == [1, 0]
    (stage.root / "s/g.py").chmod(0o700)
    assert count() == 0
    stage.file("s/json.py", "")
    assert check.changed_file(handler) == str(stage.root / "s/json.py")
    (stage.root / "s/json.py").unlink()
    searches.clear()
    assert [count(), count()] == [1, 0]
