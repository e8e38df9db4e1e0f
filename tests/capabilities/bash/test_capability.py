"""The Bash capability in whole runs: the results, the progress messages and the files that stay."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline import AgentBuilder, Decision, RunResult, SQLiteJournal, backtest
from hookline.capabilities import Bash
from hookline.containment import Sandbox, ShellPolicy
from hookline.containment.sandbox import own_files
from hookline.containment.sandbox.work_tree import work_tree
from hookline.errors import HooklineError, SandboxError
from hookline.testing import ScriptedDriver, call, calls, say

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
MODES = [pytest.param("required", marks=needs_bubblewrap), "host"]


def run(bash: Bash, *turns: Any, approver: Any = lambda _: True) -> RunResult:
    """A run in which the model makes these turns."""
    driver = ScriptedDriver([*turns, say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(bash)
    return builder.with_approver(approver).build().run_sync("Go.")


def facts(result: RunResult) -> list[dict[str, Any]]:
    """The metadata of the results."""
    return [dict(made.metadata) for step in result.steps for made in step.results]


@pytest.mark.parametrize("mode", MODES)
def test_a_command_gives_its_output_code_and_time(tmp_path: Path, mode: Any) -> None:
    """Both streams in order; a failing command is a result like any other, with its code."""
    result = run(
        Bash(tmp_path, sandbox=mode),
        call("bash", command="echo one; echo two >&2; exit 3"),
        call("exec", argv=["printf", "%s\n", "$HOME; *"]),
    )
    first, second = result_texts(result)
    assert first.startswith("one\ntwo\n[exit code 3, ")
    assert second.startswith("$HOME; *\n[exit code 0, ")
    assert facts(result)[0] == {
        "exit_code": 3,
        "ended": "exited",
        "contained": mode == "required",
        "place": "workspace" if mode == "required" else "host",
        "bytes": 8,
    }


@pytest.mark.parametrize("mode", MODES)
def test_output_is_streamed_as_it_comes(tmp_path: Path, mode: Any) -> None:
    """Listeners get it while the command still runs; it is cleaned like the result."""
    heard: list[Any] = []

    def listen(record: Any) -> None:
        if record.type == "progress":
            heard.append(record.message)
            (tmp_path / "heard").touch()

    wait = "while [ ! -e heard ]; do sleep 0.02; done"
    command = f"printf 'fir'; {wait}; printf 'st\\n\\033[31mred\\033[0m\\n'"
    driver = ScriptedDriver([call("bash", command=command), say("done")])
    agent = AgentBuilder().with_driver(driver).with_capability(Bash(tmp_path, sandbox=mode))
    agent.with_approver(lambda _: True).on_event(listen).build().run_sync("Go.")
    assert heard[0] == "fir"
    assert "".join(heard) == "first\nred\n"


@pytest.mark.parametrize("mode", MODES)
def test_long_output_is_cut_and_the_whole_is_in_a_file(tmp_path: Path, mode: Any) -> None:
    """The model sees both ends, how much is missing and where it is, and can read on there."""
    bash = Bash(tmp_path, sandbox=mode, max_chars=400)
    result = run(bash, call("bash", command="seq 1 5000"))
    text, where = result_texts(result)[0], facts(result)[0]["output_file"]
    assert text.startswith("1\n2\n")
    assert "\n5000\n[exit code 0" in text
    assert len(text) < 800
    assert "bytes left out here; all 23,893 bytes are in " + where in text
    assert Path(where).read_text() == "".join(f"{each}\n" for each in range(1, 5001))
    assert Path(where).stat().st_mode & 0o777 == 0o600
    again = run(bash, call("bash", command=f"sed -n 2500p {where}"))
    assert result_texts(again)[0].startswith("2500\n")
    if mode == "required":
        run(bash, call("bash", command=f'python3 -c \'open("{where}", "a").write("x")\''))
        assert Path(where).stat().st_size == 23_893, (
            "what was printed cannot be changed from inside"
        )


def test_what_is_no_text_is_shown_as_text(tmp_path: Path) -> None:
    """Bytes that are no characters, NUL, escapes for terminals, and lines that were written over."""
    line = r"printf 'a\000b\377c\n\033]0;title\007\033[1mbold\033[0m\n10%%\r50%%\r100%%\ndos\r\n'"
    text = result_texts(run(Bash(tmp_path, sandbox="host"), call("bash", command=line)))[0]
    assert text.split("\n[exit")[0] == "a\ufffdb\ufffdc\nbold\n100%\ndos"


@pytest.mark.parametrize("mode", MODES)
def test_a_time_out_ends_the_whole_tree(tmp_path: Path, mode: Any) -> None:
    """The model reads that, with what was printed until then."""
    command = "echo begun; setsid sleep 60 & sleep 60"
    result = run(Bash(tmp_path, sandbox=mode), call("bash", command=command, timeout=3))
    text = result_texts(result)[0]
    assert text == "begun\n[timed out after 3 s and was ended, with everything it had started]"
    assert facts(result)[0]["ended"] == "timeout"


def test_a_time_out_has_a_ceiling(tmp_path: Path) -> None:
    """What takes longer belongs in the background, which the message says."""
    bash = Bash(tmp_path, sandbox="host", max_timeout=10)
    text = result_texts(run(bash, call("bash", command="true", timeout=11)))[0]
    assert (
        "timeout=11 is not between 0 and 10 seconds. Run what takes longer in the background: `bash`"
        in text
    )


def test_nothing_is_kept_unless_asked(tmp_path: Path) -> None:
    """Every command starts in the work directory, with the same variables; `cwd` is for one command."""
    (tmp_path / "sub").mkdir()
    result = run(
        Bash(tmp_path, sandbox="host"),
        call("bash", command="cd sub; export NAME=x"),
        call("bash", command="pwd; echo [$NAME]"),
        call("bash", command="pwd", cwd="sub"),
        call("exec", argv=["pwd"], cwd="nowhere"),
    )
    _, second, third, fourth = result_texts(result)
    assert second.startswith(f"{tmp_path}\n[]\n")
    assert third.startswith(f"{tmp_path / 'sub'}\n")
    assert "there is no directory" in fourth


@pytest.mark.parametrize("mode", MODES)
def test_a_session_keeps_directory_and_variables(tmp_path: Path, mode: Any) -> None:
    """Also from one call to the next of the same step, after a failing command, and for exec; values are never run."""
    result = run(
        Bash(tmp_path, sandbox=mode, keep="session"),
        calls(
            call(
                "bash",
                command="mkdir -p 'a b' && cd 'a b' && export NAME='$(touch evil) \"x\"'; false",
            ),
            call("bash", command='pwd; echo "$NAME"; unexported=1'),
        ),
        call("bash", command="exit 4"),
        call("exec", argv=["sh", "-c", 'pwd; echo "$NAME"; ls']),
    )
    _, second, third, fourth = result_texts(result)
    expected = f'{tmp_path / "a b"}\n$(touch evil) "x"\n'
    assert second.startswith(expected)
    assert third.startswith("[exit code 4")
    assert fourth.startswith(f"{expected}[exit code 0")
    assert result.state.metadata["bash.session"] == {
        "cwd": str(tmp_path / "a b"),
        "env": {"NAME": '$(touch evil) "x"'},
    }


@needs_bubblewrap
def test_a_session_survives_resume(tmp_path: Path) -> None:
    """What was kept is in the state: another process continues where the commands were."""
    journal = tmp_path / "journal.db"
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)

    def agent(*turns: Any) -> Any:
        return (
            AgentBuilder()
            .with_driver(ScriptedDriver([*turns, say("done")]))
            .with_capability(Bash(work, keep="session"))
            .with_journal(SQLiteJournal(journal))
            .build()
        )

    first = [
        call("bash", command="cd sub; export NAME=kept"),
        call("bash", command="pwd; echo $NAME", network=True),
    ]
    paused = agent(*first).run_sync("Go.")
    assert paused.status == "paused"
    answers = {question.id: Decision.allow() for question in paused.pending}
    done = agent(call("bash", command="pwd; echo $NAME")).resume_sync(paused.state.run_id, answers)
    granted, plain = result_texts(done)[-2:]
    assert granted.startswith(f"{work / 'sub'}\n[exit"), (
        "what leaves the sandbox gets no variables of earlier commands"
    )
    assert plain.startswith(f"{work / 'sub'}\nkept\n")


@needs_bubblewrap
def test_forged_sessions_are_data(tmp_path: Path) -> None:
    """A command may write what it likes to where the shell says where it is: nonsense is dropped, nothing is run."""
    forge = (
        "trap - EXIT; for fd in /proc/self/fd/*; do "
        "printf 'relative\\0A=$(touch evil)\\0' > $fd; done 2>/dev/null; exec true"
    )
    result = run(
        Bash(tmp_path, keep="session"),
        call("bash", command=forge),
        call("bash", command="pwd; ls"),
    )
    assert result_texts(result)[1].startswith(f"{tmp_path}\n[exit")


@needs_bubblewrap
def test_what_helps_where_files_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a second name outside that could not be copied is read-only, and the model reads why."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "outside").write_text("ours")
    os.link(tmp_path / "outside", work / "f")
    monkeypatch.setattr(own_files, "_MOST_FILES", 0)
    tried, other = result_texts(
        run(Bash(work), call("bash", command="echo x > f"), call("bash", command="false"))
    )
    assert "read-only are 'f'" in tried
    assert "UV_LINK_MODE=copy" in tried
    assert "UV_LINK_MODE" not in other
    assert (tmp_path / "outside").read_text() == "ours"


@needs_bubblewrap
def test_tmp_lasts_and_is_not_the_host_s(tmp_path: Path) -> None:
    """What one command puts into /tmp the next one finds; the host does not."""
    name = f"hookline-{os.getpid()}"
    result = run(
        Bash(tmp_path, sandbox="required"),
        call("bash", command=f"echo x > /tmp/{name}"),
        call("bash", command=f"cat /tmp/{name}"),
    )
    assert result_texts(result)[1].startswith("x\n")
    assert not Path("/tmp", name).exists()


@needs_bubblewrap
def test_what_the_sandbox_did_is_explained(tmp_path: Path) -> None:
    """When a command fails because of it, the result says what would work."""
    commands = ["touch /opt/x", "mkdir -p .vscode/new", "for each in .idea; do mkdir $each; done"]
    turns = [call("bash", command=command) for command in commands]
    for text in result_texts(run(Bash(tmp_path, sandbox="required"), *turns)):
        assert "[exit code 1, " in text
        assert f"[the sandbox: only {tmp_path} and /tmp can be written here" in text


@needs_bubblewrap
def test_the_tree_is_looked_at_while_the_model_is_asked(tmp_path: Path) -> None:
    """The first look at a large tree takes longest, so it begins with the run and not with the first command."""
    tree = work_tree(str(tmp_path))
    run(Bash(tmp_path, sandbox="required"))
    for thread in threading.enumerate():
        if thread.name == "hookline-look":
            thread.join()
    assert tree._index.has_looked


@needs_bubblewrap
async def test_the_tree_is_not_looked_at_in_a_replay(tmp_path: Path) -> None:
    """No command follows for which the look would be made."""
    tree = work_tree(str(tmp_path))
    result = await AgentBuilder().with_driver(ScriptedDriver([say("done")])).build().run("Go.")
    bash = Bash(tmp_path, sandbox="required")
    agent = AgentBuilder().with_capability(bash).build(model=None)
    await backtest(result.records, agent)
    assert "hookline-look" not in [thread.name for thread in threading.enumerate()]
    assert not tree._index.has_looked


def test_explain_and_the_state_say_where_commands_run(tmp_path: Path) -> None:
    """In words for people, in the model's description of the tool, and in the state, so in the journal."""
    bash = Bash(tmp_path, sandbox="host")
    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_capability(bash).build()
    said = " ".join(agent.explain().split())
    assert "bash-policy" in said
    assert "NOT CONTAINED" in said
    assert "on the host" in said
    assert agent.run_sync("Go.").state.metadata["bash.sandbox"] == {
        "place": "host",
        "sandbox": "auto",
        "driver": "host",
        "contained": False,
        "reason": "the place is host",
    }


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda path: Bash(path, ask="never"),
            r"ask='never' is not valid. Use 'outside-sandbox' or 'always'",
        ),
        (lambda path: Bash(path, keep=True), "keep=True is not valid"),
        (lambda path: Bash(path, timeout=0), "timeout=0 is not a number above 0"),
        (lambda path: Bash(path, timeout=5000), "timeout=5000 is more than max_timeout=3600"),
        (lambda path: Bash(path, limits={"memory": 1}), "is not a SandboxLimits"),
        (lambda path: Bash(path, output_dir="/proc/x"), "output_dir='/proc/x' cannot be made"),
        (lambda path: Bash(path, output_dir=path), "is the directory that commands work in"),
        (lambda path: Bash(path / "missing"), "there is no directory"),
        (lambda path: Bash(path, show=[""]), "is not a list of names"),
        (lambda path: Bash(path, sandbox="none"), "sandbox='none' means nothing"),
        (lambda path: Bash(path, place="here"), "place='here' means nothing"),
        (lambda path: Bash(path, place="host", sandbox="required"), "contradict each other"),
        (lambda path: Bash(path, place="workspace", sandbox="host"), "Leave out sandbox='host'"),
        (
            lambda path: Bash(sandbox=Sandbox(path, "host"), pass_env=("X",)),
            "a Sandbox has its own root, place, limits",
        ),
        (
            lambda path: Bash(sandbox=Sandbox(path, "host"), place="workspace"),
            "a Sandbox has its own root, place, limits",
        ),
    ],
)
def test_bad_options_are_named(tmp_path: Path, make: Callable[[Path], Bash], words: str) -> None:
    """When the capability is made, with what would be right."""
    with pytest.raises(HooklineError, match=words):
        make(tmp_path)


