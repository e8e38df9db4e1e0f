"""Nothing that a contained command leaves behind runs on the host: each way is tried, and then the real tool is run."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from hookline.containment import FileJail, Sandbox, SandboxGrant, SandboxPaths
from hookline.containment.protected import OBEYED, RUN_BELOW, RUN_BY_PATTERN
from hookline.containment.sandbox import bubblewrap, tree_index
from hookline.containment.sandbox import work_tree as work_tree_module
from hookline.containment.sandbox.repositories import pointer_targets
from hookline.containment.sandbox.tree_index import TreeIndex
from hookline.containment.sandbox.work_tree import WorkTree, work_tree
from hookline.errors import SandboxError, UsageError

from .conftest import GIT, Place, ask_git, needs_bubblewrap

pytestmark = needs_bubblewrap

FSMONITOR = "git config core.fsmonitor '{run};false'"
WAYS = {
    "a nested repository in the index": (
        "git init -q sub; cd sub; git config user.email a@b; git config user.name a; echo x>f; git add f; "
        f"git commit -qm x; {FSMONITOR}; cd ..; git add sub"
    ),
    "an existing nested repository": f"cd nested; {FSMONITOR}; cd ..; git add nested",
    "a nested repository that was moved and made anew": (
        f"mv nested old; git init -q nested; cd nested; {FSMONITOR}"
    ),
    "a git directory that was moved and made anew": (
        f"cd nested; mv .git old; git init -q .; {FSMONITOR}"
    ),
    "a pointer to a git directory": (
        f"git init -q --bare hidden; git -C hidden config core.bare false; "
        f"git -C hidden config core.worktree $PWD/point; cd hidden; {FSMONITOR}; cd ..; "
        "mkdir point; echo gitdir: $PWD/hidden > point/.git; git add point"
    ),
    "config.worktree": (
        "printf '[core]\\nfsmonitor = \"{run};false\"\\n' > .git/config.worktree; "
        "git config extensions.worktreeConfig true"
    ),
    "commondir": (
        f"git init -q other; cd other; {FSMONITOR}; cd ..; echo ../other/.git > .git/commondir"
    ),
    "a work tree's commondir": (
        "git worktree add -q tree; git init -q other; cd other; " + FSMONITOR + "; cd ..; "
        "echo $PWD/other/.git > .git/worktrees/tree/commondir"
    ),
    "hooks in the repository": "printf '#!/bin/sh\\n{run}' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "hooks in a new repository": (
        "git init -q sub; printf '#!/bin/sh\\n{run}' > sub/.git/hooks/post-index-change; "
        "chmod +x sub/.git/hooks/*; cd sub; touch f; git add f"
    ),
    "hooks where there were none": (
        "rm -rf nested/.git/hooks; mkdir nested/.git/hooks; printf '#!/bin/sh\\n{run}' > nested/.git/hooks/pre-commit; "
        "chmod +x nested/.git/hooks/pre-commit"
    ),
    "a bare repository": (
        f"git init -q --bare bare; cd bare; git config core.bare false; git config core.worktree .; {FSMONITOR}"
    ),
    "a repository without its name": (
        f"git init -q sub; cd sub; {FSMONITOR}; git config core.worktree ..; mv .git/* .; rm -rf .git"
    ),
    "a directory that cannot be listed": (
        f"git init -q sub; cd sub; {FSMONITOR}; cd ..; git add sub; chmod 0311 sub"
    ),
    "a filter": (
        "git init -q sub; cd sub; git config filter.x.clean '{run};cat'; echo '* filter=x' > .gitattributes; "
        "echo y > f; git add f; echo yyy > f"
    ),
    "an include": (
        "git init -q sub; cd sub; printf '[core]\\nfsmonitor = \"{run};false\"\\n' > inc; "
        "git config include.path ../inc"
    ),
    "a byte that git reads differently": (
        'git init -q sub; cd sub; printf \'[core]\\n\\fsmonitor = false\\n\\tfsmonitor\\v = "{run};false"\\n[core]\\n'
        '\\tfsmonitor = "{run};false"\\n\' >> .git/config'
    ),
    "a submodule": (
        "mkdir evil; git init -q --bare .git/modules/evil; cd .git/modules/evil; git config core.bare false; "
        f"git config core.worktree ../../../evil; {FSMONITOR}; cd ../../..; "
        "echo gitdir: ../.git/modules/evil > evil/.git"
    ),
    "a repository inside a directory of another system": (
        f"mkdir _darcs; git init -q _darcs/x; cd _darcs/x; {FSMONITOR}"
    ),
    "a repository inside what is moved aside": (
        f"mkdir -p s/.claude; git init -q s/.claude/x; cd s/.claude/x; {FSMONITOR}"
    ),
    "a repository that is very deep": (
        f"d=$(printf 'a/%.0s' $(seq 230))a; mkdir -p $d; git init -q $d; cd $d; {FSMONITOR}"
    ),
    "many names beside it": (
        f"git init -q s; cd s; {FSMONITOR}; cd .git; touch config.from-command; "
        "for i in 1 2 3 4 5 6 7 8 9; do touch config.from-command-$i; done"
    ),
    "a link to a git directory": f"git init -q d; cd d; {FSMONITOR}; cd ..; mkdir s; ln -s ../d/.git s/.git",
}


@pytest.mark.parametrize("way", WAYS)
def test_git_runs_nothing_that_was_planted(work: Path, marker: Path, way: str) -> None:
    """Whatever a command leaves in a tree, git status, git log and a commit run none of it."""
    (work / ".git" / "info").mkdir(exist_ok=True)
    command = WAYS[way].replace("{run}", f"touch {marker}")
    Sandbox(work, "required").run_sync(command)
    ask_git(work)
    assert not marker.exists()


@pytest.mark.parametrize("way", [way for way in WAYS if "work tree" not in way])
def test_the_ways_are_real(work: Path, marker: Path, way: str) -> None:
    """Without the sandbox most of them work: what the test above shows is not that they are mistakes."""
    command = WAYS[way].replace("{run}", f"touch {marker}")
    subprocess.run(["bash", "-c", command], cwd=work, capture_output=True)
    ask_git(work)
    if way not in {
        "config.worktree",
        "a byte that git reads differently",
        "a directory that cannot be listed",
    }:
        assert marker.exists()


def test_hooks_and_includes_that_the_configuration_names_are_kept(work: Path, marker: Path) -> None:
    """core.hooksPath and include.path may lead into the tree: what is there stays, what is not does not come."""
    (work / "tools" / "hooks").mkdir(parents=True)
    (work / "tools" / "clean.sh").write_text("cat\n")
    subprocess.run(["git", "-C", work, "config", "core.hooksPath", "tools/hooks"], check=True)
    subprocess.run(["git", "-C", work, "config", "include.path", "../tools/included"], check=True)
    subprocess.run(
        ["git", "-C", work, "config", "filter.x.clean", "sh ./tools/clean.sh"], check=True
    )
    (work / ".gitattributes").write_text("* filter=x\n")
    evil = f"#!/bin/sh\\ntouch {marker}\\ncat"
    ran = Sandbox(work, "required").run_sync(
        f"printf '{evil}' > tools/hooks/pre-commit; chmod +x tools/hooks/*; printf '{evil}' > tools/clean.sh; "
        f"printf '[core]\\nfsmonitor = \"touch {marker};false\"\\n' > tools/included; echo y > file"
    )
    assert ran.set_aside == ("tools/included.from-command",)
    ask_git(work)
    assert not marker.exists()
    assert (work / "tools" / "clean.sh").read_text() == "cat\n"


def test_a_command_cannot_make_so_many_names_that_configuration_is_forgotten(
    work: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links and second names in repositories that it may leave behind take the place of nothing."""
    (work / "tools").mkdir()
    subprocess.run(["git", "-C", work, "config", "core.hooksPath", "tools/hooks"], check=True)
    subprocess.run(["git", "-C", work, "config", "include.path", "../tools/included"], check=True)
    many = "for i in $(seq 900); do echo $i.sample; done | xargs -n 1 ln a.sample"
    plant = (
        f"mkdir -p tools/hooks; printf '#!/bin/sh\ntouch {marker}\n' > tools/hooks/pre-commit; "
        f"chmod +x tools/hooks/pre-commit; printf '[core]\nfsmonitor = \"touch {marker};false\"\n' > tools/included"
    )
    sandbox = Sandbox(work, "required")
    made = sandbox.run_sync(
        "for each in one two; do git init -q $each; (cd $each/.git/hooks; echo > a.sample; "
        f"{many}); done"
    )
    assert made.set_aside == ()
    moved = ("tools/hooks.from-command", "tools/included.from-command")
    assert sandbox.run_sync(plant).set_aside == moved
    # As in a process that starts now, for which the repositories are the user's:
    monkeypatch.setattr(work_tree_module, "_trees", {})
    for each in moved:
        subprocess.run(["rm", "-r", work / each], check=True)
    assert sandbox.run_sync(plant).set_aside == moved
    ask_git(work)
    assert not marker.exists()


