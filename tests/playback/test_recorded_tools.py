"""Recorded tools: hooks see the same tools, and none of them runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import Tape

from hookline import AgentBuilder
from hookline.capabilities import Bash
from hookline.hooks import HookOptions, HookOutcome, Registration, register
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.playback import backtest, replay
from hookline.testing import ScriptedDriver, call, say
from hookline.tools import AnyTool, tool


class Own:
    """A capability that lets pass only calls of its own tool."""

    name = "own"

    def __init__(self) -> None:
        self.used = 0

    def tools(self) -> list[AnyTool]:
        return [tool(self.work, name="work")]

    def work(self) -> str:
        """Work."""
        self.used += 1
        return "worked"

    def hooks(self) -> list[Registration]:
        return [register(HookPoint.BEFORE_TOOL_USE, self.look, HookOptions(name="whose"))]

    def look(self, ctx: ToolHookContext) -> HookOutcome | None:
        found: Any = ctx.run.tool(ctx.tool_call.name)
        is_own = getattr(found.function, "__self__", None) is self
        return None if is_own else HookOutcome.block("whose tool is this?")


async def compared(make: Callable[[], AgentBuilder]) -> None:
    """Runs an agent; nothing that replay and back-test find is another then."""
    tape = Tape()
    result = await make().with_journal(tape).build().run("Go.")
    assert result.output == "Done.", result
    replayed = await replay(tape, result.run_id, make().build())
    assert replayed.identical, str(replayed)
    report = await backtest(tape, make().build())
    assert not report.changes, str(report)


async def test_a_hook_sees_whose_tool_it_is() -> None:
    """A guard that looks for its own tool finds it, and the tool is not used again."""
    capability = Own()
    turns = [call("work"), say("Done.")]

    def make() -> AgentBuilder:
        driver = ScriptedDriver(list(turns))
        return AgentBuilder().with_driver(driver).with_capability(capability)

    await compared(make)
    assert capability.used == 1


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_a_command_is_judged_where_it_would_run(tmp_path: Path) -> None:
    """What ran in the sandbox without a question is not asked about, as though it ran on the host."""

    def make() -> AgentBuilder:
        driver = ScriptedDriver([call("bash", command="touch made"), say("Done.")])
        shell = Bash(tmp_path, sandbox="required")
        return AgentBuilder().with_driver(driver).with_capability(shell)

    await compared(make)
