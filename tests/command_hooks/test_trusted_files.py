"""Which files a command names, and which of them it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.command_hooks import Handler, HookSource, definition_digest, not_covered
from hookline.command_hooks.trusted_files import named_files, pins_of
from hookline.config import script_dependencies


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a few files."""
    for name in ("guard.sh", "check.py", "lib/x.js", "data.json", "a b.sh", "src/app.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


def pinned(handler: Handler, project: Path) -> list[str]:
    """The files that must not change; without those that are missing."""
    return sorted(path for path, known in pins_of(handler, project).items() if known != "gone")


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("./guard.sh", ["guard.sh"]),
        ('"$CLAUDE_PROJECT_DIR"/guard.sh --fast', ["guard.sh"]),
        ('"${CLAUDE_PROJECT_DIR}/a b.sh"', ["a b.sh"]),
        ("python3 check.py src/app.py", ["check.py", "src/app.py"]),
        ("python3 -u check.py < data.json", ["check.py"]),
        ("uv run --script check.py", ["check.py"]),
        ("bun run lib/x.js", ["lib/x.js"]),
        ("cd src && node ../lib/x.js", ["lib/x.js"]),
        ('cd "$CLAUDE_PROJECT_DIR/lib" && node x.js', ["lib/x.js"]),
        ('bash "$(git rev-parse --show-toplevel)/guard.sh" app.py', ["guard.sh"]),
        ("python3 `pwd`/check.py", ["check.py"]),
        ('"${CLAUDE_PROJECT_DIR:-.}"/guard.sh', ["guard.sh"]),
        (
            '"${CLAUDE_PROJECT_DIR:-$(git rev-parse --show-toplevel 2>/dev/null)}/guard.sh"',
            ["guard.sh"],
        ),
        ("FOO=1 env BAR=2 timeout 5 ./guard.sh", ["guard.sh"]),
        ("test -f data.json && ./guard.sh | python3 check.py", ["guard.sh", "check.py"]),
        ("bash -c './guard.sh; python3 check.py'", ["guard.sh", "check.py"]),
        (". ./guard.sh", ["guard.sh"]),
        ("sh < guard.sh", ["guard.sh"]),
        ("ruff check src/app.py --config data.json", ["src/app.py"]),
        ("jq . data.json", []),
        ("if [ -x guard.sh ]; then ./guard.sh; fi", ["guard.sh"]),
        ("./guard.sh 'unclosed", ["guard.sh"]),
        ("./gone.sh", []),
        ("/bin/true", []),
    ],
)
def test_what_a_command_runs(project: Path, command: str, scripts: list[str]) -> None:
    """The program, the script that an interpreter is given, and code that is named; data does not count."""
    handler = Handler(HookSource("claude"), "PreToolUse", command=command)
    assert pinned(handler, project) == sorted(str(project / name) for name in scripts)


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("sudo -u nobody ./guard.sh data.json", ["guard.sh"]),
        ("flock data.json ./guard.sh", ["guard.sh"]),
        ("uv run --with requests check.py", ["check.py"]),
        ("bash -e guard.sh", ["guard.sh"]),
        ("bash -o pipefail guard.sh", ["guard.sh"]),
        ("python3 -W ignore check.py", ["check.py"]),
        ("npx tsx lib/x.js", ["lib/x.js"]),
        ("echo ./guard.sh | sh", ["guard.sh"]),
        ("eval 'python3 check.py'", ["check.py"]),
        ("HOOK=./guard.sh; $HOOK", ["guard.sh"]),
        ("for each in ./guard.sh; do $each; done", ["guard.sh"]),
        ("function f { ./guard.sh; }; f", ["guard.sh"]),
        ('"$UNKNOWN/guard.sh"', ["guard.sh"]),
        ("${UNKNOWN}guard.sh", ["guard.sh"]),
        ("python3 -c \"exec(open('check.py').read())\"", ["check.py"]),
        ("python3 -c \"open('data.json').read()\"", []),
        ("# ./guard.sh", []),
        ("command -v guard.sh", ["guard.sh"]),
        ("bash -euo pipefail guard.sh", ["guard.sh"]),
        ("sh -eo pipefail guard.sh", ["guard.sh"]),
        ("python3 -O check.py", ["check.py"]),
        ("$PYTHON check.py", ["check.py"]),
        ("python3 -m cProfile check.py", ["check.py"]),
        ("cat guard.sh | sh", ["guard.sh"]),
    ],
)
def test_what_a_shell_or_another_program_runs(
    project: Path, command: str, scripts: list[str]
) -> None:
    """Behind programs that run others, in texts that are run, and in variables."""
    handler = Handler(HookSource("claude"), "PreToolUse", command=command)
    assert pinned(handler, project) == sorted(str(project / name) for name in scripts)


