"""What is listed stands in columns, whatever the names are; and the command is there as a module, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hookline.cli.terminal import columns, in_columns

_SOURCE = Path(__file__).parents[2] / "src"
_HOOKS = """
[[hooks]]
on = "before_tool_use"
do = "log"
name = "a-hook-with-a-name-that-is-longer-than-most-names-are"

[[hooks]]
on = "before_tool_use"
do = "log"
name = "\u6f22\u5b57"
"""


def test_a_long_name_does_not_shift_the_columns(place: Any) -> None:
    """Each column begins in the same place in every line."""
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(_HOOKS, encoding="utf-8")
    lines = place.run("hooks", "list", "--without", "bash").stdout.splitlines()
    assert any("longer-than-most" in line for line in lines)
    ends = {columns(line[: line.rindex("  ") + 2]) for line in lines if line.endswith("always")}
    assert len(ends) == 1, "\n".join(lines)


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    """Wide characters count twice, and nothing is left at the end of a line."""
    assert in_columns([["a", "b", "c"], ["\u6f22", "", ""]]) == ["a   b  c", "\u6f22"]
    assert in_columns([]) == []


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """`python -m hookline` does what `hookline` does, and a module in the working directory takes nobody's place."""
    (tmp_path / "argparse.py").write_text("raise SystemExit('taken over')\n")
    (tmp_path / "msgspec.py").write_text("raise SystemExit('taken over')\n")
    env = {**os.environ, "PYTHONPATH": str(_SOURCE), "HOME": str(tmp_path / "home")}

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hookline", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    assert ran("--version").stdout.startswith("hookline 0.")
    wrong = ran("rum", "x")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "hookline: there is no command 'rum'. Did you mean 'run'?\n",
    )
    assert ran("runs").returncode == 0
