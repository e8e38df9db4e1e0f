"""One table of names that agents and other programs obey: the jail, the sandbox and the policy all know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import INSTRUCTIONS, FileJail, ShellPolicy, protected
from hookline.containment.protected import AGENT_CONFIGURATION, RUN_BELOW
from hookline.containment.sandbox.work_tree import WorkTree
from hookline.errors import ProtectedPathError

OBEYED = sorted(AGENT_CONFIGURATION | INSTRUCTIONS)


@pytest.mark.parametrize("name", OBEYED)
def test_what_agents_obey_is_protected_everywhere(tmp_path: Path, name: str) -> None:
    """The jail refuses it at any depth and in any case, and what a command makes of it does not stay."""
    jail = FileJail(tmp_path)
    for path in (name, f"sub/{name}", name.upper()):
        with pytest.raises(ProtectedPathError):
            jail.write_text(path, "planted")
    tree = WorkTree(str(tmp_path))
    visit = tree.enter()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / name).write_text("planted")
    tree.leave(visit)
    assert visit.moved == [f"sub/{name}.from-command"]


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS - {"CLAUDE.local.md"}))
def test_the_policy_denies_writing_instructions(name: str) -> None:
    """What is plainly written in a command is denied before it runs."""
    assert ShellPolicy.default().judge(f"echo x > {name}").decision == "deny"


def test_nothing_of_the_whole_table_stays(tmp_path: Path) -> None:
    """What a command makes under any of its names, also those that count in one directory alone, is moved aside."""
    names = [*protected.OBEYED]
    names += [
        f"{directory}/{name}" for directory, below in RUN_BELOW.items() for name in sorted(below)
    ]
    tree = WorkTree(str(tmp_path))
    visit = tree.enter()
    for name in names:
        (tmp_path / "sub" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sub" / name).write_text("planted")
    tree.leave(visit)
    assert set(visit.moved) == {f"sub/{name}.from-command" for name in names}
