"""git and a person's keys: who gets them, and that nothing a command has written runs with them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bash_runs import Approver, run

from hookline.capabilities import Bash
from hookline.capabilities.bash.network_needs import network_grant
from hookline.containment import Sandbox, SandboxPaths, ShellPolicy
from hookline.testing import call

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


def git(where: Path, *words: str) -> None:
    """Have git do something, as the user."""
    subprocess.run(["git", *words], cwd=where, check=True, capture_output=True)


@needs_bubblewrap
def test_keys_are_shown_to_a_plain_git_only(tmp_path: Path) -> None:
    """In the repository of the work directory, whose configuration no command can change, and in one command."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    sandbox = Sandbox(tmp_path, "required")
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "planted" / ".git").mkdir(parents=True)
    plain = network_grant("git push origin main", tmp_path / "sub" / "deep", sandbox).grant
    assert plain.network
    assert "~/.ssh" in plain.reveal
    for command in (
        "git push -u --force-with-lease=main:abc origin main",
        "git pull --rebase=merges --autostash",
        "git fetch --all --prune --depth=1",
        "git ls-remote --heads origin",
    ):
        assert network_grant(command, tmp_path, sandbox).grant.reveal, command
    for command, cwd in [
        ("git push origin main", tmp_path / "planted"),
        ("git push", tmp_path.parent),
        ("git -c core.sshCommand=x push", tmp_path),
        ("git -C planted push", tmp_path),
        ("cd planted && git push", tmp_path),
        ("GIT_SSH_COMMAND=x git push", tmp_path),
        ("./git push", tmp_path),
        ("git push $X", tmp_path),
        ("git push --receive-pack=./x origin", tmp_path),
        ("git fetch --upl=./x origin", tmp_path),
        ("git ls-remote --exec ./x origin", tmp_path),
        ("git ls-remote -u ./x origin", tmp_path),
        ("git fetch 'ext::sh -c x'", tmp_path),
        ("git push --recurse-submodules=on-demand", tmp_path),
        ("git pull --rebase -s subtree/theirs", tmp_path),  # would run ./git-merge-subtree/theirs
        ("git pull --str=subtree/theirs", tmp_path),
        ("git pull -Xours --no-such-option", tmp_path),
        ("curl http://x", tmp_path),
        ("npm install", tmp_path),
    ]:
        grant = network_grant(command, cwd, sandbox).grant
        assert grant.network, command
        assert not grant.reveal, command
        assert not grant.unix_sockets, command


@pytest.mark.parametrize("pointer", [False, True])
def test_git_gets_no_keys_while_its_directory_has_a_link_that_leads_out(
    tmp_path: Path, pointer: bool
) -> None:
    """It would print what the link leads to: a password, once it can be seen."""
    git(tmp_path, "init", "-q", *(["--separate-git-dir=inside"] if pointer else []))
    git(tmp_path, "remote", "add", "origin", "https://127.0.0.1:1/x.git")
    sandbox = Sandbox(tmp_path, "host")
    if not pointer:
        assert network_grant("git fetch", tmp_path, sandbox).grant.reveal
    link = tmp_path / ("inside" if pointer else ".git") / "packed-refs"
    link.symlink_to("/nonexistent/.git-credentials")
    given = network_grant("git fetch", tmp_path, sandbox)
    assert not given.grant.reveal
    assert "packed-refs is a link that leads out of the repository" in given.note


@needs_bubblewrap
def test_a_push_can_use_the_keys_and_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a push is given: keys that are hidden from other commands, the agent's socket, and nothing planted."""
    work, home = tmp_path / "work", tmp_path / "home"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "bin").mkdir()
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("private")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{work}/bin:/usr/bin:/bin")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    paths = SandboxPaths(show=(home, sys.base_prefix))
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        agent.listen()
        sandbox = Sandbox(work, "required", paths=paths)
        code = (
            "import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ['SSH_AUTH_SOCK'])"
        )
        python = os.path.realpath(sys.executable)
        look = f'cat ~/.ssh/id; echo " $PATH"; {python} -I -c "{code}" && echo connected'
        assert "private" not in sandbox.run_sync(look).text
        seen = sandbox.run_sync(look, grant=network_grant("git push", work, sandbox).grant).text
        assert seen == "private /usr/bin:/bin\nconnected\n"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """A server that takes a push, on the loopback address of this machine."""
    bare = tmp_path / "served" / "repository.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    options = [f"--base-path={bare.parent}", "--export-all", "--enable=receive-pack"]
    server = subprocess.Popen(
        ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", *options]
    )
    try:
        _wait_for(port)
        yield f"git://127.0.0.1:{port}/repository.git"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the server did not start")


