"""Which files a command names, and which of them it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.command_hooks import Handler, HookSource, definition_digest
from hookline.command_hooks.trusted_files import (
    describe_bound,
    find_bound,
    find_change,
    find_scripts,
    hash_files,
    pin_files,
)
from hookline.errors import TrustError
from hookline.shell_text import named_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a few files."""
    for name in ("guard.sh", "check.py", "lib/x.js", "data.json", "a b.sh", "src/app.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        if name.endswith(".sh"):
            path.chmod(0o755)
    return tmp_path


def named(command: str, project: Path, **fields: Any) -> list[str]:
    """The programs and scripts that a command names."""
    handler = Handler(HookSource("claude"), "PreToolUse", command=command, **fields)
    return sorted(str(path.relative_to(project)) for path in find_scripts(handler, project))


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("./guard.sh", ["guard.sh"]),
        ('"$CLAUDE_PROJECT_DIR"/guard.sh --fast', ["guard.sh"]),
        ('"${CLAUDE_PROJECT_DIR}/a b.sh"', ["a b.sh"]),
        ("python3 check.py src/app.py", ["check.py"]),
        ("python3 -u check.py < data.json", ["check.py"]),
        ("uv run --script check.py", ["check.py"]),
        ("uv run --with requests check.py", ["check.py"]),
        ("uv run ruff check src/app.py", []),
        ("uv run --no-project ruff check src/app.py", []),
        ("bun run lib/x.js", ["lib/x.js"]),
        ("bun lib/x.js", ["lib/x.js"]),
        ("bun test lib/x.js", []),
        ("node --import tsx lib/x.js", ["lib/x.js"]),
        ("node lib/x.js --config data.json", ["lib/x.js"]),
        ("node -r ./src/app.py lib/x.js data.json", ["lib/x.js", "src/app.py"]),
        ("pwsh -NoProfile -File lib/x.js", ["lib/x.js"]),
        ("python3 -u check.py src/app.py", ["check.py"]),
        ("bash *.sh; lib/*", ["a b.sh", "guard.sh", "lib/x.js"]),
        ("cd src && node ../lib/x.js", ["lib/x.js"]),
        ("cd lib && node x.js", ["lib/x.js", "x.js"]),
        ('cd "$CLAUDE_PROJECT_DIR/lib" && node x.js', ["lib/x.js", "x.js"]),
        ('bash "$(git rev-parse --show-toplevel)/guard.sh" app.py', ["guard.sh"]),
        ("python3 `pwd`/check.py", ["check.py"]),
        ('"${CLAUDE_PROJECT_DIR:-.}"/guard.sh', ["guard.sh"]),
        (
            '"${CLAUDE_PROJECT_DIR:-$(git rev-parse --show-toplevel 2>/dev/null)}/guard.sh"',
            ["guard.sh"],
        ),
        ("FOO=1 env BAR=2 timeout 5 ./guard.sh", ["guard.sh"]),
        ("test -f data.json && ./guard.sh | python3 check.py", ["check.py", "guard.sh"]),
        ("bash -c './guard.sh; python3 check.py'", ["check.py", "guard.sh"]),
        (". ./guard.sh", ["guard.sh"]),
        ("sh < guard.sh", ["guard.sh"]),
        ("ruff check src/app.py --config data.json", []),
        ("npx -y eslint src/app.py", ["src/app.py"]),  # `-y` may have a value
        ("jq . data.json", []),
        ("if [ -x guard.sh ]; then ./guard.sh; fi", ["guard.sh"]),
        ("./guard.sh 'unclosed", ["guard.sh"]),
        ("./gone.sh", ["gone.sh"]),
        ("/bin/true", []),
        ("sudo -u nobody ./guard.sh data.json", ["guard.sh"]),
        ("flock data.json ./guard.sh", ["guard.sh"]),
        ("bash -e guard.sh", ["guard.sh"]),
        ("bash -o pipefail guard.sh", ["guard.sh"]),
        ("bash -euo pipefail guard.sh", ["guard.sh"]),
        ("python3 -W ignore check.py", ["check.py"]),
        ("python3 -Wignore check.py", ["check.py"]),
        ("python3 -O check.py", ["check.py"]),
        ("npx tsx lib/x.js", ["lib/x.js"]),
        ("echo ./guard.sh | sh", ["guard.sh"]),
        ("eval 'python3 check.py'", ["check.py"]),
        ("HOOK=./guard.sh; $HOOK", ["guard.sh"]),
        ("for each in ./guard.sh; do $each; done", ["guard.sh"]),
        ("function f { ./guard.sh; }; f", ["guard.sh"]),
        ('"$UNKNOWN/guard.sh"', ["guard.sh"]),
        ("$PYTHON check.py", ["check.py"]),
        # The code is in the line, or in a module.
        ("python3 -c \"exec(open('check.py').read())\" check.py", []),
        ("python3 -m pytest src/app.py", []),
        ("python3 -m cProfile check.py", []),
        ("node -e 'require(\"./lib/x\")' lib/x.js", []),
        ("perl -i -pe s/a/b/ src/app.py", []),
        ("awk '{print}' src/app.py", []),
        # Programs that read.
        ("cat guard.sh | sh", []),
        ("grep -l x guard.sh", []),
        ("# ./guard.sh", []),
    ],
)
def test_the_programs_and_scripts_that_a_command_names(
    project: Path, command: str, scripts: list[str]
) -> None:
    """What stands for a program, and what an interpreter is given; not what a program reads."""
    assert named(command, project) == scripts


