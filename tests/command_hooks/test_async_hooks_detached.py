"""Hooks that say when they begin that they go on beside the agent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hookline import RunStatus, tool
from hookline.command_hooks.runner import detach_seconds
from hookline.testing import call, say

LATE = """#!/bin/sh
echo '{"async": true, "asyncTimeout": 20000}'
while [ ! -e go ]; do sleep 0.02; done
echo '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "the build is red"}}'
touch done
"""


def waiting(stage: Any) -> Any:
    """A tool that lets the hook go on, and waits until it has."""

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


def test_nothing_waits_for_it_and_its_words_are_told_at_the_next_step(stage: Any) -> None:
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
    result = stage.run(hooks)
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
