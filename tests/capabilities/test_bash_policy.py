"""The policy in front of commands: what is blocked, who is asked, and what an answer gives."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunResult, ToolContext, tool
from hookline.capabilities import Bash
from hookline.capabilities.bash.needs import needs_network, network_grant
from hookline.containment import Sandbox, SandboxPaths, ShellPolicy
from hookline.testing import ScriptedDriver, call, calls, say

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
HARMLESS, UNKNOWN, DEADLY = "ls", "touch made", "sudo ls"


class Approver:
    """Answers every question alike, and remembers them."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.reasons: list[str] = []

    def __call__(self, question: Any) -> bool:
        self.reasons.append(question.reason)
        return self.answer


def run(bash: Any, *turns: Any, approver: Any) -> RunResult:
    """A run in which the model makes these turns."""
    driver = ScriptedDriver([*turns, say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(bash)
    return builder.with_approver(approver).build().run_sync("Go.")


def statuses(result: RunResult) -> list[str]:
    """What became of the calls."""
    return [made.status.value for step in result.steps for made in step.results]


def test_on_the_host_everything_that_is_not_plainly_harmless_asks(tmp_path: Path) -> None:
    """What is harmless runs, what is forbidden is blocked with the reason, the rest is up to a person."""
    nobody = Approver(False)
    result = run(
        Bash(tmp_path, sandbox="host"),
        calls(
            call("bash", command=HARMLESS),
            call("bash", command=UNKNOWN),
            call("bash", command=DEADLY),
            call("exec", argv=["ls"]),
            call("exec", argv=["touch", "made"]),
            call("exec", argv=["sudo", "ls"]),
        ),
        approver=nobody,
    )
    assert statuses(result) == ["ok", "denied", "blocked"] * 2
    assert len(nobody.reasons) == 2
    assert all("(it would run on the host)" in reason for reason in nobody.reasons)
    assert not (tmp_path / "made").exists()


@needs_bubblewrap
def test_in_the_sandbox_only_what_leaves_it_asks(tmp_path: Path) -> None:
    """What the policy would ask about is contained, so it runs; what it forbids is blocked there too."""
    nobody = Approver(False)
    result = run(
        Bash(tmp_path, sandbox="required"),
        calls(
            call("bash", command=UNKNOWN),
            call("bash", command=DEADLY),
            call("bash", command="curl http://example.com"),
            call("bash", command="true", network=True),
            call("bash", command="ls", outside=True),
        ),
        approver=nobody,
    )
    assert statuses(result) == ["ok", "blocked", "denied", "denied", "denied"]
    assert (tmp_path / "made").exists()
    network, asked, outside = nobody.reasons
    assert network.startswith("it is to have the network; ")
    assert asked.startswith("it is to have the network")
    assert outside == "it is to run outside the sandbox, with your files, keys and network"


@needs_bubblewrap
def test_always_asks_in_the_sandbox_too(tmp_path: Path) -> None:
    """For those who want to see every command that is not plainly harmless."""
    nobody = Approver(False)
    result = run(
        Bash(tmp_path, sandbox="required", ask="always"),
        calls(call("bash", command=HARMLESS), call("bash", command=UNKNOWN)),
        approver=nobody,
    )
    assert statuses(result) == ["ok", "denied"]


def test_rules_of_the_user_are_obeyed(tmp_path: Path) -> None:
    """They allow, ask and deny; what is denied is not run anywhere."""
    policy = ShellPolicy.default().with_rules(allow=["touch *"], deny=["ls *"], ask=["pwd"])
    nobody = Approver(False)
    result = run(
        Bash(tmp_path, sandbox="host", policy=policy),
        calls(
            call("bash", command=UNKNOWN),
            call("bash", command="ls -l"),
            call("bash", command="pwd"),
        ),
        approver=nobody,
    )
    assert statuses(result) == ["ok", "blocked", "denied"]


@needs_bubblewrap
def test_outside_runs_on_the_host_once_a_person_agrees(tmp_path: Path) -> None:
    """It can write where nothing in the sandbox can; the result says that it was not contained."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    command = f"touch {other}/made"
    result = run(
        Bash(work, sandbox="required"),
        call("bash", command=command),
        call("bash", command=command, outside=True),
        approver=Approver(True),
    )
    first, second = (step.results[0] for step in result.steps[:2])
    assert first.metadata["exit_code"] == 1
    assert (second.metadata["exit_code"], second.metadata["contained"]) == (0, False)
    assert (other / "made").exists()


def test_variables_of_earlier_commands_make_harmless_ones_ask_on_the_host(tmp_path: Path) -> None:
    """`ls` is harmless as long as it is the usual `ls`."""
    yes = Approver(True)
    run(
        Bash(tmp_path, sandbox="host", keep="session"),
        call("bash", command=HARMLESS),
        call("bash", command="export PATH=$PWD:$PATH"),
        call("bash", command=HARMLESS),
        approver=yes,
    )
    assert len(yes.reasons) == 2
    assert yes.reasons[1] == "earlier commands have set variables that may change what it does"


@needs_bubblewrap
def test_the_policy_holds_in_children(tmp_path: Path) -> None:
    """A child with a shell of its own is judged by its parent's rules too; one without a sandbox asks."""
    (tmp_path / "child").mkdir()

    def delegating(child_bash: Any) -> Any:
        @tool
        async def delegate(context: ToolContext) -> list[str]:
            """Have another agent run commands."""
            turns = [
                calls(call("bash", command="make x"), call("bash", command="touch made")),
                say("done"),
            ]
            child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(child_bash)
            result = await context.spawn(child.build(), "Go.")
            return [made.status.value for step in result.steps for made in step.results]

        policy = ShellPolicy.default().with_rules(deny=["make *"])
        nobody = Approver(False)
        driver = ScriptedDriver([call("delegate"), say("done")])
        parent = AgentBuilder().with_driver(driver).with_tools(delegate).with_approver(nobody)
        parent.with_capability(Bash(tmp_path, sandbox="required", policy=policy))
        return parent.build().run_sync("Go.").steps[0].results[0].result

    assert list(delegating(Bash(tmp_path / "child", sandbox="required"))) == ["blocked", "ok"]
    assert list(delegating(Bash(tmp_path / "child", sandbox="host"))) == ["blocked", "denied"]


@needs_bubblewrap
def test_another_s_tool_of_the_same_name_is_not_taken_for_contained(tmp_path: Path) -> None:
    """The policy of the parent asks about what a child's own `bash` would run who knows where."""

    @tool(name="bash")
    def own_bash(command: str) -> str:
        """Run a command somewhere."""
        return f"ran {command}"

    @tool
    async def delegate(context: ToolContext) -> list[str]:
        """Have another agent run commands."""
        turns = [call("bash", command="touch made"), say("done")]
        child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(own_bash)
        result = await context.spawn(child.build(), "Go.")
        return [made.status.value for step in result.steps for made in step.results]

    driver = ScriptedDriver([call("delegate"), say("done")])
    parent = AgentBuilder().with_driver(driver).with_tools(delegate).with_approver("deny")
    agent = parent.with_capability(Bash(tmp_path, sandbox="required")).build()
    assert list(agent.run_sync("Go.").steps[0].results[0].result) == ["denied"]


# --- the network ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git push",
            "git -C . fetch",
            "cd x && git pull --rebase",
            "curl -s http://x | head",
            "npm ci",
        ),
        *(
            "pip install x",
            "python -m pip install x",
            "/usr/bin/wget x",
            "rsync a host:b",
            "go mod tidy",
        ),
        *("gh pr list", "uv sync", "cargo install x", "docker pull x", "npx create-x"),
    ],
)
def test_programs_that_go_out_are_known(command: str) -> None:
    """By name, or by what they are told to do, also as part of a longer command."""
    assert needs_network(command)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git status",
            "git log --grep push",
            "npm test",
            "cargo build",
            "pip list",
            "make",
            "echo curl",
        ),
        *("grep -r 'git push' .", "rsync a b", "python x.py", "go build ./...", "", "ls 'curl"),
    ],
)
def test_other_programs_stay_in(command: str) -> None:
    """A word that is only an argument does not count."""
    assert not needs_network(command)


