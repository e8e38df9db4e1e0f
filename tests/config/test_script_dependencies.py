"""What a script runs in turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookline.config.script_dependencies import ScriptDependencies, find_dependencies
from hookline.shell_text.started import files_of_program, is_task_runner

FILES = (
    "hooks/lib/common.sh",
    "hooks/lib/b.js",
    "hooks/lib/pack/index.js",
    "hooks/beside.py",
    "scripts/run.sh",
    "scripts/tool",
    "scripts/check.py",
    "src/pkg/__init__.py",
    "src/pkg/core.py",
    "src/pkg/sub/__init__.py",
    "setup.py",
    "json.py",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with files that run nothing."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def followed(project: Path, text: str, name: str = "hooks/a.sh") -> ScriptDependencies:
    """What a script with this text runs, without itself, from the project on."""
    (project / name).write_text(text)
    found = find_dependencies(project, [project / name])
    files = tuple(Path(path.relative_to(project).as_posix()) for path in found.files[1:])
    return ScriptDependencies(files, found.unseen)


def names(project: Path, text: str, name: str = "hooks/a.sh") -> list[str]:
    """The names of the files that a script with this text runs."""
    return sorted(str(path) for path in followed(project, text, name).files)


@pytest.mark.parametrize("line", [". ~/scripts/run.sh", '"$HOME/scripts/run.sh"'])
def test_a_file_below_the_home(project: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """It counts where it is a file of the project."""
    monkeypatch.setenv("HOME", str(project))
    assert names(project, line) == ["scripts/run.sh"]


@pytest.mark.parametrize(
    "line",
    [
        'source "$DIR/lib/common.sh"',
        '. "$(dirname "$0")/lib/common.sh"',
        '. "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/lib/common.sh"',
        ". ${0%/*}/lib/common.sh",
        ". $(dirname $0)/lib/common.sh",
        "[ -f x ] && . hooks/lib/common.sh",
        "if ! bash -e hooks/lib/common.sh; then exit 2; fi",
        'for x in 1 2; do . "$CLAUDE_PROJECT_DIR"/hooks/lib/common.sh; done',
        'LIB="$HERE/lib/common.sh"\n. "$LIB"',
        'A=1 "$HERE"/lib/common.sh --flag "$x"',
        "RESULT=$(hooks/lib/common.sh)",
        "case $x in a) sh hooks/lib/common.sh ;; esac",
        "exec hooks/lib/common.sh",
        "bash \\\n  hooks/lib/common.sh",
    ],
)
def test_a_shell_script(project: Path, line: str) -> None:
    """Whatever it begins with that only a shell can work out."""
    assert names(project, f"set -e\n{line}\n") == ["hooks/lib/common.sh"]


@pytest.mark.parametrize(
    "line",
    [
        "# . hooks/lib/common.sh",
        "cat setup.py",
        'echo "see setup.py"',
        'case "$file" in setup.py) exit 2 ;; esac',
        "bash -c 'echo scripts/run.sh'",
        "source /etc/profile",
        ". ../../outside.sh",
    ],
)
def test_what_is_only_named_is_not_run(project: Path, line: str) -> None:
    """A guard that protects a file does not run it."""
    assert names(project, line) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import beside", ["hooks/beside.py"]),
        ("import os, beside as b", ["hooks/beside.py"]),
        ("from .beside import x", ["hooks/beside.py"]),
        ("from . import beside", ["hooks/beside.py"]),
        (
            "from pkg import (\n    core,\n    other as o,\n)",
            ["src/pkg/__init__.py", "src/pkg/core.py"],
        ),
        ("import pkg.sub", ["src/pkg/__init__.py", "src/pkg/sub/__init__.py"]),
        ("import json", []),
        ("import requests", []),
    ],
)
def test_a_python_script(project: Path, line: str, found: list[str]) -> None:
    """Modules beside it and in the project; those of Python only where they hide Python's own."""
    assert names(project, f"{line}\n", "hooks/a.py") == found


