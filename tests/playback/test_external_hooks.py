"""Hooks that are commands: by default a replay and a back-test start none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from recorded_runs import Tape

from hookline import AgentBuilder, tool
from hookline.command_hooks import CommandHooks
from hookline.journal import HookRan, HooksPassed, Record
from hookline.playback import backtest, replay
from hookline.testing import ScriptedDriver, call, say

SCRIPT = """#!/bin/sh
. "$CLAUDE_PROJECT_DIR/lib.sh"
echo "started ${HOOKLINE_REPLAY:-live}" >> "$LOG"
case "$(cat)" in *secret*) echo "it is a secret" >&2; exit 2;; esac
"""


class Project:
    """A directory with a hook that notes each time it is started, and blocks secrets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log"
        self.log.touch()
        (path / "lib.sh").touch()
        self.write(SCRIPT)

    def write(self, text: str) -> None:
        script = self.path / "check.sh"
        script.write_text(text)
        script.chmod(0o755)

    def builder(self, **options: Any) -> AgentBuilder:
        @tool
        async def fetch(what: str) -> str:
            """Fetch something."""
            return f"fetched {what}"

        hook = {
            "on": "before_tool_use",
            "command": "./check.sh",
            "files": ["lib.sh"],
            "env": {"LOG": str(self.log)},
            **options,
        }
        turns = [call("fetch", what="secret"), call("fetch", what="news"), say("Done.")]
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(fetch)
        return builder.with_capability(CommandHooks([hook], project=self.path))

    def started(self) -> list[str]:
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return lines


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with such a hook."""
    return Project(tmp_path)


async def recorded(project: Project) -> tuple[Tape, str]:
    """A run in which the hook was asked twice, and blocked once."""
    tape = Tape()
    result = await project.builder().with_journal(tape).build().run("Go.")
    assert [each.status for step in result.steps for each in step.results] == ["blocked", "ok"]
    assert project.started() == ["started live"] * 2
    return tape, result.run_id


async def test_a_hook_that_has_not_changed_says_what_is_on_record(project: Project) -> None:
    """It is not started, and there is nothing to say about that."""
    tape, run_id = await recorded(project)
    replayed = await replay(tape, run_id, project.builder().build())
    assert replayed.identical, replayed
    assert replayed.not_asked == ()
    report = await backtest(tape, project.builder().build())
    assert report.ok, str(report)
    assert report.not_asked == ()
    assert project.started() == []


@pytest.mark.parametrize("change", ["script", "library", "definition"])
async def test_a_hook_that_has_changed_is_named_in_the_first_line(
    project: Project, change: str
) -> None:
    """It is not started either, and what is on record of it stands."""
    tape, run_id = await recorded(project)
    options = {"timeout": 60, "matcher": "fetch"} if change == "definition" else {}
    if change == "script":
        project.write(SCRIPT + "exit 2\n")
    if change == "library":
        (project.path / "lib.sh").write_text("exit 2\n")
    replayed = await replay(tape, run_id, project.builder(**options).build())
    first, *_ = str(replayed).splitlines()
    assert replayed.identical, replayed
    assert "not asked: " in first
    assert "check.sh" in first
    report = await backtest(tape, project.builder(**options).build())
    first, *_ = str(report).splitlines()
    assert report.ok, str(report)
    assert "not asked: " in first
    assert "check.sh" in first
    assert "check.sh" in report.to_json()
    assert project.started() == []


async def test_hooks_are_started_when_that_is_wanted(project: Project) -> None:
    """They see that it is a replay, and what they say now counts."""
    tape, run_id = await recorded(project)
    replayed = await replay(tape, run_id, project.builder().build(), run_hooks=True)
    assert replayed.identical, replayed
    assert project.started() == ["started 1"] * 2
    project.write(SCRIPT + "exit 2\n")
    report = await backtest(tape, project.builder().build(), run_hooks=True)
    assert report.counts == {"proceed -> block": 1}
    assert project.started() == ["started 1"] * 2
    replayed = await replay(tape, run_id, project.builder().build(), run_hooks=True)
    assert not replayed.identical


async def test_a_hook_that_is_new_is_not_asked(project: Project) -> None:
    """Nothing is on record of it, so it lets things be and is named."""

    @tool
    async def fetch(what: str) -> str:
        """Fetch something."""
        return f"fetched {what}"

    tape = Tape()
    turns = [call("fetch", what="news"), say("Done.")]
    bare = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(fetch)
    result = await bare.with_journal(tape).build().run("Go.")
    replayed = await replay(tape, result.run_id, project.builder().build())
    assert replayed.identical, replayed
    assert len(replayed.not_asked) == 1
    assert project.started() == []


async def test_a_journal_without_digests_is_played(project: Project) -> None:
    """Older journals do not say what a hook was made of: it says what is on record, and is named."""
    tape, run_id = await recorded(project)
    older = [_without_digest(record) for record in tape.records(run_id)]
    replayed = await replay(older, run_id, project.builder().build())
    assert replayed.identical, replayed
    assert len(replayed.not_asked) == 1
    assert (await backtest(older, project.builder().build())).ok
    assert project.started() == []


def _without_digest(record: Record) -> Record:
    if isinstance(record, HookRan):
        return replace(record, external="", source=None)
    return replace(record, externals=()) if isinstance(record, HooksPassed) else record


async def test_a_python_hook_can_see_that_it_is_a_replay() -> None:
    """It runs as ever, and may leave undone what it did then."""
    seen: list[bool] = []

    def note(ctx: Any) -> None:
        seen.append(ctx.run.is_replay)

    def make() -> AgentBuilder:
        return AgentBuilder().with_driver(ScriptedDriver([say("Done.")])).on_before_step(note)

    result = await make().build().run("Go.")
    await replay(result.records, result.run_id, make().build())
    await backtest(result.records, make().build())
    assert seen == [False, True, True]
