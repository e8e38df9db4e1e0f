"""Hooks that run beside the agent."""

from __future__ import annotations

import asyncio
import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus, tool
from hookline.command_hooks import batch
from hookline.command_hooks.batch import AsyncHooks
from hookline.command_hooks.replies import detach_seconds
from hookline.journal import HookRan
from hookline.testing import ScriptedDriver, call, calls, say


def leaving(mark: Any) -> str:
    """A command that leaves its number in a file."""
    return f"echo $$ > {mark}.new; mv {mark}.new {mark}"


def waiting_for(mark: Any) -> Any:
    """A tool that is done when the hook that left its number there has ended."""

    @tool
    def wait() -> str:
        """Wait."""
        for _ in range(2000):
            if mark.exists() and not is_there(int(mark.read_text())):
                return "ended"
            time.sleep(0.01)
        return "never came"

    return wait


def waiting_until(path: Any) -> Any:
    """A tool that is done when there is a file."""

    @tool
    def wait() -> str:
        """Wait."""
        while not path.exists():
            time.sleep(0.01)
        return "there"

    return wait


def is_there(pid: int) -> bool:
    """Whether a process is there, or waits to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def texts(result: Any) -> list[str]:
    """The texts of the conversation."""
    return [message.text for message in result.state.messages]


def test_nothing_waits_for_it_and_what_it_decides_does_not_count(stage: Any) -> None:
    """It says no, and the call has run."""
    mark = stage.root / "mark"
    go = stage.root / "go"
    line = f"while [ ! -e {go} ]; do sleep 0.02; done; {leaving(mark)}; echo no >&2; exit 2"
    hooks = stage.claude("PreToolUse", line, **{"async": True})
    wait = waiting_for(mark)

    @tool
    def release() -> str:
        """Let the hook continue, and wait for its end."""
        go.touch()
        return str(wait())

    stage.tools = (release,)
    result = stage.run(hooks, call("release"), say("done"))
    assert "ended" in texts(result)


def test_the_model_reads_its_text_before_the_next_step(stage: Any) -> None:
    """Once."""
    mark = stage.root / "mark"
    say_it = (
        '{"hookSpecificOutput": {"additionalContext": "the tests pass"}, "systemMessage": "done"}'
    )
    hooks = stage.claude(
        "PostToolUse", f"echo '{say_it}'; {leaving(mark)}", matcher="Bash", **{"async": True}
    )
    result = stage.run(
        hooks, call("bash", command="ls"), call("wait"), say("done"), with_tools=waiting_for(mark)
    )
    assert sum("the tests pass" in text for text in texts(result)) == 1


def test_it_can_send_the_agent_back_to_work(stage: Any) -> None:
    """With exit code 2, if it may wake the agent."""
    mark = stage.root / "mark"
    hooks = stage.claude("PostToolUse", f"[ -e {mark} ] && exit 0; echo 'tests fail' >&2; {leaving(mark)}; exit 2",
                         matcher="Bash", asyncRewake=True, rewakeMessage="x")  # fmt: skip
    result = stage.run(
        hooks, call("bash", command="ls"), call("wait"), say("done"), with_tools=waiting_for(mark)
    )
    assert any("tests fail" in text for text in texts(result))


@pytest.mark.parametrize("event", ["PostToolUse", "Stop"])
def test_an_agent_does_not_stop_before_it_has_answered(stage: Any, event: str) -> None:
    """If it may wake the agent it is waited for, also where it was started by the end itself."""
    mark = stage.root / "mark"
    found = f"[ -e {mark} ] && exit 0; sleep 1; touch {mark}; echo 'tests fail' >&2; exit 2"
    hooks = stage.claude(event, found, asyncRewake=True)
    result = stage.run(hooks, call("bash", command="ls"), say("first"), say("second"))
    assert result.text == "second"
    assert any("tests fail" in text for text in texts(result))


def test_it_wakes_the_agent_so_often_in_a_row_and_no_more(stage: Any) -> None:
    """Like any other hook that objects to the end."""
    hooks = stage.claude("Stop", "echo again >&2; exit 2", asyncRewake=True)
    builder = AgentBuilder().with_driver(ScriptedDriver([say("no")] * 20))
    builder.with_limits(objections=1000).with_capability(hooks)
    result = builder.build().run_sync("go")
    assert (result.state.step_count, result.stop_reason) == (9, "objection_limit")


def test_when_the_run_ends_they_end(stage: Any) -> None:
    """Nothing is left behind."""
    note = stage.root / "pid"
    line = f"{leaving(note)}; exec sleep 60"
    hooks = stage.claude("PreToolUse", line, **{"async": True})
    stage.tools = (waiting_until(note),)
    result = stage.run(hooks, call("wait"), say("done"))
    assert result.status is RunStatus.COMPLETED
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_they_do_not_pile_up(stage: Any) -> None:
    """Eight at a time, however often they are started."""
    stage.script(
        "count.sh", "#!/bin/sh\nmkdir run.$$\nls -d run.* | wc -l >> log\nsleep 0.2\nrmdir run.$$\n"
    )
    hooks = stage.claude("PreToolUse", "./count.sh", **{"async": True})
    stage.run(hooks, calls(*(call("bash", command=str(n)) for n in range(20))), say("done"))
    counts = [int(line) for line in (stage.root / "log").read_text().split()]
    assert max(counts) <= 8


def test_one_that_fails_is_in_the_journal(stage: Any) -> None:
    """Nobody waits for it, and nobody overlooks it."""
    mark = stage.root / "mark"
    hooks = stage.claude(
        "PreToolUse", f"{leaving(mark)}; exit 7", matcher="Bash", **{"async": True}
    )
    # Between its end and the news of it there may be a step or two.
    waits = [call("wait") for _ in range(20)]
    result = stage.run(
        hooks, call("bash", command="ls"), *waits, say("x"), with_tools=waiting_for(mark)
    )
    reasons = [record.reason for record in result.records if isinstance(record, HookRan)]
    assert any("exit code 7" in reason for reason in reasons)


def test_a_time_is_for_hooks_that_something_waits_for(stage: Any) -> None:
    """One beside the agent has as long as the run; one that may wake it has its own time."""
    settings = {"type": "command", "command": "true", "async": True, "timeout": 2}
    waking = {**settings, "command": "false", "asyncRewake": True}
    stage.file(".claude/settings.json", {"hooks": {"Stop": [{"hooks": [settings, waking]}]}})
    beside, wakes = stage.discover().handlers
    assert (beside.timeout > 3600, wakes.timeout) == (True, 2)


def test_a_hook_at_the_end_of_a_session_has_a_moment_left(stage: Any) -> None:
    """Also where nothing waits for it: plugins tidy up there."""
    mark = stage.root / "tidied"
    hooks = stage.claude("SessionEnd", f"sleep 0.2; touch {mark}", **{"async": True})
    stage.run(hooks, say("done"))
    assert mark.exists()


@pytest.mark.parametrize("event", ["SessionStart", "Stop"])
def test_a_hook_that_waits_forever_does_not_keep_the_run(
    stage: Any, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are made to wake an agent that has nothing to do, hours later; it has ended by then, and they with it."""
    monkeypatch.setattr(batch, "LONGEST_WAIT", 0.2)
    note = stage.root / "pid"
    waits = f"echo $$ > {note}; exec sleep 600"
    hooks = stage.claude(event, waits, asyncRewake=True, timeout=86400)
    assert stage.run(hooks, say("done")).text == "done"
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


