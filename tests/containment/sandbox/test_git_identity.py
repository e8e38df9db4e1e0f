"""What the user's own configuration of git names inside the work directory is kept like a repository's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hookline.containment import Sandbox
from hookline.errors import SandboxError

from .conftest import ask_git, needs_bubblewrap

pytestmark = needs_bubblewrap


@pytest.fixture
def gitconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, in a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    return home / ".gitconfig"


NAMED = {
    "hooks": "[core]\n\thooksPath = {work}/tools/hooks\n",
    "an included file": "[include]\n\tpath = {work}/tools/settings\n",
    "an included file of some repositories": '[includeIf "gitdir:{work}/"]\n\tpath = {work}/tools/settings\n',
    "a program": "[core]\n\tfsmonitor = {work}/tools/program\n",
    "a filter": '[filter "x"]\n\tclean = sh {work}/tools/program\n[core]\n\tattributesFile = {work}/tools/attributes\n',
}


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there yet"])
@pytest.mark.parametrize("what", NAMED)
def test_whole_paths_of_the_users_own_file_are_kept(
    work: Path, gitconfig: Path, marker: Path, what: str, is_there: bool
) -> None:
    """Hooks, included files, programs and attributes: nothing there changes, and hooks or settings do not come."""
    gitconfig.write_text(NAMED[what].format(work=work))
    tools = work / "tools"
    (tools / "hooks").mkdir(parents=True)
    if is_there or what in {"a program", "a filter"}:
        (tools / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
        (tools / "program").write_text("#!/bin/sh\ncat\n")
        (tools / "settings").write_text("")
        (tools / "attributes").write_text("* filter=x\n")
        for path in (tools / "hooks" / "pre-commit", tools / "program"):
            path.chmod(0o755)
    elif what == "hooks":
        (tools / "hooks").rmdir()
    plant = (
        f"mkdir -p tools/hooks; for f in tools/hooks/pre-commit tools/program; do "
        f"printf '#!/bin/sh\\ntouch {marker}\\n' > $f; chmod +x $f; done; "
        f"printf '[core]\\n\\tfsmonitor = \"touch {marker};false\"\\n' > tools/settings; echo y > file"
    )
    Sandbox(work, "required").run_sync(plant)
    ask_git(work)
    assert not marker.exists()
    subprocess.run(["bash", "-c", plant], cwd=work, check=True)
    ask_git(work)
    assert marker.exists(), "the way is real"


def test_hooks_that_a_conditional_file_names_are_kept(
    work: Path, gitconfig: Path, marker: Path
) -> None:
    """A file that git includes in some repositories alone may name a directory of each of them."""
    gitconfig.write_text(f'[includeIf "gitdir:{work}/"]\n\tpath = of-work\n')
    gitconfig.with_name("of-work").write_text("[core]\n\thooksPath = .team/hooks\n")
    plant = (
        f"mkdir -p .team/hooks; printf '#!/bin/sh\\ntouch {marker}\\n' > .team/hooks/pre-commit; "
        "chmod +x .team/hooks/pre-commit"
    )
    Sandbox(work, "required").run_sync(plant)
    ask_git(work)
    assert not marker.exists()
    subprocess.run(["bash", "-c", plant], cwd=work, check=True)
    ask_git(work)
    assert marker.exists(), "the way is real"


def test_a_new_repository_has_none_of_the_hooks_that_the_users_own_file_names(
    work: Path, gitconfig: Path, marker: Path
) -> None:
    """It was not there when the command began, and may stay; what would run in it does not."""
    gitconfig.write_text("[core]\n\thooksPath = .team/hooks\n")
    plant = (
        "git init -q sub; mkdir -p sub/.team/hooks; cd sub/.team/hooks; "
        f"printf '#!/bin/sh\\ntouch {marker}\\n' > pre-commit; "
        "chmod +x pre-commit"
    )
    ran = Sandbox(work, "required").run_sync(plant)
    assert ran.set_aside == ("sub/.team/hooks.from-command",)
    ask_git(work)
    assert not marker.exists()
    subprocess.run(["bash", "-c", plant], cwd=work, check=True)
    ask_git(work)
    assert marker.exists(), "the way is real"


def test_hooks_that_are_the_work_directory_itself_are_refused(work: Path, gitconfig: Path) -> None:
    """Nothing could be written there any more; the error says what to change."""
    gitconfig.write_text(f"[core]\n\thooksPath = {work}\n")
    with pytest.raises(SandboxError, match=r"configuration of git names the directory"):
        Sandbox(work, "required").run_sync("true")
