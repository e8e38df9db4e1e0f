"""The policy in front of commands: what is blocked, who is asked, and what an answer gives."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bash_runs import Approver, run
from ports import free_port

from hookline import AgentBuilder, RunResult, ToolContext, tool
from hookline.capabilities import Approval, Bash
from hookline.containment import Sandbox, SandboxPaths, ShellPolicy
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, calls, say

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
HARMLESS, UNKNOWN, DEADLY = "ls", "touch made", "sudo ls"


def statuses(result: RunResult) -> list[str]:
    """The statuses of the calls."""
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


def test_a_program_of_the_project_with_an_equals_sign_asks(tmp_path: Path) -> None:
    """A list of words has no variables: `TZ=a/run` is the file `run` in the directory `TZ=a`."""
    program = tmp_path / "TZ=a" / "run"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch made\n")
    program.chmod(0o755)
    nobody = Approver(False)
    result = run(Bash(tmp_path, sandbox="host"), call("exec", argv=["TZ=a/run"]), approver=nobody)
    assert statuses(result) == ["denied"]
    assert not (tmp_path / "made").exists()


@needs_bubblewrap
def test_in_the_sandbox_a_removal_of_what_is_not_known_asks(tmp_path: Path) -> None:
    """What is plainly a part of the work directory is removed without a question; all else is up to a person."""
    for name in ("build", "src", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.o").touch()
    commands = [
        'rm -rf "$(pwd)"/*',
        "rm -rf [a-z]*",
        "ls | xargs rm -rf",
        "rm -rf .git/*",
        "rm -rf build",
        "rm src/*.o",
    ]
    result = run(
        Bash(tmp_path, sandbox="required"),
        calls(*(call("bash", command=command) for command in commands)),
        approver=Approver(False),
    )
    assert statuses(result) == ["denied", "denied", "denied", "blocked", "ok", "ok"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["docs", "src"]
    assert list(tmp_path.rglob("*.o")) == [tmp_path / "docs" / "x.o"]


def test_a_planted_repository_is_not_entered_on_the_host(tmp_path: Path) -> None:
    """The repository is looked for in the work directory of the shell, and where a call says it runs."""
    evil = tmp_path / "evil"
    for name in ("objects", "refs"):
        (evil / name).mkdir(parents=True)
    (evil / "HEAD").write_text("ref: refs/heads/main\n")
    (evil / "config").write_text(f"[core]\n\tworktree = ..\n\tfsmonitor = touch {tmp_path}/made\n")
    nobody = Approver(False)
    result = run(
        Bash(tmp_path, sandbox="host"),
        calls(
            call("bash", command="git -C evil status"),
            call("bash", command="git status", cwd="evil"),
            call("exec", argv=["git", "-C", "evil", "status"]),
        ),
        approver=nobody,
    )
    assert statuses(result) == ["denied"] * 3
    assert all("no repository at" in reason for reason in nobody.reasons)
    assert not (tmp_path / "made").exists()


def test_a_call_is_judged_again_as_it_starts(tmp_path: Path) -> None:
    """What the commands before it in the same turn have left counts: their directory, their variables, their files."""
    (tmp_path / "keys" / ".ssh").mkdir(parents=True)
    (tmp_path / "keys" / ".ssh" / "config").write_text("secret")
    (tmp_path / "sub").mkdir()
    turns = (
        calls(call("bash", command="cd keys/.ssh"), call("bash", command="cat config")),
        calls(call("bash", command="cd ../../sub"), call("bash", command="ls")),
        calls(call("bash", command="export GIT_DIR=x"), call("bash", command="ls")),
        calls(call("bash", command="ls")),
    )
    person = Approver(True)
    result = run(Bash(tmp_path, sandbox="host", keep="session"), *turns, approver=person)
    assert statuses(result) == ["ok", "error", "ok", "ok", "ok", "error", "ok"]
    assert "may hold secrets" in result.steps[0].results[1].text
    assert "Call it again" in result.steps[0].results[1].text
    assert len(person.reasons) == 2
    assert person.reasons[1].startswith("earlier commands have set variables")


@needs_bubblewrap
def test_in_the_sandbox_only_what_leaves_it_asks(tmp_path: Path) -> None:
    """What the policy would ask about is contained, so it runs; what it forbids is blocked there too."""
    nobody = Approver(False)
    result = run(
        Bash(tmp_path, sandbox="required"),
        calls(
            call("bash", command=UNKNOWN),
            call("bash", command=DEADLY),
            call("bash", command="make x", network=True),
            call("bash", command="true", network=True),
            call("bash", command="ls", place="host"),
        ),
        approver=nobody,
    )
    assert statuses(result) == ["ok", "blocked", "denied", "denied", "denied"]
    assert (tmp_path / "made").exists()
    network, asked, outside = nobody.reasons
    assert network.startswith("it would have the network; ")
    assert asked.startswith("it would have the network")
    assert (
        outside
        == "it would run on the host, outside the sandbox, with your files, keys and network"
    )


@needs_bubblewrap
def test_always_asks_in_the_sandbox_too(tmp_path: Path) -> None:
    """With this option every command that is not plainly harmless asks."""
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
        call("bash", command=command, place="host"),
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
def test_the_directory_counts_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is harmless in the work directory asks where secrets lie, whatever way it gets there."""
    home = tmp_path / "home" / "somebody"
    for directory in (home / ".aws", tmp_path / "work" / "src"):
        directory.mkdir(parents=True)
        (directory / "config").write_text("text")
    (tmp_path / "work" / "link").symlink_to(home / ".aws")
    monkeypatch.setenv("HOME", str(home))
    nobody = Approver(False)
    places = ("src", str(home / ".aws"), "~/.aws", "../home/somebody/.aws", "link")
    named = run(
        Bash(tmp_path / "work", sandbox="host"),
        *(call("bash", command="cat config", cwd=place) for place in places),
        call("exec", argv=["cat", "config"], cwd="~/.aws"),
        approver=nobody,
    )
    kept = run(
        Bash(tmp_path / "work", sandbox="host", keep="session"),
        call("bash", command="cd ~/.aws"),
        call("bash", command="cat config"),
        approver=nobody,
    )
    assert statuses(named) == [
        "ok",
        *["denied"] * 3,
        "blocked",
        "denied",
    ]  # a link is refused at once
    assert statuses(kept) == ["ok", "denied"]
    assert all("may hold secrets" in reason for reason in nobody.reasons)


