"""git reads without asking only in a repository that is trusted, and whose configuration names no program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.containment import ShellPolicy
from hookline.containment.shell.git_trust import configuration_hash
from hookline.errors import UsageError

READING = (
    "git status", "git status --short", "git diff", "git diff --stat", "git log -p", "git log --oneline -5", "git show",
    "git show HEAD:f", "git ls-files -m", "git describe --always", "git stash list",
    "git branch -a", "git tag", "git remote -v", "git rev-parse HEAD", "git shortlog -sn", "git check-ignore f",
    "git diff HEAD", "git reflog", "git count-objects -v", "git for-each-ref", "git --no-pager log", "git -C . status",
    "time git status", "timeout 9 git status", "cd . && git status", "cd sub && git status", "git -C sub log",
    "bash -c 'git status'", "git cat-file -p HEAD", "git rev-list --count HEAD",
)  # fmt: skip


def git(place: Path, *words: str) -> None:
    """Run git as the attacker would, far from the user's own configuration."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "a@b"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    command = ["git", "-c", "protocol.file.allow=always", *words]
    subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a commit, and a directory in it."""
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / "f").write_text("x\n")
    (top / "sub" / "g").write_text("x\n")
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "x")
    return top


def decide(top: Path, command: str = "git status", **options: object) -> str:
    """What a policy that trusts the repository says of a command in it."""
    policy = ShellPolicy(trusted=[str(top)], **options)  # type: ignore[arg-type]
    return policy.judge(command, root=str(top)).decision


def test_reading_is_allowed_in_a_trusted_repository(top: Path) -> None:
    """Below it, too; nowhere else."""
    assert [text for text in READING if decide(top, text) != "allow"] == []
    untrusting = ShellPolicy.default()
    assert {untrusting.judge(text, root=str(top)).decision for text in READING} == {"ask"}
    assert decide(top, "cd .. && git status") == "ask"
    assert decide(top, "git -C .. status") == "ask"
    assert decide(top, "git -C /somewhere status") == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.fsmonitor=./x status",
        "git --git-dir=x status",
        "git --exec-path=. status",
        "git log --output=x",
        "git diff --ext-diff",
        "git diff --no-index a b",
        "git diff /etc/passwd f",
        "git grep x",
        "git blame f",
        "git log --show-signature",
        "git log --format=%G?",
        "git branch new",
        "git tag new",
        "git branch -D main",
        "git stash",
        "git config --list",
        "git fetch",
        "git reflog expire --all",
        "git show HEAD:.env",
        "git grep -h KEY -- .env",
        "git diff --submodule=diff",
        "GIT_EXTERNAL_DIFF=./x git diff",
        "git log -- :/.e*",
        "git remote show origin",
        "git ls-files -z | xargs -0 cat",
    ],
)
def test_what_does_more_asks(top: Path, command: str) -> None:
    """Options that write or start programs, other sub-commands, and secrets."""
    assert decide(top, command) == "ask"


@pytest.mark.parametrize(
    "name", ["packed-refs", "shallow", "objects/info/alternates", "info/exclude", "refs/heads/x/y"]
)
@pytest.mark.parametrize("target", ["/nonexistent/.git-credentials", "../../../../f", "."])
def test_a_link_out_of_the_repository_asks(top: Path, name: str, target: str) -> None:
    """git follows it, and prints what it cannot read. It is found also after the repository was looked at."""
    assert decide(top) == "allow"
    link = top / ".git" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(top / "f" if target == "." else target)
    assert decide(top, "git for-each-ref") == "ask"
    link.unlink()
    assert decide(top) == "allow"


def test_a_link_that_git_does_not_print_is_no_harm(top: Path) -> None:
    """Hooks are often links into the work tree; and a link may stay inside."""
    (top / ".git" / "hooks" / "commit-msg").symlink_to("../../f")
    (top / ".git" / "refs" / "heads" / "other").symlink_to("../../HEAD")
    assert decide(top) == "allow"


def _set(*settings: str) -> Callable[[Path], None]:
    def act(top: Path) -> None:
        for setting in settings:
            git(top, "config", *setting.split("=", 1))

    return act


def _append(text: bytes) -> Callable[[Path], None]:
    def act(top: Path) -> None:
        with (top / ".git" / "config").open("ab") as file:
            file.write(text)

    return act


def _script(path: Path, marker: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {marker}\n")
    path.chmod(0o755)


def _mark(top: Path) -> None:
    text = b'\xef\xbb\xbf[core]\n\tfsmonitor = "touch pwned; false"\n'
    (top / ".git" / "config").write_bytes(text)


def _nested(top: Path) -> None:
    inner = top / "sub"
    git(inner, "init", "-q")
    git(inner, "add", "g")
    git(inner, "commit", "-q", "-m", "x")
    git(inner, "config", "core.fsmonitor", "touch ../pwned; false")


def _bare(top: Path) -> None:
    """A directory that is a repository itself, with a configuration that names a program."""
    (top / "f").unlink()
    for name in ("objects", "refs"):
        (top / "sub" / name).mkdir()
    (top / "sub" / "HEAD").write_text("ref: refs/heads/main\n")
    (top / "sub" / "config").write_text(
        '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "touch ../pwned; false"\n'
    )


def _embedded(top: Path) -> None:
    _nested(top)
    git(top, "rm", "-q", "-r", "--cached", "sub")
    git(top, "add", "sub")


def _include(top: Path) -> None:
    (top / "included").write_text('[core]\nfsmonitor = "touch pwned; false"\n')
    git(top, "config", "include.path", "../included")


def _conditional_include(top: Path) -> None:
    (top / "included").write_text('[core]\nfsmonitor = "touch pwned; false"\n')
    _append(b'[includeIf "gitdir:**"]\n\tpath = ../included\n')(top)


def _worktree_config(top: Path) -> None:
    git(top, "config", "extensions.worktreeConfig", "true")
    (top / ".git" / "config.worktree").write_text('[core]\nfsmonitor = "touch pwned; false"\n')


def _moved(top: Path) -> None:
    (top / ".git").rename(top / "elsewhere")
    (top / ".git").write_text("gitdir: elsewhere\n")
    git(top, "config", "core.fsmonitor", "touch pwned; false")


def _linked(top: Path) -> None:
    (top / ".git").rename(top / "elsewhere")
    (top / ".git").symlink_to("elsewhere")


def _common(top: Path) -> None:
    (top / "other").mkdir()
    git(top / "other", "init", "-q")
    git(top / "other", "config", "core.fsmonitor", "touch pwned; false")
    (top / ".git" / "commondir").write_text("../other/.git\n")


def _hook(top: Path) -> None:
    _script(top / ".git" / "hooks" / "post-index-change", top / "pwned")
    os.utime(top / "f", (1, 1))


def _attributes(top: Path) -> None:
    (top / ".gitattributes").write_text("* diff=x filter=x\n")
    _script(top / "run", top / "pwned")
    for key in ("diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge"):
        git(top, "config", key, f"{top}/run")
    (top / "f").write_text("changed\n")


def _broken(top: Path) -> None:
    """git would look further up, where another repository waits."""
    parent = top.parent
    git(parent, "init", "-q")
    git(parent, "config", "core.fsmonitor", f"touch {top}/pwned; false")
    (top / ".git" / "HEAD").unlink()


HOSTILE: dict[str, Callable[[Path], None]] = {
    "fsmonitor": _set("core.fsmonitor=touch pwned; false"),
    "external diff": _set("diff.external=touch pwned;"),
    "pager": _set("core.pager=touch pwned"),
    "an alias": _set("alias.status=!touch pwned"),
    "hooks elsewhere": _set("core.hooksPath=hooks"),
    "signatures": _set("log.showSignature=true", "gpg.program=./run"),
    "files elsewhere": _set("core.worktree=/etc"),
    "attributes elsewhere": _set("core.attributesFile=x"),
    "objects that are fetched": _set(
        "extensions.partialClone=origin", "remote.origin.promisor=true"
    ),
    "a way to the server": _set("core.sshCommand=touch pwned;"),
    "a password": _set("remote.origin.url=https://me:secret@host/x"),
    "a token": _set("remote.origin.url=https://token@host/x"),
    "a form feed": _append(b'[core]\n\tfsmonitor\x0c= "touch pwned; false"\n'),
    "a form feed in a section": _append(b'[core\x0c]\n\tfsmonitor = "touch pwned; false"\n'),
    "a vertical tab": _append(b'\x0b[core]\n\tfsmonitor = "touch pwned; false"\n'),
    "a carriage return": _append(b'[core]\r\n\tfsmonitor = "touch pwned; false"\r\n'),
    "a continued line": _append(b'[core]\n\tfsmonitor = "touch \\\npwned; false"\n'),
    "capital letters": _append(b'[CORE]\n\tFSMONITOR = "touch pwned; false"\n'),
    "a byte order mark": _mark,
    "another byte": _append(b'[core]\n\tfilemode = \xff\xfe\n[core "\xff"]\n\tx = y\n'),
    "a zero byte": _append(b"[core]\n\tx = a\0b\n"),
    "nonsense": _append(b"[core\n"),
    "an include": _include,
    "a conditional include": _conditional_include,
    "the configuration of a worktree": _worktree_config,
    "a file for .git": _moved,
    "a link for .git": _linked,
    "another common directory": _common,
    "a hook": _hook,
    "attributes with drivers": _attributes,
    "a repository inside": _nested,
    "a repository inside that is tracked": _embedded,
    "a bare repository inside": _bare,
    "a repository that is broken": _broken,
}
INSIDE = {"a repository inside", "a bare repository inside"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_repository_asks_though_it_is_trusted(top: Path, name: str) -> None:
    """Wherever its configuration names a program or a file, or git cannot list it."""
    assert decide(top, "cd sub && git status") == "allow"
    HOSTILE[name](top)
    assert decide(top, "cd sub && git status" if name in INSIDE else "git status") == "ask"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_clone_runs_nothing(top: Path, name: str) -> None:
    """Whatever is allowed there is run for real, whether the repository is trusted or not: no marker appears."""
    HOSTILE[name](top)
    before = {path for path in top.parent.rglob("*") if path.name == "pwned"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(top.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    others = [
        "ls -la",
        "cat f",
        "rg x",
        "grep -r x .",
        "find . -name g",
        "python3 --version",
        "git --version",
    ]
    for policy in (ShellPolicy.default(), ShellPolicy(trusted=[str(top)])):
        for text in [*READING, *others]:
            if policy.judge(text, root=str(top)).decision == "allow":
                subprocess.run(
                    ["bash", "-c", "--", text],
                    cwd=top,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=False,
                    timeout=60,
                )
    after = {path for path in top.parent.rglob("*") if path.name == "pwned"}
    assert before == after


def test_the_markers_of_the_hostile_clones_are_real(top: Path) -> None:
    """Without the policy the same repository runs what it names."""
    HOSTILE["fsmonitor"](top)
    subprocess.run(["git", "status"], cwd=top, capture_output=True, check=False, timeout=60)
    assert (top / "pwned").exists()


def test_a_change_is_seen(top: Path) -> None:
    """What was seen is remembered only as long as the files are the same."""
    assert decide(top) == "allow"
    git(top, "config", "core.fsmonitor", "./x")
    assert decide(top) == "ask"
    git(top, "config", "--unset", "core.fsmonitor")
    assert decide(top) == "allow"


def test_a_changed_configuration_is_not_what_was_trusted(top: Path) -> None:
    """With the hash of what was trusted, even a harmless change asks."""
    policy = ShellPolicy(trusted={str(top): configuration_hash(str(top))})
    assert policy.judge("git status", root=str(top)).decision == "allow"
    git(top, "config", "user.name", "somebody")
    verdict = policy.judge("git status", root=str(top))
    assert verdict.decision == "ask"
    assert "has changed since it was trusted" in verdict.reason


def test_a_plain_submodule_that_is_not_checked_out_is_no_reason_to_ask(top: Path) -> None:
    """git starts itself only in those that are there."""
    _embedded(top)
    subprocess.run(["rm", "-rf", str(top / "sub" / ".git")], check=True)
    assert decide(top) == "allow"


def test_other_places_of_the_user_ask(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a variable says that the repository is elsewhere, it is not the trusted one."""
    monkeypatch.setenv("GIT_DIR", str(top / "other"))
    assert decide(top) == "ask"


