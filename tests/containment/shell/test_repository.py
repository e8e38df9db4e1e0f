"""Git obeys the repository it stands in: what a planted one would start is asked about, what a plain one is runs."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.containment import ShellPolicy

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")

LOOKS = """
    git status
    git status -s
    git diff
    git diff --stat HEAD
    git log -p -2
    git show HEAD
    git blame notes.txt
    git ls-files -m
    git describe --dirty --always
    git hash-object notes.txt
    git grep one
    git diff --no-index notes.txt .gitattributes
"""
COMMANDS = [line.strip() for line in LOOKS.strip().splitlines()]
Git = Callable[..., None]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Runs git as somebody without a configuration of their own."""
    own = tmp_path / "own.gitconfig"
    own.write_text('[user]\nname = A\nemail = a@example.org\n[protocol "file"]\nallow = always\n')
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def run(where: Path, *words: str) -> None:
        subprocess.run(["git", *words], cwd=where, check=True, capture_output=True)

    return run


@pytest.fixture
def project(tmp_path: Path, git: Git) -> Path:
    """A repository with a change that is not committed."""
    return made(tmp_path / "project", git)


def made(place: Path, git: Git) -> Path:
    """A repository with a change that is not committed."""
    place.mkdir(parents=True)
    git(place, "init", "-q", ".")
    (place / "notes.txt").write_text("one\n")
    (place / ".gitattributes").write_text("*.txt filter=x diff=x merge=x\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    (place / "notes.txt").write_text("two\n")
    return place


def planted(place: Path) -> tuple[Path, Path]:
    """A program, and the file it makes when it runs."""
    program, proof = place / "program.sh", place / "proof"
    program.write_text(f"#!/bin/sh\necho ran >> {proof}\n")
    program.chmod(0o755)
    return program, proof


def decision(command: str, where: Path) -> str:
    """What the policy says of a command in a directory."""
    return ShellPolicy.default().judge(command, root=str(where)).decision


def runs_program(command: str, where: Path, proof: Path) -> bool:
    """Whether a command, run for real, starts the planted program."""
    proof.unlink(missing_ok=True)
    os.utime(where / "notes.txt")
    subprocess.run(command, shell=True, cwd=where, check=False, capture_output=True)
    return proof.exists()


@pytest.mark.parametrize("command", [*COMMANDS, "git -C . status", "cd sub && git log"])
def test_a_plain_repository_is_looked_at(command: str, project: Path) -> None:
    """In an ordinary repository, and where there is none, git looks without asking."""
    (project / "sub").mkdir()
    assert decision(command, project) == "allow"


PROGRAMS = """
    core.fsmonitor core.pager pager.status diff.external diff.x.command diff.x.textconv filter.x.clean filter.x.process
    gpg.program gpg.ssh.defaultKeyCommand merge.x.driver core.alternateRefsCommand hook.x.command alias.lfs
    CORE.FSMONITOR
""".split()


@pytest.mark.parametrize("key", PROGRAMS)
def test_a_program_in_the_configuration_is_asked_about(
    key: str, project: Path, git: Git, tmp_path: Path
) -> None:
    """Whatever git starts while it looks is asked about where the repository itself names it."""
    program, _ = planted(tmp_path)
    git(project, "config", key, str(program))
    assert {decision(command, project) for command in COMMANDS} == {"ask"}


def test_what_git_really_starts_is_asked_about(project: Path, git: Git, tmp_path: Path) -> None:
    """Held against git itself: no command starts a planted program that would run without asking."""
    program, proof = planted(tmp_path)
    started = set()
    for key in ("core.fsmonitor", "diff.external", "diff.x.textconv", "filter.x.clean"):
        git(project, "config", key, str(program))
        for command in COMMANDS:
            if runs_program(command, project, proof):
                started.add(key)
                assert decision(command, project) != "allow", (key, command)
        git(project, "config", "--unset", key)
    assert "core.fsmonitor" in started


HARMLESS = [
    ("core.fsmonitor", "true"),
    ("core.editor", "vim"),
    ("core.sshCommand", "ssh -i key"),
    ("credential.helper", "store"),
    ("alias.st", "!git status"),
    ("core.hooksPath", ".husky"),
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.process", "git-lfs filter-process"),
    ("pager.log", "false"),
    ("mergetool.x.cmd", "x"),
    ("branch.main.description", 'a # "b" ; c'),
]


@pytest.mark.parametrize(("key", "value"), HARMLESS)
def test_settings_that_looking_does_not_obey(key: str, value: str, project: Path, git: Git) -> None:
    """What only other verbs obey, and what starts nothing, is no reason to ask."""
    git(project, "config", key, value)
    assert {decision(command, project) for command in COMMANDS} == {"allow"}


def test_a_hook_that_looking_runs(project: Path, git: Git, tmp_path: Path) -> None:
    """`git status` writes the index and runs a hook then, in whichever directory hooks are."""
    program, proof = planted(tmp_path)
    hook = project / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    shutil.copy(program, hook)
    assert decision("git status", project) == "ask"
    hook.rename(project / "post-index-change")
    assert decision("git status", project) == "allow"
    git(project, "config", "core.hooksPath", ".")
    assert decision("git status", project) == "ask"
    assert not proof.exists()


def embedded(place: Path, git: Git, program: Path) -> Path:
    """A directory that looks like a repository, as any checkout may have one."""
    place.mkdir()
    git(place, "init", "-q", "--bare", ".")
    with (place / "config").open("a") as file:
        file.write(f"[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = {program}\n")
    return place


EMBEDDED = """
    git -C evil status
    git -C . -C evil status
    git -C ./sub/../evil status
    cd evil && git status
    cd evil; git log
    (cd evil && git diff)
    pushd evil && git status
    cd evil/objects && git status
    builtin cd evil && git status
    cd sub && cd ../evil && git status
    timeout 5 git -C evil status
    git -C "evil" status | head
    for d in evil; do git -C "$d" status; done
    for d in */; do (cd "$d" && git status); done
    cd ev* && git status
    cd - && git status
    cd ~- && git status
    find . -maxdepth 1 -execdir git status \\;
    git --git-dir=evil status
    GIT_DIR=evil git status
    git --git-dir evil --work-tree . status
"""


@pytest.mark.parametrize("command", [line.strip() for line in EMBEDDED.strip().splitlines()])
def test_a_directory_that_looks_like_a_repository(
    command: str, project: Path, git: Git, tmp_path: Path
) -> None:
    """An embedded repository is not entered unasked, by whatever way."""
    (project / "sub").mkdir()
    embedded(project / "evil", git, planted(tmp_path)[0])
    assert decision(command, project) == "ask"
    assert decision("git status", project) == "allow"


def test_git_really_obeys_an_embedded_repository(project: Path, git: Git, tmp_path: Path) -> None:
    """The hole is one: git starts what an embedded repository names."""
    program, proof = planted(tmp_path)
    evil = embedded(project / "evil", git, program)
    assert runs_program("git -C evil status", project, proof)
    for cwd in ("evil", str(evil), "evil/refs"):
        verdict = ShellPolicy.default().judge("git status", cwd=cwd, root=str(project))
        assert verdict.decision == "ask"
        assert "core.fsmonitor" in verdict.reason


def test_a_nested_repository(project: Path, git: Git, tmp_path: Path) -> None:
    """A repository inside is entered if it is plain, through a link as well, and asked about if it is not."""
    program, _ = planted(tmp_path)
    nested = made(project / "nested", git)
    (project / "link").symlink_to("nested")
    assert decision("git -C nested status", project) == "allow"
    git(nested, "config", "core.fsmonitor", str(program))
    for command in ("git -C nested status", "git -C link log", "cd link && git diff"):
        assert decision(command, project) == "ask"


def test_a_submodule_is_looked_at_from_outside(project: Path, git: Git, tmp_path: Path) -> None:
    """`git status` asks the repositories inside, and they obey their own configuration."""
    program, proof = planted(tmp_path)
    nested = made(project / "nested", git)
    git(project, "add", "nested")
    assert decision("git status", project) == "allow"
    git(nested, "config", "core.fsmonitor", str(program))
    assert runs_program("git status", project, proof)
    assert decision("git status", project) == "ask"


def test_a_submodule_that_was_cloned(project: Path, git: Git, tmp_path: Path) -> None:
    """A real submodule, whose repository lies in that of the project, is plain; with a program in it, it is not."""
    program, _ = planted(tmp_path)
    git(project, "submodule", "add", "-q", str(made(tmp_path / "other", git)), "lib/other")
    assert decision("git status", project) == "allow"
    assert decision("git -C lib/other log", project) == "allow"
    git(project / "lib/other", "config", "filter.x.clean", str(program))
    assert decision("git status", project) == "ask"
    assert decision("git -C lib/other log", project) == "ask"


def test_another_working_tree(project: Path, git: Git, tmp_path: Path) -> None:
    """A second working tree obeys the repository it belongs to, and what is set for it alone."""
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", str(tree))
    assert decision("git status", tree) == "allow"
    git(project, "config", "extensions.worktreeConfig", "true")
    git(tree, "config", "--worktree", "core.fsmonitor", "./program.sh")
    assert decision("git status", tree) == "ask"
    assert decision("git status", project) == "allow"


def test_what_a_configuration_includes(project: Path, git: Git) -> None:
    """Included files are read too, whatever their condition; one that includes itself is asked about."""
    git(project, "config", "include.path", "../shared.gitconfig")
    assert decision("git status", project) == "allow"
    (project / "shared.gitconfig").write_text('[includeIf "gitdir:x"]\n path = more\n')
    assert decision("git status", project) == "allow"
    (project / "more").write_text("[core]\n\tfsmonitor = ./x\n")
    assert decision("git status", project) == "ask"
    (project / "more").write_text("[include]\n\tpath = more\n")
    assert decision("git status", project) == "ask"


ODD = [
    "[core\nfsmonitor = x",
    "fsmonitor = x",
    "[core] fsmonitor # = x",
    '[core]\n fsmonitor = "x',
    "[core]\n a = b\\q",
    "[core]fsmonitor=x",
    "[core]\r\n\tfsmonitor\t=\tx\r\n",
    "\ufeff[core]\nfsmonitor = x",
    "[core]\n; comment \\\nfsmonitor = x",
    "[core]\n a = b \\\n c\nfsmonitor = x",
    "[core]\n a = b # c \\\nfsmonitor = x",
    '[core]\n a = "b ; c"\nfsmonitor = "x"',
    '[core ""]\n[Core]\nFsMonitor = x',
    "[diff.x]\n textconv = x",
    '[diff "a\\"]b"]\n textconv = x',
]


@pytest.mark.parametrize("text", ODD)
def test_every_spelling_of_a_setting(text: str, project: Path) -> None:
    """However a configuration is written, a program in it is seen, and what cannot be read is asked about."""
    (project / ".git" / "config").write_text(text)
    assert decision("git status", project) == "ask"


def test_files_that_are_none(project: Path) -> None:
    """A pipe, a loop of links and a `.git` that is no repository keep nobody waiting, and are asked about."""
    config = project / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    assert decision("git status", project) == "ask"
    config.unlink()
    config.symlink_to("config")
    assert decision("git status", project) == "ask"
    inner = project / "inner"
    inner.mkdir()
    (inner / ".git").write_text("nonsense")
    assert decision("git -C inner status", project) == "ask"


def test_a_false_repository_does_not_hide_one_above(
    project: Path, git: Git, tmp_path: Path
) -> None:
    """Git passes by what only half looks like a repository, and so does the policy."""
    evil = embedded(project / "evil", git, planted(tmp_path)[0])
    half = evil / "half" / ".git"
    for name in ("objects", "refs"):
        (half / name).mkdir(parents=True)
    (half / "HEAD").write_text("nonsense\n")
    assert decision("git -C evil/half status", project) == "ask"


def test_a_place_that_a_rule_may_have_made(project: Path, git: Git, tmp_path: Path) -> None:
    """What is not there can do nothing, unless a command that a rule allows makes it first."""
    policy = ShellPolicy.default().with_rules(allow=["bash(git clone *)", "bash(cd *)"])
    judged = [
        policy.judge(command, root=str(project)).decision
        for command in ("git -C new status", "git clone x new && git -C new status")
    ]
    assert judged == ["allow", "ask"]
    embedded(project / "evil", git, planted(tmp_path)[0])
    assert policy.judge("cd evil && git status", root=str(project)).decision == "ask"
    assert policy.judge("cd ~/.ssh && cat config", root=str(project)).decision == "ask"


def test_links_that_are_followed_once_and_once_not(project: Path, git: Git, tmp_path: Path) -> None:
    """`cd -P` goes behind a link and the next `cd` does not: each way there is looked at."""
    program, proof = planted(tmp_path)
    for name in ("t/u", "far/off"):
        (project / name).mkdir(parents=True)
    (project / "l").symlink_to("t/u")
    (project / "t/m").symlink_to("../far/off")
    inner = made(project / "t/inner", git)
    git(inner, "config", "core.fsmonitor", str(program))
    for command in (
        "cd -P l/..; cd m/../inner; git status",
        "cd -P l; cd ../m/../inner; git status",
    ):
        assert runs_program(f"bash -c {shlex.quote(command)}", project, proof)
        assert decision(command, project) == "ask"
    assert decision("cd t/../far && git status", project) == "allow"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_index_is_read_as_git_reads_it(
    version: int, project: Path, git: Git, tmp_path: Path
) -> None:
    """In each of its versions a repository inside is found; an entry of a kind that git never writes is asked about."""
    program, proof = planted(tmp_path)
    inner = made(project / "sub/inner", git)
    git(inner, "config", "core.fsmonitor", str(program))
    git(project, "add", "sub/inner")
    if version == 3:
        (project / "later.txt").touch()
        git(project, "add", "-N", "later.txt")  # what only version 3 can say
    elif version == 4:
        git(project, "update-index", "--index-version", "4")
    index = project / ".git/index"
    assert index.read_bytes()[7] == version
    assert runs_program("git status", project, proof)
    assert decision("git status", project) == "ask"
    git(inner, "config", "core.fsmonitor", "false")
    assert decision("git status", project) == "allow"
    odd = bytearray(index.read_bytes())
    at = odd.index((0o160000).to_bytes(4, "big"), 12)
    odd[at + 3] = 1
    index.write_bytes(bytes(odd[:-20]) + hashlib.sha1(odd[:-20]).digest())
    assert decision("git status", project) == "ask"
    index.write_bytes(bytes(odd[:40]))
    assert decision("git status", project) == "ask"


def test_another_kind_of_repository(project: Path) -> None:
    """`pip freeze` starts hg where a project is installed from, and hg runs what the repository there says."""
    assert decision("pip freeze", project) == "allow"
    (project / ".hg").mkdir()
    (project / "sub").mkdir()
    for command in (
        "pip freeze",
        "pip freeze --exclude-editable",
        "cd sub && pip3 freeze",
        "cd $(cat f) && pip freeze",
    ):
        assert decision(command, project) == "ask"


def test_settings_that_are_secrets_are_not_read_from_their_file_either(
    project: Path, git: Git
) -> None:
    """`git remote -v` asks where an address holds a password, and so does whatever shows the file."""
    commands = (
        "cat .git/config",
        "cd .git; cat config",
        "grep -r url .git",
        "head .git/conf*",
        "git remote -v",
    )
    for command in commands:
        assert decision(command, project) == "allow"
    git(project, "remote", "add", "origin", "https://me:token@example.org/x.git")
    for command in commands:
        assert decision(command, project) == "ask"
    assert decision("ls .git", project) == "allow"


def test_a_name_that_is_a_host_to_tar(project: Path) -> None:
    """A pattern may find a name with a colon, and tar would ask another machine for that file."""
    assert decision("tar tf b*.tar", project) == "allow"
    (project / "backup:evil.tar").touch()
    for command in ("tar tf b*.tar", 'for f in *.tar; do tar tf "$f"; done'):
        assert decision(command, project) == "ask"
    assert decision("tar tf ./b*.tar", project) == "allow"


def test_a_place_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the directory of this process has been removed, nothing can be looked at, and nothing is raised."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    policy = ShellPolicy.default()
    commands = ("git status", "git -C x log", "pip freeze", "tar tf *.tar", "ls")
    verdicts = [policy.judge(command).decision for command in commands]
    assert verdicts[0] == verdicts[2] == "ask"
    assert verdicts[-1] == "allow"
