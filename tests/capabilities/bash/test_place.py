"""The argument `place` of the tools: where a command runs, what it leaves there, and what its result says."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunResult
from hookline.capabilities import Bash
from hookline.containment import Sandbox, SandboxPaths, ShellPolicy, ShellVerdict
from hookline.testing import ScriptedDriver, call, calls, say

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def run(bash: Bash, *turns: Any, approver: Any = "deny", state: Any = None) -> RunResult:
    """A run in which the model makes these turns."""
    driver = ScriptedDriver([*turns, say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(bash).with_approver(approver)
    return builder.build().run_sync("Go.", state=state)


def made(result: RunResult) -> list[Any]:
    """The results of all calls."""
    return [each for step in result.steps for each in step.results]


@pytest.mark.parametrize(
    ("usual", "asked", "where"),
    [
        ("workspace", None, "workspace"),
        ("workspace", "read-only", "read-only"),
        ("read-only", None, "read-only"),
        ("read-only", "read-only", "read-only"),
        ("host", "workspace", "workspace"),
        ("host", "read-only", "read-only"),
    ],
)
def test_a_stricter_place_never_asks(tmp_path: Path, usual: Any, asked: Any, where: str) -> None:
    """The call runs where it asks to, with either tool, and the result says where that was."""
    given = {} if asked is None else {"place": asked}
    result = run(
        Bash(tmp_path, place=usual),
        call("bash", command="touch made", **given),
        call("exec", argv=["touch", "made"], **given),
    )
    assert [each.metadata["place"] for each in made(result)] == [where, where]
    assert (tmp_path / "made").exists() == (where == "workspace")


def test_a_looser_place_asks_and_a_yes_gives_it(tmp_path: Path) -> None:
    """The question says what the command could then do."""
    asked: list[str] = []

    def agree(question: Any) -> bool:
        asked.append(question.reason)
        return True

    turns = (
        call("bash", command="touch made", place="workspace"),
        call("bash", command="true", place="host"),
    )
    first, second = made(run(Bash(tmp_path, place="read-only"), *turns, approver=agree))
    assert (first.metadata["place"], second.metadata["place"]) == ("workspace", "host")
    assert (tmp_path / "made").exists()
    assert asked[0].startswith(f"it would write in {tmp_path}")
    assert asked[1].startswith("it would run on the host, outside the sandbox")


def test_the_network_is_never_in_the_read_only_place(tmp_path: Path) -> None:
    """Neither because a call asks for it, nor because of a program's name, nor by a rule."""
    policy = ShellPolicy.default().with_rules(allow=["curl *"])
    bash = Bash(tmp_path, place="read-only", policy=policy)
    command = "curl -s --max-time 2 http://127.0.0.1:9"
    wanted, named = made(
        run(bash, calls(call("bash", command="true", network=True), call("bash", command=command)))
    )
    assert wanted.status.value == "blocked"
    assert 'Call it with network=true and place="workspace".' in wanted.text
    assert (named.status.value, named.metadata["place"]) == ("ok", "read-only")
    assert named.metadata["exit_code"] != 0


def test_in_the_background_it_is_the_same(tmp_path: Path) -> None:
    """A command that continues writes nothing either, and what it says about that comes with the argument to use."""
    bash = Bash(tmp_path)
    first, second = made(
        run(
            bash,
            call("bash", command="sleep 0.5; touch made", background=True, place="read-only"),
            call("bash_poll", id="bg-1", wait=20),
        )
    )
    assert first.metadata["place"] == "read-only"
    assert "Read-only file system" in second.text
    assert 'place="workspace" lets a command write' in second.text
    assert not (tmp_path / "made").exists()