@needs_bubblewrap
def test_an_approved_push_works(tmp_path: Path, remote: str) -> None:
    """A person is asked, and says yes: that command has the network, and no other. A rule gives it as well."""
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    subprocess.run(["git", "-C", str(work), "remote", "add", "origin", remote], check=True)
    commit = "echo x >> file && git add file && git -c user.name=x -c user.email=x@x commit -qm x"
    sneaky = f"sh -c 'git push {remote} main:sneaky'"
    yes = Approver(True)
    result = run(
        Bash(work, sandbox="required"),
        call("bash", command=commit),
        call("bash", command=sneaky),
        call("bash", command="git push -u origin main"),
        call("exec", argv=["git", "ls-remote", "origin"]),
        approver=yes,
    )
    codes = [step.results[0].metadata.get("exit_code") for step in result.steps[:4]]
    assert codes[0] == codes[2] == codes[3] == 0, [
        step.results[0].text for step in result.steps[:4]
    ]
    assert len(yes.reasons) >= 2
    assert "merge = refs/heads/main" in (work / ".git" / "config").read_text()
    nobody = Approver(False)
    policy = ShellPolicy.default().with_rules(allow=["git push *"])
    ruled = run(
        Bash(work, sandbox="required", policy=policy),
        call("bash", command="git push origin main:other"),
        approver=nobody,
    )
    assert ruled.steps[0].results[0].metadata["exit_code"] == 0, ruled.steps[0].results[0].text
    assert nobody.reasons == []


HOOK = "#!/bin/sh\ncat ~/.ssh/id > stolen; echo ran >> ran\n"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a commit, and a home directory with a key beside it."""
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("private")
    monkeypatch.setenv("HOME", str(home))
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "x")
    git(work, "config", "user.email", "x@x")
    git(work, "commit", "-q", "--allow-empty", "-m", "x")
    return work


@needs_bubblewrap
def test_a_hook_in_the_work_directory_never_sees_the_keys(work: Path, remote: str) -> None:
    """The set-up of husky: a hook may run what commands have written, so a push then has no keys, and says so."""
    git(work, "remote", "add", "origin", remote)
    git(work, "config", "core.hooksPath", ".hooks")
    (work / ".hooks").mkdir()
    (work / ".hooks" / "pre-push").write_text("#!/bin/sh\nsh ./check.sh\n")
    (work / ".hooks" / "pre-push").chmod(0o755)
    write = f"printf '%s' '{HOOK}' > check.sh"
    paths = SandboxPaths(show=(work.parent / "home",))
    result = run(
        Bash(work, sandbox=Sandbox(work, "required", paths=paths)),
        call("bash", command=write),
        call("bash", command="git push origin main"),
        call("bash", command="rm ran; git push --no-verify origin main:other"),
        call("bash", command="git push --no-verify origin main:third"),
        approver=Approver(True),
    )
    results = [step.results[0].text for step in result.steps[:4]]
    assert "[git got no keys: the hook " in results[1], results
    assert "--no-verify" in results[1]
    assert "got no keys" not in results[3]
    assert result.steps[3].results[0].metadata["exit_code"] == 0, results
    assert not (work / "ran").exists(), "with the keys no hook runs"
    assert "private" not in (work / "stolen").read_text()


@needs_bubblewrap
def test_a_repository_beside_ours_gets_no_keys(work: Path) -> None:
    """The hooks of a remote that is a directory run here, so a push to one has no keys, which it does not need."""
    git(work, "init", "-q", "--bare", "remote.git")
    git(work, "remote", "add", "origin", str(work / "remote.git"))
    sandbox = Sandbox(work, "required")
    for command in ("git push origin main", "git push", "git push ./remote.git main"):
        given = network_grant(command, work, sandbox)
        assert not given.grant.reveal, command
        assert given.note == "", command
    # One that is written down where a command can write is refused by git itself.
    git(work, "remote", "set-url", "origin", "ssh://host/x")
    (work / ".git" / "remotes").mkdir()
    (work / ".git" / "remotes" / "sneaky").write_text(f"URL: {work}/remote.git\n")
    given = network_grant("git push sneaky main", work, sandbox)
    ran = sandbox.run_sync("git push sneaky main", grant=given.grant)
    assert "transport 'file' not allowed" in ran.text


UNSAFE = [
    ("core.sshCommand", "./ssh"),
    ("core.sshCommand", "tools/ssh -v"),
    ("core.sshCommand", "ssh -F tools/config"),
    ("core.sshCommand", "ssh -F known"),
    ("core.sshCommand", "/tmp/ssh"),
    ("core.sshCommand", "ssh -o ProxyCommand=./x"),
    ("credential.helper", "!f() { echo password=x; }; f"),
    ("credential.helper", "!npx helper"),
    ("credential.https://example.com.helper", "!./helper"),
    ("core.askPass", "./ask"),
    ("core.gitProxy", "./proxy"),
    ("core.alternateRefsCommand", "./refs"),
    ("gpg.program", "./gpg"),
    ("gpg.ssh.program", "python3 sign.py"),
    ("include.path", "../settings"),
    ("includeIf.onbranch:main.path", "../not-there-yet"),
    ("extensions.worktreeConfig", "true"),
    ("core.worktree", "elsewhere"),
    ("hook.x.command", "make check"),
]
ON_FILES = [
    ("filter.x.smudge", "./smudge"),
    ("filter.x.process", "python -m filter"),
    ("merge.x.driver", "bash merge.sh %A %B"),
    ("diff.x.textconv", "tools/text"),
]
SAFE = [
    ("core.sshCommand", "ssh -i ~/.ssh/deploy -o IdentitiesOnly=yes"),
    ("credential.helper", "store --file ~/.git-credentials"),
    ("credential.helper", "cache --timeout=3600"),
    ("credential.https://github.com.helper", "!/usr/bin/gh auth git-credential"),
    ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ("core.fsmonitor", "./monitor"),
    ("core.editor", "./editor"),
    ("alias.push", "!./push"),
    ("include.path", "/etc/gitconfig-of-the-company"),
]


@needs_bubblewrap
@pytest.mark.parametrize(
    ("key", "value", "verb", "safe"),
    [
        *((*each, "push", False) for each in UNSAFE),
        *((*each, "pull", False) for each in ON_FILES),
        *((*each, "push", True) for each in ON_FILES),
        *((*each, "pull", True) for each in SAFE),
    ],
)
def test_configuration_that_runs_what_a_command_wrote_costs_the_keys(
    work: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, verb: str, safe: bool
) -> None:
    """What git would run is named; a program outside of what commands can write is nobody's concern."""
    monkeypatch.setenv("HOME", "/nowhere/home")
    git(work, "remote", "add", "origin", "ssh://host/x")
    (work / "known").write_text("")
    (work / "settings").write_text("[core]\nsshCommand = ./x\n")
    with (work / ".git" / "config").open("a") as config:  # what git itself would refuse to set
        section, _, name = key.rpartition(".")
        top, _, inner = section.partition(".")
        heading = f'{top} "{inner}"' if inner else top
        config.write(f'[{heading}]\n{name} = "{value}"\n')
    given = network_grant(f"git {verb} origin main", work, Sandbox(work, "required"))
    assert bool(given.grant.reveal) == safe, given.note
    assert ("git got no keys: " in given.note) == (not safe)


