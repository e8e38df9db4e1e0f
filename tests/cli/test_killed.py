"""The command is killed, as hard as can be: what it had started is gone soon after."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")

WITH_CHILDREN = "(env -i setsid sleep {n} >/dev/null 2>&1 &); sleep {n} & trap '' TERM; sleep {n}"
SERVER = """
import subprocess, time
subprocess.Popen(["sleep", "{n}"])
time.sleep(600)
"""


def _sleepers(seconds: str) -> int:
    found = 0
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += entry.read_bytes() == f"sleep\0{seconds}\0".encode()
        except OSError:
            continue
    return found


def _until(holds: Callable[[], bool]) -> bool:
    for _ in range(600):
        if holds():
            return True
        time.sleep(0.05)
    return False


def _hook(place: Any, line: str, **more: bool) -> None:
    handler = {"type": "command", "command": line, **more}
    hooks = {"PreToolUse": [{"hooks": [handler]}]}
    place.write(".claude/settings.json", json.dumps({"hooks": hooks}))


def _server(place: Any, seconds: str) -> None:
    program = place.home / "server.py"
    program.write_text(SERVER.format(n=seconds))
    place.write(
        "hookline.toml", f'[mcp.slow]\ncommand = "{sys.executable}"\nargs = ["{program}"]\n'
    )


LIST = {"call": "list", "args": {}}
LONG = {"call": "bash", "args": {"command": "sleep 30"}}


def test_a_hook_ends(place: Any) -> None:
    """With its children, also those that got away."""
    seconds = f"61{os.getpid():07}"
    _hook(place, WITH_CHILDREN.format(n=seconds))
    _killed_when_they_run(place, seconds, 3, LIST)


def test_a_hook_beside_the_agent_ends(place: Any) -> None:
    """As others do."""
    seconds = f"62{os.getpid():07}"
    _hook(place, WITH_CHILDREN.format(n=seconds), **{"async": True})
    _killed_when_they_run(place, seconds, 3, LIST, LONG)


def test_a_command_in_the_background_ends(place: Any) -> None:
    """On the host, where nothing else holds it."""
    seconds = f"63{os.getpid():07}"
    line = WITH_CHILDREN.format(n=seconds)
    _killed_when_they_run(
        place, seconds, 3, {"call": "bash", "args": {"command": line, "background": True}}, LONG
    )


def test_a_server_ends(place: Any) -> None:
    """One that does not mind that nobody is there any more."""
    seconds = f"64{os.getpid():07}"
    _server(place, seconds)
    _killed_when_they_run(place, seconds, 1, LIST)


def _killed_when_they_run(place: Any, seconds: str, count: int, *turns: dict[str, Any]) -> None:
    assert place.run("trust").returncode == 0
    model = place.script(*turns, {"say": "Done."})
    arguments = ["run", "--model", model, "--sandbox", "host", "--allow", "bash", "Go."]
    said = place.home / "said"
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            [*shlex.split(place.command), *arguments],
            cwd=place.project,
            env={**os.environ, **place.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as process,
    ):
        try:
            # A hook beside the agent is asked about the next call before anybody looks.
            assert _until(lambda: _sleepers(seconds) >= count), said.read_text()
        finally:
            process.kill()
    assert _until(lambda: _sleepers(seconds) == 0)


def test_hooks_of_a_resumed_run_learn_that_the_session_continues(place: Any) -> None:
    """Hooks are sent SessionStart once more, their variables are set again, and the run plays the same."""
    start = "cat >> starts; echo 'export GREETING=hello' >> \"$CLAUDE_ENV_FILE\"; echo 'be kind'"
    group = {"hooks": [{"type": "command", "command": start}]}
    place.write(".claude/settings.json", json.dumps({"hooks": {"SessionStart": [group]}}))
    seconds = f"65{os.getpid():07}"
    wait = {"call": "bash", "args": {"command": f"sleep {seconds}"}}
    greet = {"call": "bash", "args": {"command": 'echo "[$GREETING]"'}}
    _killed_when_they_run(place, seconds, 1, wait, greet)
    done = place.run("resume")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    starts = (place.project / "starts").read_text().splitlines()
    assert [json.loads(line)["source"] for line in starts] == ["startup", "resume"]
    lines = place.run("show", "--json").stdout.splitlines()
    said = [json.loads(line) for line in lines if '"type":"hook"' in line and "be kind" in line]
    assert [each["point"] for each in said] == ["session_start", "execution_start"]
    assert any("[hello]" in line for line in lines)
    replayed = place.run("replay", *_last_run(place))
    assert "is identical" in replayed.stdout + replayed.stderr, replayed


def _last_run(place: Any) -> list[str]:
    lines = place.run("runs", "--json").stdout.splitlines()
    return [json.loads(lines[0])["run_id"]]
