"""One table of names that agents and other programs obey: the jail, the sandbox and the policy all know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import INSTRUCTIONS, FileJail, ShellPolicy
from hookline.containment.protected import AGENT_CONFIGURATION
from hookline.containment.sandbox.tables import PROTECTED as HELD
from hookline.containment.sandbox.tables import PROTECTED_IF_THERE
from hookline.errors import ProtectedPathError

OBEYED = sorted(AGENT_CONFIGURATION | INSTRUCTIONS)


@pytest.mark.parametrize("name", OBEYED)
def test_what_agents_obey_is_protected_everywhere(tmp_path: Path, name: str) -> None:
    """The jail refuses it at any depth and in any case, the sandbox has it in a table, the policy denies the write."""
    jail = FileJail(tmp_path)
    for path in (name, f"sub/{name}", name.upper()):
        with pytest.raises(ProtectedPathError):
            jail.write_text(path, "planted")
    assert any(held == name or held.endswith(f"/{name}") for held in (*HELD, *PROTECTED_IF_THERE))


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS - {"CLAUDE.local.md"}))
def test_the_policy_denies_writing_instructions(name: str) -> None:
    """What is plainly written in a command is denied before it runs."""
    assert ShellPolicy.default().judge(f"echo x > {name}").decision == "deny"