def test_too_many_names_are_an_error(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be looked at in full is not left unprotected without a word."""
    monkeypatch.setattr("hookline.containment.sandbox.work_tree._MOST_NAMED", 20)
    hooks = work / ".git" / "hooks"
    for number in range(30):
        (hooks / f"link{number}").symlink_to("missing")
    with pytest.raises(SandboxError, match=r"names more than 20 files.*\n?.*\.git/hooks' has"):
        Sandbox(work, "required").run_sync("true")


def test_links_that_lead_in_circles_are_followed_as_far_as_the_kernel_does(work: Path) -> None:
    """A link to something below itself gives another path at each step."""
    (work / "tools").mkdir()
    (work / "tools" / "loop").symlink_to("loop/x")
    subprocess.run(["git", "-C", work, "config", "core.hooksPath", "tools/loop/h"], check=True)
    assert Sandbox(work, "required").run_sync("true").exit_code == 0


def test_too_many_includes_are_an_error(work: Path) -> None:
    """The last ones would not be protected."""
    with (work / ".git" / "config").open("a") as file:
        file.writelines(f"[include]\n\tpath = ../included{number}\n" for number in range(300))
    with pytest.raises(SandboxError, match="includes more than 200 files"):
        Sandbox(work, "required").run_sync("true")


RELATIVE = {
    "an include": "git config include.path ../included",
    "an include beside the repository": "git config include.path ../../included",
    "hooks": "git config core.hooksPath hooks",
    "a link of a hook": "ln -s ../../../tools/hook .git/hooks/pre-commit",
}


@pytest.mark.parametrize("way", RELATIVE)
def test_a_repository_that_names_files_by_relative_paths_is_not_moved(
    work: Path, marker: Path, way: str
) -> None:
    """In another place these paths lead to other files, which a command could make."""
    subprocess.run(["sh", "-c", RELATIVE[way]], cwd=work / "nested", check=True)
    evil = f'[core]\\n\\tfsmonitor = "touch {marker};false"\\n'
    hook = f"#!/bin/sh\\ntouch {marker}\\n"
    ran = Sandbox(work, "required").run_sync(
        "mkdir -p new/tools; mv nested new/nested; mv nested/.git new/git; "
        f"for place in new new/nested; do mkdir -p $place/hooks; printf '{evil}' > $place/included; "
        f"printf '{hook}' | tee $place/hooks/pre-commit > new/tools/hook; done; chmod +x new/tools/hook new/*/hooks/*"
    )
    assert (work / "nested" / ".git").is_dir(), ran.text
    ask_git(work)
    assert not marker.exists()


def test_other_repositories_can_be_moved(work: Path) -> None:
    """Where configuration names nothing, it means the same everywhere."""
    assert Sandbox(work, "required").run_sync("mv nested moved").exit_code == 0


def test_a_fresh_repository_stays_and_can_be_worked_in(tmp_path: Path) -> None:
    """The command that makes it configures it. Commits, branches, merges, stashes and gc work in later ones too."""
    sandbox = Sandbox(tmp_path, "required")
    commands = (
        "git init -q . && git config user.name x && git config user.email x@x && git remote add origin ../elsewhere",
        "echo 1 > a && git add a && git commit -qm one",
        "git checkout -qb side && echo 2 > b && git add b && git commit -qm two && git checkout -q -",
        "git merge -q side && echo 3 > a && git stash -q && git stash pop -q && git commit -qam three",
        "git checkout -q side && git rebase -q - && git gc -q && git tag v1 && git log --oneline | wc -l",
    )
    for command in commands:
        ran = sandbox.run_sync(command)
        assert (ran.exit_code, ran.set_aside) == (0, ()), ran.text
    assert ran.text.strip() == "3"


def test_the_users_repository_can_be_worked_in(work: Path) -> None:
    """Commit, branch, merge, rebase, stash and gc work; its configuration and hooks stay as they are."""
    before = (work / ".git" / "config").read_bytes()
    git = " ".join(GIT)
    ran = Sandbox(work, "required").run_sync(
        f"set -e; git checkout -qb side; echo 2 > b; git add b; {git} commit -qm two; git checkout -q -; echo 4 > c; "
        f"git add c; {git} commit -qm four; {git} merge -q --no-edit side; echo 3 > file; {git} stash -q; "
        f"{git} stash pop -q; {git} commit -qam three; git checkout -q side; {git} rebase -q -; git gc -q; "
        "git log --oneline | wc -l"
    )
    assert (ran.exit_code, ran.text.strip(), ran.set_aside) == (0, "5", ()), ran.text
    assert (work / ".git" / "config").read_bytes() == before


def test_a_repository_that_a_command_made_is_read_only_for_later_ones(
    tmp_path: Path, marker: Path
) -> None:
    """Nobody can tell it from one that the user made meanwhile. What the same command puts into it does not stay."""
    work = tmp_path / "work"
    work.mkdir()
    sandbox = Sandbox(work, "required")
    assert sandbox.run_sync("git init -q sub; git -C sub config user.name x").set_aside == ()
    for attempt in (
        f"git -C sub config core.fsmonitor 'touch {marker};false'",
        "git -C sub remote add origin elsewhere",
        "printf '#!/bin/sh' > sub/.git/hooks/pre-commit",
    ):
        ran = sandbox.run_sync(attempt)
        assert (ran.exit_code != 0, ran.set_aside) == (True, ()), attempt
    ran = sandbox.run_sync(
        f"git init -q new; cd new; touch f; git add f; git config core.fsmonitor 'touch {marker};false'; "
        "printf '#!/bin/sh' > .git/hooks/pre-commit"
    )
    assert ran.set_aside == ("new/.git/config.from-command", "new/.git/hooks.from-command")
    ask_git(work)
    assert not marker.exists()


_REPLACED = ("git config user.name Me", "rm -rf .git && git init -q")
"""What a user does in a terminal: git replaces a file by renaming another, and the kernel then drops a mount on it."""


@pytest.mark.parametrize("by_user", _REPLACED)
async def test_what_the_user_replaces_while_a_command_runs_is_read_only_for_the_next(
    work: Path, by_user: str
) -> None:
    """While the first still runs, and when it has ended."""
    attempt = "echo '[core]' >> .git/config; git config user.name Evil"
    sandbox = Sandbox(work, "required")
    first = await sandbox.start("sleep 60", on_output=lambda _: None)
    subprocess.run(by_user, shell=True, cwd=work, check=True)  # noqa: ASYNC221 - the command runs elsewhere
    before = (work / ".git" / "config").read_bytes()
    assert (await sandbox.run(attempt)).exit_code != 0
    first.kill()
    await first.wait()
    assert first.set_aside == ()
    assert (await sandbox.run(attempt)).exit_code != 0
    assert (work / ".git" / "config").read_bytes() == before


def test_what_is_moved_aside_at_a_start_is_not_kept(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command above has replaced it, and ends a moment later: nothing is there to mount."""
    above, below = (work_tree_module.work_tree(str(path)) for path in (work, work / "nested"))
    visit = above.enter()
    config = work / "nested" / ".git" / "config"
    config.rename(config.with_name("before"))
    config.write_text("[core]\n\tfsmonitor = evil\n")
    monkeypatch.setattr(below, "_meet_others", list)
    started = below.enter()
    assert started.moved == [".git/config.from-command"]
    assert ".git/config" not in started.kept
    below.leave(started)
    above.leave(visit)


async def test_a_repository_that_the_user_clones_while_a_command_runs_is_read_only_once_none_runs(
    work: Path,
) -> None:
    """Until then nobody can tell it from one that the command made."""
    sandbox = Sandbox(work, "required")
    first = await sandbox.start("sleep 60", on_output=lambda _: None)
    clone = ["git", "clone", "-q", work / "nested", work / "clone"]
    subprocess.run(clone, check=True)  # noqa: ASYNC221 - the command runs elsewhere
    first.kill()
    await first.wait()
    assert first.set_aside == ()
    assert (await sandbox.run("git -C clone remote set-url origin evil")).exit_code != 0


async def test_what_the_user_replaces_while_a_command_runs_above_is_read_only_below(
    work: Path,
) -> None:
    """Also for the second command there, when the one above has ended."""
    attempt = "git config user.name Evil; git config user.name"
    above = await Sandbox(work, "required").start("sleep 60", on_output=lambda _: None)
    by_user = ["git", "-C", work / "nested", "config", "user.name", "Me"]
    subprocess.run(by_user, check=True)  # noqa: ASYNC221 - the command runs elsewhere
    inner = Sandbox(work / "nested", "required")
    below = await inner.start("sleep 60", on_output=lambda _: None)
    assert (await inner.run(attempt)).text.endswith("Me\n")
    above.kill()
    await above.wait()
    assert (await inner.run(attempt)).text.endswith("Me\n")
    below.kill()
    await below.wait()
    assert (above.set_aside, below.set_aside) == ((), ())


@pytest.mark.parametrize(
    "name",
    """
    sub/.rtx.local.toml .miserc.local.toml mise/config.x.toml mise/config.x.local.toml .config/mise.x.local.toml
    .hg/hgrc .jj/repo/config.toml mise.toml sub/.mise.toml sub/.envrc .config/mise/config.toml sub/.vscode/tasks.json
    sub/.idea/workspace.xml sub/.claude/settings.json sub/.cursor/hooks.json sub/.mcp.json sub/AGENTS.md
    sub/x.code-workspace sub/.nvim.lua sub/.exrc sub/.dir-locals.el .pre-commit-config.yaml lefthook.yml
    .github/hooks/x.json sub/.zed/tasks.json sub/.helix/languages.toml _darcs/prefs/defaults .devcontainer.json
    sub/.gemini/settings.json sub/.codex/config.toml sub/opencode.json sub/.devcontainer/devcontainer.json
    sub/kilo.json sub/.kilo/x sub/.opencode.json sub/gptme.local.toml sub/.kateproject.local sub/.deepagents/x
    agents.md Claude.md crush.md gemini.md a\\nb.code-workspace sub/q\\n.sublime-project sub/.envrc.\\nx
    """.split(),
)
def test_what_others_run_does_not_keep_its_name(tmp_path: Path, name: str) -> None:
    """At any depth: it gets another name, and the result says which. What existed is read-only."""
    sandbox = Sandbox(tmp_path, "required")
    name = name.replace("\\n", "\n")
    quoted = shlex.quote(name)
    ran = sandbox.run_sync(f'mkdir -p "$(dirname {quoted})"; echo evil > {quoted}')
    assert len(ran.set_aside) == 1
    assert ran.set_aside[0].endswith(".from-command")
    assert not (tmp_path / name).exists()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("as it was")
    sandbox.run_sync(f"echo evil > {quoted}; rm -f {quoted}")
    assert (tmp_path / name).read_text() == "as it was"


def test_documentation_about_agents_stays(tmp_path: Path) -> None:
    """In other capitals, a name is obeyed at the top alone."""
    ran = Sandbox(tmp_path, "required").run_sync("mkdir docs; echo x > docs/agents.md")
    assert ran.set_aside == ()
    assert (tmp_path / "docs" / "agents.md").exists()


def test_what_is_written_through_a_jail_stays(tmp_path: Path) -> None:
    """A jail asks or refuses first, so what came through it while a command ran is not the command's."""
    tree = WorkTree(str(tmp_path))
    (tmp_path / "sub").mkdir()
    visit = tree.enter()
    with FileJail(tmp_path, protected=()) as jail:
        jail.write_text("sub/AGENTS.md", "agreed")
    (tmp_path / "sub" / "CLAUDE.md").write_text("not agreed")
    tree.leave(visit)
    assert visit.moved == ["sub/CLAUDE.md.from-command"]
    assert (tmp_path / "sub" / "AGENTS.md").exists()


def test_what_a_user_makes_between_commands_stays(tmp_path: Path) -> None:
    """And is read-only from then on."""
    sandbox = Sandbox(tmp_path, "required")
    sandbox.run_sync("mkdir sub")
    (tmp_path / "sub" / ".envrc").write_text("as it was")
    assert sandbox.run_sync("echo x > sub/.envrc").set_aside == ()
    assert (tmp_path / "sub" / ".envrc").read_text() == "as it was"


async def test_a_background_command_is_checked_at_each_look_and_before_another_starts(
    tmp_path: Path,
) -> None:
    """What it has made by then is moved aside, and it says so as well as the one that starts."""
    sandbox = Sandbox(tmp_path, "required")
    first = await sandbox.start(
        "mkdir sub; echo x > sub/.envrc; echo x > sub/AGENTS.md; touch made; sleep 60",
        on_output=lambda _: None,
    )
    until = time.monotonic() + 20
    while not (tmp_path / "made").exists() and time.monotonic() < until:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.02)
    first.check()
    assert first.set_aside == ("sub/.envrc.from-command", "sub/AGENTS.md.from-command")
    (tmp_path / "sub" / ".envrc").write_text("made while it runs")
    second = await sandbox.run("true")
    assert not (tmp_path / "sub" / ".envrc").exists()
    assert second.exit_code == 0
    first.kill()
    await first.wait()
    assert "sub/.envrc.from-command-1" in first.set_aside