def test_a_sandbox_of_one_s_own(tmp_path: Path) -> None:
    """Limits, paths and variables are then the sandbox's."""
    bash = Bash(sandbox=Sandbox(tmp_path, "host", env={"NAME": "given"}))
    assert result_texts(run(bash, call("bash", command="pwd; echo $NAME")))[0].startswith(
        f"{tmp_path}\ngiven\n"
    )


def test_the_model_gets_an_error_about_bad_arguments(tmp_path: Path) -> None:
    """An empty list, a NUL byte."""
    first, second = result_texts(
        run(
            Bash(tmp_path, sandbox="host"),
            calls(call("exec", argv=[]), call("exec", argv=["printf", "a\0b"])),
        )
    )
    assert "argv names no program" in first or "Blocked" in first
    assert "NUL byte" in second or "Blocked" in second


@pytest.mark.parametrize("mode", MODES)
def test_a_session_in_a_directory_that_is_gone_continues_at_the_root(
    tmp_path: Path, mode: Any
) -> None:
    """The next command runs, and the result says where; what was exported is still there."""
    place = "/tmp/deep" if mode == "required" else str(tmp_path / "other")
    result = run(
        Bash(tmp_path, sandbox=mode, keep="session"),
        call("bash", command="mkdir sub && cd sub && export A=1 && rmdir ../sub"),
        call("bash", command="pwd; echo $A"),
        call("bash", command=f"mkdir {place} && cd {place}"),
        call("bash", command="pwd"),
        call("bash", command=f"rmdir {place}"),
        call("bash", command="pwd"),
    )
    shown = result_texts(result)
    assert shown[1].startswith(f"{tmp_path}\n1\n[exit code 0")
    assert f"[{tmp_path}/sub is gone, so this started in {tmp_path}]" in shown[1]
    assert shown[3].startswith(f"{place}\n")
    assert "is gone" not in shown[3]
    assert shown[5].startswith(f"{tmp_path}\n[exit code 0")
    assert f"[{place} is gone" in shown[5]