def test_what_a_session_keeps_holds_in_every_place(tmp_path: Path) -> None:
    """The directory and the variables last; what was written does not, and a directory that is gone is said."""
    (tmp_path / "sub").mkdir()
    bash = Bash(tmp_path, keep="session")
    texts = [
        each.text
        for each in made(
            run(
                bash,
                call("bash", command="cd sub; export WORD=hello", place="read-only"),
                call("bash", command="echo $WORD; basename $PWD; touch here"),
                call("bash", command="mkdir -p /tmp/own; cd /tmp/own", place="read-only"),
                call("bash", command="pwd", place="read-only"),
                call("bash", command="mkdir -p /tmp/lasts; cd /tmp/lasts"),
                call("bash", command="pwd", place="read-only"),
                call("bash", command="cd /tmp", place="read-only"),
                call("bash", command="pwd", place="read-only"),
            )
        )
    ]
    assert texts[1].startswith("hello\nsub\n")
    assert (tmp_path / "sub" / "here").exists()
    assert texts[3].startswith(f"{tmp_path}\n")
    assert "[/tmp/own is gone, so this started in" in texts[3]
    assert "[/tmp/lasts is gone, so this started in" in texts[5]
    assert texts[7].startswith("/tmp\n")


def test_a_variable_that_was_kept_gives_no_way_out(tmp_path: Path) -> None:
    """Whatever an earlier command has made of the search path: what runs is as contained as before."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ls").write_text("#!/bin/sh\ntouch /work/made made\n")
    (tools / "ls").chmod(0o755)
    bash = Bash(tmp_path, keep="session")
    _, looked = made(
        run(
            bash,
            call("bash", command="export PATH=$PWD/bin:$PATH"),
            call("bash", command="ls", place="read-only"),
        )
    )
    assert "Read-only file system" in looked.text
    assert not (tmp_path / "made").exists()


FAILURES = [
    "touch made",
    "touch made; true",
    "python3 -c \"open('made', 'w')\"",
    "python3 select.py",
    "python3 insert.py",
    "git add file",
    "sed -i s/a/b/ file",
    "echo 'Error: EROFS: nothing can be written, open' >&2; exit 1",
]


def test_what_hits_the_read_only_file_system_names_the_argument(tmp_path: Path) -> None:
    """In the words of many programs, whether the command line as a whole fails or not."""
    for name, mode in (("wal", "wal"), ("plain", "delete")):
        database = sqlite3.connect(tmp_path / f"{name}.db")
        database.execute(f"pragma journal_mode={mode}")
        database.execute("create table t (x)")
        database.commit()
        database.close()
    wal, plain = 'sqlite3.connect("wal.db")', 'sqlite3.connect("plain.db")'
    (tmp_path / "select.py").write_text(f"import sqlite3\n{wal}.execute('select * from t')")
    (tmp_path / "insert.py").write_text(
        f"import sqlite3\n{plain}.execute('insert into t values (1)')"
    )
    (tmp_path / "file").write_text("a")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    turn = calls(*(call("bash", command=each, place="read-only") for each in FAILURES))
    for command, each in zip(FAILURES, made(run(Bash(tmp_path), turn)), strict=True):
        assert f'place="workspace" lets a command write in {tmp_path}' in each.text, command


def test_a_repository_of_an_earlier_command_cannot_be_configured_and_the_result_says_why(
    tmp_path: Path,
) -> None:
    """Nor removed. Made and configured in one command, it can."""
    once, later, removed = made(
        run(
            Bash(tmp_path),
            call("bash", command="git init -q new; git -C new remote add origin x"),
            call("bash", command="git -C new remote add other x"),
            call("bash", command="rm -r new"),
        )
    )
    assert once.metadata["exit_code"] == 0
    for each in (later, removed):
        assert each.metadata["exit_code"] != 0
        assert "make, configure and remove it in one command" in each.text


def test_what_fails_read_only_without_a_word_names_the_argument_too(tmp_path: Path) -> None:
    """Programs hide the message, or print so much that it is cut out. What only reads needs to write nothing."""
    (tmp_path / "file").write_text("a")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    told = [
        "git stash",
        "touch made 2>/dev/null",
        'python3 -c \'open("made", "w")\' 2>/dev/null',
        "seq 100000; touch made; seq 100000",
    ]
    not_told = [
        "grep b file",
        "test -f made",
        "diff file /dev/null",
        "touch made 2>/dev/null; true",
    ]
    turn = calls(*(call("bash", command=each, place="read-only") for each in (*told, *not_told)))
    results = made(run(Bash(tmp_path, max_chars=1000), turn))
    for command, each in zip((*told, *not_told), results, strict=True):
        assert ('place="workspace" lets a command write' in each.text) == (command in told), command
    (background, polled) = made(
        run(
            Bash(tmp_path),
            call("bash", command="sleep 0.5; git stash", background=True, place="read-only"),
            call("bash_poll", id="bg-1", wait=20),
        )
    )
    assert "[the sandbox" not in background.text
    assert 'place="workspace" lets a command write' in polled.text


def test_the_hint_depends_on_the_place(tmp_path: Path) -> None:
    """In the workspace it says what is protected there; without a failure it says nothing."""
    lookup = "echo 'Could not resolve host: x'; exit 1"
    inside, fine, network, strict = made(
        run(
            Bash(tmp_path),
            calls(
                call("bash", command="cd /; mkdir made"),
                call("bash", command="echo Read-only file system"),
                call("bash", command=lookup),
                call("bash", command=lookup, place="read-only"),
            ),
        )
    )
    assert 'place="host" runs a command without the sandbox' in inside.text
    assert "[the sandbox" not in fine.text
    assert "network=true gives it to one command" in network.text
    assert 'network=true with place="workspace"' in strict.text


class Naming(ShellPolicy):
    """A policy that finds environment files and removals."""

    def judge(self, command: str, *, cwd: str = "", root: str = "") -> ShellVerdict:
        """What is known of these commands."""
        found = super().judge(command, cwd=cwd, root=root)
        files = (f"{root}/.env",) if ".env" in command else ()
        removes = command.startswith("rm -rf")
        decision: Any = "ask" if files or removes else found.decision
        return ShellVerdict(
            decision, "it may do harm", command, asks_in_sandbox=removes, env_files=files
        )


@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_an_environment_file_asks_and_is_shown_to_that_call(
    tmp_path: Path, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A yes is for one call: the sandbox shows this file to it, and to no other."""
    (tmp_path / ".env").write_text("TOKEN=x")
    bash = Bash(tmp_path, place=place, policy=Naming.default())
    shown: list[tuple[str, ...]] = []
    start = bash.sandbox.start

    def watched(*args: Any, grant: Any, **options: Any) -> Any:
        shown.append(grant.reveal)
        return start(*args, grant=grant, **options)

    monkeypatch.setattr(bash.sandbox, "start", watched)
    asked: list[str] = []

    def agree(question: Any) -> bool:
        asked.append(question.reason)
        return len(asked) == 1

    turns = (
        call("bash", command="cat .env"),
        call("bash", command="true"),
        call("exec", argv=["cat", ".env"]),
    )
    first, second, third = made(run(bash, *turns, approver=agree))
    assert [each.status.value for each in (first, second, third)] == ["ok", "ok", "denied"]
    assert shown == [(f"{tmp_path}/.env",), ()]
    assert asked[0] == f"it would see {tmp_path}/.env, which may hold secrets; it may do harm"