@pytest.mark.parametrize("command", ["if ./guard.sh; then", "./guard.sh && (", "echo ) ./guard.sh"])
def test_a_line_that_bash_would_not_take_may_run_any_of_its_words(
    project: Path, command: str
) -> None:
    """Trust is bound to all of them: another shell may read it otherwise."""
    assert named(f"{command} data.json", project) == ["data.json", "guard.sh"]


def test_in_a_line_for_another_shell_any_word_may_be_a_script(project: Path) -> None:
    """We cannot read it."""
    line = "& ('./' + 'x'); if ($a) { ./guard.sh } else { & check.py }"
    assert named(line, project, shell="powershell") == ["__main__.py", "check.py", "guard.sh"]
    line = '& "$env:CLAUDE_PROJECT_DIR/lib/x.js"; & "$HOOKS/guard.sh"'
    assert named(line, project, shell="powershell") == ["guard.sh", "lib/x.js"]


def test_words_without_a_shell(project: Path) -> None:
    """A program with its arguments."""
    argv = ("node", "${CLAUDE_PROJECT_DIR}/lib/x.js", "data.json")
    assert named("", project, argv=argv) == ["lib/x.js"]


def bound(command: str, project: Path, **fields: Any) -> list[str]:
    """What trust in a hook is bound to."""
    handler = Handler(HookSource("claude"), "Stop", command=command, **fields)
    return sorted(str(path.relative_to(project)) for path in find_bound(handler, project))


def test_the_directory_of_a_script_is_bound_too(project: Path) -> None:
    """Not the top directory, where only the script itself is; of a link also where it leads."""
    assert bound("sh guard.sh", project) == ["guard.sh"]
    assert bound("node lib/x.js", project) == ["lib", "lib/x.js"]
    (project / "links").mkdir()
    (project / "links/g").symlink_to("../src/app.py")
    assert bound("sh links/g", project) == ["links", "links/g", "src", "src/app.py"]


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("vendor/../guard.sh", {}),
        ("sh $CLAUDE_PROJECT_DIR/vendor/../guard.sh", {}),
        ("cd vendor && ../guard.sh", {}),
        ("./guard.sh", {"cwd": "vendor/.."}),
        ("true", {"files": ("vendor/../guard.sh",)}),
    ],
)
def test_two_dots_behind_a_link_are_the_parent_of_its_target(
    project: Path, command: str, fields: dict[str, Any]
) -> None:
    """Trust is bound to the script that runs and to the link, not only to the script that the text would name."""
    (project / "sub/deep").mkdir(parents=True)
    (project / "sub/guard.sh").write_text("exit 0")
    (project / "vendor").symlink_to("sub/deep")
    found = bound(command, project, **fields)
    assert {"sub/guard.sh", "vendor"} <= set(found)


def test_a_directory_that_became_a_link_ends_trust(project: Path) -> None:
    """The command names another script then, which nobody has pinned."""
    (project / "sub/deep").mkdir(parents=True)
    (project / "sub/guard.sh").write_text("exit 1")
    handler = Handler(HookSource("claude"), "Stop", command="sh lib/../guard.sh")
    pinned = pin_files(handler, project)
    assert find_change(pinned, project) == ""
    (project / "lib").rename(project / "moved")
    (project / "lib").symlink_to("sub/deep")
    assert find_change(pinned, project) == str(project / "sub/guard.sh")