@pytest.mark.parametrize("mode", MODES)
def test_a_command_that_does_not_say_where_it_ended_is_no_secret(tmp_path: Path, mode: Any) -> None:
    """Its own EXIT trap takes the place of ours: the result says that its `cd` does not last."""
    result = run(
        Bash(tmp_path, sandbox=mode, keep="session"),
        call("bash", command="mkdir sub; cd sub; trap 'echo bye' EXIT"),
        call("bash", command="pwd"),
        call("bash", command="trap 'echo bye' EXIT"),
    )
    first, second, third = result_texts(result)
    assert "[where this command ended is not known: it was ended, or has an EXIT trap" in first
    assert f"starts in {tmp_path}" in first
    assert second.startswith(f"{tmp_path}\n")
    assert "not known" not in third


def test_text_that_begins_with_a_dash_is_a_command(tmp_path: Path) -> None:
    """Not an option of the shell."""
    result = run(Bash(tmp_path, sandbox="host"), call("bash", command="-x; echo ran"))
    assert "ran\n[exit code 0" in result_texts(result)[0]


def test_nothing_is_amiss_with_the_hooks(tmp_path: Path) -> None:
    """`lint` finds nothing."""
    bash = Bash(tmp_path, sandbox="host", keep="session")
    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_capability(bash).build()
    assert list(agent.lint()) == []