@pytest.mark.parametrize("show", [".env", "sub/.env", "{root}/sub/.env"])
def test_an_environment_file_that_is_shown_does_not_ask(tmp_path: Path, show: str) -> None:
    """`show` says that commands may see it, by its name at any depth or by its path."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env").write_text("TOKEN=x\n")
    bash = Bash(tmp_path, sandbox="required", show=[show.format(root=tmp_path)])
    (ran,) = made(run(bash, call("bash", command="cat sub/.env"), approver="deny"))
    assert ran.text.startswith("TOKEN=x")


def test_a_removal_of_everything_asks_where_it_could_remove(tmp_path: Path) -> None:
    """In the workspace a person is asked; where nothing can be removed nobody is."""
    (tmp_path / "kept").write_text("")
    bash = Bash(tmp_path, policy=Naming.default())
    turn = calls(
        call("bash", command="rm -rf *"), call("bash", command="rm -rf *", place="read-only")
    )
    first, second = made(run(bash, turn))
    assert (first.status.value, second.status.value) == ("denied", "ok")
    assert (tmp_path / "kept").exists()


@pytest.mark.usefixtures("without_a_sandbox")
def test_without_a_sandbox_a_stricter_place_is_refused(tmp_path: Path) -> None:
    """A call that was to be read-only does not run on the host instead. The usual place is what it is without one."""
    strict, usual, loose = made(
        run(
            Bash(tmp_path),
            calls(
                call("bash", command="ls", place="read-only"),
                call("bash", command="ls", place="workspace"),
                call("bash", command="ls", place="host"),
            ),
        )
    )
    assert strict.status.value == "blocked"
    assert "place='read-only' needs a sandbox, and there is none here." in strict.text
    assert [each.metadata["place"] for each in (usual, loose)] == ["host", "host"]


def test_the_tools_description_says_where_commands_run(tmp_path: Path) -> None:
    """In the description of the tool, and of its argument."""
    strict, usual, host = (
        Bash(tmp_path, place=place).tools()[0]  # type: ignore[arg-type]
        for place in ("read-only", "workspace", "host")
    )
    assert "It can write nothing that lasts" in strict.description
    assert f"It can write in {tmp_path} and /tmp only" in usual.description
    assert "It runs without a sandbox" in host.description
    said = usual.spec.parameters["properties"]["place"]
    assert said["anyOf"][0]["enum"] == ["read-only", "workspace", "host"]
    assert all(
        each.pure_with == {"place": "read-only", "network": False} for each in (strict, host)
    )


def test_a_command_on_the_host_and_a_contained_one_do_not_run_at_once(tmp_path: Path) -> None:
    """Also where the host is the usual place. What the contained one plants, the other would obey."""
    turn = calls(
        call("bash", command="sleep 1"), call("bash", command="sleep 1", place="workspace")
    )
    agent = run(Bash(tmp_path, place="host"), turn, approver=lambda _: True)
    refused = [each.text for each in made(agent) if "must be the only one" in each.text]
    assert len(refused) == 1


def test_commands_run_where_no_state_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with a read-only home: none of our own locks counts as that of a command, nested or not."""
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    (tmp_path / "inner").mkdir()
    line, said = "echo works > inner/file; cat inner/file", "works\n"
    (result,) = made(run(Bash(tmp_path), call("bash", command=line)))
    assert str(result.result).startswith(said)
    nested = Sandbox(tmp_path, "required", paths=SandboxPaths(write=(tmp_path / "inner",)))
    assert nested.run_sync(line).text == said


def test_a_rename_out_of_a_directory_around_a_hidden_file_is_explained(tmp_path: Path) -> None:
    """`git mv` fails there, and `mv` copies."""
    for name in ("config", "lib"):
        (tmp_path / name).mkdir()
    (tmp_path / "config" / "dev.env").write_text("TOKEN=1")
    (tmp_path / "config" / "a").write_text("text")
    (tmp_path / ".env").symlink_to("config/dev.env")
    for words in (("init", "-q"), ("add", "config/a")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    turns = (call("bash", command="git mv config/a lib/"), call("bash", command="mv config/a lib/"))
    first, second = made(run(Bash(tmp_path), *turns))
    assert "Invalid cross-device link" in str(first.result)
    assert "fails where mv copies" in str(first.result)
    assert str(second.result).startswith("[exit code 0")
