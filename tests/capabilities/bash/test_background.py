"""Commands that continue in the background: started, looked at, stopped; and none outlives its run."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from run_results import is_running, result_texts

from hookline import AgentBuilder, Decision, ToolContext, tool
from hookline.capabilities import Bash, Redaction
from hookline.testing import ScriptedDriver, call, calls, say

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
MODES = [pytest.param("required", marks=needs_bubblewrap), "host"]


def agent(bash: Bash, *turns: Any) -> Any:
    """An agent whose model makes these turns, and whose questions are answered yes."""
    driver = ScriptedDriver([*turns, say("done")])
    return (
        AgentBuilder()
        .with_driver(driver)
        .with_capability(bash)
        .with_approver(lambda _: True)
        .build()
    )


def starts(words: str) -> bool:
    """Whether such a process is there, or will be in a moment."""
    for _ in range(200):
        if is_running(words):
            return True
        time.sleep(0.05)
    return False


def marker(number: int) -> str:
    """A number of seconds that no other test sleeps for."""
    return f"{number}{os.getpid():07}"


@pytest.mark.parametrize("mode", MODES)
def test_a_command_is_started_looked_at_and_stopped(tmp_path: Path, mode: Any) -> None:
    """Each look gives what is new; the whole tree is gone once it is stopped."""
    command = f"echo ready; read -r line < pipe; echo got $line; setsid sleep {marker(41)} & sleep {marker(41)}"
    os.mkfifo(tmp_path / "pipe")
    result = agent(
        Bash(tmp_path, sandbox=mode),
        call("bash", command=command, background=True),
        call("bash_poll", id="bg-1", wait=1),
        call("bash", command="echo hello > pipe"),
        call("bash_poll", id="bg-1", wait=10),
        call("bash_stop", id="bg-1"),
        call("bash_poll", id="bg-1"),
    ).run_sync("Go.")
    started, first, _, second, stopped, after = result_texts(result)
    assert "[bg-1 is running: echo ready" in started
    assert "ready\n" in started + first, "at once, if it was quick, or at the next look"
    assert second.startswith("got hello\n[bg-1 is running")
    assert "[bg-1 was stopped after " in stopped
    assert after.startswith("(nothing new)\n[bg-1 was stopped")
    assert not is_running(f"sleep {marker(41)}")


@pytest.mark.parametrize("mode", MODES)
def test_one_that_ends_by_itself_says_so(tmp_path: Path, mode: Any) -> None:
    """At once, when it ends at once: a command that cannot start is seen without looking again."""
    result = agent(
        Bash(tmp_path, sandbox=mode),
        call("bash", command="echo no; exit 3", background=True),
        call("bash_poll", id="bg-1", wait=10),
    ).run_sync("Go.")
    assert any("bg-1 ended by itself with exit code 3" in text for text in result_texts(result))
    assert any("no\n" in text for text in result_texts(result))


@pytest.mark.parametrize("mode", MODES)
def test_all_end_with_the_run(tmp_path: Path, mode: Any) -> None:
    """Whether or not anybody stopped them, and what they started in their own sessions too."""
    command = f"setsid sleep {marker(42)} & sleep {marker(42)}"
    bash = Bash(tmp_path, sandbox=mode)
    seen: list[bool] = []

    async def main() -> None:
        driver = ScriptedDriver([call("bash", command=command, background=True), say("done")])
        builder = (
            AgentBuilder().with_driver(driver).with_capability(bash).with_approver(lambda _: True)
        )
        builder.on_output(lambda _: seen.append(starts(f"sleep {marker(42)}")))
        await builder.build().run("Go.")
        assert not is_running(f"sleep {marker(42)}")

    asyncio.run(main())
    assert seen == [True]


@pytest.mark.parametrize("mode", MODES)
async def test_cancelling_the_run_ends_the_command(tmp_path: Path, mode: Any) -> None:
    """At once, in the foreground and in the background."""
    front, back = f"sleep {marker(43)}", f"sleep {marker(44)}"
    made = agent(
        Bash(tmp_path, sandbox=mode),
        call("bash", command=back, background=True),
        call("bash", command=front),
    )
    task = asyncio.create_task(made.run("Go."))
    for _ in range(500):
        if is_running(front):
            break
        await asyncio.sleep(0.02)
    assert is_running(back)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not is_running(front)
    assert not is_running(back)


@needs_bubblewrap
async def test_a_pause_does_not_end_them(tmp_path: Path) -> None:
    """A run that waits for an answer continues later; in the same process its commands are still there."""
    bash = Bash(tmp_path, sandbox="required")
    turns = [
        call("bash", command="echo ready; sleep 60", background=True),
        call("bash", command="true", network=True),
        call("bash_poll", id="bg-1"),
        say("done"),
    ]
    made = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(bash).build()
    paused = await made.run("Go.")
    assert paused.status == "paused"
    done = await made.resume(paused, {one.id: Decision.allow() for one in paused.pending})
    assert "[bg-1 is running" in result_texts(done)[-1]
    assert any("ready\n" in text for text in result_texts(done))


def test_an_unknown_id_is_named(tmp_path: Path) -> None:
    """The message says which there are; one of an earlier process is gone with it."""
    first, second, third = result_texts(
        agent(
            Bash(tmp_path, sandbox="host"),
            call("bash_poll", id="bg-9"),
            call("bash", command="sleep 60", background=True),
            call("bash_stop", id="bg-9"),
        ).run_sync("Go.")
    )
    assert "there is no background command 'bg-9'" in first
    assert "There are none now." in first
    assert "bg-1" in second
    assert "Existing ones: bg-1." in third


def test_there_may_not_be_too_many(tmp_path: Path) -> None:
    """The one that is too many is refused, with the ids of those that run."""
    many = calls(*(call("bash", command="sleep 60", background=True) for _ in range(16)))
    result = agent(
        Bash(tmp_path, sandbox="host"), many, call("bash", command="sleep 60", background=True)
    ).run_sync("Go.")
    assert "16 commands run in the background already: bg-1, bg-2" in result_texts(result)[-1]


@needs_bubblewrap
def test_runs_do_not_see_each_other_s_commands(tmp_path: Path) -> None:
    """An id belongs to the run that was given it."""
    bash = Bash(tmp_path, sandbox="required")

    async def main() -> list[str]:
        first = agent(
            bash,
            call("bash", command="sleep 60", background=True),
            call("bash_poll", id="bg-1", wait=3),
        )
        second = agent(bash, call("bash_poll", id="bg-1"))
        one, two = await asyncio.gather(first.run("Go."), second.run("Go."))
        return [result_texts(one)[0], result_texts(two)[0]]

    first, second = asyncio.run(main())
    assert "bg-1 is running" in first
    assert "no background command 'bg-1'" in second


@needs_bubblewrap
def test_a_child_may_use_the_tools_of_its_parent(tmp_path: Path) -> None:
    """They are contained there too, so nobody is asked; what the child leaves in the background ends with the child."""
    bash = Bash(tmp_path, sandbox="required")
    words = f"sleep {marker(45)}"
    after: list[bool] = []

    @tool
    async def delegate(context: ToolContext) -> list[str]:
        """Have another agent run commands."""
        turns = [
            calls(call("bash", command="touch made"), call("bash", command=words, background=True)),
            say("x"),
        ]
        child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*bash.tools()).build()
        result = await context.spawn(child, "Go.")
        after.append(is_running(words))
        return [made.status.value for step in result.steps for made in step.results]

    driver = ScriptedDriver([call("delegate"), say("done")])
    parent = AgentBuilder().with_driver(driver).with_tools(delegate).with_approver("deny")
    result = parent.with_capability(bash).build().run_sync("Go.")
    assert list(result.steps[0].results[0].result) == ["ok", "ok"]
    assert after == [False]


def test_the_journal_says_where_commands_ran(tmp_path: Path) -> None:
    """The records of a run have it, in the state that the start left."""
    result = agent(Bash(tmp_path, sandbox="host")).run_sync("Go.")
    assert any("the place is host" in repr(record) for record in result.records)


@pytest.mark.parametrize("mode", MODES)
def test_one_may_be_given_a_time(tmp_path: Path, mode: Any) -> None:
    """Then it ends with all that it has started; without, it continues."""
    command = f"setsid sleep {marker(47)} & sleep {marker(47)}"
    result = agent(
        Bash(tmp_path, sandbox=mode),
        call("bash", command=command, background=True, timeout=0.5),
        call("bash_poll", id="bg-1", wait=30),
        call("bash", command="true", background=True, timeout=0),
    ).run_sync("Go.")
    _, looked, refused = result_texts(result)
    assert "[bg-1 ran out of time and was ended after " in looked
    assert "timeout=0 is not a time" in refused
    assert not is_running(f"sleep {marker(47)}")


def test_what_can_continue_is_described(tmp_path: Path) -> None:
    """`exec` has no background, and says nothing of one."""
    tools = {tool.name: tool.description for tool in Bash(tmp_path, sandbox="host").tools()}
    assert "background=true" in tools["bash"]
    assert "background" not in tools["exec"]


def test_a_secret_is_not_shown_in_two_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line waits for its end, and a key for its last line: redaction sees them whole."""
    go, bash = tmp_path / "go", Bash(tmp_path, sandbox="host")
    body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAA"
    (tmp_path / "s.sh").write_text(
        f"""
        wait_for() {{ touch at$1; until test -e go$1; do sleep 0.02; done; }}
        printf 'begun\\nDB_PASSWORD='; wait_for 1
        echo hunter2-correct-horse; echo -----BEGIN PRIVATE KEY-----; wait_for 2
        echo {body}; wait_for 3
        echo -----END PRIVATE KEY-----; printf 'no end'
        """
    )
    monkeypatch.setattr("hookline.capabilities.bash.runner._FIRST_LOOK", 30)  # ends with the output

    @tool
    def release(number: int) -> str:
        """Let it continue."""
        Path(f"{go}{number}").touch()
        background = bash._runner.backgrounds.find("run", "bg-1")
        while background.running.is_running and not (tmp_path / f"at{number + 1}").exists():
            time.sleep(0.01)
        return ""

    turns: list[Any] = [call("bash", command="bash s.sh", background=True)]
    for number in (1, 2, 3):
        turns += [
            call("release", number=number),
            call("bash_poll", id="bg-1", wait=30 * (number > 2)),
        ]
    driver = ScriptedDriver([*turns, say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(release).with_approver(lambda _: True)
    builder.with_capability(bash).with_capability(Redaction())
    result = builder.build().run_sync("Go.", run_id="run")
    first, _, second, _, third, _, fourth = result_texts(result)
    assert first.startswith("begun\n[12 bytes are not shown yet: their line has not ended]\n[bg-1")
    assert second.startswith("DB_PASSWORD=[redacted:secret]\n[28 bytes are not shown yet")
    assert "are not shown yet" in third
    assert fourth.startswith("[redacted:private-key]\nno end\n[bg-1 ended")
    assert body not in third + fourth