# --- hooks that detach themselves -----------------------------------------------------------------------

LATE = """#!/bin/sh
echo '{"async": true, "asyncTimeout": 20000}'
while [ ! -e go ]; do sleep 0.02; done
echo '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "the build is red"}}'
touch done
"""


def waiting(stage: Any) -> Any:
    """A tool that lets the hook continue, and waits until it has."""

    @tool
    def wait() -> str:
        """Wait for the hook."""
        (stage.root / "go").touch()
        until = time.monotonic() + 20
        while not (stage.root / "done").exists() and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.2)
        return "waited"

    return wait


def test_nothing_waits_for_it_and_the_model_reads_its_text_at_the_next_step(stage: Any) -> None:
    """It was started like any other, and said on its first line what it is."""
    stage.script("late.sh", LATE)
    hooks = stage.claude("PostToolUse", "./late.sh", matcher="Bash")
    stage.tools = (*stage.tools, waiting(stage))
    result = stage.run(
        hooks, call("bash", command="ls"), call("wait"), call("read", path="a"), say("done")
    )
    assert result.status is RunStatus.COMPLETED
    texts = [message.text for message in result.state.messages]
    assert any("the build is red" in text for text in texts)


def test_what_it_decides_does_not_count(stage: Any) -> None:
    """It is too late for that: the call has run."""
    deny = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}'
    hooks = stage.claude("PreToolUse", f"""echo '{{"async": true}}'; echo '{deny}'; exit 2""")
    result = stage.run(hooks)
    assert [message.text for message in result.state.messages if message.role == "tool"] == [
        "ran ls"
    ]