def test_without_git_nothing_is_listed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that git cannot list asks."""
    monkeypatch.setattr("hookline.containment.git_settings.GIT", None)
    git_config = (top / ".git" / "config").read_text()
    (top / ".git" / "config").write_text(git_config + "\n")
    assert decide(top) == "ask"


def test_a_rule_of_the_user_still_lifts_it(top: Path) -> None:
    """Who allows a command by a rule has decided."""
    policy = ShellPolicy.default().with_rules(allow=["git status"])
    assert policy.judge("git status", root=str(top)).decision == "allow"
    assert policy.judge("git status && git log", root=str(top)).decision == "ask"


@pytest.mark.parametrize("key", ["submodule.recurse", "status.submoduleSummary"])
def test_settings_that_lead_git_into_other_repositories_ask(tmp_path: Path, key: str) -> None:
    """What those repositories name would be run."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    policy = ShellPolicy(trusted=[str(tmp_path)])
    assert policy.judge("git status", root=str(tmp_path)).decision == "allow"
    subprocess.run(["git", "-C", str(tmp_path), "config", key, "true"], check=True)
    assert policy.judge("git status", root=str(tmp_path)).decision == "ask"


@pytest.mark.parametrize("place", [".githooks", "~/hooks"])
def test_a_hook_in_the_directory_that_the_user_has_set_asks(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A relative one is a directory of the repository, with a hook that was committed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".gitconfig").write_text(f"[core]\n\thooksPath = {place}\n")
    assert decide(top) == "allow"
    hooks = top / os.path.expanduser(place)
    hooks.mkdir()
    _script(hooks / "post-index-change", top / "pwned")
    assert decide(top) == "ask"


