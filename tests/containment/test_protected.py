"""One table of names that agents and other programs obey: the jail, the sandbox and the policy all know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.command_hooks import Dialect
from hookline.command_hooks.dialect import all_dialects
from hookline.containment import INSTRUCTIONS, PROTECTED, FileJail, ShellPolicy, protected
from hookline.containment.protected import AGENT_CONFIGURATION, RUN_BELOW
from hookline.containment.sandbox.tables import HELD
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


@pytest.mark.parametrize("dialect", all_dialects().values(), ids=lambda each: each.name)
def test_the_folders_of_every_dialect_are_protected(dialect: Dialect) -> None:
    """Else a command could plant hooks there, which the next run obeys."""
    for folder in dialect.configuration_folders:
        if (
            folder == ".github"
        ):  # workflows and templates are the project's own: only what is below is an agent's
            missing = set(dialect.protected_folders) - PROTECTED
        else:
            missing = {folder} - (PROTECTED & set(HELD))
        assert not missing, (
            f"add {missing} to containment/protected.py and HELD of sandbox/tables.py"
        )


BY_PLACE = """
.config/mise/config.toml .config/mise/conf.d/a.toml mise/config.toml mise/config.dev.toml mise/conf.d/a.toml
mise.dev.toml .mise.dev.local.toml .github/hooks/a.json .github/agents/a.md .github/prompts/a.md
.github/instructions/a.md .github/skills/a/SKILL.md x.code-workspace a.sublime-project .lefthook-local.json
lefthook-local.toml .envrc.x .vim/coc-settings.json .repo/manifest.xml _MTN/monotonerc
""".split()
BY_PLACE += [f"{directory}/{name}" for directory, below in RUN_BELOW.items() for name in below]


@pytest.mark.parametrize("name", sorted(BY_PLACE))
def test_the_jail_knows_names_by_directory_and_by_pattern(tmp_path: Path, name: str) -> None:
    """At any depth and in any spelling; a list of the caller's own replaces them."""
    directory, _, last = name.rpartition("/")
    spelled = f"{directory}./{last}" if directory else f"{last}."
    for path in (name, f"sub/{name}", name.upper(), spelled):
        with pytest.raises(ProtectedPathError):
            FileJail(tmp_path).write_text(path, "planted")
        with pytest.raises(ProtectedPathError):
            FileJail(tmp_path, protected=PROTECTED - {"AGENTS.md"}).write_text(path, "planted")
    FileJail(tmp_path, protected=[".git"]).write_text(name, "x")
    with pytest.raises(ProtectedPathError):
        FileJail(tmp_path).remove(name)


@pytest.mark.parametrize(
    "name",
    """
    .github/workflows/ci.yml .github/dependabot.yml hooks/a.json .config/x.toml config.toml docs/mise/index.md
    src/agents/a.py prompts/a.md instructions/a.md .vim/x.vim misery.toml
    """.split(),
)
def test_the_jail_writes_other_files_beside_them(tmp_path: Path, name: str) -> None:
    """A name that counts in one directory alone is like others elsewhere."""
    FileJail(tmp_path).write_text(name, "x")


@pytest.mark.parametrize("place", [".config/hookline", ".config/git", "elsewhere/hookline"])
def test_the_configuration_of_the_user_is_not_written(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jail of the whole home refuses what says whom to trust and which programs git runs, wherever that is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOOKLINE_CONFIG_DIR", raising=False)
    if place.startswith("elsewhere"):
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/elsewhere")
    (tmp_path / place).mkdir(parents=True)
    with FileJail(tmp_path) as jail:
        for path in (f"{place}/config", f"{place}/sub/x", f"{place}"):
            with pytest.raises(ProtectedPathError):
                jail.write_text(path, "planted")
        with pytest.raises(ProtectedPathError):
            jail.remove(place.partition("/")[0], recursive=True)
        jail.write_text(f"{Path(place).parent}/other", "plain")