@needs_bubblewrap
@pytest.mark.parametrize("keep", ["nothing", "session"])
def test_a_command_on_the_host_does_not_follow_a_link_that_a_command_made(
    tmp_path: Path, keep: Any
) -> None:
    """Another command of the turn, or one that runs while a person thinks, may have put it there."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data").write_text("text")
    (tmp_path / "work" / "sub").mkdir(parents=True)

    async def approve(approval: Any) -> bool:
        await Sandbox(tmp_path / "work", "required").run("rmdir sub; ln -s ../other sub")
        return True

    asked = call("bash", command="rm data", cwd="sub", place="host")
    result = run(Bash(tmp_path / "work", keep=keep), asked, asked, approver=approve)
    assert statuses(result) == ["error", "blocked"]
    assert "is a link, so a command on the host would run in" in result.steps[1].results[0].text
    assert (tmp_path / "other" / "data").exists()


@pytest.mark.parametrize("link", ["work/sub", "more/sub", "work"])
def test_no_link_that_commands_could_have_made_leads_to_a_command_on_the_host(
    tmp_path: Path, link: str
) -> None:
    """In the work directory, in another one that they can write, or above: it was found without links."""
    for directory in ("other/sub", "work", "more"):
        (tmp_path / directory).mkdir(parents=True)
    paths = SandboxPaths(write=(tmp_path / "more",))
    bash = Bash(sandbox=Sandbox(tmp_path / "work", "host", paths=paths))
    if link == "work":
        (tmp_path / "work").rmdir()
    (tmp_path / link).symlink_to(tmp_path / "other")
    here, root = (
        call("bash", command="pwd", cwd=str(tmp_path / link)),
        call("bash", command="pwd", cwd="/"),
    )
    result = run(bash, here, root, approver=Approver(False))
    assert statuses(result) == ["blocked", "ok"]


def test_a_directory_that_is_called_like_the_home_is_judged_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`~` is the home to the policy and to the kernel, and `./~` is a directory of the project to both."""
    home = tmp_path / "home"
    planted = home / "work" / "~" / "src"
    for directory in (home / ".ssh", home / "src", planted):
        directory.mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("KEY")
    (home / "src" / "notes").write_text("plain")
    (planted / "notes").symlink_to(home / ".ssh" / "id_rsa")
    monkeypatch.setenv("HOME", str(home))
    named = run(
        Bash(home / "work", sandbox="host"),
        call("bash", command="cat notes", cwd="~/src"),
        call("exec", argv=["cat", "notes"], cwd="~/src"),
        call("bash", command="cat notes", cwd="./~/src"),
        approver=Approver(False),
    )
    kept = run(
        Bash(home / "work", sandbox="host", keep="session"),
        call("bash", command="cd './~/src'"),
        call("bash", command="cat notes"),
        call("bash", command="cat notes", cwd="~/src"),
        approver=Approver(False),
    )
    assert statuses(named) == ["ok", "ok", "denied"]
    assert statuses(kept) == ["ok", "denied", "ok"]
    texts = [step.results[0].text for result in (named, kept) for step in result.steps[:3]]
    assert [text.partition("\n")[0] for text in texts if "plain" in text] == ["plain"] * 3


def test_a_directory_that_is_gone_is_not_judged_in_place_of_the_top(tmp_path: Path) -> None:
    """A command that starts at the top, because the directory of the last one is gone, is judged at the top."""
    (tmp_path / "gone").mkdir()
    (tmp_path / "notes").symlink_to(tmp_path / ".env")
    (tmp_path / ".env").write_text("TOKEN=x")
    result = run(
        Bash(tmp_path, sandbox="host", keep="session"),
        call("bash", command="cd gone && rmdir ../gone"),
        call("bash", command="cat notes"),
        approver=lambda question: "rmdir" in question.reason,
    )
    assert statuses(result) == ["ok", "denied"]


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
    """The policy of the parent asks about commands of a child's own `bash`, whose place it does not know."""

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


