"""Files that are put in the way of a hook: modules, programs and scripts that it would load instead of its own."""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hookline import RunResult, tool
from hookline.command_hooks import TrustStore
from hookline.command_hooks.checks import check_program
from hookline.containment import Sandbox
from hookline.state import EMPTY
from hookline.testing import call, say


class Case(NamedTuple):
    """A hook of a project, its files, and the file that a contained command is to leave there."""

    command: str
    files: dict[str, str]
    planted: str
    env: Mapping[str, str] = EMPTY
    """Variables of the settings."""


GUARD = "import json, sys\njson.load(sys.stdin)\n"
BESIDE = "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + '/lib')\nimport h\n"
SHADOWS = {
    "beside a script": Case("python3 s/g.py", {"s/g.py": GUARD}, "s/json.py"),
    "a package": Case("python3 s/g.py", {"s/g.py": GUARD}, "s/json/__init__.py"),
    "tried by the library": Case("python3 s/g.py", {"s/g.py": "import copy\n"}, "s/org.py"),
    "not a name of a module": Case(
        "python3 s/g.py",
        {"s/g.py": "import sysconfig\nsysconfig.get_config_vars()\n"},
        "s/_sysconfigdata__x86_64-linux-gnu.py",
    ),
    "an extension": Case("python3 s/g.py", {"s/g.py": "import h\n", "s/h.py": ""}, "s/h.abi3.so"),
    "a computed name": Case(
        "python3 s/g.py",
        {"s/g.py": "try:\n __import__('o' + 'p')\nexcept ImportError: 0\n"},
        "s/op.py",
    ),
    "on sys.path": Case("python3 s/g.py", {"s/g.py": BESIDE, "s/lib/h.py": ""}, "s/lib/h.py"),
    "a directory": Case("python3 s", {"s/__main__.py": GUARD}, "s/__main__.py"),
    "beside a directory's": Case("python3 s", {"s/__main__.py": GUARD}, "s/json.py"),
    "after cd": Case("cd s && python3 -m g", {"s/g.py": GUARD}, "s/json.py"),
    "cd in a script": Case(
        "sh s/g.sh",
        {"s/g.sh": 'cd "$(dirname "$0")/../t" && python3 -m g\n', "t/g.py": GUARD},
        "t/json.py",
    ),
    "PYTHONPATH": Case(
        "PYTHONPATH=lib:$PYTHONPATH python3 s/g.py", {"s/g.py": GUARD, "lib/x": ""}, "lib/json.py"
    ),
    "exported PYTHONPATH": Case(
        "sh s/g.sh",
        {"s/g.sh": "export PYTHONPATH=lib\npython3 s/g.py\n", "s/g.py": GUARD, "lib/x": ""},
        "lib/sitecustomize.py",
    ),
    "PYTHONPATH of settings": Case(
        "python3 s/g.py", {"s/g.py": GUARD, "lib/x": ""}, "lib/json.py", {"PYTHONPATH": "lib"}
    ),
    "a Python environment": Case(
        ".venv/bin/python3 s/g.py",
        {"s/g.py": GUARD, ".venv/pyvenv.cfg": "home = /usr/bin\n", ".venv/bin/python3": "LINK"},
        ".venv/lib/python3.11/site-packages/e.pth",
    ),
    "sourced if it exists": Case(
        "sh s/g.sh", {"s/g.sh": "[ -f s/local.sh ] && . s/local.sh\nexit 0\n"}, "s/local.sh"
    ),
    "sourced from the top": Case("[ -f x.sh ] && . ./x.sh; true", {}, "x.sh"),
    "any of a directory": Case('for f in d/*.sh; do . "$f"; done', {"d/a.sh": "true\n"}, "d/b.sh"),
    "a file of the shell": Case("echo hi", {}, "be.sh", {"BASH_ENV": "be.sh"}),
    "PATH": Case(
        'PATH="$CLAUDE_PROJECT_DIR/bin:$PATH" python3 s/g.py',
        {"s/g.py": GUARD, "bin/x": ""},
        "bin/python3",
    ),
    "package.json": Case(
        "node s/g.js", {"s/g.js": "require('../lib')", "lib/index.js": ""}, "lib/package.json"
    ),
    "after clustered options": Case("bash -euo pipefail s/g.sh", {"s/g.sh": "true\n"}, "s/g.sh"),
    "clustered options in a script": Case(
        "sh s/a.sh", {"s/a.sh": "bash -eo pipefail t/g.sh\n", "t/g.sh": "true\n"}, "t/g.sh"
    ),
    "after a program that is not known": Case(
        'P=python3; "${Q:-$P}" s/g.py', {"s/g.py": GUARD}, "s/json.py"
    ),
    "after another module": Case("python3 -m cProfile s/g.py >&2", {"s/g.py": GUARD}, "s/json.py"),
    "piped": Case("cat s/g.sh | sh", {"s/g.sh": "true\n"}, "s/g.sh"),
    "for a launcher": Case(
        "sh l/run.sh s/g.py", {"l/run.sh": 'exec python3 "$@"\n', "s/g.py": GUARD}, "s/json.py"
    ),
    "beside what a link leads to": Case(
        "python3 s/g.py", {"t/g.py": GUARD, "s/g.py": "LINK ../t/g.py"}, "t/json.py"
    ),
    "required from what a link leads to": Case(
        "node s/g.js",
        {"t/g.js": "require('./h')", "t/h.js": "", "s/g.js": "LINK ../t/g.js"},
        "t/h.js",
    ),
    "a link on the way": Case(
        "sh s/g.sh",
        {
            "s/g.sh": ". s/l.sh\n",
            "v/l.sh": "",
            "c/l.sh": "LINK ../v/l.sh",
            "s/l.sh": "LINK ../c/l.sh",
        },
        "c/l.sh",
    ),
    "an environment on PATH": Case(
        "PATH=$CLAUDE_PROJECT_DIR/.venv/bin:$PATH python3 s/g.py",
        {"s/g.py": GUARD, ".venv/pyvenv.cfg": "home = /usr/bin\n", ".venv/bin/python3": "LINK"},
        ".venv/lib/python3.11/site-packages/e.pth",
    ),
    "an environment in the first line": Case(
        "sh -c 'exec s/g.py'",
        {
            "s/g.py": "#!.venv/bin/python3\n" + GUARD,
            ".venv/pyvenv.cfg": "home = /usr/bin\n",
            ".venv/bin/python3": "LINK",
        },
        ".venv/lib/python3.11/site-packages/e.pth",
    ),
    "options in a variable": Case(
        "NODE_OPTIONS='--require ./n/h.js' node s/g.js", {"s/g.js": "", "n/h.js": ""}, "n/h.js"
    ),
    "any variable": Case("true", {"u/x": ""}, "u/lib/x.pth", {"PYTHONUSERBASE": "./u"}),
}
NEW = {
    "sourced from nowhere": Case("[ -f n/x.sh ] && . n/x.sh; true", {}, "n/x.sh"),
    "known only to the shell": Case('[ -z "$X" ] || . "$X/l/x.sh"; true', {"l/y": ""}, "l/x.sh"),
    "beside a directory of node": Case(
        "node s/g.js", {"s/g.js": "require('../lib')", "lib/index.js": ""}, "lib.js"
    ),
}
NOT_HELD = {
    "a word": Case("ENV=tests sh s/g.sh", {"s/g.sh": "true\n"}, "tests/a.py"),
    "a word of the settings": Case(
        "sh s/g.sh", {"s/g.sh": "true\n"}, "tests/a.py", {"ENV": "tests"}
    ),
    "an environment": Case(
        "[ -f .venv/bin/activate ] && . .venv/bin/activate; true", {}, ".venv/x"
    ),
    "packages": Case("PATH=node_modules/.bin:$PATH true", {}, "node_modules/x/y"),
    "a variable of the shell": Case("S=./src; ruff check $S || true", {"src/x": ""}, "src/a.py"),
    "data": Case("node s/g.js", {"s/g.js": "require('../p.json')", "p.json": "{}"}, "p.json"),
}
NOT_SEARCHED = {
    "for -c": Case("python3 -c 'import json'", {}, "json.py"),
    "for -c in a script": Case("sh s/g.sh", {"s/g.sh": "python3 -c 'import json'\n"}, "json.py"),
    "for a here-document": Case(
        "sh s/g.sh", {"s/g.sh": "python3 <<'E'\nimport json\nE\n"}, "json.py"
    ),
    "for an installed module": Case("python3 -m json.tool", {}, "json.py"),
    "for a script at the top": Case("python3 g.py", {"g.py": GUARD}, "json.py"),
}
EXPOSED = {
    "the module t.g": Case("python3 -m t.g", {"t/__init__.py": "", "t/g.py": GUARD}, "json.py"),
    "the module h": Case("python3 g.py", {"g.py": "import h\n" + GUARD, "h.py": ""}, "json.py"),
    "searched in the top": Case("PYTHONPATH=. python3 s/g.py", {"s/g.py": GUARD}, "json.py"),
    "c is a symbolic link": Case(
        "sh s/g.sh",
        {"s/g.sh": ". s/l/x.sh\n", "v/l/x.sh": "", "c": "LINK v", "s/l": "LINK ../c/l"},
        "",
    ),
    "symbolic link": Case("python3 s/g.py", {"old/g.py": GUARD, "s": "LINK"}, "old/json.py"),
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
        if text.startswith("LINK"):
            (stage.root / name).parent.mkdir(parents=True, exist_ok=True)
            (stage.root / name).unlink(missing_ok=True)
            (stage.root / name).symlink_to(
                text[5:] or ("old" if name == "s" else os.path.realpath(sys.executable))
            )
        else:
            stage.file(name, text)
    entry = {"type": "command", "command": case.command}
    group = {"matcher": "Bash", "hooks": [entry]}
    settings = {"hooks": {"PreToolUse": [group]}, "env": dict(case.env)}
    stage.file(".claude/settings.json", settings)
    store = TrustStore(stage.home / "trust.json")
    store.trust(stage.root)
    return stage.discover(trust=store), store


def plant(stage: Any, case: Case, hooks: Any) -> tuple[int, Path]:
    """The exit code of a contained command that leaves a file, and where that would tell that it ran."""
    canary = stage.root.parent / "CANARY"
    code = f"open({str(canary)!r}, 'w')"
    if case.planted.endswith((".sh", "python3")):
        code = f"#!/bin/sh\necho > '{canary}'"
    elif case.planted.endswith(".js"):
        code = f"require('fs').writeFileSync({str(canary)!r}, '')"
    sandbox = Sandbox(stage.root, "required")
    sandbox.keep(*hooks.protected_files())
    place = os.path.dirname(case.planted) or "."
    text = f"mkdir -p {place}; cat > {case.planted} <<'E' && chmod +x {case.planted}\n{code}\nE\n"
    return sandbox.run_sync(text).exit_code, canary


@pytest.mark.parametrize("name", SHADOWS)
def test_a_file_that_a_hook_would_load_cannot_be_written(stage: Any, name: str) -> None:
    """By a contained command and by tools; what was trusted still runs, and is still trusted."""
    case = SHADOWS[name]
    hooks, store = trusted(stage, case)
    code, canary = plant(stage, case, hooks)
    assert code != 0
    calls = call("write", path=case.planted, content=""), call("bash", command="ls"), say("done")
    written, judged = texts(stage.run(hooks, *calls))
    assert "is used by a hook of this run, or is in the directory" in written
    assert judged == "ran ls"
    assert not canary.exists()
    assert store.is_trusted(stage.root)


@pytest.mark.parametrize("name", NEW)
def test_a_hook_does_not_run_if_it_would_load_what_is_new(stage: Any, name: str) -> None:
    """Where nothing is held, so that a directory can be made: the hook says why."""
    case = NEW[name]
    hooks, _ = trusted(stage, case)
    code, canary = plant(stage, case, hooks)
    assert code == 0
    assert f"{case.planted}, which was not there at the start" in texts(stage.run(hooks))[0]
    assert not canary.exists()


@pytest.mark.parametrize("name", NOT_HELD)
def test_what_a_hook_does_not_load_can_be_written(stage: Any, name: str) -> None:
    """Words that are no paths, and directories that are still to be made."""
    hooks, _ = trusted(stage, NOT_HELD[name])
    assert plant(stage, NOT_HELD[name], hooks)[0] == 0


@pytest.mark.parametrize("name", NOT_SEARCHED)
def test_python_imports_nothing_from_the_top_directory(stage: Any, name: str) -> None:
    """A command can write there, so nothing is searched there."""
    case = NOT_SEARCHED[name]
    hooks, _ = trusted(stage, case)
    code, canary = plant(stage, case, hooks)
    assert code == 0
    assert texts(stage.run(hooks)) == ["ran ls"]
    assert not canary.exists()


@pytest.mark.parametrize("words", EXPOSED)
def test_a_hook_that_nothing_can_protect_is_not_run(stage: Any, words: str) -> None:
    """The call is blocked, and the reason names the remedy. A variable says that it is wanted."""
    hooks, _ = trusted(stage, EXPOSED[words])
    judged = texts(stage.run(hooks))[0]
    assert words in judged
    assert "put its files into .hookline/hooks" in judged
    problems = [note.text for each in hooks.handlers for note in check_program(each, stage.root)]
    assert [words in each for each in problems] == [True]
    wanted, _ = trusted(stage, EXPOSED[words]._replace(env={"PYTHONSAFEPATH": ""}))
    assert texts(stage.run(wanted)) == ["ran ls"]


def test_a_command_in_the_background_cannot_win_a_race(stage: Any) -> None:
    """It would put a file in place and take it away again, while the hook starts."""
    hooks, _ = trusted(stage, SHADOWS["beside a script"])
    loop = "echo > x.txt; while mv x.txt s/json.py; do mv s/json.py x.txt; done; echo ended"
    sandbox = Sandbox(stage.root, "required")
    sandbox.keep(*hooks.protected_files())
    assert sandbox.run_sync(loop).text.endswith("ended\n")
    moved = "mv s t; mkdir s; echo > s/json.py"
    assert sandbox.run_sync(moved).exit_code != 0


def test_what_is_new_in_the_directory_of_a_script_ends_trust(stage: Any) -> None:
    """On the host anybody can write there. All code in it counts, data does not."""
    _, store = trusted(stage, SHADOWS["beside a script"])
    stage.file("s/log.txt", "")
    stage.file("json.py", "")
    assert store.is_trusted(stage.root)
    for name in ("s/org.py", "s/lib/x.js", "s/x.node", "s/package.json"):
        stage.file(name, "")
        assert not store.is_trusted(stage.root)
        (stage.root / name).unlink()
    assert store.is_trusted(stage.root)


def test_directories_that_a_hook_only_reads_can_be_written(stage: Any) -> None:
    """The agent works there."""
    command = "ruff check src || true; cd web && true; python3 s/g.py src/notes.md"
    hooks, _ = trusted(stage, Case(command, {"s/g.py": GUARD, "src/notes.md": "", "web/x": ""}, ""))
    held = {os.path.relpath(each, stage.root) for each in hooks.protected_files()}
    assert held == {"s", "s/g.py", ".claude/settings.json"}


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


def test_a_programs_hook_imports_nothing_from_the_top_directory(stage: Any) -> None:
    """Which cannot be held. Directories outside of the project are: another capability may write there."""
    canary = stage.root.parent / "CANARY"
    stage.file("g.py", GUARD)
    own = stage.hooks({"on": "before_tool_use", "argv": ["python3", "g.py"]})
    write = (stage.root / "json.py").write_text
    assert texts(run(stage, lambda: write(f"open({str(canary)!r}, 'w')\n"), own))[-1] == "ran ls"
    assert not canary.exists()
    shared = stage.root.parent / "shared"
    shared.mkdir()
    (shared / "g.py").write_text(GUARD)
    wider, _ = trusted(stage, Case("python3 ../shared/g.py", {}, ""))
    assert str(shared) in wider.protected_files()
    sandbox = Sandbox(stage.root.parent, "required")
    sandbox.keep(*wider.protected_files())
    assert sandbox.run_sync("echo > shared/json.py").exit_code != 0


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
