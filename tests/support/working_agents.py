"""Agents for workers that are processes of their own: each tool call leaves a line in a file.

`python working_agents.py URL SCHEMA FOLDER OPTIONS` is a worker; the options are JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hookline import Agent, AgentBuilder, AgentState, HookOutcome, tool
from hookline.capabilities import RunLog
from hookline.hooks import Next
from hookline.journal import record
from hookline.lifecycle import InferenceHookContext
from hookline.testing import Scripted, ScriptedDriver, call, say
from hookline.workers import QueueJournal, Worker

STEPS = 3
drive = importlib.import_module("hookline.agent.loop.drive")


def turn(state: AgentState) -> Scripted:
    """What the model says in a step: the same in each process."""
    if state.step_count < STEPS:
        return call("pay", run=state.run_id, number=state.step_count)
    return say(f"{state.run_id} is done")


def make_agents(folder: Path, version: str = "", accepts: Sequence[str] = ()) -> dict[str, Agent]:
    """The agents of all workers of a test."""

    @tool(effect="once")
    async def pay(run: str, number: int) -> str:
        """Pay."""
        note(run, number)
        try:
            await held(run, number)
        except asyncio.CancelledError:
            note(run, -1 - number)  # as a number of its own
            raise
        return f"paid {number}"

    async def held(run: str, number: int) -> None:
        while (folder / f"hold-{run}-{number}").exists():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)

    def note(run: str, number: int) -> None:
        with (folder / "calls").open("a") as file:
            file.write(f"{run} {number} {os.getpid()}\n")

    def builder() -> AgentBuilder:
        made = AgentBuilder().with_driver(ScriptedDriver([turn] * 10_000)).with_tools(pay)
        return made.with_version(version, accepts=accepts) if version else made

    asks = builder()
    asks.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    deadly = builder()
    deadly.on_execution_start(lambda ctx: os._exit(9), name="deadly")
    later = builder()
    later.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    later.on_execution_start(lambda ctx: os._exit(9) if ctx.resumed else None, name="deadly")

    async def think(ctx: InferenceHookContext, next: Next[Any]) -> Any:
        note(ctx.state.run_id, 100)
        await held(ctx.state.run_id, 100)
        return await next(ctx)

    thinks = builder()
    thinks.around_inference(think, name="thinks").with_capability(RunLog(folder / "log"))
    soon = builder().with_approval_expiry(0.5)
    soon.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    late = builder().with_approval_expiry(300)
    late.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    made = {
        "thinks": thinks,
        "asks soon": soon,
        "asks for five minutes": late,
        "bank": builder(),
        "asks": asks,
        "deadly": deadly,
        "deadly later": later,
    }
    return {name: each.build() for name, each in made.items()}


if __name__ == "__main__":
    url, schema, place, options = sys.argv[1:]
    given = json.loads(options)
    newer = given.pop("record_version", record.RECORD_VERSION)
    record.RECORD_VERSION = drive.RECORD_VERSION = newer  # as in a newer Hookline
    agents = make_agents(Path(place), given.pop("version", ""), given.pop("accepts", ()))
    if given.pop("dies_before_wake", False):
        QueueJournal.wake_turn = lambda *_: os._exit(9)  # type: ignore[method-assign]
    names = given.pop("agents", [*agents])
    known = names if isinstance(names, dict) else {name: name for name in names}
    served = {name: agents[own] for name, own in known.items()}
    worker = Worker(QueueJournal(url, schema=schema), served, **given)
    worker.info = replace(worker.info, record_version=newer)
    worker.run_to_exit()