@pytest.mark.parametrize("cwd", ["", "~", "sub"])
def test_where_another_s_tool_runs_is_not_known(tmp_path: Path, cwd: str) -> None:
    """The files that the policy sees in a directory are not those that a child's own `bash` finds there."""

    @tool(name="bash")
    def own_bash(command: str, cwd: str = "") -> str:
        """Run a command somewhere."""
        return f"ran {command} in {cwd}"

    @tool
    async def delegate(context: ToolContext) -> list[str]:
        """Have another agent run commands."""
        turns = [call("bash", command="cat notes", cwd=cwd), say("done")]
        child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(own_bash)
        result = await context.spawn(child.build(), "Go.")
        return [made.status.value for step in result.steps for made in step.results]

    driver = ScriptedDriver([call("delegate"), say("done")])
    parent = AgentBuilder().with_driver(driver).with_tools(delegate).with_approver("deny")
    agent = parent.with_capability(Bash(tmp_path, place="host")).build()
    made = agent.run_sync("Go.").steps[0].results[0].result
    assert list(made) == ["denied" if cwd else "ok"]


# --- the network and credentials -----------------------------------------------------------------


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """A server that takes a push, on the loopback address of this machine."""
    bare = tmp_path / "served" / "repository.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    port = free_port()
    options = [f"--base-path={bare.parent}", "--export-all", "--enable=receive-pack"]
    server = subprocess.Popen(
        ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", *options]
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.05)
        yield f"git://127.0.0.1:{port}/repository.git"
    finally:
        server.terminate()
        server.wait()


@needs_bubblewrap
def test_only_the_argument_gives_the_network(tmp_path: Path, remote: str) -> None:
    """Whatever the program is: without the argument nobody is asked, and nothing is reached."""
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    subprocess.run(["git", "-C", str(work), "remote", "add", "origin", remote], check=True)
    commit = "git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x"
    yes = Approver(True)
    result = run(
        Bash(work, sandbox="required"),
        call("bash", command=commit),
        call("bash", command="git push origin main"),
        call("bash", command="git push origin main", network=True),
        call("exec", argv=["git", "ls-remote", "origin"], network=True),
        approver=yes,
    )
    codes = [step.results[0].metadata["exit_code"] for step in result.steps[:4]]
    assert codes == [0, 128, 0, 0], [step.results[0].text for step in result.steps[:4]]
    assert [reason.split(";")[0] for reason in yes.reasons] == ["it would have the network"] * 2


@needs_bubblewrap
def test_a_rule_of_the_shell_policy_gives_no_network(tmp_path: Path) -> None:
    """It says which commands are harmless. A rule of Approval has to name the network."""
    policy = ShellPolicy.default().with_rules(allow=["cat *"])
    turn = call("bash", command="cat /etc/hostname", network=True)
    nobody = Approver(False)
    assert statuses(run(Bash(tmp_path, policy=policy), turn, approver=nobody)) == ["denied"]
    assert nobody.reasons == ["it would have the network"]
    for rule, status in (("bash(cat *)", "denied"), ("bash(command=cat *, network=true)", "ok")):
        driver = ScriptedDriver([turn, say("done")])
        agent = AgentBuilder().with_driver(driver).with_approver("deny")
        agent.with_capability(Bash(tmp_path)).with_capability(Approval(allow=[rule]))
        assert statuses(agent.build().run_sync("Go.")) == [status]


@needs_bubblewrap
def test_credentials_are_on_the_host_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git in the sandbox gets none, with or without the network, and the result names the argument."""
    work, home = tmp_path / "work", tmp_path / "home"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("PRIVATE KEY")
    monkeypatch.setenv("HOME", str(home))
    show = SandboxPaths(show=(home,))
    push = "cat ~/.ssh/id; echo 'git@host: Permission denied (publickey).'; exit 128"
    result = run(
        Bash(work, sandbox=Sandbox(work, "required", paths=show)),
        call("bash", command=push, network=True),
        call("bash", command="cat ~/.ssh/id", place="host"),
        approver=Approver(True),
    )
    inside, outside = (step.results[0].text for step in result.steps[:2])
    assert "PRIVATE" not in inside
    assert "there are no credentials here; one that needs the user's credentials" in inside
    assert 'needs place="host"' in inside
    assert outside.startswith("PRIVATE")


def test_an_invalid_policy_is_a_build_error(tmp_path: Path) -> None:
    """Not an error at the first command."""
    for policy in ("x", ShellPolicy, {"allow": ["ls"]}):
        with pytest.raises(BuildError, match=r"is not a ShellPolicy\. Use ShellPolicy"):
            Bash(tmp_path, policy=policy)  # type: ignore[arg-type]