NAMING = [
    "cd -- lib && ./x.js",
    "cd -P lib && sh x.js",
    "env -C lib ./x.js",
    "env --chdir=lib ./x.js",
    "env -Clib ./x.js",
    "perl -Mautodie lib/x.js",
    "ruby -rdate lib/x.js",
    "sh -c '. \"$0\"' lib/x.js",
    "bash -c '\"$@\"' _ lib/x.js",
    "node -r ./guard.sh lib/x.js",
    "node -e \"require('./lib/x.js')\"",
    "uv -q run lib/x.js",
    "uv --directory lib run x.js",
    "pwsh -NoProfile -File lib/x.js",
    "python3 -m cProfile lib/x.js",
    "sh lib/*.js",
    "for each in lib/*; do sh $each; done",
    'f() { sh "$1"; }; f lib/x.js',
    "cat lib/x.js | sh",
    'eval "$(cat lib/x.js)"',
    "BASH_ENV=lib/x.js bash -c true",
    "PATH=lib:$PATH x.js",
    "git -c core.pager=lib/x.js log",
    "sh $D/x.js",
    'sh "$SCRIPT"',
    "anything",
]


@pytest.mark.parametrize("command", NAMING)
def test_a_file_of_code_is_bound_wherever_it_is_named(project: Path, command: str) -> None:
    """Also after options that we do not know, in quoted code, and in variables of the hook."""
    env = {"D": "lib", "SCRIPT": "${CLAUDE_PROJECT_DIR}/lib/x.js"}
    is_variable = command.startswith(("sh $D", 'sh "$S', "anything"))
    assert "lib/x.js" in bound(command, project, env=env if is_variable else {})


def test_other_words_bind_single_files_of_code(project: Path) -> None:
    """Not their directories, in which the agent works, and no data."""
    assert bound("ruff check src/app.py --config data.json src lib", project) == ["src/app.py"]
    assert bound("prettier --check 'src/**/*.py' lib/*.js", project) == []
    for name, text, mode in (("lib/a", "#!/bin/sh\n", 0o644), ("lib/b", "", 0o755)):
        (project / name).write_text(text)
        (project / name).chmod(mode)
        assert bound(f"xyz {name}", project) == [name]
    assert bound("./guard.sh > src/app.py", project) == ["guard.sh"]
    assert bound("sh x.js", project, cwd="${CLAUDE_PROJECT_DIR}/lib") == ["lib", "lib/x.js", "x.js"]


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("./node_modules/.bin/prettier --check .", ["node_modules/.bin/prettier"]),
        ("[ -x s/pre.sh ] && s/pre.sh", ["s/pre.sh"]),
        ("bash tools/x.sh", ["tools/x.sh"]),
        (". ./.env", [".env"]),
        ('"$(git rev-parse --show-toplevel)/s/x.sh"', ["s/x.sh"]),
        ("data.json/../lib/y", ["lib/y"]),
        # No paths, or not below the project.
        ("bash -euo pipefail; uv run ruff; make lint; npm run build", []),
        ('~/x.sh; "$HOME"/x.sh; /nowhere/x.sh; sh ../x.sh', []),
        ("sh -c 'true; ./guard.sh | cat'; flock lib/a.lock true", ["guard.sh"]),
    ],
)
def test_a_missing_script_is_bound_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: str, missing: list[str]
) -> None:
    """It is to stay missing; its directory may be one in which the agent works."""
    monkeypatch.setenv("HOME", "/nowhere")
    assert bound(command, project) == missing


def test_further_files_are_listed(project: Path) -> None:
    """Files and directories below the project, which are there."""
    assert bound("sh guard.sh", project, files=("src", "data.json")) == [
        "data.json",
        "guard.sh",
        "src",
    ]
    for name in ("gone", ".", "..", "/etc/passwd", "src/../.."):
        with pytest.raises(TrustError, match="there is no such file or directory below"):
            bound("sh guard.sh", project, files=(name,))


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
    before = hash_files(handler, project)
    for name in ("hooks.log", "out.sh", "hooks.json"):
        (project / name).write_text("written")
    assert hash_files(handler, project) == before
    assert list(before) == [str(project / "guard.sh")]


