"""Files that are put in the way of a hook: modules, programs and scripts that it would load instead of its own."""

from __future__ import annotations

import importlib.util
import marshal
import os
import socket
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
    "after cd": Case("cd s && python3 g.py", {"s/g.py": GUARD}, "s/json.py"),
    "an interpreter": Case(
        ".venv/bin/python3 s/g.py",
        {"s/g.py": GUARD, ".venv/pyvenv.cfg": "home = /usr/bin\n", ".venv/bin/python3": "LINK"},
        ".venv/bin/python3",
    ),
    "sourced if it exists": Case(
        "sh s/g.sh", {"s/g.sh": "[ -f s/local.sh ] && . s/local.sh\nexit 0\n"}, "s/local.sh"
    ),
    "sourced": Case(". s/env.sh; true", {"s/env.sh": "true\n"}, "s/env.sh"),
    "read by a shell": Case("sh < s/g.sh", {"s/g.sh": "true\n"}, "s/g.sh"),
    "at the top": Case("sh g.sh", {"g.sh": "true\n"}, "g.sh"),
    "after clustered options": Case("bash -euo pipefail s/g.sh", {"s/g.sh": "true\n"}, "s/g.sh"),
    "after a program that is not known": Case(
        'P=python3; "${Q:-$P}" s/g.py', {"s/g.py": GUARD}, "s/json.py"
    ),
    "beside what a link leads to": Case(
        "python3 s/g.py", {"t/g.py": GUARD, "s/g.py": "LINK ../t/g.py"}, "t/json.py"
    ),
    "a pattern": Case('for f in d/*.sh; do . "$f"; done', {"d/a.sh": "true\n"}, "d/b.sh"),
    "a link on the way": Case(
        "sh s/g.sh",
        {"v/g.sh": "", "c/g.sh": "LINK ../v/g.sh", "s/g.sh": "LINK ../c/g.sh"},
        "c/g.sh",
    ),
}
MISSING = {
    "a package": Case("./node_modules/.bin/p . || true", {}, "node_modules/.bin/p"),
    "an environment": Case(
        "[ -f .venv/bin/activate ] && . .venv/bin/activate; true", {}, ".venv/bin/activate"
    ),
    "run if it exists": Case("if [ -x s/pre.sh ]; then s/pre.sh; fi", {}, "s/pre.sh"),
    "in a directory": Case("bash tools/x.sh || true", {"tools/a.txt": ""}, "tools/x.sh"),
    "after cd": Case("cd tools; ./x.sh || true", {"tools/a.txt": ""}, "tools/x.sh"),
    "a link to nothing": Case("sh s/x.sh || true", {"s/x.sh": "LINK ../gen/x.sh"}, "gen/x.sh"),
    "beside another": Case("sh s/a.sh; sh t/b.sh || true", {"s/a.sh": "true\n"}, "t/b.sh"),
    "not executable": Case("s/x.sh || true", {"s/x.sh": "true\n"}, "s/x.sh"),
}
ENVIRONMENT = {".venv/pyvenv.cfg": "home = /usr/bin\n", ".venv/bin/python3": "LINK"}
ELSEWHERE = {
    "t": Case(
        "sh s/g.sh",
        {"s/g.sh": 'cd "$(dirname "$0")/../t" && python3 g.py\n', "t/g.py": GUARD},
        "t/json.py",
    ),
    "lib": Case(
        "PYTHONPATH=lib:$PYTHONPATH python3 s/g.py", {"s/g.py": GUARD, "lib/x": ""}, "lib/json.py"
    ),
    ".venv": Case(
        ".venv/bin/python3 s/g.py",
        {"s/g.py": GUARD, **ENVIRONMENT},
        ".venv/lib/python3.11/site-packages/e.pth",
    ),
    "bin": Case(
        'PATH="$CLAUDE_PROJECT_DIR/bin:$PATH" python3 s/g.py',
        {"s/g.py": GUARD, "bin/x": ""},
        "bin/python3",
    ),
    "node": Case(
        "node s/g.js", {"s/g.js": "require('../node')", "node/index.js": ""}, "node/package.json"
    ),
    "u/lib.sh": Case("sh s/a.sh", {"s/a.sh": ". u/lib.sh\n", "u/lib.sh": "true\n"}, "u/lib.sh"),
    "s": Case("python3 -m cProfile s/g.py >&2", {"s/g.py": GUARD}, "s/json.py"),
}
"""What scripts load from elsewhere, by what has to be listed."""
NOT_HELD = {
    "a word": Case("ENV=tests sh s/g.sh", {"s/g.sh": "true\n"}, "tests/a.py"),
    "a word of the settings": Case(
        "sh s/g.sh", {"s/g.sh": "true\n"}, "tests/a.py", {"ENV": "tests"}
    ),
    "packages": Case("PATH=node_modules/.bin:$PATH true", {}, "node_modules/x/y"),
    "beside what a linter reads": Case(
        "ruff check src/app.py || true; npx -y eslint src/app.ts || true",
        {"src/app.py": "", "src/app.ts": ""},
        "src/other.py",
    ),
    "beside tests": Case("python3 -m pytest tests/a.py || true", {"tests/a.py": ""}, "tests/b.py"),
    "beside what a script is given": Case(
        "sh s/g.sh src/app.py", {"s/g.sh": "true\n", "src/app.py": ""}, "src/b.py"
    ),
    "data": Case(
        "cat CHANGELOG.md package.json", {"CHANGELOG.md": "", "package.json": ""}, "package.json"
    ),
    "configuration": Case(
        "node s/g.js --config cfg/p.json", {"s/g.js": "", "cfg/p.json": "{}"}, "cfg/p.json"
    ),
}
NOT_SEARCHED = {
    "for -c": Case("python3 -c 'import json'", {}, "json.py"),
    "for -c in a script": Case("sh s/g.sh", {"s/g.sh": "python3 -c 'import json'\n"}, "json.py"),
    "for a here-document": Case(
        "sh s/g.sh", {"s/g.sh": "python3 <<'E'\nimport json\nE\n"}, "json.py"
    ),
    "for a module of its own": Case("python3 -m json.tool", {}, "json.py"),
    "for a script at the top": Case("python3 g.py", {"g.py": GUARD}, "json.py"),
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
            (stage.root / name).symlink_to(text[5:] or os.path.realpath(sys.executable))
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


@pytest.mark.parametrize("name", MISSING)
def test_a_script_that_was_missing_is_not_run(stage: Any, name: str) -> None:
    """A contained command cannot make it. If it is made in another way, the hook is blocked, and trust is lost."""
    case = MISSING[name]
    hooks, store = trusted(stage, case)
    code, canary = plant(stage, case, hooks)
    assert code != 0
    assert store.is_trusted(stage.root)
    assert texts(stage.run(hooks)) == ["ran ls"]
    stage.script(case.planted, f"#!/bin/sh\necho > '{canary}'\n")
    assert "since it was trusted" in texts(stage.run(hooks))[0].replace("when", "since")
    assert not canary.exists()
    assert not store.is_trusted(stage.root)


def test_the_place_of_a_missing_script_is_held_without_a_change(stage: Any) -> None:
    """A hook that is asked while a command runs in the background is not blocked by what holds the name."""
    hooks, store = trusted(stage, Case("sh s/g.sh || true", {"s/x.txt": ""}, ""))
    with socket.socket(socket.AF_UNIX) as held:
        here = os.getcwd()
        os.chdir(stage.root / "s")  # the path of a socket must be short
        try:
            held.bind("g.sh")
        finally:
            os.chdir(here)
    assert texts(stage.run(hooks)) == ["ran ls"]
    assert store.is_trusted(stage.root)


@pytest.mark.parametrize("listed", ELSEWHERE)
def test_what_is_loaded_from_elsewhere_is_held_if_it_is_listed(stage: Any, listed: str) -> None:
    """It is not looked for: `files` names it."""
    case = ELSEWHERE[listed]
    hooks, store = trusted(stage, case)
    held = stage.discover(trust=store, files=[listed])
    assert plant(stage, case, held)[0] != 0
    assert texts(stage.run(held)) == ["ran ls"]
    assert plant(stage, case, hooks)[0] == 0
    is_installed = listed == ".venv"
    judged = texts(stage.run(held))[0]
    assert judged == "ran ls" if is_installed else f"{stage.root}/{listed} has changed" in judged


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


def test_a_script_behind_a_link_in_the_top_directory_is_not_run(stage: Any) -> None:
    """A command could replace the link. The reason names the remedy."""
    case = Case("python3 s/g.py", {"old/g.py": GUARD, "s": "LINK old"}, "")
    hooks, _ = trusted(stage, case)
    assert "the link 's' in the top directory leads to its script" in texts(stage.run(hooks))[0]
    [note] = [note for each in hooks.handlers for note in check_program(each, stage.root)]
    assert note.remedy == "Name the script by its real path."


def test_a_module_of_the_project_can_be_run(stage: Any) -> None:
    """Then Python imports from there what it likes: the user starts it, as tests are started."""
    refuse = "import sys\nsys.exit(2)\n"
    hooks, _ = trusted(stage, Case("python3 -m t.g", {"t/__init__.py": "", "t/g.py": refuse}, ""))
    assert texts(stage.run(hooks))[0].startswith("Blocked")


@pytest.mark.parametrize("command", ["python3 g.py", "sh s/g.sh"])
def test_a_module_that_is_not_found_is_a_denial(stage: Any, command: str) -> None:
    """Python would find it elsewhere. Without the module the script guards nothing."""
    files = {"g.py": "import h\n", "h.py": "", "s/g.sh": "python3 t/g.py\n", "t/g.py": "import k\n"}
    files["t/k.py"] = "import sys\nsys.exit(2)\n"
    hooks, store = trusted(stage, Case(command, files, ""))
    judged = texts(stage.run(hooks))[0]
    assert "Python finds modules of the project only beside the script" in judged
    opened = stage.discover(trust=store, on_failure="open")
    assert texts(stage.run(opened)) == ["ran ls"]


def test_a_change_in_a_directory_is_noticed_on_the_host(stage: Any) -> None:
    """Where nothing is read-only: a new module, a changed one, and one that is gone."""
    hooks, _ = trusted(stage, Case("python3 s/g.py", {"s/g.py": GUARD, "s/h.py": ""}, ""))
    assert texts(stage.run(hooks)) == ["ran ls"]
    for name, text in (("s/json.py", ""), ("s/h.py", "x = 1\n"), ("s/h.py", None)):
        before = (stage.root / name).read_text() if (stage.root / name).exists() else None
        _write(stage.root / name, text)
        assert (
            f"the code in {stage.root}/s has changed since it was trusted"
            in texts(stage.run(hooks))[0]
        )
        _write(stage.root / name, before)
        assert texts(stage.run(hooks)) == ["ran ls"]
    stage.file("s/log.txt", "a line")
    assert texts(stage.run(hooks)) == ["ran ls"]


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


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
    missing = {"src/s/g.py", "web/s/g.py"}  # where the same word would mean another file
    assert held == {"s", "s/g.py", ".claude/settings.json", *missing}


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