@pytest.mark.parametrize("command", ["if ./guard.sh; then", "./guard.sh && (", "echo ) ./guard.sh"])
def test_a_line_that_bash_would_not_take_may_run_any_of_its_words(
    project: Path, command: str
) -> None:
    """Trust is bound to all of them: another shell may read it otherwise."""
    handler = Handler(HookSource("claude"), "Stop", command=f"{command} data.json")
    expected = sorted(str(project / name) for name in ("guard.sh", "data.json"))
    assert pinned(handler, project) == expected
    assert sorted(named_files(handler, project)) == expected


def test_in_a_line_for_another_shell_any_code_may_be_run(project: Path) -> None:
    """We cannot read it, so each word counts that names code; what it reads is not pinned."""
    line = "& ('./' + 'x'); if ($a) { ./guard.sh } else { Get-Content data.json | & check.py }"
    handler = Handler(HookSource("copilot"), "preToolUse", command=line, shell="powershell")
    assert pinned(handler, project) == [str(project / name) for name in ("check.py", "guard.sh")]


def test_words_without_a_shell(project: Path) -> None:
    """A program with its arguments."""
    handler = Handler(
        HookSource("claude"), "Stop", argv=("node", "${CLAUDE_PROJECT_DIR}/lib/x.js", "data.json")
    )
    assert pinned(handler, project) == [str(project / "lib/x.js")]
    assert list(named_files(handler, project)) == [str(project / "lib/x.js")]


def test_what_a_script_is_given_may_be_beside_it(project: Path) -> None:
    """Such as the hook that a common beginning of all hooks is to run."""
    (project / "lib/rules.js").write_text("rules")
    handler = Handler(HookSource("claude"), "Stop", command="node lib/x.js rules.js")
    assert sorted(named_files(handler, project)) == [
        str(project / "lib/rules.js"),
        str(project / "lib/x.js"),
    ]


def test_all_that_is_named_is_more(project: Path) -> None:
    """Trust is bound to what a command reads, too, where that is code: it may be a script in disguise."""
    (project / "rules.jq").write_text(".")
    (project / "plain").write_text("#!/bin/sh\n")
    command = "cat guard.sh plain | sh; jq -f rules.jq data.json"
    handler = Handler(HookSource("claude"), "Stop", command=command)
    assert sorted(named_files(handler, project)) == [
        str(project / name) for name in ("guard.sh", "plain", "rules.jq")
    ]


@pytest.mark.parametrize(
    "command",
    [
        "./guard.sh >> hooks.log",
        "./guard.sh 2> hooks.log",
        "./guard.sh | tee -a hooks.log",
        './guard.sh > "$CLAUDE_PROJECT_DIR/out.sh"',
        "./guard.sh --state hooks.json",
    ],
)
def test_what_a_hook_writes_does_not_take_back_its_trust(project: Path, command: str) -> None:
    """It is not there at first, and is another after each run."""
    handler = Handler(HookSource("claude"), "Stop", command=command)
    before = named_files(handler, project)
    for name in ("hooks.log", "out.sh", "hooks.json"):
        (project / name).write_text("written")
    assert named_files(handler, project) == before
    assert list(before) == [str(project / "guard.sh")]