def test_python_that_cannot_be_read_is_reported(project: Path) -> None:
    """Of another version, or broken; an odd escape is neither."""
    found = followed(project, "import beside\nprint 'x'\n", "hooks/a.py")
    assert found == ScriptDependencies(
        (), ("hooks/a.py: it is not Python code that can be read here",)
    )
    assert names(project, "import beside\nx = '\\d'\n", "hooks/a.py") == ["hooks/beside.py"]


@pytest.mark.parametrize(
    "line",
    ["const b = require('./lib/b')", 'import b from "./lib/b.js"', "await import('./lib/b.js')"],
)
def test_a_node_script(project: Path, line: str) -> None:
    """Files, and no packages."""
    text = f"const fs = require('fs');\n{line};\nrequire('./lib/pack');"
    assert names(project, text, "hooks/a.mjs") == ["hooks/lib/b.js", "hooks/lib/pack/index.js"]


def test_a_script_without_an_ending_is_known_by_its_first_line(project: Path) -> None:
    """As the system knows it."""
    assert names(project, "#!/usr/bin/env python3\nimport beside\n", "hooks/a") == [
        "hooks/beside.py"
    ]
    assert names(project, "#!/bin/bash\n. scripts/tool\n", "hooks/a") == ["scripts/tool"]
    assert names(project, "import beside\n", "hooks/a") == []


def test_it_continues_from_there(project: Path) -> None:
    """Through several languages, and around in a circle."""
    (project / "scripts/run.sh").write_text("python3 scripts/check.py\nbash hooks/a.sh")
    (project / "scripts/check.py").write_text("import pkg")
    assert names(project, "scripts/run.sh") == [
        "scripts/check.py",
        "scripts/run.sh",
        "src/pkg/__init__.py",
    ]


def test_a_module_that_is_run(project: Path) -> None:
    """With the packages it is in."""
    found = names(project, "python3 -m pkg.core")
    assert found == ["src/pkg/__init__.py", "src/pkg/core.py"]
    assert files_of_program("a.b") == (
        "a/b.py",
        "a/b/__main__.py",
        "a/__init__.py",
        "a/b/__init__.py",
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('. "$CONFIG"', 'the file in `. "$CONFIG"` is known only when it runs'),
        (
            'python3 "$DIR/$name.py"',
            'the file in `python3 "$DIR/$name.py"` is known only when it runs',
        ),
        ('. "$DIR/nowhere.sh"', 'the file in `. "$DIR/nowhere.sh"` is known only when it runs'),
        ("npm test", "npm runs commands from other files"),
    ],
)
def test_what_cannot_be_seen_is_said(project: Path, line: str, words: str) -> None:
    """For a person to look at."""
    assert followed(project, line).unseen == (f"hooks/a.sh: {words}",)
    assert is_task_runner("/usr/bin/make")


def test_a_script_that_is_not_read_to_its_end_is_reported(project: Path) -> None:
    """What it runs after that is not known."""
    assert followed(project, "ls\n" * 6000 + ". scripts/run.sh").unseen == (
        "hooks/a.sh: it is too long or nested too deeply to be read completely",
    )


def test_there_is_an_end_to_it(project: Path) -> None:
    """A hundred files, which is said."""
    for number in range(150):
        (project / f"scripts/{number}.sh").write_text(f"bash scripts/{number + 1}.sh\n")
    all_at_once = "\n".join(f"bash scripts/{number}.sh" for number in range(150))
    found = followed(project, all_at_once)
    assert (len(found.files), found.unseen) == (99, ("more than 100 files",))


@example(". ~$'a\\0b'/x")
@example(". ~/$'a\\0b'")
@given(st.text(alphabet="$(){}\"'`\\;|&. \nabc=-/*#~", max_size=300))
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever a repository has in its files, nothing is raised."""
    folder = tmp_path_factory.mktemp("any")
    for name in ("a.sh", "a.py", "a.js"):
        (folder / name).write_text(text)
        assert find_dependencies(folder, [folder / name]).files[0] == folder / name