@needs_bubblewrap
@pytest.mark.parametrize(
    ("name", "value", "safe"),
    [
        ("GIT_SSH_COMMAND", "./ssh", False),
        ("GIT_EXEC_PATH", "/anywhere", False),
        ("GIT_CONFIG_COUNT", "0", False),
        ("GIT_SSH_COMMAND", "ssh -v", True),
        ("GIT_AUTHOR_NAME", "x", True),
    ],
)
def test_variables_that_change_what_git_runs_cost_the_keys(
    work: Path, name: str, value: str, safe: bool
) -> None:
    """Variables that the user gives to every command are looked at too."""
    git(work, "remote", "add", "origin", "ssh://host/x")
    sandbox = Sandbox(work, "required", env={name: value})
    assert bool(network_grant("git push", work, sandbox).grant.reveal) == safe


@needs_bubblewrap
def test_configuration_that_appears_meanwhile_is_not_obeyed(work: Path, tmp_path: Path) -> None:
    """A command in the background may put `.git/commondir` there after the check: git gets all locations from us."""
    git(work, "remote", "add", "origin", "ssh://host/x")
    sandbox = Sandbox(work, "required")
    grant = network_grant("git push", work, sandbox).grant
    git(work, "init", "-q", "--bare", "planted")
    git(work / "planted", "config", "core.sshCommand", "./evil")
    (work / ".git" / "commondir").write_text("../planted\n")
    seen = sandbox.run_sync("git config core.sshCommand; git config core.hooksPath", grant=grant)
    assert seen.text == "/dev/null\n"


@needs_bubblewrap
def test_a_program_planted_in_tmp_does_not_run_with_the_keys(
    work: Path, remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands have a /tmp of their own: what the search path names there is theirs to make."""
    git(work, "remote", "add", "origin", remote)
    monkeypatch.setenv("PATH", f"/tmp/planted/bin{os.pathsep}{os.environ['PATH']}")
    plant = (
        "mkdir -p /tmp/planted/bin && echo 'echo planted' > /tmp/planted/bin/git "
        "&& chmod +x /tmp/planted/bin/git && git"
    )
    result = run(
        Bash(work, sandbox="required"),
        call("bash", command=plant),
        call("bash", command="git push origin main"),
        approver=Approver(True),
    )
    results = [step.results[0].text for step in result.steps[:2]]
    assert results[0].startswith("planted"), results
    assert "planted" not in results[1], results
    assert "main -> main" in results[1], results