@given(st.text(max_size=60))
def test_any_text_can_be_a_command(command: str) -> None:
    """None of them is an error, and what is run is among what is named."""
    handler = Handler(HookSource("claude"), "Stop", command=command)
    here = Path(__file__).parent
    assert set(pinned(handler, here)) <= named_files(handler, here).keys()


def test_what_a_script_runs_in_turn_is_covered(project: Path) -> None:
    """Beside it, and elsewhere in the project if it is named by its path."""
    (project / "lib/x.js").write_text("require('./y'); require('../top');")
    (project / "lib/y.js").write_text("")
    (project / "top.js").write_text("")
    handler = Handler(HookSource("claude"), "Stop", command="node lib/x.js")
    files = [str(project / name) for name in ("lib/x.js", "lib/y.js", "top.js")]
    assert pinned(handler, project) == files
    assert sorted(named_files(handler, project)) == files


def test_all_code_in_a_directory_for_hooks_is_covered(project: Path) -> None:
    """It may be found by its name only when a hook runs. What hooks keep there is not code."""
    for name in ("guard.py", "rules/one.py", "state.json", "node_modules/x.js"):
        path = project / ".claude/hooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    handler = Handler(HookSource("claude"), "Stop", command="python3 .claude/hooks/guard.py")
    assert sorted(named_files(handler, project)) == [
        str(project / ".claude/hooks" / name) for name in ("guard.py", "rules/one.py")
    ]