@pytest.mark.parametrize("key", ["submodule.recurse", "diff.submodule", "status.submoduleSummary"])
def test_such_settings_of_the_user_ask_as_well(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A submodule of an old commit may have its repository in `.git/modules`, which nobody has looked at."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    (home / ".gitconfig").write_text("[include]\n\tpath = more\n")
    section, _, name = key.partition(".")
    (home / "more").write_text(f"[{section}]\n\t{name} = {'short' if 'diff' in key else 'no'}\n")
    assert decide(top) == "allow"
    (home / "more").write_text(f"[{section}]\n\t{name} = {'log' if 'diff' in key else 'yes'}\n")
    os.utime(home / ".gitconfig", (1, 1))
    assert decide(top) == "ask"
    (home / "more").write_text(f"[{section}]\n\t{name}\n")
    os.utime(home / ".gitconfig", (2, 2))
    assert decide(top) == "ask"


def test_an_operand_that_climbs_out_asks(tmp_path: Path) -> None:
    """`git diff` compares any two directories that it is given."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    policy = ShellPolicy(trusted=[str(tmp_path)])
    assert policy.judge("git diff src/../../ docs", root=str(tmp_path)).decision == "ask"


@pytest.mark.parametrize("name", ["env", "bash", "nohup", "eval", "python3"])
def test_a_program_that_runs_others_cannot_be_added(name: str) -> None:
    """The table would allow whatever stands behind it."""
    with pytest.raises(UsageError, match="cannot be added"):
        ShellPolicy(programs={name: []})


def test_a_trusted_directory_may_be_a_path(tmp_path: Path) -> None:
    """Paths are taken like texts, in a list and with a hash; one alone is no list."""
    git(tmp_path, "init", "-q")
    known = {tmp_path: configuration_hash(str(tmp_path))}
    for trusted in ([tmp_path], known):
        policy = ShellPolicy(trusted=trusted)
        assert policy.judge("git status", root=str(tmp_path)).decision == "allow"
    with pytest.raises(UsageError, match="one directory, not a list"):
        ShellPolicy(trusted=tmp_path)  # type: ignore[arg-type]  # the mistake