def test_paths_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    """`lint` names what is to be shown and is not there, and what is trusted and is no repository."""
    policy = ShellPolicy(trusted=[str(tmp_path)])
    show = [tmp_path / "missing", "a/b", ".env", tmp_path]
    bash = Bash(tmp_path, sandbox="host", show=show, policy=policy)
    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_capability(bash).build()
    first, second, third = map(str, agent.lint())
    assert f"there is nothing at '{tmp_path / 'missing'}'" in first
    assert f"show names 'a/b', and there is nothing at '{tmp_path / 'a/b'}'" in second
    assert f"the policy trusts '{tmp_path}', and there is no repository" in third


@pytest.mark.parametrize("mode", MODES)
async def test_it_works_the_same_streamed(tmp_path: Path, mode: Any) -> None:
    """A stream has the output while the command runs, and ends with the same result."""
    driver = ScriptedDriver([call("bash", command="echo hello"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(Bash(tmp_path, sandbox=mode))
    agent = builder.with_approver(lambda _: True).build()
    seen = [getattr(event, "message", None) async for event in agent.stream("Go.")]
    assert "hello\n" in seen


@pytest.mark.usefixtures("without_a_sandbox")
@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_without_a_sandbox_auto_is_the_host_and_says_so(
    tmp_path: Path, place: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The model, the plan, the log and the state say so, and commands that are not plainly harmless ask."""
    bash = Bash(tmp_path, place=place)
    asked: list[str] = []
    result = run(
        bash,
        calls(call("bash", command="ls"), call("bash", command="touch made")),
        approver=lambda question: asked.append(question.reason),
    )
    assert [made.status.value for made in result.steps[0].results] == ["ok", "denied"]
    assert len(asked) == 1
    said = result.state.metadata["bash.sandbox"]
    assert (said["place"], said["reason"]) == ("host", "bubblewrap is not installed")
    assert facts(result)[0]["place"] == "host"
    assert "NOT CONTAINED" in caplog.text
    assert "on the host" in bash.tools()[0].description
    with pytest.raises(SandboxError, match="a sandbox is required, and there is none: bubblewrap"):
        Bash(tmp_path, place=place, sandbox="required")
