from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, HookOutcome, SQLiteJournal, tool
from hookline.capabilities import JsonLines, RunLog, Subagent, Subagents
from hookline.capabilities.run_log import log_as_json, log_as_text
from hookline.errors import BuildError, RunHandedOverError
from hookline.testing import ScriptedDriver, call, calls, say

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SECRETS = (TOKEN, "hunter22", "Nightingale", "burglar")
"""A credential, an argument, and words of a prompt, an answer, a result and a tool that the model made up."""


@tool
def login(user: str, password: str) -> str:
    """Log in."""
    if user == "nobody":
        raise ValueError(f"wrong password {password} for Nightingale")
    return f"welcome to Nightingale with {password}"


def test_nothing_that_was_said_is_in_a_line(tmp_path: Path) -> None:
    """Prompts, arguments, results, reasons, errors, names that a model makes up; a hook that fails with all of them."""
    path = tmp_path / "runs.jsonl"
    turns = [
        calls(
            call("login", user="alice", password="hunter22"),
            call("login", user="nobody", password="hunter22"),
            call("burglar", what=TOKEN),
            call("spawn_subagent", agent="seeker", prompt="Nightingale"),
        ),
        say(f"Nightingale {TOKEN}"),
    ]
    child = AgentBuilder().with_driver(ScriptedDriver([say("Nightingale")])).build()

    def check(ctx: Any) -> HookOutcome | None:
        if ctx.tool_call.args.get("user") == "alice":
            return HookOutcome.block(f"not {ctx.tool_call.args}")
        return None

    def watch(ctx: Any) -> None:
        raise ValueError(f"cannot watch {ctx.execution} and {TOKEN}")

    agent = (
        AgentBuilder()
        .with_id("clerk")
        .with_system_prompt("Serve Nightingale.")
        .with_driver(ScriptedDriver(turns))
        .with_tools(login)
        .with_capability(Subagents(Subagent("seeker", "Seeks.", agent=child)))
        .with_capability(RunLog(path))
        .on_before_tool_use(check, name="check")
        .on_after_tool_use(watch, name="watch", tier="observer")
        .build()
    )
    result = agent.run_sync(f"For Nightingale: {TOKEN}", run_id="r")
    written = path.read_text()
    for secret in SECRETS:
        assert secret not in written, secret
    lines = [json.loads(line) for line in written.splitlines()]
    assert {"r", *(each.run_id for each in result.records)} <= {each["run_id"] for each in lines}
    assert any(each["run_id"].startswith("r/0/") for each in lines)  # the child's
    first, last = lines[0], lines[-1]
    assert (first["event"], first["agent"], first["level"]) == ("run_started", "clerk", "info")
    assert (last["event"], last["status"], last["steps"]) == ("result", "completed", 2)
    assert last["duration"] > 0
    calls_of = [each for each in lines if each["event"] == "tool_result"]
    assert [(each.get("tool"), each["status"]) for each in calls_of] == [
        ("login", "blocked"),
        ("login", "error"),
        (None, "invalid"),
        ("spawn_subagent", "ok"),
    ]
    assert all(each["duration"] >= 0 and each["step"] == 0 for each in calls_of)
    (verdict,) = [each for each in lines if each.get("verdict") == "block"]
    assert (verdict["hook"], verdict["point"]) == ("check", "before_tool_use")
    assert [each["error"] for each in lines if each.get("hook") == "watch"] == ["ValueError"] * 4


async def test_a_run_that_is_handed_over_or_fails_says_so(tmp_path: Path) -> None:
    """With the kind of the error, and without its words."""
    path = tmp_path / "runs.jsonl"
    async with SQLiteJournal(tmp_path / "runs.db") as journal:
        agent = (
            AgentBuilder()
            .with_driver(
                ScriptedDriver([call("login", user="a", password="b"), RuntimeError(TOKEN)])
            )
            .with_tools(login)
            .with_journal(journal)
            .with_capability(RunLog(path))
            .on_after_tool_use(lambda ctx: agent.hand_over() and None)
            .build()
        )
        with pytest.raises(RunHandedOverError):
            await agent.run("Go.", run_id="r")
        await agent.resume("r")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    events = [each["event"] for each in lines]
    assert events.index("handed_over") < events.index("taken_up")
    assert (lines[-1]["status"], lines[-1]["error"]) == ("failed", "RuntimeError")
    assert TOKEN not in path.read_text()


def test_other_messages_stand_without_their_values() -> None:
    """Those of a worker and of libraries: the values and the words of an exception may be content."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("shop")
    logger.addHandler(handler)
    try:
        raise ValueError("Nightingale")
    except ValueError:
        logger.exception("run '%s' cannot be continued", "r", extra={"hookline": {"run_id": "r"}})
    logger.warning(f"password={'hunter22'}")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["message"], first["run_id"]) == ("run '%s' cannot be continued", "r")
    assert (first["error"], first["level"]) == ("ValueError", "error")
    assert first["where"][0].endswith("test_other_messages_stand_without_their_values")
    assert "Nightingale" not in stream.getvalue()
    assert second["message"] == "password=[redacted:secret]"


def test_all_that_a_process_logs_takes_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON also what has a handler of its own, and as text without secrets."""
    root, own = logging.getLogger(), logging.getLogger("hookline_test_own")
    before, level = root.handlers, root.level
    try:
        root.handlers = []
        own.addHandler(logging.StreamHandler())
        log_as_json("hookline_test_own")
        own.error("broken")
        assert json.loads(capsys.readouterr().err)["message"] == "broken"
        root.handlers, own.handlers, own.propagate = [], [], True
        log_as_text()
        own.error("token %s", TOKEN)
        assert "token [redacted:github-token]" in capsys.readouterr().err
    finally:
        root.handlers, own.handlers = before, []
        root.setLevel(level)


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """When the agent is built, not in the middle of a run."""
    with pytest.raises(BuildError, match="cannot be written"):
        RunLog(tmp_path / "missing" / "runs.jsonl")