@needs_bubblewrap
def test_keys_are_shown_to_a_plain_git_only(tmp_path: Path) -> None:
    """In the repository of the work directory, whose configuration no command can change, and in one command."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "planted" / ".git").mkdir(parents=True)
    plain = network_grant("git push origin main", tmp_path / "sub" / "deep", tmp_path)
    assert plain.network
    assert "~/.ssh" in plain.reveal
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
        ("curl http://x", tmp_path),
        ("npm install", tmp_path),
    ]:
        grant = network_grant(command, cwd, tmp_path)
        assert grant.network, command
        assert not grant.reveal, command
        assert not grant.unix_sockets, command


@needs_bubblewrap
def test_a_push_can_use_the_keys_and_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a push is given: keys that are hidden from other commands, the agent's socket, and nothing planted."""
    work, home = tmp_path / "work", tmp_path / "home"
    (work / ".git").mkdir(parents=True)
    (work / "bin").mkdir()
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("private")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{work}/bin:/usr/bin:/bin")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    paths = SandboxPaths(read=(home, sys.base_prefix))
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
        seen = sandbox.run_sync(look, grant=network_grant("git push", work, work)).text
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
        step.results[0].text() for step in result.steps[:4]
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
    assert ruled.steps[0].results[0].metadata["exit_code"] == 0, ruled.steps[0].results[0].text()
    assert nobody.reasons == []