def test_there_is_an_end_to_the_code_beside_a_script(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read at every start. What is left out is said."""
    monkeypatch.setattr(script_dependencies, "MAX_CODE", 2)
    handler = Handler(HookSource("claude"), "Stop", command="node lib/x.js")
    assert not_covered(handler, project) == ()
    for name in ("a.js", "b.js"):
        (project / "lib" / name).write_text("")
    assert not_covered(handler, project) == ("lib has 2 files of code or more",)
    assert len(named_files(handler, project)) == 3


def test_a_module_of_the_project(project: Path) -> None:
    """As `python -m` finds it."""
    handler = Handler(HookSource("claude"), "Stop", command="PYTHONPATH=src python3 -m app --fix")
    assert pinned(handler, project) == [str(project / "src/app.py")]


def test_what_is_not_covered_is_said(project: Path) -> None:
    """What the command runs, and what its scripts do."""
    (project / "guard.sh").write_text('. "$RULES"\n')
    handler = Handler(HookSource("claude"), "Stop", command="make lint && ./guard.sh")
    assert not_covered(handler, project) == (
        "make runs commands from other files",
        'guard.sh: the file in `. "$RULES"` is known only when it runs',
    )


# --- what a recorded answer is bound to ---------------------------------------------------------------


def digest(stage: Any, **fields: Any) -> str:
    """The digest of a hook that runs a script of the project."""
    given = {"command": "sh guard.sh", "env": {"KEY": "one"}, **fields}
    source = given.pop("source", HookSource("claude"))
    return definition_digest(Handler(source, "PreToolUse", **given), stage.root)


@pytest.mark.parametrize(
    "changed",
    [
        {"command": "sh guard.sh -v"},
        {"matcher": "Bash"},
        {"source": HookSource("codex")},
        {"timeout": 3.0},
        {"env": {"OTHER": "one"}},
        {"command": "", "argv": ("sh", "guard.sh")},
        {"kind": "http", "url": "https://here.example"},
        {"kind": "prompt", "prompt": "Is it safe?"},
    ],
)
def test_another_definition_has_another_digest(stage: Any, changed: dict[str, Any]) -> None:
    """The command, its arguments, the dialect, the matcher, the names of variables."""
    stage.script("guard.sh", "exit 0\n")
    assert digest(stage) == digest(stage)
    assert digest(stage, **changed) != digest(stage)


def test_the_value_of_a_variable_is_not_in_the_digest(stage: Any) -> None:
    """It may be a secret, and another one tomorrow."""
    assert digest(stage, env={"KEY": "two"}) == digest(stage)


def test_another_script_has_another_digest(stage: Any, tmp_path: Path) -> None:
    """In the project, elsewhere, in a plugin, or on the path; data beside it does not count."""
    plugin = tmp_path / "plugin"
    outside = tmp_path / "outside.sh"
    plugin.mkdir()
    source = HookSource("claude", root=str(plugin))
    hooks: list[tuple[Path, dict[str, Any]]] = [
        (stage.root / "guard.sh", {}),
        (outside, {"command": f"{outside} --fast"}),
        (plugin / "g.py", {"command": "python3 ${CLAUDE_PLUGIN_ROOT}/g.py", "source": source}),
        (stage.root / "g.py", {"command": "", "argv": ("python3", "$CLAUDE_PROJECT_DIR/g.py")}),
    ]
    for path, fields in hooks:
        path.write_text("one")
        before = digest(stage, **fields)
        (path.parent / "log.txt").write_text("a line")
        assert digest(stage, **fields) == before
        path.write_text("two")
        assert digest(stage, **fields) != before, path


@pytest.mark.parametrize(
    ("script", "line", "library"),
    [
        ("project/m.sh", '. "$CLAUDE_PROJECT_DIR/lib.sh"', "project/lib.sh"),
        ("project/m.sh", ". ./lib.sh", "project/lib.sh"),
        ("project/m.py", "import rules", "project/rules.py"),
        ("project/hooks/m.sh", '. "$(dirname "$0")/lib.sh"', "project/hooks/lib.sh"),
        ("project/hooks/m.sh", '. "$CLAUDE_PROJECT_DIR/lib.sh"', "project/lib.sh"),
        ("home/.claude/hooks/m.sh", '. "$HOME/.claude/lib.sh"', "home/.claude/lib.sh"),
        ("home/.claude/hooks/m.sh", '. "$(dirname "$0")/../lib.sh"', "home/.claude/lib.sh"),
        ("home/.claude/hooks/m.sh", '. "$CLAUDE_PROJECT_DIR/lib.sh"', "project/lib.sh"),
        ("plugin/hooks/m.sh", '. "$CLAUDE_PLUGIN_ROOT/lib/lib.sh"', "plugin/lib/lib.sh"),
        ("elsewhere/m.sh", '. "${0%/*}/lib.sh"', "elsewhere/lib.sh"),
    ],
)
def test_what_a_script_runs_is_in_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, line: str, library: str
) -> None:
    """Wherever the script is; a file beside it that it does not run does not count."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, text in ((script, f"{line}\n"), (library, "one"), ("project/other.sh", "one")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    source = HookSource("claude", root=str(tmp_path / "plugin") if "plugin" in script else "")
    program = "python3" if script.endswith(".py") else "sh"
    handler = Handler(source, "PreToolUse", command=f"{program} {tmp_path / script}")
    before = definition_digest(handler, tmp_path / "project")
    (tmp_path / "project/other.sh").write_text("two")
    assert definition_digest(handler, tmp_path / "project") == before
    (tmp_path / library).write_text("two")
    assert definition_digest(handler, tmp_path / "project") != before


def test_a_registration_carries_the_digest(stage: Any) -> None:
    """Whoever records a verdict finds it on the hook."""
    stage.script("guard.sh", "exit 0\n")
    hooks = stage.hooks({"on": "before_tool_use", "command": "sh guard.sh"})
    found = [each.external for each in hooks.hooks()]
    assert found[0] == definition_digest(hooks.handlers[0], stage.root)
    assert set(found[1:]) == {""}