def test_the_next_start_checks_after_a_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while its command runs does not look any more. The next one does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    (work / "old").mkdir(parents=True)
    (work / "old" / ".envrc").write_text("the user's")
    program = textwrap.dedent(
        f"""
        import asyncio
        from hookline.containment import Sandbox

        async def main():
            sandbox = Sandbox({str(work)!r}, "required")
            running = await sandbox.start("mkdir new; echo evil > new/.envrc; touch made; sleep 60", on_output=print)
            await running.wait()

        asyncio.run(main())
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    until = time.monotonic() + 30
    while not (work / "made").exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (work / "new" / ".envrc").exists()
    Sandbox(work, "required")
    assert not (work / "new" / ".envrc").exists()
    assert (work / "new" / ".envrc.from-command").exists()
    assert (work / "old" / ".envrc").read_text() == "the user's"
    assert list((tmp_path / "state").rglob("*.json")) == []


# --- the real tools -----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("hg") is None, reason="mercurial is not installed")
@pytest.mark.parametrize(
    "command",
    [
        "printf '[hooks]\\npre-status = {run}\\npre-log = {run}\\n' > .hg/hgrc",
        "printf '[alias]\\nstatus = !{run}\\n' > .hg/hgrc",
        "hg init sub; printf '[hooks]\\npre-status = {run}\\n' > sub/.hg/hgrc",
        "hg init other; printf '[hooks]\\npre-status = {run}\\n' > other/.hg/hgrc; mkdir sub; mkdir sub/.hg; "
        "echo $PWD/other/.hg > sub/.hg/sharedpath; cp other/.hg/requires sub/.hg/; echo shared >> sub/.hg/requires",
    ],
)
def test_mercurial_runs_nothing_that_was_planted(
    tmp_path: Path, marker: Path, command: str
) -> None:
    """hgrc names programs, and sharedpath leads to another one."""
    work = tmp_path / "work"
    subprocess.run(["hg", "init", work], check=True)
    Sandbox(work, "required").run_sync(command.replace("{run}", f"touch {marker}"))
    for place in (work, work / "sub"):
        for words in (["status"], ["log"], ["summary"]):
            if place.exists():
                subprocess.run(["hg", *words], cwd=place, capture_output=True, timeout=60)
    assert not marker.exists()


@pytest.mark.skipif(shutil.which("direnv") is None, reason="direnv is not installed")
def test_direnv_runs_nothing_that_was_planted(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a new .envrc nor another text in one that the user has allowed, nor in a file that it sources."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    work = tmp_path / "work"
    work.mkdir()
    (work / "env.sh").write_text("export A=b\n")
    (work / ".envrc").write_text("source ./env.sh\n")
    subprocess.run(["direnv", "allow", work], check=True, capture_output=True)
    Sandbox(work, "required").run_sync(
        f"echo 'touch {marker}' >> .envrc; echo 'touch {marker}' >> env.sh; "
        f"mkdir sub; echo 'touch {marker}' > sub/.envrc"
    )
    for place in (work, work / "sub"):
        subprocess.run(["direnv", "export", "bash"], cwd=place, capture_output=True, timeout=60)
    assert not marker.exists()


@pytest.mark.skipif(shutil.which("mise") is None, reason="mise is not installed")
def test_mise_runs_nothing_that_was_planted(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a file that the user trusts, nor in one beside or below it."""
    for name in ("MISE_DATA_DIR", "MISE_CONFIG_DIR", "MISE_STATE_DIR", "MISE_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("MISE_OFFLINE", "1")
    work = tmp_path / "work"
    work.mkdir()
    (work / "mise.toml").write_text("[env]\nA = 'b'\n")
    subprocess.run(["mise", "trust", work / "mise.toml"], check=True, capture_output=True)
    evil = f"[env]\\nA = \"{{{{ exec(command='touch {marker}') }}}}\"\\n"
    Sandbox(work, "required").run_sync(
        f"printf \"%b\" '{evil}' > mise.toml; printf \"%b\" '{evil}' > mise.local.toml; mkdir -p sub .config/mise; "
        f"printf \"%b\" '{evil}' > sub/mise.toml; printf \"%b\" '{evil}' > .config/mise/config.toml"
    )
    for place in (work, work / "sub"):
        subprocess.run(["mise", "env", "-s", "bash"], cwd=place, capture_output=True, timeout=60)
    assert not marker.exists()


@pytest.mark.skipif(shutil.which("mise") is None, reason="mise is not installed")
def test_mise_runs_nothing_under_any_name_of_an_environment(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `MISE_ENV=x` it reads further files, also where the work directory is called `mise`."""
    for name in ("MISE_DATA_DIR", "MISE_CONFIG_DIR", "MISE_STATE_DIR", "MISE_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("MISE_OFFLINE", "1")
    monkeypatch.setenv("MISE_ENV", "x")
    monkeypatch.setenv("MISE_TRUSTED_CONFIG_PATHS", str(tmp_path))
    work = tmp_path / "mise"
    work.mkdir()
    before = (
        "mise. .mise. .rtx. .config/mise. .config/mise/config. .mise/config. mise/config. config."
    )
    names = [f"{each}{end}" for each in before.split() for end in ("x.toml", "x.local.toml")]
    evil = f"[env]\\nA = \"{{{{{{{{ exec(command='echo {{}} >> {marker}') }}}}}}}}\"\\n"
    plant = "; ".join(
        f"mkdir -p {os.path.dirname(name) or '.'}; printf '%b' {shlex.quote(evil.format(name))} > {name}"
        for name in names
    )
    for where in ("host", "workspace"):
        Sandbox(work, place="host").run_sync(plant, place=where)  # type: ignore[arg-type]
        subprocess.run(["mise", "env", "-s", "bash"], cwd=work, capture_output=True, timeout=60)
        assert marker.exists() == (where == "host")
        marker.unlink(missing_ok=True)
        shutil.rmtree(work)
        work.mkdir()


def test_a_directory_that_is_closed_to_us_hides_nothing(place: Place) -> None:
    """Who knows the names in a directory gets at them, whether or not it can be listed or written."""
    place.run(
        "mkdir -p a b/c d; for d in a b/c d; do echo x > $d/.envrc; done; chmod 0311 a b/c; chmod 0555 b d; "
        "git init -q r; git -C r config core.fsmonitor x; git init -q s; git -C s config core.fsmonitor x; "
        "mkdir -p t/.git/worktrees/w; cd t/.git/worktrees/w; echo x > commondir; echo x > HEAD; cd ../../../..; "
        "chmod 0311 r/.git; chmod 0555 s/.git; "
        "chmod 0311 t/.git/worktrees/w t/.git/worktrees"
    )
    found = subprocess.run(["find", place.work], capture_output=True, text=True).stdout.split()
    assert not [path for path in found if path.endswith((".envrc", "/config", "commondir"))]
    assert len([path for path in found if path.endswith(".from-command")]) == 6


def test_a_directory_that_can_be_listed_and_not_entered_shows_nothing(place: Place) -> None:
    """Its owner can open it again, a command too: so it is covered as a whole."""
    closed = place.work / "closed"
    (closed / "sub").mkdir(parents=True)
    for name in (".envrc", "sub/.env", "sub/.envrc"):
        (closed / name).write_text("as it was")
    place.own()
    closed.chmod(0o644)
    seen = place.run("chmod 755 closed; cat closed/sub/.env; echo x > closed/sub/.envrc; echo ran")
    assert (seen.text.endswith("ran\n"), "as it was" in seen.text) == (True, False)
    closed.chmod(0o755)
    assert (closed / "sub" / ".envrc").read_text() == "as it was"


@pytest.mark.parametrize("mode", [0o644, 0o311, 0o000])
@pytest.mark.parametrize("name", ["d", "d/.git", ".vscode"])
def test_a_directory_that_the_user_has_closed_stays_as_it_is(
    place: Place, name: str, mode: int
) -> None:
    """Nothing in it is taken for a command's, and its mode is not changed."""
    closed = place.work / name
    closed.mkdir(parents=True)
    (closed / ".envrc").write_text("mine")
    (closed / "config").write_text("[core]\n\teditor = mine\n")
    place.own()
    closed.chmod(mode)
    assert place.run("echo ran").text == "ran\n"
    assert stat.S_IMODE(closed.stat().st_mode) == mode
    closed.chmod(0o755)
    assert sorted(path.name for path in closed.iterdir()) == [".envrc", "config"]


def test_a_submodule_with_the_name_of_a_directory_of_git_is_kept(
    work: Path, tmp_path: Path
) -> None:
    """Its configuration is one wherever it lies."""
    inner = work / ".git" / "modules" / "libs" / "logs"
    subprocess.run(["git", "init", "-q", "--bare", inner], check=True)
    before = (inner / "config").read_text()
    Sandbox(work, "required").run_sync(
        "git config -f .git/modules/libs/logs/config core.fsmonitor x"
    )
    assert (inner / "config").read_text() == before


@pytest.mark.parametrize(
    "plant",
    [
        "printf 'gitdir: a\\0b' > new/.git",
        "printf 'a\\0b' > new/commondir",
        "ln -s loop loop; echo 'gitdir: ../loop/x' > new/.git",
        "mkfifo new/commondir",
        "head -c 2000000 /dev/zero | tr '\\0' a > new/commondir",
        "printf 'gitdir: \\xff/../..' > new/.git",
        "for i in $(seq 1200); do ln -s $((i - 1)) new/$i; done; echo gitdir: 1200 > new/.git",
    ],
)
def test_a_pointer_that_leads_nowhere_stops_nobody(work: Path, plant: str) -> None:
    """It is moved aside like any other, and so is the rest."""
    ran = Sandbox(work, "required").run_sync(f"mkdir new; {plant}; echo x > new/.envrc")
    moved = {"new/.git.from-command", "new/commondir.from-command"} & {*ran.set_aside}
    assert (len(moved), "new/.envrc.from-command" in ran.set_aside) == (1, True)


@pytest.mark.parametrize("name", [".git", "commondir"])
@pytest.mark.parametrize("step", ["a/", "../", "link/"])
def test_a_pointer_that_is_too_long_is_not_followed_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: str
) -> None:
    """Neither through what is missing, nor up, nor through a link: each step costs more than the one before."""
    (tmp_path / "link").symlink_to(".")
    pointer = tmp_path / name
    pointer.write_text(("gitdir: " if name == ".git" else "") + step * 10_000)
    calls = {name: Mock(wraps=getattr(os, name)) for name in ("lstat", "readlink", "open")}
    for call, counter in calls.items():
        monkeypatch.setattr(os, call, counter)
    pointer_targets(str(pointer))
    assert sum(counter.call_count for counter in calls.values()) < 10


@pytest.mark.parametrize("names", [["b"] * 103, ["b" * 250] * 13], ids=["deep", "long"])
def test_a_closed_directory_that_is_too_deep_is_moved_and_looked_into(
    place: Place, names: list[str]
) -> None:
    """The index of a repository at the top may lead there: git would run what is in it."""
    deep = "/".join(names)
    ran = place.run(
        f"mkdir -p {deep}/sub; git init -q {deep}/sub; git -C {deep}/sub config core.fsmonitor x; "
        f"cd {deep}; for i in 1 2 3 4; do chmod 555 .; cd ..; done"
    )
    top, config = ran.set_aside
    assert top.startswith("deep.from-command-")
    assert config == f"{top}/{names[0]}/sub/.git/config.from-command"


def test_the_length_of_a_path_is_counted_in_bytes(tmp_path: Path) -> None:
    """The kernel does so; a directory beyond what it takes is moved to the top and looked into."""
    ran = Sandbox(tmp_path, "required").run_sync(
        "name=$(printf '\\xf0\\x9f\\x98\\x80%.0s' $(seq 62)); "
        "for i in $(seq 17); do mkdir $name; cd $name; done; echo x > .exrc"
    )
    assert any(path.startswith("deep.from-command") for path in ran.set_aside)
    found = subprocess.run(["find", tmp_path, "-name", ".exrc*"], capture_output=True, text=True)
    assert found.stdout.endswith("/.exrc.from-command\n")


@pytest.mark.parametrize(
    "plant",
    """
    .git/rebase-merge .git/rebase-apply .git/sl .git/glab-cli .jj/repo .bzr/branch _darcs/prefs sub/.vim sub/.repo
    sub/_MTN sub/.github sub/.config sub/mise .config/mise
    """.split(),
)
def test_a_link_in_place_of_a_directory_of_protected_names_does_not_keep_its_name(
    work: Path, plant: str
) -> None:
    """It leads to other files of these names, under which nobody looks for them."""
    ran = Sandbox(work, "required").run_sync(
        f"mkdir -p evil $(dirname {plant}); ln -s $PWD/evil {plant}"
    )
    assert ran.set_aside == (f"{plant}.from-command",)


@pytest.mark.parametrize("name", [".git/rebase-merge", "sub/.github", "sub/mise"])
def test_what_a_link_in_place_of_such_a_directory_leads_to_is_kept(work: Path, name: str) -> None:
    """A link of the user's stays one, and its target stays as it is."""
    target = work / "target"
    target.mkdir()
    link = work / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    ran = Sandbox(work, "required").run_sync(
        f"echo x > target/hooks; mkdir evil; ln -sfn $PWD/evil {name}"
    )
    assert (os.listdir(target), ran.set_aside) == ([], (f"{name}.from-command",))
    assert os.readlink(link) == str(target)


def test_a_tree_that_is_too_deep_does_not_stop_the_check(work: Path) -> None:
    """Neither by recursion, nor by descriptors, nor by the length of a path."""
    ran = Sandbox(work, "required").run_sync(
        "mkdir -p s .git/modules/$(printf 'a/%.0s' $(seq 1200)); echo x > s/.envrc; "
        "for i in $(seq 30); do mkdir $(printf 'b%.0s' $(seq 200)); cd b*; done; echo x > .envrc"
    )
    assert "s/.envrc.from-command" in ran.set_aside
    found = subprocess.run(
        ["find", ".", "-name", ".envrc"], cwd=work, capture_output=True, text=True
    )
    assert found.stdout == ""
    assert Sandbox(work, "required").run_sync("true").exit_code == 0


def test_what_links_of_the_users_configuration_lead_to_is_kept(work: Path) -> None:
    """Hooks and settings are often links into the tree."""
    (work / "scripts").mkdir()
    (work / "scripts" / "check").write_text("as it was")
    (work / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/check")
    (work / "sub").mkdir()
    (work / "shared").mkdir()
    (work / "shared" / "settings.json").write_text("as it was")
    (work / "sub" / ".vscode").symlink_to("../shared")
    Sandbox(work, "required").run_sync(
        "echo evil > scripts/check; echo evil > shared/settings.json; mv shared s2; mkdir shared; echo evil > shared/x"
    )
    assert (work / "scripts" / "check").read_text() == "as it was"
    assert (work / "sub" / ".vscode" / "settings.json").read_text() == "as it was"


def test_what_links_lead_to_does_not_come_later(work: Path, marker: Path) -> None:
    """A link of the user's may lead to nothing yet: who makes its target decides what is run or obeyed."""
    (work / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/check")
    (work / "sub").mkdir()
    (work / "sub" / ".vscode").symlink_to("../shared")
    (work / "sub" / ".envrc").symlink_to("../environment")
    ran = Sandbox(work, "required").run_sync(
        f"mkdir scripts shared; printf '#!/bin/sh\\ntouch {marker}\\n' > scripts/check; chmod +x scripts/check; "
        "echo x > shared/tasks.json; echo x > environment"
    )
    assert set(ran.set_aside) == {
        "environment.from-command",
        "scripts/check.from-command",
        "shared.from-command",
    }
    ask_git(work)
    assert not marker.exists()
    os.rename(work / "scripts" / "check.from-command", work / "scripts" / "check")
    ask_git(work)
    assert marker.exists(), "the way is real"


@pytest.mark.parametrize("name", [".git/hooks", ".git/config", "sub/.envrc", "sub/.git"])
def test_a_link_that_a_command_makes_does_not_wait_for_its_target(
    tmp_path: Path, name: str
) -> None:
    """It loses its name at once, although there is nothing behind it to be judged."""
    sandbox = Sandbox(tmp_path, "required")
    ran = sandbox.run_sync(
        f"git init -q .; mkdir sub; rm -rf {name}; ln -s $PWD/later {name}; ls -l {name}"
    )
    assert ran.set_aside == (f"{name}.from-command",)
    sandbox.run_sync("mkdir later")
    assert not os.path.lexists(tmp_path / name)


def test_what_a_linked_envrc_would_source_is_kept(tmp_path: Path) -> None:
    """A path in it begins where the link is."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "environment").write_text("source ./env.sh\n")
    (tmp_path / "sub" / ".envrc").symlink_to("../shared/environment")
    (tmp_path / "sub" / "env.sh").write_text("as it was")
    Sandbox(tmp_path, "required").run_sync("echo evil > sub/env.sh")
    assert (tmp_path / "sub" / "env.sh").read_text() == "as it was"


def test_what_the_configuration_above_names_is_kept(tmp_path: Path) -> None:
    """The work directory may be a part of a repository; and an included file may include another."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "core.hooksPath", "work/hooks"], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "include.path", "../work/one"], check=True)
    work = tmp_path / "work"
    work.mkdir()
    (work / "one").write_text("[include]\n\tpath = two\n")
    (work / "two").write_text("")
    ran = Sandbox(work, "required").run_sync("mkdir hooks; echo x > hooks/pre-commit; echo x > two")
    assert ran.set_aside == ("hooks.from-command",)
    assert (work / "two").read_text() == ""


@pytest.mark.parametrize(
    "name",
    [
        *("CLAUDE.md", "mise.toml", ".pre-commit-config.yaml", ".vscode", ".claude/settings.json"),
        *(".github/hooks", ".config/mise", "x.code-workspace", ".hg/hgrc"),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_what_links_above_lead_to_is_kept(tmp_path: Path, name: str, is_there: bool) -> None:
    """The work directory may be a part of a project: who opens that obeys what is linked there."""
    work = tmp_path / "work"
    work.mkdir()
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(work / "target")
    if is_there:
        (work / "target").write_text("as it was")
    ran = Sandbox(work, "required").run_sync("echo evil > target")
    if is_there:
        assert link.read_text() == "as it was"
    else:
        assert ran.set_aside == ("target.from-command",)


def test_a_link_above_to_the_work_directory_itself_is_refused(tmp_path: Path) -> None:
    """Whatever a command wrote would be obeyed."""
    (tmp_path / "work").mkdir()
    (tmp_path / ".vscode").symlink_to("work")
    with pytest.raises(SandboxError, match=r"other programs obey .*\.vscode"):
        Sandbox(tmp_path / "work", "required").run_sync("true")


def test_a_repository_that_a_link_above_leads_to_can_be_worked_in(work: Path) -> None:
    """As that of a home whose files are kept in another directory."""
    (work.parent / ".git").symlink_to(work / ".git")
    Sandbox(work, "required").run_sync(
        "git -c user.name=x -c user.email=x@x commit -q --allow-empty -m two; git config core.pager evil"
    )
    assert "evil" not in (work / ".git" / "config").read_text()
    found = subprocess.run(["git", "log", "--oneline"], cwd=work, capture_output=True, text=True)
    assert found.stdout.count("\n") == 2


def test_no_environment_file_is_made_that_an_envrc_loads(tmp_path: Path) -> None:
    """It is loaded as soon as it is there. Others may be made."""
    (tmp_path / ".envrc").write_text("dotenv_if_exists\nsource_env_if_exists .env.local\n")
    ran = Sandbox(tmp_path, "required").run_sync("mkdir sub; touch .env .env.local .env.x sub/.env")
    assert ran.set_aside == (".env.from-command", ".env.local.from-command")


def test_a_file_that_was_agreed_to_is_not_agreed_to_under_another_name(tmp_path: Path) -> None:
    """What came through a jail may be changed and moved by a command that runs meanwhile."""
    tree = WorkTree(str(tmp_path))
    visit = tree.enter()
    with FileJail(tmp_path, protected=()) as jail:
        jail.write_text("AGENTS.md", "agreed")
    (tmp_path / "AGENTS.md").write_text("evil")
    (tmp_path / "AGENTS.md").rename(tmp_path / ".envrc")
    tree.leave(visit)
    assert visit.moved == [".envrc.from-command"]


def test_a_temporary_directory_that_lasts_is_looked_at(
    work: Path, marker: Path, tmp_path: Path
) -> None:
    """A link can lead there from the work directory."""
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    sandbox = Sandbox(work, "required", paths=SandboxPaths(tmp=tmp))
    ran = sandbox.run_sync(
        f"git init -q /tmp/x; cd /tmp/x; git config core.fsmonitor 'touch {marker};false'"
    )
    assert ran.set_aside == ("/tmp/x/.git/config.from-command",)
    assert sandbox.can_reach(tmp / "runs.db")


def test_another_sandbox_above_does_not_take_a_plant_for_the_users(tmp_path: Path) -> None:
    """What is new by the record of a command that runs is judged."""
    (tmp_path / "sub").mkdir()
    known, outer = work_tree(str(tmp_path / "sub")), work_tree(str(tmp_path))
    first = known.enter()
    (tmp_path / "sub" / ".envrc").write_text("planted")
    second = outer.enter()
    assert second.moved == ["sub/.envrc.from-command"]
    outer.leave(second)
    known.leave(first)


def test_no_program_runs_in_a_repository_of_the_tree(tmp_path: Path, marker: Path) -> None:
    """Whether git tracks an environment file is read from the index: git itself would fetch what is missing."""
    script = f"""
    git init -q s; cd s; mkdir d; echo x>d/f; echo y>t; git add .; git commit -qm1
    git sparse-checkout init --cone --sparse-index; cd ..; git init -q up; cd up; mkdir -p sub/objects sub/refs
    cp ../s/.git/index sub/; echo ref: refs/heads/m>sub/HEAD; touch sub/objects/x sub/refs/x; echo A=1>sub/.env
    printf '[core]\nrepositoryformatversion=1\nbare=true\n[extensions]\npartialClone=o\n' >sub/config
    printf '[remote "o"]\nurl=.\npromisor=true\nuploadpack="touch {marker};false"\n' >>sub/config
    """
    env = {
        **os.environ,
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "n",
    }
    env |= {"GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "e"}
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True)
    for place in ("read-only", "workspace"):
        Sandbox(tmp_path / "up", "required").run_sync("true", place=place)  # type: ignore[arg-type]
        assert not marker.exists()
    subprocess.run(["git", "ls-files"], cwd=tmp_path / "up" / "sub", capture_output=True)
    assert marker.exists(), "the way is real"


def test_a_repository_does_not_run_a_program_at_its_next_collection(work: Path) -> None:
    """gc.recentObjectsHook is a program, though other settings of the section are numbers."""
    ran = Sandbox(work, "required").run_sync(
        "git init -q sub; cd sub; git config gc.auto 1; git config gc.recentObjectsHook evil"
    )
    assert ran.set_aside == ("sub/.git/config.from-command",)


def test_hooks_that_the_users_own_file_names_are_kept(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative core.hooksPath in it means a directory of every repository."""
    (tmp_path / "gitconfig").write_text("[core]\n\thooksPath = .team/hooks\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    ran = Sandbox(work, "required").run_sync(
        "mkdir -p .team/hooks; echo x > .team/hooks/pre-commit"
    )
    assert ran.set_aside == (".team/hooks.from-command",)


def test_a_home_gets_no_new_entries_that_begin_with_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is the work directory itself: some program obeys each of them. Those of projects may come."""
    home = tmp_path / "home"
    (home / ".known").mkdir(parents=True)
    (home / ".known" / "file").write_text("as it was")
    monkeypatch.setenv("HOME", str(home))
    sandbox = Sandbox(home, "required")
    ran = sandbox.run_sync(
        "echo x > .wgetrc; mkdir -p .tool/deep .config/tool .local/bin; echo x > .tool/deep/file; "
        "echo x > .config/tool/file; echo x > .local/bin/ls; echo x > .known/file; echo x > .gitignore; mkdir plain"
    )
    assert ran.set_aside == (".tool.from-command", ".wgetrc.from-command")
    left = {str(path.relative_to(home)) for path in home.iterdir()}
    assert left - {".config", ".local"} == {*ran.set_aside, ".known", ".gitignore", "plain"}
    assert not list(home.glob(".config/*")), list(home.glob(".config/*"))
    assert not list(home.glob(".local/*/*"))
    assert (home / ".known" / "file").read_text() == "as it was"
    assert sandbox.run_sync("true").set_aside == ()


def test_a_tree_is_not_left_by_a_link(tmp_path: Path) -> None:
    """A directory that leads elsewhere is not part of the tree: what is there is not looked at, nor moved."""
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / ".envrc").write_text("theirs")
    work = tmp_path / "work"
    work.mkdir()
    Sandbox(work, "required").run_sync(f"ln -s {outside} link; ln -s {outside}/sub/.envrc .tool")
    assert (outside / "sub" / ".envrc").read_text() == "theirs"
    assert os.readlink(work / "link") == str(outside)


# --- commands that work together, or against the look ---------------------------------------------------


EVIL_CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {marker}; false"\n'


def test_a_new_repository_whose_configuration_has_a_second_name_does_not_stay(
    tmp_path: Path, marker: Path
) -> None:
    """A later command could write it by the other name."""
    sandbox = Sandbox(tmp_path, "required")
    ran = sandbox.run_sync("git init -q x && ln x/.git/config y")
    assert ran.set_aside == ("x/.git/config.from-command",)
    (tmp_path / "evil").write_text(EVIL_CONFIG.format(marker=marker))
    sandbox.run_sync("cat evil > y")
    subprocess.run(["git", "status"], cwd=tmp_path / "x", capture_output=True)
    assert not marker.exists()


async def test_what_was_judged_while_a_command_ran_is_judged_again_at_its_end(
    tmp_path: Path, marker: Path
) -> None:
    """A page of a file that is mapped and dirty can be written without a trace in any time."""
    (tmp_path / "evil").write_text(EVIL_CONFIG.format(marker=marker))
    (tmp_path / "late.py").write_text(
        "import mmap, os, subprocess, sys, time\n"
        "subprocess.run(['git', 'init', '-q', 'x'])\n"
        "evil = open('evil', 'rb').read()\n"
        "file = open('x/.git/config', 'r+b')\n"
        "plain = file.read().ljust(len(evil), b'\\n')\n"
        "file.truncate(len(plain))\n"
        "page = mmap.mmap(file.fileno(), len(plain))\n"
        "page[:] = plain\n"
        "print('ready', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "page[: len(evil)] = evil\n"
    )
    said: list[bytes] = []
    running = await Sandbox(tmp_path, "required").start("python3 late.py", on_output=said.append)
    while b"ready" not in b"".join(said):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    running.check()
    assert running.set_aside == ()
    (tmp_path / "go").touch()
    await running.wait()
    assert running.set_aside == ("x/.git/config.from-command",)


async def test_a_command_that_starts_beside_another_keeps_what_that_has_moved(
    work: Path, marker: Path
) -> None:
    """One moves a directory with a repository away, and the next finds its configuration read-only all the same."""
    sandbox = Sandbox(work, "required")
    said: list[bytes] = []
    first = await sandbox.start(
        "mv nested n2; mkdir nested; echo ok; sleep 30", on_output=said.append
    )
    while b"ok" not in b"".join(said):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    evil = EVIL_CONFIG.format(marker=marker)
    second = await sandbox.run(f"cat >> n2/.git/config <<'E'\n{evil}E\nrmdir nested; mv n2 nested")
    assert "Read-only file system" in second.text
    first.kill()
    await first.wait()
    ask_git(work)
    assert not marker.exists()  # noqa: ASYNC240 - nothing else runs here


async def test_a_change_of_what_was_there_counts_when_commands_overlapped(work: Path) -> None:
    """A command that was started while another ran may have got at it. What changed is moved aside."""
    sandbox = Sandbox(work, "required")
    first = await sandbox.start("sleep 30", on_output=lambda _: None)
    second = await sandbox.start("sleep 30", on_output=lambda _: None)
    with (work / "nested" / ".git" / "config").open("a") as config:  # as one that got at it would
        config.write("[alias]\n\tx = !true\n")
    for each in (first, second):
        each.kill()
        await each.wait()
    assert first.set_aside == ("nested/.git/config.from-command",)


async def test_a_changed_file_in_a_protected_directory_counts_when_commands_overlapped(
    work: Path,
) -> None:
    """The directory itself has not changed then, as its entries are the same."""
    hook = work / "nested" / ".git" / "hooks" / "pre-commit"
    deep = work / ".claude" / "hooks" / "deep" / "check.sh"
    for path in (hook, deep):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    sandbox = Sandbox(work, "required")
    first = await sandbox.start("sleep 30", on_output=lambda _: None)
    second = await sandbox.start("sleep 30", on_output=lambda _: None)
    for path in (hook, deep):
        path.write_text("evil")  # as one that got at it would
    for each in (first, second):
        each.kill()
        await each.wait()
    assert set(first.set_aside) == {".claude.from-command", "nested/.git/hooks.from-command"}


@pytest.mark.parametrize("is_above", [True, False])
async def test_a_change_counts_when_a_command_of_a_directory_above_or_below_ran(
    work: Path, is_above: bool
) -> None:
    """Commands overlap wherever one can move what is protected from the other."""
    outer, inner = Sandbox(work, "required"), Sandbox(work / "nested", "required")
    (work / "nested" / "d").mkdir()
    notes = work / "nested" / "d" / "AGENTS.md"
    notes.write_text("x")
    order = (outer, inner) if is_above else (inner, outer)
    first, second = [await each.start("sleep 30", on_output=lambda _: None) for each in order]
    notes.write_text("y")  # as one that got at it would
    second.kill()
    await second.wait()
    assert not notes.exists()
    first.kill()
    await first.wait()


def start_command_of_another_process(work: Path) -> subprocess.Popen[bytes]:
    """A process with a command that runs in this directory."""
    program = (
        "import sys; from hookline.containment import Sandbox; "
        "Sandbox(sys.argv[1], 'required').run_sync('touch made; sleep 60')"
    )
    process = subprocess.Popen([sys.executable, "-c", program, work])
    until = time.monotonic() + 30
    while not (work / "made").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_change_counts_when_a_command_of_another_process_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """While both run, and also after the other process was killed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    notes = tmp_path / "work" / "d" / "AGENTS.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("x")
    process = start_command_of_another_process(tmp_path / "work")
    sandbox = Sandbox(tmp_path / "work", "required")
    second = None if is_killed else await sandbox.start("sleep 30", on_output=lambda _: None)
    notes.write_text("y")  # as a command that got at it would
    process.kill()
    process.wait()
    if second is not None:
        second.kill()
        await second.wait()
    else:
        await sandbox.run("true")
    assert not notes.exists()
    assert (notes.parent / "AGENTS.md.from-command").read_text() == "y"


def test_a_change_counts_for_a_process_that_was_there_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns that a command of another process ran meanwhile, also if that has ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    notes = tmp_path / "work" / "d" / "AGENTS.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("x")
    tree = WorkTree(str(tmp_path / "work"))
    visit = tree.enter()
    process = start_command_of_another_process(tmp_path / "work")
    process.kill()
    process.wait()
    notes.write_text("y")
    tree.leave(visit)
    assert visit.moved == ["d/AGENTS.md.from-command"]


async def test_a_journal_stays_where_it_is_when_commands_overlap(tmp_path: Path) -> None:
    """A database makes and removes files beside itself all the time."""
    places = [tmp_path / ".hookline", tmp_path / "inner" / ".hookline"]
    for place in places:
        place.mkdir(parents=True)
        (place / "runs.db").write_text("x")
    sandbox = Sandbox(tmp_path, "required")
    running = [await sandbox.start("sleep 30", on_output=lambda _: None) for _ in range(2)]
    for place in places:
        (place / "runs.db-journal").touch()
        (place / "runs.db-journal").unlink()
    for each in running:
        each.kill()
        await each.wait()
    assert all((place / "runs.db").exists() for place in places)


async def test_a_directory_that_is_moved_while_another_command_runs_keeps_its_files(
    tmp_path: Path,
) -> None:
    """An honest rename changes nothing in it."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "AGENTS.md").write_text("x")
    sandbox = Sandbox(tmp_path, "required")
    first = await sandbox.start("sleep 30", on_output=lambda _: None)
    moved = await sandbox.run("mv d d2")
    first.kill()
    await first.wait()
    assert (moved.exit_code, moved.set_aside, first.set_aside) == (0, (), ())
    assert (tmp_path / "d2" / "AGENTS.md").exists()


def test_what_lies_in_something_moved_aside_is_judged_however_deep(tmp_path: Path) -> None:
    """There is no number of looks after which something stays."""
    deep = "/".join([".roo"] * 80)
    ran = Sandbox(tmp_path, "required").run_sync(
        f"mkdir -p a/{deep}/x && cd a/{deep}/x && git init -q . && git config core.fsmonitor 'true'"
    )
    assert len(ran.set_aside) == 81
    assert not list(tmp_path.rglob(".git/config"))


def test_what_could_not_be_moved_aside_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may have moved its directory at that moment."""
    tree = WorkTree(str(tmp_path))
    visit = tree.enter()
    (tmp_path / "AGENTS.md").write_text("x")
    with monkeypatch.context() as patch:
        patch.setattr(work_tree_module, "move_aside", lambda *_: "")
        tree.check()
    assert (tmp_path / "AGENTS.md").exists()
    tree.leave(visit)
    assert (tmp_path / "AGENTS.md.from-command").exists()


def test_only_so_many_new_repositories_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs later commands time and mounts; one command could make it impossible to start another."""
    monkeypatch.setattr(work_tree_module, "_MOST_REPOSITORIES", 3)
    sandbox = Sandbox(tmp_path, "required")
    ran = sandbox.run_sync("for n in 1 2 3 4 5; do git init -q r$n; done")
    assert len(ran.set_aside) == 2
    assert sandbox.run_sync("true").set_aside == ()


def test_a_socket_in_the_place_of_a_file_stops_nobody(tmp_path: Path) -> None:
    """It is read by nobody, and commands after it start."""
    sandbox = Sandbox(tmp_path, "required")
    (tmp_path / "s").mkdir()
    os.mknod(tmp_path / "s" / ".envrc", stat.S_IFSOCK | 0o644)
    os.mkfifo(tmp_path / "s" / "mise.toml")
    assert sandbox.run_sync("true").exit_code == 0


def test_names_of_what_was_moved_aside_can_be_printed(tmp_path: Path) -> None:
    """A command chooses them, and they are part of a message."""
    ran = Sandbox(tmp_path, "required").run_sync(
        r"""mkdir $'a\xff' $'b\n\033[31m'; touch $'a\xff/AGENTS.md' $'b\n\033[31m/AGENTS.md'"""
    )
    assert ran.set_aside == (
        r"a\xff/AGENTS.md.from-command",
        r"b\n\x1b[31m/AGENTS.md.from-command",
    )


def test_a_home_in_the_work_directory_gets_no_new_hidden_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs read them at every start, whatever they are called."""
    home = tmp_path / "u"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    ran = Sandbox(tmp_path, "required").run_sync("echo x > u/.hgrc")
    assert ran.set_aside == ("u/.hgrc.from-command",)


def test_a_number_that_a_prompt_shows_is_a_number(work: Path) -> None:
    """git's own prompt puts it into a text that the shell expands. A rebase works all the same."""
    sandbox = Sandbox(work, "required")
    ran = sandbox.run_sync("mkdir .git/rebase-merge; echo '$(touch x)' > .git/rebase-merge/msgnum")
    assert ran.set_aside == (".git/rebase-merge/msgnum.from-command",)
    shutil.rmtree(work / ".git" / "rebase-merge")
    commands = (
        "for n in 1 2; do echo $n > g; git add g; git commit -qm $n; done; "
        "GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -q -i HEAD~2",
        "git rebase --continue; git rebase --continue",
    )
    who = "git config --global user.name x; git config --global user.email x@x; "
    for command in commands:
        ran = sandbox.run_sync(who + command)
        assert ran.set_aside == (), ran.text
    assert not (work / ".git" / "rebase-merge").exists()


@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_a_work_directory_that_became_a_link_is_refused(tmp_path: Path, place: str) -> None:
    """A command of the directory above it put the link there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    above = tmp_path / "above"
    (above / "sub" / "in").mkdir(parents=True)
    (above / "tmp").mkdir()
    (above / "more").mkdir()
    inner = [
        Sandbox(above / "sub", "required"),
        Sandbox(above / "sub" / "in", "required"),
        Sandbox(tmp_path / "outside", "required", paths=SandboxPaths(write=(above / "more",))),
    ]
    if place == "workspace":
        inner.append(Sandbox(outside, "required", paths=SandboxPaths(tmp=above / "tmp")))
    Sandbox(above, "required").run_sync(
        f"for d in sub tmp more; do mv $d old-$d; ln -s {outside} $d; done"
    )
    for sandbox in inner:
        with pytest.raises(
            SandboxError, match=r"not the same directory any more|there is no directory"
        ):
            sandbox.run_sync("touch planted", place=place)  # type: ignore[arg-type]
    assert list(outside.iterdir()) == []


def test_a_work_directory_that_is_replaced_while_a_sandbox_is_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is mounted is compared with what was meant, before the command starts."""
    other = tmp_path / "other"
    work = tmp_path / "work"
    other.mkdir()
    work.mkdir()
    monkeypatch.setattr(
        bubblewrap, "open_directory", lambda _: os.open(other, os.O_RDONLY | os.O_DIRECTORY)
    )
    with pytest.raises(SandboxError, match="was replaced while the sandbox was made"):
        Sandbox(work, "required").run_sync("touch planted")
    assert list(work.iterdir()) == []


def test_a_file_with_the_number_of_one_that_was_replaced_is_new(work: Path) -> None:
    """The user replaces a file while a command runs; the file system may give its number to what the command makes."""
    config = work / ".git" / "config"
    tree = WorkTree(str(work))
    for attempt in range(50):  # the file of somebody else may get the number
        number = config.stat().st_ino
        visit = tree.enter()
        subprocess.run(["git", "-C", work, "config", "some.key", str(attempt)], check=True)
        made = config.with_name("made")
        made.write_text("[core]\n\tfsmonitor = evil\n")
        if made.stat().st_ino == number:
            made.rename(config)
            break
        made.unlink()
        tree.leave(visit)
        # The user's replacement counts as new too and was moved aside.
        config.unlink(missing_ok=True)
        subprocess.run(["git", "init", "-q", work], check=True)
    else:
        pytest.skip("this file system does not use a number again")
    tree.leave(visit)
    [moved] = visit.moved
    assert moved.startswith(".git/config.from-command")


def test_a_file_that_the_user_writes_in_place_stays(work: Path) -> None:
    """A command cannot have changed it."""
    (work / "AGENTS.md").write_text("before")
    tree = WorkTree(str(work))
    visit = tree.enter()
    (work / "AGENTS.md").write_text("after")
    tree.leave(visit)
    assert visit.moved == []


def test_a_work_directory_that_is_moved_while_a_command_runs_is_looked_at(tmp_path: Path) -> None:
    """A command of the directory above it moved it. What the command leaves is found where it is now."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    tree = WorkTree(str(inner))
    visit = tree.enter()
    moved = inner.rename(tmp_path / "outer" / "moved")
    (moved / ".envrc").write_text("evil")
    tree.leave(visit)
    assert visit.moved == [f"{moved}/.envrc.from-command"]
    inner.mkdir()
    visit = tree.enter()
    (inner / ".envrc").write_text("evil")
    tree.leave(visit)
    assert visit.moved == [".envrc.from-command"]


def test_a_work_directory_that_is_moved_to_the_end_of_a_link_is_looked_at(tmp_path: Path) -> None:
    """Its old path leads to it still, but through a link, which nothing is done through."""
    inner = tmp_path / "outer" / "way" / "inner"
    inner.mkdir(parents=True)
    tree = WorkTree(str(inner))
    visit = tree.enter()
    away = inner.parent.rename(tmp_path / "outer" / "away")
    inner.parent.symlink_to("away")
    (inner / ".envrc").write_text("evil")
    tree.leave(visit)
    assert visit.moved == [f"{away}/inner/.envrc.from-command"]


def test_a_work_directory_that_is_removed_while_a_command_runs_is_no_error(tmp_path: Path) -> None:
    """There is nothing left to look at."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").symlink_to("docs")
    tree = WorkTree(str(tmp_path / "work"))
    visit = tree.enter()
    shutil.rmtree(tmp_path / "work")
    tree.leave(visit)
    assert visit.moved == []


@pytest.mark.parametrize("tmp", ["home", ".", "work", "work/tmp", "more/tmp"])
def test_a_temporary_directory_that_overlaps_what_is_protected_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp: str
) -> None:
    """Through it, a command could change what is read-only elsewhere."""
    for name in ("home", "work/tmp", "more/tmp"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    paths = SandboxPaths(tmp=tmp_path / tmp, write=(tmp_path / "more",))
    with pytest.raises(UsageError, match="overlaps"):
        Sandbox(tmp_path / "work", "required", paths=paths)


def test_a_journal_behind_a_link_in_the_work_directory_is_in_reach(tmp_path: Path) -> None:
    """Also where the path neither begins nor ends there."""
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    kept.mkdir()
    (work / "middle").symlink_to(kept)
    (tmp_path / "journals").symlink_to(work / "middle")
    sandbox = Sandbox(work, "required")
    assert sandbox.can_reach(tmp_path / "journals" / "runs.db")
    assert not sandbox.can_reach(kept / "runs.db")


def test_an_environment_file_that_is_a_link_is_covered_where_it_leads(tmp_path: Path) -> None:
    """Wherever that is, but for the system."""
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    (elsewhere / "secrets").write_text("TOKEN=1")
    (work / ".env").symlink_to(elsewhere / "secrets")
    paths = SandboxPaths(show=(elsewhere,))
    assert Sandbox(work, "required", paths=paths).run_sync("cat .env").text == ""


def test_an_environment_file_that_leads_nowhere_stops_no_command(tmp_path: Path) -> None:
    """Not one of a thousand links, which a command makes in a second, and not one that leads to itself."""
    sandbox = Sandbox(tmp_path, "required")
    links = "for i in $(seq 1200); do ln -s link$((i + 1)) link$i; done; ln -s link1 .env; ln -s c.env c.env"
    assert sandbox.run_sync(links).exit_code == 0
    (tmp_path / "link1201").write_text("TOKEN=1")
    assert sandbox.run_sync("echo runs").text == "runs\n"
    assert "TOKEN" not in sandbox.run_sync("cat .env").text


def test_too_many_environment_files_are_an_error_that_says_so(tmp_path: Path) -> None:
    """Each is covered by a mount of its own, and there is a limit."""
    for number in range(3500):
        (tmp_path / f"{number}.env").touch()
    with pytest.raises(SandboxError, match="too many environment files"):
        Sandbox(tmp_path, "required").run_sync("true")


def test_each_name_is_found_alone_in_its_directory(tmp_path: Path) -> None:
    """A directory with one name of the tables, or one environment file, is not taken for one without any."""
    below = {f"{above}/{name}" for above, names in RUN_BELOW.items() for name in names}
    names = {each.replace("*", "x") for each in OBEYED | RUN_BY_PATTERN | below}
    for number, name in enumerate(sorted(names)):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        path.touch()
    secrets = {f"e{number}/{name}" for number, name in enumerate((".ENV", "prod.env", ".dev.vars"))}
    for each in secrets:
        (tmp_path / each).parent.mkdir()
        (tmp_path / each).touch()
    index = TreeIndex(str(tmp_path))
    index.refresh()
    assert names == {part.path.partition("/")[2] for part in index.parts()}
    assert secrets == set(index.env_files())


@pytest.mark.parametrize(
    ("path", "target", "is_part"),
    [
        (".hg/wcache/checklink", "checklink-target", False),
        (".hg/cache/checklink", "checklink-target", False),
        (".hg/wcache/checklink", "../hgrc", True),
        (".hg/wcache/other", "checklink-target", True),
        (".git/wcache/checklink", "checklink-target", True),
    ],
)
def test_the_link_by_which_mercurial_tries_links_is_left(
    tmp_path: Path, path: str, target: str, is_part: bool
) -> None:
    """Every new repository has one. Other links inside of version control count."""
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).symlink_to(target)
    index = TreeIndex(str(tmp_path))
    index.refresh()
    assert (path in {part.path for part in index.parts()}) == is_part


def test_a_change_within_one_second_is_seen_where_times_are_whole_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on ext3, FAT and HFS+: a directory looks as before after a second change."""
    second = 1_000_000_000
    monkeypatch.setattr(
        tree_index,
        "identity_of",
        lambda facts: (facts.st_dev, facts.st_ino, facts.st_ctime_ns // second * second),
    )
    index = TreeIndex(str(tmp_path))
    time.sleep(0.1)
    index.refresh()
    (tmp_path / ".envrc").touch()
    index.refresh()
    assert [part.path for part in index.parts()] == [".envrc"]


def test_what_is_made_after_the_look_ahead_is_protected_too(tmp_path: Path) -> None:
    """The look ahead saves the first command time, and is not taken for the state at its start."""
    sandbox = Sandbox(tmp_path, "required")
    sandbox.look_ahead()
    work_tree(str(tmp_path)).look()  # waits for the other one
    (tmp_path / "AGENTS.md").write_text("Mine.")
    sandbox.run_sync("echo x >> AGENTS.md; mkdir sub; touch sub/.envrc")
    assert (tmp_path / "AGENTS.md").read_text() == "Mine."
    assert not (tmp_path / "sub/.envrc").exists()


async def test_a_command_that_is_to_be_alone_is(tmp_path: Path) -> None:
    """What it reads says what it does with what it is given, and another command could change that."""
    (tmp_path / "inner").mkdir()
    sandbox, inner = Sandbox(tmp_path, "required"), Sandbox(tmp_path / "inner", "required")
    none, alone = SandboxGrant(), SandboxGrant(alone=True)
    pairs = [(none, alone), (alone, none), (alone, alone)]
    for other, (first, second) in itertools.product((sandbox, inner), pairs):
        running = await other.start("sleep 1000", on_output=lambda _: None, grant=first)
        with pytest.raises(SandboxError, match="must be the only one in its directory"):
            await sandbox.run("true", grant=second)
        running.kill()
        await running.wait()
        assert (await sandbox.run("echo later", grant=second)).text == "later\n"


async def test_a_command_on_the_host_runs_beside_no_contained_one(tmp_path: Path) -> None:
    """It would obey what the other plants meanwhile. One that is not to be alone lets others start after it."""
    sandbox = Sandbox(tmp_path, "required")
    running = await sandbox.start("sleep 1000", on_output=lambda _: None)
    with pytest.raises(SandboxError, match="on the host"):
        await sandbox.run("true", place="host")
    running.kill()
    await running.wait()
    for alone in (True, False):
        grant = SandboxGrant(alone=alone)
        running = await sandbox.start(
            "sleep 1000", on_output=lambda _: None, place="host", grant=grant
        )
        assert (await sandbox.run("echo host", place="host")).text == "host\n"
        if alone:
            with pytest.raises(SandboxError, match="on the host"):
                await sandbox.run("true")
        else:
            assert (await sandbox.run("echo in", place="workspace")).text == "in\n"
        running.kill()
        await running.wait()
        assert (await sandbox.run("echo later")).text == "later\n"


async def test_a_name_is_left_out_only_if_every_command_may_change_it(tmp_path: Path) -> None:
    """Two sandboxes of one directory, one of which may make `.vscode`: it does not stay."""
    free = Sandbox(tmp_path, "required", paths=SandboxPaths(unprotected=(".vscode",)))
    assert (await free.run("mkdir .vscode; touch .vscode/a")).set_aside == ()
    running = await Sandbox(tmp_path, "required").start("sleep 1000", on_output=lambda _: None)
    ran = await free.run("mkdir -p sub/.vscode")
    assert ran.set_aside == ("sub/.vscode.from-command",)
    running.kill()
    await running.wait()


def test_a_way_of_too_many_links_is_an_error_that_says_where(tmp_path: Path) -> None:
    """Where it leads is not known, and a command could make it shorter."""
    (tmp_path / ".claude").mkdir()
    for number in range(60):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}/../q{number}")
    (tmp_path / ".claude" / "x").symlink_to("../l0")
    sandbox = Sandbox(tmp_path, "required")
    with pytest.raises(
        SandboxError, match=r"\.claude/x' leads through more than 40 links.*rm .*x`"
    ):
        sandbox.run_sync("true")
    (tmp_path / ".claude" / "x").unlink()
    assert sandbox.run_sync("echo works").text == "works\n"