def test_it_is_ended_with_the_run(stage: Any) -> None:
    """Whatever time it asked for."""
    alive = stage.root / "alive"
    stage.script(
        "for_ever.sh",
        '#!/bin/sh\nprintf \'{"async":true,"asyncTimeout":3600000}\'\n'
        f"trap '' TERM\nwhile :; do date +%N > {alive}; sleep 0.05; done\n",
    )
    hooks = stage.claude("PreToolUse", "./for_ever.sh")
    stage.tools = (waiting_until(alive),)
    result = stage.run(hooks, call("wait"), say("done"))
    assert result.status is RunStatus.COMPLETED
    before = alive.read_text()
    time.sleep(0.3)
    assert alive.read_text() == before


def test_its_time_is_what_it_said(stage: Any) -> None:
    """Then it is ended, and the journal has it at the next step."""
    stage.script("slow.sh", '#!/bin/sh\necho \'{"async": true, "asyncTimeout": 100}\'\nsleep 60\n')
    hooks = stage.claude("PreToolUse", "./slow.sh", matcher="Bash")
    stage.tools = (*stage.tools, waiting(stage))
    (stage.root / "done").touch()
    pause = [call("wait"), call("wait"), call("wait"), call("wait"), call("wait"), call("wait")]
    result = stage.run(hooks, call("bash", command="ls"), *pause, say("done"))
    assert "and was ended" in str(result.records)


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [
        (b'{"async": true}', 15.0),
        (b'\n {"async":true,"asyncTimeout":2500}\nmore', 2.5),
        (b'{"async": true, "asyncTimeout": "soon"}', 15.0),
        (b'{"async": true, "asyncTimeout": true}', 15.0),
        (b'{"async": true, "asyncTimeout": -1}', 15.0),
        (b'{"async": true, "asyncTimeout": 1e300}', 3600.0),
        (b'{"async": "true"}', None),
        (b'{"async": false}', None),
        (b'{"async": tr', None),
        (b'working\n{"async": true}', None),
        (b"", None),
    ],
)
def test_the_first_line_says_it(printed: bytes, seconds: float | None) -> None:
    """In milliseconds; what is no number is as if it were not said."""
    assert detach_seconds(printed) == seconds


# --- the end of a run -----------------------------------------------------------------------------------


class Lingering:
    """Calls hooks that take a moment to end after a signal."""

    def __init__(self) -> None:
        self.reported, self.may_end = asyncio.Event(), asyncio.Event()

    async def ask(self, *_: Any) -> Any:
        """Wait forever; and then a while."""
        try:
            await asyncio.Event().wait()
        finally:
            self.reported.set()
            await self.may_end.wait()


async def test_a_cancellation_is_not_lost_while_the_last_hooks_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever cancels the task just then finds it cancelled."""
    monkeypatch.setattr(batch, "_AFTER_RUN", 0.01)
    runner: Any = Lingering()
    beside = AsyncHooks(runner)
    ctx, handler = SimpleNamespace(state=SimpleNamespace(run_id="r"), point=""), SimpleNamespace()
    handler.wakes = False
    unused: Any = None
    beside.start(handler, ctx, unused)  # type: ignore[arg-type]
    ending = asyncio.create_task(beside.end(ctx))
    await runner.reported.wait()
    ending.cancel()
    runner.may_end.set()
    await asyncio.wait([ending])
    assert ending.cancelled()