@given(st.text(max_size=60))
def test_any_text_can_be_a_command(command: str) -> None:
    """None of them is an error."""
    handler = Handler(HookSource("claude"), "Stop", command=command)
    here = Path(__file__).parent
    assert {str(path) for path in find_scripts(handler, here)} <= hash_files(handler, here).keys()


def test_all_code_in_the_directory_of_a_script_is_covered(project: Path) -> None:
    """It may be found by its name only when a hook runs. What hooks keep there is not code."""
    for name in ("guard.py", "rules/one.py", "state.json", "node_modules/x.js"):
        path = project / ".claude/hooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    handler = Handler(HookSource("claude"), "Stop", command="python3 .claude/hooks/guard.py")
    assert sorted(hash_files(handler, project)) == [
        str(project / ".claude/hooks" / name) for name in ("guard.py", "rules/one.py")
    ]


@pytest.mark.parametrize(
    "name",
    ["check.v2", "guard-1.2", "pre.local", "common", "common.inc", "x.conf", ".env", "run.log"],
)
def test_what_is_not_known_as_data_counts_beside_a_script(project: Path, name: str) -> None:
    """A script can source any file, and run any that can be executed."""
    handler = Handler(HookSource("claude"), "Stop", command="node lib/x.js")
    (project / "lib" / name).write_text("")
    if name == "run.log":
        before = hash_files(handler, project)
        assert not any(path.endswith(name) for path in before)
        (project / "lib" / name).chmod(0o755)
    assert str(project / "lib" / name) in hash_files(handler, project)


def test_a_program_of_an_environment_is_bound_without_what_is_installed(project: Path) -> None:
    """That changes with every installation. A link to a program of the machine is known by where it leads."""
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python3").symlink_to("/bin/true")
    (project / ".venv/bin/pip").write_text("")
    command = ".venv/bin/python3 lib/x.js"
    handler = Handler(HookSource("claude"), "Stop", command=command)
    before = hash_files(handler, project)
    assert str(project / ".venv/bin/pip") not in before
    (project / ".venv/bin/pip").chmod(0o755)
    assert hash_files(handler, project) == before
    (project / ".venv/bin/python3").unlink()
    (project / ".venv/bin/python3").symlink_to("/bin/false")
    assert hash_files(handler, project) != before


def test_what_is_bound_is_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file and each directory, with how much of it is read."""
    handler = Handler(HookSource("claude"), "Stop", command="node lib/x.js")
    assert describe_bound(handler, project) == ["lib/x.js", "lib/ (1 file)"]
    monkeypatch.setattr(named_files, "MAX_CODE", 2)
    monkeypatch.setattr("hookline.command_hooks.trusted_files.MAX_CODE", 2)
    for name in ("a.js", "b.js"):
        (project / "lib" / name).write_text("")
    assert describe_bound(handler, project)[1] == (
        "lib/ (2 files or more, of which no more are read)"
    )
    assert len(hash_files(handler, project)) == 3


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
    """In the project, elsewhere, or in a plugin; data beside it does not count."""
    plugin = tmp_path / "plugin"
    outside = tmp_path / "outside.sh"
    plugin.mkdir()
    source = HookSource("claude", root=str(plugin))
    hooks: list[tuple[Path, dict[str, Any]]] = [
        (stage.root / "guard.sh", {}),
        (outside, {"command": f"{outside} --fast"}),
        (plugin / "g.py", {"command": "python3 ${CLAUDE_PLUGIN_ROOT}/g.py", "source": source}),
        (stage.root / "g.py", {"command": "", "argv": ("python3", "${CLAUDE_PROJECT_DIR}/g.py")}),
    ]
    for path, fields in hooks:
        path.write_text("one")
        path.chmod(0o755)
        before = digest(stage, **fields)
        (path.parent / "log.txt").write_text("a line")
        assert digest(stage, **fields) == before
        path.write_text("two")
        assert digest(stage, **fields) != before, path


def test_a_registration_carries_the_digest(stage: Any) -> None:
    """Whoever records a verdict finds it on the hook."""
    stage.script("guard.sh", "exit 0\n")
    hooks = stage.hooks({"on": "before_tool_use", "command": "sh guard.sh"})
    found = [each.external for each in hooks.hooks()]
    assert found[0] == definition_digest(hooks.handlers[0], stage.root)
    assert set(found[1:]) == {""}
